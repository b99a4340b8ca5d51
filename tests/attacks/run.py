#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The attack battery: every attack of table.py, as root's and as an ordinary user's daemon runs it, under the profiles high and medium.

usage: run.py [--quick] [--user root|rootless] [--no-each] [--controls | --confined] [NAME...]

First with just the walls left out that stop it (`sandboxd --weaken`): the attack must succeed, or the test would prove nothing.
Then with all of them: it must fail. Who judges looks from outside (judges.py). What can't succeed on this machine even without walls
must be listed in tests/attacks/impossible, with the reason. Exit status 1 on any surprise.

  --quick     the few rows that are marked for `make check`
  --no-each   without the runs under high that leave only one of several walls standing
  --controls  only the runs without the walls; --confined: only those with all of them
  NAME        only the rows whose names begin so
"""
import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402
import harness  # noqa: E402
import shot  # noqa: E402
import special  # noqa: E402
import table  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 4
STOPPED, SUCCEEDED, IMPOSSIBLE, REMAINS, SURPRISE = "stopped", "succeeded", "not possible here", "remains", "SURPRISE"
UNENFORCED, NEEDS_CGROUPS = "not enforced here", "needs cgroups"


def impossible_rows():
    """[(name pattern, user, profile, reason)] of tests/attacks/impossible."""
    rows = []
    with open(os.path.join(HERE, "impossible")) as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                name, user, profile, reason = line.rstrip("\n").split(None, 3)
                rows.append((name, user, profile, reason))
    return rows


def impossible_reason(rows, name, user, profile):
    for pattern, u, p, reason in rows:
        if pattern == name and u in (user, "any") and p in (profile, "any"):
            return reason
    return None


class Run:
    """One row, user, profile and set of walls left out; what it should come to and what it did."""

    def __init__(self, row, user, profile, kind, walls, reason=None):
        self.row, self.user, self.profile, self.kind, self.walls, self.reason = row, user, profile, kind, tuple(sorted(walls)), reason
        self.outcome, self.note = SURPRISE, "not run"

    def decide(self, came_true, note, excused=()):
        """excused: walls that the sandbox's own report says this machine lacks, and that are listed."""
        self.note = note
        if self.kind == "control":
            if came_true:
                self.outcome, self.note = (SUCCEEDED, note) if not self.reason or self.reason.startswith("here:") else (SURPRISE, "listed as impossible, but succeeded")
            else:
                self.outcome = IMPOSSIBLE if self.reason else SURPRISE
                self.note = self.reason or "failed without " + ", ".join(self.walls) + ": " + note
        elif self.row.remains is True or self.profile in (self.row.remains or ()):
            self.outcome = REMAINS if came_true else STOPPED
        elif came_true and excused:
            self.outcome = NEEDS_CGROUPS if set(excused) <= table.BY_CGROUPS else UNENFORCED
            self.note = "its report says so: no " + ", ".join(excused)
        elif came_true:
            self.outcome, self.note = SURPRISE, "SUCCEEDED " + ("under the profile" if self.kind == "confined" else "past %s alone" % self.only())
        else:
            self.outcome = STOPPED

    def only(self):
        return ", ".join(sorted(w for w in self.row.walls if w not in self.walls and applies(w, self.user)))


def applies(wall, user):
    """Some walls exist only for root's daemon, some only for an ordinary user's."""
    if user == "rootless" and wall in (table.UID, table.GROUPS):
        return False
    return not (user == "root" and wall == table.USER_NS)


def units(walls):
    """What is tried alone: walls, but those together that stand only together."""
    found, left = [], list(walls)
    for joined in table.JOINED:
        if set(joined) <= set(left):
            found.append(joined)
            left = [w for w in left if w not in joined]
    if table.CODE in left and table.SECCOMP in left:  # what the filter refuses of new code is left out with new-code
        left.remove(table.SECCOMP)
    return found + [(w,) for w in left]


def runs_of(rows, users, each, impossible):
    runs = []
    for row in rows:
        for user in users:
            if user not in row.users:
                continue
            walls = [w for w in row.walls if applies(w, user)]
            for profile in row.profiles:
                reason = impossible_reason(impossible, row.name, user, profile)
                if walls:
                    runs.append(Run(row, user, profile, "control", walls, reason))
                runs.append(Run(row, user, profile, "confined", ()))
                if row.each and each and profile == "high" and len(walls) > 1 and not reason:
                    runs += [Run(row, user, profile, "each", set(walls) - set(unit)) for unit in units(walls)]
    return runs


def fire(arena, run):
    began = time.monotonic()
    try:
        one = shot.Shot(arena, run.row, run.profile)
        run.decide(one.fire(), one.why(), sorted(arena.lost[run.profile] & arena.excused & set(run.row.walls) - set(run.walls)))
    except Exception as e:  # a broken test is a surprise too
        run.outcome, run.note = SURPRISE, "the test itself failed: %r" % (e,)
        if "SANDBOXD_TEST_TRACE" in os.environ:
            traceback.print_exc()
    if run.outcome == SURPRISE:
        print("SURPRISE %s %s %s %s: %s" % (run.row.name, run.user, run.profile, run.kind, run.note), flush=True)
    if "SANDBOXD_TEST_TIMES" in os.environ and time.monotonic() - began > 2:
        print("%6.1f s %s %s %s" % (time.monotonic() - began, run.row.name, run.profile, run.kind), flush=True)


def unexcused(arena, user):
    """Walls that this machine lacks by the report of a sandbox, and that nobody has listed; the others are excused."""
    rows = impossible_rows()
    bad = []
    for profile, lost in arena.lost.items():
        for wall in sorted(lost - set(arena.walls)):
            if impossible_reason(rows, "LOST/" + wall, user, profile):
                arena.excused.add(wall)
            else:
                bad.append("a sandbox under %s has no %s" % (profile, wall))
    return bad


def run_group(user, walls, runs):
    """All runs of one daemon; complaints about what it left behind."""
    try:
        arena = shot.Arena(user, walls)
    except Exception as e:
        for run in runs:
            run.note = "no daemon: %s" % str(e)[-300:]
        return ["the daemon without %s did not start: %s" % (", ".join(walls) or "nothing", str(e)[-600:])]
    bad = unexcused(arena, user) if not walls else []
    try:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda r: fire(arena, r), [r for r in runs if not r.row.alone and not r.row.pair]))
        for run in runs:
            if run.row.alone or run.row.pair:
                fire(arena, run)
    finally:
        complaints = arena.close()
    return ["daemon of %s without %s: %s" % (user, ", ".join(walls) or "nothing", c) for c in bad + complaints]


def run_all(runs):
    groups, complaints = {}, []
    for run in runs:
        if run.row.special in special.DAEMONS:
            run.decide(*special.DAEMONS[run.row.special](run.user, run.profile, run.walls))
        else:
            groups.setdefault((run.user, run.walls), []).append(run)
    for (user, walls), members in sorted(groups.items()):
        began = time.monotonic()
        complaints += run_group(user, walls, members)
        if "SANDBOXD_TEST_TIMES" in os.environ:
            print("%6.1f s %3d runs as %s without %s" % (time.monotonic() - began, len(members), user, ", ".join(walls) or "nothing"), flush=True)
    return complaints


def print_table(runs):
    print("%-26s %-4s %-7s %-9s %-18s %s" % ("attack", "case", "profile", "user", "without its walls", "with them"))
    by_key = {}
    for run in runs:
        by_key.setdefault((run.row.name, run.profile, run.user), []).append(run)
    for (name, profile, user), members in by_key.items():
        row = members[0].row
        control = next((r for r in members if r.kind == "control"), None)
        confined = next((r for r in members if r.kind == "confined"), None)
        before = control.outcome if control else "-"
        after = confined.outcome if confined else "-"
        if after == STOPPED and control:
            after = "stopped by %s (%s)" % (", ".join(control.walls), confined.note)
        elif after == REMAINS:
            after = "remains (%s)" % confined.note
        elif after == STOPPED:
            after = "stopped: %s (%s)" % (row.always or "it can't be heard", confined.note)
        print("%-26s %-4s %-7s %-9s %-18s %s" % (name, row.case or "-", profile, user, before, after[:200]))
        for r in members:
            if r.kind == "each":
                print("%-26s      %-7s %-9s %-18s %s (%s)" % ("  only " + r.only(), profile, user, "", r.outcome, r.note[:80]))


def summary(runs, complaints):
    counts = {}
    for run in runs:
        counts[run.kind + " " + run.outcome] = counts.get(run.kind + " " + run.outcome, 0) + 1
    for run in sorted({(r.row.name, r.user, r.note) for r in runs if r.outcome == IMPOSSIBLE}):
        print("not possible here: %s, %s: %s" % run)
    for word in (UNENFORCED, NEEDS_CGROUPS):
        for run in sorted({(r.row.name, r.user, r.note) for r in runs if r.outcome == word}):
            print("%s: %s, %s: %s" % (word, *run))
    for run in sorted({(r.row.name, r.user, r.profile) for r in runs if r.outcome == REMAINS}):
        print("remains open (docs/SECURITY.md): %s, %s, %s" % run)
    surprises, where = [r for r in runs if r.outcome == SURPRISE], {}
    if surprises:
        print("---- surprises")
    for r in surprises:
        where.setdefault((r.row.name, r.kind if r.kind != "each" else "only " + r.only(), r.note), []).append("%s/%s" % (r.user, r.profile))
    for (name, kind, note), places in where.items():
        print("SURPRISE %s [%s] %s: %s" % (name, kind, " ".join(places), note))
    for c in complaints:
        print("SURPRISE " + c)
    print("%d attacks, %d runs: %s" % (len({r.row.name for r in runs}), len(runs), ", ".join("%d %s" % (n, k) for k, n in sorted(counts.items()))))
    return 1 if surprises or complaints else 0


def raise_limits():
    """What a daemon doesn't limit, hosts have from us: cores and a large stack, if their walls are left out."""
    for what, least in ((resource.RLIMIT_CORE, resource.RLIM_INFINITY), (resource.RLIMIT_STACK, 64 << 20)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (hard if hard != resource.RLIM_INFINITY and least == resource.RLIM_INFINITY else least, hard))


def can_weaken():
    r = subprocess.run([os.path.join(world.BUILD, "sandboxd"), "--weaken", "system-calls", "--check-config"], capture_output=True, text=True, check=False)
    return r.returncode == 0 or not re.search(r"unknown option", r.stderr)


def main(argv):
    options = {a for a in argv if a.startswith("--") and a != "--user"}
    if not harness.IS_ROOT:
        sys.exit("run.py: hosts refuse to be looked into by their own user, and only root can be another: run it as root")
    users = list(table.BOTH)
    if "--user" in argv:
        at = argv.index("--user")
        users = [argv[at + 1]]
        del argv[at:at + 2]
    names = [a for a in argv if not a.startswith("--")]
    if options - {"--quick", "--no-each", "--controls", "--confined"} or [u for u in users if u not in table.BOTH]:
        sys.exit(__doc__)
    rows = [r for r in table.ROWS if (not names or any(r.name.startswith(n) for n in names)) and (r.quick or "--quick" not in options)]
    if not can_weaken():
        print("this sandboxd has no --weaken: control runs are made as it is")
        world.weakened = lambda walls: ()
    raise_limits()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # daemons and victims are ended on the way out
    began = time.monotonic()
    runs = runs_of(rows, users, "--no-each" not in options and "--quick" not in options, impossible_rows())
    if "--controls" in options:
        runs = [r for r in runs if r.kind == "control"]
    if "--confined" in options:
        runs = [r for r in runs if r.kind == "confined"]
    complaints = run_all(runs)
    print_table(runs)
    status = summary(runs, complaints)
    print("%.0f s" % (time.monotonic() - began))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
