#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The state for people: state.get, state.check, schema.get, and the verbs that compare."""
import json
import os
import shutil
import tempfile

from harness import COUNTER1, COUNTER2, Case, RpcError, example, main, module, wait_for


class State(Case):
    def get(self, sandbox="a", **params):
        return self.client.rpc("state.get", id=sandbox, **params)

    def test_get(self):
        c = self.client
        c.create("a", COUNTER1)
        c.call("a", "increment", by=5)
        r = self.get()
        self.assertEqual((r["id"], r["version"], r["state_version"], r["state"], r["timers"], r["own"]), ("a", 1, 1, {"count": 5}, None, None))
        c.reload("a", COUNTER2)
        c.call("a", "increment")
        self.assertEqual(self.get()["state"], {"total": 6, "step": 1, "owner": "nobody"})
        # what version 1 was left with; its own names
        self.assertEqual((self.get(version=1)["state"], self.get(version=1)["version"]), ({"count": 5}, 1))
        self.assertEqual(self.ctl("state", "get", "a").json(), {"total": 6, "step": 1, "owner": "nobody"})
        self.assertEqual(self.ctl("state-get", "a", "1").json(), {"count": 5})
        self.assertEqual(self.ctl("state", "get", "a", "--json").json()["version"], 2)
        self.assertEqual(c.call("a", "get")["count"], 6)  # and nothing was changed

    def test_get_of_many_kinds(self):
        """Maps, own state, timers."""
        c = self.client
        c.create("kv", example("kv/kv"))
        c.call("kv", "set", key="a", value="x")
        c.call("kv", "set", key="b", value="ü\"")
        self.assertEqual(self.get("kv")["state"], {"items": {"a": "x", "b": "ü\""}, "writes": 2})
        c.create("lru", example("lru/lru"))
        self.assertIsInstance(self.get("lru")["own"], dict)
        c.create("light", example("light/light"))
        for name in ("kv", "lru", "light"):
            self.assertTrue(self.client.rpc("state.check", id=name)["same"], name)

    def test_get_while_calls_run(self):
        """It is taken between two calls, and holds none up."""
        c = self.client
        c.create("a", COUNTER1)
        with self.daemon.client() as d:
            for n in range(20):
                d.request("sandbox.call", id="a", function="increment", args={"by": 1})
                if n == 10:
                    first = self.get()["state"]["count"]
            for n in range(20):
                d.line()
        self.assertLessEqual(first, 20)
        self.assertEqual(self.get()["state"], {"count": 20})

    def test_refused(self):
        c = self.client
        c.create("a", COUNTER1)
        self.refused("version_not_found", self.get, version=9)
        self.refused("state_not_found", self.get, version=1)
        self.refused("bad_param", self.get, version=0)
        self.refused("unknown_param", self.get, path="x")
        self.refused("not_found", self.get, "nobody")
        for method in ("state.get", "state.check"):
            c.rpc("sandbox.stop", id="a")
            self.refused("wrong_state", c.rpc, method, id="a")
            c.rpc("sandbox.start", id="a")
        self.refused("object_not_found", c.rpc, "state.check", id="a", object="0" * 64)

    def test_too_large_as_json(self):
        c = self.client
        c.create("kv", example("kv/kv"))
        for n in range(3):
            c.call("kv", "set", key="k%d" % n, value="x" * 500000)
        self.refused("reply_too_large", self.get, "kv")
        self.assertTrue(c.rpc("state.check", id="kv")["same"])
        c.call("kv", "drop", key="k1")
        c.call("kv", "drop", key="k2")
        self.assertEqual(len(self.get("kv")["state"]["items"]["k0"]), 500000)

    def test_one_question_at_a_time(self):
        """While a call runs the answer waits behind it; another question is busy; the end of the process ends it."""
        c = self.client
        c.create("s", module("sleeper"), restart="temporary")
        with self.daemon.client() as d, self.daemon.client() as e:
            d.request("sandbox.call", id="s", function="doze", args={"ms": 600000})
            wait_for(lambda: c.info("s")["queue"]["running"] == 1, "a call that runs")
            e.request("state.get", id="s")
            wait_for(lambda: self.is_busy("s"), "the other question")
            self.kill_host("s")
            self.assertEqual(json.loads(e.line())["error"]["data"]["code"], "crashed")

    def is_busy(self, sandbox):
        with self.daemon.client() as other:
            n = other.request("state.get", id=sandbox)
            try:
                return other.reply(n, timeout=1).get("error", {}).get("data", {}).get("code") == "busy"
            except OSError:
                return False

    def test_check_with_code_is_a_rehearsal(self):
        c = self.client
        c.create("a", COUNTER1)
        c.call("a", "increment", by=5)
        sha = c.put(open(COUNTER2, "rb").read())
        r = c.rpc("state.check", id="a", object=sha)
        self.assertEqual((r["outcome"], r["from"], r["to"]), ("checked", 1, 2))
        self.assertEqual(r["report"]["added"], ["step", "owner"])
        self.assertEqual(c.info("a")["version"], 1)
        r = self.ctl("state", "check", "a", COUNTER2)
        self.assertEqual(r.status, 0, r.err)
        self.assertIn("nothing was changed", r.out)
        self.assertIn("the same", self.ctl("state", "check", "a").out)
        self.assertEqual(self.ctl("state", "check", "a", module("mismatch")).status, 8)  # another module

    def test_a_save_that_is_not_faithful(self):
        """What `save` writes comes out different each time: the proof fails, with status 1."""
        c = self.client
        c.create("u", module("unfaithful"))
        r = c.rpc("state.check", id="u")
        self.assertFalse(r["same"])
        self.assertLess(r["differs_at"], r["state_bytes"])
        r = self.ctl("state", "check", "u")
        self.assertEqual(r.status, 1)
        self.assertIn("isn't what was saved", r.out)

    def set(self, sandbox="a", **state):
        return self.client.rpc("state.set", id=sandbox, state=state)

    def test_set(self):
        """A transaction: what isn't named stays, calls and their order too; the version is the same; it can be undone."""
        c = self.client
        c.create("a", COUNTER1)
        pid = c.reload("a", COUNTER2) and c.info("a")["pid"]
        c.call("a", "increment", by=5)
        r = self.set(total=100, owner="ann")
        self.assertEqual((r["outcome"], r["from"], r["to"]), ("set", 2, 2))
        self.assertNotIn("probation_ms", r)
        self.assertEqual(c.call("a", "get"), {"count": 100, "step": 1, "owner": "ann"})
        self.assertEqual((c.info("a")["pid"], c.info("a")["state_from"], c.info("a")["probation"]["version"]), (pid, "set", 2))
        self.assertEqual([v["loads"] for v in c.rpc("version.list", id="a")["versions"]], [1, 1])
        e = [e for e in c.events("a") if e["type"] == "state.set"][-1]
        self.assertEqual((e["from"], e["to"]), (2, 2))
        r = self.ctl("state", "set", "a", "step=7", "owner=bob")
        self.assertEqual(r.status, 0, r.err)
        self.assertIn("the state of version 2 is changed", r.out)
        self.assertEqual(self.get()["state"], {"total": 100, "step": 7, "owner": "bob"})
        r = c.rpc("sandbox.rollback", id="a", version=2, state="saved")  # the undo
        self.assertEqual((r["to"], r["acknowledged_since"]), (2, 0))
        self.assertEqual(self.get()["state"], {"total": 100, "step": 1, "owner": "ann"})

    def test_set_what_was_got(self):
        c = self.client
        for name, path in (("kv", example("kv/kv")), ("inv", example("inventory/inventory_v2"))):
            c.create(name, path)
        c.call("kv", "set", key="k", value="v")
        c.call("inv", "add", sku="bolt", cents=5, tags=["a", "b"])
        for name in ("kv", "inv"):
            before = self.get(name)["state"]
            self.set(name, **before)
            self.assertEqual(self.get(name)["state"], before)
        self.set("kv", items={"x": "1", "y": "2"})
        self.assertEqual(c.call("kv", "get", key="y"), {"value": "2"})
        self.refused("module_error", c.call, "kv", "get", key="k")

    def test_set_refused(self):
        """By the schema, by the range, by the module's check: nothing changed."""
        c = self.client
        c.create("a", COUNTER2)
        c.create("inv", example("inventory/inventory_v2"))
        c.call("inv", "add", sku="bolt", cents=5)
        for state, name in (({"totel": 1}, ""), ({"total": "x"}, "total"), ({"step": 5000}, "step"), ({"owner": "x" * 16}, "owner")):
            with self.assertRaises(RpcError) as caught:
                self.set(**state)
            self.assertEqual((caught.exception.code, caught.exception.data.get("name", "")), ("state_mismatch", name))
            self.assertEqual((caught.exception.data["outcome"], caught.exception.data["step"]), ("nothing_changed", "rehearse"))
        items = self.get("inv")["state"]["items"]
        items[0]["cents"] = 10 ** 9
        self.refused("reload_failed", self.set, "inv", items=items)
        self.assertEqual(self.get("inv")["state"]["items"][0]["cents"], 5)
        self.refused("bad_param", c.rpc, "state.set", id="a", state=[])
        self.refused("missing_param", c.rpc, "state.set", id="a")
        self.refused("limit_exceeded", self.set, owner="x" * 50000)
        self.assertEqual(self.ctl("state", "set", "a", "step=5000").status, 9)
        self.assertEqual(self.ctl("state", "set", "a").status, 2)
        self.assertEqual(self.get()["state"], {"total": 0, "step": 1, "owner": "nobody"})
        h = c.rpc("version.history", id="a")
        self.assertEqual((h["reloads"], h["failed_reloads"]), (0, 0))

    def test_set_while_calls_run(self):
        """Each increment is counted either before (and overwritten) or behind: never lost behind it."""
        c = self.client
        c.create("a", COUNTER1)
        with self.daemon.client() as d:
            for n in range(30):
                d.request("sandbox.call", id="a", function="increment", args={"by": 1})
                if n == 15:
                    self.set(count=1000)
            counts = [json.loads(d.line())["result"]["result"]["count"] for _ in range(30)]
        high = [n for n in counts if n > 1000]
        low = [n for n in counts if n <= 1000]
        self.assertEqual(counts, low + high)
        self.assertEqual(high, list(range(1001, 1001 + len(high))))
        self.assertEqual(low, list(range(1, 1 + len(low))))
        self.assertEqual(self.get()["state"], {"count": 1000 + len(high)})

    def test_set_after_a_death_in_the_load(self):
        own = self.own_daemon(options=["--fault", "host.load=crash:1"])
        with own.client() as d:
            d.create("a", COUNTER1)
            d.call("a", "increment", by=5)
            with self.assertRaises(RpcError) as caught:
                d.rpc("state.set", id="a", state={"count": 9})
            self.assertEqual(caught.exception.data["outcome"], "recovered")
            wait_for(lambda: d.status("a") == "running", "its process")
            self.assertEqual(d.call("a", "get"), {"count": 5})
            self.assertEqual(d.rpc("state.set", id="a", state={"count": 9})["outcome"], "set")
            self.assertEqual(d.call("a", "get"), {"count": 9})
            own.look()

    def test_schema(self):
        c = self.client
        c.create("a", COUNTER1)
        c.reload("a", COUNTER2)
        s = c.rpc("schema.get", id="a")
        self.assertEqual([f["name"] for f in s["state"]], ["total", "step", "owner"])
        self.assertEqual((s["version"], s["structs"]), (2, []))
        self.assertEqual(c.rpc("schema.get", id="a", version=2), s)
        self.assertEqual([f["name"] for f in c.rpc("schema.get", id="a", version=1)["state"]], ["count"])
        self.assertIn("total: i64", self.ctl("schema", "a").out)
        self.assertIn('owner: char[16] = nobody', self.ctl("schema", "a").out)
        c.rpc("sandbox.stop", id="a")
        self.assertEqual(c.rpc("schema.get", id="a")["state"], s["state"])  # of what ran last
        self.refused("wrong_state", c.rpc, "schema.get", id="a", version=1)
        self.refused("not_found", c.rpc, "schema.get", id="b")

    def test_diff(self):
        c = self.client
        folder = tempfile.mkdtemp(prefix="sbxd")
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "before")
        c.create("a", COUNTER1)
        c.call("a", "increment", by=5)
        c.create("b", COUNTER1)
        self.assertEqual(self.ctl("state", "diff", "a", "b").out, "~ count: 5 -> 0\n")
        self.assertEqual(self.ctl("state", "diff", "a", "a").out, "no difference\n")
        self.assertEqual(self.ctl("state-diff", "a", "b", "--json").json(), {"differences": [{"path": "count", "left": 5, "right": 0}]})
        for how in ([], ["--json"]):
            with open(path, "w") as f:
                f.write(self.ctl("state", "get", "a", *how).out)
            c.call("a", "increment", by=2)
            self.assertRegex(self.ctl("state", "diff", path, "a").out, r"^~ count: \d+ -> \d+\n$")
        c.reload("a", COUNTER2)
        self.assertEqual(self.ctl("state", "diff", "a@1", "a").out, '- count: 9\n+ total: 9\n+ step: 1\n+ owner: nobody\n')
        self.assertEqual(self.ctl("schema", "diff", "a@1", "a").out.count("\n"), 4)
        self.assertIn('- count: {"kind":"i64"}', self.ctl("schema", "diff", "a@1", "a").out)
        self.assertEqual(self.ctl("schema-diff", "a", "a").out, "no difference\n")
        for bad, status in (("a@x", 2), ("nobody", 3), ("a@7", 3), (os.path.join(folder, "none"), 2)):
            r = self.ctl("state", "diff", "a", bad)
            self.assertEqual((r.status, r.out), (status, ""), r.err)
        with open(path, "w") as f:
            f.write("[1")
        self.assertEqual(self.ctl("state", "diff", path, "a").status, 2)
        self.assertEqual(self.ctl("state").status, 2)
        self.assertEqual(self.ctl("state", "got", "a").status, 2)

    def test_a_question_cut_off_by_a_kill_of_control(self):
        c = self.client
        c.create("a", COUNTER1)
        self.get()
        old = self.daemon.control_pid()
        self.daemon.kill_control()
        self.daemon.wait_for_next_control(old)
        with self.daemon.client() as d:
            self.assertEqual(d.rpc("state.get", id="a")["state"], {"count": 0})
        self.client = self.daemon.client()

    def test_others_see_nothing(self):
        self.client.create("a", COUNTER1)
        self.assertEqual(self.get()["state"], {"count": 0})


if __name__ == "__main__":
    main()
