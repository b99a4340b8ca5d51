#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs in the guest as root: the service as it was installed."""
import os
import sys

sys.path.insert(0, "/t")

import guest  # noqa: E402
import limits  # noqa: E402
import service  # noqa: E402

print("%s, systemd %s, %s" % (os.uname().release, guest.systemctl("--version").split()[1], guest.read("/etc/debian_version").strip()))
guest.systemctl("start", guest.SERVICE)
guest.Rows().run(service.ROWS + limits.ROWS)
