#!/usr/bin/env python3
"""Storage nodes whose disks were damaged while they were stopped, and `skuactl store`, which looks at such disks.

  damage_test.py --bin build/release/bin            all tests
  damage_test.py --bin build/release/bin Middle     those whose name contains the word
"""

import argparse
import base64
import glob
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

import cluster_test
from cluster_test import Cluster, wait_for
from failover_test import primary_of, settled

GROUP_MAGIC = b"SRG1"
SHARDS = 3


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x10]))


def groups_of(path):
    """(offset, bytes, records) of the groups of a segment, by their magic."""
    with open(path, "rb") as file:
        data = file.read()
    groups = []
    for offset in range(4096, len(data), 512):
        if data[offset + 4:offset + 8] == GROUP_MAGIC:
            groups.append((offset, *struct.unpack_from("<II", data, offset + 8)))
    return groups


def shard_of_group(path, offset):
    """Of its first record."""
    with open(path, "rb") as file:
        file.seek(offset + 64 + 8)
        number, = struct.unpack("<Q", file.read(8))
    return f"{number >> 32}-{number & 0xffffffff}"


def fingerprint(directory):
    """Of every file below it, the lock aside."""
    files = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            if name == "skua.lock":
                continue
            with open(path, "rb") as file:
                files[path] = (os.stat(path).st_mtime_ns, hashlib.sha256(file.read()).hexdigest())
    return files


def text_of(text, encoding):
    return text if encoding == "utf-8" else base64.b64decode(text).decode("latin-1")


class DamageTest(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(1)
        self.addCleanup(self.cluster.close)
        self.data = f"{self.cluster.directory}/node0"
        self.ok(self.cluster.ctl("table", "create", "t", "--shards", str(SHARDS)))
        self.rows = {}

    def ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def put(self, key, value):
        self.ok(self.cluster.ctl("put", "t", key, value))
        self.rows[key] = value

    def delete(self, key):
        self.ok(self.cluster.ctl("del", "t", key))
        del self.rows[key]

    def kill9(self):
        self.cluster.processes["node0"].kill9()

    def start(self):
        self.cluster.start_node(0)

    def store(self, *arguments):
        return subprocess.run([f"{cluster_test.BIN}/skuactl", "store", *arguments], capture_output=True, text=True,
                              timeout=60, check=False)

    def store_json(self, *arguments, code=0):
        result = self.store(*arguments, "--output", "json")
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def dumped(self, *arguments, code=0):
        result = self.store("dump", self.data, "--values", "--output", "json", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        return {text_of(row["key"], row["key_encoding"]): text_of(row["value"], row["encoding"]) for row in rows}

    def segment(self):
        """The newest."""
        return max(glob.glob(f"{self.data}/log/0/segment-*.log"))

    # --- looking

    def test_Store_InspectVerifyAndDumpAfterACrashChangeNothing(self):
        for number in range(30):
            self.put(f"key{number}", f"first{number}")
        self.assertEqual(self.cluster.processes["node0"].stop(), 0)
        self.start()
        self.put("key3", "second")
        self.put("new", "x\ty\n")
        self.delete("key7")
        self.kill9()
        before = fingerprint(self.data)
        self.assertEqual(self.dumped(), self.rows)
        about = self.store_json("inspect", self.data)
        self.assertEqual(len(about["shards"]), SHARDS)
        self.assertEqual(sum(shard["unapplied"] for shard in about["shards"]), 3)
        self.assertEqual({shard["state"] for shard in about["shards"]}, {"ok"})
        self.assertGreaterEqual(sum(segment["records"] for segment in about["logs"][0]["segments"]), 3)
        self.assertEqual(about["logs"][0]["damage"], [])
        self.assertFalse(about["logs"][0]["tail"]["closed"])
        self.assertTrue(self.store_json("verify", self.data)["ok"])
        for command in ("inspect", "verify"):
            self.assertIn("log 0", self.ok(self.store(command, self.data)))
        verified = self.ok(self.store("verify", self.data))
        self.assertIn("1 segment, ", verified)
        self.assertNotRegex(verified, r"\b1 (segments|groups|records|files|bytes|keys)\b")
        self.assertEqual(fingerprint(self.data), before)
        # The selections.
        rows = [line.split("\t") for line in self.ok(self.store("dump", self.data, "--shard", "1")).splitlines()]
        table = about["shards"][0]["table"]
        self.assertEqual({row[0] for row in rows}, {f"{table}-1"})
        self.assertEqual([row[2] for row in rows], sorted(row[2] for row in rows))
        some = self.dumped("--start", "key2")
        self.assertEqual(some, {key: value for key, value in self.rows.items() if key >= "key2"})
        result = self.store("dump", self.data, "--limit", "5")
        self.assertEqual(len(self.ok(result).splitlines()), 5)
        self.assertIn("more rows", result.stderr)
        self.assertEqual(self.dumped("--table", str(table + 1)), {})
        # What it showed is what is served.
        self.start()
        for key, value in self.rows.items():
            self.assertEqual(self.ok(self.cluster.ctl("get", "t", key)), value + "\n")

    def test_Store_RefusesWhatIsNoStoppedNode(self):
        for directory, word in ((self.data, "stop"), (f"{self.cluster.directory}/control", "control"),
                                ("/nonexistent", "--data-dir"), (self.cluster.directory, "identity.toml")):
            result = self.store("inspect", directory)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn(word, result.stderr)
        self.assertFalse(os.path.exists("/nonexistent"))
        self.ok(self.cluster.ctl("put", "t", "still", "served"))

    def failed_subjects(self):
        findings = self.store_json("verify", self.data, code=1)["findings"]
        return {finding["subject"] for finding in findings if finding["verdict"] == "FAIL"}

    def test_Store_NamesLogsAndDatabasesThatAreLost(self):
        for number in range(24):
            self.put(f"key{number}", f"value{number}")
        self.kill9()
        self.remember_shards()
        names = {f"shard {name}" for name in self.shards()}
        log, aside = f"{self.data}/log", f"{self.cluster.directory}/aside"
        os.rename(log, aside)
        self.assertEqual(self.failed_subjects(), names | {"log 0"})
        self.assertEqual(self.dumped(code=1), {})
        self.assertIn("log 0 cannot be read", self.store("dump", self.data).stderr)
        states = [shard["state"] for shard in self.store_json("inspect", self.data)["shards"]]
        self.assertEqual([state for state in states if "log 0" not in state], [], states)
        # A log that is not in its place.
        os.mkdir(log)
        os.rename(f"{aside}/0", f"{log}/1")
        self.assertEqual(self.failed_subjects(), names | {"log 0", "log 1"})
        os.rename(f"{log}/1", f"{log}/0")
        os.rename(f"{self.data}/shards", f"{self.cluster.directory}/shards")
        self.assertEqual(self.failed_subjects(), names)
        self.assertEqual(self.dumped(code=1), {})
        os.rename(f"{self.cluster.directory}/shards", f"{self.data}/shards")
        self.assertTrue(self.store_json("verify", self.data)["ok"])
        self.assertEqual(self.dumped(), self.rows)

    def test_Store_DumpLeavesOutKeysThatHaveExpired(self):
        self.put("ever", "value")
        self.ok(self.cluster.ctl("put", "t", "brief", "value", "--ttl", "50ms"))
        wait_for("the key to expire", lambda: self.cluster.ctl("get", "t", "brief").returncode == 1)
        self.kill9()
        self.assertEqual(self.dumped(), self.rows)
        inspected = self.store_json("inspect", self.data)
        self.assertEqual(sum(shard["keys"] for shard in inspected["shards"]), 1)

    # --- damage

    def serve_all_but(self, refused, words):
        """After a start: keys of the refused shards are refused with the words, all others are served."""
        node = self.cluster.processes["node0"]
        wait_for("the node to listen", lambda: node.log().count("gRPC listening") >= 2)
        served = 0
        for key, (shard, value) in self.rows_by_shard.items():
            result = self.cluster.ctl("get", "t", key, timeout="1s" if shard in refused else "20s")
            if shard in refused:
                self.assertEqual(result.returncode, 1, result.stdout)
                for word in words:
                    self.assertIn(word, result.stderr)
            else:
                self.assertEqual(self.ok(result).strip(), value)
                served += 1
        self.assertGreater(served, 0)
        for word in words:
            self.assertIn(word, node.log())

    def remember_shards(self):
        result = self.store("dump", self.data, "--values")
        self.rows_by_shard = {}
        for line in self.ok(result).splitlines():
            shard, _, key, value = line.split("\t")
            self.rows_by_shard[key] = (shard, value)
        self.assertEqual({shard for shard, _ in self.rows_by_shard.values()}, self.shards())

    def shards(self):
        return {os.path.basename(path) for path in glob.glob(f"{self.data}/shards/*-*")}

    def test_Log_DamageInTheMiddleRefusesThatShardOnly(self):
        for number in range(24):
            self.put(f"key{number}", f"value{number}")
        self.kill9()
        self.remember_shards()
        segment = self.segment()
        groups = groups_of(segment)
        self.assertGreater(len(groups), 20)
        # A group that is not the first of its shard, so that the shard is known to have begun.
        offset, _, _ = groups[len(groups) // 2]
        shard = shard_of_group(segment, offset)
        flip(segment, offset + 64 + 48 + 8 + 2)  # in the first record's key
        found = self.store_json("verify", self.data, code=1)
        failed = [finding for finding in found["findings"] if finding["verdict"] == "FAIL"]
        self.assertEqual({finding["subject"] for finding in failed}, {"log 0", f"shard {shard}"})
        for finding in failed:
            self.assertEqual(finding["offset"], offset, finding)
            self.assertIn(os.path.basename(segment), finding["file"] + finding["detail"])
            self.assertTrue(finding["remedy"])
        whole = {key: value for key, (of, value) in self.rows_by_shard.items() if of != shard}
        self.assertEqual(self.dumped(code=1), whole)
        self.start()
        self.serve_all_but({shard}, [os.path.basename(segment), f"offset {offset}", "restore"])
        # Nothing is forgotten by starting once more.
        self.kill9()
        self.start()
        self.serve_all_but({shard}, [os.path.basename(segment), f"offset {offset}", "restore"])

    def test_Log_TornTailIsCutAndTold(self):
        self.put("key", "value")
        self.put("torn", "value")
        self.kill9()
        segment = self.segment()
        offset, _, _ = groups_of(segment)[-1]
        flip(segment, offset + 64 + 50)
        verified = self.store_json("verify", self.data)
        self.assertIn("torn", json.dumps(verified))
        self.start()
        self.assertEqual(self.ok(self.cluster.ctl("get", "t", "key")).strip(), "value")
        self.assertEqual(self.cluster.ctl("get", "t", "torn").returncode, 1)
        self.assertIn(f"log ends torn file={segment} offset={offset}", self.cluster.processes["node0"].log())

    def test_Table_DamageRefusesThatShardOnly(self):
        for number in range(60):
            self.put(f"key{number:02}", f"value{number}")
        self.assertEqual(self.cluster.processes["node0"].stop(), 0)
        self.remember_shards()
        shard = sorted(self.shards())[1]
        tables = sorted(glob.glob(f"{self.data}/shards/{shard}/*.sst"), key=os.path.getsize)
        flip(tables[-1], 20)  # in the first data block
        found = self.store_json("verify", self.data, code=1)
        failed = [finding for finding in found["findings"] if finding["verdict"] == "FAIL"]
        self.assertEqual({finding["subject"] for finding in failed}, {f"shard {shard}"})
        self.assertEqual(failed[0]["file"], tables[-1])
        self.assertEqual(failed[0]["offset"], 0)
        self.start()
        self.serve_all_but({shard}, [os.path.basename(tables[-1]), "offset 0"])

    def test_Table_DamageThatEndsItsFileRefusesThatShardOnly(self):
        for number in range(20):
            self.put(f"key{number:02}", f"value{number}")
        self.assertEqual(self.cluster.processes["node0"].stop(), 0)
        self.remember_shards()
        shard = sorted(self.shards())[0]
        for table in glob.glob(f"{self.data}/shards/{shard}/*.sst"):
            os.truncate(table, os.path.getsize(table) - 10)
        found = self.store_json("verify", self.data, code=1)
        self.assertFalse(found["ok"])
        self.assertIn(".sst", json.dumps(found))
        self.start()
        self.serve_all_but({shard}, [".sst"])

    def test_Manifest_DamageIsTroubleInTheStatus(self):
        for number in range(20):
            self.put(f"key{number:02}", f"value{number}")
        self.assertEqual(self.cluster.processes["node0"].stop(), 0)
        self.remember_shards()
        shard = sorted(self.shards())[1]
        manifest, = glob.glob(f"{self.data}/shards/{shard}/MANIFEST-*")
        whole = f"{self.cluster.directory}/MANIFEST"
        shutil.copyfile(manifest, whole)
        for offset in range(0, os.path.getsize(manifest), 7):
            flip(manifest, offset)
        self.start()
        self.serve_all_but({shard}, [shard])

        def shown(word):
            text = self.ok(self.cluster.ctl("status"))
            return text if word in text else None
        text = wait_for("the status to say so", lambda: shown(f"shard {shard} is not served here"))
        for word in ("TROUBLE", "skuactl store verify", "restore the shard"):
            self.assertIn(word, text)
        status = json.loads(self.ok(self.cluster.ctl("--output", "json", "status")))
        self.assertEqual([unserved["shard"] for node in status["nodes"] for unserved in node.get("unserved", [])],
                         [int(shard.split("-")[1])], status)
        self.assertNotEqual(self.cluster.ctl("status", "--wait-settled", "1s").returncode, 0)
        # As if it came from a backup.
        self.assertEqual(self.cluster.processes["node0"].stop(), 0)
        shutil.copyfile(whole, manifest)
        self.start()
        wait_for("the trouble to end", lambda: "TROUBLE" not in self.ok(self.cluster.ctl("status")))
        self.ok(self.cluster.ctl("status", "--wait-settled", "20s"))
        for key, value in self.rows.items():
            self.assertEqual(self.ok(self.cluster.ctl("get", "t", key)).strip(), value)

    def test_Blob_DamageIsFoundByVerify(self):
        large = os.path.join(self.cluster.directory, "large")
        with open(large, "wb") as out:
            out.write(os.urandom(300_000))
        self.ok(self.cluster.ctl("put", "t", "large", "--file", large))
        self.assertEqual(self.cluster.processes["node0"].stop(), 0)
        self.assertTrue(self.store_json("verify", self.data)["ok"])
        blob, = glob.glob(f"{self.data}/shards/*/*.blob")
        flip(blob, os.path.getsize(blob) // 2)
        found = self.store_json("verify", self.data, code=1)
        failed, = [finding for finding in found["findings"] if finding["verdict"] == "FAIL"]
        self.assertEqual((failed["file"], failed["offset"]), (blob, 30))


class ReplicaDamageTest(unittest.TestCase):
    def test_Replica_DamagedOneIsLearntAgain(self):
        cluster = Cluster(0)
        self.addCleanup(cluster.close)
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(3)]
        for node in range(3):
            cluster.start_node(node)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == 3)
        made = cluster.ctl("table", "create", "t", "--shards", "1", "--replicas", "3")
        self.assertEqual(made.returncode, 0, made.stderr)
        wait_for("all replicas to be there", lambda: settled(cluster))
        for number in range(20):
            put = cluster.ctl("put", "t", f"key{number}", f"value{number}")
            self.assertEqual(put.returncode, 0, put.stderr)
        victim = (primary_of(cluster, "t") + 1) % 3
        data = f"{cluster.directory}/node{victim}"
        self.assertEqual(cluster.processes[f"node{victim}"].stop(), 0)
        damaged = glob.glob(f"{data}/shards/*/*.sst")
        self.assertTrue(damaged)
        for table in damaged:
            os.truncate(table, os.path.getsize(table) - 10)
        cluster.start_node(victim)
        wait_for("the replica to be learnt again",
                 lambda: settled(cluster) and "they are learnt again" in cluster.processes[f"node{victim}"].log())
        # Now it alone has to know everything.
        shown = json.loads(cluster.ctl("--output", "json", "shard", "show", "t").stdout)["shards"][0]
        self.assertEqual(len(shown["replicas"]), 3)
        moved = cluster.ctl("shard", "transfer", "t", "0", "--to",
                            f"127.0.0.1:{cluster.grpc_ports[victim]}")
        self.assertEqual(moved.returncode, 0, moved.stderr)
        wait_for("the damaged node to lead", lambda: primary_of(cluster, "t") == victim)
        for number in range(20):
            read = cluster.ctl("get", "t", f"key{number}")
            self.assertEqual(read.stdout.strip(), f"value{number}", read.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    patterns = [part for word in rest if not word.startswith("-") for part in ("-k", word)]
    unittest.main(argv=[sys.argv[0], *patterns, *(word for word in rest if word.startswith("-"))], verbosity=2)
