"""The lessons: the slow variant of each leads to its finding first, the fixed variant does not.

  python3 tests/lessons_test.py BUILD_DIRECTORY [unittest arguments]

Every run is compared with the ground truth of the virtual GPU as well. No time is asserted: the
lessons are made so that their finding stands out on a busy machine, too.
"""

import unittest

import end_to_end_test
from end_to_end_test import SAMPLES

# Lesson: the rule that its slow variant must lead to.
LESSONS = {
    "data_loader": "host-bound",
    "first_launches": "module loading",
    "gpu_bound": "GPU-bound",
    "malloc_in_loop": "allocation in the loop",
    "many_launches": "launch-bound",
    "pageable_copies": "pageable copies",
    "readback": "readback",
    "sync_every_step": "synchronization-bound",
    "two_threads": "host-bound",
}


class Lessons(end_to_end_test.EndToEnd):
    def check_lesson(self, name):
        program = SAMPLES / "lessons" / name
        outcome, slow = self.profile([program, "slow"], "--no-trace")
        rules = [finding["rule"] for finding in slow["findings"]]
        self.assertEqual(rules[:1], [LESSONS[name]], outcome.stderr)
        self.check_screen(outcome.stderr)

        outcome, fixed = self.profile([program, "fixed"], "--no-trace")
        rules = [finding["rule"] for finding in fixed["findings"]]
        self.assertNotIn(LESSONS[name], rules, outcome.stderr)
        self.check_screen(outcome.stderr)
        self.assertGreater(fixed["checks"]["device_operations"], 0)
        return slow, fixed

    def test_every_lesson_is_tested(self):
        sources = (end_to_end_test.SOURCE / "samples" / "lessons").glob("*.cu")
        self.assertEqual(sorted(path.stem for path in sources), sorted(LESSONS))

    def test_wrong_arguments(self):
        for words in ([], ["quick"], ["slow", "fixed"]):
            with self.subTest(words=words):
                outcome = self.run_profiler(
                    "--virtual-gpu", "--no-trace", "--", SAMPLES / "lessons" / "readback", *words)
                self.assertEqual(outcome.status, 2, outcome.stderr)
                self.assertIn("slow|fixed", outcome.stderr)

    def test_data_loader(self):
        slow, _ = self.check_lesson("data_loader")
        self.assertEqual(slow["devices"][0]["idle_by_nvtx"][0]["name"], "load batch")

    def test_first_launches(self):
        self.check_lesson("first_launches")

    def test_gpu_bound(self):
        self.check_lesson("gpu_bound")

    def test_malloc_in_loop(self):
        self.check_lesson("malloc_in_loop")

    def test_many_launches(self):
        self.check_lesson("many_launches")

    def test_pageable_copies(self):
        self.check_lesson("pageable_copies")

    def test_readback(self):
        self.check_lesson("readback")

    def test_sync_every_step(self):
        self.check_lesson("sync_every_step")

    def test_two_threads(self):
        slow, _ = self.check_lesson("two_threads")
        # The thread that launched is the one that was late, and it was another one's wait that held
        # it up.
        device = slow["devices"][0]
        self.assertEqual(device["idle_by_thread"][0]["name"], "launcher")


if __name__ == "__main__":
    unittest.main()
