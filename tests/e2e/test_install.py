#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make install: what lies where, that it runs from there, that authors can build with it, and that uninstall leaves nothing."""
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

from harness import BUILD, TOP, Daemon, main

PROGRAMS = {"sbin/sandboxd", "bin/sandboxctl", "libexec/sandboxd/sandboxd-control", "libexec/sandboxd/sandbox-host"}
MANUALS = {"share/man/man1/sandboxctl.1", "share/man/man8/sandboxd.8", "share/man/man5/sandboxd.conf.5", "share/man/man3/sandbox_module.3"}
OTHERS = {"include/sandbox_module.h", "lib/pkgconfig/sandbox-module.pc", "lib/systemd/system/sandboxd.service",
          "share/bash-completion/completions/sandboxctl", "share/doc/sandboxd/README.md", "share/doc/sandboxd/MODULES.md",
          "share/doc/sandboxd/examples/counter/counter_v1.c"}


def environment(**more):
    """Without what an outer make would tell an inner one."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "SANDBOXD_")) and k not in ("PREFIX", "DESTDIR")}
    env.update(more)
    return env


def files_below(top):
    return {os.path.relpath(os.path.join(d, f), top) for d, _, fs in os.walk(top) for f in fs}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Installed(Daemon):
    """The daemon as it was installed, in place of the one in the build folder."""

    def __init__(self, prefix):
        self.prefix = prefix
        super().__init__()

    def argv(self):
        return [os.path.join(self.prefix, "sbin/sandboxd"), *self.options]


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sbxi")
        os.chmod(cls.folder, 0o755)
        # What is compiled already is taken over; only what has the paths in it is compiled again.
        cls.build = os.path.join(cls.folder, "build")
        os.mkdir(cls.build)
        for name in os.listdir(BUILD):
            if name == "o" or name.endswith(".a") or name in {os.path.basename(p) for p in PROGRAMS}:
                subprocess.run(["cp", "-a", os.path.join(BUILD, name), cls.build], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def make(self, *args, **kwargs):
        r = subprocess.run(["make", "-C", TOP, "BUILD=" + self.build, *args], env=environment(), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=280, check=False, **kwargs)
        self.assertEqual(r.returncode, 0, r.stdout.decode(errors="replace")[-4000:])

    def run_ok(self, *argv, **kwargs):
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False, **kwargs)
        self.assertEqual(r.returncode, 0, (argv, r.stdout, r.stderr))
        return r.stdout.decode()

    def test_staged_for_a_package(self):
        stage = os.path.join(self.folder, "stage")
        self.make("install", "PREFIX=/usr", "DESTDIR=" + stage)
        found = files_below(stage)
        self.assertEqual({f for f in found if not f.startswith("usr/")}, set())
        self.assertEqual({"usr/" + f for f in PROGRAMS | MANUALS | OTHERS} - found, set())
        for f in found:
            mode = stat.S_IMODE(os.stat(os.path.join(stage, f)).st_mode)
            self.assertEqual(mode, 0o755 if f[len("usr/"):] in PROGRAMS else 0o644, f)
        # nothing knows of the folder that it was staged in
        self.assertIn("ExecReload=/usr/bin/sandboxctl upgrade\n", read(os.path.join(stage, "usr/lib/systemd/system/sandboxd.service")))
        self.assertIn("ExecStart=/usr/sbin/sandboxd\n", read(os.path.join(stage, "usr/lib/systemd/system/sandboxd.service")))
        flags = self.run_ok("pkg-config", "--cflags", "sandbox-module", env=environment(
            PKG_CONFIG_PATH=os.path.join(stage, "usr/lib/pkgconfig"), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1"))
        self.assertIn("-I/usr/include ", flags)
        for f in PROGRAMS:
            with open(os.path.join(stage, "usr", f), "rb") as program:
                self.assertNotIn(stage.encode(), program.read(), f)
        mine = os.path.join(stage, "usr/share/doc/sandboxd/examples/mine.c")
        with open(mine, "w"):
            pass
        self.make("uninstall", "PREFIX=/usr", "DESTDIR=" + stage)
        self.assertEqual(files_below(stage), {os.path.relpath(mine, stage)})  # what others put there stays
        os.unlink(mine)
        self.make("uninstall", "PREFIX=/usr", "DESTDIR=" + stage)
        self.assertFalse(os.path.exists(os.path.dirname(os.path.dirname(mine))))
        self.assertFalse(os.path.exists(os.path.join(stage, "usr/libexec/sandboxd")))

    def test_runs_from_where_it_was_installed(self):
        prefix = os.path.join(self.folder, "usr")
        self.make("install", "PREFIX=" + prefix)
        work = os.path.join(self.folder, "work")
        os.mkdir(work)
        sandboxctl = os.path.join(prefix, "bin/sandboxctl")
        env = environment(PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"))
        self.run_ok(sandboxctl, "new", "greeter", cwd=work)
        self.run_ok("make", "-C", os.path.join(work, "greeter"), env=dict(env, CFLAGS="-O2 -Wall -Wextra -Werror"))
        flags = self.run_ok("pkg-config", "--cflags", "sandbox-module", env=env).split()
        example = os.path.join(prefix, "share/doc/sandboxd/examples/counter/counter_v1.c")
        self.run_ok("cc", *flags, example, "-o", os.path.join(work, "counter.so"))
        daemon = Installed(prefix)
        try:
            def ctl(*args, **kwargs):
                return self.run_ok(sandboxctl, "--socket", daemon.socket, *args, **kwargs)

            ctl("create", "c", os.path.join(work, "counter.so"))
            self.assertEqual(ctl("call", "c", "increment", "by=5"), '{"count":5}\n')
            ctl("create", "g", os.path.join(work, "greeter/greeter.c"), "--config", '{"greeting":"Hi"}')  # the header is found too
            self.assertEqual(ctl("call", "g", "greet", "name=you"), '{"text":"Hi, you!","count":1}\n')
            ctl("create", "greeter", "greeter/greeter.c", cwd=work)
            self.assertEqual(ctl("call", "greeter", "greet"), '{"text":"Hello, world!","count":1}\n')
            ctl("reload", "g", os.path.join(work, "greeter/greeter.so"))
            self.assertEqual(ctl("call", "g", "greet", "name=you"), '{"text":"Hi, you!","count":2}\n')
            pids = [p for p in os.listdir("/proc") if p.isdigit() and os.path.exists("/proc/%s/exe" % p)]
            programs = set()
            for p in pids:
                try:
                    programs.add(os.readlink("/proc/%s/exe" % p))
                except OSError:
                    continue
            if os.geteuid() == 0:
                for f in ("sbin/sandboxd", "libexec/sandboxd/sandboxd-control", "libexec/sandboxd/sandbox-host"):
                    self.assertIn(os.path.join(prefix, f), programs)
            daemon.look()
            self.assertEqual(daemon.terminate(), 0)
        finally:
            self.assertEqual(daemon.close(), [])
        self.make("uninstall", "PREFIX=" + prefix)
        self.assertEqual(files_below(prefix), set())


if __name__ == "__main__":
    main()
