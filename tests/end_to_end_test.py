"""End to end: the built profiler, the production injector and the virtual GPU, against real programs.

  python3 tests/end_to_end_test.py BUILD_DIRECTORY [unittest arguments]

Every run must leave nothing in TMPDIR and keep the program's exit status; every trace must decode
with the pruned proto without unknown fields; what is profiled on the virtual GPU must equal its
ground truth, as tests/oracle.py computes it.
"""

import csv
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build").resolve()
PROFILER = str(BUILD / "bin" / "profiler")
SAMPLES = BUILD / "samples"
PROGRAMS = BUILD / "tests" / "programs"
ORACLE = str(SOURCE / "tests" / "oracle.py")
PATIENCE = 60  # seconds after which a run counts as hung


class Outcome:
    def __init__(self, status, stdout, stderr):
        self.status = status
        self.stdout = stdout
        self.stderr = stderr


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="profiler-e2e-"))
        self.temporary = self.folder / "tmp"
        self.work = self.folder / "work"
        self.temporary.mkdir()
        self.work.mkdir()
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PROFILER_")
            and name not in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
        }
        self.environment.update(TMPDIR=str(self.temporary), COLUMNS="80", LC_ALL="C.UTF-8")

    def tearDown(self):
        left = sorted(path.name for path in self.temporary.rglob("*"))
        shutil.rmtree(self.folder)
        self.assertEqual(left, [], "left behind in TMPDIR")

    def start(self, *arguments, **extra):
        environment = dict(self.environment, **extra)
        return subprocess.Popen(
            [PROFILER, *map(str, arguments)],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process):
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            self.fail(f"hung: {process.args}\n{stderr}")
        return Outcome(process.returncode, stdout, stderr)

    def run_profiler(self, *arguments, **extra):
        return self.finish(self.start(*arguments, **extra))

    def profile(self, program, *options, model="h100", status=0, log=True):
        """Profiles on the virtual GPU, compares with the truth, returns (outcome, JSON).

        `log` false: the program starts no CUDA, so there is no truth to compare with."""
        truth = self.folder / "truth.jsonl"
        out = self.folder / "out.json"
        for path in (truth, out):
            path.unlink(missing_ok=True)
        outcome = self.run_profiler(
            f"--virtual-gpu={model}", "--json", out, *options, "--", *program,
            PROFILER_VIRTUAL_GPU_LOG=str(truth),
        )
        self.assertEqual(outcome.status, status, outcome.stderr)
        if not log:
            self.assertFalse(truth.exists())
            return outcome, json.loads(out.read_text())
        oracle = subprocess.run(
            [sys.executable, ORACLE, str(truth), "--compare", str(out)],
            capture_output=True, text=True, check=False,
        )
        self.assertEqual(oracle.returncode, 0, oracle.stdout + oracle.stderr)
        return outcome, json.loads(out.read_text())

    def check_screen(self, text, width=80, lines=45):
        rows = text.strip("\n").split("\n")
        self.assertLessEqual(len(rows), lines, text)
        for row in rows:
            self.assertLessEqual(len(row), width, row)
        self.assertNotIn("\x1b", text)

    def check_trace(self, name, document):
        """The trace decodes without unknown fields and `report` prints the same document."""
        path = self.work / name
        decoded = subprocess.run(
            ["protoc", "--decode=perfetto.protos.Trace", "proto/perfetto_trace.proto"],
            cwd=SOURCE, input=path.read_bytes(), capture_output=True, check=False,
        )
        self.assertEqual(decoded.returncode, 0, decoded.stderr.decode())
        text = decoded.stdout.decode("utf-8", "replace")
        self.assertIsNone(re.search(r"^\s*\d+(:| \{)", text, re.M), "unknown field")
        operations = len(re.findall(r"^  gpu_render_stage_event \{", text, re.M))
        self.assertEqual(operations, document["checks"]["device_operations"])
        report = self.run_profiler("report", path, "--json", "-", "--summary-file", "/dev/null")
        self.assertEqual(report.status, 0, report.stderr)
        self.assertEqual(json.loads(report.stdout), document)
        # The events alone give the same numbers.
        again = self.run_profiler("report", path, "--recompute", "--json", "-",
                                  "--summary-file", "/dev/null")
        self.assertEqual(again.status, 0, again.stderr)
        self.assertEqual(json.loads(again.stdout), document)


class MainJob(EndToEnd):
    def test_train_loop(self):
        outcome, document = self.profile([SAMPLES / "train_loop", "--steps", "50"])
        self.check_screen(outcome.stderr)
        self.assertTrue(document["simulated"])
        self.assertIn("imulated", outcome.stderr)
        self.assertIn("SIMULATED", outcome.stderr)
        device = document["devices"][0]
        self.assertGreater(device["operations"], 500)
        self.assertTrue(device["idle_reliable"])
        self.assertEqual(device["busy_ns"] + device["idle_ns"], device["span_ns"])
        self.assertEqual(
            sum(cause["total_ns"] for cause in device["idle_by_cause"]), device["idle_ns"])
        # It is written so that the CPU is what the GPU waits for.
        self.assertEqual(device["idle_by_cause"][0]["cause"], "CPU code outside CUDA")
        self.assertEqual(document["verdict"]["kind"], "host-bound")
        self.assertIn("Host-bound", outcome.stderr)
        for name in ("unmatched", "dropped", "untimed", "unfinished", "late", "malformed"):
            self.assertEqual(document["checks"][name], 0, name)
        self.check_trace("train_loop.pftrace", document)

    def test_report_prints_what_run_printed(self):
        outcome, _ = self.profile([SAMPLES / "train_loop", "--steps", "3"])
        report = self.run_profiler("report", "train_loop.pftrace")
        self.assertEqual(report.status, 0)
        self.assertEqual(report.stdout, outcome.stderr)
        self.assertEqual(report.stderr, "")

    def test_samples_with_several_arguments(self):
        for program in (
            [SAMPLES / "train_loop", "--steps", "1"],
            [SAMPLES / "train_loop", "--steps", "7"],
            [SAMPLES / "matmul_bias", "--size", "64", "--iterations", "200"],
            [SAMPLES / "matmul_bias", "--size", "1024", "--iterations", "20"],
            [SAMPLES / "matmul_bias", "--size", "4096", "--iterations", "5"],
        ):
            for model in ("h100", "a100"):
                with self.subTest(program=program[1:], model=model):
                    outcome, document = self.profile(program, "--force", model=model)
                    self.check_screen(outcome.stderr)
                    self.check_trace(program[0].name + ".pftrace", document)

    def test_matmul_small_is_launch_bound_large_is_not(self):
        shares = {}
        for size, iterations in ((64, 300), (4096, 10)):
            _, document = self.profile(
                [SAMPLES / "matmul_bias", "--size", str(size), "--iterations", str(iterations)],
                "--no-trace")
            device = document["devices"][0]
            shares[size] = device["busy_ns"] / device["span_ns"]
        self.assertLess(shares[64], 0.7)
        self.assertGreater(shares[4096], 0.9)

    def test_many_threads(self):
        for threads, kernels in ((1, 50), (8, 200)):
            _, document = self.profile(
                [PROGRAMS / "many_threads", threads, kernels], "--force")
            self.assertEqual(
                sum(kernel["count"] for kernel in document["kernels"]), threads * kernels)
            self.check_trace("many_threads.pftrace", document)

    def test_widths(self):
        self.profile([SAMPLES / "train_loop", "--steps", "2"])
        for width in (60, 80, 120, 200):
            report = self.run_profiler("report", "train_loop.pftrace", COLUMNS=str(width))
            self.check_screen(report.stdout, width)


class Analysis(EndToEnd):
    def test_both_shapes_of_driver_records(self):
        text = (BUILD / "lib" / "virtual_gpu" / "models" / "h100.model").read_text()
        for shape in ("own", "shared"):
            model = self.folder / f"{shape}.model"
            model.write_text(f"{text}\ndriver-records {shape}\n")
            for program in ([SAMPLES / "train_loop", "--steps", "5"],
                            [PROGRAMS / "many_threads", "4", "100"]):
                with self.subTest(shape=shape, program=program[0].name):
                    _, document = self.profile(program, "--force", model=model)
                    names = {row["name"] for row in document["api"]}
                    self.assertIn("cuLaunchKernel", names)
                    self.assertNotIn("cuKernelGetName", names)
                    self.check_trace(program[0].name + ".pftrace", document)

    def test_a_trace_that_ends_early_is_analysed(self):
        _, document = self.profile([SAMPLES / "train_loop", "--steps", "30"])
        whole = (self.work / "train_loop.pftrace").read_bytes()
        for share in (0.3, 0.9):
            cut = self.work / "cut.pftrace"
            cut.write_bytes(whole[: int(len(whole) * share)])
            report = self.run_profiler("report", cut, "--json", "-", "--summary-file", "/dev/null")
            self.assertEqual(report.status, 0, report.stderr)
            part = json.loads(report.stdout)
            self.assertGreater(part["checks"]["device_operations"], 0)
            self.assertLessEqual(part["checks"]["device_operations"],
                                 document["checks"]["device_operations"])
            self.assertIn("ends early", " ".join(part["notes"]))
            self.check_screen(self.run_profiler("report", cut).stdout)

    def test_csv_adds_up(self):
        _, document = self.profile([SAMPLES / "train_loop", "--steps", "5"], "--csv", "tables")
        report = self.run_profiler("report", "train_loop.pftrace", "--csv", "again")
        self.assertEqual(report.status, 0, report.stderr)
        tables = {}
        for name in ("kernels", "copies", "api", "gaps", "operations"):
            path = self.work / "tables" / f"{name}.csv"
            self.assertEqual(path.read_text(), (self.work / "again" / f"{name}.csv").read_text())
            with path.open(newline="") as file:
                tables[name] = list(csv.DictReader(file))
        device = document["devices"][0]
        self.assertEqual(len(tables["operations"]), device["operations"])
        self.assertEqual(len(tables["kernels"]), len(document["kernels"]))
        self.assertEqual(len(tables["api"]), len(document["api"]))
        self.assertEqual(sum(int(row["duration_ns"]) for row in tables["gaps"]), device["idle_ns"])
        self.assertEqual(len({row["gap"] for row in tables["gaps"]}), device["gap_count"])
        refused = self.run_profiler("report", "train_loop.pftrace", "--csv", "tables")
        self.assertEqual(refused.status, 125)
        self.assertIn("--force", refused.stderr)

    def test_a_moment_is_explained(self):
        _, document = self.profile([SAMPLES / "train_loop", "--steps", "5"])
        gap = document["devices"][0]["top_gaps"][0]
        middle = gap["start_ns"] + gap["duration_ns"] // 2
        idle = self.run_profiler("report", "train_loop.pftrace", "--at", f"{middle}ns")
        self.assertEqual(idle.status, 0, idle.stderr)
        self.assertIn("idle", idle.stdout)
        self.assertTrue(any(piece["cause"] in idle.stdout for piece in gap["pieces"]), idle.stdout)
        before = self.run_profiler("report", "train_loop.pftrace", "--at", "0s")
        self.assertEqual(before.status, 0, before.stderr)
        for bad in ("soon", "12", "-1s", "1e9s"):
            wrong = self.run_profiler("report", "train_loop.pftrace", f"--at={bad}")
            self.assertEqual(wrong.status, 2, bad)
            self.assertEqual(wrong.stdout, "")

    def test_launch_window(self):
        _, document = self.profile(
            [SAMPLES / "matmul_bias", "--size", "256", "--iterations", "50"], "--launch-window", "0")
        self.assertEqual(document["launch_window_ns"], 0)

    def test_advice_can_be_left_out(self):
        outcome, document = self.profile([SAMPLES / "train_loop", "--steps", "20"])
        self.assertTrue(document["findings"])
        self.assertLessEqual(len(document["findings"]), 5)
        self.assertIn("1. ", outcome.stderr)
        plain = self.run_profiler("report", "train_loop.pftrace", "--no-advice")
        self.assertNotIn("1. ", plain.stdout)

    def test_lost_records_are_told(self):
        # Buffers for a fraction of what eight threads record: CUPTI drops the rest.
        outcome = self.run_profiler(
            "--virtual-gpu", "--json", self.folder / "out.json", "--", PROGRAMS / "many_threads",
            "8", "2000", PROFILER_BUFFER_CAP="65536")
        self.assertEqual(outcome.status, 0, outcome.stderr)
        self.check_screen(outcome.stderr)
        document = json.loads((self.folder / "out.json").read_text())
        self.assertGreater(document["checks"]["dropped"], 0)
        self.assertEqual(document["verdict"]["kind"], "not reliable")
        self.assertIn("Idle time is withheld", outcome.stderr)
        device = document["devices"][0]
        self.assertFalse(device["idle_reliable"])
        self.assertGreater(device["not_recorded_ns"], 0)
        self.assertEqual(device["busy_ns"] + device["idle_ns"] + device["not_recorded_ns"],
                         device["span_ns"])
        self.assertEqual(
            sum(cause["total_ns"] for cause in device["idle_by_cause"]), device["idle_ns"])
        self.check_trace("many_threads.pftrace", document)

    def test_nvtx(self):
        _, document = self.profile([SAMPLES / "train_loop", "--steps", "7"])
        ranges = {row["name"]: row for row in document["nvtx"]}
        self.assertEqual(sorted(ranges), ["load batch", "step"])
        for row in ranges.values():
            self.assertEqual((row["count"], row["domain"], row["nested"]), (7, "", True))
        self.assertEqual(ranges["load batch"]["operations"], 0)
        # All but the first copies and sets, which set up, are submitted within a step.
        self.assertEqual(ranges["step"]["operations"], 7 * 29)
        self.assertEqual(ranges["step"]["self_ns"],
                         ranges["step"]["total_ns"] - ranges["load batch"]["total_ns"])
        idle = {row["name"]: row["total_ns"] for row in document["devices"][0]["idle_by_nvtx"]}
        self.assertGreater(idle["load batch"], idle["step"])
        self.check_trace("train_loop.pftrace", document)

    def test_nvtx_without_cuda(self):
        outcome, document = self.profile([PROGRAMS / "nvtx_ranges"], log=False)
        self.assertEqual(document["devices"], [])
        self.assertIn("made no CUDA call", " ".join(outcome.stderr.split()))
        names = {row["name"] for row in document["nvtx"]}
        self.assertIn("epoch", names)
        self.assertIn("loader", {row["domain"] for row in document["nvtx"]})
        self.assertEqual(document["checks"]["nvtx_unbalanced"], 0)
        self.check_trace("nvtx_ranges.pftrace", document)

    def test_explain(self):
        listing = self.run_profiler("explain", "--list")
        self.assertEqual(listing.status, 0)
        terms = listing.stdout.split("\n")[:-1]
        self.assertGreater(len(terms), 30)
        for term in terms:
            text = self.run_profiler("explain", *term.split())
            self.assertEqual(text.status, 0, term)
            self.assertGreater(len(text.stdout), len(term) + 10, term)
        unknown = self.run_profiler("explain", "lunch latency")
        self.assertEqual(unknown.status, 1)
        self.assertIn("launch latency", unknown.stdout + unknown.stderr)


class Processes(EndToEnd):
    def test_children_are_one_trace(self):
        child = f"{PROGRAMS / 'ends'} launch 10 sync"
        outcome, document = self.profile(
            ["sh", "-c", f"{child} & {child} & wait"])
        self.assertEqual(len(document["processes"]), 2)
        self.assertEqual(document["checks"]["device_operations"], 20)
        # One machine, one GPU: both processes share the device.
        self.assertEqual(len(document["devices"]), 1)
        self.assertNotIn("ended without", outcome.stderr)
        self.check_trace("sh.pftrace", document)

    def test_exec_keeps_the_pid(self):
        _, document = self.profile(["sh", "-c", f"exec {PROGRAMS / 'ends'} launch 3 sync"])
        self.assertEqual(document["checks"]["device_operations"], 3)
        self.assertEqual(document["processes"][0]["exit"], {"kind": "exited", "code": 0})

    def test_hundred_short_programs(self):
        for i in range(20):
            with self.subTest(i=i):
                _, document = self.profile([PROGRAMS / "ends", "launch", "1", "sync"], "--no-trace")
                self.assertEqual(document["checks"]["device_operations"], 1)

    def test_a_kernel_and_nothing_else(self):
        # Without a wait the kernel may be unfinished at the end: said, not lost.
        outcome = self.run_profiler(
            "--virtual-gpu", "--json", "-", "--summary-file", "/dev/null", "--", PROGRAMS / "ends",
            "launch", "1")
        self.assertEqual(outcome.status, 0)
        checks = json.loads(outcome.stdout)["checks"]
        self.assertEqual(checks["device_operations"] + checks["unfinished"], 1)


class Ends(EndToEnd):
    def test_exit_status_is_kept(self):
        for words, status in (
            (["launch", "3", "sync", "exit", "7"], 7),
            (["exit", "3"], 3),
            (["launch", "3", "sync", "quick", "5"], 5),
            (["launch", "3", "sync", "abort"], 128 + signal.SIGABRT),
            (["launch", "3", "sync", "kill", "9"], 128 + signal.SIGKILL),
            (["launch", "3", "sync", "kill", "11"], 128 + signal.SIGSEGV),
        ):
            with self.subTest(words=words):
                outcome = self.run_profiler(
                    "--virtual-gpu", "--no-trace", "--", PROGRAMS / "ends", *words)
                self.assertEqual(outcome.status, status, outcome.stderr)
                self.check_screen(outcome.stderr)

    def test_killed_program_says_so(self):
        outcome = self.run_profiler(
            "--virtual-gpu", "--", PROGRAMS / "ends", "launch", "50", "sync", "sleep", "600",
            "launch", "2", "kill", "9")
        self.assertEqual(outcome.status, 137)
        self.assertIn("killed by SIGKILL", outcome.stderr)
        self.assertIn("may be missing", " ".join(outcome.stderr.split()))
        report = self.run_profiler("report", "ends.pftrace", "--json", "-",
                                   "--summary-file", "/dev/null")
        document = json.loads(report.stdout)
        # The flush every 200 ms has delivered what was complete long before.
        self.assertGreaterEqual(document["checks"]["device_operations"], 50)
        self.assertEqual(document["exit"], {"kind": "signalled", "code": 9})

    def test_interrupt_finishes_the_trace(self):
        for words, status in ((["deaf"], 0), ([], 130), (["catch"], 42)):
            with self.subTest(words=words):
                self.interrupt_on_terminal(words, status)

    def interrupt_on_terminal(self, words, status):
        """Ctrl-C at a terminal: the program and the profiler get it together."""
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [PROFILER, "--virtual-gpu", "--force", "--", str(PROGRAMS / "ends"), *words, "launch",
             "5", "sync", "print", "ready", "sleep", "1500", "exit", "0"],
            cwd=self.work, env=self.environment, stdin=follower, stdout=follower, stderr=follower,
            start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0))
        os.close(follower)
        output = b""
        sent = False
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ready, _, _ = select.select([leader], [], [], 0.1)
            if ready:
                try:
                    chunk = os.read(leader, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                output += chunk
            if not sent and b"ready" in output:
                os.write(leader, b"\x03")
                sent = True
        os.close(leader)
        self.assertTrue(sent, output)
        self.assertEqual(process.wait(timeout=PATIENCE), status, output)
        self.assertIn(b"ends.pftrace", output)
        report = self.run_profiler("report", "ends.pftrace", "--quiet")
        self.assertEqual(report.status, 0, report.stderr)

    def test_second_interrupt_ends_collection(self):
        process = self.start(
            "--virtual-gpu", "--", PROGRAMS / "ends", "deaf", "launch", "5", "sync", "print",
            "ready", "sleep", "20000")
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.5)
        program = self.child_of(process.pid)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        stderr = process.stderr.read()
        self.assertEqual(process.wait(timeout=PATIENCE), 130, stderr)
        os.kill(program, signal.SIGKILL)
        self.assertIn("second Ctrl-C", " ".join(stderr.split()))
        report = self.run_profiler("report", "ends.pftrace", "--json", "-",
                                   "--summary-file", "/dev/null")
        self.assertEqual(json.loads(report.stdout)["exit"]["kind"], "running")

    @staticmethod
    def child_of(pid):
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return int(text.split()[0])

    def test_terminate_reaches_the_program(self):
        for words, status in ((["catch"], 42), ([], 143)):
            with self.subTest(words=words):
                process = self.start(
                    "--virtual-gpu", "--force", "--", PROGRAMS / "ends", *words, "launch", "5",
                    "sync", "print", "ready", "sleep", "20000")
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(signal.SIGTERM)
                outcome = self.finish(process)
                self.assertEqual(outcome.status, status, outcome.stderr)
                self.assertTrue((self.work / "ends.pftrace").exists())

    def test_killed_profiler_leaves_the_program_alone(self):
        process = self.start(
            "--virtual-gpu", "--no-trace", "--", "sh", "-c",
            f"{PROGRAMS / 'ends'} launch 5 sync print ready sleep 1500 launch 500 sync exit 6;"
            f" echo $? > {self.work}/status")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.kill()
        process.communicate()
        status = self.work / "status"
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not (status.exists() and status.read_text()):
            time.sleep(0.05)
        self.assertEqual(status.read_text(), "6\n")
        # Nobody was there to remove it.
        for path in self.temporary.iterdir():
            shutil.rmtree(path)


class Output(EndToEnd):
    def test_never_overwrites_silently(self):
        program = [PROGRAMS / "ends", "launch", "1", "sync"]
        for name in ("ends.pftrace", "ends.2.pftrace", "ends.3.pftrace"):
            outcome, _ = self.profile(program)
            self.assertTrue((self.work / name).exists())
            self.assertIn(name, outcome.stderr)
        self.profile(program, "--force")
        self.assertFalse((self.work / "ends.4.pftrace").exists())
        outcome = self.run_profiler(
            "--virtual-gpu", "-o", "ends.pftrace", "--", *program)
        self.assertEqual(outcome.status, 125)
        self.assertIn("--force", outcome.stderr)

    def test_streams_stay_apart(self):
        outcome = self.run_profiler(
            "--virtual-gpu", "--", PROGRAMS / "ends", "print", "mine", "launch", "1", "sync")
        self.assertEqual(outcome.stdout, "mine\n")

    def test_summary_file_and_quiet(self):
        outcome, _ = self.profile(
            [PROGRAMS / "ends", "launch", "9", "sync"], "--summary-file", "s.txt", "--no-trace")
        self.assertEqual(outcome.stderr, "")
        self.check_screen((self.work / "s.txt").read_text())
        self.assertEqual(sorted(path.name for path in self.work.iterdir()), ["s.txt"])
        outcome, _ = self.profile([PROGRAMS / "ends", "launch", "9", "sync"], "--quiet")
        self.assertLess(len(outcome.stderr.split("\n")), 20)

    def test_top(self):
        self.profile([SAMPLES / "train_loop", "--steps", "1"])
        few = self.run_profiler("report", "train_loop.pftrace", "--top", "1").stdout
        many = self.run_profiler("report", "train_loop.pftrace", "--top", "100").stdout
        self.assertLess(len(few.split("\n")), len(many.split("\n")))


class BadInput(EndToEnd):
    def refused(self, *arguments, status, says, **extra):
        outcome = self.run_profiler(*arguments, **extra)
        self.assertEqual(outcome.status, status, outcome.stderr)
        self.assertTrue(outcome.stderr.startswith("profiler: "), outcome.stderr)
        for part in says:
            self.assertIn(part, outcome.stderr)
        self.assertEqual(list(self.work.iterdir()), [], "a file was left")
        return outcome

    def test_usage(self):
        self.refused("--frobnicate", "--", "true", status=2, says=["--frobnicate"])
        self.refused("./train", "--epochs", "1", status=2,
                     says=["profiler -- ./train --epochs 1"])
        self.refused("--", status=2, says=["after --"])

    def test_programs_that_cannot_run(self):
        self.refused("--", "./no-such-program", status=127, says=["./no-such-program"])
        self.refused("--", "no-such-program", status=127, says=["PATH"])
        self.refused("--", "/etc/passwd", status=126, says=["/etc/passwd"])
        self.refused("--", "/", status=126, says=["directory"])
        script = self.folder / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        self.refused("--", script, status=127, says=["interpreter"])
        self.refused("--json", "a.json", "-o", "x.pftrace", "--", script, status=127,
                     says=["interpreter"])

    def test_outputs_that_cannot_be_written(self):
        marker = self.folder / "ran"
        for option in ("-o", "--json", "--summary-file"):
            self.refused(option, "no/such/folder/x", "--", "touch", marker, status=125,
                         says=["no/such/folder/x"])
            self.assertFalse(marker.exists(), "the program ran")

    def test_virtual_gpu_refusals(self):
        self.refused("--virtual-gpu=b9000", "--", PROGRAMS / "ends", status=2,
                     says=["b9000", "h100"])
        self.refused("--virtual-gpu", "--", PROGRAMS / "static_runtime", status=125,
                     says=["-cudart shared"])

    def test_bad_model_file(self):
        model = self.folder / "bad.model"
        model.write_text("name = Something\nnonsense here\n")
        outcome = self.run_profiler(
            f"--virtual-gpu={model}", "--no-trace", "--", PROGRAMS / "ends", "launch", "1")
        self.assertIn("bad.model:", outcome.stderr)
        self.assertEqual(outcome.status, 0, outcome.stderr)

    def test_other_injection(self):
        self.refused("--", "true", status=125, says=["Nsight Systems", "--replace-injection"],
                     CUDA_INJECTION64_PATH="/opt/nvidia/nsight-systems/libToolsInjection64.so")
        outcome = self.run_profiler("--replace-injection", "--no-trace", "--", "true",
                                    CUDA_INJECTION64_PATH="/x/other.so")
        self.assertEqual(outcome.status, 0, outcome.stderr)

    def test_bad_tmpdir(self):
        self.refused("--", "true", status=125, says=["TMPDIR"], TMPDIR="/no/such/folder")

    def test_no_cuda_at_all(self):
        for options in (["--virtual-gpu"], []):
            outcome = self.run_profiler(*options, "--force", "--", "sh", "-c", "exit 4")
            self.assertEqual(outcome.status, 4)
            self.assertIn("No GPU work was recorded", outcome.stderr)
            self.check_screen(outcome.stderr)
            report = self.run_profiler("report", "sh.pftrace")
            self.assertEqual(report.status, 0, report.stderr)

    def test_cuda_program_that_calls_nothing(self):
        outcome = self.run_profiler("--virtual-gpu", "--no-trace", "--", PROGRAMS / "ends")
        self.assertEqual(outcome.status, 0)
        self.assertIn("made no CUDA call", " ".join(outcome.stderr.split()))

    def test_no_driver(self):
        if self.driver_present():
            self.skipTest("LOUD: this machine has a CUDA driver, so its absence is not tested")
        outcome = self.run_profiler("--no-trace", "--", PROGRAMS / "ends", "launch", "1", "exit", "3")
        self.assertEqual(outcome.status, 3)
        self.assertIn("no CUDA driver", " ".join(outcome.stderr.split()))
        self.assertIn("--virtual-gpu", outcome.stderr)

    @staticmethod
    def driver_present():
        listing = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
        return "libcuda.so.1" in listing.stdout

    def test_stub_driver(self):
        stub = next(
            (path for root in self.toolkit_roots() for path in root.rglob("stubs/libcuda.so")), None)
        if stub is None:
            self.skipTest("LOUD: the toolkit has no stub libcuda.so, so it is not tested")
        folder = self.folder / "stubs"
        folder.mkdir()
        (folder / "libcuda.so.1").symlink_to(stub)
        outcome = self.run_profiler("--no-trace", "--", PROGRAMS / "ends", "launch", "1",
                                    LD_LIBRARY_PATH=str(folder))
        self.assertEqual(outcome.status, 0, outcome.stderr)
        self.assertIn("stub", outcome.stderr)

    @staticmethod
    def toolkit_roots():
        nvcc = shutil.which("nvcc")
        roots = [pathlib.Path("/usr/local/cuda")]
        if nvcc:
            roots.append(pathlib.Path(nvcc).resolve().parent.parent)
        return [root.resolve() for root in roots if root.exists()]

    def test_report_of_what_is_no_trace(self):
        empty = self.folder / "empty.pftrace"
        empty.write_bytes(b"")
        text = self.folder / "text.pftrace"
        text.write_text("<html>")
        for path in (empty, text, self.folder, self.folder / "missing.pftrace"):
            outcome = self.refused("report", path, status=1, says=[path.name])
            self.assertEqual(outcome.stdout, "")


if __name__ == "__main__":
    unittest.main()
