#!/usr/bin/env python3
"""skuad --resp-address: a gateway inside of a storage node, as a program on a cluster, without and with certificates.

  node_gateway_test.py --bin build/release/bin [NAME]
"""

import argparse
import os
import select
import socket
import subprocess
import sys
import threading
import unittest
import urllib.request

from gateway_programs import LIMIT_S, Programs, free_ports, wait_for
from redis_client import Connection

BIN = None


class NodeGatewayTest(unittest.TestCase):
    def setUp(self):
        self.programs = Programs(BIN)
        self.addCleanup(self.programs.__exit__)

    def path(self, *names):
        return os.path.join(self.programs.directory.name, *names)

    def node_command(self, name, first_port, *words):
        return [os.path.join(BIN, "skuad"), "--data-dir", self.path(name), "--grpc-address", f"127.0.0.1:{first_port}",
                "--data-address", f"127.0.0.1:{first_port + 4}", "--memory", "256MiB", *words]

    def start_node(self, name, *words):
        """A node whose gateway listens, sooner or later, at the third port after the first. Up to three workers."""
        port = free_ports(7)
        process = self.programs.start(name, self.node_command(
            name, port, "--http-address", f"127.0.0.1:{port + 2}", "--resp-address", f"127.0.0.1:{port + 3}", *words), port + 2)
        return process, port

    def page(self, port, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port + 2}{path}", timeout=LIMIT_S) as answer:
            return answer.read().decode()

    def is_serving(self, port):
        return "skua_gateway_up 1" in self.page(port, "/metrics").splitlines()

    def check_commands(self, port):
        with_gateway = Connection(port + 3)
        self.assertEqual(with_gateway.ask("SET", "greeting", "hello"), "+OK")
        self.assertEqual(with_gateway.ask("GET", "greeting"), b"hello")
        self.assertEqual(with_gateway.ask("MSETNX", "{a}1", "x"), 1)
        with_gateway.close()

    def test_waits_for_its_tables(self):
        self.programs.start_cluster(1)
        process, port = self.start_node("own", "--databases", "0=later")
        wait_for("the gateway to say what it waits for", lambda: "skuactl table create later" in self.programs.log("own"))
        wait_for("the node to be ready", lambda: "started" in self.programs.log("own"))
        self.assertFalse(self.is_serving(port))
        self.page(port, "/livez")
        self.assertEqual(self.programs.log("own").count("skuactl table create later"), 1, "said once")
        self.programs.skuactl("table", "create", "later", "--shards", "2")
        wait_for("the gateway to serve", lambda: self.is_serving(port))
        self.check_commands(port)
        metrics = self.page(port, "/metrics")
        families = [line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(families), len(set(families)), "a family comes twice")
        self.assertEqual(self.programs.end(process), 0)

    def check_many_clients(self, port, others=0):
        clients = [Connection(port + 3) for _ in range(64)]
        for i, client in enumerate(clients):
            self.assertEqual(client.ask("SET", f"key{i}", f"value{i}"), "+OK")
        for i, client in enumerate(reversed(clients)):
            self.assertEqual(client.ask("GET", f"key{i}"), f"value{i}".encode())
        metrics = self.page(port, "/metrics").splitlines()
        self.assertIn(f"skua_gateway_connections {64 + others}", metrics)
        for client in clients:
            client.close()
        self.page(port, "/livez")

    def test_threads_of_the_workers_or_of_its_own(self):
        self.programs.start_cluster(1)
        self.programs.skuactl("table", "create", "cache", "--shards", "4")
        for name, threads, words in (("shared", 3, ("--workers", "3")),
                                     ("own", 2, ("--workers", "1", "--gateway-threads", "2"))):
            process, port = self.start_node(name, "--databases", "0=cache", *words)
            wait_for("the gateway to serve", lambda at=port: self.is_serving(at))
            self.assertIn(f"skua_gateway_threads {threads}", self.page(port, "/metrics").splitlines())
            self.check_many_clients(port)
            self.assertEqual(self.programs.end(process), 0)

    def flood(self, port, ends):
        """Sends commands and reads replies without a pause."""
        with socket.create_connection(("127.0.0.1", port + 3)) as client:
            client.setblocking(False)
            left = b""
            while not ends.is_set():
                readable, writable, _ = select.select([client], [client], [], 1)
                try:
                    if readable and client.recv(1 << 20) == b"":
                        return
                    if writable:
                        left = left or b"PING\r\n" * 50_000
                        left = left[client.send(left):]
                except OSError:
                    return

    def test_a_client_that_sends_without_pause_keeps_nobody(self):
        self.programs.start_cluster(1)
        self.programs.skuactl("table", "create", "cache")
        for name, words in (("shared", ()), ("own", ("--gateway-threads", "1"))):
            process, port = self.start_node(name, "--databases", "0=cache", *words)
            wait_for("the gateway to serve", lambda at=port: self.is_serving(at))
            ends = threading.Event()
            floods = [threading.Thread(target=self.flood, args=(port, ends)) for _ in range(2)]
            for thread in floods:
                thread.start()
            self.check_many_clients(port, others=2)
            self.assertEqual(self.programs.end(process), 0, "while the clients send")
            ends.set()
            for thread in floods:
                thread.join()

    def test_shows_the_certificate_of_its_node(self):
        self.programs.start_cluster(1, "--secure", "true")
        certificates = os.path.join(self.programs.cluster_directory(), "certificates")
        authority = os.path.join(certificates, "ca", "ca.pem")
        self.programs.skuactl("table", "create", "cache", "--cert", os.path.join(certificates, "admin.pem"), "--key",
                              os.path.join(certificates, "admin.key"), "--ca", authority)
        subprocess.run([os.path.join(BIN, "skuactl"), "cert", "issue", "node", "--authority", os.path.join(certificates, "ca"),
                        "--out", self.path("issued")], check=True, stdout=subprocess.DEVNULL)
        name = next(name for name in os.listdir(self.path("issued")) if name.endswith(".key")).removesuffix(".key")
        files = ("--cert", self.path("issued", name + ".pem"), "--key", self.path("issued", name + ".key"), "--ca",
                 authority)
        process, port = self.start_node("own", "--databases", "0=cache", *files)
        wait_for("the gateway to serve", lambda: self.is_serving(port))
        self.check_commands(port)
        self.assertEqual(self.page(port, "/metrics").count("# TYPE skua_certificate_expires_seconds"), 1)
        self.assertEqual(self.programs.end(process), 0)

    def refused(self, words, *arguments):
        result = subprocess.run(self.node_command("refused", free_ports(5), *arguments), capture_output=True, text=True,
                                timeout=LIMIT_S, check=False, env=self.programs.environment())
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse(os.path.exists(self.path("refused")), "nothing was made")

    def test_mistakes(self):
        self.refused(["--resp-address or --memcached-address, too"], "--databases", "0=cache")
        self.refused(["--databases must name at least one table"], "--resp-address", "127.0.0.1:0")
        self.refused(["--resp-address 0.0.0.0:0", "--client-tls-cert"], "--resp-address", "0.0.0.0:0", "--databases", "0=cache")
        self.refused(["run skua-gateway beside it"], "--resp-address", "127.0.0.1:0", "--databases", "0=cache", "--transport",
                     "verbs", "--security", "off-unsafe", "--check-config")
        port = self.programs.control_port
        self.programs.start("control", [os.path.join(BIN, "skua-control"), "--data-dir", self.path("control"), "--listen-address",
                                        f"127.0.0.1:{port}"], port)
        self.refused(["Address already in use"], "--resp-address", f"127.0.0.1:{port}", "--databases", "0=cache")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = os.path.abspath(options.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
