#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""explain GROUP: what a group decided, in sentences; and `help group create`, `create ID FOLDER`."""
import os
import shutil
import signal
import tempfile

from harness import COUNTER1, IS_ROOT, OTHER_UID, Case, example_source, main, wait_for


class Explain(Case):
    config = "socket_mode = 0666\noperators = %d\n" % OTHER_UID

    def tearDown(self):
        with self.daemon.client() as c:
            for i in c.ids():
                c.destroy(i)
            for g in reversed(c.rpc("group.list")["groups"]):
                c.rpc("group.destroy", id=g["id"])
        super().tearDown()

    def told(self, group):
        e = self.client.rpc("sandbox.explain", id=group)
        self.assertEqual((e["id"], e["next"]), (group, None))
        self.assertEqual(e["decisions"], sorted(e["decisions"], key=lambda d: d["at"]))
        return e

    def crash(self, name):
        before = self.client.info(name)
        os.kill(before["pid"], signal.SIGKILL)
        return before

    def test_sentences(self):
        c = self.client
        c.rpc("group.create", id="g", intensity=1, strategy="one_for_all")
        c.create("a", COUNTER1, group="g")
        c.create("b", COUNTER1, group="g", restart="temporary")
        self.assertEqual([d["kind"] for d in self.told("g")["decisions"]], ["created", "up"])
        before = self.crash("a")
        wait_for(lambda: (lambda i: i["status"] == "running" and i["generation"] > before["generation"])(c.info("a")), "the restart")
        restart = [d for d in self.told("g")["decisions"] if d["kind"] == "restart"]
        self.assertEqual([d["text"] for d in restart],
                         ["a ended (signal SIGKILL): a permanent child is always restarted. Restart 1 of the 1 that are allowed within 60000 ms; strategy one_for_all."])
        self.crash("a")
        wait_for(lambda: c.rpc("group.info", id="g")["status"] == "failed", "the group to give up")
        e = self.told("g")
        self.assertEqual((e["status"], e["status_reason"]), ("failed", "too many restarts within the period"))
        texts = {d["kind"]: d["text"] for d in e["decisions"]}
        self.assertEqual(texts["gave_up"], "Restart 2 within 60000 ms is more than the 1 allowed: the group gives up.")
        self.assertEqual(texts["failed"], "The group is failed until a start or a reset: too many restarts within the period.")
        c.rpc("group.reset", id="g")
        c.rpc("group.start", id="g")
        self.assertEqual([d["kind"] for d in self.told("g")["decisions"]][-3:], ["reset", "request", "up"])
        r = self.ctl("explain", "g")
        self.assertEqual(r.status, 0, r.err)
        self.assertIn("  It was created: strategy one_for_all, 1 restarts of members within 60000 ms.\n", r.out)
        self.assertTrue(r.out.endswith("\nnow: up\n"), r.out)
        c.rpc("group.stop", id="g")
        self.assertEqual([d["kind"] for d in self.told("g")["decisions"]][-3:], ["request", "ending", "down"])

    def test_the_ring_is_bounded(self):
        c = self.client
        c.rpc("group.create", id="g")
        for _ in range(12):
            c.rpc("group.stop", id="g")
            c.rpc("group.start", id="g")
        e = self.told("g")
        self.assertEqual(len(e["decisions"]), 16)
        self.assertEqual(e["forgotten"], 2 + 12 * 5 - 16)
        self.daemon.kill_control()
        self.client = self.daemon.client()
        self.assertLessEqual(len(self.told("g")["decisions"]), 1, "a new control begins anew")

    def test_groups_in_groups(self):
        c = self.client
        c.rpc("group.create", id="top")
        c.rpc("group.create", id="sub", parent="top")
        c.create("once", COUNTER1, group="sub", restart="temporary")
        self.crash("once")
        wait_for(lambda: any(d["kind"] == "stays_down" for d in self.told("sub")["decisions"]), "the group to decide")
        stays = [d for d in self.told("sub")["decisions"] if d["kind"] == "stays_down"]
        self.assertEqual([d["text"] for d in stays], ["once ended (signal SIGKILL): a temporary child is never restarted."])
        self.assertNotIn("stays_down", [d["kind"] for d in self.told("top")["decisions"]])

    def test_bad(self):
        self.refused("not_found", self.client.rpc, "sandbox.explain", id="none")
        self.refused("invalid_id", self.client.rpc, "sandbox.explain", id="../g")
        self.client.rpc("group.create", id="g")
        if IS_ROOT:
            r = self.ctl("explain", "g", "--json", uid=OTHER_UID)
            self.assertEqual((r.status, r.json()["error"]["data"]["code"]), (3, "not_found"))


class Words(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxf")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_help_of_two_words(self):
        want = self.ctl("help", "group-create").out
        self.assertIn("Usage: sandboxctl group-create GROUP", want)
        for args in (["help", "group", "create"], ["group", "create", "--help"], ["group-create", "--help"], ["group", "create", "x", "-h"]):
            self.assertEqual(tuple(self.ctl(*args))[:2], (0, want), args)
        self.assertEqual(self.ctl("help", "schema", "diff").out, self.ctl("help", "schema-diff").out)
        self.assertEqual(self.ctl("help", "state", "get").out, self.ctl("help", "state-get").out)
        self.assertEqual(self.ctl("help", "--names", "group", "create").out, self.ctl("help", "--names", "group-create").out)
        for bad in (["help", "group"], ["help", "group", "nothing"], ["help", "group", "create", "x"], ["help", "create", "group"], ["help", "schema", "x"],
                    ["group", "--help", "nothing"]):
            r = self.ctl(*bad)
            self.assertEqual((r.status, r.out), (2, ""), bad)

    def write(self, name, data=b"x"):
        with open(os.path.join(self.folder, name), "wb") as f:
            f.write(data)

    def test_folder(self):
        with open(example_source("counter/counter_v1"), "rb") as f:
            source = f.read()
        r = self.ctl("create", "a", self.folder)
        self.assertEqual(r.status, 8)
        self.assertIn("is a folder without a .c or .so file", r.err)
        self.write("README.md")
        self.write(".hidden.c")
        os.mkdir(os.path.join(self.folder, "sub.c"))
        self.write("counter.c", source)
        for path in (self.folder, self.folder + "/"):
            r = self.ctl("create", "a", path)
            self.assertEqual(r.status, 0, r.err)
            self.assertEqual(self.client.rpc("version.list", id="a")["versions"][0]["source_name"], "counter.c")
            self.client.destroy("a")
        self.write("other.c", source)
        r = self.ctl("create", "a", self.folder, "--json")
        self.assertEqual((r.status, r.json()["error"]["data"]["code"]), (8, "bad_source"))
        self.assertIn("a folder with 2 .c and .so files: name the one that is meant", r.json()["error"]["message"])
        self.assertEqual(self.client.ids(), [])
        os.unlink(os.path.join(self.folder, "other.c"))
        os.unlink(os.path.join(self.folder, "counter.c"))
        shutil.copy(COUNTER1, self.folder)
        self.assertEqual(self.ctl("create", "a", self.folder).status, 0)
        self.assertEqual(self.ctl("reload", "a", self.folder, "--json").json()["outcome"], "no_change")


if __name__ == "__main__":
    main()
