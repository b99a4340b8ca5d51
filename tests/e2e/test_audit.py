#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The audit trail: what is refused becomes a record of who asked for what; who may read it; that it lasts."""
import os

from harness import COUNTER1, COUNTER2, Case, OwnCase, RpcError, main, module, needs_root


class Audit(Case):
    config = "operators = *\nsocket_mode = 0666\nmax_processes = 50\nmax_sandboxes = 5\n"

    def records(self, kind=None, client=None, **params):
        found = (client or self.client).rpc("audit.read", limit=1000, since_seq=self.since, **params)["events"]
        return [r for r in found if kind is None or r["type"] == kind]

    def setUp(self):
        super().setUp()
        page = self.client.rpc("audit.read", limit=1, newest=True)
        self.since = page["events"][-1]["seq"] if page["events"] else None
        if self.since is None:
            self.records = lambda kind=None, client=None, **params: [
                r for r in (client or self.client).rpc("audit.read", limit=1000, **params)["events"] if kind is None or r["type"] == kind]

    def one(self, kind):
        found = self.records(kind)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_a_ceiling(self):
        self.refused("denied", self.client.create, "y", COUNTER1, limits={"max_processes": 51})
        r = self.one("denied.right")
        self.assertEqual((r["method"], r["uid"], r["code"], r["asked"]), ("sandbox.create", os.geteuid(), "denied", "y"))
        self.assertIsNone(r["sandbox"])

    def test_a_limit(self):
        for i in range(5):
            self.client.create("x%d" % i, COUNTER1)
        self.refused("limit_exceeded", self.client.create, "y", COUNTER1)
        self.assertEqual(self.one("denied.limit")["code"], "limit_exceeded")

    def test_forbidden_calls(self):
        """What the module did, under its owner's name."""
        c = self.client
        c.create("x", module("refused"))
        c.call("x", "call", what="unshare")
        self.wait_event("x", "sandbox.denied")
        r = self.one("denied.call")
        self.assertEqual((r["sandbox"], r["call"], r["operation"], r["answer"], r["version"]), ("x", "unshare", "namespaces", "EPERM", 1))
        c.create("y", module("refused"), profile="high")
        self.refused("crashed", c.call, "y", "call", what="ptrace")
        self.wait_event("y", "sandbox.denied")
        self.assertEqual([(r["call"], r["answer"]) for r in self.records("denied.call", sandbox="y")], [("ptrace", "killed")])

    def test_an_object(self):
        with self.assertRaises(RpcError):
            self.client.create("x", b"\x7fELF nonsense")
        self.assertEqual(self.one("denied.object")["code"], "bad_image")

    def test_a_reload(self):
        c = self.client
        c.create("x", module("tally"))
        self.refused("reload_failed", c.reload, "x", module("fail_check"))
        r = self.one("denied.reload")
        self.assertEqual((r["sandbox"], r["version"], r["method"], r["code"]), ("x", 1, "sandbox.reload", "reload_failed"))

    def test_strict(self):
        self.refused("strict_refused", self.client.create, "x", COUNTER1, strict=True)
        self.assertEqual(self.one("denied.strict")["method"], "sandbox.create")

    def test_changes_under_full_audit_only(self):
        c = self.client
        c.create("x", COUNTER1)
        c.rpc("sandbox.restart", id="x")
        self.assertEqual(self.records("changed"), [])
        c.create("y", COUNTER1, profile="high")
        c.call("y", "increment")
        c.reload("y", COUNTER2)
        c.rpc("sandbox.stop", id="y")
        seen = [(r["method"], r["sandbox"], r["uid"]) for r in self.records("changed")]
        uid = os.geteuid()
        self.assertEqual(seen, [("sandbox.create", "y", uid), ("sandbox.reload", "y", uid), ("sandbox.stop", "y", uid)])

    def test_followed(self):
        c, other = self.client, self.daemon.client()
        self.addCleanup(other.close)
        other.rpc("audit.read", follow=True, limit=0)
        with self.assertRaises(RpcError):
            c.create("x", b"no object at all")
        said = other.line()
        self.assertIn(b'"method":"audit"', said)
        self.assertIn(b"denied.object", said)

    def test_bad_requests(self):
        self.refused("bad_param", self.client.rpc, "audit.read", since_seq="yesterday")
        self.refused("bad_param", self.client.rpc, "audit.read", limit=1001)
        self.refused("unknown_param", self.client.rpc, "audit.read", who="me")

    def test_shown(self):
        with self.assertRaises(RpcError):
            self.client.create("x", b"no object at all")
        out = self.ctl("audit", "--type", "denied.object").out
        self.assertIn("denied.object", out)
        self.assertIn("code=bad_image", out)

    @needs_root()
    def test_other_users(self):
        """Who asks for what is another's is told not_found, and it is a record that the owner can read; rights likewise, for administrators."""
        self.client.create("x", COUNTER1)
        r = self.ctl("info", "x", uid=4242)
        self.assertEqual(r.status, 3)
        seen = self.one("denied.owner")
        self.assertEqual((seen["sandbox"], seen["uid"], seen["method"]), ("x", 4242, "sandbox.info"))
        self.assertEqual(self.ctl("info", "nothing", uid=4242).status, 3)  # that isn't there for anybody
        self.assertEqual(len(self.records("denied.owner")), 1)
        self.assertEqual(self.ctl("shutdown", uid=4242).status, 7)
        seen = self.one("denied.right")
        self.assertEqual((seen["method"], seen["uid"]), ("daemon.shutdown", 4242))
        self.assertEqual(self.ctl("audit", uid=4242).out, "")  # neither is about a sandbox of its own

    @needs_root()
    def test_a_flood_of_one_user(self):
        c = self.client
        c.create("x", COUNTER1)
        for _ in range(40):  # 40 * 14 requests
            self.ctl("info", "x", uid=4243)
        with self.assertRaises(RpcError):
            c.create("y", b"no object at all")
        self.assertEqual(len(self.records("denied.owner", type="denied.owner")), 40)
        self.assertEqual(len(self.records("denied.object")), 1)


class Lasting(OwnCase):
    def test_over_kills_and_restarts(self):
        d = self.own_daemon()
        with d.client() as c:
            with self.assertRaises(RpcError):
                c.create("x", b"no object at all")
            before = c.rpc("audit.read")["events"]
            self.assertEqual(len(before), 1)
        d.kill_control()
        with d.client() as c:
            self.assertEqual(c.rpc("audit.read")["events"], before)
        self.assertEqual(d.terminate(), 0)
        d.start()
        with d.client() as c:
            self.assertEqual(c.rpc("audit.read")["events"], before)
        self.assertTrue([n for n in os.listdir(os.path.join(d.state, "audit")) if n.endswith(".events")])


if __name__ == "__main__":
    main()
