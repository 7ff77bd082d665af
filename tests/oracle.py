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
import bisect
import json
import math
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass

DEFAULT_LAUNCH_WINDOW_NS = 10_000
TOP_GAPS = 100

SYNCHRONIZING = "synchronizing"
COPYING = "copying"
ALLOCATING = "allocating/freeing"
LOADING = "loading modules/JIT"
LAUNCHING = "launching other work"
OTHER_CALL = "other CUDA call"
CPU_CODE = "CPU code outside CUDA"
PROFILER_OVERHEAD = "profiler overhead"
QUEUE_FULL = "launch queue full"
PROCESS_STARTING = "process starting"
STAGING = "copying (staging)"
LAUNCH_LATENCY = "launch latency"
SCHEDULING = "scheduling"
UNKNOWN_LAUNCH = "unknown launch"

POLLING_CALLS = r"cu(da)?(Stream|Event)Query"

# The first pattern that matches a whole name gives its class.
CLASSES = [(re.compile(pattern), name) for pattern, name in (
    (POLLING_CALLS, SYNCHRONIZING),
    (r"cuda(Device|Thread)Synchronize|cuCtxSynchronize|cu(da)?(Stream|Event)Synchronize",
     SYNCHRONIZING),
    (r"cu(da)?Launch.*|cu(da)?GraphLaunch|cu(da)?Memset.*|cu(da)?Memcpy.*Async|"
     r"cu(da)?MemPrefetch.*", LAUNCHING),
    (r"cu(da)?Memcpy.*", COPYING),
    (r"cuda(Malloc.*|Free.*|HostAlloc|HostRegister|HostUnregister)|"
     r"cuMem((Alloc|Free|Host|Map|Address).*|Create|Release|Unmap|SetAccess)", ALLOCATING),
    (r"cu(Module|Library|Link).*|cudaLibrary.*|cudaInitModule|cudaGetKernel", LOADING),
)]

# Of these classes a call makes its thread wait; it can open a gap, and hand over to another thread.
WAITING_CLASSES = {SYNCHRONIZING, COPYING, ALLOCATING, LOADING}

OVERHEAD_CLASSES = {
    "driver compiler": LOADING,
    "runtime triggered module loading": LOADING,
    "lazy function loading": LOADING,
    "command buffer full": QUEUE_FULL,
    "instrumentation": PROFILER_OVERHEAD,
    "resource": PROFILER_OVERHEAD,
    "buffer flush": PROFILER_OVERHEAD,
    "buffer request": PROFILER_OVERHEAD,
    "UVM init": PROFILER_OVERHEAD,
    "unknown": PROFILER_OVERHEAD,
}

NOT_RECORDED = re.compile(
    r"cuKernelGet(Name|Attribute|Function)|cuFuncGet(Attribute|Name)|cuCtxGet(Current|Device|Id)|"
    r"cuDeviceGet(Attribute|Count|Name|Uuid)?|cuDeviceTotalMem|cuDriverGetVersion|"
    r"cuGetProcAddress|cuGetError(Name|String)|cuPointerGetAttributes?|cuStreamGetCtx|"
    r"cuStreamIsCapturing|cuStreamGetCaptureInfo|"
    r"cudaGetDevice|cudaGetLastError|cudaPeekAtLastError|cudaGetError(String|Name)")

KERNEL_LAUNCH = re.compile(
    r"cudaLaunchKernel(ExC)?|cuLaunchKernel(Ex)?|cu(da)?LaunchCooperativeKernel")


class BadInput(Exception):
    """One sentence that says what is wrong with an input."""


# ---------------------------------------------------------------------------------------------
# The truth log
# ---------------------------------------------------------------------------------------------


def display_name(name):
    """__cudaLaunchKernel_ptsz and cudaLaunchKernel_v7000 are both cudaLaunchKernel."""
    if name.startswith("__"):
        name = name[2:]
    return re.sub(r"(_v[0-9]+|_ptsz|_ptds)+\Z", "", name)


@dataclass(eq=False)  # two calls are never the same, however alike they look
class ApiCall:
    pid: int
    tid: int
    is_driver: bool
    name: str  # as displayed
    correlation: int
    start: int
    end: int
    result: int
    outer: "ApiCall" = None  # the call directly around it, on the same thread
    submitted_pageable: bool = False  # it, or a call around it, submitted a copy of pageable memory

    @property
    def outermost(self):
        call = self
        while call.outer is not None:
            call = call.outer
        return call

    @property
    def inner_first(self):
        """Of calls that are open at the same time on a thread, the innermost has the least."""
        return (-self.start, self.end, not self.is_driver, -self.correlation)

    @property
    def cause(self):
        if self.submitted_pageable and self.name.endswith("Async"):
            return COPYING
        for pattern, cause in CLASSES:
            if pattern.fullmatch(self.name):
                return cause
        return OTHER_CALL

    @property
    def is_polling(self):
        return re.fullmatch(POLLING_CALLS, self.name) is not None


@dataclass(eq=False)
class Overhead:
    pid: int
    tid: int
    kind: str
    start: int
    end: int

    @property
    def cause(self):
        return OVERHEAD_CLASSES[self.kind]


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

    @property
    def is_pageable_copy(self):
        return self.type == "memcpy" and "pageable" in (self.source, self.destination)


@dataclass(frozen=True)
class Device:
    key: tuple  # what makes it one device: its UUID, else process and number
    name: str
    uuid: str


@dataclass
class Log:
    pids: set
    devices: dict  # (pid, ordinal) -> Device
    calls: list  # those that a profiler records
    operations: list
    overheads: list
    syncs: int = 0
    untimed_syncs: int = 0


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
    domain = text(record, "domain")
    if domain not in ("runtime", "driver"):
        raise BadInput(f'"domain" is {domain!r}, which is none that this check knows')
    call = ApiCall(
        pid=number(record, "pid"),
        tid=number(record, "tid"),
        is_driver=domain == "driver",
        name=display_name(text(record, "name")),
        correlation=number(record, "correlation"),
        start=number(record, "start_ns"),
        end=number(record, "end_ns"),
        result=result,
    )
    if not NOT_RECORDED.fullmatch(call.name):
        log.calls.append(call)


def add_overhead(log, record):
    kind = text(record, "kind")
    if kind not in OVERHEAD_CLASSES:
        raise BadInput(f'"kind" is {kind!r}, which is none that this check knows')
    log.overheads.append(Overhead(number(record, "pid"), number(record, "tid"), kind,
                                  number(record, "start_ns"), number(record, "end_ns")))


def add_sync(log, record):
    """A wait has its API call beside it, which tells all of it that matters here."""
    kind = text(record, "kind")
    if kind not in ("event", "stream wait event", "stream", "context"):
        raise BadInput(f'"kind" is {kind!r}, which is none that this check knows')
    start, end = number(record, "start_ns"), number(record, "end_ns")
    log.untimed_syncs += not (is_time(start) and is_time(end) and start <= end)
    log.syncs += 1


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
    elif kind == "overhead":
        add_overhead(log, record)
    elif kind == "sync":
        add_sync(log, record)
    elif kind == "event":
        number(record, "correlation")
    else:
        raise BadInput(f'its "type" is {kind!r}, which is none that this check knows')


def read_log(path):
    log = Log(pids=set(), devices={}, calls=[], operations=[], overheads=[])
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


def nest(calls):
    """Sets `outer` of each."""
    by_thread = defaultdict(list)
    for call in calls:
        by_thread[call.pid, call.tid].append(call)
    for (pid, tid), thread in by_thread.items():
        # A call comes after those around it.
        thread.sort(key=lambda call: call.inner_first, reverse=True)
        around = []  # outermost first
        for call in thread:
            while around and around[-1].end < call.end:
                if around.pop().end > call.start:
                    raise BadInput(
                        f"two API calls of thread {tid} of process {pid} overlap, neither within "
                        f"the other, at {call.start} ns."
                    )
            call.outer = around[-1] if around else None
            around.append(call)


def find_launches(calls, operations):
    """Operation -> the API call that submitted it; operations without one are absent.

    The ids are 32 bits wide and start again from the beginning in a long run, so that several
    calls of a process can carry the same one. Needs nest()."""
    calls_by_id = defaultdict(list)
    for call in calls:
        if call.correlation != 0:
            calls_by_id[call.pid, call.correlation].append(call)
    launches = {}
    for operation in operations:
        # Calls that are alike in both times are told apart only for a result that never depends on
        # the order of the log.
        candidates = calls_by_id.get((operation.pid, operation.correlation), [])
        before = [call for call in candidates if call.start <= operation.start]
        if before:
            call = min(before, key=lambda call: (-call.start, call.end, call.tid))
        elif candidates:
            call = min(candidates, key=lambda call: (call.start, call.end, call.tid))
        else:
            continue
        launches[operation] = call.outermost
    return launches


def mark_pageable(calls, launches):
    """Sets `submitted_pageable`. Needs nest()."""
    submitted = {call for operation, call in launches.items() if operation.is_pageable_copy}
    for call in calls:
        call.submitted_pageable = call.outermost in submitted


class Intervals:
    """Things with a start and an end, found by the time that they share with an interval."""

    def __init__(self, things):
        self.things = sorted(things, key=lambda thing: thing.start)
        self.starts = [thing.start for thing in self.things]
        self.latest_end = []  # of the things up to here
        for thing in self.things:
            self.latest_end.append(max([thing.end, *self.latest_end[-1:]]))

    def within(self, a, b):
        """Those that have at least a nanosecond of [a, b)."""
        found = []
        i = bisect.bisect_left(self.starts, b) - 1
        while i >= 0 and self.latest_end[i] > a:
            thing = self.things[i]
            if max(thing.start, a) < min(thing.end, b):
                found.append(thing)
            i -= 1
        return found


class Host:
    """What the threads were doing."""

    def __init__(self, calls, overheads, hello):
        calls_by_thread, overheads_by_thread = defaultdict(list), defaultdict(list)
        waits_by_process = defaultdict(list)
        for call in calls:
            calls_by_thread[call.pid, call.tid].append(call)
            if call.cause in WAITING_CLASSES and not call.is_polling:
                waits_by_process[call.pid].append(call)
        for overhead in overheads:
            overheads_by_thread[overhead.pid, overhead.tid].append(overhead)
        none = Intervals([])
        self.calls = defaultdict(lambda: none, {t: Intervals(c)
                                                for t, c in calls_by_thread.items()})
        self.overheads = defaultdict(lambda: none, {t: Intervals(o)
                                                    for t, o in overheads_by_thread.items()})
        self.waits = defaultdict(lambda: none, {p: Intervals(w)
                                                for p, w in waits_by_process.items()})
        self.hello = hello  # pid -> when it came; a pid can have several, one after the other

    def hello_of(self, call):
        """When the process of this call said hello: 0 = unknown."""
        times = sorted(self.hello.get(call.pid, []))
        before = [time for time in times if time <= call.start]
        return before[-1] if before else times[0] if times else 0


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


def what_ended_gap(operations_at_end, launches):
    """(the operation with which the gap ended, its call or None = unknown)"""
    not_empty = [o for o in operations_at_end if o.start < o.end]
    candidates = not_empty or operations_at_end

    def rank(operation):
        call = launches.get(operation)
        if call is None:
            return (True,)
        # Beyond the end of the call it is a matter of taste, but not of the order of the log.
        return (False, call.start, call.end, call.pid, call.tid, not operation.is_pageable_copy)

    operation = min(candidates, key=rank)
    return operation, launches.get(operation)


@dataclass(frozen=True)
class Piece:
    start: int
    end: int
    cause: str
    thread: tuple = None  # (pid, tid) that the GPU waited for


def innermost(records):
    """The innermost of the records that are open at an instant on one thread."""
    def rank(record):
        if isinstance(record, Overhead):
            return (-record.start, record.end, 0, record.kind)
        start, end, runtime, id = record.inner_first
        return (start, end, 1, runtime, id)
    return min(records, key=rank, default=None)


def open_at(t, records):
    return [record for record in records if record.start <= t < record.end]


def partition(a, b, operation, call, host, window):
    """[a, b) as pieces that follow each other."""
    if call is None:
        return [Piece(a, b, UNKNOWN_LAUNCH)]
    cs, ce = min(call.start, b), call.end
    thread = (call.pid, call.tid)
    calls = host.calls[thread].within(a, b)
    overheads = host.overheads[thread].within(a, b)
    hello = host.hello_of(call)

    handing_over = []
    if not any(max(c.start, a) < min(c.end, cs) for c in calls):
        handing_over = [wait for wait in host.waits[call.pid].within(a, b)
                        if wait.tid != call.tid and a <= wait.end <= cs]

    late = cs + window
    if ce < b:
        late = max(late, ce)

    def before_call(t):
        record = innermost(open_at(t, calls + overheads))
        if record is not None:
            return record.cause, thread
        waits = open_at(t, handing_over)
        if waits:
            wait = min(waits, key=lambda w: (-w.start, w.end, w.tid, w.inner_first))
            return wait.cause, (wait.pid, wait.tid)
        if t < hello:
            return PROCESS_STARTING, thread
        return CPU_CODE, thread

    def since_call(t):
        overhead = innermost(open_at(t, overheads)) if t < ce else None
        if overhead is not None:
            return overhead.cause, None
        if operation.is_pageable_copy:
            return STAGING, None
        if cs > a or t < late:
            return LAUNCH_LATENCY, None
        return SCHEDULING, None

    # Between two of these moments nothing changes.
    moments = {a, b, cs, ce, late, hello}
    for record in calls + overheads + handing_over:
        moments |= {record.start, record.end}
    moments = sorted(t for t in moments if a <= t <= b)
    return [Piece(t, until, *(before_call(t) if t < cs else since_call(t)))
            for t, until in zip(moments, moments[1:])]


def opened_by(a, call, host):
    """The call of the thread of `call` that was open as the gap began: None = none."""
    if call is None:
        return None
    waits = [c for c in host.calls[call.pid, call.tid].within(a, a + 1)
             if c.cause in WAITING_CLASSES]
    return max(waits, key=lambda c: c.inner_first, default=None)


def totals(shares_by_key):
    """{key: [ns in each gap that has some]} -> [(key, total, gaps, longest)], largest first."""
    rows = [(key, sum(shares), len(shares), max(shares)) for key, shares in shares_by_key.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def add_shares(shares_by_key, pieces):
    """Adds up what each key has of one gap; `pieces` = (key, ns)."""
    shares = defaultdict(int)
    for key, ns in pieces:
        shares[key] += ns
    for key, ns in shares.items():
        if ns > 0:
            shares_by_key[key].append(ns)


def describe_gap(a, b, pieces, call, opener):
    joined = []
    for piece in pieces:
        if joined and joined[-1]["cause"] == piece.cause:
            joined[-1]["duration_ns"] += piece.end - piece.start
        else:
            joined.append({"cause": piece.cause, "duration_ns": piece.end - piece.start})
    return {
        "start_ns": a,
        "duration_ns": b - a,
        "pieces": joined,
        "pid": call.pid if call else 0,
        "tid": call.tid if call else 0,
        "opened_by": opener.name if opener else "",
    }


def total_length(intervals):
    return sum(end - start for start, end in intervals)


def summarize_device(device, operations, launches, host, window, seen):
    """(the device's entry, the number of clock faults)"""
    first_start = min(o.start for o in operations)
    last_end = max(o.end for o in operations)
    busy = busy_intervals(operations)
    gaps = gaps_between(first_start, last_end, busy)

    starting_at = defaultdict(list)
    for operation in operations:
        starting_at[operation.start].append(operation)

    by_cause, by_thread, by_opener = defaultdict(list), defaultdict(list), defaultdict(list)
    described = []
    clock_faults = 0
    for a, b in gaps:
        operation, call = what_ended_gap(starting_at[b], launches)
        pieces = partition(a, b, operation, call, host, window)
        assert pieces[0].start == a and pieces[-1].end == b
        assert all(p.start < p.end for p in pieces)
        assert all(p.end == q.start for p, q in zip(pieces, pieces[1:]))
        clock_faults += call is not None and call.start > b
        add_shares(by_cause, ((p.cause, p.end - p.start) for p in pieces))
        add_shares(by_thread, ((p.thread, p.end - p.start) for p in pieces if p.thread))
        seen["handed over"] += sum(p.end - p.start for p in pieces
                                   if p.thread and p.thread != (call.pid, call.tid))
        opener = opened_by(a, call, host)
        if opener is not None:
            by_opener[opener.name, opener.cause].append(b - a)
        described.append(describe_gap(a, b, pieces, call, opener))

    lengths = [b - a for a, b in gaps]
    busy_ns = total_length(busy)
    span_ns = last_end - first_start
    assert sum(lengths) == span_ns - busy_ns
    entry = {
        "name": device.name,
        "uuid": device.uuid,
        "operations": len(operations),
        "first_start_ns": first_start,
        "span_ns": span_ns,
        "busy_ns": busy_ns,
        "kernel_busy_ns": total_length(busy_intervals(
            o for o in operations if o.type == "kernel")),
        "copy_busy_ns": total_length(busy_intervals(
            o for o in operations if o.type != "kernel")),
        "not_recorded_ns": 0,  # the log has no holes
        "idle_ns": sum(lengths),
        "gap_count": len(gaps),
        "longest_gap_ns": max(lengths, default=0),
        "idle_by_cause": [
            {"cause": cause, "total_ns": total, "gap_count": count, "longest_ns": longest}
            for cause, total, count, longest in totals(by_cause)
        ],
        "idle_by_thread": [
            {"pid": pid, "tid": tid, "total_ns": total, "gap_count": count}
            for (pid, tid), total, count, _ in totals(by_thread)
        ],
        "idle_opened_by": [
            {"call": name, "cause": cause, "total_ns": total, "gap_count": count}
            for (name, cause), total, count, _ in totals(by_opener)
        ],
        "top_gaps": sorted(described,
                           key=lambda gap: (-gap["duration_ns"], gap["start_ns"]))[:TOP_GAPS],
    }
    assert sum(row["total_ns"] for row in entry["idle_by_cause"]) == entry["idle_ns"]
    return entry, clock_faults


# ---------------------------------------------------------------------------------------------
# Statistics
# ---------------------------------------------------------------------------------------------


DISTRIBUTION_FIELDS = ("count", "total_ns", "mean_ns", "median_ns", "p99_ns", "min_ns", "max_ns",
                       "stddev_ns")


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
    if count == 0:
        return dict.fromkeys(DISTRIBUTION_FIELDS, 0)
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


def launch_statistics(operations, launches):
    """What the time between the calls and the operations that they submitted looks like."""
    launched = [(o, launches[o]) for o in operations if o in launches]
    return {
        "launch_latency": distribution([max(o.start - call.start, 0) for o, call in launched]),
        "queue_delay": distribution([o.start - call.end for o, call in launched
                                     if o.start > call.end]),
    }


def shorter_than_launch(kernels, launches):
    return sum(o.end - o.start < launches[o].end - launches[o].start
               for o in kernels if o in launches)


def summarize_kernels(operations, device_of, launches):
    groups = defaultdict(list)
    for o in operations:
        if o.type == "kernel":
            groups[o.name, device_of(o)].append(o)
    return [
        {
            "name": name,
            "device": device,
            **distribution([o.end - o.start for o in group]),
            **launch_statistics(group, launches),
            "shorter_than_launch": shorter_than_launch(group, launches),
        }
        for (name, device), group in groups.items()
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


def summarize_api(calls):
    """Needs nest()."""
    own = {call: call.end - call.start for call in calls}
    for call in calls:
        if call.outer is not None:
            own[call.outer] -= call.end - call.start
    groups = defaultdict(list)
    for call in calls:
        groups[call.name].append(call)
    rows = []
    for name, group in groups.items():
        failures = Counter(call.result % 2**32 for call in group if call.result != 0)
        rows.append({
            "name": name,
            "count": len(group),
            "total_ns": sum(call.end - call.start for call in group),
            "self_ns": sum(own[call] for call in group),
            "failures": sum(failures.values()),
            "failures_by_code": [{"code": code, "count": count}
                                 for code, count in sorted(failures.items())],
        })
    return rows


def launches_without_operation(calls, operations):
    """`operations`: all, whatever their times."""
    submitted = set(find_launches(calls, operations).values())
    return sum(call.outer is None and call.result == 0
               and KERNEL_LAUNCH.fullmatch(call.name) is not None and call not in submitted
               for call in calls)


# ---------------------------------------------------------------------------------------------
# The whole
# ---------------------------------------------------------------------------------------------


def summarize(log, window, hello=None, seen=None):
    """`hello`: pid -> [when it said hello to the profiler], which the log does not know.

    `seen`, a Counter: for tests, what was met but is not to be told from the result."""
    seen = Counter() if seen is None else seen
    calls = [call for call in log.calls if has_times(call)]
    overheads = [o for o in log.overheads if has_times(o)]
    operations = [o for o in log.operations if has_times(o)]
    unfinished = sum(is_unfinished(o) for o in log.operations)
    untimed_operations = len(log.operations) - len(operations) - unfinished
    nest(calls)
    launches = find_launches(calls, operations)
    mark_pageable(calls, launches)
    host = Host(calls, overheads, hello or {})

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
        entry, faults = summarize_device(names[key], by_device[key], launches, host, window,
                                         seen)
        devices.append(entry)
        clock_faults += faults

    def device_of(operation):
        return index[log.devices[operation.pid, operation.ordinal].key]

    def largest_first(rows):
        return sorted(rows, key=lambda row: (-row["total_ns"], json.dumps(row)))

    kernels = [o for o in operations if o.type == "kernel"]
    overhead_ns = {True: 0, False: 0}
    for overhead in overheads:
        overhead_ns[overhead.cause == PROFILER_OVERHEAD] += overhead.end - overhead.start

    return {
        "trace_start_ns": 0,  # here times are those of the log
        "launch_window_ns": window,
        "processes": [{"pid": pid} for pid in sorted(log.pids)],
        "devices": devices,
        "kernels": largest_first(summarize_kernels(operations, device_of, launches)),
        "copies": largest_first(summarize_copies(operations)),
        "api": largest_first(summarize_api(calls)),
        **launch_statistics(operations, launches),
        "kernels_shorter_than_launch": shorter_than_launch(kernels, launches),
        "kernels_with_launch": sum(kernel in launches for kernel in kernels),
        "program_overhead_ns": overhead_ns[False],
        "profiler_overhead_ns": overhead_ns[True],
        "checks": {
            "launches": len(set(launches.values())),
            "device_operations": len(operations),
            "unmatched": len(operations) - len(launches),
            "dropped": 0,
            "untimed": (len(log.calls) - len(calls) + len(log.overheads) - len(overheads)
                        + log.untimed_syncs + untimed_operations),
            "unfinished": unfinished,
            "late": 0,
            "clock_faults": clock_faults,
            "launches_without_operation": launches_without_operation(calls, log.operations),
            "duplicates": 0,
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

    def distribution(self, path, ours, theirs, field):
        """`field` of both, a distribution."""
        if type(theirs.get(field)) is dict:
            self.integers(f"{path}.{field}", ours[field], theirs[field], DISTRIBUTION_FIELDS)
        else:
            self.differ(f"{path}.{field}", "a distribution", json.dumps(theirs.get(field))[:80])

    def texts(self, path, ours, theirs, fields):
        for field in fields:
            if ours[field] != theirs.get(field):
                self.differ(f"{path}.{field}", json.dumps(ours[field]),
                            json.dumps(theirs.get(field)))

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


def compare_gaps(result, path, ours, theirs, trace_start):
    if len(ours) != len(theirs):
        result.differ(f"{path}: how many", len(ours), len(theirs))
    for i, (our, their) in enumerate(zip(ours, theirs)):
        where = f"{path}[{i}]"
        our = dict(our, start_ns=our["start_ns"] - trace_start)
        result.integers(where, our, their, ("start_ns", "duration_ns", "pid", "tid"))
        result.texts(where, our, their, ("opened_by",))
        our_pieces, pieces = our["pieces"], result.section(f"{where}.", their, "pieces")
        if len(our_pieces) != len(pieces):
            result.differ(f"{where}.pieces: how many", len(our_pieces), len(pieces))
        for k, (our_piece, piece) in enumerate(zip(our_pieces, pieces)):
            result.texts(f"{where}.pieces[{k}]", our_piece, piece, ("cause",))
            result.integers(f"{where}.pieces[{k}]", our_piece, piece, ("duration_ns",))


def compare_devices(result, ours, theirs, our_rows, their_rows):
    our_devices = dict(zip(device_labels(our_rows), our_rows))
    their_devices = dict(zip(device_labels(their_rows), their_rows))
    trace_start = theirs.get("trace_start_ns")
    if not is_integer(trace_start):
        result.differ("trace_start_ns", "an integer", json.dumps(trace_start))
        trace_start = 0
    for path, our, their in result.pairs("devices", our_devices, their_devices):
        result.texts(path, our, their, ("name",))
        result.integers(path, our, their, (
            "operations", "span_ns", "busy_ns", "kernel_busy_ns", "copy_busy_ns",
            "not_recorded_ns", "idle_ns", "gap_count", "longest_gap_ns"))
        if "first_start_ns" in their:
            result.integer(f"{path}.first_start_ns", our["first_start_ns"] - trace_start,
                           their["first_start_ns"])
        tables = (
            ("idle_by_cause", lambda row: str(row.get("cause")),
             ("total_ns", "gap_count", "longest_ns")),
            ("idle_by_thread", lambda row: shown(row, "pid", "tid"), ("total_ns", "gap_count")),
            ("idle_opened_by", lambda row: shown(row, "call", "cause"), ("total_ns", "gap_count")),
        )
        for field, key, members in tables:
            mine = result.keyed(path, our[field], key)
            others = result.keyed(f"{path}.{field}", result.section(f"{path}.", their, field), key)
            for where, row, other in result.pairs(f"{path}.{field}", mine, others):
                result.integers(where, row, other, members)
        compare_gaps(result, f"{path}.top_gaps", our["top_gaps"],
                     result.section(f"{path}.", their, "top_gaps"), trace_start)


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


def compare_failures(result, path, our, their):
    def key(row):
        return shown(row, "code")

    mine = result.keyed(path, our["failures_by_code"], key)
    others = result.keyed(f"{path}.failures_by_code",
                          result.section(f"{path}.", their, "failures_by_code"), key)
    for where, row, other in result.pairs(f"{path}.failures_by_code", mine, others):
        result.integers(where, row, other, ("count",))


def hello_times(theirs):
    """pid -> [when it said hello], as their JSON has it."""
    hello = defaultdict(list)
    rows = theirs.get("processes")
    for row in rows if type(rows) is list else []:
        if type(row) is dict and is_integer(row.get("pid")) and is_integer(row.get("hello_ns")):
            if row["hello_ns"] > 0:
                hello[row["pid"]].append(row["hello_ns"])
    return hello


def compare(ours, theirs):
    result = Comparison()

    result.integers("", ours, theirs, (
        "launch_window_ns", "kernels_shorter_than_launch", "kernels_with_launch",
        "program_overhead_ns", "profiler_overhead_ns"))
    for field in ("launch_latency", "queue_delay"):
        result.distribution("", ours, theirs, field)

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
         (*DISTRIBUTION_FIELDS, "shorter_than_launch")),
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
            if name == "kernels":
                for field in ("launch_latency", "queue_delay"):
                    result.distribution(path, our, their, field)
            if name == "api":
                compare_failures(result, path, our, their)

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
        ours = summarize(read_log(options.log), window, hello_times(theirs))
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
