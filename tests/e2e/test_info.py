#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What info tells of a sandbox over time: when it was last changed, how often it was restarted, whose budget counts; and who may be told."""
import json
import os
import signal
import time
import unittest

from harness import COUNTER1, COUNTER2, IS_ROOT, OTHER_UID, THIRD_UID, Case, main, module, wait_for


class Info(Case):
    config = "socket_mode = 0666\noperators = %d, %d\n" % (OTHER_UID, THIRD_UID)

    def tearDown(self):
        with self.daemon.client() as c:
            for i in c.ids():
                c.destroy(i)
            for g in reversed(c.rpc("group.list")["groups"]):
                c.rpc("group.destroy", id=g["id"])
        super().tearDown()

    def info(self, name="a"):
        with self.daemon.client() as c:
            return c.info(name)

    def later(self, was, name="a"):
        """updated_at, which must be later than `was`."""
        now = self.info(name)["updated_at"]
        self.assertGreater(now, was)
        return now

    def crash(self, name):
        before = self.info(name)
        os.kill(before["pid"], signal.SIGKILL)
        wait_for(lambda: (lambda i: i["status"] == "running" and i["generation"] != before["generation"])(self.info(name)), "the successor")

    def test_updated_at(self):
        for persist in (True, False):
            c = self.daemon.client()
            i = c.create("a", COUNTER1, persist=persist)
            self.assertEqual(i["updated_at"], i["created_at"])
            t = i["updated_at"]
            c.call("a", "increment")
            self.crash("a")
            self.assertEqual(self.info()["updated_at"], t, "a crash and its restart are no change")
            c.rpc("sandbox.restart", id="a")
            self.assertEqual(self.info()["updated_at"], t)
            c.rpc("sandbox.reset", id="a")
            self.assertEqual(self.info()["updated_at"], t)
            wait_for(lambda: self.now_ms() > t, "the next millisecond")
            c.reload("a", COUNTER2)
            t = self.later(t)
            self.daemon.kill_control()
            self.assertEqual(self.info()["updated_at"], t, "kept over a restart of control")
            c = self.daemon.client()
            wait_for(lambda: self.now_ms() > t, "the next millisecond")
            c.rpc("sandbox.rollback", id="a")
            t = self.later(t)
            wait_for(lambda: self.now_ms() > t, "the next millisecond")
            c.rpc("sandbox.stop", id="a")
            t = self.later(t)
            self.daemon.kill_control()
            self.assertEqual(self.info()["updated_at"], t)
            c = self.daemon.client()
            c.rpc("sandbox.start", id="a")
            t = self.later(t)
            c.rpc("group.create", id="g%d" % persist)
            wait_for(lambda: self.now_ms() > t, "the next millisecond")
            c.rpc("group.add", id="g%d" % persist, sandbox="a")
            t = self.later(t)
            self.crash("a")
            self.assertEqual(self.info()["updated_at"], t)
            self.assertIn("updated ", self.ctl("info", "a").out)
            c.destroy("a")

    @staticmethod
    def now_ms():
        return int(time.time() * 1000)

    def test_updated_at_is_on_disk(self):
        c = self.client
        c.create("a", COUNTER1)
        wait_for(lambda: self.now_ms() > self.info()["updated_at"], "the next millisecond")
        c.rpc("sandbox.stop", id="a")
        t = self.info()["updated_at"]
        self.assertEqual(self.daemon.terminate(), 0)
        self.daemon.start()
        self.assertEqual((self.info()["status"], self.info()["updated_at"]), ("stopped", t))
        self.client = self.daemon.client()

    def test_a_requested_restart_is_counted(self):
        c = self.client
        c.create("a", COUNTER1)
        self.assertEqual(c.rpc("sandbox.restart", id="a")["restart_count"], 1)
        self.crash("a")
        i = c.rpc("sandbox.restart", id="a", state="fresh")
        self.assertEqual((i["restart_count"], i["budget"]["used"]), (3, 1), "its budget knows of the crash only")
        c.rpc("sandbox.stop", id="a")
        self.assertEqual(c.rpc("sandbox.start", id="a")["restart_count"], 3)
        self.assertEqual(c.rpc("sandbox.list")["sandboxes"][0]["restart_count"], 3)
        self.daemon.kill_control()
        self.assertEqual(self.info()["restart_count"], 3)
        with self.daemon.client() as c:
            c.rpc("group.create", id="g", intensity=2)
            c.create("m", COUNTER1, group="g")
            i = c.rpc("sandbox.restart", id="m")
            self.assertEqual((i["restart_count"], i["budget"]["used"]), (1, 0))
            self.assertEqual(c.rpc("group.info", id="g")["members"][0]["restart_count"], 1)

    def test_a_restart_that_was_refused_is_not_counted(self):
        c = self.client
        c.create("a", module("spoilt"))
        c.call("a", "spoil")
        self.refused("reload_failed", c.rpc, "sandbox.restart", id="a")
        i = c.info("a")
        self.assertEqual((i["status"], i["restart_count"]), ("running", 0))
        self.refused("not_found", c.rpc, "sandbox.restart", id="none")

    def test_a_member_shows_the_budget_of_its_group(self):
        c = self.client
        c.rpc("group.create", id="top", intensity=7, period_ms=120000)
        c.rpc("group.create", id="sub", parent="top", intensity=3)
        c.create("m", COUNTER1, group="sub")
        c.create("lone", COUNTER1, intensity=4)
        i = c.info("m")
        self.assertEqual((i["budget_of"], i["budget"]["used"], i["budget"]["allowed"], i["budget"]["period_ms"]), ("sub", 0, 3, 60000))
        self.crash("m")
        self.crash("lone")
        i = c.info("m")
        self.assertEqual((i["budget"]["used"], c.rpc("group.info", id="sub")["budget"]["used"]), (1, 1))
        self.assertGreater(i["budget"]["resets_in_ms"], 0)
        self.assertRegex(self.ctl("info", "m").out, r"restart budget +1 of 3 used, resets in \d+ s, counted by group sub\n")
        i = c.info("lone")
        self.assertEqual((i["budget_of"], i["budget"]["used"], i["budget"]["allowed"]), (None, 1, 4))
        self.assertRegex(self.ctl("info", "lone").out, r"restart budget +1 of 4 used, resets in \d+ s\n")
        tree = c.rpc("group.tree")
        self.assertEqual([(s["id"], s["budget"]["used"], s["budget"]["allowed"]) for s in tree["sandboxes"]], [("lone", 1, 4)])
        drawn = self.ctl("tree").out
        self.assertRegex(drawn, r"\nlone: running.*, 1 of 4 restarts used\n")
        self.assertRegex(drawn, r"`-- sub: .*, 1 of 3 restarts used\n")
        self.assertNotRegex(drawn, r"m: running.* restarts used")
        i = c.rpc("group.remove", id="sub", sandbox="m")
        self.assertEqual((i["budget_of"], i["budget"]["allowed"]), (None, 5))
        c.rpc("group.add", id="top", sandbox="m")
        c.rpc("group.stop", id="top")
        i = c.info("m")
        self.assertEqual((i["budget_of"], i["budget"]["used"], i["budget"]["allowed"]), ("top", 0, 7))

    def test_already_exists_shows_it(self):
        c = self.client
        c.create("a", COUNTER1, labels={"k": "v"})
        e = self.refused("already_exists", c.create, "a", COUNTER2)
        self.assertEqual((e.data["sandbox"]["id"], e.data["sandbox"]["labels"], e.data["sandbox"]["status"]), ("a", {"k": "v"}, "running"))
        self.assertEqual(set(e.data["sandbox"]), set(c.info("a")))
        r = self.ctl("create", "a", COUNTER1)
        self.assertEqual((r.status, r.out), (4, ""))
        self.assertIn("\n  status: running\n", r.err)
        self.assertNotIn("sha256", r.err)
        self.assertEqual(json.loads(self.ctl("create", "a", COUNTER1, "--json").out)["error"]["data"]["sandbox"]["id"], "a")
        c.rpc("group.create", id="g")
        self.assertNotIn("sandbox", self.refused("already_exists", c.create, "g", COUNTER1).data)

    @unittest.skipUnless(IS_ROOT, "clients of other users are needed, and only root can be another user")
    def test_already_exists_tells_nothing_of_others(self):
        self.assertEqual(self.ctl("create", "mine", COUNTER1, "--label", "secret=x", uid=OTHER_UID).status, 0)
        r = self.ctl("create", "mine", COUNTER1, "--json", uid=THIRD_UID)
        self.assertEqual(r.status, 4)
        data = r.json()["error"]["data"]
        self.assertEqual((data["code"], set(data)), ("already_exists", {"code", "hint"}))
        self.assertEqual(self.ctl("create", "mine", COUNTER1, "--json", uid=OTHER_UID).json()["error"]["data"]["sandbox"]["owner"], OTHER_UID)

    def test_check(self):
        self.client.create("a", COUNTER1)
        r = self.ctl("info", "a", "--check")
        self.assertEqual(r.status, 0, r.err)
        self.assertIn("running", r.out)
        r = self.ctl("info", "a", "--check", "-q")
        self.assertEqual((r.status, r.out, r.err), (0, "", ""))
        self.assertEqual(self.ctl("info", "a", "--check", "--json").json()["id"], "a")
        self.client.rpc("sandbox.stop", id="a")
        r = self.ctl("info", "a", "--check")
        self.assertEqual((r.status, r.err), (4, ""))
        self.assertIn("stopped", r.out)
        r = self.ctl("info", "a", "--check", "--quiet")
        self.assertEqual((r.status, r.out, r.err), (4, "", ""))
        r = self.ctl("info", "a", "--check", "--json")
        self.assertEqual((r.status, r.json()["status"]), (4, "stopped"))
        self.assertEqual(self.ctl("info", "a").status, 0)
        self.assertEqual(self.ctl("info", "none", "--check", "-q").status, 3)
        self.assertEqual(self.ctl("info", "a", "--check=x").status, 2)


if __name__ == "__main__":
    main()
