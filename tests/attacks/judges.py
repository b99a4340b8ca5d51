# SPDX-License-Identifier: MIT
"""Judges: each looks, from outside, whether an attack came true. judge(shot) -> bool; none of them believes `ret` or `errno`."""
import ctypes
import os
import re
import subprocess

import world
import harness


def brings(what):
    """A secret that only whoever got there can know came back. what: shot -> text"""
    def judge(shot):
        secret = what(shot) if callable(what) else getattr(shot, what)
        return bool(secret) and secret.encode() in shot.got

    return judge


def folder_changed(shot):
    """Anything in the folder with the canary: content, modes, owners, times, names."""
    return world.snapshot(shot.folder) != shot.snapshot


def grew(name, kind=""):
    """The host has a descriptor more that leads to what matches."""
    def judge(shot):
        now = sum(bool(re.search(name, link)) for link in shot.now.descriptors.values())
        return shot.now.alive and now > sum(bool(re.search(name, link)) for link in shot.before.descriptors.values())

    return judge


def namespace_changed(kind):
    """The host, or a process with its nonce for a name, is in another namespace than the host was."""
    def judge(shot):
        seen = [shot.now.namespaces] if shot.now.alive else []
        seen += [world.namespaces(pid) for pid in shot.named()]
        kinds = (kind, kind + "_for_children") if kind in ("pid", "time") else (kind,)
        return any(s[k] not in (None, shot.before.namespaces[k]) for s in seen for k in kinds)

    return judge


def field_changed(field):
    def judge(shot):
        return shot.now.alive and getattr(shot.now, field) not in (None, getattr(shot.before, field))

    return judge


def mounted(shot):
    """A mount of where the module mounts, or another state of its root, in the namespace that its host is in."""
    def points(text):
        return sorted(" ".join(line.split()[2:6]) for line in (text or "").splitlines() if line.split()[4] in ("/", "/rw", "/tmp", "/objects", "/usr"))

    return shot.now.alive and points(shot.now.mounts) != points(shot.before.mounts)


def executable(shot):
    """The nonce is in memory that the processor executes."""
    return world.executable_memory_has(shot.pid, shot.nonce)


def runs_program(shot):
    """A process with the nonce on its command line runs another program than the host's."""
    return any((world.quiet(os.readlink, "/proc/%d/exe" % pid) or "sandbox-host").split("/")[-1] != "sandbox-host" for pid in shot.named())


def runs_as(uid):
    def judge(shot):
        return any(str(uid) in world.status_field(pid, "Uid").split()[1:2] for pid in shot.named())

    return judge


def memory_written(shot):
    return shot.victim.ask()["memory"] == shot.nonce


def signalled(shot):
    return shot.victim.ask()["signals"] > 0


def rescheduled(shot):
    return world.scheduling(shot.victim.pid) != shot.victim.before


def heard_by_listener(shot):
    """The runner's socket got the nonce."""
    return shot.nonce.encode() in shot.listener.received(1.0 if shot.ret is not None and shot.ret > 0 else 0.05)


def survives(shot):
    """After the sandbox was destroyed: a process of it, by name or by pid namespace."""
    return bool(shot.named()) or bool(shot.left_of_tree())


def more_processes(shot):
    """More processes than it was allowed at one time."""
    return len(set(shot.named()) | {p for p in shot.descendants()}) > shot.limits["max_processes"]


def more_threads(shot):
    return len(world.quiet(os.listdir, "/proc/%d/task" % shot.pid, default=[])) > shot.limits["max_processes"]


def more_memory(extra_mib):
    """Its memory, shared included, is beyond its limit by more than what the host itself needs."""
    def judge(shot):
        used = world.kib(shot.pid, "VmRSS") + world.kib(shot.pid, "VmSwap")
        return used * 1024 > shot.limits["max_memory"] + (extra_mib << 20)

    return judge


def more_descriptors(shot):
    return len(shot.now.descriptors) > shot.limits["max_open_files"]


def limit_above(name, least):
    def judge(shot):
        value = world.limit(shot.pid, name)
        return value is not None and value >= least

    return judge


def files_beyond(mib, count=None):
    """What the host has written, wherever it could (its own folder as the host sees it, and the canary's): MiB, or files."""
    def judge(shot):
        total = files = 0
        for top in ["/proc/%d/cwd" % shot.pid, shot.folder]:
            for name in world.quiet(os.listdir, top + "/", default=[]):
                if shot.nonce in name:
                    st = world.quiet(os.lstat, os.path.join(top, name))
                    total, files = total + (st.st_blocks * 512 if st else 0), files + 1
        return files > count if count is not None else total > mib << 20

    return judge


def clock_was_set(shot):
    return shot.clock.was_set()


def stack_above(mib):
    def judge(shot):
        return world.kib(shot.pid, "VmStk") > mib << 10

    return judge


def programs_changed(shot):
    return world.programs() != shot.programs


def host_name_changed(shot):
    return os.uname().nodename == shot.nonce[:14] or shot.now.alive and shot.ret == 0 and shot.now.namespaces["uts"] != shot.before.namespaces["uts"]


def locked_memory(shot):
    return world.kib(shot.pid, "VmLck") >= 16 << 10


def leased(path):
    """Somebody has a lease on the file."""
    def judge(shot):
        inode = os.stat(path(shot)).st_ino
        return any(line.split()[1] == "LEASE" and line.split()[-3].endswith(":%d" % inode) for line in world.read_text("/proc/locks").splitlines())

    return judge


def renamed(shot):
    """The host name that the daemon sees, or that the host's own namespace has, is the nonce."""
    return any(world.host_name(pid) == shot.nonce for pid in (shot.daemon.pid, shot.pid))


CTRL_ALT_DEL = "/proc/sys/kernel/ctrl-alt-del"


def reboot_key_changed(shot):
    """Afterwards it is as it was."""
    now, before = world.read_text(CTRL_ALT_DEL).strip(), shot.key
    if now != before:
        harness.LIBC.syscall(169, ctypes.c_uint(0xfee1dead), 672274793, 0x89abcdef if before == "1" else 0, None)
    return now != before


def swaps(shot):
    """The machine swaps to the file; not any longer."""
    path = os.path.join(shot.folder, "swap")
    found = path in world.read_text("/proc/swaps")
    if found:
        harness.LIBC.swapoff(path.encode())
    return found


def accounts(shot):
    """Ends of processes are written into the canary; not any longer."""
    try:
        subprocess.run(["true"], check=True)
        return folder_changed(shot)
    finally:
        harness.LIBC.acct(None)


def came_up(shot):
    """A process has the object."""
    return shot.pid is not None


def alive_long_after(shot):
    return harness.is_alive(shot.pid)
