#!/usr/bin/env python3
"""The verbs of skuactl for data, over a cluster of one node.   data_verbs_test.py --bin build/release/bin"""

import argparse
import json
import os
import pty
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cluster"))
import cluster_test
from cluster_test import Cluster

LIMIT_S = 60
# Bytes that are no text, as key_text.h writes them.
BINARY_KEY = "\\x00\\xff\\\\"
BINARY_VALUE = bytes(range(256)) + b"\r\n\x1b[31m"


class DataVerbsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(1)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        """A table of its own for each test."""
        self.table = self._testMethodName.lower().replace("_", "-")[:40]
        self.ok("table", "create", self.table, "--shards", "3")

    def words(self, *arguments):
        return [f"{cluster_test.BIN}/skuactl", "--control-address", self.cluster.control_address, "--timeout", "20s", *arguments]

    def ctl(self, *arguments, **options):
        """In bytes."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run(self.words(*arguments), stderr=subprocess.PIPE, timeout=LIMIT_S, check=False, **options)

    def ok(self, *arguments, **options):
        done = self.ctl(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def fails(self, code, words, *arguments, lines=1, **options):
        done = self.ctl(*arguments, **options)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, said)
        self.assertEqual(said.count("\n"), lines, said)
        for word in words:
            self.assertIn(word, said)
        return done

    def path(self, name):
        return os.path.join(self.cluster.directory, f"{self.table}-{name}")

    # --- put, get

    def test_Put_TakesStandardInputByteForByte(self):
        for command, value in (("put", BINARY_VALUE), ("put", b""), ("append", b"-"), ("put", b"\n")):
            self.ok(command, self.table, "k", "-", input=value)
            self.ok("get", self.table, "k", "--file", self.path("copy"))
            with open(self.path("copy"), "rb") as copy:
                self.assertEqual(copy.read(), value)

    def test_Put_RefusesWhatIsTooMuch(self):
        self.fails(2, ["16,777,217 bytes"], "put", self.table, "k", "-", input=bytes((16 << 20) + 1))
        with open("/dev/zero", "rb") as zeros:
            self.fails(2, ["standard input is too large"], "put", self.table, "k", "-", stdin=zeros)
        self.fails(2, ["VALUE or --file"], "put", self.table, "k", "-", "--file", "-", input=b"")
        script = f"put {self.table} k -\nget {self.table} k\n".encode()
        self.fails(2, ["cannot read standard input", "line 1 failed"], "shell", input=script, lines=2)

    def test_Get_WritesBytesUnlessToATerminal(self):
        self.ok("put", self.table, "k", "-", input=BINARY_VALUE)
        self.assertEqual(self.ok("get", self.table, "k"), BINARY_VALUE + b"\n")
        self.assertEqual(self.ok("get", self.table, "k", "--file", "-"), BINARY_VALUE)
        ours, theirs = pty.openpty()
        self.ok("get", self.table, "k", stdout=theirs)
        os.close(theirs)
        shown = os.read(ours, 1 << 16)
        os.close(ours)
        self.assertIn(b"\\x00\\x01", shown)
        self.assertNotIn(b"\x1b", shown)

    def test_Get_TellsTheVersion(self):
        version = json.loads(self.ok("--output", "json", "put", self.table, "k", "v"))["version"]
        self.assertEqual(self.ok("get", self.table, "k", "--with-version").decode(), f"version {version}\nv\n")
        self.assertEqual(self.ok("get", self.table, "k", "--with-version", "--file", self.path("f")).decode(), f"version {version}\n")
        self.fails(2, ["--with-version", "leave one out"], "get", self.table, "k", "--with-version", "--file", "-")

    # --- Several keys

    def test_MgetAndExists_NameWhatIsAbsent(self):
        self.ok("put", self.table, BINARY_KEY, "one\ttwo")
        self.ok("put", self.table, "empty", "")
        self.assertEqual(self.ok("mget", self.table, "empty", BINARY_KEY, "empty").decode(),
                         f"empty\t\n{BINARY_KEY}\tone\\x09two\nempty\t\n")
        done = self.fails(1, ["NOT_FOUND", "has no key 'no', 'nor this'"], "mget", self.table, "no", "empty", "nor this")
        self.assertEqual(done.stdout, b"empty\t\n")
        found = json.loads(self.ctl("--output", "json", "mget", self.table, "empty", "no").stdout)
        self.assertEqual([row["key"] for row in found["rows"]], ["empty"])
        self.assertEqual(found["absent"], [{"key": "no", "key_encoding": "utf-8"}])

        self.assertEqual(self.ok("exists", self.table, "empty").decode(), "empty\tpresent\n")
        done = self.fails(1, ["has no key 'no'"], "exists", self.table, "empty", "no")
        self.assertEqual(done.stdout.decode(), "empty\tpresent\nno\tabsent\n")
        found = json.loads(self.ctl("--output", "json", "exists", self.table, "empty", "no").stdout)
        self.assertEqual([(entry["key"], entry["exists"]) for entry in found], [("empty", True), ("no", False)])

    def test_MgetAndExists_TakeMoreKeysThanOneRequest(self):
        self.ok("put", self.table, "k7", "v")
        keys = [f"k{number}" for number in range(2500)]
        done = self.fails(1, ["'k0', 'k1'", "and 2,491 more keys"], "exists", self.table, *keys)
        self.assertEqual(done.stdout.count(b"\n"), 2500)
        self.assertIn(b"k7\tpresent\n", done.stdout)

    def test_Verbs_RefuseWhatIsNotThere(self):
        for command in (["mget", "nowhere", "k"], ["exists", "nowhere", "k"], ["count", "nowhere"]):
            done = self.fails(1, ["NOT_FOUND", "nowhere"], *command)
            self.assertEqual(done.stdout, b"")
        for command in ("mget", "exists"):
            self.fails(2, ["KEY"], command, self.table)
            self.fails(2, ["no escape"], command, self.table, "k", "\\z")
            self.fails(2, ["empty"], command, self.table, "k", "")

    # --- Prefixes

    def test_ScanAndCount_TakeAPrefix(self):
        keys = ["a", "b", "b\\x00", "b\\xfe", "b\\xff", "b\\xff\\xff", "c", "\\xff", "\\xff\\xff"]
        for key in keys:
            self.ok("put", self.table, key, "v")
        for prefix, found in (("b", keys[1:6]), ("b\\xff", keys[4:6]), ("\\xff", keys[7:]), ("d", [])):
            rows = self.ok("scan", self.table, "--prefix", prefix).decode().splitlines()
            self.assertEqual([row.split("\t")[0] for row in rows], found)
            self.assertEqual(self.ok("count", self.table, "--prefix", prefix).decode(), f"{len(found)}\n")
        self.assertEqual(json.loads(self.ok("--output", "json", "count", self.table)), {"count": len(keys)})
        rows = self.ctl("scan", self.table, "--prefix", "b", "--limit", "2")
        self.assertIn(b"--start='b\\x00\\x00'", rows.stderr)
        rows = self.ok("scan", self.table, "--prefix", "b", "--start", "b\\x00\\x00").decode().splitlines()
        self.assertEqual([row.split("\t")[0] for row in rows], keys[3:6])
        self.fails(2, ["--prefix and --end"], "scan", self.table, "--prefix", "b", "--end", "c")
        self.fails(2, ["no key that begins with --prefix"], "scan", self.table, "--prefix", "b", "--start", "c")
        self.fails(2, ["1,025 bytes"], "count", self.table, "--prefix", "p" * 1025)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parsed, rest = parser.parse_known_args()
    cluster_test.BIN = os.path.abspath(parsed.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
