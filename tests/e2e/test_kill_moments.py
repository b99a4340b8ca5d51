#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""B37: kill -9 of the daemon, and apart from that of control, at random moments: idle, during a create, start, reload, rollback, stop. Each time
every wanted sandbox has exactly one process then, nothing is orphaned, what was finished is not run again, no version is missing.

SANDBOXD_CHECK_FULL=1: 100 rounds of each instead of 10. SANDBOXD_TEST_SEED chooses other moments."""
import os
import random
import signal
import time

from harness import COUNTER1, COUNTER2, Background, Client, Closed, OwnCase, RpcError, descendants, is_alive, main, module, read, wait_for

ROUNDS = 100 if os.environ.get("SANDBOXD_CHECK_FULL") == "1" else 10
SEED = int(os.environ.get("SANDBOXD_TEST_SEED", "37"))
STILL = ("still-1", "still-2")  # nobody touches them
DONE = "done"  # temporary, and it has ended
MOVED = "moved"  # to which things happen
NEWEST = "newest"


class Moments(OwnCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.own_daemon()
        self.rng = random.Random(SEED)
        with self.daemon.client() as c:
            self.objects = [c.put(read(path), os.path.basename(path)[:10]) for path in (COUNTER1, COUNTER2)]
            for name in (*STILL, MOVED):
                c.rpc("sandbox.create", id=name, object=self.objects[0])
                c.rpc("sandbox.reload", id=name, object=self.objects[1])
            c.create(DONE, module("crash_call"), restart="temporary")
            with self.assertRaises(RpcError):
                c.call(DONE, "raise", signal=int(signal.SIGSEGV))
            self.finished = wait_for(lambda: (lambda i: i if i["pid"] is None else None)(c.info(DONE)), "its end")
            self.versions = self.versions_of(c.info(MOVED))
        self.assertEqual(self.versions, dict(enumerate(self.objects, 1)))
        self.seen = {}

    def versions_of(self, info):
        return {v["version"]: v["sha256"] for v in info["versions"]}

    # ---- what goes on at the moment; each returns what is known of MOVED or NEWEST when it was answered ----

    def idle(self, c):
        return {}

    def create(self, c):
        c.rpc("sandbox.create", id=NEWEST, object=self.objects[0])
        return {NEWEST: True}

    def stop(self, c):
        c.rpc("sandbox.stop", id=MOVED)
        return {"up": False}

    def start(self, c):
        self.stop(c)
        c.rpc("sandbox.start", id=MOVED)
        return {"up": True}

    def reload(self, c):
        c.rpc("sandbox.reload", id=MOVED, object=self.objects[1])
        return {"version": 2}

    def rollback(self, c):
        c.rpc("sandbox.rollback", id=MOVED, version=1)
        return {"version": 1}

    def ready(self, what):
        """As it must be before `what`; the process that it then has."""
        with self.daemon.client() as c:
            if NEWEST in c.ids():
                c.destroy(NEWEST)
            if c.status(MOVED) != "running":
                c.rpc("sandbox.start", id=MOVED)
            self.control = c.rpc("daemon.info")["control_pid"]
            version = c.info(MOVED)["version"]
            if what == "reload" and version != 1:
                c.rpc("sandbox.rollback", id=MOVED, version=1)
            elif what != "reload" and version != 2:
                c.rpc("sandbox.reload", id=MOVED, object=self.objects[1])
            return {name: c.info(name)["pid"] for name in STILL}

    def work(self, what):
        """In a thread: what was acknowledged; None: the daemon went first."""
        try:
            with Client(self.daemon.socket) as c:
                return getattr(self, what)(c)
        except (Closed, OSError):
            return None

    def rounds(self, kill):
        kinds = ("idle", "create", "start", "reload", "rollback", "stop")
        for n in range(ROUNDS):
            what = kinds[n % len(kinds)]
            with self.subTest(round=n, what=what):
                pids = self.ready(what)
                at_work = Background(self.work, what)
                moment = time.monotonic() + 0.04 * self.rng.random() ** 2  # more of the early ones: most requests take a few ms
                wait_for(lambda moment=moment: time.monotonic() >= moment, "the moment")
                kill()
                known = at_work.result()
                self.seen[what, known is not None] = self.seen.get((what, known is not None), 0) + 1
                self.check(what, known, pids)
        print("NOTE B37: %d rounds; answered before the kill: %d" % (ROUNDS, sum(n for (_, known), n in self.seen.items() if known)))

    def at_rest(self, c):
        """What there is once nothing goes on. A create that wasn't answered may be undone meanwhile."""
        def look():
            rows = c.rpc("sandbox.list")["sandboxes"]
            return rows if all(row["status"] in ("running", "stopped", "failed") for row in rows) else None

        return [row["id"] for row in wait_for(look, "rest")]

    def check(self, what, known, pids):
        with self.daemon.client() as c:
            ids = self.at_rest(c)
            self.assertEqual([name for name in ids if name != NEWEST], [*STILL, MOVED, DONE])
            if known and NEWEST in known:
                self.assertIn(NEWEST, ids)
            infos = {name: c.info(name) for name in ids}
            for name in STILL:
                self.assertEqual((infos[name]["status"], infos[name]["version"], self.versions_of(infos[name])), ("running", 2, self.versions))
                self.assertEqual(c.call(name, "get")["count"], 0)
                if self.same_pids:
                    self.assertEqual(infos[name]["pid"], pids[name])
            moved = infos[MOVED]
            self.assertEqual(self.versions_of(moved), self.versions)
            before = 1 if what == "reload" else 2
            self.assertIn(moved["version"], (before, {"reload": 2, "rollback": 1}.get(what, before)))
            if known and "version" in known:
                self.assertEqual(moved["version"], known["version"])
            if what not in ("stop", "start") or (known and known["up"]):
                self.assertEqual(moved["status"], "running")
            elif known:
                self.assertEqual(moved["status"], "stopped")
            if NEWEST in infos:
                self.assertEqual(infos[NEWEST]["status"], "running")
            done = infos[DONE]
            self.assertEqual((done["status"], done["pid"], done["generation"]), (self.finished["status"], None, self.finished["generation"]))
            up = sorted(i["pid"] for i in infos.values() if i["pid"] is not None)
            self.assertEqual(len(up), len([i for i in infos.values() if i["status"] == "running"]))
            wait_for(lambda: sorted(self.daemon.hosts()) == up, "one process for each that is up (%r)" % up)

    # ---- the two that are killed ----

    def kill_all(self):
        for pid in (self.daemon.pid, self.control):
            os.kill(pid, signal.SIGSTOP)  # this is the moment; to look around takes longer than most requests
        self.daemon.look()
        tree = descendants(self.daemon.pid)
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.start()  # at once: whatever is left of the one before ends beside it
        wait_for(lambda: not [pid for pid, start in tree if is_alive(pid, start)], "the end of all that it had")

    def test_the_daemon(self):
        self.same_pids = False
        self.rounds(self.kill_all)

    def kill_control(self):
        os.kill(self.control, signal.SIGKILL)
        self.daemon.wait_for_next_control(self.control)

    def test_control(self):
        self.same_pids = True
        self.rounds(self.kill_control)


if __name__ == "__main__":
    main()
