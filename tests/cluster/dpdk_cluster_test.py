#!/usr/bin/env python3
"""A cluster over DPDK: three nodes and a client, each in a network namespace, on a bridge, by af_packet.

  dpdk_cluster_test.py --bin build/release/bin            all tests
  dpdk_cluster_test.py --bin build/release/bin Kill9      those whose name contains the word

deploy/cluster makes the namespaces and runs the clients in them. Where this machine or this user cannot do that, the test says
why and ends with code 77, which CTest counts as skipped.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 120
SKIPPED = 77
SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = None


def run(*command, limit_s=LIMIT_S):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKUA_")}
    environment["SKUA_BIN_DIR"] = BIN
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s,
                          env=environment, check=False)


def why_not():
    """What this machine lacks for the test; None if nothing."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if shutil.which("ip") is None:
        return "needs the program ip (package iproute2)"
    namespace = f"skua-test-{os.getpid()}"
    result = run("ip", "netns", "add", namespace)
    if result.returncode != 0:
        return f"cannot make a network namespace: {result.stderr.strip()}"
    try:
        for kind in (("bridge",), ("veth", "peer", "name", "probe1")):
            result = run("ip", "-n", namespace, "link", "add", f"probe-{kind[0]}", "type", *kind)
            if result.returncode != 0:
                return f"cannot make a {kind[0]} interface: {result.stderr.strip()}"
    finally:
        run("ip", "netns", "delete", namespace)
    result = run(f"{BIN}/skuactl", "get", "t", "k", "--timeout", "10ms", "--transport", "dpdk", "--dpdk-devices",
                 "net_null0", "--dpdk-addresses", "10.77.0.1/24", "--dpdk-huge-pages=false")
    if result.returncode == 2:
        return f"DPDK does not start: {result.stderr.strip()}"
    return None


class Cluster:
    """One for all tests: what they do to it, they mend."""

    def __init__(self, base_port, *words):
        self.directory = tempfile.mkdtemp(prefix="skua-dpdk-test.")
        self.base_port = base_port
        self.deploy("start", "--transport", "dpdk", "--nodes", "3", "--base-port", str(self.base_port), *words)

    def script(self, *words):
        result = run(*words, "--dir", self.directory, limit_s=10 * LIMIT_S)
        if result.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {result.stdout}{result.stderr}")
        return result.stdout

    def deploy(self, command, *arguments):
        return self.script(f"{SOURCE}/deploy/cluster", command, *arguments)

    def secure(self, how):
        """Restarts one process after the other."""
        self.script(f"{SOURCE}/deploy/rolling-restart", "--secure", how)

    def client(self, *command):
        return run(f"{SOURCE}/deploy/cluster", "run", "--dir", self.directory, "--", *command)

    def ycsb_words(self, phase, *arguments):
        return ("skua-ycsb", phase, "skua", "-P", f"{self.directory}/client.properties", "-P",
                f"{SOURCE}/ycsb/workloads/workloada", "-p", "fieldcount=2", *arguments)

    def ycsb(self, phase, *arguments):
        return self.client(*self.ycsb_words(phase, *arguments))

    @contextlib.contextmanager
    def load(self, *arguments):
        """YCSB until the block ends. No operation may fail."""
        words = self.ycsb_words("run", "-p", "operationcount=100000000", "-target", "500", *arguments)
        process = subprocess.Popen([f"{SOURCE}/deploy/cluster", "run", "--dir", self.directory, "--", *words],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "SKUA_BIN_DIR": BIN})
        try:
            yield
            if process.poll() is not None:
                raise AssertionError(f"the load ended by itself: {process.communicate()[0][-2000:]}")
            process.send_signal(signal.SIGINT)
            report = process.communicate(timeout=LIMIT_S)[0]
        finally:
            process.kill()
            process.wait()
        returns = [line for line in report.splitlines() if "Return=" in line]
        if not returns or not all("Return=OK" in line for line in returns):
            raise AssertionError(f"operations failed: {returns or report[-2000:]}")

    def pid(self, name):
        with open(f"{self.directory}/{name}.pid", encoding="ascii") as file:
            return int(file.read())

    def kill9(self, name):
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] in "ZX":
                        return
            except FileNotFoundError:
                return
            time.sleep(0.01)
        raise AssertionError(f"{name} does not die")

    def leftovers(self):
        """Namespaces and interfaces of this cluster."""
        names = run("ip", "netns", "list").stdout + run("ip", "-o", "link", "show").stdout
        return [word for word in names.replace("@", " ").replace(":", " ").split()
                if word.startswith((f"skua-{self.base_port}-", f"sk{self.base_port}"))]


class DpdkClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(10_000 + 128 * random.randrange(300), "--secure", "false")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.deploy("stop")
        left = cls.cluster.leftovers()
        shutil.rmtree(cls.cluster.directory, ignore_errors=True)
        if left:
            raise AssertionError(f"deploy/cluster stop left behind: {left}")

    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def table(self, name):
        self.ok(self.cluster.client("skuactl", "table", "create", name, "--shards", "6"))
        return name

    def test_PutGet_ReachEveryNode(self):
        table = self.table("plain")
        for number in range(12):
            self.ok(self.cluster.client("skuactl", "put", table, f"key{number}", f"value{number}"))
        rows = self.ok(self.cluster.client("skuactl", "scan", table)).splitlines()
        self.assertEqual(sorted(rows), sorted(f"key{number}\tvalue{number}" for number in range(12)))
        self.assertEqual(self.ok(self.cluster.client("skuactl", "get", table, "key7")).strip(), "value7")

    def test_LargeValue_ComesBackAsItWas(self):
        table = self.table("large")
        path = f"{self.cluster.directory}/large"
        with open(path, "wb") as out:
            out.write(os.urandom(1 << 20))
        timeout = ("--timeout", "30s")
        self.ok(self.cluster.client("skuactl", "put", table, "k", "--file", path, *timeout))
        self.ok(self.cluster.client("skuactl", "get", table, "k", "--file", path + ".back", *timeout))
        with open(path, "rb") as one, open(path + ".back", "rb") as two:
            self.assertTrue(one.read() == two.read())

    def test_Ycsb_RunsWorkloadAWithSeveralThreads(self):
        table = self.table("ycsb")
        sizes = ("-p", f"table={table}", "-p", "recordcount=1000", "-p", "operationcount=2000", "-threads", "2",
                 "-inflight", "8")
        self.assertIn("[INSERT], Return=OK, 1000", self.ok(self.cluster.ycsb("load", *sizes)))
        report = self.ok(self.cluster.ycsb("run", *sizes))
        self.assertIn("[OVERALL], Throughput", report)
        self.assertNotIn("-FAILED", report)

    def test_Kill9_KeepsEveryAcknowledgedWrite(self):
        table = self.table("durable")
        sizes = ("-p", f"table={table}", "-p", "recordcount=1000", "-p", "dataintegrity=true", "-inflight", "16")
        self.assertIn("[INSERT], Return=OK, 1000", self.ok(self.cluster.ycsb("load", *sizes)))
        for number in range(6):
            self.ok(self.cluster.client("skuactl", "put", table, f"before{number}", f"value{number}"))
        self.cluster.kill9("node1")
        self.cluster.deploy("revive")
        for number in range(6):
            self.assertEqual(self.ok(self.cluster.client("skuactl", "get", table, f"before{number}")).strip(),
                             f"value{number}")
        report = self.ok(self.cluster.ycsb("run", *sizes, "-p", "operationcount=1000", "-p", "readproportion=1", "-p",
                                           "updateproportion=0", "-p", "requestdistribution=sequential"))
        self.assertIn("[READ], Return=OK, 1000", report)
        self.assertNotIn("ERROR", report)
        self.ok(self.cluster.client("skuactl", "put", table, "after", "restart"))

    def test_OtherTransport_IsNamedInTheError(self):
        table = self.table("tcp")
        result = self.cluster.client("skuactl", "--transport", "tcp", "--timeout", "1s", "get", table, "k")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the worker speaks dpdk, this client tcp", result.stderr)

    def test_Start_RefusesTheBasePortOfARunningCluster(self):
        result = run(f"{SOURCE}/deploy/cluster", "start", "--dir", f"{self.cluster.directory}/other", "--transport",
                     "dpdk", "--base-port", str(self.cluster.base_port))
        self.assertEqual(result.returncode, 1)
        self.assertIn("--base-port", result.stderr)

    def test_ByDefault_WithCertificates_AndStopCleansUpAfterKill9(self):
        cluster = Cluster(self.cluster.base_port + 128 * 16)
        self.addCleanup(shutil.rmtree, cluster.directory, ignore_errors=True)
        self.ok(cluster.client("skuactl", "table", "create", "sealed", "--shards", "3"))
        self.ok(cluster.client("skuactl", "put", "sealed", "k", "v"))
        self.assertEqual(self.ok(cluster.client("skuactl", "get", "sealed", "k")).strip(), "v")
        self.assertEqual(self.ok(cluster.client("skuactl", "status")).count("certificates, packets encrypt"), 3)
        for name in ("node0", "node1", "node2", "control"):
            cluster.kill9(name)
        self.assertNotEqual(cluster.leftovers(), [])
        cluster.deploy("stop")
        self.assertEqual(cluster.leftovers(), [])

    def test_CertificatesComeNodeByNode_AndNoOperationFails(self):
        cluster = Cluster(self.cluster.base_port + 128 * 32, "--secure", "false")
        self.addCleanup(shutil.rmtree, cluster.directory, ignore_errors=True)
        self.addCleanup(cluster.deploy, "stop")
        self.ok(cluster.client("skuactl", "table", "create", "usertable", "--shards", "6", "--replicas", "3"))
        sizes = ("-p", "recordcount=1000", "-threads", "1", "-inflight", "8")
        self.ok(cluster.ycsb("load", *sizes))
        with cluster.load(*sizes):
            cluster.secure("accept")
        # Packets of clients with certificates are encrypted, and those of others are not, at the same nodes.
        self.ok(cluster.client("skuactl", "put", "usertable", "k", "v"))
        made = f"{cluster.directory}/certificates"
        files = {"cert": f"{made}/client.pem", "key": f"{made}/client.key", "ca": f"{made}/ca/ca.pem"}
        options = [word for name, file in files.items() for word in (f"--{name}", file)]
        self.assertEqual(self.ok(cluster.client("skuactl", *options, "get", "usertable", "k")).strip(), "v")
        with cluster.load(*sizes, *(word for name, file in files.items() for word in ("-p", f"skua.{name}={file}"))):
            cluster.secure("true")
        self.assertEqual(self.ok(cluster.client("skuactl", "status")).count("certificates, packets encrypt"), 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BIN = os.path.abspath(arguments.bin)
    reason = why_not()
    if reason is not None:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    patterns = [part for word in rest if not word.startswith("-") for part in ("-k", word)]
    unittest.main(argv=[sys.argv[0], *patterns, *(word for word in rest if word.startswith("-"))], verbosity=2)
