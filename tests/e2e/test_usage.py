#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: what the processes of a sandbox use, against what they are made to use."""
from harness import COUNTER1, IS_ROOT, Case, main, module


class Usage(Case):
    def usage(self, sandbox="x"):
        return self.client.rpc("sandbox.usage", id=sandbox)

    def test_an_idle_one(self):
        c = self.client
        c.create("x", COUNTER1, limits={"max_memory": 32 << 20, "max_processes": 7, "max_open_files": 20})
        c.call("x", "increment")
        u = self.usage()
        self.assertEqual((u["processes"], u["threads"], u["max_processes"]), (1, 1, 7))
        self.assertEqual(u["pid"], c.info("x")["pid"])
        self.assertTrue(0 < u["memory"]["anon"] < 16 << 20, u)
        self.assertEqual(u["memory"]["limit"], 32 << 20)
        self.assertGreaterEqual(u["memory"]["peak"], u["memory"]["anon"])
        self.assertTrue(u["open_files"] is None or 3 <= u["open_files"] <= 20, u)
        self.assertEqual((u["queue"]["waiting"], u["queue"]["done"]), (0, 1))
        self.assertTrue(u["complete"])
        self.assertIn(u["by"], ("proc", "cgroup"))
        self.assertGreaterEqual(u["cpu"]["percent"], 0)

    def test_processor_time(self):
        """A function that spins for 300 ms is seen as such, whatever the machine does beside it."""
        c = self.client
        c.create("x", module("beats"))
        before = self.usage()
        c.call("x", "spin", ms=300)
        after = self.usage()
        spent = after["cpu"]["time_us"] - before["cpu"]["time_us"]
        self.assertGreater(spent, 10000)
        self.assertGreater(after["cpu"]["percent"], 0)
        self.assertGreaterEqual(after["cpu"]["over_ms"], 300)
        self.assertAlmostEqual(after["cpu"]["percent"], spent / 10 / after["cpu"]["over_ms"], delta=2 + after["cpu"]["percent"] / 10)

    def test_children_and_threads(self):
        c = self.client
        c.create("x", module("forker"))
        c.call("x", "child")
        self.assertEqual(self.usage()["processes"], 2)
        c.call("x", "thread")
        self.assertEqual(self.usage()["threads"], 3)
        if IS_ROOT:  # or in a pid namespace, where they come to the host
            c.create("y", module("forker"), profile="low")
            c.call("y", "daemon")
            self.assertIn(self.usage("y")["processes"], (2, 3))  # the third is one that ended and that nobody waits for
            self.assertEqual(self.usage()["processes"], 2)
        c.call("x", "daemon")
        self.assertIn(self.usage()["processes"], (3, 4))

    def test_errors(self):
        c = self.client
        self.refused("not_found", self.usage)
        c.create("x", COUNTER1)
        c.rpc("sandbox.stop", id="x")
        self.refused("wrong_state", self.usage)
        self.refused("missing_param", c.rpc, "sandbox.usage")
        self.assertEqual(self.ctl("usage", "x").status, 4)

    def test_shown(self):
        self.client.create("x", COUNTER1)
        out = self.ctl("usage", "x").out
        for word in ("memory anon", "memory limit", "1 of 100", "cpu percent", "threads"):
            self.assertIn(word, out)


if __name__ == "__main__":
    main()
