#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Half a line, then silence: the connection is closed after LIMIT_IDLE_PARTIAL_LINE_MS (30 s), one that is merely idle is not.
In a file of its own, since it takes its time beside the others."""
import time

from harness import Case, Closed, main

LIMIT_S = 30


class IdleLine(Case):
    def test_half_a_line_then_silence(self):
        with self.daemon.client() as half, self.daemon.client() as idle, self.daemon.client() as upload:
            began = time.monotonic()
            half.send(b'{"jsonrpc":"2.0","id":1,')
            upload.send(b'{"jsonrpc":"2.0","id":1,"method":"object.put","params":{"upload":"u","offset":0,"data":"')
            for c in (half, upload):
                try:
                    line = c.line(LIMIT_S * 2)  # a reply that says why may come first
                    self.assertIn(b"error", line)
                    self.assertTrue(c.at_end(5))
                except Closed:
                    pass
            self.assertGreaterEqual(time.monotonic() - began, LIMIT_S - 1)
            self.assertTrue(idle.rpc("daemon.ping")["pong"])
            self.assertTrue(self.client.rpc("daemon.ping")["pong"])


if __name__ == "__main__":
    main()
