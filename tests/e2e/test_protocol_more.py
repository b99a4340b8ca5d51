#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The protocol under attack and at its limits: who may connect and when, endless lines, deep nesting, few descriptors, other versions,
groups, names that look like paths or methods, links swapped under the daemon's folders, exit statuses of every verb."""
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

from harness import (BUILD, COUNTER1, COUNTER2, IS_ROOT, OTHER_UID, THIRD_UID, Background, Case, Client, Closed, Daemon, RpcError, ctl,
                     error_code, example_source, main, module, needs_root, pause, read, unittest, wait_for)

FULL = os.environ.get("SANDBOXD_CHECK_FULL") == "1"


def as_user(uid, groups, f):
    """Runs f in a process of this user; returns what it returned (JSON)."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(out)
            os.setgroups(groups)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(into, json.dumps(f()).encode())
            os._exit(0)
        except BaseException as e:
            os.write(into, json.dumps("%s: %s" % (type(e).__name__, e)).encode())
            os._exit(1)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text)


@needs_root()
class FirstInstant(unittest.TestCase):
    """B29: from the first instant on, somebody else tries to connect, under a umask of 0. tests/proc/test_listener.c binds the socket a
    thousand times."""

    def test_nobody_else_ever_connects(self):
        starts, tries = 0, 0
        old = os.umask(0)
        try:
            while starts < (100 if FULL else 30):
                connected, tried, seen = self.one_start()
                self.assertEqual(connected, 0)
                tries += tried
                starts += 1
        finally:
            os.umask(old)
        self.assertGreater(tries, starts * 10)
        print("NOTE B29: %d starts, %d attempts of another user, none got in" % (starts, tries))

    def one_start(self):
        folder = tempfile.mkdtemp(prefix="sbx")
        path = os.path.join(folder, "s")
        os.chmod(folder, 0o755)
        out, into = os.pipe()
        stop_r, stop_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setresgid(OTHER_UID, OTHER_UID, OTHER_UID)
            os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
            os.set_blocking(stop_r, False)
            connected = tried = seen = 0
            os.write(into, b"+")
            while True:
                with contextlib.suppress(BlockingIOError):
                    if os.read(stop_r, 1):
                        break
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                r = s.connect_ex(path)
                tried += 1
                connected += r == 0
                seen += r == 13  # EACCES: it was there
                s.close()
            os.write(into, json.dumps([connected, tried, seen]).encode())
            os._exit(0)
        try:
            self.assertEqual(os.read(out, 1), b"+")
            p = subprocess.Popen([os.path.join(BUILD, "sandboxd"), "--socket", path, "--state-dir", folder + "/state", "--runtime-dir",
                                  folder + "/run"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            def is_up():
                with contextlib.suppress(OSError, Closed), Client(path) as c:
                    return c.rpc("daemon.ping")["pong"]

            wait_for(is_up, "sandboxd to serve")
            p.terminate()
            self.assertEqual(p.wait(30), 0)
        finally:
            os.write(stop_w, b"x")
            text = os.read(out, 100)
            os.waitpid(pid, 0)
            for fd in (out, into, stop_r, stop_w):
                os.close(fd)
            shutil.rmtree(folder, ignore_errors=True)
        connected, tried, seen = json.loads(text)
        self.assertGreater(seen, 0)
        return connected, tried, seen


class Endless(Case):
    """B31."""

    def rss(self, pid):
        with open("/proc/%d/statm" % pid) as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_endless_lines(self):
        pid = self.daemon.control_pid()
        before = self.rss(pid)
        clients = [self.daemon.client() for _ in range(20)]
        for c in clients:
            self.addCleanup(c.close)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(24):
                    c.send(b"x" * (128 << 10))
        for c in clients:
            self.assertEqual(error_code(json.loads(c.line())), "request_too_large")
            self.assertTrue(c.at_end())
        self.assertLess(self.rss(pid) - before, 48 << 20)  # twenty lines of at most 1 MiB, and what malloc keeps
        self.assertEqual(self.daemon.control_pid(), pid)

    def test_lines_that_stay_open(self):
        """A megabyte each, unfinished, on as many connections as a user may have: bounded, and others are served."""
        pid = self.daemon.control_pid()
        before = self.rss(pid)
        clients = [self.daemon.client() for _ in range(100)]
        for c in clients:
            self.addCleanup(c.close)
            c.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 900000)
        self.assertTrue(self.client.rpc("daemon.ping")["pong"])
        self.assertLess(self.rss(pid) - before, 250 << 20)
        for c in clients:
            c.close()
        self.assertTrue(self.client.rpc("daemon.ping")["pong"])


def lines_of(method, ids, **params):
    return b"".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}).encode() + b"\n" for i in ids)


def memory_mib(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(l.split()[1]) >> 10 for l in f if l.startswith("VmRSS"))


class Memory(Case):
    """What clients can make control hold: requests that nobody answers, replies that nobody reads; and that who reads gets all."""

    def queue(self, sandbox):
        return self.client.info(sandbox)["queue"]

    def test_large_replies_that_come_due_at_once(self):
        self.client.create("bag", module("big_reply"))
        with self.daemon.client() as c:
            c.send(lines_of("sandbox.call", range(32), id="bag", function="reply", args={"bytes": 1000000}))
            for _ in range(32):
                self.assertEqual(len(json.loads(c.line())["result"]["result"]["text"]), 1000000)

    def test_batches_with_large_replies(self):
        self.client.create("bagb", module("big_reply"))
        for n in (7, 9, 32):
            call = {"jsonrpc": "2.0", "method": "sandbox.call", "params": {"id": "bagb", "function": "reply", "args": {"bytes": 1000000}}}
            with self.daemon.client() as c:
                replies = c.raw(json.dumps([dict(call, id=i) for i in range(n)]).encode())
            self.assertEqual(sorted(r["id"] for r in replies), list(range(n)))
            good = [r for r in replies if "result" in r]
            self.assertEqual(len(good), min(n, 8))
            self.assertEqual({error_code(r) for r in replies if "error" in r}, {"reply_too_large"} if n > 8 else set())

    def test_replies_that_nobody_reads(self):
        self.client.create("unread", module("big_reply"))
        pid = self.client.rpc("daemon.info")["control_pid"]
        clients, call = [], {"id": "unread", "function": "reply", "args": {"bytes": 900000}}
        try:
            for _ in range(100):
                c = self.daemon.client()
                clients.append(c)
                c.send(lines_of("sandbox.call", range(6), **call))
            wait_for(lambda: self.queue("unread")["done"] == 600 or self.queue("unread")["waiting"] + self.queue("unread")["running"] == 0,
                     "all calls")
            self.assertLess(memory_mib(pid), 300)
            self.assertEqual(self.client.call("unread", "length", text="x"), {"bytes": 1})
            self.assertIn("of replies to this user are unread", self.daemon.log())
        finally:
            for c in clients:
                c.close()

    def test_calls_to_a_sandbox_that_hangs(self):
        """Beyond 64 MiB large ones are busy; when their clients go, so do those that weren't sent, but for one with a key."""
        self.client.create("hung", module("sleeper"), shutdown_ms=100)
        pid, clients = self.client.rpc("daemon.info")["control_pid"], []
        call = {"id": "hung", "function": "sleep", "timeout_ms": 600000}
        self.client.request("sandbox.call", args={"ms": 600000}, **call)
        wait_for(lambda: self.queue("hung")["running"] == 1, "the call that hangs")
        try:
            for _ in range(24):
                c = self.daemon.client()
                clients.append(c)
                c.send(lines_of("sandbox.call", range(30), args={"pad": "x" * 1000000}, **call))
            self.assertEqual(error_code(json.loads(clients[-1].line())), "busy")
            queue = self.queue("hung")
            self.assertGreater(queue["waiting"], 20)
            self.assertLessEqual(queue["waiting"] + queue["running"], (64 << 20) // 1000000 + 1)
            self.assertLess(memory_mib(pid), 300)
            clients[-1].send(lines_of("sandbox.call", [99], args={"ms": 1}, request_key="kept", **call))
            wait_for(lambda: self.queue("hung")["waiting"] == queue["waiting"] + 1, "the small one")
        finally:
            for c in clients:
                c.close()
        wait_for(lambda: self.queue("hung")["waiting"] == 1, "the queue without those whose clients have gone")
        self.assertEqual(self.client.rpc("request.outcome", request_key="kept")["state"], "running")
        self.client.destroy("hung")


@needs_root()
class Slots(Case):
    """Connections of others, however many, don't keep administrators out."""

    config = "socket_mode = 0666\noperators = %s\n" % ", ".join(str(70000 + i) for i in range(4))

    def hold(self, uid, n):
        """A process of this user with n connections: (how many were served, how to end it)."""
        out, into = os.pipe()
        wait_r, wait_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(wait_w)
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                served, clients = 0, []
                for _ in range(n):
                    c = Client(self.daemon.socket)
                    clients.append(c)
                    with contextlib.suppress(OSError, Closed):
                        served += "result" in c.raw(b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping"}')
                os.write(into, b"%d" % served)
                os.close(into)
                os.read(wait_r, 1)
            finally:
                os._exit(0)
        os.close(into)
        os.close(wait_r)
        with os.fdopen(out, "rb") as f:
            served = int(f.read() or b"-1")

        def end():
            os.write(wait_w, b"x")
            os.close(wait_w)
            os.waitpid(pid, 0)

        return served, end

    def test_slots(self):
        ends = []
        try:
            served, end = self.hold(OTHER_UID, 20)
            ends.append(end)
            self.assertEqual(served, 8)
            total = 8 + 1  # and the test's own
            for i in range(4):
                served, end = self.hold(70000 + i, 258)
                ends.append(end)
                self.assertEqual(served, min(256, 1024 - 32 - total))
                total += served
            with self.daemon.client() as c:
                self.assertEqual(c.rpc("daemon.info")["right"], "admin")
        finally:
            for end in ends:
                end()


def nested(depth, inner=b"1"):
    return b"[" * depth + inner + b"]" * depth


class Deep(unittest.TestCase):
    """B32: with a stack of 64 KiB for every process of the daemon (but the hosts, which set their own)."""

    @classmethod
    def setUpClass(cls):
        # the hard limit stays: hosts get their own stack
        cls.daemon = Daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, resource.RLIM_INFINITY)))

    @classmethod
    def tearDownClass(cls):
        complaints = cls.daemon.close()
        if complaints:
            raise AssertionError("; ".join(complaints))

    def test_depths_in_used_and_ignored_places(self):
        pid = self.daemon.control_pid()
        for place, base in ((b'{"jsonrpc":"2.0","id":1,"method":"sandbox.create","params":{"id":"a","config":{"x":%s}}}', 3),  # used
                            (b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","params":{"other":%s}}', 2),  # unknown parameter
                            (b'{"jsonrpc":"2.0","id":1,"method":"no.method","params":{"a":%s}}', 2),
                            (b'{"jsonrpc":"2.0","id":1,"other":%s,"method":"daemon.ping"}', 1),
                            (b'{"jsonrpc":"2.0","id":%s,"method":"daemon.ping"}', 1),
                            (b'%s', 0)):
            for depth, is_deep in ((10, False), (64 - base, False), (64 - base + 1, True), (10000, True), (500000, True)):
                with self.daemon.client() as c:
                    reply = c.raw(place % nested(depth))
                    code = error_code(reply[0] if isinstance(reply, list) else reply)  # what isn't too deep may be a batch
                    self.assertEqual(code == "too_deep", is_deep, (place, depth, code))
        for text in (b'{"a":' * 150000 + b"1" + b"}" * 150000, b'[{"a":' * 100000, b"[" * 1000000):
            with self.daemon.client() as c:
                self.assertEqual(error_code(c.raw(text)), "too_deep")
        self.assertEqual(self.daemon.control_pid(), pid)

    def test_it_works_with_a_small_stack(self):
        with self.daemon.client() as c:
            pid = c.rpc("daemon.info")["control_pid"]
            c.create("a", COUNTER1, config={"deep": json.loads(nested(60))})
            c.call("a", "increment")
            c.reload("a", COUNTER2)
            self.assertEqual(c.call("a", "get")["count"], 1)
            # the deepest arguments that a line may carry reach the host, and are judged there
            line = b'{"jsonrpc":"2.0","id":1,"method":"sandbox.call","params":{"id":"a","function":"get","args":{"x":%s}}}' % nested(61)
            self.assertEqual(error_code(c.raw(line)), "bad_argument")
            c.rpc("rpc.discover")
            self.assertEqual(c.rpc("daemon.info")["control_pid"], pid)
            c.destroy("a")


    def outcome(self, f, *args, **kwargs):
        try:
            f(*args, **kwargs)
        except RpcError as e:
            return e.code, e.data.get("module_code", e.data.get("name"))
        return "ok"

    def test_states_and_replies_of_a_module(self):
        """Its own save nests as deep as it likes: 64 lists are kept, one more is `too_deep`, and it serves on with the state that it has. What
        goes out as JSON has two levels less than a line may have, so that sandboxctl can read every answer that there is."""
        with self.daemon.client() as c:
            c.create("d", module("deep"))
            c.create("a", COUNTER1)
            pids = c.rpc("daemon.info")["control_pid"], c.info("a")["pid"]
            for depth, as_json, as_reply, saved in ((1, "ok", "ok", True), (60, "ok", "ok", True), (61, ("too_deep", None), "ok", True),
                                                    (62, ("too_deep", None), ("module_error", "too_deep"), True),
                                                    (64, ("too_deep", None), ("module_error", "too_deep"), True),
                                                    (65, ("too_deep", "too_deep"), ("module_error", "too_deep"), False),
                                                    (1000000, ("too_deep", "too_deep"), ("module_error", "too_deep"), False)):
                with self.subTest(depth=depth):
                    c.call("d", "set", depth=depth)
                    self.assertEqual(self.outcome(c.rpc, "state.get", id="d"), as_json)
                    self.assertEqual(self.outcome(c.call, "d", "reply", depth=depth), as_reply)
                    for args, want in ((("state", "get", "d"), as_json), (("call", "d", "reply", "depth=%d" % depth), as_reply)):
                        r = ctl(self.daemon.socket, *args)
                        self.assertEqual((r.status == 0, want if want == "ok" or want[0] in r.err else r.err), (want == "ok", want))
                    self.assertEqual(self.outcome(c.rpc, "state.check", id="d"), "ok" if saved else ("too_deep", "too_deep"))
                    self.assertEqual(self.outcome(c.rpc, "sandbox.restart", id="d"), "ok" if saved else ("reload_failed", "too_deep"))
                    self.assertEqual(c.call("d", "get"), {"depth": depth})  # restored; or never left
            self.assertEqual((c.rpc("daemon.info")["control_pid"], c.info("a")["pid"]), pids)
            c.destroy("d")
            c.destroy("a")


class FewDescriptors(unittest.TestCase):
    """Connections can't take the descriptors that sandboxes need to be started again, saved and reloaded."""

    LIMIT = 220

    def test_restarts_while_clients_take_all(self):
        daemon = Daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (self.LIMIT, self.LIMIT)))
        clients = []
        try:
            first = daemon.client()
            clients.append(first)
            for i in range(6):
                first.create("s%d" % i, COUNTER1)
                first.call("s%d" % i, "increment", by=i)
            pid = first.rpc("daemon.info")["control_pid"]
            refused = 0
            while refused < 20:
                self.assertLess(len(clients), self.LIMIT)
                c = daemon.client()
                clients.append(c)
                try:
                    c.rpc("daemon.ping")
                except (Closed, RpcError, ConnectionError) as e:
                    if isinstance(e, RpcError):
                        self.assertEqual(e.code, "limit_exceeded")
                    refused += 1
                except AssertionError:
                    raise
            self.assertGreater(len(clients), 80)
            for i in range(6):  # crash and restart
                name = "s%d" % i
                before = first.info(name)["pid"]
                os.kill(before, signal.SIGKILL)
                wait_for(lambda: first.info(name)["pid"] not in (None, before) and first.status(name) == "running", "the restart")
                first.call(name, "increment", by=i)
            for i in range(6):  # save and start, reload, all at once
                first.request("sandbox.restart", id="s%d" % i)
            for i in range(first.next_id - 5, first.next_id + 1):
                first.result(i)
            for i in range(6):
                self.assertEqual(first.call("s%d" % i, "get"), {"count": i})
                self.assertEqual(first.reload("s%d" % i, COUNTER2)["outcome"], "reloaded")
            self.assertEqual(first.rpc("daemon.info")["control_pid"], pid)
            # sandboxes too leave some: create says so in the end, and what is there goes on
            with contextlib.suppress(OSError):
                for c in clients[1:]:
                    c.close()
            n = 6
            code = None
            while code is None:
                self.assertLess(n, self.LIMIT)
                try:
                    first.create("s%d" % n, COUNTER1, restart="temporary")
                    n += 1
                except RpcError as e:
                    code = e.code
            self.assertEqual(code, "limit_exceeded")
            first.rpc("sandbox.restart", id="s0")
            self.assertEqual(first.call("s0", "get")["count"], 0)
            self.assertEqual(first.rpc("daemon.info")["control_pid"], pid)
            print("NOTE %d descriptors: %d connections, later %d sandboxes; every restart went well" % (self.LIMIT, len(clients) - refused, n))
        finally:
            for c in clients:
                c.close()
            complaints = daemon.close()
        self.assertEqual(complaints, [])


@needs_root()
class Groups(Case):
    """Rights by any group of the peer, as the kernel tells them."""

    ADMINS, OPERATORS, MANY = 60001, 60002, 70000
    config = "socket_mode = 0666\nadministrator_groups = %d, 60010\noperator_groups = %d\n" % (ADMINS, OPERATORS)

    def right(self, uid, groups):
        def ask():
            with Client(self.daemon.socket) as c:
                return c.rpc("daemon.info")["right"]

        return as_user(uid, groups, ask)

    def test_rights_by_groups(self):
        self.assertEqual(self.right(OTHER_UID, []), "none")
        self.assertEqual(self.right(OTHER_UID, [60003]), "none")
        self.assertEqual(self.right(OTHER_UID, [60003, self.OPERATORS]), "operator")
        self.assertEqual(self.right(OTHER_UID, [self.OPERATORS, self.ADMINS]), "admin")
        self.assertEqual(self.right(OTHER_UID, list(range(self.MANY, self.MANY + 500)) + [self.ADMINS]), "admin")  # more than fit at first
        self.assertEqual(self.right(OTHER_UID, list(range(self.MANY, self.MANY + 500))), "none")
        self.assertEqual(self.right(self.OPERATORS, []), "operator")  # its primary group

    def test_connections_of_one_user_differ(self):
        """What one process of a user may is not what another one may."""
        def mixed():
            with Client(self.daemon.socket) as c:
                return [c.rpc("daemon.info")["right"]]

        self.assertEqual(as_user(OTHER_UID, [self.ADMINS], mixed), ["admin"])
        self.assertEqual(as_user(OTHER_UID, [], mixed), ["none"])

    def test_names(self):
        with open("/etc/passwd") as f:
            name, _, uid = f.readlines()[1].split(":")[:3]
        with open("/etc/group") as f:
            group, _, gid = f.readlines()[1].split(":")[:3]
        daemon = Daemon(config="administrators = %s\noperator_groups = 5, %s\nsocket_mode = 0666\n" % (name, group))
        try:
            def ask():
                with Client(daemon.socket) as c:
                    return c.rpc("daemon.info")["right"]

            self.assertEqual(as_user(int(uid), [], ask), "admin")
            self.assertEqual(as_user(OTHER_UID, [int(gid)], ask), "operator")
        finally:
            self.assertEqual(daemon.close(), [])
        for line in ("administrators = no-such-user-here", "operator_groups = no-such-group-here", "administrators = a:b", "operators = 12x"):
            with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
                f.write(line + "\n")
                f.flush()
                r = subprocess.run([os.path.join(BUILD, "sandboxd"), "--check-config", "--config", f.name], capture_output=True, text=True,
                                   check=False)
                self.assertEqual(r.returncode, 2, line)
                self.assertIn(f.name + ":1", r.stderr)


class OtherVersions(unittest.TestCase):
    """B39: sandboxctl and a daemon that is older or newer than it."""

    def ask(self, version, replies, *args):
        """Runs sandboxctl against a daemon of that version, which answers the first request with `replies`."""
        folder = tempfile.mkdtemp(prefix="sbx")
        path = os.path.join(folder, "s")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(path)
        server.listen()

        def serve():
            c, _ = server.accept()
            with c, c.makefile("rwb") as f:
                for line in f:
                    q = json.loads(line)
                    body = {"result": {"pong": True, "version": version}} if q["method"] == "daemon.ping" else replies
                    f.write(json.dumps({"jsonrpc": "2.0", "id": q["id"], **body}).encode() + b"\n")
                    f.flush()

        b = Background(serve)
        try:
            return ctl(path, *args)
        finally:
            server.close()
            b.result(10)
            shutil.rmtree(folder)

    def test_known_requests_just_work(self):
        for version in ("0.0.9", "0.2.0", "99.0.0"):
            r = self.ask(version, {"result": {"id": "a", "destroyed": True, "new_member": [1]}}, "destroy", "a")
            self.assertEqual((r.status, r.err), (0, ""))

    def test_unknown_ones_tell_the_versions_once(self):
        error = {"error": {"code": -32601, "message": "there is no method 'sandbox.destroy'", "data": {"code": "unknown_method"}}}
        for version in ("0.0.9", "0.2.0"):
            r = self.ask(version, error, "destroy", "a")
            self.assertEqual(r.status, 2)
            self.assertEqual(r.out, "")
            self.assertEqual(r.err.count("warning:"), 1)
            self.assertIn("unsupported: sandboxd %s doesn't have what sandboxctl" % version, r.err)
            self.assertIn("there is no method 'sandbox.destroy' (upgrade the older of the two", r.err)
        r = self.ask("0.0.9", error, "--json", "destroy", "a")
        self.assertEqual((r.status, json.loads(r.out)["error"]["data"]["code"], r.err.count("\n")), (2, "unsupported", 1))
        error = {"error": {"code": -32602, "message": "sandbox.stop has no parameter 'state'",
                           "data": {"code": "unknown_param", "nearest": "statue"}}}
        r = self.ask("0.0.9", error, "stop", "a", "--state", "fresh")
        self.assertIn("unsupported: sandboxd 0.0.9", r.err)
        self.assertNotIn("statue", r.err)
        r = self.ask("0.0.9", error, "create", "a", COUNTER1)  # the upload's refusal
        self.assertIn("unsupported: sandboxd 0.0.9", r.err)
        r = self.ask("0.0.9", error, "events", "--follow")
        self.assertEqual((r.err.count("warning:"), r.err.count("unsupported:")), (1, 1))
        r = self.ask("0.0.9", error, "state", "diff", "a", "b")
        self.assertEqual((r.err.count("warning:"), r.err.count("unsupported:")), (1, 1))
        r = self.ask("99.1.0", {"error": {"code": -32602, "message": "m", "data": {"code": "missing_param"}}}, "--json", "destroy", "a")
        self.assertEqual(json.loads(r.out)["error"]["data"]["code"], "missing_param")  # scripts read on
        self.assertIn("sandboxd 99.1.0", r.err)

    def test_the_same_version_isnt_told(self):
        version = subprocess.run([os.path.join(BUILD, "sandboxctl"), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        error = {"error": {"code": -32601, "message": "m", "data": {"code": "unknown_method"}}}
        r = self.ask(version, error, "destroy", "a")
        self.assertNotIn("warning", r.err)
        self.assertIn("unknown_method: m", r.err)

    def test_an_old_daemons_refusal(self):
        """The real daemon knows neither the methods nor the parameters of the future."""
        daemon = Daemon()
        try:
            with daemon.client() as c:
                self.assertEqual(c.rpc("daemon.info")["protocol"], 1)
                m = c.raw(b'{"jsonrpc":"2.0","id":1,"method":"sandbox.teleport","params":{"id":"a","to":"b"}}')
                self.assertEqual(error_code(m), "unknown_method")
                m = c.raw(b'{"jsonrpc":"2.0","id":1,"method":"sandbox.stop","params":{"id":"a","gently":true}}')
                self.assertEqual(error_code(m), "unknown_param")
        finally:
            self.assertEqual(daemon.close(), [])


class Names(Case):
    """C20: names that look like paths, methods, options or members of objects."""

    GOOD = ["daemon.ping", "sandbox.call", "rpc.discover", "a..b", "a.", "constructor", "toString", "hasOwnProperty", "null", "true", "0",
            "con", "a-b_c.d", "x" * 63]
    BAD = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "~", "~root", "-rf", "--help", ".hidden", "_a", "a b", "a\tb", "a\nb", "a\u0000b",
           "\u00e4", "a\u200bb", "%2e%2e", "a%", "$(id)", "`id`", "a;b", "a*", "a?", "x" * 64, "__proto__", "{}", "a'b", 'a"b', "\ud800"]

    def test_good_ones_are_just_names(self):
        for name in self.GOOD:
            self.assertEqual(self.client.create(name, COUNTER1)["id"], name)
            self.assertEqual(self.client.call(name, "get"), {"count": 0})
        self.assertEqual(self.client.ids(), self.GOOD)
        for name in self.GOOD:
            self.client.destroy(name)
        self.assertEqual(self.daemon.objects(), [])

    def test_bad_ones_are_refused_everywhere(self):
        before = sorted(os.listdir(self.daemon.folder))
        for name in self.BAD:
            for method, extra in (("sandbox.create", {"object": "0" * 64}), ("sandbox.info", {}), ("sandbox.destroy", {}), ("log.read", {}),
                                  ("sandbox.call", {"function": "get"}), ("object.put", {"offset": 0, "data": ""}), ("version.list", {})):
                key = "upload" if method == "object.put" else "id"
                line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {key: name, **extra}})
                code = error_code(self.client.raw(line.encode()))
                self.assertIn(code, ("invalid_id", "parse_error", "bad_utf8"), (method, name))
        self.assertEqual(sorted(os.listdir(self.daemon.folder)), before)
        self.assertEqual(self.client.ids(), [])

    def test_methods_that_are_none(self):
        for method in ("", ".", "daemon", "daemon.", ".ping", "Daemon.Ping", "daemon.ping ", "daemon/ping", "../daemon.ping", "__proto__", "rpc.", "rpc.x",
                       "daemon.ping\u0000", "sandbox.call.get", "x" * 100000):
            m = self.client.raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())
            self.assertIn(error_code(m), ("unknown_method", "parse_error", "invalid_request"), method[:40])

    def test_files_and_functions(self):
        self.client.create("a", COUNTER1)
        for function in ("../get", "get()", "", "9", "a.b", "a-b", "init ", "__attribute__((x))", "x" * 64):
            self.refused("bad_param", self.client.call, "a", function)
        self.refused("unknown_function", self.client.call, "a", "_init")  # a symbol of the object, not a function of the module
        self.refused("unknown_function", self.client.call, "a", "sbx_module")
        sha = self.client.put(read(example_source("counter/counter_v1")))
        for name in ("../x.c", "/tmp/x.c", "x", "x.so", ".c", "-x.c", "a/b.c", "x.c\n", "x.c;id"):
            e = self.refused("bad_param", self.client.rpc, "sandbox.create", id="b", source=sha, source_name=name)
            self.assertEqual(e.data["name"], "source_name")


@needs_root("files of the daemon's are swapped as another user would; as the same user there is no border")
class Links(Case):
    """C17: links put in the place of what the daemon made, while it runs. Its folders belong to it alone: another user can't; what a
    host may reach can't be swapped from there either; and what an administrator puts there is never followed."""

    def folders(self):
        d = self.daemon
        return [d.state, d.runtime, d.runtime + "/objects", d.runtime + "/jobs"]

    def test_others_cannot_put_anything(self):
        self.client.create("a", COUNTER1)
        folders = self.folders() + [self.daemon.runtime + "/objects/a"]

        def attack():
            done = []
            for folder in folders:
                for name, f in (("link", lambda p: os.symlink("/etc", p)), ("file", lambda p: os.close(os.open(p, os.O_CREAT | os.O_WRONLY))),
                                ("folder", os.mkdir)):
                    try:
                        f(os.path.join(folder, name))
                        done.append([folder, name])
                    except OSError:
                        pass
                try:
                    os.rename(folder, folder + ".old")
                    done.append([folder, "renamed"])
                except OSError:
                    pass
            return done

        uid = os.stat("/proc/%d" % self.client.info("a")["pid"]).st_uid
        self.assertEqual(as_user(OTHER_UID, [], attack), [])
        if uid:  # also with the uid of the sandbox itself
            self.assertEqual(as_user(uid, [], attack), [])

    def victim(self):
        folder = tempfile.mkdtemp(prefix="sbxvictim")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "precious")
        with open(path, "w") as f:
            f.write("precious")
        return folder, path

    def test_links_in_an_objects_folder(self):
        """Where control writes the next object: a link there is neither written through nor loaded."""
        self.client.create("a", COUNTER1)
        self.client.call("a", "increment")
        folder, path = self.victim()
        objects = self.daemon.runtime + "/objects/a"
        for serial in range(1, 12):
            target = os.path.join(objects, "%d.so" % serial)
            if not os.path.lexists(target):
                os.symlink(path, target)
        with contextlib.suppress(RpcError):
            self.client.reload("a", COUNTER2)
        with open(path) as f:
            self.assertEqual(f.read(), "precious")
        self.assertEqual(self.client.call("a", "get")["count"], 1)
        self.client.destroy("a")
        self.assertEqual(self.daemon.objects(), [])
        with open(path) as f:
            self.assertEqual(f.read(), "precious")

    def test_a_link_for_a_sandboxs_folder(self):
        """`objects/b` is a link to a folder with files: create removes the link, not what it points to."""
        folder, path = self.victim()
        os.symlink(folder, self.daemon.runtime + "/objects/b")
        self.client.create("b", COUNTER1)
        self.assertFalse(os.path.islink(self.daemon.runtime + "/objects/b"))
        self.assertEqual(self.client.call("b", "get"), {"count": 0})
        self.client.destroy("b")
        self.assertEqual(os.listdir(folder), ["precious"])

    def test_links_deep_in_what_is_removed(self):
        """What is put into a sandbox's folder goes with it, links aren't followed."""
        self.client.create("c", COUNTER1)
        folder, path = self.victim()
        top = self.daemon.runtime + "/objects/c"
        os.symlink(folder, top + "/x")
        self.client.destroy("c")
        self.assertFalse(os.path.lexists(top))
        self.assertEqual(os.listdir(folder), ["precious"])

    def test_swapping_while_it_works(self):
        """A sandbox's folder is exchanged with a link to elsewhere, over and over, during reloads and creates."""
        folder, path = self.victim()
        objects = self.daemon.runtime + "/objects"
        stop = threading.Event()
        swaps = [0]

        def swap():
            while not stop.is_set():
                real, aside = objects + "/a", objects + "/a.aside"
                with contextlib.suppress(OSError):
                    os.rename(real, aside)
                    os.symlink(folder, real)
                    swaps[0] += 1
                pause(0.002)
                with contextlib.suppress(OSError):
                    if os.path.islink(real):
                        os.unlink(real)
                with contextlib.suppress(OSError):
                    os.rename(aside, real)
                pause(0.002)

        self.client.create("a", COUNTER1)
        self.client.call("a", "increment", by=3)
        b = Background(swap)
        well = 0
        for i in range(30):
            try:
                self.client.reload("a", COUNTER2 if i % 2 == 0 else COUNTER1)
                well += 1
            except RpcError as e:
                self.assertIn(e.code, ("reload_failed", "io_error", "bad_image", "bad_module", "state_mismatch"), e)
        stop.set()
        b.result()
        with contextlib.suppress(OSError):
            os.unlink(objects + "/a")
        with contextlib.suppress(OSError):
            os.rename(objects + "/a.aside", objects + "/a")
        self.assertEqual(self.client.call("a", "get")["count"], 3)
        self.assertEqual(self.client.status("a"), "running")
        with open(path) as f:
            self.assertEqual(f.read(), "precious")
        self.assertGreater(swaps[0], 5)
        self.client.destroy("a")
        print("NOTE C17: %d swaps during 30 reloads, %d of them went well, nothing was written elsewhere" % (swaps[0], well))
        shutil.rmtree(objects + "/a.aside", ignore_errors=True)

    def test_links_for_the_folders_at_start(self):
        """A daemon that finds a link where its folder should be doesn't follow it to somebody else's."""
        for part in ("run", "state"):
            top = tempfile.mkdtemp(prefix="sbx")
            self.addCleanup(shutil.rmtree, top, True)
            os.chmod(top, 0o755)
            folder, path = self.victim()
            os.chown(folder, OTHER_UID, OTHER_UID)
            os.symlink(folder, os.path.join(top, part))
            r = subprocess.run([os.path.join(BUILD, "sandboxd"), "--socket", top + "/s", "--runtime-dir", top + "/run", "--state-dir",
                                top + "/state"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertEqual(os.listdir(folder), ["precious"])


class ExitStatuses(Case):
    """B40: each verb x {ok, no such id, wrong state, timeout, daemon down, usage}."""

    ID_VERBS = {"start": (), "stop": (), "restart": (), "info": (), "call": ("get",), "reload": (COUNTER2,), "rollback": (), "versions": (),
                "logs": (), "destroy": ()}
    OTHER_VERBS = ("list", "events", "ping")

    def status(self, *args):
        return self.ctl(*args).status

    def test_ok_and_no_such_id(self):
        self.client.create("a", COUNTER1)
        self.client.call("a", "increment")
        for verb, more in (("info", ()), ("call", ("get",)), ("versions", ()), ("logs", ()), ("reload", (COUNTER2,)), ("rollback", ()),
                           ("restart", ()), ("stop", ()), ("info", ()), ("start", ()), ("destroy", ())):
            self.assertEqual(self.status(verb, "a", *more), 0, verb)
        self.assertEqual(self.status("create", "a", COUNTER1), 0)
        for verb in self.OTHER_VERBS:
            self.assertEqual(self.status(verb), 0, verb)
        for verb, more in self.ID_VERBS.items():
            self.assertEqual(self.status(verb, "nobody", *more), 3, verb)
        self.assertEqual(self.status("call", "a", "no_such_function"), 3)
        self.assertEqual(self.status("rollback", "a", "77"), 3)

    def test_wrong_state(self):
        self.client.create("a", COUNTER1)
        self.assertEqual(self.status("create", "a", COUNTER1), 4)
        self.client.rpc("sandbox.stop", id="a")
        for verb, more in (("call", ("get",)), ("reload", (COUNTER2,)), ("rollback", ())):
            r = self.ctl(verb, "a", *more)
            self.assertEqual(r.status, 4, (verb, r.err))
        self.assertEqual(self.status("info", "a"), 0)  # a stopped one is no failure of `info`

    def test_timeouts(self):
        self.client.create("a", module("sleeper"))
        self.assertEqual(self.status("call", "a", "sleep", "ms=2000", "--timeout", "50"), 5)
        self.assertEqual(self.status("create", "h", module("hang_init"), "--start-timeout-ms", "100"), 5)
        self.wait_status("a", "running")
        self.start_call("a", "sleep", ms=2000)
        self.assertEqual(self.status("reload", "a", module("tally"), "--rehearse-timeout-ms", "50"), 9)  # nothing changed

    def test_daemon_down(self):
        nowhere = os.path.join(self.daemon.folder, "nowhere")
        for verb, more in list(self.ID_VERBS.items()):
            self.assertEqual(ctl(nowhere, verb, "a", *more).status, 6, verb)
        for verb in (*self.OTHER_VERBS, "shutdown"):
            self.assertEqual(ctl(nowhere, verb).status, 6, verb)
        self.assertEqual(ctl(nowhere, "create", "a", COUNTER1).status, 6)

    def test_usage(self):
        for verb in [*self.ID_VERBS, "create"]:
            self.assertEqual(self.status(verb), 2, verb)
            self.assertEqual(self.status(verb, "a", "--no-such-option"), 2, verb)
            self.assertEqual(self.status(verb, "../a", *self.ID_VERBS.get(verb, (COUNTER1,))), 2, verb)
        for verb in (*self.OTHER_VERBS, "shutdown"):
            self.assertEqual(self.status(verb, "--no-such-option"), 2, verb)
        self.assertEqual(self.status("no-such-verb"), 2)
        self.assertEqual(self.status(), 2)

    def test_the_rest(self):
        self.client.create("a", module("tally"))
        self.assertEqual(self.status("call", "a", "refuse"), 1)
        self.assertEqual(self.status("call", "a", "increment", "by=x"), 2)
        self.assertEqual(self.status("create", "b", module("no_descriptor")), 8)
        self.assertEqual(self.status("reload", "a", module("fail_migrate")), 9)
        with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
            f.write("not C\n")
            f.flush()
            self.assertEqual(self.status("create", "b", f.name), 8)


if __name__ == "__main__":
    main()
