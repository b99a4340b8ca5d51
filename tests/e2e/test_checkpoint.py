#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checkpoints: on demand and every so often; what a crash begins with then, what a reload, a failed save and a kill of control make of them."""
import os
import shutil
import signal
import tempfile
import threading

from harness import Case, OwnCase, RpcError, main, module, wait_for


def up(client, restarts, name="s"):
    return wait_for(lambda: (lambda i: i if (i["status"], i["restart_count"]) == ("running", restarts) else None)(client.info(name)),
                    "restart %d" % restarts)


class EveryMs(OwnCase):
    def setUp(self):
        super().setUp()
        self.daemon = self.own_daemon()
        self.client = self.daemon.client()
        self.addCleanup(lambda: self.client.close())

    def made(self, number, name="s"):
        return wait_for(lambda: (lambda k: k if (k["number"] or 0) >= number else None)(self.client.info(name)["checkpoint"]), "checkpoint %d" % number)

    def number(self):
        return self.client.info("s")["checkpoint"]["number"]

    def kill(self):
        os.kill(self.client.info("s")["pid"], signal.SIGKILL)

    def call_until_saved(self, by):
        """Returns the count of which it is known that it was saved."""
        before = self.number() or 0
        count = self.client.call("s", "increment", by=by)["count"]
        self.made(before + 1)
        wait_for(lambda: self.client.info("s")["durable"], "its row")
        return count

    def test_policy(self):
        info = self.client.create("s", module("tally"), checkpoint_every_ms=100)
        self.assertEqual((info["restart_state"], info["checkpoint"]["every_ms"]), ("checkpoint", 100))
        self.assertEqual(self.client.create("t", module("tally"), checkpoint_every_ms=100, restart_state="fresh")["restart_state"], "fresh")
        count = self.call_until_saved(7)
        number = self.number()
        self.kill()
        info = up(self.client, 1)
        self.assertEqual((info["state_from"], info["last_exit"]["checkpoint"], info["last_exit"]["acknowledged_since"]), ("checkpoint", number, 0))
        self.assertEqual(self.client.call("s", "get"), {"count": count})
        self.assertFalse([e for e in self.client.events("s") if e["type"].startswith("state.checkpoint")])

    def test_nothing_called_nothing_saved(self):
        """t is called again and again, s is not: whatever time it takes for five of t, s has none. Timers count as calls do."""
        self.client.create("s", module("tally"), checkpoint_every_ms=100, persist=False)
        self.client.create("t", module("tally"), checkpoint_every_ms=100, persist=False)
        self.client.create("beats", module("ticks"), checkpoint_every_ms=100, persist=False)
        self.made(1)
        number = self.number()

        def five():
            self.client.call("t", "increment")
            return self.client.info("t")["checkpoint"]["number"] or 0

        wait_for(lambda: five() >= 6, "six of t")
        self.assertEqual(self.number(), number)
        self.made(5, "beats")

    def test_reloads_and_requests_get_their_way(self):
        """While checkpoints come as fast as they may; each reload, freeze and restart works, no call is lost."""
        self.client.create("s", module("tally"), checkpoint_every_ms=100, persist=False, probation_ms=0)
        other = self.daemon.client()
        self.addCleanup(other.close)
        stop, counts = threading.Event(), []

        def load():
            while not stop.is_set():
                counts.append(other.call("s", "increment")["count"])

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for n in range(8):
                self.made((self.number() or 0) + 1)
                self.client.reload("s", module("tally" if n % 2 else "tally_v2"))
                self.client.rpc("sandbox.freeze", id="s")
                self.client.rpc("sandbox.thaw", id="s")
                self.client.rpc("state.checkpoint", id="s")
                self.client.rpc("sandbox.restart", id="s")
        finally:
            stop.set()
            thread.join()
        self.assertFalse([(a, b) for a, b in zip([0] + counts, counts) if b - a not in (1, 10)])  # tally_v2 counts in tens

    def test_a_long_call_holds_nobody(self):
        """The timer's isn't begun behind it, whatever time it takes for five of t: a call that comes then is sent on, and a question is asked."""
        self.client.create("s", module("sleeper"), checkpoint_every_ms=100, persist=False)
        self.client.create("t", module("tally"), checkpoint_every_ms=100, persist=False)
        other = self.daemon.client()
        self.addCleanup(other.close)
        other.request("sandbox.call", id="s", function="sleep", args={"ms": 60000})
        wait_for(lambda: self.client.info("s")["queue"]["running"] == 1, "the call to run")

        def five():
            self.client.call("t", "increment")
            return (self.client.info("t")["checkpoint"]["number"] or 0) >= 5

        wait_for(five, "five of t")
        other.request("sandbox.call", id="s", function="sleep", args={"ms": 1})
        self.assertEqual(other.info("s")["queue"]["running"], 2)
        self.assertFalse([e for e in self.client.events("s") if e["type"] == "state.checkpoint_failed"])

    def test_where_there_is_always_a_call(self):
        self.client.create("s", module("sleeper"), checkpoint_every_ms=100, persist=False)
        stop = threading.Event()

        def load():
            with self.daemon.client() as mine:
                while not stop.is_set():
                    mine.call("s", "sleep", ms=30)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for t in threads:
            t.start()
        try:
            self.made(3)
        finally:
            stop.set()
            for t in threads:
                t.join()

    def test_kills_of_control(self):
        self.client.create("s", module("tally"), checkpoint_every_ms=100)
        count = 0
        for n in range(1, 4):
            count = self.call_until_saved(1)
            number = self.number()
            self.daemon.kill_control()
            self.client.close()
            self.client = self.daemon.client()
            self.assertEqual(self.number(), number)
            self.kill()
            info = up(self.client, n)
            self.assertEqual((info["state_from"], info["last_exit"]["checkpoint"] >= number), ("checkpoint", True))
            self.assertEqual(self.client.call("s", "get"), {"count": count})

    def test_the_machine_loses_power(self):
        self.client.create("s", module("tally"), checkpoint_every_ms=100)
        count = self.call_until_saved(41)
        self.daemon.look()
        self.daemon.process.kill()
        self.daemon.process.wait()
        wait_for(lambda: not self.daemon.left_over(), "the end of all its processes")
        self.client.close()
        self.daemon.start()
        self.client = self.daemon.client()
        wait_for(lambda: self.client.info("s")["status"] == "running", "it to run")
        self.assertEqual(self.client.call("s", "get"), {"count": count})

    def test_one_that_nothing_starts_from(self):
        """Two starts die of the newest, the next is from the one before it; then fresh."""
        folder = self.folder()
        self.client.create("s", module("restore_fuse"), profile="low", config={"path": os.path.join(folder, "blown")}, intensity=20,
                           checkpoint_every_ms=100, restart_state="checkpoint")
        self.call_until_saved(7)
        self.call_until_saved(100)
        for count in (107, 7):
            with open(os.path.join(folder, "blown.%d" % count), "w"):
                pass
        os.unlink(os.path.join(folder, "blown.7"))
        self.kill()
        up(self.client, 3)
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        (event,) = [e for e in self.client.events("s") if e["type"] == "sandbox.state_set_aside"]
        self.assertEqual(event["next"], "older")

    def folder(self):
        folder = tempfile.mkdtemp(prefix="sbxc")
        os.chmod(folder, 0o755)
        self.addCleanup(shutil.rmtree, folder)
        return folder


class OnDemand(Case):
    def create(self, name="tally", **params):
        return self.client.create("s", module(name), **params)

    def checkpoint(self):
        return self.client.rpc("state.checkpoint", id="s")

    def test_it_serves_on_and_a_crash_begins_with_it(self):
        self.create(restart_state="checkpoint", persist=False)
        before = self.client.info("s")
        self.assertEqual(before["checkpoint"], {"call": False, "every_ms": None, "number": None, "saved_at": None, "state_bytes": None, "failing": False})
        self.client.call("s", "increment", by=7)
        made = self.checkpoint()
        self.assertEqual((made["id"], made["version"], made["checkpoint"], made["acknowledged"]), ("s", 1, 1, 1))
        self.assertGreater(made["state_bytes"], 10)
        self.assertRegex(made["sha256"], "^[0-9a-f]{64}$")
        self.assertGreater(made["pause_us"], 0)
        self.assertLessEqual(made["pause_us"], made["held_us"])
        info = self.client.info("s")
        self.assertEqual((info["status"], info["pid"], info["state_kept"]), ("running", before["pid"], False))
        self.assertEqual(info["checkpoint"], {"call": False, "every_ms": None, "number": 1, "saved_at": made["saved_at"], "state_bytes": made["state_bytes"], "failing": False})
        for by in (1, 2, 3):
            self.client.call("s", "increment", by=by)
        self.kill_host("s")
        info = up(self.client, 1)
        self.assertEqual(info["state_from"], "checkpoint")
        self.assertEqual({k: info["last_exit"][k] for k in ("state_from", "checkpoint", "acknowledged_since")},
                         {"state_from": "checkpoint", "checkpoint": 1, "acknowledged_since": 3})
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        (told,) = [e for e in self.client.events("s") if e["type"] == "sandbox.restarting"]
        self.assertEqual((told["state_from"], told["checkpoint"], told["acknowledged_since"]), ("checkpoint", 1, 3))
        (event,) = [e for e in self.client.events("s") if e["type"] == "state.checkpoint"]
        self.assertEqual({k: event[k] for k in made if k != "id"}, {k: made[k] for k in made if k != "id"})
        self.client.call("s", "increment", by=1)  # again from the same one: what came since is one call
        self.kill_host("s")
        self.assertEqual(up(self.client, 2)["last_exit"]["acknowledged_since"], 2)
        self.assertEqual(self.checkpoint()["checkpoint"], 2)

    def test_fresh_is_the_rule(self):
        """Without restart_state: OTP's. The exit says what that gave up."""
        self.create()
        self.client.call("s", "increment", by=7)
        self.checkpoint()
        self.kill_host("s")
        info = up(self.client, 1)
        self.assertEqual({k: info["last_exit"][k] for k in ("state_from", "checkpoint", "acknowledged_since")},
                         {"state_from": "fresh", "checkpoint": None, "acknowledged_since": 1})
        self.assertEqual(self.client.call("s", "get"), {"count": 0})

    def test_a_stop_is_newer(self):
        self.create(restart_state="checkpoint")
        self.client.call("s", "increment", by=1)
        self.checkpoint()
        self.client.call("s", "increment", by=10)
        self.client.rpc("sandbox.stop", id="s")
        self.assertEqual(self.client.rpc("sandbox.start", id="s")["state_from"], "kept")
        self.assertEqual(self.client.call("s", "get"), {"count": 11})
        self.kill_host("s")
        self.assertEqual(up(self.client, 1)["state_from"], "kept")
        self.assertEqual(self.client.call("s", "get"), {"count": 11})

    def test_who_wants_it_anew_gets_it(self):
        self.create(restart_state="checkpoint")
        self.client.call("s", "increment", by=1)
        self.checkpoint()
        self.client.rpc("sandbox.restart", id="s", state="fresh")
        self.assertEqual(self.client.call("s", "get"), {"count": 0})
        self.kill_host("s")
        self.assertEqual(up(self.client, 2)["state_from"], "fresh")

    def test_a_reload_saves_one(self):
        """A crash of the new version, after probation, begins with the state that it took over; a rollback's with the one that it brought."""
        self.create(restart_state="checkpoint", probation_ms=0, persist=False)
        self.client.call("s", "increment", by=5)
        self.client.reload("s", module("tally_v2"))
        self.client.call("s", "increment", by=1)
        self.kill_host("s")
        info = up(self.client, 1)
        self.assertEqual((info["state_from"], info["version"], info["last_exit"]["acknowledged_since"]), ("checkpoint", 2, 1))
        self.assertEqual(self.client.call("s", "get")["count"], 5)
        self.client.call("s", "increment", by=10)
        self.client.rpc("sandbox.rollback", id="s", version=1)
        self.kill_host("s")
        self.assertEqual((up(self.client, 2)["version"], self.client.call("s", "get")), (1, {"count": 105}))  # v2 counts in tens

    def test_a_reload_that_fails_leaves_it(self):
        self.create(restart_state="checkpoint", persist=False)
        self.client.call("s", "increment", by=5)
        self.checkpoint()
        self.client.call("s", "increment", by=1)
        with self.assertRaises(RpcError):
            self.client.reload("s", module("crash_load"))
        self.kill_host("s")
        self.assertEqual(up(self.client, 1)["last_exit"]["checkpoint"], 1)
        self.assertEqual(self.client.call("s", "get"), {"count": 5})

    def test_what_is_refused(self):
        def code(**params):
            with self.assertRaises(RpcError) as caught:
                self.client.rpc("state.checkpoint", **params)
            return caught.exception.code

        self.assertEqual(code(id="nobody"), "not_found")
        self.assertEqual(code(id="../x"), "invalid_id")
        self.assertEqual(code(), "missing_param")
        self.create()
        self.assertEqual(code(id="s", every=1), "unknown_param")
        self.assertEqual(code(id="s", quiesce_timeout_ms=0), "bad_param")
        self.client.rpc("sandbox.stop", id="s")
        self.assertEqual(code(id="s"), "wrong_state")
        for bad in (0, 99, "x", 10**12):
            with self.assertRaises(RpcError) as caught:
                self.client.create("t", module("tally"), checkpoint_every_ms=bad)
            self.assertEqual(caught.exception.code, "bad_param", bad)

    def test_a_call_that_runs_is_waited_for_and_not_disturbed(self):
        """It isn't interrupted; and a checkpoint that waits too long gives up, with the calls behind it served."""
        self.create("sleeper")
        other = self.daemon.client()
        self.addCleanup(other.close)
        done = []
        thread = threading.Thread(target=lambda: done.append(other.call("s", "doze", ms=700)))
        thread.start()
        wait_for(lambda: self.client.info("s")["queue"]["running"], "the call to run")
        with self.assertRaises(RpcError) as caught:
            self.client.rpc("state.checkpoint", id="s", quiesce_timeout_ms=50)
        self.assertEqual(caught.exception.code, "busy")
        made = self.checkpoint()
        thread.join()
        self.assertEqual(done, [{"naps": 1}])
        self.assertEqual(made["acknowledged"], 1)
        self.assertEqual(self.client.info("s")["status"], "running")

    def begin_behind_a_call(self, ms):
        """A checkpoint that waits for a call of so long, and holds another. Returns its client and request."""
        self.start_call("s", "sleep", ms=ms)
        other = self.daemon.client()
        self.addCleanup(other.close)
        request = other.request("state.checkpoint", id="s", quiesce_timeout_ms=60000)
        behind = self.daemon.client()
        self.addCleanup(behind.close)
        behind.request("sandbox.call", id="s", function="sleep", args={"ms": 1})
        wait_for(lambda: self.client.info("s")["queue"]["waiting"] == 1, "it to hold a call")
        return other, request

    def test_it_gives_way_to_update(self):
        self.create("sleeper")
        other, request = self.begin_behind_a_call(60000)
        self.assertEqual([c["member"] for c in self.client.rpc("sandbox.update", id="s", max_queue=5)["changes"]], ["max_queue"])
        with self.assertRaises(RpcError) as caught:
            other.result(request)
        self.assertEqual(caught.exception.code, "wrong_state")
        self.assertIn("a later request took its place", str(caught.exception))

    def test_it_gives_way_to_questions(self):
        self.create("sleeper")
        for n, method in enumerate(("state.get", "state.check")):
            self.begin_behind_a_call(1000)
            self.assertTrue(self.client.rpc(method, id="s")["state_bytes"], method)
            wait_for(lambda: self.client.info("s")["queue"]["done"] == 2 * n + 2, "both calls")

    def test_a_death_in_a_reload_says_what_comes(self):
        self.create("sleeper", restart_state="checkpoint", persist=False)
        self.client.call("s", "sleep", ms=1)
        self.checkpoint()
        for _ in range(2):
            self.client.call("s", "sleep", ms=1)
        self.start_call("s", "sleep", ms=60000)
        other = self.daemon.client()
        self.addCleanup(other.close)
        with open(module("sleeper"), "rb") as f:
            sha256 = other.put(f.read() + b"\0")
        request = other.request("sandbox.reload", id="s", object=sha256, mode="replace", quiesce_timeout_ms=60000)
        wait_for(lambda: any(e["type"] == "reload.step" and e["next"] == "quiesce" for e in self.client.events("s")), "its quiesce")
        self.kill_host("s")
        with self.assertRaises(RpcError) as caught:
            other.result(request)
        data = caught.exception.data
        self.assertEqual((caught.exception.code, data["state_from"], data["checkpoint"], data["acknowledged_since"]), ("state_lost", "checkpoint", 1, 2))
        last = up(self.client, 1)["last_exit"]
        self.assertEqual({k: last[k] for k in ("state_from", "checkpoint", "acknowledged_since")},
                         {k: data[k] for k in ("state_from", "checkpoint", "acknowledged_since")})
        self.assertEqual(self.client.call("s", "sleep", ms=1), {"naps": 2})

    def test_a_state_that_can_not_be_saved(self):
        """Said, and the sandbox serves on; the one before stays."""
        self.create("spoilt", restart_state="checkpoint", persist=False)
        self.checkpoint()
        self.client.call("s", "spoil")
        with self.assertRaises(RpcError) as caught:
            self.checkpoint()
        self.assertEqual(caught.exception.code, "reload_failed")
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        self.kill_host("s")
        self.assertEqual(up(self.client, 1)["last_exit"]["checkpoint"], 1)


if __name__ == "__main__":
    main()
