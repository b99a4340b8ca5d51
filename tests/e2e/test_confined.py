#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Confined hosts: each way to die is told alike with and without a pid namespace, forbidden calls are named, what is left out is said,
zygotes may die, nothing is left behind."""
import os
import signal
import subprocess
import threading

from harness import BUILD, COUNTER1, Case, Daemon, main, module, wait_for

WAYS = {  # call, arguments -> class, reason
    "segv": ({}, "crash", "signal SIGSEGV"),
    "abort": ({}, "crash", "signal SIGABRT"),
    "fpe": ({}, "crash", "signal SIGFPE"),
    "ill": ({}, "crash", "signal SIGILL"),
    "overflow": ({}, "crash", "signal SIGSEGV"),
    "exit": ({"status": 3}, "error", "exit status 3"),
    "exit_now": ({"status": 0}, "normal", "ended by itself"),
    "memory": ({}, "crash", "signal SIGABRT"),
    "thread_segv": ({}, "crash", "signal SIGSEGV"),
    "thread_abort": ({}, "crash", "signal SIGABRT"),
}
RAISED = ("SEGV", "BUS", "ILL", "FPE", "ABRT", "SYS", "TRAP", "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "TERM", "XCPU", "VTALRM", "PROF",
          "IO", "PWR")


class Confined(Case):
    def last_exit(self, client, sandbox, act):
        client.create(sandbox, module("crash_call"), restart="temporary")
        act(sandbox)
        wait_for(lambda: client.status(sandbox) in ("stopped", "failed"), "the end of " + sandbox)
        found = client.info(sandbox)["last_exit"]
        client.destroy(sandbox)
        return found["class"], found["reason"]

    def ways_to_die(self, client):
        found = {}
        for way, (args, _, _) in WAYS.items():
            found[way] = self.last_exit(client, way, lambda s, w=way, a=args: self.refused("crashed", client.call, s, w, **a))
        for name in RAISED:
            number = getattr(signal, "SIG" + name)
            found[name] = self.last_exit(client, name, lambda s, n=number: self.refused("crashed", client.call, s, "raise", signal=n))
        found["outside"] = self.last_exit(client, "outside", lambda s: os.kill(client.info(s)["pid"], signal.SIGKILL))
        found["asked"] = self.last_exit(client, "asked", lambda s: os.kill(client.info(s)["pid"], signal.SIGTERM))
        return found

    def test_ways_to_die(self):
        confined = self.ways_to_die(self.client)
        with self.another("--weaken", "pid namespace,end of the whole tree") as daemon, daemon.client() as c:
            free = self.ways_to_die(c)
        self.assertEqual(confined, free)
        for way, (_, kind, reason) in WAYS.items():
            self.assertEqual(confined[way][1], reason, way)
        for name in RAISED:
            self.assertEqual(confined[name][1], "signal SIG" + ("POLL" if name == "IO" else name))
        self.assertEqual(confined["outside"][1], "signal SIGKILL")
        self.assertEqual(confined["asked"][1], "signal SIGTERM")

    def another(self, *options):
        return Running(Daemon(options=options))

    def test_forbidden_calls_are_named(self):
        for profile, answer in (("medium", "EPERM"), ("high", "killed")):
            self.client.create(profile, module("crash_call"), profile=profile, restart="temporary")
            if answer == "killed":
                e = self.refused("crashed", self.client.call, profile, "forbidden")
                self.assertIn("ptrace", str(e.error))
                wait_for(lambda: self.client.status(profile) != "running", "its end")
                self.assertEqual(self.client.info(profile)["last_exit"]["reason"], "forbidden system call")
            else:
                self.assertEqual(self.client.call(profile, "forbidden"), {"errno": 1})
            event = wait_for(lambda p=profile: [e for e in self.client.events(p) if e["type"] == "sandbox.denied"], "the event")[0]
            self.assertEqual((event["call"], event["operation"], event["answer"]), ("ptrace", "tracing", answer))

    def test_a_flood_of_them_ends(self):
        """After so many the listener is closed: the module goes on, with ENOSYS, and nobody is kept busy."""
        self.client.create("flood", module("crash_call"))
        self.assertEqual(self.client.call("flood", "forbidden", times=200), {"errno": 38})
        events = wait_for(lambda: [e for e in self.client.events("flood") if e["type"] == "sandbox.denied" and e.get("last")], "the last")
        self.assertEqual(len(events), 1)
        self.assertEqual(len([e for e in self.client.events("flood") if e["type"] == "sandbox.denied"]), 64)
        self.assertEqual(self.client.call("flood", "forbidden"), {"errno": 38})

    def test_named_while_control_is_away(self):
        self.client.create("away", module("crash_call"))
        self.client.call("away", "forbidden_later", ms=50)
        self.daemon.kill_control()
        with self.daemon.client() as c:
            wait_for(lambda: c.call("away", "refused")["errno"] == 1, "its answer")
            wait_for(lambda: [e for e in c.events("away") if e["type"] == "sandbox.denied"], "the event")

    def test_what_is_left_out_is_said(self):
        with self.another("--weaken", "new-code,own root") as daemon, daemon.client() as c:
            c.create("weak", COUNTER1, profile="high")
            report = {r["protection"]: r for r in c.info("weak")["security"]}
            self.assertEqual(c.rpc("sandbox.security", id="weak")["security"], c.info("weak")["security"])
            for name in ("new code", "own root"):
                self.assertEqual((report[name]["got"], report[name]["why"]), ("none", "left out by --weaken"))
            self.assertEqual(report["pid namespace"]["got"], "own")
            self.refused("strict_refused", c.create, "strict", COUNTER1, strict=True)
            self.assertIn("NO HOST IS PROTECTED by 'own root'", daemon.log())
        for options, word in ((("--weaken", "new cod"), "'new code' meant"), (("--landlock-abi", "x"), "number")):
            r = subprocess.run([os.path.join(BUILD, "sandboxd"), *options], capture_output=True, text=True, timeout=60)
            self.assertEqual(r.returncode, 2)
            self.assertIn(word, r.stderr)

    def test_zygotes_may_die(self):
        self.client.create("lives", COUNTER1)
        pid = self.client.info("lives")["pid"]
        stop = threading.Event()

        def kill():
            while not stop.wait(0.3):
                for zygote in self.daemon.zygotes():
                    os.kill(zygote, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            for i in range(20):
                self.client.create("s%d" % i, COUNTER1, persist=False)
                self.assertEqual(self.client.call("s%d" % i, "increment"), {"count": 1})
        finally:
            stop.set()
            killer.join()
        self.assertEqual(self.client.info("lives")["pid"], pid)
        self.assertEqual(self.client.call("lives", "increment"), {"count": 1})
        self.assertEqual(len(self.daemon.hosts()), 21)

    def test_nothing_is_left(self):
        """No mount, no process, no descriptor of many hosts that came and went."""
        def state():
            with open("/proc/%d/mountinfo" % self.daemon.pid) as f:
                mounts = [line for line in f if self.daemon.folder in line or " - tmpfs scratch " in line]
            return mounts, len(os.listdir("/proc/%d/fd" % self.daemon.pid)), len(self.daemon.hosts())

        def churn(n):
            for i in range(n):
                self.client.create("s%d" % i, COUNTER1, persist=False, profile=("high", "medium")[i % 2])
            for i in range(n):
                self.client.destroy("s%d" % i)
        churn(4)
        wait_for(lambda: len(self.daemon.spares()) == 8, "the spares of both profiles")
        before = state()
        churn(100)
        wait_for(lambda: state() == before, "as before: %r" % (before,))


class Running:
    """A second daemon, for a with statement."""

    def __init__(self, daemon):
        self.daemon = daemon

    def __enter__(self):
        return self.daemon

    def __exit__(self, *_):
        complaints = self.daemon.close()
        if complaints:
            raise AssertionError("; ".join(complaints))


if __name__ == "__main__":
    main()
