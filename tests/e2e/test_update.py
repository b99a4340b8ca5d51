#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""update: what was asked for is changed, all of it or nothing; what its process has at once and what waits for the next one, as root and as a user."""
import json
import os
import re
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "attacks"))
import world  # noqa: E402
from harness import COUNTER1, IS_ROOT, OTHER_UID, Case, OwnCase, RpcError, ctl, main, module, needs_root, wait_for  # noqa: E402

MIB = 1 << 20
with open("/proc/self/status") as f:
    CAN_RAISE = int(re.search(r"^CapEff:\s+(\S+)", f.read(), re.M)[1], 16) >> 24 & 1  # CAP_SYS_RESOURCE


def rlimit(pid, name):
    """(soft, hard) as the kernel tells everybody."""
    with open("/proc/%d/limits" % pid) as f:
        return tuple(re.search(r"^%s +(\S+) +(\S+)" % name, f.read(), re.M).groups())


def effects(answer):
    return {c["member"]: c["effect"] for c in answer["changes"]}


class Changes(Case):
    config = "socket_mode = 0666\noperators = *\nmax_processes = 200\nmax_memory_bytes = %d\n" % (512 * MIB)

    def update(self, sandbox="x", **changes):
        return self.client.rpc("sandbox.update", id=sandbox, **changes)

    def test_each_member(self):
        c = self.client
        before = c.create("x", module("hog"), labels={"a": "1"}, config={"n": 1})
        a = self.update(labels={"b": "2"}, config={"n": 2}, profile="high", strict=False, address_space="fresh", restart="transient", intensity=7, period_ms=9000,
                        start_timeout_ms=8000, shutdown_ms=700, max_execution_ms=6000, restart_state="checkpoint", max_queue=5, probation_ms=4000,
                        limits={"max_file_size": 4096})
        self.assertEqual(effects(a), {"labels": "live", "config": "next_start", "profile": "next_start", "address_space": "next_start", "restart": "live",
                                      "intensity": "live", "period_ms": "live", "start_timeout_ms": "live", "shutdown_ms": "live", "max_execution_ms": "live",
                                      "restart_state": "live", "max_queue": "live", "probation_ms": "live", "max_file_size": "live"})
        self.assertEqual(sorted(a["pending"]), ["address_space", "config", "profile"])
        for change in a["changes"]:
            self.assertEqual("why" in change, change["effect"] == "next_start", change)
            self.assertEqual("to" in change, change["member"] not in ("labels", "config"), change)
        info = c.info("x")
        self.assertEqual({k: info[k] for k in ("labels", "config", "profile", "address_space", "restart", "max_execution_ms", "restart_state", "probation_ms")},
                         {"labels": {"b": "2"}, "config": {"n": 2}, "profile": "high", "address_space": "fresh", "restart": "transient",
                          "max_execution_ms": 6000, "restart_state": "checkpoint", "probation_ms": 4000})
        self.assertEqual((info["budget"]["allowed"], info["budget"]["period_ms"], info["queue"]["max"], info["pending"]), (7, 9000, 5, a["pending"]))
        self.assertEqual((info["pid"], info["restart_count"]), (before["pid"], 0))
        self.assertEqual(info["limits"]["max_file_size"], 4096)
        self.assertEqual(rlimit(info["pid"], "Max file size"), ("4096", "4096"))
        self.assertGreaterEqual(info["updated_at"], before["updated_at"])
        event = self.wait_event("x", "sandbox.updated")[0]
        self.assertEqual((event["by"], event["changes"]), (os.geteuid(), a["changes"]))
        again = c.rpc("sandbox.restart", id="x")
        self.assertEqual(again["pending"], [])
        self.assertNotEqual(again["pid"], before["pid"])
        self.assertEqual(self.update(labels={"b": "2"}), {"id": "x", "changes": [], "pending": []})
        self.assertEqual(len([e for e in c.events("x") if e["type"] == "sandbox.updated"]), 1)

    def test_config_of_the_next_init(self):
        c = self.client
        c.create("x", COUNTER1)
        c.call("x", "increment")
        out = self.ctl("update", "x", "--config", '{"a":1}', "--now")
        self.assertEqual(out.status, 0, out.err)
        self.assertIn("config: with the next start", out.out)
        self.assertIn("restarted", out.out)
        self.assertEqual(c.call("x", "get"), {"count": 1})
        self.assertEqual((c.info("x")["config"], c.info("x")["pending"]), ({"a": 1}, []))

    def test_all_or_nothing(self):
        c = self.client
        c.create("x", module("hog"), labels={"a": "1"})
        before = c.info("x")
        bad = [("bad_param", {"limits": {"max_memory": 1}}), ("bad_param", {"limits": {"max_open_files": "many"}}), ("unknown_param", {"limits": {"max_memor": 1 << 20}}),
               ("denied", {"limits": {"max_processes": 201}}), ("denied", {"limits": {"max_memory": 1 << 30}}), ("bad_param", {"limits": []}),
               ("bad_param", {"labels": {"a": 1}}), ("bad_param", {"labels": {"no name": "x"}}), ("bad_param", {"labels": {"l%d" % i: "" for i in range(33)}}),
               ("bad_param", {"config": {"a": "x" * 40000}}), ("bad_param", {"config": "text"}), ("bad_param", {"profile": "none"}), ("bad_param", {"restart": "never"}),
               ("bad_param", {"max_queue": 0}), ("bad_param", {"max_execution_ms": -1}), ("unknown_param", {"owner": 0}), ("unknown_param", {"heartbeat_ms": 5})]
        for code, changes in bad:
            with self.subTest(changes=str(changes)[:60]):
                self.refused(code, self.update, **dict({"max_queue": 7, "labels": {"z": "z"}, "limits": {"max_file_size": 8192}}, **changes))
        self.refused("missing_param", c.rpc, "sandbox.update")
        self.refused("not_found", self.update, "y", max_queue=3)
        after = c.info("x")
        for name in ("labels", "limits", "queue", "config", "updated_at", "profile"):
            self.assertEqual(after[name], before[name])
        self.assertEqual([e for e in c.events("x") if e["type"] == "sandbox.updated"], [])

    def test_a_long_one_survives_control(self):
        c = self.client
        c.create("x", COUNTER1)
        self.assertEqual(self.update(config={"a": "y" * 30000})["pending"], ["config"])
        self.daemon.kill_control()
        with self.daemon.client() as c:
            self.assertEqual((len(c.info("x")["config"]["a"]), c.info("x")["pending"]), (30000, ["config"]))

    def test_below_the_present_use(self):
        c = self.client
        c.create("x", module("hog"))
        c.call("x", "keep", mib=24, shared=True)
        c.call("x", "files", n=30)
        c.call("x", "crowd", n=4, mib=0)
        e = self.refused("wrong_state", self.update, limits={"max_memory": 16 * MIB}, max_queue=9)
        self.assertRegex(str(e), r"has \d+ bytes of memory now")
        self.refused("wrong_state", self.update, limits={"max_processes": 4})
        if c.rpc("sandbox.usage", id="x")["open_files"] is not None:
            self.refused("wrong_state", self.update, limits={"max_open_files": 20})
        self.assertEqual((c.info("x")["limits"]["max_memory"], c.info("x")["queue"]["max"]), (128 * MIB, 1024))
        self.assertEqual(effects(self.update(limits={"max_open_files": 20}, force=True)), {"max_open_files": "live"})
        self.assertEqual(effects(self.update(limits={"max_memory": 64 * MIB})), {"max_memory": "live"})

    def test_one_that_is_down(self):
        c = self.client
        c.create("x", module("hog"))
        c.rpc("sandbox.stop", id="x")
        a = self.update(limits={"max_memory": 32 * MIB}, profile="high", labels={"a": "b"})
        self.assertEqual(effects(a), {"max_memory": "next_start", "profile": "next_start", "labels": "live"})
        self.assertEqual(a["pending"], [])
        info = c.rpc("sandbox.start", id="x")
        self.assertEqual(rlimit(info["pid"], "Max data size")[0], str(32 * MIB))
        self.assertEqual([r["got"] for r in info["security"] if r["by"] == "RLIMIT_DATA"], [str(32 * MIB)])

    def test_in_a_group(self):
        c = self.client
        c.rpc("group.create", id="g")
        c.create("x", COUNTER1, group="g")
        self.refused("wrong_state", self.update, restart="transient", max_queue=3)
        self.assertEqual(effects(self.update(max_queue=3)), {"max_queue": "live"})
        c.destroy("x")
        c.rpc("group.destroy", id="g")

    def test_time_of_the_call_that_runs(self):
        """A call that may run for minutes is ended by a limit that comes later, and one that was to be ended goes on."""
        c = self.client
        c.create("x", module("sleeper"), restart="temporary")
        _, request = self.start_call("x", "sleep", ms=60000, timeout_ms=120000)
        self.assertEqual(effects(self.update(max_execution_ms=100)), {"max_execution_ms": "live"})
        self.wait_event("x", "call.overdue")
        c.rpc("sandbox.destroy", id="x")

    def test_calls_that_wait_stay(self):
        c = self.client
        c.create("x", module("sleeper"))
        other, first = self.start_call("x", "sleep", ms=300)
        waiting = [other.request("sandbox.call", id="x", function="sleep", args={"ms": 1}) for _ in range(20)]
        wait_for(lambda: c.info("x")["queue"]["waiting"] > 0 or c.info("x")["queue"]["done"] > 20, "calls that wait")
        self.update(max_queue=1)
        for request in [first, *waiting]:
            other.result(request)

    def test_beside_a_reload(self):
        """The one is refused while the other is at work, and says so; each works when the other has been answered."""
        c = self.client
        c.create("x", module("sleeper"))
        with open(module("sleeper"), "rb") as f:
            code = f.read()
        self.start_call("x", "sleep", ms=60000)
        with self.daemon.client() as other:
            request = other.request("sandbox.reload", id="x", object=other.put(code + b"\0"), mode="replace", quiesce_timeout_ms=60000)
            wait_for(lambda: any(e["type"] == "reload.begun" for e in c.events("x")), "the reload")
            self.assertIn("a reload of sandbox x is at work", str(self.refused("busy", self.update, max_queue=9)))
            self.kill_host("x")
            with self.assertRaises(RpcError):
                other.result(request)
        self.wait_status("x", "running")
        self.assertEqual(effects(self.update(max_queue=9)), {"max_queue": "live"})
        told, sha256 = [], c.put(code)
        for n in range(30):
            requests = [{"jsonrpc": "2.0", "id": "u%d" % n, "method": "sandbox.update", "params": {"id": "x", "limits": {"max_file_size": 900000 - n}}},
                        {"jsonrpc": "2.0", "id": "r%d" % n, "method": "sandbox.reload", "params": {"id": "x", "object": sha256}}]
            c.send(b"".join(json.dumps(r).encode() + b"\n" for r in requests))
            self.assertEqual(effects(c.result("u%d" % n)), {"max_file_size": "live"})
            try:
                told.append(c.result("r%d" % n)["outcome"])
            except RpcError as e:
                told.append(e.code)
        self.assertLessEqual(set(told), {"busy", "no_change"})
        self.assertIn("busy", told)

    def test_busy_and_destroyed(self):
        """Updates of one sandbox from many connections, beside its end: each is answered."""
        c = self.client
        c.create("x", module("hog"))
        answers = []

        def many(n):
            with self.daemon.client() as mine:
                for i in range(30):
                    try:
                        answers.append(bool(mine.rpc("sandbox.update", id="x", limits={"max_file_size": 1024 * (1 + (i + n) % 9)})["changes"]))
                    except RpcError as e:
                        answers.append(e.code)

        threads = [threading.Thread(target=many, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        wait_for(lambda: len(answers) > 40, "updates")
        c.destroy("x")
        for t in threads:
            t.join()
        self.assertEqual(len(answers), 120)
        self.assertLessEqual(set(answers), {True, False, "busy", "not_found", "wrong_state"})
        self.assert_healthy()

    @needs_root()
    def test_profile_low_is_for_administrators(self):
        path = os.path.join(self.daemon.folder, "hog.so")
        with open(module("hog"), "rb") as source, open(path, "wb") as f:
            f.write(source.read())
        os.chmod(path, 0o644)
        try:
            self.assertEqual(self.ctl("create", "x", path, uid=OTHER_UID).status, 0)
            self.assertEqual(self.ctl("update", "x", "--profile", "low", uid=OTHER_UID).status, 7)
            self.assertEqual(self.ctl("update", "x", "--profile", "high", uid=OTHER_UID).status, 0)
            self.assertEqual(self.ctl("update", "x", "--profile", "low").status, 0)
        finally:
            os.unlink(path)


class Live(OwnCase):
    """Limits of a process that runs, by who the daemon is."""

    def own(self, rootless, **more):
        daemon = world.AttackDaemon(rootless, **more)
        self.daemons.append(daemon)
        return daemon

    def test_lower_and_raise(self):
        for rootless in ([False, True] if IS_ROOT else [True]):
            keeps = rootless or not CAN_RAISE
            with self.subTest(rootless=rootless), self.own(rootless).client() as c:
                pid = c.create("x", module("hog"), limits={"max_memory": 64 * MIB, "max_open_files": 40})["pid"]
                usual = {"max_memory": "Max data size", "max_open_files": "Max open files", "max_processes": "Max processes", "max_file_size": "Max file size"}
                lower = {"max_memory": 48 * MIB, "max_open_files": 30, "max_processes": 50, "max_file_size": 1 << 20}
                self.assertEqual(effects(c.rpc("sandbox.update", id="x", limits=lower)), {k: "live" for k in lower})
                for name, row in usual.items():
                    self.assertEqual(rlimit(pid, row), (str(lower[name]),) * 2)
                with self.assertRaises(RpcError):
                    c.call("x", "keep", mib=60)
                self.assertLessEqual(c.call("x", "files", n=100)["open"], 30)
                higher = {"max_memory": 96 * MIB, "max_open_files": 60}
                a = c.rpc("sandbox.update", id="x", limits=higher)
                self.assertEqual(set(effects(a).values()), {"next_start" if keeps else "live"})
                self.assertEqual(sorted(a["pending"]), sorted(higher) if keeps else [])
                self.assertEqual(c.info("x")["limits"]["max_memory"], 96 * MIB)
                if keeps:
                    self.assertTrue(all("CAP_SYS_RESOURCE" in x["why"] for x in a["changes"]), a)
                    self.assertEqual(rlimit(pid, "Max data size"), (str(48 * MIB),) * 2)
                    pid = c.rpc("sandbox.restart", id="x")["pid"]
                self.assertEqual(rlimit(pid, "Max data size"), (str(96 * MIB),) * 2)
                self.assertEqual(c.call("x", "keep", mib=60), {"pieces": 1})
                self.assertEqual(c.info("x")["pending"], [])

    def test_cpu_needs_a_cgroup(self):
        with self.own(not IS_ROOT).client() as c:
            c.create("x", module("hog"))
            change = c.rpc("sandbox.update", id="x", limits={"max_cpu_percentage": 50})["changes"][0]
            if c.rpc("sandbox.usage", id="x")["by"] == "cgroup":
                self.assertEqual(change["effect"], "live")
            else:
                self.assertEqual((change["effect"], "cgroup" in change["why"]), ("next_start", True))

    def test_durable(self):
        """Over a kill of control right behind the answer, and a restart of the daemon."""
        daemon = self.own(not IS_ROOT)
        with daemon.client() as c:
            c.create("x", module("hog"))
            c.rpc("sandbox.update", id="x", limits={"max_memory": 40 * MIB}, labels={"a": "b"}, profile="high", max_execution_ms=7)
        daemon.kill_control()
        for expected in (["profile"], []):
            with daemon.client() as c:
                info = wait_for(lambda: (lambda i: i if i["status"] == "running" else None)(c.info("x")), "it runs")
                self.assertEqual((info["limits"]["max_memory"], info["labels"], info["profile"], info["max_execution_ms"], info["pending"]),
                                 (40 * MIB, {"a": "b"}, "high", 7, expected))
                self.assertEqual(rlimit(info["pid"], "Max data size")[0], str(40 * MIB))
            if expected:
                self.assertEqual(daemon.terminate(), 0)
                daemon.start()

    def test_kills_of_control(self):
        """Whenever it is killed, what its successor knows is what the process has."""
        daemon = self.own(not IS_ROOT)
        with daemon.client() as c:
            c.create("x", module("hog"))
        for i in range(8):
            old = daemon.control_pid()
            with daemon.client() as c:
                for n in range(i + 1):
                    c.request("sandbox.update", id="x", limits={"max_file_size": 900000 - 1000 * i - n})
                os.kill(old, signal.SIGKILL)
            daemon.wait_for_next_control(old)
            with daemon.client() as c:
                # A connection that the old one hadn't accepted is the new one's: its requests may be at work.
                def is_same():
                    info = c.info("x")
                    return info["status"] == "running" and rlimit(info["pid"], "Max file size")[0] == str(info["limits"]["max_file_size"])

                wait_for(is_same, "what is told to be what is")

    @needs_root()
    def test_totals_of_its_owner(self):
        daemon = self.own(False, config="socket_mode = 0666\noperators = %d\nmax_memory_per_owner = %d\n" % (OTHER_UID, 256 * MIB))
        path = os.path.join(daemon.folder, "hog.so")
        with open(module("hog"), "rb") as source, open(path, "wb") as f:
            f.write(source.read())
        os.chmod(path, 0o644)
        try:
            self.assertEqual(ctl(daemon.socket, "create", "x", path, uid=OTHER_UID).status, 0)
            r = ctl(daemon.socket, "update", "x", "--limit", "max_memory=300M", "--max-queue", "4", uid=OTHER_UID)
            self.assertIn("limit_exceeded", r.err)
            self.assertEqual(ctl(daemon.socket, "update", "x", "--limit", "max_memory=256M", uid=OTHER_UID).status, 0)
            self.assertIn("limit_exceeded", ctl(daemon.socket, "create", "y", path, uid=OTHER_UID).err)
            self.assertEqual(ctl(daemon.socket, "update", "x", "--limit", "max_memory=64M", uid=OTHER_UID).status, 0)
            self.assertEqual(ctl(daemon.socket, "create", "y", path, uid=OTHER_UID).status, 0)
            with daemon.client() as c:
                self.assertEqual(c.info("x")["queue"]["max"], 1024)
        finally:
            os.unlink(path)


if __name__ == "__main__":
    main()
