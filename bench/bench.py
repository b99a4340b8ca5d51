#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How close sandboxd is to what the kernel's part of the work costs. `make bench`, or SANDBOXD_BUILD=build bench/bench.py.

usage: bench.py [--pairs N] [--json FILE]     make bench [PAIRS=N] [JSON=FILE]

--json: {"about": {pairs, kernel, cpus, uid, landlock_abi, load_average, seconds}, "note": text, "rows": [row...]}, a row being
{"row": name, "unit": "us"|"ms"|"1/s"|"KiB", "samples": n, "daemon": {"median", "p99"}, "floor": the same or null, "floor_name": text,
"ratio": {"median", "p99"} of daemon to floor or null, "goal": text or null, "met": bool or null}, or {"row": name, "skipped": why}.

A private daemon and bench/floor (the same kernel work without a daemon) are measured in turns, pair by pair, so that both see
the same machine: N pairs of each row (200), the side that begins alternating. Shown are medians, p99 and their ratios.
What each row means:
  create -> first call      without and with persistence (`persist`): request of sandbox.create (object already uploaded) -> the reply of a call sent after create's reply;
                            beside the floor's spawn: one clone3 with pid, mount, ipc and uts namespaces, own root, Landlock,
                            filter, dlopen, reply. Its second line is beside the same work with exec, its
                            third beside exec with Landlock and filter alone
  restart after SIGKILL     kill() of the host -> its successor has answered a call; beside the floor's kill, wait, spawn, reply
  call round trip           one caller, one call at a time; beside two bare Unix-socket round trips of one byte, one after another.
                            With all CPUs, to wake a process on an idle one costs more than the call, most of all in a virtual
                            machine, and the scheduler's choice decides: so it is measured with everything on one CPU too
  calls/s                   8 connections with 8 requests in flight each (and one connection with 8), beside a bare relay that
                            passes messages of the same size through one process to a second one and back; a pair is a batch.
                            The relay's second hop keeps messages apart, as the daemon's channel does; "of streams" doesn't
  reload pause              for how long the reload itself kept calls waiting (the daemon's pause_us), 4 calls in flight; then the
                            whole request. With a small state, also by a second process that takes over (mode replace); with a map of 1,000,000 keys (examples/kv); with 1 MiB and 100 MiB
                            of bytes, beside a copy of as many into a memfd that was filled before, and out of it
  memory                    private memory (USS: Private_* of smaps_rollup) of idle sandboxes, beside a bare forked child with the
                            object loaded; growth of control's private memory per sandbox,
                            from the 101st to the 200th
  2,000 live                create -> first call beside as many idle sandboxes, with the floor's spawn in between, as in the first row; then
                            beside the same daemon's figures when there were few; then all are destroyed: what is left of processes, mounts,
                            descriptors and private memory, of spawner and control together, beyond what was there when as many had come and
                            gone once before
  1,000 idle                processor time that control takes per second while nobody asks anything: it looks at what each of them uses
  sandbox.list              request -> reply of a page of 500 rows: for so long the control process does nothing else
  10^6, 100 MiB             inside a host, without processes: processor time to save such a state into a fresh memfd, into one that
                            was filled before, and to restore it (bench/state)
A goal that is missed is shown, and isn't a failure of the run. A call that fails, or isn't counted by the module, is.
"""
import json
import os
import platform
import resource
import subprocess
import sys
import time

from measure import BUILD, TOP, Daemon, Failed, Floor, Server, end_cleanly, median, percentile

CALLS_PER_PAIR = 50
CALLS_PER_BATCH = 2000
CALLERS, DEPTH = 8, 8
LOAD = 4
IDLE = 20
IDLE_FOR_CONTROL = 100
CROWD = 2000
WATCHED = 1000
WATCHED_SECONDS = 10
CROWD_FILES = 6 * CROWD + 512  # descriptors that the privileged process needs for them
PAGE = 500
KEYS = 1000000
MIB = 1 << 20
MEMORY_LARGE = 2 << 30
ROUNDS_LARGE = 9
ROUNDS_STATE = 3
SMALL, MAP, BYTES = range(3)  # the client's subjects of a reload
SECONDS_MAX = 240

NOTE = """\
A sandbox's process is cloned from a zygote and stands behind profile medium's walls: the floor's spawn has the same namespaces, and a root,
a filter and Landlock rules of its own making. "create" and "restart" pass through four processes more than it does."""


def private_kib(pid):
    """USS of a process, or None where this user may not see it (hosts are not dumpable)."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            return sum(int(line.split()[1]) for line in f if line.startswith(("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:")))
    except PermissionError:
        return None


def processor_ns(pid):
    """Of its main thread, as the scheduler counts."""
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[0])


def lines_with(path, part):
    with open(path) as f:
        return sum(1 for line in f if part in line)


def descendants(root):
    """The pids below root."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as f:
                    parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
    below, found = [root], []
    while below:
        at = below.pop()
        children = [pid for pid, parent in parents.items() if parent == at]
        found += children
        below += children
    return found


class Sides:
    """What is compared: a daemon with its client, and the floor; bound to one CPU, or free to use all."""

    def __init__(self):
        self.floor = self.daemon = self.client = None

    def start(self, cpus, memory_bytes=None):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            self.floor = Floor()
            self.daemon = Daemon(memory_bytes)
            self.client = Server(os.path.join(BUILD, "bench/client"), self.daemon.path, *(os.path.join(BUILD, name) for name in (
                "examples/counter/counter_v1.so", "examples/counter/counter_v2.so", "examples/kv/kv.so", "bench/modules/kv_again.so",
                "bench/modules/bag.so", "bench/modules/bag_again.so")))
            if self.client.line() != "ready":
                raise Failed("the client is not ready")
        finally:
            os.sched_setaffinity(0, before)

    def end(self):
        for part in (self.client, self.daemon, self.floor):
            if part:
                part.end()


class Bench:
    def __init__(self, pairs):
        self.pairs = pairs
        self.rows = []
        self.sides = self.floor = self.client = None
        self.landlock = 0

    def run(self, cpus, *parts, memory_bytes=None):
        """Runs parts of the benchmark with a daemon of their own, which is ended whatever happens."""
        self.sides = Sides()
        try:
            self.sides.start(cpus, memory_bytes)
            self.floor, self.client = self.sides.floor, self.sides.client
            self.landlock = max(0, int(self.floor.ask("landlock")[0]))
            for part in parts:
                part()
        except Failed:
            if self.sides.daemon:
                print("---- the daemon's log ----\n" + self.sides.daemon.log_text()[-4000:], file=sys.stderr)
            raise
        finally:
            self.sides.end()

    def interleave(self, ours, floors, pairs=None):
        """Calls both in turns; ours and floors return lists of numbers per turn, which are gathered by position."""
        left, right = [], []
        ours(), floors()  # the first of each is warm-up
        for i in range(pairs or self.pairs):
            if i % 2:
                b, a = floors(), ours()
            else:
                a, b = ours(), floors()
            left.append(a)
            right.append(b)
        return left, right

    def row(self, name, unit, ours, floor=None, goal=None, met=None, more_is_better=False, floor_name="", samples=None):
        """goal: text; met: a function of the row, which says whether it is. p99 of a rate is its slowest 1 %."""
        p = 1 if more_is_better else 99
        r = {"row": name, "unit": unit, "samples": samples or len(ours), "floor_name": floor_name,
             "daemon": {"median": median(ours), "p99": percentile(ours, p)}, "floor": None, "ratio": None}
        if floor:
            r["floor"] = {"median": median(floor), "p99": percentile(floor, p)}
            r["ratio"] = {k: r["daemon"][k] / r["floor"][k] for k in ("median", "p99")}
        r["goal"] = goal
        r["met"] = bool(met(r)) if met else None
        self.rows.append(r)

    # ---- the rows ----

    def create(self):
        a, b = self.interleave(lambda: self.client.ask("create 0", 4) + self.client.ask("create 1", 4),
                               lambda: self.floor.ask("spawn") + self.floor.ask("spawn-exec") + self.floor.ask("exec-locked"))
        spawn, with_exec, exec_only = ([x[i] for x in b] for i in range(3))
        for name, at in (("", 0), (", persist", 4)):
            reply, call, total, destroy = ([x[at + i] for x in a] for i in range(4))
            self.row("create -> first call" + name, "us", total, spawn, "ratio <= 1.0", lambda r: r["ratio"]["median"] <= 1.0,
                     floor_name="spawn")
            if not at:
                self.row("  beside all of it with exec", "us", total, with_exec, floor_name="spawn-exec")
                self.row("  beside exec, no namespaces", "us", total, exec_only, floor_name="exec-locked")
            self.row("  create's reply alone", "us", reply)
            self.row("  the first call alone", "us", call)
            self.row("destroy" + name, "us", destroy)

    def restart(self):
        a, b = self.interleave(lambda: self.client.ask("restart"), lambda: self.floor.ask("restart"))
        self.row("restart after SIGKILL", "us", sum(a, []), sum(b, []), "ratio <= 1.0", lambda r: r["ratio"]["median"] <= 1.0, floor_name="restart")

    def call_here(self, name):
        n = CALLS_PER_PAIR
        a, b = self.interleave(lambda: self.client.ask("call %d" % n, n), lambda: self.floor.ask("rtt2 %d" % n, n))
        self.row(name, "us", sum(a, []), sum(b, []), "ratio <= 2.5", lambda r: r["ratio"]["median"] <= 2.5, floor_name="rtt2")

    def call_on_one_cpu(self):
        self.call_here("call round trip, on one CPU")

    def call(self):
        self.call_here("call round trip, on all CPUs")

    def calls(self):
        request, reply = (int(n) for n in self.client.ask("sizes", 2))
        for callers, goal in ((CALLERS, ">= 70 %"), (1, None)):
            load = "%d %d %d" % (callers, DEPTH, CALLS_PER_BATCH)
            relay = "%s %d %d" % (load, request, reply)
            a, b = self.interleave(lambda: self.client.ask("calls " + load),
                                   lambda: self.floor.ask("relay " + relay) + self.floor.ask("relay-stream " + relay))
            ours, messages, stream = [1e6 / x[0] for x in a], [1e6 / x[0] for x in b], [1e6 / x[1] for x in b]
            self.row("calls/s, %d caller%s x %d in flight" % (callers, "s" if callers > 1 else "", DEPTH), "1/s", ours, messages, goal,
                     (lambda r: r["ratio"]["median"] >= 0.7) if goal else None, more_is_better=True,
                     floor_name="relay of %d + %d bytes" % (request, reply))
            self.row("  beside a relay of streams", "1/s", ours, stream, more_is_better=True, floor_name="relay-stream")

    def reload(self):
        got = [self.reload_once(SMALL) for _ in range(self.pairs)]
        self.row("reload pause, small state", "us", [x[0] for x in got], None, "300, p99 1500",
                 lambda r: r["daemon"]["median"] <= 300 and r["daemon"]["p99"] <= 1500)
        self.reload_rest(got)

    def replace(self):
        got = [self.reload_once(SMALL, "replace") for _ in range(self.pairs)]
        self.row("replace pause, small state", "us", [x[0] for x in got])
        self.reload_rest(got)

    def reload_once(self, subject, how="reload"):
        return self.client.ask("%s %d %d" % (how, subject, LOAD), 4)

    def reload_rest(self, got):
        self.row("  new calls held", "us", [x[1] for x in got])
        self.row("  the whole request", "us", [x[2] for x in got])

    def begin(self, subject, n):
        counted = self.client.ask("begin %d %d %d" % (subject, n, MEMORY_LARGE))[0]
        if counted != n:
            raise Failed("the state has %d of what should be %d" % (counted, n))

    def reload_large(self):
        self.begin(MAP, KEYS)
        got = [self.reload_once(MAP) for _ in range(min(ROUNDS_LARGE, self.pairs))]
        self.client.ask("end %d" % MAP)
        self.row("reload pause, map of 1,000,000 keys", "us", [x[0] for x in got], None, "150 ms",
                 lambda r: r["daemon"]["median"] <= 150000)
        self.reload_rest(got)
        for size in (1, 100):
            self.begin(BYTES, size * MIB)
            got, floors = self.interleave(lambda: self.reload_once(BYTES), lambda: self.floor.ask("copy %d" % (size * MIB), 2),
                                          min(ROUNDS_LARGE if size > 1 else 10 * ROUNDS_LARGE, self.pairs))
            self.client.ask("end %d" % BYTES)
            self.row("reload pause, %d MiB of bytes" % size, "us", [x[0] for x in got], [x[1] for x in floors], "ratio <= 1.5",
                     lambda r: r["ratio"]["median"] <= 1.5, floor_name="copy, warm memfd")
            self.reload_rest(got)

    def crowd(self):
        """Many at once, and nothing of them afterwards."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < CROWD_FILES:
            self.rows.append({"row": "create beside %d live" % CROWD, "skipped": "they need %d descriptors, and the limit is %d" % (CROWD_FILES, hard)})
            return
        alone, _ = self.interleave(lambda: self.client.ask("create 0", 4), lambda: self.floor.ask("spawn"))
        self.client.ask("crowd 0 %d" % CROWD, CROWD)
        self.client.ask("empty 0 %d" % CROWD)  # what the allocators keep for good is there now
        before = self.settled()
        self.client.ask("crowd 0 %d" % CROWD, CROWD)
        beside, spawn = self.interleave(lambda: self.client.ask("create 0", 4), lambda: self.floor.ask("spawn"))
        self.row("create beside %d live" % CROWD, "us", [x[2] for x in beside], sum(spawn, []), floor_name="spawn")
        self.row("  beside the same with few", "us", [x[2] for x in beside], [x[2] for x in alone], "ratio <= 1.3",
                 lambda r: r["ratio"]["median"] <= 1.3, floor_name="create beside few")
        self.client.ask("empty 0 %d" % CROWD)
        after = self.settled(before)
        for name, unit, goal in (("processes", "", 0), ("mounts", "", 0), ("descriptors", "", 0), ("memory", "KiB", 1024)):
            self.row("  left of them: %s" % name, unit, [after[name] - before[name]], None, "<= %d" % goal, lambda r, g=goal: r["daemon"]["median"] <= g,
                     samples=CROWD)

    def watched(self):
        """What it costs that somebody looks at sandboxes that do nothing."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < CROWD_FILES:
            self.rows.append({"row": "control, %d idle" % WATCHED, "skipped": "they need descriptors, and the limit is %d" % hard})
            return
        control = int(self.client.ask("control")[0])
        self.client.ask("crowd 0 %d" % WATCHED, WATCHED)
        time.sleep(WATCHED_SECONDS)  # until each has been idle for long enough
        before = processor_ns(control)
        time.sleep(WATCHED_SECONDS)
        took = (processor_ns(control) - before) / WATCHED_SECONDS
        self.row("control, %d idle sandboxes" % WATCHED, "us/s", [took / 1e3], None, "<= 10,000", lambda r: r["daemon"]["median"] <= 10000, samples=WATCHED)
        self.client.ask("empty 0 %d" % WATCHED)

    def settled(self, like=None):
        """What spawner and control hold, when it doesn't change any more: for a second, or is as it was."""
        spawner, control = self.sides.daemon.process.pid, int(self.client.ask("control")[0])
        last, since, until = None, 0, time.monotonic() + 20
        while True:
            now = {"processes": len(descendants(spawner)), "mounts": lines_with("/proc/%d/mountinfo" % spawner, self.sides.daemon.folder),
                   "descriptors": sum(len(os.listdir("/proc/%d/fd" % pid)) for pid in (spawner, control)),
                   "memory": sum(private_kib(pid) or 0 for pid in (spawner, control))}
            stable = {k: now[k] for k in ("processes", "mounts", "descriptors")}
            if stable != last:
                last, since = stable, time.monotonic()
            if time.monotonic() - since > 1 or time.monotonic() > until or (like and all(now[k] <= like[k] for k in stable)):
                return now
            time.sleep(0.05)

    def page(self):
        """A page of sandbox.list: bench and phoenix are there already."""
        n = PAGE - 2
        self.client.ask("fill 0 %d" % n, n)
        took = [self.client.ask("list %d" % PAGE)[0] for _ in range(self.pairs)]
        self.client.ask("empty 0 %d" % n)
        self.row("sandbox.list, a page of %d" % PAGE, "us", took)

    def state(self):
        """Medians of its own rounds, in processor time."""
        text = subprocess.run([os.path.join(BUILD, "bench/state"), str(ROUNDS_STATE)], stdout=subprocess.PIPE, check=True).stdout
        for name, got in json.loads(text).items():
            for key, what in (("save_fresh_ms", "save, fresh memfd"), ("save_again_ms", "save, warm memfd"), ("restore_ms", "restore")):
                self.row("%s: %s" % (name, what), "ms", [got[key]], samples=ROUNDS_STATE)

    def mirror(self):
        """What each call pays for checkpoint call, inside the host; medians of its own batches, in processor time."""
        text = subprocess.run([os.path.join(BUILD, "bench/mirror")], stdout=subprocess.PIPE, check=True).stdout
        for name, got in json.loads(text).items():
            self.row("checkpoint call: save of %s" % name, "us", [got["save_us"]], None, "<= 2", lambda r: r["daemon"]["median"] <= 2, samples=201)

    def memory(self):
        control = int(self.client.ask("control")[0])
        n = IDLE_FOR_CONTROL
        pids = self.client.ask("fill 0 %d" % n, n)  # the first hundred fills what the allocator had free
        before = private_kib(control)
        self.client.ask("fill %d %d" % (n, n), n)
        after = private_kib(control)
        hosts = [private_kib(int(pid)) for pid in pids[:IDLE]]
        bare = self.floor.ask("memory")
        if None in hosts or before is None or after is None:
            self.rows.append({"row": "private memory", "skipped": "only root may see that of a process that isn't dumpable"})
        else:
            self.row("private memory, idle sandbox", "KiB", hosts, bare, "<= 80", lambda r: r["daemon"]["median"] <= 80, floor_name="forked child")
            self.row("control's memory, each sandbox", "KiB", [(after - before) / n], None, "<= 16",
                     lambda r: r["daemon"]["median"] <= 16, samples=n)
        self.client.ask("empty 0 %d" % (2 * n))


def shown(value):
    if value is None:
        return "-"
    return "%.0f" % value if value >= 1000 else "%.1f" % value


def table(rows):
    line = "%-37s %4s %9s %9s %9s %9s %7s %7s  %-14s %s"
    print(line % ("row", "unit", "daemon", "p99", "floor", "p99", "ratio", "p99", "goal", ""))
    for r in rows:
        if "skipped" in r:
            print("%-37s not measured: %s" % (r["row"], r["skipped"]))
            continue
        floor, ratio = r["floor"] or {}, r["ratio"] or {}
        print(line % (r["row"], r["unit"], shown(r["daemon"]["median"]), shown(r["daemon"]["p99"]), shown(floor.get("median")),
                      shown(floor.get("p99")), *("%.2f" % ratio[k] if ratio else "-" for k in ("median", "p99")),
                      r["goal"] or "", {True: "met", False: "NOT met", None: ""}[r["met"]]))


def parse(argv):
    pairs, to = 200, None
    words = iter(argv)
    for word in words:
        value = next(words, None)
        if word == "--pairs" and value and value.isdigit() and int(value) > 0:
            pairs = int(value)
        elif word == "--json" and value:
            to = value
        else:
            raise Failed("usage: bench.py [--pairs N] [--json FILE]")
    return pairs, to


def main(argv):
    pairs, to = parse(argv)
    end_cleanly(max(SECONDS_MAX, pairs))
    started = time.monotonic()
    bench = Bench(pairs)
    cpus = os.sched_getaffinity(0)
    bench.run({max(cpus)}, bench.call_on_one_cpu)
    bench.run(cpus, bench.call, bench.calls, bench.create, bench.restart, bench.reload, bench.replace, bench.memory, bench.page)
    bench.run(cpus, bench.crowd)
    bench.run(cpus, bench.watched)
    bench.run(cpus, bench.reload_large, memory_bytes=MEMORY_LARGE)
    bench.state()
    bench.mirror()
    about = {"pairs": pairs, "kernel": platform.release(), "cpus": os.cpu_count(), "uid": os.getuid(), "landlock_abi": bench.landlock,
             "load_average": os.getloadavg()[0], "seconds": round(time.monotonic() - started, 1)}
    print("%(pairs)d pairs, interleaved, in %(seconds).0f s; kernel %(kernel)s, %(cpus)d cpus, load %(load_average).1f, uid %(uid)d,"
          " Landlock ABI %(landlock_abi)d" % about)
    table(bench.rows)
    print(NOTE)
    if to:
        with open(to, "w") as f:
            json.dump({"about": about, "note": NOTE, "rows": bench.rows}, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failed, OSError, subprocess.CalledProcessError) as e:
        sys.exit("bench: %s" % e)
