#!/bin/sh
# SPDX-License-Identifier: MIT
# All there is, one after the other, each with its time; goes on after a failure and tells at the end. At most 75 minutes on two cores:
# what takes longer than $SANDBOXD_FULL_SECONDS (4500) fails.
# The rings proc and e2e run four times: at length (SANDBOXD_CHECK_FULL), recorded by check-clients (e2e), with sanitizers, and plainly again.
# The unit ring: plain and with gcc's sanitizers (in check), with clang's, and again. $SANDBOXD_BUILD is the build folder.
cd "$(dirname "$0")/.." || exit 1
. tests/parts.sh
make="${MAKE:-make}"
build="${SANDBOXD_BUILD:-$PWD/build}"
jobs="-j${JOBS:-$(nproc)}"
most_s="${SANDBOXD_FULL_SECONDS:-4500}"
parts_check_seconds SANDBOXD_FULL_SECONDS "$most_s"
# Nobody waits: deadlines are for what never comes.
export SANDBOXD_TEST_MULTIPLIER="${SANDBOXD_TEST_MULTIPLIER:-4}"

rings() { # build folder, ring...
	folder=$1
	shift
	SANDBOXD_BUILD="$folder" python3 tests/run.py "$@"
}

# The rings proc and e2e against programs that are built with sanitizers. A report of a sanitizer that no test looked at fails too: it is
# in the daemon's log, which the tests print when they fail, and it ends the process.
sanitized() {
	"$make" --no-print-directory "$jobs" SANITIZE=1 BUILD="$build/asan" build-all &&
		SANDBOXD_EXCEPT=tests/sanitize/except rings "$build/asan" proc e2e
}

clang_unit() {
	"$make" --no-print-directory "$jobs" CC=clang SANITIZE=1 BUILD="$build/clang-asan" build-tests && rings "$build/clang-asan" unit
}

part check env SANDBOXD_CHECK_FULL=1 "$make" BUILD="$build" check
part check-clients "$make" BUILD="$build" check-clients
part check-otp "$make" BUILD="$build" check-otp
part check-attacks "$make" BUILD="$build" check-attacks
part fuzz "$make" BUILD="$build" FUZZ_SECONDS=60 fuzz
part unit-clang-sanitized clang_unit
part proc-e2e-sanitized sanitized
part again rings "$build" unit proc e2e
parts_end check-full "$most_s"
