#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Probation of a new version: a fault brings the one before back with the state of the commit; quarantine, commit, history; reload --check."""
import signal

from harness import COUNTER1, COUNTER2, Background, Case, RpcError, main, module, wait_for

V1, V2, V3 = module("trial"), module("trial_v2"), module("trial_v3")


class Probation(Case):
    def begin(self, **params):
        """Version 2 runs on probation, at count 7 since the commit of 5."""
        c = self.client
        c.create("a", V1, **params)
        c.call("a", "increment", by=5)
        r = c.reload("a", V2)
        c.call("a", "increment")
        c.call("a", "increment")
        return r

    def die(self, number):
        with self.assertRaises(RpcError) as caught:
            self.client.call("a", "die", signal=number)
        self.assertEqual(caught.exception.code, "crashed")
        wait_for(lambda: self.client.status("a") == "running", "the next process")

    def event(self, kind):
        found = [e for e in self.client.events("a") if e["type"] == kind]
        return found[-1] if found else None

    def statuses(self):
        return {v["version"]: v["status"] for v in self.client.rpc("version.list", id="a")["versions"]}

    def test_fault_brings_the_old_version_back(self):
        """With what the commit had saved; not counted as a restart; what clients lose is told."""
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE):
            with self.subTest(signal=number):
                r = self.begin(intensity=0)  # one counted restart would be its end
                self.assertEqual(r["probation_ms"], 30000)
                p = self.client.info("a")["probation"]
                self.assertEqual((p["version"], p["back_to"], p["acknowledged_since"]), (2, 1, 2))
                self.assertEqual(self.statuses(), {1: "good", 2: "probation"})
                self.die(int(number))
                self.assertEqual(self.client.call("a", "get"), {"code": 1, "count": 5})
                info = self.client.info("a")
                self.assertEqual((info["version"], info["restart_count"], info["probation"]), (1, 0, None))
                self.assertEqual(self.statuses(), {1: "current", 2: "quarantined"})
                e = self.event("version.returned")
                self.assertEqual((e["from"], e["to"], e["state_from"], e["acknowledged_since"]), (2, 1, "commit", 2))
                self.assertIn("SIG", e["why"])
                old = [v for v in self.client.rpc("version.list", id="a")["versions"] if v["version"] == 2][0]
                self.assertEqual((old["faults"], old["loads"]), (1, 1))
                self.assertIn("SIG", old["quarantined"])
                # it is an ordinary crash now: the version that came back isn't on probation
                self.client.destroy("a")

    def test_quarantined_code_is_refused_unless_forced(self):
        c = self.client
        self.begin()
        self.die(int(signal.SIGSEGV))
        for how in (lambda **more: c.reload("a", V2, **more), lambda **more: c.rpc("sandbox.rollback", id="a", version=2, **more)):
            with self.assertRaises(RpcError) as caught:
                how()
            self.assertEqual(caught.exception.code, "quarantined")
            self.assertIn("version 2", str(caught.exception))
        with self.assertRaises(RpcError) as caught:
            c.rpc("sandbox.rollback", id="a")  # nothing good ran before
        self.assertEqual(caught.exception.code, "version_not_found")
        r = self.ctl("reload", "a", V2)
        self.assertEqual(r.status, 9)
        self.assertIn("quarantined", r.err)
        self.assertEqual(c.call("a", "get"), {"code": 1, "count": 5})
        self.assertEqual(self.ctl("rollback", "a", "2", "--force").status, 0)
        self.assertEqual(self.statuses(), {1: "good", 2: "probation"})
        self.die(int(signal.SIGSEGV))
        self.assertEqual(self.ctl("reload", "a", V2, "--force").status, 0)
        self.assertEqual(self.statuses(), {1: "good", 2: "probation"})
        self.assertEqual(c.call("a", "get"), {"code": 2, "count": 5})

    def test_what_is_no_fault_of_the_code(self):
        """A SIGKILL from outside and an exit status are ordinary ends: the new version stays, still on probation."""
        self.begin()
        self.kill_host("a")
        wait_for(lambda: self.client.info("a")["restart_count"] == 1 and self.client.status("a") == "running", "the restart")
        self.assertEqual(self.client.call("a", "get"), {"code": 2, "count": 0})
        self.die(0)
        self.assertEqual(self.client.info("a")["version"], 2)
        self.assertEqual(self.statuses(), {1: "good", 2: "probation"})
        self.die(int(signal.SIGSEGV))
        self.assertEqual(self.client.call("a", "get"), {"code": 1, "count": 5})

    def test_what_ends_it(self):
        """Time, commit, a stop, another reload; and then a fault is a crash as any other."""
        c = self.client
        ends = {"time": lambda: None, "commit": lambda: c.rpc("version.commit", id="a"), "stop": lambda: c.rpc("sandbox.restart", id="a")}
        for why, how in ends.items():
            with self.subTest(why=why):
                self.begin(probation_ms=300 if why == "time" else 60000)
                how()
                wait_for(lambda: self.event("version.proven"), "its end")
                self.assertEqual((self.event("version.proven")["version"], self.event("version.proven")["by"]), (2, why))
                self.assertEqual(self.statuses(), {1: "good", 2: "current"})
                self.die(int(signal.SIGSEGV))
                self.assertEqual((c.info("a")["version"], c.info("a")["restart_count"]), (2, 2 if why == "stop" else 1))
                self.assertIsNone(self.event("version.returned"))
                c.destroy("a")
                self.client.since = c.events()[-1]["seq"]

    def test_the_next_reload_begins_its_own(self):
        c = self.client
        self.begin()
        c.reload("a", V3)
        self.assertEqual(self.event("version.proven")["by"], "another reload")
        self.assertEqual(c.call("a", "increment"), {"count": 8})
        self.die(int(signal.SIGSEGV))
        self.assertEqual(c.call("a", "get"), {"code": 2, "count": 7})  # what version 2 had saved
        self.assertEqual(self.statuses(), {1: "superseded", 2: "current", 3: "quarantined"})

    def during_a_reload(self, number):
        """The version on probation dies of a signal while another one is rehearsed; what the reload says."""
        self.begin()

        def run():
            with self.daemon.client() as c:
                return c.reload("a", module("trial_v4"))

        reload = Background(run)
        wait_for(lambda: len(self.daemon.hosts()) == 2, "the rehearsal's copy")
        if number == signal.SIGKILL:
            self.kill_host("a")
        else:
            self.die(int(number))
        with self.assertRaises(RpcError) as caught:
            reload.result()
        self.assertEqual(caught.exception.code, "state_lost")
        wait_for(lambda: self.client.status("a") == "running", "the next process")
        return caught.exception.data

    def test_fault_during_the_next_reload(self):
        data = self.during_a_reload(signal.SIGSEGV)
        self.assertEqual((data["state_from"], data["acknowledged_since"]), ("commit", 2))
        self.assertEqual(self.client.call("a", "get"), {"code": 1, "count": 5})
        self.assertEqual(self.statuses(), {1: "current", 2: "quarantined"})
        self.assertEqual(self.client.info("a")["restart_count"], 0)

    def test_kill_during_the_next_reload(self):
        data = self.during_a_reload(signal.SIGKILL)
        self.assertEqual((data["state_from"], data["acknowledged_since"]), ("fresh", 3))
        self.assertEqual(self.client.call("a", "get"), {"code": 2, "count": 0})
        self.assertEqual(self.statuses(), {1: "good", 2: "probation"})

    def test_a_rollback_is_not_on_probation(self):
        c = self.client
        self.begin()
        r = c.rpc("sandbox.rollback", id="a")
        self.assertNotIn("probation_ms", r)
        self.assertEqual(self.statuses(), {1: "current", 2: "good"})
        self.assertIsNone(c.info("a")["probation"])
        self.die(int(signal.SIGSEGV))
        self.assertEqual((c.info("a")["version"], c.info("a")["restart_count"]), (1, 1))

    def test_none_where_none_is_wanted(self):
        self.begin(probation_ms=0)
        self.assertIsNone(self.client.info("a")["probation"])
        self.die(int(signal.SIGSEGV))
        self.assertEqual(self.client.call("a", "get"), {"code": 2, "count": 0})

    def test_it_ends_with_control(self):
        """Its successor has no state to go back to: a fault is a crash."""
        self.begin()
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.client = c
            self.assertIsNone(c.info("a")["probation"])
            self.assertEqual(self.statuses(), {1: "good", 2: "current"})
            self.assertEqual(c.call("a", "get"), {"code": 2, "count": 7})

    def test_quarantine_is_durable(self):
        c = self.client
        self.begin()
        self.die(int(signal.SIGSEGV))
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.client = c
            self.assertEqual(self.statuses(), {1: "current", 2: "quarantined"})
            with self.assertRaises(RpcError) as caught:
                c.reload("a", V2)
            self.assertEqual(caught.exception.code, "quarantined")

    def test_commit_says_what_it_did(self):
        self.begin()
        self.assertIn("no longer on probation", self.ctl("commit", "a").out)
        self.assertIn("wasn't on probation", self.ctl("commit", "a").out)
        self.assertEqual(self.ctl("commit", "a", "--json").json(), {"id": "a", "version": 2, "was_on_probation": False})
        self.assertEqual(self.ctl("commit", "nobody").status, 3)

    def test_keep_versions(self):
        c = self.client
        c.create("a", V1, keep_versions=2)
        for path in (V2, V3):
            c.reload("a", path)
        self.assertEqual(self.statuses(), {2: "good", 3: "probation"})
        for bad in (1, 11, -1, "x"):
            with self.assertRaises(RpcError) as caught:
                c.create("b", V1, keep_versions=bad)
            self.assertEqual(caught.exception.code, "bad_param")


class Check(Case):
    def test_check_changes_nothing(self):
        c = self.client
        pid = c.create("a", COUNTER1)["pid"]
        c.call("a", "increment", by=5)
        before = c.rpc("version.list", id="a")
        r = c.reload("a", COUNTER2, check=True)
        self.assertEqual((r["outcome"], r["from"], r["to"]), ("checked", 1, 2))
        self.assertEqual(r["report"]["added"], ["step", "owner"])
        self.assertGreater(r["state_bytes"], 0)
        self.assertNotIn("pause_us", r)
        self.assertEqual(c.rpc("version.list", id="a"), before)
        self.assertEqual((c.info("a")["pid"], c.call("a", "get")), (pid, {"count": 5}))
        text = self.ctl("reload", "a", COUNTER2, "--check")
        self.assertEqual(text.status, 0)
        self.assertIn("nothing was changed", text.out)
        self.assertIn("added: step, owner", text.out)
        self.assertEqual(c.reload("a", COUNTER2)["to"], 2)

    def test_check_that_fails(self):
        c = self.client
        c.create("a", module("tally"))
        with self.assertRaises(RpcError) as caught:
            c.reload("a", module("mismatch"), check=True)
        self.assertEqual(caught.exception.data["step"], "rehearse")
        self.assertTrue(caught.exception.data["nothing_changed"])
        self.assertEqual(c.status("a"), "running")

    def test_check_of_what_is_quarantined_is_allowed(self):
        c = self.client
        c.create("a", V1)
        c.reload("a", V2)
        with self.assertRaises(RpcError):
            c.call("a", "die", signal=int(signal.SIGSEGV))
        wait_for(lambda: c.status("a") == "running" and c.info("a")["version"] == 1, "the return")
        self.assertEqual(c.reload("a", V2, check=True)["to"], 2)
        self.assertEqual(c.info("a")["version"], 1)


if __name__ == "__main__":
    main()
