#!/usr/bin/env python3
"""What the replacement of a node's data costs others, and how long it takes: of three nodes with three replicas of everything one
is killed and its directory wiped, under a steady load of reads and writes.

  replace_node.py --bin build/release/bin                          1 GiB of 4 KiB values, 600 operations per second, half of them writes
  replace_node.py --bin build/release/bin --rate 4000 --copy-rate 64MiB

Prints median and 99th percentile of the load's latencies (from when each operation was due) with three nodes, with two, and while the
third gets its copies; how often a copy started over; and the time until every shard has all replicas. All run on this machine, so the
load, three nodes and the copies share its processors.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
import cluster_test
from cluster_test import wait_for
from failover_test import settled
from replace_node_test import ImpatientCluster

NODES = 3
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size(text):
    number, unit = re.fullmatch(r"(\d+)(|[KMG]iB)", text).groups()
    return int(number) * UNITS[unit]


class Load:
    """skua-ycsb on the cluster: the whole data, or a steady load until stop()."""

    def __init__(self, options, cluster, phase, *arguments):
        self.popen = subprocess.Popen(
            [f"{cluster_test.BIN}/skua-ycsb", phase, "skua", "-P", "ycsb/workloads/workloada", "-p", "table=t", "-p",
             f"skua.control={cluster.control_address}", "-p", f"recordcount={options.records}", "-p", "fieldcount=1", "-p",
             f"fieldlength={options.value_bytes}", "-threads", "2", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def figures(self):
        """By series: operations, median and 99th percentile in ms; and those that failed."""
        out, err = self.popen.communicate()
        series = {}
        for kind, name, value in re.findall(r"\[(\S+)\], ([^,\n]+), ([\d.]+)", out):
            series.setdefault(kind, {})[name] = float(value)
        if not series:
            sys.exit(out + err)
        return series

    def stop(self):
        self.popen.send_signal(signal.SIGINT)
        return self.figures()


class SteadyLoad(Load):
    def __init__(self, options, cluster):
        super().__init__(options, cluster, "run", "-p", "operationcount=0", "-p", "maxexecutiontime=3600", "-p",
                         "arrival=poisson", "-target", str(options.rate))

    def tell(self, what):
        series = self.stop()
        ms = {}
        for kind in ("READ", "UPDATE"):
            found = series[f"Intended-{kind}"] if f"Intended-{kind}" in series else series[kind]
            ms[kind] = (found["50thPercentileLatency(us)"] / 1000, found["99thPercentileLatency(us)"] / 1000)
        failed = sum(int(found["Operations"]) for kind, found in series.items() if kind.endswith("-FAILED"))
        print(f"{what}: {series['OVERALL']['Throughput(ops/sec)']:.0f} operations/s, " +
              ", ".join(f"{kind} p50 {p50:.2f} ms p99 {p99:.2f} ms" for kind, (p50, p99) in ms.items()) +
              f", {failed} failed", flush=True)
        return {kind: p99 for kind, (_, p99) in ms.items()}


def run(options):
    cluster = ImpatientCluster(0)
    load = None
    try:
        cluster.node_arguments = ("--memory", options.memory, "--copy-rate", options.copy_rate)
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(NODES)]
        for index in range(NODES):
            cluster.start_node(index)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == NODES)
        wait_for("the table", lambda: cluster.ctl("table", "create", "t", "--shards", str(options.shards), "--replicas",
                                                  str(NODES), "--if-not-exists").returncode == 0)
        wait_for("all replicas to be there", lambda: settled(cluster))
        started = time.monotonic()
        load = Load(options, cluster, "load", "-inflight", "16")
        load.figures()
        print(f"{options.data} loaded in {time.monotonic() - started:.0f} s", flush=True)
        wait_for("all replicas to be there", lambda: settled(cluster), 120)
        time.sleep(options.seconds / 3)  # compactions

        load = SteadyLoad(options, cluster)
        time.sleep(options.seconds)
        before = load.tell("three nodes")
        load = SteadyLoad(options, cluster)
        time.sleep(1)
        cluster.processes["node2"].kill9()
        wait_for("the shards to go on without it", lambda: not settled(cluster))
        shutil.rmtree(f"{cluster.directory}/node2")
        load.stop()
        load = SteadyLoad(options, cluster)
        time.sleep(options.seconds / 3)
        load.tell("two nodes")

        load = SteadyLoad(options, cluster)
        cluster.start_node(2)
        started = time.monotonic()
        if not options.quiet:
            watch(cluster, options)
        wait_for("every shard to have all its replicas", lambda: settled(cluster), options.limit)
        took = time.monotonic() - started
        during = load.tell("while the third one gets its copies")
        load = None
        log = cluster.processes["node2"].log()
        print(f"whole after {took:.1f} s; {log.count(' is copied from node ')} copies begun for {options.shards} shards, p99 " +
              ", ".join(f"{kind} {during[kind] / before[kind]:.1f} times" for kind in before))
        for line in log.splitlines():
            if "copied" in line or "started over" in line:
                print("  " + line)
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"--- the last words of {name}:\n{process.log()[-3000:]}", file=sys.stderr)
        raise
    finally:
        if load is not None:
            load.popen.kill()
        cluster.close()


def watch(cluster, options):
    """What an operator sees meanwhile, every few seconds."""
    end = time.monotonic() + options.limit
    while time.monotonic() < end and not settled(cluster):
        shown = cluster.ctl("shard", "show", "t", "--unsettled").stdout
        for line in shown.splitlines():
            if "copy" in line:
                print("  " + line.strip(), flush=True)
        time.sleep(5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--data", default="1GiB")
    parser.add_argument("--value", default="4KiB")
    parser.add_argument("--rate", type=int, default=600)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--copy-rate", default="0", help="of skuad; 0: by the processors")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--quiet", action="store_true", help="do not ask for progress")
    arguments = parser.parse_args()
    arguments.value_bytes = size(arguments.value)
    arguments.records = size(arguments.data) // arguments.value_bytes
    cluster_test.BIN = os.path.abspath(arguments.bin)
    run(arguments)
