#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sandboxd as PID 1 of a pid namespace, as in a container: it reaps whatever is left to it, tells every end as it was, and ends in order."""
import contextlib
import os
import signal
import subprocess
import unittest

from harness import DEADLINE_S, IS_ROOT, MULTIPLIER, Case, Closed, Daemon, RpcError, all_processes, descendants, is_alive, main, module, proc_stat, read, wait_for

FULL = os.environ.get("SANDBOXD_CHECK_FULL") == "1"
LITTERS, EACH = (8, 50) if FULL else (4, 50)  # 400 orphans, or 200
CRASHES = 5 if FULL else 2  # of each of the 20


class FirstDaemon(Daemon):
    """process is unshare(1), which goes when the namespace does; its child is sandboxd, whose pid in there is 1."""

    def argv(self):
        return ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", *super().argv()]

    def first(self):
        return [pid for pid, s in all_processes().items() if s[1] == self.pid][0]

    def terminate(self):
        self.look()
        if self.process.poll() is None:
            os.kill(self.first(), signal.SIGTERM)
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError("PID 1 did not end within %d s of SIGTERM; it has %r" % (DEADLINE_S, self.tree()))


@unittest.skipUnless(IS_ROOT, "only root can make a pid namespace without a user namespace")
class PidOne(Case):
    @classmethod
    def setUpClass(cls):
        cls.daemon = FirstDaemon()

    @staticmethod
    def children(pid):
        return len([1 for s in all_processes().values() if s[1] == pid])

    def zombies(self):
        return [pid for pid, _ in descendants(self.daemon.pid) if (proc_stat(pid) or "?")[0] == "Z"]

    def up(self, name, restarts):
        return wait_for(lambda: (lambda i: i if (i["status"], i["restart_count"]) == ("running", restarts) else None)(self.client.info(name)),
                        "restart %d of %s" % (restarts, name))

    def not_spare(self):
        """How many processes there are below it, but for those that are made in advance: they come and go."""
        n = 0
        for pid, _ in descendants(self.daemon.pid):
            with contextlib.suppress(OSError):
                n += not read("/proc/%d/comm" % pid).startswith(b"sandbox-spare")
        return n

    def test_orphans_and_crashes(self):
        first = self.daemon.first()
        with open("/proc/%d/status" % first) as f:
            self.assertEqual([line.split()[-1] for line in f if line.startswith("NSpid:")], ["1"])
        litters = ["litter%d" % i for i in range(LITTERS)]
        for name in litters:
            self.client.create(name, module("forker"), profile="low", limits={"max_processes": 200})
        for n in range(20):
            self.client.create("c%d" % n, module("crash_call"), intensity=CRASHES)
        steady, children = self.not_spare(), self.children(first)
        clients = [self.daemon.client() for _ in litters]
        requests = [c.request("sandbox.call", id=name, function="litter", args={"n": EACH, "ms": 2000}) for c, name in zip(clients, litters)]
        wait_for(lambda: self.children(first) >= children + 20, "orphans to come to PID 1")
        for crash in range(1, CRASHES + 1):
            for n in range(20):
                self.refused("crashed", self.client.call, "c%d" % n, *(("exit_now",) if n % 2 else ("segv",)), **({"status": n + crash} if n % 2 else {}))
            for n in range(20):
                last = self.up("c%d" % n, crash)["last_exit"]
                self.assertEqual((last.get("code"), last.get("signal")), (n + crash, None) if n % 2 else (None, signal.SIGSEGV))
        for c, request in zip(clients, requests):
            c.result(request)
            c.close()
        wait_for(lambda: self.not_spare() <= steady, "the end of all orphans", 5 * MULTIPLIER)
        wait_for(lambda: not self.zombies(), "the zombies to be reaped", 1 * MULTIPLIER)
        for name in litters:
            self.assertEqual((self.client.status(name), self.client.info(name)["restart_count"]), ("running", 0))

    def test_it_ends_in_order(self):
        """Asked once: modules are told, states are kept, status 0; the next one, in a namespace of its own, has them."""
        self.client.create("s", module("tally"))
        self.client.call("s", "increment", by=5)
        self.client.create("f", module("forker"), profile="low")
        self.client.call("f", "daemon")
        self.client.close()
        everybody = descendants(self.daemon.pid)
        self.assertEqual(self.daemon.terminate(), 0)
        self.assertFalse([pid for pid, start in everybody if is_alive(pid, start)])
        self.daemon.start()
        self.client = self.daemon.client()
        wait_for(lambda: self.client.status("s") == "running", "s to run")
        self.assertEqual(self.client.call("s", "get"), {"count": 5})
        self.assertIn("stops at 5", self.client.log_text("s"))

    def test_control_that_dies_is_replaced(self):
        self.client.create("s", module("tally"))
        self.client.call("s", "increment")
        pid = self.client.info("s")["pid"]
        self.client.close()
        control = [p for p, _ in descendants(self.daemon.pid) if is_alive(p) and self.comm(p) == "sandboxd-contro"][0]
        os.kill(control, signal.SIGKILL)

        def served():
            try:
                with self.daemon.client() as c:
                    return c.info("s")
            except (OSError, RpcError, Closed):
                return None

        wait_for(lambda: not is_alive(control), "the end of control")
        info = wait_for(served, "the next control")
        self.client = self.daemon.client()
        self.assertEqual((info["pid"], self.client.call("s", "get")), (pid, {"count": 1}))
        wait_for(lambda: not self.zombies(), "the zombies to be reaped", 1 * MULTIPLIER)

    @staticmethod
    def comm(pid):
        try:
            with open("/proc/%d/comm" % pid) as f:
                return f.read().strip()
        except OSError:
            return ""


if __name__ == "__main__":
    main()
