#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples in real sandboxes: called, reloaded to their next version and back where that is meant to work, stopped and started;
and modules of the first ABI."""
import os
import shutil
import unittest

from harness import Case, example, main, module, wait_for

KEYS = 1000000


class Examples(Case):
    def stop_start(self, sandbox):
        self.client.rpc("sandbox.stop", id=sandbox)
        self.assertEqual(self.client.status(sandbox), "stopped")
        self.client.rpc("sandbox.start", id=sandbox)
        self.assertEqual(self.client.status(sandbox), "running")

    def call(self, *args, **kwargs):
        return self.client.call(*args, **kwargs)

    def test_kv(self):
        """A map: order, removal, a reload that reshapes its values, a stop."""
        self.client.create("kv", example("kv/kv"))
        for key, value in (("b", "1"), ("a", "2"), ("gone", "x"), ("b", "ü"), ("", "empty")):
            self.call("kv", "set", key=key, value=value)
        self.assertEqual(self.call("kv", "drop", key="gone"), {"removed": True})
        self.assertEqual(self.call("kv", "drop", key="gone"), {"removed": False})
        self.assertEqual(self.call("kv", "keys"), {"keys": ["b", "a", ""]})
        self.refused("module_error", self.call, "kv", "get", key="gone")
        self.stop_start("kv")
        self.assertEqual(self.call("kv", "keys"), {"keys": ["b", "a", ""]})
        r = self.client.reload("kv", example("kv/kv_v2"))
        self.assertEqual((r["outcome"], r["report"]["dropped"]), ("reloaded", ["items"]), r)
        self.assertEqual(self.call("kv", "get", key="b"), {"reads": 1, "value": "ü"})
        self.assertEqual(self.call("kv", "count"), {"count": 3})
        self.stop_start("kv")
        self.assertEqual(self.call("kv", "get", key="b"), {"reads": 2, "value": "ü"})

    def test_kv_with_a_million_keys(self):
        self.client.create("big", example("kv/kv"), limits={"max_memory": 512 << 20})
        self.assertEqual(self.call("big", "load", n=KEYS), {"count": KEYS})
        r = self.client.reload("big", example("kv/kv_v2"))
        self.assertEqual(self.call("big", "count"), {"count": KEYS})
        self.assertEqual(self.call("big", "get", key="key 777777")["value"], "key 777777")
        self.stop_start("big")
        self.assertEqual(self.call("big", "get", key="key 777777")["reads"], 2)
        self.assertGreater(r["pause_us"], 0)
        self.client.destroy("big")

    def test_lru(self):
        """Own save and restore: the order of use is state; the new code reads the old form."""
        self.client.create("lru", example("lru/lru"))
        info = self.client.info("lru")
        self.assertEqual((info["abi"], info["own_save"]), ("1.1", True))
        for n, key in enumerate(("a", "b", "c", "d")):
            self.call("lru", "put", key=key, value=n)
        self.call("lru", "get", key="b")
        self.assertEqual(self.call("lru", "keys"), {"keys": ["b", "d", "c"]})
        self.stop_start("lru")
        self.assertEqual(self.call("lru", "keys"), {"keys": ["b", "d", "c"]})
        self.client.rpc("sandbox.restart", id="lru")
        r = self.client.reload("lru", example("lru/lru_v2"))
        self.assertEqual(r["report"]["carried"], ["(own state)"])
        self.assertEqual(self.call("lru", "keys"), {"keys": ["b", "d", "c"]})
        self.assertEqual(self.call("lru", "get", key="c"), {"value": 2})
        self.stop_start("lru")
        self.assertEqual(self.call("lru", "hits"), {"hits": 1})
        self.assertEqual(self.call("lru", "keys"), {"keys": ["c", "b", "d"]})
        self.refused("reload_failed", self.client.rpc, "sandbox.rollback", id="lru")  # version 1 can't read what 2 wrote
        self.assertEqual(self.call("lru", "hits"), {"hits": 1})

    def test_light(self):
        """Timers: they run, cross a reload and a stop, and code without them is refused."""
        self.client.create("light", example("light/light"), config={"hold_ms": [20, 20, 20]})
        wait_for(lambda: self.call("light", "look")["rounds"] >= 2, "two rounds")
        self.assertEqual(self.client.info("light")["timers"], ["turn"])
        e = self.refused("state_mismatch", self.client.reload, "light", example("light/dark"))
        self.assertIn("the timer turn is armed", str(e))
        self.client.reload("light", example("light/light_v2"))
        seen = self.call("light", "look")["rounds"]
        wait_for(lambda: self.call("light", "look")["rounds"] > seen, "another round in the new code")
        self.stop_start("light")
        seen = self.call("light", "look")["rounds"]
        wait_for(lambda: self.call("light", "look")["rounds"] > seen, "another round after the start")
        self.call("light", "hold")
        held = self.call("light", "look")
        self.stop_start("light")
        self.assertEqual(self.call("light", "look"), held)
        self.client.reload("light", example("light/dark"))  # nothing is armed any more

    def test_light_keeps_its_time_over_a_stop(self):
        self.client.create("slow", example("light/light"), config={"hold_ms": [3600000, 20, 20]})
        self.stop_start("slow")
        self.assertEqual(self.call("slow", "look"), {"rounds": 0, "colour": "red"})

    def words(self):
        self.client.create("words", example("words/words"))
        for word in "to be or not to be or to".split():
            self.call("words", "add", word=word)
        e = self.refused("module_error", self.call, "words", "at", word="absent")
        self.assertEqual(self.call("words", "at", word="to"), {"times": 3})
        return e

    @unittest.skipUnless(shutil.which(os.environ.get("CXX", "g++")), "no C++ compiler")
    def test_words(self):
        """A C++ class with containers: exceptions are errors, its state survives."""
        e = self.words()
        self.assertIn("exception", str(e) + str(e.data))
        self.client.reload("words", example("words/words_v2"))
        self.assertEqual(self.call("words", "most"), {"word": "to"})
        self.stop_start("words")
        self.assertEqual(self.call("words", "add", word="to"), {"times": 4})

    @unittest.skipUnless(shutil.which(os.environ.get("RUSTC", "rustc")), "no rustc")
    def test_tally_rs(self):
        """Rust: a panic is an error, its state survives."""
        self.client.create("tally", example("tally-rs/tally"))
        for who in ("ann", "bob", "ann"):
            self.call("tally", "vote", who=who)
        e = self.refused("module_error", self.call, "tally", "boom")
        self.assertIn("panicked", str(e))
        self.client.reload("tally", example("tally-rs/tally_v2"))
        self.assertEqual(self.call("tally", "total"), {"total": 3})
        self.stop_start("tally")
        self.assertEqual(self.call("tally", "vote", who="ann"), {"votes": 3})


class FirstAbi(Case):
    def test_module_of_the_first_release(self):
        """Built against the first header: loads, runs, saves, restarts, and can be reloaded from and to."""
        self.client.create("old", module("abi-1.0/old_store"))
        self.assertEqual(self.client.info("old")["abi"], "1.0")
        self.client.call("old", "add", name="bolt", note=True)
        self.client.call("old", "add", name="nut", n=7, price=2.5)
        rows = {"rows": [{"name": "bolt", "n": 1, "price": 0.5}, {"name": "nut", "n": 7, "price": 2.5}], "blob": {"$bytes": "AAEC"},
                "note": "bolt", "cache": True, "made": 7}
        self.assertEqual(self.client.call("old", "dump"), rows)
        self.client.rpc("sandbox.restart", id="old")
        self.assertEqual(self.client.call("old", "dump"), rows)
        self.refused("bad_argument", self.client.call, "old", "add", nam="x")
        self.refused("start_failed", self.client.create, "no", module("abi-1.0/old_store"), config={"refuse": True})

    def test_minor_of_the_future(self):
        e = self.refused("bad_module", self.client.create, "new", module("asks_more"))
        self.assertIn("it asks for ABI 1.99, this host has 1.1", str(e) + str(e.data))


if __name__ == "__main__":
    main()
