# SPDX-License-Identifier: MIT
"""A daemon one of whose programs is an odd one (tests/odd), and the page by which the test speaks to it."""
import os
import shutil
import struct

from harness import BUILD, IS_ROOT, Daemon

NONE, FAILS, KILLED, EXITS, FAULTS = range(5)
IN_ZYGOTE, IN_HOST = range(2)
PAGE = "=qIIII64s"  # struct odd_page in tests/odd/page.h


class OddDaemon(Daemon):
    """odd: which of its programs comes from tests/odd. uid: of the ordinary user whose daemon it is (None: the test's)."""

    def __init__(self, odd, uid=None, **kwargs):
        self.odd, self.uid = odd, uid if IS_ROOT else None
        super().__init__(**kwargs)

    def start(self, wait=True, **popen):
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)
            popen = dict({"user": self.uid, "group": self.uid, "extra_groups": []}, **popen)
        super().start(wait, **popen)

    def argv(self):
        self.programs = os.path.join(self.folder, "bin")
        if not os.path.isdir(self.programs):
            os.makedirs(os.path.join(self.programs, "include"))
            for name in ("sandboxd", "sandboxd-control", "sandbox-host", "include/sandbox_module.h"):
                shutil.copy(os.path.join(BUILD, "tests/odd" if name == self.odd else "", name), os.path.join(self.programs, name))
            with open(os.path.join(self.programs, "odd"), "wb") as f:
                f.write(struct.pack(PAGE, 0, 0, 0, 0, 0, b""))
            os.chmod(os.path.join(self.programs, "odd"), 0o666)  # whoever the program runs as
        return [os.path.join(self.programs, "sandboxd"), *self.options]

    def page(self, offset, form, *values):
        """Writes these there, or reads what is there."""
        fd = os.open(os.path.join(self.programs, "odd"), os.O_RDWR)
        try:
            if values:
                os.pwrite(fd, struct.pack(form, *values), offset)
                return values
            return struct.unpack(form, os.pread(fd, struct.calcsize(form), offset))
        finally:
            os.close(fd)

    def shift(self, seconds):
        """The wall clock of control jumps to so far ahead of the true one."""
        self.page(0, "=q", seconds * 1000000)

    def plant(self, fate, table=IN_HOST, step=""):
        self.page(24, "=64s", step.encode())
        self.page(8, "=III", fate, table, 0)

    def reached(self):
        return self.page(16, "=I")[0]

    def left_files(self):
        return [p for p in super().left_files() if not p.startswith(self.programs + "/")]
