#!/usr/bin/env python3
"""Two control processes on a real etcd: kill -9 of the one that leads, then of etcd, while a client writes.

  control_failover_test.py --bin build/release/bin

The client and the nodes must not notice; a new leader must create tables, and an etcd that comes back must make it work
again. deploy/cluster starts and stops everything. Exit code 77 (skipped) without etcd.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import cluster_test
from cluster_test import free_ports, wait_for

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = None


class ControlFailoverTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="skua-failover-test.")
        self.control_port, self.nodes = free_ports([0, 1]), 2
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.addCleanup(self.cluster, "stop")
        self.cluster("start", "--nodes", str(self.nodes), "--metadata", "etcd", "--controls", "2",
                     "--control-port", str(self.control_port), "--base-port", str(free_ports([0, 1, 100, 101])),
                     "--etcd-port", str(free_ports([0, 1])))

    def cluster(self, command, *arguments):
        result = subprocess.run(
            [os.path.join(SOURCE, "deploy/cluster"), command, "--dir", self.directory, *arguments], capture_output=True,
            text=True, timeout=180, check=False, env={**os.environ, "SKUA_BIN_DIR": BIN})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    @property
    def addresses(self):
        return [f"127.0.0.1:{self.control_port}", f"127.0.0.1:{self.control_port + 1}"]

    def ctl(self, *arguments, address=None, timeout="20s"):
        return subprocess.run(
            [f"{BIN}/skuactl", "--control-address", address or ",".join(self.addresses), "--timeout", timeout, *arguments],
            capture_output=True, text=True, timeout=90, check=False)

    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def leader(self):
        """0 or 1, or nothing."""
        for index, address in enumerate(self.addresses):
            if self.ctl("status", address=address, timeout="1s").returncode == 0:
                return index
        return None

    def find_leader(self):
        return wait_for("a leader", lambda: None if self.leader() is None else str(self.leader()))

    def kill9(self, name):
        with open(os.path.join(self.directory, name + ".pid"), encoding="ascii") as pid:
            os.kill(int(pid.read()), signal.SIGKILL)

    def create(self, table):
        """A table, once enough nodes have been heard of."""
        wait_for(f"table {table}", lambda: self.ctl("table", "create", table, "--shards", "4", "--if-not-exists",
                                                    timeout="5s").returncode == 0)

    def test_LeaderAndEtcdDie_ClientsGoOn(self):
        self.create("t0")
        self.ok(self.ctl("put", "t0", "before", "1"))
        load = subprocess.Popen(
            [f"{BIN}/skua-ycsb", "load", "skua", "-P", os.path.join(SOURCE, "ycsb/workloads/workloada"),
             "-p", "skua.control=" + ",".join(self.addresses), "-p", "table=t0", "-p", "recordcount=6000",
             "-p", "fieldcount=1", "-target", "400", "-threads", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        wait_for("the load to begin", lambda: len(self.ok(self.ctl("scan", "t0", "--start", "user")).splitlines()) > 20)

        first = int(self.find_leader())
        refused = self.ctl("table", "create", "x", address=self.addresses[1 - first], timeout="2s")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(self.addresses[first], refused.stderr)
        self.kill9("control" if first == 0 else "control1")
        self.create("t1")
        self.assertEqual(self.find_leader(), str(1 - first))
        self.assertEqual(self.ok(self.ctl("get", "t0", "before")).strip(), "1")
        self.cluster("revive")

        self.kill9("etcd")
        wait_for("the lead to end", lambda: self.leader() is None)
        self.cluster("revive")
        self.create("t2")
        self.ok(self.ctl("put", "t2", "after", "2"))

        output, _ = load.communicate(timeout=60)
        self.assertIn("[INSERT], Return=OK, 6000", output)
        self.assertNotIn("-FAILED", output)


def main():
    global BIN
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BIN = cluster_test.BIN = os.path.abspath(arguments.bin)
    if shutil.which("etcd") is None:
        print("skipped: etcd is not installed (Debian's etcd-server; deploy/install-deps)")
        return 77
    return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
