#!/usr/bin/env python3
"""How long a storage node that was killed takes until it answers, with writes in its log that no database has.

  restart.py --bin build/release/bin                           a million records of 100 bytes in 8 shards, five restarts
  restart.py --bin build/release/bin --records 200000 --rounds 3

A control plane and one node on loopback. The node is loaded while its memtables are large enough for all records, so that its databases
have none of them on disk, and killed with SIGKILL. Each round starts it upon a copy of what it left, with default options, and
asks for the key that was written last until the answer comes. Prints a line for each round: until the answer, the node's CPU time until
then, and what it says of its recovery. What the log has is in the page cache, as after the death of a process.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TABLE = "usertable"
LOADING = ("--memory", "4GiB", "--log-segments-max", "256")


class Cluster:
    def __init__(self, options, directory):
        self.bin = options.bin
        self.port = options.port
        self.directory = directory
        self.processes = {}

    def start(self, name, *command):
        with open(f"{self.directory}/{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def start_control(self):
        self.start("control", f"{self.bin}/skua-control", "--listen-address", f"127.0.0.1:{self.port}", "--data-dir",
                   f"{self.directory}/control")

    def start_node(self, *arguments):
        self.start("node", f"{self.bin}/skuad", "--control-address", f"127.0.0.1:{self.port}", "--data-dir",
                   f"{self.directory}/node", "--grpc-address", f"127.0.0.1:{self.port + 1}", "--data-address",
                   f"127.0.0.1:{self.port + 2}", *arguments)

    def end(self, name, kill):
        process = self.processes.pop(name)
        process.kill() if kill else process.terminate()
        process.wait()

    def stop(self):
        for name in reversed(list(self.processes)):
            self.end(name, kill=False)

    def ctl(self, *arguments, timeout=120):
        return subprocess.run([f"{self.bin}/skuactl", "--control-address", f"127.0.0.1:{self.port}", *arguments],
                              capture_output=True, text=True, timeout=timeout, check=False)

    def ctl_until_ok(self, *arguments):
        """The output; tries again for two minutes."""
        limit = time.monotonic() + 120
        while True:
            result = self.ctl(*arguments)
            if result.returncode == 0:
                return result.stdout
            if time.monotonic() > limit or self.processes["node"].poll() is not None:
                sys.exit(f"skuactl {' '.join(arguments)}: {result.stderr}")
            time.sleep(0.02)

    def load(self, records, value_bytes):
        subprocess.run([f"{self.bin}/skua-ycsb", "load", "skua", "-p", "workload=core", "-p", f"recordcount={records}",
                        "-p", "fieldcount=1", "-p", f"fieldlength={value_bytes}", "-threads", "2", "-inflight", "64",
                        "-p", f"skua.control=127.0.0.1:{self.port}"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def cpu_seconds(self):
        """Of the node, all threads."""
        with open(f"/proc/{self.processes['node'].pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def recovered(self):
        """Records and milliseconds of the newest recovery."""
        with open(f"{self.directory}/node.log", encoding="utf-8", errors="replace") as log:
            found = re.findall(r"log recovered .*records=(\d+) .*ms=(\d+)", log.read())
        return int(found[-1][0]), int(found[-1][1])


def prepare(cluster, options):
    cluster.start_control()
    cluster.start_node(*LOADING)
    cluster.ctl_until_ok("table", "create", TABLE, "--shards", str(options.shards), "--if-not-exists")
    cluster.load(options.records, options.value_bytes)
    cluster.ctl_until_ok("put", TABLE, "last", "word")
    cluster.end("node", kill=True)
    os.rename(f"{cluster.directory}/node", f"{cluster.directory}/left")


def restart(cluster):
    shutil.copytree(f"{cluster.directory}/left", f"{cluster.directory}/node")
    os.sync()
    began = time.monotonic()
    cluster.start_node()
    answer = cluster.ctl_until_ok("get", TABLE, "last")
    took = time.monotonic() - began
    cpu = cluster.cpu_seconds()
    if "word" not in answer:
        sys.exit(f"the node answered {answer!r}")
    records, recovery_ms = cluster.recovered()
    cluster.end("node", kill=False)
    # The control plane does not take a node back whose count of starts went back.
    shutil.copy(f"{cluster.directory}/node/state", f"{cluster.directory}/left/state")
    shutil.rmtree(f"{cluster.directory}/node")
    return took, cpu, records, recovery_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, metavar="DIR", help="where the programs are")
    parser.add_argument("--directory", default="/var/tmp", metavar="DIR", help="where data may lie (/var/tmp)")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, default=27600, help="the first of three (27600)")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="skua-restart.", dir=options.directory)
    cluster = Cluster(options, directory)
    times = []
    try:
        prepare(cluster, options)
        for number in range(options.rounds):
            took, cpu, records, recovery_ms = restart(cluster)
            times.append(took)
            print(f"round {number + 1}: first GET after {took:.2f} s, {cpu:.2f} s CPU; {records} records recovered in "
                  f"{recovery_ms / 1000:.2f} s", flush=True)
        print(f"median {statistics.median(times):.2f} s, {min(times):.2f} s to {max(times):.2f} s")
    finally:
        cluster.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
