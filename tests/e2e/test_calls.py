#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls: their order, their timeouts, what becomes of them when the host dies, restarts, stops."""
import json
import time

from harness import Background, Case, example_source, main, module, read, wait_for


class Calls(Case):
    def test_order_of_one_connection(self):
        self.client.create("a", module("tally"))
        with self.daemon.client() as c:
            for _ in range(20):
                ids = [c.request("sandbox.call", id="a", function="increment", args={"by": 1}) for _ in range(50)]
                counts = [c.result(i)["result"]["count"] for i in ids]
                self.assertEqual(counts, sorted(counts))
        self.assertEqual(self.client.call("a", "get"), {"count": 1000})

    def test_many_connections_at_once(self):
        self.client.create("a", module("tally"))

        def work():
            with self.daemon.client() as c:
                for _ in range(100):
                    c.call("a", "increment")

        for b in [Background(work) for _ in range(8)]:
            b.result()
        self.assertEqual(self.client.call("a", "get"), {"count": 800})

    def test_timeout_of_a_queued_call(self):
        """Withdrawn: it never happens."""
        self.client.create("s", module("sleeper"))
        self.start_call("s", "sleep", ms=600)
        # the host takes 32 calls ahead; those beyond it wait in control's queue
        others = [self.daemon.client() for _ in range(2)]
        for c in others:
            self.addCleanup(c.close)
            for _ in range(30):
                c.request("sandbox.call", id="s", function="sleep", args={"ms": 0})
        wait_for(lambda: self.client.info("s")["queue"]["waiting"] >= 20, "a queue")
        e = self.refused("timeout", self.client.call, "s", "sleep", timeout_ms=50, ms=0)
        self.assertEqual(e.data["call"], "queued")
        for c in others:
            for i in range(1, 31):
                c.result(i)
        self.assertEqual(self.client.call("s", "sleep", ms=0)["naps"], 62)  # 1 + 60 + this one

    def test_timeout_of_a_running_call(self):
        """The waiting ends; the call finishes, and its effect is there."""
        self.client.create("s", module("sleeper"))
        began = time.monotonic()
        e = self.refused("timeout", self.client.call, "s", "sleep", timeout_ms=100, ms=400)
        self.assertLess(time.monotonic() - began, 0.39)
        self.assertEqual(e.data["call"], "running")
        self.assertEqual(self.client.call("s", "sleep", ms=0), {"naps": 2})
        self.assertEqual(self.client.info("s")["restart_count"], 0)

    def test_running_call_at_a_crash(self):
        """crashed, outcome unknown, never sent again; the one behind it in the host as well."""
        self.client.create("s", module("sleeper"))
        c, first = self.start_call("s", "sleep", ms=60000)
        second = c.request("sandbox.call", id="s", function="sleep", args={"ms": 0})
        wait_for(lambda: self.client.info("s")["queue"]["running"] == 2, "both to be sent")
        self.kill_host("s")
        for request in (first, second):
            error = c.reply(request)["error"]
            self.assertEqual((error["data"]["code"], error["data"]["outcome_unknown"]), ("crashed", True))
            self.assertIn("SIGKILL", error["message"])
        self.wait_status("s", "running")
        self.assertEqual(self.client.call("s", "sleep", ms=0), {"naps": 1})

    def test_calls_wait_for_the_next_generation(self):
        """What wasn't sent before the crash is served by the successor, in order."""
        self.client.create("s", module("sleeper"))
        c, running = self.start_call("s", "sleep", ms=60000)
        full = [c.request("sandbox.call", id="s", function="sleep", args={"ms": 0}) for _ in range(31)]
        wait_for(lambda: self.client.info("s")["queue"]["running"] == 32, "a full host")
        with self.daemon.client() as d:
            waiting = [d.request("sandbox.call", id="s", function="sleep", args={"ms": 0}) for _ in range(10)]
            wait_for(lambda: self.client.info("s")["queue"]["waiting"] == 10, "ten that wait")
            self.kill_host("s")
            self.assertEqual([d.result(i)["result"]["naps"] for i in waiting], list(range(1, 11)))
        for request in [running, *full]:
            self.assertEqual(c.reply(request)["error"]["data"]["code"], "crashed")

    def test_calls_during_back_off(self):
        self.client.create("k", module("tally"))
        for n in (1, 2, 3):
            self.kill_host("k")
            wait_for(lambda: self.client.info("k")["restart_count"] == n, "restart %d" % n)
            # now it is backing off or starting; the call waits for it
            self.assertEqual(self.client.call("k", "increment"), {"count": 1})

    def test_calls_during_a_requested_restart(self):
        """Served by the next generation, which has the state."""
        self.client.create("a", module("tally"))
        stop = []

        def work():
            counts = []
            with self.daemon.client() as c:
                while not stop:
                    counts.append(c.call("a", "increment")["count"])
            return counts

        workers = [Background(work) for _ in range(3)]
        for _ in range(10):
            self.client.rpc("sandbox.restart", id="a")
        stop.append(True)
        counts = [n for w in workers for n in w.result()]
        self.assertEqual(sorted(counts), list(range(1, len(counts) + 1)))
        self.assertEqual(self.client.call("a", "get"), {"count": len(counts)})
        info = self.client.info("a")
        self.assertEqual((info["restart_count"], info["budget"]["used"]), (10, 0))

    def test_waiting_calls_when_it_fails(self):
        """No next generation: they are told at once."""
        self.client.create("s", module("sleeper"), restart="temporary")
        c, running = self.start_call("s", "sleep", ms=60000)
        for _ in range(31):
            c.request("sandbox.call", id="s", function="sleep", args={"ms": 0})
        wait_for(lambda: self.client.info("s")["queue"]["running"] == 32, "a full host")
        with self.daemon.client() as d:
            waiting = d.request("sandbox.call", id="s", function="sleep", args={"ms": 0})
            wait_for(lambda: self.client.info("s")["queue"]["waiting"] == 1, "one that waits")
            self.kill_host("s")
            self.assertEqual(d.reply(waiting)["error"]["data"]["code"], "wrong_state")
        self.assertEqual(c.reply(running)["error"]["data"]["code"], "crashed")
        self.refused("wrong_state", self.client.call, "s", "sleep", ms=0)

    def test_calls_right_behind_a_create(self):
        """On one connection, without waiting for the create's answer: they wait for the first start, and begin in order."""
        sha256 = self.client.put(read(module("tally")))
        for n in range(100):
            sandbox = "a%d" % n
            create = self.client.request("sandbox.create", id=sandbox, object=sha256, persist=n % 10 == 0)
            calls = [self.client.request("sandbox.call", id=sandbox, function="increment", args={"by": 1}) for _ in range(3)]
            self.assertEqual([self.client.result(i)["result"]["count"] for i in calls], [1, 2, 3])
            self.assertEqual(self.client.result(create)["status"], "running")
            self.client.destroy(sandbox)

    def test_calls_right_behind_a_create_from_source(self):
        source = self.client.put(read(example_source("counter/counter_v1")))
        requests = {"create": {"source": source, "source_name": "counter.c"}, "cast": {"function": "increment", "args": {"by": 3}},
                    "call": {"function": "increment", "args": {"by": 4}}, "info": {}}
        self.client.send(b"".join(json.dumps({"jsonrpc": "2.0", "id": verb, "method": "sandbox." + verb, "params": dict(params, id="c")}).encode()
                                  + b"\n" for verb, params in requests.items()))  # at once, so that info finds the others waiting
        info = self.client.result("info")
        self.assertEqual((info["status"], info["queue"]["waiting"]), ("compiling", 2))
        self.assertEqual(self.client.result("call")["result"], {"count": 7})
        self.client.result("cast")
        self.assertEqual(self.client.result("create")["status"], "running")

    def behind_a_failure(self, code, says, **create):
        create = self.client.request("sandbox.create", id="f", **create)
        calls = [self.client.request("sandbox.call", id="f", function="get", request_key="key%d" % i) for i in range(2)]
        error = self.client.reply(create)["error"]
        self.assertEqual(error["data"]["code"], code)
        for request in calls:
            told = self.client.reply(request)["error"]
            self.assertEqual(told["data"]["code"], "start_failed", told)
            self.assertIn("sandbox f was not created", told["message"])
            self.assertIn(says, told["message"])
        self.refused("not_found", self.client.call, "f", "get")
        # nothing began, so the keys are free
        self.assertEqual([self.client.rpc("request.outcome", request_key="key%d" % i) for i in range(2)], [{"state": "unknown"}] * 2)

    def test_calls_right_behind_a_create_that_fails(self):
        for name, code, says in (("fail_init", "start_failed", "cannot create sandbox f"), ("crash_init", "start_failed", "SIG"),
                                 ("wrong_abi", "bad_module", "ABI")):
            with self.subTest(name):
                self.behind_a_failure(code, says, object=self.client.put(read(module(name))))
        self.behind_a_failure("start_timeout", "not ready within 300 ms", object=self.client.put(read(module("hang_init"))), start_timeout_ms=300)
        self.behind_a_failure("compilation_failed", "x.c", source=self.client.put(b"#error no\n"), source_name="x.c")

    def test_a_call_behind_a_create_that_is_refused(self):
        """Nothing was begun that it could wait for."""
        create = self.client.request("sandbox.create", id="f", object=self.client.put(read(module("no_descriptor"))))
        call = self.client.request("sandbox.call", id="f", function="get")
        self.assertEqual(self.client.reply(create)["error"]["data"]["code"], "bad_image")
        self.assertIn(self.client.reply(call)["error"]["data"]["code"], ("not_found", "start_failed"))

    def test_calls_behind_a_create_are_bounded_and_time_out(self):
        create = self.client.request("sandbox.create", id="h", object=self.client.put(read(module("hang_init"))), max_queue=3,
                                     start_timeout_ms=60000)
        first = self.client.request("sandbox.call", id="h", function="get", timeout_ms=50)
        error = self.client.reply(first)["error"]["data"]
        self.assertEqual((error["code"], error["call"]), ("timeout", "queued"))
        waiting = [self.client.request("sandbox.call", id="h", function="get", timeout_ms=600000) for _ in range(3)]
        self.refused("busy", self.client.call, "h", "get")
        with self.daemon.client() as other:
            other.destroy("h")
        for request in [create, *waiting]:
            self.assertEqual(self.client.reply(request)["error"]["data"]["code"], "wrong_state")

    def test_siblings_are_untouched(self):
        for i in range(10):
            self.client.create("s%d" % i, module("tally"))
            self.client.call("s%d" % i, "increment", by=i)
        self.kill_host("s4")
        wait_for(lambda: self.client.info("s4")["restart_count"] == 1 and self.client.status("s4") == "running", "the restart")
        for i in range(10):
            self.assertEqual(self.client.call("s%d" % i, "get"), {"count": 0 if i == 4 else i})
            self.assertEqual(self.client.info("s%d" % i)["restart_count"], 1 if i == 4 else 0)

    def test_output_is_kept_with_its_stream(self):
        c = self.client
        c.create("p", module("prints"))
        c.call("p", "line", text="to stdout")
        c.call("p", "line", text="to stderr", to="stderr")
        wait_for(lambda: "to stderr" in c.log_text("p") and "to stdout" in c.log_text("p"), "both lines")
        lines = {l["text"]: l["stream"] for l in c.rpc("log.read", id="p")["lines"]}
        self.assertEqual((lines["to stdout"], lines["to stderr"]), ("stdout", "stderr"))
        c.call("p", "flood", lines=20000, timeout_ms=60000)
        c.call("p", "river", bytes=100000)
        wait_for(lambda: "~~~~" in c.log_text("p"), "the river")
        page = c.rpc("log.read", id="p", lines=10000)
        self.assertGreater(page["dropped_bytes"], 0)
        self.assertTrue(any(l.get("partial") for l in page["lines"]))
        self.assertEqual(len(c.rpc("log.read", id="p", lines=5)["lines"]), 5)
        self.assertEqual(json.loads(self.ctl("logs", "p", "--json").out).keys() >= {"lines", "dropped_bytes"}, True)


if __name__ == "__main__":
    main()
