# SPDX-License-Identifier: MIT
"""Scenarios as Erlang terms, one a line, for oracle.erl."""
ATOMS = {"restart", "type", "strategy", "auto_shutdown", "shutdown", "start_ms", "stop_ms"}
REASONS = {"error": "boom", "killed": "killed", "normal": "normal", "shutdown": "shutdown"}


def text(s):
    return '<<"%s">>' % s


def node(n):
    out = []
    for key, value in n.items():
        if key == "id":
            out.append("id=>" + text(value))
        elif key == "children":
            out.append("children=>[" + ",".join(node(c) for c in value) + "]")
        elif isinstance(value, bool):
            out.append("%s=>%s" % (key, "true" if value else "false"))
        elif key in ATOMS or isinstance(value, int):
            out.append("%s=>%s" % (key, value))
        else:
            raise ValueError("%s: %r" % (key, value))
    return "#{" + ",".join(out) + "}"


def event(e):
    do = e["do"]
    if do == "exit":
        reason = "{shutdown,x}" if e["reason"].startswith("shutdown:") else REASONS[e["reason"]]
        x = "{exit,%s,%s}" % (text(e["child"]), reason)
    elif do == "set":
        x = "{set,%s,%s,%s}" % (text(e["child"]), e["key"], e["value"])
    elif do == "stop_root":
        x = "stop_root"
    elif do in ("which", "count"):
        x = "{req,%d,%s,%s}" % (e["n"], text(e["group"]), do)
    elif do == "start_child":
        x = "{req,%d,%s,{start_child,%s}}" % (e["n"], text(e["group"]), node(e["spec"]))
    else:
        x = "{req,%d,%s,{%s,%s}}" % (e["n"], text(e["group"]), do, text(e["child"]))
    return "{%d,%s}" % (e["t"], x)


def scenario(s):
    return "#{id=>%d,phase=>%d,t_end=>%d,root=>%s,events=>[%s]}." % (
        s["id"], s["phase"], s["t_end"], node(s["root"]), ",".join(event(e) for e in s["events"]))
