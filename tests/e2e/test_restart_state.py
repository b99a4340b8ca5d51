#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a restart begins with, restart_state checkpoint; a state that nothing starts from; what isn't run again by the next daemon."""
import os
import shutil
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
