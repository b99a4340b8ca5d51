#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The proof of make soak-reload in small: increments through reloads and rollbacks; and that its judge would notice."""
from harness import Case, main
from soak import Broken, Look, Soak


class Small(Case):
    def test_increments_through_reloads(self):
        own = self.own_daemon()
        r = Soak(own, reloads=60, seconds=60, clients=3).run()
        self.assertGreaterEqual(r["reloads"], 10)  # as many as fit on a slow machine
        self.assertGreater(r["increments"], r["reloads"])
        own.look()

    def test_what_the_judge_would_notice(self):
        own = self.own_daemon()
        s = Soak(own, reloads=4, seconds=60, clients=1)
        s.run()
        s.check_counts()
        n = s.clients[0].sent
        s.client.call("s", "increment", client=0, n=n + 2)
        with self.assertRaisesRegex(Broken, "counted"):
            s.check_counts()
        s.clients[0].acknowledged += 1
        with self.assertRaisesRegex(Broken, "out of order"):
            s.check_counts()
        pid = s.client.info("s")["pid"]
        first = Look(own, pid)
        first.fds["host"] += 3
        with self.assertRaisesRegex(Broken, "descriptors"):
            Look(own, pid).compare(first)
        first.fds["host"] -= 3
        first.mappings -= 9
        with self.assertRaisesRegex(Broken, "mappings"):
            Look(own, pid).compare(first)
        own.look()


if __name__ == "__main__":
    main()
