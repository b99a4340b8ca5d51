# SPDX-License-Identifier: MIT
"""Random scenarios with one outcome each, reproducible by their seed."""
import random

from model import World

STRATEGIES = ["one_for_one", "one_for_all", "rest_for_one"]


class Maker:
    def __init__(self, seed, dense):
        self.r, self.dense = random.Random(seed), dense
        self.left, self.names, self.groups, self.workers, self.used = 12, 0, [], [], set()

    def worker(self, name, auto):
        r = self.r
        node = {"id": name, "type": "worker", "restart": r.choice(["permanent"] * 3 + ["transient"] * 2 + ["temporary"])}
        node["shutdown"] = r.choice([5000, 200, 500, 100, "brutal_kill", "infinity", 0])
        if r.random() < 0.5:
            node["start_ms"] = r.randrange(1, 400)
        if r.random() < 0.6:
            node["stop_ms"] = r.randrange(1, 500)
        if node["shutdown"] not in ("infinity",) and r.random() < 0.08:
            node["stop_ms"] = "never"
        self.significant(node, auto)
        self.workers.append(name)
        return node

    def significant(self, node, auto):
        if auto != "never" and node["restart"] != "permanent" and self.r.random() < 0.6:
            node["significant"] = True

    def group(self, name, depth, auto_of_parent):
        r = self.r
        self.groups.append(name)
        auto = r.choice(["never", "never", "any_significant", "all_significant"])
        node = {"id": name, "type": "group", "strategy": r.choice(STRATEGIES), "intensity": r.choice([0, 1, 1, 2, 2, 3, 5]),
                "period": r.choice([1, 1, 2, 3, 5]), "auto_shutdown": auto, "children": []}
        if depth > 1:
            node["restart"] = r.choice(["permanent"] * 3 + ["transient"] * 2 + ["temporary"])
            self.significant(node, auto_of_parent)
            if r.random() < 0.3:
                node["start_ms"] = r.randrange(1, 300)
        for _ in range(r.randrange(0 if depth > 1 else 1, 6)):
            if self.left <= 0:
                break
            self.left -= 1
            self.names += 1
            if depth < 3 and r.random() < 0.3:
                node["children"].append(self.group("g%d" % self.names, depth + 1, auto))
            else:
                node["children"].append(self.worker("w%d" % self.names, auto))
        return node

    def request(self, n):
        r = self.r
        e = {"do": r.choice(["start_child", "terminate_child", "terminate_child", "restart_child", "restart_child", "delete_child", "which",
                             "count"]), "n": n, "group": r.choice(self.groups)}
        if e["do"] == "start_child":
            if r.random() < 0.3:
                name = r.choice(self.workers)
            else:
                self.names += 1
                name = "w%d" % self.names
            e["spec"] = self.worker(name, r.choice(["never", "all_significant"]))
        elif e["do"] not in ("which", "count"):
            e["child"] = r.choice(self.workers + [g for g in self.groups if g != "root"])
        return e

    def event(self, n):
        r = self.r
        dice = r.random()
        if dice < 0.5:
            return {"do": "exit", "child": r.choice(self.workers), "reason": r.choice(["error", "error", "error", "killed", "normal", "shutdown",
                                                                                       "shutdown:x"])}
        if dice < 0.68:
            return {"do": "set", "child": r.choice(self.workers + self.groups[1:]), "key": r.choice(["fail", "fail", "fail", "ignore", "start_ms", "stop_ms"]),
                    "value": r.choice([1, 1, 2, 3])}
        if dice < 0.985:
            return self.request(n)
        return {"do": "stop_root"}

    def time(self, span):
        while True:
            t = self.r.randrange(1, span)
            if t not in self.used:
                self.used.add(t)
                return t

    def scenario(self, number):
        r = self.r
        root = self.group("root", 1, "never")
        if not self.workers:
            root["children"].append(self.worker("w0", root["auto_shutdown"]))
        span = r.choice([1500, 3000]) if self.dense else r.choice([4000, 9000, 15000])
        times = sorted(self.time(span) for _ in range(r.randrange(6, 21)))
        events = []
        for n, t in enumerate(times, 1):
            e = self.event(n)
            if e["do"] == "set" and e["key"].endswith("_ms"):
                e["value"] = r.randrange(1, 500)
            events.append(dict({"t": t}, **e))
        if r.random() < 0.12:
            events.insert(0, {"t": -1, "do": "set", "child": r.choice(self.workers), "key": r.choice(["fail", "ignore"]), "value": 1})
        return {"id": number, "phase": r.randrange(1000), "t_end": span + 20011, "root": root, "events": events}


def directed_variant(base, r, number):
    """A directed scenario, moved within the second: what doesn't hang on the phase must stay."""
    return dict(base, id=number, phase=r.randrange(1000))


def make(n, seed, first_id):
    """n scenarios, what they exercise (scenarios by what), and how many were thrown away for which reason."""
    made, exercised, thrown, attempt = [], {}, {}, 0
    while len(made) < n:
        attempt += 1
        scenario = Maker("%s:%d" % (seed, attempt), attempt % 2 == 0).scenario(first_id + len(made))
        world = World(scenario)
        why = world.run()
        if why:
            thrown[why] = thrown.get(why, 0) + 1
            continue
        made.append(scenario)
        for what in world.counts:
            exercised[what] = exercised.get(what, 0) + 1
    return made, exercised, thrown
