# SPDX-License-Identifier: MIT
"""A small model of supervision trees, only for the choice of scenarios.

The generator needs to know whether a random scenario has one outcome (two wake-ups at the same virtual instant, or two groups that could
act at once, may come in either order on the real supervisor) and what it exercises. The model is a third writing of the rules, apart from
the daemon's core and from the real supervisor; no result of it is compared with anything.
"""
import heapq
from collections import Counter, deque


def clean(reason):
    return reason in ("normal", "shutdown") or reason.startswith("shutdown:")


class Child:
    def __init__(self, node):
        self.node, self.id, self.type = node, node["id"], node["type"]
        self.restart, self.significant = node.get("restart", "permanent"), node.get("significant", False)
        self.shutdown = node.get("shutdown", "infinity" if self.type == "group" else 5000)
        self.state, self.instance = "undefined", None


class Instance:
    def __init__(self, child, group):
        self.child, self.group, self.alive, self.reason, self.inner = child, group, True, None, None


class Group:
    def __init__(self, node, instance):
        self.node, self.instance = node, instance
        self.children, self.inbox, self.todo, self.wait, self.mode = [], deque(), deque(), None, "init"
        self.window, self.request = [], None


class Tree:
    def __init__(self, world):
        self.world, self.work = world, deque()

    # ---- events
    def start(self, node):
        self.root = Instance(Child(node), None)
        self.open(self.root)
        self.run()

    def ready(self, instance, how):
        group = instance.group
        group.wait = None
        self.started(group, instance, how)
        self.work.append(group)
        self.run()

    def gone(self, instance, reason):
        instance.alive, instance.reason = False, reason
        group = instance.group
        if group is None:
            return
        if group.wait == ("gone", instance):
            group.wait = None
            self.stopped(group, instance)
        else:
            if group.mode in ("one", "many") and instance.child.state == "running":
                self.world.count("exit during a restart")
            group.inbox.append(("exit", instance))
        self.work.append(group)
        self.run()

    def deadline(self, instance):
        if instance.group.wait == ("gone", instance):
            self.world.count("killed at its deadline")
            self.world.kill(instance)

    def ask(self, instance, n, request):
        if instance is None or not instance.alive or instance.inner is None:
            return
        if instance.inner.mode != "idle" or instance.inner.wait:
            self.world.count("request to a busy group")
        instance.inner.inbox.append(("request", n, request))
        self.work.append(instance.inner)
        self.run()

    def stop_root(self):
        if self.root.alive and self.root.child.state == "running":
            self.ask_group(self.root)
            self.run()

    # ---- the pump
    def run(self):
        while self.work:
            group = self.work.popleft()
            while group.instance.alive and group.wait is None and (group.todo or (group.mode == "idle" and group.inbox)):
                if group.todo:
                    step = group.todo.popleft()
                    getattr(self, "do_" + step[0])(group, *step[1:])
                else:
                    self.message(group, group.inbox.popleft())

    def ask_group(self, instance):
        if instance.inner.mode != "idle" or instance.inner.inbox:
            self.world.count("stop of a busy group")
        instance.inner.inbox.append(("stop",))
        self.work.append(instance.inner)

    def open(self, instance):
        group = instance.inner = Group(instance.child.node, instance)
        self.world.newest[instance.child.id] = instance
        group.children = [Child(n) for n in group.node.get("children", [])]
        group.todo.extend(("start", child) for child in group.children)
        group.todo.append(("init_ok",))
        self.work.append(group)

    def begin_group(self, instance):
        self.open(instance)
        self.run()

    # ---- steps
    def do_start(self, group, child):
        instance = Instance(child, group)
        group.wait = ("ready", instance)
        self.world.spawn(instance)

    def started(self, group, instance, how):
        child = instance.child
        if how == "ok":
            child.state, child.instance = "running", instance
        elif how == "ignored":
            child.state, child.instance = "undefined", None
            if child.restart == "temporary" and group.mode in ("init", "many"):
                group.children.remove(child)
        else:
            instance.alive = False
            if group.mode == "init":
                self.world.count("start fails at first")
                group.todo.clear()
                self.plan_stop(group, group.children)
                group.todo.append(("init_bad",))
            elif group.mode in ("many", "one"):
                self.world.count("start fails on restart")
                group.todo.clear()
                group.todo.append(("idle",))
                child.state, child.instance = "restarting", None
                group.inbox.append(("retry", child.id))
        if group.mode == "request":
            if group.request == "start_child" and how != "failed" and not (how == "ignored" and child.restart == "temporary"):
                group.children.append(child)

    def plan_stop(self, group, children):
        for child in reversed(list(children)):
            group.todo.append(("stop", child))
            group.todo.append(("forget", child))

    def do_stop(self, group, child):
        if child.state != "running":
            return None
        instance, brutal = child.instance, child.shutdown == "brutal_kill"
        if not instance.alive:
            return self.stopped(group, instance)
        group.wait = ("gone", instance)
        if brutal:
            return self.world.kill(instance)
        if child.shutdown != "infinity":
            self.world.at(child.shutdown, self.deadline, instance)
        return self.ask_group(instance) if instance.inner else self.world.ask(instance)

    def stopped(self, group, instance):
        group.inbox = deque(m for m in group.inbox if not (m[0] == "exit" and m[1] is instance))

    def do_forget(self, group, child):
        child.state, child.instance = "undefined", None
        if child.restart == "temporary" and child in group.children:
            group.children.remove(child)

    def do_init_ok(self, group):
        group.mode = "idle"
        parent = group.instance.group
        if parent is None:
            group.instance.child.state = "running"
        else:
            if group.inbox:
                self.world.several.append("a group is up and has something in its inbox, and so may its parent")
            parent.wait = None
            self.started(parent, group.instance, "ok")
            self.work.appendleft(parent)

    def do_init_bad(self, group):
        parent = group.instance.group
        group.instance.alive = False
        if parent is not None:
            parent.wait = None
            self.started(parent, group.instance, "failed")
            self.work.append(parent)

    def do_many(self, group, children):
        group.todo.extend(("start", child) for child in children if child in group.children)
        group.todo.append(("idle",))

    def do_idle(self, group):
        group.mode = "idle"

    def do_end(self, group):
        group.inbox.clear()
        self.gone(group.instance, "shutdown")

    def finish(self, group):
        group.mode = "ending"
        group.todo.clear()
        self.plan_stop(group, group.children)
        group.todo.append(("end",))

    # ---- one message
    def message(self, group, m):
        if m[0] == "stop":
            return self.finish(group)
        if m[0] == "retry":
            child = next((c for c in group.children if c.id == m[1]), None)
            return self.recover(group, child, True) if child and child.state == "restarting" else self.world.count("retry is void")
        if m[0] == "request":
            return self.requested(group, m[1], m[2])
        child = next((c for c in group.children if c.instance is m[1]), None)
        if child is None:
            return None
        if child.restart == "permanent" or (child.restart == "transient" and not clean(m[1].reason)):
            return self.recover(group, child, False)
        self.do_forget(group, child)
        auto = group.node.get("auto_shutdown", "never")
        if child.significant and (auto == "any_significant" or auto == "all_significant" and
                                  not any(c.significant and c.state != "undefined" for c in group.children)):
            self.world.count("auto_shutdown")
            return self.finish(group)
        return None

    def recover(self, group, child, is_retry):
        second, period = self.world.second(), group.node.get("period", 5)
        kept = [s for s in group.window if s >= second - period]
        if len(kept) < len(group.window):
            self.world.count("window expires between crashes")
        if any(s == second - period for s in kept):
            self.world.count("at the window's bound")
        group.window = [second] + kept
        if len(group.window) > group.node.get("intensity", 1):
            self.world.count("gives up")
            if group.instance.group is not None:
                self.world.count("group escalates")
            self.do_forget(group, child)
            return self.finish(group)
        self.world.count("retry" if is_retry else "restart")
        strategy = group.node.get("strategy", "one_for_one")
        if strategy == "one_for_one":
            group.mode = "one"
            group.todo.extend([("start", child), ("idle",)])
            return None
        child.state, child.instance = "undefined", None
        part = group.children[group.children.index(child):] if strategy == "rest_for_one" else list(group.children)
        if any(c is not child and c.state == "undefined" for c in part):
            self.world.count("dormant sibling revived")
        group.mode = "many"
        self.plan_stop(group, part)
        group.todo.append(("many", part))
        return None

    def requested(self, group, n, request):
        what = request["do"]
        self.world.count("request")
        if what in ("which", "count"):
            return
        wanted = request["spec"]["id"] if what == "start_child" else request["child"]
        child = next((c for c in group.children if c.id == wanted), None)
        if what == "start_child":
            new, auto = Child(request["spec"]), group.node.get("auto_shutdown", "never")
            if child or (new.significant and (auto == "never" or new.restart == "permanent")):
                return
            group.mode, group.request = "request", what
            group.todo.extend([("start", new), ("idle",)])
        elif child is None:
            return
        elif what == "terminate_child":
            group.mode, group.request = "request", what
            group.todo.extend([("stop", child), ("forget", child), ("idle",)])
        elif child.state != "undefined":
            return
        elif what == "delete_child":
            group.children.remove(child)
        else:
            group.mode, group.request = "request", what
            group.todo.extend([("start", child), ("idle",)])


class World:
    """Virtual processes and time. run() says whether the scenario has one outcome; counts: what it exercises."""

    def __init__(self, scenario):
        self.scenario, self.now, self.heap, self.order = scenario, 0, [], 0
        self.settings, self.newest, self.stopping, self.soon = {}, {}, set(), deque()
        self.counts, self.several, self.wakeups = Counter(), [], []
        self.tree = Tree(self)

    def count(self, what):
        self.counts[what] += 1

    def second(self):
        return (self.scenario["phase"] + self.now) // 1000

    def at(self, ms, function, *arguments):
        self.order += 1
        heapq.heappush(self.heap, (self.now + ms, self.order, function, arguments))

    def live(self, entry):
        return entry[2] != self.tree.deadline or entry[3][0].group.wait == ("gone", entry[3][0])

    def setting(self, child, key):
        return self.settings.get((child.id, key), child.node.get(key, 0))

    def take(self, child, key):
        n = self.settings.get((child.id, key), 0)
        self.settings[(child.id, key)] = max(0, n - 1)
        return n > 0

    def spawn(self, instance):
        ms = self.setting(instance.child, "start_ms")
        if ms:
            self.at(ms, self.born, instance)
        else:
            self.soon.append((self.born, instance))

    def born(self, instance):
        if self.take(instance.child, "fail"):
            self.tree.ready(instance, "failed")
        elif self.take(instance.child, "ignore"):
            self.tree.ready(instance, "ignored")
        elif instance.child.type == "group":
            self.tree.begin_group(instance)
        else:
            self.newest[instance.child.id] = instance
            self.tree.ready(instance, "ok")

    def ask(self, instance):
        if instance in self.stopping:
            return
        self.stopping.add(instance)
        ms = self.setting(instance.child, "stop_ms")
        if ms == 0:
            self.soon.append((self.dead, instance, "shutdown"))
        elif ms != "never":
            self.at(ms, self.dead, instance, "shutdown")

    def dead(self, instance, reason):
        if instance.alive:
            self.tree.gone(instance, reason)

    def kill(self, instance):
        self.soon.append((self.dead, instance, "killed"))

    def event(self, e):
        if e["do"] == "exit":
            instance = self.newest.get(e["child"])
            if instance and instance.alive and not instance.inner:
                self.tree.gone(instance, e["reason"])
        elif e["do"] == "set":
            self.settings[(e["child"], e["key"])] = e["value"]
        elif e["do"] == "stop_root":
            if self.tree.root.alive and self.tree.root.child.state != "running":
                self.several.append("stop of a root that isn't up")
            self.tree.stop_root()
        else:
            self.tree.ask(self.newest.get(e["group"]), e["n"], e)

    def drain(self):
        while self.soon:
            function, *arguments = self.soon.popleft()
            function(*arguments)

    def busy(self, instance):
        if not instance.alive or instance.inner is None:
            return False
        group = instance.inner
        if group.wait or group.todo or group.inbox or group.mode == "init":
            return True
        return any(c.instance and c.type == "group" and self.busy(c.instance) for c in group.children)

    def run(self):
        """None, or why it is thrown away."""
        s = self.scenario
        for e in s["events"]:
            if e["t"] < 0:
                self.event(e)
        self.tree.start(s["root"])
        self.drain()
        for e in s["events"]:
            if e["t"] >= 0:
                self.at(e["t"], self.event, e)
        ended, last, left = False, 0, 100000
        while left > 0 and not self.several:
            left -= 1
            if not ended and (not self.heap or self.heap[0][0] > s["t_end"]):
                self.now, ended = s["t_end"], True
                if self.busy(self.tree.root):
                    return "busy at the end"
                self.tree.stop_root()
                self.drain()
                continue
            if not self.heap:
                break
            self.now, _, function, arguments = heapq.heappop(self.heap)
            if function == self.tree.deadline and arguments[0].group.wait != ("gone", arguments[0]):
                continue  # it was in time
            # a deadline of no time at all comes at the instant of the order, and after whatever follows from that at once
            if self.now == last and function != self.tree.deadline or self.heap and self.heap[0][0] == self.now and self.live(self.heap[0]):
                return "two wake-ups at once"
            last = self.now
            function(*arguments)
            self.drain()
        if self.several:
            return self.several[0]
        return None if left else "too long"
