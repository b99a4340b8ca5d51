# SPDX-License-Identifier: MIT
"""Limits of a sandbox as a whole, by cgroups: what the kernel does, seen from outside."""
import os
import signal
import time

import guest
from guest import Client, RpcError, main_pid, module, read, show, wait_for


def leaf_of(pid):
    """The folder of a process in the version 2 hierarchy."""
    return "/sys/fs/cgroup" + read("/proc/%d/cgroup" % pid).strip().split("::", 1)[1]


def leaves():
    top = "/sys/fs/cgroup" + show("ControlGroup")
    return sorted(n for n in os.listdir(top) if "@" in n and not n.startswith("+spare@")), sorted(os.listdir(top))


def value(leaf, name):
    return read(os.path.join(leaf, name)).strip()


def counters(leaf, name):
    return {k: int(v) for k, v in (line.split() for line in read(os.path.join(leaf, name)).splitlines())}


def each_in_a_cgroup_of_its_own():
    seen = {}
    with Client() as c:
        for profile in ("high", "medium", "low"):
            c.create(profile, module("hog"), profile=profile, limits={"max_memory": 64 << 20, "max_processes": 30, "max_cpu_percentage": 250})
            info = c.info(profile)
            leaf = seen[profile] = leaf_of(info["pid"])
            assert os.path.dirname(leaf) == "/sys/fs/cgroup" + show("ControlGroup"), leaf
            assert value(leaf, "memory.max") == str((64 << 20) + (4 << 20)), value(leaf, "memory.max")
            assert value(leaf, "memory.oom.group") == "1"
            assert value(leaf, "pids.max") == "30"
            assert value(leaf, "cpu.max") == "250000 100000", value(leaf, "cpu.max")
            rows = {r["protection"]: r for r in info["security"]}
            for name, got in (("memory of the whole tree", str(64 << 20)), ("processes of the whole tree", "30"), ("cpu share", "250")):
                assert rows[name]["got"] == got, rows[name]
            assert rows["end of the whole tree"]["got"] == "yes"
        assert len(set(seen.values())) == 3
        assert leaf_of(main_pid()).endswith("/daemon")
        assert leaf_of(c.rpc("daemon.info")["control_pid"]).endswith("/daemon")
        for profile in seen:
            c.rpc("sandbox.destroy", id=profile)
    wait_for(lambda: not any(os.path.exists(l) for l in seen.values()), "the end of the leaves")


def strict_is_met_here():
    with Client() as c:
        report = c.rpc("daemon.doctor")
        missing = {m for p in report["profiles"] for m in p["missing"]}
        for profile in ("high", "medium"):
            mine = [p["missing"] for p in report["profiles"] if p["profile"] == profile][0]
            if mine:
                return "lacks %s" % ", ".join(sorted(missing))
            c.create("s-" + profile, module("counter_v1"), profile=profile, strict=True)
            assert c.rpc("sandbox.security", id="s-" + profile)["exposure"] < 0.5
    return "nothing is missing"


def spares_too():
    """A sandbox with the usual limits may get a process that was made in advance: it has a cgroup of its own all the same."""
    with Client() as c:
        for i in range(6):
            c.create("p%d" % i, module("hog"))
        found = [leaf_of(c.info("p%d" % i)["pid"]) for i in range(6)]
        assert len(set(found)) == 6, found
        for leaf in found:
            assert value(leaf, "memory.max") == str((128 << 20) + (4 << 20))
            assert value(leaf, "pids.max") == "100"
            assert value(leaf, "cpu.max") == "100000 100000"


def memory_of_all_processes():
    """Shared memory passes every limit of a process; the sandbox is killed for it, as a whole, and nobody else."""
    with Client() as c:
        c.create("big", module("hog"), limits={"max_memory": 32 << 20}, restart="temporary")
        c.create("other", module("counter_v1"))
        other = c.info("other")["pid"]
        assert c.call("big", "memory", mib=16) == {"touched": 16 << 20}
        try:
            c.call("big", "memory", mib=64)
            raise AssertionError("it was given 64 MiB")
        except RpcError as e:
            assert e.code == "crashed", e
        last = wait_for(lambda: c.info("big")["last_exit"], "its end")
        assert last["reason"] == "oom", last
        assert c.info("other")["pid"] == other
        records = [r for r in c.rpc("audit.read", sandbox="big")["events"] if r["type"] == "denied.limit"]
        assert records and records[-1]["limit"] == "max_memory", records


def processes_of_all_kinds():
    with Client() as c:
        for profile in ("medium", "low"):
            c.create(profile, module("hog"), profile=profile, limits={"max_processes": 20})
            leaf = leaf_of(c.info(profile)["pid"])
            n = c.call(profile, "children", n=400)["children"]
            assert 10 <= n <= 20, n
            assert int(value(leaf, "pids.peak") if os.path.exists(os.path.join(leaf, "pids.peak")) else n) <= 20


def share_of_the_processor():
    with Client() as c:
        c.create("slow", module("hog"), limits={"max_cpu_percentage": 20})
        leaf = leaf_of(c.info("slow")["pid"])
        before, began = counters(leaf, "cpu.stat"), time.monotonic()
        c.call("slow", "spin", ms=3000)
        after, took = counters(leaf, "cpu.stat"), time.monotonic() - began
        share = (after["usage_usec"] - before["usage_usec"]) / took / 1e6
        assert share < 0.35, share
        assert after["nr_throttled"] > before["nr_throttled"]
        return "%.0f %% of a processor" % (100 * share)


def frozen_by_the_kernel():
    with Client() as c, Client() as other:
        c.create("f", module("counter_v1"))
        leaf = leaf_of(c.info("f")["pid"])
        info = c.rpc("sandbox.freeze", id="f")
        assert info["frozen"] == {"mechanism": "cgroup"}, info["frozen"]
        assert counters(leaf, "cgroup.events")["frozen"] == 1
        assert read("/proc/%d/stat" % info["pid"]).rsplit(")", 1)[1].split()[0] in "SD"  # not T: no signal was sent
        os.kill(other.rpc("daemon.info")["control_pid"], signal.SIGKILL)
    wait_for(guest.serves, "the next control")
    with Client() as c:
        assert c.info("f")["frozen"] == {"mechanism": "cgroup"}
        c.rpc("sandbox.thaw", id="f")
        assert counters(leaf, "cgroup.events")["frozen"] == 0
        assert c.call("f", "increment") == {"count": 1}
        c.rpc("sandbox.freeze", id="f")
        c.rpc("sandbox.destroy", id="f")  # a frozen one can be ended
    wait_for(lambda: not os.path.exists(leaf), "the end of the leaf")


def all_of_it_ends_at_once():
    """Children that left session and parent, under a profile without namespaces."""
    with Client() as c:
        c.create("k", module("forker"), profile="low")
        leaf = leaf_of(c.info("k")["pid"])
        for _ in range(5):
            c.call("k", "daemon")
        pids = value(leaf, "cgroup.procs").split()
        assert len(pids) >= 6, pids
        c.rpc("sandbox.destroy", id="k")
    wait_for(lambda: not os.path.exists(leaf), "the end of the leaf")
    assert not [p for p in pids if os.path.exists("/proc/" + p)]


def nothing_is_left_of_a_killed_daemon():
    with Client() as c:
        for i in range(4):
            c.create("l%d" % i, module("counter_v1"), persist=False)
    before = leaves()[1]
    old = main_pid()
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: main_pid() not in (0, old) and show("ActiveState") == "active", "the service's restart")
    wait_for(guest.serves, "the service")
    wait_for(lambda: not [n for n in leaves()[0] if n.startswith("l")], "the end of the old leaves (%r)" % before)


def usage_is_the_kernels_own():
    with Client() as c:
        c.create("u", module("hog"), limits={"max_memory": 64 << 20})
        leaf = leaf_of(c.info("u")["pid"])
        c.call("u", "memory", mib=10)
        u = c.rpc("sandbox.usage", id="u")
        assert u["by"] == "cgroup", u
        assert u["memory"]["shared"] >= 10 << 20, u
        assert u["memory"]["peak"] >= 10 << 20 and u["processes"] == int(value(leaf, "pids.current"))
        c.call("u", "spin", ms=300)
        assert c.rpc("sandbox.usage", id="u")["cpu"]["time_us"] > u["cpu"]["time_us"]


def changed_while_it_runs():
    with Client() as c:
        c.create("u", module("hog"), limits={"max_memory": 64 << 20, "max_processes": 30})
        leaf = leaf_of(c.info("u")["pid"])
        answer = c.rpc("sandbox.update", id="u", limits={"max_memory": 96 << 20, "max_processes": 40, "max_cpu_percentage": 30, "max_open_files": 70})
        assert {x["effect"] for x in answer["changes"]} == {"live"} and answer["pending"] == [], answer
        assert value(leaf, "memory.max") == str((96 << 20) + (4 << 20)), value(leaf, "memory.max")
        assert value(leaf, "pids.max") == "40" and value(leaf, "cpu.max") == "30000 100000", (value(leaf, "pids.max"), value(leaf, "cpu.max"))
        assert "Max data size             %d " % (96 << 20) in read("/proc/%d/limits" % c.info("u")["pid"])
        c.call("u", "keep", mib=80, shared=True)
        try:
            c.rpc("sandbox.update", id="u", limits={"max_memory": 32 << 20})
            raise AssertionError("it has more than that")
        except RpcError as e:
            assert e.code == "wrong_state", e
        assert value(leaf, "memory.max") == str((96 << 20) + (4 << 20))
        c.call("u", "give_back")
        c.rpc("sandbox.update", id="u", limits={"max_memory": 32 << 20})
        assert value(leaf, "memory.max") == str((32 << 20) + (4 << 20))
        assert c.info("u")["restart_count"] == 0


def warned_and_held():
    """By the kernel's counters: a warning at 80 per cent, what was refused and held back, and whom it killed, each once."""
    def told(c, kind, limit):
        return [e for e in c.rpc("event.read", sandbox="w", limit=1000)["events"] if e["type"] == "sandbox.limit_" + kind and e["limit"] == limit]

    with Client() as c:
        c.create("w", module("hog"), limits={"max_memory": 40 << 20, "max_processes": 20, "max_cpu_percentage": 20}, restart="temporary")
        c.call("w", "keep", mib=34, shared=True)
        wait_for(lambda: told(c, "warning", "max_memory"), "a warning of memory")
        c.call("w", "crowd", n=400, mib=0)
        wait_for(lambda: told(c, "exceeded", "max_processes"), "forks that were refused")
        c.call("w", "spin", ms=2000)
        wait_for(lambda: told(c, "exceeded", "max_cpu_percentage"), "a share that was held to")
        assert len(told(c, "warning", "max_memory")) == 1
        assert not any(e["killed"] for e in told(c, "exceeded", "max_processes") + told(c, "exceeded", "max_cpu_percentage"))
        c.call("w", "give_back")
        try:
            c.call("w", "memory", mib=64)
            raise AssertionError("it was given 64 MiB")
        except RpcError as e:
            assert e.code == "crashed", e
        assert wait_for(lambda: c.info("w")["last_exit"], "its end")["reason"] == "oom"
        assert [e["killed"] for e in told(c, "exceeded", "max_memory")] == [True]


def figures():
    """Create to the first call, with cgroups on."""
    data = module("counter_v1")
    times = []
    with Client() as c:
        c.create("warm", data, persist=False)
        for i in range(30):
            began = time.monotonic()
            c.create("t%d" % i, data, persist=False)
            c.call("t%d" % i, "get")
            times.append(time.monotonic() - began)
    times.sort()
    return "create to first call, emulated: median %.0f ms" % (1000 * times[len(times) // 2])


ROWS = [each_in_a_cgroup_of_its_own, strict_is_met_here, spares_too, memory_of_all_processes, processes_of_all_kinds, share_of_the_processor,
        frozen_by_the_kernel, all_of_it_ends_at_once, nothing_is_left_of_a_killed_daemon,
        usage_is_the_kernels_own, changed_while_it_runs, warned_and_held, figures]
