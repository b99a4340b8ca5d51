#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The control process is killed at 30 random moments of a reload under load: afterwards there is exactly one process, the version is the
old or the new one and version.list says which, nothing acknowledged is lost, and the next reload works."""
import os
import random
import signal
import threading
import time

from harness import Background, Case, Closed, OwnCase, RpcError, main, module, pause, read, wait_for

MOMENTS = 30


class ControlKillReload(Case):
    def test_thirty_moments(self):
        self.moments("in_place", 0.012)

    def test_thirty_moments_of_a_replacement(self):
        self.moments("replace", 0.03)

    def moments(self, mode, seconds):
        seed = int(os.environ.get("SANDBOXD_TEST_SEED") or random.randrange(1 << 32))
        print("\nseed %d" % seed)
        rng = random.Random(seed)
        c = self.client
        objects = [read(module("slow_tally")), read(module("slow_tally_v2"))]
        pid = c.create("a", objects[0])["pid"]
        stop, acknowledged, cut, refused = threading.Event(), [0] * 3, [0] * 3, []

        def work(n):
            while not stop.is_set():
                try:
                    with self.daemon.client() as d:
                        while not stop.is_set():
                            d.call("a", "increment", us=rng.randrange(500))
                            acknowledged[n] += 1
                except (Closed, OSError):
                    cut[n] += 1
                except RpcError as e:
                    refused.append(e)
                    cut[n] += 1

        workers = [Background(work, n) for n in range(3)]
        ends = {"committed": 0, "old": 0, "new": 0}
        for i in range(MOMENTS):
            with self.subTest(moment=i, seed=seed):
                before = c.info("a")["version"]
                target = 3 - before
                control = c.rpc("daemon.info")["control_pid"]
                sha = c.put(objects[target - 1])
                c.request("sandbox.reload", id="a", object=sha, mode=mode)
                until = time.monotonic() + rng.random() * seconds
                while time.monotonic() < until:
                    pause(0.0005)
                os.kill(control, signal.SIGKILL)
                try:
                    c.line(30)
                    ends["committed"] += 1
                except Closed:
                    pass
                c.close()
                self.daemon.wait_for_next_control(control)
                c = self.client = self.daemon.client()
                self.wait_status("a", "running")
                info = c.info("a")
                versions = c.rpc("version.list", id="a")
                self.assertIn(info["version"], (before, target))
                self.assertEqual(versions["current"], info["version"])
                self.assertEqual([v["version"] for v in versions["versions"] if v["status"] in ("current", "probation")], [info["version"]])
                ends["new" if info["version"] == target else "old"] += 1
                with self.daemon.client() as d:
                    call = d.result(d.request("sandbox.call", id="a", function="get"))
                self.assertEqual(call["version"], info["version"])
                wait_for(lambda: len(self.daemon.hosts()) == 1, "one process")
                self.assertEqual(info["restart_count"], 0)
                # the next reload works, forth or back
                r = c.reload("a", objects[2 - info["version"]], mode=mode)
                self.assertEqual((r["outcome"], r["to"]), ("reloaded", 3 - info["version"]))
        stop.set()
        for w in workers:
            w.result()
        count = c.call("a", "get")["count"]
        self.assertGreaterEqual(count, sum(acknowledged))
        self.assertLessEqual(count, sum(acknowledged) + sum(cut))
        self.assertEqual(refused, [])
        self.assertIn(self.daemon.objects(), (["a"],) if mode == "in_place" else (["a"], ["a+"]))
        print("\nNOTE killed in %d reloads: %d served the new version afterwards, %d the old; the pid %s" % (
            MOMENTS, ends["new"], ends["old"], "stayed" if c.info("a")["pid"] == pid else "changed"))


class ChangesAmidReload(OwnCase):
    def adopted(self, change):
        """Control is killed where the host has committed, and `change` came while it loaded: the new version serves, from the old one's state."""
        daemon = self.own_daemon(options=["--fault", "reload.adopt=kill"])
        with daemon.client() as c, daemon.client() as d:
            pid = c.create("a", module("tally"))["pid"]
            for _ in range(5):
                c.call("a", "increment")
            d.rpc("group.create", id="g")
            control = daemon.control_pid()
            c.request("sandbox.reload", id="a", object=c.put(read(module("slow_load"))), mode="in_place")
            wait_for(lambda: [e for e in d.events("a") if e["type"] == "reload.step" and e.get("next") == "load"], "the load")
            change(d)
            self.assertTrue(c.at_end())
        daemon.wait_for_next_control(control)
        with daemon.client() as c:
            wait_for(lambda: c.status("a") == "running", "it to run")
            wait_for(lambda: [e for e in c.events("a") if e["type"] == "reload.completed"], "the end of the reload")
            info = c.info("a")
            self.assertEqual((info["version"], info["restart_count"], info["pid"], info["last_exit"]), (2, 0, pid, None))
            self.assertEqual(c.call("a", "get"), {"count": 5})

    def test_nothing(self):
        self.adopted(lambda d: None)

    def test_reset(self):
        self.adopted(lambda d: d.rpc("sandbox.reset", id="a"))

    def test_group_add(self):
        self.adopted(lambda d: d.rpc("group.add", id="g", sandbox="a"))


if __name__ == "__main__":
    main()
