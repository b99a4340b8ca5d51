#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each storage step fails, or kills control, at each change that passes it (sandboxd --fault).

A first daemon tells which points a change passes, and for how many times they had been passed before it; then there is one daemon for each
(change, point, fault). What must hold: an answer comes, clear and with a stable code, or the connection ends with control; the daemon and
what was acknowledged stay; the next change works and is durable; after a crash of the whole daemon everything is as it was told,
and no file is left that nothing refers to.

`make check` gives each (change, point) one fault; SANDBOXD_CHECK_FULL=1 all of them."""
import concurrent.futures
import contextlib
import hashlib
import os
import re
import signal
import sqlite3
import unittest

from harness import COUNTER1, COUNTER2, IS_ROOT, MULTIPLIER, TOP, Client, Closed, Daemon, RpcError, main, read, wait_for

FULL = os.environ.get("SANDBOXD_CHECK_FULL") == "1"
AT_ONCE = 4
ANSWER_S = 20 * MULTIPLIER  # no request may stay unanswered
IMAGES = [read(COUNTER1), read(COUNTER2)]
SHAS = [hashlib.sha256(i).hexdigest() for i in IMAGES]
STORAGE = ("object.", "state.", "file.", "history.", "registry.", "events.", "log.", "place.", "spec.", "outcomes.")
ROWS = re.findall(r'^X\(\w+, +"([a-z.]+)", +(\w+), +([01])\)', read(os.path.join(TOP, "proto/fault_points.def")).decode(), re.M)
POINTS = {name: may_fail == "1" for name, _, may_fail in ROWS if name.startswith(STORAGE)}
FAULTS = ("error:ENOSPC", "error:EIO", "kill")
TEXTS = {"error:ENOSPC": "No space left on device", "error:EIO": "Input/output error"}
CODES = {"io_error", "start_failed", "reload_failed", "unavailable", "internal_error"}
# What no answer waits for: events and logs are written behind the change, and files that nothing refers to removed.
BEHIND = ("events.", "log.", "file.")
# What each change passes, and what therefore must really have happened in one of its cases. The points that no change passes are test_storage_rare's.
ROW = ("registry.begin", "registry.write", "registry.commit", "registry.committed")
EACH = (*ROW, "spec.memfd", "events.write")
SWEPT = {
    "create": (*EACH, "object.open", "object.write", "object.fsync", "object.rename", "object.dirsync", "place.open", "place.write"),
    "reload": (*EACH, "object.open", "object.write", "object.fsync", "object.rename", "object.dirsync", "place.open", "place.write"),
    "stop": (*EACH, "state.open", "state.write", "state.fsync", "state.rename", "state.dirsync", "state.kept"),
    "restart": (*EACH, "state.open", "state.write", "state.fsync", "state.rename", "state.dirsync", "state.kept", "object.read", "place.open"),
    "destroy": (*EACH, "file.unlink"),
    "destroy_keep": (*EACH, "history.open", "history.write", "history.fsync", "history.rename", "history.dirsync"),
    "start": (*EACH, "state.read", "object.read", "place.open", "place.write"),
    "group": (*EACH, "object.fsync", "state.write", "place.open"),
    "boot": ("registry.open", "object.read", "state.read", "place.open", "events.open", "events.fsync", "outcomes.map"),
}


class World:
    """One daemon and what its clients were told: {id: [count, image, is up]}; None in a place: not known."""

    def __init__(self):
        self.daemon, self.told, self.maybe = Daemon(), {}, {}

    def client(self):
        return Client(self.daemon.socket, timeout=ANSWER_S)

    def create(self, name, count=3):
        with self.client() as c:
            c.create(name, IMAGES[0])
            for _ in range(count):
                c.call(name, "increment", by=1)
        self.told[name] = [count, 0, True]

    def again(self, faults):
        """An orderly end, and a start with these faults."""
        self.settle()
        assert self.daemon.terminate() == 0
        self.plant(faults)

    def plant_now(self, faults):
        """The same, of a daemon that holds nothing yet."""
        self.again(faults)

    def plant(self, faults):
        options, skip = [], False
        for o in self.daemon.options:
            if o == "--fault":
                skip = True
            elif not skip:
                options.append(o)
            else:
                skip = False
        self.daemon.options = options + [o for f in faults for o in ("--fault", f)]
        self.daemon.start()

    def settle(self):
        def rests():
            with contextlib.suppress(Closed, OSError), self.client() as c:
                try:
                    return c.rpc("daemon.info")["registry"]["writes_pending"] == 0 and all(
                        c.status(n) in ("running", "stopped", "failed") for n in c.ids())
                except RpcError as e:
                    if e.code != "not_found":  # one whose create was cut has gone since it was listed
                        raise
            return False

        wait_for(rests, "rest")

    def change(self, f, names):
        """Runs a change. Returns "done", the error, or None when the connection ended with control: then what it was is looked for."""
        try:
            with self.client() as c:
                return f(c) or "done"
        except RpcError as e:
            return e
        except (Closed, OSError):
            self.settle()
            return None


# ---- the changes: what is there before, and the change; each gives the answer, and the state of the world is in told afterwards ----


class Change:
    """One kind: before() without faults, then the daemon is started with them, then at_work(): still before the change; then run()."""

    needs = ()

    def before(self, w):
        pass

    def at_work(self, w):
        w.create("a")

    def run(self, w):
        raise NotImplementedError

    def one(self, w, name, f, up=True, image=0, count=3):
        """A change of one sandbox: afterwards it is [count, image, up], if the answer says so; else it may be."""
        was = w.told.get(name)
        answer = w.change(f, [name])
        is_ = [count, image, up] if up is not None else None
        in_force = answer == "done" or (isinstance(answer, RpcError) and (answer.data.get("in_force") or "is destroyed" in str(answer)))
        if answer is None:
            w.maybe[name] = (was, is_)
            w.told.pop(name, None)
        elif in_force:
            w.told[name] = is_
            if is_ is None:
                del w.told[name]
        return answer


class Create(Change):
    def run(self, w):
        return self.one(w, "b", lambda c: c.create("b", IMAGES[1]) and None, image=1, count=0)


class Reload(Change):
    def run(self, w):
        return self.one(w, "a", lambda c: c.reload("a", IMAGES[1]) and None, image=1)


class Stop(Change):
    def run(self, w):
        return self.one(w, "a", lambda c: c.rpc("sandbox.stop", id="a") and None, up=False)


class Restart(Change):
    def run(self, w):
        return self.one(w, "a", lambda c: c.rpc("sandbox.restart", id="a") and None)


class Destroy(Change):
    def at_work(self, w):
        w.create("a")
        with w.client() as c:
            c.rpc("sandbox.restart", id="a")  # now it has a state on disk
        w.settle()

    def run(self, w):
        return self.one(w, "a", lambda c: c.destroy("a") and None, up=None)


class DestroyKeep(Destroy):
    """Its history of versions is kept before its row goes: whatever fails, it is there or that is (Faulted.told_or_kept)."""

    def run(self, w):
        return self.one(w, "a", lambda c: c.rpc("sandbox.destroy", id="a", keep_history=True) and None, up=None)


class Start(Change):
    """From a state that lies on disk only."""

    def before(self, w):
        w.create("a")
        with w.client() as c:
            c.rpc("sandbox.stop", id="a")
        w.told["a"][2] = False

    def at_work(self, w):
        pass

    def run(self, w):
        return self.one(w, "a", lambda c: c.rpc("sandbox.start", id="a") and None)


class Group(Change):
    """Several at once: their rows go in one transaction, or in few."""

    def run(self, w):
        def all_of(c):
            sha = c.put(IMAGES[0])
            asked = [("g%d" % i, c.request("sandbox.create", id="g%d" % i, object=sha)) for i in range(3)]
            asked.append(("a", c.request("sandbox.restart", id="a")))
            first = None
            for name, number in asked:
                try:
                    c.result(number)
                    w.told[name] = [3 if name == "a" else 0, 0, True]
                    w.maybe.pop(name, None)
                except RpcError as e:
                    first = first or e
                    w.maybe.pop(name, None)
                    if e.data.get("in_force"):
                        w.told[name] = [3 if name == "a" else 0, 0, True]
            return first

        w.maybe = {"g%d" % i: (None, [0, 0, True]) for i in range(3)}
        return w.change(all_of, [])


class Boot(Change):
    """The daemon starts, with a sandbox that was up, and one that was down."""

    def before(self, w):
        w.create("a")
        w.create("down")
        with w.client() as c:
            c.rpc("sandbox.stop", id="down")
        w.told["down"][2] = False

    def at_work(self, w):
        pass

    def run(self, w):
        return "done"


CHANGES = {"create": Create(), "reload": Reload(), "stop": Stop(), "restart": Restart(), "destroy": Destroy(), "destroy_keep": DestroyKeep(), "start": Start(), "group": Group(),
           "boot": Boot()}


def passed(log):
    """{point: how often}"""
    found = {}
    for point, n in re.findall(r"passes ([a-z.]+), time (\d+)", log):
        found[point] = max(found.get(point, 0), int(n))
    return found


def points_of(change):
    """The points that it passes, and how often each was passed before."""
    w = World()
    try:
        change.before(w)
        w.again(["%s=trace" % p for p in POINTS])
        change.at_work(w)
        w.settle()
        before = {} if change is CHANGES["boot"] else passed(w.daemon.log())
        change.run(w)
        w.settle()
        with w.client() as c:  # what is removed behind it, and written
            if "a" in c.ids() and change is not CHANGES["boot"]:
                c.rpc("sandbox.info", id="a")
        after = passed(w.daemon.log())
        return {p: before.get(p, 0) for p, n in after.items() if n > before.get(p, 0)}
    finally:
        w.daemon.close()


def crash(daemon):
    """All of it at once, as when the machine stops."""
    daemon.look()
    daemon.process.kill()
    daemon.process.wait()
    wait_for(lambda: not daemon.left_over(), "the end of all its processes", 20 * MULTIPLIER)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(daemon.socket)


class Faulted:
    """One case."""

    def __init__(self, name, point, fault, before):
        self.name, self.change, self.point, self.fault = "%s: %s=%s:%d" % (name, point, fault, before + 1), CHANGES[name], point, fault
        self.faults = ["%s=%s:%d" % (point, fault, before + 1)]
        if fault != "kill" and point.startswith("registry."):  # a transaction that fails is tried once more
            self.faults.append("%s=%s:%d" % (point, fault, before + 2))
        self.wrong, self.start_failed, self.fired = [], False, False

    def expect(self, good, what):
        if not good:
            self.wrong.append("%s: %s" % (self.name, what))

    def run(self):
        """Complaints; [] if all is well."""
        w = World()
        try:
            self.work(w)
        except Exception as e:  # of whatever kind: it is told with its case
            self.wrong.append("%s: %r" % (self.name, e))
        if self.wrong:
            self.wrong.append("the daemon's log:\n%s" % w.daemon.log()[-3000:])
        try:
            self.wrong += ["%s: %s" % (self.name, c) for c in w.daemon.close()]
        except Exception as e:
            self.wrong.append("%s: at the end: %r" % (self.name, e))
        return self.wrong

    def work(self, w):
        self.change.before(w)
        w.again(self.faults)
        self.change.at_work(w)
        w.settle()
        pid = w.daemon.pid
        answer = self.change.run(w)
        self.answer_is_clear(answer)
        if isinstance(answer, RpcError) and answer.data.get("status") == "failed":
            self.start_failed, w.told["a"][2] = True, False
        if self.fault == "kill" and self.point.startswith(BEHIND):  # it comes behind the answer, and would cut the next look
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self.happened(w), "the kill", 2 * MULTIPLIER)
        w.settle()
        self.expect(w.daemon.process.poll() is None and w.daemon.pid == pid, "the daemon ended")
        self.as_told(w)
        self.fired = self.happened(w)
        if self.change is CHANGES["boot"] and self.point == "registry.open" and self.fault != "kill":
            self.only_readable(w)
        else:
            self.next_change(w)
            self.no_orphans(w)
        crash(w.daemon)
        w.plant([])
        self.after_the_crash(w)

    def happened(self, w):
        return "a planted fault happens: %s, " % self.point in w.daemon.log()

    def answer_is_clear(self, answer):
        if not isinstance(answer, RpcError):
            if answer is None:
                self.expect(self.fault == "kill", "the connection ended")
            return
        self.expect(self.fault != "kill", "%s, and not the end of the connection" % answer)
        self.expect(not self.point.startswith(BEHIND), "nothing waits for this, and the answer is %s" % answer)
        self.expect(answer.code in CODES, "the code of %s" % answer)
        self.expect(TEXTS.get(self.fault, "?") in str(answer), "the reason isn't told: %s" % answer)

    def as_told(self, w):
        """Also settles what wasn't known."""
        with w.client() as c:
            ids = set(c.ids())
            for name, (was, may_be) in w.maybe.items():
                if name not in ids:
                    self.expect(was is None or may_be is None, "%s is gone" % name)
                    continue
                up, info = c.status(name) == "running", c.info(name)
                if may_be is None:
                    self.expect(was is not None, "%s is there" % name)
                    w.told[name] = was
                    continue
                image = SHAS.index([v["sha256"] for v in info["versions"] if v["version"] == info["version"]][0])
                self.expect(image in (may_be[1], was[1] if was else may_be[1]), "%s runs image %d" % (name, image))
                w.told[name] = [may_be[0], image, up]
            w.maybe = {}
            self.expect(ids == set(w.told), "there are %r instead of %r" % (sorted(ids), sorted(w.told)))
            for name in sorted(ids & set(w.told)):
                self.is_as_told(c, name, *w.told[name])

    def is_as_told(self, c, name, count, image, up):
        if up:
            with contextlib.suppress(AssertionError):
                wait_for(lambda: c.status(name) == "running", "%s to run" % name, 10 * MULTIPLIER)
        info = c.info(name)
        # A start that was asked for and could not be made: down, with its state, until it is asked for again.
        down = ("stopped", "failed") if self.start_failed else ("stopped",)
        self.expect(info["status"] in (("running",) if up else down), "%s is %s" % (name, info["status"]))
        sha = [v["sha256"] for v in info["versions"] if v["version"] == info["version"]]
        self.expect(sha == [SHAS[image]], "%s has the versions %r" % (name, info["versions"]))
        if up and info["status"] == "running":
            got = c.call(name, "get")
            self.expect(got["count"] == count, "%s has %r instead of %d; state_from %s" % (name, got, count, info["state_from"]))
            self.expect(("step" in got) == (image == 1), "%s runs another version than its list says" % name)
        elif not up:
            self.expect(info["state_kept"], "the state of %s is gone" % name)

    def only_readable(self, w):
        """A registry that could not be opened: its sandboxes run, changes say so, and it is repaired by a restart."""
        with w.client() as c:
            self.expect(c.rpc("daemon.info")["registry"]["problems"], "no problem is told")
            try:
                c.rpc("sandbox.restart", id="a")
                self.wrong.append("%s: a change is acknowledged" % self.name)
            except RpcError as e:
                self.expect(e.code == "io_error", str(e))

    def next_change(self, w):
        """The fault is over: each sandbox can be changed, and that is durable."""
        with w.client() as c:
            for name, told in w.told.items():
                c.rpc("sandbox.restart" if told[2] else "sandbox.start", id=name)
                told[2] = True
            w.settle()
            for name, told in w.told.items():
                self.is_as_told(c, name, *told)
                self.expect(c.info(name)["durable"], "%s is not durable" % name)
            c.create("next", IMAGES[0])
            c.call("next", "increment", by=2)
            c.rpc("sandbox.restart", id="next")
            w.told["next"] = [2, 0, True]
        w.settle()

    def files(self, w, part):
        top = os.path.join(w.daemon.state, part)
        return sorted(os.listdir(top)) if os.path.isdir(top) else []

    def objects_wanted(self, c):
        return sorted({v["sha256"] for n in c.ids() for v in c.info(n)["versions"]})

    def no_orphans(self, w):
        """Of objects; one whose removal failed goes when the daemon starts."""
        with w.client() as c:
            wanted = self.objects_wanted(c)
            if not self.point.startswith("file."):
                with contextlib.suppress(AssertionError):
                    wait_for(lambda: self.files(w, "objects") == wanted, "the collection", 5 * MULTIPLIER)
                self.expect(self.files(w, "objects") == wanted, "objects/ has %r instead of %r" % (self.files(w, "objects"), wanted))
            with contextlib.suppress(AssertionError):
                wait_for(lambda: {n.split("/")[0] for n in w.daemon.objects()} == set(w.told), "folders", 5 * MULTIPLIER)
            self.expect({n.split("/")[0] for n in w.daemon.objects()} == set(w.told), "objects of hosts: %r" % w.daemon.objects())
            self.expect(not [n for n in w.daemon.objects() if n.endswith(".so")], "objects of hosts: %r" % w.daemon.objects())

    def told_or_kept(self, c):
        """After a destroy that keeps the history."""
        if "a" in c.ids():
            return
        try:
            kept = [v["sha256"] for v in c.rpc("version.list", id="a")["versions"]]
        except RpcError as e:
            kept = e
        self.expect(kept == [SHAS[0]], "the sandbox is gone, and what is kept of it is %s" % kept)

    def after_the_crash(self, w):
        w.settle()
        self.as_told(w)
        with w.client() as c:
            if self.change is CHANGES["destroy_keep"]:
                self.told_or_kept(c)
            self.expect(c.rpc("daemon.info")["registry"]["problems"] == [], "problems: %r" % c.rpc("daemon.info")["registry"])
            wanted = self.objects_wanted(c)
            with contextlib.suppress(AssertionError):
                wait_for(lambda: self.files(w, "objects") == wanted, "the collection", 5 * MULTIPLIER)
            self.expect(self.files(w, "objects") == wanted, "after the start objects/ has %r instead of %r" % (self.files(w, "objects"), wanted))
        w.settle()
        w.daemon.terminate()
        with contextlib.closing(sqlite3.connect(os.path.join(w.daemon.state, "registry.sqlite"))) as db:
            states = {r[0] for r in db.execute("SELECT state_sha256 FROM sandboxes WHERE ifnull(state_sha256, '') <> ''")}
        self.expect(states <= set(self.files(w, "states")), "states/ lacks some of %r" % states)
        w.daemon.start()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: set(self.files(w, "states")) == states or self.files(w, "states") == [], "the collection of states", 5 * MULTIPLIER)
        self.expect(set(self.files(w, "states")) <= states, "states/ has %r instead of %r" % (self.files(w, "states"), states))


class Sweep(unittest.TestCase):
    maxDiff = None

    def sweep(self, *names):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(names, pool.map(lambda n: points_of(CHANGES[n]), names)))
            cases = []
            for name in names:
                self.assertTrue(found[name], "%s passes no point" % name)
                for i, (point, before) in enumerate(sorted(found[name].items())):
                    faults = [f for f in FAULTS if f == "kill" or POINTS[point]]
                    cases += [Faulted(name, point, f, before) for f in (faults if FULL else [faults[i % len(faults)]])]
            wrong = [c for complaints in pool.map(Faulted.run, cases) for c in complaints]
        print("NOTE test_storage_faults.%s: %d cases; points: %s" % (
            self._testMethodName, len(cases), {n: len(f) for n, f in found.items()}), flush=True)
        self.assertEqual(wrong, [], "\n".join(wrong[:20]))
        for name in names:
            self.assertLessEqual(set(SWEPT[name]), set(found[name]), name)
        fired = {c.point for c in cases if c.fired}
        self.assertLessEqual({p for name in names for p in SWEPT[name]}, fired)

    def test_one_change(self):
        self.sweep("create", "reload", "stop")

    def test_more_changes(self):
        self.sweep("restart", "destroy", "destroy_keep", "start", "group")

    def test_start_of_the_daemon(self):
        self.sweep("boot")


if __name__ == "__main__":
    main()
