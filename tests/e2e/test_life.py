#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Restart by policy, budget and back-off; what the count begins with after a crash, a restart, a stop and start."""
import os
import shutil
import signal
import tempfile

from harness import MULTIPLIER, Case, RpcError, main, module, wait_for


class Life(Case):
    def dies(self, sandbox, function, **args):
        """A call that ends the process; its caller is told."""
        return self.refused("crashed", self.client.call, sandbox, function, **args)

    def comes_back(self, sandbox, restarts):
        return wait_for(lambda: (lambda i: i if i["status"] == "running" and i["restart_count"] == restarts else None)(
            self.client.info(sandbox)), "restart %d" % restarts)

    def ends(self, sandbox, status):
        self.wait_status(sandbox, status)
        info = self.client.info(sandbox)
        self.assertEqual((info["pid"], info["restart_count"]), (None, 0))
        return info

    def test_permanent(self):
        """Comes back after every way to end."""
        self.client.create("p", module("crash_call"), intensity=100)
        deaths = [("segv", {}, "signal", signal.SIGSEGV), ("abort", {}, "signal", signal.SIGABRT), ("fpe", {}, "signal", signal.SIGFPE),
                  ("ill", {}, "signal", signal.SIGILL), ("overflow", {}, "signal", signal.SIGSEGV), ("exit_now", {"status": 3}, "code", 3),
                  ("exit", {"status": 7}, "code", 7), ("exit_now", {"status": 0}, "code", 0), ("raise", {"signal": 15}, "signal", 15)]
        asked = 0
        for n, (function, args, key, value) in enumerate(deaths, 1):
            self.client.rpc("sandbox.start", id="p") if self.client.status("p") == "failed" else None
            e = self.dies("p", function, **args)
            self.assertTrue(e.data["outcome_unknown"])
            last = self.wait_event("p", "sandbox.exited", n)[-1]
            info = wait_for(lambda: (lambda i: i if i["restart_count"] == n + asked else None)(self.client.info("p")), "the restart")
            self.assertEqual(info["last_exit"][key], value, (function, info["last_exit"]))
            self.assertEqual(last["class"], "normal" if value == 0 else "error")
            if n >= 2:  # no need to sit the back-off out: a requested start takes its place
                try:
                    self.client.rpc("sandbox.restart", id="p")
                    asked += 1
                except RpcError as error:
                    self.assertEqual(error.code, "wrong_state")
            self.wait_status("p", "running")

    def test_death_note_names_signal_and_address(self):
        self.client.create("p", module("crash_call"))
        self.dies("p", "segv")
        text = self.comes_back("p", 1)["last_exit"]
        self.assertEqual(text["reason"], "signal SIGSEGV")
        for word in ("SIGSEGV", "0x1234", "segv", "crash_visibly"):
            self.assertIn(word, text["text"])
        self.assertEqual(text["version"], 1)

    def test_transient(self):
        self.client.create("t", module("crash_call"), restart="transient")
        self.dies("t", "exit_now", status=2)
        self.comes_back("t", 1)
        self.client.create("u", module("crash_call"), restart="transient")
        self.dies("u", "segv")
        self.comes_back("u", 1)
        self.client.create("v", module("crash_call"), restart="transient")
        self.refused("crashed", self.client.call, "v", "exit_now", status=0)
        info = self.ends("v", "stopped")
        self.assertEqual(info["last_exit"]["code"], 0)

    def test_temporary(self):
        for n, (function, args, status) in enumerate((("exit_now", {"status": 0}, "stopped"), ("exit_now", {"status": 2}, "failed"),
                                                      ("segv", {}, "failed"), ("raise", {"signal": 15}, "failed"))):
            name = "t%d" % n
            self.client.create(name, module("crash_call"), restart="temporary")
            self.dies(name, function, **args)
            info = self.ends(name, status)
            self.assertEqual(info["status_reason"], "crashed" if status == "failed" else None)
            self.client.rpc("sandbox.start", id=name)
            self.assertEqual(self.client.status(name), "running")

    def test_killed_from_outside(self):
        self.client.create("k", module("tally"))
        self.client.call("k", "increment", by=5)
        pid = self.kill_host("k")
        info = self.comes_back("k", 1)
        self.assertNotEqual(info["pid"], pid)
        self.assertEqual(info["last_exit"]["reason"], "signal SIGKILL")
        self.assertEqual(info["state_from"], "fresh")
        self.assertEqual(self.client.call("k", "get"), {"count": 0})  # a crash restarts fresh, and it says so
        self.assertEqual(info["budget"]["used"], 1)
        self.assertGreater(info["budget"]["resets_in_ms"], 50000)

    def test_budget_and_back_off(self):
        """Five restarts in 60 s: at once, then 100 ms doubling; the sixth end is `failed`, with its reason."""
        self.client.create("b", module("crash_call"))
        seen_backoff = False
        for n in range(1, 6):
            self.dies("b", "segv")
            wait_for(lambda: self.client.info("b")["restart_count"] == n, "restart %d" % n)
            info = self.client.info("b")
            if info["status"] == "backoff":
                seen_backoff = True
                self.assertGreaterEqual(info["backoff"]["until_in_ms"], 0)
                self.assertLessEqual(info["backoff"]["until_in_ms"], 1000)
                self.assertLessEqual(abs(info["next_restart_in_ms"] - info["backoff"]["until_in_ms"]), 1)
                self.assertRegex(info["next"], r"^in \d+ ms it is started$")
                self.assertIsNone(info["pid"])
            self.wait_status("b", "running")
            self.assertEqual(self.client.info("b")["budget"]["used"], n)
        self.assertTrue(seen_backoff)
        delays = [(e["delay_ms"] - e["jitter_ms"], e["jitter_ms"]) for e in self.client.events("b") if e["type"] == "sandbox.restarting"]
        self.assertEqual([d for d, _ in delays], [0, 100, 200, 400, 800])
        self.assertTrue(all(0 <= jitter <= d / 4 for d, jitter in delays), delays)
        self.dies("b", "segv")
        self.wait_status("b", "failed")
        info = self.client.info("b")
        self.assertEqual((info["status_reason"], info["restart_count"], info["pid"]), ("restart budget used up", 5, None))
        self.assertEqual(self.wait_event("b", "sandbox.gave_up")[0]["reason"], "crashed")
        r = self.ctl("info", "b")
        self.assertIn("restart budget used up", r.out)
        self.refused("wrong_state", self.client.call, "b", "exit_now")
        last = self.client.rpc("sandbox.explain", id="b")["decisions"][-1]
        self.assertEqual((last["kind"], last["used"], last["allowed"], last["period_ms"]), ("gave_up", 6, 5, 60000))
        self.assertIn("Restart 6 within 60000 ms is more than the 5 allowed (cause of the last: crashed)", last["text"])
        self.assertIn(last["text"], self.ctl("explain", "b").out)
        self.assertEqual(self.client.rpc("sandbox.reset", id="b")["status"], "stopped")
        self.client.rpc("sandbox.start", id="b")  # begins with a new budget
        self.assertEqual(self.client.info("b")["budget"]["used"], 0)
        self.dies("b", "segv")
        self.wait_status("b", "running")

    def test_intensity_zero(self):
        self.client.create("z", module("tally"), intensity=0)
        self.kill_host("z")
        self.assertEqual(self.ends("z", "failed")["status_reason"], "restart budget used up")

    def test_period(self):
        """What left the window is not counted."""
        self.client.create("w", module("tally"), intensity=1, period_ms=300)
        for n in range(1, 4):
            self.kill_host("w")
            self.comes_back("w", n)
            wait_for(lambda: self.client.info("w")["budget"]["used"] == 0, "an empty window")

    def test_restart_stop_and_start_keep_the_state(self):
        c = self.client
        c.create("s", module("tally"))
        c.call("s", "increment", by=7)
        before = c.info("s")["pid"]
        info = c.rpc("sandbox.restart", id="s")
        self.assertNotEqual(info["pid"], before)
        self.assertEqual((info["status"], info["restart_count"], info["state_from"]), ("running", 1, "kept"))
        self.assertEqual(c.call("s", "increment"), {"count": 8})
        info = c.rpc("sandbox.stop", id="s")
        self.assertEqual((info["status"], info["pid"], info["state_kept"]), ("stopped", None, True))
        self.assertIn("stops at 8", c.log_text("s"))
        self.assertEqual(self.daemon.hosts(), [])
        self.assertEqual(c.rpc("sandbox.start", id="s")["state_from"], "kept")
        self.assertEqual(c.call("s", "get"), {"count": 8})
        self.kill_host("s")  # what was kept is out of date now
        self.comes_back("s", 2)
        self.assertEqual(c.call("s", "get"), {"count": 0})

    def test_state_fresh(self):
        c = self.client
        c.create("f", module("tally"), config={"from": 100})
        c.call("f", "increment")
        self.assertEqual(c.rpc("sandbox.restart", id="f", state="fresh")["state_from"], "fresh")
        self.assertEqual(c.call("f", "get"), {"count": 100})
        c.call("f", "increment")
        self.assertFalse(c.rpc("sandbox.stop", id="f", state="fresh")["state_kept"])
        self.assertEqual(c.rpc("sandbox.start", id="f")["state_from"], "fresh")
        self.assertEqual(c.call("f", "get"), {"count": 100})
        c.call("f", "increment")
        self.assertTrue(c.rpc("sandbox.stop", id="f")["state_kept"])
        self.assertEqual(c.rpc("sandbox.start", id="f", state="fresh")["state_from"], "fresh")
        self.assertEqual(c.call("f", "get"), {"count": 100})

    def test_config_and_labels_stay(self):
        c = self.client
        c.create("c", module("tally"), config={"from": 5}, labels={"team": "a"})
        self.kill_host("c")
        self.comes_back("c", 1)
        self.assertEqual(c.call("c", "get"), {"count": 5})
        self.assertEqual((c.info("c")["labels"], c.info("c")["config"]), ({"team": "a"}, {"from": 5}))


class Explain(Case):
    def test_the_log_outlives_control_and_is_bounded(self):
        self.client.create("e", module("tally"), intensity=100, heartbeat_ms=0)
        before = self.client.rpc("sandbox.explain", id="e")
        self.assertEqual([d["kind"] for d in before["decisions"]], ["asked", "begin", "ready"])
        self.client.close()
        self.daemon.kill_control()
        self.client = self.daemon.client()
        after = self.client.rpc("sandbox.explain", id="e")
        self.assertEqual(after["decisions"][:3], before["decisions"])
        self.assertEqual(after["decisions"][3]["kind"], "taken_over")
        for n in range(1, 5):
            self.kill_host("e")
            wait_for(lambda: self.client.info("e")["restart_count"] == n and self.client.status("e") == "running", "restart %d" % n)
        now = self.client.rpc("sandbox.explain", id="e")
        self.assertEqual((len(now["decisions"]), now["forgotten"] > 0), (16, True))
        self.refused("not_found", self.client.rpc, "sandbox.explain", id="nobody")


class Stopped(Case):
    def test_a_stopped_process_is_followed(self):
        """It would answer nobody for ever; nothing here stops one, so it is killed and its policy decides."""
        self.client.create("a", module("tally"))
        pid = self.kill_host("a", signal.SIGSTOP)
        wait_for(lambda: self.client.info("a")["pid"] not in (pid, None), "the next process")
        self.assertEqual(self.client.call("a", "increment"), {"count": 1})
        self.assertEqual(self.client.info("a")["last_exit"]["reason"], "signal SIGKILL")


class Fuse(Case):
    """Starts that fail later than the first."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxf")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "blown")

    def create(self, how, **params):
        if how == "hang":  # runs into it; the others need only be started on a busy machine too
            params["start_timeout_ms"] = 500 * MULTIPLIER
        self.client.create("f", module("fuse"), profile="low", config={"path": self.path, "how": how}, **params)
        self.client.call("f", "increment", by=3)

    def blow(self):
        with open(self.path, "w"):
            pass

    def test_restart_by_policy_that_fails(self):
        for how in ("fail", "crash", "exit", "hang"):
            with self.subTest(how=how):
                self.create(how, intensity=2)
                self.blow()
                self.kill_host("f")
                self.wait_status("f", "failed")
                info = self.client.info("f")
                self.assertEqual((info["status_reason"], info["restart_count"]), ("restart budget used up", 2))
                reason = self.wait_event("f", "sandbox.gave_up")[-1]["reason"]
                self.assertEqual(reason, {"fail": "host_failed", "crash": "exited_early", "exit": "exited_early", "hang": "start_timeout"}[how])
                os.unlink(self.path)
                self.client.rpc("sandbox.start", id="f")
                self.assertEqual(self.client.call("f", "get"), {"count": 0})
                self.client.destroy("f")

    def test_requested_start_that_fails_keeps_the_state(self):
        for how, code in (("fail", "start_failed"), ("crash", "start_failed"), ("hang", "start_timeout")):
            with self.subTest(how=how):
                self.create(how)
                self.client.rpc("sandbox.stop", id="f", state="fresh")
                self.blow()
                e = self.refused(code, self.client.rpc, "sandbox.start", id="f")
                self.assertEqual(e.data["status"], "failed", e.data)
                self.assertEqual((self.client.status("f"), self.client.info("f")["restart_count"]), ("failed", 0))
                os.unlink(self.path)
                self.client.rpc("sandbox.start", id="f")
                self.client.destroy("f")

    def test_kept_state_needs_no_init(self):
        """A start from a state restores; init is for the first start only."""
        self.create("fail")
        self.client.rpc("sandbox.stop", id="f")
        self.blow()
        self.client.rpc("sandbox.start", id="f")
        self.assertEqual(self.client.call("f", "get"), {"count": 3})

    def test_exit_zero_by_itself(self):
        self.create("fail", restart="permanent")
        self.refused("crashed", self.client.call, "f", "exit", status=0)
        wait_for(lambda: self.client.info("f")["restart_count"] == 1 and self.client.status("f") == "running", "the restart")
        self.assertEqual(self.client.info("f")["last_exit"]["reason"], "ended by itself")


if __name__ == "__main__":
    main()
