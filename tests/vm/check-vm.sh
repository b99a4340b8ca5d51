#!/bin/sh
# SPDX-License-Identifier: MIT
# The daemon as a service on real machines with systemd and cgroup v2: check-vm.sh [SUITE...] (bookworm trixie). Installs what was built
# into an overlay, boots each Debian once, runs tests/vm/guest/ in it. That one doesn't boot is a failure.
# $SANDBOXD_BUILD: the build folder; images are kept in its vm/, named by what shaped them.
cd "$(dirname "$0")/../.." || exit 1
. tests/parts.sh
build="${SANDBOXD_BUILD:-$PWD/build}"
[ $# -gt 0 ] || set -- bookworm trixie

overlay=$(mktemp -d)
trap 'rm -rf "$overlay"' EXIT
"${MAKE:-make}" --no-print-directory BUILD="$build" DESTDIR="$overlay" install >/dev/null || exit 1
mkdir -p "$overlay/t" "$overlay/etc/sandboxd"
cp tests/vm/guest/*.py tests/vm/guest/*.conf "$overlay/t/"
cp "$build"/examples/counter/counter_v1.so "$build"/examples/counter/counter_v2.so "$build"/tests/modules/*.so "$overlay/t/" || exit 1
cp tests/vm/guest/sandboxd.conf "$overlay/etc/sandboxd/"

one() { # suite
	image="$build/vm/$1-$(cat tests/vm/image.sh | sha256sum | cut -c1-12)"
	[ -d "$image" ] || bash tests/vm/image.sh "$1" "$image" || return 1
	bash tests/vm/boot.sh "$image" "$overlay" 600 "exec python3 /t/check.py"
}
for suite; do part "check-vm-$suite" one "$suite"; done
parts_end check-vm
