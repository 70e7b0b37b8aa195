#!/usr/bin/env python3
"""kill -9 of nodes under clients of Redis, which reach three nodes through a gateway: no wrong answer, counters are exact.

  gateway_failover_test.py --bin build/release/bin                 2 kills
  gateway_failover_test.py --bin build/release/bin --rounds 50     many, with the pauses at the end
  gateway_failover_test.py --bin build/release/bin --rounds 12 --apart 6     kills that have nothing to do with each other

Each client has keys of its own, so it knows what each answer must be. redis-benchmark runs beside them, if it is there: it ends at the
first error. Each round kills the node that leads the table of the transfers, and starts it again. When backups of one shard are said
to be gone twice within 5 seconds, the control plane believes the second time only when it misses the node itself, after a second.
"""

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "kvstore", "gateway"))
import cluster_test
from cluster_test import Cluster, wait_for
from failover_test import percentile, primaries, primary_of, settled
from redis_client import Connection

NODES = 3
CLIENTS_OF_EACH_KIND = 3


class Wrong(AssertionError):
    pass


def is_error(reply):
    return isinstance(reply, str) and reply.startswith("-")


class Client(threading.Thread):
    """Asks without a pause until it is told to end. `trouble`: what was wrong."""

    def __init__(self, port, database, name):
        super().__init__(daemon=True)
        self.connection = Connection(port)
        assert self.connection.ask("SELECT", database) == "+OK"
        self.name = name
        self.ends = threading.Event()
        self.trouble = None
        self.done = 0
        self.unknown = 0
        self.longest_s = 0.0

    def run(self):
        try:
            while not self.ends.is_set():
                began_s = time.monotonic()
                self.step()
                self.done += 1
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        except BaseException as trouble:
            self.trouble = trouble

    def ask(self, *words):
        """The answer to a command, which is sent again for as long as certainly nothing was done. None: the outcome is unknown."""
        while True:
            reply = self.connection.ask(*words)
            if not is_error(reply):
                return reply
            if reply.startswith("-TRYAGAIN"):
                continue
            if reply.startswith("-ERR outcome unknown"):
                self.unknown += 1
                return None
            raise Wrong(f"{self.name}: {words}: {reply}")

    def read(self, *words):
        while (reply := self.ask(*words)) is None:
            pass
        return reply

    def take_longest_s(self):
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def end(self):
        self.ends.set()
        self.join(60)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.trouble is not None:
            raise self.trouble


class Counter(Client):
    """Each answer is one more than the answer before."""

    count = 0

    def step(self):
        reply = self.ask("INCR", self.name)
        if reply is None:
            reply = int(self.read("INCRBY", self.name, 0))  # behind the write that may still be under way; a read would not wait
            if reply not in (self.count, self.count + 1):
                raise Wrong(f"{self.name}: {reply} after {self.count} and an unknown outcome")
        elif reply != self.count + 1:
            raise Wrong(f"{self.name}: {reply} after {self.count}")
        self.count = reply


class Value(Client):
    """What is read is what was written last."""

    number = 0

    def step(self):
        self.number += 1
        value = b"%d" % self.number
        while self.ask("SET", self.name, value) is None:
            pass
        if (seen := self.read("GET", self.name)) != value:
            raise Wrong(f"{self.name}: {seen} instead of {value}")


class Transfer(Client):
    """A transaction moves 1 from one key to another: their sum stays 0, and each is done once."""

    moved = 0

    def step(self):
        assert self.connection.ask("MULTI") == "+OK"
        for command in ("DECR", "INCR"):
            assert self.connection.ask(command, f"{self.name}.{command}") == "+QUEUED"
        reply = self.ask_transaction()
        if reply is None:
            self.read("INCRBY", f"{self.name}.INCR", 0)  # behind the transaction that may still be under way
        seen = [int(value or 0) for value in self.read("MGET", f"{self.name}.DECR", f"{self.name}.INCR")]
        if reply is None:
            self.moved = seen[1] if seen[1] in (self.moved, self.moved + 1) else self.moved
        elif reply:
            self.moved += 1
        if seen != [-self.moved, self.moved] or reply not in (None, [], seen):
            raise Wrong(f"{self.name}: {seen} after {self.moved} transfers, EXEC's reply was {reply}")

    def ask_transaction(self):
        """EXEC's reply, [] if nothing was done, None if the outcome is unknown."""
        reply = self.connection.ask("EXEC")
        if not is_error(reply):
            return reply
        if reply.startswith("-TRYAGAIN"):
            return []
        if reply.startswith("-ERR outcome unknown"):
            self.unknown += 1
            return None
        raise Wrong(f"{self.name}: EXEC: {reply}")


class Benchmark:
    """redis-benchmark, again and again. It ends with an error when a server answers with one."""

    def __init__(self, port):
        self.program = shutil.which("redis-benchmark")
        self.command = [self.program, "-p", str(port), "-c", "10", "-P", "4", "-r", "1000", "-n", "4000", "-t", "set,get,incr", "-q"]
        self.ends = threading.Event()
        self.trouble = None
        self.runs = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        if self.program is not None:
            self.thread.start()

    def run(self):
        while not self.ends.is_set():
            ended = subprocess.run(self.command, capture_output=True, text=True, check=False, timeout=120)
            if ended.returncode != 0 or "rror" in ended.stdout + ended.stderr:
                self.trouble = f"redis-benchmark: {ended.stdout[-300:]} {ended.stderr[-300:]}"
                return
            self.runs += 1

    def end(self):
        self.ends.set()
        if self.program is not None:
            self.thread.join(150)
        assert self.trouble is None, self.trouble


def start_gateway(cluster):
    port = cluster_test.free_port()
    gateway = cluster_test.Process(cluster.directory, "gateway", f"{cluster_test.BIN}/skua-gateway", "--databases", "0=many,1=one",
                                   "--control-address", cluster.control_address, "--listen-address", f"127.0.0.1:{port}")
    cluster.processes["gateway"] = gateway
    wait_for("the gateway", lambda: "PONG" in ping(port))
    return port


def ping(port):
    try:
        return Connection(port).ask("PING")
    except OSError as error:
        return str(error)


def one_round(cluster, clients):
    """The longest time that a client waited for an answer, in seconds."""
    victim = primary_of(cluster, "one")
    for client in clients:
        client.take_longest_s()
    before = [client.done for client in clients]
    cluster.processes[f"node{victim}"].kill9()
    wait_for("another primary", lambda: primaries(cluster)[victim] == 0)
    wait_for("all clients to go on", lambda: all(
        client.trouble is not None or client.done > done + 20 for client, done in zip(clients, before)))
    pause_s = max(client.take_longest_s() for client in clients)
    cluster.start_node(victim)
    wait_for("the node to hold its replicas again", lambda: settled(cluster), limit_s=300)
    for client in clients:
        if client.trouble is not None:
            raise client.trouble
    print(f"node {victim} killed: longest answer {pause_s:.2f} s, {sum(client.done for client in clients)} commands so far, "
          f"{sum(client.unknown for client in clients)} with an unknown outcome", flush=True)
    return pause_s


def run(rounds, apart_s):
    began_s = time.monotonic()
    cluster = Cluster(0)
    try:
        cluster.grpc_ports = [cluster_test.free_port() for _ in range(NODES)]
        for index in range(NODES):
            cluster.start_node(index)
        wait_for("the nodes to be alive", lambda: cluster.alive_count() == NODES)
        for table, shards in (("many", 3), ("one", 1)):
            created = cluster.ctl("table", "create", table, "--shards", str(shards), "--replicas", "3")
            assert created.returncode == 0, created.stderr
        wait_for("all replicas to be there", lambda: settled(cluster))
        port = start_gateway(cluster)
        clients = [kind(port, database, f"{kind.__name__}{number}") for kind, database in ((Counter, 0), (Value, 0), (Transfer, 1))
                   for number in range(CLIENTS_OF_EACH_KIND)]
        benchmark = Benchmark(port)
        for client in clients:
            client.start()
        pauses_s = []
        for _ in range(rounds):
            pauses_s.append(one_round(cluster, clients))
            time.sleep(apart_s)
        for client in clients:
            client.end()
        benchmark.end()
        check_last_values(port, clients)
    except BaseException:
        for name, process in cluster.processes.items():
            print(f"last words of {name}:\n{process.log()[-2000:]}", file=sys.stderr)
        raise
    finally:
        cluster.close()
    print(f"{rounds} kills in {time.monotonic() - began_s:.0f} s, {sum(client.done for client in clients)} commands, "
          f"{sum(client.unknown for client in clients)} with an unknown outcome, no wrong answer; redis-benchmark ran {benchmark.runs} "
          f"times without an error. Longest answer of a round: p50 {percentile(pauses_s, 0.5):.2f} s, max {max(pauses_s):.2f} s")


def check_last_values(port, clients):
    connection = Connection(port)
    for client in clients:
        if isinstance(client, Counter):
            assert int(connection.ask("GET", client.name) or 0) == client.count, client.name


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--apart", type=float, default=0, help="seconds between two rounds")
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    run(arguments.rounds, arguments.apart)
