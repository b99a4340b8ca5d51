#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A reload that replaces the process: a second one loads the candidate, restores the sealed state and takes over; the one before ends."""
import os
import re
import signal
import threading
import time

from harness import (COUNTER1, COUNTER2, IS_ROOT, Background, Case, Closed, RpcError, example, is_alive, main, module, read, wait_for)


def replace(c, sandbox, path_or_bytes, **params):
    return c.reload(sandbox, path_or_bytes, mode="replace", **params)


class Replace(Case):
    def test_forth_and_back(self):
        c = self.client
        for persist in (True, False):
            with self.subTest(persist=persist):
                before = c.create("a", COUNTER1, persist=persist)
                c.call("a", "increment", by=5)
                r = replace(c, "a", COUNTER2)
                self.assertEqual((r["outcome"], r["from"], r["to"], r["rung"], r["rung_reason"]), ("reloaded", 1, 2, "replace", "asked"))
                self.assertEqual(r["report"]["renamed"], [{"field": "total", "from": "count", "to": "total"}])
                for step in ("spawn", "place", "stage", "quiesce", "save", "load", "promote", "unload"):
                    self.assertGreater(r["steps_us"][step], 0)
                self.assertNotIn("rehearse", r["steps_us"])
                self.assertGreater(r["pause_us"], 0)
                info = c.info("a")
                self.assertNotEqual(info["pid"], before["pid"])
                self.assertEqual((info["version"], info["restart_count"], info["status"]), (2, 0, "running"))
                self.assertIsNone(info["last_exit"])
                self.assertEqual(c.call("a", "increment"), {"count": 6})
                for _ in range(2):  # there and back: the two folders take turns
                    r = c.rpc("sandbox.rollback", id="a", mode="replace")
                    self.assertEqual((r["outcome"], r["rung"]), ("reloaded", "replace"))
                self.assertEqual(c.call("a", "get")["count"], 6)
                self.assertEqual(c.reload("a", COUNTER1)["rung"], "in_place")  # also from the second folder
                self.assertEqual(c.call("a", "get"), {"count": 6})
                c.rpc("sandbox.restart", id="a")
                self.assertEqual(c.call("a", "get"), {"count": 6})
                c.destroy("a")
                wait_for(lambda: self.daemon.objects() == [], "that its folders go")

    def test_events_and_the_end_of_the_old_process(self):
        c = self.client
        before = c.create("a", COUNTER1)
        since = c.events("a")[-1]["seq"]
        replace(c, "a", COUNTER2)
        events = c.events("a", since)
        kinds = [e["type"] for e in events]
        self.assertNotIn("sandbox.exited", kinds)
        begun = next(e for e in events if e["type"] == "reload.begun")
        self.assertEqual((begun["rung"], begun["rung_reason"]), ("replace", "asked"))
        ended = next(e for e in events if e["type"] == "sandbox.replaced")
        self.assertEqual(ended["reason"], "stopped")
        wait_for(lambda: not os.path.exists("/proc/%d" % before["pid"]), "the end of the process before")
        self.assertEqual(next(e for e in events if e["type"] == "reload.committed")["rung"], "replace")

    def test_timers_cross(self):
        c = self.client
        c.create("l", example("light/light"), config={"hold_ms": [300, 3600000, 300]})
        wait_for(lambda: c.call("l", "look")["colour"] == "green", "the first turn")
        c.create("r", example("light/light"), config={"hold_ms": [1000, 3600000, 300]})
        replace(c, "r", example("light/light_v2"))
        self.assertEqual(c.call("r", "look")["colour"], "red")
        wait_for(lambda: c.call("r", "look")["colour"] == "green", "the turn that was due")
        replace(c, "l", example("light/light_v2"))
        self.assertEqual(c.call("l", "look")["colour"], "green")
        left = c.rpc("state.get", id="l")["timers"]["turn"][0]
        self.assertLess(left, 3600000)
        self.assertGreater(left, 3000000)

    def test_what_begins_anew(self):
        c = self.client
        c.create("a", COUNTER1)
        generation = c.info("a")["generation"]
        began = time.monotonic()
        replace(c, "a", COUNTER2)
        info = c.info("a")
        self.assertGreater(info["generation"], generation)
        self.assertLessEqual(c.rpc("sandbox.usage", id="a")["uptime_ms"], (time.monotonic() - began) * 1000 + 1)
        c.rpc("sandbox.restart", id="a")  # counted, as ever
        self.assertEqual(c.info("a")["restart_count"], 1)

    def test_a_crash_of_the_new_process(self):
        """It is an ordinary one: by its probation the version before comes back, later a restart as any."""
        c = self.client
        c.create("a", COUNTER1)
        c.call("a", "increment", by=7)
        replace(c, "a", COUNTER2)
        pid = c.info("a")["pid"]
        os.kill(pid, signal.SIGKILL) if IS_ROOT else c.rpc("sandbox.restart", id="a")
        wait_for(lambda: c.info("a")["pid"] not in (None, pid) and c.status("a") == "running", "the next process")
        self.assertEqual((c.info("a")["version"], c.info("a")["restart_count"]), (2, 1))

    def test_probation(self):
        c = self.client
        c.create("a", module("trial"), intensity=0)
        c.call("a", "increment", by=5)
        self.assertEqual(replace(c, "a", module("trial_v2"))["probation_ms"], 30000)
        c.call("a", "increment")
        self.refused("crashed", c.call, "a", "die", signal=int(signal.SIGSEGV))
        wait_for(lambda: c.status("a") == "running", "the next process")
        self.assertEqual(c.call("a", "get"), {"code": 1, "count": 5})
        info = c.info("a")
        self.assertEqual((info["version"], info["restart_count"], info["probation"]), (1, 0, None))

    def test_what_a_key_came_to(self):
        """Control dies right after the promotion: its successor tells the client that it was reloaded."""
        own = self.own_daemon(options=["--fault", "reload.adopt=kill"])
        with own.client() as c:
            c.create("a", COUNTER1)
            c.call("a", "increment", by=3)
            old, sha = own.control_pid(), c.put(read(COUNTER2))
            with self.assertRaises((Closed, OSError)):
                c.rpc("sandbox.reload", id="a", object=sha, mode="replace", request_key="k")
        own.wait_for_next_control(old)
        with own.client() as c:
            r = wait_for(lambda: c.rpc("request.outcome", request_key="k"), "its outcome")
            self.assertEqual((r["state"], r["result"]["to"]), ("done", 2))
            self.assertIn("reload.completed", [e["type"] for e in c.events("a")])
            self.assertEqual(c.call("a", "get")["count"], 3)
            own.look()

    def test_under_load(self):
        """Fifty replacements and returns, four callers: each acknowledged increment is counted once."""
        c = self.client
        c.create("a", COUNTER1, persist=False)
        c.reload("a", COUNTER2)
        acknowledged, stop = [0] * 4, threading.Event()

        def load(k):
            with self.daemon.client() as d:
                last = 0
                while not stop.is_set():
                    count = d.call("a", "increment")["count"]
                    self.assertGreater(count, last)
                    last = count
                    acknowledged[k] += 1

        loads = [Background(load, k) for k in range(4)]
        pids = set()
        for n in range(50):
            if n % 2:
                r = c.rpc("sandbox.rollback", id="a", mode="replace")
            else:
                r = replace(c, "a", COUNTER1)
            self.assertEqual((r["outcome"], r["rung"]), ("reloaded", "replace"))
            pids.add(c.info("a")["pid"])
        stop.set()
        for b in loads:
            b.result()
        self.assertEqual(c.call("a", "get")["count"], sum(acknowledged))
        self.assertGreater(len(pids), 45)
        self.assertEqual(c.info("a")["restart_count"], 0)
        self.daemon.look()

    def test_a_failure_costs_the_second_process_only(self):
        c = self.client
        before = c.create("a", module("tally"))
        for n in range(3):
            c.call("a", "increment")
        for candidate, step in (("fail_migrate", "load"), ("fail_check", "load"), ("crash_restore", "load"), ("crash_load", "stage"),
                                ("exit_migrate", "load"), ("hang_migrate", "load"), ("mismatch", "load")):
            with self.subTest(candidate):
                with self.assertRaises(RpcError) as e:
                    replace(c, "a", module(candidate), rehearse_timeout_ms=700)
                self.assertEqual((e.exception.data["step"], e.exception.data["outcome"], e.exception.data["rung"]),
                                 (step, "nothing_changed", "replace"), e.exception.data)
                info = c.info("a")
                self.assertEqual((info["pid"], info["version"], info["restart_count"]), (before["pid"], 1, 0))
                self.assertEqual(c.call("a", "get")["count"], 3)
        with self.assertRaises(RpcError) as e:
            replace(c, "a", COUNTER1)
        self.assertEqual((e.exception.code, e.exception.data["step"]), ("bad_module", "stage"))
        self.daemon.look()

    def test_a_candidate_that_forges_its_answers(self):
        """It says that it is loaded, ready and committed before it is. What it says too early counts for nothing, and what it says in time says it of
        itself: it can't make the sandbox serve an older process's calls, and the one that serves goes on."""
        c = self.client
        before = c.create("a", module("tally"))
        c.call("a", "increment")
        with self.assertRaises(RpcError) as e:
            replace(c, "a", module("forge_ready"), rehearse_timeout_ms=3000)
        self.assertEqual(e.exception.data["outcome"], "nothing_changed", e.exception.data)
        self.assertEqual((c.info("a")["pid"], c.call("a", "get")), (before["pid"], {"count": 1}))
        self.assertEqual(replace(c, "a", module("tally_v2"))["outcome"], "reloaded")
        self.daemon.look()

    def test_what_a_dead_candidate_still_says(self):
        """Its FAILED is read when its exit is known, and ends the transaction while the rest of what it said is being read."""
        own = self.own_daemon()  # its generations are small numbers
        c = own.client()
        self.addCleanup(c.close)
        c.create("a", module("tally"))
        control, hosts = own.control_pid(), own.hosts()
        with own.client() as d:
            n = c.request("sandbox.reload", id="a", object=c.put(read(module("forge_failed"))), mode="replace")
            wait_for(lambda: any(e.get("next") == "stage" for e in d.events("a")), "that the candidate is told what to load")
            os.kill(control, signal.SIGSTOP)
            try:
                wait_for(lambda: own.hosts() == hosts, "the end of the candidate")
            finally:
                os.kill(control, signal.SIGCONT)
        with self.assertRaises(RpcError) as e:
            c.result(n)
        self.assertEqual((e.exception.data["step"], e.exception.data["outcome"]), ("stage", "nothing_changed"), e.exception.data)
        self.assertEqual((own.control_pid(), c.call("a", "get")), (control, {"count": 0}))
        own.look()

    def test_a_lie_about_the_old_process(self):
        """The new one says that the old one has unloaded; the old one doesn't end by itself. Only its exit counts, and it is killed in time."""
        c = self.client
        before = c.create("a", module("forge_lingers"))
        n = c.request("sandbox.reload", id="a", object=c.put(read(module("forge"))), mode="replace")
        with self.daemon.client() as d:
            wait_for(lambda: d.info("a")["pid"] not in (None, before["pid"]), "the promotion")
            for number in range(8):
                d.call("a", "message", type=74, number=number, generation=d.info("a")["generation"])
        self.assertIs(c.result(n)["old_process_killed"], True)
        wait_for(lambda: not is_alive(before["pid"]), "the end of the process before")
        self.wait_event("a", "sandbox.replaced")

    def test_a_stop_ends_the_old_process_too(self):
        c = self.client
        before = c.create("a", module("forge_lingers"))
        n = c.request("sandbox.reload", id="a", object=c.put(read(module("forge"))), mode="replace")
        with self.daemon.client() as d:
            wait_for(lambda: d.info("a")["pid"] not in (None, before["pid"]), "the promotion")
            d.rpc("sandbox.stop", id="a")
        self.assertIs(c.result(n)["old_process_killed"], True)
        wait_for(lambda: not is_alive(before["pid"]), "the end of the process before")

    def test_what_the_old_process_never_answered(self):
        """It says that no call runs, and has not answered one: its caller learns that nobody will."""
        c = self.client
        c.create("a", module("mute"))
        n = c.request("sandbox.call", id="a", function="swallow")
        with self.daemon.client() as d:
            self.assertEqual(d.call("a", "ping"), {"calls": 1})  # behind it, so the channel is back
            self.assertEqual(replace(d, "a", read(module("mute")) + b"\0")["outcome"], "reloaded")
            self.assertEqual(d.call("a", "ping"), {"calls": 2})
        with self.assertRaises(RpcError) as e:
            c.result(n)
        self.assertEqual((e.exception.code, e.exception.data["outcome_unknown"]), ("crashed", True))

    def test_what_was_pending(self):
        """The second process is made by the spec as it is, so it brings all but the config, which only an init is given."""
        c = self.client
        c.create("a", COUNTER1)
        pending = c.rpc("sandbox.update", id="a", profile="low", strict=False, address_space="fresh", config={"a": 1})["pending"]
        self.assertEqual(sorted(pending), ["address_space", "config", "profile"])
        self.assertEqual(c.reload("a", COUNTER2)["rung"], "in_place")
        self.assertEqual(c.info("a")["pending"], pending)
        replace(c, "a", COUNTER1)
        self.assertEqual((c.info("a")["pending"], c.info("a")["profile"]), (["config"], "low"))
        old = self.daemon.control_pid()
        self.daemon.kill_control()
        self.daemon.wait_for_next_control(old)
        with self.daemon.client() as d:
            self.assertEqual(d.info("a")["pending"], ["config"])
            d.rpc("sandbox.restart", id="a")
            self.assertEqual(d.info("a")["pending"], [])
            d.destroy("a")

    def test_high_is_replaced(self):
        c = self.client
        before = c.create("a", COUNTER1, profile="high")
        c.call("a", "increment", by=2)
        r = c.reload("a", COUNTER2)
        self.assertEqual((r["rung"], r["rung_reason"]), ("replace", "profile high"))
        self.assertNotEqual(c.info("a")["pid"], before["pid"])
        r = c.rpc("sandbox.rollback", id="a", mode="in_place")
        self.assertEqual((r["rung"], r["rung_reason"]), ("in_place", "asked"))
        self.assertEqual(c.call("a", "get"), {"count": 2})
        self.assertEqual(c.rpc("sandbox.reload", id="a", object=c.put(read(COUNTER2)), check=True)["rung"], "replace")

    def test_pinned_objects_are_bounded(self):
        """After four that its process couldn't unload it is replaced, so that memory and mappings stay as they are."""
        c = self.client
        whole = read(module("pins_each"))
        c.create("p", whole, keep_versions=3)
        rungs, resident = [], []
        for n in range(1, 31):
            r = c.reload("p", whole + b"\0" * n)
            rungs.append(r["rung"])
            self.assertEqual(c.call("p", "increment"), {"count": n})
            if r["rung"] == "replace":
                self.assertIn("pinned: ", r["rung_reason"])
                self.assertIsNone(r["pinned"])
            else:
                self.assertIsNotNone(r["pinned"])
            with open("/proc/%d/status" % c.info("p")["pid"], encoding="utf-8") as f:
                resident.append(int(re.search(r"VmRSS:\s*(\d+)", f.read()).group(1)))
        self.assertEqual(rungs, (["in_place"] * 4 + ["replace"]) * 6)
        self.assertLess(max(resident[5:]), max(resident[:5]) + 512)  # KiB
        for n in range(4):
            c.reload("p", whole + b"\0" * (40 + n), mode="in_place")
        self.assertIn("pinned: ", str(self.refused("limit_exceeded", c.reload, "p", whole + b"\0" * 50, mode="in_place")))
        self.assertEqual(c.reload("p", whole + b"\0" * 51)["rung"], "replace")

    def test_what_three_states_have_no_room_for_is_replaced(self):
        c = self.client
        c.create("kv", example("kv/kv"), limits={"max_memory": 64 << 20})
        c.call("kv", "load", n=300000)
        whole = read(example("kv/kv"))
        r = c.rpc("sandbox.reload", id="kv", object=c.put(whole + b"\0"), mode="auto")
        self.assertEqual((r["rung"], r["rung_reason"]), ("replace", "memory: needs 3 x state"))
        self.assertEqual(c.call("kv", "count"), {"count": 300000})

    def test_threads(self):
        """A thread of the module's may change the state that is saved: refused before anything is held up, and why."""
        c = self.client
        c.create("t", module("lasting_thread"))
        c.call("t", "begin")
        for mode in ("auto", "in_place", "replace"):
            e = self.refused("busy", c.reload, "t", read(module("lasting_thread")) + b"\0", mode=mode)
            self.assertIn("threads: 2", str(e))
        c.call("t", "end")
        self.assertEqual(replace(c, "t", read(module("lasting_thread")) + b"\0")["outcome"], "reloaded")

    def test_fresh_and_low(self):
        c = self.client
        before = c.create("f", COUNTER1, address_space="fresh")
        replace(c, "f", COUNTER2)
        self.assertNotEqual(c.info("f")["pid"], before["pid"])
        c.create("l", COUNTER1, profile="low")
        for n in range(3):
            c.call("l", "increment")
            c.reload("l", (COUNTER2, COUNTER1)[n % 2], mode=("in_place", "replace")[n % 2])
        replace(c, "l", COUNTER1)
        self.assertEqual(c.call("l", "get")["count"], 3)

    def test_bad_mode(self):
        c = self.client
        c.create("a", COUNTER1)
        for mode in ("cold", "", 3, None):
            self.refused("bad_param", c.rpc, "sandbox.reload", id="a", object=c.put(read(COUNTER2)), mode=mode)

    def test_a_stop_meanwhile(self):
        """It comes while the candidate hangs in its state: the reload is given up, and the sandbox stops with its state."""
        c = self.client
        c.create("a", module("tally"))
        c.call("a", "increment")
        n = c.request("sandbox.reload", id="a", object=c.put(read(module("hang_migrate"))), mode="replace", rehearse_timeout_ms=60000)
        self.wait_event("a", "reload.step", 7)  # spawn to seal
        c.rpc("sandbox.stop", id="a")
        self.assertEqual(c.reply(n)["error"]["data"]["outcome"], "nothing_changed")
        c.rpc("sandbox.start", id="a")
        self.assertEqual(c.call("a", "get")["count"], 1)


if __name__ == "__main__":
    main()
