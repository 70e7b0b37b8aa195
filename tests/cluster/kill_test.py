#!/usr/bin/env python3
"""kill -9 of a node under load, at random times, again and again: what was acknowledged as synced is there.

  kill_test.py --bin build/release/bin                       5 rounds
  kill_test.py --bin build/release/bin --rounds 200          many

As root the node's data lies on an ext4 file system of its own (a loop mount), else in the temporary directory.
"""

import argparse
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
from cluster_test import Cluster, wait_for
from loop_mount import LoopMount


class DurabilityClient:
    """tests/cluster/durability_client.cc, a line at a time."""

    def __init__(self, cluster, table, *arguments):
        self.popen = subprocess.Popen(
            [*getattr(cluster, "client_prefix", ()), f"{cluster_test.BIN}/durability_client", "--control", cluster.control_address, "--table", table, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, command, limit_s=120):
        alarm = threading.Timer(limit_s, self.popen.kill)
        alarm.start()
        try:
            self.popen.stdin.write(command + "\n")
            self.popen.stdin.flush()
            answer = self.popen.stdout.readline().strip()
        finally:
            alarm.cancel()
        if not answer or answer.startswith("broken"):
            raise AssertionError(f"{command}: {answer or 'the client ended or hung'}")
        return answer

    def figure(self, answer, name):
        return int(answer.split(name + "=")[1].split()[0])

    def close(self):
        self.popen.kill()
        self.popen.communicate()


def run(rounds, seed):
    rng = random.Random(seed)
    started = time.monotonic()
    totals = {"acknowledged": 0, "unknown": 0, "refused": 0, "reads": 0}
    replayed = 0
    with LoopMount(1024) as mount:
        print(f"seed {seed}, data on {mount.description}", flush=True)
        cluster = Cluster(0)
        client = None
        try:
            cluster.grpc_ports = [cluster_test.free_port()]
            cluster.node_arguments = ("--workers", "2", "--memory", "160MiB", "--write-buffer", "8MiB",
                                      "--log-segment", "40MiB", "--log-segments-max", "8")
            os.symlink(os.path.join(mount.path, "node0"), os.path.join(cluster.directory, "node0"))
            os.mkdir(os.path.join(mount.path, "node0"))
            cluster.start_node(0)
            wait_for("the node to be alive", lambda: cluster.alive_count() == 1)
            created = cluster.ctl("table", "create", "t", "--shards", "6")
            assert created.returncode == 0, created.stderr
            client = DurabilityClient(cluster, "t", "--seed", str(seed), "--value-bytes", "2000")
            for number in range(1, rounds + 1):
                client.tell("load")
                time.sleep(rng.choice((0.02, 0.1, 0.3, 1.0)) * rng.uniform(0.5, 1.5))
                cluster.processes["node0"].kill9()
                cluster.start_node(0)
                if rng.random() < 0.15:  # a recovery that is cut short
                    time.sleep(rng.uniform(0, 0.2))
                    cluster.processes["node0"].kill9()
                    cluster.start_node(0)
                paused = client.tell("pause")
                for name in totals:
                    totals[name] += client.figure(paused, name)
                checked = client.tell("check")
                if number % 20 == 0 or number == rounds:
                    print(f"round {number}: {paused.split(' | ')[0]}, {checked}, {time.monotonic() - started:.0f} s",
                          flush=True)
            for line in cluster.processes["node0"].log().splitlines():
                if "log recovered" in line:
                    replayed += int(line.split("records=")[1].split()[0])
        except BaseException:
            node = cluster.processes.get("node0")
            if node is not None:
                print(f"seed {seed}; the node's last words:\n{node.log()[-3000:]}", file=sys.stderr)
            raise
        finally:
            if client is not None:
                client.close()
            cluster.close()
    print(f"{rounds} kills in {time.monotonic() - started:.0f} s: " +
          ", ".join(f"{value} {name}" for name, value in totals.items()) + f", {replayed} records replayed; nothing lost")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    run(arguments.rounds, arguments.seed)
