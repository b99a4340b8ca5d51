#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sandboxctl: every verb with every way to end that it has, and --json everywhere."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from harness import (BUILD, COUNTER1, COUNTER2, Case, ctl, error_code, example_source, main, module, wait_for)

DONE, FAILED, USAGE, NOT_FOUND, STATE, TIMEOUT, DOWN, DENIED, REFUSED, RELOAD = range(10)
VERBS = {  # operands that name the sandbox `x`
    "create": ["x", COUNTER1], "destroy": ["x"], "start": ["x"], "stop": ["x"], "restart": ["x"], "list": [], "info": ["x"], "security": ["x"], "usage": ["x"],
    "freeze": ["x"], "thaw": ["x"], "reset": ["x"], "update": ["x", "--max-queue", "9"], "explain": ["x"],
    "group-create": ["g"], "group-list": [], "group-info": ["x"], "group-destroy": ["x"], "group-add": ["x", "y"], "group-remove": ["x", "y"],
    "group-start": ["x"], "group-stop": ["x"], "group-restart": ["x"], "group-reset": ["x"], "tree": [],
    "call": ["x", "get"], "cast": ["x", "get"],
    "wait": ["x", "--for", "running"], "reload": ["x", COUNTER2], "rollback": ["x"], "versions": ["x"], "history": ["x"],
    "state-get": ["x"], "state-set": ["x", "count=3"], "checkpoint": ["x"], "state-check": ["x"], "state-diff": ["x", "y"], "schema": ["x"], "schema-diff": ["x", "y"], "commit": ["x"], "logs": ["x"], "events": [], "audit": [],
    "profile-list": [], "profile-show": ["x"], "profile-validate": ["/dev/null"], "profile-diff": ["x", "y"],
    "ping": [], "doctor": [], "daemon-info": [], "shutdown": [], "upgrade": [], "outcome": ["key"], "discover": [],
}


class Verbs(Case):
    def run_ctl(self, status, *args, says=None):
        """One run; with --json its one line is parsed and returned, else the whole run."""
        r = self.ctl(*args)
        self.assertEqual(r.status, status, (args, r.out, r.err))
        if "--json" in args:
            lines = r.out.splitlines()
            self.assertEqual(len(lines), 1, r.out)
            value = json.loads(lines[0])
            if status != DONE:
                self.assertIn("code", value["error"]["data"])
                self.assertIn("message", value["error"])
                if says:
                    self.assertEqual(value["error"]["data"]["code"], says, value)
            return value
        if status != DONE:
            self.assertEqual(r.out, "")
            self.assertTrue(r.err.startswith("sandboxctl: "), r.err)
            if says:
                self.assertIn(says, r.err)
        return r

    def both(self, status, *args, says=None):
        self.run_ctl(status, *args, says=says)
        return self.run_ctl(status, *args, "--json", says=says)

    def test_the_table_has_all_verbs(self):
        """`help` and `new` ask no daemon: test_author_verbs.py and test_docs.py have them."""
        self.assertEqual(set(VERBS) | {"help", "new"}, set(self.ctl("help", "--names").out.split()))

    def test_done(self):
        self.run_ctl(DONE, "create", "x", COUNTER1)
        self.assertEqual(self.run_ctl(DONE, "create", "y", COUNTER1, "--json")["status"], "running")
        self.assertEqual(self.run_ctl(DONE, "call", "x", "increment", "by=5").out, '{"count":5}\n')
        self.assertEqual(self.run_ctl(DONE, "call", "x", "increment", "by:=2", "--json"), {"result": {"count": 7}, "version": 1})
        self.assertEqual(self.run_ctl(DONE, "call", "x", "increment", "--args", '{"by": 3}').out, '{"count":10}\n')
        self.assertIn("version 1 -> 2", self.run_ctl(DONE, "reload", "x", COUNTER2).out)
        self.assertEqual(self.run_ctl(DONE, "reload", "x", COUNTER2, "--json")["outcome"], "no_change")
        self.assertIn("2 -> 1", self.run_ctl(DONE, "rollback", "x").out)
        self.assertEqual(self.run_ctl(DONE, "rollback", "x", "2", "--json")["to"], 2)
        self.assertEqual(self.both(DONE, "versions", "x")["current"], 2)
        self.assertEqual(self.both(DONE, "state-get", "x")["state"]["total"], 10)
        self.assertEqual(self.run_ctl(DONE, "state-set", "x", "total=11", "--json")["outcome"], "set")
        self.assertIn("is changed", self.run_ctl(DONE, "state-set", "x", "total=10").out)
        self.assertTrue(self.both(DONE, "state-check", "x")["same"])
        self.assertEqual(len(self.both(DONE, "state-diff", "x", "y")["differences"]), 4)
        self.assertEqual([f["name"] for f in self.both(DONE, "schema", "x")["state"]], ["total", "step", "owner"])
        self.assertEqual(len(self.both(DONE, "schema-diff", "x", "y")["differences"]), 4)
        h = self.both(DONE, "history", "x")
        self.assertEqual((h["current"], h["reloads"], h["rollbacks"], h["failed_reloads"]), (2, 3, 2, 0))
        self.assertEqual(self.both(DONE, "info", "x")["id"], "x")
        self.assertEqual([r["protection"] for r in self.both(DONE, "security", "x")["security"]][:2], ["own uid", "groups"])
        self.assertEqual(self.run_ctl(DONE, "info", "x", "--functions").out.split(), ["increment", "work", "get", "set_step"])
        self.assertEqual([s["id"] for s in self.both(DONE, "list")["sandboxes"]], ["x", "y"])
        self.assertEqual(self.run_ctl(DONE, "list", "--quiet").out, "x\ny\n")
        self.assertIn("lines", self.both(DONE, "logs", "x"))
        r = self.ctl("events", "--json")
        self.assertEqual(r.status, DONE)
        for line in r.out.splitlines():
            json.loads(line)
        self.run_ctl(DONE, "events")
        self.assertTrue(self.both(DONE, "ping")["pong"])
        self.assertEqual(self.both(DONE, "outcome", "never-sent")["state"], "unknown")
        self.assertIn("openrpc", self.both(DONE, "discover"))
        self.assertEqual(self.both(DONE, "daemon-info")["control_pid"], self.daemon.control_pid())
        self.assertIn("stopped", self.run_ctl(DONE, "stop", "x").out)
        self.assertEqual(self.run_ctl(DONE, "start", "x", "--json")["status"], "running")
        self.assertIn("running", self.run_ctl(DONE, "restart", "x").out)
        self.assertEqual(self.run_ctl(DONE, "restart", "x", "--json")["state_from"], "kept")
        self.assertEqual(self.ctl("call", "x", "get").json()["count"], 10)
        self.run_ctl(DONE, "stop", "y", "--json")
        self.run_ctl(DONE, "start", "y")
        self.run_ctl(DONE, "destroy", "x")
        self.assertEqual(self.run_ctl(DONE, "destroy", "y", "--json"), {"id": "y", "destroyed": True})
        self.assertEqual(self.run_ctl(DONE, "list", "--json")["sandboxes"], [])

    def test_create_from_source(self):
        r = self.run_ctl(DONE, "create", "x", example_source("counter/counter_v1"), "--json")
        self.assertEqual(r["versions"][0]["origin"], "source")
        self.run_ctl(DONE, "reload", "x", example_source("counter/counter_v2"))
        self.assertEqual(self.ctl("versions", "x", "--json").json()["versions"][0]["source_name"], "counter_v2.c")

    def test_no_such_thing(self):
        for verb, operands in VERBS.items():
            if operands and verb not in ("create", "outcome", "group-create", "profile-validate"):
                self.both(NOT_FOUND, verb, *operands, says="not_found")
        self.both(NOT_FOUND, "create", "x", "--object", "0" * 64, says="object_not_found")
        self.ctl("create", "x", COUNTER1)
        self.both(NOT_FOUND, "rollback", "x", "7", says="version_not_found")
        self.both(NOT_FOUND, "rollback", "x", says="version_not_found")
        self.both(NOT_FOUND, "rollback", "x", "--to", "1", "--state", "saved", says="state_not_found")
        self.both(NOT_FOUND, "call", "x", "no_such", says="unknown_function")
        self.both(NOT_FOUND, "reload", "x", "--object", "0" * 64, says="object_not_found")
        self.assertEqual(self.ctl("events", "--sandbox", "nobody").status, DONE)

    def test_wrong_state(self):
        self.ctl("create", "x", COUNTER1)
        self.both(STATE, "create", "x", COUNTER1, says="already_exists")
        self.both(STATE, "start", "x", says="wrong_state")
        self.both(DONE, "thaw", "x")  # it isn't frozen, as asked
        self.both(DONE, "freeze", "x")
        self.both(STATE, "reload", "x", COUNTER2, says="wrong_state")
        self.both(DONE, "explain", "x")
        self.ctl("stop", "x")
        self.both(STATE, "freeze", "x", says="wrong_state")
        self.both(STATE, "thaw", "x", says="wrong_state")
        self.both(DONE, "reset", "x")
        self.assertIn("max_queue: 1024 -> 9: live", self.run_ctl(DONE, "update", "x", "--max-queue", "9").out)
        self.assertEqual(self.run_ctl(DONE, "update", "x", "--max-queue", "9", "--json"), {"id": "x", "changes": [], "pending": []})
        self.both(STATE, "call", "x", "get", says="wrong_state")
        self.both(STATE, "cast", "x", "get", says="wrong_state")
        self.both(STATE, "reload", "x", COUNTER2, says="wrong_state")
        self.both(STATE, "rollback", "x", says="wrong_state")
        self.both(STATE, "state-get", "x", says="wrong_state")
        self.both(STATE, "state-check", "x", says="wrong_state")
        self.both(STATE, "state-set", "x", "count=3", says="wrong_state")
        self.assertEqual(self.ctl("stop", "x").status, DONE)  # already what was asked for
        for verb in ("info", "versions", "history", "logs"):
            self.both(DONE, verb, "x")
        self.ctl("restart", "x")
        self.assertEqual(self.ctl("call", "x", "get").status, DONE)

    def test_busy(self):
        self.client.create("x", module("sleeper"), max_queue=1, shutdown_ms=0)
        with self.daemon.client() as c, self.daemon.client() as d:
            for _ in range(32):  # of one connection, as many as the host takes
                c.request("sandbox.call", id="x", function="doze", args={"ms": 600000})
            wait_for(lambda: self.client.info("x")["queue"]["running"] == 32, "a full host")
            for _ in range(30):
                d.request("sandbox.call", id="x", function="sleep", args={"ms": 1})
            self.assertEqual(error_code(json.loads(d.line())), "busy")
            self.both(STATE, "call", "x", "sleep", "ms=1", says="busy")

    def test_timeout(self):
        self.client.create("x", module("sleeper"))
        self.both(TIMEOUT, "call", "x", "sleep", "ms=800", "--timeout-ms", 50, says="timeout")
        self.both(TIMEOUT, "cast", "x", "sleep", "ms=1", "--timeout-ms", 50, says="timeout")  # behind the two that sleep
        self.both(TIMEOUT, "wait", "x", "--for", "failed", "--timeout-ms", 50, says="timeout")
        self.both(TIMEOUT, "create", "y", module("hang_init"), "--start-timeout-ms", 100, says="start_timeout")
        pid = self.daemon.control_pid()
        os.kill(pid, signal.SIGSTOP)  # the daemon hangs: the client's own limit
        try:
            for verb, operands in VERBS.items():
                r = self.ctl(verb, *operands, "--timeout", 30, "--json")
                self.assertEqual(r.status, TIMEOUT, (verb, r.out))
                self.assertEqual(r.json()["error"]["data"]["code"], "timeout")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: self.daemon.process.poll() is not None, "the shutdown that was asked")  # it was in the backlog
        self.daemon.start()

    def test_usage(self):
        for verb, operands in VERBS.items():
            self.both(USAGE, verb, *operands, "--no-such-option")
            if operands:
                self.both(USAGE, verb)
            self.both(USAGE, verb, *operands, *["more"] * 4)
            self.both(USAGE, verb, *operands, "--timeout", "soon")
            self.assertEqual(self.ctl(verb, "--help").status, DONE)
            self.assertIn("Usage:", self.ctl("help", verb).out)
        self.both(USAGE, "no-such-verb")
        self.both(USAGE)
        r = self.ctl("creat", "x", COUNTER1)
        self.assertIn("did you mean 'create'?", r.err)
        self.both(USAGE, "stop", "x", "--state", "sometimes")
        self.both(USAGE, "rollback", "x", "--state", "older")
        self.both(USAGE, "rollback", "x", "--to", "first")
        self.both(USAGE, "rollback", "x", "1", "--to", "1")
        self.both(USAGE, "create", "x", COUNTER1, "--restart", "never")
        self.both(USAGE, "create", "x", COUNTER1, "--intensity", "-1")
        self.both(USAGE, "create", "x", COUNTER1, "--config", "[]")
        self.both(USAGE, "create", "x", COUNTER1, "--config", "{")
        self.both(USAGE, "create", "x", COUNTER1, "--limit", "max_memry=5")
        self.assertEqual(self.ctl("list", "--json").json()["sandboxes"], [])

    def test_source_or_object_refused(self):
        folder = tempfile.mkdtemp(prefix="sbxf")
        self.addCleanup(shutil.rmtree, folder)
        bad = os.path.join(folder, "bad.so")
        empty = os.path.join(folder, "empty.d")
        os.mkdir(empty)
        with open(bad, "wb") as f:
            f.write(b"\x7fELF but not really")
        self.ctl("create", "x", COUNTER1)
        for verb, to in (("create", "y"), ("reload", "x")):
            self.both(REFUSED, verb, to, bad, says="bad_image")
            self.both(REFUSED, verb, to, os.path.join(folder, "no.so"), says="bad_source")
            self.both(REFUSED, verb, to, empty, says="bad_source")
        self.assertEqual(self.ctl("call", "x", "get").out, '{"count":0}\n')

    def test_reload_failed(self):
        self.ctl("create", "x", module("tally"))
        self.both(RELOAD, "reload", "x", module("fail_check"), says="reload_failed")
        self.both(RELOAD, "reload", "x", module("crash_restore"), says="reload_failed")
        self.both(RELOAD, "reload", "x", module("mismatch"), says="state_mismatch")
        self.both(RELOAD, "state-set", "x", "cuont=3", says="state_mismatch")
        self.assertEqual(self.ctl("call", "x", "get").out, '{"count":0}\n')

    def test_failed(self):
        self.ctl("create", "x", module("tally"))
        self.both(FAILED, "call", "x", "refuse", says="module_error")
        self.both(FAILED, "create", "y", module("fail_init"), says="start_failed")
        self.client.create("z", module("crash_call"))
        self.both(FAILED, "call", "z", "segv", says="crashed")

    def test_output_cannot_be_written(self):
        self.ctl("create", "x", COUNTER1)
        full = open("/dev/full", "wb")
        self.addCleanup(full.close)
        r = subprocess.run([os.path.join(BUILD, "sandboxctl"), "--socket", self.daemon.socket, "info", "x"], stdout=full,
                           stderr=subprocess.PIPE, check=False)
        self.assertEqual(r.returncode, FAILED, r.stderr)


class Down(Case):
    """No daemon at all, and one that ended in order."""

    def test_daemon_down(self):
        folder = tempfile.mkdtemp(prefix="sbxf")
        self.addCleanup(shutil.rmtree, folder)
        for verb, operands in VERBS.items():
            r = ctl(os.path.join(folder, "none"), verb, *operands)
            self.assertEqual(r.status, DOWN, (verb, r.err))
            self.assertIn("unreachable", r.err)
            r = ctl(os.path.join(folder, "none"), verb, *operands, "--json")
            self.assertEqual((r.status, r.json()["error"]["data"]["code"]), (DOWN, "unreachable"))

    def test_shutdown(self):
        daemon = self.own_daemon()
        with daemon.client() as c:
            c.create("x", module("tally"))
            c.create("s", module("sleeper"), shutdown_ms=500)
            c.request("sandbox.call", id="s", function="sleep", args={"ms": 60000})
            daemon.look()
            r = ctl(daemon.socket, "shutdown", "--json")
            self.assertEqual((r.status, r.json()), (DONE, {"stopping": True}))
            self.assertEqual(daemon.process.wait(30), 0)
        self.assertEqual(ctl(daemon.socket, "ping").status, DOWN)

    def test_requests_while_it_shuts_down(self):
        daemon = self.own_daemon(options=["--debug"])
        with daemon.client() as c, daemon.client() as late:
            c.create("s", module("stubborn"), shutdown_ms=1000)
            daemon.look()
            c.rpc("daemon.shutdown")
            late.request("sandbox.list")
            reply = late.reply(late.next_id)
            self.assertEqual(reply["error"]["data"]["code"], "shutting_down", reply)
            r = ctl(daemon.socket, "create", "x", COUNTER1)
            self.assertIn(r.status, (STATE, DOWN), r.err)
            self.assertEqual(daemon.process.wait(30), 0)


if __name__ == "__main__":
    main()
