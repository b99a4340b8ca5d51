#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sandbox.list: filters, alone and together; pages that filters, long labels and other users' sandboxes leave right."""
import unittest

from harness import COUNTER1, IS_ROOT, OTHER_UID, THIRD_UID, Case, main


class List(Case):
    config = "socket_mode = 0666\noperators = %d, %d\n" % (OTHER_UID, THIRD_UID)

    def listed(self, client=None, **filters):
        """The ids on all pages; each page goes on where the one before ended."""
        ids, after = [], {}
        while True:
            page = (client or self.client).rpc("sandbox.list", **filters, **after)
            ids += [s["id"] for s in page["sandboxes"]]
            self.assertLessEqual(len(page["sandboxes"]), filters.get("limit", 500))
            if page["next"] is None:
                self.assertEqual(len(set(ids)), len(ids))
                return ids
            self.assertNotEqual({"after": page["next"]}, after)
            after = {"after": page["next"]}

    def some(self):
        c = self.client
        c.rpc("group.create", id="shop")
        c.create("web-1", COUNTER1, labels={"team": "a", "zone": ""}, group="shop", persist=False)
        c.create("web-2", COUNTER1, labels={"team": "b=c"}, profile="high", persist=False)
        c.create("db", COUNTER1, labels={"team": "a"}, group="shop", persist=False)
        c.create("lone", COUNTER1, persist=False)
        c.rpc("sandbox.stop", id="lone")

    def tearDown(self):
        with self.daemon.client() as c:
            for i in c.ids():
                c.destroy(i)
            for g in c.rpc("group.list")["groups"]:
                c.rpc("group.destroy", id=g["id"])
        super().tearDown()

    def test_filters(self):
        self.some()
        for filters, want in (({}, ["web-1", "web-2", "db", "lone"]), ({"status": "stopped"}, ["lone"]), ({"status": "failed"}, []),
                              ({"status": "running"}, ["web-1", "web-2", "db"]), ({"label": "team"}, ["web-1", "web-2", "db"]),
                              ({"label": "team=a"}, ["web-1", "db"]), ({"label": "team="}, []), ({"label": "zone="}, ["web-1"]),
                              ({"label": "team=b=c"}, ["web-2"]), ({"label": "Team"}, []), ({"group": "shop"}, ["web-1", "db"]),
                              ({"group": "none"}, []), ({"profile": "high"}, ["web-2"]), ({"profile": "low"}, []),
                              ({"name": "web-*"}, ["web-1", "web-2"]), ({"name": "*b"}, ["db"]), ({"name": "web-[!1]"}, ["web-2"]),
                              ({"name": "web"}, []), ({"name": "??"}, ["db"]), ({"name": "web-*", "group": "shop", "label": "team=a"}, ["web-1"]),
                              ({"profile": "high", "group": "shop"}, [])):
            self.assertEqual(self.listed(**filters), want, filters)
            for limit in (1, 2, 3):
                self.assertEqual(self.listed(limit=limit, **filters), want, (filters, limit))
            options = [x for k, v in filters.items() for x in ("--" + k, v)]
            self.assertEqual(self.ctl("list", "--quiet", *options).out.split(), want)
        row = self.client.rpc("sandbox.list", name="web-1")["sandboxes"][0]
        self.assertEqual((row["group"], row["profile"], row["labels"]), ("shop", "medium", {"team": "a", "zone": ""}))
        row = self.client.rpc("sandbox.list", name="lone")["sandboxes"][0]
        self.assertEqual((row["group"], row["profile"], row["labels"]), (None, "medium", {}))
        table = self.ctl("list", "--name", "w*").out.splitlines()
        self.assertEqual(table[0].split()[-3:], ["GROUP", "PROFILE", "LABELS"])
        self.assertEqual([l.split()[-3:] for l in table[1:]], [["shop", "medium", "team=a,zone="], ["-", "high", "team=b=c"]])
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertEqual(self.listed(c, label="team=a"), ["web-1", "db"])

    def test_the_last_page_says_so(self):
        self.some()
        page = self.client.rpc("sandbox.list", name="web-*", limit=2)
        self.assertEqual(([s["id"] for s in page["sandboxes"]], page["next"]), (["web-1", "web-2"], None))
        page = self.client.rpc("sandbox.list", name="web-*", limit=1)
        self.assertEqual(([s["id"] for s in page["sandboxes"]], page["next"]), (["web-1"], "web-1"))

    def test_bad_filters(self):
        for filters, names in (({"status": "gone"}, "status"), ({"status": "Running"}, "status"), ({"profile": "none"}, "profile"),
                               ({"label": ""}, "label"), ({"label": "=a"}, "label"), ({"label": "a b"}, "label"), ({"label": "x" * 400}, "label"),
                               ({"name": ""}, "name"), ({"name": "a/b"}, "name"), ({"name": "web-["}, "name"), ({"name": "[]"}, "name"),
                               ({"name": "[!]"}, "name"), ({"name": "a]"}, "name"), ({"name": "*" * 129}, "name"), ({"name": 5}, "name")):
            e = self.refused("bad_param", self.client.rpc, "sandbox.list", **filters)
            self.assertEqual(e.data["name"], names, filters)
        self.refused("invalid_id", self.client.rpc, "sandbox.list", group="../x")
        self.refused("unknown_param", self.client.rpc, "sandbox.list", labels="a")
        self.assertEqual(self.ctl("list", "--status", "gone").status, 2)
        self.assertEqual(self.ctl("list", "--name", "[").status, 2)

    def test_long_labels_end_a_page_early(self):
        """One page is bounded in its bytes and in the work of its filters; all of them together have every row."""
        long = {"n%062d" % i: "x" * 256 for i in range(32)}
        want = ["s%03d" % i for i in range(130)]
        for i in want:
            self.client.create(i, COUNTER1, labels={**long, "n%062d" % 0: i}, persist=False)
        page = self.client.rpc("sandbox.list")
        self.assertLess(len(page["sandboxes"]), len(want))
        self.assertEqual(page["next"], page["sandboxes"][-1]["id"])
        self.assertEqual(self.listed(), want)
        label = "n%062d" % 0
        page = self.client.rpc("sandbox.list", label=label + "=s129")  # the work ends the page before it has a row
        self.assertEqual(page["sandboxes"], [])
        self.assertIn(page["next"], want)
        self.assertEqual(self.listed(label=label + "=s129"), ["s129"])
        self.assertEqual(self.ctl("list", "-q", "--label", label + "=s129").out, "s129\n")
        self.assertEqual(self.ctl("list", "-q", "--limit", "1", "--label", label + "=s129").out, "s129\n")
        self.assertEqual(self.listed(name="*[0-9]*[0-9]*9"), [i for i in want if i[-1] == "9"])

    @unittest.skipUnless(IS_ROOT, "clients of other users are needed, and only root can be another user")
    def test_filters_tell_nothing_of_others(self):
        def as_user(uid, *args):
            r = self.ctl(*args, "--json", uid=uid)
            self.assertEqual(r.status, 0, r.err)
            return r.json()

        for i in range(4):
            as_user(OTHER_UID, "create", "m%d" % i, COUNTER1, "--no-persist", "--label", "k=v")
            as_user(THIRD_UID, "create", "t%d" % i, COUNTER1, "--no-persist", "--label", "k=v")
        for filters in ([], ["--label", "k=v"], ["--name", "*"], ["--status", "running"]):
            for limit in ("1", "3", "4"):
                ids, after = [], []
                while True:
                    page = as_user(OTHER_UID, "list", "--limit", limit, *filters, *after)
                    ids += [s["id"] for s in page["sandboxes"]]
                    if "next" not in page:
                        break
                    self.assertEqual(page["next"][0], "m")
                    after = ["--after", page["next"]]
                self.assertEqual(ids, ["m0", "m1", "m2", "m3"], filters)
                self.assertTrue(page["sandboxes"], "a page behind the last row")


if __name__ == "__main__":
    main()
