#!/bin/sh
# SPDX-License-Identifier: MIT
# All rings, one after the other, each with its time; goes on after a failure and tells at the end.
# $SANDBOXD_BUILD is the build folder
cd "$(dirname "$0")/.." || exit 1
make="${MAKE:-make}"
build="${SANDBOXD_BUILD:-$PWD/build}"
bad=""
summary=""
began=$(date +%s)

part() { # name, command...
	name=$1
	shift
	started=$(date +%s)
	echo "==== $name"
	if "$@"; then result=ok; else result=FAILED; bad="$bad $name"; fi
	summary="$summary$(printf '%-24s %-7s %5d s' "$name" "$result" "$(($(date +%s) - started))")
"
	echo "==== $name: $result, $(($(date +%s) - started)) s"
}

# The rings proc and e2e against programs that are built with sanitizers. A report of a sanitizer that no test looked at fails too: it is
# in the daemon's log, which the tests print when they fail, and it ends the process.
sanitized() {
	"$make" --no-print-directory -j"$(nproc)" SANITIZE=1 BUILD="$build/asan" build-all || return 1
	status=0
	for ring in proc e2e; do
		SANDBOXD_EXCEPT=tests/sanitize/except SANDBOXD_TEST_MULTIPLIER=4 SANDBOXD_BUILD="$build/asan" python3 tests/run.py $ring || status=1
	done
	return $status
}

clang_unit() {
	"$make" --no-print-directory -j"$(nproc)" CC=clang SANITIZE=1 BUILD="$build/clang-asan" build-tests &&
		SANDBOXD_TEST_MULTIPLIER=4 SANDBOXD_BUILD="$build/clang-asan" python3 tests/run.py unit
}

part check "$make" BUILD="$build" check
part fuzz "$make" BUILD="$build" FUZZ_SECONDS=60 fuzz
if grep -q '^check-clients:' Makefile; then part check-clients "$make" BUILD="$build" check-clients; fi
part unit-clang-sanitized clang_unit
part proc-e2e-sanitized sanitized
part check-second "$make" BUILD="$build" check
part check-third "$make" BUILD="$build" check
echo
printf '%s' "$summary"
echo "check-full: $(($(date +%s) - began)) s${bad:+; failed:$bad}"
[ -z "$bad" ]
