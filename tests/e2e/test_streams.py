# SPDX-License-Identifier: MIT
"""Events and logs as streams: follow over the protocol, filters, exact counts of what is dropped, restarts of control and of the
machine, and sandboxctl events/logs -f."""
import json
import os
import signal
import subprocess
import time
import unittest

import harness
from harness import Case, module, wait_for



def params(line, method):
    message = json.loads(line)
    assert message["jsonrpc"] == "2.0" and message["method"] == method and "id" not in message, message
    return message["params"]


def number(seq):
    return tuple(int(x) for x in seq.split("-"))


class Follow(Case):
    config = "socket_mode = 0666\n"

    def next_event(self, client):
        return params(client.line(), "event")

    def test_events_follow(self):
        f = self.daemon.client()
        self.addCleanup(f.close)
        first = f.rpc("event.read", limit=0, follow=True)
        self.assertEqual(first["events"], [])
        self.client.create("a", module("tally"))
        seen = []
        while not seen or seen[-1]["type"] != "sandbox.running":
            seen.append(self.next_event(f))
        self.assertEqual({e["subscription"] for e in seen}, {first["subscription"]})
        numbers = [number(e["seq"]) for e in seen]
        self.assertEqual(numbers, sorted(set(numbers)))
        read = self.client.events("a", first["next"])
        self.assertEqual([{k: v for k, v in e.items() if k != "subscription"} for e in seen if e["sandbox"] == "a"], read)

    def test_what_lies_behind_the_first_page_follows(self):
        begin = self.client.rpc("event.read", limit=0)["next"]
        self.client.create("a", module("tally"))
        for _ in range(30):
            self.client.rpc("sandbox.restart", id="a")
        all_events = self.client.events(since=begin)
        self.assertGreater(len(all_events), 100)
        f = self.daemon.client()
        self.addCleanup(f.close)
        page = f.rpc("event.read", since_seq=begin, limit=3, follow=True)
        self.assertEqual(len(page["events"]), 3)
        rest = [self.next_event(f) for _ in range(len(all_events) - 3)]
        self.assertEqual([e["seq"] for e in page["events"] + rest], [e["seq"] for e in all_events])
        self.client.destroy("a")
        self.assertEqual(number(self.next_event(f)["seq"])[1], number(all_events[-1]["seq"])[1] + 1)

    def test_filters(self):
        f = self.daemon.client()
        self.addCleanup(f.close)
        f.rpc("event.read", limit=0, follow=True, sandbox="b", type="sandbox.")
        g = self.daemon.client()
        self.addCleanup(g.close)
        g.rpc("event.read", limit=0, follow=True, type="sandbox.destroyed")
        self.client.create("a", module("tally"))
        self.client.create("b", module("tally"))
        self.client.destroy("a")
        self.client.destroy("b")
        seen = []
        while not seen or seen[-1]["type"] != "sandbox.destroyed":
            seen.append(self.next_event(f))
        self.assertEqual({e["sandbox"] for e in seen}, {"b"})
        self.assertEqual([self.next_event(g)["sandbox"] for _ in range(2)], ["a", "b"])
        found = self.client.rpc("event.read", type="sandbox.created", limit=1000)["events"]
        self.assertEqual({e["type"] for e in found}, {"sandbox.created"})
        now = int(time.time() * 1000) + 1000000
        self.assertEqual(self.client.rpc("event.read", since_ms=now)["events"], [])
        newest = self.client.rpc("event.read", newest=True, limit=2)["events"]
        self.assertEqual(newest, self.client.events()[-2:])

    def test_end_and_limits(self):
        f = self.daemon.client()
        self.addCleanup(f.close)
        for i in range(16):
            self.assertEqual(f.rpc("event.read", limit=0, follow=True)["subscription"], i + 1)
        self.refused("limit_exceeded", f.rpc, "event.read", limit=0, follow=True)
        self.assertTrue(f.rpc("stream.end", subscription=3)["ended"])
        self.refused("not_found", f.rpc, "stream.end", subscription=3)
        self.refused("not_found", self.client.rpc, "stream.end", subscription=4)
        self.assertEqual(f.rpc("event.read", limit=0, follow=True)["subscription"], 17)
        for i in [n for n in range(1, 18) if n not in (3, 17)]:
            f.rpc("stream.end", subscription=i)
        self.client.create("a", module("tally"))
        self.client.destroy("a")
        seen = []
        while not seen or seen[-1]["type"] != "sandbox.destroyed":
            seen.append(self.next_event(f))
        self.assertEqual({e["subscription"] for e in seen}, {17})
        reply = self.client.raw(b'[{"jsonrpc":"2.0","id":1,"method":"event.read","params":{"follow":true}}]')
        self.assertEqual(reply[0]["error"]["data"]["code"], "bad_param")
        self.refused("bad_param", f.rpc, "event.read", follow=True, since_seq="x")
        self.refused("bad_param", f.rpc, "log.read", id="a", follow=1)
        self.refused("not_found", f.rpc, "log.read", id="a", follow=True)

    @unittest.skipUnless(harness.IS_ROOT, "another uid is needed, and only root can be another user")
    def test_others_see_nothing(self):
        self.client.create("a", module("tally"))
        got = self.ctl("events", "--json", uid=harness.OTHER_UID)
        self.assertEqual((got.status, got.json()["events"]), (0, []))

    def test_slow_reader_of_events_is_told_exactly(self):
        f = self.daemon.client()
        self.addCleanup(f.close)
        begin = f.rpc("event.read", limit=0, follow=True)["events"]
        self.assertEqual(begin, [])
        self.client.create("a", module("tally"))
        since = self.client.rpc("event.read", limit=0)["next"]
        # the socket's own buffers and the queue fill up, then events are dropped
        for _ in range(500):
            self.client.rpc("sandbox.restart", id="a", state="fresh")
        total = len(self.client.events(since=since))
        taken, dropped, last = 0, 0, number(since)
        while taken + dropped < total:
            e = self.next_event(f)
            if "dropped" in e:
                dropped += e["dropped"]
                last = (last[0], last[1] + e["dropped"])
            elif number(e["seq"]) > number(since):
                self.assertEqual(number(e["seq"])[1], last[1] + 1)
                last = number(e["seq"])
                taken += 1
        self.assertEqual(taken + dropped, total)
        self.client.destroy("a")
        e = self.next_event(f)
        self.assertEqual(number(e["seq"])[1], last[1] + 1)

    def test_log_follow(self):
        self.client.create("p", module("prints"))
        self.client.call("p", "line", text="before")
        f = self.daemon.client()
        self.addCleanup(f.close)
        page = f.rpc("log.read", id="p", follow=True)
        self.assertEqual([l["text"] for l in page["lines"]], ["before"])
        self.client.call("p", "line", text="one")
        self.client.call("p", "line", text="<3>two", to="stderr")
        self.client.call("p", "partial", text="half")
        self.client.call("p", "line", text=" whole")
        lines = [params(f.line(), "log") for _ in range(3)]
        self.assertEqual([l["text"] for l in lines], ["one", "two", "half whole"])
        self.assertEqual([l["level"] for l in lines], ["info", "error", "info"])
        again = self.client.rpc("log.read", id="p", since_seq=lines[0]["seq"])
        self.assertEqual([l["text"] for l in again["lines"]], ["two", "half whole"])
        self.assertEqual(self.client.rpc("log.read", id="p", since_seq=again["next"])["lines"], [])
        self.client.destroy("p")
        self.assertEqual(params(f.line(), "log"), {"subscription": page["subscription"], "ended": "destroyed"})
        wait_for(lambda: not os.path.exists(os.path.join(self.daemon.state, "logs/p")), "the log files to be removed")


class Restarts(Case):
    def test_events_go_on_over_kills_of_control(self):
        begin = self.client.rpc("event.read", limit=0)["next"]
        for i in range(5):
            with self.daemon.client() as c:
                c.create("a%d" % i, module("tally"))
            self.daemon.kill_control()  # right behind it: what isn't written is pending
        with self.daemon.client() as c:
            page = c.rpc("event.read", since_seq=begin, limit=1000)
            self.assertFalse(page["gap"])
            running = [e["sandbox"] for e in page["events"] if e["type"] == "sandbox.running"]
            self.assertEqual(running, ["a%d" % i for i in range(5)])
            numbers = [number(e["seq"]) for e in page["events"]]
            self.assertEqual(numbers, sorted(set(numbers)))
            for before, after in zip(numbers, numbers[1:]):
                self.assertTrue(after == (before[0], before[1] + 1) or (after[0] > before[0] and after[1] == 1), (before, after))
            self.assertTrue(c.rpc("event.read", since_seq="1-1")["gap"])
        self.client = self.daemon.client()

    def test_machine_restart(self):
        self.client.create("gone", module("tally"))
        since = self.client.rpc("event.read", limit=0)["next"]
        self.client.destroy("gone")
        wanted = self.client.events(since=since)
        self.daemon.look()
        self.client.close()
        for pid, _ in harness.descendants(self.daemon.pid) | {(self.daemon.pid, 0)}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.daemon.process.wait()
        wait_for(lambda: not self.daemon.left_over(), "the end of all")
        with open(newest_events(self.daemon), "ab") as f:
            f.write(b'{"seq":"99999999999999-1","at":17')  # as a power cut leaves it
        self.daemon.start()
        self.client = self.daemon.client()
        page = self.client.rpc("event.read", since_seq=since, limit=1000)
        self.assertFalse(page["gap"])
        self.assertEqual(page["events"][:len(wanted)], wanted)
        damaged = [e for e in page["events"] if e["type"] == "daemon.events_damaged"]
        self.assertEqual([e["cut_bytes"] for e in damaged], [33])
        self.assertIn("daemon.started", [e["type"] for e in page["events"][len(wanted):]])


def newest_events(daemon):
    folder = os.path.join(daemon.state, "events")
    names = sorted((n for n in os.listdir(folder) if n.endswith(".events")), key=lambda n: number(n[:-len(".events")]))
    return os.path.join(folder, names[-1])


class Ctl(Case):
    def follow(self, *args):
        p = subprocess.Popen([os.path.join(harness.BUILD, "sandboxctl"), "--socket", self.daemon.socket, *args],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()

        self.addCleanup(end)
        return p

    def read_until(self, p, what):
        """Lines up to the one that has this."""
        lines = []
        while not lines or what not in lines[-1]:
            got = harness.Background(p.stdout.readline).result()
            self.assertTrue(got, "ended after %r" % lines)
            lines.append(got.decode())
        return lines

    def test_events_f_survives_control(self):
        p = self.follow("events", "-f", "-n", "0", "--json")
        first = harness.Background(p.stdout.readline)
        while first.thread.is_alive():  # what happens before it is subscribed isn't shown
            self.client.create("warm", module("tally"))
            self.client.destroy("warm")
        seen = [first.result().decode()]
        for i in range(3):
            self.daemon.kill_control()
            with self.daemon.client() as c:
                c.create("a%d" % i, module("tally"))
            seen += self.read_until(p, '"type":"sandbox.running","sandbox":"a%d"' % i)
        numbers = [number(json.loads(line)["seq"]) for line in seen]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.client = self.daemon.client()
        all_numbers = [number(e["seq"]) for e in self.client.events()]
        self.assertEqual(numbers, [n for n in all_numbers if numbers[0] <= n <= numbers[-1]])
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(harness.DEADLINE_S), 0)

    def test_logs_f_survives_control(self):
        self.client.create("p", module("prints"))
        self.client.call("p", "line", text="first")
        p = self.follow("logs", "p", "-f", "-q")
        self.assertEqual(self.read_until(p, "first"), ["first\n"])
        self.client.call("p", "line", text="n 0")
        seen = self.read_until(p, "n 0")
        for i in range(1, 4):
            self.daemon.kill_control()
            with self.daemon.client() as c:
                c.call("p", "line", text="n %d" % i)
            seen += self.read_until(p, "n %d" % i)
        self.assertEqual(seen, ["n %d\n" % i for i in range(4)])
        self.client = self.daemon.client()
        self.client.destroy("p")
        self.assertEqual(p.wait(harness.DEADLINE_S), 0)
        self.assertIn(b"destroyed", p.stderr.read())

    def test_a_closed_pipe_ends_it(self):
        p = self.follow("events", "-f", "-n", "1")
        self.assertTrue(p.stdout.readline())
        p.stdout.close()
        self.assertEqual(p.wait(harness.DEADLINE_S), 0)
        self.client.create("a", module("tally"))

    def test_since_and_n(self):
        self.client.create("a", module("tally"))
        everything = self.ctl("events", "--json").json()["events"]
        self.assertEqual(self.ctl("events", "-n", "2", "--json").json()["events"], everything[-2:])
        since = everything[-3]["seq"]
        self.assertEqual(self.ctl("events", "--since", since, "--json").json()["events"], everything[-2:])
        self.assertEqual(len(self.ctl("events", "--since", "10m", "--sandbox", "a", "--type", "sandbox.", "--json").json()["events"]),
                         len([e for e in everything if e["sandbox"] == "a"]))
        self.assertEqual(self.ctl("events", "--since", "nonsense").status, 2)
        self.assertEqual(self.ctl("logs", "a", "--since", "nonsense").status, 2)
        self.assertEqual(self.ctl("logs", "missing", "-f").status, 3)
        lines = self.ctl("logs", "a", "--json").json()["lines"]
        self.assertEqual(self.ctl("logs", "a", "--since", "1h", "--json").json()["lines"], lines)
        self.assertEqual(self.ctl("logs", "a", "--since", "2199-01-01 12:00", "--json").json()["lines"], [])


if __name__ == "__main__":
    harness.main()
