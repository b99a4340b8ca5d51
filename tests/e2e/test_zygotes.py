#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which process a host is a copy of: address spaces of their own, zygotes that are renewed, stopped, killed, while hosts live and starts come."""
import contextlib
import os
import re
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "attacks"))
import world  # noqa: E402
from harness import IS_ROOT, Case, OwnCase, RpcError, main, module, needs_root, wait_for  # noqa: E402

ROOT_AND_USER = [False, True] if IS_ROOT else [True]
WORD = re.compile(r"^([0-9a-f]+)-\S+ r-xp .*(libc\.so|libc-)", re.M)


def layout(pid):
    """Where libc's code is, which an exec decides."""
    return WORD.search(world.read_text("/proc/%d/maps" % pid))[1]


class Fresh(OwnCase):
    def own(self, rootless, **more):
        daemon = world.AttackDaemon(rootless, **more)
        self.daemons.append(daemon)
        return daemon

    def test_bad(self):
        with self.own(not IS_ROOT).client() as c:
            for value in ("new", "", 1, True, None):
                with self.assertRaises(RpcError) as caught:
                    c.create("f", module("tally"), address_space=value)
                self.assertEqual(caught.exception.code, "bad_param")
            self.assertEqual(c.ids(), [])

    @needs_root("maps of hosts are read")
    def test_no_two_are_alike(self):
        for rootless in ROOT_AND_USER:
            daemon = self.own(rootless)
            with daemon.client() as c:
                shared = [layout(c.create("s%d" % i, module("tally"), persist=False)["pid"]) for i in range(3)]
                fresh = [layout(c.create("f%d" % i, module("tally"), persist=False, address_space="fresh")["pid"]) for i in range(6)]
                self.assertEqual(len(set(shared)), 1)
                self.assertEqual(len(set(fresh + shared)), 7)
                c.rpc("sandbox.restart", id="f0")
                self.assertNotIn(layout(c.info("f0")["pid"]), fresh)
                self.assertEqual((c.info("f1")["address_space"], c.info("s1")["address_space"]), ("fresh", "shared"))
            wait_for(lambda d=daemon: len(d.zygotes()) == 1, "the end of what was made for one host each")

    def test_the_same_walls(self):
        """The same steps, and the same report; its first words come before anything of the module as well."""
        for rootless in ROOT_AND_USER:
            with self.own(rootless).client() as c:
                for profile in ("high", "medium") + (("low",) if IS_ROOT else ()):
                    reports = []
                    for space in ("shared", "fresh"):
                        c.create("r", world.attack_module("look"), profile=profile, persist=False, address_space=space)
                        reports.append(c.info("r")["security"])
                        if profile != "low":
                            self.assertEqual(c.call("r", "started_with")["descriptors"], [0, 1, 2, 3])
                        c.destroy("r")
                    uid = [next(i for i, row in enumerate(r) if row["protection"] == "own uid") for r in reports]
                    for r, i in zip(reports, uid):
                        r[i] = dict(r[i], asked=r[i]["asked"] != "none", got=r[i]["got"] != "none")
                    self.assertEqual(reports[0], reports[1], profile)

    def test_many_at_once(self):
        """More than are made beside each other; a zygote that dies meanwhile is followed by another one."""
        daemon = self.own(not IS_ROOT)
        with daemon.client() as c:
            data = open(module("tally"), "rb").read()
            sha = c.put(data)
            requests = [c.request("sandbox.create", id="m%d" % i, object=sha, persist=False, address_space="fresh") for i in range(16)]
            for _ in range(3):
                wait_for(lambda: daemon.zygotes() or c.ids(), "a zygote")
                for pid in daemon.zygotes():
                    with contextlib.suppress(ProcessLookupError):
                        if os.getsid(pid) == pid:  # else it is a host, just cloned
                            os.kill(pid, signal.SIGKILL)
            for r in requests:
                self.assertEqual(c.result(r)["status"], "running")
            for i in range(16):
                self.assertEqual(c.call("m%d" % i, "increment"), {"count": 1})
            self.assertEqual(len(daemon.hosts()), 16)

    @needs_root("maps of hosts are read")
    def test_it_is_kept(self):
        daemon = self.own(not IS_ROOT)
        with daemon.client() as c:
            c.create("k", module("tally"), address_space="fresh")
            first = layout(c.info("k")["pid"])
        daemon.kill_control()
        with daemon.client() as c:
            self.assertEqual(c.info("k")["address_space"], "fresh")
            c.rpc("sandbox.restart", id="k")
            self.assertNotEqual(layout(c.info("k")["pid"]), first)
        self.assertEqual(daemon.terminate(), 0)
        daemon.start()
        with daemon.client() as c:
            wait_for(lambda: c.status("k") == "running", "k to run")
            self.assertEqual(c.info("k")["address_space"], "fresh")


class Renewal(OwnCase):
    def own(self, config, rootless=False):
        daemon = world.AttackDaemon(rootless, config=config)
        self.daemons.append(daemon)
        return daemon

    def all_answer(self, client, pids):
        for name, pid in pids.items():
            self.assertEqual(client.info(name)["pid"], pid, name)
            client.call(name, "increment")
            self.assertEqual(client.info(name)["restart_count"], 0)

    @needs_root("maps of hosts are read")
    def test_by_hosts(self):
        for rootless in ROOT_AND_USER:
            daemon = self.own("zygote_hosts = 5\nspare_hosts = 0\n", rootless)
            with daemon.client() as c:
                pids = {"n%d" % i: c.create("n%d" % i, module("tally"), persist=False)["pid"] for i in range(23)}
                layouts = [layout(pid) for pid in pids.values()]
                self.assertEqual([len({*layouts[i:i + 5]}) for i in range(0, 23, 5)], [1] * 5)
                self.assertEqual(len(set(layouts)), 5)
                self.all_answer(c, pids)
            self.assertNotIn("ended with status", daemon.log())  # not taken for deaths
            wait_for(lambda d=daemon: len(d.zygotes()) == 1, "the end of those before")

    @needs_root("maps of hosts are read")
    def test_spares_count_too(self):
        """And those that wait go with the zygote that made them, or are used."""
        for rootless in ROOT_AND_USER:
            daemon = self.own("zygote_hosts = 5\n", rootless)
            with daemon.client() as c:
                pids = {"n%d" % i: c.create("n%d" % i, module("tally"), persist=False)["pid"] for i in range(23)}
                self.assertGreaterEqual(len({layout(pid) for pid in pids.values()}), 5)
                self.all_answer(c, pids)
            self.assertNotIn("ended with status", daemon.log())

    def test_by_hosts_in_a_rush(self):
        """Starts that were asked for before the end of a zygote are carried out by it, those after it by the next; none is lost or made twice."""
        daemon = self.own("zygote_hosts = 3\n", not IS_ROOT)
        with daemon.client() as c:
            sha = c.put(open(module("tally"), "rb").read())
            for round_ in range(2):
                requests = [c.request("sandbox.create", id="r%d-%d" % (round_, i), object=sha, persist=False) for i in range(30)]
                for r in requests:
                    self.assertEqual(c.result(r)["status"], "running")
            self.assertEqual(len(daemon.hosts()), 60)
            self.all_answer(c, {n: c.info(n)["pid"] for n in c.ids()})

    def test_by_age(self):
        daemon = self.own("zygote_age_ms = 1000\n", not IS_ROOT)
        with daemon.client() as c:
            pids = {"a": c.create("a", module("tally"), persist=False)["pid"]}
            first = daemon.zygotes()
            self.assertEqual(len(first), 1)
            wait_for(lambda: daemon.zygotes() and not set(daemon.zygotes()) & set(first), "the next zygote")
            pids["b"] = c.create("b", module("tally"), persist=False)["pid"]
            self.all_answer(c, pids)
            os.kill(pids["a"], signal.SIGKILL)  # one of the zygote before is followed by one of the next
            wait_for(lambda: c.info("a")["status"] == "running" and c.info("a")["pid"] != pids["a"], "the restart")
            self.assertEqual(c.call("a", "increment"), {"count": 1})
        self.assertNotIn("ended with status", daemon.log())


class Stopped(Case):
    def test_under_load(self):
        """Calls go on while it stands; the starts that wait for it are made by the next one, once each."""
        names = ["l%d" % i for i in range(4)]
        for name in names:
            self.client.create(name, module("tally"), persist=False)
        pids = {n: self.client.info(n)["pid"] for n in names}
        zygotes = self.daemon.zygotes()
        over, counts, errors = threading.Event(), dict.fromkeys(names, 0), []

        def load(name):
            try:
                with self.daemon.client() as c:
                    while not over.is_set():
                        counts[name] += 1
                        self.assertEqual(c.call(name, "increment"), {"count": counts[name]})
            except Exception as e:
                errors.append(e)

        threads = [threading.Thread(target=load, args=(n,)) for n in names]
        for t in threads:
            t.start()
        try:
            for pid in zygotes:
                os.kill(pid, signal.SIGSTOP)
            sha = self.client.put(open(module("tally"), "rb").read())
            before = dict(counts)
            requests = [self.client.request("sandbox.create", id="w%d" % i, object=sha, persist=False) for i in range(5)]
            wait_for(lambda: all(counts[n] > before[n] + 5 for n in names), "calls meanwhile")
            for r in requests:
                self.assertEqual(self.client.result(r)["status"], "running")
        finally:
            over.set()
            for t in threads:
                t.join()
        self.assertEqual(errors, [])
        self.assertEqual({n: self.client.info(n)["pid"] for n in names}, pids)
        wait_for(lambda: not set(self.daemon.zygotes()) & set(zygotes), "the end of the one that stood")
        self.assertEqual(len(self.daemon.hosts()), 9)


if __name__ == "__main__":
    main()
