#!/bin/bash
# SPDX-License-Identifier: MIT
# Boots an image of image.sh with the files of a folder on top, runs a command in it, prints its output and ends with its status:
# boot.sh IMAGE OVERLAY SECONDS COMMAND. 125: no status came, 124: the time was over. The console's log is in IMAGE.console.
set -euo pipefail
image=$1 overlay=$2 seconds=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/o"
cp -a "$overlay/." "$work/o/"
printf '%s\n' "$*" >"$work/o/check"
# In the guest these are links into usr; and the modes of folders that it has stay as they are.
for d in bin sbin lib lib64; do
	if [ -d "$work/o/$d" ]; then
		mkdir -p "$work/o/usr/$d"
		cp -a "$work/o/$d/." "$work/o/usr/$d/"
		rm -r "${work:?}/o/$d"
	fi
done
(cd "$work/o" && find . | grep -vxFf "$image/base.dirs" | cpio -o -H newc -R 0:0 --quiet) | cat "$image/base.cpio" - >"$work/initrd"
for _ in 1 2 3; do # a guest that dies before the command starts (the emulation's hiccup) is booted again
	rc=0
	timeout --foreground -k 5 "$seconds" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -accel tcg -cpu max -smp 2 \
		-m 3G -kernel "$image/vmlinuz" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off \
systemd.unified_cgroup_hierarchy=1 systemd.getty_auto=no systemd.show_status=no systemd.unit=check.target" \
		-serial "file:$image.console" -serial stdio -serial "file:$work/status" </dev/null || rc=$?
	if [ "$rc" = 124 ] || grep -q '^start' "$work/status"; then break; fi
	echo "boot.sh: the guest stopped before the command started (qemu: $rc)" >&2
done
if [ "$rc" = 124 ]; then
	echo "boot.sh: not done within $seconds s" >&2
	exit 124
fi
read -r _ code status < <(sed -n '/^exit /{s/\r//g;p}' "$work/status") || { tail -n 40 "$image.console" >&2; echo "boot.sh: no status came" >&2; exit 125; }
[ "$code" = exited ] || { echo "boot.sh: the command ended by $code $status" >&2; exit 125; }
exit "$status"
