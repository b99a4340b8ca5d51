#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lines reached by the rings unit, proc and e2e, from a build with counters (make coverage): a table by room, and the total.

usage: coverage.py PROFILES RING...

The counters of every process lie in a file of its own that is mapped while it runs (PROFILES), so that those that are killed count too.
"""
import collections
import glob
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ["SANDBOXD_BUILD"]
BATCH = 200


def merge(profiles):
    """All counters in one file. A process that was killed before its first line leaves an empty file, which isn't one."""
    merged = os.path.join(BUILD, "coverage.profdata")
    raw = [p for p in glob.glob(os.path.join(profiles, "*.profraw")) if os.path.getsize(p) > 0]
    for i in range(0, len(raw), BATCH):
        more = [merged] if i > 0 else []
        subprocess.run(["llvm-profdata", "merge", "-sparse", "-failure-mode=all", "-o", merged + ".new", *more, *raw[i:i + BATCH]], check=True,
                       stderr=subprocess.DEVNULL)
        os.replace(merged + ".new", merged)
    return merged, len(raw)


def main():
    profiles, rings = sys.argv[1], sys.argv[2:]
    os.environ["SANDBOXD_EXCEPT"] = os.path.join(TOP, "tests/coverage.except")
    failed = [ring for ring in rings if subprocess.run([sys.executable, os.path.join(TOP, "tests/run.py"), ring], check=False).returncode != 0]
    merged, n = merge(profiles)
    binaries = [os.path.join(BUILD, name) for name in ("sandboxd", "sandboxd-control", "sandbox-host", "sandboxctl")]
    binaries += sorted(p for p in glob.glob(os.path.join(BUILD, "tests/unit/test_*")) + glob.glob(os.path.join(BUILD, "tests/proc/test_*"))
                       if os.access(p, os.X_OK) and "." not in os.path.basename(p))
    lcov = subprocess.run(["llvm-cov", "export", "-format=lcov", "-instr-profile=" + merged, binaries[0]] + ["-object=" + b for b in binaries[1:]],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    lines, file = collections.defaultdict(dict), None
    for row in lcov.splitlines():
        if row.startswith("SF:"):
            file = os.path.relpath(row[3:], TOP)
        elif row.startswith("DA:") and file.split("/")[0] in ("daemon", "client", "proto"):
            at, count = row[3:].split(",")[:2]
            lines[file][int(at)] = max(lines[file].get(int(at), 0), int(count))
    rooms = collections.defaultdict(lambda: [0, 0])
    for file, counts in lines.items():
        for room in (os.path.dirname(file), "total"):
            rooms[room][0] += len(counts)
            rooms[room][1] += sum(1 for n in counts.values() if n > 0)
    print("\n%-24s %7s %8s" % ("room", "lines", "reached"))
    for room in sorted(rooms, key=lambda r: (r == "total", r)):
        all_, reached = rooms[room]
        print("%-24s %7d %8d %5.1f%%" % (room, all_, reached, 100.0 * reached / all_))
    worst = sorted((sum(1 for n in c.values() if n > 0) / len(c), f) for f, c in lines.items())[:8]
    print("least: " + ", ".join("%s %.0f%%" % (f, 100 * share) for share, f in worst))
    print("coverage: %d processes counted%s" % (n, "; rings that failed: " + " ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
