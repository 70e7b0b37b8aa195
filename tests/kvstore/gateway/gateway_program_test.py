#!/usr/bin/env python3
"""skua-gateway as a program, on a cluster: Redis's own tools, several clients at once, slow clients, many clients, its end.

  gateway_program_test.py --bin build/release/bin [NAME]

Exit code 77: there are no redis-cli and redis-benchmark here.
"""

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import threading
import unittest

from gateway_programs import LIMIT_S, Programs, free_ports, wait_for
from redis_client import Connection, encode

BIN = None
DEBIAN_MODULES = "/usr/lib/python3/dist-packages"


def module(name):
    """A module of this Python, or of Debian's; None: there is none. Only for modules in pure Python."""
    for path in ([], [DEBIAN_MODULES]):
        sys.path += path
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
        finally:
            sys.path = [other for other in sys.path if other not in path]
    return None


def resident_kib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


class GatewayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = Programs(BIN)
        cls.addClassCleanup(cls.programs.__exit__)
        cls.programs.start_cluster(1)
        cls.programs.skuactl("table", "create", "cache", "--shards", "4")
        cls.programs.skuactl("table", "create", "users", "--shards", "1")

    def gateway(self, *words):
        process, port = self.programs.start_gateway("--databases", "0=cache,3=users", *words)
        self.addCleanup(self.end, process)
        return process, port

    def end(self, process):
        if process.poll() is None:
            self.assertEqual(self.programs.end(process), 0)

    def refused(self, code, words, *arguments):
        """The program must end by itself, with one line that contains the words."""
        result = subprocess.run(self.programs.gateway_command(*arguments), capture_output=True, text=True, timeout=LIMIT_S,
                                check=False, env=self.programs.environment())
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_redis_cli(self):
        _, port = self.gateway()

        def cli(*words, text=None):
            result = subprocess.run(["redis-cli", "-p", str(port), *words], input=text, capture_output=True, text=True,
                                    timeout=LIMIT_S, check=True)
            return result.stdout.strip()

        self.assertEqual(cli("SET", "greeting", "hello"), "OK")
        self.assertEqual(cli("GET", "greeting"), "hello")
        self.assertEqual(cli("-3", "GET", "nosuch"), "")
        self.assertEqual(cli("-n", "3", "GET", "greeting"), "")
        for i in range(30):
            cli("SET", f"cli:{i}", "v")
        self.assertEqual(sorted(cli("--scan", "--pattern", "cli:*").split()), sorted(f"cli:{i}" for i in range(30)))
        self.assertEqual(cli(text="PING\nINCR n\nINCR n\n"), "PONG\n1\n2")
        self.assertIn("loading:0", cli("INFO"))
        pipe = b"".join(encode("SET", f"pipe:{i}", i) for i in range(1000)).decode()
        self.assertIn("errors: 0, replies: 1000", cli("--pipe", text=pipe))
        self.assertEqual(cli("GET", "pipe:999"), "999")

    def test_redis_benchmark(self):
        _, port = self.gateway("--threads", "2")
        for pipeline in ("1", "16"):
            result = subprocess.run(["redis-benchmark", "-p", str(port), "-q", "-n", "2000", "-c", "20", "-P", pipeline, "-t",
                                     "ping,set,get,incr,mset"], capture_output=True, text=True, timeout=4 * LIMIT_S, check=True)
            for name in ("PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"):
                self.assertIn(f"{name}: ", result.stdout)
            self.assertNotIn("rror", result.stdout + result.stderr)

    def test_clients_that_change_one_key_lose_nothing(self):
        _, port = self.gateway("--threads", "2")
        first = Connection(port)
        first.ask("DEL", "log", "sum", "float")

        def work(letter):
            connection = Connection(port)
            for _ in range(50):
                connection.ask("APPEND", "log", letter)
                connection.ask("INCR", "sum")
                connection.ask("INCRBYFLOAT", "float", "0.5")
            connection.close()

        threads = [threading.Thread(target=work, args=(letter,)) for letter in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(first.ask("GET", "log").decode()), sorted("abcd" * 50))
        self.assertEqual(first.ask("GET", "sum"), b"200")
        self.assertEqual(first.ask("GET", "float"), b"100")
        first.close()

    def test_both_protocols(self):
        memcached_port = free_ports(1)
        _, port = self.gateway("--memcached-address", f"127.0.0.1:{memcached_port}", "--memcached-database", "3", "--threads", "2")
        redis = Connection(port)
        memcached = Connection(memcached_port)
        memcached.send(b"set both 9 0 5\r\nhello\r\nget both\r\n")
        for line in (b"STORED\r\n", b"VALUE both 9 5\r\n", b"hello\r\n", b"END\r\n"):
            self.assertEqual(memcached.line(), line)
        self.assertIsNone(redis.ask("GET", "both"), "another table")
        self.assertEqual(redis.ask("SELECT", "3"), "+OK")
        self.assertEqual(redis.ask("GET", "both"), b"hello")
        memcached.send(b"quit\r\n")
        self.assertEqual(memcached.rest(), b"")
        memcached.close()
        redis.close()

    def test_pymemcache(self):
        client_module = module("pymemcache.client.base")
        if client_module is None:
            self.skipTest("no pymemcache here: deploy/install-deps check")
        _, port = self.programs.start_memcached_gateway("--databases", "0=cache")
        client = client_module.Client(("127.0.0.1", port), timeout=LIMIT_S, default_noreply=False)
        self.assertTrue(client.set("py", b"1", expire=100, flags=5))
        self.assertEqual(client.get("py"), b"1")
        self.assertEqual(client.incr("py", 41), 42)
        value, version = client.gets("py")
        self.assertEqual(value, b"42")
        self.assertTrue(client.cas("py", b"43", version))
        self.assertFalse(client.cas("py", b"44", version))
        self.assertIsNone(client.cas("nosuch", b"44", version))
        self.assertEqual(client.set_many({f"py:{i}": b"v" * i for i in range(300)}), [])
        self.assertEqual(client.get_many([f"py:{i}" for i in range(301)]), {f"py:{i}": b"v" * i for i in range(300)})
        large = os.urandom(10 << 20)
        self.assertTrue(client.set("large", large))
        self.assertEqual(client.get("large"), large)
        self.assertTrue(client.append("py", b"!"))
        self.assertTrue(client.prepend("py", b"?"))
        self.assertFalse(client.add("py", b"x"))
        self.assertTrue(client.touch("py", 0))
        self.assertEqual(client.gat("py", 0) if hasattr(client, "gat") else client.get("py"), b"?43!")
        self.assertTrue(client.delete("py"))
        self.assertFalse(client.delete("py"))
        self.assertEqual(client.version(), b"1.6.18")
        self.assertEqual(client.stats()[b"curr_connections"], 1)
        client.close()

    def test_a_client_that_does_not_read(self):
        process, port = self.gateway("--timeout", "60s")
        connection = Connection(port, receive_buffer=4096)
        value = os.urandom(1 << 20)
        self.assertEqual(connection.ask("SET", "large", value), "+OK")
        count = 200
        before = resident_kib(process)
        connection.send(encode("GET", "large") * count)
        # Others are served meanwhile, also with values that are received into the same memory.
        other = Connection(port)
        for _ in range(20):
            self.assertEqual(other.ask("GET", "large"), value)
        other.close()
        # 32 MiB of replies, and what is on its way. All of them would be 200 MiB.
        self.assertLess(resident_kib(process) - before, 120 << 10)
        for _ in range(count):
            self.assertEqual(connection.reply().value, value)
        connection.close()

    def test_many_idle_clients(self):
        process, port = self.gateway()
        warm = Connection(port)
        warm.ask("SET", "a", "v" * 100)
        before = resident_kib(process)
        count = 500
        clients = []
        for _ in range(count):
            clients.append(Connection(port))
            clients[-1].send(encode("GET", "a") * 20)
            for _ in range(20):
                clients[-1].reply()
        self.assertLess(resident_kib(process) - before, 20 * count)
        for client in clients:
            client.close()
        wait_for("the gateway to forget them", lambda: b"connected_clients:1\r\n" in warm.ask("INFO", "clients"))
        warm.close()

    def test_too_many_clients(self):
        _, port = self.gateway("--connections-max", "2")
        kept = [Connection(port)]
        # The test has looked whether the gateway listens, by a connection.
        wait_for("the gateway to be without others", lambda: b"connected_clients:1\r\n" in kept[0].ask("INFO", "clients"))
        kept.append(Connection(port))
        kept[1].ask("PING")
        refused = Connection(port)
        self.assertEqual(refused.rest(), b"-ERR max number of clients reached\r\n")
        refused.close()
        self.assertIn(b"rejected_connections:1\r\n", kept[0].ask("INFO", "stats"))
        kept[1].close()

        def is_taken():
            client = Connection(port)
            client.send(encode("PING"))
            answer = client.line()
            client.close()
            return answer == b"+PONG\r\n"

        wait_for("a place that was freed", is_taken)
        kept[0].close()

    def test_a_client_that_sends_no_more_gets_its_replies(self):
        _, port = self.gateway()
        connection = Connection(port)
        connection.send(encode("SET", "half", "1") + encode("GET", "half") + b"*1\r\n$4\r\nPI")
        connection.socket.shutdown(1)
        self.assertEqual(connection.rest(), b"+OK\r\n$1\r\n1\r\n")
        connection.close()

    def test_ends_when_told(self):
        process, port = self.gateway("--threads", "2")
        idle = Connection(port)
        idle.ask("PING")
        busy = Connection(port)
        busy.send(b"".join(encode("SET", f"end:{i}", "v") for i in range(200)))
        busy.reply()
        self.assertEqual(self.programs.end(process), 0)
        self.assertEqual(idle.rest(), b"")
        # What was read is answered, and whole.
        self.assertEqual(busy.rest().replace(b"+OK\r\n", b""), b"")
        idle.close()
        busy.close()

    def test_nodes_that_are_away(self):
        process, port = self.gateway("--timeout", "500ms")
        connection = Connection(port)
        self.assertEqual(connection.ask("SET", "away", "1"), "+OK")
        self.programs.cluster("stop", "--only", "node0")
        try:
            self.assertTrue(connection.ask("GET", "away").startswith("-TRYAGAIN "))
            connection.send(encode("PING"))
            self.assertEqual(connection.reply().value, "+PONG")
        finally:
            self.programs.cluster("revive")

        def is_back():
            return connection.ask("GET", "away") == b"1"

        wait_for("the node to be back", is_back)
        connection.close()
        self.end(process)

    def test_mistakes(self):
        self.refused(1, ["no such table", "skuactl table create nosuch"], "--databases", "0=nosuch")
        self.refused(2, ["--databases must name at least one table"])
        self.refused(2, ["--databases must be NUMBER=TABLE", "x=cache"], "--databases", "x=cache")
        self.refused(2, ["names database 0 twice"], "--databases", "0=cache,0=users")
        self.refused(2, ["can be reached from other machines", "--security off-unsafe"], "--databases", "0=cache",
                     "--listen-address", "0.0.0.0:0")
        self.refused(2, ["--memcached-address 0.0.0.0:0", "--security off-unsafe"], "--databases", "0=cache",
                     "--memcached-address", "0.0.0.0:0")
        self.refused(2, ["--listen-address", "or --memcached-address, or both"], "--databases", "0=cache", "--listen-address", "")
        self.refused(2, ["--memcached-database is 7"], "--databases", "0=cache", "--memcached-database", "7")
        _, port = self.gateway()
        self.refused(2, ["Address already in use"], "--databases", "0=cache", "--listen-address", f"127.0.0.1:{port}")
        self.refused(1, ["127.0.0.1:1"], "--databases", "0=cache", "--control-address", "127.0.0.1:1", "--timeout", "1s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = options.bin
    if shutil.which("redis-cli") is None or shutil.which("redis-benchmark") is None:
        print("no redis-cli or redis-benchmark here: deploy/install-deps check")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
