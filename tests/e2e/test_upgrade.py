#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The running program is replaced by the one that is installed: sandboxes run on, nothing acknowledged is lost, and what can't take over is refused
before anything is touched."""
import os
import shutil
import signal
import subprocess
import tempfile
import threading

from harness import (BUILD, COUNTER1, COUNTER2, IS_ROOT, OTHER_UID, Background, Closed, Daemon, OwnCase, RpcError, ctl, main, module, needs_root,
                     wait_for)

PROGRAMS = ("sandboxd", "sandboxd-control", "sandbox-host", "include/sandbox_module.h")
BUILD_LINE = "build: spawner %d zygote %d host %d registry %d kept %d\\n"


class InstalledDaemon(Daemon):
    """Its programs lie in a folder of their own, where others can be put in their place. uid: whose daemon it is (None: the test's)."""

    def __init__(self, uid=None, **kwargs):
        self.uid = uid if IS_ROOT else None
        self.programs = tempfile.mkdtemp(prefix="sbxbin")
        os.chmod(self.programs, 0o755)
        os.mkdir(os.path.join(self.programs, "include"))
        for name in PROGRAMS:
            self.install(name, os.path.join(BUILD, name))
        super().__init__(**kwargs)

    def path(self, name="sandboxd"):
        return os.path.join(self.programs, name)

    def install(self, name, source, more=b""):
        """As a package does it: a new file takes the name. more: bytes behind its end, which make another build of it."""
        new = self.path(name + ".new")
        shutil.copy(source, new)
        with open(new, "ab") as f:
            f.write(more)
        os.rename(new, self.path(name))

    def install_all(self, more):
        for name in PROGRAMS[:3]:
            self.install(name, os.path.join(BUILD, name), more)

    def install_fake(self, name, body):
        """A program that does this."""
        source, out = self.path("fake.c"), self.path("fake")
        with open(source, "w") as f:
            f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void)\n{\n%s\n}\n" % body)
        subprocess.run(["cc", "-o", out, source], check=True, stdin=subprocess.DEVNULL)
        self.install(name, out)

    def start(self, wait=True, **popen):
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)
            popen = dict({"user": self.uid, "group": self.uid, "extra_groups": []}, **popen)
        super().start(wait, **popen)

    def argv(self):
        return [self.path(), *self.options]

    def remove(self):
        super().remove()
        shutil.rmtree(self.programs, ignore_errors=True)

    def info(self):
        with self.client() as c:
            return c.rpc("daemon.info")

    def upgrade(self):
        return ctl(self.socket, "upgrade")

    def hang_up(self):
        """SIGHUP, and the next control serves. Returns its daemon.info."""
        before = self.info()
        os.kill(self.pid, signal.SIGHUP)
        self.wait_for_next_control(before["control_pid"])
        return self.info()

    def descriptors(self):
        """Of the spawner, by what they are; those that move with time are left out."""
        return len(os.listdir("/proc/%d/fd" % self.pid))


class Incrementer(threading.Thread):
    """Counts a sandbox up, each time under a key of its own; a connection that is lost is made again, and the outcome asked for."""

    def __init__(self, daemon, sandbox, number):
        super().__init__(daemon=True)
        self.daemon_, self.sandbox, self.number = daemon, sandbox, number
        self.done = self.lost = 0
        self.over, self.failure = threading.Event(), None

    def run(self):
        try:
            client = self.daemon_.client()
            while not self.over.is_set():
                client = self.one(client, "%s-%d-%d" % (self.sandbox, self.number, self.done))
                self.done += 1
            client.close()
        except BaseException as e:  # shown by the test
            self.failure = e

    def one(self, client, key):
        while True:
            try:
                client.rpc("sandbox.call", id=self.sandbox, function="increment", args={}, request_key=key)
                return client
            except (Closed, OSError):
                self.lost += 1
                client.close()
                client = wait_for(self.connect, "a new connection")

    def connect(self):
        try:
            return self.daemon_.client()
        except OSError:
            return None

    def end(self):
        self.over.set()
        self.join(120)
        if self.failure:
            raise self.failure
        return self.done


class Upgrade(OwnCase):
    uid = None

    def installed(self, **kwargs):
        daemon = InstalledDaemon(uid=self.uid, **kwargs)
        self.daemons.append(daemon)
        return daemon

    def replaced(self, daemon, before):
        """What an upgrade changes of daemon.info, and what it doesn't."""
        after = daemon.info()
        self.assertEqual((after["pid"], after["upgrades"]), (before["pid"], before["upgrades"] + 1))
        self.assertNotEqual(after["control_pid"], before["control_pid"])
        self.assertIsNone(daemon.process.poll())
        self.assertNotIn("control %d was killed" % before["control_pid"], daemon.log())  # it left in order
        self.assertNotIn("control %d exited" % before["control_pid"], daemon.log())
        return after

    def prepare(self, c):
        """One of each sort. Returns the names of those whose info must not change."""
        c.create("runs", COUNTER1, labels={"a": "b"})
        c.call("runs", "increment", by=5)
        c.create("reloaded", COUNTER1)
        c.reload("reloaded", COUNTER2)
        c.rpc("version.commit", id="reloaded")  # probation would end with control
        c.create("stopped", COUNTER1)
        c.rpc("sandbox.stop", id="stopped")
        c.create("failed", COUNTER1, restart="temporary")
        os.kill(c.info("failed")["pid"], signal.SIGKILL)
        wait_for(lambda: c.status("failed") == "failed", "it to fail")
        c.create("frozen", COUNTER1)
        c.rpc("sandbox.freeze", id="frozen")
        c.create("brief", COUNTER1, persist=False)
        c.create("spins", module("overruns"))
        c.rpc("group.create", id="g")
        c.create("member", COUNTER1, group="g")
        names = ["runs", "reloaded", "stopped", "failed", "frozen", "brief", "spins", "member"]
        wait_for(lambda: all(c.info(n)["durable"] or n == "brief" for n in names), "the registry to be written")
        return names

    def test_all_sorts_of_sandboxes_run_on(self):
        daemon = self.installed()
        with daemon.client() as c:
            names = self.prepare(c)
            c.create("backs", module("crash_call"), intensity=50)
            for n in range(1, 4):
                os.kill(wait_for(lambda: c.info("backs")["pid"] if c.status("backs") == "running" else None, "it to run"), signal.SIGKILL)
                wait_for(lambda: c.info("backs")["budget"]["used"] >= n, "its restart to be counted")
            before = {n: c.info(n) for n in names}
            inode = os.stat(daemon.socket).st_ino
            c.request("sandbox.call", id="spins", function="spin", args={"ms": 600000}, timeout_ms=600000)
            with daemon.client() as other:
                wait_for(lambda: other.info("spins")["queue"]["running"] == 1, "the call to run")
            was = daemon.info()
            self.assertEqual(daemon.upgrade().status, 0, daemon.log())
        after = self.replaced(daemon, was)
        self.assertEqual(after["hosts_of_older_build"], 0)  # the same program
        self.assertEqual(os.stat(daemon.socket).st_ino, inode)
        changing = {"last_exit", "queue", "budget", "started_at", "security", "state_from"}
        with daemon.client() as c:
            self.assertEqual(sorted(c.ids()), sorted(names + ["backs"]))
            for n in names:
                wait_for(lambda: c.info(n)["durable"] == before[n]["durable"], "the registry to be read")
                now = c.info(n)
                for key in set(before[n]) - changing:
                    self.assertEqual(now[key], before[n][key], (n, key))
            self.assertEqual(c.call("runs", "get")["count"], 5)
            self.assertEqual(c.rpc("sandbox.thaw", id="frozen")["status"], "running")
            self.assertEqual(c.call("frozen", "get"), {"count": 0})
            c.rpc("sandbox.start", id="stopped")
            self.assertEqual(c.rpc("group.info", id="g")["status"], "up")
            wait_for(lambda: c.status("backs") == "running", "the back-off to end")
            self.assertGreaterEqual(c.info("backs")["budget"]["used"], 3)
            c.rpc("sandbox.destroy", id="spins")
            pid = c.info("runs")["pid"]  # waited for, and supervised, as before
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: c.info("runs")["restart_count"] == 1 and c.status("runs") == "running", "the restart")
            self.assertFalse(os.path.exists("/proc/%d" % pid))
            types = [e["type"] for e in c.events()]
            self.assertIn("daemon.upgraded", types)

    def test_nothing_acknowledged_is_lost(self):
        """Four clients count two sandboxes up while the program is replaced again and again."""
        daemon = self.installed()
        with daemon.client() as c:
            for n in "ab":
                c.create(n, module("tally"))
            pids = [c.info(n)["pid"] for n in "ab"]
        clients = [Incrementer(daemon, "ab"[i % 2], i) for i in range(4)]
        for i in clients:
            i.start()
        for n in range(5):
            was = daemon.info()
            before = [i.done for i in clients]
            daemon.install_all(b"build %d" % n)
            self.assertEqual(daemon.upgrade().status, 0, daemon.log())
            self.replaced(daemon, was)
            wait_for(lambda: all(i.done > b for i, b in zip(clients, before)) or any(i.failure for i in clients), "all to be served again")
        done = [i.end() for i in clients]
        with daemon.client() as c:
            self.assertEqual([c.call(n, "get")["count"] for n in "ab"], [done[0] + done[2], done[1] + done[3]])
            self.assertEqual([c.info(n)["pid"] for n in "ab"], pids)
        self.assertGreater(sum(i.lost for i in clients), 0)  # connections are closed by it

    def test_twenty_in_a_row_leak_nothing(self):
        daemon = self.installed()
        with daemon.client() as c:
            c.create("a", COUNTER1)
            pid = c.info("a")["pid"]
        self.assertEqual(daemon.upgrade().status, 0, daemon.log())
        descriptors = daemon.descriptors()
        for n in range(20):
            self.assertEqual(daemon.hang_up()["upgrades"], n + 2)
        wait_for(lambda: daemon.descriptors() <= descriptors, "no descriptor to be left over")
        with daemon.client() as c:
            self.assertEqual(c.info("a")["pid"], pid)
            self.assertEqual(c.call("a", "increment"), {"count": 1})
        with open("/proc/%d/cmdline" % daemon.pid, "rb") as f:
            self.assertEqual(f.read().count(b"--take-over"), 1)

    def test_new_hosts_are_of_the_new_build(self):
        daemon = self.installed()
        with daemon.client() as c:
            c.create("old", COUNTER1)
            c.create("again", COUNTER1)
            build = c.info("old")["host"]["build"]
        daemon.install_all(b"another build")
        self.assertEqual(daemon.upgrade().status, 0, daemon.log())
        info = daemon.info()
        self.assertEqual(info["hosts_of_older_build"], 2)
        self.assertNotEqual(info["host_build"], build)
        with daemon.client() as c:
            self.assertEqual(c.info("old")["host"], {"build": build, "older": True})
            c.create("new", COUNTER1)
            self.assertEqual(c.info("new")["host"], {"build": info["host_build"], "older": False})
            c.rpc("sandbox.restart", id="again")
            self.assertEqual(c.info("again")["host"], {"build": info["host_build"], "older": False})
            self.assertEqual(daemon.info()["hosts_of_older_build"], 1)
            c.rpc("sandbox.stop", id="old")
            self.assertIsNone(c.info("old")["host"])
        self.assertEqual(daemon.info()["hosts_of_older_build"], 0)

    def test_logs_and_outcomes_cross(self):
        daemon = self.installed()
        with daemon.client() as c:
            c.create("a", module("tally"))
            c.call("a", "say", text="said before")
            wait_for(lambda: "said before" in c.log_text("a"), "the log")
            c.rpc("sandbox.call", id="a", function="increment", args={}, request_key="before")
        self.assertEqual(daemon.upgrade().status, 0, daemon.log())
        with daemon.client() as c:
            c.call("a", "say", text="said behind")
            wait_for(lambda: "said behind" in c.log_text("a"), "the log")
            self.assertIn("said before", c.log_text("a"))
            self.assertEqual(c.rpc("request.outcome", request_key="before")["state"], "done")
            self.assertEqual(c.rpc("sandbox.call", id="a", function="increment", args={}, request_key="before")["result"], {"count": 1})

    def test_a_host_that_ends_meanwhile_is_known(self):
        """Its end is reaped by the new program, or was by the old one, and is told once."""
        daemon = self.installed()
        with daemon.client() as c:
            for n in range(8):
                c.create("a%d" % n, COUNTER1)
        for n in range(8):
            with daemon.client() as c:
                pid = c.info("a%d" % n)["pid"]
                before = daemon.info()
            os.kill(daemon.pid, signal.SIGHUP)
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: self.upgraded(daemon, before), "the upgrade")
            with daemon.client() as c:
                wait_for(lambda: c.info("a%d" % n)["restart_count"] == 1 and c.status("a%d" % n) == "running", "the restart")
                self.assertEqual(c.info("a%d" % n)["budget"]["used"], 1)

    def upgraded(self, daemon, before):
        try:
            return daemon.info()["upgrades"] > before["upgrades"]
        except (Closed, OSError):
            return False

    def test_control_is_killed_around_it(self):
        daemon = self.installed()
        with daemon.client() as c:
            c.create("a", COUNTER1)
            pid = c.info("a")["pid"]
        before = daemon.info()
        os.kill(daemon.pid, signal.SIGHUP)
        os.kill(before["control_pid"], signal.SIGKILL)
        wait_for(lambda: self.upgraded(daemon, before), "the upgrade")
        before = daemon.info()
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for_next_control(before["control_pid"])
        daemon.kill_control()
        with daemon.client() as c:
            self.assertEqual(c.info("a")["pid"], pid)
            self.assertEqual(c.call("a", "increment"), {"count": 1})

    def test_stopped_during_it(self):
        """SIGTERM at once behind SIGHUP: the sandboxes are stopped in order, with their states."""
        daemon = self.installed()
        with daemon.client() as c:
            c.create("a", COUNTER1)
            c.call("a", "increment", by=7)
        os.kill(daemon.pid, signal.SIGHUP)
        self.assertEqual(daemon.terminate(), 0)
        daemon.start()
        with daemon.client() as c:
            wait_for(lambda: c.status("a") == "running", "it to come back")
            self.assertEqual(c.call("a", "get"), {"count": 7})


@needs_root("an ordinary user's daemon beside root's")
class UpgradeAsUser(Upgrade):
    uid = OTHER_UID


class Refused(OwnCase):
    """Nothing is touched: the same control serves, the same hosts run, and the reason is told in four places."""

    def own(self, **kwargs):
        daemon = InstalledDaemon(**kwargs)
        self.daemons.append(daemon)
        with daemon.client() as c:
            c.create("a", COUNTER1)
            c.call("a", "increment", by=3)
        return daemon

    def refuses(self, daemon, *says):
        with daemon.client() as c:
            info, pid = c.rpc("daemon.info"), c.info("a")["pid"]
            with self.assertRaises(RpcError) as caught:
                c.rpc("daemon.upgrade")
            self.assertEqual(caught.exception.code, "upgrade_refused")
            for words in says:
                self.assertIn(words, str(caught.exception))
            now = c.rpc("daemon.info")  # on the same connection
            for key in ("pid", "control_pid", "epoch", "upgrades"):
                self.assertEqual(now[key], info[key])
            self.assertEqual(c.info("a")["pid"], pid)
            self.assertEqual(c.call("a", "get"), {"count": 3})
            event = [e for e in c.events() if e["type"] == "daemon.upgrade_refused"][-1]
            for words in says:
                self.assertIn(words, event["reason"])
        self.assertIn("upgrade refused", daemon.log())

    def works_again(self, daemon):
        daemon.install_all(b"again")
        self.assertEqual(daemon.upgrade().status, 0, daemon.log())
        with daemon.client() as c:
            self.assertEqual(c.call("a", "get"), {"count": 3})

    def test_programs_that_are_none(self):
        daemon = self.own()
        for body, says in (("return 0;", "is no sandboxd that can take over"), ("abort();", "killed by signal 6"),
                           ("puts(\"no wish to\"); return 1;", "says: no wish to"), ("puts(\"can take over\\nand more\"); return 0;", "is no sandboxd"),
                           ("for (int i = 0; i < 100000; i++) puts(\"much\"); return 1;", "says: much")):
            daemon.install_fake("sandboxd", body)
            self.refuses(daemon, says)
        os.unlink(daemon.path())
        self.refuses(daemon, "cannot open the new program", daemon.path())
        os.mkdir(daemon.path())
        self.refuses(daemon, "is no executable file")
        os.rmdir(daemon.path())
        daemon.install("sandboxd", os.path.join(BUILD, "sandboxd"))
        os.chmod(daemon.path(), 0o644)
        self.refuses(daemon, "is no executable file")
        os.unlink(daemon.path())
        with open(daemon.path(), "wb") as f:
            f.write(b"\x7fELF, and no more")
        os.chmod(daemon.path(), 0o755)
        self.refuses(daemon, "can't be executed", "Exec format error")
        self.works_again(daemon)

    def test_programs_of_another_build(self):
        daemon = self.own()
        for name, numbers, says in (("sandbox-host", (1, 1, 99, 2, 1), "host protocol 99"), ("sandboxd-control", (1, 1, 1, 1, 1), "format of the registry 1"),
                                    ("sandboxd-control", (7, 1, 1, 2, 1), "between spawner and control 7")):
            daemon.install_fake(name, "printf(\"%s\"); return 0;" % (BUILD_LINE % numbers))
            self.refuses(daemon, name, says, "install sandboxd completely")
            daemon.install(name, os.path.join(BUILD, name))
        for name in PROGRAMS[1:3]:
            daemon.install_fake(name, "return 0;")
            self.refuses(daemon, name, "doesn't say what it was built with")
            os.unlink(daemon.path(name))
            self.refuses(daemon, name, "install sandboxd completely")
            daemon.install(name, os.path.join(BUILD, name))
        self.works_again(daemon)

    def test_a_program_that_hangs_has_a_deadline(self):
        """The daemon serves meanwhile."""
        daemon = self.own()
        daemon.install_fake("sandboxd", "if (fork() == 0) for (;;) pause();\nfor (;;) pause();")
        asked = Background(lambda: self.refuses(daemon, "gave no answer within 10 s"))
        with daemon.client() as c:
            wait_for(lambda: "is checked" in daemon.log(), "the check to begin")
            os.kill(c.info("a")["pid"], 0)
            c.create("b", COUNTER1)
            self.assertEqual(c.call("b", "increment"), {"count": 1})
        asked.result()
        self.works_again(daemon)

    def test_the_configuration_is_checked_first(self):
        daemon = self.own(config="max_jobs = 1\n")
        path = os.path.join(daemon.folder, "conf")
        for text, says in (("no_such_key = 1\n", "no_such_key"), ("state_dir = /elsewhere\n", None), ("max_sandboxes = 0\n", "max_sandboxes"),
                           ("runtime_dir\n", "conf")):
            with open(path, "w") as f:
                f.write(text)
            if says:
                self.refuses(daemon, says)
        if IS_ROOT:
            with open(path, "w") as f:
                f.write("uid_first = 1900000256\nuid_count = 65536\n")
            self.refuses(daemon, "uid_first or uid_count have changed")
        os.unlink(path)
        self.refuses(daemon, "cannot open the configuration")
        with open(path, "w") as f:
            f.write("max_sandboxes = 1\n")
        os.chmod(path, 0o600)  # only its owner can read it
        self.works_again(daemon)
        with daemon.client() as c:  # what it says now holds
            with self.assertRaises(RpcError) as caught:
                c.create("b", COUNTER1)
            self.assertEqual(caught.exception.code, "limit_exceeded")

    def test_a_table_that_does_not_fit_is_refused(self):
        daemon = self.own(config="max_sandboxes = 2\n")
        with daemon.client() as c:
            c.create("b", COUNTER1)
        with open(os.path.join(daemon.folder, "conf"), "w") as f:
            f.write("max_sandboxes = 1\n")
        self.refuses(daemon, "max_sandboxes is 1 now, and 2 are held")

    def test_an_exec_that_fails(self):
        """At the last step: the old program goes on with a new control, and says so."""
        daemon = self.own(options=["--fault", "spawner.exec=error:EACCES"])
        with daemon.client() as c:
            info, pid = c.rpc("daemon.info"), c.info("a")["pid"]
        r = daemon.upgrade()
        self.assertEqual(r.status, 1, r.out + r.err)
        self.assertIn("upgrade_refused", r.err)
        now = daemon.info()
        self.assertEqual((now["pid"], now["upgrades"], now["epoch"]), (info["pid"], 0, info["epoch"] + 1))
        with daemon.client() as c:
            self.assertEqual(c.info("a")["pid"], pid)
            self.assertEqual(c.call("a", "get"), {"count": 3})
            event = wait_for(lambda: [e for e in c.events() if e["type"] == "daemon.upgrade_refused"], "the event")[0]
            self.assertIn("cannot execute the new program", event["reason"])
        self.works_again(daemon)

    @needs_root()
    def test_only_administrators_may(self):
        daemon = self.own(config="operators = *\n")
        r = ctl(daemon.socket, "upgrade", uid=OTHER_UID)
        self.assertEqual(r.status, 7, r.err)
        self.assertEqual(daemon.info()["upgrades"], 0)

    def test_internal_options_by_hand(self):
        daemon = self.own()
        for option in ("--take-over", "--can-take-over"):
            for number in ("3", "x", "-1", "99999999999", "0"):
                r = subprocess.run([daemon.path(), option, number, "--runtime-dir", daemon.runtime], stdin=subprocess.DEVNULL, capture_output=True,
                                   check=False)
                self.assertIn(r.returncode, (1, 2), (option, number, r))
        with daemon.client() as c:
            self.assertEqual(c.call("a", "get"), {"count": 3})


if __name__ == "__main__":
    main()
