# SPDX-License-Identifier: MIT
"""The service: readiness, kills, restarts, what is left behind."""
import os
import signal
import subprocess
import threading

import guest
from guest import Client, Closed, RpcError, main_pid, module, read, running, serves, show, systemctl, wait_for


def ready_means_that_it_serves():
    systemctl("restart", guest.SERVICE)
    assert serves(), "start returned before clients are served"
    assert show("ActiveState") == "active"
    assert show("StatusText").startswith("serving on "), show("StatusText")
    systemctl("stop", guest.SERVICE)
    assert show("Result") == "success", show("Result")
    systemctl("start", guest.SERVICE)


def a_bad_configuration_fails_the_start():
    conf = "/etc/sandboxd/sandboxd.conf"
    good = read(conf)
    try:
        with open(conf, "w") as f:
            f.write("max_sandboxs = 1\n")
        systemctl("stop", guest.SERVICE)
        r = subprocess.run(["systemctl", "start", guest.SERVICE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert r.returncode != 0, "it started"
        assert "max_sandboxes" in guest.journal(), "the journal doesn't name the key that was meant"
        assert show("ActiveState") == "failed", "it is tried again: %s" % show("ActiveState")
    finally:
        with open(conf, "w") as f:
            f.write(good)
        subprocess.run(["systemctl", "reset-failed", guest.SERVICE], check=False)
        systemctl("start", guest.SERVICE)


def sandboxes_are_confined_here():
    with Client() as c:
        report = c.rpc("daemon.doctor")
    missing = {m for p in report["profiles"] if p["profile"] != "low" for m in p["missing"]}
    allowed = set()
    if report["landlock_abi"] < 1:
        allowed.add("files")
    missing = {m for m in missing if m not in ("memory of the whole tree", "processes of the whole tree", "cpu share")}
    assert all(p["works"] for p in report["profiles"]), report["profiles"]
    assert missing <= allowed, missing
    return "kernel %s, landlock %d, cgroup %s" % (report["kernel"], report["landlock_abi"], report["cgroup"])


class Load(threading.Thread):
    """Increments as fast as they are answered; counts those that were."""

    def __init__(self):
        super().__init__(daemon=True)
        self.acknowledged = self.unknown = 0
        self.enough = threading.Event()

    def run(self):
        while not self.enough.is_set():
            try:
                with Client() as c:
                    while not self.enough.is_set():
                        c.call("x", "increment")
                        self.acknowledged += 1
            except (OSError, Closed):
                self.unknown += 1  # the one that was under way
            except RpcError as e:
                raise AssertionError("a call failed: %s" % e) from e

    def end(self):
        self.enough.set()
        self.join(guest.DEADLINE_S)
        assert not self.is_alive(), "the load does not end"


def control_is_killed_under_load():
    with Client() as c:
        c.create("x", module("counter_v1"))
        pid = c.info("x")["pid"]
    load = Load()
    load.start()
    spawner = main_pid()
    for _ in range(10):
        old = serves()["control_pid"]
        before = load.acknowledged
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: (serves() or {}).get("control_pid", old) != old, "the next control")
        wait_for(lambda: load.acknowledged > before + 5, "calls to go on")
    load.end()
    with Client() as c:
        count = c.call("x", "get")["count"]
        assert c.info("x")["pid"] == pid, "the host was replaced"
    assert main_pid() == spawner
    assert load.acknowledged <= count <= load.acknowledged + load.unknown, (load.acknowledged, count, load.unknown)
    return "%d acknowledged, %d counted" % (load.acknowledged, count)


def a_reload_upgrades():
    """`systemctl reload` to a second build under load: the same main process and host, nothing acknowledged lost; a build that can't is refused, and reload says so."""
    paths = [os.readlink("/proc/%d/exe" % p) for p in (main_pid(), serves()["control_pid"])]
    paths.append(os.path.join(os.path.dirname(paths[1]), "sandbox-host"))
    with Client() as c:
        c.create("x", module("counter_v1"))
        pid = c.info("x")["pid"]
    load = Load()
    load.start()
    spawner, before = main_pid(), serves()
    good = [read_bytes(p) for p in paths]
    try:
        for n in range(2):
            for path, data in zip(paths, good):
                put(path, data + b"build %d" % n)
            was = load.acknowledged
            systemctl("reload", guest.SERVICE)
            now = serves()
            assert now["upgrades"] == before["upgrades"] + n + 1, (before, now)
            assert show("ActiveState") == "active" and show("StatusText").startswith("serving"), show("StatusText")
            wait_for(lambda: load.acknowledged > was + 5, "calls to go on")
        assert now["hosts_of_older_build"] >= 1, now
        os.unlink(paths[2])
        r = subprocess.run(["systemctl", "reload", guest.SERVICE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert r.returncode != 0, "a reload without sandbox-host succeeds"
        assert show("ActiveState") == "active" and serves()["control_pid"] == now["control_pid"], "it was touched"
        assert "install sandboxd completely" in guest.journal(), "the journal doesn't say why"
    finally:
        for path, data in zip(paths, good):
            put(path, data)
    systemctl("reload", guest.SERVICE)
    load.end()
    with Client() as c:
        count = c.call("x", "get")["count"]
        assert c.info("x")["pid"] == pid, "the host was replaced"
        c.rpc("sandbox.restart", id="x")  # with a cgroup of its own, as before
        assert c.call("x", "get")["count"] == count
    assert main_pid() == spawner and serves()["hosts_of_older_build"] == 0
    assert load.acknowledged <= count <= load.acknowledged + load.unknown, (load.acknowledged, count, load.unknown)
    return "%d acknowledged, %d counted" % (load.acknowledged, count)


def read_bytes(path):
    with open(path, "rb") as f:
        return f.read()


def put(path, data):
    """As a package does it: a new file takes the name."""
    with open(path + ".new", "wb") as f:
        f.write(data)
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)


def the_main_process_is_killed():
    """The service manager starts it again; what was wanted comes back; nothing of the first one is left."""
    with Client() as c:
        c.create("x", module("counter_v1"))
        c.call("x", "increment", by=7)
        c.rpc("sandbox.stop", id="x")
        c.rpc("sandbox.start", id="x")
        c.call("x", "increment")
        old_host = c.info("x")["pid"]
    old = main_pid()
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: main_pid() not in (0, old) and show("ActiveState") == "active", "the service's restart")
    info = wait_for(lambda: running("x"), "the sandbox")
    assert info["pid"] != old_host
    assert not os.path.exists("/proc/%d" % old_host), "the first one's host lives"
    with Client() as c:
        assert c.call("x", "get") == {"count": 7}, c.call("x", "get")  # the state of the last orderly stop
    assert int(show("NRestarts")) >= 1


def a_restart_keeps_the_state():
    with Client() as c:
        c.create("x", module("counter_v1"))
        c.call("x", "increment", by=41)
        c.call("x", "increment")
    systemctl("restart", guest.SERVICE)
    wait_for(lambda: running("x"), "the sandbox")
    with Client() as c:
        assert c.call("x", "get") == {"count": 42}


def a_stop_leaves_nothing():
    with Client() as c:
        for i in range(5):
            c.create("s%d" % i, module("counter_v1"))
    group = show("ControlGroup")
    systemctl("stop", guest.SERVICE)
    assert show("Result") == "success"
    left = read("/sys/fs/cgroup%s/cgroup.procs" % group).split() if os.path.exists("/sys/fs/cgroup" + group) else []
    assert not left, left
    assert not [p for p in os.listdir("/proc") if p.isdigit() and "sandbox" in comm(p)], "processes are left"
    assert "sandboxd" not in read("/proc/mounts").replace("/var/lib/sandboxd", ""), read("/proc/mounts")
    systemctl("start", guest.SERVICE)


def comm(pid):
    try:
        return read("/proc/%s/comm" % pid)
    except OSError:
        return ""


def a_stopped_control_is_replaced_before_the_watchdog():
    with Client() as c:
        c.create("x", module("counter_v1"))
        pid = c.info("x")["pid"]
    spawner, old = main_pid(), serves()["control_pid"]
    os.kill(old, signal.SIGSTOP)
    wait_for(lambda: (serves_soon() or {}).get("control_pid", old) != old, "the next control", 180)
    with Client() as c:
        assert c.info("x")["pid"] == pid
    assert main_pid() == spawner and int(show("NRestarts")) >= 0


def serves_soon():
    """A stopped control accepts nobody, but its backlog does."""
    try:
        with Client() as c:
            c.socket.settimeout(1)
            return c.rpc("daemon.info")
    except (OSError, Closed):
        return None


def a_hardened_unit():
    """Its own mounts stay its own, and homes are out of reach."""
    out = subprocess.run(["systemd-analyze", "security", "--no-pager", guest.SERVICE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         check=False).stdout.decode()
    last = [l for l in out.splitlines() if "Overall exposure" in l]
    assert last, out[-400:]
    level = float(last[0].split(":")[1].split()[0])
    assert level < 7, last[0]
    return last[0].strip("→ ")


ROWS = [ready_means_that_it_serves, a_bad_configuration_fails_the_start, sandboxes_are_confined_here, control_is_killed_under_load, a_reload_upgrades,
        the_main_process_is_killed, a_restart_keeps_the_state, a_stop_leaves_nothing, a_hardened_unit,
        a_stopped_control_is_replaced_before_the_watchdog]
