#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What users of other supervisors ran into: processes that survive a stop, zombies, storms, windows, stop and start, last words, races."""
import os
import signal
import time
import unittest

from harness import IS_ROOT, MULTIPLIER, Background, Case, RpcError, descendants, is_alive, main, module, proc_stat, wait_for

FULL = os.environ.get("SANDBOXD_CHECK_FULL") == "1"  # last words: at the size that was reported


class Supervision(Case):
    def up(self, name, restarts=None):
        return wait_for(lambda: (lambda i: i if i["status"] == "running" and restarts in (None, i["restart_count"]) else None)(self.client.info(name)),
                        "%s to run" % name)

    def zombies(self):
        return [pid for pid, _ in descendants(self.daemon.pid) if (proc_stat(pid) or "?")[0] == "Z"]

    def test_what_left_the_session_ends_with_the_sandbox(self):
        for ending in ("stop", "kill", "destroy"):
            self.client.create("f", module("forker"), shutdown_ms=2000, profile="low")
            pids = [self.client.call("f", "daemon")["pid"] for _ in range(3)] + [self.client.call("f", "child")["pid"]]
            self.assertTrue(all(is_alive(p) for p in pids))
            if ending == "kill":
                old = self.kill_host("f")
                wait_for(lambda: self.client.info("f")["pid"] not in (old, None), "the next process")
            elif ending == "stop":
                self.assertEqual(self.client.rpc("sandbox.stop", id="f")["status"], "stopped")
            else:
                self.client.destroy("f")
            wait_for(lambda: not any(is_alive(p) for p in pids), "the end of all", 2 * MULTIPLIER)
            if ending != "destroy":
                self.client.destroy("f")

    def test_only_what_is_its_own_ends_with_it(self):
        """Orphans of two sandboxes are children of the same spawner, and perhaps the same user's."""
        for name in ("f", "g"):
            self.client.create(name, module("forker"), profile="low")
        ours, theirs = ([self.client.call(name, "daemon")["pid"] for _ in range(3)] for name in ("f", "g"))
        self.client.destroy("f")
        wait_for(lambda: not any(is_alive(p) for p in ours), "the end of its own", 2 * MULTIPLIER)
        self.assertTrue(all(is_alive(p) for p in theirs))
        self.kill_host("g")
        self.up("g", 1)
        wait_for(lambda: not any(is_alive(p) for p in theirs), "the end of the other's", 2 * MULTIPLIER)

    @unittest.skipUnless(IS_ROOT, "hosts refuse to be looked into by their own user")
    def test_output_that_somebody_still_holds(self):
        """The drain of an ended host's pipes ends, and what comes later is said to be lost; once, and only where somebody holds them."""
        def lines():
            return [x["text"] for x in self.client.rpc("log.read", id="f", lines=1000)["lines"] if "isn't read any more" in x["text"]]

        self.client.create("f", module("forker"))
        self.kill_host("f")
        self.up("f", 1)
        self.assertEqual(lines(), [])
        pid = self.client.info("f")["pid"]
        with open("/proc/%d/fd/1" % pid, "wb", buffering=0) as held:
            self.kill_host("f")
            self.up("f", 2)
            self.assertEqual([("process %d has ended" % pid) in text and "holds its stdout:" in text for text in lines()], [True])

            def closed():
                try:
                    held.write(b"late\n")
                except BrokenPipeError:
                    return True
                return False

            wait_for(closed, "the pipe to be closed by control and spawner")
        self.kill_host("f")
        self.up("f", 3)
        self.assertEqual(len(lines()), 1)

    def test_one_that_leaves_no_mark_ends_too(self):
        """Lowered, the mark by which an ordinary user's daemon knows it is nobody's: that ends at the next end, and so does what it makes then."""
        self.client.create("f", module("forker"), profile="low")
        pids = [self.client.call("f", "unmarked")["pid"] for _ in range(3)]
        self.assertTrue(all(is_alive(p) for p in pids))
        self.client.destroy("f")
        wait_for(lambda: not any(is_alive(p) for p in pids), "the end of all", 2 * MULTIPLIER)

    def test_orphans_and_twenty_that_crash(self):
        """Nobody stays a zombie, and every status is told as it was."""
        self.client.create("f", module("forker"))
        for n in range(20):
            self.client.create("c%d" % n, module("crash_call"))
        for _ in range(10):
            self.client.call("f", "brood")
        for n in range(20):
            self.refused("crashed", self.client.call, "c%d" % n, *(("exit_now",) if n % 2 else ("segv",)), **({"status": n + 1} if n % 2 else {}))
        for n in range(20):
            last = self.up("c%d" % n, 1)["last_exit"]
            self.assertEqual((last.get("code"), last.get("signal")), (n + 1, None) if n % 2 else (None, signal.SIGSEGV))
        wait_for(lambda: not self.zombies(), "the zombies to be reaped", 10 * MULTIPLIER)

    def test_a_storm_of_mixed_causes_ends(self):
        """Exactly so many restarts as allowed, whatever they are for; none sooner than its back-off."""
        self.client.create("x", module("crash_call"), intensity=4)
        causes = [("segv", {}), ("exit_now", {"status": 0}), ("abort", {}), ("exit_now", {"status": 9}), ("fpe", {})]
        for function, args in causes:
            self.up("x")
            self.refused("crashed", self.client.call, "x", function, **args)
        self.wait_status("x", "failed")
        self.assertEqual(self.client.info("x")["restart_count"], 4)
        events = self.client.events("x")
        delays = [e["delay_ms"] for e in events if e["type"] == "sandbox.restarting"]
        self.assertEqual(len(delays), 4)
        ends = [e["at"] for e in events if e["type"] == "sandbox.exited"]
        starts = [e["at"] for e in events if e["type"] == "sandbox.status" and e["status"] == "starting"]
        for end, start, delay in zip(ends, starts[1:], delays):
            self.assertGreaterEqual(start - end, delay - 2)

    def test_a_slow_start_trips_as_well(self):
        """Each start alone takes longer than the whole window: it stands still until the sandbox is up."""
        path = os.path.join(self.daemon.folder, "blown")
        for how, start_timeout_ms in (("hang", 400 * MULTIPLIER), ("crash", 10000 * MULTIPLIER)):
            # a crash at once leaves the window by its back-off alone: 0, 100, 200, 400 ms
            period_ms, intensity = (int(start_timeout_ms * 3 / 4), 2) if how == "hang" else (250, 4)
            self.client.create("s", module("fuse"), profile="low", config={"path": path, "how": how}, start_timeout_ms=int(start_timeout_ms),
                               period_ms=period_ms, intensity=intensity)
            with open(path, "w"):
                pass
            try:
                self.kill_host("s")
                self.wait_status("s", "failed")
                info = self.client.info("s")
                self.assertEqual((info["restart_count"], info["budget"]["allowed"]), (intensity, intensity))
            finally:
                os.unlink(path)
            self.client.destroy("s")

    def test_the_reply_comes_when_the_tree_is_empty(self):
        """Behind a pid namespace, where nothing can be missed: at the moment of the answer nobody is left, whoever wouldn't stop by himself."""
        for method in ("sandbox.stop", "sandbox.restart", "sandbox.destroy"):
            self.client.create("f", module("forker"), profile="medium")
            for function in ("child", "daemon", "child"):
                self.client.call("f", function)
            host = self.client.info("f")["pid"]
            tree = descendants(host) | {(host, proc_stat(host)[2])}
            self.assertGreaterEqual(len(tree), 4)
            self.client.rpc(method, id="f")
            self.assertEqual([pid for pid, start in tree if is_alive(pid, start)], [], method)
            if method != "sandbox.destroy":
                self.client.destroy("f")

    def test_a_start_that_hangs_is_stopped_at_once(self):
        """Not when its start's time is over."""
        path = os.path.join(self.daemon.folder, "blown")
        for method in ("sandbox.stop", "sandbox.destroy"):
            self.client.create("s", module("fuse"), profile="low", config={"path": path, "how": "hang"}, start_timeout_ms=600000)
            with open(path, "w"):
                pass
            try:
                self.kill_host("s")
                wait_for(lambda: self.client.info("s")["status"] == "starting" and self.client.info("s")["pid"], "the start that hangs")
                began = time.monotonic()
                self.client.rpc(method, id="s")
                self.assertLess(time.monotonic() - began, 10 * MULTIPLIER)
            finally:
                os.unlink(path)
            if method == "sandbox.stop":
                self.client.destroy("s")

    def test_a_stable_time_ends_the_streak(self):
        """Ready for a tenth longer than period_ms: the next restart is at once, and counts no more than one."""
        self.client.create("x", module("crash_call"), period_ms=500, intensity=3)
        for n in range(1, 5):
            ready = time.monotonic()  # at the latest
            wait_for(lambda: time.monotonic() - ready >= 0.55, "the stable time")
            self.refused("crashed", self.client.call, "x", "segv")
            self.assertEqual(self.up("x", n)["budget"]["allowed"], 3)
        events = [e for e in self.client.events("x") if e["type"] == "sandbox.restarting"]
        self.assertEqual([e["delay_ms"] for e in events], [0, 0, 0, 0])

    def test_the_window(self):
        """Ends that are further apart never trip it; one too many within it does; reset re-arms."""
        self.client.create("w", module("crash_call"), intensity=2, period_ms=1500)
        for n in range(1, 4):
            self.refused("crashed", self.client.call, "w", "segv")
            self.up("w", n)
            wait_for(lambda: self.client.info("w")["budget"]["used"] == 0, "an empty window")
        for n in range(3):
            self.up("w")
            self.refused("crashed", self.client.call, "w", "segv")
        self.wait_status("w", "failed")
        info = self.client.info("w")
        self.assertEqual((info["budget"]["used"], info["budget"]["allowed"]), (3, 2))
        self.assertGreater(info["budget"]["resets_in_ms"], 0)
        self.assertEqual(self.client.rpc("sandbox.reset", id="w")["budget"]["used"], 0)
        self.client.rpc("sandbox.start", id="w")
        self.refused("crashed", self.client.call, "w", "segv")
        self.up("w")

    def test_start_while_it_stops(self):
        """It comes back as another process, never two at once; the stop is told that it was overtaken."""
        self.client.create("s", module("stubborn"), shutdown_ms=700)
        old = self.client.info("s")["pid"]
        with self.daemon.client() as c:
            stop = c.request("sandbox.stop", id="s")
            self.wait_status("s", "stopping")
            start = self.client.rpc("sandbox.start", id="s")
            self.assertEqual(c.reply(stop)["error"]["data"]["code"], "wrong_state")
        self.assertEqual(start["status"], "running")
        self.assertNotEqual(start["pid"], old)
        self.assertFalse(is_alive(old))
        self.assertEqual(len(self.daemon.hosts()), 1)

    def test_last_words(self):
        """All that it says when it is stopped is there; a child that holds the pipe doesn't hold up the stop."""
        runs, lines = (40, 100000) if FULL else (6, 20000)
        last = "farewell %d" % lines
        for run in range(runs):
            self.client.create("f", module("farewell"), shutdown_ms=60000)
            self.client.call("f", "prepare", lines=lines, holds=run % 3 == 2)
            began = time.monotonic()
            self.assertEqual(self.client.rpc("sandbox.stop", id="f")["status"], "stopped")
            self.assertLess(time.monotonic() - began, 20 * MULTIPLIER)
            wait_for(lambda: last in self.client.log_text("f"), "its last line", 5 * MULTIPLIER)
            self.assertIn(last, self.client.info("f")["last_exit"]["words"])
            self.client.destroy("f")

    def test_two_race_on_one_id(self):
        def work(method):
            def run():
                with self.daemon.client() as c:
                    for _ in range(15):
                        try:
                            if method == "sandbox.create":
                                c.create("r", module("tally"))
                            else:
                                c.rpc(method, id="r")
                        except RpcError as e:
                            if e.code == "internal_error":
                                raise
                return True
            return run

        methods = ["sandbox.create", "sandbox.start", "sandbox.stop", "sandbox.destroy", "sandbox.freeze", "sandbox.thaw", "sandbox.reset"]
        self.assertTrue(all(b.result() for b in [Background(work(m)) for m in methods]))
        self.assert_healthy()
        if "r" in self.client.ids():
            self.client.destroy("r")
        wait_for(lambda: not self.daemon.hosts(), "the end of all hosts")


if __name__ == "__main__":
    main()
