#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/parts.sh, which decides whether `make check-full` has failed: a part that fails, and one time bound for all.
cd "$(dirname "$0")/../.." || exit 1

fail() { echo "parts_time.sh: $*"; exit 1; }

# Began so long ago; the parts; the bound. Prints what is shown, and the status.
run() { # seconds ago, part's command, bound
	sh -c '. tests/parts.sh; parts_began=$((parts_began - $1)); part one $2 >/dev/null; parts_end all $3; echo "status $?"' sh "$@"
}

out=$(run 100 true 90) || fail "it ended with $?"
case $out in *"failed: time"*"FAILED: it took 1"*" s, and 90 s is the most"*"status 1"*) ;; *) fail "too long isn't told: $out" ;; esac
out=$(run 100 true 4500)
case $out in *FAILED* | *failed*) fail "in time, and failed: $out" ;; *"status 0"*) ;; *) fail "in time: $out" ;; esac
out=$(run 100000 true "")
case $out in *"status 0"*) ;; *) fail "without a bound: $out" ;; esac
out=$(run 100 false 90)
case $out in *"failed: one time"*"status 1"*) ;; *) fail "both aren't told: $out" ;; esac
out=$(run 0 false 90)
case $out in *"it took"*) fail "in time, and said to be late: $out" ;; *"failed: one"*"status 1"*) ;; *) fail "the part's failure isn't told: $out" ;; esac

for bad in "" -1 1h 1.5 9999999999; do # refused before anything runs
	out=$(sh -c '. tests/parts.sh; parts_check_seconds SANDBOXD_FULL_SECONDS "$1"; echo went on' sh "$bad" 2>&1) && fail "'$bad' was taken"
	case $out in *"went on"*) fail "'$bad' was taken" ;; *"SANDBOXD_FULL_SECONDS='$bad'"*) ;; *) fail "'$bad': $out" ;; esac
done
out=$(SANDBOXD_FULL_SECONDS=soon sh tests/check-full.sh 2>&1) && fail "check-full.sh ran with a bad bound"
case $out in *"SANDBOXD_FULL_SECONDS='soon'"*) ;; *) fail "check-full.sh: $out" ;; esac
