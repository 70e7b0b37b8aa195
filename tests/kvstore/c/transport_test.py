#!/usr/bin/env python3
"""Programs in C over libskua.so.1 whose packets travel by a plug-in: DPDK on a memif link with skuad, and RDMA verbs.

  transport_test.py --build build/release --bin build/release/bin [NAME]

Without DPDK, or without the rights that it needs, the tests that need it are skipped.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "gateway"))
from gateway_programs import LIMIT_S, Programs, free_ports  # noqa: E402

BUILD = BIN = None
KILLS = 3
ENDS = 3


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False, **options)


def mappings(pid):
    """(first address, end, offset in the file, file) of each."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        lines = [line.split() for line in maps]
    return [(*(int(end, 16) for end in line[0].split("-")), int(line[2], 16), line[5]) for line in lines if len(line) > 5]


def file_of_call(pid, driver, function):
    """Whose `function` the loaded driver calls, as the process's memory has it."""
    base, path = next((first, path) for first, _, offset, path in mappings(pid) if driver in path and offset == 0)
    entry = next(line for line in run("readelf", "-rW", path).stdout.splitlines() if f" {function}@" in line)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(base + int(entry.split()[0], 16))
        address = int.from_bytes(memory.read(8), sys.byteorder)
    return os.path.basename(next(path for first, end, _, path in mappings(pid) if first <= address < end))


class TransportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="skua-transport-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.program = os.path.join(cls.folder, "transport_client")
        made = run("gcc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror",
                   os.path.join(HERE, "transport_client.c"), "-I", os.path.join(ROOT, "include"), "-L",
                   os.path.join(BUILD, "lib"), "-lskua", "-o", cls.program)
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith("SKUA_")}
        cls.environment["LD_LIBRARY_PATH"] = os.path.join(BUILD, "lib")

    def client(self, mode, *options, **environment):
        return run(self.program, mode, "t", *options, env={**self.environment, **environment})

    def ok(self, result):
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"), result.stderr)


class PluginTest(TransportTest):
    """What is said when a plug-in cannot be used."""

    def refusal(self, folder, transport="dpdk"):
        result = self.client("create", f"transport={transport}", SKUA_PLUGIN_DIR=folder)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        return result.stdout

    def test_absent(self):
        for transport in ("dpdk", "verbs"):
            text = self.refusal("/nosuch", transport)
            self.assertIn(f"there is no /nosuch/libskua-transport-{transport}.so.1; install the package "
                          f"libskua-{transport}1", text)

    def test_beside_the_library_if_no_folder_is_named(self):
        folder = os.path.join(self.folder, "lonely")
        os.mkdir(folder)
        shutil.copy(os.path.join(BUILD, "lib", "libskua.so.1"), folder)
        result = self.client("create", "transport=dpdk", LD_LIBRARY_PATH=folder)
        self.assertIn(f"there is no {folder}/skua/libskua-transport-dpdk.so.1;", result.stdout)

    def test_tcp_needs_no_plugin(self):
        self.ok(self.client("create", SKUA_PLUGIN_DIR="/nosuch"))

    def test_verbs_without_a_device(self):
        if os.path.exists("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
            self.skipTest("there is an RDMA device")
        result = self.client("create", "transport=verbs")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, "no RDMA|libibverbs")

    def test_settings_name_the_option(self):
        result = self.client("create", "transport=dpdk", "dpdk-devices=net_null0", "dpdk-addresses=10.77.0.1")
        self.assertRegex(result.stdout, "dpdk-addresses|no DPDK")


class MemifTest(TransportTest):
    """A node and clients on a memif link."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("DPDK needs root here")
        if "--dpdk-devices" not in run(os.path.join(BIN, "skuad"), "--help").stdout:
            self.skipTest("built without DPDK")
        self.programs = Programs(BIN)
        self.addCleanup(self.programs.__exit__)
        self.control = f"127.0.0.1:{self.programs.control_port}"
        self.programs.start("control", [os.path.join(BIN, "skua-control"), "--data-dir", self.path("control"),
                                        "--listen-address", self.control], self.programs.control_port)
        self.node = self.start_node()
        self.programs.skuactl("table", "create", "t", "--shards", "2")

    def path(self, name):
        return os.path.join(self.programs.directory.name, name)

    def device(self, role, socket="memif.sock"):
        return f"net_memif0,role={role},socket={self.path(socket)},socket-abstract=no"

    def start_node(self):
        port = free_ports(1)
        return self.programs.start("node", [
            os.path.join(BIN, "skuad"), "--data-dir", self.path("node"), "--control-address", self.control, "--grpc-address",
            f"127.0.0.1:{port}", "--http-address", "", "--memory", "256MiB", "--transport", "dpdk", "--dpdk-huge-pages=false",
            "--dpdk-addresses", "10.77.0.1/24", "--dpdk-devices", self.device("server")], port)

    def options(self):
        return [f"control-address={self.control}", "timeout=30s", "transport=dpdk", "dpdk-huge-pages=false", "dpdk-clients=2",
                "dpdk-addresses=10.77.0.2/24", f"dpdk-devices={self.device('client')}"]

    def test_blocking(self):
        self.ok(self.client("blocking", *self.options()))

    def test_polled(self):
        self.ok(self.client("polled", *self.options()))

    def test_clients_share_dpdk(self):
        result = self.client("other", *self.options())
        self.assertIn("the option dpdk-mtu must be that of the first client", result.stdout)

    def test_fork(self):
        result = self.client("fork", *self.options())
        self.assertEqual((result.returncode, result.stdout),
                         (0, "DPDK was started before fork(): use it in one process only\nok\n"), result.stderr)

    def test_a_program_may_end_with_clients(self):
        for _ in range(ENDS):
            self.ok(self.client("leave", *self.options()))

    def test_no_server(self):
        result = self.client("create", *self.options(), f"dpdk-devices={self.device('client', 'nobody')}")
        self.assertEqual(result.returncode, 1)
        self.assertIn("net_memif0", result.stdout)

    def test_outlives_a_node_that_is_killed(self):
        """While it polls on the processor that it shares with DPDK's control thread, where an unmap under a burst would show."""
        for _ in range(KILLS):
            with subprocess.Popen([self.program, "spin", "t", *self.options()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env=self.environment,
                                  preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})) as client:
                self.assertEqual(client.stdout.readline(), "polling\n")
                self.assertEqual(file_of_call(client.pid, "librte_net_memif", "munmap"), "libskua-transport-dpdk.so.1")
                self.node.send_signal(signal.SIGKILL)
                self.node.wait()
                self.node = self.start_node()
                text, _ = client.communicate(timeout=LIMIT_S)
            self.assertEqual((client.returncode, text), (0, "ok\n"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BUILD, BIN = os.path.abspath(arguments.build), os.path.abspath(arguments.bin)
    patterns = [part for word in rest if not word.startswith("-") for part in ("-k", word)]
    unittest.main(argv=[sys.argv[0], *patterns, *(word for word in rest if word.startswith("-"))], verbosity=2)
