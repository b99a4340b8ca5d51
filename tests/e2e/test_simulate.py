#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sandboxd --simulate: the example of docs/SUPERVISION.md to the letter, and lines that no scenario is."""
import contextlib
import json
import os
import re
import resource
import subprocess
import tempfile
import unittest

from harness import BUILD, TOP, main

SHOP = os.path.join(TOP, "examples/simulate/shop.jsonl")
WORKER = {"id": "a", "type": "worker"}


def simulate(*options, stdin=b""):
    return subprocess.run([os.path.join(BUILD, "sandboxd"), *options], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=120)


def scenario(children=(WORKER,), events=(), **more):
    root = {"id": "root", "type": "group", "children": list(children)}
    return json.dumps(dict({"id": 1, "t_end": 1000, "root": dict(root, **more.pop("root", {})), "events": list(events)}, **more)).encode()


class Simulate(unittest.TestCase):
    def test_the_worked_example(self):
        with open(os.path.join(TOP, "docs/SUPERVISION.md"), encoding="utf-8") as f:
            blocks = re.findall(r"(?ms)^```\n(.*?)^```", f.read())
        with open(SHOP, encoding="utf-8") as f:
            self.assertEqual(blocks[0], f.read())
        r = simulate("--simulate", SHOP, "--explain")
        self.assertEqual((r.returncode, r.stderr), (0, b""))
        result = json.loads(r.stdout)
        self.assertEqual(blocks[1], "".join("%5d  %s\n" % (t, text) for t, text in result["explain"]))
        self.assertEqual(result["actions"][-1], [3610, "failed", "shop"])
        self.assertEqual(result["replies"], [[1, [["web", "stopping"], ["cache", "undefined"], ["db", "running"]]], [2, "down"]])
        self.assertEqual(result["final"], [])
        with open(SHOP, "rb") as f:
            by_otp = simulate("--otp", "--simulate=-", stdin=f.read())
        self.assertEqual((by_otp.returncode, by_otp.stderr), (0, b""))
        otp = json.loads(by_otp.stdout)
        self.assertEqual(otp["actions"][-1], [3610, "ended", "shutdown"])
        self.assertEqual(otp["replies"][0][1], [["web", "running"], ["cache", "running"], ["db", "running"]])
        self.assertNotIn("explain", otp)

    def test_backoff_and_cut(self):
        crash = [{"t": t, "do": "exit", "child": "a", "reason": "error"} for t in (100, 200)]
        line = scenario(events=crash + [{"t": 250, "do": "which", "n": 1, "group": "root"}], root={"intensity": 5}, t_end=320)
        ours, otp = (json.loads(simulate("--simulate", "-", *options, stdin=line).stdout) for options in ([], ["--otp"]))
        self.assertIn([200, "backoff", "a"], ours["actions"])
        self.assertIn([300, "start", "a"], ours["actions"])
        self.assertEqual(ours["replies"], [[1, [["a", "backoff"]]]])
        self.assertEqual(otp["replies"], [[1, [["a", "running"]]]])
        slow = dict(WORKER, start_ms=500)
        line = scenario([slow], [{"t": 700, "do": "exit", "child": "a", "reason": "error"}, {"t": 800, "do": "stop_root"}], t_end=3000)
        ours, otp = (json.loads(simulate("--simulate", "-", *options, stdin=line).stdout) for options in ([], ["--otp"]))
        self.assertEqual(ours["actions"][-5:], [[800, "stop_root", ""], [800, "ending", "root"], [800, "cancel", "a"], [800, "stopped", "a"], [800, "ended", "shutdown"]])
        self.assertIn([1200, "started", "a"], otp["actions"])

    def test_many_lines_and_no_newline_at_the_end(self):
        r = simulate("--simulate", "-", stdin=b"\n".join(scenario(id=i) for i in range(1, 2001)) + b"\n\n" + scenario(id=2001))
        self.assertEqual([json.loads(line)["id"] for line in r.stdout.splitlines()], list(range(1, 2002)))
        self.assertEqual(simulate("--simulate", "-").returncode, 0)

    def refused(self, line, word):
        r = simulate("--simulate", "-", stdin=scenario() + b"\n" + line + b"\n" + scenario())
        self.assertEqual(r.returncode, 2, r)
        self.assertEqual(r.stdout.count(b"\n"), 1)
        self.assertRegex(r.stderr.decode(), r"^sandboxd: standard input, line 2(, byte \d+)?: .*%s" % word)
        self.assertEqual(r.stderr.count(b"\n"), 1)

    def test_wrong_lines(self):
        group = {"id": "g", "type": "group"}
        deep = {"id": "g0", "type": "group", "children": []}
        for i in range(1, 10):
            deep = {"id": "g%d" % i, "type": "group", "children": [deep]}
        exit_a = {"t": 1, "do": "exit", "child": "a", "reason": "error"}
        for line, word in (
                (b"{", "JSON|end|expected"), (b"[]", "object"), (b"\xff", "."), (b'{"id":1,"id":2}', "id"), (b"{}", "'id' is missing"),
                (scenario(extra=1), "extra"), (scenario(id="x"), "'id' is a whole number"), (scenario(phase=1000), "'phase'"), (scenario(t_end=-1), "'t_end'"),
                (scenario(t_end=10 ** 12), "'t_end'"), (scenario(root={"type": "worker"}), "."), (scenario(root={"period": 0}), "group 'root': 'period'"),
                (scenario(root={"intensity": 101}), "'intensity'"), (scenario(root={"strategy": "all"}), "one_for_one one_for_all"),
                (scenario(root={"shutdown": 5}), "infinity"), (scenario(root={"significant": True}), "significant"), (scenario([WORKER, WORKER]), "two children 'a'"),
                (scenario([dict(WORKER, id="../x")]), "'id' is no id"), (scenario([dict(WORKER, id="x" * 64)]), "'id' is no id"), (scenario([{"id": "a"}]), "'type' is missing"),
                (scenario([dict(WORKER, start_ms=1.5)]), "'start_ms'"), (scenario([dict(WORKER, stop_ms="later")]), "'stop_ms'"), (scenario([dict(WORKER, children=[])]), "children"),
                (scenario([dict(WORKER, significant=1)]), "true or false"), (scenario([dict(WORKER, significant=True)]), "auto_shutdown never"),
                (scenario([dict(WORKER, id="w%d" % i) for i in range(1025)]), "at most 1024 children"), (scenario([deep]), "8 groups"), (scenario([dict(group, children=5)]), "array"),
                (scenario([5]), "object"), (scenario(events=[5]), "event 1: an event is an object"), (scenario(events=[{}]), "event 1: 't' is missing"),
                (scenario(events=[exit_a, {"t": 1}]), "event 2: 'do' is missing"), (scenario(events=[dict(exit_a, do="jump")]), "event 1: 'do' is one of"),
                (scenario(events=[dict(exit_a, reason="why")]), "'reason'"), (scenario(events=[dict(exit_a, more=1)]), "more"),
                (scenario(events=[{"t": 1, "do": "set", "child": "a", "key": "x", "value": 1}]), "'key'"), (scenario(events=[{"t": 1, "do": "set", "child": "a", "key": "fail"}]), "'value'"),
                (scenario(events=[{"t": 1, "do": "start_child", "n": 1, "group": "root"}]), "'spec' is missing"),
                (scenario(events=[{"t": 1, "do": "which", "group": "root"}]), "'n' is missing"), (scenario(events=[exit_a] * 65537)[:1 << 20], "."),
                (scenario(t_end=10 ** 9, root={"intensity": 100, "period": 1}, children=[dict(WORKER, start_ms=25)],
                          events=[{"t": 5000, "do": "set", "child": "a", "key": "fail", "value": 10 ** 9}] + [dict(exit_a, t=6000)]), None)):
            with self.subTest(line=line[:200]):
                if word:
                    self.refused(line, word)
        # without back-off it would restart for ever: ended by the number of actions
        r = simulate("--simulate", "-", "--otp", stdin=line)
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"more than 1000000 actions", r.stderr)

    def test_a_line_that_is_too_long(self):
        r = simulate("--simulate", "-", stdin=b" " * (3 << 20))
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"at most 1048576 bytes", r.stderr)

    def endless(self, piece, *options):
        """Its input is a pipe whose writer stops only when nobody reads; its memory is bounded."""
        read_end, write_end = os.pipe()
        with open(os.devnull, "wb") as nothing:
            process = subprocess.Popen([os.path.join(BUILD, "sandboxd"), "--simulate", "-", *options], stdin=read_end, stdout=nothing, stderr=subprocess.PIPE,
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20)))
        os.close(read_end)
        sent = 0
        try:
            while True:
                sent += os.write(write_end, piece)
                self.assertLess(sent, 4 << 30)
        except BrokenPipeError:
            pass
        finally:
            os.close(write_end)
            err = process.communicate(timeout=120)[1]
        return process.returncode, err

    def test_pipes_that_never_end(self):
        for piece, says in ((b"x" * 65536, b"line 1: a scenario has at most 1048576 bytes"), (b"\0" * 65536, b"line 1: a scenario has at most 1048576 bytes"),
                            (b"no\n" * 20000, b"line 1, byte 1: "), (b"\n" * 65536, b"more than 1000000 lines"), (b"\r\n" * 30000, b"more than 1000000 lines"),
                            (b"[" * 65536, b"line 1: a scenario has at most 1048576 bytes")):
            with self.subTest(piece=piece[:4]):
                status, err = self.endless(piece)
                self.assertEqual(status, 2, err)
                self.assertIn(says, err)
                self.assertEqual(err.count(b"\n"), 1)

    def test_nobody_reads_the_results(self):
        process = subprocess.Popen([os.path.join(BUILD, "sandboxd"), "--simulate", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.close()
        try:
            while True:
                process.stdin.write(scenario() + b"\n")
        except BrokenPipeError:
            pass
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        self.assertNotEqual(process.wait(timeout=120), 0)

    def test_options_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for options, status, word in ((["--otp"], 2, b"goes with --simulate"), (["--explain"], 2, b"goes with --simulate"), (["--simulate"], 2, b"no value"),
                                          (["--simulate", folder + "/none"], 1, b"No such file"), (["--simulate", folder], 1, b"directory"), (["--simulat", "x"], 2, b"--simulate")):
                r = simulate(*options)
                self.assertEqual(r.returncode, status, r)
                self.assertIn(word, r.stderr)
                self.assertEqual(r.stdout, b"")
            self.assertEqual(os.listdir(folder), [])
        r = subprocess.run([os.path.join(BUILD, "sandboxd-control"), "--nonsense"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual(r.returncode, 2)


if __name__ == "__main__":
    main()
