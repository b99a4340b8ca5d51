#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients that aren't ours against the real daemon, and the whole conversation of the e2e ring against rpc.discover.

usage: run.py NODE_MODULES [clients | wire [RECORD]]     both; or 1 and 2; or 3, with RECORD: of a ring that was recorded there already

1. The blocks of README.md's section "From a program" (Python, shell, JavaScript), run as they stand but for the socket's path.
2. A few more lines of socat and jq, and more of jayson (jayson.js).
3. The e2e ring with SANDBOXD_RECORD (a folder that anybody may write to): what clients sent and got is validated by validate.js with
   ajv against the schemas that the daemon itself hands out. A reply that doesn't match its schema fails. `.ci/run` records in `make check`.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests/e2e"))

from harness import BUILD, COUNTER1, Daemon  # noqa: E402

passed = failed = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("%-4s %s%s" % ("ok" if good else "FAIL", what, "" if good else ": " + str(detail)), flush=True)


def run(argv, text=None, **env):
    r = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=120, env=dict(os.environ, **env), check=False)
    return r.stdout.strip() if r.returncode == 0 else "exit %d: %s%s" % (r.returncode, r.stdout, r.stderr)


def readme_blocks():
    with open(os.path.join(TOP, "README.md")) as f:
        section = f.read().split("\n## From a program\n")[1].split("\n## ")[0]
    return re.findall(r"^```(\w+)\n(.*?)^```$", section, re.M | re.S)


def readme(daemon, node_modules):
    """Each calls increment by=5 on `web`: the count tells how often."""
    count = 0
    with daemon.client() as c:
        c.create("web", COUNTER1)
    seen = set()
    for language, text in readme_blocks():
        text = text.replace("/run/sandboxd/sandboxd.sock", daemon.socket)
        count += 5
        if language == "python":
            want = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"result": {"count": count}, "version": 1}}, separators=(",", ":"))
            got = run([sys.executable, "-"], text)
        elif language == "sh":
            want = 'web\n{"count":%d}' % count
            got = run(["bash", "-euo", "pipefail"], text)
        else:
            want = '{"count":%d}' % count
            got = run(["node", "-"], text, NODE_PATH=node_modules)
        check("README.md: %s" % language, got == want, "%r instead of %r" % (got, want))
        seen.add(language)
    check("README.md has all three", seen == {"python", "sh", "js"}, seen)


def socat(daemon, program, *lines):
    """What jq makes of the replies to these lines."""
    text = "".join(l if isinstance(l, str) else json.dumps(l) + "\n" for l in lines)
    return run(["bash", "-euo", "pipefail", "-c", 'socat -t 30 - "UNIX-CONNECT:$1" | jq -c "$2"', "-", daemon.socket, program], text)


def shell(daemon):
    ask = {"jsonrpc": "2.0", "id": 1, "method": "daemon.ping"}
    check("socat: ping", socat(daemon, ".result.pong", ask) == "true")
    check("socat: ids come back", socat(daemon, ".id", dict(ask, id="x"), dict(ask, id=-3), dict(ask, id=None)) == '"x"\n-3\nnull')
    check("socat: a batch", socat(daemon, "length", [ask] * 7) == "7")
    check("socat: a notification", socat(daemon, ".", {"jsonrpc": "2.0", "method": "daemon.ping"}) == "")
    check("socat: an error", socat(daemon, ".error.data.code", dict(ask, method="daemon.pong")) == '"unknown_method"')
    check("socat: not JSON", socat(daemon, ".error.code", "hello\n") == "-32700")
    check("socat: the description", socat(daemon, "[.result.openrpc, (.result.methods | length > 20)]", dict(ask, method="rpc.discover"))
          == '["1.3.2",true]')
    check("socat: pipelined", socat(daemon, ".id", *[dict(ask, id=i) for i in range(100)]).split() == [str(i) for i in range(100)])


def clients(daemon, node_modules):
    readme(daemon, node_modules)
    shell(daemon)
    out = run(["node", os.path.join(HERE, "jayson.js"), daemon.socket], NODE_PATH=node_modules)
    for line in out.splitlines():
        check("jayson: " + line, line.startswith("ok "), out)
    check("jayson: all of it ran", out.endswith("ok done"), out)


def validate(daemon, node_modules, record, *how):
    with daemon.client() as c:
        document = os.path.join(record, "discover.json")
        with open(document, "w") as f:
            json.dump(c.rpc("rpc.discover"), f)
    r = subprocess.run(["node", os.path.join(HERE, "validate.js"), document, record, *how], env=dict(os.environ, NODE_PATH=node_modules),
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(r.stdout, end="")
    check("every request and reply matches the description", r.returncode == 0)


def wire(daemon, node_modules):
    """The e2e ring, recorded; then the validation. Its own failures are shown as tests/run.py shows them, also of what went well the second time."""
    record = tempfile.mkdtemp(prefix="sbxrecord")
    os.chmod(record, 0o777)  # tests connect as other users too
    try:
        r = subprocess.run([sys.executable, os.path.join(TOP, "tests/run.py"), "wire"], env=dict(os.environ, SANDBOXD_RECORD=record),
                           stdout=subprocess.PIPE, text=True, check=False)
        if r.returncode != 0 or "UNSTABLE?" in r.stdout:
            print(r.stdout, flush=True)
        last = r.stdout.strip().splitlines()[-1] if r.stdout.strip() else "nothing"
        check("the e2e ring, recorded: %s" % last, r.returncode == 0, "see above")
        validate(daemon, node_modules, record)
    finally:
        shutil.rmtree(record, ignore_errors=True)


def main():
    if len(sys.argv) < 2 or sys.argv[2:3] not in ([], ["clients"], ["wire"]) or len(sys.argv) > 4:
        sys.exit(__doc__)
    node_modules, what, record = os.path.abspath(sys.argv[1]), sys.argv[2:3], sys.argv[3:4]
    os.environ["SANDBOXD_BUILD"] = BUILD
    daemon = Daemon()
    try:
        if what != ["wire"]:
            clients(daemon, node_modules)
        if record:
            validate(daemon, node_modules, record[0], "brief")
        elif what != ["clients"]:
            wire(daemon, node_modules)
    finally:
        complaints = daemon.close()
    check("the daemon ends cleanly", not complaints, complaints)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
