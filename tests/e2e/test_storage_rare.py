#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The storage points (proto/fault_points.def) that no ordinary change passes: damage, files that grow full, the orderly end. Each fails once,
and kills control once, in a daemon of its own. Every test sees to it that its point was really passed; the last one, that between this file
and the sweep (test_storage_faults.py) no storage point is left out."""
import contextlib
import os
import sqlite3

from harness import COUNTER1, COUNTER2, Closed, OwnCase, RpcError, main, module, read, wait_for
from test_storage_faults import POINTS, SHAS, SWEPT, World, crash

ERROR, KILL = "error:EIO", "kill"
RARE = {"file.aside", "history.read", "history.unlink", "registry.aside", "registry.checkpoint", "events.rotate", "log.rotate", "log.write"}


class Rare(OwnCase):
    def world(self):
        w = World()
        self.daemons.append(w.daemon)
        return w

    def happened(self, w, point, fault):
        self.assertIn("a planted fault happens: %s, %s" % (point, fault.split(":")[0]), w.daemon.log())

    def each(self, act):
        for fault in (ERROR, KILL):
            with self.subTest(fault=fault):
                act(self.world(), fault)

    def damage(self, w, *path):
        path = os.path.join(w.daemon.state, *path)
        os.chmod(path, 0o600)
        with open(path, "r+b") as f:
            f.seek(16)
            f.write(b"damage")

    def down_with_a_state(self, w):
        w.create("a")
        with w.client() as c:
            c.rpc("sandbox.stop", id="a")
        w.told["a"][2] = False
        w.settle()
        self.assertEqual(w.daemon.terminate(), 0)

    def start(self, w):
        """The answer of a start of a: the error, None if control was killed meanwhile, or what it is now."""
        said = []
        answer = w.change(lambda c: said.append(c.rpc("sandbox.start", id="a")), ["a"])
        return said[0] if said else None if answer == "done" else answer

    # ---- file.aside ----

    def test_a_damaged_object(self):
        self.each(self.damaged_object)

    def damaged_object(self, w, fault):
        """It is not run, whether it could be put aside or not; put aside by the next who reads it; and the same object cures it."""
        self.down_with_a_state(w)
        self.damage(w, "objects", SHAS[0])
        w.plant(["file.aside=%s:1" % fault])
        answer = self.start(w)
        self.happened(w, "file.aside", fault)
        if fault == ERROR:
            self.assertIsInstance(answer, RpcError)
            self.assertIn("is damaged (cannot put", str(answer))
            self.assertIn("Input/output error", str(answer))
        else:
            self.assertIsNone(answer)
        self.assertIsInstance(self.start(w), RpcError)  # not there, or damaged and renamed now
        self.assertIn(SHAS[0] + ".damaged", os.listdir(os.path.join(w.daemon.state, "objects")))
        with w.client() as c:
            c.create("cure", read(COUNTER1))
            self.assertEqual(c.rpc("sandbox.start", id="a")["status"], "running")
            self.assertEqual(c.call("a", "get")["count"], 3)

    def test_a_damaged_state(self):
        self.each(self.damaged_state)

    def damaged_state(self, w, fault):
        """It is not restored: the sandbox begins anew, and that is told."""
        self.down_with_a_state(w)
        name, = os.listdir(os.path.join(w.daemon.state, "states"))
        self.damage(w, "states", name)
        w.plant(["file.aside=%s:1" % fault])
        answer = self.start(w)
        self.happened(w, "file.aside", fault)
        if fault == KILL:
            self.assertIsNone(answer)
            with w.client() as c:
                if c.status("a") != "running":
                    c.rpc("sandbox.start", id="a")
        with w.client() as c:
            self.assertEqual((c.call("a", "get")["count"], c.info("a")["state_from"]), (0, "fresh"))
            self.assertTrue([e for e in c.events("a") if e["type"] == "sandbox.state_lost"])
            c.call("a", "increment", by=2)
            c.rpc("sandbox.restart", id="a")  # the next state is kept and restored as ever
            self.assertEqual(c.call("a", "get")["count"], 2)
            wait_for(lambda: c.info("a")["durable"], "its row")
        crash(w.daemon)
        w.plant([])
        w.settle()
        with w.client() as c:
            self.assertEqual(c.call("a", "get")["count"], 2)

    # ---- registry.aside ----

    def aside(self, w):
        return [n for n in os.listdir(w.daemon.state) if n.startswith("registry.damaged-")]

    def test_a_damaged_registry(self):
        self.each(self.damaged_registry)

    def damaged_registry(self, w, fault):
        """What can't be put aside isn't written over: no change is acknowledged until it could. Objects stay, whatever becomes of it."""
        self.down_with_a_state(w)
        path = os.path.join(w.daemon.state, "registry.sqlite")
        with open(path, "r+b") as f:
            f.write(os.urandom(2000))
        damaged = read(path)
        w.plant(["registry.aside=%s:1" % fault])
        self.happened(w, "registry.aside", fault)
        if fault == ERROR:
            self.assertEqual((read(path), self.aside(w)), (damaged, []))
            with w.client() as c:
                self.assertIn("Input/output error", " ".join(c.rpc("daemon.info")["registry"]["problems"]))
                with self.assertRaises(RpcError) as caught:
                    c.create("b", read(COUNTER2))
                self.assertEqual(caught.exception.code, "io_error")
            crash(w.daemon)
            w.plant([])
        name, = self.aside(w)
        self.assertEqual(read(os.path.join(w.daemon.state, name)), damaged)
        self.assertIn(SHAS[0], os.listdir(os.path.join(w.daemon.state, "objects")))
        with w.client() as c:
            self.assertEqual(c.ids(), [])
            self.assertTrue(c.rpc("daemon.info")["registry"]["problems"])
            c.create("b", read(COUNTER2))
        crash(w.daemon)
        w.plant([])
        with w.client() as c:
            self.assertEqual(c.ids(), ["b"])

    def test_a_damaged_row(self):
        self.each(self.damaged_row)

    def damaged_row(self, w, fault):
        """The others come back; it is deleted only when it could be put aside."""
        w.create("good")
        self.down_with_a_state(w)
        with contextlib.closing(sqlite3.connect(os.path.join(w.daemon.state, "registry.sqlite"))) as db:
            db.execute("UPDATE sandboxes SET spec = replace(spec, 'permanent', 'temporary') WHERE id = 'a'")
            db.commit()
        w.plant(["registry.aside=%s:1" % fault])
        self.happened(w, "registry.aside", fault)
        with w.client() as c:
            self.assertEqual(c.ids(), ["good"])
            wait_for(lambda: c.status("good") == "running", "the other one")
            self.assertEqual(c.call("good", "get")["count"], 3)
            self.assertIn("'a'", " ".join(c.rpc("daemon.info")["registry"]["problems"]))
        crash(w.daemon)
        w.plant([])
        kept = [n for n in self.aside(w) if b"temporary" in read(os.path.join(w.daemon.state, n))]
        self.assertTrue(kept, self.aside(w))
        with w.client() as c:
            self.assertEqual(c.ids(), ["good"])

    # ---- spawner.hold, when the rows come back ----

    def test_what_cannot_be_held(self):
        """It is offered to the spawner again when it starts: one that was up comes back, one that was down can be started, or destroyed."""
        for nth in (1, 2, 3):
            with self.subTest(nth=nth):
                self.cannot_be_held(self.world(), nth)

    def cannot_be_held(self, w, nth):
        for name in ("up", "down", "gone"):
            w.create(name)
        with w.client() as c:
            for name in ("down", "gone"):
                c.rpc("sandbox.stop", id=name)
        w.again(["spawner.hold=error:ENOMEM:%d" % nth])
        self.happened(w, "spawner.hold", ERROR)
        with w.client() as c:
            wait_for(lambda: c.status("up") == "running", "the start")
            self.assertEqual(c.rpc("sandbox.start", id="down")["status"], "running")
            for name in ("up", "down"):
                self.assertEqual(c.call(name, "get")["count"], 3)
            c.destroy("gone")
            wait_for(lambda: c.ids() == ["up", "down"], "the end of it")
        w.daemon.kill_control()
        with w.client() as c:
            self.assertEqual([(n, c.call(n, "get")["count"]) for n in c.ids()], [("up", 3), ("down", 3)])

    # ---- registry.checkpoint ----

    def test_the_last_checkpoint(self):
        self.each(self.last_checkpoint)

    def last_checkpoint(self, w, fault):
        """The log of the registry stays, and is read at the next start."""
        w.plant_now(["registry.checkpoint=%s:1" % fault])
        w.create("a")
        w.settle()
        w.daemon.look()
        status = w.daemon.terminate()
        self.happened(w, "registry.checkpoint", fault)
        if fault == ERROR:
            self.assertEqual(status, 0)
        w.plant([])
        w.settle()
        with w.client() as c:
            self.assertEqual((c.ids(), c.call("a", "get")["count"]), (["a"], 3))
            self.assertEqual(c.rpc("daemon.info")["registry"]["problems"], [])

    # ---- events.rotate ----

    def test_a_new_file_of_events(self):
        self.each(self.new_file_of_events)

    def new_file_of_events(self, w, fault):
        """Nothing waits for it; what had no file is in the next one, and no number is missing."""
        w.settle()
        self.assertEqual(w.daemon.terminate(), 0)
        folder = os.path.join(w.daemon.state, "events")
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        w.plant(["events.rotate=%s:1" % fault])
        try:
            w.create("a")
        except Closed:  # the first event of all begins the file: control may be killed by then, or just now
            self.assertEqual(fault, KILL)
        wait_for(lambda: "a planted fault happens: events.rotate" in w.daemon.log(), "the point to be passed")
        self.happened(w, "events.rotate", fault)
        w.settle()
        if "a" not in self.ids(w):
            w.create("a")  # control was killed before it was acknowledged
        with w.client() as c:
            c.rpc("sandbox.restart", id="a")
            numbers = [tuple(map(int, e["seq"].split("-"))) for e in c.events()]
        self.assertEqual(numbers, sorted(set(numbers)))
        wait_for(lambda: any(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)), "the next file")
        self.assertEqual(w.daemon.terminate(), 0)
        w.plant([])
        with w.client() as c:
            self.assertIn("sandbox.created", [e["type"] for e in c.events("a", "1-1")])

    def ids(self, w):
        with w.client() as c:
            return c.ids()

    # ---- log.rotate, log.write ----

    def test_a_new_log_file(self):
        self.each(lambda w, fault: self.log(w, "log.rotate", fault))

    def test_a_write_of_a_log(self):
        self.each(lambda w, fault: self.log(w, "log.write", fault))

    def log(self, w, point, fault):
        """What couldn't be written is counted, and what comes then is kept again: written = kept + dropped_bytes."""
        w.settle()
        self.assertEqual(w.daemon.terminate(), 0)
        w.plant(["%s=%s:1" % (point, fault)])
        with w.client() as c:
            pid = c.create("p", read(module("prints")))["pid"]
        lines = 0
        for _ in range(3):
            w.change(lambda c: c.call("p", "flood", lines=2000) and None, ["p"])
            w.settle()
            lines += 2000
            self.all_is_accounted_for(w, lines, fault)
        self.happened(w, point, fault)
        with w.client() as c:
            self.assertEqual(c.info("p")["pid"], pid)
            self.assertEqual(c.call("p", "flood", lines=1)["lines"], lines + 1)

    def all_is_accounted_for(self, w, lines, fault):
        """But for what control had read from the pipe and not looked at when it was killed: nobody knows of it."""
        size = sum(len("flood line %d ....................................................................\n" % i) for i in range(2000)) * (lines // 2000)
        unknown = 65536 if fault == KILL else 0

        def accounted():
            try:
                with w.client() as c:
                    log = c.rpc("log.read", id="p", lines=10000)
            except (Closed, OSError):
                return False  # control is killed just now
            known = sum(len(l["text"]) + 1 for l in log["lines"]) + log["dropped_bytes"]
            return log["lines"][-1]["text"].startswith("flood line 1999 ") and size - unknown <= known <= size

        wait_for(accounted, "every byte to be kept or counted")


    # ---- history.read, history.unlink ----

    def kept(self, w):
        """One that was destroyed, with its history kept; and one of the same id that is there."""
        w.create("a")
        with w.client() as c:
            c.rpc("sandbox.destroy", id="a", keep_history=True)
        del w.told["a"]

    def shown(self, w):
        """The hashes that are kept of a; or the error, or None when control was killed."""
        said = []
        answer = w.change(lambda c: said.append([v["sha256"] for v in c.rpc("version.list", id="a")["versions"]]), ["a"])
        return said[0] if said else answer

    def test_a_kept_history_that_cannot_be_read(self):
        self.each(self.unreadable_history)

    def unreadable_history(self, w, fault):
        self.kept(w)
        w.again(["history.read=%s:1" % fault])
        answer = self.shown(w)
        self.happened(w, "history.read", fault)
        if fault == ERROR:
            self.assertEqual(answer.code, "io_error")
            self.assertIn("Input/output error", str(answer))
        else:
            self.assertIsNone(answer)
        self.assertEqual(self.shown(w), [SHAS[0]])  # nothing was wrong with it

    def test_a_kept_history_that_cannot_be_dropped(self):
        self.each(self.history_stays)

    def history_stays(self, w, fault):
        """Its id is destroyed again, now without keeping: that is told as not durable, or done by the next control."""
        self.kept(w)
        w.again(["history.unlink=%s:1" % fault])
        w.create("a")
        answer = w.change(lambda c: c.destroy("a") and None, ["a"])
        self.happened(w, "history.unlink", fault)
        if fault == ERROR:
            self.assertEqual(answer.code, "io_error")
            self.assertIn("Input/output error", str(answer))
            w.create("a")
            with w.client() as c:
                c.destroy("a")
        else:
            self.assertIsNone(answer)
            w.settle()
        with w.client() as c:
            self.assertEqual(c.ids(), [])
        self.assertEqual(self.shown(w).code, "not_found")


class All(OwnCase):
    def test_every_point_is_fired_by_a_test(self):
        swept = {p for points in SWEPT.values() for p in points}
        self.assertEqual(swept | RARE, set(POINTS))
        print("NOTE storage points: %d swept (%s); %d by tests of their own (%s)" % (
            len(swept), " ".join(sorted(swept)), len(RARE), " ".join(sorted(RARE))))


if __name__ == "__main__":
    main()
