#!/usr/bin/env python3
"""Writes of durability flush in a table with three replicas, and nodes whose machines lose power: one, then all.

  power_loss_test.py --bin build/release/bin

No machine is switched off. Nodes are killed, and their files are made to say that what they acknowledged was in another boot
of the machine; so they must take it that the end of their logs may be gone, although it is not.
"""

import argparse
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
from cluster_test import Cluster, wait_for
from failover_test import NODES, primary_of, settled

SHARDS = 2


def unsynced(cluster, node):
    """Shard -> boot, as the node has written it down."""
    path = f"{cluster.directory}/node{node}/unsynced"
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as file:
        return dict(re.findall(r"^(\d+-\d+) = (\d+)$", file.read(), re.MULTILINE))


def start_another_boot(cluster, node):
    """As if the machine had been started anew since."""
    path = f"{cluster.directory}/node{node}/unsynced"
    with open(path, encoding="ascii") as file:
        text = file.read()
    with open(path, "w", encoding="ascii") as file:
        file.write(re.sub(r"^(\d+-\d+) = \d+$", r"\1 = 4711", text, flags=re.MULTILINE))


def put(cluster, key, durability):
    done = cluster.ctl("--output", "json", "put", "t", key, f"value of {key}", "--durability", durability)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["durability"]


def check(cluster, keys):
    for key in keys:
        got = cluster.ctl("get", "t", key)
        assert got.stdout.strip() == f"value of {key}", (key, got.stdout, got.stderr)


def run():
    cluster = Cluster(0)
    try:
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(NODES)]
        for node in range(NODES):
            cluster.start_node(node)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == NODES)
        made = cluster.ctl("table", "create", "t", "--shards", str(SHARDS), "--replicas", "3")
        assert made.returncode == 0, made.stderr
        wait_for("all replicas to be there", lambda: settled(cluster))

        keys = [f"synced{i}" for i in range(8)]
        assert {put(cluster, key, "sync") for key in keys} == {"sync"}
        assert all(unsynced(cluster, node) == {} for node in range(NODES)), "nobody asked for less than sync"
        more = [f"flushed{i}" for i in range(8)]
        assert {put(cluster, key, durability) for key in more for durability in ("flush", "memory")} == {"flush"}
        keys += more
        wait_for("all members to write it down",
                 lambda: all(len(unsynced(cluster, node)) == SHARDS for node in range(NODES)))

        # A process that dies alone loses nothing.
        victim = primary_of(cluster, "t")
        cluster.processes[f"node{victim}"].kill9()
        cluster.start_node(victim)
        wait_for("all replicas to be there", lambda: settled(cluster))
        assert "may lack writes" not in cluster.processes[f"node{victim}"].log()
        check(cluster, keys)

        # One machine loses power: its replicas are in doubt until the primaries have looked at them.
        cluster.processes[f"node{victim}"].kill9()
        start_another_boot(cluster, victim)
        cluster.start_node(victim)
        wait_for("the node to have everything again",
                 lambda: settled(cluster) and "4711" not in unsynced(cluster, victim).values())
        assert "may lack writes" in cluster.processes[f"node{victim}"].log()
        check(cluster, keys)
        for shard in range(SHARDS):
            if primary_of(cluster, "t") != victim:
                moved = cluster.ctl("shard", "transfer", "t", str(shard), "--to",
                                    f"127.0.0.1:{cluster.grpc_ports[victim]}")
                assert moved.returncode == 0, moved.stderr
        check(cluster, keys)

        # All lose power: nobody is without doubt, and the longest log goes on once all are there.
        assert put(cluster, "last", "flush") == "flush"
        keys.append("last")
        wait_for("all members to write it down",
                 lambda: all(unsynced(cluster, node) for node in range(NODES)))
        for node in range(NODES):
            cluster.processes[f"node{node}"].kill9()
        for node in range(NODES):
            start_another_boot(cluster, node)
            cluster.start_node(node)
        wait_for("all replicas to be there", lambda: settled(cluster))
        check(cluster, keys)
        assert "lost power" in cluster.processes["control"].log(), cluster.processes["control"].log()[-3000:]
        assert put(cluster, "after", "flush") == "flush"
        # A backup's doubt ends when its primary says so, which may be after the shard is served; a stop does not end it.
        wait_for("all members to be without doubt",
                 lambda: not any("4711" in unsynced(cluster, node).values() for node in range(NODES)))

        # After an orderly stop nobody is in doubt, whatever the machine does.
        for node in range(NODES):
            assert cluster.processes[f"node{node}"].stop() == 0
            assert unsynced(cluster, node) == {}, unsynced(cluster, node)
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"last words of {name}:\n{process.log()[-2500:]}", file=sys.stderr)
        raise
    finally:
        cluster.close()
    print("nothing that was acknowledged is lost")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    cluster_test.BIN = os.path.abspath(parser.parse_args().bin)
    run()
