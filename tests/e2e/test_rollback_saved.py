#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rollback with the saved state, and the history of versions with what each of them has done."""
from harness import COUNTER1, COUNTER2, Case, RpcError, example, main, module, read, wait_for


class Saved(Case):
    def history(self, sandbox="a"):
        h = self.client.rpc("version.history", id=sandbox)
        h["by"] = {v["version"]: v for v in h["versions"]}
        return h

    def begin(self, **params):
        """Version 1 was left at 5; version 2 is at 8."""
        c = self.client
        c.create("a", COUNTER1, **params)
        c.call("a", "increment", by=5)
        c.reload("a", COUNTER2)
        for _ in range(3):
            c.call("a", "increment")

    def test_back_to_what_was_saved(self):
        c = self.client
        self.begin()
        saved = self.history()["by"][1]["saved"]
        self.assertEqual((saved["acknowledged_since"], self.history()["by"][2]["saved"]), (3, None))
        r = c.rpc("sandbox.rollback", id="a", version=1, state="saved")
        self.assertEqual((r["outcome"], r["from"], r["to"], r["state_from"], r["acknowledged_since"], r["saved_at"]),
                         ("reloaded", 2, 1, "saved", 3, saved["at"]))
        self.assertNotIn("probation_ms", r)
        self.assertEqual(c.call("a", "get"), {"count": 5})
        self.assertEqual(c.info("a")["state_from"], "saved")
        e = [e for e in c.events("a") if e["type"] == "reload.committed"][-1]
        self.assertEqual((e["state_from"], e["acknowledged_since"]), ("saved", 3))
        # what version 2 had is there too, and nothing of it was lost by going back
        r = c.rpc("sandbox.rollback", id="a", version=2, state="saved")
        self.assertEqual(r["acknowledged_since"], 1)
        self.assertEqual(c.call("a", "get"), {"count": 8, "step": 1, "owner": "nobody"})

    def test_the_present_state_is_the_rule(self):
        self.begin()
        for how in ({}, {"state": "current"}):
            r = self.client.rpc("sandbox.rollback", id="a", version=1, **how)
            self.assertNotIn("state_from", r)
            self.assertEqual(self.client.call("a", "get"), {"count": 8})
            self.client.reload("a", COUNTER2)

    def test_the_current_version_goes_back_to_itself(self):
        """Left at 5 and again at 8; the last one counts."""
        c = self.client
        self.begin()
        c.rpc("sandbox.rollback", id="a", version=1)
        c.call("a", "increment", by=100)
        r = c.rpc("sandbox.rollback", id="a", version=1, state="saved")
        self.assertEqual((r["from"], r["to"], r["acknowledged_since"]), (1, 1, 4))
        self.assertEqual(c.call("a", "get"), {"count": 5})

    def test_what_was_not_kept(self):
        c = self.client
        self.begin()
        with self.assertRaises(RpcError) as caught:
            c.rpc("sandbox.rollback", id="a", version=2, state="saved")
        self.assertEqual(caught.exception.code, "state_not_found")
        with self.assertRaises(RpcError) as caught:
            c.rpc("sandbox.rollback", id="a", version=3, state="saved")
        self.assertEqual(caught.exception.code, "version_not_found")
        with self.assertRaises(RpcError) as caught:
            c.rpc("sandbox.rollback", id="a", version=1, state="newest")
        self.assertEqual(caught.exception.code, "bad_param")
        self.assertEqual(c.call("a", "get")["count"], 8)
        # it ends with control
        old = self.daemon.control_pid()
        self.daemon.kill_control()
        self.daemon.wait_for_next_control(old)
        with self.daemon.client() as d:
            with self.assertRaises(RpcError) as caught:
                d.rpc("sandbox.rollback", id="a", version=1, state="saved")
            self.assertEqual(caught.exception.code, "state_not_found")
            self.assertEqual(d.call("a", "get")["count"], 8)
            v = {v["version"]: v for v in d.rpc("version.history", id="a")["versions"]}
            self.assertGreaterEqual(v[1]["calls"], 1)  # the figures are kept with the spec
            d.destroy("a")
        self.client = self.daemon.client()

    def test_a_failure_keeps_the_present_state(self):
        """Before the candidate's code has run, and in a process that dies of it: version 2 serves on with all that it has."""
        for fault, outcome in (("reload.seal=error:2", "nothing_changed"), ("host.load=crash:2", "recovered")):
            with self.subTest(fault):
                own = self.own_daemon(options=["--fault", fault])
                with own.client() as d:
                    d.create("a", COUNTER1)
                    d.call("a", "increment", by=5)
                    d.reload("a", COUNTER2)
                    d.call("a", "increment")
                    with self.assertRaises(RpcError) as caught:
                        d.rpc("sandbox.rollback", id="a", version=1, state="saved")
                    self.assertEqual((caught.exception.code, caught.exception.data["outcome"]), ("reload_failed", outcome))
                    wait_for(lambda: d.status("a") == "running", "its process")
                    self.assertEqual(d.call("a", "get")["count"], 6)
                    self.assertEqual(d.info("a")["version"], 2)
                    self.assertEqual(d.rpc("version.history", id="a")["versions"][1]["refused"], 1)
                    r = d.rpc("sandbox.rollback", id="a", version=1, state="saved")
                    self.assertEqual((r["acknowledged_since"], d.call("a", "get")), (2, {"count": 5}))
                    own.look()

    def test_large_states_and_how_many(self):
        """Of five versions left the oldest is gone. Above 64 KiB a state is kept as a mapping."""
        c = self.client
        whole = read(COUNTER1)
        c.create("a", whole)
        for n in range(1, 6):
            c.call("a", "increment", by=10)
            c.reload("a", whole + b"\0" * n)
        by = self.history()["by"]
        self.assertEqual({n: v["saved"] is not None for n, v in by.items()}, {1: False, 2: True, 3: True, 4: True, 5: True, 6: False})
        c.rpc("sandbox.rollback", id="a", version=3, state="saved")
        self.assertEqual(c.call("a", "get"), {"count": 30})
        kv = read(example("kv/kv"))
        c.create("big", kv, limits={"max_memory": 1 << 30})
        c.call("big", "set", key="k", value="x" * 200000)
        c.reload("big", kv + b"\0")
        c.call("big", "set", key="k", value="y")
        self.assertGreater(self.history("big")["by"][1]["saved"]["state_bytes"], 200000)
        c.rpc("sandbox.rollback", id="big", version=1, state="saved")
        self.assertEqual(c.call("big", "get", key="k"), {"value": "x" * 200000})

    def test_figures(self):
        c = self.client
        self.begin()
        with self.assertRaises(RpcError):
            c.call("a", "no_such")
        c.rpc("sandbox.rollback", id="a")
        c.call("a", "get")
        self.kill_host("a")
        wait_for(lambda: c.info("a")["restart_count"] == 1 and c.status("a") == "running", "the restart")
        with self.assertRaises(RpcError):
            c.reload("a", module("fail_check"))
        h = self.history()
        self.assertEqual((h["current"], h["total_versions"], h["reloads"], h["failed_reloads"], h["rollbacks"], h["returns"]), (1, 2, 2, 1, 1, 0))
        one, two = h["by"][1], h["by"][2]
        self.assertEqual((one["calls"], one["failures"], one["crashes"], one["faults"], one["loads"], one["rollbacks"]), (2, 0, 1, 0, 2, 1))
        self.assertEqual((two["calls"], two["failures"], two["crashes"], two["loads"], two["rollbacks"], two["refused"]), (4, 1, 0, 1, 0, 0))
        self.assertGreater(two["pause_us"], 0)
        self.assertGreater(two["state_bytes"], 0)
        self.assertLess(two["uptime_ms"], 60000)
        text = self.ctl("history", "a").out
        self.assertIn("ROLLBACKS", text)
        self.assertEqual(len(text.splitlines()), 3)

    def test_in_words(self):
        self.begin()
        r = self.ctl("rollback", "a", "--to", "1", "--state", "saved")
        self.assertEqual(r.status, 0, r.err)
        self.assertIn("3 acknowledged calls since then are given up", r.out)
        self.assertEqual(self.ctl("rollback", "a", "--to", "2", "--state", "saved", "--json").json()["state_from"], "saved")


if __name__ == "__main__":
    main()
