#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a restart begins with, restart_state checkpoint; a state that nothing starts from; what isn't run again by the next daemon."""
import os
import shutil
import signal
import tempfile

from harness import Case, OwnCase, RpcError, main, module, wait_for


class Checkpoint(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxr")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "blown")

    def blow(self):
        with open(self.path, "w"):
            pass

    def create(self, **params):
        self.client.create("s", module("restore_fuse"), profile="low", config={"path": self.path}, **params)
        self.client.call("s", "increment", by=7)

    def stop_and_start(self):
        self.assertTrue(self.client.rpc("sandbox.stop", id="s")["state_kept"])
        self.assertEqual(self.client.rpc("sandbox.start", id="s")["state_from"], "kept")

    def up(self, restarts):
        return wait_for(lambda: (lambda i: i if (i["status"], i["restart_count"]) == ("running", restarts) else None)(self.client.info("s")),
                        "restart %d" % restarts)

    def sentences(self):
        return [d["text"] for d in self.client.rpc("sandbox.explain", id="s")["decisions"]]

    def test_crash_begins_from_the_kept_state(self):
        """Again and again from the one that the running process began with; what came since is lost."""
        self.create(restart_state="checkpoint")
        self.assertEqual(self.client.info("s")["restart_state"], "checkpoint")
        self.stop_and_start()
        for n in (1, 2):
            self.assertEqual(self.client.call("s", "increment", by=100), {"count": 107})
            self.kill_host("s")
            self.assertEqual(self.up(n)["state_from"], "kept")
            self.assertEqual(self.client.call("s", "get"), {"count": 7})
        self.assertEqual([e["state_from"] for e in self.client.events("s") if e["type"] == "sandbox.running"], ["fresh", "kept", "kept", "kept"])

    def test_fresh_is_the_rule(self):
        self.create()
        self.stop_and_start()
        self.kill_host("s")
        self.assertEqual(self.up(1)["state_from"], "fresh")
        self.assertEqual(self.client.call("s", "get"), {"count": 0})

    def test_without_a_state_it_is_fresh(self):
        self.create(restart_state="checkpoint")
        self.kill_host("s")
        self.assertEqual(self.up(1)["state_from"], "fresh")
        self.assertEqual(self.client.call("s", "get"), {"count": 0})

    def test_a_state_that_two_starts_die_of_is_set_aside(self):
        """The third start is fresh, and works although the fuse is still blown; all of it is told and counted."""
        self.create(restart_state="checkpoint", intensity=5)
        self.stop_and_start()
        self.blow()
        self.kill_host("s")
        info = self.up(3)
        self.assertEqual((info["state_from"], info["state_kept"], info["budget"]["used"]), ("fresh", False, 3))
        self.assertEqual(self.client.call("s", "get"), {"count": 0})
        events = [(e["type"], e.get("why")) for e in self.client.events("s")]
        self.assertEqual(events.count(("sandbox.state_set_aside", "starts from it failed twice")), 1)
        types = [t for t, _ in events]
        self.assertLess(types.index("sandbox.state_set_aside"), len(types) - 1 - types[::-1].index("sandbox.running"))
        self.assertIn("Starts from the newest kept state ended 2 times: that state is set aside.", self.sentences())
        self.kill_host("s")  # it doesn't come back
        self.assertEqual(self.up(4)["state_from"], "fresh")
        self.assertEqual(len([e for e in self.client.events("s") if e["type"] == "sandbox.state_set_aside"]), 1)

    def test_one_that_dies_once_is_kept(self):
        """The next start is made from it again; the fuse is mended in between."""
        self.create(restart_state="checkpoint", intensity=10)
        self.stop_and_start()
        for n in range(1, 5):  # so that the next back-offs leave more than a second to mend it
            self.kill_host("s")
            self.up(n)
        self.blow()
        self.kill_host("s")
        wait_for(lambda: self.client.info("s")["restart_count"] == 6, "the start that fails")
        os.unlink(self.path)
        self.assertEqual(self.up(6)["state_from"], "kept")
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        self.assertFalse([e for e in self.client.events("s") if e["type"] == "sandbox.state_set_aside"])


class Older(OwnCase):
    """The state before the newest: count 7, then 107. A fuse is a file with the count in its name."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="sbxr")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder)
        self.daemon = self.own_daemon()
        self.client = self.daemon.client()
        self.addCleanup(lambda: self.client.close())
        self.client.create("s", module("restore_fuse"), profile="low", config={"path": os.path.join(self.folder, "blown")},
                           restart_state="checkpoint", intensity=20)
        for by in (7, 100):
            self.save(by)

    def save(self, by):
        self.client.call("s", "increment", by=by)
        self.assertTrue(self.client.rpc("sandbox.stop", id="s")["state_kept"])
        self.assertEqual(self.client.rpc("sandbox.start", id="s")["state_from"], "kept")

    def blow(self, *counts):
        for n in counts:
            with open(os.path.join(self.folder, "blown.%d" % n), "w"):
                pass

    def mend(self, count):
        os.unlink(os.path.join(self.folder, "blown.%d" % count))

    def files(self):
        return set(os.listdir(os.path.join(self.daemon.state, "states")))

    def kill_host(self):
        os.kill(self.client.info("s")["pid"], signal.SIGKILL)

    def up(self, restarts):
        return wait_for(lambda: (lambda i: i if (i["status"], i["restart_count"]) == ("running", restarts) else None)(self.client.info("s")),
                        "restart %d" % restarts)

    def aside(self):
        return [e for e in self.client.events("s") if e["type"] == "sandbox.state_set_aside"]

    def connect(self):
        self.client.close()
        self.client = self.daemon.client()

    def power_cut(self):
        """Nothing is saved: the next daemon has what is on the disk."""
        self.daemon.look()
        self.daemon.process.kill()
        self.daemon.process.wait()
        wait_for(lambda: not self.daemon.left_over(), "the end of all its processes")
        self.daemon.start()
        self.connect()

    def test_one_bad_state(self):
        """Two starts die of the newest; the third is from the one before it, as are those that follow; the next save is the newest again."""
        both = self.files()
        self.assertEqual(len(both), 2)
        self.blow(107)
        self.kill_host()
        self.assertEqual(self.up(3)["state_from"], "kept")
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        (event,) = self.aside()
        self.assertEqual((event["why"], event["next"], {event["sha256"], event["next_sha256"]}), ("starts from it failed twice", "older", both))
        self.kill_host()
        self.assertEqual(self.up(4)["state_from"], "kept")
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        self.assertEqual(len(self.aside()), 1)
        self.save(1)  # 8, and before it 7: the bad one is nowhere any more
        wait_for(lambda: len(self.files()) == 2 and event["sha256"] not in self.files() and event["next_sha256"] in self.files(), "the bad one to go")
        self.blow(8)
        self.kill_host()
        self.up(7)
        self.assertEqual(self.client.call("s", "get"), {"count": 7})

    def test_two_bad_states(self):
        """Two starts of each; then fresh. The one that was set aside first isn't tried again."""
        self.blow(7, 107)
        self.kill_host()
        self.assertEqual(self.up(5)["state_from"], "fresh")
        self.assertEqual(self.client.call("s", "get"), {"count": 0})
        older, fresh = self.aside()
        self.assertEqual((older["next"], fresh["next"], fresh["next_sha256"]), ("older", "fresh", None))
        self.assertEqual(older["next_sha256"], fresh["sha256"])
        self.assertEqual([d["text"] for d in self.client.rpc("sandbox.explain", id="s")["decisions"]].count(
            "Starts from the newest kept state ended 2 times: that state is set aside."), 2)

    def test_kills_of_control(self):
        """At every restart of it: nothing is tried more often, and nothing is left out."""
        for bad, count, restarts in (((107,), 7, 3), ((7,), 0, 5)):
            self.blow(*bad)
            self.kill_host()
            for n in range(1, 6):
                wait_for(lambda: (lambda i: i["restart_count"] >= n or i["status"] == "running")(self.client.info("s")), "restart %d" % n)
                self.daemon.kill_control()
                self.connect()
            self.wait_running()
            self.assertEqual(self.client.call("s", "get"), {"count": count})
            self.assertEqual([e["next"] for e in self.aside()], ["older"] if count else ["older", "fresh"])

    def wait_running(self):
        wait_for(lambda: self.client.status("s") == "running", "it to run")

    def test_a_new_control_leaves_the_checkpoint(self):
        """Also while the sandbox serves: no trace of a reload."""
        self.daemon.kill_control()
        self.connect()
        self.assertEqual(self.client.call("s", "get"), {"count": 107})
        self.assertFalse([e for e in self.client.events("s") if e["type"] == "reload.undone"])
        self.kill_host()
        self.assertEqual(self.up(1)["state_from"], "kept")
        self.assertEqual(self.client.call("s", "get"), {"count": 107})

    def test_restarts_of_the_machine(self):
        """What was set aside is so on the disk as well; what is older is found there."""
        self.blow(107)
        self.power_cut()
        wait_for(lambda: self.aside(), "the newest to be set aside")
        self.wait_running()
        self.assertEqual(self.client.call("s", "get"), {"count": 7})
        self.mend(107)
        since = self.client.events()[-1]["seq"]
        self.power_cut()
        self.wait_running()
        self.assertEqual(self.client.call("s", "get"), {"count": 7})  # not 107, though it would do now
        self.assertFalse([e for e in self.client.events("s", since) if e["type"] == "sandbox.state_set_aside"])

    def test_files(self):
        """Two at most; the same state is one; who wants it to begin anew, or destroys it, leaves none."""
        self.save(1000)  # 1107, 107
        wait_for(lambda: len(self.files()) == 2, "the oldest to be collected")
        self.save(0)
        self.assertEqual(len(self.files()), 2)
        self.blow(1107)
        self.kill_host()
        self.up(3)
        self.assertEqual(self.client.call("s", "get"), {"count": 107})
        self.client.rpc("sandbox.restart", id="s", state="fresh")
        wait_for(lambda: not self.files(), "both to be collected")
        restarts = self.client.info("s")["restart_count"]
        self.kill_host()
        self.assertEqual(self.up(restarts + 1)["state_from"], "fresh")
        self.client.call("s", "increment", by=5)
        self.save(0)
        self.assertEqual(len(self.files()), 1)
        self.client.destroy("s")
        wait_for(lambda: not self.files(), "nothing to be left")


class NextDaemon(OwnCase):
    def finish(self, name, **params):
        self.client.create(name, module("crash_call"), **params)
        with self.assertRaises(RpcError):
            self.client.call(name, "exit_now", status=0)
        wait_for(lambda: self.client.status(name) == "stopped", "%s to finish" % name)

    def test_what_finished_is_not_run_again(self):
        """Neither alone nor in a group, neither by the next daemon nor by the one after it; `start` runs it."""
        daemon = self.own_daemon()
        self.client = daemon.client()
        self.client.rpc("group.create", id="g")
        for name, restart in (("temporary", "temporary"), ("transient", "transient")):
            self.finish(name, restart=restart)
            self.finish("g-" + name, restart=restart, group="g")
        for name, group in (("lone", {}), ("g-last", {"group": "g"})):
            self.client.create(name, module("tally"), restart="transient", **group)
        down, up = ["temporary", "transient", "g-temporary", "g-transient"], ["lone", "g-last"]
        for _ in range(2):
            self.client.close()
            self.assertEqual(daemon.terminate(), 0)
            daemon.start()
            self.client = daemon.client()
            since = self.client.events()[-1]["seq"]
            wait_for(lambda: [self.client.status(n) for n in up] == ["running"] * 2, "the others to run")
            wait_for(lambda: self.client.rpc("group.info", id="g")["status"] == "up", "the group")
            self.assertEqual({n: self.client.status(n) for n in down}, {n: "stopped" for n in down})
            self.assertFalse([e for e in self.client.events(since=since) if e["type"] == "sandbox.running" and e["sandbox"] in down])
            self.assertEqual(len(daemon.hosts()), 2)
        for n in down:
            self.assertEqual(self.client.rpc("sandbox.start", id=n)["status"], "running")
        self.client.close()


if __name__ == "__main__":
    main()
