#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Man pages and MODULES.md against what the programs say of themselves, both ways: nothing is left out, nothing is made up."""
import os
import re
import subprocess
import tempfile
import unittest

from harness import BUILD, TOP, main

GLOBAL = {"--socket", "--json", "--timeout", "--quiet", "--version", "--help"}
INTERNAL = {"sbx_detail", "sbx_dummy"}  # of the header: not for authors


def text(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as f:
        return f.read()


def page(name):
    return text("docs/man", name + ".scd")


def run(*argv):
    r = subprocess.run([os.path.join(BUILD, argv[0]), *argv[1:]], stdout=subprocess.PIPE, check=True, timeout=60)
    return r.stdout.decode()


def public_names():
    """What the header defines for others: names that end in _ are its own."""
    header = re.sub(r"/\*.*?\*/", "", text("proto/sandbox_module.h"), flags=re.S)
    names = set(re.findall(r"\b(?:SBX|sbx)_\w*", header)) - INTERNAL
    return {n for n in names if not n.endswith("_") and not re.search(r"_sbx_|^SBX_SAYS_", n)}


def described_keys(page_text):
    """What begins a paragraph in sandboxd.conf(5)."""
    return {k for line in page_text.splitlines() if line.startswith("*") for k in re.findall(r"\*([a-z_]+)\*", line.split(" = ")[0])}


class Docs(unittest.TestCase):
    def test_every_verb_and_option_of_sandboxctl(self):
        doc = page("sandboxctl.1")
        known = set(GLOBAL)
        verbs = run("sandboxctl", "help", "--names").split()
        for verb in verbs:
            self.assertRegex(doc, r"(?m)^(\*[\w-]+\*, )*\*%s\*" % verb, "the verb %s isn't described" % verb)
            known |= {line.split("=")[0] for line in run("sandboxctl", "help", "--names", verb).split()}
        named = set(re.findall(r"\*(--[a-z][a-z-]*)\*", doc))
        self.assertEqual(known - named, set(), "options that sandboxctl(1) lacks")
        self.assertEqual(named - known, set(), "options that sandboxctl hasn't")

    def test_every_error_beside_its_exit_status(self):
        help_text, doc = run("sandboxctl", "help"), page("sandboxctl.1")
        said = re.split(r"(?m)^  (\d)  ", help_text[help_text.index("Exit status"):])
        written = re.split(r"(?m)^\*(\d)\*$", doc[doc.index("# EXIT STATUS"):doc.index("# ENVIRONMENT")])
        self.assertEqual(said[1::2], written[1::2])
        for status, codes, words in zip(said[1::2], said[2::2], written[2::2]):
            codes = set(codes.split("\n", 1)[1].split())
            self.assertEqual(codes - set(re.findall(r"[a-z0-9_]+", words)), set(), "exit status %s" % status)

    def test_every_option_and_key_of_sandboxd(self):
        help_text, doc, conf = run("sandboxd", "--help"), page("sandboxd.8"), page("sandboxd.conf.5")
        options = set(re.findall(r"(?m)^  (--[a-z-]+)", help_text))
        self.assertTrue(options)
        self.assertEqual(options, set(re.findall(r"\*(--[a-z][a-z-]*)\*", doc)))
        source = text("proto/config.c")
        keys = set(re.findall(r"(?m)^\tKEY\((\w+),", source)) | set(re.findall(r'(?m)^\t\{ "(\w+)", KIND_', source))
        self.assertGreater(len(keys), 10)
        listed = set(re.findall(r"\w+", help_text[help_text.index("Keys:"):help_text.index("Signals:")]))
        self.assertEqual(keys - listed, set(), "keys that sandboxd --help lacks")
        of_config, of_profiles = conf.split("# EXAMPLE")[0].split("# PROFILES")
        described = described_keys(of_config)
        self.assertEqual(keys - described, set(), "keys that sandboxd.conf(5) lacks")
        self.assertEqual(described - keys, set(), "keys that there aren't")
        keys = set(re.findall(r'(?m)^\t\[KEY_\w+\] = "(\w+)",', text("proto/profile_file.c")))
        self.assertGreater(len(keys), 5)
        self.assertEqual(described_keys(of_profiles), keys, "keys of profiles")

    def test_every_public_name_of_the_header(self):
        names = public_names()
        self.assertIn("SBX_MODULE", names)
        self.assertIn("sbx_put_val", names)
        modules = set(re.findall(r"\b(?:SBX|sbx)_\w+", text("docs/MODULES.md")))
        self.assertEqual(names - modules, set(), "names that docs/MODULES.md lacks")
        for_tools = {n for n in names if re.match(r"SBX_[KMT]_|SBX_(MAGIC|ABI_|MAY_)|sbx_(host|item|module|field|schema|tag|kind)", n)}
        manual = set(re.findall(r"\b(?:SBX|sbx)_\w+", page("sandbox_module.3")))
        self.assertEqual(names - for_tools - manual, set(), "names that sandbox_module(3) lacks")
        header = set(re.findall(r"\b(?:SBX|sbx)_\w+", text("proto/sandbox_module.h")))
        written = {n for n in modules | manual if not n.endswith("_")}  # `sbx_put_...` stands for several
        self.assertEqual(written - header, set(), "names that the header hasn't")

    def test_the_abi_has_its_changelog(self):
        major, minor = (int(re.search(r"SBX_ABI_%s = (\d+)" % m, text("proto/sandbox_module.h"))[1]) for m in ("MAJOR", "MINOR"))
        for m in range(minor + 1):
            self.assertRegex(text("docs/MODULES.md"), r"(?m)^\| %d\.%d \|" % (major, m))

    def test_pages_can_be_made_and_read(self):
        for name in sorted(os.listdir(os.path.join(TOP, "docs/man"))):
            with self.subTest(name), tempfile.TemporaryFile() as out:
                r = subprocess.run(["scdoc"], input=text("docs/man", name).encode(), stdout=out, stderr=subprocess.PIPE, check=False, timeout=60)
                self.assertEqual((r.returncode, r.stderr), (0, b""))
                out.seek(0)
                lines = out.read().decode().splitlines()
                title = name.rsplit(".", 1)[0]
                self.assertTrue(any(line.startswith('.TH "%s" "%s"' % tuple(title.rsplit(".", 1))) for line in lines), lines[:8])

    def test_examples_in_the_docs_compile(self):
        """Each C block that has a module in it."""
        for where in ("docs/MODULES.md", "README.md", "docs/man/sandbox_module.3.scd"):
            blocks = [b for _, b in re.findall(r"(?ms)^```(\w*)$\n(.*?)^```$", text(where)) if "SBX_MODULE" in b]
            self.assertTrue(blocks, where)
            for block in blocks:
                with tempfile.TemporaryDirectory() as folder:
                    source = os.path.join(folder, "x.c")
                    with open(source, "w") as f:
                        f.write(block)
                    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-I",
                                    os.path.join(TOP, "proto"), source, "-o", os.path.join(folder, "x.so")], check=True, timeout=120)


if __name__ == "__main__":
    main()
