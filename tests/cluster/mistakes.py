"""What a user does wrong, and what the programs must answer: shared by the mistakes_*_test.py.

Each mistake ends by itself, within seconds, with the right exit code and with one line that says what is wrong and what to do.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import unittest

import cluster_test

# A mistake that is not answered within this time is taken for a hang.
HANG_S = 60


def run(*command, limit_s=HANG_S, **options):
    """The command's end; options are those of subprocess.run."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([str(word) for word in command], text=True, errors="replace", timeout=limit_s, check=False, **options)


class MistakesTest(unittest.TestCase):
    def make_cluster(self, nodes):
        cluster = cluster_test.Cluster(nodes)
        self.addCleanup(cluster.close)
        return cluster

    def program(self, name):
        return f"{cluster_test.BIN}/{name}"

    def as_nobody(self, *command):
        """The command under a user that owns nothing; skips the test where that cannot be."""
        wrapped = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        try:
            able = run(*wrapped, "true").returncode == 0
        except OSError:
            able = False
        if not able:
            self.skipTest("needs root, to become somebody else")
        return [*wrapped, *(self.nobodys_program(word) for word in command)]

    def nobodys_program(self, word):
        """The folder of the build may be closed to others: a copy of the program; of other words the word itself."""
        if os.path.dirname(word) != cluster_test.BIN:
            return word
        copies = tempfile.mkdtemp(prefix="skua-mistakes-bin.")
        self.addCleanup(shutil.rmtree, copies, ignore_errors=True)
        os.chmod(copies, 0o755)
        return shutil.copy(word, copies)

    def ok(self, result):
        self.assertEqual(result.returncode, 0, (result.stdout or "") + (result.stderr or ""))
        return result.stdout

    def refused(self, *command, code=2, words=(), without=(), **options):
        """The command ends with this code and one line of stderr, which has these words and not those. Gives that line."""
        return self.judged(run(*command, **options), code, words, without)

    def judged(self, result, code, words=(), without=()):
        self.assertEqual(result.returncode, code, (result.stdout or "") + result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        for word in without:
            self.assertNotIn(word, lines[0])
        return lines[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    # deploy/test-report finds skipped tests in verbose output.
    unittest.main(module="__main__", argv=["mistakes"] + [word for only in arguments.only for word in ("-k", only)], verbosity=2)
