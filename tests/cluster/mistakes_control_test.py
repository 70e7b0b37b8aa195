#!/usr/bin/env python3
"""Mistakes of the first hour with skua-control, and with where it is.

  mistakes_control_test.py --bin build/release/bin [WORD]
"""

import concurrent.futures
import http.server
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import cluster_test
import mistakes
from cluster_test import Process, free_port, wait_for

ETCD = "/usr/bin/etcd"


class QuietWeb(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def run_together(commands):
    """The commands' ends. They wait for silent servers, and need not do so one after another."""
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as threads:
        return list(threads.map(lambda command: mistakes.run(*command), commands))


def is_served(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class WrongServers:
    """What a user may name instead of a control plane, or of an etcd: name, address, and what it must be called."""

    def __init__(self, cluster):
        self.close_list = []
        self.directory = cluster.directory
        wait_for("the data port", lambda: "worker listening" in cluster.processes["node0"].log())
        self.all = {
            "skuad": (f"127.0.0.1:{cluster.grpc_ports[0]}", "a storage node (skuad)"),
            "data": (f"127.0.0.1:{cluster.data_port}", "the data port of a storage node (skuad)"),
            "web": (self.web(), "a web server"),
            "silent": (self.silent(), "something that takes connections and says nothing"),
        }
        if os.path.exists(ETCD):
            self.all["etcd"] = (self.etcd(), "an etcd")

    def web(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietWeb)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.close_list.append(server.server_close)
        self.close_list.append(server.shutdown)
        return f"127.0.0.1:{server.server_address[1]}"

    def silent(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.close_list.append(listener.close)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    def etcd(self, scheme="http"):
        client, peer = free_port(), free_port()
        process = Process(
            self.directory, f"etcd-{scheme}", ETCD, "--name=test", "--log-level=error", "--auto-tls",
            f"--data-dir={self.directory}/etcd-{scheme}", f"--listen-client-urls={scheme}://127.0.0.1:{client}",
            f"--advertise-client-urls={scheme}://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=test=http://127.0.0.1:{peer}")
        self.close_list.append(process.kill9)
        wait_for("etcd", lambda: is_served(client))
        return f"127.0.0.1:{client}"

    def close(self):
        for close in reversed(self.close_list):
            close()


class ClusterWithDataPort(cluster_test.Cluster):
    def start_node(self, index):
        self.data_port = free_port()
        self.processes[f"node{index}"] = Process(
            self.directory, f"node{index}", f"{cluster_test.BIN}/skuad", "--control-address", self.control_address,
            "--data-dir", f"{self.directory}/node{index}", "--grpc-address", f"127.0.0.1:{self.grpc_ports[index]}",
            "--data-address", f"127.0.0.1:{self.data_port}")


class WrongServerTest(mistakes.MistakesTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = ClusterWithDataPort(1)
        cls.addClassCleanup(cls.cluster.close)
        cls.servers = WrongServers(cls.cluster)
        cls.addClassCleanup(cls.servers.close)

    def test_skuactl_at_a_wrong_server(self):
        asked = [(self.program("skuactl"), "--control-address", address, *command)
                 for address, _ in self.servers.all.values() for command in (("status",), ("get", "t", "k"))]
        called = [(address, what, "--control-address") for address, what in self.servers.all.values() for _ in range(2)]
        for result, words in zip(run_together(asked), called):
            with self.subTest(result.args):
                self.judged(result, 1, words, ())

    def test_skuactl_at_nobody(self):
        at = (self.program("skuactl"), "--control-address", f"127.0.0.1:{free_port()}")
        self.refused(*at, "status", code=1, words=("cannot be reached", "Connection refused"), without=("()",))

    def test_skuactl_at_a_name_that_does_not_resolve(self):
        at = (self.program("skuactl"), "--control-address", "no-such-host.invalid:7400")
        self.refused(*at, "status", code=1, words=("cannot be resolved",), without=("ares", "ARES"))

    def test_skuad_at_a_wrong_server(self):
        nodes = []
        for name, (address, called) in self.servers.all.items():
            node = Process(
                self.cluster.directory, f"astray-{name}", self.program("skuad"), "--control-address", address,
                "--data-dir", f"{self.cluster.directory}/astray-{name}", "--grpc-address", "127.0.0.1:0",
                "--data-address", "127.0.0.1:0")
            self.addCleanup(node.kill9)
            nodes.append((node, called))
        for node, called in nodes:
            wait_for(f"the node to say that it has found {called}", lambda n=node, c=called: c in n.log())
            self.assertEqual(node.stop(), 0)

    def test_metadata_in_a_wrong_server(self):
        servers = dict(self.servers.all)
        servers.pop("etcd", None)
        servers["control"] = (self.cluster.control_address, "a Skua control plane")
        started = [(self.program("skua-control"), "--data-dir", f"{self.cluster.directory}/meta-{name}",
                    "--listen-address", "127.0.0.1:0", "--metadata", f"etcd://{address}/skua")
                   for name, (address, _) in servers.items()]
        for result, (address, called) in zip(run_together(started), servers.values()):
            with self.subTest(result.args):
                silent = address == self.servers.all["silent"][0]
                remedy = "start the etcd there again" if silent else "Give the client addresses of an etcd"
                self.judged(result, 1 if silent else 2, (called, address, remedy), ())

    def test_metadata_in_an_etcd_with_tls(self):
        if not os.path.exists(ETCD):
            self.skipTest(f"needs {ETCD}")
        address = self.servers.etcd("https")
        self.refused(self.program("skua-control"), "--data-dir", f"{self.cluster.directory}/meta-tls",
                     "--listen-address", "127.0.0.1:0", "--metadata", f"etcd://{address}/skua",
                     words=(address, "a server that expects TLS", "write etcds://", "--etcd-ca FILE"), without=("no etcd",))

    def test_port_of_another_server(self):
        directory = f"{self.cluster.directory}/second-control"
        for address, called in ((self.cluster.control_address, "a Skua control plane"),
                                self.servers.all["web"], self.servers.all["skuad"]):
            self.refused(self.program("skua-control"), "--data-dir", directory, "--listen-address", address,
                         words=("Address already in use", called, "another port"))
            self.assertFalse(os.path.exists(directory), "a start that fails must not leave a cluster behind")

    def test_second_process_on_the_same_directory(self):
        self.refused(self.program("skua-control"), "--data-dir", f"{self.cluster.directory}/control",
                     "--listen-address", self.cluster.control_address, words=("in use by process",))


class OptionsTest(mistakes.MistakesTest):
    def control(self, *arguments, **judged):
        """Judged by --check-config, and by a start that must fail just so."""
        data_dir = () if "--data-dir" in arguments else ("--data-dir", self.directory + "/data")
        for how in ((), ("--check-config",)):
            self.refused(self.program("skua-control"), *data_dir, *arguments, *how, **judged)
        self.assertEqual(os.listdir(self.directory), self.there)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="skua-mistakes.")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.there = []

    def test_addresses(self):
        self.control("--listen-address", "127.0.0.1", words=("--listen-address", "port"))
        self.control("--listen-address", "http://127.0.0.1:7400", words=("--listen-address", "http://"))
        self.control("--listen-address", "127.0.0.1:99999", words=("--listen-address",))
        self.control("--listen-address", "::1:7400", words=("--listen-address", "["))
        self.control("--advertise-address", "10.0.0.1:7400", words=("--advertise-address", "etcd"))
        etcd = ("--metadata", "etcd://127.0.0.1:1/skua")
        self.control(*etcd, "--advertise-address", "0.0.0.0:7400", words=("--advertise-address",))
        self.control(*etcd, "--listen-address", "0.0.0.0:7400", words=("--advertise-address HOST:PORT",))

    def test_metadata(self):
        self.control("--metadata", "zookeeper", words=("etcd://HOST:PORT",))
        self.control("--metadata", "127.0.0.1:2379", words=("does not start with etcd://",))
        self.control("--metadata", "etcd://127.0.0.1/skua", words=("HOST:PORT",))
        self.control("--metadata", "etcd://http://127.0.0.1:2379/skua", words=("HOST:PORT",))
        self.control("--metadata", "etcd://127.0.0.1:99999/skua", words=("127.0.0.1:99999",))
        self.control("--metadata", "etcd://127.0.0.1:2379/sk ua", words=("prefix",))

    def test_authority_that_others_can_use(self):
        ctl = self.program("skuactl")
        ca, certs = f"{self.directory}/ca", f"{self.directory}/certs"
        for words in (("cert", "init", ca), ("cert", "issue", "control", "c1", "--authority", ca, "--out", certs)):
            subprocess.run([ctl, *words], check=True, capture_output=True)
        control = (self.program("skua-control"), "--check-config", "--data-dir", f"{self.directory}/data", "--cert",
                   f"{certs}/c1.pem", "--key", f"{certs}/c1.key", "--ca", f"{ca}/ca.pem", "--authority", ca)
        subprocess.run(control, check=True, capture_output=True)
        self.refused(*control, "--metadata", "etcd://10.0.0.1:2379/skua", "--advertise-address", "10.0.0.2:7400",
                     words=("10.0.0.1:2379", "join tokens", "etcds://"))
        for mode in (0o644, 0o620):
            os.chmod(f"{ca}/ca.key", mode)
            self.refused(*control, words=(f"chmod 600 {ca}/ca.key",))

    def test_listen_address_that_is_not_here(self):
        # 1: the machine may get the address later, and systemd starts the program again.
        for address, code, words in (("8.8.8.8:7400", 1, ("Choose an address of this machine",)),
                                     ("no-such-host.invalid:7400", 2, ("Give an IP address of this machine",))):
            self.refused(self.program("skua-control"), "--data-dir", self.directory + "/data",
                         "--listen-address", address, *cluster_test.UNSAFE, code=code, words=words)
            self.assertEqual(os.listdir(self.directory), [])

    def test_damaged_data_directory(self):
        data = self.directory + "/data"
        control = (self.program("skua-control"), "--data-dir", data, "--listen-address", "127.0.0.1:0")
        first = Process(self.directory, "first", *control)
        self.addCleanup(first.kill9)
        wait_for("the first cluster", lambda: "serving" in first.log())
        self.assertEqual(first.stop(), 0)
        with open(f"{data}/metadata/CURRENT", "w", encoding="utf-8") as current:
            current.write("garbage")
        self.refused(*control, code=1, words=(f"{data}/metadata", "Restore the directory from a backup"))
        shutil.rmtree(f"{data}/metadata")
        self.refused(*control, words=("its metadata is missing", "restore it from a backup"))
        with open(f"{data}/metadata", "w", encoding="utf-8"):
            pass
        self.refused(*control, words=(f"{data}/metadata is no directory", "another --data-dir"))

    def test_values(self):
        self.control("--cluster-id", "mine", words=("not a lower-case UUID",))
        self.control("--cluster-name", "a\nb", words=("cluster name",))
        self.control("--cluster-name", "n" * 200, words=("cluster name", "128"))
        self.control("--heartbeat-interval", "5s", "--suspect-after", "6s", words=("at least twice",))
        self.control("--watches-per-host", "0", words=("--watches-per-host",))

    def test_data_directory_that_cannot_be(self):
        self.control("--data-dir", f"{self.directory}/{'n' * 300}", words=("cannot be made", "File name too long"))
        self.there = ["loop"]
        os.symlink("loop", f"{self.directory}/loop")
        self.control("--data-dir", f"{self.directory}/loop/data", words=("Too many levels of symbolic links",))
        self.refused(self.program("skua-control"), "--data-dir", "~/data", "--listen-address", "127.0.0.1:0",
                     cwd=self.directory, words=("begins with ~", "./~/data"))
        self.assertEqual(os.listdir(self.directory), self.there)

    def test_data_directory(self):
        self.there = ["file"]
        with open(f"{self.directory}/file", "w", encoding="utf-8"):
            pass
        self.control("--data-dir", f"{self.directory}/file", words=("is no directory", "--data-dir"))
        self.control("--data-dir", f"{self.directory}/file/below", words=(f"{self.directory}/file is no directory",))
        self.control("--data-dir", "/dev/full", words=("/dev/full is no directory",))

    def test_data_directory_of_somebody_else(self):
        os.chmod(self.directory, 0o755)
        for data_dir, words in ((self.directory, ("cannot be written to", "Permission denied")),
                                (f"{self.directory}/new", ("cannot be made", "Permission denied"))):
            with self.subTest(data_dir):
                self.refused(*self.as_nobody(self.program("skua-control"), "--data-dir", data_dir, "--listen-address",
                                             "127.0.0.1:0"), words=words)

    def test_valid_configuration(self):
        self.assertEqual(self.ok(mistakes.run(self.program("skua-control"), "--data-dir", self.directory + "/data",
                                              "--check-config")), "the configuration is valid\n")
        self.assertEqual(os.listdir(self.directory), [])

    def test_few_open_files(self):
        self.refused(self.program("skua-control"), "--data-dir", self.directory + "/data", words=("ulimit -n",),
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)))

    def test_etcd_that_is_not_there(self):
        self.refused(self.program("skua-control"), "--data-dir", self.directory + "/data", "--listen-address",
                     "127.0.0.1:0", "--metadata", f"etcd://127.0.0.1:{free_port()}/skua", code=1, limit_s=20,
                     words=("cannot be reached. Start it there",))
        self.assertEqual(os.listdir(self.directory), [])


class ClusterMistakesTest(mistakes.MistakesTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster_test.Cluster(1)
        cls.addClassCleanup(cls.cluster.close)

    def ctl_refused(self, *arguments, code=1, words=()):
        return self.judged(self.cluster.ctl(*arguments), code, words, ())

    def status(self):
        return json.loads(self.ok(self.cluster.ctl("--output", "json", "status")))

    def node(self, name, data_dir):
        process = Process(self.cluster.directory, name, self.program("skuad"), "--control-address",
                          self.cluster.control_address, "--data-dir", data_dir, "--grpc-address", "127.0.0.1:0",
                          "--data-address", "127.0.0.1:0")
        self.addCleanup(process.kill9)
        return process

    def test_operations(self):
        self.ok(self.cluster.ctl("table", "create", "usertable", "--shards", "1"))
        self.ctl_refused("table", "drop", "usertabel", "--yes", words=("did you mean usertable?",))
        self.ctl_refused("table", "create", "usertable", "--shards", "2", words=("exists with 1 shard.",))
        self.ctl_refused("table", "create", "r", "--replicas", "3", words=("1 can take shards", "Start 2 more skuad"))
        self.ctl_refused("table", "create", "a b", words=("is not a table name", "letters"))
        self.ctl_refused("table", "create", "n" * 200, words=("is not a table name", "128"))
        self.ctl_refused("table", "create", "s", "--shards", "5000", code=2, words=("4096 shards",))
        uuid = self.status()["nodes"][0]["uuid"]
        self.ctl_refused("node", "remove", uuid, "--yes", words=("is alive", "Stop its process"))
        self.ok(self.cluster.ctl("node", "drain", uuid))
        self.assertIn("(usertable)", self.status()["nodes"][0]["drain_progress"])
        self.ctl_refused("table", "create", "late", words=("drained", "skuactl node undrain"))
        self.ok(self.cluster.ctl("node", "undrain", uuid))

    def test_control_on_another_directory(self):
        self.cluster.processes["control"].stop()
        other = Process(self.cluster.directory, "other", self.program("skua-control"), "--listen-address",
                        self.cluster.control_address, "--data-dir", f"{self.cluster.directory}/other")
        self.addCleanup(other.kill9)
        wait_for("the other control plane", lambda: is_served(self.cluster.control_port))
        wait_for("the foreign node to be shown", lambda: any(
            "started on another --data-dir" in trouble for trouble in self.status()["troubles"]))
        self.assertIn("a new cluster was made", other.log())
        self.ctl_refused("get", "usertable", "k", words=("no table \"usertable\"", "started on another --data-dir"))
        self.ctl_refused("table", "drop", "usertable", "--yes", words=("started on another --data-dir",))
        ran = mistakes.run(self.program("skua-ycsb"), "run", "skua", "-p", f"skua.control={self.cluster.control_address}",
                           "-p", "recordcount=10", "-p", "operationcount=10")
        self.assertEqual(ran.returncode, 1, ran.stderr)
        for word in ("there is no table usertable", "started on another --data-dir"):
            self.assertIn(word, ran.stderr.splitlines()[-1])
        self.assertEqual(other.stop(), 0)
        self.cluster.start_control()
        wait_for("the control plane", lambda: is_served(self.cluster.control_port))
        wait_for("the node to be back", lambda: self.cluster.alive_count() == 1)
        self.assertEqual(self.status()["troubles"], [])

    def test_copies_of_a_node(self):
        directory = f"{self.cluster.directory}/node0"
        uuid = self.status()["nodes"][0]["uuid"]
        # At the same time, without a copy: the lock.
        self.refused(self.program("skuad"), "--control-address", self.cluster.control_address, "--data-dir", directory,
                     "--grpc-address", "127.0.0.1:0", "--data-address", "127.0.0.1:0", words=("in use by process",))
        # A copy beside the original: it is refused, and the original serves on.
        os.kill(self.cluster.processes["node0"].popen.pid, signal.SIGSTOP)
        try:
            shutil.copytree(directory, f"{self.cluster.directory}/copy")
        finally:
            os.kill(self.cluster.processes["node0"].popen.pid, signal.SIGCONT)
        shutil.copytree(f"{self.cluster.directory}/copy", f"{self.cluster.directory}/old")
        wait_for("the node", lambda: self.cluster.alive_count() == 1)
        copy = self.node("copy-node", f"{self.cluster.directory}/copy")
        self.assertEqual(copy.popen.wait(cluster_test.LIMIT_S), 2, copy.log())
        self.assertIn("If this data directory is a copy", copy.log())
        self.assertIn(uuid, copy.log())
        self.assertEqual(self.cluster.alive_count(), 1)
        # An old copy, when the original has been started since.
        self.cluster.processes["node0"].stop()
        self.cluster.start_node(0)
        wait_for("the node", lambda: self.cluster.alive_count() == 1)
        self.cluster.processes["node0"].stop()
        old = self.node("old-node", f"{self.cluster.directory}/old")
        self.assertEqual(old.popen.wait(cluster_test.LIMIT_S), 2, old.log())
        self.assertIn("If this data directory is a copy", old.log())
        self.cluster.start_node(0)
        wait_for("the node", lambda: self.cluster.alive_count() == 1)


if __name__ == "__main__":
    mistakes.main()
