#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of all kinds at work while control is killed again and again, or while the disk fails at random moments.

What clients were told is the model: afterwards every sandbox is as the last answer said, has exactly one process if it is up and none if
it isn't, and every increment that was acknowledged is there, once. Nothing is left over: no process, descriptor, object or state.

The seed is printed; SANDBOXD_CHAOS_SEED=N runs it again (the moments are those of the seed, the interleaving is the machine's).
SANDBOXD_CHECK_FULL=1: 200 kills instead of 30."""
import collections
import contextlib
import hashlib
import json
import os
import random
import resource
import select
import sqlite3
import threading
import time
import unittest

from harness import (COUNTER1, COUNTER2, IS_ROOT, MULTIPLIER, Background, Client, Closed, Daemon, RpcError, all_processes, main, read, wait_for)

FULL = os.environ.get("SANDBOXD_CHECK_FULL") == "1"
SEED = int(os.environ.get("SANDBOXD_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
KILLS = 200 if FULL else 30
FAULTS = 60 if FULL else 12
ROOM = 70000         # of files, when they may not grow: memfds, which are no storage, fall under the same limit
KILLS_AT_START = 4   # more of these would make the spawner wait longer and longer before the next start
IMAGES = [read(COUNTER1), read(COUNTER2)]
SHAS = [hashlib.sha256(i).hexdigest() for i in IMAGES]
LOST = (Closed, OSError)
KEPT_STATES = 2  # of each sandbox: proto/limits.h
# What a client may be told of a sandbox that others stop and reload meanwhile.
REFUSED = {"wrong_state", "busy", "not_found"}


def moment(seconds):
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= end, "the moment")


class Told:
    """What the clients were told of one sandbox. None: not known. Its own thread changes all but the sums, which are under a lock."""

    def __init__(self, name, **params):
        self.name, self.params = name, params
        self.persist = params.get("persist", True)
        self.lock = threading.Lock()
        self.acknowledged = self.unknown = 0
        self.up, self.image = True, 0
        self.switches = self.unknown_switches = 0


class Caller:
    """A thread's connection, made again whenever it was lost; it has both objects uploaded."""

    def __init__(self, chaos, name):
        self.chaos, self.name = chaos, name
        self.connection, self.number, self.asked, self.at_work = None, 0, None, False

    def connect(self):
        def connected():
            try:
                c = Client(self.chaos.daemon.socket)
            except OSError:
                return None
            try:
                for i, image in enumerate(IMAGES):
                    c.put(image, "u%d" % i)
                return c
            except LOST:
                c.close()
                return None

        self.connection = wait_for(connected, "a connection")

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def ask(self, method, keyed, **params):
        """The result, or RpcError. With a key it asks again until it is answered; without one None: nobody knows."""
        if keyed:
            self.number += 1
            params["request_key"] = "%s-%d" % (self.name, self.number)
        while True:
            try:
                if not self.connection:
                    self.connect()
                self.asked = (method, params, time.monotonic())
                return self.connection.rpc(method, **params)
            except LOST:
                self.drop()
                if not keyed:
                    return None
            except RpcError as e:
                if keyed and e.code == "timeout" and method == "sandbox.call":
                    continue
                raise


class Chaos(unittest.TestCase):
    """One daemon; the threads, the model, and what must hold at rest."""

    maxDiff = None

    def setUp(self):
        self.daemon = Daemon()
        self.addCleanup(self._close)
        self.dice = random.Random("%d %s" % (SEED, self._testMethodName))
        print("NOTE test_chaos.%s: SANDBOXD_CHAOS_SEED=%d" % (self._testMethodName, SEED), flush=True)
        self.condition, self.paused, self.ended, self.busy = threading.Condition(), False, False, 0
        self.there, self.gone, self.uncertain = {}, set(), set()  # made and destroyed on the way: {name: persist}, and names
        self.codes, self.done, self.wrong = collections.Counter(), collections.Counter(), []
        self.also = set()  # error codes that a fault explains
        self.followed, self.follow_until, self.gaps = [], None, 0
        self.descriptors = None

    def _close(self):
        with self.condition:
            self.ended = True
            self.condition.notify_all()
        for folder in ("objects", "states"):
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(self.daemon.state, folder), 0o700)
        complaints = self.daemon.close()
        if complaints:
            raise AssertionError("; ".join(complaints))

    def begin(self):
        self.fixed = [Told("a"), Told("b", restart="transient"), Told("volatile", persist=False), Told("once", restart="temporary"),
                      Told("light", restart="temporary", persist=False), Told("still")]
        with self.daemon.client() as c:
            for told in self.fixed:
                c.create(told.name, IMAGES[0], **told.params)
        self.at_rest()
        self.follower = Background(self.follow)
        self.callers = [Caller(self, "w%d" % n) for n in range(8)]
        self.threads = [Background(self.work, n, f) for n, f in enumerate(
            [self.increment] * 3 + [self.lives(self.fixed[:2]), self.lives(self.fixed[2:4]), self.lives(self.fixed[4:5])] + [self.make] * 2)]

    # ---- the threads ----

    def work(self, n, step):
        caller, dice, own = self.callers[n], random.Random("%d %s %d" % (SEED, self._testMethodName, n)), []
        try:
            while True:
                with self.condition:
                    while self.paused and not self.ended:
                        self.condition.wait()
                    if self.ended:
                        return
                    self.busy += 1
                caller.at_work = True
                try:
                    step(caller, dice, own)
                except BaseException as e:  # told at the next rest
                    self.wrong.append("%s: %r" % (caller.name, e))
                    raise
                finally:
                    caller.at_work = False
                    with self.condition:
                        self.busy -= 1
                        self.condition.notify_all()
        finally:
            caller.drop()

    def refused(self, e, what, *codes):
        """An error that a client may be told."""
        self.codes[e.code] += 1
        if e.code not in codes and e.code not in self.also:
            self.wrong.append("%s: %s %s" % (what, e, e.data))

    def increment(self, caller, dice, _):
        told, by, keyed = dice.choice(self.fixed), dice.randrange(1, 6), dice.randrange(10) > 0
        at_least = told.acknowledged + by
        try:
            r = caller.ask("sandbox.call", keyed, id=told.name, function="increment", args={"by": by})
        except RpcError as e:
            self.refused(e, "increment of %s" % told.name, "crashed", *REFUSED)
            if e.data.get("outcome_unknown") or e.code == "timeout":
                with told.lock:
                    told.unknown += by
            return
        with told.lock:
            if r is None:
                told.unknown += by
            else:
                told.acknowledged += by
                if r["result"]["count"] < at_least and not self.wrong:
                    self.wrong.append("%s has %r, and had %d" % (told.name, r, at_least))
                self.done["increments"] += 1

    def lives(self, mine):
        """Nobody else stops or reloads these: so each answer says how they are."""
        def step(caller, dice, _):
            told, keyed, what = dice.choice(mine), dice.randrange(4) > 0, dice.choice(["reload", "reload", "restart", "turn"])
            if what == "turn":
                what = "start" if told.up is False else "stop"
            getattr(self, "do_" + what)(told, caller, keyed)

        return step

    def do_reload(self, told, caller, keyed):
        to = 1 - told.image if told.image is not None else 0
        try:
            r = caller.ask("sandbox.reload", keyed, id=told.name, object=SHAS[to])
        except RpcError as e:
            self.refused(e, "reload of %s" % told.name, *["wrong_state"] * (told.up is not True))
            if not e.data.get("nothing_changed") and e.code != "wrong_state":
                told.image, told.unknown_switches = None, told.unknown_switches + 1
            return
        if r is None:
            told.image, told.unknown_switches = None, told.unknown_switches + 1
            return
        if told.image is not None and r["outcome"] != "reloaded":
            self.wrong.append("reload of %s: %r" % (told.name, r))
        told.switches += r["outcome"] == "reloaded"
        told.image = to
        self.done["reloads"] += 1

    def change(self, what, told, caller, keyed, up, *codes):
        try:
            r = caller.ask("sandbox." + what, keyed, id=told.name)
        except RpcError as e:
            self.refused(e, "%s of %s" % (what, told.name), *codes)
            if e.data.get("in_force"):
                told.up = e.data["status"] != "stopped"
            elif e.code not in REFUSED:
                told.up = None
            return
        told.up = up if r is not None else None
        if r is not None:
            self.done[what] += 1
            if (r["status"] == "stopped") == up:
                self.wrong.append("%s of %s: %s" % (what, told.name, r["status"]))

    def do_restart(self, told, caller, keyed):
        self.change("restart", told, caller, keyed, True, *["wrong_state"] * (told.up is not True))

    def do_start(self, told, caller, keyed):
        self.change("start", told, caller, keyed, True, *["wrong_state"] * (told.up is not False))

    def do_stop(self, told, caller, keyed):
        self.change("stop", told, caller, keyed, False, *["wrong_state"] * (told.up is not True))

    def make(self, caller, dice, own):
        keyed = dice.randrange(2) > 0
        if len(own) < 3 and (not own or dice.randrange(2)):
            name = "%s-%d" % (caller.name, dice.randrange(1 << 40))
            persist, restart = dice.randrange(3) > 0, dice.choice(["permanent", "temporary"])
            self.uncertain.add(name)
            try:
                r = caller.ask("sandbox.create", keyed, id=name, object=SHAS[dice.randrange(2)], persist=persist, restart=restart)
            except RpcError as e:
                self.refused(e, "create of %s" % name)
                return
            own.append(name)
            if r is not None:
                self.there[name] = persist
                self.uncertain.discard(name)
                self.done["create"] += 1
            return
        name = own.pop(dice.randrange(len(own)))
        was = self.there.pop(name, None)
        self.uncertain.add(name)
        try:
            r = caller.ask("sandbox.destroy", keyed, id=name)
        except RpcError as e:
            self.refused(e, "destroy of %s" % name, *["not_found"] * (was is None))
            return
        if r is not None:
            self.uncertain.discard(name)
            self.gone.add(name)
            self.done["destroy"] += 1

    def follow(self):
        """All events, each once, over all kills."""
        since = None
        while True:
            try:
                with Client(self.daemon.socket) as c:
                    extra = {"since_seq": since} if since else {}
                    page = c.rpc("event.read", follow=True, limit=1000, **extra)
                    for e in page["events"]:
                        self.followed.append(e["seq"])
                    since = page["next"] or since
                    self.gaps += bool(page["gap"])
                    while True:
                        if self.follow_until is not None and (since == self.follow_until or self.ended):
                            return
                        if b"\n" not in c.buffer and not select.select([c.socket], [], [], 0.2)[0]:
                            continue
                        params = json.loads(c.line())["params"]
                        if "seq" in params:
                            since = params["seq"]
                            self.followed.append(since)
                        else:
                            self.gaps += 1
            except LOST:
                if self.ended:
                    return
                moment(0.01)

    # ---- at rest ----

    def pause(self):
        with self.condition:
            self.paused = True
        try:
            wait_for(lambda: self.busy == 0, "the clients to rest", 12 * MULTIPLIER)
        except AssertionError:
            with self.daemon.client() as c:
                asked = [caller.asked[:2] for caller in self.callers if caller.at_work]
                keys = [a[1]["request_key"] for a in asked if "request_key" in a[1]]
                raise AssertionError("not answered: %r; their outcomes: %r; sandboxes: %r; their last events:\n%s" % (
                    asked, [c.rpc("request.outcome", request_key=k) for k in keys],
                    {n: (i["status"], i["durable"]) for n in c.ids() for i in [c.info(n)]},
                    "\n".join(self.history(a[1]["id"]) for a in asked))) from None
        self.nothing_wrong()

    def nothing_wrong(self, when=""):
        if self.wrong:
            self.fail("%s %d answers are wrong, first:\n%s" % (when, len(self.wrong), "\n".join(self.wrong[:5])))

    def resume(self):
        with self.condition:
            self.paused = False
            self.condition.notify_all()

    def files(self, part):
        top = os.path.join(self.daemon.state, part)
        return sorted(os.path.relpath(os.path.join(d, n), top) for d, _, names in os.walk(top) for n in names)

    def at_rest(self, problems=()):
        """The clients rest: everything is as they were told."""
        with self.daemon.client() as c:
            names = {t.name for t in self.fixed} | set(self.there)
            down = ("stopped", "failed")
            wait_for(lambda: not [n for n in c.ids() if c.status(n) not in ("running", *down)], "rest")
            ids = set(c.ids())
            self.assertEqual(names - ids, set(), "acknowledged, and not there")
            self.assertEqual(ids - names - self.uncertain, set(), "nobody has made them")
            info = {n: c.info(n) for n in ids}
            wait_for(lambda: sorted(self.daemon.hosts()) == sorted(i["pid"] for i in info.values() if i["status"] == "running"),
                     "one process for each that is up: %r" % {n: (i["status"], i["pid"]) for n, i in info.items()}, 10)
            for n, i in info.items():
                self.assertNotEqual(i["status"], "failed", i)
                self.assertEqual((i["budget"]["used"], i["state_from"] != "lost"), (0, True), n)
            for told in self.fixed:
                self.as_told(c, told, info[told.name])
            self.nothing_left(c, info)
            self.assertEqual(c.rpc("daemon.info")["registry"]["problems"], list(problems))
            self.count_descriptors(c, len(ids))

    def as_told(self, c, told, info):
        if told.up is not None:
            self.assertEqual(info["status"], "running" if told.up else "stopped", told.name)
        told.up = info["status"] == "running"
        versions = info["versions"]
        current, = [v for v in versions if v["status"] in ("current", "probation")]
        self.assertEqual(current["version"], info["version"], told.name)
        image = SHAS.index(current["sha256"])
        if told.image is not None:
            self.assertEqual(image, told.image, told.name)
        told.image = image
        self.assertLessEqual({v["sha256"] for v in versions}, set(SHAS), told.name)
        self.assertEqual(len({v["sha256"] for v in versions}), len(versions), told.name)
        loads = sum(v["loads"] for v in versions)
        self.assertTrue(1 + told.switches <= loads <= 1 + told.switches + told.unknown_switches,
                        (told.name, loads, told.switches, told.unknown_switches))
        if told.up:
            got = c.call(told.name, "get")
            self.assertEqual("step" in got, image == 1, "%s runs what its list says" % told.name)
            if not told.acknowledged <= got["count"] <= told.acknowledged + told.unknown:
                self.fail("%s has %r of %d to %d; its last events:\n%s" % (
                    told.name, got, told.acknowledged, told.acknowledged + told.unknown, self.history(told.name)))
            told.acknowledged, told.unknown = got["count"], 0  # now it is known
        else:
            self.assertTrue(info["state_kept"], told.name)

    def history(self, name):
        """Its newest events, as text."""
        with self.daemon.client() as c:
            events = [e for e in c.events() if e.get("sandbox") in (name, None) and e["type"] != "reload.step"]
        return "\n".join("%s %s" % (e["at"] % 1000000, {k: v for k, v in e.items() if k not in ("seq", "at", "sandbox", "owner", "report")})
                         for e in events[-50:])

    def nothing_left(self, c, info):
        wait_for(lambda: c.rpc("daemon.info")["registry"]["writes_pending"] == 0, "the writes")
        wanted = sorted({v["sha256"] for i in info.values() if i["persist"] for v in i["versions"]})
        wait_for(lambda: self.files("objects") == wanted, "the collection of objects: %r" % wanted)
        if not self.also:  # a state whose row could not be written, and that the next one replaced, goes when the daemon starts
            wait_for(lambda: len(self.files("states")) <= KEPT_STATES * len([i for i in info.values() if i["persist"]]), "the collection of states")
        wait_for(lambda: {n.split("/")[0] for n in self.daemon.objects()} == set(info), "no folder but theirs: %r" % self.daemon.objects())
        for n, i in info.items():
            wait_for(lambda n=n, i=i: c.info(n)["durable"] == i["persist"], "the row of %s" % n)

    def count_descriptors(self, c, sandboxes):
        """As many as at the first rest, but for those that each sandbox needs."""
        control = c.rpc("daemon.info")["control_pid"]
        try:
            now = [len(os.listdir("/proc/%d/fd" % pid)) for pid in (self.daemon.pid, control)]
        except PermissionError:  # of an ordinary user's daemon
            return
        if self.descriptors:
            for was, is_, who in zip(self.descriptors, now, ("spawner", "control")):
                self.assertLessEqual(is_, was + 6 * (sandboxes - len(self.fixed)) + 16, who)
        else:
            self.descriptors = now

    def end(self):
        """All threads end; then the same over an orderly restart; then nothing is left of anything."""
        self.pause()
        self.at_rest()
        with self.daemon.client() as c:
            for told in self.fixed:
                if not told.up:
                    self.assertEqual(c.rpc("sandbox.start", id=told.name)["state_from"], "kept")
                    told.up = True
        self.at_rest()
        with self.daemon.client() as c:
            for told in self.fixed:
                c.call(told.name, "increment", by=1)
                told.acknowledged += 1
        self.assertEqual(self.daemon.terminate(), 0)
        newest, older = self.states_referred_to()
        self.daemon.start()
        self.fixed = [t for t in self.fixed if t.persist]
        self.there = {n: p for n, p in self.there.items() if p}
        self.descriptors = None
        self.at_rest()
        wait_for(lambda: newest <= set(self.files("states")) <= newest | older, "the collection of states: %r, %r" % (newest, older))
        self.events_are_whole()
        with self.condition:
            self.ended = True
            self.condition.notify_all()
        for t in self.threads:
            t.result()
        with self.daemon.client() as c:
            for n in c.ids():
                c.destroy(n)
            wait_for(lambda: self.files("objects") + self.files("states") + self.daemon.objects() + self.daemon.hosts() == [], "nothing")

    def states_referred_to(self):
        """The newest of each sandbox, and those before. The daemon must not run."""
        with contextlib.closing(sqlite3.connect(os.path.join(self.daemon.state, "registry.sqlite"))) as db:
            rows = db.execute("SELECT state_sha256, spec FROM sandboxes").fetchall()
        return {r[0] for r in rows if r[0]}, {o["sha256"] for r in rows for o in json.loads(r[1]).get("older_states", [])}

    def events_are_whole(self):
        with self.daemon.client() as c:
            seqs = [e["seq"] for e in c.events()]
        self.assertEqual(len(seqs), len(set(seqs)), "numbers that came twice")
        order = [tuple(map(int, s.split("-"))) for s in seqs]
        self.assertEqual(order, sorted(order))
        self.follow_until = seqs[-1]
        self.follower.result()
        self.assertEqual(len(self.followed), len(set(self.followed)), "followed, and came twice")
        seqs = seqs[seqs.index(self.followed[0]):]
        if not self.gaps:
            self.assertEqual(set(seqs) - set(self.followed), set(), "events that were not followed")
        if not self.also:  # else some were told, and could not be written
            self.assertEqual(set(self.followed) - set(seqs), set(), "events that are not kept")
        order = [tuple(map(int, s.split("-"))) for s in self.followed]
        self.assertEqual(order, sorted(order))
        self.done["events"] = len(seqs)

    def tell(self, what):
        print("NOTE test_chaos.%s: %s; done: %s; refused: %s; gaps: %d" % (
            self._testMethodName, what, dict(self.done), dict(self.codes), self.gaps), flush=True)


class Faults(Chaos):
    """write() that fails (RLIMIT_FSIZE, as on a full disk), and folders in which nothing can be made, at random moments."""

    def limit_files(self, size):
        """root needs a capability for that, which control's own user doesn't."""
        pid = self.daemon.control_pid()
        with open("/proc/%d/status" % pid) as f:
            uid = next(int(line.split()[1]) for line in f if line.startswith("Uid:"))
        child = os.fork()
        if child == 0:
            try:
                if IS_ROOT:
                    os.setgroups([])
                    os.setgid(uid)
                    os.setuid(uid)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def close_folder(self, mode, *folders):
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):  # states/ is made by the first stop
                os.chmod(os.path.join(self.daemon.state, folder), mode)

    def mend(self):
        self.close_folder(0o700, "objects", "states", ".")
        self.limit_files(resource.RLIM_INFINITY)

    def test_storage_fails(self):
        """Each answer says what is so; what was durable stays; the next change after the fault is durable, and takes the rest along."""
        self.also = {"io_error", "reload_failed", "start_failed"}
        self.begin()
        faults = [("full", lambda: self.limit_files(ROOM)), ("some", lambda: self.limit_files(ROOM + self.dice.randrange(1 << 17))),
                  ("objects", lambda: self.close_folder(0o500, "objects")), ("states", lambda: self.close_folder(0o500, "states")),
                  ("all", lambda: self.close_folder(0o500, "objects", "states", "."))]
        control = self.daemon.control_pid()
        for n in range(FAULTS):
            name, fault = faults[n % len(faults)]
            moment(self.dice.uniform(0, 0.2))
            fault()
            moment(self.dice.uniform(0.05, 0.4))
            if self.dice.randrange(2):  # its successor finds the disk as it is now
                self.daemon.kill_control()
                control = None
            self.mend()
            self.nothing_wrong(name)
            self.assertIn(control, (None, self.daemon.control_pid()), "control died of %s" % name)
            control = self.daemon.control_pid()
            self.pause()
            with self.daemon.client() as c:
                for sandbox in c.ids():
                    info = c.info(sandbox)
                    if info["persist"] and not info["durable"]:
                        self.done["made durable"] += 1
                        c.rpc("sandbox.restart" if info["status"] == "running" else "sandbox.stop", id=sandbox)
            self.at_rest()
            self.resume()
        self.assertGreater(self.codes["io_error"], 0)
        self.end()
        self.tell("%d faults" % FAULTS)


class Kills(Chaos):
    def control(self):
        """The pid of control, also of one that doesn't serve yet."""
        for pid, s in all_processes().items():
            if s[1] == self.daemon.pid and s[0] not in "ZX":
                with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                    if f.read().startswith("sandboxd-contro"):
                        return pid
        return None

    def test_control_is_killed(self):
        self.begin()
        early = 0
        for kill in range(1, KILLS + 1):
            moment(self.dice.uniform(0, 0.25))
            old = wait_for(self.control, "a control process")
            os.kill(old, 9)
            if early < KILLS_AT_START and self.dice.randrange(8) == 0:
                early += 1  # its successor, while that one takes over
                old = wait_for(lambda old=old: (self.control() or old) != old and self.control(), "the successor")
                moment(self.dice.uniform(0, 0.02))
                os.kill(old, 9)
            self.daemon.wait_for_next_control(old)
            self.nothing_wrong()
            if kill % 10 == 0:
                self.pause()
                self.at_rest()
                self.resume()
        self.end()
        self.tell("%d kills, %d more while taking over" % (KILLS, early))
        for what in ("increments", "reloads", "restart", "stop", "start", "create", "destroy"):
            self.assertGreater(self.done[what], 2, what)


if __name__ == "__main__":
    main()
