#!/usr/bin/env python3
"""deploy/rolling-restart on a cluster of three nodes, while a client writes and reads.

  rolling_restart_test.py --bin build/release/bin
  rolling_restart_test.py --bin build/release/bin --bin-before ../older/build/release/bin      # an upgrade

No operation may fail, nothing that was acknowledged may be missing, and each node must be another process afterwards.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from cluster_test import free_ports, wait_for

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = None
NODES = 3


class Writer:
    """Counts a key up, one write after the other, until told to stop."""

    def __init__(self, ctl):
        self.ctl, self.written, self.failure = ctl, 0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def run(self):
        while not self.stopping.is_set():
            key = f"key{self.written}"
            result = self.ctl("put", "t", key, f"value{self.written}")
            if result.returncode != 0:
                self.failure = result.stderr
                return
            self.written += 1


class RollingRestartTest(unittest.TestCase):
    def setUp(self):
        self.bin = BIN_BEFORE
        self.directory = tempfile.mkdtemp(prefix="skua-rolling-test.")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.control_port = free_ports([0, *(1 + 100 * node + offset for node in range(NODES) for offset in (0, 1))])
        self.addCleanup(self.deploy, "cluster", "stop")
        self.cluster("start", "--nodes", str(NODES), "--control-port", str(self.control_port), "--base-port",
                     str(self.control_port + 1))

    def deploy(self, script, *arguments):
        command = [os.path.join(SOURCE, "deploy", script), *arguments, "--dir", self.directory]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False,
                              env={**os.environ, "SKUA_BIN_DIR": self.bin})

    def cluster(self, *arguments):
        result = self.deploy("cluster", *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def ctl(self, *arguments):
        return subprocess.run(
            [f"{self.bin}/skuactl", "--control-address", f"127.0.0.1:{self.control_port}", "--timeout", "20s", *arguments],
            capture_output=True, text=True, timeout=120, check=False)

    def json_of(self, *arguments):
        result = self.ctl("--output", "json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def pids(self):
        pids = []
        for index in range(NODES):
            with open(os.path.join(self.directory, f"node{index}.pid"), encoding="ascii") as file:
                pids.append(file.read())
        return pids

    def make_table(self):
        table = self.json_of("table", "create", "t", "--shards", "6", "--replicas", "3")
        self.assertEqual((table["replicas"], table["min_insync"]), (3, 2))
        settled = self.json_of("status", "--wait-settled", "60s")
        self.assertTrue(settled["settled"])

    def nodes_have_handed_over(self):
        """Whoever stops gives its shards away before, and by itself. Each node leads some: balance saw to that."""
        for index in range(NODES):
            with open(os.path.join(self.directory, f"node{index}.log"), encoding="utf-8") as file:
                log = file.read()
            self.assertIn("other nodes lead the shards of this one", log)
            self.assertNotIn("were not handed over", log)

    def test_RollingRestart_NobodyNotices(self):
        self.make_table()
        before = self.pids()
        self.written_under(self.restart_by(BIN))
        for old, new in zip(before, self.pids()):
            self.assertNotEqual(old, new)
        if BIN == BIN_BEFORE:
            self.nodes_have_handed_over()

    def written_under(self, *steps):
        """Does the steps while a client writes; then no write has failed, and all that were acknowledged are there."""
        with Writer(self.ctl) as writer:
            wait_for("the first writes", lambda: writer.written >= 10 or writer.failure)
            for step in steps:
                result = step()
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIsNone(writer.failure)
        for index in range(0, writer.written, 7):
            self.assertEqual(self.ctl("get", "t", f"key{index}").stdout.strip(), f"value{index}")

    def restart_by(self, programs, *arguments):
        """A step: a rolling restart after which these programs run."""

        def step():
            self.bin = programs
            return self.deploy("rolling-restart", "--settle-limit", "100", *arguments)

        return step

    def test_RollingRestart_OneNodeThereAndBackAgain(self):
        """While one node is of the new version, nothing is written that the old version does not know."""
        self.make_table()
        self.written_under(self.restart_by(BIN, "--node", "0"), self.restart_by(BIN_BEFORE, "--node", "0"),
                           self.restart_by(BIN, "--node", "1"), self.restart_by(BIN, "--node", "0"),
                           self.restart_by(BIN, "--node", "2"))

    def test_ControlPlane_FollowsTheNodes(self):
        """As docs/control-plane.md says: nodes first. One control process: nobody begins anew while it is away."""
        self.make_table()
        self.written_under(self.restart_by(BIN))
        self.cluster("restart", "--only", "control")
        self.assertTrue(self.json_of("status", "--wait-settled", "60s")["settled"])
        self.json_of("table", "create", "after", "--shards", "2", "--replicas", "3")
        self.written_under(self.restart_by(BIN, "--node", "1"))

    def test_RollingRestart_RefusesAClusterThatIsNotWhole(self):
        self.make_table()
        self.cluster("stop", "--only", "node1")
        result = self.deploy("rolling-restart")
        self.assertEqual(result.returncode, 1)
        self.assertIn("revive", result.stderr)
        self.cluster("revive")

    def test_Operations_TransferAndShow(self):
        self.make_table()
        shard = self.json_of("shard", "show", "t", "0")["shards"][0]
        backup = [replica for replica in shard["replicas"] if replica["role"] == "backup"][0]
        result = self.ctl("shard", "transfer", "t", "0", "--to", backup["grpc_address"])
        self.assertEqual(result.returncode, 0, result.stderr)
        after = self.json_of("shard", "show", "t", "0")["shards"][0]
        self.assertGreater(after["epoch"], shard["epoch"])
        refused = self.ctl("shard", "recover", "t", "0", "--from", backup["uuid"][:8], "--yes")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("live member", refused.stderr)


def main():
    global BIN, BIN_BEFORE
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--bin-before", help="the programs that run before the restart, of an older version perhaps (--bin)")
    arguments, rest = parser.parse_known_args()
    BIN = os.path.abspath(arguments.bin)
    BIN_BEFORE = os.path.abspath(arguments.bin_before or arguments.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
