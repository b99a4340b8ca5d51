# SPDX-License-Identifier: MIT
"""What bench.py and agree.py share: programs that are asked line by line, a private daemon, and the statistics."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("SANDBOXD_BUILD") or os.path.join(TOP, "build"))


class Failed(Exception):
    pass


def percentile(values, p):
    """The smallest value that at least p % of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * p // 100) - 1))]


def median(values):
    return percentile(values, 50)


class Server:
    """A program that reads a command per line and answers each with a known count of numbers, one per line."""

    def __init__(self, *argv):
        self.name = os.path.basename(argv[0])
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise Failed("%s ended with %s" % (self.name, self.process.wait()))
        if text.startswith("error"):
            raise Failed("%s: %s" % (self.name, text[6:].strip()))
        return text.strip()

    def ask(self, command, lines=1):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words, or its status, say why
        return [float(self.line()) for _ in range(lines)]

    def end(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()


class Floor(Server):
    """bench/floor with the small object that its children load; the folder lies in /tmp because their root has only that."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sandboxd-floor-", dir="/tmp")
        try:
            subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", self.folder + "/mod.so"],
                           input=b"int go(void){return 42;}\n", check=True)
            super().__init__(os.path.join(BUILD, "bench/floor"), self.folder)
        except (OSError, subprocess.CalledProcessError) as e:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise Failed("the floor does not start: %s" % e)

    def end(self):
        super().end()
        shutil.rmtree(self.folder, ignore_errors=True)


class Daemon:
    """sandboxd in a temporary folder. As root its folder must be open to control's and the hosts' own uids."""

    def __init__(self, memory_bytes=None):
        """memory_bytes: how much a sandbox may ask for, where that is more than the daemon's default."""
        self.folder = tempfile.mkdtemp(prefix="sandboxd-bench-")
        os.chmod(self.folder, 0o755)
        self.path = os.path.join(self.folder, "socket")
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        config = os.path.join(self.folder, "config")
        with open(config, "w") as f:
            if memory_bytes:
                f.write("max_memory_bytes = %d\n" % memory_bytes)
        try:
            self.process = subprocess.Popen(
                [os.path.join(BUILD, "sandboxd"), "--config", config, "--socket", self.path, "--state-dir", os.path.join(self.folder, "state"),
                 "--runtime-dir", os.path.join(self.folder, "run")], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        except OSError as e:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise Failed("the daemon does not start: %s" % e)
        try:
            self.wait()
        except BaseException:
            self.end()
            raise

    def wait(self):
        """Until it takes connections; it binds its socket before anything else."""
        until = time.monotonic() + 20
        while True:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                    s.connect(self.path)
                    return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise Failed("the daemon does not serve")
            try:
                self.process.wait(0.01)
            except subprocess.TimeoutExpired:
                pass

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def end_by_signal(number, _frame):
    sys.exit("ended by %s" % signal.Signals(number).name)


def end_cleanly(seconds):
    """So that every `finally` runs when the process is ended, or when the run takes longer than it may."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, end_by_signal)
    signal.alarm(seconds)
