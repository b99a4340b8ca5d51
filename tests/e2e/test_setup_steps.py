#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A start that fails, or whose process ends, at each step of its set-up: told with the step's name, counted, nothing left, the next one works."""
import os
import re
import signal

from harness import TOP, Case, is_alive, main, module, read, wait_for
from odd import EXITS, FAILS, IN_HOST, IN_ZYGOTE, KILLED, NONE, OddDaemon


def steps_of(name):
    """The names in the table at the end of this file of daemon/host/zygote."""
    text = read(os.path.join(TOP, "daemon/host/zygote", name)).decode()
    table = text[text.index("steps[] = {"):]
    return re.findall(r'^\t\{ "([^"]+)"', table[:table.index("};")], re.M)


class Steps(Case):
    @classmethod
    def setUpClass(cls):
        cls.daemon = OddDaemon("sandbox-host", config="spare_hosts = 0\n")  # each start goes through all steps

    def setUp(self):
        super().setUp()
        self.addCleanup(self.daemon.plant, NONE)

    def mounts(self):
        """In the daemon's view; others come and go elsewhere on the machine."""
        text = read("/proc/%d/mountinfo" % self.daemon.pid).decode()
        return [line for line in text.splitlines() if self.daemon.folder in line or " - tmpfs scratch " in line]

    def down(self, name):
        self.client.create(name, module("tally"), profile="high")
        self.client.rpc("sandbox.stop", id=name, state="fresh")
        wait_for(lambda: not self.daemon.hosts(), "the end of the host")
        return self.mounts()

    def starts(self):
        """None, or the error."""
        reply = self.client.reply(self.client.request("sandbox.start", id="s"))
        return reply.get("error")

    def try_step(self, fate, table, step, mounts):
        """The error of a start with this planted; None when the step isn't made here. Then the next one, which works."""
        self.daemon.plant(fate, table, step)
        error = self.starts()
        reached = self.daemon.reached()
        self.daemon.plant(NONE)
        self.assertEqual(error is not None, reached > 0, (step, error))
        if error:
            self.assertEqual((self.client.status("s"), self.client.info("s")["pid"]), ("failed", None), step)
            wait_for(lambda: not self.daemon.hosts(), "the end of what failed at %s" % step)
            self.assertEqual(self.mounts(), mounts, step)
            self.assertIsNone(self.starts(), step)
        self.assertEqual(self.client.call("s", "increment"), {"count": 1}, step)
        self.client.rpc("sandbox.stop", id="s", state="fresh")
        return error

    def test_each_step_of_a_host(self):
        mounts = self.down("s")
        made = []
        for step in steps_of("birth.c"):
            for fate in (FAILS, KILLED, EXITS):
                error = self.try_step(fate, IN_HOST, step, mounts)
                if not error:
                    break  # a protection that isn't to be had here, or isn't needed
                made.append(step)
                self.assertEqual(error["data"]["code"], "start_failed", error)
                if fate == FAILS:
                    self.assertIn("set-up step '%s' failed: Numerical argument out of domain" % step, error["message"])
                    self.assertEqual(error["data"]["stage"], step)
                said = "set-up step" in error["message"]  # a first process of a pid namespace can't kill itself, and goes on to fail
                self.assertEqual(error["data"].get("stage"), step if said else None, error)  # none of an earlier start stays
        self.assertGreaterEqual(len(made), 3 * 8, made)  # limits, session, name and so on are made everywhere

    def test_each_step_of_a_zygote(self):
        """One that ends while it gets ready is tried a few times; then those who wait are told."""
        mounts = self.down("s")
        made = []
        for step in steps_of("prepare.c"):
            self.daemon.plant(EXITS, IN_ZYGOTE, step)
            zygotes = self.daemon.zygotes()
            for zygote in zygotes:  # there is one that did without: the next one gets it
                os.kill(zygote, signal.SIGKILL)
            wait_for(lambda: not any(is_alive(z) for z in zygotes), "the end of the zygotes")
            error = self.try_step(EXITS, IN_ZYGOTE, step, mounts)
            if error:
                made.append(step)
                self.assertEqual(error["data"]["code"], "start_failed", error)
                self.assertIn("set-up step 'get ready' failed: ", error["message"])
                self.assertEqual(error["message"].count("get ready"), 1)
                self.assertEqual(error["data"]["stage"], "get ready")
        self.assertGreaterEqual(len(made), 4, made)

    def test_a_create_says_the_step(self):
        self.daemon.plant(FAILS, IN_HOST, "install filter")
        sha = self.client.put(read(module("tally")))
        error = self.client.reply(self.client.request("sandbox.create", id="c", object=sha, profile="high"))["error"]
        self.assertEqual((error["data"]["code"], error["data"]["stage"]), ("start_failed", "install filter"))
        self.assertEqual(error["message"].count("install filter"), 1, error)

    def test_a_host_that_ends_before_it_is_ready_is_counted(self):
        """By policy: each start that fails is one of those that the budget allows."""
        for fate, reason in ((FAILS, "start_failed"), (KILLED, "exited_early"), (EXITS, "exited_early")):
            with self.subTest(fate=fate):
                self.client.create("s", module("tally"), profile="high", intensity=2)
                self.daemon.plant(fate, IN_HOST, "install filter" if fate != EXITS else "place descriptors")
                self.kill_host("s")
                self.wait_status("s", "failed")
                info = self.client.info("s")
                self.assertEqual((info["status_reason"], info["restart_count"], info["budget"]["used"]), ("restart budget used up", 2, 3))
                self.assertEqual(self.daemon.hosts(), [])
                self.assertEqual(self.daemon.reached(), 2)
                self.daemon.plant(NONE)
                self.assertIsNone(self.starts())
                self.client.destroy("s")


if __name__ == "__main__":
    main()
