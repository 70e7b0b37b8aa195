#!/usr/bin/env python3
"""A cluster with certificates, as real processes: who gets in and who does not, and that certificates and the authority are
replaced under load without a failed operation. All send by a new key each second.

  secure_cluster_test.py --bin build/release/bin [WORD]
  ROTATIONS=50 ROTATION_S=6 secure_cluster_test.py --bin build/release/bin Replaced      # ten minutes
"""

import glob
import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time

import cluster_test
import mistakes
from cluster_test import Cluster, Process, wait_for

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
NODES = 3
ROTATIONS = int(os.environ.get("ROTATIONS", "8"))  # of all certificates
ROTATION_S = float(os.environ.get("ROTATION_S", "1.5"))  # from one to the next
OPERATIONS_PER_S = 2000
# Sessions of a revoked identity end within a second. Allowed is more, for machines that are busy.
REVOKED_WITHIN_S = 10
# Operations of a revoked client that are looked at, and of another one meanwhile.
REFUSED, OTHERS = 20, 50


class RunningClient:
    """A register_client that acts as NAME: one operation after the other, and how each ended."""

    def __init__(self, cluster, name, kind):
        place = cluster.path("certs", name)
        self.events = []  # (kind, began ns, ended ns, outcome)
        self.popen = subprocess.Popen(
            [f"{cluster_test.BIN}/register_client", "--control", cluster.control_address, "--table", "usertable", "--key", name,
             "--do", kind, "--timeout-ms", "20000", "--cert", f"{place}/cert", "--private-key", f"{place}/key", "--ca",
             f"{place}/ca"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.popen.stdout:
            kind, began, ended, code, _ = line.split()
            self.events.append((kind, int(began), int(ended), code))

    def wait(self, what, code, count=1, after=0):
        wait_for(what, lambda: sum(1 for event in self.events[after:] if event[3] == code) >= count)

    def close(self):
        self.popen.stdin.close()
        self.popen.wait()
        self.thread.join()
        self.popen.stdout.close()


class SecureCluster(Cluster):
    """Each process has a directory of its own for its certificate; skuactl acts as an administrator."""

    def __init__(self, nodes):
        self.identity = "admin"
        self.signer = "ca"  # the authority that all believe
        super().__init__(nodes)

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def cert(self, *arguments):
        result = subprocess.run([f"{cluster_test.BIN}/skuactl", "cert", *arguments], capture_output=True, text=True, check=False,
                                timeout=cluster_test.LIMIT_S)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def authority(self, name="ca"):
        directory = self.path(name)
        if not os.path.exists(directory):
            of_cluster = []
            if name != "ca":
                of_cluster = ["--cluster-id", self.cluster_id()]
            self.cert("init", directory, *of_cluster)
        return directory

    def cluster_id(self):
        said = self.cert("show", self.path("ca", "ca.pem"))
        return said.split(" of cluster ")[1].split()[0]

    def issue(self, name, role, authority="ca", *more):
        """A certificate in certs/NAME; one that is there is replaced, file by file, as programs that renew do it."""
        new, place = self.path("new"), self.path("certs", name)
        shutil.rmtree(new, ignore_errors=True)
        words = list(more)
        if role == "node" and os.path.exists(f"{place}/uuid"):
            with open(f"{place}/uuid", encoding="ascii") as uuid:
                words = [uuid.read(), *words]
        elif role != "node" and not words:
            words = [name]
        self.cert("issue", role, *words, "--authority", self.authority(authority), "--out", new)
        os.makedirs(place, exist_ok=True)
        pem, = glob.glob(f"{new}/*.pem")
        key, = glob.glob(f"{new}/*.key")
        with open(f"{place}/uuid", "w", encoding="ascii") as uuid:
            uuid.write(os.path.basename(pem)[:-len(".pem")])
        # A program that reads between the two sees a pair that does not fit, keeps what it has and reads again.
        os.replace(key, f"{place}/key")
        os.replace(pem, f"{place}/cert")
        if not os.path.exists(f"{place}/ca"):
            shutil.copy(f"{self.path(authority)}/ca.pem", f"{place}/ca")

    def trust(self, name, *authorities):
        place = self.path("certs", name)
        with open(f"{place}/ca.new", "w", encoding="ascii") as to:
            for authority in authorities:
                with open(self.path(authority, "ca.pem"), encoding="ascii") as pem:
                    to.write(pem.read())
        os.replace(f"{place}/ca.new", f"{place}/ca")

    def credentials(self, name):
        place = self.path("certs", name)
        return ("--cert", f"{place}/cert", "--key", f"{place}/key", "--ca", f"{place}/ca")

    def start_control(self):
        if not os.path.exists(self.path("certs", "control")):
            self.issue("control", "control")
            self.issue("admin", "admin")
        self.processes["control"] = Process(
            self.directory, "control", f"{cluster_test.BIN}/skua-control", "--listen-address", self.control_address,
            "--data-dir", self.path("control"), *self.credentials("control"))

    def start_node(self, index):
        name = f"node{index}"
        if not os.path.exists(self.path("certs", name)):
            self.issue(name, "node", self.signer)
        self.node_arguments = (*self.credentials(name), "--packet-key-lifetime", "1s")
        super().start_node(index)

    def ctl(self, *arguments, timeout="20s"):
        return super().ctl(*self.credentials(self.identity), *arguments, timeout=timeout)

    def as_(self, name, *arguments):
        identity, self.identity = self.identity, name
        try:
            return self.ctl(*arguments)
        finally:
            self.identity = identity


class SecureClusterTest(mistakes.MistakesTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = SecureCluster(NODES)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.issue("app", "client")
        cls.cluster.issue("stolen", "client")
        cls.cluster.issue("eyes", "monitor")
        made = cls.cluster.ctl("table", "create", "usertable", "--shards", "3", "--replicas", "3")
        assert made.returncode == 0, made.stderr

    def test_EachRoleDoesWhatIsItsOwn(self):
        self.ok(self.cluster.as_("app", "put", "usertable", "k", "v"))
        self.assertEqual(self.ok(self.cluster.as_("app", "get", "usertable", "k")).strip(), "v")
        self.ok(self.cluster.as_("eyes", "status"))
        for name, words in (("app", ["table", "drop", "usertable", "--yes"]), ("eyes", ["table", "create", "t2"]),
                            ("app", ["node", "drain", "x"])):
            result = self.cluster.as_(name, *words)
            self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("may not call DropTable, only admin", self.cluster.as_("app", "table", "drop", "usertable", "--yes").stderr)
        # A monitor opens no session, so it reads no data.
        result = self.cluster.as_("eyes", "get", "usertable", "k")
        self.assertEqual(result.returncode, 1)
        self.assertIn("may not call OpenSession", result.stderr)

    def test_Status_ShowsThatCertificatesAreWanted(self):
        status = self.ok(self.cluster.ctl("status"))
        self.assertIn("control plane's security: certificates\n", status)
        self.assertEqual(status.count("certificates, packets encrypt"), NODES)
        self.assertIn("all programs want certificates", self.cluster.ctl("doctor").stdout)
        self.refused(f"{cluster_test.BIN}/skua-control", "--data-dir", self.cluster.path("other"), "--listen-address",
                     "127.0.0.1:0", *self.cluster.credentials("control"), *cluster_test.UNSAFE,
                     words=("--security off-unsafe is for programs without certificates",))

    def test_Strangers_GetOneLineThatSaysWhy(self):
        def without(*more):
            return subprocess.run([f"{cluster_test.BIN}/skuactl", "--control-address", self.cluster.control_address, "--timeout",
                                   "5s", *more], capture_output=True, text=True, check=False, timeout=cluster_test.LIMIT_S)
        plain = without("status")
        self.assertEqual(plain.returncode, 1)
        self.assertIn("give --cert, --key and --ca", plain.stderr)
        self.cluster.issue("eve", "admin", "ca-of-eve")
        self.cluster.trust("eve", "ca")
        forged = without(*self.cluster.credentials("eve"), "status")
        self.assertEqual(forged.returncode, 2)
        self.assertIn("none of the trusted authorities has signed it", forged.stderr)
        # Trusting itself, it gets as far as the other side.
        self.cluster.trust("eve", "ca", "ca-of-eve")
        refused = without(*self.cluster.credentials("eve"), "status")
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(refused.stderr.count("\n"), 1, refused.stderr)
        self.assertIn("do not trust each other", refused.stderr)

    def test_Tls_IsOfVersion13Only(self):
        place = self.cluster.path("certs", "app")
        status = json.loads(self.ok(self.cluster.ctl("--output", "json", "status")))
        for address in (self.cluster.control_address, *(node["grpc_address"] for node in status["nodes"])):
            for version, is_taken in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, False)):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.load_verify_locations(f"{place}/ca")
                context.load_cert_chain(f"{place}/cert", f"{place}/key")
                context.set_alpn_protocols(["h2"])
                context.minimum_version = context.maximum_version = version
                host, port = address.rsplit(":", 1)
                with socket.create_connection((host, int(port)), cluster_test.LIMIT_S) as plain:
                    if is_taken:
                        with context.wrap_socket(plain) as encrypted:
                            self.assertEqual(encrypted.version(), "TLSv1.3")
                    else:
                        with self.assertRaises(ssl.SSLError):
                            context.wrap_socket(plain).close()

    def test_ClientsThatStartWhileTheControlPlaneDoes_GetIn(self):
        """They ask a port where nobody listens yet, and a moment later a server of TLS, whose greeting takes two ways."""
        cluster = self.cluster
        self.ok(cluster.ctl("put", "usertable", "early", "v"))
        words = [f"{cluster_test.BIN}/skuactl", "--control-address", cluster.control_address, *cluster.credentials("app"), "--timeout",
                 f"{cluster_test.LIMIT_S}s", "get", "usertable", "early"]
        for _ in range(3):
            self.assertEqual(cluster.processes["control"].stop(), 0)
            clients = []
            for _ in range(10):
                clients.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
                self.addCleanup(clients[-1].kill)
                if len(clients) == 5:
                    cluster.start_control()
            for client in clients:
                said = client.communicate(timeout=2 * cluster_test.LIMIT_S)[0]
                # Who found nobody at all may say so.
                self.assertTrue(said.strip() == "v" or "Connection refused" in said, said)
            wait_for("all to be back", lambda: cluster.alive_count() == NODES)

    def test_ANodeHandsItsShardsOverWithItsOwnCertificate(self):
        cluster = self.cluster
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))
        leads = [shard["replicas"][0]["grpc_address"] for shard in self.json_of_shards()]
        self.assertEqual(len(set(leads)), NODES)
        process = cluster.processes["node1"]
        self.assertEqual(process.stop(), 0)
        self.assertIn("other nodes lead the shards of this one", process.log())
        cluster.start_node(1)
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))

    def json_of_shards(self):
        return json.loads(self.ok(self.cluster.ctl("--output", "json", "shard", "show", "usertable")))["shards"]

    def test_ANodeKeepsItsCertificate(self):
        cluster = self.cluster
        process = cluster.processes["node0"]
        self.assertEqual(process.stop(), 0)
        self.addCleanup(cluster.start_node, 0)
        node0 = ["--data-dir", cluster.path("node0"), "--grpc-address", "127.0.0.1:0", "--data-address", "127.0.0.1:0",
                 "--control-address", cluster.control_address]
        for name, word in (("node1", "have one issued: skuactl cert issue node"), ("app", "needs one of the role node")):
            result = subprocess.run([f"{cluster_test.BIN}/skuad", *node0, *cluster.credentials(name)], capture_output=True,
                                    text=True, check=False, timeout=cluster_test.LIMIT_S)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(word, result.stderr)

    def test_KilledNode_ComesBack(self):
        self.cluster.processes["node1"].kill9()
        self.cluster.start_node(1)
        wait_for("the node to be back", lambda: self.cluster.alive_count() == NODES)
        self.ok(self.cluster.ctl("status", "--wait-settled", "60s"))

    def client(self, name, kind):
        client = RunningClient(self.cluster, name, kind)
        self.addCleanup(client.close)
        client.wait(f"{name} to {kind}", "OK", OTHERS)
        return client

    def test_RevokedClient_IsOutAndOthersGoOn(self):
        cluster = self.cluster
        stolen, app = self.client("stolen", "put"), self.client("app", "put")
        self.addCleanup(cluster.ctl, "cert", "unrevoke", "client/stolen")
        self.ok(cluster.ctl("cert", "revoke", "client/stolen"))
        revoked_ns = time.monotonic_ns()
        before = len(app.events)
        stolen.wait("the revoked client to hear it", "PERMISSION_DENIED", REFUSED)
        last_ok = max(event[2] for event in stolen.events if event[3] == "OK")
        took = (last_ok - revoked_ns) / 1e9
        print(f"after the revocation was acknowledged, the client's last operation ended {took:.3f} s later", flush=True)
        self.assertLess(took, REVOKED_WITHIN_S)
        first = next(i for i, event in enumerate(stolen.events) if event[3] == "PERMISSION_DENIED")
        self.assertEqual({event[3] for event in stolen.events[first:]}, {"PERMISSION_DENIED"}, "it never got back in")
        app.wait("the other client to go on", "OK", OTHERS, before)
        self.assertEqual({event[3] for event in app.events}, {"OK"})

        self.assertEqual(self.ok(cluster.ctl("cert", "revoked")).split(), ["client/stolen"])
        for words in (["status"], ["get", "usertable", "stolen"]):
            result = cluster.as_("stolen", *words)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertIn("client/stolen is revoked", result.stderr)
        self.ok(cluster.ctl("cert", "unrevoke", cluster.path("certs", "stolen", "cert")))
        stolen.wait("the client to be back", "OK", OTHERS, len(stolen.events))
        self.assertIn("nobody is revoked", self.ok(cluster.ctl("cert", "revoked")))

    def test_RevokedNode_IsLeftOut(self):
        cluster = self.cluster
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))
        with open(cluster.path("certs", "node2", "uuid"), encoding="ascii") as file:
            uuid = file.read()
        app = self.client("app", "put")
        self.addCleanup(cluster.ctl, "cert", "unrevoke", f"node/{uuid}")
        self.ok(cluster.ctl("cert", "revoke", f"node/{uuid}"))
        self.assertEqual(cluster.alive_count(), NODES - 1)
        self.assertIn("its identity is revoked", self.ok(cluster.ctl("status")))
        # Its shards are led by others, who commit without it.
        app.wait("the others to go on", "OK", 10 * OTHERS, len(app.events))
        self.assertEqual(self.ok(cluster.as_("app", "get", "usertable", "app")).strip().isdigit(), True)
        self.ok(cluster.ctl("cert", "unrevoke", f"node/{uuid}"))
        wait_for("the node to be back", lambda: cluster.alive_count() == NODES)
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))
        self.assertLessEqual({event[3] for event in app.events}, {"OK", "MAYBE"})

    def test_RemovedNode_IsShutOutIfThatIsAskedFor(self):
        cluster, name = self.cluster, f"node{NODES}"
        cluster.grpc_ports.append(cluster_test.free_port())

        def comes():
            cluster.start_node(NODES)
            wait_for("the node to be there", lambda: cluster.alive_count() == NODES + 1)
            cluster.processes[name].stop()

        comes()
        with open(cluster.path("certs", name, "uuid"), encoding="ascii") as file:
            uuid = file.read()
        self.assertIn(f"skuactl cert revoke node/{uuid}", self.ok(cluster.ctl("node", "remove", uuid, "--force", "--yes")))
        comes()
        self.addCleanup(cluster.ctl, "cert", "unrevoke", f"node/{uuid}")
        self.assertIn("is revoked", self.ok(cluster.ctl("node", "remove", uuid, "--force", "--yes", "--revoke")))
        self.assertEqual(self.ok(cluster.ctl("cert", "revoked")).split(), [f"node/{uuid}"])
        said = len(cluster.processes[name].log())
        cluster.start_node(NODES)
        wait_for("the node to be refused", lambda: "is revoked" in cluster.processes[name].log()[said:])
        cluster.processes[name].kill9()
        self.assertEqual(cluster.alive_count(), NODES)

    def test_Revocation_MistakesAreRefused(self):
        cluster = self.cluster
        for words, code, said in ((["revoke", "admin/admin"], 1, "use another administrator's"),
                                  (["revoke", "control/control"], 1, "replace the authority"),
                                  (["revoke", cluster.path("ca", "ca.pem")], 2, "is an authority"),
                                  (["revoke", "app"], 2, "an identity is ROLE/NAME"), (["unrevoke", "client/x"], 1, "is not revoked")):
            result = cluster.ctl("cert", *words)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(said, result.stderr)
        result = cluster.as_("app", "cert", "revoke", "client/x")
        self.assertEqual(result.returncode, 1)
        self.assertIn("may not call RevokeIdentity, only admin", result.stderr)

    def test_TableWithGrants_IsForThoseWhoAreNamed(self):
        cluster = self.cluster
        self.ok(cluster.ctl("table", "create", "ledger", "--shards", "3", "--replicas", "3"))
        self.addCleanup(cluster.ctl, "table", "drop", "ledger", "--yes")
        self.ok(cluster.as_("stolen", "put", "ledger", "k", "1"))
        self.ok(cluster.ctl("grant", "add", "client/app", "ledger", "read,write"))
        wait_for("the node to hear of the grant", lambda: cluster.as_("stolen", "get", "ledger", "k").returncode == 1)
        refused = cluster.as_("stolen", "put", "ledger", "k", "2")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("client/stolen has no right to write table ledger", refused.stderr)
        self.assertIn("skuactl grant add client/stolen ledger write", refused.stderr)
        self.assertEqual(self.ok(cluster.as_("app", "get", "ledger", "k")).strip(), "1")
        self.assertIn("no right to scan", cluster.as_("app", "scan", "ledger").stderr)
        self.assertIn("k", self.ok(cluster.ctl("scan", "ledger")), "an administrator needs no grant")
        self.ok(cluster.as_("stolen", "put", "usertable", "k", "1"))

        self.assertEqual(self.ok(cluster.ctl("grant", "list")).split()[3:], ["ledger", "client/app", "read,write"])
        self.assertIn("every client", self.ok(cluster.ctl("grant", "list", "usertable")))
        self.ok(cluster.ctl("grant", "remove", "client/app", "ledger", "write"))
        wait_for("the node to hear that it is taken", lambda: cluster.as_("app", "put", "ledger", "k", "3").returncode == 1)
        for words, code, said in ((["remove", "client/app", "ledger"], 1, "--open-to-all"),
                                  (["remove", "client/stolen", "ledger"], 1, "no grant gives client/stolen"),
                                  (["add", "admin/admin", "ledger", "read"], 1, "limit clients only"),
                                  (["add", "client/app", "legder", "read"], 1, "did you mean ledger?"),
                                  (["add", "client/app", "ledger", "reads"], 2, "is no right"),
                                  (["add", "app", "ledger", "read"], 2, "an identity is ROLE/NAME")):
            result = cluster.ctl("grant", *words)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(said, result.stderr)
        self.assertIn("may not call AddGrant, only admin", cluster.as_("app", "grant", "add", "client/app", "ledger", "read").stderr)
        self.ok(cluster.ctl("grant", "remove", cluster.path("certs", "app", "cert"), "ledger", "--open-to-all"))
        wait_for("the table to be open", lambda: cluster.as_("stolen", "get", "ledger", "k").returncode == 0)

    def test_ClientWithAQuota_IsSlowedDownAndOthersAreNot(self):
        cluster = self.cluster
        stolen, app = self.client("stolen", "put"), self.client("app", "put")
        self.addCleanup(cluster.ctl, "quota", "remove", "client/stolen")
        said = self.ok(cluster.ctl("quota", "set", "client/stolen", "--operations-per-s", "5", "--sessions", "3"))
        self.assertIn("client/stolen has of each node at most 5 operations/s, 3 sessions", said)
        self.assertEqual(self.ok(cluster.ctl("quota", "list")).split()[-5:], ["client/stolen", "5", "-", "3", "-"])
        before, others = len(stolen.events), len(app.events)
        # Once the nodes have heard of it and a bucket is empty, an operation waits a fifth of a second at least.
        wait_for("the limited client to wait for its share",
                 lambda: any(ended - began > 100e6 for _, began, ended, _ in stolen.events[before:]))
        stolen.wait("the limited client to go on", "OK", 10, len(stolen.events))
        app.wait("the other client to go on", "OK", OTHERS, others)
        self.assertEqual({event[3] for event in stolen.events[before:] + app.events[others:]}, {"OK"}, "nothing fails")
        listed = json.loads(self.ok(cluster.ctl("--output", "json", "quota", "list")))
        self.assertEqual(listed, [{"identity": "client/stolen", "operations_per_s": 5, "bytes_per_s": 0, "sessions": 3, "client_ids": 0}])

        for words, code, said in ((["set", "client/app"], 1, "a quota limits at least one of"),
                                  (["set", "admin/admin", "--sessions", "1"], 1, "limit clients only"),
                                  (["remove", "client/app"], 1, "has no quota"),
                                  (["set", "app", "--sessions", "1"], 2, "an identity is ROLE/NAME")):
            result = cluster.ctl("quota", *words)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(said, result.stderr)
        self.assertIn("may not call SetQuota, only admin",
                      cluster.as_("stolen", "quota", "set", "client/stolen", "--sessions", "9").stderr)
        self.ok(cluster.ctl("quota", "remove", cluster.path("certs", "stolen", "cert")))
        self.assertIn("no client is limited", self.ok(cluster.ctl("quota", "list")))
        stolen.wait("the client to be as fast as before", "OK", 500, len(stolen.events))

    def ycsb(self, phase, *more):
        return subprocess.Popen(
            [f"{cluster_test.BIN}/skua-ycsb", phase, "skua", "-P", f"{ROOT}/ycsb/workloads/workloada", "-p",
             "recordcount=1000", "--control-address", self.cluster.control_address, *self.cluster.credentials("app"),
             "-threads", "2", "-inflight", "4", *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_CertificatesAndAuthority_AreReplacedUnderLoad(self):
        cluster = self.cluster
        load = self.ycsb("load")
        said = load.communicate(timeout=cluster_test.LIMIT_S)[0]
        self.assertEqual(load.returncode, 0, said)
        seconds = int(ROTATIONS * ROTATION_S * 2)
        run = self.ycsb("run", "-target", str(OPERATIONS_PER_S), "-p", f"operationcount={OPERATIONS_PER_S * seconds}", "-p",
                        "skua.packet_key_lifetime_s=1")
        self.addCleanup(run.kill)
        processes = {"control": "control", **{f"node{i}": "node" for i in range(NODES)}, "app": "client", "stolen": "client",
                     "admin": "admin", "eyes": "monitor"}
        cluster.authority("ca2")
        # First all believe both authorities, then the new one signs, then nobody believes the old one.
        for name in processes:
            cluster.trust(name, "ca", "ca2")
        time.sleep(2)  # files are looked at once a second
        for rotation in range(ROTATIONS):
            for name, role in processes.items():
                cluster.issue(name, role, "ca" if rotation < ROTATIONS // 2 else "ca2")
            time.sleep(ROTATION_S)
            self.ok(cluster.ctl("status"))
            # New sessions, with what is there now.
            self.ok(cluster.as_("app", "put", "usertable", "rotation", str(rotation)))
        for name in processes:
            cluster.trust(name, "ca2")
        cluster.signer = "ca2"
        out = run.communicate(timeout=cluster_test.LIMIT_S + seconds)[0]
        self.assertEqual(run.returncode, 0, out[-2000:])
        returns = [line for line in out.splitlines() if "Return=" in line]
        self.assertTrue(returns)
        self.assertTrue(all("Return=OK" in line for line in returns), returns)
        cluster.processes["node2"].kill9()
        cluster.start_node(2)
        wait_for("a node to come back with the new authority", lambda: cluster.alive_count() == NODES)
        self.ok(cluster.ctl("status", "--wait-settled", "60s"))


if __name__ == "__main__":
    mistakes.main()
