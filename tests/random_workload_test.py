#!/usr/bin/env python3
"""Random CUDA programs on the virtual GPU: does the profiler say what tests/oracle.py works out?

  python3 tests/random_workload_test.py BUILD_DIRECTORY [--seeds N] [--first SEED] [--jobs N]

Every seed is one program (tests/programs/random_workload.cu), profiled and compared in full. All of
them together must have shown every cause of idle time and every type of operation, or the
comparison would have been worth little: that is demanded for 100 seeds and more.

Exit status: 0 = all passed, 1 = something differs, 2 = it could not be run.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from collections import Counter

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tests"))

import oracle  # noqa: E402

PATIENCE = 60  # seconds after which a run counts as hung
SHOWN = 12  # differences of one run
SEEDS_FOR_EVERYTHING = 100

# Not among them: "unknown launch", since the virtual GPU loses no launch record; oracle_test.py and
# partition_test.cpp have it.
CAUSES = (
    oracle.CPU_CODE, oracle.SYNCHRONIZING, oracle.COPYING, oracle.ALLOCATING, oracle.LOADING,
    oracle.LAUNCHING, oracle.OTHER_CALL, oracle.PROFILER_OVERHEAD, oracle.QUEUE_FULL,
    oracle.PROCESS_STARTING, oracle.STAGING, oracle.LAUNCH_LATENCY, oracle.SCHEDULING,
)

OPERATIONS = (
    "kernel", "memset device",
    "HtoD pageable to device", "HtoD pinned to device",
    "DtoH device to pageable", "DtoH device to pinned", "DtoD device to device",
)

# What a run must also have met, by a number of the result that is not zero then.
SITUATIONS = ("gap opened by a call", "handed over", "failed call",
              "driver call", "unfinished operation", "kernel shorter than its launch",
              "queue delay", "program overhead")


def environment(folder):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("PROFILER_")
            and name not in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")}
    return dict(kept, TMPDIR=str(folder), PROFILER_VIRTUAL_GPU_LOG=str(folder / "truth.jsonl"),
                COLUMNS="80", LC_ALL="C.UTF-8")


def met(ours, seen):
    """Adds to `seen` of what a run consisted: causes in ns, operations and situations."""
    for device in ours["devices"]:
        for row in device["idle_by_cause"]:
            seen[row["cause"]] += row["total_ns"]
        seen["gap opened by a call"] += len(device["idle_opened_by"])
    for row in ours["kernels"]:
        seen["kernel"] += row["count"]
    for row in ours["copies"]:
        places = " to ".join(place for place in (row["source"], row["destination"]) if place)
        seen[f'{row["kind"]} {places}'] += row["count"]
    for row in ours["api"]:
        seen["failed call"] += row["failures"]
        seen["driver call"] += not row["name"].startswith("cuda")
    seen["unfinished operation"] += ours["checks"]["unfinished"]
    seen["kernel shorter than its launch"] += ours["kernels_shorter_than_launch"]
    seen["queue delay"] += ours["queue_delay"]["count"]
    seen["program overhead"] += ours["program_overhead_ns"]


def profile(build, command, model):
    """(what is wrong, as lines; what was met). Runs in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="profiler-random-") as name:
        folder = pathlib.Path(name)
        out = folder / "out.json"
        arguments = [build / "bin" / "profiler", f"--virtual-gpu={model}", "--no-trace", "--json",
                     out, "--", *command]
        try:
            run = subprocess.run(
                list(map(str, arguments)), env=environment(folder), cwd=folder, timeout=PATIENCE,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return [f"it hung for {PATIENCE} s"], Counter()
        if run.returncode != 0:
            return [f"exit status {run.returncode}", *run.stderr.splitlines()], Counter()
        seen = Counter()
        try:
            theirs = oracle.read_json(str(out))
            ours = oracle.summarize(oracle.read_log(str(folder / "truth.jsonl")),
                                    theirs.get("launch_window_ns", 0),
                                    oracle.hello_times(theirs), seen)
        except oracle.BadInput as error:
            return [str(error)], Counter()
        wrong = oracle.compare(ours, theirs).differences
        left = sorted(path.name for path in folder.iterdir()
                      if path.name not in ("out.json", "truth.jsonl"))
        if left:
            wrong.append(f"left behind: {left}")
        met(ours, seen)
        return wrong, seen


def special_cases(program):
    """(command, why): what a single random program does not show."""
    one, two = (shlex.join([str(program), str(seed), "6"]) for seed in (1, 2))
    return [
        (["sh", "-c", f"{one}; {two}"], "a process that starts while the device has nothing to do"),
        (["sh", "-c", f"{one} & {two}; wait"], "two processes on one device"),
        ([program, "1", "0"], "hardly anything"),
        ([program, "17", "1"], "a full launch queue"),
        ([program, "7", "1"], "a burst of launches"),
    ]


def other_model(build, folder):
    """Writes a model in which driver calls share the runtime calls' ids, and PTX is compiled."""
    text = (build / "lib" / "virtual_gpu" / "models" / "h100.model").read_text(encoding="utf-8")
    assert "driver-records own" in text
    path = pathlib.Path(folder) / "shared.model"
    path.write_text(text.replace("driver-records own", "driver-records shared\njit 400us"),
                    encoding="utf-8")
    return path


def run_all(options, build, runs, models, seen):
    """(passed, failed)"""
    passed, failed = 0, 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        results = [pool.submit(profile, build, command, models[i % 2])
                   for i, (command, _) in enumerate(runs)]
        for i, ((command, why), result) in enumerate(zip(runs, results)):
            wrong, found = result.result()
            seen += found
            if not wrong:
                passed += 1
                continue
            failed += 1
            print(f"FAILED ({why}): profiler --virtual-gpu={models[i % 2]} -- "
                  f"{shlex.join(map(str, command))}")
            for line in wrong[:SHOWN]:
                print(f"    {line}")
            if len(wrong) > SHOWN:
                print(f"    ... and {len(wrong) - SHOWN} more")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(prog="random_workload_test.py")
    parser.add_argument("build", metavar="BUILD_DIRECTORY", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=200, metavar="N")
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    options = parser.parse_args()
    build = options.build.resolve()
    program = build / "tests" / "programs" / "random_workload"
    for path in (program, build / "bin" / "profiler"):
        if not path.is_file():
            print(f"random_workload_test: there is no {path}; build it first", file=sys.stderr)
            return 2

    runs = [(command, why) for command, why in special_cases(program)]
    runs += [([program, str(seed)], f"seed {seed}")
             for seed in range(options.first, options.first + options.seeds)]
    seen = Counter()
    with tempfile.TemporaryDirectory(prefix="profiler-models-") as folder:
        models = ("h100", other_model(build, folder))
        passed, failed = run_all(options, build, runs, models, seen)

    print("\nIdle time by cause, in all runs together:")
    for cause in CAUSES:
        print(f"  {seen[cause]:>15,} ns  {cause}")
    for name in OPERATIONS + SITUATIONS:
        print(f"  {seen[name]:>15,}     {name}")
    if options.seeds >= SEEDS_FOR_EVERYTHING:
        for name in CAUSES + OPERATIONS + SITUATIONS:
            if seen[name] > 0:
                passed += 1
            else:
                failed += 1
                print(f"FAILED: no run had any of this: {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
