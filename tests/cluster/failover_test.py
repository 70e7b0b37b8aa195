#!/usr/bin/env python3
"""kill -9 of nodes that hold replicas, under load: nothing that was acknowledged is lost, nothing is done twice, and somebody
else serves soon.

  failover_test.py --bin build/release/bin                       3 kills
  failover_test.py --bin build/release/bin --rounds 100          many, with the service gaps at the end

Each round kills one of three nodes while a client writes, counts and reads, starts it again, and waits until every shard has
all its replicas. A second client reads and writes a few keys without a pause, sees that its reads are linearizable, and tells how
long it had to wait.
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


class History:
    """tests/cluster/history_client.cc: reads and writes all the time, and sees that the reads are linearizable."""

    def __init__(self, cluster, table):
        self.popen = subprocess.Popen(
            [f"{cluster_test.BIN}/history_client", "--control", cluster.control_address, "--table", table],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take(self, limit_s=60):
        """What was done since the last time: a number for each name."""
        alarm = threading.Timer(limit_s, self.popen.kill)
        alarm.start()
        try:
            self.popen.stdin.write("take\n")
            self.popen.stdin.flush()
            answer = self.popen.stdout.readline().strip()
        finally:
            alarm.cancel()
        if not answer or answer.startswith("broken"):
            raise AssertionError(f"history: {answer or 'the client ended or hung'}")
        return {name: int(number) for name, number in (word.split("=") for word in answer.split())}

    def close(self):
        self.popen.kill()
        self.popen.communicate()


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
    on_registers = 0
    cluster = Cluster(0)
    client = None
    history = None
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
        history = History(cluster, "probe")
        for number in range(1, rounds + 1):
            client.tell("load")
            leads = primaries(cluster)
            # Mostly the one whose loss the registers feel.
            feels = rng.random() < 0.7
            victim = primary_of(cluster, "probe") if feels else rng.choice([i for i in range(NODES) if leads[i] > 0])
            history.take()
            cluster.processes[f"node{victim}"].kill9()
            wait_for("another primary", lambda: primaries(cluster)[victim] == 0)
            time.sleep(rng.uniform(1, 2))  # under load without the node
            seen = history.take()
            assert seen["unknown"] == 0, f"operations failed: {seen}"
            on_registers += seen["puts"] + seen["gets"]
            gap = {name: seen[f"longest_{name}_us"] / 1e6 for name in gaps}
            for name in gap if feels else ():
                gaps[name].append(gap[name])
            cluster.start_node(victim)
            wait_for("the node to hold its replicas again", lambda: settled(cluster), limit_s=300)
            paused = client.tell("pause")
            for name in totals:
                totals[name] += client.figure(paused, name)
            checked = client.tell("check")
            print(f"round {number}: node {victim} of {leads}, longest put {gap['put']:.2f} s, get {gap['get']:.2f} s, "
                  f"{checked}, {time.monotonic() - started:.0f} s", flush=True)
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"seed {seed}; last words of {name}:\n{process.log()[-2000:]}", file=sys.stderr)
        raise
    finally:
        if history is not None:
            history.close()
        if client is not None:
            client.close()
        cluster.close()
    print(f"{rounds} kills in {time.monotonic() - started:.0f} s: " +
          ", ".join(f"{value} {name}" for name, value in totals.items()) +
          f"; nothing lost. {on_registers} operations on registers, linearizable")
    for name, values in gaps.items():
        if not values:
            continue
        print(f"longest {name} of a round: p50 {percentile(values, 0.5):.2f} s, "
              f"p99 {percentile(values, 0.99):.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    run(arguments.rounds, arguments.seed)
