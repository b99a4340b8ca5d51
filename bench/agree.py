#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does bench/floor cost what a given reference program costs for the same kernel work?

usage: bench/agree.py REFERENCE.c [--rounds N] [--copies]      (after `make bench`, or SANDBOXD_BUILD=...)

The reference is compiled here and prints a row as it finishes it: "NAME median X us min Y p99 Z". While it works on a row it is
stopped again and again (SIGSTOP), and we measure the same work for as long, so that both see the same machine in slices of 50 ms
(the few long copies: one side after the other).
Shown per row: the median of the rounds' medians on both sides, the median of the rounds' ratios, and the ratio of the two
smallest values of all. Ends with 1 if a ratio of medians is more than 15 % off: on a busy machine give it more rounds.
"""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

from measure import Failed, Floor, end_cleanly, median

TOLERANCE = 0.15
SLICE_S = 0.05
# what the reference does in a mode, in its order: its row -> our command, lines of an answer, which of them counts (None: all),
# and how many answers at least
ROWS = {
    "spawn": {
        "fork, dlopen, reply": ("fork 25", 25, None, 4),
        "fork, landlock, seccomp, dlopen, reply": ("fork-locked 25", 25, None, 4),
        "fork+exec, landlock, seccomp, dlopen, reply": ("exec-locked 10", 10, None, 10),
        "fork pid+mnt+ipc+uts, pivot_root, all of it": ("spawn 20", 20, None, 5),
        "same with net": ("spawn-net 10", 10, None, 10),
        "exec, pid+mnt+ipc+uts+net, all of it": ("spawn-exec-net 10", 10, None, 10),
    },
    "restart": {"SIGKILL -> successor answers (fork, all but net)": ("restart 20", 20, None, 5)},
    "dlopen": {"dlopen of a small object": ("dlopen 200", 200, None, 1)},
    "rtt": {"one unix-socket round trip": ("rtt 2000", 2000, None, 10)},
    "copy": {"%d MiB through a %s memfd" % (mib, kind): ("copy %d" % (mib << 20), 2, which, 5)
             for mib in (1, 100, 1000) for which, kind in enumerate(("fresh", "warm"))},
}
ROW = re.compile(r"^(.*?)\s+median\s+([0-9.]+) us\s+min\s+([0-9.]+)")


class Ours:
    """Our samples of the row that the reference is working on."""

    def __init__(self, floor, row):
        self.floor = floor
        self.command, self.lines, self.which, self.least = row
        self.asked, self.values = 0, []

    def ask(self):
        got = self.floor.ask(self.command, self.lines)
        self.values += got if self.which is None else [got[self.which]]
        self.asked += 1

    def slice(self):
        until = time.monotonic() + SLICE_S
        while time.monotonic() < until:
            self.ask()

    def finish(self):
        while self.asked < self.least:
            self.ask()


def next_row(reference, rows, mine):
    """The reference's next line, or nothing at its end; meanwhile each slice of its time is followed by one of ours, if any."""
    while mine and not select.select([rows], [], [], SLICE_S)[0]:
        reference.send_signal(signal.SIGSTOP)
        mine.slice()
        reference.send_signal(signal.SIGCONT)
    try:
        return rows.readline()
    except OSError:  # a terminal's way to say that the other side is closed
        return b""


def one_round(binary, mode, floor, results):
    """Runs the reference on a terminal, so that it shows each row when it is done with it."""
    sliced = mode != "copy"  # a stop within one of its few copies would count as theirs
    outer, inner = pty.openpty()
    reference = subprocess.Popen([binary, mode], stdout=inner, stdin=subprocess.DEVNULL)
    os.close(inner)
    try:
        with os.fdopen(outer, "rb", buffering=0) as rows:
            for name, row in ROWS[mode].items():
                mine = Ours(floor, row)
                match = ROW.match(next_row(reference, rows, mine if sliced else None).decode(errors="replace") or "-")
                if not match or match[1] != name:
                    raise Failed("the reference's row isn't '%s'" % name)
                reference.send_signal(signal.SIGSTOP)
                mine.finish()
                reference.send_signal(signal.SIGCONT)
                results.setdefault(name, []).append((float(match[2]), median(mine.values), float(match[3]), min(mine.values)))
            while next_row(reference, rows, None):
                pass
        if reference.wait() != 0:
            raise Failed("the reference failed")
    finally:
        if reference.poll() is None:
            reference.kill()
            reference.wait()


def main(argv):
    rounds, copies, source = 5, False, None
    words = iter(argv)
    for word in words:
        if word == "--rounds":
            rounds = int(next(words))
        elif word == "--copies":
            copies = True
        else:
            source = word
    if not source or rounds < 1:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    end_cleanly(900)
    results = {}
    with tempfile.TemporaryDirectory(prefix="sandboxd-agree-") as folder:
        binary = os.path.join(folder, "reference")
        subprocess.run([*os.environ.get("CC", "cc").split(), "-O2", source, "-o", binary, "-ldl", "-lseccomp"], check=True)
        for _ in range(rounds):
            for mode in ["spawn", "restart", "dlopen", "rtt"] + (["copy"] if copies else []):
                floor = Floor()  # one for each: a process that holds the memory of a copy forks slowly
                try:
                    one_round(binary, mode, floor, results)
                finally:
                    floor.end()
    print("%-50s %12s %12s %8s %8s  %d rounds" % ("row", "reference us", "ours us", "ratio", "of mins", rounds))
    bad = 0
    for name, got in results.items():
        theirs, ours, their_min, our_min = zip(*got)
        ratios = [b / a for a, b in zip(theirs, ours)]
        off = abs(median(ratios) - 1) > TOLERANCE
        bad += off
        print("%-50s %12.1f %12.1f %8.2f %8.2f%s (%s)" % (name, median(theirs), median(ours), median(ratios), min(our_min) / min(their_min),
                                                         " !" if off else "  ", " ".join("%.2f" % r for r in ratios)))
    print("%d of %d rows agree within %d %%" % (len(results) - bad, len(results), TOLERANCE * 100))
    return 1 if bad or not results else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failed, OSError, subprocess.CalledProcessError) as e:
        sys.exit("agree: %s" % e)
