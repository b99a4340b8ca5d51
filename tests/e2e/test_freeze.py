#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""freeze and thaw: every process stops and goes on, calls wait, and every other request finds a frozen sandbox in order."""
import os
import resource
import shutil
import signal
import tempfile

from harness import IS_ROOT, Case, RpcError, descendants, main, module, proc_stat, wait_for

STOPPED = "Tt"


class Controlled(Case):
    def next_control(self):
        self.client.close()
        self.daemon.kill_control()
        self.client = self.daemon.client()


class Freeze(Controlled):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxz")
        os.chmod(self.folder, 0o777)
        self.addCleanup(shutil.rmtree, self.folder)

    def create(self, name="f", **params):
        self.client.create(name, module("beats"), **params)
        return self.client.info(name)["pid"]

    def state_of(self, pid):
        stat = proc_stat(pid)
        return stat[0] if stat else None

    def freeze(self, name="f"):
        info = self.client.rpc("sandbox.freeze", id=name)
        self.assertEqual((info["status"], info["frozen"]), ("frozen", {"mechanism": "signals"}))
        wait_for(lambda: self.state_of(info["pid"]) in STOPPED, "the host to stand")
        return info

    def thaw(self, name="f"):
        info = self.client.rpc("sandbox.thaw", id=name)
        self.assertEqual((info["status"], info["frozen"]), ("running", None))
        return info

    def test_calls_wait_until_it_is_thawed(self):
        pid = self.create()
        self.client.call("f", "increment")
        self.freeze()
        other, request = self.start_call_queued()
        self.assertEqual(self.client.info("f")["queue"]["waiting"], 1)
        self.refused("timeout", self.client.call, "f", "increment", timeout_ms=50)
        self.assertEqual(self.client.rpc("sandbox.freeze", id="f")["status"], "frozen")  # as asked already
        self.assertEqual(self.thaw()["pid"], pid)
        self.assertEqual(other.result(request)["result"], {"n": 2})
        self.assertEqual(self.client.rpc("sandbox.thaw", id="f")["status"], "running")
        types = [e["type"] for e in self.client.events("f")]
        self.assertIn("sandbox.frozen", types)
        self.assertIn("sandbox.thawed", types)
        kinds = [d["kind"] for d in self.client.rpc("sandbox.explain", id="f")["decisions"]]
        self.assertEqual(kinds[-2:], ["frozen", "thawed"])
        other.close()

    def start_call_queued(self):
        other = self.daemon.client()
        request = other.request("sandbox.call", id="f", function="increment", args={})
        wait_for(lambda: self.client.info("f")["queue"]["waiting"] == 1, "the call to wait")
        return other, request

    def test_waiting_for_it(self):
        self.create()
        other = self.daemon.client()
        request = other.request("sandbox.wait", id="f", **{"for": "frozen"})
        self.freeze()
        self.assertEqual(other.result(request)["status"], "frozen")
        self.refused("timeout", self.client.rpc, "sandbox.wait", id="f", timeout_ms=20, **{"for": "running"})
        request = other.request("sandbox.wait", id="f", **{"for": "running"})
        self.thaw()
        self.assertEqual(other.result(request)["status"], "running")
        other.close()

    def test_every_process_of_it_stops(self):
        host = self.create(profile="low")  # its processes write outside
        path = os.path.join(self.folder, "steps")
        before = {pid for pid, _ in descendants(self.daemon.process.pid)}
        self.client.call("f", "children", path=path, leave=False)
        self.client.call("f", "children", path=path, leave=True)  # an orphan that left the session
        wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 10, "both to write")
        uid = os.stat("/proc/%d" % host).st_uid

        def processes():
            found = {pid for pid, _ in descendants(self.daemon.process.pid)}
            if IS_ROOT:
                return [pid for pid in found if os.path.exists("/proc/%d" % pid) and self.uid_of(pid) == uid and self.state_of(pid) not in ("Z", None)]
            return [pid for pid in found - before | {host} if self.state_of(pid) not in ("Z", None)]

        wait_for(lambda: len(processes()) == 3, "all of them")
        self.freeze()
        wait_for(lambda: all(self.state_of(pid) in STOPPED for pid in processes()), "all to stand")
        size = os.path.getsize(path)
        self.assertEqual(self.client.rpc("daemon.ping")["pong"], True)
        self.assertEqual([self.state_of(pid) for pid in processes()], ["T"] * len(processes()))
        self.assertEqual(os.path.getsize(path), size)
        self.thaw()
        wait_for(lambda: os.path.getsize(path) > size + 10, "them to go on")
        self.assertEqual(self.client.info("f")["restart_count"], 0)
        self.client.destroy("f")

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:  # where no namespace counts for the sandbox, its forks would take all processes of the machine
            hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
            resource.setrlimit(resource.RLIMIT_NPROC, (min(2500, hard) if hard != resource.RLIM_INFINITY else 2500, hard))
        super().setUpClass()

    def test_under_a_storm_of_forks(self):
        """Some make the next one and end, so that none of them is there for long: all stand at last, or it is said that they don't."""
        for comets, trees in ((0, 6), (2, 2), (12, 0)):
            with self.subTest(comets=comets, trees=trees):
                self.client.create("f", module("forks"), profile="low")
                path = os.path.join(self.folder, "born-%d" % comets)
                self.client.call("f", "storm", path=path, comets=comets, trees=trees, seconds=120)
                stood = refused = 0
                while stood < 5:
                    size = os.path.getsize(path)
                    wait_for(lambda: os.path.getsize(path) > size, "the storm")
                    try:
                        self.client.rpc("sandbox.freeze", id="f")
                    except RpcError as e:
                        self.assertEqual(e.code, "unavailable", e)
                        self.assertIn("can't all be stopped", str(e))
                        refused += 1
                        self.assertLess(refused, 200)
                        wait_for(lambda: self.client.status("f") == "running", "it to run on")
                        continue
                    self.assertEqual(self.client.status("f"), "frozen")
                    size = os.path.getsize(path)  # all stand when it is answered
                    for _ in range(40):  # time passes
                        self.client.rpc("daemon.info")
                    self.assertEqual(os.path.getsize(path), size)
                    stood += 1
                    self.client.rpc("sandbox.thaw", id="f")
                self.assertEqual(self.client.info("f")["restart_count"], 0)
                self.client.destroy("f")

    @staticmethod
    def uid_of(pid):
        try:
            with open("/proc/%d/status" % pid) as f:
                return int([line for line in f if line.startswith("Uid:")][0].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return None

    def test_stop_restart_and_destroy_thaw_it(self):
        self.create()
        self.client.call("f", "increment")
        self.freeze()
        info = self.client.rpc("sandbox.restart", id="f")
        self.assertEqual((info["status"], info["state_from"]), ("running", "kept"))
        self.assertEqual(self.client.call("f", "increment"), {"n": 2})
        self.freeze()
        info = self.client.rpc("sandbox.stop", id="f")
        self.assertEqual((info["status"], info["state_kept"], info["last_exit"]["class"]), ("stopped", True, "shutdown"))
        self.refused("wrong_state", self.client.rpc, "sandbox.freeze", id="f")
        self.refused("wrong_state", self.client.rpc, "sandbox.thaw", id="f")
        self.client.rpc("sandbox.start", id="f")
        self.freeze()
        self.client.destroy("f")
        self.refused("not_found", self.client.rpc, "sandbox.thaw", id="f")

    def test_reload_is_refused(self):
        self.create()
        self.freeze()
        self.refused("wrong_state", self.client.reload, "f", module("tally"))
        self.refused("wrong_state", self.client.rpc, "sandbox.rollback", id="f")
        self.assertEqual(self.client.status("f"), "frozen")

    def test_one_that_is_killed_is_followed(self):
        pid = self.create()
        self.freeze()
        os.kill(pid, signal.SIGKILL)
        info = wait_for(lambda: (lambda i: i if i["status"] == "running" and i["restart_count"] == 1 else None)(self.client.info("f")), "the next")
        self.assertNotEqual(info["pid"], pid)
        self.assertEqual(self.client.call("f", "increment"), {"n": 1})

    def test_a_new_control_knows(self):
        pid = self.create()
        self.client.call("f", "increment")
        self.freeze()
        self.client.create("other", module("tally"))
        self.next_control()
        info = self.client.info("f")
        self.assertEqual((info["status"], info["pid"]), ("frozen", pid))
        self.assertIn(self.state_of(pid), STOPPED)
        self.assertEqual(self.client.call("other", "increment"), {"count": 1})
        self.assertEqual(self.thaw()["pid"], pid)
        self.assertEqual(self.client.call("f", "increment"), {"n": 2})
        self.freeze()
        self.next_control()
        self.assertEqual(self.client.rpc("sandbox.restart", id="f")["status"], "running")
        self.assertEqual(self.client.call("f", "increment"), {"n": 3})

    def test_many_ask_at_once(self):
        pid = self.create()
        others = [self.daemon.client() for _ in range(8)]
        requests = [(c, c.request("sandbox." + ("freeze", "thaw")[i % 2], id="f")) for i, c in enumerate(others * 4)]
        for c, request in requests:
            try:
                self.assertIn(c.result(request)["status"], ("frozen", "running"))
            except RpcError as e:
                self.assertIn(e.code, ("busy", "wrong_state"))
        self.client.rpc("sandbox.thaw", id="f")
        self.assertEqual(self.client.call("f", "increment"), {"n": 1})
        self.assertEqual(self.client.info("f")["pid"], pid)
        for c in others:
            c.close()

    def test_the_daemon_ends_with_frozen_ones(self):
        self.create()
        self.create("g", shutdown_ms=60000)
        self.client.call("g", "increment")
        self.freeze()
        self.freeze("g")
        self.client.close()
        self.assertEqual(self.daemon.terminate(), 0)
        self.daemon.start()
        self.client = self.daemon.client()
        self.wait_status("g", "running")  # it was wanted; that it was frozen isn't kept over the daemon's end
        self.assertEqual(self.client.call("g", "increment"), {"n": 2})


class Heartbeat(Controlled):
    def test_bad(self):
        for value in (-1, "x", 86400001):
            self.refused("bad_param", self.client.create, "h", module("beats"), heartbeat_ms=value)

    def test_a_function_without_a_heartbeat_is_killed(self):
        self.client.create("h", module("beats"), heartbeat_ms=200)
        self.assertEqual(self.client.info("h")["heartbeat_ms"], 200)
        e = self.refused("crashed", self.client.call, "h", "spin", ms=600000)
        self.assertIn("heartbeat", str(e))
        info = wait_for(lambda: (lambda i: i if i["restart_count"] == 1 and i["status"] == "running" else None)(self.client.info("h")), "the restart")
        last = info["last_exit"]
        self.assertEqual((last["reason"], last["class"], last["signal"], last["generation"]), ("heartbeat", "error", 9, info["generation"] - 1))
        self.assertIn("no heartbeat for", last["text"])
        self.assertEqual(self.client.call("h", "increment"), {"n": 1})

    def test_a_function_with_one_goes_on(self):
        self.client.create("h", module("beats"), heartbeat_ms=300)
        pid = self.client.info("h")["pid"]
        self.assertEqual(self.client.call("h", "beat", ms=2000), {"done": 1})
        for _ in range(5):  # each shorter
            self.assertEqual(self.client.call("h", "spin", ms=100), {"done": 1})
        info = self.client.info("h")
        self.assertEqual((info["pid"], info["restart_count"]), (pid, 0))

    def test_an_idle_one_answers(self):
        self.client.create("h", module("beats"), heartbeat_ms=100)
        pid = self.client.info("h")["pid"]
        self.client.create("w", module("beats"))
        self.client.call("w", "spin", ms=1500)  # meanwhile it was asked ten times
        self.assertEqual(self.client.info("h")["pid"], pid)
        self.next_control()
        self.client.call("w", "spin", ms=500)
        self.assertEqual(self.client.info("h")["pid"], pid)

    def test_a_frozen_one_is_not_missed(self):
        self.client.create("h", module("beats"), heartbeat_ms=100)
        pid = self.client.info("h")["pid"]
        self.client.create("w", module("beats"))
        self.client.rpc("sandbox.freeze", id="h")
        self.client.call("w", "spin", ms=1000)
        self.client.rpc("sandbox.thaw", id="h")
        self.client.call("w", "spin", ms=500)
        self.assertEqual(self.client.info("h")["pid"], pid)

    def test_a_stuck_loop_is_found(self):
        """A host that doesn't read any more, and runs no function: its process is there, and answers nobody."""
        self.client.create("h", module("stubborn_loop"), heartbeat_ms=200, start_timeout_ms=60000)
        self.client.rpc("sandbox.cast", id="h", function="stick", args={})
        info = wait_for(lambda: (lambda i: i if i["restart_count"] == 1 and i["status"] == "running" else None)(self.client.info("h")), "the restart")
        self.assertEqual(info["last_exit"]["reason"], "heartbeat")


if __name__ == "__main__":
    main()
