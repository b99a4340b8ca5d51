# SPDX-License-Identifier: MIT
"""What the checks in the guest share: the service, a client, a list of rows with their results."""
import contextlib
import base64
import json
import os
import socket
import subprocess
import sys
import time
import traceback

SOCKET = "/run/sandboxd/sandboxd.sock"
SERVICE = "sandboxd.service"
DEADLINE_S = 60  # an emulated machine; nothing waits so long but for what never comes


def wait_for(condition, what, timeout=DEADLINE_S):
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come within %d s (last: %r)" % (what, timeout, value))
        time.sleep(0.02)


def read(path):
    with open(path) as f:
        return f.read()


def module(name):
    with open("/t/%s.so" % name, "rb") as f:
        return f.read()


def systemctl(*args):
    return subprocess.run(["systemctl", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout.decode().strip()


def show(prop):
    return systemctl("show", "-P", prop, SERVICE)


def main_pid():
    return int(show("MainPID"))


def journal():
    return subprocess.run(["journalctl", "-u", SERVICE, "-o", "cat", "--no-pager"], stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace")


class RpcError(Exception):
    def __init__(self, error):
        self.code = error["data"]["code"]
        super().__init__("%s: %s" % (self.code, error["message"]))


class Closed(Exception):
    pass


class Client:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(SOCKET)
        self.file = self.socket.makefile("rb")
        self.n = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def rpc(self, method, **params):
        self.n += 1
        try:
            self.socket.sendall(json.dumps({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params}).encode() + b"\n")
            line = self.file.readline()
        except OSError as e:
            raise Closed(str(e)) from e
        if not line:
            raise Closed("the daemon closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def create(self, sandbox, data, **params):
        at, step = 0, 256 << 10
        while True:
            last = at + step >= len(data)
            r = self.rpc("object.put", upload="u", offset=at, data=base64.b64encode(data[at:at + step]).decode(), last=last)
            at += step
            if last:
                return self.rpc("sandbox.create", id=sandbox, object=r["sha256"], **params)

    def call(self, sandbox, function, **args):
        return self.rpc("sandbox.call", id=sandbox, function=function, args=args)["result"]

    def info(self, sandbox):
        return self.rpc("sandbox.info", id=sandbox)

    def events(self, kind):
        return [e for e in self.rpc("event.read", limit=1000)["events"] if e["type"] == kind]


def serves():
    try:
        with Client() as c:
            return c.rpc("daemon.info")
    except (OSError, Closed):
        return None


def running(sandbox):
    with contextlib.suppress(OSError, Closed, RpcError), Client() as c:
        info = c.info(sandbox)
        return info if info["status"] == "running" else None
    return None


def clean():
    """Every row begins with none."""
    with Client() as c:
        for s in c.rpc("sandbox.list")["sandboxes"]:
            c.rpc("sandbox.destroy", id=s["id"])


class Rows:
    """One line per row: ok or FAILED, and what it took."""

    def __init__(self):
        self.failed = []

    def run(self, rows):
        for row in rows:
            name, began = row.__name__, time.monotonic()
            try:
                wait_for(serves, "the service")
                clean()
                note = row() or ""
                print("ok     %-44s %5.1f s %s" % (name, time.monotonic() - began, note))
            except Exception:
                self.failed.append(name)
                print("FAILED %-44s %5.1f s\n%s" % (name, time.monotonic() - began, traceback.format_exc()))
                print("---- the journal's last lines\n%s\n----" % "\n".join(journal().splitlines()[-25:]))
        print("%d failed%s" % (len(self.failed), ": " + " ".join(self.failed) if self.failed else ""))
        sys.exit(1 if self.failed else 0)
