#!/usr/bin/env python3
"""A cluster that runs without certificates gets them, one program after the other, while clients read and write.

  certificates_rollout_test.py --bin build/release/bin

    without ──(each with certificates and --security accept)──> both kinds get in ──(each without accept)──> certificates only
    plain client: all its operations                            client with a certificate: all its operations

No operation may fail.
"""

import json
import os
import shutil
import subprocess
import unittest

import cluster_test
import mistakes
from cluster_test import Cluster, Process, wait_for

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NODES = 3
OPERATIONS_PER_S = 1000
# Longer than any test runs: the load is ended when the restarts are over.
RUN_S = 600


class GrowingCluster(Cluster):
    """Programs are started as `state` says: plain, accept or required."""

    def __init__(self, nodes):
        self.state = "plain"
        super().__init__(nodes)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def credentials(self, name):
        return ("--cert", self.path("certs", f"{name}.pem"), "--key", self.path("certs", f"{name}.key"), "--ca",
                self.path("ca", "ca.pem"))

    def words(self, name):
        """Options about security of the program NAME."""
        if self.state == "plain":
            return ()
        return (*self.credentials(name), *(("--security", "accept") if self.state == "accept" else ()))

    def start_control(self):
        self.processes["control"] = Process(
            self.directory, "control", f"{cluster_test.BIN}/skua-control", "--listen-address", self.control_address,
            "--data-dir", self.path("control"), *self.words("control"),
            *(() if self.state == "plain" else ("--authority", self.path("ca"), "--join-address", "127.0.0.1:0")))

    def start_node(self, index):
        self.node_arguments = self.words(f"node{index}")
        super().start_node(index)

    def ctl(self, *arguments, timeout="20s"):
        known = self.credentials("admin") if self.state == "required" else ()
        return super().ctl(*known, *arguments, timeout=timeout)

    def status(self):
        return json.loads(self.ctl("--output", "json", "status").stdout)

    def issue(self, to, *who):
        new = self.path("new")
        shutil.rmtree(new, ignore_errors=True)
        subprocess.run([f"{cluster_test.BIN}/skuactl", "cert", "issue", *who, "--authority", self.path("ca"), "--out", new],
                       check=True, capture_output=True)
        os.makedirs(self.path("certs"), exist_ok=True)
        for name in os.listdir(new):
            os.rename(os.path.join(new, name), self.path("certs", to + os.path.splitext(name)[1]))

    def make_certificates(self):
        subprocess.run([f"{cluster_test.BIN}/skuactl", "cert", "init", self.path("ca"), "--cluster-id",
                        self.status()["cluster_id"]], check=True, capture_output=True)
        for role, name in (("control", "control"), ("admin", "admin"), ("client", "app")):
            self.issue(name, role, name)
        for node in self.status()["nodes"]:
            self.issue(f"node{self.grpc_ports.index(int(node['grpc_address'].split(':')[1]))}", "node", node["uuid"])

    def restart(self, name):
        """Until all is well again."""
        assert self.processes[name].stop() == 0, self.processes[name].log()[-2000:]
        if name == "control":
            self.start_control()
        else:
            self.start_node(int(name[-1]))
        wait_for(f"{name} to be back", lambda: self.alive_count() == NODES)
        settled = self.ctl("status", "--wait-settled", "60s")
        assert settled.returncode == 0, settled.stdout + settled.stderr

    def restart_all(self):
        """One after the other."""
        for name in ("control", *(f"node{index}" for index in range(NODES))):
            self.restart(name)


class RolloutTest(mistakes.MistakesTest):
    def ycsb(self, *more, phase="run"):
        process = subprocess.Popen(
            [f"{cluster_test.BIN}/skua-ycsb", phase, "skua", "-P", f"{ROOT}/ycsb/workloads/workloada", "-p", "recordcount=1000",
             "--control-address", self.cluster.control_address, "-threads", "1", "-inflight", "8", *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        return process

    def load(self, *who):
        """Runs until it is told to end. Is there, and follows the shard map."""
        process = self.ycsb("-target", str(OPERATIONS_PER_S), "-p", f"operationcount={OPERATIONS_PER_S * RUN_S}", *who)
        wait_for("the load to be there", lambda: self.cluster.status()["watchers"] == NODES + 1)
        return process

    def end_without_failure(self, run):
        self.assertIsNone(run.poll(), "it ended by itself")
        run.send_signal(2)
        said = run.communicate(timeout=cluster_test.LIMIT_S)[0]
        returns = [line for line in said.splitlines() if "Return=" in line]
        self.assertTrue(returns, said[-2000:])
        self.assertTrue(all("Return=OK" in line for line in returns), returns)
        count = sum(int(line.rsplit(",", 1)[1]) for line in returns)
        print(f"{count} operations, none failed", flush=True)
        self.assertGreater(count, OPERATIONS_PER_S)

    def test_CertificatesComeNodeByNode_AndNoOperationFails(self):
        cluster = self.cluster = GrowingCluster(NODES)
        self.addCleanup(cluster.close)
        self.ok(cluster.ctl("table", "create", "usertable", "--shards", "6", "--replicas", "3"))
        filled = self.ycsb(phase="load")
        self.assertEqual(filled.wait(cluster_test.LIMIT_S), 0)
        cluster.make_certificates()

        plain = self.load()
        cluster.state = "accept"
        cluster.restart_all()
        self.assertEqual({node["security"] for node in cluster.status()["nodes"]}, {"ACCEPT: certificates, and who has none"})
        # The nodes come with certificates by now, and the load without. So it stays when the control plane was away.
        cluster.restart("control")
        wait_for("all to be back", lambda: cluster.status()["watchers"] == NODES + 1)
        wait_for("the load to be the only one without", lambda: cluster.status()["watchers_without_certificate"] == 1)
        self.end_without_failure(plain)
        wait_for("nobody to come without", lambda: cluster.status()["watchers_without_certificate"] == 0)
        self.anonymous_may_do_no_more_than_before()

        # Its packets are encrypted from the beginning.
        known = self.load(*cluster.credentials("app"))
        self.assertEqual(cluster.status()["watchers_without_certificate"], 0)
        cluster.state = "required"
        cluster.restart_all()
        self.end_without_failure(known)
        self.assertEqual({node["security"] for node in cluster.status()["nodes"]}, {"certificates, packets encrypt"})
        refused = Cluster.ctl(cluster, "get", "usertable", "k")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("give --cert, --key and --ca", refused.stderr)

    def anonymous_may_do_no_more_than_before(self):
        cluster = self.cluster
        self.ok(cluster.ctl("put", "usertable", "k", "v"))
        for words in (("cert", "revoke", "client/app"), ("cert", "unrevoke", "client/app"),
                      ("cert", "join-token", "admin", "eve"), ("cert", "tokens"), ("cert", "drop-token", "0123456789ab"),
                      ("grant", "add", "client/app", "usertable", "read"),
                      ("grant", "remove", "client/app", "usertable", "--open-to-all"),
                      ("quota", "set", "client/app", "--sessions", "1"), ("quota", "remove", "client/app")):
            refused = cluster.ctl(*words)
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn("who has no certificate may not", refused.stderr)
        self.ok(Cluster.ctl(cluster, *cluster.credentials("admin"), "grant", "add", "client/app", "usertable", "read"))
        wait_for("the table to be closed to who has no name",
                 lambda: cluster.ctl("get", "usertable", "k").returncode == 1)
        self.ok(Cluster.ctl(cluster, *cluster.credentials("admin"), "grant", "remove", "client/app", "usertable",
                            "--open-to-all"))
        wait_for("the table to be open again", lambda: cluster.ctl("get", "usertable", "k").returncode == 0)


if __name__ == "__main__":
    mistakes.main()
