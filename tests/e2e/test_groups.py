#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Groups: order, strategies, budgets, escalation, significant members, requests in every state, over the deaths of control and of the daemon."""
import json
import os
import signal

from harness import COUNTER1, Background, Case, OwnCase, RpcError, main, module, wait_for


class Grouped(Case):
    def _after(self):
        super()._after()
        if self.daemon.process.poll() is not None:
            return
        with self.daemon.client() as c:
            for g in reversed(c.rpc("group.list")["groups"]):  # those that are in others came later
                try:
                    c.rpc("group.destroy", id=g["id"])
                except RpcError:
                    pass

    def group(self, name, **params):
        return self.client.rpc("group.create", id=name, **params)

    def member(self, name, group, kind="tally", **params):
        return self.client.create(name, module(kind), group=group, **params)

    def info(self, name):
        return self.client.rpc("group.info", id=name)

    def group_is(self, name, status):
        return wait_for(lambda: (lambda g: g if g["status"] == status else None)(self.info(name)), "group %s to be %s" % (name, status))

    def pid(self, name):
        return self.client.info(name)["pid"]

    def pids(self, names):
        return {n: self.pid(n) for n in names}

    def next_pid(self, name, old):
        return wait_for(lambda: (lambda i: i["pid"] if i["status"] == "running" and i["pid"] != old else None)(self.client.info(name)),
                        "another process of %s" % name)

    def in_group(self, group):
        return [(m["id"], m["in_group"]) if m["type"] == "sandbox" else (m["id"], m["status"]) for m in self.info(group)["members"]]

    def kinds(self, *kinds):
        return [(e["type"], e.get("child") or e.get("group")) for e in self.client.events() if e["type"] in kinds]


class Groups(Grouped):
    def test_bad_requests(self):
        c = self.client
        self.group("g")
        self.refused("already_exists", self.group, "g")
        self.refused("invalid_id", self.group, "x/../y")
        self.refused("bad_param", self.group, "h", strategy="one_for_nobody")
        self.refused("bad_param", self.group, "h", intensity=101)
        self.refused("bad_param", self.group, "h", period_ms=0)
        self.refused("not_found", self.group, "h", parent="nobody")
        self.refused("bad_param", self.group, "h", significant=True)
        self.refused("bad_param", self.group, "h", parent="g", significant=True, restart="transient")
        self.refused("unknown_param", self.group, "h", wrong=1)
        self.refused("not_found", self.member, "a", "nobody")
        self.refused("bad_param", self.member, "a", "g", significant=True)
        self.refused("already_exists", self.client.create, "g", module("tally"))
        self.member("a", "g")
        self.refused("already_exists", self.group, "a")
        self.refused("wrong_state", c.rpc, "group.destroy", id="g")
        self.refused("wrong_state", c.rpc, "group.add", id="g", sandbox="a")
        self.refused("not_found", c.rpc, "group.remove", id="g", sandbox="b")
        self.refused("not_found", c.rpc, "group.add", id="g", sandbox="b")
        self.refused("wrong_state", c.rpc, "group.start", id="g")
        self.refused("wrong_state", c.rpc, "sandbox.start", id="a")
        for method in ("info", "destroy", "start", "stop", "restart", "reset", "tree"):
            self.refused("not_found", c.rpc, "group." + method, id="nobody")
        self.assertEqual(self.in_group("g"), [("a", "running")])

    def test_one_for_one_touches_nobody_else(self):
        self.group("g", intensity=3)
        for n in "abc":
            self.member(n, "g")
        before = self.pids("abc")
        os.kill(before["b"], signal.SIGKILL)
        self.next_pid("b", before["b"])
        after = self.pids("abc")
        self.assertEqual((after["a"], after["c"]), (before["a"], before["c"]))
        self.assertEqual(self.info("g")["budget"]["used"], 1)
        self.assertEqual(self.client.info("b")["restart_count"], 1)
        self.assertEqual(self.client.info("b")["group"], "g")

    def test_rest_for_one(self):
        self.group("g", strategy="rest_for_one")
        for n in "abc":
            self.member(n, "g")
        for n in "abc":
            self.client.call(n, "increment", by=4)
        before = self.pids("abc")
        os.kill(before["b"], signal.SIGKILL)
        self.next_pid("b", before["b"])
        self.next_pid("c", before["c"])
        self.assertEqual(self.pid("a"), before["a"])
        self.assertEqual([self.client.call(n, "get")["count"] for n in "abc"], [4, 0, 0])
        self.assertEqual(self.info("g")["budget"]["used"], 1)  # one end, one count

    def test_one_for_all_in_order(self):
        self.group("g", strategy="one_for_all")
        for n in "abc":
            self.member(n, "g")
        before = self.pids("abc")
        since = self.client.events()[-1]["seq"]
        os.kill(before["b"], signal.SIGKILL)
        for n in "abc":
            self.next_pid(n, before[n])
        events = [e for e in self.client.events(since=since) if e["type"] in ("sandbox.exited", "sandbox.running")]
        self.assertEqual([(e["type"][8:], e["sandbox"]) for e in events],
                         [("exited", "b"), ("exited", "c"), ("exited", "a"), ("running", "a"), ("running", "b"), ("running", "c")])

    def test_stop_is_in_reverse_and_keeps_the_states(self):
        self.group("g")
        for n in "abc":
            self.member(n, "g")
            self.client.call(n, "increment", by=7)
        since = self.client.events()[-1]["seq"]
        self.assertEqual(self.client.rpc("group.stop", id="g")["status"], "down")
        self.assertEqual([e["sandbox"] for e in self.client.events(since=since) if e["type"] == "sandbox.exited"], ["c", "b", "a"])
        self.assertEqual(self.daemon.hosts(), [])
        self.assertEqual(self.client.rpc("group.stop", id="g")["status"], "down")  # as asked already
        self.refused("wrong_state", self.client.rpc, "sandbox.start", id="a")
        self.refused("wrong_state", self.member, "d", "g")
        self.assertNotIn("d", self.client.ids())
        since = self.client.events()[-1]["seq"]
        self.assertEqual(self.client.rpc("group.start", id="g")["status"], "up")
        self.assertEqual([e["sandbox"] for e in self.client.events(since=since) if e["type"] == "sandbox.running"], ["a", "b", "c"])
        self.assertEqual([self.client.call(n, "get")["count"] for n in "abc"], [7, 7, 7])
        before = self.pids("abc")
        self.assertEqual(self.client.rpc("group.restart", id="g")["status"], "up")
        self.assertEqual(set(self.pids("abc").values()) & set(before.values()), set())

    def test_members_by_request(self):
        c = self.client
        self.group("g")
        self.member("a", "g")
        self.member("b", "g")
        c.call("a", "increment", by=3)
        self.assertEqual(c.rpc("sandbox.stop", id="a")["status"], "stopped")
        self.assertEqual(self.in_group("g"), [("a", "undefined"), ("b", "running")])
        self.assertEqual(c.rpc("sandbox.start", id="a")["state_from"], "kept")
        self.assertEqual(c.call("a", "get"), {"count": 3})
        self.assertEqual(c.rpc("sandbox.restart", id="a")["state_from"], "kept")
        self.assertEqual(c.rpc("sandbox.restart", id="a", state="fresh")["state_from"], "fresh")
        self.assertEqual(self.info("g")["budget"]["used"], 0)  # requests are never counted
        c.create("lone", module("tally"))
        pid = self.pid("lone")
        self.assertEqual(c.rpc("group.add", id="g", sandbox="lone")["group"], "g")
        self.assertEqual(self.pid("lone"), pid)  # it ran, and runs on
        self.assertEqual([n for n, _ in self.in_group("g")], ["a", "b", "lone"])
        os.kill(pid, signal.SIGKILL)
        self.next_pid("lone", pid)
        self.assertEqual(self.info("g")["budget"]["used"], 1)
        c.call("lone", "increment", by=2)
        info = c.rpc("group.remove", id="g", sandbox="lone")
        self.assertEqual((info["group"], info["status"], info["state_from"]), (None, "running", "kept"))
        self.assertEqual([n for n, _ in self.in_group("g")], ["a", "b"])
        pid = self.pid("lone")
        os.kill(pid, signal.SIGKILL)
        self.next_pid("lone", pid)  # by its own policy
        self.assertEqual(c.info("lone")["budget"]["used"], 1)
        c.destroy("a")
        self.assertEqual([n for n, _ in self.in_group("g")], ["b"])
        c.destroy("b")
        self.assertEqual(c.rpc("group.destroy", id="g"), {"id": "g", "destroyed": True})

    def test_restart_types(self):
        self.group("g")
        self.member("p", "g", "crash_call")
        self.member("t", "g", "crash_call", restart="transient")
        self.member("u", "g", "crash_call", restart="temporary")
        for n in "tu":
            self.refused("crashed", self.client.call, n, "exit_now", status=0)
        wait_for(lambda: self.client.status("t") == self.client.status("u") == "stopped", "both to be down")
        self.assertEqual(self.info("g")["budget"]["used"], 0)
        old = self.pid("p")
        self.refused("crashed", self.client.call, "p", "exit_now", status=0)
        self.next_pid("p", old)
        self.assertEqual(self.info("g")["budget"]["used"], 1)
        self.assertEqual(self.client.rpc("sandbox.start", id="u")["status"], "running")
        self.refused("crashed", self.client.call, "u", "segv")
        self.wait_status("u", "failed")
        self.assertEqual(self.info("g")["status"], "up")

    def test_giving_up_and_reset(self):
        self.group("g", intensity=1)
        self.member("a", "g", "crash_call")
        self.member("b", "g")
        for _ in range(2):
            wait_for(lambda: self.client.status("a") == "running", "it to run")
            self.refused("crashed", self.client.call, "a", "segv")
        g = self.group_is("g", "failed")
        self.assertEqual((g["status_reason"], g["budget"]["used"]), ("too many restarts within the period", 2))
        self.assertEqual(self.client.status("b"), "stopped")
        self.assertIn(("group.gave_up", "g"), self.kinds("group.gave_up"))
        self.assertIn("group.failed", [e["type"] for e in self.client.events()])
        self.assertIn("failed (too many restarts within the period)", self.ctl("tree", "g").out)
        self.assertIn("a restart is counted; 1 of 1", "\n".join(d["text"] for d in self.client.rpc("sandbox.explain", id="a")["decisions"]))
        self.assertTrue(self.client.rpc("daemon.ping")["pong"])
        g = self.client.rpc("group.reset", id="g")
        self.assertEqual((g["status"], g["budget"]["used"]), ("down", 0))
        self.assertEqual(self.client.rpc("group.start", id="g")["status"], "up")
        self.assertEqual([self.client.status(n) for n in "ab"], ["running", "running"])

    def test_requests_in_one_write_to_a_failed_group(self):
        """Each is answered, whatever comes of those before it, and nothing keeps the group from being destroyed."""
        about = {"sandbox.destroy": {"id": "a"}, "group.remove": {"id": "g", "sandbox": "a"}}
        for methods, ends in ((["group.start", "sandbox.destroy", "group.start"], ["ok", "ok", "wrong_state"]),
                              (["sandbox.destroy", "group.start"], ["ok", "ok"]),
                              (["group.start", "group.remove", "group.reset"], ["ok", "ok", "ok"]),
                              (["group.start", "group.stop"], ["wrong_state", "ok"])):
            with self.subTest(methods=methods):
                self.group("g", intensity=0)
                self.member("a", "g")
                self.member("b", "g")
                self.kill_host("a")
                self.group_is("g", "failed")
                lines = [{"jsonrpc": "2.0", "id": "%d" % i, "method": m, "params": about.get(m, {"id": "g"})} for i, m in enumerate(methods)]
                self.client.send("".join(json.dumps(line) + "\n" for line in lines).encode())
                replies = [self.client.reply("%d" % i) for i in range(len(methods))]
                for method, end, reply in zip(methods, ends, replies):
                    self.assertEqual(reply["error"]["data"]["code"] if "error" in reply else "ok", end, (method, reply))
                self.group_is("g", "down" if methods[-1] == "group.stop" else "up")
                for n in {"a", "b"} & set(self.client.ids()):
                    self.client.destroy(n)
                self.client.rpc("group.destroy", id="g")

    def test_back_off_is_shown(self):
        self.group("g", intensity=50)
        self.member("a", "g", "crash_call")
        for n in range(4):
            wait_for(lambda: self.client.status("a") == "running", "it to run")
            self.refused("crashed", self.client.call, "a", "segv")
        info = wait_for(lambda: (lambda i: i if i["status"] in ("backoff", "running") else None)(self.client.info("a")), "the back-off")
        if info["status"] == "backoff":
            self.assertGreaterEqual(info["next_restart_in_ms"], 0)
        wait_for(lambda: self.client.status("a") == "running", "it to run")

    def statuses(self, name, since):
        return [e["status"] for e in self.client.events(name, since) if e["type"] == "sandbox.status"]

    def newest(self):
        return self.client.events()[-1]["seq"]

    def test_back_off_is_told(self):
        """As of a sandbox on its own: by events, by `wait`; and calls wait for the next process."""
        self.group("g", intensity=50)
        self.member("a", "g", "crash_call")
        since = self.newest()
        for _ in range(3):  # the first restart is at once, the others wait
            self.refused("crashed", self.client.call, "a", "segv")
            self.client.rpc("sandbox.wait", id="a", timeout_ms=20000, **{"for": "running"})
        with self.daemon.client() as other:
            waits = other.request("sandbox.wait", id="a", timeout_ms=20000, **{"for": "backoff"})
            self.refused("crashed", self.client.call, "a", "segv")
            self.assertEqual(other.result(waits)["status"], "backoff")
        self.refused("unknown_function", self.client.call, "a", "no")  # says the next process, for which it has waited
        told = self.statuses("a", since)
        self.assertEqual(told, ["starting", "running"] + ["backoff", "starting", "running"] * 3)
        self.assertEqual(self.refused("timeout", self.client.rpc, "sandbox.wait", id="a", timeout_ms=1, **{"for": "failed"}).data["status"], "running")

    def test_giving_up_is_told_as_what_it_is(self):
        """No back-off is told before it, and calls that came meanwhile are refused."""
        self.group("g", intensity=0)
        self.member("a", "g", "crash_call")
        since = self.newest()
        self.refused("crashed", self.client.call, "a", "segv")
        self.assertEqual(self.client.rpc("sandbox.wait", id="a", timeout_ms=20000, **{"for": "failed"})["status"], "failed")
        self.assertEqual(self.statuses("a", since), ["failed"])
        self.refused("wrong_state", self.client.call, "a", "ping")

    def test_siblings_that_are_taken_along_are_told_to_wait(self):
        self.group("g", strategy="one_for_all")
        for n in "abc":
            self.member(n, "g")
        before = self.pids("abc")
        since = self.newest()
        os.kill(before["b"], signal.SIGKILL)
        for n in "abc":
            self.next_pid(n, before[n])
        self.assertEqual(self.statuses("b", since)[-2:], ["starting", "running"])
        for n in "abc":
            self.assertNotIn("failed", self.statuses(n, since))
            self.assertNotIn("stopped", self.statuses(n, since))
        self.assertIn("backoff", self.statuses("c", since))  # down until a is up

    def test_a_stop_from_above_ends_the_back_off(self):
        self.group("g", intensity=50)
        self.member("a", "g", "crash_call")
        for _ in range(5):
            self.client.rpc("sandbox.wait", id="a", timeout_ms=20000, **{"for": "running"})
            self.refused("crashed", self.client.call, "a", "segv")
        self.client.rpc("sandbox.wait", id="a", timeout_ms=20000, **{"for": "backoff"})  # some 800 ms
        since = self.newest()
        with self.daemon.client() as other:
            call = other.request("sandbox.call", id="a", function="ping")
            self.assertEqual(self.client.rpc("group.stop", id="g")["status"], "down")
            with self.assertRaises(RpcError) as caught:
                other.result(call)
            self.assertEqual(caught.exception.code, "wrong_state")
        self.assertEqual(self.statuses("a", since), ["failed"])

    def test_frozen_members_are_stopped_with_their_group(self):
        self.group("g")
        self.member("a", "g")
        self.member("b", "g")
        self.client.call("a", "increment", by=2)
        self.client.rpc("sandbox.freeze", id="a")
        self.client.rpc("sandbox.freeze", id="b")
        self.assertEqual(self.client.rpc("group.stop", id="g")["status"], "down")
        self.assertEqual(self.daemon.hosts(), [])
        self.client.rpc("group.start", id="g")
        self.assertEqual(self.client.call("a", "get"), {"count": 2})

    def test_reload_of_a_member(self):
        """Its process goes on, or comes back from what was sealed: its group hears nothing of it."""
        self.group("g")
        self.member("a", "g")
        self.client.call("a", "increment", by=2)
        self.assertEqual(self.client.reload("a", module("tally_v2"))["to"], 2)
        self.assertEqual(self.client.call("a", "get")["count"], 2)
        self.assertEqual(self.info("g")["budget"]["used"], 0)
        old = self.kill_host("a")
        self.next_pid("a", old)
        self.assertEqual((self.info("g")["budget"]["used"], self.client.info("a")["version"]), (1, 2))

    def test_nested_groups_escalate(self):
        self.group("top", intensity=1)
        self.group("low", parent="top", intensity=1)
        self.member("x", "top")
        self.member("a", "low", "crash_call")
        self.member("b", "low")
        x, b = self.pid("x"), self.pid("b")
        self.assertEqual(self.in_group("top"), [("low", "running"), ("x", "running")])
        for _ in range(2):
            wait_for(lambda: self.client.status("a") == "running", "it to run")
            self.refused("crashed", self.client.call, "a", "segv")
        self.next_pid("b", b)  # low gave up, top has started it anew
        wait_for(lambda: self.client.status("a") == "running", "it to run")
        self.assertEqual((self.info("top")["budget"]["used"], self.info("low")["budget"]["used"]), (1, 0))
        self.assertEqual(self.pid("x"), x)
        for _ in range(2):
            wait_for(lambda: self.client.status("a") == "running", "it to run")
            self.refused("crashed", self.client.call, "a", "segv")
        self.group_is("top", "failed")
        self.assertEqual([self.client.status(n) for n in "bx"], ["stopped", "stopped"])
        self.refused("wrong_state", self.client.rpc, "group.start", id="low")
        self.client.rpc("group.start", id="top")
        self.assertEqual([self.client.status(n) for n in "abx"], ["running"] * 3)
        self.assertEqual(self.client.rpc("group.stop", id="low")["status"], "undefined")
        self.assertEqual([self.client.status(n) for n in "abx"], ["stopped", "stopped", "running"])
        self.assertEqual(self.client.rpc("group.start", id="low")["status"], "running")
        self.assertEqual(self.client.rpc("group.restart", id="low")["status"], "running")
        self.assertEqual([self.client.status(n) for n in "abx"], ["running"] * 3)
        for n in "ab":
            self.client.destroy(n)
        self.assertEqual(self.client.rpc("group.destroy", id="low")["destroyed"], True)
        self.assertEqual(self.in_group("top"), [("x", "running")])

    def test_nesting_has_a_limit(self):
        self.group("d1")
        for n in range(2, 9):
            self.group("d%d" % n, parent="d%d" % (n - 1))
        self.refused("limit_exceeded", self.group, "d9", parent="d8")

    def test_significant_members_end_the_group(self):
        self.group("g", auto_shutdown="any_significant")
        self.member("a", "g")
        self.member("s", "g", "crash_call", restart="transient", significant=True)
        self.refused("crashed", self.client.call, "s", "exit_now", status=0)
        self.group_is("g", "down")
        self.assertEqual(self.client.status("a"), "stopped")
        self.client.destroy("s")
        self.assertEqual(self.client.rpc("group.start", id="g")["status"], "up")

    def test_a_start_that_fails_is_retried_and_counted(self):
        self.group("g", intensity=2)
        path = os.path.join(self.daemon.folder, "blown")
        self.member("f", "g", "fuse", profile="low", config={"path": path, "how": "fail"}, start_timeout_ms=500)
        with open(path, "w"):
            pass
        try:
            self.kill_host("f")
            self.assertEqual(self.group_is("g", "failed")["budget"]["used"], 3)
        finally:
            os.unlink(path)
        self.client.rpc("group.start", id="g")
        self.assertEqual(self.client.status("f"), "running")

    def test_siblings_in_groups_of_their_own_keep_their_pids(self):
        """Fifty of them, and one in a crash loop."""
        for n in range(50):
            self.group("g%d" % n)
            self.member("s%d" % n, "g%d" % n)
        before = self.pids(["s%d" % n for n in range(50)])
        self.group("bad", intensity=3)
        self.member("x", "bad", "crash_call")
        for _ in range(4):
            wait_for(lambda: self.client.status("x") == "running", "it to run")
            self.refused("crashed", self.client.call, "x", "segv")
        self.group_is("bad", "failed")
        self.assertEqual(self.pids(before), before)

    def test_many_ask_at_once(self):
        self.group("g", intensity=100)
        self.member("a", "g", shutdown_ms=1000)
        self.member("b", "g")
        methods = ["sandbox.stop", "sandbox.start", "sandbox.restart", "group.restart", "group.stop", "group.start", "sandbox.info", "group.reset"]

        def work(n):
            answers = 0
            with self.daemon.client() as c:
                for i in range(20):
                    method = methods[(i * 5 + n * 3) % len(methods)]
                    try:
                        c.rpc(method, id="g" if method.startswith("group") else "ab"[i % 2])
                    except RpcError as e:
                        if e.code == "internal_error":
                            raise
                    answers += 1
            return answers

        self.assertEqual([b.result() for b in [Background(work, n) for n in range(6)]], [20] * 6)
        self.assert_healthy()
        self.client.rpc("group.stop", id="g")
        self.assertEqual(self.daemon.hosts(), [])
        self.client.rpc("group.start", id="g")

    def test_drawn(self):
        self.ctl("group", "create", "shop", "--strategy", "rest_for_one", "--intensity", "3")
        self.ctl("group-create", "deep", "--parent", "shop")
        r = self.ctl("create", "db", COUNTER1, "--group", "deep", "--restart", "transient", "--shutdown", "2000")
        self.assertEqual(r.status, 0, r.err)
        self.ctl("create", "web", COUNTER1, "--group", "shop")
        self.ctl("create", "lone", COUNTER1)
        self.assertEqual(self.client.info("db")["shutdown_ms"], 2000)
        lines = self.ctl("tree").out.splitlines()
        self.assertEqual(lines[0], "shop: up, rest_for_one, 0 of 3 restarts used")
        self.assertEqual(lines[1], "|-- deep: running, one_for_one, 0 of 5 restarts used")
        self.assertRegex(lines[2], r"^\|   `-- db: running, transient, pid \d+, 0 restarts$")
        self.assertRegex(lines[3], r"^`-- web: running, permanent, pid \d+, 0 restarts$")
        self.assertRegex(lines[4], r"^lone: running, pid \d+, 0 restarts, 0 of 5 restarts used$")
        self.assertEqual([g["id"] for g in self.ctl("tree", "--json").json()["groups"]], ["shop"])
        self.assertEqual(self.client.rpc("group.tree"), self.ctl("tree", "--json").json())
        self.assertEqual([g["id"] for g in self.client.rpc("group.tree", id="shop")["groups"]], ["shop"])
        self.assertEqual(self.ctl("group", "list", "--quiet").out, "shop\ndeep\n")
        self.assertEqual(self.ctl("group").status, 2)
        self.assertEqual(self.ctl("group", "nothing").status, 2)


class Lasting(OwnCase):
    """What holds over the death of control, and over the end of the daemon."""

    def setUp(self):
        super().setUp()
        self.daemon = self.own_daemon()
        self.client = self.daemon.client()

    def again(self):
        self.client.close()
        self.assertEqual(self.daemon.terminate(), 0)
        self.daemon.start()
        self.client = self.daemon.client()

    def next_control(self):
        self.client.close()
        self.daemon.kill_control()
        self.client = self.daemon.client()

    def status(self, *names):
        return [self.client.status(n) for n in names]

    def group(self, name):
        return self.client.rpc("group.info", id=name)

    def crash(self, name, times=1):
        for _ in range(times):
            wait_for(lambda: self.client.status(name) == "running", "%s to run" % name)
            with self.assertRaises(RpcError):
                self.client.call(name, "segv")

    def events(self, kind, name):
        return [e for e in self.client.events(name) if e["type"] == kind]

    def test_a_window_goes_on_over_the_death_of_control(self):
        """What was counted before still counts, also in a group below; and what comes one too many ends it."""
        c = self.client
        c.rpc("group.create", id="top")
        c.rpc("group.create", id="low", parent="top", intensity=3, restart="temporary")
        for n in "ab":
            c.create(n, module("crash_call"), group="low")
        self.crash("a", 2)
        self.crash("b")
        wait_for(lambda: self.status("a", "b") == ["running"] * 2, "both to run")
        self.assertEqual(self.group("low")["budget"]["used"], 3)
        pids = {n: self.client.info(n)["pid"] for n in "ab"}
        for _ in range(2):
            self.next_control()
            wait_for(lambda: self.group("top")["status"] == "up", "the tree")
            self.assertEqual(self.group("low")["budget"]["used"], 3)
            self.assertEqual({n: self.client.info(n)["pid"] for n in "ab"}, pids)
        self.crash("b")
        wait_for(lambda: self.group("low")["status"] == "down", "the group to give up")
        self.assertEqual(len(self.events("group.gave_up", None)), 1)

    def test_a_reset_window_stays_empty(self):
        c = self.client
        c.rpc("group.create", id="g", intensity=2)
        c.create("a", module("crash_call"), group="g")
        self.crash("a", 2)
        wait_for(lambda: self.status("a") == ["running"], "it to run")
        self.client.rpc("group.reset", id="g")
        self.next_control()
        self.assertEqual(self.group("g")["budget"]["used"], 0)
        self.crash("a", 2)
        wait_for(lambda: self.status("a") == ["running"], "it to run")
        self.client.rpc("group.restart", id="g")  # its window is new
        self.next_control()
        self.assertEqual(self.group("g")["budget"]["used"], 0)
        self.crash("a")
        wait_for(lambda: self.status("a") == ["running"], "it to run")
        self.again()  # the daemon's end: a new window
        self.assertEqual(self.group("g")["budget"]["used"], 0)

    def test_a_back_off_goes_on_over_the_death_of_control(self):
        """It isn't cut short, and the next one is longer."""
        c = self.client
        c.rpc("group.create", id="g", intensity=50)
        c.create("a", module("crash_call"), group="g")
        self.crash("a", 5)  # at once, then 100, 200, 400 ms, and now
        self.client.rpc("sandbox.wait", id="a", timeout_ms=20000, **{"for": "backoff"})  # 800 ms
        self.next_control()
        wait_for(lambda: self.status("a") == ["running"], "it to run")
        waited = self.events("sandbox.running", "a")[-1]["at"] - self.events("sandbox.exited", "a")[-1]["at"]
        self.assertGreaterEqual(waited, 800)
        self.assertEqual(self.group("g")["budget"]["used"], 5)
        self.crash("a")
        delay = wait_for(lambda: (lambda e: e[-1]["delay_ms"] if len(e) == 5 else None)(self.events("group.backoff", "a")), "the next back-off")
        self.assertGreaterEqual(delay, 1600)

    def test_control_dies(self):
        c = self.client
        c.rpc("group.create", id="top", strategy="one_for_all")
        c.rpc("group.create", id="low", parent="top", intensity=7)
        for name, group in (("a", "top"), ("b", "low"), ("c", "low"), ("d", "top")):
            c.create(name, module("tally"), group=group)
        c.rpc("sandbox.stop", id="c")
        pids = {n: c.info(n)["pid"] for n in "abd"}
        self.next_control()
        wait_for(lambda: self.group("top")["status"] == "up", "the tree")
        self.assertEqual({n: self.client.info(n)["pid"] for n in "abd"}, pids)
        self.assertEqual(self.status("c"), ["stopped"])  # by a request: it stays down
        self.assertEqual([m["id"] for m in self.group("top")["members"]], ["low", "a", "d"])
        self.assertEqual((self.group("low")["budget"]["allowed"], self.group("top")["strategy"]), (7, "one_for_all"))
        os.kill(pids["a"], signal.SIGKILL)
        wait_for(lambda: self.status("a", "b", "d") == ["running"] * 3 and self.client.info("d")["pid"] != pids["d"], "all to be restarted")
        self.client.destroy("c")
        self.client.rpc("group.stop", id="top")
        self.next_control()
        self.assertEqual((self.group("top")["status"], self.status("a", "b", "d")), ("down", ["stopped"] * 3))
        self.assertEqual(self.client.rpc("group.start", id="top")["status"], "up")
        self.assertEqual(self.status("a", "b", "d"), ["running"] * 3)

    def test_the_daemon_ends_and_comes_back_in_group_order(self):
        c = self.client
        c.rpc("group.create", id="g")
        c.rpc("group.create", id="down")
        for name, params in (("a", {}), ("b", {"restart": "temporary"}), ("c", {"restart": "transient"}), ("d", {})):
            c.create(name, module("crash_call" if name == "b" else "tally"), group="g", **params)
        c.create("x", module("tally"), group="down")
        c.create("lone", module("tally"))
        c.call("a", "increment", by=6)
        try:
            c.call("b", "exit_now", status=0)
        except RpcError:
            pass
        wait_for(lambda: c.status("b") == "stopped", "b to finish")
        c.rpc("group.stop", id="down")
        self.again()
        wait_for(lambda: self.group("g")["status"] == "up" and self.status("lone") == ["running"], "all to be up")
        self.assertEqual(self.status("a", "b", "c", "d", "x"), ["running", "stopped", "running", "running", "stopped"])  # temporary: not run again
        self.assertEqual(self.client.call("a", "get"), {"count": 6})
        running = [e["sandbox"] for e in self.client.events() if e["type"] == "sandbox.running"][-4:]
        self.assertEqual([n for n in running if n != "lone"], ["a", "c", "d"])
        self.assertEqual(self.group("down")["status"], "down")
        self.client.destroy("lone")
        for n in "abcdx":
            self.client.destroy(n)
        for n in ("g", "down"):
            self.client.rpc("group.destroy", id=n)
        self.again()
        self.assertEqual((self.client.ids(), self.client.rpc("group.list")["groups"]), ([], []))

    def test_a_failed_group_stays_failed(self):
        c = self.client
        c.rpc("group.create", id="g", intensity=0)
        c.create("a", module("tally"), group="g")
        os.kill(c.info("a")["pid"], signal.SIGKILL)
        wait_for(lambda: self.group("g")["status"] == "failed", "the group to give up")
        for step in (self.next_control, self.again):
            step()
            g = self.group("g")
            self.assertEqual((g["status"], g["status_reason"], self.status("a")), ("failed", "too many restarts within the period", ["failed"]))
        self.assertEqual(self.client.rpc("group.start", id="g")["status"], "up")
        self.assertEqual(self.status("a"), ["running"])


if __name__ == "__main__":
    main()
