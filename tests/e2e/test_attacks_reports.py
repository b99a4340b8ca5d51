# SPDX-License-Identifier: MIT
"""Reports of what others ran into, about hosts: B10 (what leaks into children), B42 (bombs), B47 (no user namespaces), B49 (new calls of libc);
each as root's daemon and as an ordinary user's."""
import ctypes
import os
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "attacks"))
import world  # noqa: E402
from harness import IS_ROOT, LIBC, MULTIPLIER, OwnCase, RpcError, main, needs_root, wait_for  # noqa: E402

IGNORED = [signal.SIGPIPE, signal.SIGXFSZ]  # by the host itself: a write then fails, and its forked copies live through it
ROOT_AND_USER = [False, True] if IS_ROOT else [True]
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 4, 38, 22
NEW_USER = 0x10000000


class Reports(OwnCase):
    def own(self, rootless, **popen):
        daemon = world.AttackDaemon(rootless, **popen)
        self.daemons.append(daemon)
        return daemon

    def test_b10_nothing_leaks_into_hosts(self):
        for rootless in ROOT_AND_USER:
            out, end = os.pipe()

            def prepare(end=end):
                os.dup2(end, 9)
                signal.signal(signal.SIGPIPE, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMIN})

            daemon = self.own(rootless, preexec_fn=prepare, close_fds=False)
            os.close(end)
            for profile in ("high", "medium"):
                with daemon.client() as c:
                    c.create("look", world.attack_module("look"), profile=profile, persist=False)
                    found = c.call("look", "started_with")
                    c.destroy("look")
                self.assertEqual(found["descriptors"], [0, 1, 2, 3], profile)
                self.assertEqual(found["blocked"], [], profile)
                self.assertEqual(found["ignored"], IGNORED, profile)
            self.assertEqual(daemon.terminate(), 0, "SIGTERM was blocked when it was started")
            os.set_blocking(out, False)
            self.assertEqual(os.read(out, 1), b"", "somebody still holds the launcher's pipe")
            os.close(out)

    @needs_root("hosts refuse to be looked into by their own user")
    def test_b42_bombs_stay_in_their_sandbox(self):
        for rootless in ROOT_AND_USER:
            daemon = self.own(rootless)
            limits = {"max_processes": 40}
            for bomb, args in (("fork_storm", {"text": "bomb"}), ("threads", {"n": 1000})):
                with daemon.client() as c, daemon.client() as busy:
                    c.create("b", world.attack_module("look"), persist=False)
                    a = c.create("a", world.attack_module("bombs"), persist=False, limits=limits, shutdown_ms=1000)["pid"]
                    busy.request("sandbox.call", id="a", function=bomb, args=args)
                    namespace = os.readlink("/proc/%d/ns/pid" % a)
                    wait_for(lambda: self.tasks(namespace) >= 30, "the bomb to go off")
                    self.assertLessEqual(self.tasks(namespace), limits["max_processes"])
                    self.assertEqual(c.call("b", "ten_threads"), {"made": 10})
                    c.create("c", world.attack_module("look"), persist=False)
                    self.assertEqual(c.call("c", "ten_threads"), {"made": 10})
                    began = time.monotonic()
                    c.rpc("sandbox.stop", id="a")
                    self.assertLess(time.monotonic() - began, 1 + 1 * MULTIPLIER)
                    self.assertEqual(world.in_pid_namespace_of(namespace), [])
                    for sandbox in "abc":
                        c.destroy(sandbox)

    @staticmethod
    def tasks(namespace):
        return sum(len(world.quiet(os.listdir, "/proc/%d/task" % p, default=[])) for p in world.in_pid_namespace_of(namespace))

    def test_b49_new_calls_of_libc(self):
        for rootless in ROOT_AND_USER:
            daemon = self.own(rootless)
            for profile in ("high", "medium"):
                with daemon.client() as c:
                    pid = c.create("look", world.attack_module("look"), profile=profile, persist=False)["pid"]
                    self.assertEqual(c.call("look", "libc_calls")["broken"], [], profile)
                    self.assertNotEqual(c.call("look", "name_lookup")["ret"], None, profile)
                    self.assertEqual(c.call("look", "ten_threads"), {"made": 10}, profile)
                    self.assertEqual(c.info("look")["pid"], pid, "it died of one, and came back")
                    c.destroy("look")

    # ---- B47 ----

    def as_ordinary_user(self):
        if IS_ROOT:
            os.setgroups([])
            os.setresgid(world.ROOTLESS_UID, world.ROOTLESS_UID, world.ROOTLESS_UID)
            os.setresuid(world.ROOTLESS_UID, world.ROOTLESS_UID, world.ROOTLESS_UID)
            LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

    def no_more_namespaces(self):
        """In a user namespace in which no further one may be made: what user.max_user_namespaces = 0 does to a machine."""
        self.as_ordinary_user()
        uid, gid = os.geteuid(), os.getegid()
        if LIBC.unshare(NEW_USER) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (("setgroups", "deny"), ("gid_map", "%d %d 1" % (gid, gid)), ("uid_map", "%d %d 1" % (uid, uid))):
            with open("/proc/self/" + name, "w") as f:
                f.write(text)
        with open("/proc/sys/user/max_user_namespaces", "w") as f:
            f.write("0")

    def refused_by_filter(self):
        """unshare and clone with CLONE_NEWUSER are refused, clone3 isn't there: what a container's filter does."""
        self.as_ordinary_user()
        code = [(0x20, 0, 0, 0),          # the number
                (0x15, 5, 0, 272),        # unshare
                (0x15, 5, 0, 435),        # clone3
                (0x15, 0, 2, 56),         # clone
                (0x20, 0, 0, 16),         # its flags
                (0x45, 1, 0, NEW_USER),
                (0x06, 0, 0, 0x7FFF0000),
                (0x06, 0, 0, 0x00050001),  # EPERM
                (0x06, 0, 0, 0x00050026)]  # ENOSYS
        room = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
        program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(room))
        if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or LIBC.prctl(PR_SET_SECCOMP, 2, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")

    def check_without_user_namespaces(self, prepare, word):
        daemon = self.own(True, preexec_fn=prepare, user=None, group=None, extra_groups=None)
        with daemon.client() as c:
            c.create("plain", world.attack_module("look"), persist=False)
            self.assertEqual(c.call("plain", "ten_threads"), {"made": 10})
            rows = {r["protection"]: r for r in c.info("plain")["security"]}
            for name in ("user namespace", "pid namespace", "mount namespace", "own root"):
                self.assertEqual(rows[name]["got"], "none", name)
            self.assertIn(word, rows["user namespace"]["why"])
            with self.assertRaises(RpcError) as caught:
                c.create("strict", world.attack_module("look"), persist=False, strict=True)
            self.assertEqual(caught.exception.code, "strict_refused")
            self.assertIn("user namespace", str(caught.exception))
            self.assertEqual(c.ids(), ["plain"])

    def test_b47_no_user_namespaces_by_limit(self):
        self.check_without_user_namespaces(self.no_more_namespaces, "user.max_user_namespaces")

    def test_b47_no_user_namespaces_by_filter(self):
        self.check_without_user_namespaces(self.refused_by_filter, "seccomp profile")


if __name__ == "__main__":
    main()
