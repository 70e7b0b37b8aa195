#!/usr/bin/env python3
"""A node of three is killed for good under load and a new one takes its place: its replicas are copied from the others, and
when another node dies after that, nothing that was acknowledged is lost.

  replace_node_test.py --bin build/release/bin
"""

import argparse
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
from cluster_test import Cluster, Process, wait_for
from kill_test import DurabilityClient

SHARDS = 3
NODES = 3


class ImpatientCluster(Cluster):
    """Others get copies soon after a node is gone."""

    def start_control(self):
        self.processes["control"] = Process(
            self.directory, "control", f"{cluster_test.BIN}/skua-control", "--listen-address", self.control_address,
            "--data-dir", f"{self.directory}/control", "--replace-after", "1s")

    def backups(self):
        """Of each shard, as the control plane's log has them last."""
        found = re.findall(r"t/(\d+) epoch \d+ led by \S+ with (\d+) backups?, (\d+) learners?",
                           self.processes["control"].log())
        return {int(shard): int(backups) for shard, backups, _ in found}

    def is_whole(self):
        backups = self.backups()
        return len(backups) == SHARDS and all(count == NODES - 1 for count in backups.values())

    def is_degraded(self):
        return any(count < NODES - 1 for count in self.backups().values())


def run():
    cluster = ImpatientCluster(0)
    client = None
    try:
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(NODES)]
        for index in range(NODES):
            cluster.start_node(index)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == NODES)
        created = cluster.ctl("table", "create", "t", "--shards", str(SHARDS), "--replicas", str(NODES))
        assert created.returncode == 0, created.stderr
        client = DurabilityClient(cluster, "t", "--keys", "10000", "--value-bytes", "1000", "--rate", "0")
        client.tell("load")
        time.sleep(5)
        print(client.tell("pause"), flush=True)
        print(client.tell("check"), flush=True)

        print("a node is lost for good", flush=True)
        client.tell("load")
        time.sleep(0.5)
        cluster.processes["node2"].kill9()
        wait_for("the shards to go on without it", cluster.is_degraded)
        shutil.rmtree(f"{cluster.directory}/node2")
        cluster.start_node(2)
        started = time.monotonic()
        wait_for("all shards to have three members again", lambda: cluster.is_whole(), 120)
        print(f"whole again after {time.monotonic() - started:.1f} s", flush=True)
        print(client.tell("pause"), flush=True)
        print(client.tell("check"), flush=True)
        assert cluster.processes["node2"].log().count(" copied from node ") >= SHARDS

        print("another node dies", flush=True)
        client.tell("load")
        time.sleep(0.5)
        cluster.processes["node0"].kill9()
        time.sleep(3)
        print(client.tell("pause"), flush=True)
        print(client.tell("check"), flush=True)

        print("and comes back, behind the others' logs", flush=True)
        client.tell("load")
        wait_for("the shards to go on without it", cluster.is_degraded)
        time.sleep(3)
        cluster.start_node(0)
        wait_for("all shards to have three members again", lambda: cluster.is_whole(), 120)
        cluster.processes["node1"].kill9()
        time.sleep(3)
        print(client.tell("pause"), flush=True)
        print(client.tell("check"), flush=True)
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"--- the last words of {name}:\n{process.log()[-3000:]}", file=sys.stderr)
        raise
    finally:
        if client is not None:
            client.close()
        cluster.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    run()
