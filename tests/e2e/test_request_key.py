#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Requests with a request_key: done once, and what they came to is told: after a lost connection, and after control was killed."""
import json
import os
import random
import signal
import threading

from harness import COUNTER1, COUNTER2, IS_ROOT, OTHER_UID, Background, Case, Client, Closed, RpcError, main, module, wait_for

LIMIT_OUTCOMES_PER_UID = 1024


class KeyCase(Case):
    def outcome(self, key, client=None):
        return (client or self.client).rpc("request.outcome", request_key=key)

    def keyed(self, key, function="increment", client=None, timeout_ms=None, **args):
        extra = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        return (client or self.client).rpc("sandbox.call", id="a", function=function, args=args, request_key=key, **extra)


class Keys(KeyCase):
    # ---- once ----

    def test_the_same_key_runs_once(self):
        self.client.create("a", module("tally"))
        self.assertEqual(self.outcome("k1"), {"state": "unknown"})
        first = self.keyed("k1", by=5)
        self.assertEqual(first["result"], {"count": 5})
        self.assertEqual(self.keyed("k1", by=5), first)
        self.assertEqual(self.outcome("k1"), {"state": "done", "method": "sandbox.call", "id": "a", "result": first})
        self.assertEqual(self.client.call("a", "get"), {"count": 5})
        self.assertEqual(self.keyed("k2", by=5)["result"], {"count": 10})

    def test_another_request_may_not_use_it(self):
        self.client.create("a", module("tally"))
        self.keyed("once", by=5)
        e = self.refused("bad_param", self.keyed, "once", by=6)
        self.assertEqual(e.data["name"], "request_key")
        self.refused("bad_param", self.client.rpc, "sandbox.stop", id="a", request_key="once")
        self.assertEqual(self.keyed("once", by=5, timeout_ms=77)["result"], {"count": 5})  # how long to wait isn't what is asked

    def test_keys_that_are_none(self):
        self.client.create("a", module("tally"))
        for key in ("", "x" * 65, "a\nb", 7, None, {}):
            e = self.refused("bad_param", self.client.rpc, "sandbox.call", id="a", function="get", request_key=key)
            self.assertEqual(e.data["name"], "request_key")
        for key in ("x" * 64, "\u00e9\u4e2d\U0001f600", " ", "../../etc/passwd", "'\"\\"):
            self.assertIn("count", self.client.rpc("sandbox.call", id="a", function="get", request_key=key)["result"])
            self.assertEqual(self.outcome(key)["state"], "done")

    def test_a_refusal_leaves_the_key_free(self):
        self.refused("not_found", self.keyed, "early")
        self.assertEqual(self.outcome("early"), {"state": "unknown"})
        self.client.create("a", module("tally"))
        self.assertEqual(self.keyed("early")["result"], {"count": 1})
        self.client.rpc("sandbox.stop", id="a")
        self.refused("wrong_state", self.keyed, "late")
        self.refused("wrong_state", self.client.rpc, "sandbox.rollback", id="a", request_key="roll")
        self.assertEqual([self.outcome(k)["state"] for k in ("early", "late", "roll")], ["done", "unknown", "unknown"])

    def test_errors_of_what_ran_are_outcomes(self):
        self.client.create("a", module("tally"))
        e = self.refused("module_error", self.keyed, "no", "refuse")
        again = self.refused("module_error", self.keyed, "no", "refuse")
        self.assertEqual(again.error, e.error)
        self.assertEqual(self.outcome("no")["error"], e.error)
        self.assertEqual(self.client.info("a")["queue"]["done"], 1)

    def test_a_notification_has_an_outcome(self):
        self.client.create("a", module("tally"))
        line = {"jsonrpc": "2.0", "method": "sandbox.call", "params": {"id": "a", "function": "increment", "request_key": "silent"}}
        self.client.send(json.dumps(line).encode() + b"\n")
        wait_for(lambda: self.outcome("silent")["state"] == "done", "the outcome")
        self.assertEqual(self.outcome("silent")["result"]["result"], {"count": 1})

    def test_a_batch(self):
        self.client.create("a", module("tally"))
        call = {"jsonrpc": "2.0", "method": "sandbox.call", "params": {"id": "a", "function": "increment", "request_key": "b"}}
        replies = self.client.raw(json.dumps([dict(call, id=i) for i in range(8)]).encode())
        self.assertEqual([r["result"]["result"]["count"] for r in replies], [1] * 8)

    # ---- waiting for the first ----

    def test_the_second_waits_for_the_first(self):
        self.client.create("a", module("sleeper"))
        first = Background(self.keyed, "w", "sleep", self.daemon.client(), ms=400)
        wait_for(lambda: self.outcome("w")["state"] == "running", "the first to run")
        others = [Background(self.keyed, "w", "sleep", self.daemon.client(), ms=400) for _ in range(5)]
        results = [b.result() for b in [first, *others]]
        self.assertEqual(results, [results[0]] * 6)
        self.assertEqual(results[0]["result"], {"naps": 1})

    def test_waiting_has_its_own_time(self):
        self.client.create("a", module("sleeper"))
        first = Background(self.keyed, "t", "sleep", self.daemon.client(), ms=600)
        wait_for(lambda: self.outcome("t")["state"] == "running", "the first to run")
        e = self.refused("timeout", self.keyed, "t", "sleep", timeout_ms=50, ms=600)
        self.assertEqual(e.data["call"], "running")
        self.assertEqual(first.result()["result"], {"naps": 1})

    def test_the_outcome_of_a_call_that_timed_out(self):
        self.client.create("a", module("sleeper"))
        self.refused("timeout", self.keyed, "slow", "sleep", timeout_ms=50, ms=400)
        self.assertEqual(self.outcome("slow")["state"], "running")
        self.assertEqual(self.keyed("slow", "sleep", ms=400)["result"], {"naps": 1})

    def test_the_client_has_gone(self):
        self.client.create("a", module("sleeper"))
        c = self.daemon.client()
        c.request("sandbox.call", id="a", function="sleep", args={"ms": 300}, request_key="gone")
        wait_for(lambda: self.outcome("gone")["state"] == "running", "the call to run")
        c.close()
        wait_for(lambda: self.outcome("gone")["state"] == "done", "its outcome")
        self.assertEqual(self.outcome("gone")["result"]["result"], {"naps": 1})

    def test_a_crash_is_an_outcome(self):
        self.client.create("a", module("sleeper"))
        c = self.daemon.client()
        self.addCleanup(c.close)
        request = c.request("sandbox.call", id="a", function="sleep", args={"ms": 20000}, request_key="crash")
        wait_for(lambda: self.client.info("a")["queue"]["running"] == 1, "the call to run")
        self.kill_host("a")
        self.assertTrue(self.refused("crashed", c.result, request).data["outcome_unknown"])
        self.wait_status("a", "running")
        self.assertTrue(self.refused("crashed", self.keyed, "crash", "sleep", ms=20000).data["outcome_unknown"])

    # ---- whose ----

    def test_keys_belong_to_a_user(self):
        if not IS_ROOT:
            self.skipTest("another uid is needed, and only root can be another user")
        # the other user may only connect: no operator, so no keys either
        self.client.create("a", module("tally"))
        self.keyed("mine")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setgroups([])
                os.setresgid(OTHER_UID, OTHER_UID, OTHER_UID)
                os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
                try:
                    c = Client(self.daemon.socket)
                except PermissionError:
                    os._exit(0)  # mode 0600: it can't even connect
                try:
                    c.rpc("request.outcome", request_key="mine")
                except RpcError as e:
                    status = 0 if e.code == "denied" else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    # ---- bounds ----

    def test_the_oldest_go_first(self):
        self.client.create("a", module("tally"))
        n = LIMIT_OUTCOMES_PER_UID + 100
        for at in range(0, n, 30):
            ids = [self.client.request("sandbox.call", id="a", function="increment", request_key="o%d" % i) for i in range(at, min(at + 30, n))]
            for i in ids:
                self.client.result(i)
        self.assertEqual(self.client.call("a", "get"), {"count": n})
        self.assertEqual(self.outcome("o0"), {"state": "unknown"})
        self.assertEqual(self.outcome("o%d" % (n - 1))["result"]["result"], {"count": n})
        self.assertEqual(self.outcome("o%d" % (n - LIMIT_OUTCOMES_PER_UID + 5))["state"], "done")

    def test_large_outcomes(self):
        """Each up to what a reply may have; together within a bound, so that old ones go."""
        self.client.create("a", module("big_reply"))
        sizes = {}
        for i in range(8):
            r = self.keyed("big%d" % i, "reply", bytes=900000)
            sizes[i] = len(json.dumps(r))
        self.assertGreater(min(sizes.values()), 800000)
        last = self.outcome("big7")
        self.assertEqual(last["result"], self.keyed("big7", "reply", bytes=900000))
        self.assertEqual(self.outcome("big0"), {"state": "unknown"})

    # ---- life ----

    def test_life_with_keys(self):
        c = self.client
        upload = c.put(open(COUNTER1, "rb").read())
        a = c.rpc("sandbox.create", id="a", object=upload, request_key="create")
        again = c.rpc("sandbox.create", id="a", object=upload, request_key="create")
        self.assertEqual(again, a)
        self.refused("already_exists", c.rpc, "sandbox.create", id="a", object=upload, request_key="other")
        c.rpc("sandbox.restart", id="a", request_key="restart")
        pid = c.info("a")["pid"]
        c.rpc("sandbox.restart", id="a", request_key="restart")
        self.assertEqual(c.info("a")["pid"], pid)
        r = c.reload("a", COUNTER2, request_key="reload")
        self.assertEqual(c.reload("a", COUNTER2, request_key="reload"), r)
        back = c.rpc("sandbox.rollback", id="a", request_key="back")
        self.assertEqual(c.rpc("sandbox.rollback", id="a", request_key="back"), back)
        self.assertEqual(c.info("a")["version"], 1)
        self.assertEqual([v["loads"] for v in c.rpc("version.list", id="a")["versions"]], [1, 2])
        c.rpc("sandbox.stop", id="a", request_key="stop")
        c.rpc("sandbox.start", id="a", request_key="start")
        c.rpc("sandbox.stop", id="a", request_key="stop")  # done already: it stays up
        self.assertEqual(c.status("a"), "running")
        gone = c.rpc("sandbox.destroy", id="a", request_key="destroy")
        self.assertEqual(c.rpc("sandbox.destroy", id="a", request_key="destroy"), gone)
        self.assertEqual([self.outcome(k)["state"] for k in ("create", "restart", "reload", "back", "stop", "start", "destroy")], ["done"] * 7)

    # ---- control is killed ----

    def test_outcomes_outlive_control(self):
        self.client.create("a", module("tally"))
        done = self.keyed("kept", by=3)
        bad = self.refused("module_error", self.keyed, "bad", "refuse").error
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertEqual(self.outcome("kept", c)["result"], done)
            self.assertEqual(self.outcome("bad", c)["error"], bad)
            self.assertEqual(self.keyed("kept", client=c, by=3), done)
            self.assertEqual(c.call("a", "get"), {"count": 3})

    def test_a_call_that_runs_while_control_is_killed(self):
        self.client.create("a", module("sleeper"))
        with self.daemon.client() as c:
            c.request("sandbox.call", id="a", function="sleep", args={"ms": 1500}, request_key="across")
            wait_for(lambda: self.client.info("a")["queue"]["running"] == 1, "the call to run")
            self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertEqual(self.outcome("across", c)["state"], "running")
            self.assertEqual(self.keyed("across", "sleep", c, ms=1500)["result"], {"naps": 1})  # waits for it
            self.assertEqual(self.outcome("across", c)["state"], "done")
            self.assertEqual(c.call("a", "sleep", ms=0), {"naps": 2})

    def test_a_host_that_ends_without_a_control(self):
        self.client.create("a", module("sleeper"))
        host = self.client.info("a")["pid"]
        with self.daemon.client() as c:
            c.request("sandbox.call", id="a", function="sleep", args={"ms": 20000}, request_key="both")
            wait_for(lambda: self.client.info("a")["queue"]["running"] == 1, "the call to run")
            old = self.daemon.control_pid()
            os.kill(old, signal.SIGSTOP)
            os.kill(host, signal.SIGKILL)
            os.kill(old, signal.SIGKILL)
            self.daemon.wait_for_next_control(old)
        with self.daemon.client() as c:
            self.assertTrue(self.refused("crashed", self.keyed, "both", "sleep", c, ms=20000).data["outcome_unknown"])

    def test_changes_across_a_kill(self):
        """What was begun and is there is done; what isn't may be asked again, and is done once."""
        with self.daemon.client() as c:
            c.create("a", COUNTER1)
            c.call("a", "increment", by=7)
            sha = c.put(open(COUNTER2, "rb").read())
            old = c.rpc("daemon.info")["control_pid"]
            c.request("sandbox.reload", id="a", object=sha, request_key="r")
            os.kill(old, signal.SIGKILL)
            self.daemon.wait_for_next_control(old)
        with self.daemon.client() as c:
            wait_for(lambda: self.outcome("r", c)["state"] != "running", "the reload's outcome")
            o = self.outcome("r", c)
            if o["state"] == "done":
                self.assertEqual(o["result"]["outcome"], "reloaded")
                self.assertEqual(c.info("a")["version"], 2)
            else:
                self.assertEqual(c.info("a")["version"], 1)
            c.put(open(COUNTER2, "rb").read())
            r = c.rpc("sandbox.reload", id="a", object=sha, request_key="r")
            self.assertEqual((r["from"], r["to"]), (1, 2))
            self.assertEqual(c.call("a", "get")["count"], 7)
            c.rpc("sandbox.destroy", id="a", request_key="d")
            self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertEqual(self.outcome("d", c)["result"], {"id": "a", "destroyed": True})
            self.assertEqual(c.ids(), [])


class Groups(KeyCase):
    def _after(self):
        super()._after()
        with self.daemon.client() as c:
            for g in c.rpc("group.list")["groups"]:
                c.rpc("group.destroy", id=g["id"])

    def twice(self, method, key, **params):
        """The second is answered as the first was, byte for byte."""
        first = self.client.rpc(method, request_key=key, **params)
        self.assertEqual(self.client.rpc(method, request_key=key, **params), first)
        self.assertEqual(self.outcome(key), {"state": "done", "method": method, "id": params["id"], "result": first})
        return first

    def test_freeze_thaw_reset(self):
        c = self.client
        c.create("a", module("tally"))
        self.assertEqual(self.twice("sandbox.freeze", "f", id="a")["status"], "frozen")
        self.assertEqual(self.twice("sandbox.thaw", "t", id="a")["status"], "running")
        c.rpc("sandbox.freeze", id="a", request_key="f")  # done already: it runs on
        self.assertEqual(c.status("a"), "running")
        self.assertEqual(self.twice("sandbox.reset", "r", id="a")["status"], "running")
        self.refused("bad_param", c.rpc, "sandbox.thaw", id="a", request_key="f")
        c.rpc("sandbox.stop", id="a")
        self.refused("wrong_state", c.rpc, "sandbox.freeze", id="a", request_key="early")
        self.assertEqual(self.outcome("early"), {"state": "unknown"})
        c.rpc("sandbox.start", id="a")
        self.assertEqual(self.twice("sandbox.freeze", "early", id="a")["status"], "frozen")

    def test_groups(self):
        c = self.client
        self.assertEqual(self.twice("group.create", "g-create", id="g")["status"], "up")
        self.refused("already_exists", c.rpc, "group.create", id="g", request_key="g-other")
        self.assertEqual(self.outcome("g-other"), {"state": "unknown"})
        c.create("a", module("tally"))
        c.create("b", module("tally"))
        self.assertEqual(self.twice("group.add", "g-add", id="g", sandbox="a")["group"], "g")
        self.refused("bad_param", c.rpc, "group.add", id="g", sandbox="b", request_key="g-add")
        self.twice("group.restart", "g-restart", id="g")
        pid = c.info("a")["pid"]
        c.rpc("group.restart", id="g", request_key="g-restart")
        self.assertEqual(c.info("a")["pid"], pid)
        self.assertEqual(self.twice("group.stop", "g-stop", id="g")["status"], "down")
        self.refused("wrong_state", c.rpc, "sandbox.start", id="a", request_key="g-below")
        self.assertEqual(self.outcome("g-below"), {"state": "unknown"})
        self.assertEqual(self.twice("group.start", "g-start", id="g")["status"], "up")
        self.assertEqual(c.rpc("group.stop", id="g", request_key="g-stop")["status"], "down")  # what it was answered then
        self.assertEqual(c.rpc("group.info", id="g")["status"], "up")
        self.refused("wrong_state", c.rpc, "group.start", id="g", request_key="g-early")
        self.assertEqual(self.outcome("g-early"), {"state": "unknown"})
        self.refused("wrong_state", c.rpc, "sandbox.start", id="a", request_key="g-up")
        self.assertEqual(self.outcome("g-up"), {"state": "unknown"})
        self.twice("group.reset", "g-reset", id="g")
        self.assertIsNone(self.twice("group.remove", "g-remove", id="g", sandbox="a")["group"])
        self.assertEqual(self.twice("group.destroy", "g-destroy", id="g"), {"id": "g", "destroyed": True})

    def test_what_was_done_before_a_kill(self):
        c = self.client
        done = {}
        asked = [("group.create", {"id": "g"}), ("group.add", {"id": "g", "sandbox": "a"}), ("group.restart", {"id": "g"}),
                 ("sandbox.freeze", {"id": "a"}), ("sandbox.thaw", {"id": "a"}), ("sandbox.reset", {"id": "a"}), ("group.stop", {"id": "g"}),
                 ("group.start", {"id": "g"}), ("group.reset", {"id": "g"}), ("group.remove", {"id": "g", "sandbox": "a"}), ("group.destroy", {"id": "g"})]
        c.create("a", module("tally"))
        for method, params in asked:
            done[method] = c.rpc(method, request_key=method, **params)
        pid = c.info("a")["pid"]
        self.daemon.kill_control()
        with self.daemon.client() as c:
            for method, params in asked:
                self.assertEqual(c.rpc(method, request_key=method, **params), done[method])
            self.assertEqual(c.info("a")["pid"], pid)
            self.assertEqual(c.rpc("group.list")["groups"], [])

    def test_across_a_kill(self):
        """Sent, control killed, sent again until it is answered: what was asked for is there, and the answer stays the same."""
        self.client.create("a", module("tally"))
        self.client.create("b", module("tally"))
        self.client.call("a", "increment", by=7)
        steps = [("group.create", {"id": "g"}, "up"), ("group.add", {"id": "g", "sandbox": "a"}, None), ("group.add", {"id": "g", "sandbox": "b"}, None),
                 ("group.stop", {"id": "g"}, "down"), ("group.start", {"id": "g"}, "up"), ("group.restart", {"id": "g"}, "up"),
                 ("sandbox.freeze", {"id": "a"}, "frozen"), ("sandbox.thaw", {"id": "a"}, "running"), ("sandbox.reset", {"id": "a"}, "running"),
                 ("group.reset", {"id": "g"}, "up"), ("group.remove", {"id": "g", "sandbox": "a"}, "running"),
                 ("group.remove", {"id": "g", "sandbox": "b"}, "running"), ("group.destroy", {"id": "g"}, None)]
        for n, (method, params, status) in enumerate(steps):
            key = "%d-%s" % (n, method)
            with self.daemon.client() as c:
                before = {i: c.info(i)["pid"] for i in "ab"}
                old = c.rpc("daemon.info")["control_pid"]
                c.request(method, request_key=key, **params)
                os.kill(old, signal.SIGKILL)
                self.daemon.wait_for_next_control(old)
            with self.daemon.client() as c:
                first = c.rpc(method, request_key=key, **params)
                self.assertEqual(c.rpc(method, request_key=key, **params), first)
                self.assertEqual(self.outcome(key, c)["result"], first)
                if status:
                    self.assertEqual(first["status"], status, method)
                if method == "group.restart":
                    self.assertFalse(set(before.values()) & {c.info(i)["pid"] for i in "ab"})
        with self.daemon.client() as c:
            self.assertEqual(c.call("a", "get"), {"count": 7})
            self.assertEqual(c.rpc("group.list")["groups"], [])


class Kills(KeyCase):
    """A daemon of its own: control that is killed often is started again after longer and longer pauses."""

    def test_increments_under_kills(self):
        """Clients that ask again with the same key until they are answered: each increment happens exactly once."""
        self.client.create("a", module("tally"))
        n_clients, n_calls, counts, errors, kills = 4, 120, [], [], [0]
        progress = [0] * n_clients
        stop = threading.Event()

        def work(k):
            c, i = None, -1
            while i + 1 < n_calls or kills[0] < 3:  # on a busy machine it takes more calls until three were in time
                i += 1
                key = "inc-%d-%d" % (k, i)
                while True:
                    try:
                        c = c or self.daemon.client()
                        counts.append(self.keyed(key, client=c)["result"]["count"])
                        progress[k] = i
                        break
                    except (Closed, ConnectionError, OSError):
                        if c:
                            c.close()
                        c = None
                    except RpcError as e:
                        errors.append(e)
                        return
            c.close()

        def kill():
            dice = random.Random(7)
            while not stop.is_set() and kills[0] < 6:
                goal = sum(progress) + dice.randrange(5, 40)
                wait_for(lambda: sum(progress) >= goal or stop.is_set(), "some progress")
                if not stop.is_set():
                    self.daemon.kill_control()
                    kills[0] += 1

        killer = Background(kill)
        workers = [Background(work, k) for k in range(n_clients)]
        for b in workers:
            b.result()
        stop.set()
        killer.result()
        self.assertEqual(errors, [])
        self.assertGreaterEqual(kills[0], 3)
        total = len(counts)
        self.assertGreaterEqual(total, n_clients * n_calls)
        self.assertEqual(sorted(counts), list(range(1, total + 1)))  # none lost, none twice
        with self.daemon.client() as c:
            self.assertEqual(c.call("a", "get"), {"count": total})


if __name__ == "__main__":
    main()
