#!/usr/bin/env python3
"""What three replicas cost a durable write: latency unloaded and writes per second, beside a table without replicas.

  replicated_writes.py --bin build/release/bin                 five rounds, in turn
  replicated_writes.py --bin build/release/bin --durability flush

A control plane and three nodes on loopback and one disk, so the replicas share processors and syncs. Prints a line for each round.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WORKLOAD = "ycsb/workloads/workloada"


def load(options, table, records, threads, in_flight):
    """Writes per second, and the median latency in microseconds."""
    done = subprocess.run(
        [f"{options.bin}/skua-ycsb", "load", "skua", "-P", WORKLOAD, "-p", f"table={table}", "-p", f"recordcount={records}",
         "-p", "fieldcount=1", "-p", "fieldlength=100", "-threads", str(threads), "-inflight", str(in_flight),
         "-p", f"skua.control=127.0.0.1:{options.port}", "-p", f"skua.durability={options.durability}"], capture_output=True, text=True, check=False)
    rate = re.search(r"Throughput\(ops/sec\), ([\d.]+)", done.stdout)
    median = re.search(r"\[INSERT\], (?:50thPercentileLatency|MedianLatency)\(us\), ([\d.]+)", done.stdout)
    if rate is None or median is None:
        sys.exit(done.stdout + done.stderr)
    return float(rate[1]), float(median[1])


def measure(options, directory):
    log = open(f"{directory}/log", "ab")
    processes = [subprocess.Popen([f"{options.bin}/skua-control", "--listen-address", f"127.0.0.1:{options.port}", "--data-dir",
                                   f"{directory}/control"], stdout=log, stderr=log)]
    try:
        for node in range(3):
            port = options.port + 10 * (node + 1)
            processes.append(subprocess.Popen(
                [f"{options.bin}/skuad", "--control-address", f"127.0.0.1:{options.port}", "--data-dir",
                 f"{directory}/node{node}", "--grpc-address", f"127.0.0.1:{port}", "--data-address",
                 f"127.0.0.1:{port + 1}"], stdout=log, stderr=log))
        ctl = [f"{options.bin}/skuactl", "--control-address", f"127.0.0.1:{options.port}"]
        give_up = time.monotonic() + 60
        for table, replicas in (("one", "1"), ("three", "3")):
            command = [*ctl, "table", "create", table, "--shards", "1", "--replicas", replicas, "--if-not-exists"]
            while subprocess.run(command, capture_output=True, check=False).returncode != 0:
                if time.monotonic() > give_up:
                    sys.exit(f"{' '.join(command)} does not succeed; see {directory}/log")
                time.sleep(0.2)
        subprocess.run([*ctl, "status", "--wait-settled", "30s"], capture_output=True, check=True)
        latencies, rates = [], []
        for number in range(1, options.rounds + 1):
            _, alone_us = load(options, "one", 1500, 1, 1)
            _, three_us = load(options, "three", 1500, 1, 1)
            alone, _ = load(options, "one", 30000, 2, 32)
            three, _ = load(options, "three", 30000, 2, 32)
            latencies.append(three_us / alone_us)
            rates.append(three / alone)
            print(f"round {number}: p50 {alone_us:.0f} us alone, {three_us:.0f} us with three replicas ({latencies[-1]:.2f}); "
                  f"{alone:.0f} and {three:.0f} writes/s ({rates[-1]:.2f})", flush=True)
        print(f"median: p50 {statistics.median(latencies):.2f} times, writes per second {statistics.median(rates):.2f} times")
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--durability", default="sync", choices=("flush", "sync"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=17400)
    arguments = parser.parse_args()
    place = tempfile.mkdtemp(prefix="skua-replicated-")
    try:
        measure(arguments, place)
    finally:
        shutil.rmtree(place)
