#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many sandboxes crash at once. tests/run.py runs it when nothing else does: it measures."""
import os
import signal
import time

from harness import MULTIPLIER, Case, main, module, wait_for

CAP_SYS_NICE = 23


def read_text(path):
    with open(path) as f:
        return f.read()


def may_raise():
    effective = next(line for line in read_text("/proc/self/status").splitlines() if line.startswith("CapEff:"))
    return int(effective.split()[1], 16) >> CAP_SYS_NICE & 1 == 1


class Storm(Case):
    def test_five_hundred_crash_while_another_serves(self):
        """Its calls stay quick, and all of them come back."""
        n = 500
        sha = None
        with self.daemon.client() as c:
            sha = self.client.create("calm", module("tally"))["sha256"]
            requests = []
            for i in range(n):
                requests.append(c.request("sandbox.create", id="s%d" % i, object=sha, persist=False))
                if len(requests) >= 24:
                    c.result(requests.pop(0))
            for r in requests:
                c.result(r)
        goal = 0.05 * MULTIPLIER
        p99 = goal
        for _ in range(3):  # what others do at the time is no fault of the daemon
            p99 = min(p99, self.storm(n))
            if p99 < goal:
                break
        self.assertLess(p99, goal)

    def test_control_comes_first(self):
        """It has more weight than the hosts, where it can be had: as root."""
        self.client.create("one", module("tally"))
        control, host = self.daemon.control_pid(), self.client.info("one")["pid"]
        before = os.getpriority(os.PRIO_PROCESS, self.daemon.pid)
        wanted = max(before - 10, -20) if may_raise() else before
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, control), wanted)
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, host), before)
        if os.path.exists("/proc/self/autogroup"):
            self.assertIn("nice %d" % (-10 if may_raise() else 0), read_text("/proc/%d/autogroup" % control))
            self.assertIn("nice 0", read_text("/proc/%d/autogroup" % host))

    def storm(self, n):
        pids = {row["id"]: row["pid"] for row in self.rows() if row["id"] != "calm"}
        self.assertEqual(len(pids), n)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        times = []

        def back():
            began = time.monotonic()
            self.client.call("calm", "increment")
            times.append(time.monotonic() - began)
            return len(times) % 50 == 0 and all(r["status"] == "running" and r["pid"] != pids.get(r["id"]) for r in self.rows())

        wait_for(back, "all to come back", 120 * MULTIPLIER)
        times.sort()
        p99 = times[int(len(times) * 0.99) - 1]
        print("500 crashes at once: %d calls of another sandbox meanwhile, median %.1f ms, p99 %.1f ms" % (
            len(times), times[len(times) // 2] * 1000, p99 * 1000))
        return p99

    def rows(self):
        rows, params = [], {}
        while True:
            page = self.client.rpc("sandbox.list", **params)
            rows += page["sandboxes"]
            if not page["next"]:
                return rows
            params["after"] = page["next"]


if __name__ == "__main__":
    main()
