#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Creates that must fail: with the reason, and nothing left: no sandbox, no object folder, no process, nothing in the spawner's table."""
import os
import shutil
import tempfile

from harness import (COUNTER1, Background, Case, RpcError, example_source, main, module, read, wait_for)


class CreateBad(Case):
    def nothing_left(self):
        self.assertEqual(self.client.ids(), [])
        wait_for(lambda: not self.daemon.hosts(), "the end of the host")
        self.assertEqual(self.daemon.objects(), [])

    def fails(self, code, data, **params):
        e = self.refused(code, self.client.create, "a", data, **params)
        self.nothing_left()
        return e

    def forgotten_by_the_spawner(self):
        """A new control gets the spawner's table: what it finds there would be a sandbox again."""
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertEqual(c.ids(), [])
            found = [e for e in c.events() if e["type"] == "daemon.taken_over"]
            self.assertEqual(sum(e["sandboxes"] for e in found), 0, found)

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxf")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_the_spawner_is_told_nothing_of_what_it_never_held(self):
        """Else anybody who may create could fill its log."""
        for _ in range(3):
            self.refused("object_not_found", self.client.rpc, "sandbox.create", id="a", object="0" * 64)
        self.nothing_left()
        self.client.create("b", COUNTER1)
        self.client.destroy("b")  # what was sent before has been read
        self.assertNotIn("KEEP is ignored", self.daemon.log())

    def test_missing_file_and_folder(self):
        for path, why in ((os.path.join(self.folder, "no.so"), "No such file"), (self.folder, "is a folder"),
                          (os.path.join(self.folder, "no.c"), "No such file"), ("/dev/null", "not a regular file"),
                          (os.path.join(self.folder, "f.so"), "is a folder"), ("/etc/passwd", "neither a .so nor a .c")):
            if path.endswith("f.so"):
                os.mkdir(path)
            r = self.ctl("create", "a", path)
            self.assertEqual(r.status, 8, (path, r.err))
            self.assertIn("bad_source", r.err)
            self.assertIn(why, r.err)
        os.mkfifo(os.path.join(self.folder, "fifo.so"))
        self.assertEqual(self.ctl("create", "a", os.path.join(self.folder, "fifo.so")).status, 8)
        self.nothing_left()

    def test_not_an_object(self):
        for data in (b"", b"x", b"\x7fELF", b"\x7fELF" + b"\0" * 60, b"\0" * 100000, read("/bin/sh"), read(example_source("counter/counter_v1"))):
            self.fails("bad_image", data)
        path = os.path.join(self.folder, "x.so")
        with open(path, "wb") as f:
            f.write(b"garbage")
        r = self.ctl("create", "a", path)
        self.assertEqual(r.status, 8, r.err)
        self.assertIn("bad_image", r.err)

    def test_object_without_a_descriptor(self):
        e = self.refused_any(module("no_descriptor"))
        self.assertIn(e.code, ("bad_image", "bad_module"))
        self.assertIn("sandbox_module", str(e))

    def refused_any(self, path):
        with self.assertRaises(RpcError) as caught:
            self.client.create("a", path)
        self.nothing_left()
        return caught.exception

    def test_wrong_abi(self):
        e = self.refused_any(module("wrong_abi"))
        self.assertEqual(e.code, "bad_module", e)
        self.assertIn("99", str(e))

    def test_truncated_at_every_4_kib(self):
        whole = read(COUNTER1)
        for n in list(range(0, len(whole), 4096)) + [len(whole) - 1, 63, 64, 65]:
            self.fails("bad_image", whole[:n])
        self.client.create("a", whole)
        self.assertEqual(self.client.call("a", "get"), {"count": 0})

    def test_one_byte_changed(self):
        """Headers with any one byte changed: refused, or it works; never a daemon that suffers."""
        whole = bytearray(read(COUNTER1))
        for at in list(range(0, 64, 3)) + list(range(64, 700, 41)):
            data = bytearray(whole)
            data[at] ^= 0xff
            try:
                self.client.create("a", bytes(data), start_timeout_ms=2000)
                self.client.destroy("a")
            except RpcError as e:
                self.assertIn(e.code, ("bad_image", "bad_module", "start_failed", "start_timeout"), (at, e))
        self.nothing_left()
        self.assert_healthy()

    def test_init_that_fails(self):
        e = self.fails("start_failed", module("fail_init"))
        self.assertIn("cannot start on cheese", str(e))
        self.assertIn("made of cheese", e.data.get("output", ""), e.data)
        self.assertTrue(e.data.get("stage"), e.data)
        r = self.ctl("create", "a", module("fail_init"))
        self.assertEqual(r.status, 1, r.err)
        self.assertIn("made of cheese", r.err)
        self.nothing_left()
        self.forgotten_by_the_spawner()

    def test_init_that_crashes(self):
        e = self.fails("start_failed", module("crash_init"))
        self.assertIn("SIGSEGV", str(e))
        e = self.fails("start_failed", module("crash_load"))
        self.assertIn("SIGSEGV", str(e))
        self.forgotten_by_the_spawner()

    def test_init_that_hangs(self):
        e = self.fails("start_timeout", module("hang_init"), start_timeout_ms=300)
        self.assertIn("300 ms", str(e))
        r = self.ctl("create", "a", module("hang_init"), "--start-timeout-ms", 300)
        self.assertEqual(r.status, 5, r.err)
        self.nothing_left()
        self.forgotten_by_the_spawner()

    def test_source_that_does_not_compile(self):
        path = os.path.join(self.folder, "broken.c")
        with open(path, "w") as f:
            f.write("#include <sandbox_module.h>\nint broken(void) { return nonsense; }\n")
        r = self.ctl("create", "a", path)
        self.assertEqual(r.status, 8, r.err)
        self.assertIn("compilation_failed", r.err)
        self.assertIn("broken.c:2", r.err)
        self.assertIn("nonsense", r.err)
        self.nothing_left()
        r = self.ctl("create", "a", path, "--json")
        self.assertEqual((r.status, r.json()["error"]["data"]["code"]), (8, "compilation_failed"))
        self.assertIn("broken.c:2", r.json()["error"]["data"]["output"])

    def test_source_that_never_ends_to_compile(self):
        path = os.path.join(self.folder, "endless.c")
        with open(path, "w") as f:
            f.write("#include __FILE__\n#include __FILE__\n")
        source = self.client.put(read(path))
        e = self.refused_code(("compilation_timeout", "compilation_failed"), source)
        self.nothing_left()
        self.assertTrue(e)
        wait_for(lambda: not [p for p in self.daemon.tree() if "cc1" in p or "gcc" in p], "the end of the compiler")

    def refused_code(self, codes, source):
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.create", id="a", source=source, source_name="endless.c", compile_timeout_ms=500)
        self.assertIn(caught.exception.code, codes)
        return caught.exception

    def test_compiler_may_not_read_what_its_user_may_not(self):
        secret = os.path.join(self.folder, "secret")
        with open(secret, "w") as f:
            f.write("the_secret_word = 1\n")
        os.chmod(secret, 0o600)
        source = self.client.put(b'#include "%s"\n' % secret.encode())
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.create", id="a", source=source, source_name="spy.c")
        self.nothing_left()
        self.assertEqual(caught.exception.code, "compilation_failed")
        if os.geteuid() == 0:  # else the compiler has the user's own rights
            self.assertNotIn("the_secret_word", str(caught.exception.error))

    def test_both_object_and_source(self):
        sha = self.client.put(read(COUNTER1))
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.create", id="a", object=sha, source=sha)
        self.assertIn(caught.exception.code, ("bad_param", "missing_param"))
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.create", id="a")
        self.assertEqual(caught.exception.code, "missing_param")
        self.nothing_left()

    def test_two_creates_with_the_same_id(self):
        for _ in range(5):
            def create():
                with self.daemon.client() as c:
                    try:
                        c.create("twin", COUNTER1)
                        return "created"
                    except RpcError as e:
                        return e.code

            ends = sorted(b.result() for b in [Background(create) for _ in range(4)])
            self.assertEqual(ends, ["already_exists"] * 3 + ["created"])
            self.assertEqual(self.client.ids(), ["twin"])
            self.assertEqual(len(self.daemon.hosts()), 1)
            self.client.destroy("twin")
        self.nothing_left()

    def test_the_client_of_a_create_goes(self):
        """Finished or withdrawn; in either case nothing is half there."""
        c = self.daemon.client()
        c.request("sandbox.create", id="gone", object=c.put(read(COUNTER1)))
        c.close()
        wait_for(lambda: self.client.ids() == [] or self.client.status("gone") == "running", "an end of the create")
        c = self.daemon.client()
        c.request("sandbox.create", id="gone2", source=c.put(read(example_source("counter/counter_v1"))), source_name="c.c")
        wait_for(lambda: "gone2" in self.client.ids(), "the create to begin")
        c.close()
        wait_for(lambda: "gone2" not in self.client.ids() or self.client.status("gone2") == "running", "an end of the create")
        if "gone2" in self.client.ids():
            self.assertEqual(self.client.call("gone2", "increment"), {"count": 1})


class Strict(Case):
    def test_strict_is_refused_with_what_is_missing(self):
        self.client.create("lax", COUNTER1)
        missing = [r["protection"] for r in self.client.info("lax")["security"] if r["asked"] != "none" and r["got"] == "none"]
        for name in missing:
            print("\nLACKS protection: " + name)
        if not missing:
            self.skipTest("every protection is there, so strict is not refused")
        e = self.refused("strict_refused", self.client.create, "a", COUNTER1, strict=True)
        for name in missing[:3]:
            self.assertIn(name, str(e))
        self.assertNotIn("can't be read", str(e))  # each row of a report can, however long it is
        self.assertEqual(self.client.ids(), ["lax"])
        r = self.ctl("create", "a", COUNTER1, "--strict")
        self.assertEqual(r.status, 7, r.err)
        self.assertIn("strict_refused", r.err)
        self.assertEqual(self.client.call("lax", "increment"), {"count": 1})
        self.assertEqual(len(self.daemon.hosts()), 1)


if __name__ == "__main__":
    main()
