#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Profiles: what ordinary code needs works under each of them, as root and as an ordinary user; what a profile refuses, it refuses."""
import os
import shutil
import signal
import subprocess
import unittest

from harness import BUILD, COUNTER1, COUNTER2, DEADLINE_S, IS_ROOT, Case, Daemon, OwnCase, example, main, module, wait_for

PROFILES = ("high", "medium", "low")
NOBODY = 65534
INT80 = ("SIGSYS", "SIGSEGV")  # the second on a kernel that was built without that door
PARTS = ("threads", "sorting", "memory", "numbers", "output", "sleeping", "timers", "signals", "traces", "processes", "ipc", "questions")


class UserDaemon(Daemon):
    """An ordinary user's."""

    def start(self, wait=True, **popen):
        os.chown(self.folder, NOBODY, NOBODY)
        super().start(wait, user=NOBODY, group=NOBODY, extra_groups=[], **popen)


class Ordinary:
    """The tests; who runs the daemon is told by the classes below."""

    def test_libc(self):
        for profile in PROFILES:
            self.client.create(profile, module("compat"), profile=profile)
            for part in PARTS:
                with self.subTest(profile=profile, part=part):
                    self.client.call(profile, part)
            self.assertEqual(self.client.info(profile)["restart_count"], 0, profile)
            wait_for(lambda p=profile: "line 99 of output" in self.client.log_text(p), "what it printed")

    def test_scratch(self):
        for profile in ("high", "medium"):
            self.client.create(profile, module("compat"), profile=profile)
            if not self.has(profile, "scratch bytes"):
                continue
            self.assertEqual(self.client.call(profile, "files"), {"folder": "/rw/scratch"})
            self.assertEqual(self.client.call(profile, "files"), {"folder": "/rw/scratch"})  # it had left nothing

    @unittest.skipUnless(shutil.which(os.environ.get("CXX", "c++")), "no C++ compiler")
    def test_exceptions(self):
        for profile in PROFILES:
            self.client.create(profile, example("words/words"), profile=profile)
            self.client.call(profile, "add", word="one")
            e = self.refused("module_error", self.client.call, profile, "at", word="other")
            self.assertIn("exception", str(e.error))
            self.assertEqual(self.client.call(profile, "at", word="one"), {"times": 1})

    def test_reload_and_last_words(self):
        """The host's own work: forked copies, saves, large bodies, the note of a dying process."""
        for profile in PROFILES:
            self.client.create(profile, COUNTER1, profile=profile)
            self.client.call(profile, "increment", by=5)
            self.client.reload(profile, COUNTER2)
            self.assertEqual(self.client.call(profile, "increment")["count"], 6)
            self.client.rpc("sandbox.rollback", id=profile)
            self.client.rpc("sandbox.stop", id=profile)
            self.client.rpc("sandbox.start", id=profile)
            self.assertEqual(self.client.call(profile, "increment", by=1)["count"], 7)
            self.client.create("big-" + profile, module("big_reply"), profile=profile)
            for size in (100, 70000, (1 << 20) - 11):
                self.assertEqual(len(self.client.call("big-" + profile, "reply", bytes=size)["text"]), size)
            self.assertEqual(self.client.call("big-" + profile, "length", text="y" * 300000), {"bytes": 300000})
            self.client.create("crash-" + profile, module("crash_call"), profile=profile)
            self.refused("crashed", self.client.call, "crash-" + profile, "segv")
            last = wait_for(lambda: self.client.info("crash-" + profile)["last_exit"], "its last exit")
            self.assertEqual(last["signal"], signal.SIGSEGV, profile)
            self.assertIn("crash_visibly", str(last), profile)

    def test_files_of_the_machine(self):
        for profile in ("high", "medium"):
            self.client.create(profile, module("refused"), profile=profile)
            if self.has(profile, "own root"):
                for path in ("/etc/passwd", "/proc/self/status", "/dev/null", "/sys", "/tmp", "/home"):
                    self.assertEqual(self.client.call(profile, "open", path=path), {"errno": "ENOENT"}, path)
            elif self.has(profile, "files"):
                self.assertEqual(self.client.call(profile, "open", path="/etc/passwd"), {"errno": "EACCES"})
        self.client.create("low", module("refused"), profile="low")
        self.assertEqual(self.client.call("low", "open", path="/etc/passwd"), {"errno": ""})

    def has(self, sandbox, protection):
        row, = [r for r in self.client.info(sandbox)["security"] if r["protection"] == protection]
        return row["got"] != "none"

    def try_call(self, profile, what):
        """How it ends, in a sandbox of its own: {"errno": ...}, or the signal that killed it."""
        name = profile + "-" + what
        self.client.create(name, module("refused"), profile=profile, restart="temporary")
        request = self.client.request("sandbox.call", id=name, function="call", args={"what": what})
        message = self.client.reply(request)
        if "error" not in message:
            return message["result"]["result"]["errno"]
        self.assertEqual(message["error"]["data"]["code"], "crashed", message)
        self.wait_status(name, "stopped", "failed")
        return signal.Signals(self.client.info(name)["last_exit"]["signal"]).name

    def test_refusals(self):
        """One call of each kind; tests/attacks has all of them. A sandbox that is killed is so under high only."""
        killed = "SIGKILL"
        for what, high, medium, low in (
                ("ptrace", killed, "EPERM", "EPERM"),
                ("unshare", killed, "EPERM", "EPERM"),
                ("keyctl", killed, "EPERM", "EPERM"),
                ("terminal", killed, "EPERM", "EPERM"),
                ("exec", killed, "EPERM", "ENOENT"),
                ("socket", "EACCES", "EACCES", ""),
                ("flock", "ENOLCK", "ENOLCK", ""),
                ("memfd", "ENOSYS", "", ""),
                ("writable code", "EACCES", "EACCES", ""),
                ("dumpable", "EPERM", "EPERM", "EPERM"),
                ("death signal", "EPERM", "EPERM", "EPERM"),
                ("raise limit", "EPERM", "EPERM", "EPERM"),
                ("clone3", "ENOSYS", "ENOSYS", "ENOSYS"),
                ("io_uring", "ENOSYS", "ENOSYS", "ENOSYS"),
                ("unknown", "ENOSYS", "ENOSYS", "ENOSYS"),
                ("interfaces", "ENOTTY", "ENOTTY", ""),
                ("x32", "SIGSYS", "SIGSYS", "SIGSYS"),
                ("int80", INT80, INT80, INT80)):
            for profile, wanted in zip(PROFILES, (high, medium, low)):
                with self.subTest(profile=profile, what=what):
                    self.assertIn(self.try_call(profile, what.replace(" ", "_")), wanted if isinstance(wanted, tuple) else (wanted,))

    def test_denials_are_named(self):
        """Under a full audit every refused call, under a basic one the forbidden ones; what isn't implemented never."""
        rows = {"socket": ("network_client", "EACCES"), "flock": ("file_lock", "ENOLCK"), "unshare": ("namespaces", "EPERM")}
        for profile, asked, told in (("high", ("clone3", "socket", "flock", "io_uring"), ("socket", "flock")),
                                     ("medium", ("clone3", "socket", "unshare", "flock"), ("unshare",)),
                                     ("low", ("clone3", "socket", "unshare"), ("unshare",))):
            self.client.create(profile, module("refused"), profile=profile)
            for what in asked:
                self.client.call(profile, "call", what=what)
            self.wait_event(profile, "sandbox.denied", len(told))
            self.client.create("killed-" + profile, module("refused"), profile=profile)
            found = [e for e in self.client.events(profile) if e["type"] == "sandbox.denied"]
            self.assertEqual([(e["call"], e["operation"], e["answer"]) for e in found], [(t, *rows[t]) for t in told])
        self.refused("crashed", self.client.call, "killed-high", "call", what="ptrace")
        event, = self.wait_event("killed-high", "sandbox.denied")
        self.assertEqual((event["call"], event["operation"], event["answer"]), ("ptrace", "tracing", "killed"))
        self.assertIn("ptrace", str(wait_for(lambda: self.client.info("killed-high")["last_exit"], "its last exit")))


class AsStarted(Ordinary, Case):
    """As root when the tests are."""

    def test_bad_profiles(self):
        for profile in ("", "High", "high ", "none", "../high", "x" * 1000, 1, None, [], {"name": "high"}):
            with self.subTest(profile=profile):
                e = self.refused("bad_param", self.client.create, "a", COUNTER1, profile=profile)
                self.assertIn("profile", str(e.error))
        self.assertEqual(self.client.ids(), [])
        self.assertEqual(self.ctl("create", "a", COUNTER1, "--profile", "hihg").status, 2)


@unittest.skipUnless(IS_ROOT, "only root can be another user")
class AsUser(Ordinary, Case):
    """The same, rootless."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = UserDaemon()

    def test_it_is_rootless(self):
        self.client.create("a", COUNTER1)
        with open("/proc/%d/status" % self.daemon.pid) as f:
            self.assertIn("Uid:\t%d\t" % NOBODY, f.read())
        self.assertFalse(self.has("a", "own uid"))


class OlderKernels(OwnCase):
    """Landlock's ABIs, pretended: what the report says of each, and that the sandbox works."""

    LACKS = {0: None, 1: "moves (Linux 5.19)", 2: "truncating (Linux 6.2)", 3: "tcp (Linux 6.7)", 4: "device controls (Linux 6.10)",
             5: "abstract sockets (Linux 6.12)", 6: "", 7: ""}

    def test_reports(self):
        for abi, lacks in self.LACKS.items():
            daemon = self.own_daemon(options=["--landlock-abi", str(abi)])
            with self.subTest(abi=abi), daemon.client() as c:
                c.create("a", COUNTER1, profile="high")
                row, = [r for r in c.info("a")["security"] if r["protection"] == "files"]
                if lacks is None:
                    self.assertEqual(row["got"], "none")
                    self.assertIn("Landlock", row["why"])
                else:
                    self.assertTrue(row["got"].startswith("files"), row)
                    self.assertTrue(row["why"].startswith(lacks) if lacks else row["why"] == "", row)
                self.assertEqual(c.call("a", "increment", by=5), {"count": 5})
                c.destroy("a")

    def test_bad_options(self):
        for options in (["--landlock-abi", "x"], ["--landlock-abi", "-1"], ["--landlock-abi", ""], ["--weaken", "walls"], ["--weaken", ""],
                        ["--weaken", "files,"], ["--weaken"]):
            with self.subTest(options=options):
                r = subprocess.run([os.path.join(BUILD, "sandboxd"), "--check-config", *options], stdin=subprocess.DEVNULL, capture_output=True,
                                   timeout=DEADLINE_S, check=False)
                self.assertEqual(r.returncode, 2, r)
                self.assertIn(options[0].encode(), r.stderr)


if __name__ == "__main__":
    main()
