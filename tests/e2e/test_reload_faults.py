#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A sweep over the steps of a reload: each fails, crashes, hangs or is killed, in the candidate, the host, control and the spawner, with
acknowledged changes that are newer than anything saved; against the table of what must be true afterwards.

SAFE: version 1 serves all that was acknowledged, in the same process. BACK: the same in a new process, started from the sealed state. DONE:
version 2 serves all of it. NEW: version 2 serves all of it, in the second process of a reload that replaces. LOST: the process died before its state was sealed: version 1 from the start, and the answer says how many
acknowledged calls that costs. STUCK: nothing was changed, and the process, which hangs, is ended by its heartbeat: a crash as any other.
DAEMON: everything ends with the spawner, and the next daemon starts version 1 (or 2, when that was durable) from the start."""
import os
import re
import signal

from harness import Case, Closed, RpcError, main, module, read, wait_for

SAFE, BACK, DONE, NEW, LOST, STUCK, DAEMON = "SAFE", "BACK", "DONE", "NEW", "LOST", "STUCK", "DAEMON"
ACKNOWLEDGED = 5
FULL = bool(os.environ.get("SANDBOXD_CHECK_FULL"))  # else one way to die stands for the others

# (step that the answer names, what must be true): by candidate
CANDIDATES = [
    ("fail_migrate", "rehearse", SAFE), ("fail_check", "rehearse", SAFE), ("mismatch", "rehearse", SAFE), ("crash_restore", "rehearse", SAFE),
    ("crash_load", "rehearse", SAFE), ("exit_migrate", "rehearse", SAFE), ("hang_migrate", "rehearse", SAFE),
    ("crash_real_load", "load", BACK), ("hang_real_load", "load", BACK),
]
# by point in the host; each with crash, hang and kill
HOST = {
    "host.rehearse": ("rehearse", LOST, STUCK), "host.quiesce": ("quiesce", LOST, STUCK), "host.save": ("save", LOST, STUCK),
    "host.load": ("load", BACK, BACK), "host.commit": ("commit", BACK, BACK),
}
# by point in control; `error` where a step of its own can fail; crash, kill, and hang until somebody kills it
CONTROL = {
    "reload.place": ("place", SAFE), "reload.rehearse": (None, SAFE), "reload.record": ("record", SAFE), "reload.make": ("make", SAFE),
    "reload.quiesce": (None, SAFE), "reload.save": (None, SAFE), "reload.seal": ("seal", SAFE), "reload.keep": ("load", SAFE),
    "reload.load": (None, SAFE), "reload.commit": (None, SAFE), "reload.adopt": (None, DONE),
}
# ---- the same where a second process takes over: whatever happens to that one costs nothing ----
REPLACE_CANDIDATES = [
    ("fail_migrate", "load"), ("fail_check", "load"), ("mismatch", "load"), ("crash_restore", "load"), ("crash_load", "stage"),
    ("exit_migrate", "load"), ("hang_migrate", "load"), ("crash_real_load", "load"), ("hang_real_load", "load"),
]
# by point in the process that serves, as in HOST; and in the second one
REPLACE_HOST = {"host.quiesce": ("quiesce", LOST, STUCK), "host.save": ("save", LOST, STUCK)}
REPLACE_SECOND = {"host.stage": ("stage", SAFE), "host.start:2": ("load", SAFE)}
REPLACE_CONTROL = {
    "reload.spawn": ("spawn", SAFE), "reload.place": ("place", SAFE), "reload.stage": (None, SAFE), "reload.make": ("make", SAFE),
    "reload.quiesce": (None, SAFE), "reload.save": (None, SAFE), "reload.seal": ("seal", SAFE), "reload.keep": ("load", SAFE),
    "reload.load": (None, SAFE), "reload.promote": ("promote", SAFE), "reload.adopt": (None, NEW), "reload.retire": (None, NEW),
}
# by point in the spawner, and which time it is passed since the create; KEEPs: the sealed state, the spec that says what is current, no state any more
REPLACE_SPAWNER = [("spawner.candidate", 0, "spawn", SAFE), ("spawner.promote", 0, "promote", SAFE), ("spawner.keep", 1, "load", SAFE),
                   ("spawner.keep", 2, None, NEW), ("spawner.keep", 3, None, NEW)]
# the spawner's KEEPs in a reload, in order: the spec with the candidate, the sealed state, the spec that says that it is current, no state any more
SPAWNER = [("record", SAFE), ("load", SAFE), (None, DONE), (None, DONE)]


class Sweep(Case):
    mode = "in_place"

    def begin(self, *faults):
        """A daemon with these faults, a sandbox with acknowledged changes, a heartbeat and a restart policy that forgives."""
        own = self.own_daemon(options=[o for f in faults for o in ("--fault", f)])
        c = own.client(timeout=60)
        c.create("a", module("tally"), heartbeat_ms=1500, intensity=20)
        for n in range(ACKNOWLEDGED):
            self.assertEqual(c.call("a", "increment"), {"count": n + 1})
        return own, c

    def reload(self, c, candidate="tally_v2"):
        """Its answer: ("cut", None), or (code or outcome, the members that say more)."""
        try:
            r = c.rpc("sandbox.reload", id="a", object=c.put(read(module(candidate))), rehearse_timeout_ms=1000, quiesce_timeout_ms=700,
                      mode=self.mode)
            return r["outcome"], r
        except RpcError as e:
            return e.code, e.data
        except (Closed, OSError):
            return "cut", None

    def same(self, own, c, before, promise):
        """What must be true afterwards."""
        if promise in (BACK, LOST, STUCK):
            wait_for(lambda: c.info("a")["pid"] not in (None, before["pid"]) and c.status("a") == "running", "the next process")
        wait_for(lambda: c.status("a") == "running", "that it runs")
        info = c.info("a")
        count = 0 if promise in (LOST, STUCK) else ACKNOWLEDGED
        self.assertEqual(info["version"], 2 if promise in (DONE, NEW) else 1)
        self.assertEqual(c.call("a", "get")["count"], count)
        self.assertEqual(info["restart_count"], 1 if promise in (LOST, STUCK) else 0)
        if promise in (SAFE, DONE):
            self.assertEqual(info["pid"], before["pid"])
        if promise == NEW:
            self.assertNotEqual(info["pid"], before["pid"])
            wait_for(lambda: not os.path.exists("/proc/%d" % before["pid"]), "the end of the process before")
        # and it works: calls, and the next reload
        step = 10 if promise in (DONE, NEW) else 1  # of an increment: it is the right code
        self.assertEqual(c.call("a", "increment")["count"], count + step)
        r = c.reload("a", module("tally" if promise in (DONE, NEW) else "tally_v2"), mode=self.mode)
        self.assertEqual((r["outcome"], r["pinned"]), ("reloaded", None))
        self.assertEqual(c.call("a", "get")["count"], count + step)
        own.look()

    def says(self, answer, step, promise):
        code, data = answer
        outcome = {SAFE: "nothing_changed", STUCK: "nothing_changed", BACK: "recovered", LOST: "state_lost"}[promise]
        self.assertEqual((data.get("step"), data.get("outcome")), (step, outcome), (code, data))
        self.assertEqual(data["nothing_changed"], promise != LOST)
        self.assertEqual(code == "state_lost", promise == LOST, code)
        if promise == LOST:
            self.assertEqual((data["state_from"], data["acknowledged_since"]), ("fresh", ACKNOWLEDGED))
        if promise == BACK:
            self.assertEqual(data["state_from"], "sealed")

    def row(self, name, promise, step, answer_of, *faults):
        with self.subTest(name, promise=promise):
            own, c = self.begin(*faults)
            with c:
                before = c.info("a")
                self.says(answer_of(c), step, promise)
                self.same(own, c, before, promise)

    def replaces(self):
        self.mode = "replace"

    def test_replace_candidates(self):
        self.replaces()
        for candidate, step in REPLACE_CANDIDATES:
            self.row(candidate, SAFE, step, lambda c: self.reload(c, candidate))

    def test_replace_host(self):
        self.replaces()
        for point, (step, promise, hanging) in REPLACE_HOST.items():
            self.row(point + "=kill", promise, step, self.killed, point + "=hang")
            self.row(point + "=hang", hanging, step, self.reload, point + "=hang")
        for point, (step, promise) in REPLACE_SECOND.items():
            name, _, which = point.partition(":")
            for kind in ("hang", "crash"):
                fault = "%s=%s%s" % (name, kind, which and ":" + which)
                self.row(fault, promise, step, self.reload, fault)

    def test_replace_control_errors(self):
        self.replaces()
        for point, (step, promise) in REPLACE_CONTROL.items():
            if step:
                self.row(point + "=error", promise, step, self.reload, point + "=error")

    def test_replace_control_dies(self):
        self.replaces()
        self.control_dies(REPLACE_CONTROL)

    def test_replace_old_process_hangs_at_its_end(self):
        self.replaces()
        own, c = self.begin("host.stop=hang")
        with c:
            before, (outcome, r) = c.info("a"), self.reload(c)
            self.assertEqual((outcome, r["old_process_killed"]), ("reloaded", True))
            self.same(own, c, before, NEW)

    def test_replace_spawner(self):
        self.replaces()
        own, c = self.begin("spawner.keep=trace")
        with c:
            first = self.keeps_of_begin(own)
        for point, nth, step, promise in REPLACE_SPAWNER:
            for kind in ("error", "crash", "kill") if FULL else ("error", "kill"):
                fault = "%s=%s:%d" % (point, kind, first + nth if nth else 1)
                with self.subTest(fault, promise=promise):
                    self.spawner_row(fault, kind, step, promise)

    def test_candidates(self):
        for candidate, step, promise in CANDIDATES:
            self.row(candidate, promise, step, lambda c: self.reload(c, candidate))

    def killed(self, c):
        """In a pid namespace a host can't kill itself: it hangs at its point, and is killed from here."""
        pid, n = c.info("a")["pid"], c.request("sandbox.reload", id="a", object=c.put(read(module("tally_v2"))), mode=self.mode)
        wait_for(lambda: "a planted fault happens" in c.log_text("a"), "that it hangs at its point")
        os.kill(pid, signal.SIGKILL)
        error = c.reply(n)["error"]["data"]
        return error["code"], error

    def test_host(self):
        for point, (step, promise, hanging) in HOST.items():
            self.row(point + "=kill", promise, step, self.killed, point + "=hang")
            self.row(point + "=hang", hanging, step, self.reload, point + "=hang")
            if FULL:
                self.row(point + "=crash", promise, step, self.reload, point + "=crash")

    def test_control_errors(self):
        for point, (step, promise) in CONTROL.items():
            if step:
                self.row(point + "=error", promise, step, self.reload, point + "=error")

    def test_control_dies(self):
        self.control_dies(CONTROL)

    def control_dies(self, table):
        for point, (_, promise) in table.items():
            for kind in ("crash", "kill", "hang") if FULL else ("kill",):
                with self.subTest("%s=%s" % (point, kind), promise=promise):
                    own, c = self.begin("%s=%s" % (point, kind))
                    before, old = c.info("a"), own.control_pid()
                    if kind == "hang":
                        self.hang(own, c, point, old)
                    else:
                        self.assertEqual(self.reload(c)[0], "cut")
                    c.close()
                    own.wait_for_next_control(old)
                    with own.client(timeout=60) as d:
                        self.same(own, d, before, promise)

    def hang(self, own, c, point, pid):
        """It says where it hangs; nobody else ends it."""
        c.request("sandbox.reload", id="a", object=c.put(read(module("tally_v2"))), mode=self.mode)
        wait_for(lambda: re.search(r"fault.*%s" % re.escape(point), own.log()), "that it hangs at " + point)
        os.kill(pid, signal.SIGKILL)
        with self.assertRaises((Closed, OSError)):
            c.line(30)

    def keeps_of_begin(self, own):
        """How often the spec was kept for a start; the calls may be answered before the spawner came to the last one."""
        return wait_for(lambda: self.keeps(own) if self.keeps(own) >= 2 else None, "the KEEPs of a start")

    def keeps(self, own):
        return len(re.findall(r"passes spawner\.keep", own.log()))

    def test_spawner(self):
        own, c = self.begin("spawner.keep=trace")
        with c:
            before = self.keeps_of_begin(own)
            self.assertEqual(self.reload(c)[0], "reloaded")
            wait_for(lambda: self.keeps(own) >= before + len(SPAWNER), "its KEEPs")
        for i, (step, promise) in enumerate(SPAWNER):
            for kind in ("error", "crash", "kill") if FULL else ("error", "kill"):
                fault = "spawner.keep=%s:%d" % (kind, before + 1 + i)
                with self.subTest(fault, promise=promise):
                    self.spawner_row(fault, kind, step, promise)

    def spawner_row(self, fault, kind, step, promise):
        own, c = self.begin(fault)
        with c:
            was, answer = c.info("a"), self.reload(c)
            if kind == "error" and step:
                self.says(answer, step, promise)
            elif kind == "error":
                self.assertEqual(answer[0], "reloaded")
            if kind == "error":
                self.same(own, c, was, promise)
                return
        wait_for(lambda: own.process.poll() is not None, "the end of the daemon")
        own.options = own.options[:own.options.index("--fault")]
        own.start()
        with own.client(timeout=60) as d:
            wait_for(lambda: d.status("a") == "running", "that it runs again")
            self.assertIn(d.info("a")["version"], (1, 2) if promise in (DONE, NEW) else (1,))
            self.assertEqual(d.call("a", "get")["count"], 0)
            own.look()


if __name__ == "__main__":
    main()
