#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The daemon's core of supervision trees against the supervisor of Erlang/OTP itself, scenario by scenario.

usage: check.py [--scenarios N] [--seed TEXT]

Random scenarios (reproducible by the seed) and directed ones run on the real supervisor, in virtual time (oracle.erl), and through
`sandboxd --simulate --otp`. The order of all actions with their times, the replies and the final states must be equal. Then each wrong
belief about OTP that is easily held, put into a copy of the core (mutants.c), must be told from it. What was exercised is counted and must
be enough. Build folder: SANDBOXD_BUILD.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import directed
import generate
import terms
from model import World

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SANDBOXD_BUILD") or os.path.join(TOP, "build")
OUT = os.path.join(BUILD, "otp")
TIME_LIMIT_S = 600

# scenarios that must show it, at least
NEEDED = {"window expires between crashes": 200, "group escalates": 200, "start fails on restart": 200, "exit during a restart": 200,
          "dormant sibling revived": 200, "auto_shutdown": 200, "stop of a busy group": 50, "killed at its deadline": 200, "retry is void": 10}

BELIEFS = {
    1: "a child that waits for its retry counts as gone for all_significant",
    2: "a second retry of the same child is merged with the first",
    3: "count asks the state, not the process",
    4: "rest_for_one retries from the child that crashed first",
    5: "the parent's stop overtakes what waits in the inbox",
    6: "a failed start_child keeps the spec",
    7: "terminate_child is refused while the child waits for its retry",
    8: "a retry comes before what waits in the inbox",
    9: "restart_child is counted",
    10: "added children survive the restart of their group",
    11: "terminating a significant child triggers auto_shutdown",
    12: "the window survives the restart of its group",
    13: "a retry under one_for_all keeps those that were started",
    14: "the window's bound is exclusive",
    15: "siblings that were down stay down",
    16: "temporary siblings are restarted with the others",
    17: "retries aren't counted",
    18: "a group that gives up ends with an error",
}


def run(argv, **more):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT_S, check=False, **more)


def oracle(scenarios):
    """{id: result} by the real supervisor, and what it said."""
    for name in ("oracle.beam", "oracle.jsonl"):
        if os.path.exists(os.path.join(OUT, name)):
            os.unlink(os.path.join(OUT, name))
    done = run(["erlc", "-o", OUT, os.path.join(HERE, "oracle.erl")])
    if done.returncode != 0:
        sys.exit("check-otp: erlc: " + done.stdout.decode(errors="replace"))
    with open(os.path.join(OUT, "scenarios.term"), "w") as f:
        f.writelines(terms.scenario(s) + "\n" for s in scenarios)
    done = run(["erl", "-noshell", "-noinput", "+S", "1:1", "-pa", OUT, "-s", "oracle", "main", "virtual", os.path.join(OUT, "scenarios.term"),
                os.path.join(OUT, "oracle.jsonl"), "20"], cwd=OUT)
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0 or not os.path.exists(os.path.join(OUT, "oracle.jsonl")):
        sys.exit("check-otp: the oracle failed: " + said)
    with open(os.path.join(OUT, "oracle.jsonl"), "rb") as f:
        return by_id(line.replace(b',"late":0}', b"}") for line in f), said


def by_id(lines):
    """{id: line}; both sides write the same keys in the same order, without spaces."""
    return {int(line[6:line.index(b",")]): line.strip() for line in lines if line.startswith(b'{"id":') and line.rstrip().endswith(b"}")}


def simulated(argv):
    """{id: line}; what a program that died had written so far."""
    done = subprocess.run(argv + ["--simulate", os.path.join(OUT, "scenarios.jsonl"), "--otp"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, check=False)
    return by_id(done.stdout.splitlines()), done.returncode, done.stderr.decode(errors="replace")


def split(line):
    """The result. That the root is up is noted by whoever started it, another process of the oracle: its place among the root's own
    actions of the same instant is nobody's promise, so it stands apart."""
    r = json.loads(line)
    up = [a for a in r["actions"] if a[1:] == ["started", "root"]]
    return dict(r, actions=[a for a in r["actions"] if a not in up], up=up)


def difference(real, ours):
    """None, or where the two part."""
    if ours is None:
        return "no result"
    if real == ours:
        return None
    real, ours = split(real), split(ours)
    for key in ("actions", "replies", "final", "up"):
        if real[key] != ours[key]:
            at = next((i for i, (x, y) in enumerate(zip(real[key], ours[key])) if x != y), min(len(real[key]), len(ours[key])))
            return "%s %d: OTP %s, ours %s" % (key, at, json.dumps(real[key][at:at + 3]), json.dumps(ours[key][at:at + 3]))
    return None


def mutant(number, real):
    ours, status, _ = simulated([os.path.join(BUILD, "tests/otp/mutants"), str(number)])
    return number, sum(difference(real[i], ours.get(i)) is not None for i in real), status


def choose(n, seed):
    made, exercised, thrown = generate.make(n, seed, 1)
    for name, s in directed.all_of_them():
        s["id"] = len(made) + 1
        why = World(s).run()
        if why:
            sys.exit("check-otp: the directed scenario '%s' has more than one outcome: %s" % (name, why))
        made.append(s)
    with open(os.path.join(OUT, "scenarios.jsonl"), "w") as f:
        f.writelines(json.dumps(s, separators=(",", ":")) + "\n" for s in made)
    return made, exercised, thrown


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenarios", type=int, default=6000)
    parser.add_argument("--seed", default="sandboxd")
    a = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    started = time.monotonic()
    scenarios, exercised, thrown = choose(a.scenarios, a.seed)
    print("%d random and %d directed scenarios (%d without one sure outcome were left out), %.1f s" % (
        a.scenarios, len(scenarios) - a.scenarios, sum(thrown.values()), time.monotonic() - started), flush=True)

    real, said = oracle(scenarios)
    print("OTP: " + said, flush=True)
    ours, status, errors = simulated([os.path.join(BUILD, "sandboxd")])
    bad = []
    if status != 0 or len(real) != len(scenarios):
        bad.append("sandboxd ended with %d (%s); OTP had %d of %d results" % (status, errors.strip(), len(real), len(scenarios)))
    apart = [(s, difference(real[s["id"]], ours.get(s["id"]))) for s in scenarios if s["id"] in real]
    apart = [(s, why) for s, why in apart if why]
    print("scenarios: %d, actions: %d, replies: %d, differences: %d" % (
        len(real), sum(len(json.loads(r)["actions"]) for r in real.values()), sum(len(json.loads(r)["replies"]) for r in real.values()), len(apart)))
    for s, why in apart[:5]:
        print("  %s\n    %s" % (why, json.dumps(s, separators=(",", ":"))))
    if apart:
        bad.append("%d scenarios differ from OTP" % len(apart))

    print("\nexercised by                                     scenarios")
    for what, n in sorted(exercised.items(), key=lambda x: -x[1]):
        print("  %-46s %9d%s" % (what, n, "  (at least %d)" % NEEDED[what] if what in NEEDED else ""))
    bad += ["only %d scenarios where: %s" % (exercised.get(what, 0), what) for what, n in NEEDED.items() if exercised.get(what, 0) < n]

    print("\nwrong belief put into the core                                            noticed by")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for number, n, status in pool.map(lambda number: mutant(number, real), [0] + list(BELIEFS)):
            print("  %2d %-70s %7d%s" % (number, BELIEFS.get(number, "none"), n, "" if status == 0 else "  (ended with %d)" % status), flush=True)
            if (number == 0) != (n == 0):
                bad.append("the core without a wrong belief differs" if number == 0 else "nobody notices: " + BELIEFS[number])
    for line in bad:
        print("FAILED: " + line)
    print("check-otp: %s, %.0f s" % ("%d findings" % len(bad) if bad else "equal, and every wrong belief is noticed", time.monotonic() - started))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
