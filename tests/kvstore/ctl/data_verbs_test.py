#!/usr/bin/env python3
"""The verbs of skuactl for data, over a cluster of one node.   data_verbs_test.py --bin build/release/bin"""

import argparse
import array
import base64
import fcntl
import json
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cluster"))
import cluster_test
from cluster_test import Cluster, catches, wait_for

LIMIT_S = 60
# Bytes that are no text, as key_text.h writes them.
BINARY_KEY = "\\x00\\xff\\\\"
BINARY_VALUE = bytes(range(256)) + b"\r\n\x1b[31m"


def unread_bytes(pipe):
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


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
        # On a slow machine a command tells in between how far it is.
        told = [line for line in said.splitlines() if not re.match(r"skuactl: (imported|exported|counting)", line)]
        self.assertEqual(len(told), lines, said)
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

    def test_Fields_OfARow(self):
        self.ok("batch", self.table, input=b"patch ada name=Ada born=1815 \"tab=a\\tb\" --create\n")
        self.assertEqual(self.ok("fields", self.table, "ada").decode(), "name\tAda\nborn\t1815\ntab\ta\\x09b\n")
        self.assertEqual(self.ok("fields", self.table, "ada", "born", "name").decode(), "name\tAda\nborn\t1815\n")
        done = self.fails(1, ["NOT_FOUND", "the row has no field 'no one', 'nor'"], "fields", self.table, "ada", "no one", "born", "nor")
        self.assertEqual(done.stdout, b"born\t1815\n")
        self.fails(1, [f"table {self.table} has no key 'none'"], "fields", self.table, "none", "born")
        found = json.loads(self.ok("--output", "json", "fields", self.table, "ada", "born"))
        self.assertEqual(found["fields"], [{"field": "born", "field_encoding": "utf-8", "value": "1815", "encoding": "utf-8"}])
        self.assertGreater(found["version"], 0)
        self.ok("put", self.table, "text", "no row")
        for names in ([], ["born"]):
            self.fails(1, ["FAILED_PRECONDITION", "not a row of fields"], "fields", self.table, "text", *names)

    def test_MgetAndExists_TakeMoreKeysThanOneRequest(self):
        self.ok("put", self.table, "k7", "v")
        keys = [f"k{number}" for number in range(2500)]
        done = self.fails(1, ["'k0', 'k1'", "and 2,491 more keys"], "exists", self.table, *keys)
        self.assertEqual(done.stdout.count(b"\n"), 2500)
        self.assertIn(b"k7\tpresent\n", done.stdout)

    def test_Verbs_RefuseWhatIsNotThere(self):
        for command in (["mget", "nowhere", "k"], ["exists", "nowhere", "k"], ["count", "nowhere"], ["export", "nowhere"],
                        ["export", "nowhere", "--file", self.path("f")], ["import", "nowhere"]):
            done = self.fails(1, ["NOT_FOUND", "nowhere"], *command)
            self.assertEqual(done.stdout, b"")
        self.assertFalse(os.path.exists(self.path("f")), "nothing was exported")
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

    # --- export, import

    def export_lines(self, *arguments):
        return [json.loads(line) for line in self.ok("export", self.table, *arguments).splitlines()]

    def resume_of(self, stderr):
        """The words of the command that the last line on standard error says."""
        command = stderr.decode().splitlines()[-1].split("go on with ", 1)[1]
        words = shlex.split(command.removesuffix(" and the same input"))
        self.assertEqual(words[0], "skuactl")
        return [f"{cluster_test.BIN}/skuactl", *words[1:]]

    def test_Export_IsWhatImportTakes(self):
        self.ok("put", self.table, "text", "grün\n\"")
        self.ok("put", self.table, "empty", "", "--tag", "7")
        self.ok("put", self.table, BINARY_KEY, "-", input=BINARY_VALUE)
        self.ok("put", self.table, "brief", "v", "--ttl", "1h")
        self.ok("put", self.table, "large", "-", input=b"\x01" * (16 << 20))
        lines = self.export_lines()
        self.assertEqual([line.get("key") for line in lines], [None, "brief", "empty", "large", "text"])
        self.assertEqual(base64.b64decode(lines[0]["key_base64"]), b"\x00\xff\\")
        self.assertEqual(base64.b64decode(lines[0]["value_base64"]), BINARY_VALUE)
        self.assertEqual(lines[1], {"key": "brief", "value": "v"})
        self.assertEqual(lines[2], {"key": "empty", "value": "", "tag": 7})
        self.assertEqual(lines[4], {"key": "text", "value": "grün\n\""})
        timed = self.export_lines("--with-ttl")
        self.assertGreater(timed[1].pop("ttl_ms"), 3_000_000)
        self.assertEqual(timed, lines)

        file = self.path("copy")
        self.assertEqual(self.ok("export", self.table, "--with-ttl", "--file", file), b"exported 5 rows\n")
        other = self.table + "-2"
        self.ok("table", "create", other, "--shards", "2")
        self.assertEqual(json.loads(self.ok("--output", "json", "import", other, "--file", file)),
                         {"done": "imported", "rows": 5, "lines": 5})
        with open(file, "rb") as content:
            self.assertEqual(self.ok("import", other, stdin=content), b"imported 5 rows\n")
        self.assertEqual(self.ok("export", other), self.ok("export", self.table))
        self.assertGreater(json.loads(self.ok("--output", "json", "ttl", other, "brief"))["ttl_ms"], 3_000_000)

    def test_Export_TakesAPartAndGoesOn(self):
        for key in ("a", "b", "b\\xff", "c"):
            self.ok("put", self.table, key, "v")
        self.assertEqual(len(self.export_lines("--prefix", "b")), 2)
        self.assertEqual([line["key"] for line in self.export_lines("--after", "b\\xff")], ["c"])
        self.assertEqual(self.ok("export", self.table, "--after", "c"), b"")
        self.assertEqual(len(self.export_lines("--prefix", "b", "--after", "b")), 1)
        self.assertEqual(len(self.export_lines("--prefix", "b", "--after", "a")), 2)
        self.fails(2, ["--after is behind"], "export", self.table, "--prefix", "b", "--after", "c")
        self.fails(2, ["--after", "no escape"], "--raw-keys", "export", self.table, "--after", "\\z")
        file = self.path("f")
        self.ok("export", self.table, "--file", file, "--prefix", "a")
        self.ok("export", self.table, "--file", file, "--after", "a")
        with open(file, "rb") as content:
            self.assertEqual(content.read(), self.ok("export", self.table))
        self.ok("export", self.table, "--file", file, "--prefix", "a")
        with open(file, "ab") as content:
            self.assertEqual(content.tell(), len(b'{"key":"a","value":"v"}\n'))
            content.write(b'{"key":')
        self.fails(1, ["ends in the middle of a line", "go on with"], "export", self.table, "--file", file, "--after", "a", lines=2)
        self.fails(2, ["is a directory"], "export", self.table, "--file", self.cluster.directory)
        self.fails(2, ["No such file"], "export", self.table, "--file", "/no/such/directory/f")

    def test_Export_ThatFailsSaysHowToGoOn(self):
        rows = "".join(json.dumps({"key": f"k{number:05}", "value": "v" * 100}) + "\n" for number in range(25_000)).encode()
        self.ok("import", self.table, input=rows)
        everything = self.ok("export", self.table)
        file = self.path("f")
        # Room for the first page and not for the third.
        limit = len(everything) // 25 * 21

        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = self.fails(1, [f"{file}: File too large", "20,000 rows exported"], "export", self.table, "--file", file, lines=2,
                          preexec_fn=limit_files)
        with open(file, "rb") as content:
            self.assertEqual(content.read().count(b"\n"), 20_000)
        subprocess.run(self.resume_of(done.stderr), check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
        with open(file, "rb") as content:
            self.assertEqual(content.read(), everything)
        # Standard output that is a file is cut, too.
        with open(file, "wb") as output:
            done = self.fails(1, ["standard output: File too large", "20,000 rows exported; go on with"], "export", self.table,
                              lines=2, stdout=output, preexec_fn=limit_files)
        with open(file, "ab") as output:
            subprocess.run(self.resume_of(done.stderr), check=True, stdout=output, timeout=LIMIT_S)
        with open(file, "rb") as content:
            self.assertEqual(content.read(), everything)
        with open("/dev/full", "wb") as full:
            self.fails(1, ["standard output: No space left"], "export", self.table, stdout=full)
        # Ends when the reader does, without a word.
        with subprocess.Popen(self.words("export", self.table), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as export:
            export.stdout.read(10)
            export.stdout.close()
            self.assertEqual(export.stderr.read(), b"")
            self.assertEqual(export.wait(LIMIT_S), 1)

    def test_Import_StopsAtTheFirstBadLine(self):
        good = b'{"key":"a","value":"1"}\n'
        for bad, word in ((b"no json", "is no JSON"), (b'{"key":"b"}', "no \"value\""), (b'{"key":"b","value":"\xff"}', "no JSON"),
                          (b"[" * 1000, "no JSON object"), (b'{"key":"","value":""}', "key"), (b'{"key":"b","value":"v"', "no JSON"),
                          (b'{"key":"b","value":"' + b"v" * ((16 << 20) + 1) + b'"}', "16,777,217 bytes"),
                          (b" " * (102 << 20), "line 3: has more than 100,")):
            done = self.fails(1, ["INVALID_ARGUMENT: line 3: ", word, "the first 2 lines are stored", "--skip-lines=2"],
                              "import", self.table, input=good + b" \r\n" + bad + b"\n" + good, lines=2)
            self.assertEqual(done.stdout, b"")
        self.assertEqual(self.ok("count", self.table), b"1\n")
        file = self.path("f")
        with open(file, "wb") as out:
            out.write(good + b"bad\n")
        done = self.fails(1, ["the first line is stored"], "import", self.table, "--file", file, "--durability", "memory", lines=2)
        with open(file, "wb") as out:
            out.write(good + b'{"key":"b","value":"2"}')
        again = self.resume_of(done.stderr)
        self.assertIn("--durability=memory", again)
        resumed = subprocess.run(again, check=True, stdout=subprocess.PIPE, timeout=LIMIT_S)
        self.assertEqual(resumed.stdout, b"imported 1 row\n")
        self.assertEqual(self.ok("get", self.table, "b"), b"2\n")
        self.fails(1, ["--skip-lines is 3, and there are 2 lines"], "import", self.table, "--skip-lines", "3", "--file", file)
        self.assertEqual(self.ok("import", self.table, "--skip-lines", "2", "--file", file), b"imported 0 rows\n")

    def test_Import_WritesTheLastLineOfAKeyLast(self):
        lines = b"".join(b'{"key":"k%d","value":"%d"}\n' % (number % 3, number) for number in range(3000))
        self.assertEqual(self.ok("import", self.table, input=lines), b"imported 3000 rows\n".replace(b"3000", b"3,000"))
        self.assertEqual(self.ok("mget", self.table, "k0", "k1", "k2"), b"k0\t2997\nk1\t2998\nk2\t2999\n")

    def test_Import_RefusesWhatCannotBeRead(self):
        self.fails(2, ["is a directory"], "import", self.table, "--file", self.cluster.directory)
        self.fails(2, ["No such file"], "import", self.table, "--file", "/no/such/file")
        self.fails(2, ["cannot read standard input", "line 1 failed"], "shell", input=f"import {self.table}\n".encode(), lines=2)
        self.assertEqual(self.ok("import", self.table), b"imported 0 rows\n")

    def test_Import_EndsWithCtrlCAndSaysHowToGoOn(self):
        with subprocess.Popen(self.words("import", self.table), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as importing:
            importing.stdin.write(b'{"key":"a","value":"1"}\n{"key":"b","value":"2"}\n')
            importing.stdin.flush()
            # It waits for more lines.
            wait_for("both lines to be stored", lambda: self.ctl("exists", self.table, "a", "b").returncode == 0)
            importing.send_signal(signal.SIGINT)
            said = importing.stderr.read().decode()
            self.assertEqual(importing.wait(LIMIT_S), 1)
            self.assertIn("CANCELLED: interrupted", said)
            self.assertIn("the first 2 lines are stored", said)
            self.assertTrue(said.endswith("--skip-lines=2 and the same input\n"), said)

    def test_Import_OfLinesThatAreNoRowsEndsWithCtrlC(self):
        # A file that takes seconds to read. What comes by a pipe is at times not there, and then Ctrl-C is looked at.
        file = self.path("blank")
        with open(file, "wb") as blank:
            for _ in range(256):
                blank.write(b"\n" * (1 << 20))
        for options, word in (([], "go on with"), (["--skip-lines", str(1 << 60)], "CANCELLED: interrupted")):
            with subprocess.Popen(self.words("import", self.table, "--file", file, *options), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as importing:
                try:
                    wait_for("the import to take Ctrl-C", lambda: catches(importing.pid, signal.SIGINT))
                    importing.send_signal(signal.SIGINT)
                    self.assertEqual(importing.wait(LIMIT_S), 1)
                    self.assertIn(word, importing.stderr.read().decode())
                finally:
                    importing.kill()
        os.remove(file)

    def test_Export_IntoAPipeWaitsForItsReaderUntilCtrlC(self):
        self.ok("put", self.table, "a", "v")
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        with subprocess.Popen(self.words("export", self.table, "--file", fifo), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as export:
            try:
                self.assertIn(b"waits for a reader", export.stderr.readline())
                export.send_signal(signal.SIGINT)
                self.assertEqual(export.wait(LIMIT_S), 1)
                self.assertIn(b"CANCELLED: interrupted", export.stderr.read())
            finally:
                export.kill()
        with subprocess.Popen(self.words("export", self.table, "--file", fifo), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as export:
            try:
                self.assertIn(b"waits for a reader", export.stderr.readline())
                with open(fifo, "rb") as lines:
                    self.assertEqual(lines.read(), b'{"key":"a","value":"v"}\n')
                self.assertEqual(export.wait(LIMIT_S), 0)
            finally:
                export.kill()

    def test_Export_IntoAFullPipeEndsWithCtrlC(self):
        rows = "".join(json.dumps({"key": f"k{number:05}", "value": "v" * 100}) + "\n" for number in range(2_000)).encode()
        self.ok("import", self.table, input=rows)
        with subprocess.Popen(self.words("export", self.table), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as export:
            try:
                wait_for("the pipe to be full", lambda: unread_bytes(export.stdout) >= 1 << 16)
                export.send_signal(signal.SIGINT)
                self.assertEqual(export.wait(LIMIT_S), 1)
                self.assertIn(b"CANCELLED: interrupted", export.stderr.read())
            finally:
                export.kill()

    def test_Import_OfManyRowsIsWhatExportGives(self):
        lines = [json.dumps({"key": f"k{number:06}", "value": "v" * (number % 50)}, separators=(",", ":")) for number in range(20_000)]
        text = "".join(line + "\n" for line in lines).encode()
        self.ok("import", self.table, input=text)
        self.assertEqual(self.ok("export", self.table), text)
        self.assertEqual(self.ok("count", self.table), b"20000\n")

    def test_ExportAndImport_FailWhenTheNodeIsAway(self):
        """Of a cluster of its own, because its node dies."""
        cluster = Cluster(1)
        self.addCleanup(cluster.close)
        made = cluster.ctl("table", "create", "t", "--shards", "1")
        self.assertEqual(made.returncode, 0, made.stderr)
        cluster.processes["node0"].kill9()
        base = [f"{cluster_test.BIN}/skuactl", "--control-address", cluster.control_address, "--timeout", "500ms"]
        done = subprocess.run([*base, "import", "t"], input=b'{"key":"a","value":"1"}\n' * 3, capture_output=True, timeout=LIMIT_S,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"line 1: ", done.stderr)
        self.assertIn(b"no line is certainly stored", done.stderr)
        for command in (["export", "t"], ["count", "t"], ["exists", "t", "a"]):
            done = subprocess.run([*base, *command], capture_output=True, timeout=LIMIT_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parsed, rest = parser.parse_known_args()
    cluster_test.BIN = os.path.abspath(parsed.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
