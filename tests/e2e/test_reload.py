#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reload as a transaction: forth and back with the state, every way to fail with nothing changed, rollback, sources."""
import os
import shutil
import tempfile

from harness import (COUNTER1, COUNTER2, Background, Case, RpcError, example, main, module, read, wait_for)

INVENTORY1, INVENTORY2 = example("inventory/inventory_v1"), example("inventory/inventory_v2")


class Reload(Case):
    def test_forth_and_back(self):
        c = self.client
        pid = c.create("a", COUNTER1)["pid"]
        c.call("a", "increment", by=5)
        r = c.reload("a", COUNTER2)
        self.assertEqual((r["outcome"], r["from"], r["to"], r["rung"], r["pinned"]), ("reloaded", 1, 2, "in_place", None))
        self.assertEqual(r["report"]["renamed"], [{"field": "total", "from": "count", "to": "total"}])
        self.assertEqual(r["report"]["added"], ["step", "owner"])
        self.assertGreater(r["pause_us"], 0)
        self.assertGreater(r["state_bytes"], 0)
        for step in ("rehearse", "quiesce", "save", "load", "commit"):
            self.assertGreater(r["steps_us"][step], 0)
        self.assertEqual(c.call("a", "get"), {"count": 5, "step": 1, "owner": "nobody"})
        self.assertEqual(c.call("a", "set_step", step=3), {"step": 3})
        self.assertEqual(c.call("a", "increment"), {"count": 8})
        r = c.reload("a", COUNTER1)
        self.assertEqual((r["from"], r["to"]), (2, 1))  # the same object is the same version
        self.assertEqual(set(r["report"]["dropped"]), {"step", "owner"})
        self.assertEqual(c.call("a", "get"), {"count": 8})
        self.refused("unknown_function", c.call, "a", "set_step", step=1)
        info = c.info("a")
        self.assertEqual((info["pid"], info["version"], info["restart_count"]), (pid, 1, 0))
        self.assertEqual([f["name"] for f in info["functions"]], ["increment", "work", "get"])
        self.assertEqual(self.daemon.objects(), ["a"])  # loaded objects are unlinked

    def test_no_copy_of_an_earlier_version_is_kept(self):
        """What a start has loaded lies there for the next one, in memory, until another version runs."""
        c = self.client
        kept = os.path.join(self.daemon.runtime, "objects", "a", "current.object")
        for persist in (True, False):
            with self.subTest(persist=persist):
                c.create("a", COUNTER1, persist=persist)
                self.assertEqual(read(kept), read(COUNTER1))
                c.reload("a", COUNTER2)
                wait_for(lambda: not os.path.exists(kept), "the end of the copy")
                c.rpc("sandbox.restart", id="a")
                self.assertEqual(read(kept), read(COUNTER2))
                c.rpc("state.set", id="a", state={"step": 2})
                c.rpc("sandbox.restart", id="a")
                self.assertEqual((read(kept), c.call("a", "get")["step"]), (read(COUNTER2), 2))
                c.reload("a", COUNTER1)
                wait_for(lambda: not os.path.exists(kept), "the end of the copy")
                self.daemon.kill_control()
                c = self.daemon.client()
                self.addCleanup(c.close)
                c.destroy("a")

    def test_variables_that_begin_afresh_are_named(self):
        c = self.client
        whole = read(module("globals"))
        c.create("g", whole)
        self.assertEqual([c.call("g", "increment")["times"] for _ in range(3)], [1, 2, 3])
        sha = c.put(whole + b"\0")
        for r in (c.rpc("sandbox.reload", id="g", object=sha, check=True), c.rpc("state.check", id="g", object=sha), c.reload("g", whole + b"\0")):
            self.assertEqual((r["globals"]["count"], r["globals"]["bytes"]), (3, 16))
            self.assertEqual({n.split(".")[0] for n in r["globals"]["names"]}, {"calls_served", "times", "depth"})
        self.assertEqual(c.call("g", "increment"), {"served": 101, "times": 1, "count": 4})  # as the warning said
        r = self.ctl("rollback", "g", "1")
        self.assertEqual(r.status, 0)
        self.assertIn("16 bytes of variables aren't state", r.err)
        c.create("a", COUNTER1)
        self.assertNotIn("globals", c.reload("a", COUNTER2))

    def test_identical_object(self):
        c = self.client
        c.create("a", COUNTER1)
        since = c.events("a")[-1]["seq"]
        r = c.reload("a", COUNTER1)
        self.assertEqual((r["outcome"], r["from"], r["to"]), ("no_change", 1, 1))
        self.assertEqual([e["type"] for e in c.events("a", since)], [])
        self.assertIn("no change", self.ctl("reload", "a", COUNTER1).out)

    def test_versions(self):
        c = self.client
        c.create("a", COUNTER1)
        c.reload("a", COUNTER2)
        c.reload("a", COUNTER1)
        versions = c.rpc("version.list", id="a")
        self.assertEqual(versions["current"], 1)
        self.assertEqual({v["version"]: (v["status"], v["loads"]) for v in versions["versions"]}, {1: ("current", 2), 2: ("good", 1)})

    def test_at_most_ten_versions(self):
        """Each object with one byte more is another version; old ones go, the current and the one before stay."""
        c = self.client
        whole = read(COUNTER1)
        c.create("a", whole)
        for n in range(1, 15):
            c.call("a", "increment")
            self.assertEqual(c.reload("a", whole + b"\0" * n)["to"], n + 1)
        versions = [v["version"] for v in c.rpc("version.list", id="a")["versions"]]
        self.assertLessEqual(len(versions), 11)
        self.assertEqual(versions[:2], [15, 14])
        self.assertEqual(c.call("a", "get"), {"count": 14})
        self.refused("version_not_found", c.rpc, "sandbox.rollback", id="a", version=2)
        self.assertEqual(c.rpc("sandbox.rollback", id="a")["to"], 14)

    def unchanged(self, reload, code, **checks):
        """The reload fails with this code; the same process serves the same state of the same version, and can be reloaded."""
        c = self.client
        before = c.info("a")
        count = c.call("a", "increment")["count"]
        e = self.refused(code, reload)
        self.assertTrue(e.data.get("nothing_changed", True), e.data)
        for key, value in checks.items():
            self.assertEqual(e.data[key], value, e.data)
        after = c.info("a")
        self.assertEqual((after["pid"], after["version"], after["status"], after["functions"], after["state"]),
                         (before["pid"], before["version"], "running", before["functions"], before["state"]))
        self.assertEqual([v["version"] for v in after["versions"]], [v["version"] for v in before["versions"]])
        self.assertEqual(c.call("a", "increment"), {"count": count + 1})
        self.assertEqual(self.daemon.objects(), ["a"])
        return e

    def test_candidates_that_fail_in_the_rehearsal(self):
        c = self.client
        c.create("a", module("tally"))
        for name, code, word in (("fail_check", "reload_failed", "can't be"), ("fail_migrate", "reload_failed", "too old"),
                                 ("crash_restore", "reload_failed", "SIGSEGV"), ("crash_load", "reload_failed", "SIGSEGV"),
                                 ("exit_migrate", "reload_failed", ""), ("fork_migrate", "reload_failed", "SIGABRT"),
                                 ("mismatch", "state_mismatch", "count")):
            with self.subTest(name):
                e = self.unchanged(lambda: c.reload("a", module(name)), code, step="rehearse", outcome="nothing_changed")
                self.assertIn(word, str(e))
                self.assertEqual(self.ctl("reload", "a", module(name)).status, 9)
        failed = [e for e in c.events("a") if e["type"] == "reload.failed"]
        self.assertEqual(len(failed), 14)
        self.assertEqual({e["step"] for e in failed}, {"rehearse"})
        self.assertEqual(c.reload("a", module("tally_v2"))["to"], 2)

    def test_rehearsal_that_hangs(self):
        c = self.client
        c.create("a", module("tally"))
        e = self.unchanged(lambda: c.reload("a", module("hang_migrate"), rehearse_timeout_ms=200), "reload_failed", step="rehearse")
        self.assertIn("200 ms", str(e))
        wait_for(lambda: len(self.daemon.hosts()) == 1, "the end of the copy")

    def test_objects_that_are_refused(self):
        c = self.client
        c.create("a", module("tally"))
        whole = read(module("tally_v2"))
        for n in range(0, len(whole), 4096):
            self.unchanged(lambda: c.reload("a", whole[:n]), "bad_image")
        for name, codes in (("no_descriptor", ("bad_image", "bad_module")), ("wrong_abi", ("bad_module", "bad_image"))):
            with self.assertRaises(RpcError) as caught:
                c.reload("a", module(name))
            self.assertIn(caught.exception.code, codes)
        self.assertEqual(c.call("a", "increment")["count"], c.call("a", "get")["count"])

    def test_another_module(self):
        c = self.client
        c.create("a", module("tally"))
        with self.assertRaises(RpcError) as caught:
            c.reload("a", module("sleeper"))
        self.assertIn(caught.exception.code, ("bad_module", "state_mismatch", "reload_failed"))
        self.assertEqual(c.call("a", "increment"), {"count": 1})

    def recovers(self, name, **params):
        """It fails only in earnest: a new process starts from the sealed save, and nothing acknowledged is lost."""
        c = self.client
        before = c.create("a", module("tally"))
        c.call("a", "increment", by=41)
        stop = []

        def work():
            n = 0
            with self.daemon.client() as d:
                while not stop:
                    d.call("a", "increment")
                    n += 1
            return n

        workers = [Background(work) for _ in range(2)]
        wait_for(lambda: c.call("a", "get")["count"] > 60, "work")
        e = self.refused("reload_failed", c.reload, "a", module(name), **params)
        self.assertEqual((e.data["step"], e.data["outcome"], e.data["state_from"], e.data["nothing_changed"]), ("load", "recovered", "sealed", True))
        there = c.call("a", "get")["count"]
        wait_for(lambda: c.call("a", "get")["count"] > there, "work after it")
        stop.append(True)
        acknowledged = sum(w.result() for w in workers)
        self.assertEqual(c.call("a", "get"), {"count": 41 + acknowledged})
        after = c.info("a")
        self.assertNotEqual(after["pid"], before["pid"])
        self.assertEqual((after["version"], after["restart_count"], after["state_from"], after["budget"]["used"]), (1, 0, "sealed", 0))
        self.assertEqual(c.reload("a", module("tally_v2"))["to"], 2)
        return e

    def test_load_that_crashes_in_earnest(self):
        self.assertIn("SIGSEGV", str(self.recovers("crash_real_load")))

    def test_load_that_hangs_in_earnest(self):
        self.recovers("hang_real_load", rehearse_timeout_ms=400)

    def test_quiesce_timeout(self):
        """A running call that does not end: given up, and the call is not harmed."""
        c = self.client
        c.create("s", module("sleeper"))
        reload = self.reload_with_time(quiesce_timeout_ms=100)
        d, calls = self.long_queue()
        e = self.refused("reload_failed", reload.result)
        self.assertEqual((e.data["step"], e.data["nothing_changed"]), ("quiesce", True))
        self.assertIn("100 ms", str(e))
        self.assertEqual([d.result(i)["result"]["naps"] for i in calls], list(range(1, 9)))
        self.assertEqual(c.call("s", "sleep", ms=0), {"naps": 9})
        self.assertEqual(c.reload("s", module("slow_rehearsal"))["to"], 2)
        self.assertEqual(c.call("s", "sleep", ms=0), {"naps": 10})

    def long_queue(self):
        """Calls that the host has taken and that outlast the rehearsal: they end before the quiesce does."""
        d = self.daemon.client()
        self.addCleanup(d.close)
        return d, [d.request("sandbox.call", id="s", function="sleep", args={"ms": 200}) for _ in range(8)]

    def reload_with_time(self, **params):
        """A reload of `s`, begun, whose rehearsal takes long enough for calls to begin."""
        def run():
            with self.daemon.client() as c:
                return c.reload("s", module("slow_rehearsal"), **params)

        reload = Background(run)
        wait_for(lambda: len(self.daemon.hosts()) == 2, "the rehearsal's copy")
        return reload

    def wait_quiesce(self):
        wait_for(lambda: any(e["type"] == "reload.step" and e["next"] == "quiesce" for e in self.client.events("s")), "the quiesce")

    def test_calls_queue_meanwhile(self):
        """They wait for the running call and the reload, and are served by the new code."""
        self.client.create("s", module("sleeper"))
        reload = self.reload_with_time()
        d, running = self.long_queue()
        self.wait_quiesce()
        later = [d.request("sandbox.call", id="s", function="sleep", args={"ms": 0}) for _ in range(5)]
        r = reload.result()
        self.assertEqual(r["calls_queued"], 5)
        self.assertEqual({d.result(i)["version"] for i in running}, {1})
        answers = [d.result(i) for i in later]
        self.assertEqual([a["result"]["naps"] for a in answers], [9, 10, 11, 12, 13])
        self.assertEqual({a["version"] for a in answers}, {2})

    def test_a_call_that_was_running_before(self):
        """It ends first; the reload waits for it and says nothing worse."""
        c = self.client
        c.create("s", module("sleeper"))
        d, request = self.start_call("s", "sleep", ms=400)
        self.assertEqual(c.reload("s", module("slow_rehearsal"))["to"], 2)
        self.assertEqual(d.result(request)["version"], 1)

    def test_rollback(self):
        c = self.client
        c.create("a", COUNTER1)
        self.refused("version_not_found", c.rpc, "sandbox.rollback", id="a")
        c.call("a", "increment", by=10)
        c.reload("a", COUNTER2)
        c.call("a", "increment")
        r = c.rpc("sandbox.rollback", id="a")
        self.assertEqual((r["from"], r["to"]), (2, 1))
        self.assertEqual(c.call("a", "get"), {"count": 11})  # with the present state
        self.assertEqual(c.rpc("sandbox.rollback", id="a")["to"], 2)  # the one that ran before
        self.assertEqual(c.rpc("sandbox.rollback", id="a", version=2)["outcome"], "no_change")
        self.refused("version_not_found", c.rpc, "sandbox.rollback", id="a", version=3)
        self.assertEqual(c.call("a", "get")["count"], 11)

    def test_rollback_that_is_refused(self):
        """tally_v2 is asked for a state that its check refuses, or the older code can't read it: nothing changes."""
        c = self.client
        c.create("a", INVENTORY1)
        c.call("a", "add", sku="x", qty=2, price=2.5)
        c.reload("a", INVENTORY2)
        self.assertEqual(c.call("a", "worth"), {"worth": 5})
        c.call("a", "add", sku="y", qty=1 << 24, cents=1)  # more than version 1's range of qty allows
        before = c.call("a", "list")
        pid = c.info("a")["pid"]
        with self.assertRaises(RpcError) as caught:
            c.rpc("sandbox.rollback", id="a")
        self.assertIn(caught.exception.code, ("state_mismatch", "reload_failed"))
        self.assertTrue(caught.exception.data["nothing_changed"])
        self.assertEqual(self.ctl("rollback", "a").status, 9)
        self.assertEqual(c.call("a", "list"), before)
        self.assertEqual((c.info("a")["pid"], c.info("a")["version"]), (pid, 2))

    def test_inventory(self):
        """Nested arrays and structs, and migrate for what names can't say."""
        c = self.client
        c.create("a", INVENTORY1, config={"name": "corner shop"})
        for i in range(20):
            c.call("a", "add", sku="sku %d é" % i, qty=i, price=i + 0.25)
        c.call("a", "move", to={"lat": 52.5, "lon": 13.4})
        c.call("a", "note", text="closed on \"Monday\"\n")
        worth = c.call("a", "worth")
        r = c.reload("a", INVENTORY2)
        self.assertEqual((r["from"], r["to"]), (1, 2))
        self.assertEqual(c.call("a", "worth"), worth)
        shop = c.call("a", "list")
        self.assertEqual((shop["name"], shop["note"]), ("corner shop", "closed on \"Monday\"\n"))
        self.assertEqual(shop["items"], [{"sku": "sku %d é" % i, "qty": i, "cents": i * 100 + 25, "tags": []} for i in range(20)])
        c.call("a", "add", sku="tagged", cents=5, tags=["a", "b"])
        c.rpc("sandbox.restart", id="a")  # saved and restored in another process
        self.assertEqual(c.call("a", "list")["items"][-1], {"sku": "tagged", "qty": 1, "cents": 5, "tags": ["a", "b"]})
        c.call("a", "add", sku="dear", cents=100000001)  # what check refuses
        e = self.refused("reload_failed", c.reload, "a", read(INVENTORY2) + b"\0")
        self.assertIn("dear costs", str(e))

    def test_states_of_many_sizes(self):
        c = self.client
        c.create("a", module("big_reply"))
        whole = read(module("big_reply"))
        for n, size in enumerate((0, 1, 65535, 65536, 1 << 20, 16 << 20), 1):
            c.call("a", "fill", bytes=size)
            r = c.reload("a", whole + b"\0" * n)
            self.assertGreaterEqual(r["state_bytes"], size)
            self.assertEqual(r["to"], n + 1)
        c.rpc("sandbox.restart", id="a")
        self.assertGreaterEqual(c.reload("a", whole)["state_bytes"], 16 << 20)

    def test_pinned(self):
        c = self.client
        c.create("a", module("pinned"))
        r = c.reload("a", read(module("pinned")) + b"\0")
        self.assertTrue(r["pinned"], r)
        self.assertEqual(c.call("a", "get"), {"count": 0})

    def test_source(self):
        """A good one serves; a bad one shows what the compiler said, and the old serves on."""
        folder = tempfile.mkdtemp(prefix="sbxf")
        self.addCleanup(shutil.rmtree, folder)
        bad = os.path.join(folder, "bad.c")
        with open(bad, "w") as f:
            f.write("#include <sandbox_module.h>\nthis is no C\n")
        self.client.create("a", COUNTER1)
        self.client.call("a", "increment", by=3)
        r = self.ctl("reload", "a", bad)
        self.assertEqual(r.status, 8, r.err)
        self.assertIn("bad.c:2", r.err)
        e = self.ctl("reload", "a", bad, "--json").json()["error"]
        self.assertEqual(e["data"]["code"], "compilation_failed")
        self.assertIn("bad.c:2", e["data"]["output"])
        self.assertEqual(self.client.call("a", "increment"), {"count": 4})
        self.assertEqual(self.client.info("a")["status"], "running")

    def test_crash_before_the_state_is_sealed(self):
        """SIGKILL during the quiesce is an ordinary crash: the reload says that the state is lost, the sandbox comes back fresh."""
        c = self.client
        c.create("s", module("sleeper"))
        reload = self.reload_with_time()
        d, calls = self.long_queue()
        self.wait_quiesce()
        self.kill_host("s")
        with self.assertRaises(RpcError) as caught:
            reload.result()
        self.assertEqual(caught.exception.code, "state_lost")
        self.assertEqual((caught.exception.data["nothing_changed"], caught.exception.data["state_from"]), (False, "fresh"))
        self.assertEqual(d.reply(calls[-1])["error"]["data"]["code"], "crashed")
        self.wait_status("s", "running")
        self.assertEqual((c.info("s")["version"], c.info("s")["restart_count"]), (1, 1))
        self.assertEqual(c.call("s", "sleep", ms=0), {"naps": 1})

    def test_new_version_survives_a_crash(self):
        """A restart begins with the version that ran, not with the first."""
        c = self.client
        c.create("a", COUNTER1)
        c.reload("a", COUNTER2)
        self.kill_host("a")
        wait_for(lambda: c.info("a")["restart_count"] == 1 and c.status("a") == "running", "the restart")
        self.assertEqual(c.info("a")["version"], 2)
        self.assertEqual(c.call("a", "get"), {"count": 0, "step": 1, "owner": "nobody"})
        c.rpc("sandbox.stop", id="a")
        c.rpc("sandbox.start", id="a")
        self.assertEqual(c.info("a")["version"], 2)


class Load(Case):
    def test_hundred_reloads_under_load(self):
        """Four clients increment all the time: each acknowledged increment is counted once, none is answered with an error."""
        c = self.client
        c.create("a", COUNTER1)
        pid = c.info("a")["pid"]
        stop = []

        def work():
            counts = []
            with self.daemon.client() as d:
                while not stop:
                    counts.append(d.call("a", "increment")["count"])
            return counts

        workers = [Background(work) for _ in range(4)]
        busy = 0
        shas = [c.put(read(COUNTER2), "v2"), c.put(read(COUNTER1), "v1")]
        for i in range(100):
            r = c.rpc("sandbox.reload", id="a", object=shas[i % 2])
            self.assertEqual((r["outcome"], r["to"]), ("reloaded", 2 - i % 2))
            busy += r["calls_queued"] > 0
        stop.append(True)
        counts = sorted(n for w in workers for n in w.result())
        self.assertEqual(counts, list(range(1, len(counts) + 1)))
        self.assertEqual(c.call("a", "get")["count"], len(counts))
        self.assertEqual((c.info("a")["pid"], c.info("a")["restart_count"]), (pid, 0))
        self.assertGreater(busy, 10)
        self.assertEqual(len(self.daemon.hosts()), 1)


if __name__ == "__main__":
    main()
