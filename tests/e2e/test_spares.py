#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts that are made in advance: a sandbox gets one with nothing of another in it, none is counted as one, none is left over; killed ones and
those of a dead zygote are replaced; spare_hosts = 0 makes none."""
import contextlib
import hashlib
import os
import signal

from harness import IS_ROOT, Case, OwnCase, is_alive, main, module, read, wait_for

SPARES = 3


def status_of(pid):
    """/proc/PID/status as {name: text}."""
    return dict(line.split(":", 1) for line in read("/proc/%d/status" % pid).decode().splitlines() if ":" in line)


def uid_of(pid):
    return int(status_of(pid)["Uid"].split()[0])


def descriptors_of(pid):
    """How many it has open; 0 where only root may look."""
    return len(os.listdir("/proc/%d/fd" % pid)) if IS_ROOT else 0


class Spares(Case):
    config = "spare_hosts = %d\n" % SPARES

    def full(self):
        """The spares, once all are there."""
        return wait_for(lambda: (lambda pids: pids if len(pids) == SPARES else None)(self.daemon.spares()), "%d spares" % SPARES)

    def warm(self):
        """The first start of a profile is what has spares made."""
        self.client.create("first", module("tally"), persist=False)
        return self.full()

    def pid(self, sandbox):
        return self.client.info(sandbox)["pid"]

    def runs_after(self, sandbox, before):
        """By another process than before."""
        info = self.client.info(sandbox)
        return info["status"] == "running" and info["pid"] not in (None, before)

    def test_each_start_takes_one(self):
        for i in range(2 * SPARES):
            spares = self.warm() if i == 0 else self.full()
            self.client.create("s%d" % i, module("tally"), persist=False)
            self.assertIn(self.pid("s%d" % i), spares)
            self.assertEqual(self.client.call("s%d" % i, "increment"), {"count": 1})
        self.assertEqual(len(self.daemon.hosts()), 2 * SPARES + 1)  # by name: one that was taken is a host like any other
        self.assertEqual(sorted(self.client.ids()), sorted(["first"] + ["s%d" % i for i in range(2 * SPARES)]))
        self.assertEqual(self.client.rpc("daemon.info")["sandboxes"], 2 * SPARES + 1)

    def test_one_that_cannot_get_the_objects_is_none(self):
        """Half of a sandbox's objects had been moved into its folder: they go back, and it serves nobody else."""
        spares, objects = self.warm(), os.path.join(self.daemon.runtime, "objects")
        first, second = read(module("tally")), read(module("tally_v2"))
        self.client.create("x", first, persist=False)
        self.client.reload("x", second)
        spares = self.full()
        stored = sorted(hashlib.sha256(data).hexdigest() + ".object" for data in (first, second))
        for name in os.listdir(objects):
            if name.startswith(".spare-"):  # what lies in the way of the second
                os.mkdir(os.path.join(objects, name, hashlib.sha256(second).hexdigest() + ".object"))
        old = self.kill_host("x")
        wait_for(lambda: self.runs_after("x", old), "its next process")
        self.assertNotIn(self.pid("x"), spares)
        wait_for(lambda: [pid for pid in spares if not is_alive(pid)], "the end of the spare")
        self.assertEqual([n for n in sorted(os.listdir(os.path.join(objects, "x"))) if n.endswith(".object") and n != "current.object"], stored)
        left = [os.path.join(d, n) for d, _, files in os.walk(objects) for n in files if "/.spare-" in d]
        self.assertEqual(left, [])
        self.client.rpc("sandbox.rollback", id="x")
        for name in os.listdir(objects):
            if name.startswith(".spare-"):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(objects, name, hashlib.sha256(second).hexdigest() + ".object"))

    def test_walls_stand_before_anybody_comes(self):
        spares = self.warm()
        for pid in spares:
            status = status_of(pid)
            self.assertEqual((status["NoNewPrivs"].strip(), status["Seccomp"].strip()), ("1", "2"))
            if IS_ROOT:
                self.assertEqual(int(status["CapEff"], 16), 0)
        if IS_ROOT:
            uids = [uid_of(pid) for pid in spares + self.daemon.hosts()]
            self.assertEqual(len(set(uids)), len(uids), uids)
            self.assertNotIn(0, uids)

    def test_other_limits_are_other_processes(self):
        spares = self.warm()
        self.client.create("small", module("tally"), persist=False, limits={"max_open_files": 50})
        self.assertNotIn(self.pid("small"), spares)
        self.assertEqual(self.client.call("small", "increment"), {"count": 1})
        self.assertEqual(sorted(self.full()), sorted(spares))

    def test_a_restart_takes_one_and_its_object_along(self):
        self.warm()
        self.client.create("s", module("tally"), persist=False, intensity=50)
        for _ in range(5):
            spares, before = self.full(), self.pid("s")
            uid = uid_of(before)
            os.kill(before, signal.SIGKILL)
            wait_for(lambda: self.runs_after("s", before), "the next host")
            self.assertIn(self.pid("s"), spares)
            self.assertEqual(self.client.call("s", "increment"), {"count": 1})
            if IS_ROOT:
                self.assertNotEqual(uid_of(self.pid("s")), uid)
            found = self.daemon.objects()
            self.assertEqual([name for name in found if name.startswith("s/")], [name for name in found if name.startswith("s/") and name.endswith(".object")])
            self.assertEqual(len([name for name in found if name.startswith("s/")]), 1, found)

    def test_reload_and_rollback_in_one(self):
        """What was stored with the first start is read by the processes that come later."""
        self.warm()
        self.client.create("s", module("tally"), persist=False)
        self.client.call("s", "increment")
        self.client.reload("s", module("tally_v2"))
        self.client.rpc("sandbox.rollback", id="s")
        self.full()
        before = self.kill_host("s")
        wait_for(lambda: self.pid("s") not in (None, before) and self.client.status("s") == "running", "the next host")
        self.assertEqual(self.client.call("s", "increment"), {"count": 1})

    def test_killed_ones_are_nobodys_loss(self):
        self.warm()
        events = len(self.client.events())
        for round_ in range(3):
            spares = self.full()
            for pid in spares:
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not any(is_alive(pid) for pid in spares), "their end")
            self.assertEqual(self.client.call("first", "increment"), {"count": round_ + 1})
            self.client.create("s%d" % round_, module("tally"), persist=False)
            self.assertEqual(self.client.call("s%d" % round_, "increment"), {"count": 1})
        self.full()
        kinds = {e["type"] for e in self.client.events()[events:]}
        self.assertLessEqual(kinds, {"sandbox.created", "sandbox.status", "sandbox.running"})

    def test_killed_while_they_are_taken(self):
        """Killed or not when its sandbox comes: a create either works, or says that its host ended."""
        self.warm()
        for i in range(20):
            for pid in self.daemon.spares():
                os.kill(pid, signal.SIGKILL)
            reply = self.client.reply(self.client.request("sandbox.create", id="s%d" % i, object=self.client.put(read(module("tally"))), persist=False))
            if "error" in reply:
                self.assertEqual(reply["error"]["data"]["code"], "start_failed", reply)
            else:
                self.assertEqual(self.client.call("s%d" % i, "increment"), {"count": 1})

    def test_a_dead_zygote_takes_them_along(self):
        spares = self.warm()
        pid = self.pid("first")
        zygotes = self.daemon.zygotes()
        for zygote in zygotes:
            os.kill(zygote, signal.SIGKILL)
        wait_for(lambda: not any(is_alive(p) for p in spares), "the end of its spares")
        self.assertEqual(len(set(self.full()) & set(spares)), 0)
        self.assertEqual((self.pid("first"), self.client.call("first", "increment")), (pid, {"count": 1}))
        self.client.create("s", module("tally"), persist=False)
        self.assertEqual(self.client.call("s", "increment"), {"count": 1})

    def test_control_may_die(self):
        spares = self.warm()
        self.client.create("s", module("tally"), persist=False)
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertIn(c.info("s")["pid"], spares)
            self.assertEqual(c.call("s", "increment"), {"count": 1})
            self.assertLessEqual(set(self.full()) - set(spares), set(self.daemon.spares()))
            c.create("t", module("tally"), persist=False)
            self.assertEqual(c.call("t", "increment"), {"count": 1})
            c.destroy("t")

    def test_nothing_is_left_of_many(self):
        self.warm()
        self.client.destroy("first")
        descriptors = descriptors_of(self.daemon.pid)
        for i in range(50):
            self.client.create("s", module("tally"), persist=False)
            self.client.destroy("s")
        self.full()
        wait_for(lambda: descriptors_of(self.daemon.pid) == descriptors, "the descriptors of before")
        wait_for(lambda: not self.daemon.hosts(), "no host to be left")
        self.assertEqual(self.daemon.objects(), [])
        folders = [name for name in os.listdir(os.path.join(self.daemon.runtime, "objects")) if name.startswith(".spare-")]
        self.assertEqual(len(folders), SPARES, folders)


class None_(OwnCase):
    def test_none_are_made(self):
        daemon = self.own_daemon(config="spare_hosts = 0\n")
        with daemon.client() as c:
            for i in range(3):
                c.create("s%d" % i, module("tally"), persist=False)
                self.assertEqual(c.call("s%d" % i, "increment"), {"count": 1})
            self.assertEqual(daemon.spares(), [])
            self.assertEqual(sorted(os.listdir(os.path.join(daemon.runtime, "objects"))), ["s0", "s1", "s2"])


if __name__ == "__main__":
    main()
