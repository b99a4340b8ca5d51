#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The control process is killed (SIGKILL): hosts run on, and its successor knows all that mattered."""
import os
import signal
import threading

from harness import COUNTER1, COUNTER2, Background, Case, Closed, OwnCase, RpcError, main, module, read, wait_for


class ControlKill(Case):
    def kill_control(self):
        """SIGKILL to the process that daemon.info names; self.client is a new connection to the next one."""
        old, new = self.daemon.kill_control()
        self.assertNotEqual(old, new)
        self.client.close()
        self.client = self.daemon.client()
        return old

    def test_everything_survives(self):
        c = self.client
        c.create("plain", module("tally"), config={"from": 5}, labels={"a": "b"}, restart="transient", intensity=7)
        c.create("reloaded", COUNTER1)
        c.call("reloaded", "increment", by=3)
        c.reload("reloaded", COUNTER2)
        c.rpc("version.commit", id="reloaded")  # probation would end with control
        c.create("crashed", module("tally"))
        for n in (1, 2):
            self.kill_host("crashed")
            wait_for(lambda: c.info("crashed")["restart_count"] == n and c.status("crashed") == "running", "the restart")
        c.create("stopped", module("tally"))
        c.call("stopped", "increment", by=9)
        c.rpc("sandbox.stop", id="stopped")
        c.create("failed", module("tally"), restart="temporary")
        self.kill_host("failed")
        self.wait_status("failed", "failed")
        c.call("plain", "say", text="said before")
        wait_for(lambda: "said before" in c.log_text("plain"), "the log")
        names = ["plain", "reloaded", "crashed", "stopped", "failed"]
        wait_for(lambda: all(c.info(n)["durable"] for n in names), "the registry to be written")
        before = {n: c.info(n) for n in names}
        versions = {n: c.rpc("version.list", id=n) for n in names}
        spawner, epoch = self.daemon.pid, c.rpc("daemon.info")["epoch"]
        hosts = sorted(self.daemon.hosts())
        old = self.kill_control()
        c = self.client
        info = c.rpc("daemon.info")
        self.assertEqual((info["pid"], info["epoch"]), (spawner, epoch + 1))
        self.assertFalse(os.path.exists("/proc/%d" % old))
        self.assertEqual(sorted(self.daemon.hosts()), hosts)
        self.assertEqual(sorted(c.ids()), sorted(names))
        changing = {"last_exit", "queue", "budget", "started_at", "security", "state_from"}
        for n in names:
            wait_for(lambda: c.info(n)["durable"] == before[n]["durable"], "the registry to be read")
            after = c.info(n)
            for key in set(before[n]) - changing:
                self.assertEqual(after[key], before[n][key], (n, key))
            self.assertEqual(after["budget"]["used"], before[n]["budget"]["used"])
            self.assertEqual(c.rpc("version.list", id=n), versions[n])
        self.assertEqual(c.call("plain", "get"), {"count": 5})
        self.assertEqual(c.call("reloaded", "get"), {"count": 3, "step": 1, "owner": "nobody"})
        self.assertIn("said before", c.log_text("plain"))
        self.assertIn("daemon.taken_over", [e["type"] for e in c.events()])
        self.refused("wrong_state", c.call, "stopped", "get")
        c.rpc("sandbox.start", id="stopped")
        self.assertEqual(c.call("stopped", "get"), {"count": 9})
        self.assertEqual(c.rpc("sandbox.rollback", id="reloaded")["to"], 1)
        self.assertEqual(c.call("reloaded", "increment"), {"count": 4})
        self.kill_host("crashed")  # supervised as before
        wait_for(lambda: c.info("crashed")["restart_count"] == 3 and c.status("crashed") == "running", "the restart")

    def test_budget_goes_on(self):
        c = self.client
        c.create("a", module("tally"), intensity=2)
        self.kill_host("a")
        wait_for(lambda: c.info("a")["restart_count"] == 1 and c.status("a") == "running", "the restart")
        self.kill_control()
        self.kill_host("a")
        wait_for(lambda: self.client.info("a")["restart_count"] == 2 and self.client.status("a") == "running", "the restart")
        self.kill_control()
        self.kill_host("a")
        self.wait_status("a", "failed")

    def test_while_a_host_starts_again(self):
        """It has said READY, and nobody has read it: it serves on, with the state that it began with."""
        c = self.client
        since = c.since
        c.create("a", module("slow_make"))
        c.call("a", "increment")
        c.rpc("sandbox.stop", id="a")
        made = c.log_text("a").count("being made")
        with self.daemon.client() as d:
            d.request("sandbox.start", id="a")
            wait_for(lambda: c.log_text("a").count("being made") > made, "the start")
            pid = c.info("a")["pid"]
            self.kill_control()
        self.wait_status("a", "running")
        self.assertEqual(self.client.call("a", "increment"), {"count": 2})
        info = self.client.info("a")
        self.assertEqual((info["pid"], info["restart_count"], info["state_from"]), (pid, 0, "kept"))
        self.assertNotIn("sandbox.killed", [e["type"] for e in self.client.events("a", since)])

    def test_logs_written_meanwhile(self):
        """What a module says while no control is there is kept, and it never blocks."""
        c = self.client
        c.create("p", module("prints"))
        c.call("p", "line", text="early")
        d, _ = self.start_call("p", "flood", lines=30000)
        self.kill_control()
        wait_for(lambda: self.client.info("p")["queue"]["running"] == 0, "the call's end")
        self.client.call("p", "line", text="late")
        wait_for(lambda: "late" in self.client.log_text("p"), "the last line")
        with self.assertRaises((Closed, OSError)):
            d.line()

    def test_during_calls(self):
        """The client sees its connection end; the call finishes once; the count is consistent."""
        c = self.client
        pid = c.create("a", module("slow_tally"))["pid"]
        d, _ = self.start_call("a", "increment", us=300000)
        self.kill_control()
        with self.assertRaises((Closed, OSError)):
            d.line()
        self.assertEqual(self.client.info("a")["pid"], pid)
        self.assertEqual(self.client.call("a", "increment"), {"count": 2})

    def test_under_load_twenty_times(self):
        """20 x SIGKILL while four clients increment: hosts keep their pid; what was acknowledged is counted, at most one more per
        client and kill may have happened without its acknowledgement."""
        c = self.client
        pid = c.create("a", module("slow_tally"))["pid"]
        stop, acknowledged, cut = threading.Event(), [0] * 4, [0] * 4

        def work(n):
            while not stop.is_set():
                try:
                    with self.daemon.client() as d:
                        while not stop.is_set():
                            d.call("a", "increment", us=200)
                            acknowledged[n] += 1
                except (Closed, OSError):
                    cut[n] += 1

        workers = [Background(work, n) for n in range(4)]
        for i in range(20):
            there = sum(acknowledged)
            wait_for(lambda: sum(acknowledged) >= there + 20, "work")
            self.kill_control()
            self.assertEqual(self.client.info("a")["pid"], pid)
        stop.set()
        for w in workers:
            w.result()
        count = self.client.call("a", "get")["count"]
        self.assertGreaterEqual(count, sum(acknowledged))
        self.assertLessEqual(count, sum(acknowledged) + sum(cut))
        self.assertEqual(self.client.info("a")["restart_count"], 0)
        self.assertEqual(self.client.rpc("daemon.info")["epoch"] >= 21, True)
        self.assertEqual(len(self.daemon.hosts()), 1)

    def test_during_a_start(self):
        """A create that was cut off keeps nothing."""
        def run():
            with self.daemon.client() as d:
                return d.create("x", module("hang_init"), start_timeout_ms=60000)

        create = Background(run)
        wait_for(lambda: "x" in self.client.ids() and self.client.info("x")["pid"], "the start")
        self.daemon.look()
        self.kill_control()
        with self.assertRaises((Closed, OSError)):
            create.result()
        wait_for(lambda: self.client.ids() == [] and not self.daemon.hosts(), "nothing to be left")
        wait_for(lambda: self.daemon.objects() == [], "no folder to be left")

    def test_during_a_restart(self):
        """A host that dies while no control is there is restarted by the next."""
        c = self.client
        c.create("a", module("tally"), config={"from": 50})
        host = c.info("a")["pid"]
        control = c.rpc("daemon.info")["control_pid"]
        os.kill(control, signal.SIGSTOP)
        os.kill(host, signal.SIGKILL)
        os.kill(control, signal.SIGKILL)
        self.daemon.wait_for_next_control(control)
        self.client = self.daemon.client()

        def runs_again():
            info = self.client.info("a")
            return info["status"] == "running" and info["pid"] not in (None, host)

        wait_for(runs_again, "the restart")
        self.assertEqual(self.client.info("a")["restart_count"], 1)
        self.assertEqual(self.client.info("a")["last_exit"]["reason"], "signal SIGKILL")
        self.assertEqual(self.client.call("a", "get"), {"count": 50})

    def test_during_a_stop(self):
        c = self.client
        c.create("a", module("stubborn"), shutdown_ms=1500)
        c.call("a", "increment", by=5)
        with self.daemon.client() as d:
            d.request("sandbox.stop", id="a")
            wait_for(lambda: c.status("a") == "stopping", "the stop")
            self.kill_control()
        self.wait_status("a", "stopped", "running")
        if self.client.status("a") == "stopped":
            self.client.rpc("sandbox.start", id="a")
        self.assertEqual(self.client.call("a", "get"), {"count": 5})

    def test_during_a_compilation(self):
        """The job ends, nothing is left, the id is free."""
        source = b"#include <sandbox_module.h>\n" + b"".join(
            b"int f%d(int x);\nint f%d(int x) { return x * %d; }\n" % (i, i, i) for i in range(20000))
        with self.daemon.client() as d:
            sha = d.put(source)
            d.request("sandbox.create", id="x", source=sha, source_name="long.c")
            wait_for(lambda: [r for r in self.daemon.tree() if "cc1" in r], "the compiler")
            self.daemon.look()
            self.kill_control()
        self.assertEqual(self.client.ids(), [])
        wait_for(lambda: not [r for r in self.daemon.tree() if "cc1" in r], "the compiler's end")
        self.client.create("x", COUNTER1)

    def test_during_a_load_that_hangs(self):
        """Nobody but the dead control had a deadline for it: its successor gives it one, and nothing acknowledged is lost."""
        c = self.client
        c.create("h", module("tally"))
        c.call("h", "increment", by=5)
        with self.daemon.client() as d:
            d.request("sandbox.reload", id="h", object=d.put(read(module("hang_real_load"))))
            wait_for(lambda: any(e["type"] == "reload.step" and e["next"] == "load" for e in c.events("h")), "the load")
            self.kill_control()
        self.assertEqual(self.client.call("h", "get", timeout_ms=60000), {"count": 5})
        info = self.client.info("h")
        self.assertEqual((info["version"], info["restart_count"], info["state_from"]), (1, 0, "sealed"))

    def test_silent_host(self):
        """One that is busy in a call when control dies is found running, and answers when it is done."""
        c = self.client
        c.create("s", module("sleeper"))
        pid = c.info("s")["pid"]
        self.start_call("s", "sleep", ms=1500)
        self.kill_control()
        self.assertEqual((self.client.status("s"), self.client.info("s")["pid"]), ("running", pid))
        self.assertEqual(self.client.call("s", "sleep", ms=0), {"naps": 2})
        self.refusable_reload("s")

    def refusable_reload(self, sandbox):
        try:
            self.assertEqual(self.client.reload(sandbox, module("slow_rehearsal"))["to"], 2)
        except RpcError as e:
            self.fail("a reload after a take-over: %s" % e)


class BeforeIt(OwnCase):
    """Control ends by itself (--fault) just where it would tell the spawner what it has begun."""

    def again(self, c, method, **params):
        """As a client with a key does: asks again until it is answered."""
        while True:
            try:
                return c.rpc(method, **params)
            except (Closed, OSError):
                c.close()
                c = wait_for(self.connected, "the next control")
                c.put(read(COUNTER1))

    def connected(self):
        try:
            return self.daemon.client()
        except OSError:
            return None

    def test_a_create_whose_start_is_not_recorded(self):
        """The spec says that nothing was begun: it is undone, and not taken for one that was made."""
        self.daemon = self.own_daemon(options=("--fault", "spec.memfd=kill:2"))
        c = self.daemon.client()
        info = self.again(c, "sandbox.create", id="x", object=c.put(read(COUNTER1)), request_key="once")
        self.assertEqual((info["status"], info["restart_count"]), ("running", 0))
        with self.daemon.client() as c:
            self.assertEqual(c.info("x")["pid"], info["pid"])
            self.assertEqual(c.call("x", "increment"), {"count": 1})
            self.assertEqual(c.rpc("daemon.info")["epoch"], 2)

    def test_a_restart_whose_start_is_not_sent(self):
        """The end that was ordered is still there, and the spec says that the next start has begun: it is not that start's end."""
        self.daemon = self.own_daemon(options=("--fault", "start.send=kill:2"))
        c = self.daemon.client()
        c.create("x", read(COUNTER1), restart="transient")
        c.call("x", "increment", by=3)
        info = self.again(c, "sandbox.restart", id="x", request_key="once")
        self.assertEqual((info["status"], info["restart_count"], info["state_from"]), ("running", 1, "kept"))
        with self.daemon.client() as c:
            self.assertEqual(c.call("x", "get")["count"], 3)
            self.assertEqual([e for e in c.events("x") if e["type"] == "sandbox.crashed"], [])
            self.assertEqual(c.rpc("daemon.info")["epoch"], 2)


if __name__ == "__main__":
    main()
