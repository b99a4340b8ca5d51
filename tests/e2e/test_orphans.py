#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A host is pid 1 of its sandbox: what a module's processes leave behind is reaped, and calls go on meanwhile."""
import time

from harness import MULTIPLIER, Case, descendants, main, module, wait_for

ORPHANS = 10000


class Orphans(Case):
    def create(self, profile, **params):
        self.client.create("n", module("nursery"), profile=profile, **params)
        self.pid = self.client.info("n")["pid"]
        with open("/proc/%d/status" % self.pid) as f:  # which everybody may read
            numbers = next(line for line in f if line.startswith("NSpid:")).split()[1:]
        self.assertEqual(numbers[-1], "1")
        self.assertGreater(len(numbers), 1)

    def others(self):
        """All in its pid namespace but the host, zombies too: whoever's parent ends there comes to the host."""
        return descendants(self.pid)

    def test_ten_thousand_orphans(self):
        """At most 60 at a time: all slots are zombies unless they are reaped. Calls go on, within a bound that an unbounded turn would break."""
        self.create("high", limits={"max_processes": 60})
        self.client.call("n", "orphans", n=ORPHANS)
        slowest = calls = made = 0
        end = time.monotonic() + 10 * MULTIPLIER
        while True:
            began, before = time.monotonic(), made
            made = self.client.call("n", "made")["made"]
            if made > before:
                end = began + 10 * MULTIPLIER  # how many a second is the machine's matter
            slowest, calls = max(slowest, time.monotonic() - began), calls + 1
            if made >= ORPHANS:
                break
            self.assertLess(time.monotonic(), end, "%d orphans were made" % made)
        self.assertLess(slowest, 1.0 * MULTIPLIER)
        self.assertGreater(calls, 100)
        wait_for(lambda: not self.others(), "the last of them to be reaped")
        self.assertEqual(self.client.info("n")["pid"], self.pid)

    def test_idle(self):
        """Nobody calls: they are reaped all the same."""
        self.create("medium", limits={"max_processes": 60})
        self.client.call("n", "orphans", n=500)
        wait_for(lambda: not self.others(), "the end of the last of 500")
        self.assertEqual(self.client.call("n", "made"), {"made": 500})

    def test_children_that_nobody_waits_for(self):
        self.create("high", limits={"max_processes": 60})
        for _ in range(5):
            made = self.client.call("n", "leave", n=40)["made"]
            self.assertEqual(made, 40)
            wait_for(lambda: not self.others(), "the children to be reaped")

    def test_a_threads_children_are_its_own(self):
        self.create("medium")
        self.client.call("n", "thread")
        wait_for(lambda: self.client.call("n", "made")["made"] == 50, "50 children of the thread")
        self.assertEqual(self.client.call("n", "lost"), {"lost": 0})

    def test_a_reload_meanwhile(self):
        """The host's own copies are its children too, and are waited for by name."""
        self.create("medium", limits={"max_processes": 1000})
        self.client.call("n", "orphans", n=1000, slowly=True)
        data = open(module("nursery"), "rb").read()
        for i in range(5):
            result = self.client.reload("n", data + b"\0" * (i + 1))
            self.assertEqual(result["outcome"], "reloaded")
        wait_for(lambda: not self.others(), "the last of them to be reaped")


if __name__ == "__main__":
    main()
