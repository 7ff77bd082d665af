#!/usr/bin/env python3
"""Tests of oracle.py: logs made by hand with numbers worked out by hand, and a second, even plainer
implementation (one nanosecond at a time) on small random logs."""

import contextlib
import copy
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import oracle  # noqa: E402

UUID = "GPU-00000000-0000-0000-0000-000000000001"
OTHER_UUID = "GPU-00000000-0000-0000-0000-000000000002"
CPU = "CPU code outside CUDA"
ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "oracle.py")


# Lines of a log ------------------------------------------------------------------------------


def process(pid=1):
    return {"type": "process", "pid": pid, "model": "h100", "start_ns": 1}


def overhead(start, end, kind="lazy function loading", pid=1, tid=1):
    return {"type": "overhead", "pid": pid, "tid": tid, "kind": kind, "start_ns": start,
            "end_ns": end, "correlation": 0}


def sync(start, end, kind="stream", pid=1):
    return {"type": "sync", "pid": pid, "kind": kind, "context": 1, "stream": 7, "event": 0,
            "correlation": 30, "start_ns": start, "end_ns": end, "result": 0}


def event(pid=1):
    return {"type": "event", "pid": pid, "context": 1, "stream": 7, "event": 3, "correlation": 31}


def device(pid=1, ordinal=0, uuid=UUID, name="GPU A"):
    return {"type": "device", "pid": pid, "device": ordinal, "name": name, "uuid": uuid,
            "memory_bytes": 1, "multiprocessors": 1}


def api(correlation, start, end, name="cudaLaunchKernel_v7000", pid=1, tid=1, result=0,
        domain="runtime"):
    return {"type": "api", "pid": pid, "tid": tid, "domain": domain, "cbid": 211, "name": name,
            "correlation": correlation, "start_ns": start, "end_ns": end, "result": result}


def kernel(correlation, start, end, name="k()", pid=1, ordinal=0, stream=7):
    return {"type": "kernel", "pid": pid, "device": ordinal, "context": 1, "stream": stream,
            "correlation": correlation, "start_ns": start, "end_ns": end, "name": "_Z1kv",
            "demangled": name, "grid": [1, 1, 1], "block": [1, 1, 1], "static_shared_bytes": 0,
            "dynamic_shared_bytes": 0, "registers": 8, "graph": 0, "graph_node": 0}


def memcpy(correlation, start, end, kind="HtoD", source="pageable", destination="device",
           size=4, pid=1, ordinal=0):
    return {"type": "memcpy", "pid": pid, "device": ordinal, "context": 1, "stream": 7,
            "correlation": correlation, "start_ns": start, "end_ns": end, "kind": kind,
            "source": source, "destination": destination, "bytes": size, "async": False,
            "graph": 0, "graph_node": 0}


def memset(correlation, start, end, size=4, destination="device", pid=1, ordinal=0):
    return {"type": "memset", "pid": pid, "device": ordinal, "context": 1, "stream": 7,
            "correlation": correlation, "start_ns": start, "end_ns": end, "bytes": size,
            "value": 0, "destination": destination, "async": True, "graph": 0, "graph_node": 0}


ONE_DEVICE = [process(), device()]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def write_log(self, lines):
        return self.write("log", b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def write_json(self, document):
        return self.write("out.json", json.dumps(document).encode())

    def summary(self, lines, window=10_000, hello=None):
        return oracle.summarize(oracle.read_log(self.write_log(lines)), window, hello)

    def one_device(self, lines, window=10_000, hello=None):
        """The only device's entry and the checks, for lines beside the device's own."""
        summary = self.summary(ONE_DEVICE + lines, window, hello)
        self.assertEqual(len(summary["devices"]), 1)
        return summary["devices"][0], summary["checks"]

    def causes(self, lines, window=10_000):
        entry, _ = self.one_device(lines, window)
        return {c["cause"]: (c["total_ns"], c["gap_count"], c["longest_ns"])
                for c in entry["idle_by_cause"]}

    def main(self, *arguments):
        """(exit status, stdout, stderr)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = oracle.main(list(arguments))
            except SystemExit as end:
                status = end.code
        return status, out.getvalue(), err.getvalue()


class Busy(Case):
    def numbers(self, lines):
        entry, _ = self.one_device(lines)
        return [entry[f] for f in ("operations", "span_ns", "busy_ns", "idle_ns", "gap_count",
                                   "longest_gap_ns")]

    def test_overlap_counts_once(self):  # E1
        self.assertEqual(self.numbers([kernel(1, 3000, 6776), kernel(2, 5000, 7000)]),
                         [2, 4000, 4000, 0, 0, 0])

    def test_three_overlapping(self):  # E3
        self.assertEqual(
            self.numbers([kernel(3, 200, 500), kernel(1, 1, 300), kernel(2, 100, 400)]),
            [3, 499, 499, 0, 0, 0])

    def test_one_within_another(self):
        self.assertEqual(
            self.numbers([kernel(1, 100, 200), kernel(2, 120, 130), kernel(3, 210, 220)]),
            [3, 120, 110, 10, 1, 10])

    def test_adjacent_leave_no_gap(self):  # E4
        self.assertEqual(self.numbers([kernel(1, 10, 104562), kernel(2, 104562, 209124)]),
                         [2, 209114, 209114, 0, 0, 0])

    def test_one_nanosecond_is_a_gap(self):
        self.assertEqual(self.numbers([kernel(1, 10, 20), kernel(2, 21, 30)]), [2, 20, 19, 1, 1, 1])

    def test_lead_in_and_tail_are_no_gaps(self):  # E37
        second = 10**9
        lines = [api(9, 1, 50 * second), kernel(1, 10 * second, 11 * second)]
        self.assertEqual(self.numbers(lines), [1, second, second, 0, 0, 0])

    def test_all_kinds_are_busy(self):
        self.assertEqual(
            self.numbers([kernel(1, 10, 20), memcpy(2, 25, 40), memset(3, 38, 41)]),
            [3, 31, 26, 5, 1, 5])

    def test_gap_count_and_longest(self):
        self.assertEqual(
            self.numbers([kernel(1, 10, 20), kernel(2, 25, 30), kernel(3, 37, 40),
                          kernel(4, 42, 43)]),
            [4, 33, 19, 14, 3, 7])

    def test_empty_operation_within_a_gap_does_not_split_it(self):
        self.assertEqual(self.numbers([kernel(1, 10, 20), kernel(2, 25, 25), kernel(3, 30, 40)]),
                         [3, 30, 20, 10, 1, 10])

    def test_empty_operations_extend_the_span(self):
        self.assertEqual(self.numbers([kernel(1, 5, 5), kernel(2, 10, 20), kernel(3, 28, 28)]),
                         [3, 23, 10, 13, 2, 8])

    def test_only_empty_operations(self):
        self.assertEqual(self.numbers([kernel(1, 10, 10), kernel(2, 30, 30)]),
                         [2, 20, 0, 20, 1, 20])
        self.assertEqual(self.numbers([kernel(i, 10, 10) for i in range(1, 101)]),
                         [100, 0, 0, 0, 0, 0])  # E35

    def test_empty_operation_at_the_edge_of_a_busy_interval(self):
        self.assertEqual(
            self.numbers([kernel(1, 10, 20), kernel(2, 20, 20), kernel(3, 30, 30),
                          kernel(4, 30, 40)]),
            [4, 30, 20, 10, 1, 10])

    def test_beyond_32_bits_and_2_to_the_63(self):
        t = 2**63 + 5
        self.assertEqual(self.numbers([kernel(1, t, t + 10), kernel(2, t + 2**40, t + 2**40 + 1)]),
                         [2, 2**40 + 1, 11, 2**40 - 10, 1, 2**40 - 10])

    def test_first_start(self):
        entry, _ = self.one_device([kernel(1, 30, 40), kernel(2, 12, 15)])
        self.assertEqual(entry["first_start_ns"], 12)


class Causes(Case):
    # Each case has one gap, [100, 130) unless said, which the operation with id 2 ends.
    def gap(self, *calls, window=10, b=130, more=()):
        lines = [kernel(1, 50, 100), kernel(2, b, b + 20), *calls, *more]
        entry, checks = self.one_device(lines, window)
        shares = {c["cause"]: c["total_ns"] for c in entry["idle_by_cause"]}
        for cause in entry["idle_by_cause"]:
            self.assertEqual(cause["gap_count"], 1)
            self.assertEqual(cause["longest_ns"], cause["total_ns"])
        self.assertEqual(sum(shares.values()), b - 100)
        return shares, checks["clock_faults"]

    def test_no_launch_record(self):
        self.assertEqual(self.gap(), ({"unknown launch": 30}, 0))

    def test_only_another_launch(self):
        self.assertEqual(self.gap(api(3, 60, 65)), ({"unknown launch": 30}, 0))

    def test_launched_within_the_gap(self):
        self.assertEqual(self.gap(api(2, 108, 112)), ({CPU: 8, "launch latency": 22}, 0))

    def test_launched_within_the_gap_whatever_the_window(self):
        for window in (0, 1, 1000):
            self.assertEqual(self.gap(api(2, 108, 112), window=window),
                             ({CPU: 8, "launch latency": 22}, 0))

    def test_launched_one_nanosecond_into_the_gap(self):
        self.assertEqual(self.gap(api(2, 101, 102)), ({CPU: 1, "launch latency": 29}, 0))

    def test_launched_as_the_gap_opens(self):
        self.assertEqual(self.gap(api(2, 100, 102)), ({"launch latency": 10, "scheduling": 20}, 0))

    def test_launched_long_before(self):
        self.assertEqual(self.gap(api(2, 50, 60)), ({"scheduling": 30}, 0))

    def test_window_reaches_into_the_gap(self):
        self.assertEqual(self.gap(api(2, 93, 95)), ({"launch latency": 3, "scheduling": 27}, 0))

    def test_window_ends_as_the_gap_opens(self):
        self.assertEqual(self.gap(api(2, 90, 95)), ({"scheduling": 30}, 0))

    def test_window_ends_as_the_gap_ends(self):
        self.assertEqual(self.gap(api(2, 95, 96), window=35), ({"launch latency": 30}, 0))
        self.assertEqual(self.gap(api(2, 95, 96), window=34),
                         ({"launch latency": 29, "scheduling": 1}, 0))

    def test_window_ends_after_the_gap(self):
        self.assertEqual(self.gap(api(2, 95, 96), window=1000), ({"launch latency": 30}, 0))

    def test_call_ends_within_the_gap(self):
        self.assertEqual(self.gap(api(2, 60, 117)), ({"launch latency": 17, "scheduling": 13}, 0))

    def test_call_ends_within_the_gap_before_the_window_does(self):
        self.assertEqual(self.gap(api(2, 99, 104)), ({"launch latency": 9, "scheduling": 21}, 0))

    def test_call_ends_just_before_the_gap_does(self):
        self.assertEqual(self.gap(api(2, 60, 129)), ({"launch latency": 29, "scheduling": 1}, 0))

    def test_call_ends_with_the_gap_or_later(self):
        # The call cannot tell then when the submission was over: the window alone decides.
        for end in (130, 131, 500):
            self.assertEqual(self.gap(api(2, 60, end)), ({"scheduling": 30}, 0))
            self.assertEqual(self.gap(api(2, 95, end)),
                             ({"launch latency": 5, "scheduling": 25}, 0))

    def test_window_zero(self):
        self.assertEqual(self.gap(api(2, 100, 100), window=0), ({"scheduling": 30}, 0))
        self.assertEqual(self.gap(api(2, 99, 103), window=0),
                         ({"launch latency": 3, "scheduling": 27}, 0))

    def test_call_starts_with_the_operation(self):
        self.assertEqual(self.gap(api(2, 130, 140)), ({CPU: 30}, 0))

    def test_clock_fault(self):
        self.assertEqual(self.gap(api(2, 131, 140)), ({CPU: 30}, 1))
        self.assertEqual(self.gap(api(2, 131, 131)), ({CPU: 30}, 1))

    def test_one_clock_fault_per_gap(self):
        # Also the launches of operations that end no gap are none of its business.
        lines = [kernel(1, 50, 100), kernel(2, 130, 140), kernel(3, 130, 140),
                 kernel(4, 140, 150), kernel(5, 160, 170),
                 api(2, 131, 132), api(3, 133, 134), api(4, 145, 146), api(5, 161, 162)]
        entry, checks = self.one_device(lines)
        self.assertEqual(checks["clock_faults"], 2)
        self.assertEqual([c["total_ns"] for c in entry["idle_by_cause"]], [40])

    def test_default_window_is_10_us(self):
        lines = [kernel(1, 5_000, 100_000), kernel(2, 150_000, 160_000), api(2, 95_000, 96_000)]
        self.assertEqual(self.causes(lines), {"launch latency": (5_000, 1, 5_000),
                                              "scheduling": (45_000, 1, 45_000)})
        status, out, _ = self.main(self.write_log(ONE_DEVICE + lines))
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out)["devices"][0]["idle_by_cause"][0]["total_ns"], 45_000)
        self.assertEqual(json.loads(out)["launch_window_ns"], 10_000)

    def test_queued_work_and_a_late_host(self):  # E38
        lines = [api(1, 10, 20), kernel(1, 20, 100), api(2, 50, 60), kernel(2, 130, 190),
                 api(3, 200, 210), kernel(3, 215, 230)]
        self.assertEqual(self.causes(lines, window=0),
                         {"scheduling": (30, 1, 30), CPU: (10, 1, 10),
                          "launch latency": (15, 1, 15)})

    def test_gaps_and_longest_of_a_cause(self):
        lines = [kernel(1, 10, 20), api(2, 24, 25), kernel(2, 30, 40), api(3, 49, 50),
                 kernel(3, 50, 60), api(4, 1, 2), kernel(4, 61, 70), kernel(5, 73, 80)]
        # [20,30): host 4, latency 6; [40,50): host 9, latency 1; [60,61): scheduling 1;
        # [70,73): unknown 3
        self.assertEqual(self.causes(lines, window=0),
                         {CPU: (13, 2, 9), "launch latency": (7, 2, 6), "scheduling": (1, 1, 1),
                          "unknown launch": (3, 1, 3)})

    # Which operation ended the gap ---------------------------------------------------------------

    def test_of_several_the_call_that_starts_first(self):
        more = [kernel(3, 130, 131), api(3, 104, 120, tid=3)]
        self.assertEqual(self.gap(api(2, 105, 106), more=more),
                         ({CPU: 4, "launch latency": 26}, 0))
        self.assertEqual(self.gap(api(2, 103, 125, tid=2), more=more),
                         ({CPU: 3, "launch latency": 27}, 0))

    def test_of_several_that_start_alike_the_call_that_ends_first(self):
        more = [kernel(3, 130, 190), api(3, 60, 112, tid=2)]
        self.assertEqual(self.gap(api(2, 60, 117), more=more),
                         ({"launch latency": 12, "scheduling": 18}, 0))
        self.assertEqual(self.gap(api(2, 60, 107), more=more),
                         ({"launch latency": 7, "scheduling": 23}, 0))

    def test_of_several_one_without_a_launch_comes_last(self):
        self.assertEqual(self.gap(api(2, 108, 112), more=[kernel(3, 130, 200)]),
                         ({CPU: 8, "launch latency": 22}, 0))

    def test_an_empty_operation_does_not_end_a_gap_that_another_ends(self):
        # Not even where it was submitted first, or the other's launch is unknown.
        more = [kernel(3, 130, 130), api(3, 101, 102, tid=2)]
        self.assertEqual(self.gap(api(2, 108, 112), more=more),
                         ({CPU: 8, "launch latency": 22}, 0))
        self.assertEqual(self.gap(more=more), ({"unknown launch": 30}, 0))

    def test_an_empty_operation_ends_a_gap_that_no_other_ends(self):
        lines = [kernel(1, 50, 100), kernel(2, 130, 130), api(2, 108, 112), kernel(3, 130, 130),
                 api(3, 107, 108)]
        self.assertEqual(self.causes(lines), {CPU: (7, 1, 7), "launch latency": (23, 1, 23)})

    def test_an_empty_operation_opens_the_span(self):
        lines = [kernel(1, 100, 100), kernel(2, 130, 140), api(2, 108, 112)]
        self.assertEqual(self.causes(lines), {CPU: (8, 1, 8), "launch latency": (22, 1, 22)})

    def test_an_empty_operation_within_the_gap_changes_nothing(self):
        self.assertEqual(self.gap(api(2, 120, 122), more=[kernel(3, 110, 110), api(3, 90, 96)]),
                         ({CPU: 20, "launch latency": 10}, 0))

    def test_an_operation_that_is_still_running_is_not_what_ended_the_gap(self):
        # Only what starts at its end counts, not what starts while that runs.
        more = [kernel(3, 131, 140), api(3, 101, 102, tid=2)]
        self.assertEqual(self.gap(api(2, 108, 112), more=more),
                         ({CPU: 8, "launch latency": 22}, 0))

    def test_copies_and_sets_end_gaps(self):
        lines = [kernel(1, 50, 100), memset(2, 130, 140), api(2, 108, 112), memcpy(3, 150, 160),
                 api(3, 141, 170)]
        self.assertEqual(self.causes(lines), {CPU: (9, 2, 8), "launch latency": (22, 1, 22),
                                              "copying (staging)": (9, 1, 9)})

    # Which call submitted it ---------------------------------------------------------------------

    def test_an_id_used_again(self):
        # 60 and 108 come before the operation, 131 after it: the latest before it is right.
        calls = [api(2, 60, 61), api(2, 108, 112), api(2, 131, 135)]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.gap(*order), ({CPU: 8, "launch latency": 22}, 0))

    def test_an_id_used_again_at_the_operations_start(self):
        self.assertEqual(self.gap(api(2, 108, 112, tid=2), api(2, 130, 135)),
                         ({CPU: 30}, 0))

    def test_an_id_used_twice_at_once(self):
        calls = [api(2, 60, 112), api(2, 60, 107, tid=2)]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.gap(*order), ({"launch latency": 7, "scheduling": 23}, 0))

    def test_an_id_used_later_only(self):
        calls = [api(2, 150, 155), api(2, 133, 134)]
        _, checks = self.one_device([kernel(1, 50, 100), kernel(2, 130, 140), *calls])
        self.assertEqual((checks["launches"], checks["unmatched"], checks["clock_faults"]),
                         (1, 1, 1))
        self.assertEqual(self.gap(*calls), ({CPU: 30}, 1))

    def test_an_id_after_wrap_around(self):
        big = 2**32 - 1
        lines = [api(big, 10, 11), kernel(big, 20, 30), api(1, 31, 32), kernel(1, 40, 50),
                 api(big, 53, 54), kernel(big, 60, 70), api(1, 74, 75), kernel(1, 80, 90)]
        entry, checks = self.one_device(lines)
        self.assertEqual((checks["launches"], checks["unmatched"]), (4, 0))
        self.assertEqual({c["cause"]: c["total_ns"] for c in entry["idle_by_cause"]},
                         {CPU: 1 + 3 + 4, "launch latency": 9 + 7 + 6})

    def test_id_zero_is_none(self):
        _, checks = self.one_device([api(0, 10, 11), kernel(0, 20, 30)])
        self.assertEqual((checks["launches"], checks["unmatched"]), (0, 1))

    def test_a_driver_call_launches(self):
        self.assertEqual(self.gap(api(2, 101, 102, name="cuLaunchKernel", domain="driver")),
                         ({CPU: 1, "launch latency": 29}, 0))

    def test_a_call_that_is_not_recorded_is_no_launch(self):
        for name in ("cudaGetDevice_v3020", "cuCtxGetCurrent", "cuDeviceTotalMem_v2"):
            self.assertEqual(self.gap(api(2, 101, 102, name=name)), ({"unknown launch": 30}, 0))

    def test_an_untimed_call_is_no_launch_record(self):
        for start, end in ((0, 112), (108, 0), (112, 108), (2**63, 2**63), (108, 2**64 - 1)):
            self.assertEqual(self.gap(api(2, start, end)), ({"unknown launch": 30}, 0))

    def test_an_untimed_call_does_not_hide_a_timed_one(self):
        self.assertEqual(self.gap(api(2, 110, 0), api(2, 108, 112)),
                         ({CPU: 8, "launch latency": 22}, 0))


class Processes(Case):
    LINES = [process(1), process(2), device(1), device(2, ordinal=3),
             kernel(5, 10, 20, pid=1), kernel(5, 40, 50, pid=2, ordinal=3),
             api(5, 1, 2, pid=1), api(5, 26, 27, pid=2), kernel(6, 60, 70, pid=1),
             api(6, 3, 4, pid=2, result=1)]

    def test_one_device_of_two_processes(self):
        summary = self.summary(self.LINES, window=0)
        self.assertEqual(len(summary["devices"]), 1)
        entry = summary["devices"][0]
        self.assertEqual([entry[f] for f in ("operations", "span_ns", "busy_ns", "idle_ns")],
                         [3, 60, 30, 30])
        # [20,40) ends with process 2's work, launched at 26; [50,60) with work of process 1,
        # whose launch is unknown: id 6 is process 2's.
        self.assertEqual({c["cause"]: c["total_ns"] for c in entry["idle_by_cause"]},
                         {CPU: 6, "launch latency": 14, "unknown launch": 10})
        self.assertEqual((summary["checks"]["launches"], summary["checks"]["unmatched"]), (2, 1))
        self.assertEqual([p["pid"] for p in summary["processes"]], [1, 2])
        self.assertEqual([(k["device"], k["count"]) for k in summary["kernels"]], [(0, 3)])

    def test_same_number_on_two_devices(self):
        lines = [process(1), process(2), device(1), device(2, uuid=OTHER_UUID, name="GPU B"),
                 kernel(1, 10, 20), kernel(1, 30, 45, pid=2), kernel(2, 50, 60, pid=2)]
        summary = self.summary(lines)
        self.assertEqual([(d["uuid"], d["span_ns"], d["idle_ns"]) for d in summary["devices"]],
                         [(UUID, 10, 0), (OTHER_UUID, 30, 5)])
        self.assertEqual([(k["device"], k["count"], k["total_ns"]) for k in summary["kernels"]],
                         [(1, 2, 25), (0, 1, 10)])

    def test_without_uuid_each_process_has_its_own(self):
        lines = [device(1, uuid=""), device(2, uuid=""), kernel(1, 10, 20),
                 kernel(1, 15, 30, pid=2)]
        self.assertEqual([d["busy_ns"] for d in self.summary(lines)["devices"]], [10, 15])

    def test_a_device_without_operations_is_not_shown(self):
        lines = ONE_DEVICE + [device(ordinal=1, uuid=OTHER_UUID), device(ordinal=2, uuid="GPU-3"),
                              kernel(1, 10, 20), kernel(2, 10, 0, ordinal=1)]
        self.assertEqual([d["uuid"] for d in self.summary(lines)["devices"]], [UUID])

    def test_a_process_that_did_nothing_is_shown(self):
        self.assertEqual(self.summary([process(7)])["processes"], [{"pid": 7}])


class Times(Case):
    def checks(self, *lines):
        _, checks = self.one_device([kernel(99, 500, 510), *lines])
        return {k: checks[k] for k in ("device_operations", "untimed", "unfinished", "unmatched")}

    def expect(self, operations, untimed, unfinished, unmatched):
        return {"device_operations": operations, "untimed": untimed, "unfinished": unfinished,
                "unmatched": unmatched}

    def test_end_zero_is_unfinished(self):  # E5
        lines = [kernel(1, 100, 0), api(1, 50, 60)]
        self.assertEqual(self.checks(*lines), self.expect(1, 0, 1, 1))
        entry, checks = self.one_device([kernel(99, 500, 510), *lines])
        self.assertEqual((entry["operations"], entry["span_ns"], entry["first_start_ns"]),
                         (1, 10, 500))
        self.assertEqual(checks["launches"], 0)
        summary = self.summary(ONE_DEVICE + [kernel(99, 500, 510, name="a"),
                                             kernel(1, 100, 0, name="b"), memset(1, 100, 0)])
        self.assertEqual([k["name"] for k in summary["kernels"]], ["a"])
        self.assertEqual(summary["copies"], [])

    def test_both_zero_is_untimed(self):  # E6
        self.assertEqual(self.checks(kernel(1, 0, 0), api(1, 50, 60)), self.expect(1, 1, 0, 1))

    def test_what_is_no_time(self):
        for start, end in ((2**63, 2**63), (2**64 - 1, 2**64 - 1), (0, 700), (600, 2**64 - 1),
                           (600, 2**63), (2**63, 0), (2**64 - 1, 0), (600, 599)):  # E8 and more
            self.assertEqual(self.checks(memcpy(1, start, end)), self.expect(1, 1, 0, 1))

    def test_what_is_a_time(self):
        for start, end in ((600, 600), (1, 2), (2**63 - 1, 2**63 + 1), (2**64 - 2, 2**64 - 2)):
            self.assertEqual(self.checks(memcpy(1, start, end)), self.expect(2, 0, 0, 2))

    def test_untimed_calls(self):
        lines = [api(1, 0, 0), api(2, 10, 0), api(3, 10, 9), api(4, 10, 10),
                 api(5, 0, 0, domain="driver", name="cuLaunchKernel"),
                 api(5, 0, 0, domain="driver", name="cuCtxGetCurrent")]
        self.assertEqual(self.checks(*lines), self.expect(1, 4, 0, 1))
        self.assertEqual([a["count"] for a in self.summary(ONE_DEVICE + lines)["api"]], [1])

    def test_untimed_overheads_and_waits(self):
        lines = [overhead(0, 0), overhead(10, 9), overhead(10, 20), sync(0, 5), sync(7, 5),
                 sync(5, 5), event()]
        self.assertEqual(self.checks(*lines), self.expect(1, 4, 0, 1))

    def test_launches_are_calls_not_operations(self):  # as a graph launch does, E13
        lines = [api(9, 10, 20), kernel(9, 30, 40), kernel(9, 50, 60), api(10, 21, 22),
                 kernel(10, 70, 0), kernel(11, 70, 80), api(12, 23, 24)]
        _, checks = self.one_device(lines)
        self.assertEqual(checks, {"launches": 1, "device_operations": 3, "unmatched": 1,
                                  "dropped": 0, "untimed": 0, "unfinished": 1, "late": 0,
                                  "clock_faults": 0, "launches_without_operation": 1,
                                  "duplicates": 0})


class Statistics(Case):
    def stats(self, durations):
        lines = [kernel(i + 1, 10**6 * (i + 1), 10**6 * (i + 1) + d)
                 for i, d in enumerate(durations)]
        (row,) = self.summary(ONE_DEVICE + lines)["kernels"]
        return [row[f + "_ns"] for f in ("total", "mean", "median", "p99", "min", "max", "stddev")]

    def test_one(self):
        self.assertEqual(self.stats([1001]), [1001, 1001, 1001, 1001, 1001, 1001, 0])

    def test_short_kernels_keep_their_nanoseconds(self):  # E46
        self.assertEqual(self.stats([900] * 5), [4500, 900, 900, 900, 900, 900, 0])

    def test_rounding(self):
        # mean 4/3; variance (6 - floor(16/3)) / 3 = 1/3
        self.assertEqual(self.stats([1, 1, 2]), [4, 1, 1, 2, 1, 2, 0])
        # variance (2*25 + 2*81 - 28*28/4) / 4 = 4
        self.assertEqual(self.stats([5, 9, 5, 9]), [28, 7, 5, 9, 5, 9, 2])
        # squares 1 + 100 = 101, less floor(121 / 2) = 60: 41 / 2 = 20, of which the root is 4
        self.assertEqual(self.stats([10, 1]), [11, 5, 1, 10, 1, 10, 4])

    def test_nearest_rank(self):
        self.assertEqual(self.stats(range(1, 101))[2:4], [50, 99])
        self.assertEqual(self.stats(range(1, 102))[2:4], [51, 100])  # ceil(99.99) = 100
        self.assertEqual(self.stats(range(1, 201))[2:4], [100, 198])
        self.assertEqual(self.stats(range(1, 202))[2:4], [101, 199])
        self.assertEqual(self.stats([3, 1, 2])[2:4], [2, 3])

    def test_histogram_values(self):
        for v, expected in ((0, 0), (255, 255), (256, 257), (257, 257), (258, 259), (511, 511),
                            (512, 514), (515, 514), (516, 518), (1000, 1002), (1003, 1002),
                            (1004, 1006), (1023, 1022), (1024, 1028),
                            (65536, 65792), (2**63, 2**63 + 2**55)):
            self.assertEqual(oracle.histogram_value(v), expected, v)

    def test_quantiles_have_the_histograms_precision(self):
        # 1000 and 1001 are in [1000, 1004), 1011 in [1008, 1012), 1020 in [1020, 1024)
        self.assertEqual(self.stats([1000, 1001, 1010, 1020])[2:4], [1002, 1020])
        self.assertEqual(self.stats([900, 1000, 1011])[2:4], [1002, 1010])

    def test_quantiles_lie_within_the_extremes(self):
        self.assertEqual(self.stats([1001, 1001])[2:4], [1001, 1001])  # not 1002
        self.assertEqual(self.stats([1003, 1003])[2:4], [1003, 1003])  # not 1002

    def test_wide_sums(self):
        day = 86_400 * 10**9
        lines = [kernel(1, 1, 1 + day), kernel(2, 1, 1 + 3 * day)]
        (row,) = self.summary(ONE_DEVICE + lines)["kernels"]
        self.assertEqual((row["mean_ns"], row["stddev_ns"]), (2 * day, day))

    def test_kernels_by_name_and_device(self):
        long = "k<" + "x" * 9000
        lines = ONE_DEVICE + [
            device(ordinal=1, uuid=OTHER_UUID), kernel(1, 10, 20, name=long + "1>"),
            kernel(2, 10, 25, name=long + "2>"), kernel(3, 30, 60, name=long + "1>"),
            kernel(4, 10, 17, name=long + "1>", ordinal=1)]
        self.assertEqual(
            [(k["name"][-2:], k["device"], k["count"], k["total_ns"])
             for k in self.summary(lines)["kernels"]],
            [("1>", 0, 2, 40), ("2>", 0, 1, 15), ("1>", 1, 1, 7)])

    def test_copies(self):
        lines = ONE_DEVICE + [
            memcpy(1, 10, 20, size=100), memcpy(2, 30, 45, size=2**40), memset(3, 50, 51, size=7),
            memcpy(4, 60, 63, kind="HtoD", source="pinned"), memset(5, 70, 72, size=8),
            memcpy(6, 80, 84, kind="DtoH", source="device", destination="pageable"),
            memset(7, 90, 95, destination="managed")]
        self.assertEqual(
            [tuple(c.values()) for c in self.summary(lines)["copies"]],
            [("HtoD", "pageable", "device", 2, 100 + 2**40, 25),
             ("memset", "", "managed", 1, 4, 5),
             ("DtoH", "device", "pageable", 1, 4, 4),
             ("HtoD", "pinned", "device", 1, 4, 3),
             ("memset", "", "device", 2, 15, 3)])


class Api(Case):
    def rows(self, *lines):
        return {a["name"]: (a["count"], a["total_ns"], a["self_ns"], a["failures"])
                for a in self.summary(list(lines))["api"]}

    def test_names(self):
        for raw in ("cudaMemcpyAsync", "cudaMemcpyAsync_v3020", "cudaMemcpyAsync_ptsz",
                    "cudaMemcpyAsync_v3020_ptsz", "cudaMemcpyAsync_ptds_v3020",
                    "cudaMemcpyAsync_ptsz_v7000", "__cudaMemcpyAsync_ptsz", "__cudaMemcpyAsync"):
            self.assertEqual(oracle.display_name(raw), "cudaMemcpyAsync", raw)
        for raw in ("cudaMemcpy_view", "cudaMemcpy_v", "cudaMemcpy2D", "_cuda", "cuda_v1x",
                    "x_ptsy", "cuda_V2", "cuda_v2_"):
            self.assertEqual(oracle.display_name(raw), raw)

    def test_by_name_over_processes_and_threads(self):
        self.assertEqual(
            self.rows(api(1, 10, 20), api(1, 10, 25, name="__cudaLaunchKernel", pid=2, result=98),
                      api(2, 12, 13, name="__cudaLaunchKernel_ptsz", tid=2),
                      api(3, 30, 37, name="cudaFree_v3020", result=-1)),
            {"cudaLaunchKernel": (3, 26, 26, 1), "cudaFree": (1, 7, 7, 1)})

    def test_driver_calls_within_runtime_calls(self):
        self.assertEqual(self.rows(api(1, 10, 20), api(2, 12, 15, name="cuLaunchKernel",
                                                       domain="driver")),
                         {"cudaLaunchKernel": (1, 10, 7, 0), "cuLaunchKernel": (1, 3, 3, 0)})
        # Of the same times, and with one id or a driver's lower one: the runtime is around.
        for id in (1, 2, 3):
            self.assertEqual(self.rows(api(2, 10, 20), api(id, 10, 20, name="cuLaunchKernel",
                                                           domain="driver")),
                             {"cudaLaunchKernel": (1, 10, 0, 0), "cuLaunchKernel": (1, 10, 10, 0)})

    def test_calls_that_are_not_recorded(self):
        names = ("cuKernelGetName cuKernelGetAttribute cuKernelGetFunction cuFuncGetAttribute "
                 "cuFuncGetName cuCtxGetCurrent cuCtxGetDevice cuCtxGetId cuDeviceGetAttribute "
                 "cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid_v2 "
                 "cuDeviceTotalMem_v2 cuDriverGetVersion cuGetProcAddress_v2 cuGetErrorName "
                 "cuGetErrorString cuPointerGetAttribute cuPointerGetAttributes cuStreamGetCtx_ptsz "
                 "cuStreamIsCapturing cuStreamGetCaptureInfo_v3 cudaGetDevice_v3020 "
                 "cudaGetLastError_v3020 cudaPeekAtLastError cudaGetErrorString "
                 "cudaGetErrorName").split()
        self.assertEqual(len(names), 28)
        for name in names:
            with self.subTest(name=name):
                self.assertEqual(self.rows(api(1, 10, 20, name=name, domain="driver")), {})
        for name in ("cuDeviceGetP2PAttribute", "cudaGetDeviceCount", "cuCtxGetApiVersion",
                     "cudaGetDeviceProperties", "cuStreamGetPriority", "cuCtxSetCurrent"):
            with self.subTest(name=name):
                self.assertEqual(self.rows(api(1, 10, 20, name=name)), {name: (1, 10, 10, 0)})

    def test_failures_by_code(self):
        lines = [api(1, 10, 11, result=98), api(2, 12, 13, result=1), api(3, 14, 15, result=98),
                 api(4, 16, 17), api(5, 18, 19, result=-1)]
        (row,) = self.summary(lines)["api"]
        self.assertEqual(row["failures_by_code"], [
            {"code": 1, "count": 1}, {"code": 98, "count": 2}, {"code": 2**32 - 1, "count": 1}])

    def test_only_directly_nested_calls_are_taken_off(self):
        calls = [api(1, 10, 100, name="a"), api(2, 20, 60, name="b"), api(3, 30, 40, name="c"),
                 api(4, 50, 55, name="c"), api(5, 60, 70, name="c"), api(6, 100, 103, name="b"),
                 api(7, 90, 100, name="d")]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.rows(*order),
                             {"a": (1, 90, 90 - 40 - 10 - 10, 0), "b": (2, 43, 43 - 15, 0),
                              "c": (3, 25, 25, 0), "d": (1, 10, 10, 0)})

    def test_same_start_the_longer_is_around(self):
        calls = [api(1, 10, 15, name="short"), api(2, 10, 30, name="long")]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.rows(*order), {"long": (1, 20, 15, 0), "short": (1, 5, 5, 0)})

    def test_same_end(self):
        self.assertEqual(self.rows(api(1, 10, 30, name="a"), api(2, 20, 30, name="b")),
                         {"a": (1, 20, 10, 0), "b": (1, 10, 10, 0)})

    def test_same_times_the_lower_id_is_around(self):
        calls = [api(2, 10, 30, name="in"), api(1, 10, 30, name="out")]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.rows(*order), {"out": (1, 20, 0, 0), "in": (1, 20, 20, 0)})

    def test_one_function_within_itself(self):
        self.assertEqual(self.rows(api(1, 10, 30), api(2, 12, 20)),
                         {"cudaLaunchKernel": (2, 28, 20, 0)})

    def test_other_threads_and_processes_are_not_nested(self):
        self.assertEqual(
            self.rows(api(1, 10, 30, name="a"), api(2, 12, 20, name="b", tid=2),
                      api(3, 12, 20, name="c", pid=2)),
            {"a": (1, 20, 20, 0), "b": (1, 8, 8, 0), "c": (1, 8, 8, 0)})

    def test_adjacent_and_empty(self):
        self.assertEqual(
            self.rows(api(1, 10, 20, name="a"), api(2, 20, 30, name="b"), api(3, 20, 20, name="c"),
                      api(4, 25, 25, name="c")),
            {"a": (1, 10, 10, 0), "b": (1, 10, 10, 0), "c": (2, 0, 0, 0)})


class Classes(Case):
    EXPECTED = {
        "synchronizing": """cudaStreamQuery_v3020 cudaEventQuery cuStreamQuery_ptsz cuEventQuery
            cudaDeviceSynchronize_v3020 cudaThreadSynchronize cudaStreamSynchronize_v3020_ptsz
            cudaEventSynchronize cuCtxSynchronize cuCtxSynchronize_v2 cuStreamSynchronize
            cuEventSynchronize""",
        "launching other work": """cudaLaunchKernel_v7000 __cudaLaunchKernel cudaLaunchKernelExC
            cudaLaunchCooperativeKernel cudaLaunchHostFunc cuLaunchKernel cuLaunchKernelEx_ptsz
            cuLaunchHostFunc cudaGraphLaunch_v10000 cuGraphLaunch cudaMemset_v3020 cudaMemsetAsync
            cudaMemset2D cuMemsetD8_v2 cuMemsetD32Async cudaMemcpyAsync_v3020 cudaMemcpy2DAsync
            cudaMemcpyPeerAsync cudaMemcpyToSymbolAsync cuMemcpyAsync cuMemcpyHtoDAsync_v2
            cuMemcpyDtoHAsync_v2_ptsz cudaMemPrefetchAsync_v8000 cuMemPrefetchAsync_v2""",
        "copying": """cudaMemcpy_v3020 cudaMemcpy2D cudaMemcpyToSymbol cudaMemcpyPeer cuMemcpy
            cuMemcpyHtoD_v2 cuMemcpyDtoH_v2_ptds cuMemcpy3D""",
        "allocating/freeing": """cudaMalloc_v3020 cudaMallocHost cudaMallocManaged cudaMallocAsync
            cudaFree_v3020 cudaFreeHost cudaFreeAsync cudaHostAlloc cudaHostRegister
            cudaHostUnregister cuMemAlloc_v2 cuMemAllocHost_v2 cuMemFree_v2 cuMemFreeHost
            cuMemHostAlloc cuMemHostRegister_v2 cuMemHostUnregister cuMemCreate cuMemRelease
            cuMemMap cuMemMapArrayAsync cuMemUnmap cuMemAddressReserve cuMemAddressFree
            cuMemSetAccess""",
        "loading modules/JIT": """cuModuleLoadData cuModuleGetFunction cuModuleUnload
            cuLibraryLoadData cuLibraryGetKernel cuLinkCreate_v2 cudaLibraryLoadData cudaInitModule
            cudaGetKernel""",
        "other CUDA call": """cudaSetDevice cudaEventRecord cudaStreamCreate cuCtxCreate_v4
            cudaHostGetDevicePointer cudaStreamWaitEvent cudaMemGetInfo cuMemGetInfo_v2
            cudaGetDeviceProperties cudaHostAllocate cuMemReleaseAll cuStreamQueryAll
            xcudaMalloc cudaStreamSynchronizeAll cuMemAdvise cudaGetKernelName cuDeviceGetCountAll
            cudaGraphLaunchAll MyMemcpy""",
    }

    def test_every_name(self):
        for cause, names in self.EXPECTED.items():
            for name in names.split():
                with self.subTest(name=name):
                    # The host did nothing but this from 105 to 115.
                    lines = [kernel(1, 50, 100), kernel(2, 130, 140), api(2, 120, 125),
                             api(9, 105, 115, name=name)]
                    self.assertEqual(self.causes(lines), {
                        cause: (10, 1, 10), CPU: (10, 1, 10), "launch latency": (10, 1, 10)})

    def test_every_overhead(self):
        kinds = {
            "profiler overhead": ("instrumentation", "resource", "buffer flush", "buffer request",
                                  "UVM init", "unknown"),
            "loading modules/JIT": ("driver compiler", "runtime triggered module loading",
                                    "lazy function loading"),
            "launch queue full": ("command buffer full",),
        }
        for cause, names in kinds.items():
            for kind in names:
                with self.subTest(kind=kind):
                    lines = [kernel(1, 50, 100), kernel(2, 130, 140), api(2, 120, 125),
                             overhead(105, 115, kind)]
                    self.assertEqual(self.causes(lines), {
                        cause: (10, 1, 10), CPU: (10, 1, 10), "launch latency": (10, 1, 10)})
                    summary = self.summary(ONE_DEVICE + lines + [overhead(7, 0, kind)])
                    self.assertEqual(
                        (summary["program_overhead_ns"], summary["profiler_overhead_ns"]),
                        (0, 10) if cause == "profiler overhead" else (10, 0))


class Rules(Case):
    """One gap, [100, 200), which the operation with id 2 ends."""

    def gap(self, *lines, last=None, window=10, hello=None):
        """Its pieces in order of time."""
        lines = [kernel(1, 50, 100), last or kernel(2, 200, 210), *lines]
        self.entry, _ = self.one_device(lines, window, hello)
        (gap,) = self.entry["top_gaps"]
        self.opened_by = gap["opened_by"]
        self.threads = {row["tid"]: row["total_ns"] for row in self.entry["idle_by_thread"]}
        return [(piece["cause"], piece["duration_ns"]) for piece in gap["pieces"]]

    def test_innermost_call(self):
        pieces = self.gap(
            api(3, 90, 150, name="cudaMalloc"), api(4, 110, 130, name="cuMemAlloc_v2",
                                                    domain="driver"),
            api(5, 115, 120, name="cuModuleLoadData", domain="driver"), api(2, 180, 190))
        self.assertEqual(pieces, [("allocating/freeing", 15), ("loading modules/JIT", 5),
                                  ("allocating/freeing", 30), (CPU, 30), ("launch latency", 20)])
        self.assertEqual((self.opened_by, self.threads), ("cudaMalloc", {1: 80}))

    def test_innermost_of_calls_that_start_together(self):
        self.assertEqual(
            self.gap(api(3, 120, 160, name="cudaMalloc"), api(4, 120, 130, name="cudaSetDevice"),
                     api(2, 180, 190)),
            [(CPU, 20), ("other CUDA call", 10), ("allocating/freeing", 30), (CPU, 20),
             ("launch latency", 20)])
        # And end together: the driver's is within the runtime's, and else the higher id.
        for id in (3, 4, 5):
            self.assertEqual(
                self.gap(api(4, 120, 160, name="cudaMalloc"), api(2, 180, 190),
                         api(id, 120, 160, name="cuModuleLoadData", domain="driver")),
                [(CPU, 20), ("loading modules/JIT", 40), (CPU, 20), ("launch latency", 20)])
        self.assertEqual(
            self.gap(api(3, 120, 160, name="cudaMalloc"), api(4, 120, 160, name="cudaSetDevice"),
                     api(2, 180, 190))[1], ("other CUDA call", 40))

    def test_overhead_and_calls(self):
        # An OVERHEAD record that starts later is within, as is one of the same times.
        self.assertEqual(
            self.gap(api(3, 110, 150, name="cudaSetDevice"), overhead(120, 160), api(2, 180, 190)),
            [(CPU, 10), ("other CUDA call", 10), ("loading modules/JIT", 40), (CPU, 20),
             ("launch latency", 20)])
        self.assertEqual(
            self.gap(api(3, 110, 150, name="cudaSetDevice"), overhead(110, 150), api(2, 180, 190)),
            [(CPU, 10), ("loading modules/JIT", 40), (CPU, 30), ("launch latency", 20)])
        # One that starts earlier is around.
        self.assertEqual(
            self.gap(api(3, 110, 150, name="cudaSetDevice"), overhead(105, 170), api(2, 180, 190)),
            [(CPU, 5), ("loading modules/JIT", 5), ("other CUDA call", 40),
             ("loading modules/JIT", 20), (CPU, 10), ("launch latency", 20)])
        # Of other threads and processes, and of none, it is none of this thread's business.
        for other in (dict(tid=2), dict(pid=2), dict(tid=0)):
            self.assertEqual(self.gap(overhead(105, 170, **other), api(2, 180, 190)),
                             [(CPU, 80), ("launch latency", 20)])

    def test_overhead_within_the_launch(self):
        full = overhead(150, 170, "command buffer full")
        self.assertEqual(self.gap(full, api(2, 140, 180)),
                         [(CPU, 40), ("launch latency", 10), ("launch queue full", 20),
                          ("launch latency", 30)])
        self.assertEqual(self.threads, {1: 40})
        # Only until the call ends, and from the gap's begin; then as if it were not there.
        self.assertEqual(self.gap(full, api(2, 140, 160)),
                         [(CPU, 40), ("launch latency", 10), ("launch queue full", 10),
                          ("launch latency", 40)])
        self.assertEqual(self.gap(overhead(80, 105), api(2, 70, 260)),
                         [("loading modules/JIT", 5), ("scheduling", 95)])
        self.assertEqual(self.gap(overhead(150, 155), overhead(140, 170, "resource"),
                                  api(2, 95, 165)),
                         [("launch latency", 40), ("profiler overhead", 10),
                          ("loading modules/JIT", 5), ("profiler overhead", 10),
                          ("scheduling", 35)])
        # In the call of the same name on another thread it is not.
        self.assertEqual(self.gap(overhead(150, 170, tid=2), api(2, 140, 180)),
                         [(CPU, 40), ("launch latency", 60)])

    def test_staging(self):
        for source, destination in (("pageable", "device"), ("device", "pageable")):
            last = memcpy(2, 200, 210, source=source, destination=destination)
            self.assertEqual(self.gap(api(2, 140, 220, name="cudaMemcpy"), last=last),
                             [(CPU, 40), ("copying (staging)", 60)])
            self.assertEqual(
                self.gap(api(2, 90, 220, name="cudaMemcpy"), overhead(150, 160), last=last),
                [("copying (staging)", 50), ("loading modules/JIT", 10),
                 ("copying (staging)", 40)])
            self.assertEqual(self.opened_by, "cudaMemcpy")
        last = memcpy(2, 200, 210, source="pinned")
        self.assertEqual(self.gap(api(2, 140, 220, name="cudaMemcpy"), last=last),
                         [(CPU, 40), ("launch latency", 60)])
        last = memset(2, 200, 210, destination="pageable")
        self.assertEqual(self.gap(api(2, 140, 220, name="cudaMemset"), last=last),
                         [(CPU, 40), ("launch latency", 60)])

    def test_asynchronous_copies_of_pageable_memory_block(self):
        for domain in ("runtime", "driver"):
            name = "cudaMemcpyAsync_v3020" if domain == "runtime" else "cuMemcpyHtoDAsync_v2"
            lines = [api(3, 110, 150, name=name, domain=domain), api(2, 180, 190)]
            for source, cause in (("pageable", "copying"), ("pinned", "launching other work")):
                copy_ = memcpy(3, 60, 70, source=source)
                self.assertEqual(self.gap(*lines, copy_),
                                 [(CPU, 10), (cause, 40), (CPU, 30), ("launch latency", 20)])
        # Including the driver's call within, whichever of the two has the copy's id.
        for runtime, driver in ((3, 3), (3, 4), (4, 3)):
            pieces = self.gap(
                api(runtime, 110, 150, name="cudaMemcpyAsync"), memcpy(3, 60, 70),
                api(driver, 120, 140, name="cuMemcpyHtoDAsync_v2", domain="driver"),
                api(2, 180, 190))
            self.assertEqual(pieces, [(CPU, 10), ("copying", 40), (CPU, 30),
                                      ("launch latency", 20)])
        self.gap(api(3, 90, 150, name="cudaMemcpyAsync"), memcpy(3, 60, 70), api(2, 180, 190))
        self.assertEqual(self.opened_by, "cudaMemcpyAsync")

    def test_the_outermost_call_is_what_counts(self):
        # The driver's call has the id; the runtime's is the launch, from 140 to 190.
        for id in (2, 3):
            pieces = self.gap(api(id, 140, 190),
                              api(2, 160, 170, name="cuLaunchKernel", domain="driver"))
            self.assertEqual(pieces, [(CPU, 40), ("launch latency", 60)])
        # A wrapper that launches is the launch.
        self.assertEqual(self.gap(api(7, 130, 195, name="cudaGraphLaunch"), api(6, 140, 190),
                                  api(2, 160, 170, name="cuLaunchKernel", domain="driver")),
                         [(CPU, 30), ("launch latency", 70)])
        # Not a call on another thread, or one that ends within.
        self.assertEqual(self.gap(api(7, 130, 195, tid=2), api(2, 160, 170)),
                         [(CPU, 60), ("launch latency", 40)])

    def test_hand_over(self):
        wait = api(3, 90, 150, tid=2, name="cudaStreamSynchronize")
        self.assertEqual(self.gap(wait, api(2, 180, 190)),
                         [("synchronizing", 50), (CPU, 30), ("launch latency", 20)])
        self.assertEqual((self.threads, self.opened_by), ({2: 50, 1: 30}, ""))
        self.assertEqual(self.gap(wait, api(2, 150, 190))[0], ("synchronizing", 50))
        self.assertEqual(self.gap(wait, api(2, 149, 190)), [(CPU, 49), ("launch latency", 51)])
        self.assertEqual(self.gap(wait, api(2, 180, 190), hello={1: [130]})[0],
                         ("synchronizing", 50))

    def test_hand_over_only_when_the_thread_did_nothing(self):
        wait = api(3, 90, 150, tid=2, name="cudaStreamSynchronize")
        for start, end in ((160, 161), (50, 101), (179, 180), (100, 101)):
            pieces = self.gap(wait, api(4, start, end, name="cudaSetDevice"), api(2, 180, 190))
            self.assertNotIn("synchronizing", dict(pieces))
        for start, end in ((160, 160), (50, 100), (185, 186)):
            pieces = self.gap(wait, api(4, start, end, name="cudaSetDevice"), api(2, 180, 190))
            self.assertEqual(pieces[0], ("synchronizing", 50))
        # OVERHEAD is no call.
        self.assertEqual(self.gap(wait, overhead(120, 130), api(2, 180, 190))[:3],
                         [("synchronizing", 20), ("loading modules/JIT", 10),
                          ("synchronizing", 20)])
        self.assertEqual(self.threads, {2: 40, 1: 40})

    def test_who_hands_over(self):
        for name, cause in (("cudaMalloc", "allocating/freeing"), ("cudaMemcpy", "copying"),
                            ("cuModuleLoadData", "loading modules/JIT")):
            self.assertEqual(self.gap(api(3, 110, 150, tid=2, name=name), api(2, 180, 190)),
                             [(CPU, 10), (cause, 40), (CPU, 30), ("launch latency", 20)])
        for name in ("cudaEventQuery", "cuStreamQuery", "cudaSetDevice", "cudaLaunchKernel"):
            self.assertEqual(self.gap(api(3, 110, 150, tid=2, name=name), api(2, 180, 190)),
                             [(CPU, 80), ("launch latency", 20)])
        self.assertEqual(self.gap(api(3, 110, 150, tid=2, pid=2, name="cudaMalloc"),
                                  api(2, 180, 190)), [(CPU, 80), ("launch latency", 20)])
        self.assertEqual(self.gap(api(3, 60, 100, tid=2, name="cudaMalloc"),
                                  api(2, 180, 190)), [(CPU, 80), ("launch latency", 20)])

    def test_the_innermost_hands_over(self):
        calls = [api(3, 90, 150, tid=2, name="cudaMalloc"),
                 api(4, 110, 170, tid=3, name="cudaMemcpy"),
                 api(5, 110, 140, tid=5, name="cudaDeviceSynchronize"),
                 api(6, 110, 140, tid=4, name="cuModuleLoadData")]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.gap(*order, api(2, 180, 190)), [
                ("allocating/freeing", 10), ("loading modules/JIT", 30), ("copying", 30),
                (CPU, 10), ("launch latency", 20)])
            self.assertEqual(self.threads, {2: 10, 4: 30, 3: 30, 1: 10})

    def test_process_starting(self):
        self.assertEqual(self.gap(api(2, 180, 190), hello={1: [130]}),
                         [("process starting", 30), (CPU, 50), ("launch latency", 20)])
        self.assertEqual(self.threads, {1: 80})
        self.assertEqual(self.gap(api(2, 180, 190), hello={2: [130]})[0], (CPU, 80))
        self.assertEqual(self.gap(api(2, 180, 190), hello={1: [100]})[0], (CPU, 80))
        self.assertEqual(self.gap(api(2, 180, 190), hello={1: [190]})[:2],
                         [("process starting", 80), ("launch latency", 20)])
        self.assertEqual(self.gap(overhead(110, 120), api(2, 180, 190), hello={1: [130]})[:3],
                         [("process starting", 10), ("loading modules/JIT", 10),
                          ("process starting", 10)])
        self.assertEqual(self.gap(api(2, 180, 190), hello={1: [130, 185, 110]})[0],
                         ("process starting", 30))

    def test_opened_by(self):
        def opened(*calls):
            self.gap(*calls, api(2, 180, 190))
            rows = self.entry["idle_opened_by"]
            self.assertLessEqual(len(rows), 1)
            for row in rows:
                self.assertEqual((row["total_ns"], row["gap_count"]), (100, 1))
            self.assertEqual([row["call"] for row in rows], [self.opened_by] if rows else [])
            return [(row["call"], row["cause"]) for row in rows]

        wait = [("cudaStreamSynchronize", "synchronizing")]
        name = "cudaStreamSynchronize_v3020_ptsz"
        for start, end, expected in ((90, 101, wait), (100, 101, wait), (90, 100, []),
                                     (101, 110, []), (100, 100, []), (20, 170, wait)):
            self.assertEqual(opened(api(3, start, end, name=name)), expected)
        self.assertEqual(opened(api(3, 90, 110, name=name, tid=2)), [])
        self.assertEqual(opened(api(3, 90, 110, name=name, pid=2)), [])
        self.assertEqual(opened(api(3, 90, 110, name="cudaSetDevice")), [])
        self.assertEqual(opened(api(3, 90, 110)), [])
        # The outermost, but of these classes.
        self.assertEqual(opened(api(3, 80, 120, name=name), api(4, 90, 110, name="cudaMalloc")),
                         wait)
        self.assertEqual(opened(api(3, 80, 120, name="cudaSetDevice"), api(4, 90, 110, name=name)),
                         wait)
        self.assertEqual(opened(api(3, 90, 110, name=name),
                                api(4, 90, 110, name="cuStreamSynchronize", domain="driver")),
                         wait)
        self.assertEqual(opened(api(3, 90, 110, name="cudaEventQuery")),
                         [("cudaEventQuery", "synchronizing")])

    def test_gaps_of_a_thread(self):
        lines = [kernel(1, 10, 20), api(2, 24, 25), kernel(2, 30, 40), api(3, 49, 50, tid=2),
                 kernel(3, 50, 60), api(4, 1, 2), kernel(4, 61, 70), api(5, 75, 76),
                 kernel(5, 79, 80)]
        entry, _ = self.one_device(lines, window=0)
        self.assertEqual(entry["idle_by_thread"], [
            {"pid": 1, "tid": 1, "total_ns": 9, "gap_count": 2},
            {"pid": 1, "tid": 2, "total_ns": 9, "gap_count": 1}])

    def test_top_gaps(self):
        lines, start = [kernel(1, 1, 1000)], 1000
        for i in range(105):
            length = 10 if i % 3 else 20 + i
            lines.append(kernel(2 + i, start + length, start + length + 5))
            start += length + 5
        entry, _ = self.one_device(lines)
        self.assertEqual(len(entry["top_gaps"]), 100)
        self.assertEqual([g["duration_ns"] for g in entry["top_gaps"]],
                         [20 + i for i in range(102, -1, -3)] + [10] * 65)
        starts = [g["start_ns"] for g in entry["top_gaps"][35:]]
        self.assertEqual(starts, sorted(starts))
        self.assertEqual({(g["pid"], g["tid"]) for g in entry["top_gaps"]}, {(0, 0)})

    def test_kernels_and_copies_apart(self):
        entry, _ = self.one_device([kernel(1, 10, 20), memcpy(2, 15, 40), memset(3, 35, 50),
                                    kernel(4, 45, 47), kernel(5, 60, 61)])
        self.assertEqual([entry[f] for f in ("busy_ns", "kernel_busy_ns", "copy_busy_ns")],
                         [41, 13, 35])

    def test_latencies(self):
        lines = ONE_DEVICE + [
            api(1, 10, 15), kernel(1, 20, 30, name="a"),  # 10, 5; longer than its launch
            api(2, 30, 50), kernel(2, 40, 60, name="a"),  # 10, none; as long
            api(3, 70, 90), kernel(3, 60, 79, name="a"),  # 0, none; shorter
            api(4, 100, 110), memcpy(4, 113, 114),        # 13, 3
            api(5, 120, 130), kernel(5, 130, 139, name="b"),  # 10, none; shorter
            kernel(6, 140, 150, name="b")]
        summary = self.summary(lines)
        self.assertEqual([(summary[f]["count"], summary[f]["total_ns"], summary[f]["max_ns"])
                          for f in ("launch_latency", "queue_delay")], [(5, 43, 13), (2, 8, 5)])
        self.assertEqual((summary["kernels_shorter_than_launch"], summary["kernels_with_launch"]),
                         (2, 4))
        rows = {k["name"]: k for k in summary["kernels"]}
        self.assertEqual([rows[n]["shorter_than_launch"] for n in "ab"], [1, 1])
        self.assertEqual(list(rows["a"]["launch_latency"].values()), [3, 20, 6, 10, 10, 0, 10, 4])
        self.assertEqual(list(rows["b"]["queue_delay"].values()), [0] * 8)
        self.assertEqual(rows["a"]["queue_delay"]["total_ns"], 5)

    def test_launches_without_operation(self):
        def missing(*lines):
            return self.one_device([kernel(1, 50, 100), *lines])[1]["launches_without_operation"]

        for name in ("cudaLaunchKernel_v7000", "__cudaLaunchKernel_ptsz", "cudaLaunchKernelExC",
                     "cudaLaunchCooperativeKernel", "cuLaunchKernel", "cuLaunchKernelEx",
                     "cuLaunchCooperativeKernel"):
            self.assertEqual(missing(api(2, 10, 20, name=name)), 1, name)
            self.assertEqual(missing(api(2, 10, 20, name=name, result=1)), 0)
            self.assertEqual(missing(api(2, 10, 20, name=name), kernel(2, 0, 0)), 0)
            self.assertEqual(missing(api(2, 10, 20, name=name), kernel(2, 60, 0)), 0)
            self.assertEqual(missing(api(2, 10, 20, name=name), kernel(2, 60, 70)), 0)
        for name in ("cudaLaunchHostFunc", "cudaMemcpyAsync", "cudaGraphLaunch"):
            self.assertEqual(missing(api(2, 10, 20, name=name)), 0)
        driver = api(3, 12, 15, name="cuLaunchKernel", domain="driver")
        self.assertEqual(missing(api(2, 10, 20), driver), 1)
        self.assertEqual(missing(api(2, 10, 20), driver, kernel(3, 60, 70)), 0)
        self.assertEqual(missing(api(2, 10, 20, name="cudaGraphLaunch"), driver), 0)


class Painting(Case):
    """The same numbers by asking of every nanosecond what it was."""

    # As the log has them -> class.
    NAMES = {
        "cudaLaunchKernel_v7000": "launching other work",
        "__cudaStreamSynchronize_ptsz": "synchronizing",
        "cudaDeviceSynchronize_v3020": "synchronizing",
        "cudaEventQuery_v3020": "synchronizing",
        "cudaMemcpy_v3020": "copying",
        "cudaMemcpyAsync_v3020": "launching other work",
        "cudaMalloc_v3020": "allocating/freeing",
        "cuModuleLoadData": "loading modules/JIT",
        "cudaSetDevice_v3020": "other CUDA call",
    }
    KINDS = {"resource": "profiler overhead", "driver compiler": "loading modules/JIT",
             "command buffer full": "launch queue full"}

    @staticmethod
    def shown_name(call):
        return call["name"].strip("_").split("_")[0]

    @staticmethod
    def random_calls(rng, correlations, pid, tid, low, high, names, depth=0):
        """Properly nested calls within [low, high]."""
        lines = []
        position = low
        while position < high:
            start = rng.randint(position, min(high, position + 25))
            end = rng.randint(start, min(high, start + 30))
            domain = "driver" if depth and rng.random() < 0.5 else "runtime"
            id = rng.choice(correlations)
            lines.append(api(id, start, end, pid=pid, tid=tid, domain=domain,
                             name=rng.choice(names)))
            if domain == "runtime" and rng.random() < 0.2:  # a driver's call that fills it
                lines.append(api(rng.choice([id, id + 1]), start, end, pid=pid, tid=tid,
                                 domain="driver", name=rng.choice(names)))
            elif depth < 2 and end - start > 4 and rng.random() < 0.4:
                lines += Painting.random_calls(rng, correlations, pid, tid, start + 1, end - 1,
                                               names, depth + 1)
            position = end + rng.choice([1, 1, 30, 90])
        return lines

    @staticmethod
    def random_log(rng):
        pids = [1, 2][:rng.randint(1, 2)]
        lines = [line for pid in pids for line in (process(pid), device(pid))]
        correlations = list(range(0, rng.choice([3, 8, 20])))
        for pid in pids:
            for tid in range(1, rng.randint(1, 4)):
                names = rng.sample(list(Painting.NAMES), rng.randint(1, len(Painting.NAMES)))
                lines += Painting.random_calls(rng, correlations, pid, tid, 1, 270, names)
                for _ in range(rng.choice([0, 0, 1, 4])):
                    start = rng.randint(1, 270)
                    lines.append(overhead(start, start + rng.choice([0, 1, 5, 30]),
                                          rng.choice(list(Painting.KINDS)), pid, tid))
            for _ in range(rng.randint(1, 9)):
                start = rng.randint(1, 280)
                # Coarse times, so that several start together and touch.
                start = start if rng.random() < 0.5 else start // 20 * 20 + 1
                end = start + rng.choice([0, 0, 1, 3, 9, 10, 19])
                kind = rng.choice([kernel, memcpy, memset])
                kwargs = {}
                if kind is memcpy:
                    kwargs = rng.choice([{}, {"source": "pinned"},
                                         {"source": "device", "destination": "pageable"}])
                lines.append(kind(rng.choice(correlations), start, end, pid=pid, **kwargs))
        hello = {pid: [rng.randint(1, 250)] for pid in pids if rng.random() < 0.4}
        rng.shuffle(lines)
        return lines, hello

    @staticmethod
    def painted(lines, window, hello):
        operations = [x for x in lines if x["type"] in ("kernel", "memcpy", "memset")]
        calls = [x for x in lines if x["type"] == "api"]
        overheads = [x for x in lines if x["type"] == "overhead"]

        def thread_of(record):
            return record["pid"], record["tid"]

        def depth_order(call):  # sorts those around before those within
            return (call["start_ns"], -call["end_ns"], call["domain"] == "driver",
                    call["correlation"])

        def around(call):  # itself too
            return [c for c in calls if thread_of(c) == thread_of(call)
                    and c["start_ns"] <= call["start_ns"] and call["end_ns"] <= c["end_ns"]
                    and depth_order(c) <= depth_order(call)]

        def outermost(call):
            return min(around(call), key=depth_order)

        def launch(operation):
            best = None
            for call in calls:
                if call["correlation"] == 0 or (call["pid"], call["correlation"]) != (
                        operation["pid"], operation["correlation"]):
                    continue
                if best is None:
                    best = call
                    continue
                before = call["start_ns"] <= operation["start_ns"]
                best_before = best["start_ns"] <= operation["start_ns"]
                if before != best_before:
                    better = before
                elif call["start_ns"] != best["start_ns"]:
                    better = (call["start_ns"] > best["start_ns"]) == before
                elif call["end_ns"] != best["end_ns"]:
                    better = call["end_ns"] < best["end_ns"]
                else:
                    better = call["tid"] < best["tid"]
                if better:
                    best = call
            return None if best is None else outermost(best)

        launched_by = {id(o): launch(o) for o in operations}

        def is_pageable(operation):
            return operation["type"] == "memcpy" and (
                operation["source"] == "pageable" or operation["destination"] == "pageable")

        blocking = {id(launched_by[id(o)]) for o in operations if is_pageable(o)}

        def class_of(record):
            if record["type"] == "overhead":
                return Painting.KINDS[record["kind"]]
            if "Async" in record["name"] and id(outermost(record)) in blocking:
                return "copying"
            return Painting.NAMES[record["name"]]

        def what_ended(b):
            at_b = [o for o in operations if o["start_ns"] == b]
            if any(o["end_ns"] > b for o in at_b):
                at_b = [o for o in at_b if o["end_ns"] > b]
            at_b.sort(key=lambda o: not is_pageable(o))
            known = [o for o in at_b if launched_by[id(o)] is not None]
            known.sort(key=lambda o: [launched_by[id(o)][m]
                                      for m in ("start_ns", "end_ns", "pid", "tid")])
            return (known or at_b)[0]

        def covers(record, t):
            return record["start_ns"] <= t < record["end_ns"]

        def innermost(records, t):
            best = None
            for r in records:
                if not covers(r, t):
                    continue
                key = [r["start_ns"], -r["end_ns"], r["type"] == "overhead",
                       r.get("domain") == "driver", r["correlation"]]
                if best is None or key > best[0] or (
                        key == best[0] and r.get("kind", "") < best[1].get("kind", "")):
                    best = (key, r)
            return best and best[1]

        waiting = ("synchronizing", "copying", "allocating/freeing", "loading modules/JIT")

        def colour(t, a, b, operation, call):
            """(cause, thread of rule 3)"""
            if call is None:
                return "unknown launch", None
            mine = [c for c in calls + overheads if thread_of(c) == thread_of(call)]
            cs = min(call["start_ns"], b)
            if t < cs:
                record = innermost(mine, t)
                if record:
                    return class_of(record), thread_of(call)
                if not any(c["type"] == "api" and covers(c, u) for c in mine
                           for u in range(a, cs)):
                    waits = [c for c in calls if c["pid"] == call["pid"]
                             and c["tid"] != call["tid"] and covers(c, t)
                             and a <= c["end_ns"] <= cs and class_of(c) in waiting
                             and "Query" not in c["name"]]
                    if waits:
                        waits.sort(key=lambda c: (-c["start_ns"], c["end_ns"], c["tid"],
                                                  c["domain"], -c["correlation"]))
                        return class_of(waits[0]), thread_of(waits[0])
                if t < hello.get(call["pid"], [0])[0]:
                    return "process starting", thread_of(call)
                return CPU, thread_of(call)
            if t < call["end_ns"]:
                record = innermost([r for r in mine if r["type"] == "overhead"], t)
                if record:
                    return class_of(record), None
            if is_pageable(operation):
                return "copying (staging)", None
            if a < cs:
                return "launch latency", None
            within_window = t < call["start_ns"] + window
            still_in_call = t < call["end_ns"] < b
            return ("launch latency" if within_window or still_in_call else "scheduling"), None

        first = min(o["start_ns"] for o in operations)
        last = max(o["end_ns"] for o in operations)
        busy = [any(covers(o, t) for o in operations) for t in range(last)]
        gaps = []
        t = first
        while t < last:
            if busy[t]:
                t += 1
                continue
            a = t
            while t < last and not busy[t]:
                t += 1
            gaps.append((a, t))

        causes, threads, openers, faults, described = {}, {}, {}, 0, []
        for a, b in gaps:
            operation = what_ended(b)
            call = launched_by[id(operation)]
            if call is not None and call["start_ns"] > b:
                faults += 1
            colours = [colour(t, a, b, operation, call) for t in range(a, b)]
            for cause in {c for c, _ in colours}:
                total, count, longest = causes.get(cause, (0, 0, 0))
                share = [c for c, _ in colours].count(cause)
                causes[cause] = (total + share, count + 1, max(longest, share))
            for thread in {t for _, t in colours if t}:
                total, count = threads.get(thread, (0, 0))
                threads[thread] = (total + [t for _, t in colours].count(thread), count + 1)
            opener = ""
            if call is not None:
                open_calls = [c for c in calls if thread_of(c) == thread_of(call)
                              and covers(c, a) and class_of(c) in waiting]
                if open_calls:
                    first_call = min(open_calls, key=depth_order)
                    opener = Painting.shown_name(first_call)
                    key = (opener, class_of(first_call))
                    total, count = openers.get(key, (0, 0))
                    openers[key] = (total + b - a, count + 1)
            pieces = [(cause, len(list(group)))
                      for cause, group in itertools.groupby(c for c, _ in colours)]
            described.append((a, b - a, pieces, opener,
                              thread_of(call) if call is not None else (0, 0)))
        described.sort(key=lambda gap: (-gap[1], gap[0]))
        device_numbers = (last - first, sum(busy[first:]), len(gaps),
                          max((b - a for a, b in gaps), default=0))
        known = [(o, launched_by[id(o)]) for o in operations if launched_by[id(o)] is not None]
        launches = (len({id(call) for _, call in known}), len(operations) - len(known), faults)
        latencies = [max(0, o["start_ns"] - c["start_ns"]) for o, c in known]
        delays = [o["start_ns"] - c["end_ns"] for o, c in known if o["start_ns"] > c["end_ns"]]
        shorter = [o for o, c in known if o["type"] == "kernel" and
                   o["end_ns"] - o["start_ns"] < c["end_ns"] - c["start_ns"]]
        barren = [c for c in calls if "LaunchKernel" in c["name"] and outermost(c) is c
                  and id(c) not in {id(call) for _, call in known}]
        return (causes, threads, openers, described, device_numbers, launches,
                (len(latencies), sum(latencies), len(delays), sum(delays), len(shorter),
                 len(barren)))

    @staticmethod
    def painted_self(lines):
        """By name, how long its calls were the innermost ones."""
        result = {}
        calls = [x for x in lines if x["type"] == "api"]
        for call in calls:
            result.setdefault(Painting.shown_name(call), 0)
        for thread in {(c["pid"], c["tid"]) for c in calls}:
            for t in range(300):
                around = [c for c in calls if (c["pid"], c["tid"]) == thread
                          and c["start_ns"] <= t < c["end_ns"]]
                if around:
                    inner = max(around, key=lambda c: (c["start_ns"], -c["end_ns"],
                                                       c["domain"] == "driver"))
                    result[Painting.shown_name(inner)] += 1
        return result

    def test_equals_painting(self):
        seen, faults, handed_over, opened = set(), 0, 0, 0
        for seed in range(600):
            rng = random.Random(seed)
            lines, hello = self.random_log(rng)
            window = rng.choice([0, 1, 5, 12, 40, 1000])
            seen_here = Counter()
            summary = oracle.summarize(oracle.read_log(self.write_log(lines)), window, hello,
                                       seen_here)
            handed_over += seen_here["handed over"]
            (entry,) = summary["devices"]
            checks = summary["checks"]
            causes = {c["cause"]: (c["total_ns"], c["gap_count"], c["longest_ns"])
                      for c in entry["idle_by_cause"]}
            threads = {(row["pid"], row["tid"]): (row["total_ns"], row["gap_count"])
                       for row in entry["idle_by_thread"]}
            openers = {(row["call"], row["cause"]): (row["total_ns"], row["gap_count"])
                       for row in entry["idle_opened_by"]}
            gaps = [(g["start_ns"], g["duration_ns"],
                     [(p["cause"], p["duration_ns"]) for p in g["pieces"]], g["opened_by"],
                     (g["pid"], g["tid"])) for g in entry["top_gaps"]]
            latency, delay = summary["launch_latency"], summary["queue_delay"]
            actual = (causes, threads, openers, gaps,
                      (entry["span_ns"], entry["busy_ns"], entry["gap_count"],
                       entry["longest_gap_ns"]),
                      (checks["launches"], checks["unmatched"], checks["clock_faults"]),
                      (latency["count"], latency["total_ns"], delay["count"], delay["total_ns"],
                       summary["kernels_shorter_than_launch"],
                       checks["launches_without_operation"]))
            self.assertEqual(actual, self.painted(lines, window, hello), f"seed {seed}")
            self.assertEqual(entry["idle_ns"], entry["span_ns"] - entry["busy_ns"])
            seen |= set(causes)
            faults += checks["clock_faults"]
            opened += len(openers)
            if seed < 100:
                self.assertEqual({a["name"]: a["self_ns"] for a in summary["api"]},
                                 self.painted_self(lines), f"seed {seed}")
        # The comparison is worth something only if it has met everything.
        self.assertEqual(seen, {
            "unknown launch", CPU, "launch latency", "scheduling", "copying (staging)",
            "process starting", "launch queue full", "profiler overhead", "synchronizing",
            "copying", "allocating/freeing", "loading modules/JIT", "launching other work",
            "other CUDA call"})
        self.assertGreater(faults, 20)
        self.assertGreater(handed_over, 100)
        self.assertGreater(opened, 100)

    def test_order_of_lines_means_nothing(self):  # E10
        for seed in range(50):
            rng = random.Random(seed)
            lines, hello = self.random_log(rng)
            expected = self.summary(lines, hello=hello)
            rng.shuffle(lines)
            self.assertEqual(self.summary(lines, hello=hello), expected, f"seed {seed}")


class Compare(Case):
    LINES = [
        process(1), process(2), device(1), device(2, ordinal=1),
        device(1, ordinal=1, uuid=OTHER_UUID, name="GPU B"),
        api(1, 10_000, 10_010), kernel(1, 10_020, 20_000, name="vadd(float*, int)"),
        # [20 000, 35 000): launch latency until 25 000 = 15 000 + W, then scheduling
        api(2, 15_000, 15_700), kernel(2, 35_000, 37_000, name='say<"a", \\>(int)'),
        api(3, 40_000, 41_000, name="cudaMemcpy_v3020"),
        api(4, 40_100, 40_200, name="cudaMemcpyAsync_ptsz", result=1),
        memcpy(3, 42_000, 43_000, size=4096), memset(9, 50_000, 51_000),
        kernel(4, 60_000, 60_500, pid=2, ordinal=1),
        api(4, 60_001, 60_002, pid=2),  # a clock fault
        kernel(5, 5_000, 9_000, ordinal=1), kernel(6, 9_500, 9_600, ordinal=1),
        kernel(7, 70_000, 0), memset(8, 0, 0), api(11, 0, 5),
        # [60 500, 80 000): it was submitted at 75 000 by a thread that before that waited with
        # cudaFree until 70 000, loaded a kernel, said hello at 66 000 and made a call that failed.
        api(12, 58_000, 64_000, pid=2, tid=5, name="cudaFree_v3020"),
        overhead(71_000, 72_000, pid=2, tid=5), overhead(1, 18, kind="buffer flush"),
        api(13, 73_000, 74_000, pid=2, tid=5, result=700, name="cudaEventRecord"),
        api(14, 75_000, 75_900, pid=2, tid=5), kernel(14, 80_000, 80_700, pid=2, ordinal=1),
        api(15, 81_000, 82_000),
    ]

    def setUp(self):
        super().setUp()
        self.log = self.write_log(self.LINES)
        self.document = oracle.summarize(oracle.read_log(self.log), 10_000, {2: [66_000]})
        # As the profiler has it: relative times, and members that the log knows nothing of.
        self.document["trace_start_ns"] = 4_000
        for entry in self.document["devices"]:
            entry["first_start_ns"] -= 4_000
            for gap in entry["top_gaps"]:
                gap["start_ns"] -= 4_000
        self.document["processes"][1]["hello_ns"] = 66_000
        self.document["checks"]["malformed"] = 0

    def compare(self, *options):
        return self.main(self.log, "--compare", self.write_json(self.document), *options)

    def assert_differs(self, *parts):
        status, out, err = self.compare()
        self.assertEqual((status, err), (1, ""))
        for part in parts:
            self.assertIn(part, out)

    def test_equal(self):
        status, out, err = self.compare()
        self.assertEqual((status, err), (0, ""), out)
        self.assertRegex(out, r"\Aequal: \d+ integers\n\Z")
        self.assertGreater(int(out.split()[1]), 250)

    def test_the_hand_made_document_is_what_it_should_be(self):
        causes = {c["cause"]: c["total_ns"] for c in self.document["devices"][0]["idle_by_cause"]}
        # [20 000, 35 000) id 2, [37 000, 42 000) id 3, [43 000, 50 000) id 9, none,
        # [51 000, 60 000) id 4 of process 2, started at 60 001; [60 500, 80 000) as above
        self.assertEqual(causes, {
            "launch latency": 5_000 + 5_000, "copying (staging)": 2_000, "scheduling": 10_000,
            CPU: 3_000 + 5_000 + 1_000 + 1_000, "unknown launch": 7_000,
            "process starting": 9_000 + 2_000, "allocating/freeing": 3_500,
            "loading modules/JIT": 1_000, "other CUDA call": 1_000})
        self.assertEqual(self.document["checks"],
                         {"launches": 5, "device_operations": 8, "unmatched": 3, "dropped": 0,
                          "untimed": 2, "unfinished": 1, "late": 0, "clock_faults": 1,
                          "launches_without_operation": 1, "duplicates": 0, "malformed": 0})
        device = self.document["devices"][0]
        self.assertEqual(device["idle_by_thread"], [
            {"pid": 2, "tid": 5, "total_ns": 14_500, "gap_count": 1},
            {"pid": 2, "tid": 1, "total_ns": 9_000, "gap_count": 1},
            {"pid": 1, "tid": 1, "total_ns": 3_000, "gap_count": 1}])
        self.assertEqual(device["idle_opened_by"], [
            {"call": "cudaFree", "cause": "allocating/freeing", "total_ns": 19_500,
             "gap_count": 1}])
        self.assertEqual(device["top_gaps"][0], {
            "start_ns": 56_500, "duration_ns": 19_500, "pid": 2, "tid": 5, "opened_by": "cudaFree",
            "pieces": [{"cause": cause, "duration_ns": ns} for cause, ns in (
                ("allocating/freeing", 3_500), ("process starting", 2_000), (CPU, 5_000),
                ("loading modules/JIT", 1_000), (CPU, 1_000), ("other CUDA call", 1_000),
                (CPU, 1_000), ("launch latency", 5_000))]})
        self.assertEqual((self.document["program_overhead_ns"],
                          self.document["profiler_overhead_ns"]), (1_000, 17))

    def test_what_is_not_compared(self):
        self.document["wall_ns"] = 17
        self.document["devices"][0]["lead_in_ns"] = 17
        self.document["kernels"][0]["short_name"] = "vadd"
        self.assertEqual(self.compare()[0], 0)

    def test_order_of_rows_means_nothing(self):
        for section in ("processes", "kernels", "copies", "api"):
            self.document[section].reverse()
        self.document["devices"][0]["idle_by_cause"].reverse()
        self.assertEqual(self.compare()[0], 0)
        self.document["devices"].reverse()
        for row in self.document["kernels"]:
            row["device"] = 1 - row["device"]
        self.assertEqual(self.compare()[0], 0)

    def integers(self, node, path=()):
        """The path of every integer in the document."""
        if type(node) is dict:
            for key, value in node.items():
                yield from self.integers(value, path + (key,))
        elif type(node) is list:
            for i, value in enumerate(node):
                yield from self.integers(value, path + (i,))
        elif type(node) is int:
            yield path

    def change(self, path, make):
        owner = self.document
        for step in path[:-1]:
            owner = owner[step]
        owner[path[-1]] = make(owner[path[-1]])

    def test_every_integer_matters(self):
        original = self.document
        paths = list(self.integers(original))
        self.assertGreater(len(paths), 250)
        changes = {
            "1 more": lambda v: v + 1, "1 less": lambda v: v - 1, "float": float,
            "text": str, "null": lambda v: None, "list": lambda v: [v],
        }
        for path in paths:
            for name, make in changes.items():
                with self.subTest(path=path, change=name):
                    self.document = copy.deepcopy(original)
                    self.change(path, make)
                    status, out, err = self.compare()
                    if path == ("launch_window_ns",) and not name.startswith("1"):
                        self.assertEqual(status, 2)
                    else:
                        self.assertEqual(status, 1, out + err)

    def test_booleans_are_no_integers(self):
        self.document["checks"]["unfinished"] = True
        self.assert_differs("checks.unfinished: ours 1, theirs true")

    def test_every_required_member_matters(self):
        original = self.document
        for path in self.integers(original):
            if path[-1] in ("first_start_ns", "malformed"):
                continue
            with self.subTest(path=path):
                self.document = copy.deepcopy(original)
                owner = self.document
                for step in path[:-1]:
                    owner = owner[step]
                del owner[path[-1]]
                status, out, _ = self.compare()
                self.assertEqual(status, 1, out)

    def test_every_row_matters(self):
        original = self.document
        rows = [(s, i) for s in ("processes", "devices", "kernels", "copies", "api")
                for i in range(len(original[s]))]
        rows += [("devices", d, table, i) for d in range(2)
                 for table in ("idle_by_cause", "idle_by_thread", "idle_opened_by", "top_gaps")
                 for i in range(len(original["devices"][d][table]))]
        rows += [("devices", 0, "top_gaps", 0, "pieces", i) for i in range(8)]
        (failed,) = [i for i, row in enumerate(original["api"]) if row["failures_by_code"]
                     and row["name"] == "cudaEventRecord"]
        rows.append(("api", failed, "failures_by_code", 0))
        for *path, i in rows:
            for action in ("removed", "doubled"):
                if path == ["processes"] and action == "doubled":
                    continue  # a process that replaced its image has one entry for each
                with self.subTest(path=path, row=i, action=action):
                    self.document = copy.deepcopy(original)
                    owner = self.document
                    for step in path:
                        owner = owner[step]
                    if action == "removed":
                        del owner[i]
                    else:
                        owner.append(copy.deepcopy(owner[i]))
                    status, out, _ = self.compare()
                    self.assertEqual(status, 1, out)

    def test_every_text_key_matters(self):
        original = self.document
        texts = [("devices", 0, "name"), ("devices", 0, "uuid"), ("kernels", 0, "name"),
                 ("devices", 0, "idle_by_cause", 0, "cause"), ("copies", 0, "kind"),
                 ("copies", 0, "source"), ("copies", 0, "destination"), ("api", 0, "name"),
                 ("devices", 0, "idle_opened_by", 0, "call"),
                 ("devices", 0, "idle_opened_by", 0, "cause"),
                 ("devices", 0, "top_gaps", 0, "opened_by"),
                 ("devices", 0, "top_gaps", 1, "opened_by"),
                 ("devices", 0, "top_gaps", 0, "pieces", 0, "cause")]
        for path in texts:
            for make in (lambda v: v + "x", lambda v: None, lambda v: 7, lambda v: {}):
                with self.subTest(path=path):
                    self.document = copy.deepcopy(original)
                    self.change(path, make)
                    status, out, _ = self.compare()
                    self.assertEqual(status, 1, out)

    def test_extra_rows(self):
        cause = {"cause": "dependency", "total_ns": 0, "gap_count": 0, "longest_ns": 0}
        self.document["devices"][0]["idle_by_cause"].append(cause)
        self.assert_differs(f"devices[{UUID}].idle_by_cause[dependency]: ours missing, "
                            "theirs present")

    def test_sections_of_the_wrong_shape(self):
        original = self.document
        sections = [(name,) for name in ("processes", "devices", "kernels", "copies", "api",
                                         "checks", "launch_latency", "queue_delay")]
        sections += [("devices", 0, name) for name in ("idle_by_cause", "idle_by_thread",
                                                       "idle_opened_by", "top_gaps")]
        sections += [("kernels", 0, "launch_latency"), ("kernels", 0, "queue_delay"),
                     ("api", 0, "failures_by_code"), ("devices", 0, "top_gaps", 0, "pieces")]
        for *path, section in sections:
            for value in (None, 7, "x", [7], [None]):
                with self.subTest(path=path, section=section, value=value):
                    self.document = copy.deepcopy(original)
                    owner = self.document
                    for step in path:
                        owner = owner[step]
                    owner[section] = value
                    self.assertEqual(self.compare()[0], 1)
                    del owner[section]
                    self.assertEqual(self.compare()[0], 1)

    def test_difference_tells_path_and_both_values(self):
        row = self.document["devices"][0]["idle_by_cause"][0]
        row["total_ns"] += 1
        self.document["api"][0]["self_ns"] -= 1
        own = self.document["api"][0]["self_ns"]
        self.assert_differs(
            f"devices[{UUID}].idle_by_cause[{row['cause']}].total_ns: "
            f"ours {row['total_ns'] - 1}, theirs {row['total_ns']}\n",
            f'api["{self.document["api"][0]["name"]}"].self_ns: ours {own + 1}, theirs {own}\n',
            "the sum of the causes, which is to be idle_ns",
            "3 differences")

    def test_extra_process(self):
        self.document["processes"].append({"pid": 3, "failure": ""})
        self.assert_differs("processes[3]: ours missing, theirs present")
        # One in which nothing was recorded may well be a shell.
        self.document["processes"][-1]["failure"] = "It made no CUDA call."
        self.assertEqual(self.compare()[0], 0)

    def test_launch_window_is_taken_from_the_json(self):
        self.document["launch_window_ns"] = 12_000
        self.assert_differs("scheduling", "launch latency")
        rows = {row["cause"]: row for row in self.document["devices"][0]["idle_by_cause"]}
        for cause, total, longest in (("scheduling", -2_000, 8_000),
                                      ("launch latency", 2_000, 7_000)):
            rows[cause]["total_ns"] += total
            rows[cause]["longest_ns"] = longest
        pieces = self.document["devices"][0]["top_gaps"][1]["pieces"]
        self.assertEqual([piece["cause"] for piece in pieces], ["launch latency", "scheduling"])
        pieces[0]["duration_ns"] += 2_000
        pieces[1]["duration_ns"] -= 2_000
        self.assertEqual(self.compare()[0], 0)

    def test_hello_is_taken_from_the_json(self):
        self.assertEqual(self.compare()[0], 0)
        del self.document["processes"][1]["hello_ns"]
        self.assert_differs("process starting")
        self.document["processes"][1]["hello_ns"] = 0  # none came
        self.assert_differs("process starting")
        # Of several, the last one before the call.
        for other in (65_000, 75_001, 76_000):
            self.document["processes"][1]["hello_ns"] = other
            self.document["processes"].append({"pid": 2, "hello_ns": 66_000})
            self.assertEqual(self.compare()[0], 0)
            self.document["processes"].pop()

    def test_launch_window_option(self):
        self.assertEqual(self.compare("--launch-window", "10000")[0], 0)
        status, out, _ = self.compare("--launch-window", "10001")
        self.assertEqual(status, 1)
        self.assertIn("launch_window_ns: ours 10001, theirs 10000", out)

    def test_devices_without_uuid(self):
        lines = [device(1, uuid=""), device(2, uuid=""), kernel(1, 10, 20),
                 kernel(1, 15, 30, pid=2)]
        self.log = self.write_log(lines)
        self.document = self.summary(lines)
        self.assertEqual(self.compare()[0], 0)
        self.document["devices"].reverse()
        for row in self.document["kernels"]:
            row["device"] = 1 - row["device"]
        self.assertEqual(self.compare()[0], 0)
        for row in self.document["kernels"]:
            row["device"] = 1 - row["device"]
        self.assertEqual(self.compare()[0], 1)

    def test_nothing_equals_nothing(self):
        self.log = self.write_log([])
        self.document = self.summary([])
        self.assertEqual(self.compare()[0], 0)
        self.document["checks"]["dropped"] = 1
        self.assertEqual(self.compare()[0], 1)


class Input(Case):
    def assert_bad_log(self, content, *parts):
        status, out, err = self.main(self.write("log", content))
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r"\Aoracle: .*\.\n\Z")
        for part in parts:
            self.assertIn(part, err)

    def test_no_such_file(self):
        status, out, err = self.main(self.path("none"))
        self.assertEqual((status, out), (2, ""))
        self.assertIn("No such file", err)
        self.assertEqual(self.main(self.folder)[0], 2)

    def test_not_json(self):
        self.assert_bad_log(b'{"type":"process","pid":1}\n{"type":"pro', "line 2", "not JSON")
        self.assert_bad_log(b"\xff\xfe\n", "UTF-8")
        self.assert_bad_log(b"[1]\n", "line 1", "not a JSON object")
        self.assert_bad_log(b"[" * 100_000 + b"\n", "not JSON")
        self.assert_bad_log(b'{"pid":' + b"9" * 5000 + b"}\n")

    def test_unknown_type(self):
        self.assert_bad_log(b'{"type":"weather","pid":1}\n', "weather")
        self.assert_bad_log(b'{"pid":1}\n', "type")

    def test_missing_and_wrong_members(self):
        required = [
            (device(), ("pid", "device", "name", "uuid")),
            (api(1, 10, 20), ("pid", "tid", "domain", "name", "correlation", "start_ns", "end_ns",
                              "result")),
            (kernel(1, 10, 20), ("pid", "device", "correlation", "start_ns", "end_ns",
                                 "demangled")),
            (memcpy(1, 10, 20), ("kind", "source", "destination", "bytes", "start_ns")),
            (memset(1, 10, 20), ("destination", "bytes", "end_ns")),
            (overhead(10, 20), ("pid", "tid", "kind", "start_ns", "end_ns")),
            (sync(10, 20), ("pid", "kind", "start_ns", "end_ns")),
            (event(), ("pid", "correlation")),
        ]
        for line, members in required:
            for member in members:
                for value in (None, 1.5, True, [], -1, 2**64, 7, "x"):
                    if type(value) is type(line[member]) and value in (-1, 7, "x"):
                        if value != -1 or member == "result":
                            continue
                    if member == "result" and value == 2**64:
                        continue
                    with self.subTest(type=line["type"], member=member, value=value):
                        wrong = dict(line)
                        wrong[member] = value
                        content = b"".join(json.dumps(x).encode() + b"\n"
                                           for x in [*ONE_DEVICE, wrong])
                        self.assert_bad_log(content, "line 3", f'"{member}"')

    def test_unknown_kinds(self):
        for line, member in ((overhead(10, 20, kind="boredom"), "kind"),
                             (sync(10, 20, kind="boredom"), "kind"),
                             (api(1, 10, 20, domain="boredom"), "domain")):
            self.assert_bad_log(json.dumps(line).encode(), f'"{member}"', "boredom")

    def test_operation_of_an_unknown_device(self):
        lines = ONE_DEVICE + [kernel(1, 10, 20, ordinal=4)]
        self.assert_bad_log(b"".join(json.dumps(x).encode() + b"\n" for x in lines), "device 4")

    def test_device_described_twice(self):
        self.summary(ONE_DEVICE + [device()])  # alike: no harm
        lines = ONE_DEVICE + [device(uuid=OTHER_UUID)]
        self.assert_bad_log(b"".join(json.dumps(x).encode() + b"\n" for x in lines), "differently")

    def test_calls_that_straddle(self):
        lines = [api(1, 10, 20), api(2, 15, 25)]
        self.assert_bad_log(b"".join(json.dumps(x).encode() + b"\n" for x in lines), "overlap")

    def test_odd_but_good(self):
        lines = ONE_DEVICE + [kernel(1, 10, 20, name="a\u2028b\u202ec\x85\r\n\x01\\\"")]
        raw = b"\n".join(json.dumps(x, ensure_ascii=False).encode() for x in lines)  # no last \n
        log = oracle.read_log(self.write("log", b"\n\n" + raw))
        self.assertEqual(oracle.summarize(log, 0)["kernels"][0]["name"], lines[-1]["demangled"])

    def test_bad_json_to_compare_with(self):
        log = self.write_log(ONE_DEVICE)
        for content in (b"", b"{", b"[]", b"7", b"\xff", b'{"launch_window_ns":-1}',
                        b'{"launch_window_ns":"x"}'):
            with self.subTest(content=content):
                status, out, err = self.main(log, "--compare", self.write("out.json", content))
                self.assertEqual((status, out), (2, ""))
                self.assertRegex(err, r"\Aoracle: .*\.\n\Z")
        self.assertEqual(self.main(log, "--compare", self.path("none"))[0], 2)
        self.assertEqual(self.main(log, "--compare", "")[0], 2)
        self.assertEqual(self.main(log, "--compare", self.write("out.json", b"{}"))[0], 1)

    def test_bad_options(self):
        log = self.write_log(ONE_DEVICE)
        self.assertEqual(self.main()[0], 2)
        self.assertEqual(self.main(log, "--frobnicate")[0], 2)
        for value in ("-1", "1.5", "", "ten", "\u0661"):
            self.assertEqual(self.main(log, f"--launch-window={value}")[0], 2)


class CommandLine(Case):
    def test_prints_what_it_then_finds_equal(self):
        log = self.write_log(Compare.LINES)
        run = subprocess.run([sys.executable, ORACLE, log], capture_output=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        out = self.write("out.json", run.stdout)
        command = [sys.executable, ORACLE, log, "--compare", out]
        run = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.assertTrue(run.stdout.startswith(b"equal: "))

        with open(out, encoding="utf-8") as file:
            document = json.load(file)
        document["devices"][0]["busy_ns"] += 1
        self.write_json(document)
        run = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (1, b""))
        self.assertIn(b"busy_ns", run.stdout)

        run = subprocess.run([sys.executable, ORACLE, log + "x"], capture_output=True, check=False)
        self.assertEqual((run.returncode, run.stdout), (2, b""))


if __name__ == "__main__":
    unittest.main()
