#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""max_execution_ms: a call whose time is over is told, and then its process is killed, whatever its code does about it."""
from harness import Case, main, module, wait_for


class Overdue(Case):
    def create(self, name="o", ms=200, **params):
        self.client.create(name, module("overruns"), max_execution_ms=ms, **params)
        return self.client.info(name)["pid"]

    def restarted(self, name="o", n=1):
        return wait_for(lambda: (lambda i: i if i["restart_count"] == n and i["status"] == "running" else None)(self.client.info(name)), "the restart")

    def ended_by_time(self, function, name="o"):
        info = self.restarted(name)
        last = info["last_exit"]
        self.assertEqual((last["reason"], last["class"], last["signal"]), ("time", "error", 9))
        self.assertLess(last["generation"], info["generation"])
        self.assertRegex(last["text"], r"^%s ran for \d+ ms \(max_execution_ms 200\)" % function)
        self.assertEqual(self.client.call(name, "increment"), {"n": 1})

    def test_bad(self):
        for value in (-1, "x", 86400001, 1.5, None):
            self.refused("bad_param", self.client.create, "o", module("overruns"), max_execution_ms=value)
        self.assertEqual(self.client.ids(), [])

    def test_the_default_is_shown_and_0_is_without_end(self):
        self.client.create("d", module("overruns"))
        self.assertEqual(self.client.info("d")["max_execution_ms"], 300000)
        pid = self.create(ms=0)
        self.assertEqual(self.client.info("o")["max_execution_ms"], 0)
        self.assertEqual(self.client.call("o", "spin", ms=500), {"done": 1})
        self.assertEqual(self.client.info("o")["pid"], pid)

    def test_one_that_spins_is_killed(self):
        self.create()
        e = self.refused("crashed", self.client.call, "o", "spin", ms=600000)
        self.assertIn("time: spin ran for", str(e))
        self.assertTrue(e.data["outcome_unknown"])
        self.ended_by_time("spin")
        told = [e for e in self.client.events("o") if e["type"] == "call.overdue"]
        self.assertEqual([(e["function"], e["max_execution_ms"]) for e in told], [("spin", 200)])
        self.assertGreaterEqual(told[0]["ran_ms"], 200)

    def test_one_that_lets_no_signal_in_is_killed(self):
        self.create()
        self.refused("crashed", self.client.call, "o", "deaf", ms=600000)
        self.ended_by_time("deaf")

    def test_a_cast_and_one_whose_caller_has_left_are_killed(self):
        self.create()
        self.client.rpc("sandbox.cast", id="o", function="spin", args={"ms": 600000})
        self.ended_by_time("spin")
        self.client.create("p", module("overruns"), max_execution_ms=200)
        self.refused("timeout", self.client.call, "p", "spin", ms=600000, timeout_ms=20)
        self.ended_by_time("(spin|a call)", "p")

    def test_one_that_looks_ends_by_itself(self):
        pid = self.create()
        self.assertEqual(self.refused("module_error", self.client.call, "o", "heed", ms=600000).data["module_code"], "cancelled")
        self.assertEqual(self.refused("module_error", self.client.call, "o", "nap", ms=600000).data["module_code"], "interrupted")
        self.assertEqual(self.client.call("o", "increment"), {"n": 1})
        info = self.client.info("o")
        self.assertEqual((info["pid"], info["restart_count"]), (pid, 0))
        self.assertEqual(len([e for e in self.client.events("o") if e["type"] == "call.overdue"]), 2)

    def test_only_the_one_that_is_late_is_told(self):
        """Those that wait behind it have a time of their own, from when they begin."""
        pid = self.create(ms=300)
        first = self.client.request("sandbox.call", id="o", function="heed", args={"ms": 600000})
        others = [self.client.request("sandbox.call", id="o", function="asked", args={}) for _ in range(40)]
        e = self.client.reply(first)["error"]
        self.assertEqual(e["data"]["module_code"], "cancelled")
        self.assertEqual([self.client.result(r)["result"] for r in others], [{"told": False}] * 40)  # 800 ms in all
        self.assertEqual(self.client.info("o")["pid"], pid)

    def test_a_reload_waits_no_longer(self):
        """A call that is late while a reload rehearses, or waits for it, ends the process, and the reload with it; the old version starts again."""
        self.create()
        call = self.client.request("sandbox.call", id="o", function="deaf", args={"ms": 600000})
        self.refused("state_lost", self.client.reload, "o", open(module("overruns"), "rb").read() + b"\0", quiesce_timeout_ms=60000)
        self.assertEqual(self.client.reply(call)["error"]["data"]["code"], "crashed")
        wait_for(lambda: self.client.info("o")["status"] == "running", "the old version")
        self.assertEqual(self.client.info("o")["version"], 1)
        self.assertEqual(self.client.call("o", "increment"), {"n": 1})

    def test_the_time_stands_still_while_it_is_frozen(self):
        pid = self.create(ms=1000)
        self.client.create("w", module("overruns"))
        with self.daemon.client() as other:
            call = other.request("sandbox.call", id="o", function="spin", args={"ms": 1700})
            wait_for(lambda: self.client.info("o")["queue"]["running"] == 1, "the call")
            self.client.rpc("sandbox.freeze", id="o")
            self.client.call("w", "spin", ms=2500)  # longer than the call may take, and what comes on top
            self.client.rpc("sandbox.thaw", id="o")
            self.assertEqual(other.result(call)["result"], {"done": 1})
        self.assertEqual(self.client.info("o")["pid"], pid)

    def test_a_call_of_an_earlier_control(self):
        """Its successor knows that a host that doesn't answer is in a call, and gives that the whole time once more."""
        self.create()
        self.client.create("long", module("overruns"), max_execution_ms=600000)
        long_pid = self.client.info("long")["pid"]
        self.client.rpc("sandbox.cast", id="o", function="deaf", args={"ms": 600000})
        self.client.rpc("sandbox.cast", id="long", function="spin", args={"ms": 4000})
        self.client.close()
        self.daemon.kill_control()
        self.client = self.daemon.client()
        self.ended_by_time("a call")
        self.assertEqual(self.client.call("long", "increment"), {"n": 1})
        self.assertEqual(self.client.info("long")["pid"], long_pid)

    def test_it_is_kept(self):
        self.create(ms=250)
        self.client.close()
        self.daemon.kill_control()
        self.client = self.daemon.client()
        self.assertEqual(self.client.info("o")["max_execution_ms"], 250)
        self.refused("crashed", self.client.call, "o", "spin", ms=600000)

    def test_the_command_line(self):
        self.assertEqual(self.ctl("create", "c", module("overruns"), "--max-execution-ms", "200").status, 0)
        self.assertRegex(self.ctl("info", "c").out, r"longest call:? +200 ms")
        self.assertEqual(self.ctl("call", "c", "spin", "ms=600000").status, 1)
        self.ended_by_time("spin", "c")


if __name__ == "__main__":
    main()
