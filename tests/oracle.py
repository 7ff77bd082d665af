#!/usr/bin/env python3
"""An independent check of the profiler's numbers.

    oracle.py LOG                        prints what the profiler's JSON should say
    oracle.py LOG --compare OUT.json     compares the profiler's JSON with it

LOG is the ground truth that the virtual GPU writes (docs/truth-log.md). Everything here is worked
out from the definitions of busy, gap and cause alone; it shares no code and no tables with the
profiler, and prefers the plainest way to the fastest. Integers are nanoseconds or bytes.

Exit status: 0 = printed, or equal; 1 = different; 2 = an input could not be used.
"""

import argparse
import json
import math
import re
import sys
from collections import defaultdict
from dataclasses import dataclass

DEFAULT_LAUNCH_WINDOW_NS = 10_000

UNKNOWN_LAUNCH = "unknown launch"
HOST = "host"
LAUNCH_LATENCY = "launch latency"
SCHEDULING = "scheduling"


class BadInput(Exception):
    """One sentence that says what is wrong with an input."""


# ---------------------------------------------------------------------------------------------
# The truth log
# ---------------------------------------------------------------------------------------------


@dataclass(eq=False)  # two calls are never the same, however alike they look
class ApiCall:
    pid: int
    tid: int
    name: str
    correlation: int
    start: int
    end: int
    result: int


@dataclass(eq=False)
class Operation:
    pid: int
    ordinal: int  # the device's number in its process
    type: str  # "kernel", "memcpy" or "memset"
    correlation: int
    start: int
    end: int
    name: str = ""  # kernel, demangled
    kind: str = ""  # copy and set
    source: str = ""
    destination: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Device:
    key: tuple  # what makes it one device: its UUID, else process and number
    name: str
    uuid: str


@dataclass
class Log:
    pids: set
    devices: dict  # (pid, ordinal) -> Device
    calls: list
    operations: list


def number(record, field):
    value = record.get(field)
    if type(value) is not int or not 0 <= value < 2**64:
        raise BadInput(f'"{field}" is not an unsigned 64-bit integer')
    return value


def text(record, field):
    value = record.get(field)
    if type(value) is not str:
        raise BadInput(f'"{field}" is not a string')
    return value


def add_device(log, record):
    pid, ordinal = number(record, "pid"), number(record, "device")
    name, uuid = text(record, "name"), text(record, "uuid")
    device = Device(("uuid", uuid) if uuid else ("ordinal", pid, ordinal), name, uuid)
    if log.devices.setdefault((pid, ordinal), device) != device:
        raise BadInput(f"device {ordinal} of process {pid} was described differently before")


def add_call(log, record):
    result = record.get("result")
    if type(result) is not int:
        raise BadInput('"result" is not an integer')
    call = ApiCall(
        pid=number(record, "pid"),
        tid=number(record, "tid"),
        name=text(record, "name"),
        correlation=number(record, "correlation"),
        start=number(record, "start_ns"),
        end=number(record, "end_ns"),
        result=result,
    )
    if text(record, "domain") == "runtime":  # driver calls are not recorded yet
        log.calls.append(call)


def add_operation(log, record):
    operation = Operation(
        pid=number(record, "pid"),
        ordinal=number(record, "device"),
        type=record["type"],
        correlation=number(record, "correlation"),
        start=number(record, "start_ns"),
        end=number(record, "end_ns"),
    )
    if operation.type == "kernel":
        operation.name = text(record, "demangled")
    else:
        is_copy = operation.type == "memcpy"
        operation.kind = text(record, "kind") if is_copy else "memset"
        operation.source = text(record, "source") if is_copy else ""
        operation.destination = text(record, "destination")
        operation.bytes = number(record, "bytes")
    log.operations.append(operation)


def add_line(log, line):
    record = json.loads(line)
    if type(record) is not dict:
        raise BadInput("it is not a JSON object")
    log.pids.add(number(record, "pid"))
    kind = record.get("type")
    if kind == "process":
        pass
    elif kind == "device":
        add_device(log, record)
    elif kind == "api":
        add_call(log, record)
    elif kind in ("kernel", "memcpy", "memset"):
        add_operation(log, record)
    else:
        raise BadInput(f'its "type" is {kind!r}, which is none that this check knows')


def read_log(path):
    log = Log(pids=set(), devices={}, calls=[], operations=[])
    line_number = 0
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for line_number, line in enumerate(file, 1):
                if line.strip():
                    add_line(log, line)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 after line {line_number}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}, line {line_number}: it is not JSON ({error}).") from error
    except BadInput as error:
        raise BadInput(f"{path}, line {line_number}: {error}.") from error
    for operation in log.operations:
        if (operation.pid, operation.ordinal) not in log.devices:
            raise BadInput(
                f"{path}: an operation ran on device {operation.ordinal} of process "
                f"{operation.pid}, of which there is no line."
            )
    return log


# ---------------------------------------------------------------------------------------------
# Times and launches
# ---------------------------------------------------------------------------------------------


def is_time(ns):
    return ns not in (0, 2**64 - 1, 2**63)


def has_times(record):
    return is_time(record.start) and is_time(record.end) and record.start <= record.end


def is_unfinished(operation):
    return is_time(operation.start) and operation.end == 0


def find_launches(calls, operations):
    """Operation -> the API call that submitted it; operations without one are absent.

    The ids are 32 bits wide and start again from the beginning in a long run, so that several
    calls of a process can carry the same one."""
    calls_by_id = defaultdict(list)
    for call in calls:
        if call.correlation != 0:
            calls_by_id[call.pid, call.correlation].append(call)
    launches = {}
    for operation in operations:
        candidates = calls_by_id.get((operation.pid, operation.correlation), [])
        before = [call for call in candidates if call.start <= operation.start]
        if before:
            launches[operation] = max(before, key=lambda call: (call.start, -call.end))
        elif candidates:
            launches[operation] = min(candidates, key=lambda call: (call.start, call.end))
    return launches


# ---------------------------------------------------------------------------------------------
# Busy, gaps and causes of one device
# ---------------------------------------------------------------------------------------------


def busy_intervals(operations):
    """The union of all [start, end), as disjoint intervals that do not touch, in order."""
    union = []
    for start, end in sorted((o.start, o.end) for o in operations if o.start < o.end):
        if union and start <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([start, end])
    return union


def gaps_between(first_start, last_end, busy):
    """The maximal intervals of [first_start, last_end) outside `busy`."""
    gaps = []
    position = first_start
    for start, end in busy:
        if position < start:
            gaps.append((position, start))
        position = end
    if position < last_end:
        gaps.append((position, last_end))
    return gaps


def launch_that_ended_gap(operations_at_end, launches):
    """The call that submitted the operation with which the gap ended; None = unknown."""
    not_empty = [o for o in operations_at_end if o.start < o.end]
    candidates = not_empty or operations_at_end
    calls = [launches[o] for o in candidates if o in launches]
    return min(calls, key=lambda call: (call.start, call.end), default=None)


def partition(a, b, call, window):
    """[a, b) by cause: ({cause: ns}, whether the call seemed to start after its operation)."""
    if call is None:
        return {UNKNOWN_LAUNCH: b - a}, False
    cs = min(call.start, b)
    ce = max(call.end, cs)
    clock_fault = (cs, ce) != (call.start, call.end)

    shares = {}
    if cs > a:
        shares[HOST] = cs - a
        shares[LAUNCH_LATENCY] = b - cs
    else:
        late = cs + window
        if ce < b:
            late = max(late, ce)
        late = max(min(b, late), a)
        shares[LAUNCH_LATENCY] = late - a
        shares[SCHEDULING] = b - late
    return shares, clock_fault


def summarize_device(device, operations, launches, window):
    """(the device's entry, the number of clock faults)"""
    first_start = min(o.start for o in operations)
    last_end = max(o.end for o in operations)
    busy = busy_intervals(operations)
    gaps = gaps_between(first_start, last_end, busy)

    starting_at = defaultdict(list)
    for operation in operations:
        starting_at[operation.start].append(operation)

    shares_by_cause = defaultdict(list)
    clock_faults = 0
    for a, b in gaps:
        call = launch_that_ended_gap(starting_at[b], launches)
        shares, clock_fault = partition(a, b, call, window)
        assert sum(shares.values()) == b - a and min(shares.values()) >= 0
        clock_faults += clock_fault
        for cause, ns in shares.items():
            if ns > 0:
                shares_by_cause[cause].append(ns)

    lengths = [b - a for a, b in gaps]
    busy_ns = sum(end - start for start, end in busy)
    span_ns = last_end - first_start
    assert sum(lengths) == span_ns - busy_ns
    entry = {
        "name": device.name,
        "uuid": device.uuid,
        "operations": len(operations),
        "first_start_ns": first_start,
        "span_ns": span_ns,
        "busy_ns": busy_ns,
        "idle_ns": sum(lengths),
        "gap_count": len(gaps),
        "longest_gap_ns": max(lengths, default=0),
        "idle_by_cause": [
            {
                "cause": cause,
                "total_ns": sum(shares),
                "gap_count": len(shares),
                "longest_ns": max(shares),
            }
            for cause, shares in shares_by_cause.items()
        ],
    }
    entry["idle_by_cause"].sort(key=lambda c: (-c["total_ns"], c["cause"]))
    return entry, clock_faults


# ---------------------------------------------------------------------------------------------
# Statistics
# ---------------------------------------------------------------------------------------------


def histogram_value(v):
    """`v` as a histogram with 128 buckets an octave gives it back."""
    if v < 256:
        return v
    octave = v.bit_length() - 1
    width = 2 ** (octave - 7)
    return v - v % width + width // 2


def distribution(values):
    ordered = sorted(values)
    count = len(ordered)
    total = sum(ordered)
    smallest, largest = ordered[0], ordered[-1]

    def quantile(numerator, denominator):
        rank = -(-numerator * count // denominator)  # rounded up; the first is 1
        return min(max(histogram_value(ordered[rank - 1]), smallest), largest)

    squares = sum(v * v for v in ordered)
    return {
        "count": count,
        "total_ns": total,
        "mean_ns": total // count,
        "median_ns": quantile(1, 2),
        "p99_ns": quantile(99, 100),
        "min_ns": smallest,
        "max_ns": largest,
        "stddev_ns": math.isqrt((squares - total * total // count) // count),
    }


def summarize_kernels(operations, device_of):
    durations = defaultdict(list)
    for o in operations:
        if o.type == "kernel":
            durations[o.name, device_of(o)].append(o.end - o.start)
    return [
        {"name": name, "device": device, **distribution(values)}
        for (name, device), values in durations.items()
    ]


def summarize_copies(operations):
    groups = defaultdict(list)
    for o in operations:
        if o.type != "kernel":
            groups[o.kind, o.source, o.destination].append(o)
    return [
        {
            "kind": kind,
            "source": source,
            "destination": destination,
            "count": len(group),
            "bytes": sum(o.bytes for o in group),
            "total_ns": sum(o.end - o.start for o in group),
        }
        for (kind, source, destination), group in groups.items()
    ]


def display_name(name):
    """__cudaLaunchKernel_ptsz and cudaLaunchKernel_v7000 are both cudaLaunchKernel."""
    if name.startswith("__"):
        name = name[2:]
    return re.sub(r"(_v[0-9]+|_ptsz|_ptds)+\Z", "", name)


def self_times(calls):
    """Call -> its time less that of the calls directly within it on the same thread."""
    by_thread = defaultdict(list)
    for call in calls:
        by_thread[call.pid, call.tid].append(call)
    own = {call: call.end - call.start for call in calls}
    for (pid, tid), thread in by_thread.items():
        # A call comes after those around it. Of two calls with the same times, the one with the
        # lower id was entered first.
        thread.sort(key=lambda call: (call.start, -call.end, call.correlation))
        around = []  # outermost first
        for call in thread:
            while around and around[-1].end < call.end:
                if around.pop().end > call.start:
                    raise BadInput(
                        f"two API calls of thread {tid} of process {pid} overlap, neither within "
                        f"the other, at {call.start} ns."
                    )
            if around:
                own[around[-1]] -= call.end - call.start
            around.append(call)
    return own


def summarize_api(calls):
    own = self_times(calls)
    groups = defaultdict(list)
    for call in calls:
        groups[display_name(call.name)].append(call)
    return [
        {
            "name": name,
            "count": len(group),
            "total_ns": sum(call.end - call.start for call in group),
            "self_ns": sum(own[call] for call in group),
            "failures": sum(call.result != 0 for call in group),
        }
        for name, group in groups.items()
    ]


# ---------------------------------------------------------------------------------------------
# The whole
# ---------------------------------------------------------------------------------------------


def summarize(log, window):
    calls = [call for call in log.calls if has_times(call)]
    operations = [o for o in log.operations if has_times(o)]
    unfinished = sum(is_unfinished(o) for o in log.operations)
    untimed_operations = len(log.operations) - len(operations) - unfinished
    launches = find_launches(calls, operations)

    by_device = defaultdict(list)
    names = {}
    for operation in operations:
        device = log.devices[operation.pid, operation.ordinal]
        by_device[device.key].append(operation)
        names[device.key] = min(names.get(device.key, device), device, key=lambda d: d.name)

    keys = sorted(by_device, key=lambda key: (names[key].uuid, names[key].name, key))
    index = {key: i for i, key in enumerate(keys)}
    devices = []
    clock_faults = 0
    for key in keys:
        entry, faults = summarize_device(names[key], by_device[key], launches, window)
        devices.append(entry)
        clock_faults += faults

    def device_of(operation):
        return index[log.devices[operation.pid, operation.ordinal].key]

    def largest_first(rows):
        return sorted(rows, key=lambda row: (-row["total_ns"], json.dumps(row)))

    return {
        "trace_start_ns": 0,  # here times are those of the log
        "launch_window_ns": window,
        "processes": [{"pid": pid} for pid in sorted(log.pids)],
        "devices": devices,
        "kernels": largest_first(summarize_kernels(operations, device_of)),
        "copies": largest_first(summarize_copies(operations)),
        "api": largest_first(summarize_api(calls)),
        "checks": {
            "launches": len(set(launches.values())),
            "device_operations": len(operations),
            "unmatched": len(operations) - len(launches),
            "dropped": 0,
            "untimed": len(log.calls) - len(calls) + untimed_operations,
            "unfinished": unfinished,
            "late": 0,
            "clock_faults": clock_faults,
        },
    }


# ---------------------------------------------------------------------------------------------
# Comparing
# ---------------------------------------------------------------------------------------------

MISSING = "missing"
PRESENT = "present"


def is_integer(value):
    return type(value) is int  # true and 1.0 are not integers, though Python thinks them equal


class Comparison:
    """Collects what differs, as lines, and how many integers were equal."""

    def __init__(self):
        self.differences = []
        self.equal = 0

    def differ(self, path, ours, theirs):
        self.differences.append(f"{path}: ours {ours}, theirs {theirs}")

    def integer(self, path, ours, theirs):
        if is_integer(theirs) and ours == theirs:
            self.equal += 1
        else:
            self.differ(path, ours, theirs if is_integer(theirs) else json.dumps(theirs))

    def integers(self, path, ours, theirs, fields):
        for field in fields:
            if field in theirs:
                self.integer(f"{path}.{field}", ours[field], theirs[field])
            else:
                self.differ(f"{path}.{field}", ours[field], MISSING)

    def section(self, path, owner, field):
        """The list of objects that `owner` holds as `field`."""
        rows = owner.get(field)
        if type(rows) is not list or any(type(row) is not dict for row in rows):
            self.differ(f"{path}{field}", "a list of objects", json.dumps(rows)[:80])
            return []
        return rows

    def keyed(self, path, rows, key):
        """{key(row): row}; a key that comes twice differs, since ours never does."""
        result = {}
        for row in rows:
            if key(row) in result:
                self.differ(f"{path}[{key(row)}]", "one entry", "more than one")
            result[key(row)] = row
        return result

    def pairs(self, path, ours, theirs):
        """(path, our row, their row) of the keys that both have; the others differ."""
        for key in sorted(set(ours) | set(theirs)):
            where = f"{path}[{key}]"
            if key not in theirs:
                self.differ(where, PRESENT, MISSING)
            elif key not in ours:
                self.differ(where, MISSING, PRESENT)
            else:
                yield where, ours[key], theirs[key]


def shown(row, *fields):
    """A key made of these fields that reads well in a path."""
    return ", ".join(str(row.get(f)) if is_integer(row.get(f)) else json.dumps(row.get(f))
                     for f in fields)


def device_labels(devices):
    """A label for each device: its UUID, else its name. Of several that have only the same name,
    the one that worked first comes first."""
    labels = [str(d.get("uuid") or f'name {d.get("name")}') for d in devices]

    def first_start(i):
        start = devices[i].get("first_start_ns")
        return start if is_integer(start) else 0

    seen = defaultdict(int)
    for i in sorted(range(len(devices)), key=first_start):
        seen[labels[i]] += 1
        if seen[labels[i]] > 1:
            labels[i] += f" #{seen[labels[i]]}"
    return labels


def compare_processes(result, ours, theirs):
    our_pids = {row["pid"] for row in ours["processes"]}
    their_pids = set()
    for row in result.section("", theirs, "processes"):
        pid = row.get("pid")
        if not is_integer(pid):
            result.differ("processes[].pid", "an integer", json.dumps(pid))
        elif pid in our_pids or not row.get("failure"):
            their_pids.add(pid)
        # else it never came as far as the virtual GPU, and says so
    for pid in sorted(our_pids | their_pids):
        if pid in our_pids and pid in their_pids:
            result.equal += 1
        else:
            result.differ(f"processes[{pid}]", PRESENT if pid in our_pids else MISSING,
                          PRESENT if pid in their_pids else MISSING)


def compare_devices(result, ours, theirs, our_rows, their_rows):
    our_devices = dict(zip(device_labels(our_rows), our_rows))
    their_devices = dict(zip(device_labels(their_rows), their_rows))
    for path, our, their in result.pairs("devices", our_devices, their_devices):
        if our["name"] != their.get("name"):
            result.differ(f"{path}.name", json.dumps(our["name"]), json.dumps(their.get("name")))
        result.integers(path, our, their, ("operations", "span_ns", "busy_ns", "idle_ns",
                                           "gap_count", "longest_gap_ns"))
        if "first_start_ns" in their and is_integer(theirs.get("trace_start_ns")):
            since_trace_start = our["first_start_ns"] - theirs["trace_start_ns"]
            result.integer(f"{path}.first_start_ns", since_trace_start, their["first_start_ns"])
        our_causes = result.keyed(path, our["idle_by_cause"], lambda row: row["cause"])
        their_causes = result.keyed(
            f"{path}.idle_by_cause",
            result.section(f"{path}.", their, "idle_by_cause"),
            lambda row: str(row.get("cause")),
        )
        for cause, mine, other in result.pairs(f"{path}.idle_by_cause", our_causes, their_causes):
            result.integers(cause, mine, other, ("total_ns", "gap_count", "longest_ns"))


def compare_sums(result, theirs, their_rows, their_labels):
    """What their JSON must agree on within itself."""

    def total(rows, field):
        return sum(row[field] for row in rows if is_integer(row.get(field)))

    for label, device in zip(their_labels, their_rows):
        path = f"devices[{label}]"
        idle = device.get("idle_ns")
        causes = result.section(f"{path}.", device, "idle_by_cause")
        result.integer(f"{path}: the sum of the causes, which is to be idle_ns",
                       total(causes, "total_ns"), idle)
        result.integer(f"{path}: span_ns - busy_ns, which is to be idle_ns",
                       total([device], "span_ns") - total([device], "busy_ns"), idle)
    checks = theirs.get("checks")
    operations = checks.get("device_operations") if type(checks) is dict else None
    kernels = result.section("", theirs, "kernels")
    copies = result.section("", theirs, "copies")
    result.integer("the sum of devices[].operations, which is to be checks.device_operations",
                   total(their_rows, "operations"), operations)
    result.integer("the sum of kernels[].count and copies[].count, which is to be "
                   "checks.device_operations", total(kernels + copies, "count"), operations)


def compare(ours, theirs):
    result = Comparison()

    result.integers("", ours, theirs, ("launch_window_ns",))

    compare_processes(result, ours, theirs)

    our_rows = ours["devices"]
    their_rows = result.section("", theirs, "devices")
    our_labels, their_labels = device_labels(our_rows), device_labels(their_rows)
    compare_devices(result, ours, theirs, our_rows, their_rows)

    def kernel_key(labels):
        def key(row):
            device = row.get("device")
            known = is_integer(device) and 0 <= device < len(labels)
            label = labels[device] if known else f"no such device: {json.dumps(device)}"
            return f'{shown(row, "name")} on {label}'
        return key

    sections = (
        ("kernels", kernel_key(our_labels), kernel_key(their_labels),
         ("count", "total_ns", "mean_ns", "median_ns", "p99_ns", "min_ns", "max_ns", "stddev_ns")),
        ("copies", lambda row: shown(row, "kind", "source", "destination"), None,
         ("count", "bytes", "total_ns")),
        ("api", lambda row: shown(row, "name"), None,
         ("count", "total_ns", "self_ns", "failures")),
    )
    for name, our_key, their_key, fields in sections:
        our_table = result.keyed(name, ours[name], our_key)
        their_table = result.keyed(name, result.section("", theirs, name), their_key or our_key)
        for path, our, their in result.pairs(name, our_table, their_table):
            result.integers(path, our, their, fields)

    checks = theirs.get("checks")
    if type(checks) is dict:
        result.integers("checks", ours["checks"], checks, tuple(ours["checks"]))
        if "malformed" in checks:  # the wire's business, of which the log knows nothing
            result.integer("checks.malformed", 0, checks["malformed"])
    else:
        result.differ("checks", "an object", json.dumps(checks)[:80])

    compare_sums(result, theirs, their_rows, their_labels)
    return result


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not JSON: {error}.") from error
    if type(document) is not dict:
        raise BadInput(f"{path} is not a JSON object.")
    return document


def nanoseconds(argument):
    if not re.fullmatch(r"[0-9]+", argument, re.ASCII):
        raise argparse.ArgumentTypeError(f"{argument!r} is not a whole number of nanoseconds")
    return int(argument)


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="oracle.py",
        description="Works out from the virtual GPU's log what the profiler's JSON should say.",
    )
    parser.add_argument("log", metavar="LOG", help="written by PROFILER_VIRTUAL_GPU_LOG")
    parser.add_argument("--compare", metavar="OUT.json", help="the profiler's --json output")
    parser.add_argument("--launch-window", metavar="NS", type=nanoseconds,
                        help=f"default: what OUT.json says, else {DEFAULT_LAUNCH_WINDOW_NS}")
    options = parser.parse_args(arguments)
    try:
        theirs = read_json(options.compare) if options.compare is not None else {}
        window = options.launch_window
        if window is None:
            window = theirs.get("launch_window_ns", DEFAULT_LAUNCH_WINDOW_NS)
            if not is_integer(window) or window < 0:
                raise BadInput(f'the "launch_window_ns" of {options.compare} is no time.')
        ours = summarize(read_log(options.log), window)
        if options.compare is None:
            print(json.dumps(ours, indent=2))
            return 0
        result = compare(ours, theirs)
    except BadInput as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    for difference in result.differences:
        print(difference)
    if result.differences:
        print(f"{len(result.differences)} differences, {result.equal} integers equal")
        return 1
    print(f"equal: {result.equal} integers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
