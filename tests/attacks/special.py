# SPDX-License-Identifier: MIT
"""Attacks that cost their daemon its life, and so get one of their own."""
import contextlib
import os
import shutil
import signal

import world
import harness

GONE_S, LIVES_S = 3 * harness.MULTIPLIER, 1  # behind the walls it must end, however slow the machine; without them a look is enough


def outlive(user, profile, walls):
    """The spawner is killed while a module spins and doesn't look at its channel. Whether the host lives on, and what to say of it."""
    daemon = world.AttackDaemon(user == "rootless", walls)
    try:
        client = daemon.client()
        pid = client.create("spinner", world.attack_module("processes"), profile=profile, persist=False, restart="temporary")["pid"]
        client.request("sandbox.call", id="spinner", function="outlive", args={})
        with daemon.client() as other:
            harness.wait_for(lambda: other.info("spinner")["queue"]["running"] > 0 and harness.proc_stat(pid)[0] == "R", "the call to spin")
        daemon.look()
        daemon.process.kill()
        daemon.process.wait()
        client.close()
        try:
            harness.wait_for(lambda: not harness.is_alive(pid), "the host to end", LIVES_S if walls else GONE_S)
            return False, "ended with its daemon"
        except AssertionError:
            return True, "lives on"
    finally:
        for pid, start in daemon.seen:
            if harness.is_alive(pid, start):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        harness.wait_for(lambda: not daemon.left_over(), "the end of all its processes")
        daemon.remove()
        shutil.rmtree(daemon.canaries, ignore_errors=True)
