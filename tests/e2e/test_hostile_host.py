#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A host whose module writes to the channel itself. What breaks the contract ends that host, with an event that says so; what could
be an older generation's words is passed over. The daemon and all other sandboxes never notice."""
from harness import Case, RpcError, main, module, wait_for

REPORT, READY, FAILED, REPLY, STATUS, REHEARSED, QUIESCED, SAVED, LOADED, COMMITTED, UNLOADED, ABORTED, STOPPED, DEATH, CAST_ENDED, ALIVE, PREPARED, SHOWN, STAGED = range(64, 83)
BEGIN, CALL = 1, 3
BODY_FD = 1


class Forged(Case):
    def setUp(self):
        super().setUp()
        self.client.create("good", module("tally"))
        self.client.create("bad", module("forge"))
        self.control = self.client.rpc("daemon.info")["control_pid"]

    def forge(self, **message):
        """Has the module send it. The reply of that call, or the error that its client got."""
        message.setdefault("generation", self.client.info("bad")["generation"])
        try:
            return self.client.call("bad", "message", timeout_ms=5000, **message)
        except RpcError as e:
            return e

    def unaffected(self):
        self.assertEqual(self.client.rpc("daemon.info")["control_pid"], self.control)
        before = self.client.call("good", "get")["count"]
        self.assertEqual(self.client.call("good", "increment")["count"], before + 1)
        self.assertEqual(self.client.info("good")["restart_count"], 0)

    def is_killed(self, act, *words):
        before = self.client.info("bad")
        act()
        killed = wait_for(lambda: [e for e in self.client.events("bad") if e["type"] == "sandbox.killed"], "the kill")
        self.assertIn("protocol violation", killed[-1]["why"])
        for word in words:
            self.assertIn(word, killed[-1]["why"])
        after = wait_for(lambda: (lambda i: i if i["status"] == "running" and i["pid"] != before["pid"] else None)(
            self.client.info("bad")), "the next generation")
        self.assertIn("protocol violation", after["last_exit"]["text"])
        self.assertEqual(after["restart_count"], before["restart_count"] + 1)
        self.assertEqual(self.client.call("bad", "ping"), {"sent": 0})
        self.unaffected()

    def is_ignored(self, **message):
        before = self.client.info("bad")
        r = self.forge(**message)
        self.assertIsInstance(r, dict, r)
        self.assertGreaterEqual(self.client.call("bad", "ping")["sent"], 1)
        after = self.client.info("bad")
        self.assertEqual((after["pid"], after["status"], after["security"], after["module"], after["versions"]),
                         (before["pid"], "running", before["security"], before["module"], before["versions"]))
        self.unaffected()

    def test_reply_with_a_raw_newline(self):
        self.is_killed(lambda: self.forge(body='{"a":\n1}'), "newline")

    def test_raw_newline_fixture(self):
        self.client.create("raw", module("raw_newline"))
        info = self.client.info("raw")
        try:
            self.client.call("raw", "forge", generation=info["generation"], number=1)
        except RpcError as e:
            self.assertEqual(e.code, "crashed")
        self.assertIn("protocol violation", self.wait_event("raw", "sandbox.killed")[0]["why"])
        self.unaffected()

    def test_caller_gets_crashed(self):
        r = self.forge(body="{\n}")
        self.assertIsInstance(r, RpcError)
        self.assertEqual((r.code, r.data["outcome_unknown"]), ("crashed", True))

    def test_wrong_magic(self):
        self.is_killed(lambda: self.forge(magic=0x48584254))

    def test_no_json(self):
        self.is_killed(lambda: self.forge(body="garbage"), "JSON")

    def test_two_values(self):
        self.is_killed(lambda: self.forge(body="{} {}"), "JSON")

    def test_duplicate_key(self):
        self.is_killed(lambda: self.forge(body='{"a":1,"a":2}'), "JSON")

    def test_too_deep(self):
        self.is_killed(lambda: self.forge(body="[" * 65 + "]" * 65), "JSON")

    def test_body_bytes_that_are_not_there(self):
        self.is_killed(lambda: self.forge(body="{}", body_bytes=1 << 31))

    def test_body_bytes_fewer_than_there_are(self):
        self.is_killed(lambda: self.forge(body="{}      ", body_bytes=2))

    def test_huge_body_bytes_by_descriptor(self):
        self.is_killed(lambda: self.forge(body="", body_bytes=(1 << 32) - 1, flags=BODY_FD, n_fds=1))

    def test_body_descriptor_that_is_none(self):
        self.is_killed(lambda: self.forge(body="", body_bytes=100, flags=BODY_FD))

    def test_body_descriptor_without_bytes(self):
        self.is_killed(lambda: self.forge(body="", body_bytes=100, flags=BODY_FD, n_fds=1))

    def test_descriptors_attached(self):
        self.is_killed(lambda: self.forge(n_fds=1))

    def test_many_descriptors_attached(self):
        self.is_killed(lambda: self.forge(n_fds=8))

    def test_type_out_of_range(self):
        self.is_killed(lambda: self.forge(type=STAGED + 1), "type")

    def failed_calls(self):
        return [e for e in self.client.events("bad") if e["type"] == "call.failed"]

    def test_end_of_casts_that_were_never_made(self):
        error = '{"code":"module_error","message":"not really","step":"message"}'
        epoch, before = self.client.rpc("daemon.info")["epoch"], len(self.failed_calls())
        for number in (0, 1, epoch << 32 | 1, (epoch - 1) << 32 | 1):
            self.is_ignored(type=CAST_ENDED, status=1, number=number, body=error, times=50)
        self.assertEqual(len(self.failed_calls()), before)  # nor can it flood the events

    def test_end_of_a_call_that_is_no_cast(self):
        self.is_ignored(type=CAST_ENDED, status=1, number=(self.client.rpc("daemon.info")["epoch"] << 32) | 1, body="{}")

    def test_end_of_a_cast_twice(self):
        generation, before = self.client.info("bad")["generation"], len(self.failed_calls())
        self.client.rpc("sandbox.cast", id="bad", function="message", args={
            "type": CAST_ENDED, "generation": generation, "times": 20, "status": 1,
            "number": (self.client.rpc("daemon.info")["epoch"] << 32) | 1, "body": '{"code":"crashed","message":"\\u001b[2J"}'})
        self.assertEqual(self.client.call("bad", "ping"), {"sent": 20})
        failed = self.failed_calls()[before:]
        self.assertEqual(len(failed), 1, failed)  # its own failure, told once, in the words that hosts have
        self.assertEqual(failed[0]["code"], "module_error")
        self.assertNotIn("\x1b", failed[0]["message"])
        self.assertEqual(self.client.info("bad")["queue"]["running"], 0)
        self.unaffected()

    def test_type_zero(self):
        self.is_killed(lambda: self.forge(type=0), "type")

    def test_type_of_the_other_direction(self):
        self.is_killed(lambda: self.forge(type=CALL), "type")

    def test_no_message_at_all(self):
        self.is_killed(lambda: self.garbage(7))

    def test_a_message_of_one_byte(self):
        self.is_killed(lambda: self.garbage(1))

    def test_a_message_as_large_as_may_be(self):
        self.is_killed(lambda: self.garbage(65536))

    def test_a_message_larger_than_may_be(self):
        self.is_killed(lambda: self.garbage(70000))

    def garbage(self, size):
        try:
            self.client.call("bad", "garbage", bytes=size)
        except RpcError as e:
            self.assertEqual(e.code, "crashed")

    def test_an_empty_message_looks_like_the_end(self):
        """Zero bytes on SEQPACKET read as end of file: such a host is of no use and ends too."""
        pid = self.client.info("bad")["pid"]
        self.garbage(0)
        wait_for(lambda: self.client.info("bad")["pid"] not in (pid, None) and self.client.status("bad") == "running", "the next generation")
        self.unaffected()

    def test_wrong_generation(self):
        generation = self.client.info("bad")["generation"]
        for other in (0, generation - 1, generation + 1, "18446744073709551615"):
            self.is_ignored(generation=other, body='{"a":\n1}')

    def test_second_report(self):
        self.is_ignored(type=REPORT, body='[{"protection":"everything","asked":"yes","got":"yes","by":"magic","why":""}]')

    def test_second_ready(self):
        self.is_ignored(type=READY, body='{"module":{"name":"other","state_version":7},"load_us":1}')

    def test_failed_after_ready(self):
        self.is_ignored(type=FAILED, body='{"code":"start_failed","message":"not really"}')

    def test_replies_nobody_waits_for(self):
        """Those to an earlier control's calls are dropped (a host repeats them after a take-over); others end the host."""
        for number in (0, 1):
            self.is_ignored(number=number, sequence=1)
        for number in (1 << 33, "18446744073709551615"):
            self.is_killed(lambda: self.forge(number=number, sequence=1), "nobody asked for")

    def test_words_of_a_reload_that_is_not(self):
        for kind in (STATUS, REHEARSED, QUIESCED, SAVED, LOADED, COMMITTED, UNLOADED, ABORTED, STOPPED):
            self.is_ignored(type=kind, number=2, value0=1 << 40, body="{}")

    def test_death_note_of_the_living(self):
        self.is_ignored(type=DEATH, body="too short to be one")
        # one of the right size that says nothing true is kept as text beside the kernel's own status
        self.forge(type=DEATH, body="A" * 348)
        pid = self.client.info("bad")["pid"]
        self.kill_host("bad")
        wait_for(lambda: self.client.info("bad")["pid"] not in (pid, None), "the next generation")
        self.assertEqual(self.client.info("bad")["last_exit"]["reason"], "signal SIGKILL")

    def test_a_sequence_far_ahead(self):
        """Acknowledging what was never sent hurts the host alone."""
        self.forge(sequence="18446744073709551615")
        wait_for(lambda: self.client.status("bad") in ("running", "backoff"), "the sandbox to be there")
        self.unaffected()

    def test_forged_answer_to_ones_own_call(self):
        """It may answer its own callers as it likes; the true reply that follows is one that nobody asked for, and ends it."""
        epoch = self.client.rpc("daemon.info")["epoch"]
        done = self.client.info("bad")["queue"]["done"]
        r = self.forge(number=(epoch << 32) + done + 1, sequence=done + 1, body='{"forged":true}')
        self.assertEqual(r, {"forged": True})
        self.assertIn("nobody asked for", self.wait_event("bad", "sandbox.killed")[-1]["why"])
        wait_for(lambda: self.client.status("bad") in ("running", "failed"), "what follows")
        self.unaffected()

    def test_reload_with_forged_steps(self):
        """While a reload is at work its words come from the module: nothing but this sandbox may suffer."""
        c = self.daemon.client()
        self.addCleanup(c.close)
        c.request("sandbox.call", id="bad", function="message",
                  args={"type": QUIESCED, "generation": self.client.info("bad")["generation"], "times": 2000})
        try:
            c.reload("bad", module("tally"))
        except RpcError as e:
            self.assertIn(e.code, ("reload_failed", "state_mismatch", "bad_module", "state_lost", "busy", "wrong_state"))
        wait_for(lambda: self.client.status("bad") in ("running", "failed"), "the sandbox to be there")
        self.unaffected()

    def test_a_flood(self):
        """Ten thousand messages that mean nothing: others are served meanwhile."""
        c = self.daemon.client()
        self.addCleanup(c.close)
        c.request("sandbox.call", id="bad", function="message",
                  args={"type": STOPPED, "generation": self.client.info("bad")["generation"], "times": 10000})
        for _ in range(50):
            self.client.call("good", "increment")
        self.unaffected()


if __name__ == "__main__":
    main()
