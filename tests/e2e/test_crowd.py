#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many sandboxes at once, each with its own process, user and root; all serve; destroyed, or killed with control in between, they leave nothing.
SANDBOXD_CHECK_FULL=1: 2,000 instead of 150."""
import os
import resource
import signal

from harness import IS_ROOT, Case, main, module, read, wait_for

FULL = os.environ.get("SANDBOXD_CHECK_FULL") == "1"
MANY = 2000 if FULL else 150
FILES = 6 * MANY + 512
IN_FLIGHT = 16
LEFT_KIB = 2048  # of both processes together: pages that the allocator can't give back, whatever the number of sandboxes was


def private_kib(pid):
    return sum(int(line.split()[1]) for line in read("/proc/%d/smaps_rollup" % pid).decode().splitlines() if line.startswith("Private_"))


class Crowd(Case):
    def setUp(self):
        super().setUp()
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < FILES:
            self.skipTest("%d sandboxes need %d descriptors" % (MANY, FILES))

    def each(self, method, names, **params):
        """The same request of all, several in flight; gives back the results."""
        results, waiting, names = [], [], list(names)
        while names or waiting:
            while names and len(waiting) < IN_FLIGHT:
                waiting.append(self.client.request(method, id=names.pop(0), **params))
            reply = self.client.reply(waiting.pop(0))
            self.assertIn("result", reply, reply)
            results.append(reply["result"])
        return results

    def control(self):
        return self.client.rpc("daemon.info")["control_pid"]

    def held(self):
        """Of spawner and control, without what waits for the next sandboxes."""
        control = self.control()
        with open("/proc/%d/mountinfo" % self.daemon.pid) as f:
            mounts = sum(1 for line in f if self.daemon.folder in line)
        return {"descriptors": [len(os.listdir("/proc/%d/fd" % pid)) for pid in (self.daemon.pid, control) if IS_ROOT], "mounts": mounts,
                "hosts": len(self.daemon.hosts()), "spares": len(self.daemon.spares()), "objects": self.daemon.objects()}

    def memory_kib(self):
        return private_kib(self.daemon.pid) + private_kib(self.control()) if IS_ROOT else 0

    def come_and_go(self, n):
        names = ["s%d" % i for i in range(n)]
        infos = self.each("sandbox.create", names, object=self.client.put(read(module("tally"))), persist=False)
        pids = [info["pid"] for info in infos]
        self.assertEqual(len(set(pids)), n)
        self.assertEqual(sorted(self.daemon.hosts()), sorted(pids))
        replies = self.each("sandbox.call", names, function="increment", args={})
        self.assertEqual([r["result"] for r in replies], [{"count": 1}] * n)  # none has another's state
        return names

    def test_many_leave_nothing(self):
        self.each("sandbox.destroy", self.come_and_go(20))
        wait_for(lambda: len(self.daemon.spares()) == 4, "the spares")
        before, kib = self.held(), self.memory_kib()
        self.each("sandbox.destroy", self.come_and_go(MANY))
        wait_for(lambda: self.held() == before, "as before: %r" % (before,), timeout=120)
        self.assertLess(self.memory_kib() - kib, LEFT_KIB)

    def test_many_killed_and_taken_over(self):
        """Half of them are killed, control too: the others serve on, and all go."""
        names = self.come_and_go(MANY // 2)
        for info in self.each("sandbox.info", names[::2]):
            os.kill(info["pid"], signal.SIGKILL)
        self.client.close()
        self.daemon.kill_control()
        self.client = self.daemon.client()
        self.addCleanup(self.client.close)
        replies = self.each("sandbox.call", names[1::2], function="increment", args={})
        self.assertEqual([r["result"] for r in replies], [{"count": 2}] * len(names[1::2]))
        self.each("sandbox.destroy", names)
        wait_for(lambda: not self.daemon.hosts() and not self.daemon.objects(), "nothing to be left", timeout=120)


if __name__ == "__main__":
    main()
