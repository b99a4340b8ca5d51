#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""All that sandboxd does, end to end, on real C source, with a private daemon in a temporary folder.

Every statement printed is checked; the demo ends with an error where one doesn't hold. It cleans up after itself.
usage: make demo        (or: SANDBOXD_BUILD=build examples/demo/demo.py [RELOADS])
"""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("SANDBOXD_BUILD") or os.path.join(TOP, "build"))
RELOADS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
CLIENTS = 4
COUNTER = os.path.join(TOP, "examples/counter")


class Failed(Exception):
    pass


def check(condition, sentence):
    if not condition:
        raise Failed("this does not hold: " + sentence)
    print("  ok  " + sentence, flush=True)


def headline(text):
    print("\n" + text, flush=True)


class Client:
    """JSON-RPC 2.0 on a Unix socket, one message a line: all that a client needs."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")
        self.n = 0

    def request(self, method, **params):
        self.n += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params})
        self.socket.sendall(line.encode() + b"\n")
        reply = self.file.readline()
        if not reply:
            raise ConnectionError("the daemon closed the connection")
        return json.loads(reply)

    def call(self, function, **args):
        return self.request("sandbox.call", id="counter", function=function, args=args)

    def close(self):
        self.file.close()
        self.socket.close()


class Daemon:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sandboxd-demo-")
        os.chmod(self.folder, 0o755)
        self.path = os.path.join(self.folder, "socket")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "sandboxd"), "--socket", self.path, "--state-dir", os.path.join(self.folder, "state"),
             "--runtime-dir", os.path.join(self.folder, "run")], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.connect().close()

    def connect(self):
        """Waits for the daemon: it binds its socket before anything else, so a refused connection means not yet."""
        until = time.monotonic() + 20
        while True:
            try:
                return Client(self.path)
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise Failed("the daemon does not serve:\n" + self.log_text())
                try:
                    self.process.wait(0.01)
                except subprocess.TimeoutExpired:
                    pass

    def ctl(self, *args, expect=0, quiet=False):
        """Runs sandboxctl as a user would, shows it, and checks its exit status."""
        argv = [os.path.join(BUILD, "sandboxctl"), "--socket", self.path, *args]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        text = done.stdout.decode(errors="replace")
        if not quiet:
            print("$ sandboxctl " + " ".join(os.path.relpath(a, TOP) if a.startswith(TOP) else a for a in args))
            print("".join("    %s\n" % line for line in text.splitlines()), end="", flush=True)
        if done.returncode != expect:
            raise Failed("sandboxctl %s ended with %d instead of %d:\n%s" % (" ".join(args), done.returncode, expect, text))
        return text

    def info(self):
        return json.loads(self.ctl("--json", "info", "counter", quiet=True))

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Load(threading.Thread):
    """A client that calls a handler of random 0 to 5 ms, again and again, and counts what was acknowledged."""

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.client = daemon.connect()
        self.random = random.Random(seed)
        self.stop = threading.Event()
        self.acknowledged = 0
        self.error = None
        self.longest_ms = 0.0
        self.last = 0

    def run(self):
        try:
            while not self.stop.is_set():
                started = time.monotonic()
                reply = self.client.call("work", us=self.random.randrange(5001))
                if "result" not in reply:
                    raise Failed("a call was refused: %s" % reply)
                count = reply["result"]["result"]["count"]
                if count <= self.last:
                    raise Failed("the count went from %d to %d" % (self.last, count))
                self.last = count
                self.acknowledged += 1
                self.longest_ms = max(self.longest_ms, (time.monotonic() - started) * 1000)
        except Exception as e:  # shown by the main thread
            self.error = e
        finally:
            self.client.close()


def reloads_under_load(daemon, objects):
    before = daemon.info()
    loads = [Load(daemon, seed) for seed in range(CLIENTS)]
    for load in loads:
        load.start()
    control = daemon.connect()
    pauses, held, running, started = [], [], 0, time.monotonic()
    for i in range(RELOADS):
        for sha256 in (objects[2], objects[1]):
            reply = control.request("sandbox.reload", id="counter", object=sha256)
            if "result" not in reply or reply["result"]["outcome"] != "reloaded":
                raise Failed("reload %d: %s" % (i, reply))
            pauses.append(reply["result"]["pause_us"] / 1000)
            held.append(reply["result"]["held_us"] / 1000)
            running += reply["result"]["calls_running"] > 0
    seconds = time.monotonic() - started
    for load in loads:
        load.stop.set()
    for load in loads:
        load.join(30)
        if load.error:
            raise Failed("a client: %s" % load.error)
    acknowledged = sum(load.acknowledged for load in loads)
    count = control.call("get")["result"]["result"]["count"]
    control.close()
    pauses.sort()
    n = len(pauses)
    print("  %d reloads in %.1f s, %d calls acknowledged meanwhile (%.0f/s)" % (n, seconds, acknowledged, acknowledged / seconds))
    print("  the reload itself paused the calls for p50 %.2f ms, p99 %.2f ms" % (pauses[n // 2], pauses[n * 99 // 100]))
    print("  new calls were held for p50 %.2f ms, at most %.2f ms: until those before them had ended, and the pause"
          % (sorted(held)[n // 2], max(held)))
    print("  longest call of a client: %.1f ms (it works up to 5 ms, and waits for those of the %d others)"
          % (max(load.longest_ms for load in loads), CLIENTS - 1))
    check(running * 100 >= 30 * n, "%d %% of the reloads began while a call was running (at least 30)" % (running * 100 // n))
    check(count == acknowledged, "each of %d acknowledged increments is counted once: the count is %d" % (acknowledged, count))
    after = daemon.info()
    check(after["pid"] == before["pid"], "the process is the same: pid %d" % after["pid"])
    check(after["restart_count"] == 0, "nothing was restarted")
    return count


def answer(client, sandbox):
    while True:
        reply = client.request("sandbox.call", id=sandbox, function="get")
        if reply.get("error", {}).get("data", {}).get("code") != "crashed":  # else it was sent to the process that died
            return reply


def kill_host(daemon, count):
    before = daemon.info()
    started = time.monotonic()
    os.kill(before["pid"], signal.SIGKILL)
    client = daemon.connect()
    reply = answer(client, "counter")
    took_ms = (time.monotonic() - started) * 1000
    client.close()
    info = daemon.info()
    daemon.ctl("info", "counter")
    check(info["pid"] != before["pid"] and info["restart_count"] == 1, "a new process answers %.1f ms after SIGKILL" % took_ms)
    check(reply["result"]["result"]["count"] == 0 and info["state_from"] == "fresh",
          "the count was %d and is fresh now, and info says so (state from: fresh)" % count)
    check(info["last_exit"]["reason"] == "signal SIGKILL", "the last exit is known: %s" % info["last_exit"]["reason"])


def kill_control(daemon):
    client = daemon.connect()
    for _ in range(7):
        client.call("increment")
    control = client.request("daemon.info")["result"]["control_pid"]
    before = daemon.info()
    started = time.monotonic()
    os.kill(control, signal.SIGKILL)
    client.close()
    client = daemon.connect()  # the socket is the spawner's: whoever connects now waits for the next control
    count = client.call("get")["result"]["result"]["count"]
    took_ms = (time.monotonic() - started) * 1000
    after = daemon.info()
    check(client.request("daemon.info")["result"]["control_pid"] != control, "control was killed, and another serves %.1f ms later" % took_ms)
    client.close()
    check(after["pid"] == before["pid"], "the sandbox kept its process: pid %d" % after["pid"])
    check(count == 7, "and its count: %d" % count)


def bad_objects(daemon, folder):
    whole = os.path.join(BUILD, "examples/counter/counter_v2.so")
    cut = os.path.join(folder, "truncated.so")
    with open(whole, "rb") as f:
        data = f.read()
    with open(cut, "wb") as f:
        f.write(data[: len(data) // 2])
    before = daemon.info()
    daemon.ctl("reload", "counter", cut, expect=8)
    daemon.ctl("reload", "counter", os.path.join(TOP, "examples/demo/broken.c"), expect=9)
    after = daemon.info()
    check((after["pid"], after["version"]) == (before["pid"], before["version"]),
          "a truncated and a crashing object are refused: version %d serves on in pid %d" % (after["version"], after["pid"]))
    client = daemon.connect()
    check(client.call("get")["result"]["result"]["count"] == 7, "with its state")
    client.close()


def rollback(daemon, v2):
    daemon.ctl("reload", "counter", v2)
    daemon.ctl("call", "counter", "set_step", "step=2")
    daemon.ctl("rollback", "counter")
    info = daemon.info()
    client = daemon.connect()
    check(info["version"] == 1 and client.call("get")["result"]["result"]["count"] == 7, "version 1 runs again, the count is still 7")
    client.close()


def replacement(daemon, v2):
    before = daemon.info()
    daemon.ctl("reload", "counter", v2, "--mode", "replace")
    after = daemon.info()
    check(after["pid"] != before["pid"] and after["restart_count"] == before["restart_count"], "another process took over, and nothing was restarted")
    client = daemon.connect()
    check(client.call("get")["result"]["result"]["count"] == 7, "with the count: 7")
    client.close()
    daemon.ctl("rollback", "counter")


def nothing_lost(daemon, v1):
    """Saved before each reply: what was acknowledged outlives whatever kills the process."""
    daemon.ctl("create", "safe", v1, "--checkpoint", "call")
    for _ in range(3):
        daemon.ctl("call", "safe", "increment", quiet=True)
    os.kill(json.loads(daemon.ctl("--json", "info", "safe", quiet=True))["pid"], signal.SIGKILL)
    client = daemon.connect()
    reply = answer(client, "safe")
    client.close()
    check(reply["result"]["result"]["count"] == 3, "3 increments were acknowledged, and 3 are there after SIGKILL")
    daemon.ctl("update", "safe", "--limits", '{"max_file_size": 1048576}')
    daemon.ctl("destroy", "safe", quiet=True)


def upgrade(daemon):
    before, pid = daemon.info(), daemon.process.pid
    daemon.ctl("upgrade")
    after = daemon.info()
    check(daemon.process.poll() is None and json.loads(daemon.ctl("--json", "daemon-info", quiet=True))["upgrades"] == 1,
          "the program in pid %d was replaced by the one that is installed" % pid)
    check((after["pid"], after["generation"]) == (before["pid"], before["generation"]), "the sandbox runs on in its process, %d" % after["pid"])


def run(daemon):
    v1, v2 = os.path.join(COUNTER, "counter_v1.c"), os.path.join(COUNTER, "counter_v2.c")
    headline("Create a sandbox from C source: compiled by a job of another user, checked, started")
    started = time.monotonic()
    daemon.ctl("create", "counter", v1)
    print("  %.0f ms from source to running" % ((time.monotonic() - started) * 1000))
    daemon.ctl("call", "counter", "get")

    headline("Reload it to version 2 and back %d times while %d clients call it" % (RELOADS, CLIENTS))
    daemon.ctl("reload", "counter", v2)
    daemon.ctl("rollback", "counter")
    objects = {v["version"]: v["sha256"] for v in json.loads(daemon.ctl("--json", "versions", "counter", quiet=True))["versions"]}
    count = reloads_under_load(daemon, objects)

    headline("Kill the sandbox's process with SIGKILL")
    kill_host(daemon, count)

    headline("Kill the control process with SIGKILL")
    kill_control(daemon)

    headline("Offer a truncated object, and one that crashes while it takes the state over")
    bad_objects(daemon, daemon.folder)

    headline("Reload, and roll back")
    rollback(daemon, v2)

    headline("Reload it by a second process, which takes over")
    replacement(daemon, v2)

    headline("A sandbox that saves its state before each reply, killed; and one of its limits changed while it runs")
    nothing_lost(daemon, v1)

    headline("Upgrade the daemon under it")
    upgrade(daemon)

    headline("What sandboxd knows")
    daemon.ctl("versions", "counter")
    daemon.ctl("events", "-n", "8")
    daemon.ctl("logs", "counter")
    daemon.ctl("list")

    headline("Clean up")
    daemon.ctl("destroy", "counter")
    daemon.ctl("shutdown")
    check(daemon.process.wait(20) == 0, "the daemon has ended, with status 0")
    left = [name for name in os.listdir(os.path.join(daemon.folder, "run")) if name != "lock"]
    check(left == [], "its runtime folder is empty")


def main():
    daemon = Daemon()
    try:
        run(daemon)
    except (Failed, OSError, subprocess.TimeoutExpired, KeyError) as e:
        print("\nFAILED: %s\n---- the daemon's log ----\n%s" % (e, daemon.log_text()), file=sys.stderr)
        return 1
    finally:
        daemon.end()
    print("\nDone: everything was as said.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
