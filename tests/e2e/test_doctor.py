#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""daemon.doctor: what it says is what sandboxes get, it leaves nothing, and it ends whatever happens to it."""
import os
import signal
import tempfile

from harness import COUNTER1, IS_ROOT, Case, Closed, OwnCase, RpcError, main, wait_for

PROFILES = ["high", "medium", "low"]
CGROUP_ROWS = {"memory of the whole tree", "processes of the whole tree", "cpu share"}


class Doctor(Case):
    def test_it_says_what_sandboxes_get(self):
        c = self.client
        seen = c.rpc("daemon.doctor")
        self.assertEqual([p["profile"] for p in seen["profiles"]], PROFILES)
        for p in seen["profiles"]:
            c.create("x", COUNTER1, profile=p["profile"])
            real = c.rpc("sandbox.security", id="x")
            c.destroy("x")
            self.assertTrue(p["works"], p)
            self.assertGreater(p["birth_us"], 0)
            self.assertEqual(p["missing"], real["missing"])
            rows = [[(r["protection"], r["asked"], r["got"] == "none", r["why"]) for r in report] for report in (p["security"], real["security"])]
            self.assertEqual(rows[0], rows[1])
        missing = {m for p in seen["profiles"] for m in p["missing"]}
        self.assertEqual({r["protection"] for r in seen["remedies"]}, missing)
        for r in seen["remedies"]:
            self.assertTrue(r["lost"] and r["get"], r)
        self.assertEqual(seen["rootless"], not IS_ROOT)
        self.assertEqual(seen["kernel"], os.uname().release)

    def test_exposure(self):
        """Less protection is a worse number, and the lines say what makes it."""
        c, seen = self.client, []
        for profile in PROFILES:
            c.create("x", COUNTER1, profile=profile)
            s = c.rpc("sandbox.security", id="x")
            self.assertTrue(0 <= s["exposure"] <= 10)
            lines = [l.split("  ") for l in self.ctl("security", "x").out.splitlines()]
            self.assertIn("exposure", lines[2][0])
            self.assertIn("%.1f of 10 (%s)" % (s["exposure"], s["rating"]), "".join(lines[2]))
            c.destroy("x")
            seen.append(s["exposure"])
        self.assertLessEqual(seen[0], seen[1])
        self.assertLess(seen[1] + 1, seen[2])

    def settled(self, pids):
        """Open descriptors, when two looks in a row agree: a connection may just be ending."""
        last = []

        def twice():
            last.append([len(os.listdir("/proc/%d/fd" % p)) for p in pids])
            return len(last) > 3 and last[-1] == last[-2] == last[-3]

        wait_for(twice, "descriptors that stay as they are")
        return last[-1]

    def test_it_leaves_nothing(self):
        c = self.client
        c.create("x", COUNTER1)
        pid = c.info("x")["pid"]
        before = c.rpc("daemon.info")["sandboxes"]
        c.rpc("daemon.doctor")  # zygotes are there from now on
        pids = (self.daemon.pid, self.daemon.control_pid())
        open_files = self.settled(pids)
        for _ in range(10):
            c.rpc("daemon.doctor")
        wait_for(lambda: self.settled(pids) == open_files, "the descriptors to be %r again" % (open_files,))
        self.assertEqual(c.rpc("daemon.info")["sandboxes"], before)
        self.assertEqual(c.info("x")["pid"], pid)
        self.assertEqual([d for d in os.listdir(os.path.join(self.daemon.runtime, "objects")) if d.startswith("sandboxd-probe")], [])

    def test_nobody_takes_a_probes_name(self):
        for name in ("sandboxd-probe.medium.0000000000000000.00000001", "sandboxd-probe."):
            e = self.refused("bad_param", self.client.create, name, COUNTER1)
            self.assertIn("daemon.doctor", str(e))
        self.client.create("sandboxd-probes", COUNTER1)
        self.assertEqual(self.client.ids(), ["sandboxd-probes"])

    def test_the_daemon_is_idle_afterwards(self):
        """Also with a profile of which no host can be made in advance."""
        c = self.client
        c.create("x", COUNTER1, profile="low")
        c.rpc("daemon.doctor")
        pids = (self.daemon.pid, self.daemon.control_pid())

        def cpu_s(pid):
            with open("/proc/%d/stat" % pid) as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        used = []
        for _ in range(3):  # a loaded machine may be late with what was before
            before = sum(map(cpu_s, pids))
            self.refused("timeout", c.rpc, "sandbox.wait", **{"id": "x", "for": "stopped", "timeout_ms": 1000})
            used.append(sum(map(cpu_s, pids)) - before)
            if used[-1] < 0.2:
                return
        self.fail("of 1 s each the daemon used %r" % used)

    def test_one_at_a_time(self):
        c = self.client
        asked = [c.request("daemon.doctor") for _ in range(8)]
        codes = []
        for r in asked:
            try:
                codes.append("ok" if c.result(r)["profiles"] else "?")
            except RpcError as e:
                codes.append(e.code)
        self.assertEqual(codes[0], "ok")
        self.assertLessEqual(set(codes), {"ok", "busy"})
        self.assertTrue(c.rpc("daemon.doctor")["profiles"])

    def test_capacity(self):
        seen = self.client.rpc("daemon.doctor")["capacity"]
        self.assertEqual(seen["present"], 0)
        self.assertIn(seen["limited_by"], ("open files", "max_sandboxes"))
        fit = (seen["open_files"] - 128) // 8
        self.assertEqual(seen["sandboxes"], min(fit, seen["max_sandboxes"]))

    def test_its_client_goes(self):
        with self.daemon.client() as other:
            other.request("daemon.doctor")
        wait_for(lambda: self.answered(), "the next examination")

    def answered(self):
        try:
            with self.daemon.client() as c:
                return c.rpc("daemon.doctor")["profiles"]
        except RpcError as e:
            self.assertEqual(e.code, "busy")
            return None

    def test_control_is_killed_meanwhile(self):
        for _ in range(10):
            c = self.daemon.client()
            self.addCleanup(c.close)
            c.request("daemon.doctor")
            os.kill(self.daemon.control_pid(), signal.SIGKILL)
            with self.assertRaises((Closed, ConnectionResetError, BrokenPipeError)):
                while True:  # the answer may have been sent before
                    c.line()
            self.daemon.wait_until_up()
        self.assertTrue(wait_for(self.answered, "an examination"))
        folder = os.path.join(self.daemon.runtime, "objects")
        wait_for(lambda: not [d for d in os.listdir(folder) if d.startswith("sandboxd-probe")], "the end of what was cut")

    def test_the_daemon_ends_meanwhile(self):
        for _ in range(3):
            d = self.own_daemon()
            with d.client() as c:
                asked = c.request("daemon.doctor")
                wait_for(d.zygotes, "the examination to begin")
                os.kill(d.pid, signal.SIGTERM)
                try:
                    c.result(asked)
                except RpcError as e:
                    self.assertEqual(e.code, "shutting_down")
            self.assertEqual(d.terminate(), 0)


class Without(Case):
    """Protections that are switched off are named, with a remedy."""
    options = ("--weaken", "pid-namespace,scratch-bytes")

    def test_named(self):
        self.client.create("x", COUNTER1)
        self.assertGreater(self.client.rpc("sandbox.security", id="x")["exposure"], 0.5)
        seen = self.client.rpc("daemon.doctor")
        for p in seen["profiles"][:2]:
            self.assertLessEqual({"pid namespace", "scratch bytes"}, set(p["missing"]), p)
        self.assertLessEqual({"pid namespace", "scratch bytes"}, {r["protection"] for r in seen["remedies"]})


class NoBirth(OwnCase):
    """A profile whose process can't be made is said to be so, with the step; the others are examined all the same."""

    def examine(self, **kwargs):
        d = self.own_daemon(**kwargs)
        with d.client() as c:
            return c.rpc("daemon.doctor")["profiles"], c.rpc("daemon.doctor")["profiles"]

    def test_failed_steps(self):
        for point, step in (("spawner.hold", "hold"), ("spawner.start", "spawn")):
            first, second = self.examine(options=("--fault", point + "=error:1"))
            self.assertEqual([p["works"] for p in first], [False, True, True], first)
            self.assertEqual(first[0]["step"], step)
            self.assertTrue(first[0]["error"])
            self.assertIsNone(first[0]["security"])
            self.assertEqual([p["works"] for p in second], [True] * 3)

    def test_a_full_table(self):
        d = self.own_daemon(config="max_sandboxes = 1\n")
        with d.client() as c:
            c.create("x", COUNTER1)
            seen = c.rpc("daemon.doctor")
            self.assertEqual([p["step"] for p in seen["profiles"]], ["hold"] * 3)
            self.assertEqual(seen["capacity"]["present"], 1)
            c.destroy("x")
            self.assertEqual([p["works"] for p in c.rpc("daemon.doctor")["profiles"]], [True] * 3)


class Require(Case):
    def require(self, status, text):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write(text)
            f.flush()
            os.chmod(f.name, 0o644)
            r = self.ctl("doctor", "--require", f.name)
        self.assertEqual(r.status, status, (text, r.out, r.err))
        return r

    def test_require(self):
        self.require(0, "# nothing\n\n  medium\nhigh own root # with a remark\nmedium system-calls\r\nsandboxes 1\n")
        r = self.require(1, "medium\nmedium cpu share\nsandboxes 9999999\n")
        self.assertEqual(r.err.splitlines(), ["sandboxctl: not met: medium cpu share", "sandboxctl: not met: sandboxes 9999999"])
        for bad in ("medum\n", "medium own rot\n", "sandboxes many\n", "sandboxes -1\n", "medium own root,scratch bytes\n", "medium\x1b[1m\n", "\x00\n"):
            r = self.require(2, bad)
            self.assertIn("bad_param", r.err)
            self.assertNotIn("\x1b", r.err)
        self.assertEqual(self.ctl("doctor", "--require", "/nonexistent").status, 2)

    def test_shown(self):
        out = self.ctl("doctor").out
        for word in PROFILES + ["not enforced: cpu share", "how to get it", "sandboxes that fit"]:
            self.assertIn(word, out)


if __name__ == "__main__":
    main()
