#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the fuzz targets that `make fuzz` has built, in parallel on the cores, and counts what they reached.

usage: fuzz.py [--seconds N] [TARGET...]

Each target begins with its seeds (tests/fuzz/corpus/TARGET and what earlier runs found, kept in build/fuzz/corpus/TARGET); with 0 seconds it runs tests/fuzz/corpus alone. A finding
fails the run; the input is kept in build/fuzz/findings. Afterwards: executions of each target, and the lines of each
parser that all targets of this run reached together; below GOAL per cent the missing lines are shown, and a run of all targets fails.
"""
import argparse
import codecs
import concurrent.futures
import os
import re
import struct
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("SANDBOXD_BUILD") or os.path.join(TOP, "build")
OUT = os.path.join(BUILD, "fuzz")
GOAL = 90

# target: (longest input, parsers under test). A parser is a file, or the functions of a file that parse.
TARGETS = {
    "frame": (600, ["proto/frame.c"]),
    "json": (2000, ["proto/json_scan.c", "proto/json_read.c", "proto/json_keys.c", "proto/json_text.h", "proto/utf8.h"]),
    "rpc": (2000, ["daemon/front/rpc_envelope.c"]),
    "params": (400, ["daemon/front/rpc_params.c"]),
    "host_link": (4000, ["daemon/sandbox/host_link.c:link_break,body_is_json,link_receive,channel_cb,host_link_drain,stream_read",
                         "daemon/sandbox/talk.c:host_may_say,error_from_host"]),
    "receive": (1000, ["proto/host_channel.c:host_take_fds,host_receive"]),
    "orders": (600, ["daemon/host/order.c", "daemon/host/confine.c:confine_parse"]),
    "cbor": (600, ["daemon/host/codec/cbor_read.c"]),
    "json_cbor": (1000, ["daemon/host/codec/json_cbor.c"]),
    "signature": (1000, ["daemon/host/module/signature.c"]),
    "state": (1500, ["daemon/host/state/blob.c", "daemon/host/state/schema_blob.c", "daemon/host/state/plan.c",
                     "daemon/host/state/restore.c", "daemon/host/state/restore_value.c"]),
    "descriptor": (1500, ["daemon/host/module/descriptor.c", "daemon/host/state/schema.c", "daemon/host/state/layout.c"]),
    "elf": (600, ["daemon/store/elf_check.c", "daemon/store/elf_dynamic.c"]),
    "config": (1500, ["proto/config.c", "proto/config_text.c"]),
    "profile": (1500, ["proto/profile_file.c", "proto/config_text.c"]),
    "spawner": (900, ["daemon/spawner/validate.c"]),
    "handover": (600, ["daemon/spawner/handover.c:ends,fd_fits,head_check,head_values_check,entry_check,names_check,fds_check,handover_read,handover_fds",
                       "proto/build.c:build_parse"]),
    "life": (2000, ["daemon/supervise/life_adopt.c", "daemon/supervise/budget.c:budget_sanitise"]),
    "scenario": (3000, ["daemon/simulate/scenario.c"]),
    "spec": (4000, ["daemon/sandbox/spec.c:get_u32,get_text,last_exit_load,policy_load,get_raw,spec_load"]),
    "seq": (100, ["daemon/observe/seq.c"]),
    "log_ring": (600, ["daemon/observe/log_ring.c"]),
}

ELF_SOURCE = r'''
#ifdef FUNCTION
__attribute__((visibility("default"))) int sandbox_module(void) { return 0; }
#else
__attribute__((visibility("default"))) const int sandbox_module[12] = { 0x53425831 };
#endif
static const char info[] __attribute__((section(".sbx.info"), used)) = "sbx=1;name=counter;state=7";
extern int puts(const char *);
__thread int t = 3; int data = 1; int *address = &data;
__attribute__((constructor)) static void first(void) { data++; }
int f(void) { return puts("x") + t; }
'''
ELF_FLAGS = (["-shared"], ["-shared", "-Wl,--hash-style=sysv"], ["-shared", "-Wl,-z,relro,-z,now"], ["-shared", "-s"], [],
             ["-shared", "-Dsandbox_module=other"], ["-shared", "-Dsandbox_module=other", "-Wl,--hash-style=sysv"], ["-shared", "-DFUNCTION"])


def parser_files(parsers):
    return [p.split(":")[0] for p in parsers]


def seed_folders(name):
    made = os.path.join(OUT, "seeds", name)
    os.makedirs(made, exist_ok=True)
    if name == "elf":
        source = os.path.join(made, "x.c")
        with open(source, "w") as f:
            f.write(ELF_SOURCE + ("int main(void) { return 0; }\n"))
        for i, flags in enumerate(ELF_FLAGS):
            subprocess.run(["gcc", "-Os", "-fPIC", *flags, "-o", os.path.join(made, "%d.so" % i), source], check=True)
        os.unlink(source)
    fixed = os.path.join(TOP, "tests/fuzz/corpus", name)
    return [made] + ([fixed] if os.path.isdir(fixed) else [])


def dictionary(name, parsers):
    """The texts in the parsers' own source are what they look for; so the dictionary is always in step with them."""
    words = set()
    for file in parser_files(parsers):
        with open(os.path.join(TOP, file)) as f:
            found = re.findall(r'"((?:[^"\\\n]|\\["\\nrtbf]){1,24})"', f.read())
        words.update(codecs.decode(w, "unicode_escape").encode("latin-1") for w in found if "%" not in w and "/" not in w[:-1])
    if name in ("rpc", "json", "json_cbor", "spec", "orders", "host_link", "scenario"):
        words.update([b"{", b"}", b'":', b'"', b"null", b"true", b"1e9", b"\\u0041", b"\\ud800\\udc00", b"[[[[", b'{"a":'])
        words.update(b'"%s":' % w for w in list(words) if re.fullmatch(rb"\w+", w))
    if name in ("cbor", "state"): # floats that are odd
        words.update(b"\xfb" + struct.pack(">d", d) for d in (float("nan"), float("inf"), 1e300, 0.5, -3.0, 1e18))
        words.update(b"\xfa" + struct.pack(">f", d) for d in (float("nan"), float("-inf"), 0.5))
    if not words:
        return []
    path = os.path.join(OUT, "seeds", name + ".dict")
    with open(path, "w") as f:
        for w in sorted(words):
            f.write('"%s"\n' % "".join(chr(c) if chr(c).isalnum() and c < 128 else "\\x%02x" % c for c in w))
    return ["-dict=" + path]


def run(name, seconds):
    most, parsers = TARGETS[name]
    corpus = os.path.join(OUT, "corpus", name)
    profile = os.path.join(OUT, "profiles", name + ".profraw")
    for folder in (corpus, os.path.dirname(profile), os.path.join(OUT, "findings")):
        os.makedirs(folder, exist_ok=True)
    seeds = seed_folders(name)
    # no time: only what is kept in tests/fuzz/corpus
    work = [corpus, *seeds, "-max_total_time=%d" % seconds] if seconds else [*seeds, "-runs=0"]
    argv = [os.path.join(OUT, "tests/fuzz/fuzz_" + name), *work, "-max_len=%d" % max(
        [most] + ([30000] if name == "elf" else [])), "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=1",
        "-artifact_prefix=" + os.path.join(OUT, "findings", name + "-"), *dictionary(name, parsers)]
    env = dict(os.environ, LLVM_PROFILE_FILE=profile, FUZZ_ELF=os.path.join(OUT, "seeds/elf/0.so"),
               ASAN_OPTIONS="detect_leaks=1:handle_abort=1", UBSAN_OPTIONS="print_stacktrace=1")
    started = time.monotonic()
    done = subprocess.run(argv, cwd=TOP, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode(errors="replace")
    m = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    return name, done.returncode, int(m[1]) if m else 0, time.monotonic() - started, text


def lines_reached(names):
    """{file: {line: count}} and {file: [(first line, function)]} from the profiles of this run."""
    merged = os.path.join(OUT, "profiles", "all.profdata")
    raw = [os.path.join(OUT, "profiles", n + ".profraw") for n in names]
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", merged, *raw], check=True)
    binaries = [os.path.join(OUT, "tests/fuzz/fuzz_" + n) for n in names]
    argv = ["llvm-cov", "export", "-format=lcov", "-instr-profile=" + merged, binaries[0]] + ["-object=" + b for b in binaries[1:]]
    lcov = subprocess.run(argv, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    lines, functions, file = {}, {}, None
    for row in lcov.splitlines():
        if row.startswith("SF:"):
            file = os.path.relpath(row[3:], TOP)
        elif row.startswith("DA:"):
            at, count = row[3:].split(",")[:2]
            lines.setdefault(file, {})[int(at)] = int(count)
        elif row.startswith("FN:"):
            at, function = row[3:].split(",")[:2]
            functions.setdefault(file, []).append((int(at), function.split(":")[-1]))
    return lines, functions


def of_functions(counts, functions, wanted):
    kept = {}
    starts = sorted(set(functions))
    for i, (first, name) in enumerate(starts):
        if name in wanted:
            last = starts[i + 1][0] if i + 1 < len(starts) else 1 << 30
            kept.update((at, n) for at, n in counts.items() if first <= at < last)
    return kept


def coverage(names):
    """Shows what was reached; returns how many parsers were reached too little."""
    lines, functions = lines_reached(names)
    below = 0
    print("\n%-44s %6s %8s %6s" % ("parser", "lines", "reached", ""))
    for name in names:
        for parser in TARGETS[name][1]:
            file, _, wanted = parser.partition(":")
            counts = lines.get(file, {})
            if wanted:
                counts = of_functions(counts, functions.get(file, []), wanted.split(","))
            if not counts:
                print("%-44s FAIL: nothing was counted" % parser)
                below += 1
                continue
            missing = sorted(at for at, n in counts.items() if n == 0)
            per_cent = 100.0 * (len(counts) - len(missing)) / len(counts)
            below += per_cent < GOAL
            print("%-44s %6d %8d %5.1f%%%s" % (file + (" (parsing)" if wanted else ""), len(counts), len(counts) - len(missing), per_cent,
                                             "" if per_cent >= GOAL else "  FAIL: below %d" % GOAL))
            if per_cent < GOAL:
                with open(os.path.join(TOP, file)) as f:
                    text = f.read().splitlines()
                for at in missing:
                    print("    %4d %s" % (at, text[at - 1].rstrip()[:110]))
    return below


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("targets", nargs="*")
    a = parser.parse_args()
    names = a.targets or list(TARGETS)
    unknown = [n for n in names if n not in TARGETS]
    if unknown:
        sys.exit("fuzz: no target %s; there are: %s" % (", ".join(unknown), " ".join(TARGETS)))
    built = sorted(n[5:-2] for n in os.listdir(os.path.join(TOP, "tests/fuzz")) if n.startswith("fuzz_") and n.endswith(".c"))
    if built != sorted(TARGETS):
        sys.exit("fuzz: tests/fuzz/fuzz_*.c and the table of this program differ: %s" % sorted(set(built) ^ set(TARGETS)))
    bad = total = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for name, status, n, seconds, text in pool.map(lambda name: run(name, a.seconds), names):
            total += n
            print("%-4s %-12s %12d executions %6.1f s %9d a second" % ("ok" if status == 0 else "FAIL", name, n, seconds, n / max(seconds, 0.001)), flush=True)
            if status != 0:
                bad += 1
                print(text[-6000:], flush=True)
    below = 0 if bad else coverage(names)
    print("fuzz: %d targets, %d executions, %d findings%s, %d parsers below %d per cent" % (
        len(names), total, bad, "; inputs are in " + os.path.join(OUT, "findings") if bad else "", below, GOAL))
    return 1 if bad or (below and not a.targets) else 0 # one target alone needn't reach what others reach too


if __name__ == "__main__":
    sys.exit(main())
