#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stop, restart and destroy against whatever is at work just then."""
import time

from harness import MULTIPLIER, Background, Case, Closed, RpcError, example_source, main, module, read, wait_for

LONG_SOURCE = b"".join(b"int f%d(int x);\nint f%d(int x) { return x * %d; }\n" % (i, i, i) for i in range(20000))  # seconds of work


class Stop(Case):
    def gone(self, sandbox):
        self.assertNotIn(sandbox, self.client.ids())
        self.refused("not_found", self.client.info, sandbox)
        wait_for(lambda: not self.daemon.hosts(), "the end of the host")
        self.assertEqual(self.daemon.objects(), [])

    def code_of(self, background):
        try:
            background.result()
            return "done"
        except RpcError as e:
            return e.code

    def on_own_connection(self, method, **params):
        def run():
            with self.daemon.client() as c:
                return c.rpc(method, **params)

        return Background(run)

    def test_stop_hook_that_never_ends(self):
        """Killed at the shutdown deadline; the state was saved before, so it is kept."""
        c = self.client
        c.create("s", module("stubborn"), shutdown_ms=200)
        c.call("s", "increment", by=4)
        began = time.monotonic()
        info = c.rpc("sandbox.stop", id="s")
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual((info["status"], info["state_kept"], info["last_exit"]["reason"]), ("stopped", True, "shutdown_deadline"))
        self.assertEqual(self.wait_event("s", "sandbox.killed")[0]["why"], "shutdown_deadline")
        c.rpc("sandbox.start", id="s")
        self.assertEqual(c.call("s", "get"), {"count": 4})

    def test_call_that_ignores_the_stop(self):
        c = self.client
        c.create("s", module("sleeper"), shutdown_ms=200)
        d, request = self.start_call("s", "sleep", ms=60000)
        info = c.rpc("sandbox.stop", id="s", state="fresh")
        self.assertEqual((info["status"], info["last_exit"]["reason"]), ("stopped", "shutdown_deadline"))
        self.assertEqual(d.reply(request)["error"]["data"]["code"], "crashed")

    def test_call_that_heeds_the_stop(self):
        self.client.create("s", module("sleeper"))
        d, request = self.start_call("s", "doze", ms=60000)
        began = time.monotonic()
        info = self.client.rpc("sandbox.stop", id="s")
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual((info["status"], info["last_exit"]["reason"]), ("stopped", "stopped"))
        error = d.reply(request)["error"]
        self.assertEqual((error["data"]["code"], error["data"]["module_code"]), ("module_error", "cancelled"))

    def test_shutdown_ms_zero(self):
        self.client.create("s", module("stubborn"), shutdown_ms=0)
        self.assertEqual(self.client.rpc("sandbox.stop", id="s", state="fresh")["status"], "stopped")

    def test_stop_of_what_is_down(self):
        c = self.client
        c.create("s", module("crash_call"), restart="temporary")
        self.refused("crashed", c.call, "s", "segv")
        self.wait_status("s", "failed")
        self.assertEqual(c.rpc("sandbox.stop", id="s")["status"], "stopped")
        self.assertEqual(c.rpc("sandbox.stop", id="s")["status"], "stopped")
        self.assertEqual(c.rpc("sandbox.stop", id="s", state="fresh")["status"], "stopped")
        self.assertEqual(c.rpc("sandbox.restart", id="s")["status"], "running")

    def test_stop_during_back_off(self):
        """The restart that was coming is cancelled."""
        c = self.client
        c.create("s", module("crash_call"), intensity=50)
        for n in range(1, 6):
            self.refused("crashed", c.call, "s", "segv")
            wait_for(lambda: c.info("s")["restart_count"] == n, "restart %d" % n)
        self.wait_status("s", "backoff")
        self.assertEqual(c.rpc("sandbox.stop", id="s")["status"], "stopped")
        since = c.events("s")[-1]["seq"]
        self.assertEqual(c.rpc("sandbox.start", id="s")["status"], "running")
        self.wait_event("s", "sandbox.running", since=since)

    def test_destroy_during_back_off(self):
        c = self.client
        c.create("s", module("crash_call"), intensity=50)
        for n in range(1, 5):
            self.refused("crashed", c.call, "s", "segv")
            wait_for(lambda: c.info("s")["restart_count"] == n, "restart %d" % n)
        c.destroy("s")
        self.gone("s")

    def test_destroy_while_starting(self):
        create = self.on_own_connection("sandbox.info", id="x")  # only to have a thread early
        self.assertEqual(self.code_of(create), "not_found")

        def run():
            with self.daemon.client() as c:
                return c.create("s", module("hang_init"), start_timeout_ms=60000)

        create = Background(run)
        wait_for(lambda: "s" in self.client.ids() and self.client.status("s") == "starting" and self.client.info("s")["pid"], "a start")
        self.assertEqual(self.client.destroy("s"), {"id": "s", "destroyed": True})
        self.assertEqual(self.code_of(create), "wrong_state")
        self.gone("s")

    def test_stop_and_start_while_starting(self):
        def run():
            with self.daemon.client() as c:
                return c.create("s", module("hang_init"), start_timeout_ms=1500 * MULTIPLIER)

        create = Background(run)
        wait_for(lambda: "s" in self.client.ids() and self.client.status("s") == "starting", "a start")
        for method in ("sandbox.stop", "sandbox.start", "sandbox.restart"):
            self.refused("wrong_state", self.client.rpc, method, id="s")
        self.refused("wrong_state", self.client.reload, "s", module("tally"))
        self.refused("already_exists", self.client.create, "s", module("tally"))
        self.assertEqual(self.code_of(create), "start_timeout")
        self.gone("s")

    def test_destroy_while_compiling(self):
        source = b"#include <sandbox_module.h>\n" + LONG_SOURCE

        def run():
            with self.daemon.client() as c:
                return c.rpc("sandbox.create", id="s", source=c.put(source), source_name="long.c")

        create = Background(run)
        wait_for(lambda: "s" in self.client.ids() and self.client.status("s") == "compiling", "the compilation")
        self.daemon.look()
        self.assertEqual(self.client.destroy("s"), {"id": "s", "destroyed": True})
        self.assertNotEqual(self.code_of(create), "done")
        self.gone("s")
        wait_for(lambda: not [row for row in self.daemon.tree() if "sandboxd" not in row and "sandbox-zygote" not in row and "sandbox-spare" not in row], "the end of the compiler")
        self.client.create("s", module("tally"))  # the id is free again

    def test_two_stops(self):
        self.client.create("s", module("stubborn"), shutdown_ms=500)
        first = self.on_own_connection("sandbox.stop", id="s")
        wait_for(lambda: self.client.status("s") == "stopping", "the stop")
        self.refused("wrong_state", self.client.rpc, "sandbox.stop", id="s")
        self.refused("wrong_state", self.client.call, "s", "get")
        self.assertEqual(self.code_of(first), "done")
        self.assertEqual(self.client.status("s"), "stopped")

    def test_stop_overrides_a_restart(self):
        self.client.create("s", module("stubborn"), shutdown_ms=500)
        self.client.call("s", "increment", by=2)
        restart = self.on_own_connection("sandbox.restart", id="s")
        wait_for(lambda: self.client.status("s") == "stopping", "the restart's stop")
        self.assertEqual(self.client.rpc("sandbox.stop", id="s")["status"], "stopped")
        self.assertEqual(self.code_of(restart), "wrong_state")
        self.client.rpc("sandbox.start", id="s")
        self.assertEqual(self.client.call("s", "get"), {"count": 2})

    def test_destroy_overrides_a_stop(self):
        self.client.create("s", module("stubborn"), shutdown_ms=500)
        stop = self.on_own_connection("sandbox.stop", id="s")
        wait_for(lambda: self.client.status("s") == "stopping", "the stop")
        destroy = self.on_own_connection("sandbox.destroy", id="s")
        self.assertEqual(self.code_of(stop), "wrong_state")
        self.assertEqual(self.code_of(destroy), "done")
        self.gone("s")

    def test_two_destroys(self):
        self.client.create("s", module("stubborn"), shutdown_ms=300)
        ends = sorted(self.code_of(b) for b in [self.on_own_connection("sandbox.destroy", id="s") for _ in range(3)])
        self.assertEqual(ends.count("done"), 1, ends)
        self.assertTrue(set(ends) <= {"done", "wrong_state", "not_found"}, ends)
        self.gone("s")

    def start_long_reload(self, sandbox):
        """A reload that hangs in its rehearsal for as long as the test lets it."""
        def run():
            with self.daemon.client() as c:
                return c.reload(sandbox, module("hang_migrate"), rehearse_timeout_ms=60000)

        reload = Background(run)
        wait_for(lambda: self.client.status(sandbox) == "reloading", "the reload")
        return reload

    def test_stop_during_a_reload(self):
        self.client.create("s", module("tally"))
        self.client.call("s", "increment", by=6)
        reload = self.start_long_reload("s")
        info = self.client.rpc("sandbox.stop", id="s")
        self.assertEqual((info["status"], info["state_kept"], info["version"]), ("stopped", True, 1))
        self.assertEqual(self.code_of(reload), "reload_failed")
        self.client.rpc("sandbox.start", id="s")
        self.assertEqual(self.client.call("s", "get"), {"count": 6})
        self.assertEqual(self.client.reload("s", module("tally_v2"))["to"], 2)

    def test_destroy_during_a_reload(self):
        self.client.create("s", module("tally"))
        reload = self.start_long_reload("s")
        self.client.destroy("s")
        self.assertEqual(self.code_of(reload), "reload_failed")
        self.gone("s")

    def test_restart_during_a_reload(self):
        self.client.create("s", module("tally"))
        self.client.call("s", "increment", by=6)
        reload = self.start_long_reload("s")
        self.assertEqual(self.client.rpc("sandbox.restart", id="s")["status"], "running")
        self.assertEqual(self.code_of(reload), "reload_failed")
        self.assertEqual(self.client.call("s", "get"), {"count": 6})

    def test_second_reload_during_a_reload(self):
        self.client.create("s", module("tally"))
        reload = self.start_long_reload("s")
        self.assertEqual(self.client.call("s", "increment"), {"count": 1})  # calls go on during the rehearsal
        e = self.refused("busy", self.client.reload, "s", module("tally_v2"))
        self.assertIn("at work", str(e))
        self.client.destroy("s")
        self.assertEqual(self.code_of(reload), "reload_failed")

    def test_destroy_while_a_reload_compiles(self):
        self.client.create("s", module("tally"))
        source = read(example_source("counter/counter_v1")) + LONG_SOURCE

        def run():
            with self.daemon.client() as c:
                return c.rpc("sandbox.reload", id="s", source=c.put(source), source_name="long.c")

        reload = Background(run)
        wait_for(lambda: [row for row in self.daemon.tree() if "cc1" in row], "the compiler")
        self.daemon.look()
        self.client.destroy("s")
        self.assertNotEqual(self.code_of(reload), "done")
        self.gone("s")

    def test_storm(self):
        """Everything at once, by many: one answer for each, and an end without traces."""
        methods = ["sandbox.stop", "sandbox.start", "sandbox.restart", "sandbox.info", "sandbox.call", "sandbox.reload", "sandbox.destroy",
                   "sandbox.create"]

        def work(n):
            answers = 0
            with self.daemon.client() as c:
                shas = [c.put(read(module(name))) for name in ("tally", "tally_v2")]
                for i in range(30):
                    method = methods[(i * 7 + n * 3) % len(methods)]
                    params = {"sandbox.call": {"function": "increment"}, "sandbox.reload": {"object": shas[i % 2]},
                              "sandbox.create": {"object": shas[0], "shutdown_ms": 1000}}.get(method, {})
                    try:
                        c.rpc(method, id="storm", **params)
                    except RpcError as e:
                        if e.code == "internal_error":
                            raise
                    answers += 1
            return answers

        self.assertEqual([b.result() for b in [Background(work, n) for n in range(8)]], [30] * 8)
        self.assert_healthy()
        if "storm" in self.client.ids():
            self.client.destroy("storm")
        self.gone("storm")

    def test_clients_that_leave_in_the_middle(self):
        """The operation they asked for goes on."""
        self.client.create("s", module("stubborn"), shutdown_ms=300)
        c = self.daemon.client()
        c.request("sandbox.stop", id="s")
        wait_for(lambda: self.client.status("s") == "stopping", "the stop")
        c.close()
        self.wait_status("s", "stopped")
        try:
            c.line(0)
        except (Closed, OSError, AssertionError):
            pass


if __name__ == "__main__":
    main()
