#!/usr/bin/env python3
"""Mistakes of the first hour with storage nodes.

  mistakes_node_test.py --bin build/release/bin [WORD]
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile

import cluster_test
import mistakes
from cluster_test import Process, free_port, wait_for

SLOW_FILES_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int posix_fallocate(int fd, off_t offset, off_t length) {
  static int (*real)(int, off_t, off_t);
  if (!real) real = (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate");
  char link[64], path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t bytes = readlink(link, path, sizeof path - 1);
  if (bytes > 0 && memmem(path, bytes, "/log/", 5)) {
    const struct timespec pause = {2, 500000000};
    nanosleep(&pause, NULL);
  }
  return real(fd, offset, length);
}

int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }
"""


class NodeTest(mistakes.MistakesTest):
    """A control plane for all tests; nodes are made by those that need them."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster_test.Cluster(0)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="skua-mistakes.")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.data = os.path.join(self.directory, "data")

    def node(self, *options, data=None):
        """A node's command line; later options replace earlier ones."""
        given = {"--control-address": self.cluster.control_address, "--data-dir": data or self.data,
                 "--grpc-address": "127.0.0.1:0", "--data-address": "127.0.0.1:0", "--memory": "256MiB"}
        flags = []
        for word in options:
            if word.startswith("--"):
                flags.append([word])
            else:
                flags[-1].append(word)
        for flag in flags:
            given.pop(flag[0], None)
        return [self.program("skuad"), *(word for pair in given.items() for word in pair),
                *(word for flag in flags for word in flag)]

    def node_refused(self, *options, data=None, **judged):
        return self.refused(*self.node(*options, data=data), **judged)

    def start(self, *options, environment=None):
        process = Process(self.directory, "node", *self.node(*options), environment=environment)
        self.addCleanup(process.stop)
        return process

    def joined(self, process):
        """The node's line of the status, once it serves."""
        uuid = wait_for("the node's name", lambda: self.uuid() or self.ended(process))
        wait_for("the node to serve", lambda: "shard map applied" in process.log() or "worker listening" in process.log() or
                 self.ended(process))
        return next(node for node in self.status()["nodes"] if node["uuid"] == uuid)

    def ended(self, process):
        if process.popen.poll() is not None:
            raise AssertionError("the node ended: " + process.log())

    def uuid(self):
        path = os.path.join(self.data, "identity.toml")
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return next(line.split('"')[1] for line in file if line.startswith("node_uuid"))

    def status(self):
        return json.loads(self.ok(self.cluster.ctl("--output", "json", "status")))

    def written(self, name, data=None):
        with open(os.path.join(data or self.data, name), encoding="utf-8") as file:
            return file.read()

    # --- sizes and counts

    def test_Sizes_ThatCannotWorkAreRefusedBeforeAnythingIsMade(self):
        before = len(self.status()["nodes"])
        for options, words in (
                (("--memory", "999TiB"), ("--memory", "this machine has", "give less")),
                (("--memory", "10MiB"), ("--memory is 10 MiB", "at least 112 MiB")),
                (("--memory", "0"), ("--memory",)),
                (("--memory", "lots"), ("--memory",)),
                (("--memory", "-1GiB"), ("--memory",)),
                (("--message-memory", "512TiB"), ("--message-memory is 512 TiB for each worker", "--memory")),
                (("--block-cache", "1TiB"), ("--block-cache", "--memory")),
                (("--write-buffer", "1TiB"), ("--write-buffer",)),
                (("--workers", "100000"), ("--workers", "256")),
                (("--workers", "0"), ("--workers",)),
                (("--workers", "256"), ("256 workers", "--memory")),
                (("--sessions-max", "0"), ("--sessions-max",)),
                (("--reader-threads", "100000"), ("--reader-threads",)),
                (("--log-segment", "1KiB"), ("--log-segment", "1MiB")),
                (("--log-segment", "100TiB"), ("--log-segment", "3 files of 100 TiB")),
                (("--log-segments-max", "1"), ("--log-segments-max",)),
                (("--disk-reserve", "999TiB"), ("--disk-reserve", "in all")),
                (("--zone", "a\nb"), ("--zone", "one line")),
                (("--spin", "-1s"), ("--spin",))):
            with self.subTest(options=options):
                self.node_refused(*options, words=words)
                self.assertFalse(os.path.exists(self.data))
        self.assertEqual(len(self.status()["nodes"]), before)

    def test_CheckConfig_SaysWhatAStartWould(self):
        self.node_refused("--check-config", "--memory", "999TiB", words=("this machine has",))
        self.ok(mistakes.run(*self.node("--check-config")))
        self.assertFalse(os.path.exists(self.data))
        with open("/dev/full", "wb") as full:
            lost = mistakes.run(*self.node("--check-config"), stdout=full)
        self.judged(lost, 1, ("standard output",))

    def test_Limits_OfTheProcessAreOneLine(self):
        for limit, words in (("ulimit -n 16", ("16 files", "ulimit -n")), ("ulimit -v 900000", ("ulimit -v",)),
                             ("ulimit -f 1000", ("ulimit -f", "files may have 500 KiB"))):
            with self.subTest(limit=limit):
                self.refused("sh", "-c", limit + '; exec "$@"', "sh", *self.node(), words=words)
                self.assertFalse(os.path.exists(self.data))

    def test_Threads_ThatAreNotToBeHadAreOneLine(self):
        os.chmod(self.directory, 0o777)
        self.refused(*self.as_nobody("prlimit", "--nproc=2", *self.node()), words=("more threads", "ulimit -u", "--workers"))
        self.assertFalse(os.path.exists(self.data))

    def test_DataDir_OfAnotherUserIsOneLine(self):
        os.chmod(self.directory, 0o755)
        self.refused(*self.as_nobody(*self.node()), words=("cannot be made", "user 65534", "chown"))
        # It was run by sudo once.
        node = self.start()
        self.joined(node)
        self.assertEqual(node.stop(), 0)
        os.chown(self.data, 65534, 65534)
        for name in ("skua.lock", "identity.toml", "state", "shards"):
            path = os.path.join(self.data, name)
            with self.subTest(name=name):
                os.chmod(path, 0o600)
                self.refused(*self.as_nobody(*self.node()), words=(path, "user 65534", "chown -R"))
                os.chown(path, 65534, 65534)

    # --- addresses

    def test_Addresses_ThatAreNoneAreFoundByCheckConfig(self):
        for option in ("--grpc-address", "--data-address", "--control-address"):
            for address, word in (("10.0.0.1", "no port"), ("http://10.0.0.1:7410", "http://"), ("10.0.0.1:", "port"),
                                  (":7410", "no host"), ("7410", "no host"), ("10.0.0.1:99999", "65535"),
                                  ("10.0.0.1:-1", "65535"), ("10.0.0.1:http", "port"), ("[::1:7410", "]"),
                                  ("::1:7410", "brackets"), ("[nonsense]:7410", "IPv6"), ("10.0.0.300:7410", "IPv4"),
                                  ("10.0.0.1 :7410", "blank"), ("a b:1", "blank"), ("", "")):
                with self.subTest(option=option, address=address):
                    self.node_refused("--check-config", option, address, words=(option, word))
        self.node_refused("--check-config", "--data-address", "node-1:7420", words=("--data-address", "IP address"))
        self.node_refused("--check-config", "--control-address", "10.0.0.1:0", words=("--control-address",))
        self.node_refused("--check-config", "--control-address", "10.0.0.1:7400,10.0.0.2", words=("10.0.0.2", "no port"))
        for host, word in (("10.0.0.1:7410", "port"), ("http://node", "http://"), ("0.0.0.0", "every address"),
                           ("node 1", "blank"), ("[::1", "]"), ("nöde", "name")):
            with self.subTest(advertise_host=host):
                self.node_refused("--check-config", "--advertise-host", host, words=("--advertise-host", word))

    def test_Addresses_ThatMeetAreFoundBeforeJoining(self):
        before = len(self.status()["nodes"])
        port = cluster_test.free_ports(range(3))
        self.node_refused("--grpc-address", f"127.0.0.1:{port}", "--data-address", f"127.0.0.1:{port}",
                          words=("--grpc-address", "--data-address", "different ports"))
        self.node_refused("--grpc-address", f"localhost:{port + 2}", "--data-address", f"127.0.0.1:{port}", "--workers", "3",
                          words=("worker 2", "different ports"))
        self.node_refused("--data-address", "127.0.0.1:65535", "--workers", "2", words=("65536", "lower"))
        self.assertFalse(os.path.exists(self.data))
        self.assertEqual(len(self.status()["nodes"]), before)

    def test_AdvertiseHost_IsAskedForWhereNobodyCouldDial(self):
        port = free_port()
        for options in (("--grpc-address", f"0.0.0.0:{port}"), ("--data-address", "0.0.0.0:0"), ("--data-address", "[::]:0")):
            with self.subTest(options=options):
                self.node_refused(*options, words=(options[0], "--advertise-host"))
                self.assertFalse(os.path.exists(self.data))
        self.node_refused("--advertise-host", "no-such-host.invalid", words=("--advertise-host", "does not resolve"))
        self.assertFalse(os.path.exists(self.data))

    def test_AdvertiseHost_MayBeAName(self):
        port = free_port()
        node = self.start("--grpc-address", f"0.0.0.0:{port}", "--data-address", "0.0.0.0:0", "--advertise-host", "localhost",
                          *cluster_test.UNSAFE)
        self.assertEqual(self.joined(node)["grpc_address"], f"localhost:{port}")
        self.assertIn("other machines cannot reach this node", node.log())
        self.ok(self.cluster.ctl("table", "create", "named", "--shards", "1"))
        self.ok(self.cluster.ctl("put", "named", "key", "value"))
        self.assertEqual(self.ok(self.cluster.ctl("get", "named", "key")).strip(), "value")
        self.ok(self.cluster.ctl("table", "drop", "named", "--yes"))

    def test_AdvertiseHost_ThatListensElsewhereIsWarnedOf(self):
        # Of an address that this machine has not: nobody gets through, and the log says so before the control plane does.
        node = self.start("--grpc-address", f"0.0.0.0:{free_port()}", "--advertise-host", "192.0.2.1", *cluster_test.UNSAFE)
        wait_for("the warning", lambda: "other machines cannot reach this node" in node.log() or self.ended(node))
        self.assertIn("--data-address 127.0.0.1:0", node.log())

    # --- who is let in

    def test_WithoutCertificates_OnlyThisMachineIsLetIn(self):
        before = len(self.status()["nodes"])
        ways_out = ("skuactl cert init ca", "skuactl cert issue node", "--security off-unsafe")
        elsewhere = ("--advertise-host", "node-1")
        for options, word in ((("--grpc-address", "0.0.0.0:7410", *elsewhere), "--grpc-address 0.0.0.0:7410"),
                              (("--data-address", "[::]:7420", *elsewhere), "--data-address [::]:7420"),
                              (("--data-address", "10.0.0.4:7420"), "--data-address 10.0.0.4:7420"),
                              (("--grpc-address", "node-1:7410"), "--grpc-address node-1:7410"),
                              (("--transport", "verbs"), "--transport verbs"),
                              (("--transport", "dpdk", "--dpdk-devices", "0000:3b:00.0", "--dpdk-addresses", "10.1.0.7/16"),
                               "--dpdk-devices 0000:3b:00.0")):
            with self.subTest(options=options):
                self.node_refused("--check-config", *options, words=(word, *ways_out))
                allowed = mistakes.run(*self.node("--check-config", *options, *cluster_test.UNSAFE))
                self.assertEqual(allowed.returncode, 0, allowed.stderr)
        self.node_refused("--grpc-address", "0.0.0.0:0", "--advertise-host", "localhost", words=ways_out)
        self.assertFalse(os.path.exists(self.data))
        self.assertEqual(len(self.status()["nodes"]), before)
        for options in ((), ("--transport", "dpdk", "--dpdk-devices", "net_memif0,role=server", "--dpdk-addresses", "10.7.0.1/24")):
            self.assertEqual(mistakes.run(*self.node("--check-config", *options)).returncode, 0, options)

    def test_OffUnsafe_IsSaidInTheLogAndTheStatus(self):
        node = self.start("--grpc-address", f"0.0.0.0:{free_port()}", "--advertise-host", "localhost", *cluster_test.UNSAFE)
        uuid = self.joined(node)["uuid"]
        self.assertIn("security is off: whoever reaches --grpc-address 0.0.0.0", node.log())
        wait_for("its word in the status", lambda: next(one for one in self.status()["nodes"] if one["uuid"] == uuid)[
            "security"] == "OFF-UNSAFE")
        self.assertIn("OFF-UNSAFE", self.ok(self.cluster.ctl("status")))
        self.assertIn("control plane's security: off, loopback only", self.ok(self.cluster.ctl("status")))
        self.assertIn(f"OFF-UNSAFE: node {uuid[:8]}", self.cluster.ctl("doctor").stdout)

    # --- transports

    def test_Transport_OptionsOfAnotherAreRefused(self):
        for option, value, transport in (("--dpdk-devices", "0000:3b:00.0", "dpdk"), ("--verbs-device", "mlx5_0", "verbs")):
            with self.subTest(option=option):
                self.node_refused(option, value, words=(option, f"--transport {transport}", "this is tcp"))
                self.node_refused("--check-config", option, value, words=(option,))

    def test_Transport_ADeviceThatIsNotReadyYetIsNoMistake(self):
        """After a power cut all machines start at once: systemd starts the node again, unless its exit code is 2."""
        nobody = f"net_memif0,role=client,socket={self.data}.nobody"
        ended = mistakes.run(*self.node("--transport", "dpdk", "--dpdk-devices", nobody, "--dpdk-addresses", "10.77.0.1/24",
                                        "--dpdk-huge-pages=false"))
        if "DPDK does not start" in ended.stderr or "no DPDK" in ended.stderr:
            self.skipTest(ended.stderr)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("does not start", ended.stderr)

    def test_Port_InUseLeavesNothingBehind(self):
        before = len(self.status()["nodes"])
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for option in ("--grpc-address", "--data-address"):
                with self.subTest(option=option):
                    self.node_refused(option, f"127.0.0.1:{port}", words=(option, str(port), "ss -ltnp"))
                    self.assertFalse(os.path.exists(self.data))
        self.node_refused("--grpc-address", "192.0.2.1:7410", *cluster_test.UNSAFE, code=1, words=("192.0.2.1", "ip addr"))
        self.assertFalse(os.path.exists(self.data))
        self.assertEqual(len(self.status()["nodes"]), before)

    # --- data directories

    def test_DataDir_ThatIsNoneIsOneLine(self):
        path = os.path.join(self.directory, "file")
        with open(path, "w", encoding="ascii"):
            pass
        self.node_refused(data=path, words=("is a file", "give a directory"))
        self.node_refused(data=os.path.join(path, "below"), words=(path, "is a file"))
        os.symlink("nowhere", self.data)
        self.node_refused(words=("is a link",))

    def test_DataDir_OfOthersIsRefused(self):
        node = self.start()
        address = self.joined(node)["grpc_address"]
        self.node_refused(words=("in use by process", "--data-dir"))
        # Also where the ports are taken as well: the second start of one command.
        self.node_refused("--grpc-address", address, words=("in use by process",))
        self.assertEqual(node.stop(), 0)
        state = self.written("state")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.node_refused("--grpc-address", f"127.0.0.1:{taken.getsockname()[1]}", words=("ss -ltnp",))
        self.assertEqual(self.written("state"), state)  # that was no start
        self.node_refused(data=f"{self.cluster.directory}/control", words=("control",))
        identity = self.written("identity.toml")
        for name, text, words in (
                ("identity.toml", identity.replace("format_version = 1", "format_version = 99"), ("99", "newer")),
                ("identity.toml", "nonsense", ("identity.toml", "damaged", "restore")),
                ("identity.toml", None, ("identity.toml", "shards", "restore")),
                ("state", "format_version = 99\n", ("state", "99", "newer")),
                ("state", "nonsense\n", ("state", "restore"))):
            with self.subTest(name=name, text=text):
                copy = os.path.join(self.directory, "copy")
                shutil.copytree(self.data, copy)
                if text is None:
                    os.unlink(os.path.join(copy, name))
                else:
                    with open(os.path.join(copy, name), "w", encoding="utf-8") as file:
                        file.write(text)
                self.node_refused(data=copy, words=words)
                shutil.rmtree(copy)

    def test_DataDir_CopiedFromARunningNodeIsRefused(self):
        node = self.start()
        self.joined(node)
        copy = os.path.join(self.directory, "copy")
        shutil.copytree(self.data, copy)
        second = Process(self.directory, "second", *self.node(data=copy))
        self.addCleanup(second.stop)
        self.assertEqual(wait_for("the refusal", lambda: second.popen.poll()), 2, second.log())
        self.assertIn("has the identity of a process that is alive", second.log().splitlines()[-1])
        self.assertIsNone(node.popen.poll())

    def test_DataDir_InMemoryIsWarnedOf(self):
        if subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], capture_output=True, text=True,
                          check=False).stdout.strip() != "tmpfs":
            self.skipTest("/dev/shm is no tmpfs")
        self.data = tempfile.mkdtemp(prefix="skua-mistakes.", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.data, True)
        node = self.start("--log-segment", "1MiB")
        self.joined(node)
        self.assertIn("tmpfs", node.log())

    # --- starting and stopping

    def test_Log_SaysWhereTheNodeIsAndWhyItEnds(self):
        node = self.start()
        self.joined(node)
        first = node.log().splitlines()[0]
        for word in ("starting", self.uuid(), self.cluster.control_address, "127.0.0.1:0", self.data, "version="):
            self.assertIn(word, first)
        self.assertIn("memory is divided", node.log().splitlines()[1])
        self.assertEqual(node.stop(), 0)
        self.assertIn("stopping: the process was asked to signal=SIGTERM", node.log())

    def test_Log_SlowCreationDoesNotMakeTheNodeSuspected(self):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            self.skipTest("no C compiler")
        source, library = (os.path.join(self.directory, name) for name in ("slow.c", "slow.so"))
        with open(source, "w", encoding="ascii") as out:
            out.write(SLOW_FILES_C)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        node = self.start("--log-segment", "1MiB", environment={"LD_PRELOAD": library})
        uuid = wait_for("the node's name", self.uuid)
        states = set()

        def listens():
            states.update(node["state"] for node in self.status()["nodes"] if node["uuid"] == uuid)
            self.ended(node)
            return "worker listening" in node.log()
        wait_for("the node to listen", listens)
        self.assertEqual(states, {"alive"})


if __name__ == "__main__":
    mistakes.main()
