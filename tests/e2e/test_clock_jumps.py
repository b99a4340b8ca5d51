#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The wall clock jumps, by days and in both directions: windows, back-offs and deadlines are as long as they were."""
import time

from harness import MULTIPLIER, Case, main, module, wait_for
from odd import OddDaemon

DAY_S = 86400
JUMPS = (3 * DAY_S, -3 * DAY_S)


class Jumps(Case):
    @classmethod
    def setUpClass(cls):
        cls.daemon = OddDaemon("sandboxd-control")

    def setUp(self):
        super().setUp()
        self.addCleanup(self.daemon.shift, 0)

    def crash(self, name):
        self.refused("crashed", self.client.call, name, "segv")

    def up(self, name, restarts):
        wait_for(lambda: (self.client.info(name)["status"], self.client.info(name)["restart_count"]) == ("running", restarts), "restart %d" % restarts)

    def jump(self, seconds):
        """And it is seen to have been one: by what control writes next."""
        self.daemon.shift(seconds)
        since = self.client.events()
        self.client.create("seen", module("tally"), persist=False)
        self.client.destroy("seen")
        at = self.client.events(since=since[-1]["seq"] if since else None)[-1]["at"]
        self.assertAlmostEqual(at / 1000 - time.time(), seconds, delta=3600)

    def test_a_window_is_not_ended_or_emptied(self):
        """What was counted counts after a jump ahead and after one back: the third end of three is one too many."""
        self.client.create("w", module("crash_call"), intensity=2, period_ms=600000)
        for n, seconds in enumerate(JUMPS, 1):
            self.crash("w")
            self.up("w", n)
            before = self.client.info("w")["budget"]
            self.jump(seconds)
            after = self.client.info("w")["budget"]
            self.assertEqual((before["used"], after["used"]), (n, n))
            self.assertLessEqual(after["resets_in_ms"], before["resets_in_ms"])
            self.assertGreater(after["resets_in_ms"], before["resets_in_ms"] - 60000 * MULTIPLIER)
        self.crash("w")
        self.wait_status("w", "failed")
        self.assertEqual(self.client.info("w")["restart_count"], 2)

    def test_a_window_is_not_made_longer(self):
        """It is empty when its time is over, although the wall clock says that it has hardly begun, or is long past."""
        self.client.create("w", module("crash_call"), intensity=1, period_ms=500)
        for n, seconds in enumerate(JUMPS, 1):
            self.crash("w")
            self.up("w", n)
            self.jump(seconds)
            wait_for(lambda: self.client.info("w")["budget"]["used"] == 0, "an empty window")

    def test_back_off_and_deadlines(self):
        """Neither cut short by a jump ahead nor drawn out by one back."""
        c = self.client
        c.create("b", module("crash_call"), intensity=20, period_ms=600000)
        c.create("s", module("stubborn"), shutdown_ms=1000)
        for n in range(1, 4):
            self.crash("b")
            self.up("b", n)
        self.crash("b")
        left = self.client.info("b")["next_restart_in_ms"]
        seen = time.monotonic()
        self.assertEqual(self.client.status("b"), "backoff")
        with self.daemon.client() as d:
            began = time.monotonic()
            stop = d.request("sandbox.stop", id="s")
            self.wait_status("s", "stopping")
            self.jump(JUMPS[0])
            self.assertEqual(d.result(stop)["last_exit"]["reason"], "shutdown_deadline")
            self.assertGreaterEqual(time.monotonic() - began, 1.0)
        self.up("b", 4)
        self.assertGreaterEqual(time.monotonic() - seen, left / 1000 - 0.05)
        self.jump(JUMPS[1])
        self.crash("b")
        self.up("b", 5)


if __name__ == "__main__":
    main()
