#!/usr/bin/env python3
"""Disks that run full, and syncs that fail.

  full_disk_test.py --bin build/release/bin             all tests
  full_disk_test.py --bin build/release/bin FullDisk    those whose name contains the word

FullDisk needs root for a file system of its own (skipped otherwise); FailedSync needs a C compiler for the library that
makes a sync fail.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
from cluster_test import Cluster, wait_for
from kill_test import DurabilityClient
from loop_mount import LoopMount

MIB = 1 << 20

# Every way in which the log makes bytes durable fails once, with EIO, for the first file below a log directory that is
# synced while the trigger file exists; the trigger is removed, and a further sync of that file is reported.
FAILING_SYNC_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int failed_fd = -1;

static int fails(int fd) {
  char link[64], path[512];
  const char* trigger = getenv("FAIL_SYNC_TRIGGER");
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0 || trigger == NULL) return 0;
  path[length] = 0;
  if (strstr(path, "/log/") == NULL || strstr(path, "/segment-") == NULL) return 0;
  if (failed_fd == fd) fprintf(stderr, "TRIED AGAIN after a failed sync: %s\n", path);
  if (failed_fd >= 0 || unlink(trigger) != 0) return 0;
  failed_fd = fd;
  fprintf(stderr, "a sync fails: %s\n", path);
  return 1;
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  if (fails(fd)) return errno = EIO, -1;
  return real(fd);
}

ssize_t pwritev2(int fd, const struct iovec* pieces, int count, off_t offset, int flags) {
  static ssize_t (*real)(int, const struct iovec*, int, off_t, int);
  if (!real) real = (ssize_t(*)(int, const struct iovec*, int, off_t, int))dlsym(RTLD_NEXT, "pwritev2");
  if (flags != 0 && fails(fd)) return errno = EIO, -1;
  return real(fd, pieces, count, offset, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec* pieces, int count, off_t offset, int flags) {
  return pwritev2(fd, pieces, count, offset, flags);
}
"""


class Filler:
    """Takes every byte of a file system, again and again, as long as it is in the with statement."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "filler")
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with open(self.path, "ab", buffering=0) as out:
            while not self.stopping.wait(0.01):
                for bytes_at_once in (MIB, 4096, 1):
                    try:
                        while not self.stopping.is_set():
                            out.write(b"x" * bytes_at_once)
                    except OSError:
                        pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        os.unlink(self.path)


class StorageTest(unittest.TestCase):
    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def make_cluster(self, data_path, *arguments, environment=None):
        cluster = Cluster(0)
        self.addCleanup(cluster.close)
        cluster.grpc_ports = [cluster_test.free_port()]
        cluster.node_arguments = ("--memory", "256MiB", "--write-buffer", "8MiB", *arguments)
        cluster.node_environment = environment
        os.makedirs(os.path.join(data_path, "node0"))
        os.symlink(os.path.join(data_path, "node0"), os.path.join(cluster.directory, "node0"))
        cluster.start_node(0)
        wait_for("the node to be alive", lambda: cluster.alive_count() == 1)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "2"))
        return cluster

    def log(self, cluster):
        return cluster.processes["node0"].log()

    def test_FullDisk_RefusesGrowthAndRecovers(self):
        mount = LoopMount(64)
        mount.__enter__()
        self.addCleanup(mount.__exit__)
        if not mount.is_own:
            self.skipTest(mount.description)
        cluster = self.make_cluster(mount.path)  # sizes by the disk's
        client = DurabilityClient(cluster, "t", "--keys", "300", "--in-flight", "16", "--value-bytes", "4000", "--rate", "0")
        self.addCleanup(client.close)
        self.ok(cluster.ctl("put", "t", "before", "1"))
        self.ok(cluster.ctl("put", "t", "another", "1"))
        large = os.path.join(cluster.directory, "large")
        with open(large, "wb") as out:
            out.write(b"x" * (2 * MIB))
        refused = cluster.ctl("put", "t", "large", "--file", large)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--log-segment", refused.stderr)
        client.tell("load")
        wait_for("the load to begin", lambda: len(self.ok(cluster.ctl("scan", "t")).splitlines()) > 50)
        # Somebody else takes the space while the node is busy.
        ballast = os.path.join(mount.path, "ballast")
        with open(ballast, "wb") as out:
            about = os.statvfs(mount.path)
            os.posix_fallocate(out.fileno(), 0, about.f_bavail * about.f_frsize - 8 * MIB)
        wait_for("the node to say so", lambda: "the disk is full" in self.log(cluster))
        refused = cluster.ctl("put", "t", "after", "2", timeout="1s")
        self.assertEqual(refused.returncode, 1)
        for word in ("the disk is full", "--disk-reserve", "free"):
            self.assertIn(word, refused.stderr)
        wait_for("the status to say so", lambda: "the disk is full" in self.ok(cluster.ctl("status")))
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before")).strip(), "1")
        self.ok(cluster.ctl("del", "t", "before"))
        self.assertEqual(cluster.ctl("get", "t", "before").returncode, 1)
        # A restart on the full disk serves reads and deletes, too.
        cluster.processes["node0"].kill9()
        cluster.start_node(0)
        wait_for("the node to be back", lambda: cluster.ctl("del", "t", "another", timeout="5s").returncode == 0)
        os.unlink(ballast)
        wait_for("writes to be taken", lambda: cluster.ctl("put", "t", "after", "2", timeout="1s").returncode == 0)
        paused = client.tell("pause")
        self.assertGreater(client.figure(paused, "acknowledged"), 0, paused)
        client.tell("check")
        client.tell("load")
        cluster.processes["node0"].kill9()
        cluster.start_node(0)
        client.tell("pause")
        client.tell("check")
        self.assertEqual(self.ok(cluster.ctl("get", "t", "after")).strip(), "2")

    def test_FullDisk_ToTheLastByteEndsNothing(self):
        mount = LoopMount(96)
        mount.__enter__()
        self.addCleanup(mount.__exit__)
        if not mount.is_own:
            self.skipTest(mount.description)
        cluster = self.make_cluster(mount.path, "--workers", "2")
        client = DurabilityClient(cluster, "t", "--keys", "400", "--in-flight", "32", "--value-bytes", "6000", "--rate", "0")
        self.addCleanup(client.close)
        node = cluster.processes["node0"]
        for number in range(2):
            client.tell("load")
            wait_for("the load to begin", lambda: len(self.ok(cluster.ctl("scan", "t")).splitlines()) > 50)
            with Filler(mount.path):
                wait_for("the status to say so", lambda: "the disk is full" in self.ok(cluster.ctl("status")))
                wait_for("the last byte to be taken", lambda: os.statvfs(mount.path).f_bavail == 0)
                # Databases are made, and not made, and closed.
                cluster.ctl("table", "create", f"more{number}", "--shards", "2", timeout="2s")
                # The node tries every five seconds, and RocksDB speaks to its own log meanwhile.
                count = self.refusals(cluster) + 3
                wait_for("the node to find no room", lambda count=count: self.refusals(cluster) >= count)
                cluster.ctl("table", "drop", f"more{number}", "--yes", timeout="2s")
                self.assertIsNone(node.popen.poll(), self.log(cluster)[-2000:])
            for key in range(20):  # in each shard
                put = ("put", "t", f"probe{key}", "v")
                wait_for("writes to be taken", lambda put=put: cluster.ctl(*put, timeout="1s").returncode == 0)
            wait_for("the trouble to end", lambda: "TROUBLE" not in self.ok(cluster.ctl("status")))
            client.tell("pause")
            client.tell("check")
        # What the logs let go of is in the databases.
        client.tell("load")
        node.kill9()
        cluster.start_node(0)
        client.tell("pause")
        client.tell("check")

    def fill(self, mount, leave):
        """Takes what is free of the file system, but for some bytes."""
        ballast = os.path.join(mount.path, "ballast")
        with open(ballast, "wb") as out:
            about = os.statvfs(mount.path)
            os.posix_fallocate(out.fileno(), 0, about.f_bavail * about.f_frsize - leave - MIB)
            try:
                while os.statvfs(mount.path).f_bavail * about.f_frsize > leave:
                    out.seek(0, os.SEEK_END)
                    out.write(b"x" * about.f_frsize)
                    out.flush()
                    os.fsync(out.fileno())
            except OSError:
                pass
        return ballast

    def killed_node(self, *arguments, keys=300, loaded=50):
        """A node on a small disk that was killed with writes in its log that RocksDB lacks: (mount, cluster, paused client)."""
        mount = LoopMount(64)
        mount.__enter__()
        self.addCleanup(mount.__exit__)
        if not mount.is_own:
            self.skipTest(mount.description)
        cluster = self.make_cluster(mount.path, *arguments)
        client = DurabilityClient(cluster, "t", "--keys", str(keys), "--in-flight", "16", "--value-bytes", "4000", "--rate", "0")
        self.addCleanup(client.close)
        client.tell("load")
        wait_for("the load to be so far",
                 lambda: len(self.ok(cluster.ctl("scan", "t", "--limit", "1000")).splitlines()) > loaded)
        self.ok(cluster.ctl("put", "t", "before", "1"))
        cluster.processes["node0"].kill9()
        client.tell("pause")
        return mount, cluster, client

    def test_FullDisk_RecoveryWaitsForRoomAndSaysSo(self):
        mount, cluster, client = self.killed_node()
        # The spare files, which are a reserve for this, have been used up as well.
        for spare in glob.glob(f"{mount.path}/node0/log/*/spare-*"):
            os.unlink(spare)
        # Not even a line into the directory fits.
        ballast = self.fill(mount, 0)
        cluster.start_node(0)
        node = cluster.processes["node0"]
        wait_for("the node to say so", lambda: "the disk is full" in node.log())
        self.assertIsNone(node.popen.poll(), node.log())
        self.assertEqual(node.stop(), 0)
        self.assertIn("stopped", node.log().splitlines()[-1])
        # The node's state fits, what the log holds does not.
        os.unlink(ballast)
        ballast = self.fill(mount, 64 << 10)
        cluster.start_node(0)
        node = cluster.processes["node0"]
        wait_for("the status to say so", lambda: "the node serves nothing" in self.ok(cluster.ctl("status")))
        self.assertEqual(cluster.alive_count(), 1)
        status = json.loads(self.ok(cluster.ctl("--output", "json", "status")))
        self.assertEqual([table["available_shards"] for table in status["tables"]], [0])
        self.assertEqual([shard["shard"] for shard in status["unsettled_shards"]], [0, 1])
        refused = cluster.ctl("get", "t", "before", timeout="1s")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertEqual(node.stop(), 0)
        cluster.start_node(0)
        wait_for("the node to wait again", lambda: "the node serves nothing" in self.ok(cluster.ctl("status")))
        os.unlink(ballast)
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before", timeout="60s")).strip(), "1")
        wait_for("the trouble to end", lambda: "TROUBLE" not in self.ok(cluster.ctl("status")))
        client.tell("check")

    def test_FullDisk_SpareFilesOfTheLogMakeRoomForRecovery(self):
        mount, cluster, client = self.killed_node()
        ballast = self.fill(mount, 64 << 10)
        cluster.start_node(0)
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before", timeout="60s")).strip(), "1")
        self.assertRegex(self.log(cluster), "gave up [0-9]+ spare files? of the logs")
        os.unlink(ballast)
        client.tell("check")

    def test_FullDisk_SpareFilesMakeRoomForTheRecoveryOfAllLogs(self):
        # The spare files leave room for what both logs hold, but not for new spare files of log 0 as well, and for the
        # databases only if the logs do not keep the files that they have no use for any more.
        mount, cluster, client = self.killed_node("--workers", "2", keys=1000, loaded=900)
        ballast = self.fill(mount, 64 << 10)
        cluster.start_node(0)
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before", timeout="60s")).strip(), "1")
        self.assertRegex(self.log(cluster), "gave up [0-9]+ spare files? of the logs")
        self.assertNotIn("the node serves nothing", self.log(cluster))
        for worker in range(2):
            self.assertLessEqual(len(glob.glob(f"{mount.path}/node0/log/{worker}/spare-*")), 3)
        os.unlink(ballast)
        client.tell("check")

    def refusals(self, cluster):
        return self.log(cluster).count("No space left on device")

    def test_FailedSync_IsToldAndNotTriedAgain(self):
        directory = tempfile.mkdtemp(prefix="skua-failed-sync.")
        self.addCleanup(shutil.rmtree, directory, True)
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            self.skipTest("no C compiler")
        source, library, trigger = (os.path.join(directory, name) for name in ("fail.c", "fail.so", "trigger"))
        with open(source, "w", encoding="ascii") as out:
            out.write(FAILING_SYNC_C)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        cluster = self.make_cluster(directory, "--workers", "1",
                                    environment={"LD_PRELOAD": library, "FAIL_SYNC_TRIGGER": trigger})
        client = DurabilityClient(cluster, "t", "--keys", "500", "--rate", "0")
        self.addCleanup(client.close)
        self.ok(cluster.ctl("put", "t", "before", "1"))
        client.tell("load")
        wait_for("the load to begin", lambda: len(self.ok(cluster.ctl("scan", "t")).splitlines()) > 50)
        with open(trigger, "wb"):
            pass
        wait_for("the node to say so", lambda: "log failed worker=0" in self.log(cluster))
        self.assertIn("a sync fails", self.log(cluster))
        wait_for("the status to say so", lambda: "TROUBLE" in self.ok(cluster.ctl("status")))
        self.assertIn("log failed worker=0", self.ok(cluster.ctl("status")))
        refused = cluster.ctl("put", "t", "after", "2", timeout="1s")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("log failed", refused.stderr)
        self.assertIn("started again", refused.stderr)
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before")).strip(), "1")  # reads go on
        paused = client.tell("pause")
        self.assertGreater(client.figure(paused, "acknowledged"), 0, paused)
        self.assertEqual(cluster.processes["node0"].stop(), 0)
        self.assertNotIn("TRIED AGAIN", self.log(cluster))
        cluster.start_node(0)
        client.tell("check")
        self.ok(cluster.ctl("put", "t", "after", "2"))
        self.assertEqual(self.ok(cluster.ctl("get", "t", "before")).strip(), "1")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    patterns = [part for word in rest if not word.startswith("-") for part in ("-k", word)]
    unittest.main(argv=[sys.argv[0], *patterns, *(word for word in rest if word.startswith("-"))], verbosity=2)
