#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Profiles of the administrator's: what a file says is what the kernel does; bad files; one that is gone; audit levels; the verbs."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, COUNTER1, COUNTER2, DEADLINE_S, IS_ROOT, OTHER_UID, Case, Daemon, OwnCase, RpcError, ctl, main, module, needs_root, wait_for

PROFILES = {
    "calm": "base = medium\nrefuse = threads\n",
    "fetcher": "# reaches out, and answers nobody\nbase = medium\nallow = network_client\nnetwork = host\n",
    "narrow": "base = high\nrefuse = timers, file_write\nmax_module_size = 26000\n",
    "told": "base = medium\naudit_level = full\n",
    "quiet": "base = medium\naudit_level = none\n",
    "mine": "base = medium\nadministrators_only = yes\n",
    "maker": "base = medium\ndynamic_code = yes\n",
}
NOBODY = 65534


class UserDaemon(Daemon):
    """An ordinary user's."""

    def start(self, wait=True, **popen):
        os.chown(self.folder, NOBODY, NOBODY)
        super().start(wait, user=NOBODY, group=NOBODY, extra_groups=[], **popen)


class Ordinary:
    """The tests; who runs the daemon is told by the classes below."""

    config = ""
    profiles = PROFILES

    def errno(self, profile, what):
        if profile not in self.client.ids():
            self.client.create(profile, module("refused"), profile=profile)
        return self.client.call(profile, "call", what=what)["errno"]

    def test_what_is_refused(self):
        """The same code under both: nothing but the one operation is another."""
        self.client.create("calm", module("compat"), profile="calm")
        e = self.refused("module_error", self.client.call, "calm", "threads")
        self.assertIn("Resource temporarily unavailable", str(e.error))
        self.client.call("calm", "processes")
        self.client.create("medium", module("compat"), profile="medium")
        self.client.call("medium", "threads")
        self.client.create("narrow", COUNTER1, profile="narrow")
        self.assertEqual(self.client.call("narrow", "increment", by=5), {"count": 5})
        e = self.refused("limit_exceeded", self.client.reload, "narrow", COUNTER2)
        self.assertIn("max_module_size", str(e.error))
        self.assertEqual(self.client.info("narrow")["version"], 1)
        self.refused("limit_exceeded", self.client.create, "x", COUNTER2, profile="narrow")
        self.assertNotIn("x", self.client.ids())

    def test_what_is_allowed(self):
        self.assertEqual(self.errno("medium", "socket"), "EACCES")
        self.assertEqual(self.errno("fetcher", "socket"), "")
        self.assertEqual(self.errno("medium", "writable_code"), "EACCES")
        self.assertEqual(self.errno("maker", "writable_code"), "")
        rows = {r["protection"]: r for r in self.client.info("fetcher")["security"]}
        self.assertEqual(rows["network"]["asked"], "none")
        self.assertEqual(rows["new code"]["asked"], "refused")
        more = self.client.rpc("sandbox.security", id="fetcher")
        self.assertEqual((more["profile"], more["audit_level"]), ("fetcher", "basic"))
        self.assertGreater(more["exposure"], self.client.rpc("sandbox.security", id="medium")["exposure"])

    def test_life_under_one(self):
        """Starts, restarts, spare hosts, reloads: as under any."""
        for i in range(8):
            self.client.create("x%d" % i, COUNTER1, profile="calm")
        for i in range(8):
            self.assertEqual(self.client.call("x%d" % i, "increment", by=2), {"count": 2})
        self.client.reload("x0", COUNTER2)
        self.client.rpc("sandbox.restart", id="x1")
        self.kill_host("x2")
        wait_for(lambda: self.client.info("x2")["restart_count"] == 1 and self.client.status("x2") == "running", "the next process")
        self.client.create("apart", COUNTER1, profile="calm", address_space="fresh")
        self.assertEqual(self.client.call("apart", "increment", by=1), {"count": 1})
        self.assertEqual(self.client.call("x1", "increment", by=1), {"count": 3})
        rows = self.client.rpc("sandbox.list", profile="calm")["sandboxes"]
        self.assertEqual(len(rows), 9)
        self.assertEqual(self.client.rpc("sandbox.list", profile="fetcher")["sandboxes"], [])

    def test_after_a_new_control(self):
        self.client.create("calm", module("refused"), profile="calm", audit_level="full")
        self.client.create("fetcher", module("refused"), profile="fetcher")
        before = self.client.info("calm")
        pid = self.daemon.control_pid()
        os.kill(pid, 9)
        self.daemon.wait_until_up()
        wait_for(lambda: self.daemon.control_pid() != pid, "the next control")
        self.client = self.daemon.client()
        after = self.client.info("calm")
        for key in ("profile", "profile_fingerprint", "audit_level", "pid", "generation"):
            self.assertEqual(before[key], after[key], key)
        self.assertEqual(self.errno("fetcher", "socket"), "")

    def test_names(self):
        for what, call in (("create", lambda: self.client.create("x", COUNTER1, profile="clam")),
                           ("list", lambda: self.client.rpc("sandbox.list", profile="clam"))):
            with self.subTest(what=what):
                e = self.refused("bad_param", call)
                self.assertEqual((e.error["data"]["name"], e.error["data"]["nearest"]), ("profile", "calm"))
                self.assertIn("is 'calm' meant?", e.error["message"])


class AsStarted(Ordinary, Case):
    """As root when the tests are; and what doesn't depend on who it is."""

    def changed(self, sandbox):
        return [r["type"] for r in self.client.rpc("audit.read", limit=1000, sandbox=sandbox)["events"]]

    def test_audit_levels(self):
        c = self.client
        for name, profile, asked, shown in (("a", "medium", None, "basic"), ("b", "told", None, "full"), ("c", "quiet", None, "none"),
                                            ("d", "medium", "full", "full"), ("e", "high", "none", "none")):
            extra = {} if asked is None else {"audit_level": asked}
            info = c.create(name, module("refused"), profile=profile, **extra)
            self.assertEqual(info["audit_level"], shown)
            if profile != "high":
                c.call(name, "call", what="unshare")
            self.refused("bad_image", c.reload, name, b"\x7fELF nonsense")
            c.rpc("sandbox.stop", id=name)
        wait_for(lambda: "denied.call" in self.changed("a"), "its denial")
        self.assertEqual(sorted(self.changed("a")), ["denied.call", "denied.object"])
        self.assertEqual(sorted(self.changed("b")), ["changed", "changed", "denied.call", "denied.object"])
        self.assertEqual(self.changed("c"), [])
        self.assertEqual(sorted(self.changed("d")), ["changed", "changed", "denied.call", "denied.object"])
        self.assertEqual(self.changed("e"), [])
        for value in ("", "all", 1, None, ["full"]):
            self.refused("bad_param", c.create, "x", COUNTER1, audit_level=value)

    def test_list_and_show(self):
        rows = {r["profile"]: r for r in self.client.rpc("profile.list")["profiles"]}
        self.assertEqual(list(rows), ["high", "medium", "low", *sorted(PROFILES)])
        self.assertEqual([r["built_in"] for r in rows.values()], [True] * 3 + [False] * len(PROFILES))
        self.assertEqual((rows["low"]["administrators_only"], rows["mine"]["administrators_only"], rows["calm"]["administrators_only"]), (True, True, False))
        self.assertEqual(rows["calm"]["operations"], rows["medium"]["operations"] - 1)
        self.assertEqual(len({r["fingerprint"] for r in rows.values()}), len(rows))
        shown = self.client.rpc("profile.show", profile="fetcher")
        self.assertEqual((shown["network"], shown["base"], shown["landlock"]["network"]), ("host", "medium", ["bind_tcp"]))
        self.assertEqual(shown["fingerprint"], rows["fetcher"]["fingerprint"])
        ops = {o["operation"]: o for o in shown["operations"]}
        self.assertTrue(ops["network_client"]["allowed"])
        self.assertFalse(ops["network_server"]["allowed"])
        self.assertGreater(ops["network_client"]["calls"], 0)
        self.assertEqual(ops["network_client"]["landlock"], ["connect_tcp"])
        self.assertEqual(ops["tracing"]["refused_with"], "refused")
        self.client.create("x", COUNTER1, profile="fetcher")
        self.assertEqual(self.client.info("x")["profile_fingerprint"], shown["fingerprint"])
        e = self.refused("not_found", self.client.rpc, "profile.show", profile="fetch")
        self.assertEqual(e.error["data"]["nearest"], "fetcher")

    def test_diff(self):
        d = self.client.rpc("profile.diff", a="medium", b="fetcher")
        self.assertEqual((d["same"], d["operations"]), (False, [{"operation": "network_client", "a": False, "b": True}]))
        self.assertEqual(d["settings"], [{"setting": "network", "a": "none", "b": "host"}])
        self.assertTrue(self.client.rpc("profile.diff", a="calm", b="calm")["same"])
        self.refused("not_found", self.client.rpc, "profile.diff", a="calm", b="clam")
        self.refused("not_found", self.client.rpc, "profile.diff", a="none", b="calm")

    def test_validate(self):
        shown = self.client.rpc("profile.validate", text=PROFILES["fetcher"], name="other")
        self.assertEqual((shown["profile"], shown["network"], shown["built_in"]), ("other", "host", False))
        self.assertNotIn("other", [p["profile"] for p in self.client.rpc("profile.list")["profiles"]])
        for text, code, line, said in (("base = medium\nallow = network_client\n", "bad_param", 2, "network = host"),
                                       ("base = medium\nalow = exec\n", "unknown_param", 2, "allow"),
                                       ("", "bad_param", None, "base is missing"),
                                       ("base = low\nbase = high", "duplicate_key", 2, "twice")):
            e = self.refused(code, self.client.rpc, "profile.validate", text=text)
            self.assertIn(said, e.error["message"])
            self.assertEqual(e.error["data"].get("offset"), line)
        self.refused("bad_param", self.client.rpc, "profile.validate", text=PROFILES["calm"], name="high")
        self.refused("bad_param", self.client.rpc, "profile.validate", text="#" * (16384 + 1))
        self.refused("bad_param", self.client.rpc, "profile.validate", text=["base = high"])

    def test_the_verbs(self):
        folder = os.path.join(self.daemon.folder, "profiles.d")
        r = self.ctl("profile", "list", "--quiet")
        self.assertEqual((r.status, r.out.split()), (0, ["high", "medium", "low", *sorted(PROFILES)]))
        r = self.ctl("profile", "show", "calm")
        self.assertEqual(r.status, 0)
        self.assertIn("EAGAIN", r.out)
        r = self.ctl("profile", "validate", os.path.join(folder, "calm.profile"), "--json")
        self.assertEqual((r.status, json.loads(r.out)["profile"]), (0, "calm"))
        bad = os.path.join(self.daemon.folder, "bad.profile")
        with open(bad, "w") as f:
            f.write("base = medium\nrefuse = base\n")
        self.addCleanup(os.unlink, bad)
        r = self.ctl("profile", "validate", bad)
        self.assertEqual(r.status, 2)
        self.assertIn("bad.profile:2: refuse: no sandbox can work without the operation base", r.err)
        r = self.ctl("profile", "diff", "medium", "calm")
        self.assertEqual(r.status, 1)
        self.assertIn("threads", r.out)
        self.assertEqual(self.ctl("profile", "diff", "calm", "calm").status, 0)

    def test_doctor(self):
        rows = {p["profile"]: p for p in self.client.rpc("daemon.doctor")["profiles"]}
        self.assertEqual(list(rows), ["high", "medium", "low", *sorted(PROFILES)])
        self.assertTrue(all(p["works"] for p in rows.values()), rows)


@unittest.skipUnless(IS_ROOT, "only root can be another user")
class AsUser(Ordinary, Case):
    """The same, rootless."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = UserDaemon(config=cls.config, profiles=cls.profiles)


class Paths(OwnCase):
    """Parts of the machine that a profile grants."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxpaths")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        for name in ("read", "write", "write/none", "other"):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), 0o1777)
        for name in ("read/file", "write/none/file", "one", "other/file"):
            with open(self.path(name), "w") as f:
                f.write("text\n" * 1000)
            os.chmod(self.path(name), 0o666)

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, more=""):
        return "base = medium\nread_paths = %s %s\t%s\nwrite_paths = %s\n%s" % (
            self.path("write/none"), self.path("read"), self.path("one"), self.path("write"), more)

    def try_all(self, daemon):
        with daemon.client() as c:
            info = c.create("a", module("refused"), profile="own", restart="temporary")
            has_root = any(r["protection"] == "own root" and r["got"] != "none" for r in info["security"])
            for name, can_read, can_write in (("read/file", True, False), ("one", True, False), ("write/new", True, True),
                                              ("write/none/file", True, False), ("read/new", False, False), ("other/file", False, False)):
                with self.subTest(name=name):
                    wrote = c.call("a", "append", path=self.path(name))["errno"]
                    self.assertEqual(wrote == "", can_write, wrote)
                    self.assertEqual(c.call("a", "open", path=self.path(name))["errno"] == "", can_read)
            self.assertEqual(os.path.getsize(self.path("write/new")), 1)
            self.assertEqual(c.call("a", "open", path="/etc/passwd"), {"errno": "ENOENT" if has_root else "EACCES"})
            if has_root:
                self.assertEqual(c.call("a", "map_code", path=self.path("read/file"))["errno"], "EPERM")  # mounted noexec
            files, = [r for r in c.info("a")["security"] if r["protection"] == "files"]
            self.assertIn("granted paths", files["asked"])
            shown = c.rpc("profile.show", profile="own")
            self.assertEqual((shown["read_paths"], shown["write_paths"]),
                             ([self.path("write/none"), self.path("read"), self.path("one")], [self.path("write")]))
            self.assertEqual([s["setting"] for s in c.rpc("profile.diff", a="medium", b="own")["settings"]], ["read_paths", "write_paths"])
            c.create("b", COUNTER1)
            c.destroy("a")

    def test_as_started(self):
        self.try_all(self.own_daemon(config="", profiles={"own": self.text()}))

    @needs_root()
    def test_as_user(self):
        daemon = UserDaemon(config="", profiles={"own": self.text()})
        self.daemons.append(daemon)
        self.try_all(daemon)

    def test_code_from_there(self):
        daemon = self.own_daemon(config="", profiles={"own": self.text("dynamic_code = yes\n")})
        with daemon.client() as c:
            c.create("a", module("refused"), profile="own")
            self.assertEqual(c.call("a", "map_code", path=self.path("read/file")), {"errno": ""})

    def test_one_that_goes(self):
        """No host begins without what it was promised, and none loses a wall for it."""
        daemon = self.own_daemon(config="", profiles={"own": "base = medium\nread_paths = %s\n" % self.path("other")})
        shutil.rmtree(self.path("other"))
        with daemon.client() as c:
            with self.assertRaises(RpcError) as caught:
                c.create("a", module("refused"), profile="own")
            self.assertEqual(caught.exception.code, "start_failed")
            self.assertIn("granted paths", str(caught.exception.error))
            self.assertEqual(c.ids(), [])
            row, = [p for p in c.rpc("daemon.doctor")["profiles"] if p["profile"] == "own"]
            self.assertEqual((row["works"], row["step"]), (False, "granted paths"))
            os.mkdir(self.path("other"))
            c.create("a", module("refused"), profile="own")

    def test_one_that_is_a_link_by_now(self):
        """A module that may write a folder puts a link to the root in the place of one below it: where there is no own root, Landlock is all."""
        for lost in ((), ("--weaken", "own root")):
            daemon = self.own_daemon(config="", options=lost, profiles={"own": "base = medium\nwrite_paths = %s %s\n" % (self.path("write"), self.path("write/none"))})
            with daemon.client() as c:
                c.create("a", module("refused"), profile="own")
                os.rename(self.path("write/none"), self.path("old"))
                os.symlink("/", self.path("write/none"))
                with self.assertRaises(RpcError) as caught:
                    c.create("b", module("refused"), profile="own", address_space="fresh")
                self.assertIn("granted paths", str(caught.exception.error))
                self.assertNotEqual(c.call("a", "append", path=self.path("other/file"))["errno"], "")
            os.unlink(self.path("write/none"))
            os.rename(self.path("old"), self.path("write/none"))

    def test_folders_of_the_daemon_by_another_name(self):
        daemon = self.own_daemon(config="", profiles={})
        os.symlink(daemon.folder, self.path("link"))
        daemon.write_profile("own", "base = medium\nwrite_paths = %s\n" % daemon.state)
        argv = [os.path.join(self.path("link"), "state") if a == daemon.state else a for a in daemon.argv()]
        self.assertNotEqual(argv, daemon.argv())
        r = subprocess.run([*argv, "--check-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual((r.returncode, "it meets state_dir" in r.stderr), (2, True), r.stderr)

    def test_bad_ones(self):
        daemon = self.own_daemon(config="", profiles={})
        os.symlink(self.path("read"), self.path("link"))
        os.mkfifo(self.path("fifo"))
        for key, path, says in (("read", self.path("nothing"), "No such file"), ("read", self.path("link"), "symbolic link"),
                                ("read", self.path("link/file"), "symbolic link"), ("write", self.path("fifo"), "neither a folder nor a regular file"),
                                ("read", daemon.state, "it meets state_dir"), ("read", daemon.folder, "it meets state_dir"),
                                ("write", os.path.join(daemon.runtime, "objects"), "it meets runtime_dir"), ("read", daemon.socket, "it meets socket"),
                                ("read", "/", "is the root folder"), ("read", "/proc/self", "no profile may grant"), ("write", "/usr/lib", "among the libraries"),
                                ("read", "etc", "doesn't begin"), ("read", "/etc/../etc", "'..'")):
            with self.subTest(path=path):
                daemon.write_profile("own", "base = medium\n%s_paths = %s\n" % (key, path))
                r = subprocess.run([*daemon.argv(), "--check-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   timeout=DEADLINE_S, check=False)
                self.assertEqual(r.returncode, 2, r.stderr)
                self.assertIn("own.profile:2: %s_paths: %s" % (key, path), r.stderr)
                self.assertIn(says, r.stderr)


class Rights(Case):
    """Of whoever isn't an administrator."""

    config = "operators = *\nsocket_mode = 0666\n"
    profiles = PROFILES

    @needs_root()
    def test_rights(self):
        socket = self.daemon.socket
        for profile, extra, says in (("mine", (), "is for administrators"), ("low", (), "is for administrators"),
                                     ("told", ("--audit-level", "basic"), "only administrators may lower it")):
            r = ctl(socket, "create", "x", COUNTER1, "--profile", profile, *extra, uid=OTHER_UID)
            self.assertEqual(r.status, 7, r.err)
            self.assertIn(says, r.err)
        r = ctl(socket, "create", "x", COUNTER1, "--profile", "calm", "--audit-level", "full", "--json", uid=OTHER_UID)
        self.assertEqual((r.status, json.loads(r.out)["audit_level"]), (0, "full"), r.err)
        # what was refused for want of a right is recorded whatever the level
        self.client.create("q", COUNTER1, profile="quiet")
        self.assertNotEqual(ctl(socket, "stop", "q", uid=OTHER_UID).status, 0)
        self.assertEqual([e["type"] for e in self.client.rpc("audit.read", sandbox="q", limit=100)["events"]], ["denied.owner"])


class Restarts(OwnCase):
    """Files that change between two starts of the daemon."""

    def again(self, daemon):
        self.assertEqual(daemon.terminate(), 0)
        daemon.start()
        return daemon.client()

    def test_gone_and_back(self):
        daemon = self.own_daemon(config="", profiles={"calm": PROFILES["calm"]})
        with daemon.client() as c:
            c.create("a", COUNTER1, profile="calm")
            c.create("b", COUNTER1)
            c.call("a", "increment", by=3)
        daemon.write_profile("calm", None)
        with self.again(daemon) as c:
            self.assertEqual(wait_for(lambda: c.status("a") in ("failed",) and c.info("a"), "it to fail")["restart_count"], 0)
            info = c.info("a")
            self.assertIsNone(info["pid"])
            self.assertIsNone(info["profile_fingerprint"])
            self.assertIn("calm.profile", info["status_reason"])
            with self.assertRaises(RpcError) as caught:
                c.rpc("sandbox.start", id="a")
            self.assertEqual(caught.exception.code, "start_failed")
            self.assertIn("put calm.profile back", str(caught.exception.error))
            wait_for(lambda: c.status("b") == "running", "the other")
        daemon.write_profile("calm", PROFILES["calm"])
        with self.again(daemon) as c:
            self.assertEqual(c.rpc("sandbox.start", id="a")["status"], "running")
            self.assertEqual(c.call("a", "increment", by=1), {"count": 4})

    def test_changed(self):
        """It holds for the next process, and the fingerprint says that it is another one."""
        daemon = self.own_daemon(config="", profiles={"own": "base = medium\n"})
        with daemon.client() as c:
            c.create("a", module("refused"), profile="own")
            self.assertEqual(c.call("a", "call", what="socket"), {"errno": "EACCES"})
            before = c.info("a")["profile_fingerprint"]
        daemon.write_profile("own", "base = medium\nallow = network_client\nnetwork = host\n")
        with self.again(daemon) as c:
            wait_for(lambda: c.status("a") == "running", "it to come back")
            self.assertEqual(c.call("a", "call", what="socket"), {"errno": ""})
            self.assertNotEqual(c.info("a")["profile_fingerprint"], before)


class BadFiles(OwnCase):
    """The daemon says file, line and reason, and doesn't start."""

    def setUp(self):
        super().setUp()
        self.daemon = self.own_daemon(config="", profiles={"good": "base = high\n"})
        self.folder = os.path.join(self.daemon.folder, "profiles.d")

    def check(self, status, *says):
        r = subprocess.run([*self.daemon.argv(), "--check-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
                           check=False)
        self.assertEqual(r.returncode, status, r.stderr)
        for said in says:
            self.assertIn(said, r.stderr)
        return r.stderr

    def test_texts(self):
        for text, says in (("base = medum\n", "bad.profile:1: base: 'medum' is no built-in profile (high, medium, low); is 'medium' meant?"),
                           ("base = high\n\nrefuse = base\n", "bad.profile:3: refuse: no sandbox can work"),
                           ("base = high\nrefuse = threads threads\n", "bad.profile:2: refuse: threads stands there twice")):
            self.daemon.write_profile("bad", text)
            self.check(2, says)
        r = subprocess.run(self.daemon.argv(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertEqual(r.returncode, 2)
        self.assertIn("bad.profile:2", r.stderr)
        self.daemon.write_profile("bad", None)
        self.check(0)

    def test_files(self):
        path = os.path.join(self.folder, "bad.profile")
        good = os.path.join(self.folder, "good.profile")
        os.symlink(good, path)
        self.check(2, "bad.profile")
        os.unlink(path)
        os.mkdir(path)
        self.check(2, "is no regular file")
        os.rmdir(path)
        os.mkfifo(path, 0o644)
        self.check(2, "is no regular file")
        os.unlink(path)
        os.chmod(good, 0o664)
        self.check(2, "can be written by others")
        os.chmod(good, 0o644)
        os.chmod(self.folder, 0o777)
        self.check(2, "can be written by others")
        os.chmod(self.folder, 0o755)
        if IS_ROOT:
            os.chown(good, NOBODY, NOBODY)
            self.check(2, "belongs to uid 65534")
            os.chown(good, 0, 0)
        for name in ("high", "-x", "a" * 23):
            self.daemon.write_profile(name, "base = high\n")
            self.check(2, name)
            self.daemon.write_profile(name, None)
        for name in (".hidden.profile", "README", "old.profile~"):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write("no profile")
        self.check(0)
        for i in range(16):
            self.daemon.write_profile("p%d" % i, "base = high\n")
        self.check(2, "more than 16 profiles")


if __name__ == "__main__":
    main()
