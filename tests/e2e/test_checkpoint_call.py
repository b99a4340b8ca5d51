#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""checkpoint call: whoever kills a host takes nothing away that was acknowledged; over reloads and kills of control. What can't be saved so is refused."""
import os
import random
import signal
import threading

from harness import OwnCase, RpcError, main, module, wait_for

KILLS = 1000 if os.environ.get("SANDBOXD_CHECK_FULL") else 30


def up(client, restarts, name="s"):
    return wait_for(lambda: (lambda i: i if (i["status"], i["restart_count"]) == ("running", restarts) else None)(client.info(name)),
                    "restart %d" % restarts)


class Call(OwnCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.own_daemon()
        self.client = self.daemon.client()
        self.addCleanup(lambda: self.client.close())

    def create(self, name="ledger", **params):
        return self.client.create("s", module(name), checkpoint="call", intensity=100, period_ms=1000, **params)

    def kill(self):
        os.kill(self.client.info("s")["pid"], signal.SIGKILL)

    def count(self):
        return self.client.call("s", "get")["count"]

    def reconnect(self):
        self.client.close()
        self.client = self.daemon.client()

    def code(self, *args, **params):
        with self.assertRaises(RpcError) as caught:
            self.client.call("s", *args, **params)
        return caught.exception.code

    def test_nothing_acknowledged_is_lost(self):
        info = self.create(persist=False)
        self.assertEqual((info["restart_state"], info["checkpoint"]["call"]), ("checkpoint", True))
        for n in range(1, 6):
            self.assertEqual(self.client.call("s", "increment", by=n)["count"], n * (n + 1) // 2)
            self.kill()
            info = up(self.client, n)
            self.assertEqual((info["state_from"], info["last_exit"]["state_from"], info["last_exit"]["acknowledged_since"]), ("checkpoint", "checkpoint", 0))
            self.assertEqual(self.count(), n * (n + 1) // 2)
        self.assertEqual(self.code("stumble"), "module_error")  # a failure is a reply, too
        self.kill()
        up(self.client, 6)
        self.assertEqual(self.count(), 16)

    def test_each_profile(self):
        """The strictest walls let it be mapped; a spare host and one with an address space of its own take it alike."""
        for params in ({"profile": "high"}, {"profile": "low"}, {"address_space": "fresh"}):
            self.create(persist=False, **params)
            self.client.call("s", "increment", by=3)
            self.kill()
            up(self.client, 1)
            self.assertEqual((self.count(), params), (3, params))
            self.client.destroy("s")

    def test_a_cast_and_a_timer(self):
        self.create("ticks", persist=False)
        wait_for(lambda: self.count() >= 3, "the timer")
        before = self.count()
        self.kill()
        up(self.client, 1)
        self.assertGreaterEqual(self.count(), before)
        wait_for(lambda: self.count() > before + 3, "the timer, which is armed again")

    def test_reloads_and_rollbacks(self):
        """The half of the version that runs: after each commit, before any call."""
        self.create("tally", probation_ms=0, persist=False)
        want, restarts = 0, 0
        for n in range(4):
            self.client.reload("s", module("tally" if n % 2 else "tally_v2"))
            restarts += 1
            self.kill()
            up(self.client, restarts)
            self.assertEqual(self.count(), want)
            want += 1 if n % 2 else 10
            self.assertEqual(self.client.call("s", "increment")["count"], want)
            restarts += 1
            self.kill()
            up(self.client, restarts)
            self.assertEqual(self.count(), want)

    def test_replacements(self):
        """A second process has a mirror of its own from its first state on; also if control is killed right behind the promotion, and over an upgrade."""
        self.create("tally", probation_ms=0, persist=False, profile="high")
        want = 0
        for n in range(4):
            r = self.client.reload("s", module("tally" if n % 2 else "tally_v2"))
            self.assertEqual(r["rung"], "replace")
            if n == 1:
                self.daemon.kill_control()
                self.reconnect()
            elif n == 2:
                self.client.rpc("daemon.upgrade")
                wait_for(lambda: self.upgraded() == 1, "the upgrade")
            self.assertEqual(self.count(), want)
            want += 1 if n % 2 else 10
            self.assertEqual(self.client.call("s", "increment")["count"], want)
            restarts = self.client.info("s")["restart_count"] + 1
            self.kill()
            up(self.client, restarts)
            self.assertEqual(self.count(), want)
        self.assertFalse([e for e in self.client.events("s") if e["type"] == "sandbox.state_lost"])

    def upgraded(self):
        try:
            self.reconnect()
            return self.client.rpc("daemon.info")["upgrades"]
        except OSError:
            return None

    def test_a_death_in_a_reload(self):
        self.create("sleeper", persist=False)
        for _ in range(4):
            self.client.call("s", "sleep", ms=1)
        with self.daemon.client() as other, self.daemon.client() as third:
            third.request("sandbox.call", id="s", function="sleep", args={"ms": 60000})
            wait_for(lambda: self.client.info("s")["queue"]["running"], "the call to run")
            with open(module("sleeper"), "rb") as f:
                sha256 = other.put(f.read() + b"\0")
            request = other.request("sandbox.reload", id="s", object=sha256, mode="replace", quiesce_timeout_ms=60000)
            wait_for(lambda: any(e["type"] == "reload.step" and e["next"] == "quiesce" for e in self.client.events("s")), "its quiesce")
            self.kill()
            with self.assertRaises(RpcError) as caught:
                other.result(request)
        data = caught.exception.data
        self.assertEqual((caught.exception.code, data["state_from"], data["acknowledged_since"]), ("state_lost", "checkpoint", 0))
        last = up(self.client, 1)["last_exit"]
        self.assertEqual((last["state_from"], last["checkpoint"], last["acknowledged_since"]), ("checkpoint", data["checkpoint"], 0))

    def test_kills_of_control(self):
        """Alone; and together with the host, so that the next control finds it dead."""
        self.create(persist=False)
        for n in range(1, 6):
            self.client.call("s", "increment")
            pid = self.client.info("s")["pid"]
            if n % 2:
                os.kill(pid, signal.SIGKILL)
                self.daemon.kill_control()
            else:
                self.daemon.kill_control()
                os.kill(pid, signal.SIGKILL)
            self.reconnect()
            wait_for(lambda: (lambda i: i["status"] == "running" and i["pid"] != pid)(self.client.info("s")), "its successor")
            self.assertEqual(self.count(), n)
        self.assertFalse([e for e in self.client.events("s") if e["type"] == "sandbox.state_lost"])

    def test_requests(self):
        """A stop's state, fresh, a checkpoint for the disk beside it."""
        self.create()
        self.client.call("s", "increment", by=4)
        self.assertEqual(self.client.rpc("state.checkpoint", id="s")["checkpoint"], 1)
        self.client.call("s", "increment")
        self.client.rpc("sandbox.stop", id="s")
        self.assertEqual(self.client.rpc("sandbox.start", id="s")["state_from"], "kept")
        self.assertEqual(self.count(), 5)
        self.client.rpc("sandbox.restart", id="s", state="fresh")
        self.assertEqual(self.count(), 0)
        self.client.call("s", "increment")
        restarts = self.client.info("s")["restart_count"]
        self.kill()
        up(self.client, restarts + 1)
        self.assertEqual(self.count(), 1)

    def test_what_can_not_be_saved_so_is_refused(self):
        """At the start, at a reload, and for each call that leads to it: never in silence."""
        for params, name in (({"restart_state": "fresh"}, "ledger"), ({}, None)):
            with self.assertRaises(RpcError) as caught:
                self.client.create("t", module(name or "ledger"), checkpoint="call" if name else "sometimes", **params)
            self.assertEqual(caught.exception.code, "bad_param")
        with self.assertRaises(RpcError) as caught:
            self.client.create("t", module("unfaithful"), checkpoint="call")
        self.assertIn("checkpoint_every_ms", str(caught.exception))
        self.assertEqual([r["id"] for r in self.client.rpc("sandbox.list")["sandboxes"]], [])
        self.create(persist=False)
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("sandbox.update", id="s", restart_state="fresh", max_queue=3)
        self.assertEqual((caught.exception.code, self.client.info("s")["queue"]["max"]), ("bad_param", 1024))
        self.client.call("s", "increment", by=3)
        self.assertEqual(self.code("grow", bytes=2 << 20), "limit_exceeded")
        self.assertEqual(self.code("get"), "limit_exceeded")
        self.assertEqual(self.code("nothing"), "unknown_function")
        self.kill()
        up(self.client, 1)
        self.assertEqual(self.count(), 3)  # as of the last reply that wasn't an error
        self.client.call("s", "grow", bytes=1000 << 10)
        self.assertEqual(self.code("spoil"), "state_mismatch")
        self.client.call("s", "mend")
        self.client.call("s", "increment")
        self.kill()
        up(self.client, 2)
        self.assertEqual(self.count(), 4)

    def test_kills_under_load(self):
        """Three callers, and a host that is killed again and again: the count is what was acknowledged, and at most those beyond it whose outcome is
        unknown; each answer of one caller is greater than the one before."""
        self.create("tally", persist=False)
        stop, lock = threading.Event(), threading.Lock()
        acknowledged, unknown, wrong = [0], [0], []

        def load():
            client, last = self.daemon.client(), 0
            while not stop.is_set():
                try:
                    count = client.call("s", "increment")["count"]
                except RpcError as e:
                    with lock:
                        unknown[0] += e.data.get("outcome_unknown") is True
                    if e.code != "crashed":
                        wrong.append(e.code)
                    continue
                with lock:
                    acknowledged[0] += 1
                if count <= last:
                    wrong.append((last, count))
                last = count
            client.close()

        threads = [threading.Thread(target=load) for _ in range(3)]
        for t in threads:
            t.start()
        try:
            pick = random.Random(7)
            for n in range(KILLS):
                info = wait_for(lambda: (lambda i: i if i["status"] == "running" else None)(self.client.info("s")), "it to run")
                goal = acknowledged[0] + pick.randrange(1, 8)
                wait_for(lambda: acknowledged[0] >= goal, "calls of generation %d" % info["generation"])
                os.kill(info["pid"], signal.SIGKILL)
                wait_for(lambda: self.client.info("s")["generation"] not in (info["generation"], None), "its successor")
                self.client.rpc("sandbox.reset", id="s")  # else back-off would take most of the time
        finally:
            stop.set()
            for t in threads:
                t.join()
        wait_for(lambda: self.client.status("s") == "running", "it to run")
        count = self.count()
        print("checkpoint call: %d kills, %d acknowledged, %d unknown, count %d" % (KILLS, acknowledged[0], unknown[0], count))
        self.assertFalse(wrong)
        self.assertGreaterEqual(count, acknowledged[0])
        self.assertLessEqual(count, acknowledged[0] + unknown[0])
        self.assertFalse([e for e in self.client.events("s") if e["type"] in ("sandbox.state_lost", "sandbox.state_set_aside")])


if __name__ == "__main__":
    main()
