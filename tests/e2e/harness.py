# SPDX-License-Identifier: MIT
"""A private daemon for each test class, a raw client, sandboxctl, and helpers that wait for conditions, never for durations.

Tests end with main(): unittest's own summary, the daemon's log behind each failure, and a line `SKIP name: reason` for each skip.
The test process is a subreaper: whatever a daemon leaves behind becomes its child, and fails the class.
"""
import base64
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("SANDBOXD_BUILD") or os.path.join(TOP, "build"))
MULTIPLIER = int(os.environ.get("SANDBOXD_TEST_MULTIPLIER", "1") or 1)
DEADLINE_S = 30 * MULTIPLIER  # for what must happen, but not how fast
IS_ROOT = os.geteuid() == 0
OTHER_UID, THIRD_UID = 54321, 54322  # of users that own nothing
PR_SET_CHILD_SUBREAPER = 36
RECORD = os.environ.get("SANDBOXD_RECORD")  # a folder: what each Client sends and gets is written there (tests/clients)

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def module(name):
    return os.path.join(BUILD, "tests/modules", name + ".so")


def example(name):
    return os.path.join(BUILD, "examples", name + ".so")


def example_source(name):
    return os.path.join(TOP, "examples", name + ".c")


COUNTER1, COUNTER2 = example("counter/counter_v1"), example("counter/counter_v2")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def pause(seconds=0.01):
    """Between two looks at a condition; tests call wait_for."""
    select.select([], [], [], seconds)


def wait_for(condition, what="the condition", timeout=DEADLINE_S):
    """Looks until condition() is true, and returns what it gave."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come true within %.1f s (last: %r)" % (what, timeout, value))
        pause()


# ---- processes ----


def proc_stat(pid):
    """(state, parent, start time), or None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1]), int(fields[19])


def all_processes():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            s = proc_stat(int(name))
            if s:
                found[int(name)] = s
    return found


def descendants(root):
    """{(pid, start time)} below root."""
    table = all_processes()
    below, added = {root}, True
    while added:
        added = {pid for pid, s in table.items() if s[1] in below and pid not in below}
        below |= added
    return {(pid, table[pid][2]) for pid in below if pid != root and pid in table}


def is_alive(pid, start=None):
    """A leader that is a zombie while other threads still end holds its descriptors: a listening socket would still be served by nobody."""
    s = proc_stat(pid)
    if s is None or (start is not None and s[2] != start):
        return False
    if s[0] not in "ZX":
        return True
    try:
        return len(os.listdir("/proc/%d/task" % pid)) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextlib.contextmanager
def thread_held(tid):
    """One thread stands still, traced; what is queued for it waits."""
    if LIBC.ptrace(PTRACE_SEIZE, tid, None, None) != 0:
        raise unittest.SkipTest("no thread can be held here: %s" % os.strerror(ctypes.get_errno()))
    try:
        assert LIBC.ptrace(PTRACE_INTERRUPT, tid, None, None) == 0
        os.waitpid(tid, WALL)
        yield
    finally:
        LIBC.ptrace(PTRACE_DETACH, tid, None, None)


class Background:
    """Runs f in a thread; result() gives what it returned or raises what it raised."""

    def __init__(self, f, *args, **kwargs):
        self.value = self.error = None
        self.thread = threading.Thread(target=self._run, args=(f, args, kwargs), daemon=True)
        self.thread.start()

    def _run(self, f, args, kwargs):
        try:
            self.value = f(*args, **kwargs)
        except BaseException as e:  # handed to whoever asks
            self.error = e

    def result(self, timeout=DEADLINE_S * 2):
        self.thread.join(timeout)
        if self.thread.is_alive():
            raise AssertionError("a background operation did not end within %d s" % timeout)
        if self.error:
            raise self.error
        return self.value


# ---- the protocol ----


class RpcError(Exception):
    def __init__(self, error):
        self.error = error
        self.data = error.get("data") or {}
        self.code = self.data.get("code")
        super().__init__("%s: %s" % (self.code, error.get("message")))


class Closed(Exception):
    """The daemon closed the connection."""


class Client:
    """One connection. Raw bytes go out; lines come in, with a deadline. Replies are found by their id."""

    def __init__(self, path, timeout=DEADLINE_S):
        self.timeout = timeout
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.buffer = b""
        self.next_id = 0
        self.since = None
        self.early = {}
        self.record = tempfile.mkdtemp(prefix="", dir=RECORD) if RECORD else None
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()

    def recorded(self, name, data):
        if self.record:
            with open(os.path.join(self.record, name), "ab") as f:
                f.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.settimeout(self.timeout)
        self.recorded("sent", data)
        self.socket.sendall(data)

    def line(self, timeout=None):
        """The next line without its newline; Closed at the end of the stream; AssertionError when nothing comes."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise AssertionError("no line came; so far: %r" % self.buffer[:200])
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Closed("closed by the daemon after %r" % self.buffer[:200])
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        self.recorded("got", line + b"\n")
        return line

    def at_end(self, timeout=None):
        """Waits for the end of the stream; True when nothing else came."""
        try:
            self.line(timeout)
        except Closed:
            return not self.buffer
        return False

    def request(self, method, **params):
        self.next_id += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}).encode() + b"\n")
        return self.next_id

    def reply(self, request_id, timeout=None):
        """The whole reply to one request."""
        while request_id not in self.early:
            message = json.loads(self.line(timeout))
            if message.get("id") is None:  # what couldn't be read as a request has no id
                return message
            self.early[message["id"]] = message
        return self.early.pop(request_id)

    def result(self, request_id, timeout=None):
        message = self.reply(request_id, timeout)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def rpc(self, method, **params):
        return self.result(self.request(method, **params))

    def raw(self, line):
        """Sends one line of bytes and reads one reply."""
        self.send(line + b"\n")
        return json.loads(self.line())

    # short forms
    def put(self, data, name="u"):
        """Uploads bytes in chunks; returns their hash."""
        at, step = 0, 256 << 10
        while True:
            chunk = data[at:at + step]
            last = at + len(chunk) >= len(data)
            r = self.rpc("object.put", upload=name, offset=at, data=base64.b64encode(chunk).decode(), last=last)
            at += len(chunk)
            if last:
                return r["sha256"]

    def create(self, sandbox, path_or_bytes, **params):
        data = path_or_bytes if isinstance(path_or_bytes, bytes) else read(path_or_bytes)
        return self.rpc("sandbox.create", id=sandbox, object=self.put(data), **params)

    def reload(self, sandbox, path_or_bytes, **params):
        data = path_or_bytes if isinstance(path_or_bytes, bytes) else read(path_or_bytes)
        return self.rpc("sandbox.reload", id=sandbox, object=self.put(data), **params)

    def call(self, sandbox, function, timeout_ms=None, **args):
        extra = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        return self.rpc("sandbox.call", id=sandbox, function=function, args=args, **extra)["result"]

    def info(self, sandbox):
        return self.rpc("sandbox.info", id=sandbox)

    def status(self, sandbox):
        return self.info(sandbox)["status"]

    def destroy(self, sandbox):
        return self.rpc("sandbox.destroy", id=sandbox)

    def ids(self):
        return [s["id"] for s in self.rows()]

    def rows(self):
        """Of all pages."""
        found, after = [], {}
        while True:
            page = self.rpc("sandbox.list", **after)
            found += page["sandboxes"]
            if page["next"] is None:
                return found
            after = {"after": page["next"]}

    def events(self, sandbox=None, since=None):
        """All events that are kept, page by page; by default those since the test began."""
        found, params = [], {"limit": 1000}
        if sandbox:
            params["sandbox"] = sandbox
        if since or self.since:
            params["since_seq"] = since or self.since
        while True:
            page = self.rpc("event.read", **params)
            if not page["events"]:
                return found
            found += page["events"]
            params["since_seq"] = page["next"]

    def log_text(self, sandbox):
        return "\n".join(l["text"] for l in self.rpc("log.read", id=sandbox, lines=10000)["lines"])


def error_code(message):
    return message["error"]["data"]["code"]


# ---- the daemon ----


class Daemon:
    """sandboxd in a folder of its own. The path is short (a socket's fits 107 bytes), and others may pass through it."""

    def __init__(self, config=None, options=(), profiles=None, **popen):
        self.folder = tempfile.mkdtemp(prefix="sbx")
        os.chmod(self.folder, 0o755)
        self.socket = os.path.join(self.folder, "s")
        self.state = os.path.join(self.folder, "state")
        self.runtime = os.path.join(self.folder, "run")
        self.log_path = os.path.join(self.folder, "log")
        self.options = ["--socket", self.socket, "--state-dir", self.state, "--runtime-dir", self.runtime, *options]
        if config is not None:
            path = os.path.join(self.folder, "conf")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644), "w") as f:
                f.write(config)
            self.options += ["--config", path]
        for name, text in (profiles or {}).items():
            self.write_profile(name, text)
        self.process = None
        self.seen = set()
        try:
            self.start(**popen)
        except BaseException:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.remove()
            raise

    def write_profile(self, name, text):
        """One of the administrator's, read when it starts; text None: there is none of this name any more. It has a config."""
        folder = os.path.join(self.folder, "profiles.d")
        path = os.path.join(folder, name + ".profile")
        if text is None:
            os.unlink(path)
            return
        os.makedirs(folder, 0o755, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w") as f:
            f.write(text)

    def argv(self):
        return [os.path.join(BUILD, "sandboxd"), *self.options]

    def start(self, wait=True, **popen):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **popen)
        if wait:
            self.wait_until_up()

    def wait_until_up(self):
        def is_up():
            if self.process.poll() is not None:
                raise AssertionError("sandboxd ended with %d:\n%s" % (self.process.returncode, self.log()))
            try:
                with Client(self.socket) as c:
                    return c.rpc("daemon.ping")["pong"]
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError, Closed):
                return False  # nobody is there yet, or whom the last one had accepted goes with it

        wait_for(is_up, "sandboxd to serve")

    @property
    def pid(self):
        return self.process.pid

    def client(self, **kwargs):
        return Client(self.socket, **kwargs)

    def control_pid(self):
        with self.client() as c:
            return c.rpc("daemon.info")["control_pid"]

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def look(self):
        """Remembers all processes that the daemon has now."""
        self.seen |= descendants(self.pid)

    def hosts(self):
        """The pids of its sandbox-host processes that live."""
        found = []
        for pid, start in descendants(self.pid):
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:  # exe can't be read: hosts aren't dumpable
                if f.read().startswith("sandbox-host") and is_alive(pid, start):
                    found.append(pid)
        return found

    def zygotes(self):
        """The pids of its zygotes that live."""
        found = []
        for pid, start in descendants(self.pid):
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                if f.read().startswith("sandbox-zygote") and is_alive(pid, start):
                    found.append(pid)
        return found

    def objects(self):
        """What lies in the runtime's objects folder, but for what belongs to no sandbox yet, and second names of what a process has loaded."""
        top = os.path.join(self.runtime, "objects")
        found = sorted(os.path.relpath(os.path.join(d, n), top) for d, ds, fs in os.walk(top) for n in ds + fs)
        return [name for name in found if not name.startswith(".spare-") and not name.endswith("/current.object")]

    def spares(self):
        """The pids of the hosts that were made in advance, live and wait."""
        found = []
        for pid, start in descendants(self.pid):
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                if f.read().strip() == "sandbox-spare" and is_alive(pid, start):
                    found.append(pid)
        return found

    def kill_control(self):
        """SIGKILL, and the next one serves. Returns (old pid, new pid)."""
        old = self.control_pid()
        os.kill(old, signal.SIGKILL)
        return old, self.wait_for_next_control(old)

    def wait_for_next_control(self, old):
        def other():
            try:
                with self.client() as c:
                    pid = c.rpc("daemon.info")["control_pid"]
                    return pid if pid != old else None
            except (Closed, ConnectionError):
                return None

        return wait_for(other, "the next control process")

    def terminate(self):
        """SIGTERM; the exit status."""
        self.look()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.look()
            raise AssertionError("sandboxd did not end within %d s of SIGTERM; it has %r" % (DEADLINE_S, self.tree()))

    def tree(self):
        rows = []
        for pid, _ in sorted(descendants(self.pid)):
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                rows.append("%d %s %s" % (pid, f.read().strip(), (proc_stat(pid) or "?")[0]))
        return rows

    def left_over(self):
        """Processes of it that still live, found as recorded ones and as orphans that became our children."""
        for pid, s in all_processes().items():
            if s[1] == os.getpid() and (pid != self.process.pid or self.process.returncode is not None):
                self.orphan(pid, s)
        return [pid for pid, start in self.seen if is_alive(pid, start)]

    def orphan(self, pid, stat):
        """A child of ours that we didn't start was the daemon's; one that has ended is reaped."""
        if stat[0] == "Z" and (pid, stat[2]) in self.seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        elif stat[0] != "Z":
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                if not f.read().startswith(("sandboxctl", "python", "sandboxd\n")):
                    self.seen.add((pid, stat[2]))

    def close(self):
        """The orderly end, checked; returns complaints."""
        complaints = []
        try:
            try:
                status = self.terminate()
                if status != 0:
                    complaints.append("sandboxd ended with status %d after SIGTERM" % status)
            except AssertionError as e:
                complaints.append(str(e))
                self.process.kill()
                self.process.wait()
            try:
                wait_for(lambda: not self.left_over(), "the end of all its processes", 10 * MULTIPLIER)
            except AssertionError:
                for pid in self.left_over():
                    with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                        complaints.append("process %d (%s) is left" % (pid, f.read().strip()))
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            complaints += ["%s is left" % p for p in self.left_files()]
        finally:
            self.remove()
        return complaints

    def remove(self):
        """The folder; where a spawner was killed, what it had mounted there as well."""
        with open("/proc/self/mounts") as f:
            for point in [line.split()[1] for line in f if line.split()[1].startswith(self.folder + "/")]:
                LIBC.umount2(point.encode(), 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def left_files(self):
        """All files outside the state folder; the log and the configuration, with its profiles, are ours."""
        ours = {self.log_path, os.path.join(self.folder, "conf")}
        left = []
        for folder, folders, files in os.walk(self.folder):
            if folder == self.folder:
                folders[:] = [f for f in folders if f not in ("state", "profiles.d")]
            left += [os.path.join(folder, n) for n in files if os.path.join(folder, n) not in ours]
        return left


class Ctl:
    """How a run of sandboxctl ended."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __iter__(self):
        return iter((self.status, self.out, self.err))

    def json(self):
        return json.loads(self.out)


def ctl(socket_path, *args, uid=None, **kwargs):
    """Runs sandboxctl; with uid, as that user (root only)."""
    argv = [os.path.join(BUILD, "sandboxctl"), "--socket", socket_path, *[str(a) for a in args]]
    if uid is not None:
        kwargs.update(user=uid, group=uid, extra_groups=[])
    r = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE_S * 3,
                       env=dict(os.environ, LC_ALL="C"), check=False, **kwargs)
    return Ctl(r.returncode, r.stdout.decode(), r.stderr.decode())


class OwnCase(unittest.TestCase):
    """A class of tests each of which starts the daemons that it needs."""

    maxDiff = None

    def setUp(self):
        self.daemons = []
        self.addCleanup(self._close_own)

    def own_daemon(self, **kwargs):
        """A daemon for this test alone; closed and checked at its end."""
        daemon = Daemon(**kwargs)
        self.daemons.append(daemon)
        return daemon

    def _close_own(self):
        complaints = [c for d in self.daemons for c in d.close()]
        self.daemons = []
        self.assertEqual(complaints, [])


class Case(OwnCase):
    """A class of tests with one daemon. config: text of a configuration file, or None."""

    config = None
    options = ()
    profiles = None  # {name: text of its file}; with a config

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(config=cls.config, options=cls.options, profiles=cls.profiles)

    @classmethod
    def tearDownClass(cls):
        complaints = cls.daemon.close()
        if complaints:
            raise AssertionError("; ".join(complaints))

    def setUp(self):
        super().setUp()
        self.client = self.daemon.client()
        self.addCleanup(self._after)
        self.client.since = self._newest()

    def _newest(self):
        """The number of the newest event there is: ids are used again by later tests."""
        events = self.client.events()
        return events[-1]["seq"] if events else None

    def _after(self):
        """Whatever a test left is destroyed, so that the next begins with nothing."""
        self.daemon.look()
        self.client.close()
        if self.daemon.process.poll() is not None:
            return
        with contextlib.suppress(Closed, OSError), self.daemon.client() as c:
            for sandbox in c.ids():
                with contextlib.suppress(RpcError):
                    c.destroy(sandbox)

    def ctl(self, *args, **kwargs):
        return ctl(self.daemon.socket, *args, **kwargs)

    def refused(self, code, f, *args, **kwargs):
        """f must raise this error; returns it."""
        with self.assertRaises(RpcError) as caught:
            f(*args, **kwargs)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception

    def wait_status(self, sandbox, *wanted, timeout=DEADLINE_S):
        return wait_for(lambda: self.client.status(sandbox) in wanted, "%s to be %s" % (sandbox, " or ".join(wanted)), timeout)

    def wait_event(self, sandbox, kind, count=1, since=None):
        """The events of this type, when there are that many."""
        def enough():
            found = [e for e in self.client.events(sandbox, since) if e["type"] == kind]
            return found if len(found) >= count else None

        return wait_for(enough, "%d events %s of %s" % (count, kind, sandbox))

    def kill_host(self, sandbox, number=signal.SIGKILL):
        pid = self.client.info(sandbox)["pid"]
        os.kill(pid, number)
        return pid

    def start_call(self, sandbox, function, client=None, timeout_ms=None, **args):
        """Sends a call without waiting for it, and waits until it runs in the host. Returns (client, request id)."""
        c = client or self.daemon.client()
        self.addCleanup(c.close)
        before = self.client.info(sandbox)["queue"]["running"]
        extra = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        request = c.request("sandbox.call", id=sandbox, function=function, args=args, **extra)
        wait_for(lambda: self.client.info(sandbox)["queue"]["running"] > before, "the call to run")
        return c, request

    def assert_healthy(self):
        """The daemon serves, with the control process that it had."""
        self.assertTrue(self.client.rpc("daemon.ping")["pong"])


def needs_root(why="another uid is needed"):
    return unittest.skipUnless(IS_ROOT, why + ", and only root can be another user")


# ---- running ----


class Result(unittest.TextTestResult):
    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        if "SANDBOXD_TEST_TIMES" in os.environ:
            self.stream.writeln(" %6.2f s %s" % (time.monotonic() - self.began, test.id()))

    def _log(self, test):
        daemon = getattr(test, "daemon", None)  # setUpClass and tearDownClass are told by a stand-in, which has none
        for d in [daemon] * (daemon is not None) + getattr(test, "daemons", []):
            with contextlib.suppress(OSError):
                self.stream.writeln("---- the daemon's log (its last 6000 characters)\n%s----" % d.log()[-6000:])
                self.stream.writeln("its processes: %s" % d.tree())

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._log(test)

    def addError(self, test, err):
        super().addError(test, err)
        self._log(test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        name = test.id().split(".", 1)[1] if test.id().startswith("__main__.") else test.id()
        self.stream.writeln("\nSKIP %s.%s: %s" % (os.path.splitext(os.path.basename(sys.argv[0]))[0], name, reason))


def main():
    signal.alarm(280 * MULTIPLIER)  # below the runner's own limit: a traceback says more than being killed
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(AssertionError("the test program ran too long")))
    unittest.main(module="__main__", testRunner=unittest.TextTestRunner(resultclass=Result, stream=sys.stdout, verbosity=1))
