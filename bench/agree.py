#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does bench/floor cost what a given reference program costs for the same kernel work?

usage: bench/agree.py REFERENCE.c [--rounds N] [--copies]      (after `make bench`, or SANDBOXD_BUILD=...)

The reference is compiled here and prints a row as it finishes it: "NAME median X us min Y p99 Z". Each row is followed at once by
our own measurement of the same work with as many samples, while the reference is stopped, so that both run under the same
load. Shown per row: the median of the rounds' medians on both sides, and the median of the rounds' ratios. Ends with 1 if a
ratio is more than 15 % off. A round whose two sides differ because a neighbour came or went is what the median is for.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile

from measure import Failed, Floor, end_cleanly, median

TOLERANCE = 0.15
# the reference's row -> our command, samples, lines per sample and which of them counts
ROWS = {
    "fork, dlopen, reply": ("fork", 200, 1, 0),
    "fork, landlock, seccomp, dlopen, reply": ("fork-locked", 200, 1, 0),
    "fork+exec, landlock, seccomp, dlopen, reply": ("exec-locked", 200, 1, 0),
    "fork pid+mnt+ipc+uts, pivot_root, all of it": ("spawn", 200, 1, 0),
    "same with net": ("spawn-net", 200, 1, 0),
    "exec, pid+mnt+ipc+uts+net, all of it": ("spawn-exec-net", 200, 1, 0),
    "SIGKILL -> successor answers (fork, all but net)": ("restart", 200, 1, 0),
    "dlopen of a small object": ("dlopen", 200, 1, 0),
    "one unix-socket round trip": ("rtt 20000", 1, 20000, None),
    "1 MiB through a fresh memfd": ("copy %d" % (1 << 20), 5, 2, 0),
    "1 MiB through a warm memfd": ("copy %d" % (1 << 20), 5, 2, 1),
    "100 MiB through a fresh memfd": ("copy %d" % (100 << 20), 5, 2, 0),
    "100 MiB through a warm memfd": ("copy %d" % (100 << 20), 5, 2, 1),
    "1000 MiB through a fresh memfd": ("copy %d" % (1000 << 20), 3, 2, 0),
    "1000 MiB through a warm memfd": ("copy %d" % (1000 << 20), 3, 2, 1),
    "1024 MiB through a fresh memfd": ("copy %d" % (1 << 30), 3, 2, 0),
    "1024 MiB through a warm memfd": ("copy %d" % (1 << 30), 3, 2, 1),
}
ROW = re.compile(r"^(.*?)\s+median\s+([0-9.]+) us")


def ours(floor, name):
    command, samples, lines, which = ROWS[name]
    values = []
    for _ in range(samples):
        got = floor.ask(command, lines)
        values += got if which is None else [got[which]]
    return median(values)


def one_round(binary, mode, floor, results):
    """Runs the reference on a terminal, so that it shows each row when it is done with it."""
    outer, inner = pty.openpty()
    reference = subprocess.Popen([binary, mode], stdout=inner, stdin=subprocess.DEVNULL)
    os.close(inner)
    try:
        with os.fdopen(outer, "r", errors="replace") as rows:
            while True:
                try:
                    text = rows.readline()
                except OSError:  # a terminal's way to say that the other side is closed
                    text = ""
                if not text:
                    break
                match = ROW.match(text)
                if not match or match[1] not in ROWS:
                    raise Failed("an unknown row of the reference: %r" % text)
                reference.send_signal(signal.SIGSTOP)
                results.setdefault(match[1], []).append((float(match[2]), ours(floor, match[1])))
                reference.send_signal(signal.SIGCONT)
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
        floor = Floor()
        try:
            for _ in range(rounds):
                for mode in ["spawn", "restart", "dlopen", "rtt"] + (["copy"] if copies else []):
                    one_round(binary, mode, floor, results)
        finally:
            floor.end()
    print("%-50s %12s %12s %7s   (%d rounds; each round's ratio)" % ("row", "reference us", "ours us", "ratio", rounds))
    bad = 0
    for name, pairs in results.items():
        ratios = [b / a for a, b in pairs]
        off = abs(median(ratios) - 1) > TOLERANCE
        bad += off
        print("%-50s %12.1f %12.1f %7.2f%s  (%s)" % (name, median([a for a, _ in pairs]), median([b for _, b in pairs]),
                                                    median(ratios), " !" if off else "  ", " ".join("%.2f" % r for r in ratios)))
    print("%d of %d rows agree within %d %%" % (len(results) - bad, len(results), TOLERANCE * 100))
    return 1 if bad or not results else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Failed, OSError, subprocess.CalledProcessError) as e:
        sys.exit("agree: %s" % e)
