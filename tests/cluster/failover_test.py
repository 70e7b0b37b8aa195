#!/usr/bin/env python3
"""kill -9 of nodes that hold replicas, under load: nothing that was acknowledged is lost, nothing is done twice, and somebody
else serves soon.

  failover_test.py --bin build/release/bin                       3 kills
  failover_test.py --bin build/release/bin --rounds 100          many, with the service gaps at the end

Each round kills one of three nodes while a client writes, counts and reads, starts it again, and waits until every shard has
all its replicas. A second client reads and writes one key without a pause and tells how long it had to wait.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
from cluster_test import Cluster, wait_for
from kill_test import DurabilityClient

NODES = 3


class Prober:
    """Runs a command of skuactl again and again; knows the longest time that one took, and failures."""

    def __init__(self, cluster, *command):
        self.command = [f"{cluster_test.BIN}/skuactl", "--control-address", cluster.control_address, "--timeout", "20s",
                        *command]
        self.worst_s = 0
        self.failures = []
        self.stopping = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            started = time.monotonic()
            done = subprocess.run(self.command, capture_output=True, text=True)
            self.worst_s = max(self.worst_s, time.monotonic() - started)
            if done.returncode != 0:
                self.failures.append(done.stderr)

    def take_worst_s(self):
        worst, self.worst_s = self.worst_s, 0
        return worst

    def close(self):
        self.stopping = True
        self.thread.join()


def primaries(cluster):
    """How many shards each node leads."""
    nodes = json.loads(cluster.ctl("--output", "json", "status").stdout)["nodes"]
    return [next(node["shards"] for node in nodes if node["grpc_address"].endswith(f":{port}"))
            for port in cluster.grpc_ports]


def primary_of(cluster, table):
    """The index of the node that leads the table's only shard."""
    shown = json.loads(cluster.ctl("--output", "json", "shard", "show", table).stdout)
    shard = (shown["shards"] if isinstance(shown, dict) else shown)[0]
    address = next(replica["grpc_address"] for replica in shard["replicas"] if replica["role"] == "primary")
    return next(index for index, port in enumerate(cluster.grpc_ports) if address.endswith(f":{port}"))


def settled(cluster):
    tables = json.loads(cluster.ctl("--output", "json", "table", "list").stdout)
    tables = tables["tables"] if isinstance(tables, dict) else tables
    return all(table["settled_shards"] == table["shards"] for table in tables)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def run(rounds, seed):
    rng = random.Random(seed)
    started = time.monotonic()
    totals = {"acknowledged": 0, "unknown": 0, "refused": 0, "reads": 0}
    gaps = {"put": [], "get": []}
    cluster = Cluster(0)
    client = None
    probers = {}
    try:
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(NODES)]
        for index in range(NODES):
            cluster.start_node(index)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == NODES)
        for table in ("t", "probe"):
            created = cluster.ctl("table", "create", table, "--shards", "3" if table == "t" else "1", "--replicas", "3")
            assert created.returncode == 0, created.stderr
        wait_for("all replicas to be there", lambda: settled(cluster))
        client = DurabilityClient(cluster, "t", "--seed", str(seed))
        assert cluster.ctl("put", "probe", "key", "value").returncode == 0
        probers = {"put": Prober(cluster, "put", "probe", "key", "value"), "get": Prober(cluster, "get", "probe", "key")}
        for number in range(1, rounds + 1):
            client.tell("load")
            leads = primaries(cluster)
            # Mostly the one whose loss the probers feel.
            feels = rng.random() < 0.7
            victim = primary_of(cluster, "probe") if feels else rng.choice([i for i in range(NODES) if leads[i] > 0])
            for prober in probers.values():
                prober.take_worst_s()
            cluster.processes[f"node{victim}"].kill9()
            wait_for("another primary", lambda: primaries(cluster)[victim] == 0)
            time.sleep(rng.uniform(1, 2))  # under load without the node
            gap = {name: prober.take_worst_s() for name, prober in probers.items()}
            for name in gap if feels else ():
                gaps[name].append(gap[name])
            cluster.start_node(victim)
            wait_for("the node to hold its replicas again", lambda: settled(cluster))
            paused = client.tell("pause")
            for name in totals:
                totals[name] += client.figure(paused, name)
            checked = client.tell("check")
            print(f"round {number}: node {victim} of {leads}, longest put {gap['put']:.2f} s, get {gap['get']:.2f} s, "
                  f"{checked}, {time.monotonic() - started:.0f} s", flush=True)
        for name, prober in probers.items():
            prober.close()
            assert not prober.failures, f"{name}: {prober.failures[:3]}"
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"seed {seed}; last words of {name}:\n{process.log()[-2000:]}", file=sys.stderr)
        raise
    finally:
        for prober in probers.values():
            prober.close()
        if client is not None:
            client.close()
        cluster.close()
    print(f"{rounds} kills in {time.monotonic() - started:.0f} s: " +
          ", ".join(f"{value} {name}" for name, value in totals.items()) + "; nothing lost")
    for name, values in gaps.items():
        if not values:
            continue
        print(f"longest {name} of a round, a skuactl's start included: p50 {percentile(values, 0.5):.2f} s, "
              f"p99 {percentile(values, 0.99):.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    run(arguments.rounds, arguments.seed)
