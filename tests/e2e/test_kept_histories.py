#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""destroy with keep_history: what stays of a sandbox, who sees it, for how long, and what becomes of it on a bad disk."""
import contextlib
import hashlib
import json
import os
import signal
import unittest

from harness import COUNTER1, COUNTER2, IS_ROOT, OTHER_UID, THIRD_UID, Case, OwnCase, RpcError, main, module, read, wait_for
from test_owner import client_of

PER_OWNER = 128  # LIMIT_HISTORIES_PER_OWNER
HISTORY_BYTES = 64 << 10  # LIMIT_HISTORY_BYTES
SHAS = [hashlib.sha256(read(p)).hexdigest() for p in (COUNTER1, COUNTER2)]


def path_of(daemon, sandbox):
    return os.path.join(daemon.state, "histories", hashlib.sha256(sandbox.encode()).hexdigest())


def write_kept(daemon, body, sandbox):
    """A file as the daemon writes it, of any body."""
    os.makedirs(os.path.dirname(path_of(daemon, sandbox)), mode=0o700, exist_ok=True)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with open(path_of(daemon, sandbox), "wb") as f:
        f.write(b"sandboxd-history 1 " + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    st = os.stat(daemon.state)
    for p in (os.path.dirname(path_of(daemon, sandbox)), path_of(daemon, sandbox)):
        os.chown(p, st.st_uid, st.st_gid)


def destroyed_twice_reloaded(c, sandbox, **params):
    """Two versions, five calls; then it is destroyed. Returns both answers of before."""
    c.create(sandbox, COUNTER1)
    c.call(sandbox, "increment", by=2)
    c.reload(sandbox, COUNTER2)
    for _ in range(4):
        c.call(sandbox, "increment", by=1)
    before = c.rpc("version.list", id=sandbox), c.rpc("version.history", id=sandbox)
    assert c.rpc("sandbox.destroy", id=sandbox, **params)["destroyed"]
    return before


class Kept(Case):
    config = "socket_mode = 0666\noperators = %d, %d\n" % (OTHER_UID, THIRD_UID)

    def gone(self, sandbox, c=None):
        for method in ("version.list", "version.history"):
            self.refused("not_found", (c or self.client).rpc, method, id=sandbox)

    def test_what_stays(self):
        c = self.client
        was_list, was_history = destroyed_twice_reloaded(c, "a", keep_history=True)
        self.assertNotIn("destroyed_at", was_list)
        is_list, is_history = c.rpc("version.list", id="a"), c.rpc("version.history", id="a")
        at = is_list.pop("destroyed_at")
        self.assertEqual((is_history.pop("destroyed_at"), at > was_list["versions"][0]["loaded_at"]), (at, True))
        for v in (*was_list["versions"], *is_list["versions"]):
            v["status"] = v["status"].replace("probation", "current")  # which ends with the destroy
        self.assertEqual(is_list, was_list)
        self.assertEqual([v["sha256"] for v in is_history["versions"]], [SHAS[1], SHAS[0]])
        self.assertEqual([v["calls"] for v in is_history["versions"]], [v["calls"] for v in was_history["versions"]])
        self.assertEqual([v["saved"] for v in is_history["versions"]], [None, None])
        self.assertGreaterEqual(is_history["versions"][0]["uptime_ms"], was_history["versions"][0]["uptime_ms"])
        self.assertEqual({k: v for k, v in is_history.items() if k != "versions"}, {k: v for k, v in was_history.items() if k != "versions"})

    def test_nothing_else_stays(self):
        c = self.client
        destroyed_twice_reloaded(c, "a", keep_history=True)
        self.assertEqual(c.ids(), [])
        for method, more in (("sandbox.info", {}), ("sandbox.rollback", {"version": 1}), ("sandbox.start", {}), ("version.commit", {}),
                             ("sandbox.destroy", {}), ("log.read", {}), ("state.get", {"version": 1})):
            self.refused("not_found", c.rpc, method, id="a", **more)
        objects = os.path.join(self.daemon.state, "objects")
        wait_for(lambda: not set(SHAS) & set(os.listdir(objects)), "the objects to be removed")

    def test_without_it_nothing_is_kept(self):
        c = self.client
        destroyed_twice_reloaded(c, "a")
        self.gone("a")
        destroyed_twice_reloaded(c, "a", keep_history=False)
        self.gone("a")
        self.assertFalse(os.path.exists(path_of(self.daemon, "a")))

    def test_the_id_again(self):
        """One that is there stands for its id alone; its destroy replaces what was kept, or drops it."""
        c = self.client
        destroyed_twice_reloaded(c, "a", keep_history=True)
        first = c.rpc("version.list", id="a")["destroyed_at"]
        c.create("a", COUNTER1)
        listed = c.rpc("version.list", id="a")
        self.assertNotIn("destroyed_at", listed)
        self.assertEqual([v["sha256"] for v in listed["versions"]], [SHAS[0]])
        c.rpc("sandbox.destroy", id="a", keep_history=True)
        listed = c.rpc("version.list", id="a")
        self.assertEqual([v["sha256"] for v in listed["versions"]], [SHAS[0]])
        self.assertGreater(listed["destroyed_at"], first)
        c.create("a", COUNTER2)
        c.destroy("a")
        self.gone("a")

    def test_a_create_that_fails_leaves_it(self):
        c = self.client
        destroyed_twice_reloaded(c, "a", keep_history=True)
        kept = c.rpc("version.history", id="a")
        with self.assertRaises(RpcError):
            c.create("a", COUNTER1, config={"start": "not a number"}, start_timeout_ms=10, limits={"max_memory": 1})
        with self.assertRaises(RpcError):
            c.create("a", b"no object at all")
        wait_for(lambda: c.ids() == [], "nothing to be left of it")
        self.assertEqual(c.rpc("version.history", id="a"), kept)

    def test_persist_false(self):
        """Nothing of it is on disk: refused, and it runs on; its destroy leaves the disk as it is."""
        c = self.client
        destroyed_twice_reloaded(c, "a", keep_history=True)
        kept = c.rpc("version.history", id="a")
        c.create("a", COUNTER1, persist=False)
        e = self.refused("bad_param", c.rpc, "sandbox.destroy", id="a", keep_history=True)
        self.assertIn("persist: false", str(e))
        self.assertEqual(e.data["name"], "keep_history")
        self.assertEqual(c.status("a"), "running")
        c.destroy("a")
        self.assertEqual(c.rpc("version.history", id="a"), kept)

    def test_a_name_that_is_none(self):
        """A host's lie of 40000 letters is no name, and no reason that a history can't be kept."""
        c = self.client
        self.assertIsNone(c.create("a", module("long_name"))["module"])
        c.rpc("sandbox.destroy", id="a", keep_history=True)
        kept = c.rpc("version.history", id="a")
        self.assertEqual((len(kept["versions"]), "module" in kept), (1, False))
        self.assertEqual(c.rpc("daemon.info")["registry"]["problems"], [])

    def test_bad_parameters(self):
        c = self.client
        c.create("a", COUNTER1)
        for value in (1, "true", None, [], {}):
            self.refused("bad_param", c.rpc, "sandbox.destroy", id="a", keep_history=value)
        self.refused("unknown_param", c.rpc, "sandbox.destroy", id="a", keep_histories=True)
        self.refused("unknown_param", c.rpc, "version.list", id="a", keep_history=True)
        self.refused("not_found", c.rpc, "sandbox.destroy", id="b", keep_history=True)
        self.assertEqual(c.status("a"), "running")

    def test_every_way_down(self):
        """One that is stopped, failed, frozen, or a member of a group."""
        c = self.client
        for sandbox in ("stopped", "failed", "frozen"):
            c.create(sandbox, COUNTER1, restart="temporary")
        c.rpc("sandbox.stop", id="stopped")
        self.kill_host("failed")
        self.wait_status("failed", "failed", "stopped")
        c.rpc("sandbox.freeze", id="frozen")
        c.rpc("group.create", id="g")
        c.create("member", COUNTER1, group="g")
        for sandbox in ("stopped", "failed", "frozen", "member"):
            c.rpc("sandbox.destroy", id=sandbox, keep_history=True)
            self.assertEqual([v["sha256"] for v in c.rpc("version.list", id=sandbox)["versions"]], [SHAS[0]], sandbox)
        c.rpc("group.destroy", id="g")

    def test_sandboxctl(self):
        c = self.client
        c.create("web", COUNTER1)
        self.assertEqual(self.ctl("destroy", "web", "--keep-history").out, "web: destroyed\n")
        for verb in ("versions", "history"):
            r = self.ctl(verb, "web")
            self.assertEqual((r.status, len(r.out.splitlines())), (0, 2), (r.out, r.err))
            self.assertIn("web was destroyed at 20", r.err)
            self.assertIn("destroyed_at", self.ctl(verb, "web", "--json").json())
        c.create("web", COUNTER1)
        self.assertEqual(self.ctl("versions", "web").err, "")
        self.assertEqual(self.ctl("destroy", "web").status, 0)
        self.assertEqual(self.ctl("history", "web").status, 3)

    @unittest.skipUnless(IS_ROOT, "clients of other users are needed, and only root can be another user")
    def test_whose_it_is(self):
        with client_of(self.daemon.socket, OTHER_UID) as owner, client_of(self.daemon.socket, THIRD_UID) as other:
            destroyed_twice_reloaded(owner, "mine", keep_history=True)
            never = self.refused("not_found", other.rpc, "version.list", id="never")
            hidden = self.refused("not_found", other.rpc, "version.list", id="mine")
            self.assertEqual(str(never).replace("never", "mine"), str(hidden))
            self.gone("mine", other)
            self.assertEqual(owner.rpc("version.history", id="mine")["versions"][0]["author"], OTHER_UID)
            self.assertEqual(owner.rpc("version.history", id="mine"), self.client.rpc("version.history", id="mine"))
            other.create("mine", COUNTER1)  # an id belongs to whoever has it now
            self.gone("mine", owner)
            other.rpc("sandbox.destroy", id="mine", keep_history=True)
            self.gone("mine", owner)
            self.assertEqual(len(other.rpc("version.list", id="mine")["versions"]), 1)


class OnDisk(OwnCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.own_daemon()

    def rpc(self, method, **params):
        with self.daemon.client() as c:
            return c.rpc(method, **params)

    def code(self, method, **params):
        with self.assertRaises(RpcError) as caught:
            self.rpc(method, **params)
        return caught.exception.code

    def keep(self, *ids):
        with self.daemon.client() as c:
            for i in ids:
                c.create(i, COUNTER1)
                c.rpc("sandbox.destroy", id=i, keep_history=True)

    def restart(self):
        self.assertEqual(self.daemon.terminate(), 0)
        self.daemon.start()

    def test_over_restarts(self):
        self.keep("a")
        kept = self.rpc("version.list", id="a"), self.rpc("version.history", id="a")
        old = self.daemon.kill_control()
        self.daemon.wait_for_next_control(old)
        self.assertEqual((self.rpc("version.list", id="a"), self.rpc("version.history", id="a")), kept)
        self.daemon.look()
        self.daemon.process.kill()  # all of it, as when the machine stops
        self.daemon.process.wait()
        wait_for(lambda: not self.daemon.left_over(), "the end of all its processes")
        self.daemon.start()
        self.assertEqual((self.rpc("version.list", id="a"), self.rpc("version.history", id="a")), kept)

    def test_control_is_killed_while_it_stops(self):
        """What was asked is done by the next control."""
        with self.daemon.client() as c:
            pid = c.create("a", module("stubborn"), shutdown_ms=600000)["pid"]
            c.request("sandbox.destroy", id="a", keep_history=True)
            wait_for(lambda: self.rpc("sandbox.info", id="a")["status"] == "stopping", "the stop")
            old = self.daemon.kill_control()
            self.assertTrue(c.at_end())
        self.daemon.wait_for_next_control(old)
        with contextlib.suppress(ProcessLookupError):  # it may have been ended by now
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.rpc("sandbox.list")["sandboxes"] == [], "its end")
        self.assertEqual(len(wait_for(lambda: self.shown("a"), "its history")["versions"]), 1)

    def shown(self, sandbox):
        try:
            return self.rpc("version.list", id=sandbox)
        except RpcError as e:
            self.assertEqual(e.code, "not_found")
            return None

    def body(self, sandbox, owner=0, at=1000, **more):
        answer = {"id": sandbox, "destroyed_at": at, "current": 1, "versions": []}
        return {"id": sandbox, "owner": owner, "destroyed_at": at, "list": answer,
                "history": dict(answer, total_versions=1, reloads=0, failed_reloads=0, rollbacks=0, returns=0), **more}

    def test_so_many_of_one_owner(self):
        """The oldest goes first, and none of another's."""
        uid = os.getuid()
        self.assertEqual(self.daemon.terminate(), 0)
        for i in range(PER_OWNER):
            write_kept(self.daemon, self.body("old%d" % i, uid, 1000 + (i * 7) % PER_OWNER), "old%d" % i)
        write_kept(self.daemon, self.body("others", uid + 1, 1), "others")
        self.daemon.start()
        self.keep("new")
        self.assertIsNone(self.shown("old0"))
        for i in ("new", "others", "old1", "old%d" % (PER_OWNER - 1)):
            self.assertEqual(self.shown(i)["id"], i)
        self.assertEqual(len(os.listdir(os.path.join(self.daemon.state, "histories"))), PER_OWNER + 1)
        self.keep("newer")
        gone = [i for i in range(1, PER_OWNER) if (i * 7) % PER_OWNER == 1]
        self.assertEqual([i for i in range(1, PER_OWNER) if not os.path.exists(path_of(self.daemon, "old%d" % i))], gone)
        self.assertTrue(self.shown("others"))

    def test_damaged(self):
        """Not shown, told, put aside; and its id is as good as new."""
        good = json.dumps(self.body("x")).encode()
        bodies = {
            "cut": None, "flipped": None, "empty": b"", "text": b"no JSON", "twice": good + good, "lines": good.replace(b", ", b",\n"),
            "other": json.dumps(self.body("x")).encode(), "owner": json.dumps(self.body("owner", owner=-1)).encode(),
            "wide": json.dumps(self.body("wide", owner=1 << 32)).encode(), "list": json.dumps(self.body("list", list=[])).encode(),
            "time": json.dumps(self.body("time", destroyed_at="soon")).encode(), "deep": b"[" * 4000 + b"]" * 4000,
            "large": json.dumps(self.body("large", more="x" * HISTORY_BYTES)).encode()}
        self.keep("cut", "flipped")
        for name, body in bodies.items():
            if body is not None:
                write_kept(self.daemon, body, name)
        os.truncate(path_of(self.daemon, "cut"), 200)
        with open(path_of(self.daemon, "flipped"), "rb") as f:
            data = bytearray(f.read())
        data[len(data) // 2] ^= 1
        os.unlink(path_of(self.daemon, "flipped"))
        with open(path_of(self.daemon, "flipped"), "wb") as f:
            f.write(data)
        os.mkdir(path_of(self.daemon, "folder"))
        os.symlink("/etc/passwd", path_of(self.daemon, "link"))
        os.mkfifo(path_of(self.daemon, "fifo"))
        st = os.stat(self.daemon.state)
        for name in (*bodies, "folder", "fifo"):
            os.chown(path_of(self.daemon, name), st.st_uid, st.st_gid)
        for name in (*bodies, "folder", "link", "fifo"):
            self.assertEqual(self.code("version.history", id=name), "not_found", name)
            self.assertTrue(os.path.lexists(path_of(self.daemon, name) + ".damaged"), name)
            problems = self.rpc("daemon.info")["registry"]["problems"]
            self.assertTrue(any(os.path.basename(path_of(self.daemon, name)) in p for p in problems), (name, problems))
            self.assertEqual(self.code("version.list", id=name), "not_found", name)
        with self.daemon.client() as c:
            self.assertTrue([e for e in c.events() if e["type"] == "daemon.registry" and "histories: " in e["problem"]])
        self.keep("flipped", "folder", "link")
        for name in ("flipped", "folder", "link"):
            self.assertEqual(self.shown(name)["id"], name)

    def test_damaged_where_nobody_asks(self):
        """What the first that is kept finds: put aside; foreign files stay, and a newer daemon's."""
        self.keep("newer", "bad", "good")
        folder = os.path.join(self.daemon.state, "histories")
        self.assertEqual(self.daemon.terminate(), 0)
        with open(path_of(self.daemon, "newer"), "rb") as f:
            newer = f.read().replace(b"sandboxd-history 1 ", b"sandboxd-history 2 ")
        write_kept(self.daemon, b"?", "bad")
        os.unlink(path_of(self.daemon, "newer"))
        for name, data in ((path_of(self.daemon, "newer"), newer), (os.path.join(folder, "README"), b"mine"),
                           (path_of(self.daemon, "left") + ".tmp", b"half")):
            with open(name, "wb") as f:
                f.write(data)
        os.mkdir(os.path.join(folder, "f" * 63))
        self.daemon.start()
        self.keep("next")
        self.assertTrue(os.path.exists(path_of(self.daemon, "bad") + ".damaged"))
        self.assertFalse(os.path.exists(path_of(self.daemon, "left") + ".tmp"))
        self.assertEqual((read(os.path.join(folder, "README")), read(path_of(self.daemon, "newer"))), (b"mine", newer))
        self.assertTrue(self.rpc("daemon.info")["registry"]["problems"])
        self.assertEqual(self.code("version.list", id="newer"), "io_error")
        for name in ("good", "next"):
            self.assertEqual(self.shown(name)["id"], name)

    def test_a_folder_that_cannot_be_used(self):
        """It is told; the sandbox stays on disk until its history is kept; nobody else's changes suffer."""
        folder = os.path.join(self.daemon.state, "histories")
        with open(folder, "w", encoding="ascii"):
            pass
        with self.daemon.client() as c:
            c.create("a", COUNTER1)
            with self.assertRaises(RpcError) as caught:
                c.rpc("sandbox.destroy", id="a", keep_history=True)
            self.assertEqual(caught.exception.code, "io_error")
            self.assertIn("not durable", str(caught.exception))
            self.assertIn("histories", str(caught.exception))
            c.create("b", COUNTER1)
            self.assertTrue(c.info("b")["durable"])
        self.restart()
        with self.daemon.client() as c:
            self.assertEqual(sorted(c.ids()), ["a", "b"])
            wait_for(lambda: {c.status(i) for i in ("a", "b")} == {"running"}, "both to run")
            with self.assertRaises(RpcError):
                c.rpc("sandbox.destroy", id="a", keep_history=True)
            os.unlink(folder)
            c.rpc("sandbox.restart", id="b")  # the next change of any sandbox makes it good
            self.assertEqual(self.shown("a")["id"], "a")
        self.restart()
        with self.daemon.client() as c:
            self.assertEqual(c.ids(), ["b"])
        self.assertEqual(self.shown("a")["id"], "a")


if __name__ == "__main__":
    main()
