#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Limits that are told, and enforced on all processes of a sandbox together where there are no cgroups: as root and as an ordinary user."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "attacks"))
import world  # noqa: E402
from harness import COUNTER1, COUNTER2, DEADLINE_S, IS_ROOT, OwnCase, RpcError, main, module, wait_for  # noqa: E402

MIB = 1 << 20
ROOT_AND_USER = [False, True] if IS_ROOT else [True]


class Limits(OwnCase):
    def each_daemon(self):
        """A client of root's daemon, and one of an ordinary user's."""
        clients = []
        for rootless in ROOT_AND_USER:
            self.daemons.append(world.AttackDaemon(rootless))
            clients.append(self.daemons[-1].client())
            self.addCleanup(clients[-1].close)
        return clients

    def told(self, c, sandbox, kind, limit, count=1):
        """The events of this kind about one limit, when there are that many."""
        def enough():
            found = [e for e in c.events(sandbox) if e["type"] == "sandbox.limit_" + kind and e["limit"] == limit]
            return found if len(found) >= count else None

        return wait_for(enough, "%d times %s of %s" % (count, kind, limit))

    def count(self, c, sandbox, kind):
        return len([e for e in c.events(sandbox) if e["type"] == "sandbox.limit_" + kind])

    def seen_again(self, c, sandbox):
        """Until it was looked at once more than what was done before: a crossing of another limit shows that."""
        before = len([e for e in c.events(sandbox) if e["type"] == "sandbox.limit_warning" and e["limit"] == "max_open_files"])
        c.call(sandbox, "files", n=0)
        wait_for(lambda: c.rpc("sandbox.usage", id=sandbox)["percent"]["open_files"] < 50, "closed files")
        while len([e for e in c.events(sandbox) if e["type"] == "sandbox.limit_warning" and e["limit"] == "max_open_files"]) == before:
            c.call(sandbox, "files", n=0)
            c.call(sandbox, "files", n=54)

    def test_memory_is_warned_of_once(self):
        for c in self.each_daemon():
            c.create("x", module("hog"), limits={"max_memory": 40 * MIB})
            c.call("x", "keep", mib=34)
            event = self.told(c, "x", "warning", "max_memory")[0]
            self.assertEqual(event["max"], 40 * MIB)
            self.assertTrue(32 * MIB <= event["used"] <= 40 * MIB and 80 <= event["percent"] < 100, event)
            self.assertTrue(85 <= c.rpc("sandbox.usage", id="x")["percent"]["memory"] < 100)
            self.seen_again(c, "x")
            self.assertEqual(len(self.told(c, "x", "warning", "max_memory")), 1)
            c.call("x", "give_back")
            self.seen_again(c, "x")
            c.call("x", "keep", mib=35)
            self.told(c, "x", "warning", "max_memory", 2)
            self.assertEqual((self.count(c, "x", "exceeded"), c.info("x")["restart_count"]), (0, 0))

    def test_memory_of_all_processes(self):
        """Each has less than the limit, together they have more: the sandbox is killed, once, and for that."""
        for c in self.each_daemon():
            for name, shared in (("x", False), ("y", True)):
                c.create(name, module("hog"), limits={"max_memory": 32 * MIB}, intensity=5)
                c.create("other" + name, COUNTER1)
                others = c.info("other" + name)["pid"]
                pid = c.info(name)["pid"]
                try:
                    if shared:
                        c.call(name, "keep", mib=48, shared=True)
                    else:
                        c.call(name, "crowd", n=4, mib=12)
                except RpcError as e:
                    self.assertEqual(e.code, "crashed")
                last = wait_for(lambda n=name: c.info(n)["last_exit"], "its end")
                self.assertEqual((last["reason"], last["class"]), ("oom", "error"), last)
                self.assertIn("max_memory (32 MiB)", last["text"])
                wait_for(lambda n=name, p=pid: (lambda i: i["status"] == "running" and i["pid"] != p)(c.info(n)), "its restart")
                info = c.info(name)
                self.assertEqual((info["restart_count"], info["budget"]["used"]), (1, 1))
                self.assertEqual(c.info("other" + name)["pid"], others)
                exceeded = self.told(c, name, "exceeded", "max_memory")
                self.assertEqual(([e["killed"] for e in exceeded], exceeded[0]["generation"]), ([True], last["generation"]))
                records = [r for r in c.rpc("audit.read", sandbox=name)["events"] if r["type"] == "denied.limit"]
                self.assertEqual([r["limit"] for r in records], ["max_memory"])

    def test_what_is_within_stays(self):
        """Children that share what their host has, and copies that a reload, state.get and state.check make, don't count."""
        for c in self.each_daemon():
            c.create("x", module("hog"), limits={"max_memory": 64 * MIB})
            c.call("x", "crowd", n=20, mib=0)
            c.call("x", "keep", mib=40)
            for _ in range(5):
                c.rpc("state.get", id="x")
                self.assertTrue(c.rpc("state.check", id="x")["same"])
            self.seen_again(c, "x")
            self.assertEqual((c.info("x")["restart_count"], self.count(c, "x", "exceeded")), (0, 0))

    def test_copies_are_no_excuse(self):
        """A question about its state that waits behind a call: while it does, what is beyond any copies is too much."""
        for c in self.each_daemon():
            daemon = [d for d in self.daemons if d.socket == c.socket.getpeername()][0]
            c.create("x", module("hog"), limits={"max_memory": 32 * MIB}, restart="temporary")
            with daemon.client() as other, daemon.client() as third:
                for function, args in (("spin", {"ms": 300}), ("keep", {"mib": 160, "shared": True}), ("spin", {"ms": 120000})):
                    other.request("sandbox.call", id="x", function=function, args=args)
                wait_for(lambda: c.info("x")["queue"]["running"] >= 3, "calls that were sent")
                third.request("state.get", id="x")
                last = wait_for(lambda: c.info("x")["last_exit"], "its end")
            self.assertEqual(last["reason"], "oom", last)

    def test_lower_limit_is_enforced(self):
        """update with force below what is used: killed for it, whatever the kernel lets its process have."""
        for c in self.each_daemon():
            c.create("x", module("hog"), restart="temporary")
            c.call("x", "keep", mib=40, shared=True)
            c.rpc("sandbox.update", id="x", limits={"max_memory": 16 * MIB}, force=True)
            last = wait_for(lambda: c.info("x")["last_exit"], "its end")
            self.assertEqual(last["reason"], "oom", last)

    def test_processes(self):
        for c in self.each_daemon():
            c.create("x", module("hog"), limits={"max_processes": 20})
            self.assertEqual(c.call("x", "crowd", n=16, mib=0)["children"], 16)
            self.assertIn(self.told(c, "x", "warning", "max_processes")[0]["used"], (17, 18))
            c.call("x", "crowd", n=400, mib=0)
            event = self.told(c, "x", "exceeded", "max_processes")[0]
            self.assertEqual((event["killed"], event["max"]), (False, 20))
            self.assertEqual(self.count(c, "x", "warning"), 1)
            self.assertEqual(c.info("x")["restart_count"], 0)

    def test_open_files(self):
        for c in self.each_daemon():
            c.create("x", module("hog"))
            if c.rpc("sandbox.usage", id="x")["open_files"] is None:
                self.skipTest("this kernel doesn't tell how many files are open")
            c.call("x", "files", n=52)
            event = self.told(c, "x", "warning", "max_open_files")[0]
            self.assertTrue(52 <= event["used"] < 64 and event["max"] == 64, event)
            c.call("x", "files", n=500)
            self.assertEqual(self.told(c, "x", "exceeded", "max_open_files")[0]["percent"], 100)

    def fill_queue(self, daemon, asked):
        """More calls than a host takes and its queue holds, behind a long one; returns those that the connections wait for."""
        for _ in range(4):
            mine = daemon.client()
            self.addCleanup(mine.close)
            asked += [(mine, mine.request("sandbox.call", id="x", function="sleep", args={"ms": 1 if asked or i else 1000})) for i in range(24)]

    def drain_queue(self, asked):
        for client, request in asked:
            try:
                client.result(request)
            except RpcError as e:
                self.assertEqual(e.code, "busy")

    def test_queue(self):
        for c in self.each_daemon():
            daemon = [d for d in self.daemons if d.socket == c.socket.getpeername()][0]
            c.create("x", module("sleeper"), max_queue=10)
            for times in (1, 2):
                asked = []
                self.fill_queue(daemon, asked)
                self.assertEqual(self.told(c, "x", "exceeded", "max_queue", times)[-1]["max"], 10)
                self.drain_queue(asked)
            self.assertEqual((self.count(c, "x", "warning"), self.count(c, "x", "exceeded")), (2, 2))

    def test_time(self):
        for c in self.each_daemon():
            c.create("x", module("hog"), max_execution_ms=100, restart="temporary")
            try:
                c.call("x", "spin", ms=60000)
            except RpcError as e:
                self.assertEqual(e.code, "crashed")
            self.assertEqual(wait_for(lambda: c.info("x")["last_exit"], "its end")["reason"], "time")
            self.assertEqual([e["killed"] for e in self.told(c, "x", "exceeded", "max_execution_ms")], [True])

    def test_over_a_kill_of_control(self):
        """Its successor looks too."""
        daemon = world.AttackDaemon(not IS_ROOT)
        self.daemons.append(daemon)
        with daemon.client() as c:
            c.create("x", module("hog"), limits={"max_memory": 32 * MIB}, restart="temporary")
            c.create("y", COUNTER1)
        daemon.kill_control()
        with daemon.client() as c:
            c.reload("y", COUNTER2)
            try:
                c.call("x", "keep", mib=48, shared=True)
            except RpcError as e:
                self.assertEqual(e.code, "crashed")
            self.assertEqual(wait_for(lambda: c.info("x")["last_exit"], "its end")["reason"], "oom")


if __name__ == "__main__":
    main()
