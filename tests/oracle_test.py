#!/usr/bin/env python3
"""Tests of oracle.py: logs made by hand with numbers worked out by hand, and a second, even plainer
implementation (one nanosecond at a time) on small random logs."""

import contextlib
import copy
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import oracle  # noqa: E402

UUID = "GPU-00000000-0000-0000-0000-000000000001"
OTHER_UUID = "GPU-00000000-0000-0000-0000-000000000002"
ORACLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "oracle.py")


# Lines of a log ------------------------------------------------------------------------------


def process(pid=1):
    return {"type": "process", "pid": pid, "model": "h100", "start_ns": 1}


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

    def summary(self, lines, window=10_000):
        return oracle.summarize(oracle.read_log(self.write_log(lines)), window)

    def one_device(self, lines, window=10_000):
        """The only device's entry and the checks, for lines beside the device's own."""
        summary = self.summary(ONE_DEVICE + lines, window)
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
        self.assertEqual(self.gap(api(2, 108, 112)), ({"host": 8, "launch latency": 22}, 0))

    def test_launched_within_the_gap_whatever_the_window(self):
        for window in (0, 1, 1000):
            self.assertEqual(self.gap(api(2, 108, 112), window=window),
                             ({"host": 8, "launch latency": 22}, 0))

    def test_launched_one_nanosecond_into_the_gap(self):
        self.assertEqual(self.gap(api(2, 101, 102)), ({"host": 1, "launch latency": 29}, 0))

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
        self.assertEqual(self.gap(api(2, 130, 140)), ({"host": 30}, 0))

    def test_clock_fault(self):
        self.assertEqual(self.gap(api(2, 131, 140)), ({"host": 30}, 1))
        self.assertEqual(self.gap(api(2, 131, 131)), ({"host": 30}, 1))

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
                         {"scheduling": (30, 1, 30), "host": (10, 1, 10),
                          "launch latency": (15, 1, 15)})

    def test_gaps_and_longest_of_a_cause(self):
        lines = [kernel(1, 10, 20), api(2, 24, 25), kernel(2, 30, 40), api(3, 49, 50),
                 kernel(3, 50, 60), api(4, 1, 2), kernel(4, 61, 70), kernel(5, 73, 80)]
        # [20,30): host 4, latency 6; [40,50): host 9, latency 1; [60,61): scheduling 1;
        # [70,73): unknown 3
        self.assertEqual(self.causes(lines, window=0),
                         {"host": (13, 2, 9), "launch latency": (7, 2, 6), "scheduling": (1, 1, 1),
                          "unknown launch": (3, 1, 3)})

    # Which operation ended the gap ---------------------------------------------------------------

    def test_of_several_the_call_that_starts_first(self):
        more = [kernel(3, 130, 131), api(3, 104, 120)]
        self.assertEqual(self.gap(api(2, 105, 106), more=more),
                         ({"host": 4, "launch latency": 26}, 0))
        self.assertEqual(self.gap(api(2, 103, 125, tid=2), more=more),
                         ({"host": 3, "launch latency": 27}, 0))

    def test_of_several_that_start_alike_the_call_that_ends_first(self):
        more = [kernel(3, 130, 190), api(3, 60, 112, tid=2)]
        self.assertEqual(self.gap(api(2, 60, 117), more=more),
                         ({"launch latency": 12, "scheduling": 18}, 0))
        self.assertEqual(self.gap(api(2, 60, 107), more=more),
                         ({"launch latency": 7, "scheduling": 23}, 0))

    def test_of_several_one_without_a_launch_comes_last(self):
        self.assertEqual(self.gap(api(2, 108, 112), more=[kernel(3, 130, 200)]),
                         ({"host": 8, "launch latency": 22}, 0))

    def test_an_empty_operation_does_not_end_a_gap_that_another_ends(self):
        # Not even where it was submitted first, or the other's launch is unknown.
        more = [kernel(3, 130, 130), api(3, 101, 102)]
        self.assertEqual(self.gap(api(2, 108, 112), more=more),
                         ({"host": 8, "launch latency": 22}, 0))
        self.assertEqual(self.gap(more=more), ({"unknown launch": 30}, 0))

    def test_an_empty_operation_ends_a_gap_that_no_other_ends(self):
        lines = [kernel(1, 50, 100), kernel(2, 130, 130), api(2, 108, 112), kernel(3, 130, 130),
                 api(3, 107, 108)]
        self.assertEqual(self.causes(lines), {"host": (7, 1, 7), "launch latency": (23, 1, 23)})

    def test_an_empty_operation_opens_the_span(self):
        lines = [kernel(1, 100, 100), kernel(2, 130, 140), api(2, 108, 112)]
        self.assertEqual(self.causes(lines), {"host": (8, 1, 8), "launch latency": (22, 1, 22)})

    def test_an_empty_operation_within_the_gap_changes_nothing(self):
        self.assertEqual(self.gap(api(2, 120, 122), more=[kernel(3, 110, 110), api(3, 105, 106)]),
                         ({"host": 20, "launch latency": 10}, 0))

    def test_an_operation_that_is_still_running_is_not_what_ended_the_gap(self):
        # Only what starts at its end counts, not what starts while that runs.
        more = [kernel(3, 131, 140), api(3, 101, 102)]
        self.assertEqual(self.gap(api(2, 108, 112), more=more),
                         ({"host": 8, "launch latency": 22}, 0))

    def test_copies_and_sets_end_gaps(self):
        lines = [kernel(1, 50, 100), memset(2, 130, 140), api(2, 108, 112), memcpy(3, 150, 160),
                 api(3, 141, 170)]
        self.assertEqual(self.causes(lines), {"host": (9, 2, 8), "launch latency": (31, 2, 22)})

    # Which call submitted it ---------------------------------------------------------------------

    def test_an_id_used_again(self):
        # 60 and 108 come before the operation, 131 after it: the latest before it is right.
        calls = [api(2, 60, 61), api(2, 108, 112), api(2, 131, 135)]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.gap(*order), ({"host": 8, "launch latency": 22}, 0))

    def test_an_id_used_again_at_the_operations_start(self):
        self.assertEqual(self.gap(api(2, 108, 112), api(2, 130, 135)), ({"host": 30}, 0))

    def test_an_id_used_twice_at_once(self):
        calls = [api(2, 60, 112), api(2, 60, 107, tid=2)]
        for order in (calls, calls[::-1]):
            self.assertEqual(self.gap(*order), ({"launch latency": 7, "scheduling": 23}, 0))

    def test_an_id_used_later_only(self):
        calls = [api(2, 150, 155), api(2, 133, 134)]
        _, checks = self.one_device([kernel(1, 50, 100), kernel(2, 130, 140), *calls])
        self.assertEqual((checks["launches"], checks["unmatched"], checks["clock_faults"]),
                         (1, 1, 1))
        self.assertEqual(self.gap(*calls), ({"host": 30}, 1))

    def test_an_id_after_wrap_around(self):
        big = 2**32 - 1
        lines = [api(big, 10, 11), kernel(big, 20, 30), api(1, 31, 32), kernel(1, 40, 50),
                 api(big, 53, 54), kernel(big, 60, 70), api(1, 74, 75), kernel(1, 80, 90)]
        entry, checks = self.one_device(lines)
        self.assertEqual((checks["launches"], checks["unmatched"]), (4, 0))
        self.assertEqual({c["cause"]: c["total_ns"] for c in entry["idle_by_cause"]},
                         {"host": 1 + 3 + 4, "launch latency": 9 + 7 + 6})

    def test_id_zero_is_none(self):
        _, checks = self.one_device([api(0, 10, 11), kernel(0, 20, 30)])
        self.assertEqual((checks["launches"], checks["unmatched"]), (0, 1))

    def test_driver_calls_are_left_out(self):
        self.assertEqual(self.gap(api(2, 101, 102, domain="driver")), ({"unknown launch": 30}, 0))

    def test_an_untimed_call_is_no_launch_record(self):
        for start, end in ((0, 112), (108, 0), (112, 108), (2**63, 2**63), (108, 2**64 - 1)):
            self.assertEqual(self.gap(api(2, start, end)), ({"unknown launch": 30}, 0))

    def test_an_untimed_call_does_not_hide_a_timed_one(self):
        self.assertEqual(self.gap(api(2, 110, 0), api(2, 108, 112)),
                         ({"host": 8, "launch latency": 22}, 0))


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
                         {"host": 6, "launch latency": 14, "unknown launch": 10})
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
                 api(5, 0, 0, domain="driver")]
        self.assertEqual(self.checks(*lines), self.expect(1, 3, 0, 1))
        self.assertEqual([a["count"] for a in self.summary(ONE_DEVICE + lines)["api"]], [1])

    def test_launches_are_calls_not_operations(self):  # as a graph launch does, E13
        lines = [api(9, 10, 20), kernel(9, 30, 40), kernel(9, 50, 60), api(10, 21, 22),
                 kernel(10, 70, 0), kernel(11, 70, 80), api(12, 23, 24)]
        _, checks = self.one_device(lines)
        self.assertEqual(checks, {"launches": 1, "device_operations": 3, "unmatched": 1,
                                  "dropped": 0, "untimed": 0, "unfinished": 1, "late": 0,
                                  "clock_faults": 0})


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

    def test_driver_calls_are_left_out(self):
        self.assertEqual(self.rows(api(1, 10, 20), api(2, 12, 15, name="cuLaunchKernel",
                                                       domain="driver")),
                         {"cudaLaunchKernel": (1, 10, 10, 0)})

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


class Painting(Case):
    """The same numbers by asking of every nanosecond what it was."""

    @staticmethod
    def random_calls(rng, correlations, pid, tid, low, high, depth=0):
        """Properly nested calls within [low, high]."""
        lines = []
        position = low
        while position < high:
            start = rng.randint(position, min(high, position + 25))
            end = rng.randint(start, min(high, start + 30))
            lines.append(api(rng.choice(correlations), start, end, pid=pid, tid=tid,
                             name=rng.choice(["a", "b_v2", "__a"])))
            if depth < 2 and end - start > 4 and rng.random() < 0.4:
                lines += Painting.random_calls(rng, correlations, pid, tid, start + 1, end - 1,
                                               depth + 1)
            position = end + 1
        return lines

    @staticmethod
    def random_log(rng):
        pids = [1, 2][:rng.randint(1, 2)]
        lines = [line for pid in pids for line in (process(pid), device(pid))]
        correlations = list(range(0, rng.choice([3, 8, 20])))
        for pid in pids:
            for tid in range(rng.randint(0, 2)):
                lines += Painting.random_calls(rng, correlations, pid, tid, 1, 270)
            for _ in range(rng.randint(1, 9)):
                start = rng.randint(1, 280)
                # Coarse times, so that several start together and touch.
                start = start if rng.random() < 0.5 else start // 20 * 20 + 1
                end = start + rng.choice([0, 0, 1, 3, 9, 10, 19])
                make = rng.choice([kernel, memcpy, memset])
                lines.append(make(rng.choice(correlations), start, end, pid=pid))
        rng.shuffle(lines)
        return lines

    @staticmethod
    def painted(lines, window):
        operations = [x for x in lines if x["type"] in ("kernel", "memcpy", "memset")]
        calls = [x for x in lines if x["type"] == "api" and x["correlation"] != 0]

        def launch(operation):
            best = None
            for call in calls:
                if (call["pid"], call["correlation"]) != (operation["pid"],
                                                          operation["correlation"]):
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
                else:
                    better = call["end_ns"] < best["end_ns"]
                if better:
                    best = call
            return best

        def opener(b):
            at_b = [o for o in operations if o["start_ns"] == b]
            if any(o["end_ns"] > b for o in at_b):
                at_b = [o for o in at_b if o["end_ns"] > b]
            best = None
            for call in map(launch, at_b):
                if call is None:
                    continue
                if best is None or call["start_ns"] < best["start_ns"] or (
                        call["start_ns"] == best["start_ns"]
                        and call["end_ns"] < best["end_ns"]):
                    best = call
            return best

        def cause_at(t, a, b, call):
            if call is None:
                return "unknown launch"
            if t < call["start_ns"]:
                return "host"
            if a < call["start_ns"]:
                return "launch latency"
            within_window = t < call["start_ns"] + window
            still_in_call = t < call["end_ns"] < b
            return "launch latency" if within_window or still_in_call else "scheduling"

        first = min(o["start_ns"] for o in operations)
        last = max(o["end_ns"] for o in operations)
        busy = [any(o["start_ns"] <= t < o["end_ns"] for o in operations) for t in range(last)]
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

        causes, faults = {}, 0
        for a, b in gaps:
            call = opener(b)
            if call is not None and call["start_ns"] > b:
                faults += 1
            colours = [cause_at(t, a, b, call) for t in range(a, b)]
            for cause in set(colours):
                total, count, longest = causes.get(cause, (0, 0, 0))
                share = colours.count(cause)
                causes[cause] = (total + share, count + 1, max(longest, share))
        device_numbers = (last - first, sum(busy[first:]), len(gaps),
                          max((b - a for a, b in gaps), default=0))
        launched_by = [launch(o) for o in operations]
        launches = len({id(call) for call in launched_by if call is not None})
        return causes, device_numbers, (launches, launched_by.count(None), faults)

    @staticmethod
    def painted_self(lines):
        """By name, how long its calls were the innermost ones."""
        result = {}
        calls = [x for x in lines if x["type"] == "api"]
        for call in calls:
            result.setdefault(call["name"].strip("_").replace("_v2", ""), 0)
        for thread in {(c["pid"], c["tid"]) for c in calls}:
            for t in range(300):
                around = [c for c in calls if (c["pid"], c["tid"]) == thread
                          and c["start_ns"] <= t < c["end_ns"]]
                if around:
                    inner = max(around, key=lambda c: (c["start_ns"], -c["end_ns"]))
                    result[inner["name"].strip("_").replace("_v2", "")] += 1
        return result

    def test_equals_painting(self):
        seen, faults = set(), 0
        for seed in range(600):
            rng = random.Random(seed)
            lines = self.random_log(rng)
            window = rng.choice([0, 1, 5, 12, 40, 1000])
            summary = self.summary(lines, window)
            (entry,) = summary["devices"]
            checks = summary["checks"]
            causes = {c["cause"]: (c["total_ns"], c["gap_count"], c["longest_ns"])
                      for c in entry["idle_by_cause"]}
            actual = (causes,
                      (entry["span_ns"], entry["busy_ns"], entry["gap_count"],
                       entry["longest_gap_ns"]),
                      (checks["launches"], checks["unmatched"], checks["clock_faults"]))
            self.assertEqual(actual, self.painted(lines, window), f"seed {seed}")
            self.assertEqual(entry["idle_ns"], entry["span_ns"] - entry["busy_ns"])
            seen |= set(causes)
            faults += checks["clock_faults"]
            if seed < 100:
                self.assertEqual({a["name"]: a["self_ns"] for a in summary["api"]},
                                 self.painted_self(lines), f"seed {seed}")
        # The comparison is worth something only if it has met everything.
        self.assertEqual(seen, {"unknown launch", "host", "launch latency", "scheduling"})
        self.assertGreater(faults, 20)

    def test_order_of_lines_means_nothing(self):  # E10
        for seed in range(50):
            rng = random.Random(seed)
            lines = self.random_log(rng)
            expected = self.summary(lines)
            rng.shuffle(lines)
            self.assertEqual(self.summary(lines), expected, f"seed {seed}")


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
    ]

    def setUp(self):
        super().setUp()
        self.log = self.write_log(self.LINES)
        self.document = oracle.summarize(oracle.read_log(self.log), 10_000)
        # As the profiler has it: relative times, and members that the log knows nothing of.
        self.document["trace_start_ns"] = 4_000
        for entry in self.document["devices"]:
            entry["first_start_ns"] -= 4_000
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
        # 4 causes and 2 devices, 4 kernels, 2 copies, 3 functions, 2 processes and the checks
        self.assertGreater(int(out.split()[1]), 80)

    def test_the_hand_made_document_is_what_it_should_be(self):
        causes = {c["cause"]: c["total_ns"] for c in self.document["devices"][0]["idle_by_cause"]}
        # [20 000, 35 000) id 2, [37 000, 42 000) id 3, [43 000, 50 000) id 9, none,
        # [51 000, 60 000) id 4 of process 2, started at 60 001
        self.assertEqual(causes, {"launch latency": 5_000 + 2_000, "scheduling": 10_000,
                                  "host": 3_000 + 9_000, "unknown launch": 7_000})
        self.assertEqual(self.document["checks"],
                         {"launches": 4, "device_operations": 7, "unmatched": 3, "dropped": 0,
                          "untimed": 2, "unfinished": 1, "late": 0, "clock_faults": 1,
                          "malformed": 0})

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
        self.assertGreater(len(paths), 80)
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
                    elif path == ("trace_start_ns",) and not name.startswith("1"):
                        pass  # absent as far as the comparison goes
                    else:
                        self.assertEqual(status, 1, out + err)

    def test_booleans_are_no_integers(self):
        self.document["checks"]["unfinished"] = True
        self.assert_differs("checks.unfinished: ours 1, theirs true")

    def test_every_required_member_matters(self):
        original = self.document
        for path in self.integers(original):
            if path[-1] in ("trace_start_ns", "first_start_ns", "malformed"):
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
        rows += [("devices", 0, "idle_by_cause", i) for i in range(4)]
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
                 ("copies", 0, "source"), ("copies", 0, "destination"), ("api", 0, "name")]
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
        for section in ("processes", "devices", "kernels", "copies", "api", "checks"):
            for value in (None, 7, "x", [7], [None]):
                with self.subTest(section=section, value=value):
                    self.document = copy.deepcopy(original)
                    self.document[section] = value
                    self.assertEqual(self.compare()[0], 1)
                    del self.document[section]
                    self.assertEqual(self.compare()[0], 1)

    def test_difference_tells_path_and_both_values(self):
        self.document["devices"][0]["idle_by_cause"][0]["total_ns"] += 1
        self.document["api"][0]["self_ns"] -= 1
        own = self.document["api"][0]["self_ns"]
        self.assert_differs(
            f"devices[{UUID}].idle_by_cause[host].total_ns: ours 12000, theirs 12001\n",
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
        first, second = self.document["devices"][0]["idle_by_cause"][1:3]
        self.assertEqual((first["cause"], second["cause"]), ("scheduling", "launch latency"))
        self.assert_differs("scheduling", "launch latency")
        for row, change in ((first, -2_000), (second, 2_000)):
            row["total_ns"] += change
            if row is first:
                row["longest_ns"] += change
            else:
                row["longest_ns"] = 7_000
        self.assertEqual(self.compare()[0], 0)

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
        self.assert_bad_log(b'{"type":"overhead","pid":1}\n', "overhead")
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
