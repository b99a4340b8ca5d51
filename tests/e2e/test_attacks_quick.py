# SPDX-License-Identifier: MIT
"""A few rows of the attack battery (`make check-attacks` runs all of them), one of each kind of wall."""
import os
import subprocess
import sys
import unittest

from harness import BUILD, MULTIPLIER, TOP, main, needs_root


class Quick(unittest.TestCase):
    @needs_root("hosts refuse to be looked into by their own user")
    def test_quick_rows(self):
        r = subprocess.run([sys.executable, os.path.join(TOP, "tests/attacks/run.py"), "--quick"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=240 * MULTIPLIER, check=False, env=dict(os.environ, SANDBOXD_BUILD=BUILD))
        self.assertEqual(r.returncode, 0, r.stdout.decode(errors="replace")[-8000:])


if __name__ == "__main__":
    main()
