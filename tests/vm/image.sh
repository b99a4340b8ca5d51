#!/bin/bash
# SPDX-License-Identifier: MIT
# Makes the image of a small Debian with systemd: image.sh SUITE FOLDER. In FOLDER: vmlinuz, base.cpio, base.dirs. As root (mmdebstrap);
# about half a minute. The guest's root is an initramfs: no disk, no network, no privilege to run it.
set -euo pipefail
suite=$1 out=$2
packages=systemd,systemd-sysv,kmod,usr-is-merged,python3-minimal,libpython3-stdlib,libuv1,libcjson1,libseccomp2,libsqlite3-0,libssl3,procps,attr
masked="dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount getty.target
	timers.target remote-fs.target proc-sys-fs-binfmt_misc.automount sys-fs-fuse-connections.mount modprobe@.service kmod-static-nodes.service
	systemd-modules-load.service systemd-remount-fs.service systemd-pstore.service systemd-random-seed.service systemd-update-utmp.service
	systemd-update-utmp-runlevel.service systemd-journal-flush.service systemd-firstboot.service systemd-logind.service
	systemd-user-sessions.service systemd-machine-id-commit.service systemd-hwdb-update.service systemd-journal-catalog-update.service
	systemd-binfmt.service systemd-ask-password-console.path systemd-ask-password-wall.path e2scrub_reap.service"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# The kernel is only unpacked: its package would want an initramfs of its own.
# shellcheck disable=SC2016
mmdebstrap --variant=minbase --include="$packages" --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--customize-hook='chroot "$1" sh -ec "cd /var/tmp
		kernel=\$(apt-cache depends linux-image-cloud-amd64 | sed -n s/.*Depends:.linux-image/linux-image/p)
		apt-get -qq -o APT::Sandbox::User=root download \$kernel; dpkg -x linux-image-*.deb /kernel; rm linux-image-*"' \
	"$suite" "$root" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; echo "image.sh: mmdebstrap failed for $suite" >&2; exit 1; }
mkdir -p "$work/image"
cp "$root"/kernel/boot/vmlinuz-* "$work/image/vmlinuz"
rm -rf "$root/kernel" "$root/usr/share/zoneinfo" "$root"/var/cache/* "$root"/var/lib/apt/lists/*

# pivot_root needs a root with a parent mount, and an initramfs has none: it is bound over itself.
printf '%s\n' '#!/bin/sh' 'mkdir /newroot; mount --bind / /newroot; cd /newroot; mount --move . /' 'exec chroot . /lib/systemd/systemd' >"$root/init"
chmod 755 "$root/init"
for unit in $masked; do ln -sf /dev/null "$root/etc/systemd/system/$unit"; done # none is needed; they are half of the time to boot
echo vm >"$root/etc/hostname"
: >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '%s\n' '[Journal]' Storage=volatile RateLimitBurst=0 >"$root/etc/systemd/journald.conf.d/vm.conf"
printf '%s\n' '[Unit]' Requires=multi-user.target Wants=check.service >"$root/etc/systemd/system/check.target"
# What it prints goes to the second serial port, its status to the third.
cat >"$root/etc/systemd/system/check.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Environment=HOME=/root TERM=dumb PYTHONUNBUFFERED=1
ExecStartPre=/bin/sh -c 'stty -F /dev/ttyS1 raw -echo; echo start >/dev/ttyS2'
ExecStart=/bin/sh /check
ExecStopPost=/bin/sh -c 'echo "exit $EXIT_CODE $EXIT_STATUS" >/dev/ttyS2; systemctl poweroff -ff >/dev/null 2>&1'
StandardOutput=file:/dev/ttyS1
StandardError=inherit
UNIT
(cd "$root" && find . -type d >"$work/image/base.dirs" && find . -print0 | cpio -0 -o -H newc --quiet >"$work/image/base.cpio")
mkdir -p "$(dirname "$out")"
rm -rf "$out.new"
mv "$work/image" "$out.new"
rm -rf "$out"
mv "$out.new" "$out"
