# SPDX-License-Identifier: MIT
"""Every attack: which function of which module, the walls that stop it, who judges. A control run leaves exactly those walls out.

Row(name, case, module.function, walls, judge, ...): `case` is the number of the public report that it is about, or "". `args` are made
for each shot; `users` and `profiles` say where it makes sense; `each`: every one of its walls is also tried alone. `always`: there is
nothing to switch off, and why. `remains`: docs/SECURITY.md says that this one is open, under these profiles or all."""
import os

import judges as j
import world

# walls by the names of proto/protection.def
UID, GROUPS, CAPS, NNP, DUMP, SESSION = "own-uid", "groups", "capabilities", "no-new-privileges", "not-dumpable", "own-session"
USER_NS, PID_NS, MNT_NS, IPC_NS, UTS_NS = "user-namespace", "pid-namespace", "mount-namespace", "ipc-namespace", "uts-namespace"
CORE, MEMORY, FILE_SIZE, STACK = "core-file-bytes", "memory-bytes", "file-size-bytes", "stack-bytes"
OPEN_FILES, PROCESSES, SCRATCH = "open-files", "processes", "scratch-bytes"
NET, ROOT, LANDLOCK, SECCOMP, CODE, TREE_END = "network", "own-root", "files", "system-calls", "new-code", "end-of-the-whole-tree"
TREE_PROCESSES, TREE_MEMORY, PARENT = "processes-of-the-whole-tree", "memory-of-the-whole-tree", "ends-with-its-spawner"

# What only cgroups limit: attacks that succeed for the lack of just these are shown as such.
BY_CGROUPS = {TREE_PROCESSES, TREE_MEMORY, "cpu-share"}

# What stands only together: a root needs a mount namespace; an ordinary user's namespaces need one of users; the network is the filter's.
JOINED = ((ROOT, MNT_NS), (USER_NS, PID_NS), (SECCOMP, NET))
OUTSIDE = (ROOT, MNT_NS, LANDLOCK)          # files that aren't the sandbox's
OTHERS = (SECCOMP, PID_NS, LANDLOCK, USER_NS)  # processes that aren't
PROC = OTHERS + (ROOT, MNT_NS)              # the same by /proc
NETWORK = (SECCOMP, NET, LANDLOCK)
POWER = (UID, CAPS, USER_NS, NNP)           # what only the superuser may

NEW = {"mnt": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000,
       "net": 0x40000000, "time": 0x80}
# a library that nothing uses much: what the machine does meanwhile isn't heard
LIBC = next((p for p in ("/lib/x86_64-linux-gnu/libBrokenLocale.so.1", "/lib/x86_64-linux-gnu/libthread_db.so.1", "/usr/lib64/libthread_db.so.1")
             if os.path.exists(p)), "/lib64/ld-linux-x86-64.so.2")
BOTH = ("root", "rootless")
HIGH_MEDIUM = ("high", "medium")
ROWS = []


class Row:
    def __init__(self, name, case, what, walls, judge, args=None, users=BOTH, profiles=HIGH_MEDIUM, each=False, always=None, limits=None,
                 victim=None, listener=None, alone=False, after=False, prepare=None, during=None, pair=False, remains=False, quick=False,
                 timeout_ms=15000, special=None):
        self.name, self.case, self.walls, self.judge = name, case, tuple(dict.fromkeys(walls)), judge
        self.module, _, self.function = what.partition(".")
        self.args = args or (lambda s: {})
        self.users, self.profiles, self.each, self.always, self.limits = users, profiles, each, always, limits or {}
        self.victim, self.listener, self.alone, self.after = victim, listener, alone, after
        self.prepare, self.during, self.pair, self.remains, self.quick = prepare, during, pair, remains, quick
        self.timeout_ms, self.special = timeout_ms, special
        ROWS.append(self)


def canary(s):
    return {"path": s.canary, "text": s.nonce}


def folder(s):
    return {"path": s.folder, "text": s.nonce}


def victim(**more):
    return lambda s: dict({"pid": s.victim.pid, "at": s.victim.facts["at"], "text": s.nonce}, **more)


def flags(*kinds):
    return lambda s: {"n": sum(NEW[k] for k in kinds), "text": s.nonce}


# ---- files outside ----

Row("read-canary", "C17", "files.read_file", OUTSIDE, j.brings("secret"), canary, each=True, quick=True)
Row("climb-out", "C2", "files.climb", OUTSIDE, j.brings("secret"), canary)
Row("list-folder", "C17", "files.list_folder", OUTSIDE, j.brings("hidden"), folder, each=True)
Row("read-link", "C17", "files.follow_link", OUTSIDE, j.brings("secret"), lambda s: {"path": os.path.join(s.folder, "link")})
Row("metadata", "", "files.metadata", OUTSIDE, j.brings(lambda s: "size=%d" % s.odd_size), lambda s: {"path": os.path.join(s.folder, "odd")})
Row("chroot-out", "C13", "files.chroot_out", OUTSIDE + (SECCOMP,), j.brings("secret"), lambda s: {"path": s.canary, "text": os.path.join(s.folder, "root")})
Row("leaked-descriptors", "C2", "files.leaked", (), j.brings("secret"), canary, always="the spawner closes all but four of them")
Row("surplus-descriptors", "C2", "files.leaked", (), lambda s: set(s.now.descriptors) - {0, 1, 2, 3} or any(os.path.isdir(
    "/proc/%d/fd/%d" % (s.pid, fd)) for fd in s.now.descriptors), canary, always="the spawner and the zygote close all but four of them", quick=True)
Row("write-canary", "C18", "files.write_file", OUTSIDE, j.folder_changed, canary, each=True, quick=True)
Row("truncate-canary", "C18", "files.truncate_file", OUTSIDE, j.folder_changed, canary, each=True)
for what in ("create_file", "make_folder", "make_socket", "make_fifo"):
    Row(what.replace("_", "-"), "C17", "files." + what, OUTSIDE + (SECCOMP,), j.folder_changed, folder)
Row("make-device", "C17", "files.make_device", OUTSIDE + (SECCOMP,) + POWER, j.folder_changed, folder, users=("root",))
for what in ("remove_file", "rename_file", "change_mode", "change_times", "set_attribute"):
    Row(what.replace("_", "-"), "C17", "files." + what, OUTSIDE + (SECCOMP,), j.folder_changed, canary, prepare=lambda s: s.give_canary())
Row("change-owner", "C17", "files.change_owner", OUTSIDE + (SECCOMP,) + POWER, j.folder_changed, lambda s: {"path": s.canary, "n": 12345})
Row("hard-link", "C17", "files.hard_link", OUTSIDE + (SECCOMP,), j.folder_changed,
    lambda s: {"path": s.canary, "text": os.path.join(s.folder, "hard")}, prepare=lambda s: s.give_canary())
Row("symbolic-link", "C17", "files.symbolic_link", OUTSIDE + (SECCOMP,), j.folder_changed,
    lambda s: {"path": "/etc/shadow", "text": os.path.join(s.folder, "soft")})
Row("watch-folder", "C26", "files.watch_folder", OUTSIDE + (SECCOMP,), j.brings("secret"), lambda s: {"path": s.folder, "n": 1500},
    during=lambda s: s.touch_secret_names())
Row("open-by-handle", "C13", "files.by_handle", OUTSIDE + (SECCOMP,) + POWER, j.brings("secret"), lambda s: s.handle(), users=("root",))
Row("lease-file", "C26", "files.lease", OUTSIDE + (SECCOMP,), j.leased(lambda s: s.canary), lambda s: {"path": s.canary}, prepare=lambda s: s.give_canary())
Row("core-file", "C22", "files.core_here", OUTSIDE + (SECCOMP, CORE, DUMP), j.folder_changed, folder)
Row("terminal-write", "C3", "files.terminal", OUTSIDE, j.heard_by_listener, lambda s: {"path": s.listener.path, "text": s.nonce + "\n"}, listener="terminal")
Row("terminal-push", "C3", "files.terminal", OUTSIDE + (SECCOMP,), j.heard_by_listener,
    lambda s: {"path": s.listener.path, "text": s.nonce + "\n", "n": 1}, listener="terminal-input")
Row("terminal-push-high-bits", "C3", "files.terminal", OUTSIDE + (SECCOMP,), j.heard_by_listener,
    lambda s: {"path": s.listener.path, "text": s.nonce + "\n", "n": 2}, listener="terminal-input")

Row("terminal-of-the-daemon", "C3", "files.terminal", (), None, special="terminal", always="zygotes begin a session of their own, and so do hosts")

# ---- the daemon's own files ----

Row("read-shadow", "", "files.read_file", OUTSIDE + POWER, j.brings("shadow"), lambda s: {"path": "/etc/shadow"}, users=("root",))
Row("read-registry", "C18", "files.read_end", OUTSIDE + POWER, j.brings(lambda s: s.arena.keeper_secret),
    lambda s: {"path": os.path.join(s.daemon.state, "registry.sqlite-wal")})
Row("read-log-of-another", "C18", "files.read_tree", OUTSIDE + POWER, j.brings(lambda s: s.arena.keeper_secret), lambda s: {"path": os.path.join(s.daemon.state, "logs")},
    prepare=lambda s: s.wait_for_log())
Row("lease-stored-object", "C26", "files.lease", OUTSIDE + POWER + (SECCOMP,), j.leased(lambda s: s.stored_object()), lambda s: {"path": s.stored_object()}, alone=True)
Row("list-objects", "C18", "files.list_folder", OUTSIDE + POWER, j.brings(lambda s: s.arena.keeper), lambda s: {"path": os.path.join(s.daemon.runtime, "objects")})
Row("put-object", "C17", "files.create_file", OUTSIDE + POWER, lambda s: any(s.nonce in o for o in s.daemon.objects()),
    lambda s: {"path": os.path.join(s.daemon.runtime, "objects", s.arena.keeper), "text": s.nonce}, alone=True)
Row("own-objects", "C17", "files.create_file", OUTSIDE + POWER, lambda s: any(s.nonce in o for o in s.daemon.objects()),
    lambda s: {"path": os.path.join(s.daemon.runtime, "objects", s.id), "text": s.nonce}, alone=True)
Row("put-state", "C18", "files.create_file", OUTSIDE + POWER, lambda s: os.path.exists(os.path.join(s.daemon.state, s.nonce)),
    lambda s: {"path": s.daemon.state, "text": s.nonce}, alone=True)
Row("overwrite-own-program", "C1", "files.overwrite_program", PROC + POWER, j.programs_changed, lambda s: {"text": s.nonce}, alone=True)
Row("overwrite-parent", "C1", "files.overwrite_program", PROC + POWER, j.programs_changed, lambda s: {"text": s.nonce, "n": s.daemon.pid}, alone=True)
Row("overwrite-copy", "C1", "files.overwrite_program", OUTSIDE + POWER, j.folder_changed,
    lambda s: {"path": os.path.join(s.folder, "program"), "text": s.nonce}, users=("root",))

# ---- other processes ----

Row("ptrace-attach", "C9", "processes.trace", OTHERS, j.brings("secret"), victim(), victim=(), each=True, quick=True)
Row("ptrace-seize", "C9", "processes.trace", OTHERS, j.brings("secret"), victim(n=1), victim=())
Row("vm-read", "C9", "processes.vm_read", OTHERS, j.brings("secret"), victim(), victim=(), each=True)
Row("vm-write", "C9", "processes.vm_write", OTHERS, j.memory_written, victim(), victim=(), each=True)
Row("proc-mem", "C10", "processes.proc_mem", PROC, j.brings("secret"), victim(), victim=())
Row("proc-environ", "C10", "processes.walk", PROC, j.brings(lambda s: s.secret[::-1]), lambda s: {"text": s.variable, "n": s.victim.pid + 1},
    victim=(), alone=True)
Row("proc-root", "C10", "processes.through_root", PROC, j.brings("secret"), lambda s: {"pid": s.victim.pid, "path": s.canary}, victim=())
Row("proc-cwd", "C10", "processes.through_root", PROC, j.brings("secret"), lambda s: {"pid": s.victim.pid, "path": s.canary, "n": 1}, victim=())
Row("proc-fd", "C10", "processes.through_fd", PROC, j.brings("secret"), lambda s: {"pid": s.victim.pid, "n": 77}, victim=())
Row("pidfd-getfd", "C9", "processes.steal_fd", OTHERS, j.brings("secret"), victim(n=77), victim=(), each=True)
Row("kcmp", "C9", "processes.compare", OTHERS, j.brings(lambda s: s.victim.facts["bits"]), victim(), victim=())
Row("robust-list", "C9", "processes.robust_list", OTHERS, j.brings(lambda s: s.victim.facts["robust"]), victim(), victim=())
Row("memory-of-control", "C9", "processes.scan_memory", PROC + POWER + (DUMP,), j.brings(lambda s: s.arena.keeper_secret),
    lambda s: {"pid": s.arena.control, "text": "PLANTED"}, timeout_ms=30000)
Row("memory-of-spawner", "C9", "processes.scan_memory", PROC + POWER + (DUMP,), j.brings(lambda s: s.arena.environment_secret),
    lambda s: {"pid": s.daemon.pid, "text": "SANDBOXD_TEST_SECRET="}, timeout_ms=30000)
Row("memory-of-sibling", "C9", "processes.scan_memory", PROC + POWER + (DUMP,), j.brings(lambda s: s.arena.keeper_secret),
    lambda s: {"pid": s.arena.keeper_pid, "text": "PLANTED"}, timeout_ms=30000)
for n, what in enumerate(("kill", "tkill", "tgkill", "sigqueue", "tgsigqueue", "pidfd", "kill-all", "kill-group", "fasync")):
    Row("signal-" + what, "C30", "processes.send_signal", (PID_NS, LANDLOCK) + ((SECCOMP,) if what == "fasync" else ()), j.signalled, victim(n=n), victim=(), each=what in ("kill", "kill-all"),
        alone=what == "kill-all", quick=what == "kill")
Row("lower-its-limit", "C9", "processes.victim_limit", OTHERS, j.rescheduled, victim(), victim=())
for what in ("nice", "affinity", "scheduler", "io"):
    Row("change-its-" + what, "C9", "processes.victim_" + what, (SECCOMP, PID_NS), j.rescheduled, victim(), victim=())
Row("orphans", "B1", "processes.daemonise", (PID_NS, TREE_END, UID, CAPS), j.survives, lambda s: {"text": s.nonce, "n": 3}, after=True, quick=True)
Row("born-as-sibling", "B1", "processes.sibling", (PID_NS, TREE_END, SECCOMP, UID, CAPS), j.survives, lambda s: {"text": s.nonce}, after=True)
Row("outlive-the-daemon", "C30", "processes.outlive", (PARENT, SECCOMP), j.alive_long_after, special="outlive")
Row("stops-itself", "B9", "processes.stop_itself", (), j.survives, after=True, timeout_ms=300, always="SIGKILL can't be refused")
Row("blocks-all-signals", "B9", "processes.ignore_everything", (), j.survives, after=True, timeout_ms=300, always="SIGKILL can't be refused")

# ---- what it is allowed itself ----

Row("dumpable", "C22", "processes.dumpable", (SECCOMP,), j.field_changed("owner"))
Row("dumpable-high-bits", "C22", "processes.dumpable", (SECCOMP,), j.field_changed("owner"), lambda s: {"n": 1})
for what, n, least, name, wall in (("open-files", 7, 4096, "Max open files", OPEN_FILES), ("memory", 2, 1 << 32, "Max data size", MEMORY),
                                   ("file-size", 1, 1 << 32, "Max file size", FILE_SIZE), ("stack", 3, 64 << 20, "Max stack size", STACK),
                                   ("processes", 6, 4096, "Max processes", PROCESSES), ("core", 4, 1 << 30, "Max core file size", CORE)):
    Row("raise-limit-" + what, "B42", "processes.raise_limit", (wall, SECCOMP), j.limit_above(name, least), lambda s, n=n, least=least: {"n": n, "m": least})
Row("real-time", "", "processes.real_time", (SECCOMP,) + POWER, j.field_changed("scheduling"))
Row("less-nice", "", "processes.be_less_nice", (SECCOMP,) + POWER, j.field_changed("scheduling"))
Row("io-real-time", "", "processes.io_real_time", (SECCOMP,) + POWER, j.field_changed("scheduling"))
Row("personality", "", "processes.change_personality", (SECCOMP,), j.field_changed("personality"))
Row("personality-high-bits", "", "processes.change_personality", (SECCOMP,), j.field_changed("personality"), lambda s: {"n": 1})
Row("become-another", "C24", "processes.become", POWER + (SECCOMP,), j.field_changed("uids"), lambda s: {"n": 0 if s.uid else 1})
Row("take-capabilities", "C24", "processes.take_capabilities", POWER + (SECCOMP,), j.field_changed("capabilities"))
Row("setuid-program", "C24", "code.run_program", OUTSIDE + (SECCOMP, NNP, USER_NS, CODE), j.runs_as(0),
    lambda s: {"path": os.path.join(s.folder, "setuid"), "text": s.nonce}, users=("root",))

# ---- more of the kernel ----

for kind in NEW:
    kinds = (kind,) if kind == "user" else ("user", kind)
    Row("unshare-" + kind, "C8", "kernel.unshare_into", (SECCOMP,), j.namespace_changed(kind), flags(*kinds), quick=kind == "user")
    if kind != "time":
        Row("clone-" + kind, "C8", "kernel.clone_into", (SECCOMP,), j.namespace_changed(kind), flags(*kinds))
        Row("clone3-" + kind, "C8", "kernel.clone3_into", (SECCOMP,), j.namespace_changed(kind), flags(*kinds))
Row("clone-high-bits", "C8", "kernel.clone_into", (SECCOMP,), j.namespace_changed("user"), lambda s: {"n": NEW["user"] | 1 << 40, "text": s.nonce})
Row("unshare-int80", "C8", "kernel.door_32", (SECCOMP,), j.namespace_changed("user"), flags("user"), quick=True)
Row("unshare-x32", "C8", "kernel.door_x32", (SECCOMP,), j.namespace_changed("user"), flags("user"))
Row("setns-proc", "C8", "kernel.join", PROC, j.namespace_changed("user"), victim(), victim=("userns",))
Row("setns-pidfd", "C8", "kernel.join", OTHERS, j.namespace_changed("user"), victim(n=1), victim=("userns",))
for n, what in enumerate(("mount", "bind", "fsmount", "open-tree", "mount-setattr", "pivot-root")):
    Row("mount-by-" + what, "C13", "kernel.mounts", (SECCOMP, LANDLOCK), j.mounted if what != "pivot-root" else j.field_changed("root"),
        lambda s, n=n: {"n": n}, each=what == "mount")
Row("chroot", "C13", "kernel.change_root", (SECCOMP,), j.field_changed("root"))
Row("host-name", "", "kernel.host_name", (SECCOMP,), j.namespace_changed("uts"), lambda s: {"text": s.nonce, "n": 1})
Row("host-name-of-the-daemon", "", "kernel.host_name", (SECCOMP, UTS_NS) + POWER, j.renamed, lambda s: {"text": s.nonce}, alone=True)
Row("host-name-of-its-own", "", "kernel.host_name", (SECCOMP,) + POWER, j.renamed, lambda s: {"text": s.nonce})
Row("reboot-key", "", "kernel.reboot_key", (SECCOMP, PID_NS) + POWER, j.reboot_key_changed, lambda s: {"n": int(s.key != "1")}, alone=True,
    prepare=lambda s: s.note_key())
Row("swap-on", "", "kernel.swap_on", (SECCOMP,) + OUTSIDE + POWER, j.swaps, lambda s: {"path": os.path.join(s.folder, "swap")}, alone=True,
    prepare=lambda s: s.swap_file())
Row("accounting", "", "kernel.accounting", (SECCOMP, PID_NS) + OUTSIDE + POWER, j.accounts, lambda s: {"path": s.canary}, alone=True)
for n, what in enumerate(("ioperm", "iopl")):
    Row("ports-by-" + what, "", "kernel.ports", (SECCOMP,) + POWER, lambda s: bool(s.named()), lambda s, n=n: {"text": s.nonce, "n": n})
Row("io-uring", "C7", "kernel.ring", (SECCOMP,), j.grew(r"io_uring"), quick=True)
Row("aio", "C7", "kernel.old_aio", (SECCOMP,), lambda s: "/[aio]" in (world.quiet(world.read_text, "/proc/%d/maps" % s.pid) or ""))
Row("userfaultfd", "", "kernel.user_faults", (SECCOMP,), j.grew("userfaultfd"), lambda s: {"n": 1})
Row("bpf-map", "", "kernel.bpf_map", (SECCOMP,) + POWER, j.grew("bpf"))
Row("bpf-program", "", "kernel.bpf_program", (SECCOMP,) + POWER, j.grew("bpf"))
Row("perf-self", "", "kernel.perf", (SECCOMP,), j.grew("perf_event"))
Row("perf-other", "", "kernel.perf", OTHERS, j.grew("perf_event"), victim(), victim=())
Row("fanotify", "", "kernel.all_files", (SECCOMP,), j.grew("fanotify"))
Row("inotify-library", "C26", "kernel.watch", (SECCOMP,), j.grew("inotify"), lambda s: {"path": LIBC})
Row("memfd-secret", "", "kernel.secret_memory", (SECCOMP,), j.grew("secretmem"), profiles=("high",))
Row("memfd", "C11", "kernel.memory_file", (SECCOMP,), j.grew("memfd:"), lambda s: {"text": s.nonce}, profiles=("high",))
Row("message-queue", "C26", "kernel.queue", (SECCOMP, LANDLOCK), j.grew("/[0-9]{14}"), lambda s: {"text": s.nonce}, profiles=("high",))
Row("own-filter", "", "kernel.own_filter", (SECCOMP,), j.grew("seccomp"))
Row("kernel-log", "", "kernel.kernel_log", (SECCOMP,) + POWER, j.brings("secret"), users=("root",), prepare=lambda s: s.log_to_kernel())
for n, what in enumerate(("clock-settime", "settimeofday", "adjtimex", "clock-adjtime")):
    Row("set-clock-" + what, "", "kernel.set_clock", (SECCOMP,) + POWER, j.clock_was_set, lambda s, n=n: {"n": n}, alone=True, users=("root",))

# ---- new code ----

NEW_CODE = (SECCOMP, CODE)
Row("map-write-execute", "C11", "code.write_and_execute", NEW_CODE, j.executable, folder, each=True, quick=True)
Row("execute-later", "C11", "code.execute_later", NEW_CODE, j.executable, folder, each=True)
Row("pkey-execute-later", "C11", "code.execute_later", NEW_CODE, j.executable, lambda s: {"text": s.nonce, "n": 1})
Row("change-own-code", "C11", "code.change_code", NEW_CODE, j.executable, folder, each=True)
Row("change-own-code-by-proc", "C11", "code.change_code_by_proc", PROC + (DUMP,), j.executable, folder)
Row("map-memory-file", "C11", "code.from_memory_file", NEW_CODE, j.executable, lambda s: {"text": s.nonce}, remains=("medium",))
Row("map-written-file", "C11", "code.from_file", NEW_CODE + OUTSIDE + (SCRATCH,), j.executable, folder)
Row("map-segment", "C11", "code.from_segment", NEW_CODE, j.executable, lambda s: {"text": s.nonce})
Row("execute-by-personality", "C11", "code.by_personality", NEW_CODE, j.executable, lambda s: {"text": s.nonce})
Row("execute-stack", "C11", "code.stack_code", NEW_CODE, j.executable, lambda s: {"text": s.nonce})
Row("execute-shared", "C11", "code.grow_code", NEW_CODE, j.executable, lambda s: {"text": s.nonce})
Row("run-program", "C11", "code.run_program", NEW_CODE + OUTSIDE, j.runs_program, lambda s: {"path": os.path.join(s.folder, "pause"), "text": s.nonce})
Row("run-memory", "C11", "code.run_memory", NEW_CODE, j.runs_program, lambda s: {"text": s.nonce}, quick=True)
Row("run-written", "C11", "code.run_written", NEW_CODE + OUTSIDE + (SCRATCH,), j.runs_program, folder)
Row("run-by-loader", "C11", "code.run_by_loader", NEW_CODE + OUTSIDE, j.runs_program, lambda s: {"path": "/bin/sleep", "text": s.nonce})

# ---- while it is being loaded ----

OBJECT_WAYS = {"constructor": "c", "ifunc": "i"}
for what, way in OBJECT_WAYS.items():
    Row("write-in-" + what, "C29", "constructor.ping", OUTSIDE, j.folder_changed, lambda s: {}, special="object:" + way, quick=way == "c")
for what in ("overlap", "audit", "depaudit"):
    Row("object-" + what, "C29", "constructor.ping", (), j.came_up, lambda s: {}, special="object:" + what,
        always="control refuses such an object before a process maps it", quick=what == "overlap")
Row("phone-in-constructor", "C29", "constructor.ping", NETWORK, j.heard_by_listener, lambda s: {}, special="object:p", listener="tcp")
Row("forge-in-constructor", "C29", "constructor.ping", (), lambda s: s.nonce in s.all_answers(), lambda s: {}, special="object:f",
    always="control takes a report once, before the object is loaded")

# ---- the network, sockets, the channel ----

Row("tcp", "C27", "network.internet", NETWORK, j.heard_by_listener, lambda s: {"n": s.listener.port, "text": s.nonce}, listener="tcp", each=True, quick=True)
Row("udp", "C27", "network.internet", NETWORK, j.heard_by_listener, lambda s: {"n": s.listener.port, "text": s.nonce, "m": 1}, listener="udp")
Row("tcp6", "C27", "network.internet", NETWORK, j.heard_by_listener, lambda s: {"n": s.listener.port, "text": s.nonce, "m": 2}, listener="tcp6")
Row("tcp-fast-open", "C27", "network.internet", NETWORK, j.heard_by_listener, lambda s: {"n": s.listener.port, "text": s.nonce, "m": 3}, listener="tcp")
Row("mptcp", "C27", "network.internet", NETWORK, j.heard_by_listener, lambda s: {"n": s.listener.port, "text": s.nonce, "m": 4}, listener="tcp")
Row("listen-tcp", "C27", "network.serve", NETWORK, lambda s: s.reachable(), lambda s: {"n": s.free_port()})
Row("unix-path", "C14", "network.local", NETWORK + OUTSIDE, j.heard_by_listener, lambda s: {"path": s.listener.path, "text": s.nonce, "m": 1}, listener="unix")
Row("unix-path-datagram", "C14", "network.local", NETWORK + OUTSIDE, j.heard_by_listener,
    lambda s: {"path": s.listener.path, "text": s.nonce, "n": 1}, listener="unix-datagram")
Row("abstract", "C14", "network.local", NETWORK, j.heard_by_listener, lambda s: {"path": s.listener.path, "text": s.nonce, "m": 1}, listener="abstract", each=True)
Row("abstract-datagram", "C14", "network.local", NETWORK, j.heard_by_listener,
    lambda s: {"path": s.listener.path, "text": s.nonce, "n": 1}, listener="abstract-datagram")
Row("datagram-of-a-pair", "C14", "network.pair_out", NETWORK, j.heard_by_listener, lambda s: {"path": s.listener.path, "text": s.nonce}, listener="abstract-datagram")
Row("datagram-of-a-pair-path", "C14", "network.pair_out", NETWORK + OUTSIDE, j.heard_by_listener,
    lambda s: {"path": s.listener.path, "text": s.nonce}, listener="unix-datagram")
Row("listen-abstract", "C14", "network.listen_local", NETWORK, lambda s: s.reachable(), lambda s: {"path": s.abstract_name()})
Row("control-socket", "C14", "network.local", NETWORK + OUTSIDE + POWER, j.brings(lambda s: s.arena.keeper),
    lambda s: {"path": s.daemon.socket, "text": '{"jsonrpc":"2.0","id":1,"method":"sandbox.list","params":{}}\n'})
SOCKETS = {"unix": (1, 1, 0), "inet": (2, 1, 0), "inet6": (10, 2, 0), "netlink-route": (16, 3, 0), "netlink-diag": (16, 3, 4), "vsock": (40, 1, 0),
           "alg": (38, 5, 0), "bluetooth": (31, 3, 1), "xdp": (44, 3, 0), "packet": (17, 3, 3), "raw": (2, 3, 1), "icmp": (2, 2, 1), "key": (15, 3, 2),
           "can": (29, 3, 1), "inet-high-bits": (2 | 1 << 32, 1, 0), "smc": (43, 1, 0), "sctp": (2, 1, 132), "rds": (21, 5, 0), "tipc": (30, 2, 0)}
for what, (family, kind, protocol) in SOCKETS.items():
    Row("socket-" + what, "C27", "network.any_socket", (SECCOMP, NET) + (POWER if what in ("packet", "raw", "xdp", "key") else ()), j.grew("socket:"),
        lambda s, f=family, k=kind, p=protocol: {"n": f, "m": k, "at": p})
Row("every-family", "C27", "network.every_family", (SECCOMP, NET), j.grew("socket:"))
Row("interfaces", "C27", "network.interfaces", (SECCOMP, NET), j.brings(lambda s: s.interfaces()))
Row("forge-messages", "C18", "network.forge_all", (), lambda s: s.nonce in s.all_answers(), folder, always="control trusts no message of a host")
Row("flood-channel", "B14", "network.flood_channel", (), lambda s: s.others_wait(), lambda s: {"n": 4000, "m": 67}, alone=True,
    always="control takes so much of one host in a turn")
Row("flood-output", "B14", "network.flood_output", (), lambda s: s.others_wait(), lambda s: {"n": 3000}, alone=True, timeout_ms=20000,
    always="control takes so much of one log in a turn")
Row("environment", "B10", "look.environment", (), j.brings(lambda s: s.arena.environment_secret), always="hosts are made with an environment of their own")

# ---- taking too much ----

SMALL = {"max_processes": 20, "max_open_files": 32, "max_memory": 32 << 20, "max_file_size": 1 << 20}
COUNT = (PROCESSES,)
INODES = 4200  # a little more than a scratch folder may have
Row("forks", "B42", "bombs.forks", COUNT, j.more_processes, lambda s: {"text": s.nonce, "n": 60}, limits=SMALL, quick=True)
Row("threads", "B42", "bombs.threads", COUNT, j.more_threads, lambda s: {"n": 60}, limits=dict(SMALL, max_memory=64 << 20))
for n, what in enumerate(("malloc", "map", "shared-map", "memory-file", "break", "growing-stack")):
    # RLIMIT_DATA counts what is private and written; the rest is the whole tree's limit's business
    walls = (MEMORY,) if what in ("malloc", "map", "break") else (MEMORY, TREE_MEMORY, SECCOMP)
    Row("memory-by-" + what, "B44", "bombs.memory", walls, j.more_memory(16), lambda s, n=n: {"n": 96, "m": n}, limits=dict(SMALL, max_file_size=256 << 20))
Row("memory-locked", "B44", "bombs.locked", (SECCOMP,), lambda s: world.kib(s.pid, "VmLck") >= 4096, lambda s: {"n": 4})
Row("descriptors", "", "bombs.descriptors", (OPEN_FILES,), j.more_descriptors, lambda s: {"n": 200}, limits=SMALL)
Row("big-file", "", "bombs.big_file", (FILE_SIZE,), j.files_beyond(2), lambda s: {"text": s.nonce, "n": 4}, limits=SMALL)
Row("scratch-full", "", "bombs.many_files", (SCRATCH,) + OUTSIDE, j.files_beyond(70), lambda s: {"path": s.folder, "text": s.nonce, "n": 76, "m": 1}, limits={"max_memory": 256 << 20})
Row("scratch-inodes", "", "bombs.many_files", (SCRATCH,) + OUTSIDE, j.files_beyond(0, INODES), lambda s: {"path": s.folder, "text": s.nonce, "n": INODES + 50}, timeout_ms=30000)
Row("stack", "", "bombs.stack", (STACK,), j.stack_above(12), lambda s: {"n": 16 << 10})
Row("spin", "B9", "bombs.spin", (), j.survives, after=True, timeout_ms=300, always="SIGKILL can't be refused")

# ---- two sandboxes pass bits ----

def pair(s):
    return {"path": LIBC, "text": s.nonce, "at": int(s.nonce) % (1 << 30)}


for what in ("flock", "record", "watch"):
    Row("covert-" + what, "C26", "covert." + what, (SECCOMP,), None, pair, pair=True)
for what in ("memory_key", "semaphore", "message"):
    Row("covert-system-v-" + what.replace("_", "-"), "C26", "covert." + what, (IPC_NS, SECCOMP), None, pair, pair=True, each=True)
Row("covert-posix-queue", "C26", "covert.posix", (IPC_NS, SECCOMP), None, pair, pair=True)
Row("covert-shm-file", "C26", "covert.shm_file", OUTSIDE, None, lambda s: dict(pair(s), path="/dev/shm"), pair=True)
Row("covert-abstract-name", "C26", "covert.name", NETWORK, None, pair, pair=True)
Row("covert-keyring", "C26", "covert.key", (SECCOMP, UID, CAPS, USER_NS), None, pair, pair=True)
for what, name in (("count", "process-count"), ("free", "free-memory"), ("inode", "inode-numbers"), ("busy", "processor-time")):
    Row("covert-" + name, "C26", "covert." + what, (), None, pair, pair=True, remains=True)
