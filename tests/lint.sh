#!/bin/sh
# SPDX-License-Identifier: MIT
# Three analysers over the whole tree, on all cores: clang-tidy with .clang-tidy's checks, cppcheck, gcc's -fanalyzer. A finding fails.
# What they find and isn't so stands with its reason in the code (NOLINTNEXTLINE) or in lint-cppcheck.known.
# usage: lint.sh [tidy] [cppcheck] [analyzer]
cd "$(dirname "$0")/.." || exit 1
JOBS="${JOBS:-$(nproc)}"
out=$(mktemp -d "${TMPDIR:-/tmp}/lint.XXXXXX") || exit 1
trap 'rm -rf "$out"' EXIT
export LC_ALL=C
# as sh reads it once more
defines='-D_GNU_SOURCE -DSANDBOXD_VERSION=\"x\" -DSANDBOXD_LIBEXECDIR=\"x\" -DSANDBOXD_INCLUDEDIR=\"x\"'
bad=0

# name: what is in $out/found are findings
verdict() {
	if [ -s "$out/found" ]; then
		sort -u "$out/found"
		echo "lint: $1: see above"
		bad=1
	else
		echo "lint: $1: nothing found ($(($(date +%s) - started)) s)"
	fi
}

tidy() {
	started=$(date +%s)
	find daemon client proto -name '*.c' -print0 |
		xargs -0 -n 1 -P "$JOBS" sh -c 'clang-tidy --quiet "$1" -- -std=c11 '"$defines"' -I. 2>&1 || echo "$1: error: clang-tidy ends with $?"' sh >"$out/tidy"
	grep -E 'warning:|error:' "$out/tidy" >"$out/found"
	verdict clang-tidy
}

# cppcheck looks into no system headers, but can't read our lists without <sys/queue.h>'s macros.
cppcheck_() {
	started=$(date +%s)
	queue=$(echo '#include <sys/queue.h>' | gcc -E - | sed -n 's/^# 1 "\(.*sys\/queue.h\)".*/\1/p' | head -n 1)
	cppcheck -q -j "$JOBS" --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --max-configs=4 \
		-D_GNU_SOURCE -DSANDBOXD_VERSION='"x"' -DSANDBOXD_LIBEXECDIR='"x"' -DSANDBOXD_INCLUDEDIR='"x"' -D__x86_64__ -D__linux__ -D__GNUC__ -I. --include="$queue" --suppressions-list=tests/lint-cppcheck.known \
		--template='{file}:{line}: {id}: {message}' daemon client proto >"$out/found" 2>&1
	verdict cppcheck
}

# Leaks: what hangs in a list by its tail pointer, or in what a callback will free, is one for gcc 12; the sanitizers look for leaks in
# the unit ring and in the fuzz targets instead.
analyzer() {
	started=$(date +%s)
	find daemon client proto -name '*.c' -print0 |
		xargs -0 -n 1 -P "$JOBS" sh -c 'gcc -std=c11 '"$defines"' -I. -O1 -Wall -Wextra -fanalyzer -Wno-analyzer-malloc-leak \
			-fno-diagnostics-show-caret -fdiagnostics-path-format=none -c "$1" -o /dev/null 2>&1 || echo "$1: error: gcc ends with $?"' sh >"$out/analyzer"
	grep -E 'warning:|error:' "$out/analyzer" >"$out/found"
	verdict "gcc -fanalyzer"
}

for part in ${*:-tidy cppcheck analyzer}; do
	case $part in
	tidy) tidy ;;
	cppcheck) cppcheck_ ;;
	analyzer) analyzer ;;
	*) sed -n 's/^# usage: //p' "$0"; exit 2 ;;
	esac
done
exit $bad
