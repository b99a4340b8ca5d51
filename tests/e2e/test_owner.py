#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who may do what: a sandbox belongs to the user who created it; for others it isn't there. Strangers are denied."""
import contextlib
import os
import unittest

from harness import COUNTER1, COUNTER2, IS_ROOT, OTHER_UID, THIRD_UID, Case, Client, RpcError, ctl, main, module, read, thread_held, wait_for

STRANGER_UID = 54399
CONFIG = "socket_mode = 0666\noperators = %d, %d\n" % (OTHER_UID, THIRD_UID)


@contextlib.contextmanager
def client_of(socket_path, uid):
    os.seteuid(uid)
    try:
        c = Client(socket_path)
    finally:
        os.seteuid(0)
    with c:
        yield c


@unittest.skipUnless(IS_ROOT, "clients of other users are needed, and only root can be another user")
class Owner(Case):
    config = CONFIG

    def as_user(self, uid, *args):
        r = ctl(self.daemon.socket, *args, uid=uid)
        self.daemon.look()
        return r

    def done(self, uid, *args):
        r = self.as_user(uid, *args)
        self.assertEqual(r.status, 0, (uid, args, r.err))
        return r

    def code(self, uid, *args):
        r = self.as_user(uid, *args, "--json")
        self.assertNotEqual(r.status, 0, (uid, args, r.out))
        return r.status, r.json()["error"]["data"]["code"]

    def test_someone_elses_sandbox_is_not_there(self):
        self.done(OTHER_UID, "create", "mine", COUNTER1)
        self.done(OTHER_UID, "call", "mine", "increment", "by=3")
        self.assertEqual(self.client.info("mine")["owner"], OTHER_UID)
        for args in (["info", "mine"], ["call", "mine", "get"], ["stop", "mine"], ["start", "mine"], ["restart", "mine"],
                     ["destroy", "mine"], ["reload", "mine", COUNTER2], ["rollback", "mine"], ["versions", "mine"], ["logs", "mine"]):
            self.assertEqual(self.code(THIRD_UID, *args), (3, "not_found"), args)
            self.assertEqual(self.as_user(THIRD_UID, *args).err.replace("mine", "none"),
                             self.as_user(THIRD_UID, *[a.replace("mine", "none") for a in args]).err, "it must look as if it weren't there")
        self.assertEqual(self.done(THIRD_UID, "list", "--json").json()["sandboxes"], [])
        self.assertNotIn("mine", self.done(THIRD_UID, "events").out)
        self.assertNotIn("mine", self.done(THIRD_UID, "events", "--sandbox", "mine").out)
        self.assertIn("mine", self.done(OTHER_UID, "events").out)
        self.assertEqual(self.done(OTHER_UID, "call", "mine", "get").out, '{"count":3}\n')  # nothing happened to it
        self.assertEqual(self.done(0, "call", "mine", "get").out, '{"count":3}\n')  # root sees all

    def test_a_late_placement_reaches_no_other_owner(self):
        """Its object is still to be written into its folder when it is destroyed: its id is free only when that can't happen any more."""
        control = self.daemon.control_pid()
        storage = [t for t in map(int, os.listdir("/proc/%d/task" % control)) if t != control]
        self.assertEqual(len(storage), 1, "control has one thread more: the storage thread")
        folder = os.path.join(self.daemon.runtime, "objects", "x")
        with client_of(self.daemon.socket, OTHER_UID) as a, client_of(self.daemon.socket, OTHER_UID) as a2, client_of(self.daemon.socket, THIRD_UID) as b:
            secret, theirs = a.put(read(COUNTER2)), b.put(read(COUNTER1))
            with thread_held(storage[0]):
                create = a.request("sandbox.create", id="x", object=secret, persist=False)
                wait_for(self.daemon.hosts, "its process")
                destroy = a2.request("sandbox.destroy", id="x")
                wait_for(lambda: not self.daemon.hosts(), "the end of its process")
                with self.assertRaisesRegex(AssertionError, "no line came", msg="destroyed while its object is still to be written"):
                    a2.reply(destroy, timeout=1)
                self.assertEqual(b.reply(b.request("sandbox.create", id="x", object=theirs, persist=False))["error"]["data"]["code"], "already_exists")
            a2.result(destroy)
            self.assertIn("error", a.reply(create))
            b.rpc("sandbox.create", id="x", object=theirs, persist=False)
            self.assertEqual({read(os.path.join(folder, n)) for n in os.listdir(folder)}, {read(COUNTER1)})
            self.assertEqual(b.call("x", "get"), {"count": 0})
            b.destroy("x")

    def test_events_of_groups_are_their_owners(self):
        def told(uid, **filters):
            options = [x for k, v in filters.items() for x in ("--" + k, v)]
            events = self.done(uid, "events", "--json", *options).json()["events"]
            return [(e["type"], e["group"]) for e in events if e["type"].startswith("group.")]

        self.done(OTHER_UID, "group", "create", "team", "--intensity", "0")
        self.done(THIRD_UID, "group", "create", "theirs")
        self.done(0, "group", "create", "ours")
        self.done(OTHER_UID, "create", "member", COUNTER1, "--group", "team")
        self.kill_host("member")
        wait_for(lambda: ("group.failed", "team") in told(OTHER_UID), "the group's end to be told to its owner")
        mine = ["group.created", "group.up", "group.restart", "group.gave_up", "group.ending", "group.failed"]
        self.assertEqual(told(OTHER_UID), [(t, "team") for t in mine])
        self.assertEqual(told(OTHER_UID, type="group.failed"), [("group.failed", "team")])
        self.assertEqual(told(THIRD_UID), [("group.created", "theirs"), ("group.up", "theirs")])
        self.assertEqual({g for _, g in told(0)}, {"team", "theirs", "ours"})
        self.daemon.kill_control()  # from files now
        self.assertEqual(told(OTHER_UID)[:len(mine)], [(t, "team") for t in mine])
        self.assertNotIn("team", [g for _, g in told(THIRD_UID)])
        for uid, group in ((THIRD_UID, "theirs"), (0, "ours")):
            self.done(uid, "group", "destroy", group)
        self.done(OTHER_UID, "destroy", "member")
        self.done(OTHER_UID, "group", "destroy", "team")

    def test_operator_sees_its_own_only(self):
        self.done(OTHER_UID, "create", "a", COUNTER1)
        self.done(THIRD_UID, "create", "b", COUNTER1)
        self.client.create("c", COUNTER1)
        self.assertEqual(self.done(OTHER_UID, "list", "--quiet").out, "a\n")
        self.assertEqual(self.done(THIRD_UID, "list", "--quiet").out, "b\n")
        self.assertEqual(self.done(0, "list", "--quiet").out, "a\nb\nc\n")
        self.assertEqual(self.code(THIRD_UID, "create", "a", COUNTER1)[0], 4)  # the id is taken, whoever has it
        self.done(OTHER_UID, "reload", "a", COUNTER2)
        self.done(OTHER_UID, "stop", "a")
        self.done(OTHER_UID, "destroy", "a")

    def test_operators_may_not_administrate(self):
        self.assertEqual(self.code(OTHER_UID, "shutdown"), (7, "denied"))
        self.assertEqual(self.code(OTHER_UID, "create", "a", COUNTER1, "--profile", "low"), (7, "denied"))
        self.assertEqual(self.client.ids(), [])
        info = self.done(OTHER_UID, "daemon-info", "--json").json()
        self.assertEqual((info["uid"], info["right"]), (OTHER_UID, "operator"))
        self.assert_healthy()

    def test_strangers_are_denied(self):
        self.client.create("c", COUNTER1)
        for args in (["create", "x", COUNTER1], ["info", "c"], ["call", "c", "get"], ["destroy", "c"], ["logs", "c"], ["shutdown"],
                     ["stop", "c"], ["reload", "c", COUNTER2], ["versions", "c"]):
            self.assertEqual(self.code(STRANGER_UID, *args), (7, "denied"), args)
        self.assertEqual(self.done(STRANGER_UID, "list", "--json").json()["sandboxes"], [])
        self.assertNotIn("c", [line.split()[-1] for line in self.done(STRANGER_UID, "events", "--quiet").out.splitlines()])
        self.done(STRANGER_UID, "ping")
        self.assertEqual(self.client.ids(), ["c"])

    def test_owner_survives_a_new_control(self):
        self.done(OTHER_UID, "create", "a", module("tally"))
        self.daemon.kill_control()
        self.assertEqual(self.done(OTHER_UID, "list", "--quiet").out, "a\n")
        self.assertEqual(self.done(THIRD_UID, "list", "--quiet").out, "")
        self.assertEqual(self.code(THIRD_UID, "call", "a", "get"), (3, "not_found"))

    def test_the_client_reads_files_with_its_own_rights(self):
        secret = os.path.join(self.daemon.folder, "state", "secret.so")
        os.makedirs(os.path.dirname(secret), exist_ok=True)
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(b"secret")
        r = self.as_user(OTHER_UID, "create", "x", secret)
        self.assertEqual(r.status, 8, r.err)
        self.assertIn("Permission denied", r.err)


@unittest.skipUnless(IS_ROOT, "clients of other users are needed, and only root can be another user")
class Default(Case):
    def test_without_configuration_the_socket_is_closed_to_others(self):
        r = ctl(self.daemon.socket, "ping", uid=OTHER_UID)
        self.assertIn(r.status, (6, 7), r.err)
        self.assertIn("ermission", r.err)


@unittest.skipUnless(IS_ROOT, "a host has a uid of its own only when sandboxd is root")
class Uids(Case):
    def uids(self, pid):
        with open("/proc/%d/status" % pid) as f:
            return f.read().split("Uid:")[1].split("\n")[0].split()

    def test_no_module_code_as_root(self):
        self.client.create("a", COUNTER1)
        self.client.create("b", COUNTER1)
        a, b = (self.uids(self.client.info(n)["pid"]) for n in ("a", "b"))
        control = self.uids(self.client.rpc("daemon.info")["control_pid"])
        for four in (a, b, control):
            self.assertEqual(len(set(four)), 1, four)
        self.assertEqual(len({a[0], b[0], control[0], "0"}), 4)

    def test_none_is_left(self):
        """What can't get a user id is refused, and gives none back that it never had: nobody runs as root then."""
        first = 1800000000 + 512 * (os.getpid() % 100000)  # of no other daemon's
        for spares in (0, 4):
            own = self.own_daemon(config="uid_first = %d\nuid_count = 256\nspare_hosts = %d\n" % (first + 256 * bool(spares), spares))
            with own.client() as c:
                refused, n = [], 0
                while not refused and n < 256:
                    refused = self.refusal(c.create, "s%d" % n, COUNTER1, persist=False)
                    n += 1
                self.assertTrue(refused, "every user id was used twice")
                for _ in range(3):
                    self.assertTrue(self.refusal(c.reload, "s0", COUNTER2, mode="replace"))
                    self.assertTrue(self.refusal(c.create, "more", COUNTER1, persist=False))
                hosts = [self.uids(p) for p in own.hosts()]
                self.assertEqual([u for u in hosts if "0" in u], [])
                c.destroy("s1")
                c.create("more", COUNTER1, persist=False)
                self.assertNotIn("0", self.uids(c.info("more")["pid"]))

    def refusal(self, f, *args, **params):
        try:
            f(*args, **params)
        except RpcError as e:
            return [e.code]
        return []


class Own(Case):
    def test_whoever_started_it_administrates(self):
        info = self.client.rpc("daemon.info")
        self.assertEqual((info["rootless"], info["right"], info["uid"]), (not IS_ROOT, "admin", os.geteuid()))


if __name__ == "__main__":
    main()
