# SPDX-License-Identifier: MIT
"""The world outside the sandboxes: daemons with some walls left out, victims, canaries; and what can be seen of a process from outside."""
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
import harness  # noqa: E402

BUILD = harness.BUILD
ROOTLESS_UID = 65534 if harness.IS_ROOT else os.geteuid()
# does nothing but wait, whatever its arguments are; static: needs no library
PAUSE = bytes.fromhex("7f454c46020101000000000000000000" "02003e00010000007800400000000000" "40000000000000000000000000000000"
                      "00000000400038000100000000000000" "01000000050000000000000000000000" "00004000000000000000400000000000"
                      "80000000000000008000000000000000" "0010000000000000" "b0220f05ebfa9090")


def attack_module(name):
    return os.path.join(BUILD, "tests/attacks/modules", name + ".so")


def nonce():
    """Fourteen digits: fits a process's name, is a number for `sleep`, and isn't guessed."""
    return str(random.SystemRandom().randrange(10**13, 10**14))


def quiet(f, *args, default=None):
    try:
        return f(*args)
    except (OSError, ValueError):
        return default


def read_text(path):
    with open(path, errors="replace") as f:
        return f.read()


# ---- a process seen from outside ----

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time", "pid_for_children", "time_for_children")


def namespaces(pid):
    return {n: quiet(os.readlink, "/proc/%d/ns/%s" % (pid, n)) for n in NAMESPACES}


def descriptors(pid):
    """Where each of its descriptors leads."""
    folder = "/proc/%d/fd" % pid
    return {int(fd): quiet(os.readlink, os.path.join(folder, fd), default="?") for fd in quiet(os.listdir, folder, default=[])}


def status_field(pid, name):
    found = re.search(r"^%s:\s*(.*)$" % name, quiet(read_text, "/proc/%d/status" % pid, default=""), re.M)
    return found[1] if found else ""


def limit(pid, name):
    """The soft limit by its name in /proc/PID/limits; None: gone."""
    found = re.search(r"^%s\s+(\S+)" % name, quiet(read_text, "/proc/%d/limits" % pid, default=""), re.M)
    return None if not found else float("inf") if found[1] == "unlimited" else int(found[1])


def kib(pid, name):
    found = re.match(r"(\d+)", status_field(pid, name))
    return int(found[1]) if found else 0


def host_name(pid):
    """In the namespace that the process is in; only root may look."""
    r = subprocess.run(["nsenter", "--uts=/proc/%d/ns/uts" % pid, "uname", "-n"], capture_output=True, text=True, check=False)
    return r.stdout.strip()


def scheduling(pid):
    """(nice, policy, processors, I/O priority, descriptors allowed)."""
    with contextlib.suppress(OSError):
        io = harness.LIBC.syscall(252, 1, pid)
        return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), frozenset(os.sched_getaffinity(pid)), io, limit(pid, "Max open files")
    return None


def executable_memory_has(pid, text):
    """Whether executable memory of the process contains text."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
            for line in maps:
                found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ..x", line)
                if found and "[vsyscall]" not in line:
                    start, end = int(found[1], 16), int(found[2], 16)
                    with contextlib.suppress(OSError):
                        memory.seek(start)
                        if text.encode() in memory.read(min(end - start, 4 << 20)):
                            return True
    return False


def processes_named(nonces):
    """Processes whose name is, or whose command line has, one of these nonces; not those that have ended, nor our own."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            comm = quiet(read_text, "/proc/%s/comm" % entry, default="").strip()
            words = set(quiet(read_text, "/proc/%s/cmdline" % entry, default="").split("\0"))
            if (comm in nonces or words & nonces) and harness.is_alive(int(entry)):
                found.append(int(entry))
    return found


def in_pid_namespace_of(link):
    """All processes in this pid namespace."""
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and quiet(os.readlink, "/proc/%s/ns/pid" % p) == link]


class Look:
    """What is to be seen of a host at one time."""

    def __init__(self, pid):
        stat = quiet(os.stat, "/proc/%d/environ" % pid)
        root = quiet(os.stat, "/proc/%d/root" % pid)
        self.alive = harness.is_alive(pid)
        self.namespaces = namespaces(pid)
        self.descriptors = descriptors(pid)
        self.mounts = quiet(read_text, "/proc/%d/mountinfo" % pid)
        self.root = (root.st_dev, root.st_ino) if root else None
        self.personality = quiet(read_text, "/proc/%d/personality" % pid)
        self.owner = stat.st_uid if stat else None
        self.uids = status_field(pid, "Uid") + "/" + status_field(pid, "Gid")
        self.capabilities = status_field(pid, "CapEff")
        self.scheduling = scheduling(pid)


# ---- folders with canaries ----


def attributes_of(path):
    return os.listxattr(path, follow_symlinks=False)


def snapshot(folder):
    """Everything about what is in a folder, but for access times."""
    found = {}
    for top, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(top, name)
            with contextlib.suppress(FileNotFoundError):
                st = os.lstat(path)
                data = hashlib.sha256(harness.read(path)).hexdigest() if os.path.isfile(path) and not os.path.islink(path) else ""
                attributes = tuple((a, os.getxattr(path, a, follow_symlinks=False)) for a in quiet(attributes_of, path, default=[]))
                found[os.path.relpath(path, folder)] = (st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_nlink, st.st_mtime_ns, data, attributes)
    return found


# ---- victims ----


class Victim:
    """A process of the same user as a sandbox, outside of it, which keeps a secret; see victim.c."""

    def __init__(self, uid, secret, variable, mode=()):
        ids = {"user": uid, "group": uid, "extra_groups": []} if harness.IS_ROOT else {}
        self.secret = secret
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/attacks/victim"), *mode], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True, cwd="/",
                                        env={variable: secret[::-1]}, **ids)
        self.process.stdin.write(secret + "\n")
        self.process.stdin.flush()
        self.facts = json.loads(self.process.stdout.readline())
        self.pid = self.process.pid
        self.before = scheduling(self.pid)

    def ask(self):
        """{memory: what it has where its secret was, signals: how many came}"""
        try:
            self.process.stdin.write("look\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            return {"memory": "gone", "signals": 99}

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def remove_ipc(key, name):
    """What two sandboxes may have made in our own ipc namespace and in /dev/shm."""
    for get, remove in (((harness.LIBC.shmget, key, 0, 0), harness.LIBC.shmctl), ((harness.LIBC.msgget, key, 0), harness.LIBC.msgctl)):
        found = get[0](*get[1:])
        if found >= 0:
            remove(found, 0, None)
    found = harness.LIBC.semget(key, 0, 0)
    if found >= 0:
        harness.LIBC.semctl(found, 0, 0)
    harness.LIBC.syscall(241, name.encode())  # mq_unlink
    with contextlib.suppress(OSError):
        os.unlink(os.path.join("/dev/shm", name))


# ---- daemons ----


def weakened(walls):
    """The options that leave these walls out."""
    return ("--weaken", ",".join(sorted(walls))) if walls else ()


def own_host_name():
    if harness.LIBC.unshare(0x04000000) != 0:
        raise OSError("no uts namespace of its own")


class AttackDaemon(harness.Daemon):
    """sandboxd as root or as an ordinary user, with its environment, its temporary folder, and some walls left out."""

    def __init__(self, rootless, walls=(), environment=None, config=None, **popen):
        self.rootless = rootless
        self.environment = environment or {}
        self.canaries = tempfile.mkdtemp(prefix="sbxout")
        os.chmod(self.canaries, 0o755)
        try:
            super().__init__(config=config, options=weakened(walls), **popen)
        except BaseException:
            shutil.rmtree(self.canaries, ignore_errors=True)
            raise

    def start(self, wait=True, **popen):
        if self.rootless and harness.IS_ROOT:
            os.chown(self.folder, ROOTLESS_UID, ROOTLESS_UID)
            popen = dict({"user": ROOTLESS_UID, "group": ROOTLESS_UID, "extra_groups": []}, **popen)
        elif harness.IS_ROOT:
            popen.setdefault("preexec_fn", own_host_name)  # an attack that comes true renames nobody's machine
        popen.setdefault("env", dict({"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.folder}, **self.environment))
        super().start(wait, **popen)

    def close(self):
        try:
            return super().close()
        finally:
            shutil.rmtree(self.canaries, ignore_errors=True)


def programs():
    """SHA-256 of all programs of ours."""
    return {n: hashlib.sha256(harness.read(os.path.join(BUILD, n))).hexdigest() for n in ("sandboxd", "sandboxd-control", "sandbox-host", "sandboxctl")}
