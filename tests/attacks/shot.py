# SPDX-License-Identifier: MIT
"""One shot: a sandbox, an attack in it, what is to be seen of it; and the arena in which shots are made: a daemon and what others have in it."""
import base64
import contextlib
import ctypes
import errno
import json
import os
import pty
import select
import signal
import socket
import struct
import termios
import threading
import time

import world
import harness
import judges
import objects


class Listener:
    """A socket or a terminal outside, and what came to it."""

    def __init__(self, kind, folder, name):
        self.kind, self.path, self.port, self.extra = kind, None, None, []
        if kind.startswith("terminal"):
            self.master, self.slave = pty.openpty()
            self.path = os.ttyname(self.slave)
            os.fchmod(self.slave, 0o666)
            if kind == "terminal-input":  # raw: what is pushed into the input is read from the slave side
                attributes = termios.tcgetattr(self.slave)
                attributes[3] &= ~(termios.ICANON | termios.ECHO)
                termios.tcsetattr(self.slave, termios.TCSANOW, attributes)
            return
        stream = "datagram" not in kind and kind != "udp"
        family = {"tcp": socket.AF_INET, "udp": socket.AF_INET, "tcp6": socket.AF_INET6}.get(kind, socket.AF_UNIX)
        self.socket = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
        if family == socket.AF_UNIX:
            self.path = "@sbx-" + name if kind.startswith("abstract") else os.path.join(folder, "sock-" + kind)
            self.socket.bind("\0" + self.path[1:] if self.path[0] == "@" else self.path)
            if self.path[0] != "@":
                os.chmod(self.path, 0o777)
        else:
            self.socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
            self.port = self.socket.getsockname()[1]
        if stream:
            if kind == "tcp":
                self.socket.setsockopt(socket.IPPROTO_TCP, 23, 5)  # TCP_FASTOPEN
            self.socket.listen(8)

    def received(self, wait):
        """All bytes that came within so many seconds."""
        found, end = b"", time.monotonic() + wait
        sources = [self.slave if self.kind == "terminal-input" else self.master] if self.kind.startswith("terminal") else [self.socket]
        while True:
            ready = select.select(sources, [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                return found
            for source in ready:
                if isinstance(source, int):
                    data = world.quiet(os.read, source, 4096, default=b"")
                elif source is self.socket and self.kind in ("tcp", "tcp6", "unix", "abstract"):
                    connection, _ = source.accept()
                    self.extra.append(connection)
                    sources.append(connection)
                    continue
                else:
                    data = world.quiet(source.recv, 4096, default=b"")
                if not data:
                    sources.remove(source)
                found += data
            if found:
                return found

    def close(self):
        if self.kind.startswith("terminal"):
            os.close(self.master)
            os.close(self.slave)
            return
        for s in [self.socket, *self.extra]:
            s.close()


class Clock:
    """Knows when the real-time clock is set, even if to what it was."""

    def __init__(self):
        self.fd = harness.LIBC.timerfd_create(0, os.O_NONBLOCK | os.O_CLOEXEC)
        far = struct.pack("qqqq", 0, 0, int(time.time()) + 10**8, 0)
        harness.LIBC.timerfd_settime(self.fd, 3, far, None)  # absolute, cancelled when the clock is set

    def was_set(self):
        try:
            os.read(self.fd, 8)
        except OSError as e:
            return e.errno == errno.ECANCELED
        return False

    def close(self):
        os.close(self.fd)


class Arena:
    """A daemon without some walls, and a sandbox in it that has something to lose."""

    def __init__(self, user, walls):
        self.user, self.walls, self.excused = user, tuple(walls), set()
        self.environment_secret, self.keeper_secret = world.nonce(), world.nonce()
        self.keeper = "k" + world.nonce()
        self.daemon = world.AttackDaemon(user == "rootless", walls, {"SANDBOXD_TEST_SECRET": self.environment_secret})
        try:
            with self.daemon.client() as c:
                self.keeper_pid = c.create(self.keeper, world.attack_module("look"), labels={"secret": self.keeper_secret},
                                           config={"secret": "PLANTED" + self.keeper_secret}, profile="medium")["pid"]
                c.call(self.keeper, "keep", text="PLANTED" + self.keeper_secret)
                c.call(self.keeper, "print", text="PLANTED" + self.keeper_secret)
                self.control = c.rpc("daemon.info")["control_pid"]
            shadow = world.quiet(harness.read, "/etc/shadow", default=b"").decode()
            self.shadow = shadow.split("\n")[0][:24]
            self.objects, self.nonces, self.lock = {}, set(), threading.Lock()
            self.lost = {p: self.lost_walls(p) for p in ("high", "medium")}
        except BaseException:
            self.daemon.close()
            raise

    def object_bytes(self, name):
        with self.lock:
            if name not in self.objects:
                self.objects[name] = harness.read(world.attack_module(name))
            return self.objects[name]

    def lost_walls(self, profile):
        """The walls that a sandbox's own report says aren't there, though asked for."""
        with self.daemon.client() as c:
            c.create("report", world.attack_module("look"), profile=profile, persist=False)
            rows = c.info("report")["security"]
            c.destroy("report")
        return {r["protection"].replace(" ", "-") for r in rows if r["asked"] != "none" and r["got"] == "none"}

    def close(self):
        for pid in world.processes_named(self.nonces):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self.daemon.close()


def marked(data, marker, text):
    """The object with a marker replaced: same length, text and zeros."""
    at = data.index(marker.encode() + b"\0")
    return data[:at] + text.encode() + b"\0" * max(0, len(marker) - len(text)) + data[at + max(len(marker), len(text)):]


class Shot:
    """One attack under one profile. Everything that judges ask for."""

    def __init__(self, arena, row, profile):
        self.arena, self.row, self.profile, self.daemon = arena, row, profile, arena.daemon
        self.nonce, self.secret, self.hidden = world.nonce(), world.nonce(), world.nonce()
        self.variable = "V" + world.nonce() + "="
        self.id = "a" + world.nonce()
        self.limits = row.limits
        self.victim = self.listener = self.clock = self.pid = None
        self.ret, self.errno, self.got, self.error = None, "", b"", None
        self.port = self.name = None
        self.folder = os.path.join(self.daemon.canaries, self.id)
        self.make_folder()

    # ---- what lies outside ----

    def make_folder(self):
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.canary = os.path.join(self.folder, "canary")
        self.odd_size = int(self.secret) % 100003 + 1
        for name, data, mode in (("canary", self.secret.encode() * 16, 0o666), (self.hidden, b"", 0o600), ("odd", b"o" * self.odd_size, 0o600),
                                 ("pause", world.PAUSE, 0o755), ("setuid", world.PAUSE, 0o4755), ("program", world.PAUSE, 0o755)):
            path = os.path.join(self.folder, name)
            with open(path, "wb") as f:
                f.write(data)
            os.chmod(path, mode)
        os.symlink(self.secret, os.path.join(self.folder, "link"))

    def give_canary(self):
        """Its file, in a folder that anybody may write: nothing but the walls keep it away."""
        if harness.IS_ROOT:
            os.chown(self.canary, self.uid, -1)

    def handle(self):
        """What name_to_handle_at says about the canary."""
        room = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128), 136)
        mount = ctypes.c_int()
        if harness.LIBC.name_to_handle_at(-100, self.canary.encode(), room, ctypes.byref(mount), 0) != 0:
            return {"path": "/", "text": "00"}
        size, kind = struct.unpack_from("Ii", room.raw)
        return {"path": "/", "text": room.raw[8:8 + size].hex(), "n": kind}

    def swap_file(self):
        """A swap file of a MiB, which whoever asks for it gives back."""
        page = bytearray(4096)
        struct.pack_into("III", page, 1024, 1, 255, 0)
        page[4086:] = b"SWAPSPACE2"
        path = os.path.join(self.folder, "swap")
        with open(path, "wb") as f:
            f.write(bytes(page) + bytes(255 * 4096))
            os.fsync(f.fileno())
        os.chmod(path, 0o600)

    def note_key(self):
        self.key = world.read_text(judges.CTRL_ALT_DEL).strip()

    def wait_for_log(self):
        """The keeper's log is on disk."""
        folder = os.path.join(self.daemon.state, "logs", self.arena.keeper)
        harness.wait_for(lambda: any(self.arena.keeper_secret in world.read_text(os.path.join(folder, f)) for f in world.quiet(os.listdir, folder, default=[])),
                         "the keeper's log")

    def stored_object(self):
        folder = os.path.join(self.daemon.state, "objects")
        return os.path.join(folder, sorted(os.listdir(folder))[0])

    def log_to_kernel(self):
        with open("/dev/kmsg", "w") as f:
            f.write("sandboxd's tests: %s\n" % self.secret)

    def touch_secret_names(self):
        """Files appear in the watched folder until the shot is over."""
        for i in range(1000):
            if self.over.wait(0.02):
                return
            with contextlib.suppress(OSError), open(os.path.join(self.folder, "%s-%d" % (self.secret, i)), "w"):
                pass

    def interfaces(self):
        names = [n for _, n in sorted(socket.if_nameindex())]
        return ";".join(names) if len(names) > 1 else ""

    def free_port(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        return self.port

    def abstract_name(self):
        self.name = "@sbx-" + self.nonce
        return self.name

    def reachable(self):
        """Whether what the module listens on can be connected to from outside."""
        try:
            if self.port:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            else:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect("\0" + self.name[1:])
            return True
        except OSError:
            return False

    # ---- what there is of it ----

    @property
    def shadow(self):
        return self.arena.shadow

    @property
    def before(self):
        return self.look_before

    def named(self):
        return [p for p in world.processes_named({self.nonce}) if p not in (self.pid, self.victim and self.victim.pid)]

    def descendants(self):
        return {pid for pid, _ in harness.descendants(self.pid)}

    def whole_tree(self):
        """{(pid, start time)} of all its processes: below the host, or in a pid namespace of its own (whose number is soon another's)."""
        link = self.look_before.namespaces["pid"]
        found = harness.descendants(self.pid) | {(self.pid, (harness.proc_stat(self.pid) or (0, 0, 0))[2])}
        if link and link != os.readlink("/proc/self/ns/pid"):
            found |= {(p, (harness.proc_stat(p) or (0, 0, 0))[2]) for p in world.in_pid_namespace_of(link)}
        return found

    def left_of_tree(self):
        """Those of them that live, after it has gone."""
        return [p for p, start in self.tree if harness.is_alive(p, start)]

    def all_answers(self):
        """All that the daemon says about the sandbox."""
        with self.daemon.client() as c:
            text = ""
            for method in ("sandbox.info", "sandbox.security"):
                with contextlib.suppress(harness.RpcError):
                    info = c.rpc(method, id=self.id)
                    text += json.dumps({k: v for k, v in info.items() if k not in ("last_exit", "last_words")})
            return text

    def others_wait(self):
        """While it does its worst: another's calls take longer than a second, or control grows by more than 64 MiB."""
        return self.slowest > 1.0 or world.kib(self.arena.control, "VmRSS") > self.control_kib + (64 << 10)

    # ---- firing ----

    def data(self):
        data = self.arena.object_bytes(self.row.module)
        if (self.row.special or "").startswith("object:"):
            data = marked(data, "@TARGET@", self.canary)
            data = marked(data, "@NONCE@", self.nonce)
            data = marked(data, "@PORT@", str(self.listener.port if self.listener else 1))
            data = marked(data, "@WAY@", self.row.special[-1])
            data = objects.changed(data, self.row.special.partition(":")[2])
        return data

    def create(self, client, sandbox, data=None):
        info = client.create(sandbox, data or self.data(), profile=self.profile, persist=False, restart="temporary", shutdown_ms=300, limits=self.limits)
        return info["pid"]

    def call(self, client, sandbox, function, args):
        """Keeps what the module believes; never trusted."""
        try:
            reply = client.call(sandbox, function, timeout_ms=self.row.timeout_ms, **args)
        except harness.RpcError as e:
            self.error = "%s: %s" % (e.code, e.error.get("message", "")[:160])
            return None
        self.ret, self.errno = int(reply.get("ret", 0)), reply.get("errno", "")
        if "got" in reply:
            self.got = base64.b64decode(reply["got"]["$bytes"])
        return reply

    def fire(self):
        """True when the attack came true."""
        self.over = threading.Event()
        row = self.row
        self.programs = world.programs() if row.alone else None
        if row.listener:
            self.listener = Listener(row.listener, self.folder, self.nonce)
        if row.judge is judges.clock_was_set:
            self.clock = Clock()
        client = self.daemon.client()
        try:
            if row.pair:
                return self.fire_pair(client)
            return self.fire_one(client)
        finally:
            self.over.set()
            client.close()
            self.clean()

    def fire_one(self, client):
        row = self.row
        self.snapshot = world.snapshot(self.folder)
        created = self.create_for(client)
        if created:
            self.look_before = self.look_now = world.Look(self.pid)
            self.uid = int(world.status_field(self.pid, "Uid").split()[0])
            if row.victim is not None:
                self.victim = world.Victim(self.uid, self.secret, self.variable[:-1], row.victim)
            if row.prepare:
                row.prepare(self)
            self.snapshot = world.snapshot(self.folder) if not row.special else self.snapshot
            self.control_kib, self.slowest = world.kib(self.arena.control, "VmRSS"), 0
            helpers = [threading.Thread(target=row.during, args=(self,))] if row.during else []
            if row.alone and row.always:
                helpers.append(threading.Thread(target=self.time_others))
            for h in helpers:
                h.start()
            self.call(client, self.id, row.function, row.args(self))
            self.over.set()
            for h in helpers:
                h.join()
        self.now = world.Look(self.pid) if created else NOTHING
        self.tree = self.whole_tree() if created else set()
        came_true = row.after or bool(row.judge(self))
        if created:
            with contextlib.suppress(harness.RpcError):
                client.destroy(self.id)
        return bool(row.judge(self)) if row.after else came_true

    def create_for(self, client):
        """False: the object's own attack has kept the sandbox from starting."""
        try:
            self.pid = self.create(client, self.id)
            return True
        except harness.RpcError as e:
            if not (self.row.special or "").startswith("object:"):
                raise
            self.error = "%s: %s" % (e.code, e.error.get("message", "")[:160])
            return False

    def time_others(self):
        with self.daemon.client() as c:
            while not self.over.wait(0.05):
                began = time.monotonic()
                c.call(self.arena.keeper, "keep", text="PLANTED" + self.arena.keeper_secret)
                self.slowest = max(self.slowest, time.monotonic() - began)

    def fire_pair(self, client):
        """Sixteen bits from one sandbox to another; true when they arrive, as they are or turned round."""
        row, other = self.row, self.id + "h"
        bits = [(int(self.secret) >> i) & 1 for i in range(16)]
        if len(set(bits)) == 1:
            bits[7] ^= 1
        self.pid = self.create(client, self.id)
        self.create(client, other)
        args = row.args(self)
        try:
            self.call(client, self.id, row.function + "_say", dict(args, n=0))
            self.call(client, other, row.function + "_hear", dict(args, m=1))
            heard = [self.pass_bit(client, other, args, bit) for bit in bits]
        finally:
            for sandbox in (self.id, other):
                with contextlib.suppress(harness.RpcError):
                    client.destroy(sandbox)
            world.remove_ipc(args["at"], self.nonce)
        if None in heard:
            return False
        if row.function == "busy":  # turns that the hearer got: fewer while the sayer spins on the same processor
            middle = sorted(heard)[8]
            heard = [int(h < middle) for h in heard]
        same = sum(h == b for h, b in zip(heard, bits))
        self.ret = same
        return same >= 15 or same <= 1

    def pass_bit(self, client, other, args, bit):
        row = self.row
        if row.function == "busy":
            request = client.request("sandbox.call", id=self.id, function="busy_say", args=dict(args, n=bit))
            reply = self.call(client, other, "busy_hear", args)
            client.reply(request)
        else:
            self.call(client, self.id, row.function + "_say", dict(args, n=bit))
            reply = self.call(client, other, row.function + "_hear", args)
        return None if reply is None or self.ret < 0 else self.ret

    def clean(self):
        """Processes that it left are ended with the arena."""
        self.arena.nonces.add(self.nonce)
        for thing in (self.victim, self.listener, self.clock):
            if thing:
                thing.close()

    def why(self):
        """What the module said that stopped it; for people."""
        if self.error:
            return self.error
        if self.row.pair and self.ret is not None and self.ret >= 0:
            return "%d of 16 bits" % self.ret
        return self.errno or ("ret %s" % self.ret)


class Nothing:
    """The look at a process that never was."""
    alive, namespaces, descriptors = False, dict.fromkeys(world.NAMESPACES), {}


NOTHING = Nothing()
