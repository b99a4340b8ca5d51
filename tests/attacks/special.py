# SPDX-License-Identifier: MIT
"""Attacks that cost their daemon its life, and so get one of their own."""
import contextlib
import os
import shutil
import signal

import world
import harness

GONE_S = 5 * harness.MULTIPLIER


def outlive(user, profile, walls):
    """The spawner is killed while a module spins with its channel closed. Whether the host lives on, and what it said."""
    daemon = world.AttackDaemon(user == "rootless", walls)
    try:
        client = daemon.client()
        pid = client.create("spinner", world.attack_module("processes"), profile=profile, persist=False, restart="temporary")["pid"]
        client.request("sandbox.call", id="spinner", function="outlive", args={})
        harness.wait_for(lambda: world.descriptors(pid) == {} or not harness.is_alive(pid), "the module to close its descriptors")
        daemon.look()
        daemon.process.kill()
        daemon.process.wait()
        client.close()
        try:
            harness.wait_for(lambda: not harness.is_alive(pid), "the host to end", GONE_S)
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
