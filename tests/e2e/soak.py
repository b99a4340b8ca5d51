#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proof of reloads by their number: clients increment while a sandbox is reloaded and rolled back, thousands of times.

usage: soak.py [--reloads N] [--seconds S] [--clients N]     (make soak-reload)

What must hold: each acknowledged increment is counted exactly once; the increments of a connection begin in the order sent, and their replies show it; at least 30
per cent of the reloads begin while a call runs; descriptors of host, control and spawner stay within 2 of what they were, mappings and
memory of the host within bounds. Ends early, and says so, when the time is over. Exit status 0: all of it held.
"""
import argparse
import json
import os
import random
import re
import sys
import threading
import time

from harness import Daemon, module, read

WARM = 50             # reloads before the first look: heap and caches have their size then
PIPELINED = 2         # calls that a client has open
MAPPINGS_MORE = 8
MEMORY_MORE_KIB = 4096  # control keeps events in memory, up to a limit of their own: 1.2 MiB more after 400 reloads, and no more after 3000
FDS_MORE = 2
FEW = 30               # reloads of which no share can be told


class Broken(AssertionError):
    pass


def must(holds, *what):
    if not holds:
        raise Broken(" ".join(str(w) for w in what))


class Incrementer(threading.Thread):
    """One connection; keeps PIPELINED increments open until it is told to end, and looks at each reply."""

    def __init__(self, daemon, number, seed):
        super().__init__(daemon=True)
        self.connection, self.number, self.random = daemon.client(), number, random.Random(seed)
        self.sent = self.acknowledged = self.last_count = 0
        self.over, self.failure = threading.Event(), None

    def send(self):
        self.sent += 1
        us = self.random.randrange(5000) if self.random.randrange(4) == 0 else 0
        self.connection.request("sandbox.call", id="s", function="increment", args={"client": self.number, "n": self.sent, "us": us},
                                timeout_ms=60000)

    def receive(self):
        """Replies to one connection come in the order in which its calls began; the counts that they show must rise."""
        message = json.loads(self.connection.line())
        must("result" in message, "client", self.number, "got", message)
        count = message["result"]["result"]["count"]
        must(count > self.last_count, "client", self.number, "saw", count, "behind", self.last_count)
        self.last_count = count
        self.acknowledged += 1

    def run(self):
        try:
            while not self.over.is_set():
                while self.sent - self.acknowledged < PIPELINED:
                    self.send()
                self.receive()
            while self.acknowledged < self.sent:
                self.receive()
        except BaseException as e:  # told by finish()
            self.failure = e
        finally:
            self.connection.close()

    def finish(self):
        self.over.set()
        self.join(60)
        must(not self.is_alive(), "client", self.number, "waits for", self.sent - self.acknowledged, "replies")
        if self.failure:
            raise Broken("client %d: %r" % (self.number, self.failure))


def memory_kib(pid):
    """Private and shared anonymous memory that is there: what a leak shows in."""
    with open("/proc/%d/status" % pid) as f:
        return sum(int(n) for n in re.findall(r"(?m)^(?:RssAnon|RssShmem|VmSwap):\s+(\d+)", f.read()))


class Look:
    """What may not grow."""

    def __init__(self, daemon, host):
        self.pids = {"host": host, "control": daemon.control_pid(), "spawner": daemon.pid}
        self.fds = {name: len(os.listdir("/proc/%d/fd" % pid)) for name, pid in self.pids.items()}
        with open("/proc/%d/maps" % host) as f:
            self.mappings = sum(1 for _ in f)
        self.memory = {name: memory_kib(pid) for name, pid in self.pids.items()}

    def compare(self, first):
        for name, n in self.fds.items():
            must(abs(n - first.fds[name]) <= FDS_MORE, name, "has", n, "descriptors, and had", first.fds[name])
        must(self.mappings <= first.mappings + MAPPINGS_MORE, "the host has", self.mappings, "mappings, and had", first.mappings)
        for name, kib in self.memory.items():
            must(kib <= first.memory[name] + MEMORY_MORE_KIB, name, "holds", kib, "KiB, and held", first.memory[name])


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class Soak:
    def __init__(self, daemon, reloads, seconds, clients=4, seed=1):
        self.daemon, self.reloads, self.seconds = daemon, reloads, seconds
        self.random = random.Random(seed)
        self.client = daemon.client(timeout=120)
        self.client.create("s", read(module("soak")), probation_ms=0, max_queue=64)
        self.client.reload("s", module("soak_v2"))
        self.clients = [Incrementer(daemon, n, seed + n) for n in range(clients)]
        self.pauses, self.busy, self.rollbacks = [], 0, 0

    def one(self, n):
        """Forth and back by turns, one time in four as a rollback to the version before."""
        c, current = self.client, 2 if n % 2 == 0 else 1
        if self.random.randrange(4) == 0:
            r = c.rpc("sandbox.rollback", id="s")
            self.rollbacks += 1
        else:
            r = c.rpc("sandbox.reload", id="s", object=self.objects[3 - current])
        must((r["outcome"], r["from"], r["to"]) == ("reloaded", current, 3 - current), r)
        must(r["pinned"] is None, r)
        self.pauses.append(r["pause_us"])
        self.busy += r["calls_running"] > 0

    def check_counts(self):
        state = self.client.call("s", "get")
        total = sum(c.acknowledged for c in self.clients)
        must(state["count"] == total, total, "acknowledged increments, and", state["count"], "counted")
        must(state["misordered"] == 0, state["misordered"], "began out of order")
        for c in self.clients:
            must(state["last"][c.number] == c.sent, "client", c.number, "sent", c.sent, "and the last counted is", state["last"][c.number])
        return total

    def run(self):
        versions = self.client.rpc("version.list", id="s")["versions"]
        self.objects = {v["version"]: v["sha256"] for v in versions}
        info = self.client.info("s")
        began, first, done = time.monotonic(), None, 0
        for c in self.clients:
            c.start()
        try:
            while done < self.reloads and time.monotonic() - began < self.seconds:
                if done == min(WARM, self.reloads // 4) // 2 * 2 and first is None:
                    first = Look(self.daemon, info["pid"])
                self.one(done)
                done += 1
                for c in self.clients:
                    must(not c.failure, c.failure)
            last = Look(self.daemon, info["pid"])
        finally:
            for c in self.clients:
                c.finish()
        must(self.client.info("s")["pid"] == info["pid"], "the process has changed")
        must(first is not None, "no reload was done")
        last.compare(first)
        total = self.check_counts()
        must(done < FEW or self.busy >= 0.3 * done, "only", self.busy, "of", done, "reloads began while a call ran")
        return {"reloads": done, "rollbacks": self.rollbacks, "asked": self.reloads, "seconds": round(time.monotonic() - began, 1), "increments": total,
                "begun_while_busy": self.busy, "pause_us_p50": percentile(self.pauses, 0.5), "pause_us_p99": percentile(self.pauses, 0.99),
                "fds": [first.fds, last.fds], "mappings": [first.mappings, last.mappings], "memory_kib": [first.memory, last.memory]}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("--reloads", type=int, default=10000)
    p.add_argument("--seconds", type=float, default=570)
    p.add_argument("--clients", type=int, default=4)
    a = p.parse_args()
    daemon = Daemon()
    try:
        r = Soak(daemon, a.reloads, a.seconds, a.clients, seed=os.getpid()).run()
        daemon.look()
    finally:
        daemon.close()
    print(json.dumps(r, indent=1))
    if r["reloads"] < a.reloads:
        print("soak-reload: the time was over after %d of %d reloads; what was done held" % (r["reloads"], a.reloads))
        return 1
    print("soak-reload: %d reloads in %.0f s, %d increments: all of it held" % (r["reloads"], r["seconds"], r["increments"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
