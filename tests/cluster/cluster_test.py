#!/usr/bin/env python3
"""Real Skua processes on loopback: what users must never see, provoked.

  cluster_test.py --bin build/release/bin            all tests
  cluster_test.py --bin build/release/bin Kill9      those whose name contains the word

Each test starts its own cluster in a temporary directory, on ports of its own, and stops it again. Waiting is for
conditions, with generous limits.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LIMIT_S = 60
BIN = None


def try_ports(first, offsets):
    for offset in offsets:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", first + offset))
            except OSError:
                return None
    return first


def free_ports(offsets):
    """A port such that those at these offsets from it are free. Below what the kernel gives to connections: one of those could take
    a port before the program that it is for."""
    offsets = list(offsets)
    return wait_for("free ports", lambda: try_ports(random.randrange(10_000, 30_000), offsets))


def free_port():
    return free_ports([0])


def catches(pid, number):
    """Whether the process has blocked the signal, to read it by itself."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk:"))
    return blocked >> (number - 1) & 1


def wait_for(what, condition, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s} s in vain for {what}")


# For programs that listen in a network namespace.
UNSAFE = ("--security", "off-unsafe")


class Process:
    """One program with its log; killed at the end whatever happens."""

    def __init__(self, directory, name, *arguments, environment=None):
        self.log_path = os.path.join(directory, name + ".log")
        with open(self.log_path, "ab") as log:
            self.popen = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                          env={**os.environ, **(environment or {})})

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def kill9(self):
        self.popen.kill()
        self.popen.wait()

    def stop(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                return self.popen.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill9()
                raise AssertionError(f"did not stop after SIGTERM:\n{self.log()[-2000:]}")
        return self.popen.returncode


class Cluster:
    client_prefix = ()  # what runs a client where it can reach the cluster

    def __init__(self, nodes):
        self.node_arguments = ()
        self.node_environment = None
        self.directory = tempfile.mkdtemp(prefix="skua-cluster-test.")
        self.control_port = free_port()
        self.control_address = f"127.0.0.1:{self.control_port}"
        self.grpc_ports = [free_port() for _ in range(nodes)]
        self.processes = {}
        self.start_control()
        for index in range(nodes):
            self.start_node(index)
        wait_for("all nodes to be alive", lambda: self.alive_count() == nodes)

    def start_control(self):
        self.processes["control"] = Process(
            self.directory, "control", f"{BIN}/skua-control", "--listen-address", self.control_address,
            "--data-dir", f"{self.directory}/control")

    def start_node(self, index):
        self.processes[f"node{index}"] = Process(
            self.directory, f"node{index}", f"{BIN}/skuad", "--control-address", self.control_address,
            "--data-dir", f"{self.directory}/node{index}", "--grpc-address", f"127.0.0.1:{self.grpc_ports[index]}",
            "--data-address", "127.0.0.1:0", *self.node_arguments, environment=self.node_environment)

    def ctl(self, *arguments, timeout="20s"):
        return subprocess.run(
            [*self.client_prefix, f"{BIN}/skuactl", "--control-address", self.control_address, "--timeout", timeout,
             *arguments],
            capture_output=True, text=True, timeout=LIMIT_S + 30, check=False)

    def alive_count(self):
        result = self.ctl("--output", "json", "status", timeout="2s")
        if result.returncode != 0:
            return -1
        return sum(1 for node in json.loads(result.stdout)["nodes"] if node["state"] == "alive")

    def close(self):
        errors = []
        for process in reversed(list(self.processes.values())):
            try:
                process.stop()
            except AssertionError as error:
                errors.append(str(error))
        shutil.rmtree(self.directory, ignore_errors=True)
        if errors:
            raise AssertionError("\n".join(errors))


class ClusterTest(unittest.TestCase):
    def make_cluster(self, nodes):
        cluster = Cluster(nodes)
        self.addCleanup(cluster.close)
        return cluster

    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def refused(self, *command, code=2, words=()):
        """The command must end by itself with this code and one line that contains the words."""
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_Kill9_KeepsEveryAcknowledgedPut(self):
        cluster = self.make_cluster(1)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "3"))
        for number in range(40):
            self.ok(cluster.ctl("put", "t", f"before{number}", f"value{number}"))
        # Kill it under load, and believe only what was acknowledged.
        load = subprocess.Popen(
            [f"{BIN}/skua-ycsb", "load", "skua", "-P", os.path.join(SOURCE, "ycsb/workloads/workloada"),
             "-p", f"skua.control={cluster.control_address}", "-p", "table=t", "-p", "recordcount=1000000",
             "-p", "fieldcount=1", "-threads", "1", "-inflight", "16"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        wait_for("the load to begin", lambda: len(self.ok(cluster.ctl("scan", "t", "--start", "user")).splitlines()) > 20)
        cluster.processes["node0"].kill9()
        load.kill()
        cluster.start_node(0)
        for number in range(40):
            self.assertEqual(self.ok(cluster.ctl("get", "t", f"before{number}")).strip(), f"value{number}")
        self.ok(cluster.ctl("put", "t", "after", "restart"))

    def test_Ctl_DoesEachOperationThatWrites(self):
        cluster = self.make_cluster(1)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "1"))

        def done(*arguments):
            return json.loads(self.ok(cluster.ctl("--output", "json", *arguments)))

        self.assertEqual(done("add", "t", "n", "5")["value"], 5)
        self.assertEqual(done("add", "t", "n", "-7", "--durability", "memory")["value"], -2)
        self.assertEqual(done("add", "t", "n", "--durability", "sync")["durability"], "sync")
        version = done("append", "t", "log", "one")["version"]
        done("append", "t", "log", " two", "--if-version", str(version))
        self.assertEqual(done("get", "t", "log")["value"], "one two")
        refused = cluster.ctl("add", "t", "log")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("NOT_A_NUMBER", refused.stderr)

        self.assertIsNone(done("ttl", "t", "log")["ttl_ms"])
        done("put", "t", "brief", "v", "--ttl", "1h")
        self.assertLessEqual(3_000_000, done("ttl", "t", "brief")["ttl_ms"])
        done("expire", "t", "brief", "never")
        self.assertIsNone(done("ttl", "t", "brief")["ttl_ms"])
        done("expire", "t", "brief", "10ms")
        wait_for("the key to vanish", lambda: "NOT_FOUND" in cluster.ctl("get", "t", "brief").stderr)

        def batch(text):
            path = os.path.join(cluster.directory, "batch.txt")
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            return cluster.ctl("--output", "json", "batch", "t", "--file", path)

        moved = json.loads(self.ok(batch("add left -5\nadd right 5\nput last \"a b\" --if-absent\n")))
        self.assertEqual([op["value"] for op in moved["operations"]], [-5, 5, 0])
        refused = batch("add left -5\nput last again --if-absent\n")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("operation 2", refused.stderr)
        cluster.processes["node0"].kill9()
        cluster.start_node(0)
        self.assertEqual(done("add", "t", "left", "0")["value"], -5)
        self.assertEqual(done("get", "t", "last")["value"], "a b")

    def test_ControlDown_RunningClientsGoOn(self):
        cluster = self.make_cluster(2)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "4"))
        self.ok(cluster.ctl("put", "t", "before", "1"))
        run = subprocess.Popen(
            [f"{BIN}/skua-ycsb", "load", "skua", "-P", os.path.join(SOURCE, "ycsb/workloads/workloada"),
             "-p", f"skua.control={cluster.control_address}", "-p", "table=t", "-p", "recordcount=3000",
             "-p", "fieldcount=1", "-target", "1000", "-threads", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        wait_for("the load to begin", lambda: len(self.ok(cluster.ctl("scan", "t", "--start", "user")).splitlines()) > 20)
        cluster.processes["control"].kill9()
        output, _ = run.communicate(timeout=LIMIT_S)
        self.assertIn("[INSERT], Return=OK, 3000", output)
        self.assertNotIn("-FAILED", output)
        # Whoever comes new is told what is missing, within the timeout.
        result = cluster.ctl("get", "t", "before", timeout="1s")
        self.assertEqual(result.returncode, 1)
        self.assertIn(cluster.control_address, result.stderr)
        cluster.start_control()
        wait_for("the nodes to be back", lambda: cluster.alive_count() == 2)
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before")).strip(), "1")

    def test_Identity_SecondNodeOnTheSameDataIsRefused(self):
        cluster = self.make_cluster(1)
        self.refused(f"{BIN}/skuad", "--control-address", cluster.control_address, "--data-dir",
                     f"{cluster.directory}/node0", "--grpc-address", "127.0.0.1:0", "--data-address", "127.0.0.1:0",
                     words=["node0"])

    def test_Identity_ForeignClusterIsRefused(self):
        cluster = self.make_cluster(1)
        self.assertEqual(cluster.processes["node0"].stop(), 0)
        other = self.make_cluster(0)
        stray = Process(cluster.directory, "stray", f"{BIN}/skuad", "--control-address", other.control_address,
                        "--data-dir", f"{cluster.directory}/node0", "--grpc-address", "127.0.0.1:0",
                        "--data-address", "127.0.0.1:0")
        self.addCleanup(stray.stop)
        self.assertEqual(wait_for("the refusal", lambda: stray.popen.poll()), 2, stray.log())
        self.assertIn("cluster", stray.log().splitlines()[-1])

    def test_Replicas_TooFewNodesIsOneLineWithTheWayOut(self):
        cluster = self.make_cluster(2)
        self.refused(f"{BIN}/skuactl", "--control-address", cluster.control_address, "table", "create", "t", "--replicas",
                     "3", code=1, words=["3 replicas", "Start 1 more skuad", "2 replicas"])
        self.ok(cluster.ctl("table", "create", "t", "--shards", "1", "--replicas", "2"))
        self.ok(cluster.ctl("status", "--wait-settled", "20s"))
        cluster.processes["node1"].kill9()

        def lacks():
            status = json.loads(cluster.ctl("--output", "json", "status").stdout)
            return status["unsettled_shards"][0]["lacks"] if status["unsettled_shards"] else ""
        wait_for("the status to say what is missing and why",
                 lambda: "suspected" in lacks() or "start the missing nodes, or another skuad" in lacks())

    def test_Clock_ThatIsFarOffIsATroubleWithTheWayOut(self):
        faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
        if not os.path.exists(faketime):
            self.skipTest("libfaketime is not installed")
        cluster = self.make_cluster(0)
        cluster.grpc_ports = [free_port()]
        cluster.node_environment = {"LD_PRELOAD": faketime, "FAKETIME": "+600s", "DONT_FAKE_MONOTONIC": "1"}
        cluster.start_node(0)
        wait_for("the node to be alive", lambda: cluster.alive_count() == 1)
        wait_for("the trouble", lambda: "ahead of the control plane's" in self.ok(cluster.ctl("status")))
        wait_for("the node's own word", lambda: "set the clocks" in cluster.processes["node0"].log())
        self.ok(cluster.ctl("table", "create", "t", "--shards", "1"))
        self.ok(cluster.ctl("put", "t", "k", "v"))

    def test_Ports_InUseIsOneLine(self):
        cluster = self.make_cluster(1)
        self.refused(f"{BIN}/skua-control", "--listen-address", cluster.control_address, "--data-dir",
                     f"{cluster.directory}/other", words=[str(cluster.control_port)])
        self.refused(f"{BIN}/skuad", "--control-address", cluster.control_address, "--data-dir",
                     f"{cluster.directory}/other-node", "--grpc-address", f"127.0.0.1:{cluster.grpc_ports[0]}",
                     "--data-address", "127.0.0.1:0", words=[str(cluster.grpc_ports[0])])

    def test_CommandLine_UnknownNamesAreOneLine(self):
        for program in ("skuad", "skua-control", "skuactl", "skua-perf"):
            self.refused(f"{BIN}/{program}", "--no-such-flag", words=["--no-such-flag"])
        self.refused(f"{BIN}/skua-ycsb", "run", "basic", "--no-such-flag", words=["no-such-flag"])
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write("data_dri = 1\n")
            config.flush()
            self.refused(f"{BIN}/skuad", "--config", config.name, words=["data_dri", "data_dir"])

    def test_Perf_OneClientMayHaveManySessions(self):
        done = subprocess.run([f"{BIN}/skua-perf", "latency", "--sessions", "3000", "--duration", "100ms"],
                              capture_output=True, text=True, timeout=LIMIT_S + 60, check=False)
        self.assertIn("round trip", self.ok(done))

    def test_CommandLine_DpdkSettingsAreCheckedWithoutDpdk(self):
        node = (f"{BIN}/skuad", "--data-dir", "/nowhere", "--check-config", "--transport", "dpdk")
        device = ("--dpdk-devices", "net_null0", "--dpdk-addresses", "10.77.0.1/24")
        self.refused(*node, words=["--dpdk-devices"])
        self.refused(*node, *device[:2], words=["--dpdk-addresses"])
        self.refused(*node, *device, "--dpdk-udp-port", "0", words=["--dpdk-udp-port"])
        self.refused(*node, *device, "--dpdk-mbufs", "10", words=["--dpdk-mbufs"])
        self.refused(*node, *device, "--dpdk-mtu", "100", words=["--dpdk-mtu", "576"])
        result = subprocess.run([*node, *device], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("valid", result.stdout)
        result = subprocess.run([*node[:3], *node[4:], *device, "--print-config"], capture_output=True, text=True,
                                timeout=LIMIT_S, check=False)
        self.assertIn('dpdk_addresses = "10.77.0.1/24"', result.stdout)

    def test_CommandLine_VerbsSettingsAreCheckedWithoutADevice(self):
        node = (f"{BIN}/skuad", "--data-dir", "/nowhere", "--check-config", "--transport", "verbs")
        self.refused(*node, "--verbs-mtu", "1500", words=["--verbs-mtu"])
        self.refused(*node, "--verbs-gid-index", "300", words=["--verbs-gid-index"])
        self.refused(*node, "--verbs-send-packets", "1", words=["--verbs-send-packets"])
        result = subprocess.run([*node, "--verbs-device", "mlx5_0:2", *UNSAFE], capture_output=True, text=True, timeout=LIMIT_S,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("valid", result.stdout)

    def test_Limits_AreNamed(self):
        cluster = self.make_cluster(1)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "1"))
        result = cluster.ctl("put", "t", "k" * 1025, "v")
        self.assertEqual(result.returncode, 2)
        self.assertIn("1024", result.stderr.replace(",", ""))
        largest = os.path.join(cluster.directory, "largest")
        with open(largest, "wb") as out:
            out.write(os.urandom(16 << 20))
        self.ok(cluster.ctl("put", "t", "large", "--file", largest))
        self.ok(cluster.ctl("get", "t", "large", "--file", largest + ".back"))
        with open(largest, "rb") as one, open(largest + ".back", "rb") as two:
            self.assertTrue(one.read() == two.read())
        with open(largest, "ab") as out:
            out.write(b"x")
        result = cluster.ctl("put", "t", "larger", "--file", largest)
        self.assertEqual(result.returncode, 2)
        self.assertIn("16777216", result.stderr.replace(",", ""))

    def test_Garbage_OnEveryPortHarmsNothing(self):
        cluster = self.make_cluster(1)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "1"))
        self.ok(cluster.ctl("put", "t", "k", "v"))
        node = cluster.processes["node0"]
        ports = [cluster.control_port, cluster.grpc_ports[0]] + listening_ports(node.popen.pid)
        for port in ports:
            for garbage in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"", b"\0" * 100):
                with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
                    try:
                        peer.sendall(garbage)
                    except OSError:
                        pass
        self.assertEqual(self.ok(cluster.ctl("get", "t", "k")).strip(), "v")
        self.assertIsNone(node.popen.poll())


def listening_ports(pid):
    """TCP ports that the process listens on."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as rows:
            for row in list(rows)[1:]:
                fields = row.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.append(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BIN = os.path.abspath(arguments.bin)
    patterns = [part for word in rest if not word.startswith("-") for part in ("-k", word)]
    unittest.main(argv=[sys.argv[0], *patterns, *(word for word in rest if word.startswith("-"))], verbosity=2)
