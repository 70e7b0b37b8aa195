#!/usr/bin/env python3
"""A table that is read anywhere, on three nodes: backups answer a good part of the reads, what they answer is as new as at the
primary, and reads go on while a primary is stopped or dead.

  read_anywhere_test.py --bin build/release/bin

A client writes, counts and reads, and checks each answer against what was acknowledged before it asked. A second one reads
one key without a pause.
"""

import argparse
import os
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
from cluster_test import Cluster, wait_for
from failover_test import NODES, primary_of, settled
from kill_test import DurabilityClient

LOAD_S = 3


class Prober:
    """Reads a key with skuactl again and again; knows the longest time that one took, and failures."""

    def __init__(self, cluster, table, key):
        self.command = [f"{cluster_test.BIN}/skuactl", "--control-address", cluster.control_address, "--timeout", "20s",
                        "get", table, key]
        self.worst_s = 0
        self.failures = []
        self.stopping = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            started = time.monotonic()
            done = subprocess.run(self.command, capture_output=True, text=True, check=False)
            self.worst_s = max(self.worst_s, time.monotonic() - started)
            if done.returncode != 0:
                self.failures.append(done.stderr)

    def take_worst_s(self):
        worst, self.worst_s = self.worst_s, 0
        return worst

    def close(self):
        self.stopping = True
        self.thread.join()


def backup_reads(cluster, index):
    """What the node has counted. A gRPC call of an empty message, so that this needs no gRPC for Python."""
    got = subprocess.run(
        ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--max-time", "10", "--data-binary", "@-",
         "--header", "content-type: application/grpc", "--header", "te: trailers",
         f"http://127.0.0.1:{cluster.grpc_ports[index]}/skua.node.v1.Admin/GetMetrics"],
        input=struct.pack(">BI", 0, 0), capture_output=True, check=True)
    lines = got.stdout.decode("utf-8", "replace").splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith("skua_backup_reads_total{"))


def load(client):
    """Runs it for a while; what it read of backups."""
    client.tell("load")
    time.sleep(LOAD_S)
    paused = client.tell("pause")
    client.tell("check")
    return client.figure(paused, "reads"), client.figure(paused, "backup_reads")


def create(cluster, table, *options):
    created = cluster.ctl("table", "create", table, "--replicas", "3", *options)
    assert created.returncode == 0, created.stderr
    wait_for("all replicas to be there", lambda: settled(cluster))


def run():
    cluster = Cluster(0)
    closing = []
    try:
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(NODES)]
        for index in range(NODES):
            cluster.start_node(index)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == NODES)

        create(cluster, "plain", "--shards", "3")
        plain = DurabilityClient(cluster, "plain", "--seed", "1")
        closing.append(plain)
        reads, elsewhere = load(plain)
        assert reads > 0 and elsewhere == 0, (reads, elsewhere)
        assert all(backup_reads(cluster, index) == 0 for index in range(NODES))
        plain.close()

        create(cluster, "t", "--shards", "3", "--read-anywhere")
        client = DurabilityClient(cluster, "t", "--seed", "2")
        closing.append(client)
        reads, elsewhere = load(client)
        counted = [backup_reads(cluster, index) for index in range(NODES)]
        print(f"{reads} reads under load, {elsewhere} answered by backups; the nodes counted {counted}", flush=True)
        assert elsewhere > reads / 20, (reads, elsewhere)
        assert all(count > 0 for count in counted), counted

        create(cluster, "probe", "--shards", "1", "--read-anywhere")
        assert cluster.ctl("put", "probe", "key", "value").returncode == 0
        prober = Prober(cluster, "probe", "key")
        closing.append(prober)
        for how in ("stopped", "killed"):
            client.tell("load")
            victim = primary_of(cluster, "probe")
            process = cluster.processes[f"node{victim}"]
            prober.take_worst_s()
            if how == "stopped":
                process.popen.send_signal(signal.SIGSTOP)
            else:
                process.kill9()
            wait_for("another primary", lambda: primary_of(cluster, "probe") != victim)
            time.sleep(LOAD_S)
            if how == "stopped":
                process.popen.send_signal(signal.SIGCONT)
            else:
                cluster.start_node(victim)
            wait_for("the node to hold its replicas again", lambda: settled(cluster))
            worst_s = prober.take_worst_s()
            paused = client.tell("pause")
            print(f"primary {how}: the longest get took {worst_s:.2f} s; {client.tell('check')}; {paused}", flush=True)
            assert not prober.failures, prober.failures[:3]
        reads, elsewhere = load(client)
        assert elsewhere > 0
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"last words of {name}:\n{process.log()[-2000:]}", file=sys.stderr)
        raise
    finally:
        for one in closing:
            one.close()
        for process in cluster.processes.values():
            process.popen.send_signal(signal.SIGCONT)
        cluster.close()
    print("backups answered, and nothing was out of date")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    cluster_test.BIN = os.path.abspath(parser.parse_args().bin)
    run()
