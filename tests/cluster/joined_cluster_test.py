#!/usr/bin/env python3
"""A cluster whose nodes and clients got their certificates by join tokens, as real processes: nobody copies a file, and
certificates are renewed under load without a failed operation.

  joined_cluster_test.py --bin build/release/bin [WORD]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import cluster_test
import mistakes
from cluster_test import Cluster, Process, free_port, wait_for

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NODES = 3
TTL_S = 20  # of certificates: renewed after half of it
LOAD_S = 2 * TTL_S
OPERATIONS_PER_S = 1000


def contents(directory):
    return {entry.name: entry.read_bytes() for entry in pathlib.Path(directory).iterdir()}


class JoinedCluster(Cluster):
    """The authority, the control plane and the administrator are where this test is; all others join."""

    def __init__(self, nodes):
        self.join_port = free_port()
        self.tokens = {}
        super().__init__(nodes)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def run(self, *arguments):
        result = subprocess.run([f"{cluster_test.BIN}/skuactl", *arguments], capture_output=True, text=True, check=False,
                                timeout=cluster_test.LIMIT_S)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def start_control(self):
        if not os.path.exists(self.path("ca")):
            self.run("cert", "init", self.path("ca"))
            for role in ("control", "admin"):
                self.run("cert", "issue", role, role, "--authority", self.path("ca"), "--out", self.path("certs"))
        self.processes["control"] = Process(
            self.directory, "control", f"{cluster_test.BIN}/skua-control", "--listen-address", self.control_address, "--join-address",
            f"127.0.0.1:{self.join_port}", "--data-dir", self.path("control"), "--authority", self.path("ca"), "--certificate-ttl",
            f"{TTL_S}s", *self.issued("control"))

    def issued(self, name):
        return ("--cert", self.path("certs", f"{name}.pem"), "--key", self.path("certs", f"{name}.key"), "--ca",
                self.path("ca", "ca.pem"))

    @staticmethod
    def joined(directory):
        return ("--cert", f"{directory}/cert.pem", "--key", f"{directory}/key.pem", "--ca", f"{directory}/ca.pem")

    def token(self, *what):
        result = wait_for("a token", lambda: self.try_token(what))
        return result.stdout.strip()

    def try_token(self, what):
        result = self.ctl("cert", "join-token", *what)
        return result if result.returncode == 0 else None

    def start_node(self, index):
        """With a token the first time only."""
        self.node_arguments = ()
        if not os.path.exists(self.path(f"node{index}")):
            self.tokens[index] = self.token()
            self.node_arguments = ("--join-token", self.tokens[index])
        super().start_node(index)

    def ctl(self, *arguments, timeout="20s"):
        return super().ctl(*self.issued("admin"), *arguments, timeout=timeout)

    def certificate(self, index):
        return json.loads(self.run("--output", "json", "cert", "show", self.path(f"node{index}", "certificate", "cert.pem")))


class JoinedClusterTest(mistakes.MistakesTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = JoinedCluster(NODES)
        cls.addClassCleanup(cls.cluster.close)
        made = cls.cluster.ctl("table", "create", "usertable", "--shards", "3", "--replicas", "3")
        assert made.returncode == 0, made.stderr
        cls.app = cls.cluster.path("app")
        cls.cluster.run("cert", "join", cls.cluster.token("client", "app"), "--out", cls.app, "--control-address",
                        cls.cluster.control_address)

    def skuad(self, index, *more):
        """One that ends by itself."""
        return subprocess.run(
            [f"{cluster_test.BIN}/skuad", "--data-dir", self.cluster.path(f"node{index}"), "--grpc-address", "127.0.0.1:0",
             "--data-address", "127.0.0.1:0", "--control-address", self.cluster.control_address, *more], capture_output=True,
            text=True, check=False, timeout=cluster_test.LIMIT_S)

    def test_ANodeNeedsNoTokenAnyMore(self):
        cluster = self.cluster
        key = cluster.path("node1", "certificate", "key.pem")
        self.assertEqual(os.stat(key).st_mode & 0o777, 0o600)
        cluster.processes["node1"].kill9()
        cluster.start_node(1)
        self.assertEqual(cluster.node_arguments, ())
        wait_for("the node to be back", lambda: cluster.alive_count() == NODES)
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))

    def test_ATokenIsForOneNode(self):
        result = self.skuad(9, "--join-token", self.cluster.tokens[0])
        self.addCleanup(shutil.rmtree, self.cluster.path("node9"))
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("the join token is not good here", result.stderr)
        self.assertFalse(os.path.exists(self.cluster.path("node9", "identity.toml")), "nothing is made of it")

    def test_Mistakes_GetOneLine(self):
        token = self.cluster.token("client", "b")
        for words, said in ((["--join-token", "skua-join-x"], "not the whole word"),
                            (["--join-token", token, *self.cluster.issued("admin")], "leave it away, or --cert"),
                            (["--join-token", token], "the join token is for client/b, and node wants to join")):
            result = self.skuad(8, *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(said, result.stderr)
        shutil.rmtree(self.cluster.path("node8"))

    def join(self, out, *words, typed="", **variables):
        return subprocess.run(
            [f"{cluster_test.BIN}/skuactl", "--control-address", self.cluster.control_address, "cert", "join", *words, "--out", out],
            input=typed, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=cluster_test.LIMIT_S)

    def test_CertJoin_TakesTheTokenFromItsInputOrTheEnvironment(self):
        out = self.cluster.path("typed")
        token = self.cluster.token("client", "typed")
        self.ok(self.join(out, "-", typed=f"{token}\n"))
        self.ok(self.join(out, SKUA_JOIN_TOKEN=token))
        self.assertIn("SKUA_JOIN_TOKEN", self.join(out).stderr)

    def test_CertJoin_LeavesTheDirectoriesOfOthersAlone(self):
        out = self.cluster.path("mine")
        self.ok(self.join(out, self.cluster.token("client", "mine")))
        token = self.cluster.token("client", "yours")
        for directory, said in ((self.cluster.path("ca"), "the directory of an authority"), (out, "client mine wants to join")):
            before = contents(directory)
            refused = self.join(directory, token)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(said, refused.stderr)
            self.assertEqual(contents(directory), before)
        self.ok(self.join(self.cluster.path("yours"), token))

    def test_AGatewayRenewsTheCertificateThatItJoinedWith(self):
        cluster, out = self.cluster, self.cluster.path("gateway")
        self.ok(self.join(out, cluster.token("client", "gateway")))
        gateway = Process(cluster.directory, "gateway", f"{cluster_test.BIN}/skua-gateway", "--control-address",
                          cluster.control_address, "--databases", "0=usertable", "--listen-address", f"127.0.0.1:{free_port()}",
                          "--renew-certificate", *cluster.joined(out))
        self.addCleanup(gateway.kill9)

        def said_by(name):
            return pathlib.Path(out, name).read_bytes()

        certificate, key = said_by("cert.pem"), said_by("key.pem")
        wait_for("the gateway to renew its certificate", lambda: said_by("cert.pem") != certificate)
        self.assertEqual(said_by("key.pem"), key)
        wait_for("the gateway to say so", lambda: "the certificate was renewed" in gateway.log())

    def test_RenewalGoesOnWhenTheControlPlaneIsBack(self):
        cluster = self.cluster
        self.assertEqual(cluster.processes["control"].stop(), 0)
        logs = {index: len(cluster.processes[f"node{index}"].log()) for index in range(NODES)}

        def saying(text):
            return {index for index, said in logs.items() if text in cluster.processes[f"node{index}"].log()[said:]}

        # The first whose half time it is: no certificate has expired by then.
        failed = wait_for("a node to fail", lambda: saying("could not be renewed, it is tried again"))
        cluster.start_control()
        wait_for("the node to succeed", lambda: failed <= saying("the certificate was renewed"))
        wait_for("the nodes to be back", lambda: cluster.alive_count() == NODES)

    def test_UnderLoad_CertificatesAreRenewedAndNothingFails(self):
        cluster = self.cluster
        command = [f"{cluster_test.BIN}/skua-ycsb", "PHASE", "skua", "-P", f"{ROOT}/ycsb/workloads/workloada", "-p", "recordcount=1000",
                   "--control-address", cluster.control_address, *cluster.joined(self.app), "-threads", "2", "-inflight", "4"]

        def start(phase, *more):
            return subprocess.Popen([phase if word == "PHASE" else word for word in command] + list(more), stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True)

        self.renew_app()
        load = start("load")
        said = load.communicate(timeout=cluster_test.LIMIT_S)[0]
        self.assertEqual(load.returncode, 0, said)
        run = start("run", "-target", str(OPERATIONS_PER_S), "-p", f"operationcount={OPERATIONS_PER_S * LOAD_S}")
        self.addCleanup(run.kill)
        serials = {index: {cluster.certificate(index)["serial"]} for index in range(NODES)}
        while run.poll() is None:
            for index in range(NODES):
                serials[index].add(cluster.certificate(index)["serial"])
            self.renew_app()
            # A new session, with what is there now.
            self.ok(subprocess.run([f"{cluster_test.BIN}/skuactl", "--control-address", cluster.control_address,
                                    *cluster.joined(self.app), "put", "usertable", "k", "v"], capture_output=True, text=True,
                                   check=False, timeout=cluster_test.LIMIT_S))
            time.sleep(2)  # the load goes on meanwhile
        out = run.communicate(timeout=cluster_test.LIMIT_S)[0]
        self.assertEqual(run.returncode, 0, out[-2000:])
        returns = [line for line in out.splitlines() if "Return=" in line]
        self.assertTrue(returns)
        self.assertTrue(all("Return=OK" in line for line in returns), returns)
        for index in range(NODES):
            self.assertGreaterEqual(len(serials[index]), LOAD_S // TTL_S, f"node{index}: {serials[index]}")
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))

    def renew_app(self):
        """As a timer does it. One whose certificate has expired joins again."""
        renewed = subprocess.run([f"{cluster_test.BIN}/skuactl", "--control-address", self.cluster.control_address,
                                  *self.cluster.joined(self.app), "cert", "renew"], capture_output=True, text=True, check=False,
                                 timeout=cluster_test.LIMIT_S)
        if renewed.returncode != 0:
            self.assertIn("expired", renewed.stderr)
            self.cluster.run("cert", "join", self.cluster.token("client", "app"), "--out", self.app, "--control-address",
                             self.cluster.control_address)

    def test_WhoseCertificateExpired_JoinsAgain(self):
        cluster = self.cluster
        uuid = cluster.certificate(2)["name"]
        self.assertEqual(cluster.processes["node2"].stop(), 0)
        wait_for("the certificate to expire", lambda: not cluster.certificate(2)["valid"])
        result = self.skuad(2)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("skuactl cert join-token node", result.stderr)
        # A token for another node does not make it that one.
        result = self.skuad(2, "--join-token", cluster.token())
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"skuactl cert join-token node {uuid}", result.stderr)
        cluster.node_arguments = ("--join-token", cluster.token("node", uuid))
        Cluster.start_node(cluster, 2)
        wait_for("the node to be back", lambda: cluster.alive_count() == NODES)
        self.assertEqual(cluster.certificate(2)["name"], uuid)
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))

    def test_ZRevokedNode_GetsNoCertificate(self):
        cluster = self.cluster
        uuid = cluster.certificate(2)["name"]
        log = cluster.processes["node2"]
        said = len(log.log())
        self.addCleanup(cluster.ctl, "cert", "unrevoke", f"node/{uuid}")
        self.ok(cluster.ctl("cert", "revoke", f"node/{uuid}"))
        wait_for("the renewal to be refused", lambda: re.search(r"could not be renewed.*is revoked", log.log()[said:]))
        refused = cluster.ctl("cert", "join-token", "node", uuid)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("skuactl cert unrevoke", refused.stderr)


if __name__ == "__main__":
    mistakes.main()
