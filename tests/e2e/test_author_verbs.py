#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""new, and sources from standard input: from nothing to a running module; and completion, which has to know of all of it."""
import json
import os
import shutil
import subprocess
import tempfile

from harness import BUILD, COUNTER1, IS_ROOT, TOP, Case, main, read

CTL = os.path.join(BUILD, "sandboxctl")
SOURCE = b'''#include <sandbox_module.h>
static int one(struct sbx *x, void *self) { (void)self; return sbx_put_i64(x, "n", 1); }
SBX_MODULE(tiny, 1, SBX_FN(one, ""));
'''


class Author(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxa")
        os.chmod(self.folder, 0o777)
        self.addCleanup(shutil.rmtree, self.folder)

    def run_in(self, *args, stdin=b"", status=0, **kwargs):
        r = subprocess.run([CTL, "--socket", self.daemon.socket, *args], cwd=self.folder, input=stdin, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=120, check=False, **kwargs)
        self.assertEqual(r.returncode, status, (args, r.stdout, r.stderr))
        return (r.stdout if status == 0 or "--json" in args else r.stderr).decode()

    # ---- new ----

    def test_new_compiles_runs_and_reloads(self):
        self.assertEqual(self.run_in("new", "kettle"), "kettle: written; try: sandboxctl create kettle kettle/kettle.c\n")
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "kettle"))), ["Makefile", "README.md", "kettle.c"])
        self.run_in("create", "kettle", "kettle/kettle.c")
        self.assertEqual(json.loads(self.run_in("call", "kettle", "greet", "name=you")), {"text": "Hello, you!", "count": 1})
        self.run_in("call", "kettle", "set_greeting", "text=Hi")
        self.assertIn("empty", self.run_in("call", "kettle", "set_greeting", "text:=\"\"", status=1))
        subprocess.run(["make", "-s", "-C", os.path.join(self.folder, "kettle"), "CFLAGS=-O2 -Wall -Wextra -Werror",
                        "SANDBOX_CFLAGS=-fPIC -shared -fvisibility=hidden -I" + os.path.join(TOP, "proto")], check=True, timeout=120,
                       env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
        self.run_in("reload", "kettle", "kettle/kettle.so")
        self.assertEqual(json.loads(self.run_in("call", "kettle", "greet")), {"text": "Hi, world!", "count": 2})
        self.assertEqual(self.client.info("kettle")["module"]["name"] if isinstance(self.client.info("kettle")["module"], dict)
                         else self.client.info("kettle")["module"], "kettle")
        for name in os.listdir(os.path.join(self.folder, "kettle")):
            if name.endswith((".c", ".md")) or name == "Makefile":
                text = read(os.path.join(self.folder, "kettle", name)).decode()
                self.assertNotIn("@", text.replace("$@", ""), name)

    def test_names_that_c_has_other_uses_for(self):
        for name in ("int", "linux", "main", "state", "greet"):
            self.run_in("new", name)
            self.run_in("create", name, "%s/%s.c" % (name, name))
            self.run_in("call", name, "greet")

    def test_new_in_json_and_quietly(self):
        self.assertEqual(json.loads(self.run_in("new", "a1", "--lang", "c", "--json")),
                         {"name": "a1", "files": ["a1/a1.c", "a1/Makefile", "a1/README.md"]})
        self.assertEqual(self.run_in("new", "a2", "-q"), "")

    def test_new_overwrites_nothing(self):
        os.mkdir(os.path.join(self.folder, "there"))
        with open(os.path.join(self.folder, "file"), "w") as f:
            f.write("mine")
        os.symlink("nowhere", os.path.join(self.folder, "link"))
        for name in ("there", "file", "link"):
            self.assertIn("already_exists", self.run_in("new", name, status=4))
            self.assertEqual(json.loads(self.run_in("new", name, "--json", status=4))["error"]["data"]["code"], "already_exists")
        self.assertEqual(os.listdir(os.path.join(self.folder, "there")), [])
        self.assertEqual(read(os.path.join(self.folder, "file")), b"mine")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "nowhere")))

    def test_new_refuses_bad_names(self):
        for name in ("", "a b", "../x", "a/b", "/tmp/x", "9lives", "_x", "a-b", "a.c", "\u00e4", "x" * 62, "a\nb", "a\x1b[1m"):
            self.assertIn("bad_param", self.run_in("new", name, status=2))
        self.assertNotIn("\x1b", self.run_in("new", "a\x1b[1m", status=2))
        self.run_in("new", status=2)
        self.run_in("new", "a", "b", status=2)
        self.assertIn("none of c", self.run_in("new", "a", "--lang", "cobol", status=2))
        self.run_in("new", "a", "--lang", status=2)
        self.run_in("new", "a", "--lang", "c", "--lang", "c", status=2)
        self.assertEqual(os.listdir(self.folder), [])
        self.run_in("new", "x" * 61)

    def test_new_that_cannot_write(self):
        if IS_ROOT:  # whom no mode stops: a file system that takes no folder
            r = subprocess.run([CTL, "new", "x"], cwd="/proc", stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        else:
            os.chmod(self.folder, 0o555)
            r = subprocess.run([CTL, "new", "x"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual((r.returncode, r.stdout), (1, b""), r.stderr)
        self.assertIn(b"io_error", r.stderr)

    def test_new_takes_back_what_it_could_not_finish(self):
        r = subprocess.run(["sh", "-c", "ulimit -f 0; exec %s new x" % CTL], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=60, check=False, preexec_fn=lambda: __import__("signal").signal(25, 1))  # SIGXFSZ ignored: EFBIG
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    # ---- standard input ----

    def test_source_from_standard_input(self):
        r = json.loads(self.run_in("create", "t", "-", "--json", stdin=SOURCE))
        self.assertEqual((r["versions"][0]["origin"], r["versions"][0]["source_name"]), ("source", "module.c"))
        self.assertEqual(self.run_in("call", "t", "one"), '{"n":1}\n')
        self.run_in("reload", "t", "-", "--name", "tiny2.c", stdin=SOURCE.replace(b'"n", 1', b'"n", 2'))
        self.assertEqual(self.run_in("call", "t", "one"), '{"n":2}\n')
        self.assertEqual(json.loads(self.run_in("versions", "t", "--json"))["versions"][0]["source_name"], "tiny2.c")

    def test_messages_have_the_name(self):
        bad = SOURCE.replace(b"return", b"retrun")
        self.assertIn("module.c:2:", self.run_in("create", "t", "-", stdin=bad, status=8))
        self.assertIn("other.c:2:", self.run_in("create", "t", "-", "--name", "other.c", stdin=bad, status=8))
        path = os.path.join(self.folder, "file.c")
        with open(path, "wb") as f:
            f.write(bad)
        self.assertIn("third.c:2:", self.run_in("create", "t", path, "--name", "third.c", status=8))

    def test_object_from_standard_input(self):
        self.run_in("create", "c", "-", stdin=read(COUNTER1))
        self.assertEqual(self.run_in("call", "c", "increment"), '{"count":1}\n')
        self.assertIn("--name", self.run_in("create", "d", "-", "--name", "x.c", stdin=read(COUNTER1), status=2))

    def test_bad_standard_input(self):
        self.assertIn("bad_source", self.run_in("create", "t", "-", status=8))  # empty
        self.assertIn("bad_source", self.run_in("create", "t", "-", stdin=b"/" * ((4 << 20) + 1), status=8))
        self.assertIn("bad_image", self.run_in("create", "t", "-", stdin=b"\x7fELF", status=8))
        self.assertIn("compilation_failed", self.run_in("create", "t", "-", stdin=b"\0\xff", status=8))
        self.assertIn("once", self.run_in("create", "t", "-", "--config", "-", stdin=SOURCE, status=2))
        self.assertIn("once", self.run_in("create", "t", "-", "--config-file=-", stdin=SOURCE, status=2))
        self.run_in("create", "t", "-", "--object", "0" * 64, stdin=SOURCE, status=2)
        for name in ("x", "../x.c", "a b.c", "", "x.so"):
            self.run_in("create", "t", "-", "--name", name, stdin=SOURCE, status=2)
        self.run_in("create", "t", "--object", "0" * 64, "--name", "x.c", status=2)
        self.assertEqual(self.client.ids(), [])
        closed = subprocess.run([CTL, "--socket", self.daemon.socket, "create", "t", "-"], stdin=open(os.devnull), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(closed.returncode, 8)

    # ---- completion ----

    def complete(self, *words):
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sandboxctl; printf "%s\\n" "${COMPREPLY[@]}"')
        r = subprocess.run(["bash", "-c", script, "bash", os.path.join(TOP, "client/completion/sandboxctl.bash"), "sandboxctl", *words],
                           cwd=self.folder, stdout=subprocess.PIPE, timeout=60, check=True,
                           env=dict(os.environ, PATH=BUILD + ":" + os.environ["PATH"], SANDBOXD_SOCKET=self.daemon.socket))
        return r.stdout.decode().split()

    def test_completion(self):
        self.client.create("web", COUNTER1)
        self.assertEqual(self.complete("ca"), ["call", "cast"])
        self.assertEqual(set(self.complete("")), set(self.run_in("help", "--names").split()))
        for verb in ("cast", "wait", "call", "info"):
            self.assertEqual(self.complete(verb, "w"), ["web"])
        self.assertEqual(self.complete("cast", "web", "incr"), ["increment"])
        self.assertEqual(self.complete("wait", "web", "--f"), ["--for"])
        self.assertEqual(self.complete("wait", "web", "--for", "st"), ["starting", "stopping", "stopped"])
        self.assertIn("gone", self.complete("wait", "web", "--for", "=", ""))
        self.assertEqual(self.complete("new", "x", "--l"), ["--lang"])
        self.assertEqual(self.complete("new", "x", "--lang", ""), ["c"])
        self.assertEqual(self.complete("new", ""), [])
        self.assertIn("--name", self.complete("create", "web", "-", "--n"))


if __name__ == "__main__":
    main()
