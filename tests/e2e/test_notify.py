#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a service manager hears of the daemon, and what becomes of a control process that doesn't answer."""
import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import time

from harness import COUNTER1, DEADLINE_S, MULTIPLIER, OwnCase, main, read, thread_held, wait_for


class Notify(OwnCase):
    def listen(self, address=None):
        """A socket as systemd has one; returns the environment that names it."""
        folder = tempfile.mkdtemp(prefix="sbxn")
        self.addCleanup(shutil.rmtree, folder)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.addCleanup(self.socket.close)
        name = address or os.path.join(folder, "n")
        self.socket.bind(name.replace("@", "\0", 1))
        self.heard = []
        return dict(os.environ, NOTIFY_SOCKET=name)

    def hear(self, word, timeout=DEADLINE_S):
        """Waits until a message with this line has come since the last one that was waited for."""
        end = time.monotonic() + timeout
        while True:
            while self.heard:
                if word in self.heard.pop(0).splitlines():
                    return
            if not select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("%s was not said" % word)
            self.heard.append(self.socket.recv(4096).decode())

    def test_ready_and_stopping(self):
        for address in (None, "@sbx-notify-%d" % os.getpid()):
            d = self.own_daemon(env=self.listen(address))
            self.hear("READY=1")
            self.assertEqual(d.terminate(), 0)
            self.hear("STOPPING=1")

    def test_upgrade(self):
        """It reloads, and is ready when the new program serves; refused, it is ready at once. The watchdog hears of it afterwards too."""
        env = dict(self.listen(), WATCHDOG_USEC="4000000")
        d = self.own_daemon(env=env)
        self.hear("READY=1")
        for n in range(2):
            began_us = time.monotonic_ns() // 1000
            os.kill(d.pid, signal.SIGHUP)
            self.hear_reloading(began_us)
            self.hear("READY=1")
            with d.client() as c:
                self.assertEqual(c.rpc("daemon.info")["upgrades"], n + 1)
        self.hear("WATCHDOG=1")
        self.hear("WATCHDOG=1")

    def hear_reloading(self, began_us):
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            lines = self.socket.recv(4096).decode().splitlines()
            if "RELOADING=1" in lines:
                at = [int(l.split("=")[1]) for l in lines if l.startswith("MONOTONIC_USEC=")]
                self.assertTrue(at and began_us <= at[0] <= time.monotonic_ns() // 1000, lines)
                self.heard = []
                return
        raise AssertionError("RELOADING=1 was not said")

    def test_refused_upgrade(self):
        d = self.own_daemon(env=self.listen(), config="max_jobs = 1\n")
        self.hear("READY=1")
        with open(os.path.join(d.folder, "conf"), "w") as f:
            f.write("max_jobs = never\n")
        os.kill(d.pid, signal.SIGHUP)
        self.hear_reloading(0)
        self.hear("READY=1")
        self.assertIn("upgrade refused", d.log())

    def test_not_ready_before_it_serves(self):
        """What is said first is that it is ready, and then it serves."""
        env = self.listen()
        d = self.own_daemon(env=env)
        first = self.socket.recv(4096).decode()
        self.assertIn("READY=1", first.splitlines())
        self.assertIn("STATUS=serving on " + d.socket, first.splitlines())

    def test_a_daemon_that_cannot_start_says_nothing(self):
        env = self.listen()
        with self.assertRaises(AssertionError):
            self.own_daemon(env=env, config="max_sandboxes = never\n")
        self.assertEqual(select.select([self.socket], [], [], 0)[0], [])

    def test_the_watchdog_is_fed(self):
        env = dict(self.listen(), WATCHDOG_USEC="800000")
        d = self.own_daemon(env=env)
        for _ in range(5):
            self.hear("WATCHDOG=1")
        self.assertNotIn("doesn't answer", d.log())

    def test_no_feed_for_another(self):
        env = dict(self.listen(), WATCHDOG_USEC="40000", WATCHDOG_PID="1")
        d = self.own_daemon(env=env)
        self.hear("READY=1")
        with d.client() as c:
            c.create("x", COUNTER1)
            for _ in range(100):
                c.call("x", "get")
        self.assertEqual(d.terminate(), 0)
        self.hear("STOPPING=1")
        self.assertEqual(self.heard, [])  # nothing came between

    def test_control_that_is_stopped_is_replaced(self):
        """Before the service manager would end the daemon; hosts run on, and the next control serves them."""
        env = dict(self.listen(), WATCHDOG_USEC=str(6000000 * MULTIPLIER))
        d = self.own_daemon(env=env)
        with d.client() as c:
            c.create("x", COUNTER1)
            c.call("x", "increment", by=5)
            pid = c.info("x")["pid"]
        old = d.control_pid()
        os.kill(old, signal.SIGSTOP)
        self.hear("STATUS=control doesn't answer and is replaced")
        d.wait_for_next_control(old)
        with d.client() as c:
            self.assertEqual(c.info("x")["pid"], pid)
            self.assertEqual(c.call("x", "get"), {"count": 5})
        self.hear("READY=1")
        self.hear("WATCHDOG=1")

    def test_control_that_is_traced_is_left_to_its_tracer(self):
        """Neither we nor the service manager ends it."""
        env = dict(self.listen(), WATCHDOG_USEC="800000")
        d = self.own_daemon(env=env)
        control = d.control_pid()
        with thread_held(control):
            for _ in range(3):
                self.hear("STATUS=control is traced and doesn't answer")
        self.hear("STATUS=serving, 0 processes of sandboxes")
        self.assertEqual(d.control_pid(), control)

    def test_children_know_nothing_of_it(self):
        env = dict(self.listen(), WATCHDOG_USEC="60000000")
        d = self.own_daemon(env=env)
        with d.client() as c:
            c.create("x", COUNTER1)
            c.create("y", COUNTER1, profile="low")
        d.look()
        seen = 0
        for pid, _ in d.seen:
            with contextlib.suppress(OSError):
                text = read("/proc/%d/environ" % pid)
                self.assertNotIn(b"NOTIFY", text)
                self.assertNotIn(b"WATCHDOG", text)
                seen += 1
        self.assertGreater(seen, 0)

    def test_bad_variables(self):
        self.listen()
        for name, value in (("NOTIFY_SOCKET", "/nowhere/at/all"), ("NOTIFY_SOCKET", "relative"), ("NOTIFY_SOCKET", "/" + "x" * 200),
                            ("NOTIFY_SOCKET", "@"), ("WATCHDOG_USEC", "soon"), ("WATCHDOG_USEC", "-5"), ("WATCHDOG_USEC", "9" * 40)):
            env = dict(os.environ, NOTIFY_SOCKET=self.socket.getsockname())
            env[name] = value
            d = self.own_daemon(env=env)
            wait_for(lambda: "can't be told" in d.log() if name == "NOTIFY_SOCKET" else "is no time" in d.log(), "a line of the log")
            self.assertEqual(d.terminate(), 0)


if __name__ == "__main__":
    main()
