"""What a user does wrong, and what the programs must answer: shared by the mistakes_*_test.py.

Each mistake ends by itself, within seconds, with the right exit code and with one line that says what is wrong and what to do.
"""

import argparse
import os
import subprocess
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
        wrapped = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        try:
            able = run(*wrapped[:4], self.program("skuad"), "--version").returncode == 0
        except OSError:
            able = False
        if not able:
            self.skipTest("another user cannot be taken, or cannot run the programs")
        return wrapped

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
    unittest.main(module="__main__", argv=["mistakes"] + [word for only in arguments.only for word in ("-k", only)])
