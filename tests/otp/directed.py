# SPDX-License-Identifier: MIT
"""Directed scenarios: what random ones meet too seldom, one rule each. What comes out is asked of the real supervisor, never written down."""


def w(name, **more):
    return dict({"id": name, "type": "worker"}, **more)


def g(name, children, **more):
    return dict({"id": name, "type": "group", "intensity": 5, "period": 5, "children": children}, **more)


def exits(t, child, reason="error"):
    return {"t": t, "do": "exit", "child": child, "reason": reason}


def sets(t, child, key, value):
    return {"t": t, "do": "set", "child": child, "key": key, "value": value}


class Asks:
    """Requests, numbered."""

    def __init__(self):
        self.n = 0

    def __call__(self, t, do, group="root", child=None, spec=None):
        self.n += 1
        e = {"t": t, "do": do, "n": self.n, "group": group}
        if child:
            e["child"] = child
        if spec:
            e["spec"] = spec
        return e


def all_of_them():
    out = []

    def add(name, root, *events, end=9000, phase=300):
        out.append((name, {"phase": phase, "t_end": end, "root": root, "events": sorted(events, key=lambda e: e["t"])}))

    ask = Asks()
    for strategy in ("one_for_one", "one_for_all", "rest_for_one"):
        three = [w("a", start_ms=11, stop_ms=31), w("b", start_ms=12, stop_ms=32), w("c", start_ms=13, stop_ms=33)]
        for child in "abc":
            for reason in ("error", "normal", "shutdown", "shutdown:x", "killed"):
                for restart in ("permanent", "transient", "temporary"):
                    kids = [dict(k, restart=restart) if k["id"] == child else k for k in three]
                    add("an end", g("root", kids, strategy=strategy), exits(1000, child, reason), ask(2000, "which"), ask(2010, "count"))
        add("each crash counts once", g("root", three, strategy=strategy, intensity=1, period=1), exits(1000, "b"), exits(4000, "c"), exits(4600, "a"))
        add("no restart is allowed", g("root", three, strategy=strategy, intensity=0), exits(1000, "b"))
        add("the second exit comes during the restart", g("root", three, strategy=strategy), exits(1000, "b"), exits(1005, "c"), exits(1007, "a"))
        add("a retry, and the count of it", g("root", three, strategy=strategy, intensity=2), sets(500, "b", "fail", 9), exits(1000, "b"))
        add("a retry that comes up", g("root", three, strategy=strategy), sets(500, "c", "fail", 2), exits(1000, "a"), ask(1001, "which"))
        add("a retry is behind a request", g("root", [w("a"), w("b", start_ms=100), w("c")], strategy=strategy), sets(500, "b", "fail", 1),
            exits(1000, "b"), ask(1050, "which"), ask(1060, "count"))
        add("terminated while it waits for its retry", g("root", [w("a"), w("b", start_ms=100), w("c")], strategy=strategy), sets(500, "b", "fail", 1),
            exits(1000, "b"), ask(1050, "terminate_child", child="b"), ask(3000, "which"), ask(3010, "restart_child", child="b"))
        for do in ("restart_child", "delete_child", "terminate_child"):
            add("asked while it waits for its retry", g("root", [w("a"), w("b", start_ms=100)], strategy=strategy), sets(500, "b", "fail", 1),
                exits(1000, "b"), ask(1050, do, child="b"), ask(1051, "start_child", spec=w("b")), ask(3000, "which"))
        add("a dead one is counted as specs, not as active", g("root", [w("a", start_ms=100), w("b")], strategy=strategy), exits(1000, "a"),
            ask(1020, "count"), ask(1022, "which"), exits(1050, "b"))
        add("dormant siblings", g("root", [w("a"), w("b", restart="transient"), w("c"), w("d", restart="transient")], strategy=strategy),
            exits(1000, "b", "normal"), exits(1500, "d", "normal"), ask(1600, "terminate_child", child="a"), exits(2000, "c"), ask(3000, "which"))
        add("one dormant before the crasher", g("root", [w("a", restart="transient"), w("b"), w("c", restart="transient")], strategy=strategy),
            exits(1000, "a", "normal"), exits(1200, "c", "shutdown"), exits(2000, "b"), ask(3000, "which"))
        add("temporary siblings", g("root", [w("a"), w("b", restart="temporary"), w("c", restart="temporary", stop_ms=20)], strategy=strategy), exits(1000, "a"),
            ask(2000, "which"))
        add("an added child is last", g("root", three, strategy=strategy), ask(900, "start_child", spec=w("x", stop_ms=9)), exits(1000, "a"),
            ask(2000, "terminate_child", child="a"), ask(2100, "delete_child", child="a"), ask(2200, "start_child", spec=w("a")), exits(3000, "b"), ask(4000, "which"))
        add("a failed start_child leaves nothing", g("root", three, strategy=strategy), sets(500, "x", "fail", 1), ask(900, "start_child", spec=w("x")),
            ask(950, "which"), ask(1000, "start_child", spec=w("x")), exits(2000, "a"))
        add("ignored", g("root", [w("a"), w("b", restart="temporary"), w("c")], strategy=strategy), sets(-1, "a", "ignore", 1), sets(-2, "b", "ignore", 1),
            ask(900, "which"), sets(950, "a", "ignore", 2), exits(1000, "c"), ask(2000, "which"), ask(2100, "restart_child", child="a"))
        add("temporary ignored by start_child", g("root", three, strategy=strategy), sets(500, "x", "ignore", 1), ask(900, "start_child", spec=w("x", restart="temporary")),
            sets(950, "y", "ignore", 1), ask(960, "start_child", spec=w("y")), ask(1000, "which"))
        # the group in the group is restarted, and what becomes of what was changed in it
        inner = g("g", [w("x"), w("y", stop_ms=20)], intensity=1, strategy=strategy)
        for restart in ("permanent", "transient", "temporary"):
            add("a group gives up", g("root", [w("a"), dict(inner, restart=restart), w("c")], strategy=strategy), ask(500, "start_child", "g", spec=w("z", stop_ms=9)),
                ask(510, "terminate_child", "g", "y"), ask(600, "delete_child", "g", "y"), exits(1000, "x"), exits(1100, "x"), ask(1500, "which"), ask(1510, "which", "g"),
                exits(1600, "x"), ask(2500, "which"), ask(2510, "which", "g"))
        add("a group's failed restart", g("root", [w("a"), inner], strategy=strategy, intensity=3), exits(1000, "x"), sets(1050, "y", "fail", 2), exits(1100, "x"),
            ask(2500, "which"), ask(2510, "which", "g"))
        add("giving up goes up", g("root", [g("g", [g("h", [w("x", stop_ms=9)], intensity=0)], intensity=0), w("c")], strategy=strategy, intensity=2), exits(1000, "x"),
            exits(2000, "x"), exits(3000, "x"), end=12000)
        # the order from above doesn't overtake
        busy = g("g", [w("x", start_ms=100), w("y", start_ms=50, stop_ms=10)], strategy=strategy)
        add("a stop during a restart", g("root", [busy, w("c")]), exits(1000, "x"), ask(1020, "which", "g"), ask(1030, "terminate_child", child="g"),
            ask(1040, "count", "g"), ask(1060, "which", "g"), ask(4000, "which"))
        add("a stop during retries", g("root", [busy, w("c")]), sets(500, "x", "fail", 3), exits(1000, "x"), ask(1030, "terminate_child", child="g"), ask(4000, "which"))
        add("exits before the stop", g("root", [busy, w("c")]), exits(1000, "x"), exits(1020, "y"), ask(1030, "terminate_child", child="g"), ask(4000, "which"))
        add("the root's stop during a restart", dict(busy, id="root"), exits(1000, "x"), {"t": 1040, "do": "stop_root"}, ask(1060, "which"))

    # the retry is F's, not the crasher's; one_for_all starts all again
    for strategy in ("one_for_all", "rest_for_one"):
        kids = [w("x", stop_ms=7), w("f", start_ms=100), w("z")]
        add("whose retry it is", g("root", kids, strategy=strategy), sets(500, "f", "fail", 1), exits(1000, "x"), ask(3000, "which"))
        add("two retries of one child", g("root", kids, strategy=strategy, intensity=10), sets(500, "f", "fail", 3), exits(1000, "x"), exits(1050, "x"), ask(1267, "which"),
            ask(3000, "which"))
        add("two retries, one void", g("root", kids, strategy=strategy, intensity=10), sets(500, "f", "fail", 2), exits(1000, "x"), exits(1050, "x"), ask(1267, "which"))
        add("a retry that another's crash makes void", g("root", kids, strategy=strategy, intensity=10), sets(500, "f", "fail", 1), exits(1000, "x"), exits(1050, "x"))

    # one restarts while the last other significant one ends
    for auto in ("any_significant", "all_significant"):
        kids = [w("a", restart="transient", significant=True), w("b", restart="transient", significant=True, start_ms=100), w("c", stop_ms=20)]
        top = lambda inner: g("root", [inner, w("z")])
        for restart in ("permanent", "transient", "temporary"):
            inner = g("g", kids, auto_shutdown=auto, restart=restart)
            add("it ends while the other waits for its retry", top(inner), sets(500, "b", "fail", 1), exits(1000, "b"), exits(1050, "a", "normal"), ask(3000, "which"))
            add("both end", top(inner), exits(1000, "a", "normal"), exits(1500, "b", "normal"), ask(3000, "which"))
            add("terminated, then the other ends", top(inner), ask(1000, "terminate_child", "g", "a"), ask(1300, "which", "g"), exits(1500, "b", "normal"), ask(3000, "which"))
            add("an abnormal end is restarted", top(inner), exits(1000, "a"), exits(1500, "b", "killed"), ask(3000, "which", "g"))
        add("a temporary one", top(g("g", [w("a", restart="temporary", significant=True), w("c")], auto_shutdown=auto)), exits(1000, "a"), ask(3000, "which"))
        add("stopped by a sibling", top(g("g", [w("a"), w("b", restart="transient", significant=True)], auto_shutdown=auto, strategy="one_for_all")), exits(1000, "a"),
            ask(3000, "which", "g"))
        add("a group is the significant one", g("root", [g("g", [w("x")], intensity=0, restart="transient", significant=True), w("z")], auto_shutdown=auto), exits(1000, "x"))
        for extra in (dict(significant=True), dict(significant=True, restart="transient")):
            add("significant by start_child", g("root", [w("a")], auto_shutdown=auto), ask(500, "start_child", spec=w("n", **extra)), ask(600, "which"))
            add("significant in a group without", g("root", [w("a")]), ask(500, "start_child", spec=w("n", **extra)), ask(600, "which"))

    # requests are never counted
    add("asked again and again", g("root", [w("a"), w("b")], intensity=0), *[ask(1000 + 100 * i, do, child="a") for i, do in enumerate(["terminate_child", "restart_child"] * 4)])
    add("every answer", g("root", [w("a"), w("t", restart="temporary")]), ask(1000, "restart_child", child="a"), ask(1010, "delete_child", child="a"), ask(1020, "start_child", spec=w("a")),
        ask(1030, "terminate_child", child="a"), ask(1040, "terminate_child", child="a"), ask(1050, "start_child", spec=w("a")), sets(1055, "a", "fail", 1),
        ask(1060, "restart_child", child="a"), ask(1070, "which"), ask(1080, "delete_child", child="a"), ask(1090, "delete_child", child="a"),
        ask(1100, "restart_child", child="a"), ask(1110, "terminate_child", child="a"), ask(1120, "terminate_child", child="t"), ask(1130, "terminate_child", child="t"),
        ask(1140, "count"))

    # the window's bounds: both inclusive, in whole seconds
    for phase in (0, 1, 500, 999):
        for distance in (1990, 2000, 2001, 2500, 2999, 3000, 3001):
            add("the window's bounds", g("root", [w("a")], intensity=1, period=2), exits(1000, "a"), exits(1000 + distance, "a"), phase=phase)
            add("the window's bounds, in a group", g("root", [g("g", [w("a")], intensity=1, period=2)]), exits(1000, "a"), exits(1000 + distance, "a"),
                exits(1003 + distance, "a"), phase=phase)

    # how one is stopped
    for shutdown in ("brutal_kill", "infinity", 0, 1, 100, 5000):
        for stop_ms in (0, 50, 150, "never"):
            if stop_ms == "never" and shutdown == "infinity":
                continue
            for restart in ("permanent", "transient", "temporary"):
                kid = w("b", restart=restart, shutdown=shutdown, stop_ms=stop_ms)
                add("how one is stopped", g("root", [w("a"), kid, w("c", stop_ms=9)], strategy="one_for_all"), exits(1000, "a"), ask(8000, "which"), end=30011)
    add("it dies on its own while it is being stopped", g("root", [w("a"), w("b", stop_ms=200)], strategy="one_for_all"), exits(1000, "a"), exits(1100, "b"), ask(2000, "which"))
    add("killed while it is being stopped", g("root", [w("a"), w("b", stop_ms=200, restart="transient")], strategy="one_for_all"), exits(1000, "a"), exits(1100, "b", "killed"))

    # starts
    add("a start fails at first", g("root", [w("a", stop_ms=20), w("t", restart="temporary", stop_ms=10), w("f", start_ms=50), w("c")]), sets(-1, "f", "fail", 1), ask(65, "which"))
    add("a nested start fails at first", g("root", [w("a", stop_ms=20), g("g", [w("x", stop_ms=10), w("f", start_ms=50)]), w("c")]), sets(-1, "f", "fail", 1))
    add("it dies while later ones start", g("root", [w("a"), w("b", start_ms=100), w("c", start_ms=100)]), exits(50, "a"), ask(70, "which"))
    add("it dies while later ones start, and one fails", g("root", [w("a"), w("b", start_ms=100), w("f", start_ms=100)]), sets(-1, "f", "fail", 1), exits(50, "a"), ask(70, "which"))
    add("a start_child of a group's", g("root", [w("a")]), ask(1000, "start_child", spec=g("n", [w("x"), w("y", start_ms=20)], start_ms=30)), exits(2000, "y"), ask(3000, "which", "n"),
        ask(4000, "terminate_child", child="n"), ask(4100, "which", "n"), ask(4200, "restart_child", child="n"), ask(5000, "which", "n"), ask(5100, "terminate_child", child="n"),
        ask(5200, "delete_child", child="n"), ask(5300, "which"))
    add("a start_child of a group's that fails", g("root", [w("a")]), sets(500, "y", "fail", 1), ask(1000, "start_child", spec=g("n", [w("x", stop_ms=20), w("y")])), ask(3000, "which"))
    add("no children", g("root", []), ask(100, "which"), ask(200, "count"), ask(300, "start_child", spec=w("a")), ask(400, "which"))
    add("stopped while all is well", g("root", [w("a", stop_ms=10), g("g", [w("b", stop_ms=20), w("c")]), w("d")]), {"t": 500, "do": "stop_root"}, ask(600, "which"))
    return out
