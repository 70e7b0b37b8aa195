"""A cluster, a gateway, a redis-server and a memcached on ports of their own, for tests."""

import getpass
import os
import random
import signal
import socket
import subprocess
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
LIMIT_S = 60


def wait_for(what, condition):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {LIMIT_S} s in vain for {what}")


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count):
    """The first of `count` ports in a row that are free, below those that the kernel gives to connections."""
    for _ in range(1000):
        first = random.randrange(10_000, 30_000)
        if all(is_free(first + i) for i in range(count)):
            return first
    raise AssertionError("no free ports")


class Programs:
    """Use with `with`: all that was started ends, whatever happens."""

    def __init__(self, binaries):
        self.binaries = os.path.abspath(binaries)
        self.directory = tempfile.TemporaryDirectory()
        self.control_port = free_ports(1)
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        if os.path.exists(self.cluster_directory()):
            self.cluster("stop")
        self.directory.cleanup()

    def cluster_directory(self):
        return os.path.join(self.directory.name, "cluster")

    def cluster(self, *words):
        subprocess.run([os.path.join(ROOT, "deploy", "cluster"), *words, "--dir", self.cluster_directory()], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "SKUA_BIN_DIR": self.binaries})

    def start_cluster(self, nodes, *words):
        self.cluster("start", "--nodes", str(nodes), "--control-port", str(self.control_port), "--base-port",
                     str(free_ports(100 * nodes)), *words)

    def environment(self):
        return {**os.environ, "SKUA_CONTROL_ADDRESS": f"127.0.0.1:{self.control_port}"}

    def skuactl(self, *words):
        subprocess.run([os.path.join(self.binaries, "skuactl"), *words], check=True, stdout=subprocess.DEVNULL,
                       env=self.environment())

    def gateway_command(self, *words):
        return [os.path.join(self.binaries, "skua-gateway"), *words]

    def start(self, name, command, port):
        with open(os.path.join(self.directory.name, name + ".log"), "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment())
        self.processes.append(process)
        wait_for(f"{name} to listen", lambda: accepts(port) or process.poll() is not None)
        if process.poll() is not None:
            raise AssertionError(f"{name} ended: {self.log(name)}")
        return process

    def log(self, name):
        with open(os.path.join(self.directory.name, name + ".log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def start_gateway(self, *words):
        port = free_ports(1)
        command = self.gateway_command("--listen-address", f"127.0.0.1:{port}", *words)
        return self.start(f"gateway{port}", command, port), port

    def start_memcached_gateway(self, *words):
        """Without Redis's protocol."""
        port = free_ports(1)
        command = self.gateway_command("--listen-address", "", "--memcached-address", f"127.0.0.1:{port}", *words)
        return self.start(f"gateway{port}", command, port), port

    def start_memcached(self):
        """Without the threads that hold records for a moment: a number that became shorter is filled up with blanks then."""
        port = free_ports(1)
        self.start("memcached", ["memcached", "-u", getpass.getuser(), "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-I", "16m",
                                 "-m", "256", "-o", "no_lru_maintainer,no_lru_crawler"], port)
        return port

    def start_redis(self):
        """Its hashes keep their fields in the order in which these came, whatever their size."""
        port = free_ports(1)
        self.start("redis", ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1",
                             "--dir", self.directory.name, "--hash-max-listpack-entries", "100000",
                             "--hash-max-listpack-value", "1000000000"], port)
        return port

    @staticmethod
    def end(process):
        process.send_signal(signal.SIGTERM)
        return process.wait(LIMIT_S)
