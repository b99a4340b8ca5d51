#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs test programs in parallel and sums them up.

usage: run.py RING...     rings: unit proc e2e asan source all; wire: e2e but for what only measures (tests/clients)

Each program prints what failed; a passing one stays quiet. A test that can't run here prints a line "SKIP name: reason"; the names
are compared with tests/skips, and one that isn't listed there fails the run. The last line is "N passed, N failed, N skipped".
Programs: libcheck ones (their summary line is read), and tests/e2e/test_*.py (unittest).
"""
import concurrent.futures
import itertools
import os
import re
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("SANDBOXD_BUILD") or os.path.join(TOP, "build")
MULTIPLIER = int(os.environ.get("SANDBOXD_TEST_MULTIPLIER", "1") or 1)
TIME_LIMIT_S = 300 * MULTIPLIER
ALONE = ("e2e/test_storm",)  # what measures, when the others are done


def sources(folder, prefix, suffix):
    folder = os.path.join(TOP, folder)
    return sorted(n[: -len(suffix)] for n in os.listdir(folder) if n.startswith(prefix) and n.endswith(suffix))


def jobs_of(ring):
    """(label, argv, extra environment) of each program of a ring, cheapest ring first."""
    if ring == "source":
        return [("source/check-source", [os.path.join(TOP, "tests/check-source.sh")], {})]
    if ring == "unit":
        jobs = [("unit/" + n, [os.path.join(BUILD, "tests/unit", n)], {}) for n in sources("tests/unit", "test_", ".c")]
        return jobs + [("unit/" + n, ["sh", os.path.join(TOP, "tests/unit", n + ".sh")], {}) for n in sources("tests/unit", "", ".sh")]
    if ring == "asan":
        env = {"SANDBOXD_TEST_MULTIPLIER": str(4 * MULTIPLIER), "SANDBOXD_BUILD": os.path.join(BUILD, "asan"),
               "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        return [("asan/" + n, [os.path.join(BUILD, "asan/tests/unit", n)], env) for n in sources("tests/unit", "test_", ".c")]
    if ring == "proc":
        return [("proc/" + n, [os.path.join(BUILD, "tests/proc", n)], {}) for n in sources("tests/proc", "test_", ".c")]
    if ring == "e2e":
        return [("e2e/" + n, [sys.executable, os.path.join(TOP, "tests/e2e", n + ".py")], {}) for n in sources("tests/e2e", "test_", ".py")]
    if ring == "wire":
        return [job for job in jobs_of("e2e") if job[0] not in ALONE]
    if ring == "all":
        return jobs_of_rings(("source", "unit", "proc", "e2e", "asan"))
    sys.exit(__doc__)


def jobs_of_rings(rings):
    return [job for ring in rings for job in jobs_of(ring)]


def run(job):
    label, argv, extra = job
    env = dict(os.environ, SANDBOXD_BUILD=BUILD, PYTHONDONTWRITEBYTECODE="1", CK_VERBOSITY="normal")
    env.update(extra)
    started = time.monotonic()
    process = subprocess.Popen(argv, cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT_S)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += b"\nended: it ran longer than %d s\n" % TIME_LIMIT_S
        status = 124
    return label, status, output.decode(errors="replace"), time.monotonic() - started


def counts(status, output):
    """(passed, failed) of one program, from the summary of libcheck or unittest; else by its status."""
    m = re.search(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", output, re.M)
    if m:
        total, bad = int(m[1]), int(m[2]) + int(m[3])
        return total - bad, bad if status == 0 else max(bad, 1)
    m = re.search(r"^Ran (\d+) tests? in", output, re.M)
    if m:
        bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", output))
        skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", output))
        return int(m[1]) - bad - skipped, bad if status == 0 else max(bad, 1)
    return (1, 0) if status == 0 else (0, 1)


def excuses_of_this_build():
    """{test: reason} of what needn't hold in a build with instruments (SANDBOXD_EXCEPT: a file; set by check-full and coverage)."""
    path = os.environ.get("SANDBOXD_EXCEPT")
    if not path:
        return {}
    with open(path) as f:
        return dict(line.rstrip("\n").split("\t", 1) for line in f if line.strip() and not line.startswith("#"))


def failed_tests(output):
    """The names of the tests that failed, as libcheck and unittest print them."""
    return re.findall(r"^\S+:\d+:[FE]:[^:\n]*:([^:\n]*):", output, re.M) + re.findall(r"^(?:FAIL|ERROR): (\w+) \(", output, re.M)


AGAIN = os.environ.get("SANDBOXD_TEST_AGAIN") == "1"  # a program that failed is run once more, and both results are shown


def digest(label, output):
    """What a reader of the last lines alone must know: which test, and what it said."""
    text = re.sub(r"^---- the daemon's log.*?^----$", "(the daemon's log: above)", output, flags=re.M | re.S).strip()
    print("FAILED %s: %s\n%s" % (label, " ".join(failed_tests(output)) or "(no test's name)", text[-1500:]))


def main():
    jobs = jobs_of_rings(sys.argv[1:]) if sys.argv[1:] else sys.exit(__doc__)
    with open(os.path.join(TOP, "tests/skips")) as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    allowed = {row[1] for row in rows if row[0] == "any" or os.geteuid() != 0}
    excuses = excuses_of_this_build()
    by_label = {job[0]: job for job in jobs}
    passed = failed = 0
    skips = {}
    lacks = set()
    failures = []
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        beside = [job for job in jobs if job[0] not in ALONE]
        for label, status, output, seconds in itertools.chain(pool.map(run, beside), map(run, [job for job in jobs if job[0] in ALONE])):
            good, bad = counts(status, output)
            if bad and AGAIN:
                print("UNSTABLE? %s failed and is run once more; the first time:\n%s" % (label, output), flush=True)
                label, status, output, seconds = run(by_label[label])
                good, bad = counts(status, output)
            names = failed_tests(output)
            for name in names:
                if bad and name in excuses:
                    print("     need not hold in this build: %s: %s" % (name, excuses[name]))
            if names and bad == len(names) and all(name in excuses for name in names):
                bad = 0
            passed, failed = passed + good, failed + bad
            print("%-4s %-32s %4d tests %6.1f s" % ("ok" if not bad else "FAIL", label, good + bad, seconds), flush=True)
            if bad:
                print(output, flush=True)
                failures.append((label, output))
            skips.update((m[1], m[2]) for m in re.finditer(r"^SKIP (\S+): (.*)$", output, re.M))
            lacks.update(m[1] for m in re.finditer(r"^LACKS (.*)$", output, re.M))
            for m in re.finditer(r"^NOTE (.*)$", output, re.M):
                print("     " + m[1])
    for name in sorted(lacks):
        print("this kernel or build lacks: " + name)
    for name, reason in sorted(skips.items()):
        known = name in allowed
        print("%s %s: %s" % ("skipped" if known else "NEW SKIP", name, reason))
        failed += 0 if known else 1
    for label, output in failures:
        digest(label, output)
    print("%d passed, %d failed, %d skipped" % (passed, failed, len(skips)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
