#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Totals per owner: sandboxes, memory, store bytes, compile jobs. At each limit a request is refused and leaves nothing; administrators are
exempt; what the daemon counts is what a recount gives, also after kills of control and restarts of the daemon."""
import contextlib
import os
import random
import signal
import unittest

from harness import IS_ROOT, OTHER_UID, THIRD_UID, Client, OwnCase, RpcError, ctl, main, module, read, wait_for

MIB = 1 << 20
SIZE = {name: os.path.getsize(module(name)) for name in ("tally", "tally_v2")}
RIGHTS = "socket_mode = 0666\noperators = %d, %d\n" % (OTHER_UID, THIRD_UID)

# a sum of 10^12 terms: seconds, in which the test stops the compiler
ENDLESS = b"".join(b"#define S%d %s\n" % (n, b"+".join([b"S%d" % (n - 1) if n else b"1"] * 10)) for n in range(12)) + b"#if S11\n#endif\n"


class UserClient(Client):
    """A connection of another user: the kernel notes who connects."""

    def __init__(self, path, uid):
        os.seteuid(uid)
        try:
            super().__init__(path)
        finally:
            os.seteuid(0)


@unittest.skipUnless(IS_ROOT, "clients of other users are needed, and only root can be another user")
class Totals(OwnCase):
    def begin(self, **limits):
        self.daemon = self.own_daemon(config=RIGHTS + "".join("%s_per_owner = %d\n" % row for row in limits.items()))
        self.connect()
        self.addCleanup(self.disconnect)

    def connect(self):
        self.root = self.daemon.client()
        self.user, self.other = (UserClient(self.daemon.socket, uid) for uid in (OTHER_UID, THIRD_UID))

    def disconnect(self):
        for c in (self.root, self.user, self.other):
            c.close()

    def refused(self, key, f, *args, **kwargs):
        """f is refused for this total, and nothing of it is left: neither in a total, nor in a list, nor on the disk."""
        before = self.all_of_it()
        with self.assertRaises(RpcError) as caught:
            f(*args, **kwargs)
        self.assertEqual(caught.exception.code, "limit_exceeded", caught.exception)
        for part in (key, "user %d has" % OTHER_UID, "or ask the administrator"):
            self.assertIn(part, str(caught.exception))
        wait_for(lambda: self.all_of_it() == before, "nothing of it to be left")

    def all_of_it(self):
        return (self.rows(), [(s["id"], s["status"]) for s in self.root.rpc("sandbox.list")["sandboxes"]],
                sorted(os.listdir(os.path.join(self.daemon.state, "objects"))), self.daemon.objects())

    def rows(self):
        return {row.pop("uid"): row for row in self.root.rpc("daemon.info")["owners"]}

    def test_updates_at_once(self):
        """Each is counted when it is taken, not when it is answered; one that is refused, or undone, takes nothing."""
        self.begin(max_memory=1024 * MIB)
        for n in range(4):
            self.user.create("a%d" % n, module("tally"))
        requests = [self.user.request("sandbox.update", id="a%d" % n, limits={"max_memory": 600 * MIB}) for n in range(4)]
        told = []
        for request in requests:
            try:
                told.append(self.user.result(request)["id"])
            except RpcError as e:
                told.append(e.code)
        self.assertEqual(told, ["a0"] + ["limit_exceeded"] * 3)
        self.assertEqual(self.user.rpc("daemon.info")["owned"]["memory"]["used"], (600 + 3 * 128) * MIB)

    def test_sandboxes(self):
        self.begin(max_sandboxes=2)
        self.user.create("a", module("tally"))
        self.user.create("b", module("tally"), persist=False)
        self.refused("max_sandboxes_per_owner", self.user.create, "c", module("tally"))
        self.other.create("c", module("tally"))  # another owner
        for n in ("r1", "r2", "r3"):  # an administrator is exempt, and counted
            self.root.create(n, module("tally"))
        self.assertEqual(self.rows()[0]["sandboxes"], 3)
        mine = self.user.rpc("daemon.info")
        self.assertEqual(mine["owned"]["sandboxes"], {"used": 2, "limit": 2})
        self.assertNotIn("owners", mine)
        theirs = self.root.rpc("daemon.info")
        self.assertEqual((theirs["owned"]["sandboxes"], theirs["owners_left_off"]), ({"used": 3, "limit": None}, 0))
        r = ctl(self.daemon.socket, "create", "d", module("tally"), uid=OTHER_UID)
        self.assertNotEqual(r.status, 0)
        self.assertIn("max_sandboxes_per_owner", r.err)
        self.user.destroy("a")
        self.user.create("d", module("tally"))

    def test_memory_of_what_is_up(self):
        self.begin(max_memory=256 * MIB)
        for n in ("a", "b"):
            self.user.create(n, module("tally"))  # 128 MiB each, if nothing is said
        self.refused("max_memory_per_owner", self.user.create, "c", module("tally"), limits={"max_memory": MIB})
        self.user.rpc("sandbox.stop", id="a")
        self.assertEqual(self.rows()[OTHER_UID]["memory"], 128 * MIB)
        self.user.create("c", module("tally"), limits={"max_memory": 64 * MIB})
        self.refused("max_memory_per_owner", self.user.rpc, "sandbox.start", id="a")
        self.refused("max_memory_per_owner", self.user.rpc, "sandbox.restart", id="a")
        self.user.rpc("sandbox.restart", id="b")  # up already: it adds nothing
        self.root.rpc("sandbox.start", id="a")  # an administrator may
        self.assertEqual(self.rows()[OTHER_UID]["memory"], 320 * MIB)
        self.user.rpc("sandbox.restart", id="b")  # beyond its limit, and still it adds nothing
        os.kill(self.user.info("a")["pid"], signal.SIGKILL)  # a restart by policy is no request
        wait_for(lambda: (lambda i: (i["status"], i["restart_count"]) == ("running", 1))(self.user.info("a")), "the restart")
        self.assertEqual(self.rows()[OTHER_UID]["memory"], 320 * MIB)

    def test_memory_of_a_group(self):
        self.begin(max_memory=192 * MIB)
        self.user.rpc("group.create", id="g")
        self.user.create("a", module("tally"), group="g")
        self.user.rpc("group.stop", id="g")
        self.assertEqual(self.rows()[OTHER_UID]["memory"], 0)
        self.user.create("lone", module("tally"))
        self.refused("max_memory_per_owner", self.user.rpc, "group.start", id="g")
        self.refused("max_memory_per_owner", self.user.rpc, "group.restart", id="g")
        self.user.rpc("sandbox.stop", id="lone")
        self.user.rpc("group.start", id="g")
        self.assertEqual(self.rows()[OTHER_UID]["memory"], 128 * MIB)
        self.refused("max_memory_per_owner", self.user.rpc, "group.add", id="g", sandbox="lone")

    def test_store_bytes(self):
        self.begin(max_store_bytes=SIZE["tally"] + SIZE["tally_v2"] - 1)
        self.user.create("a", module("tally"), probation_ms=0)
        self.assertEqual(self.rows()[OTHER_UID]["store_bytes"], SIZE["tally"])
        key = "max_store_bytes_per_owner"
        self.refused(key, self.user.reload, "a", module("tally_v2"))
        self.refused(key, self.user.create, "b", module("tally_v2"))
        self.refused(key, self.user.create, "b", module("tally_v2"), persist=False)  # what lies in memory counts too
        self.refused(key, self.user.rpc, "state.check", id="a", object=self.user.put(read(module("tally_v2"))))
        self.assertEqual(self.user.call("a", "increment", by=2), {"count": 2})  # the version before serves on
        self.assertEqual(self.user.info("a")["version"], 1)
        self.root.reload("a", module("tally_v2"))
        self.assertEqual(self.rows()[OTHER_UID]["store_bytes"], SIZE["tally"] + SIZE["tally_v2"])
        self.assertEqual(self.user.rpc("sandbox.rollback", id="a")["to"], 1)  # it has both: nothing grows
        self.assertTrue(self.user.rpc("sandbox.stop", id="a")["state_kept"])  # a state that is saved is never refused
        self.assertGreater(self.rows()[OTHER_UID]["store_bytes"], SIZE["tally"] + SIZE["tally_v2"])
        self.user.destroy("a")
        self.assertNotIn(OTHER_UID, self.rows())

    def test_jobs(self):
        self.begin(max_jobs=1)
        self.user.create("a", module("tally"))
        endless = self.user.put(ENDLESS)
        slow = self.user.request("sandbox.create", id="slow", source=endless, source_name="endless.c", compile_timeout_ms=30000)
        wait_for(lambda: [os.kill(int(p.split()[0]), signal.SIGSTOP) for p in self.daemon.tree() if p.split()[1] == "cc1"], "the compiler, to stop it")
        self.assertEqual(self.rows()[OTHER_UID]["jobs"], 1)
        for method, sandbox in (("sandbox.create", "b"), ("sandbox.reload", "a"), ("state.check", "a")):
            self.refused("max_jobs_per_owner", self.user.rpc, method, id=sandbox, source=endless, source_name="endless.c")
        self.user.create("c", module("tally"))  # needs no job
        self.user.rpc("sandbox.destroy", id="slow")
        with self.assertRaises(RpcError):
            self.user.result(slow)
        wait_for(lambda: self.rows()[OTHER_UID]["jobs"] == 0, "the end of the job")
        with self.assertRaises(RpcError) as caught:  # there is room again
            self.user.rpc("sandbox.create", id="b", source=self.user.put(b"int broken(void) { return nonsense; }\n"), source_name="b.c")
        self.assertEqual(caught.exception.code, "compilation_failed")
        self.assertEqual(self.rows()[OTHER_UID]["jobs"], 0)

    def recount(self):
        """From what each sandbox says of itself."""
        rows = {}
        for s in self.root.rpc("sandbox.list")["sandboxes"]:
            info = self.root.info(s["id"])
            row = rows.setdefault(info["owner"], {"sandboxes": 0, "memory": 0, "store_bytes": 0, "jobs": 0})
            row["sandboxes"] += 1
            row["memory"] += info["limits"]["max_memory"] if info["status"] not in ("stopped", "failed") else 0
            row["store_bytes"] += sum(v["bytes"] for v in info["versions"])
        return rows

    def agree(self):
        """The owners' rows; of store bytes, which have the states in them, the sum of all is that of the objects and of the files of states."""
        folder = os.path.join(self.daemon.state, "states")

        def do():
            seen, truth = self.rows(), self.recount()
            states = sum(row.pop("store_bytes") for row in seen.values()) - sum(row.pop("store_bytes") for row in truth.values())
            with contextlib.suppress(FileNotFoundError):  # being removed just now
                return seen == truth and states == sum(os.path.getsize(os.path.join(folder, n)) for n in
                                                             (os.listdir(folder) if os.path.isdir(folder) else []))
            return False

        wait_for(do, "totals and recount to agree")

    def change(self, client, sandbox, number):
        what = random.choice(("create", "create", "reload", "rollback", "stop", "start", "restart", "restart", "destroy", "kill"))
        if what == "create":
            client.create(sandbox, module(random.choice(("tally", "tally_v2"))), limits={"max_memory": random.choice((64, 128)) * MIB}, probation_ms=0)
        elif what == "reload":
            client.reload(sandbox, module(random.choice(("tally", "tally_v2"))))
        elif what == "kill":
            os.kill(client.info(sandbox)["pid"] or 0x7fffffff, signal.SIGKILL)
        else:
            client.rpc("sandbox." + what, id=sandbox)
        with contextlib.suppress(RpcError):  # each state differs, so that each has a file of its own
            client.call(sandbox, "increment", by=1 << number)

    def test_recount(self):
        """Anything, in any order, with kills of control and a restart of the daemon in between."""
        self.begin(max_sandboxes=3, max_memory=300 * MIB, max_store_bytes=100 * MIB)
        random.seed(7)
        for step in range(60):
            with contextlib.suppress(RpcError, ProcessLookupError):
                self.change(random.choice((self.user, self.other, self.root)), "s%d" % random.randrange(5), step)
            if step % 10 == 5:
                self.agree()
            if step % 20 == 15:
                self.daemon.kill_control()
            elif step == 39:
                self.assertEqual(self.daemon.terminate(), 0)
                self.daemon.start()
            if step % 20 == 15 or step == 39:
                self.disconnect()
                self.connect()
                self.agree()
        self.agree()
        self.assertTrue(self.rows())

    def test_lowered_limits(self):
        """What was there before a limit was lowered comes back, is counted, and blocks what is new."""
        self.begin()
        for n in ("a", "b"):
            self.user.create(n, module("tally"))
        self.assertEqual(self.daemon.terminate(), 0)
        with open(os.path.join(self.daemon.folder, "conf"), "a") as f:
            f.write("max_sandboxes_per_owner = 1\nmax_memory_per_owner = 1\n")
        self.daemon.start()
        self.disconnect()
        self.connect()
        wait_for(lambda: [self.user.status(n) for n in ("a", "b")] == ["running"] * 2, "both to come back")
        self.assertEqual(self.user.rpc("daemon.info")["owned"]["memory"], {"used": 256 * MIB, "limit": 1})
        self.refused("max_sandboxes_per_owner", self.user.create, "c", module("tally"))

    def test_a_limit_of_0_is_none(self):
        self.begin(max_sandboxes=0, max_memory=0, max_store_bytes=0, max_jobs=0)
        self.user.create("a", module("tally"))
        self.user.create("b", module("tally"))
        self.assertEqual({k: v["limit"] for k, v in self.user.rpc("daemon.info")["owned"].items()},
                         dict.fromkeys(("sandboxes", "memory", "store_bytes", "jobs")))


if __name__ == "__main__":
    main()
