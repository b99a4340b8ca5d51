#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bytes that no client of ours would send: each is refused with its own error, and the connection or at least the daemon serves on."""
import base64
import json
import select
import socket
import unittest

from harness import (COUNTER1, DEADLINE_S, Background, Case, Client, Closed, error_code, main, module, wait_for)

PING = b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","params":{}}'


def request(method, params, **more):
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params, **more}).encode()


class Requests(Case):
    def refuses(self, line, code):
        """The line is refused with this code, and the next one is served."""
        reply = self.client.raw(line)
        self.assertIn("error", reply, line[:200])
        self.assertEqual(error_code(reply), code, reply)
        self.assertTrue(self.client.raw(PING)["result"]["pong"])
        return reply

    def test_unknown_method_names_the_nearest(self):
        reply = self.refuses(request("sandbox.lisst", {}), "unknown_method")
        self.assertEqual(reply["error"]["data"]["nearest"], "sandbox.list")
        self.assertEqual(reply["error"]["code"], -32601)
        self.assertEqual(reply["id"], 7)
        reply = self.refuses(request("nothing.at_all_like_this", {}), "unknown_method")
        self.assertNotIn("nearest", reply["error"]["data"])

    def test_unknown_parameter_names_the_nearest(self):
        line = request("sandbox.call", {"id": "a", "function": "get", "timeout_m": 5})
        reply = self.refuses(line, "unknown_param")
        data = reply["error"]["data"]
        self.assertEqual(data["nearest"], "timeout_ms")
        self.assertIn("timeout_m", reply["error"]["message"])
        self.assertEqual(line[data["offset"]:data["offset"] + 11].strip(b'"'), b"timeout_m")

    def test_missing_and_bad_parameters(self):
        self.refuses(request("sandbox.info", {}), "missing_param")
        self.refuses(request("sandbox.call", {"id": "a"}), "missing_param")
        for bad in (0, -1, 1.5, "x", None, True, [], 1 << 40, 86400001):
            self.refuses(request("sandbox.call", {"id": "a", "function": "get", "timeout_ms": bad}), "bad_param")
        self.refuses(request("sandbox.stop", {"id": "a", "state": "Keep"}), "bad_param")
        self.refuses(request("sandbox.create", {"id": "a", "object": "0" * 63}), "bad_param")
        self.refuses(request("sandbox.create", {"id": "a", "object": "G" * 64}), "bad_param")
        self.refuses(request("sandbox.create", {"id": "a", "source": "0" * 64, "source_name": "../x.c"}), "bad_param")
        self.refuses(request("sandbox.create", {"id": "a", "object": "0" * 64, "strict": 1}), "bad_param")
        self.refuses(request("sandbox.create", {"id": "a", "object": "0" * 64, "limits": {"max_memry": 1}}), "unknown_param")
        self.refuses(request("sandbox.create", {"id": "a", "object": "0" * 64, "config": [1]}), "bad_param")
        self.refuses(request("sandbox.create", {"id": "a", "object": "0" * 64}), "object_not_found")
        self.refuses(request("event.read", {"since_seq": "yesterday"}), "bad_param")

    def test_duplicate_key_has_its_offset(self):
        line = b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","params":{},"id":2}'
        reply = self.refuses(line, "duplicate_key")
        self.assertEqual(reply["error"]["data"]["offset"], line.rindex(b'"id"'))
        self.refuses(b'{"jsonrpc":"2.0","id":1,"method":"sandbox.info","params":{"id":"a","id":"b"}}', "duplicate_key")
        self.refuses(b'{"jsonrpc":"2.0","id":1,"method":"sandbox.info","params":{"id":"a","\\u0069d":"b"}}', "duplicate_key")
        deep = b'{"jsonrpc":"2.0","id":1,"method":"sandbox.call","params":{"id":"a","function":"f","args":{"x":{"k":1,"k":1}}}}'
        self.refuses(deep, "duplicate_key")

    def test_bad_utf8(self):
        for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"):
            self.refuses(b'{"jsonrpc":"2.0","id":1,"method":"daemon.' + bad + b'","params":{}}', "bad_utf8")

    def test_nul_and_control_characters(self):
        self.refuses(b'{"jsonrpc":"2.0","id":1,"method":"daemon.\0ping","params":{}}', "parse_error")
        self.refuses(b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","params":{}}\0', "parse_error")
        self.refuses(b'{"jsonrpc":"2.0","id":1,"method":"daemon.\x01ping","params":{}}', "parse_error")
        for text in ("a\\u0000b", "\\u0000"):
            reply = self.client.raw(b'{"jsonrpc":"2.0","id":1,"method":"sandbox.info","params":{"id":"%s"}}' % text.encode())
            self.assertIn(error_code(reply), ("invalid_id", "parse_error", "bad_param"))

    def test_depth(self):
        def nested(n):  # the request and its params are two levels
            return b'{"jsonrpc":"2.0","id":1,"method":"sandbox.call","params":{"id":"a","function":"f","args":{"x":%s}}}' % (
                b"[" * n + b"]" * n)

        self.refuses(nested(65 - 3), "too_deep")
        self.refuses(nested(100000), "too_deep")
        self.refuses(nested(64 - 3), "not_found")  # 64 levels are read

    def test_numbers(self):
        for bad in (b"01", b"+1", b".5", b"1.", b"0x10", b"NaN", b"1" * 65, b"-"):
            reply = self.client.raw(b'{"jsonrpc":"2.0","id":1,"method":"log.read","params":{"id":"a","lines":%s}}' % bad)
            self.assertIn(error_code(reply), ("bad_number", "parse_error"), bad)

    def test_envelopes(self):
        for line, code in ((b"", None), (b"   ", None), (b"[]", "invalid_request"), (b"17", "invalid_request"), (b"{", "parse_error"),
                           (b'"ping"', "invalid_request"), (b"{}", "invalid_request"), (b"garbage", "parse_error"),
                           (b'{"jsonrpc":"1.0","id":1,"method":"daemon.ping"}', "invalid_request"),
                           (b'{"jsonrpc":"2.0","id":1,"method":17}', "invalid_request"),
                           (b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","params":[1]}', "bad_param"),
                           (b'{"jsonrpc":"2.0","id":{},"method":"daemon.ping"}', "invalid_request"),
                           (PING + b"x", "parse_error"), (PING + PING, "parse_error")):
            if code is None:  # an empty line may be passed over or refused; it must not stop the next one
                self.client.send(line + b"\n" + PING + b"\n")
                reply = json.loads(self.client.line())
                if "error" in reply:
                    reply = json.loads(self.client.line())
                self.assertTrue(reply["result"]["pong"])
            else:
                self.refuses(line, code)

    def test_one_mebibyte_and_one_more(self):
        def padded(total):
            head, tail = b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","params":{}', b"}"
            return head + b" " * (total - len(head) - len(tail)) + tail

        self.assertTrue(self.client.raw(padded(1 << 20))["result"]["pong"])
        with self.daemon.client() as c:  # sent beside the reply, which may come before the end
            sender = Background(c.socket.sendall, padded((1 << 20) + 1) + b"\n")
            reply = json.loads(c.line())
            self.assertEqual(error_code(reply), "request_too_large")
            self.assertIsNone(reply["id"])
            sender.result()
        with self.daemon.client() as c:  # without an end: refused before its newline, if that ever comes
            def flood():
                try:
                    while True:
                        c.socket.sendall(b"x" * 65536)
                except OSError:
                    pass

            sender = Background(flood)
            self.assertEqual(error_code(json.loads(c.line())), "request_too_large")
            c.socket.shutdown(socket.SHUT_RDWR)
            sender.result()
        self.assert_healthy()

    def test_ids(self):
        for bad in ("../x", "", "a" * 64, "a\nb", "a\n", ".hidden", "-x", "a b", "a/b", "é", "..", "_a", "a\\b", "a%"):
            for method, more in (("sandbox.info", {}), ("sandbox.destroy", {}), ("sandbox.create", {"object": "0" * 64}),
                                 ("sandbox.call", {"function": "f"}), ("log.read", {}), ("version.list", {})):
                reply = self.client.raw(request(method, {"id": bad, **more}))
                self.assertEqual(error_code(reply), "invalid_id", (bad, method))
        for wrong in (17, None, True, {}, ["a"]):
            reply = self.client.raw(request("sandbox.info", {"id": wrong}))
            self.assertIn(error_code(reply), ("bad_param", "invalid_id"), wrong)
        for good in ("a" * 63, "0", "A.b_c-d", "a..b"):
            self.refuses(request("sandbox.info", {"id": good}), "not_found")

    def test_ids_from_the_command_line(self):
        for bad in ("../x", "", "a" * 64, "a\nb"):
            for verb in (["info"], ["destroy"], ["stop"], ["create", COUNTER1]):
                r = self.ctl(verb[0], bad, *verb[1:])
                self.assertEqual(r.status, 2, (verb, bad, r.err))
                self.assertIn("invalid_id", r.err)
                self.assertLessEqual(len(r.err.splitlines()), 3, "a newline of the id must not make lines: %r" % r.err)
                r = self.ctl(verb[0], bad, *verb[1:], "--json")
                self.assertEqual((r.status, r.json()["error"]["data"]["code"]), (2, "invalid_id"))

    def test_pipelining_and_batches(self):
        self.client.send(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"daemon.ping"}\n' % i for i in range(500)))
        self.assertEqual({json.loads(self.client.line())["id"] for _ in range(500)}, set(range(500)))
        batch = b'[{"jsonrpc":"2.0","id":1,"method":"daemon.ping"},{"jsonrpc":"2.0","id":2,"method":"x.y"},3,' \
                b'{"jsonrpc":"2.0","method":"daemon.ping"}]'
        replies = self.client.raw(batch)
        self.assertEqual(len(replies), 3)  # none for the notification
        self.assertEqual({r["id"]: "result" in r for r in replies}, {1: True, 2: False, None: False})
        self.client.send(b'{"jsonrpc":"2.0","method":"daemon.ping"}\n')  # a notification
        self.assertTrue(self.client.raw(PING)["result"]["pong"])

    def test_one_byte_at_a_time(self):
        for i in range(len(PING)):
            self.client.send(PING[i:i + 1])
        self.client.send(b"\r\n")
        self.assertTrue(json.loads(self.client.line())["result"]["pong"])

    def test_shut_down_for_writing_still_gets_replies(self):
        with self.daemon.client() as c:
            c.send(PING + b"\n" + PING + b"\n")
            c.socket.shutdown(socket.SHUT_WR)
            self.assertTrue(json.loads(c.line())["result"]["pong"])
            self.assertTrue(json.loads(c.line())["result"]["pong"])
            with self.assertRaises(Closed):
                c.line()


class Calls(Case):
    def setUp(self):
        super().setUp()
        self.client.create("a", module("tally"))

    def test_argument_names_and_types(self):
        c = self.client
        e = self.refused("bad_argument", c.call, "a", "increment", byy=1)
        self.assertEqual(e.data.get("nearest"), "by", e.data)
        for wrong in ("x", "1.5", 1.5, True, None, [1], {"a": 1}, str(1 << 63), str(-(1 << 63) - 1), 1e300):
            self.refused("bad_argument", c.call, "a", "increment", by=wrong)
        self.refused("bad_number", c.call, "a", "increment", by=(1 << 53) + 1)  # beyond 2^53: as a decimal string
        self.refused("bad_argument", c.call, "a", "get", by=1)
        self.refused("bad_argument", c.call, "a", "say")
        self.refused("bad_argument", c.call, "a", "say", text=5)
        self.refused("bad_param", c.rpc, "sandbox.call", id="a", function="get", args=[1])
        e = self.refused("unknown_function", c.call, "a", "incremen")
        self.assertIn("increment", str(e.error))
        for name in ("", "a b", "../x", "f" * 64, "1f"):
            with self.assertRaises(Exception) as caught:
                c.call("a", name)
            self.assertIn(caught.exception.code, ("bad_param", "unknown_function"), name)
        self.assertEqual(c.call("a", "get"), {"count": 0})
        r = self.ctl("call", "a", "increment", "by=x")
        self.assertEqual(r.status, 2, r.err)
        self.assertIn("bad_argument", r.err)

    def test_big_integers_cross_as_strings(self):
        c = self.client
        self.assertEqual(c.call("a", "increment", by=(1 << 53) - 1), {"count": (1 << 53) - 1})
        r = self.ctl("call", "a", "increment", "by=%d" % (1 << 60))
        self.assertEqual(r.status, 0, r.err)
        self.assertEqual(json.loads(r.out), {"count": str((1 << 60) + (1 << 53) - 1)})

    def test_replies_with_control_characters(self):
        c = self.client
        c.create("raw", module("raw_newline"))
        text = base64.b64decode(c.call("raw", "text")["text"]["$bytes"])  # it isn't UTF-8
        self.assertTrue(text.startswith(b"one\ntwo\r\n\t\x1b[31mred"), text)
        self.assertEqual(list(c.call("raw", "key")), ["a\nb\"c"])
        e = self.refused("module_error", c.call, "raw", "fail")
        self.assertNotIn("\n", e.error["message"])
        self.assertNotIn("\x1b", e.error["message"])
        c.call("raw", "log")
        wait_for(lambda: "one" in c.log_text("raw"), "the line")
        for line in c.rpc("log.read", id="raw")["lines"]:
            self.assertNotIn("\n", line["text"])
            self.assertNotEqual(line["level"], "error", line)  # the module's own "<3>" is text
        r = self.ctl("logs", "raw")
        self.assertNotIn("\x1b", r.out)

    def test_close_in_mid_reply(self):
        """A client that goes while megabytes of its replies are on their way hurts nobody."""
        self.client.create("bag", module("big_reply"))
        for _ in range(5):
            c = self.daemon.client()
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(8):  # together below what a connection may leave unread
                c.request("sandbox.call", id="bag", function="reply", args={"bytes": 900000})
            select.select([c.socket], [], [], DEADLINE_S)
            self.assertTrue(c.socket.recv(10))
            c.close()
        self.assertEqual(len(self.client.call("bag", "reply", bytes=900000)["text"]), 900000)
        wait_for(lambda: self.client.info("bag")["queue"]["running"] + self.client.info("bag")["queue"]["waiting"] == 0, "an empty queue")
        self.assert_healthy()

    def test_a_client_that_never_reads_is_closed(self):
        self.client.create("bag", module("big_reply"))
        with self.daemon.client() as c:
            def fill():
                try:
                    for _ in range(60):
                        c.request("sandbox.call", id="bag", function="reply", args={"bytes": 1000000})
                except OSError:
                    pass

            Background(fill)
            wait_for(lambda: self.client.info("bag")["queue"]["done"] >= 8, "eight replies that nobody reads")
            self.assertEqual(self.client.call("a", "get"), {"count": 0})  # others are served meanwhile
            c.socket.shutdown(socket.SHUT_RDWR)
        self.assert_healthy()

    def test_too_large_replies_and_arguments(self):
        self.client.create("bag", module("big_reply"))
        self.refused("reply_too_large", self.client.call, "bag", "reply", bytes=(1 << 20) + 1)
        self.assertEqual(self.client.call("bag", "length", text="x" * 900000), {"bytes": 900000})

    def test_calls_of_a_gone_client(self):
        """What has begun finishes; what waits is withdrawn."""
        self.client.create("s", module("sleeper"))
        c, _ = self.start_call("s", "sleep", ms=300)
        for _ in range(5):
            c.request("sandbox.call", id="s", function="sleep", args={"ms": 1})
        c.close()
        wait_for(lambda: sum(self.client.info("s")["queue"][k] for k in ("running", "waiting")) == 0, "an empty queue")
        self.assertGreaterEqual(self.client.call("s", "sleep", ms=0)["naps"], 2)


class Uploads(Case):
    def put(self, **params):
        return self.client.rpc("object.put", **params)

    def test_bad_chunks(self):
        self.refused("bad_param", self.put, upload="u", offset=0, data="not base64!")
        self.refused("bad_param", self.put, upload="u", offset=5, data="AAAA")
        self.refused("bad_param", self.put, upload="u", offset=-1, data="AAAA")
        self.assertEqual(self.put(upload="v", offset=0, data="AAAA")["received"], 3)
        self.refused("bad_param", self.put, upload="v", offset=2, data="AAAA")
        self.refused("invalid_id", self.put, upload="../v", offset=0, data="AAAA")

    def test_at_most_four_open(self):
        with self.daemon.client() as c:
            for i in range(4):
                c.rpc("object.put", upload="u%d" % i, offset=0, data="AAAA")
            self.refused("limit_exceeded", c.rpc, "object.put", upload="u4", offset=0, data="AAAA")

    def test_uploads_are_of_their_connection(self):
        with self.daemon.client() as other:
            sha = other.put(b"some bytes")
            self.refused("object_not_found", self.client.rpc, "sandbox.create", id="a", object=sha)

    def test_empty_object(self):
        self.refused("bad_image", self.client.create, "a", b"")


class Connections(Case):
    def test_caps_per_user(self):
        """The 257th connection of one user is refused or closed, and those before it serve on."""
        held = []
        try:
            for _ in range(300):
                try:
                    held.append(Client(self.daemon.socket, timeout=5))
                except OSError:
                    break
            served = 0
            for c in held:
                try:
                    reply = c.raw(PING)
                    served += "result" in reply
                    if "error" in reply:
                        self.assertEqual(error_code(reply), "limit_exceeded", reply)
                except (Closed, OSError):
                    pass
            self.assertGreaterEqual(served, 200)
            self.assertLessEqual(served, 256)
        finally:
            for c in held:
                c.close()
        wait_for(self.can_ping, "room for a connection")

    def can_ping(self):
        try:
            with self.daemon.client() as c:
                return "result" in c.raw(PING)
        except (Closed, OSError):
            return False


if __name__ == "__main__":
    main()
