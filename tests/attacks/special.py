# SPDX-License-Identifier: MIT
"""Attacks that cost their daemon its life, and so get one of their own."""
import contextlib
import fcntl
import os
import shutil
import signal
import termios

import world
import harness
import shot

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


def terminal(user, profile, walls):
    """A daemon that was started from a terminal: a module looks for it, and pushes into its input. Whether that came there, and what to say of it."""
    nonce = world.nonce()
    listener = shot.Listener("terminal-input", None, nonce)

    def take_terminal():
        os.setsid()
        fcntl.ioctl(listener.slave, termios.TIOCSCTTY, 0)
        os.dup2(listener.slave, 2)

    daemon = world.AttackDaemon(user == "rootless", walls, preexec_fn=take_terminal)
    try:
        with open("/proc/%d/stat" % daemon.pid) as f:
            assert int(f.read().rsplit(")", 1)[1].split()[4]) != 0, "the daemon has no terminal"
        said = []
        with daemon.client() as c:
            c.create("pusher", world.attack_module("files"), profile=profile, persist=False)
            for path in ("/dev/tty", "/proc/self/fd/2", listener.path):
                for n in (0, 1):
                    with contextlib.suppress(harness.RpcError):
                        said.append(c.call("pusher", "terminal", path=path, text=nonce, n=n)["errno"])
        return nonce.encode() in listener.received(0.05), "/".join(dict.fromkeys(said))
    finally:
        complaints = daemon.close()
        listener.close()
        assert not complaints, complaints


DAEMONS = {"outlive": outlive, "terminal": terminal}
