#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cast: taken, run, its failures told as events, whatever dies. wait: every state, in time, too late, never."""
import os
import signal

from harness import (COUNTER1, OTHER_UID, Case, Daemon, RpcError, error_code, main, module, needs_root, wait_for)


class Cast(Case):
    def failures(self, sandbox, n=1):
        """The call.failed events of a sandbox, once there are n."""
        def found():
            events = [e for e in self.client.events(sandbox) if e["type"] == "call.failed"]
            return events if len(events) >= n else None
        events = wait_for(found, "%d call.failed events" % n)
        self.assertEqual(len(events), n, events)
        return events

    def no_failures(self, sandbox):
        self.assertEqual([e for e in self.client.events(sandbox) if e["type"] == "call.failed"], [])

    def test_it_runs_and_is_answered_when_it_begins(self):
        self.client.create("x", module("sleeper"))
        r = self.client.rpc("sandbox.cast", id="x", function="sleep", args={"ms": 400})
        self.assertEqual(r, {"taken": True, "version": 1})
        self.assertEqual(self.client.info("x")["queue"]["running"], 1)  # it sleeps still
        self.assertEqual(self.client.call("x", "sleep", ms=1), {"naps": 2})  # behind it, in order
        self.assertEqual(self.client.info("x")["queue"], dict(self.client.info("x")["queue"], running=0, waiting=0, done=2, failed=0))
        self.no_failures("x")

    def test_order_on_one_connection(self):
        self.client.create("c", COUNTER1)
        requests = [self.client.request("sandbox.cast", id="c", function="increment", args={"by": 1}) for _ in range(20)]
        requests.append(self.client.request("sandbox.call", id="c", function="get", args={}))
        results = [self.client.result(r) for r in requests]
        self.assertEqual(results[-1]["result"], {"count": 20})
        self.assertEqual(results[0], {"taken": True, "version": 1})

    def test_without_an_id_it_is_not_even_answered(self):
        self.client.create("c", COUNTER1)
        self.client.send(b'{"jsonrpc":"2.0","method":"sandbox.cast","params":{"id":"c","function":"increment","args":{"by":3}}}\n')
        self.assertEqual(self.client.call("c", "get"), {"count": 3})

    def test_what_never_begins_is_an_error_of_the_request(self):
        self.client.create("x", module("sleeper"))
        for params, code in (({"function": "slep"}, "unknown_function"), ({"function": "sleep"}, "bad_argument"),
                             ({"function": "sleep", "args": {"ms": "long"}}, "bad_argument"),
                             ({"function": "sleep", "args": {"ms": 1, "more": 2}}, "bad_argument")):
            with self.assertRaises(RpcError) as caught:
                self.client.rpc("sandbox.cast", id="x", **params)
            self.assertEqual(caught.exception.code, code, params)
        self.no_failures("x")
        self.client.rpc("sandbox.stop", id="x")
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.cast", id="x", function="sleep", args={"ms": 1})
        self.assertEqual(caught.exception.code, "wrong_state")
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.cast", id="nobody", function="sleep")
        self.assertEqual(caught.exception.code, "not_found")

    def test_a_failing_function_is_an_event(self):
        self.client.create("t", module("tally"))
        self.client.rpc("sandbox.cast", id="t", function="refuse")
        e, = self.failures("t")
        self.assertEqual((e["function"], e["code"], e["sandbox"]), ("refuse", "module_error", "t"))
        self.assertTrue(e["message"] and e["module_code"], e)
        self.assertEqual(self.client.info("t")["queue"]["failed"], 1)
        self.assertEqual(self.client.call("t", "get"), {"count": 0})

    def test_a_crash_in_a_cast_is_an_event(self):
        self.client.create("z", module("crash_call"))
        self.client.rpc("sandbox.cast", id="z", function="segv")
        e, = self.failures("z")
        self.assertEqual((e["function"], e["code"]), ("segv", "crashed"))
        self.assertIn("SIGSEGV", e["message"])
        self.client.rpc("sandbox.wait", id="z", **{"for": "running"})
        self.assertEqual(self.client.info("z")["queue"]["running"], 0)

    def test_a_cast_that_has_not_begun_is_answered_crashed(self):
        self.client.create("k", module("sleeper"))
        with self.daemon.client() as c:
            c.request("sandbox.call", id="k", function="sleep", args={"ms": 60000})
            late = c.request("sandbox.cast", id="k", function="sleep", args={"ms": 1})
            wait_for(lambda: self.client.info("k")["queue"]["running"] == 2, "both in the host")
            os.kill(self.client.info("k")["pid"], signal.SIGKILL)
            reply = c.reply(late)
            self.assertEqual((error_code(reply), reply["error"]["data"]["outcome_unknown"]), ("crashed", True))
        self.no_failures("k")

    def test_timeout_is_the_time_to_begin(self):
        self.client.create("late", module("sleeper"))
        self.client.rpc("sandbox.cast", id="late", function="sleep", args={"ms": 500}, timeout_ms=60)  # begins at once: no timeout
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.cast", id="late", function="sleep", args={"ms": 1}, timeout_ms=60)
        self.assertEqual((caught.exception.code, caught.exception.data["call"]), ("timeout", "running"))
        self.assertEqual(self.client.call("late", "sleep", ms=1), {"naps": 3})  # it ran all the same
        self.no_failures("late")

    def test_who_was_told_that_it_will_run_hears_that_it_did_not(self):
        """A cast that timed out behind another call: whatever keeps it from running is an event."""
        self.client.create("v", module("sleeper"))

        def late(**args):
            with self.assertRaises(RpcError) as caught:
                self.client.rpc("sandbox.cast", id="v", function="sleep", args=args, timeout_ms=40)
            self.assertEqual((caught.exception.code, caught.exception.data["call"]), ("timeout", "running"))

        self.client.rpc("sandbox.cast", id="v", function="sleep", args={"ms": 300})
        late()  # without its argument
        e, = self.failures("v")
        self.assertEqual((e["function"], e["code"]), ("sleep", "bad_argument"))
        self.client.rpc("sandbox.cast", id="v", function="sleep", args={"ms": 60000})
        late(ms=1)
        os.kill(self.client.info("v")["pid"], signal.SIGKILL)
        events = self.failures("v", 3)
        self.assertEqual([(e["function"], e["code"]) for e in events[1:]], [("sleep", "crashed")] * 2)
        self.assertIn("was sent to it", events[2]["message"])

    def test_a_reload_waits_for_a_cast_that_runs(self):
        self.client.create("r", module("slow_tally"))
        self.client.rpc("sandbox.cast", id="r", function="increment", args={"us": 300000})
        r = self.client.reload("r", module("slow_tally_v2"))
        self.assertEqual(r["outcome"], "reloaded")
        self.assertEqual(self.client.call("r", "get")["count"], 1)  # what the cast did is in the state that came over
        self.no_failures("r")

    def test_control_dies_under_a_cast(self):
        """The failure of a cast that an earlier control's client made is told by its successor."""
        self.client.create("s", module("sleeper"), shutdown_ms=60000)
        with self.daemon.client() as c:
            c.rpc("sandbox.cast", id="s", function="doze", args={"ms": 60000})
        self.daemon.kill_control()
        with self.daemon.client() as c:
            stop = c.request("sandbox.stop", id="s")  # its attention signal wakes the function, which then fails
            c.result(stop)
            events = [e for e in c.events("s") if e["type"] == "call.failed"]
        self.assertEqual([(e["function"], e["code"], e["module_code"]) for e in events], [("doze", "module_error", "cancelled")])

    def test_verb(self):
        self.ctl("create", "x", COUNTER1)
        self.assertEqual(self.ctl("cast", "x", "increment", "by=5").out, "x: increment begins\n")
        self.assertEqual(self.ctl("cast", "x", "increment", "by=5", "-q").out, "")
        self.assertEqual(self.ctl("cast", "x", "increment", "by=5", "--json").json(), {"taken": True, "version": 1})
        self.assertEqual(self.ctl("call", "x", "get").json(), {"count": 15})


class Wait(Case):
    def wait(self, sandbox, status, **params):
        return self.client.rpc("sandbox.wait", id=sandbox, **{"for": status}, **params)

    def test_what_is_so_already(self):
        self.client.create("x", COUNTER1)
        r = self.wait("x", "running")
        self.assertEqual(r, {"id": "x", "status": "running", "waited_ms": 0})
        self.assertEqual(self.wait("nobody", "gone"), {"id": "nobody", "status": "gone", "waited_ms": 0})

    def test_each_change_answers_those_who_wait_for_it(self):
        self.client.create("x", module("stubborn"), shutdown_ms=200)
        states = ["stopping", "stopped", "starting", "running", "gone"]
        with self.daemon.client() as c:
            requests = {s: c.request("sandbox.wait", id="x", **{"for": s}) for s in states if s != "running"}
            twice = c.request("sandbox.wait", id="x", **{"for": "stopped"})
            self.client.rpc("sandbox.stop", id="x", state="fresh")
            for s in ("stopping", "stopped"):
                self.assertEqual(c.result(requests[s])["status"], s)
            self.assertEqual(c.result(twice)["status"], "stopped")
            requests["running"] = c.request("sandbox.wait", id="x", **{"for": "running"})
            self.client.rpc("sandbox.start", id="x")
            for s in ("starting", "running"):
                self.assertEqual(c.result(requests[s])["status"], s)
            self.client.destroy("x")
            self.assertEqual(c.result(requests["gone"])["status"], "gone")

    def test_a_restart_after_a_crash(self):
        self.client.create("z", module("crash_call"))
        with self.daemon.client() as c:
            again = c.request("sandbox.wait", id="z", **{"for": "starting"})
            c.request("sandbox.cast", id="z", function="segv")
            self.assertEqual(c.result(again)["status"], "starting")
        self.assertEqual(self.wait("z", "running")["status"], "running")

    def test_timeout(self):
        self.client.create("x", COUNTER1)
        with self.assertRaises(RpcError) as caught:
            self.wait("x", "stopped", timeout_ms=50)
        self.assertEqual((caught.exception.code, caught.exception.data["status"]), ("timeout", "running"))
        self.assertIn("x is running, not stopped", str(caught.exception))

    def test_destroyed_meanwhile(self):
        self.client.create("x", COUNTER1)
        with self.daemon.client() as c:
            r = c.request("sandbox.wait", id="x", **{"for": "stopped"})
            failed = c.request("sandbox.wait", id="x", **{"for": "failed"})
            c.rpc("sandbox.list")  # both are taken
            self.client.rpc("sandbox.destroy", id="x")
            for request in (r, failed):
                reply = c.reply(request)
                self.assertEqual(error_code(reply), "not_found", reply)

    def test_bad_requests(self):
        self.client.create("x", COUNTER1)
        for params, code in (({"id": "x"}, "missing_param"), ({"id": "x", "for": "happy"}, "bad_param"),
                             ({"for": "running"}, "missing_param"), ({"id": "x", "for": "running", "timeout_ms": 0}, "bad_param"),
                             ({"id": "..", "for": "gone"}, "invalid_id"), ({"id": "nobody", "for": "running"}, "not_found")):
            with self.assertRaises(RpcError) as caught:
                self.client.rpc("sandbox.wait", **params)
            self.assertEqual(caught.exception.code, code, params)

    def test_too_many_wait(self):
        self.client.create("x", COUNTER1)
        connections = [self.daemon.client() for _ in range(35)]  # each with less than it may have open, so that its end is read
        for c in connections:
            self.addCleanup(c.close)
        for c in connections[:34]:
            for _ in range(31):
                c.request("sandbox.wait", id="x", **{"for": "stopped"})
        full = connections[34]

        def refused():
            r = full.request("sandbox.wait", id="x", **{"for": "stopped"}, timeout_ms=20)
            return error_code(full.reply(r)) == "busy"

        wait_for(refused, "a refusal")
        for c in connections[:34]:
            c.close()  # those who left make room
        wait_for(lambda: not refused(), "room again")
        self.client.rpc("sandbox.stop", id="x")

    @needs_root()
    def test_what_others_own_is_gone(self):
        """To whom may not see it, a sandbox is as one that doesn't exist."""
        daemon = Daemon(config="socket_mode = 0666\noperators = *\n")
        try:
            with daemon.client() as c:
                c.create("x", COUNTER1)
            os.seteuid(OTHER_UID)  # the kernel notes who connects
            try:
                other = daemon.client()
            finally:
                os.seteuid(0)
            with other:
                self.assertEqual(other.rpc("sandbox.wait", id="x", **{"for": "gone"})["status"], "gone")
                with self.assertRaises(RpcError) as caught:
                    other.rpc("sandbox.wait", id="x", **{"for": "running"})
            self.assertEqual((caught.exception.code, str(caught.exception)), ("not_found", "not_found: there is no sandbox x"))
            daemon.look()
            self.assertEqual(daemon.terminate(), 0)
        finally:
            self.assertEqual(daemon.close(), [])

    def test_verb(self):
        self.ctl("create", "x", COUNTER1)
        self.assertEqual(self.ctl("wait", "x", "--for", "running").out, "x: running\n")
        self.assertEqual(self.ctl("wait", "x", "--for", "running", "-q").out, "")
        self.assertEqual(self.ctl("wait", "y", "--for=gone", "--json").json()["status"], "gone")
        r = self.ctl("wait", "x", "--for", "stopped", "--timeout", 40)
        self.assertEqual((r.status, r.out), (5, ""))
        self.assertIn("timeout", r.err)
        self.assertEqual(self.ctl("wait", "x", "--for", "stopped", "--timeout-ms", 40).status, 5)
        self.assertEqual(self.ctl("wait", "y", "--for", "running").status, 3)
        self.assertEqual(self.ctl("wait", "x", "--for", "happy").status, 2)
        r = self.ctl("wait", "x")
        self.assertEqual(r.status, 2)
        self.assertIn("--for", r.err)


if __name__ == "__main__":
    main()
