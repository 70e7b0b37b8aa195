#!/usr/bin/env python3
"""A random mixture of faults, several at once, under load: when they are over all is as it should be within a minute,
with the clients still connected, and nothing that was acknowledged is lost, done twice or gone back.

  mixture_test.py --bin build/release/bin                              2 rounds
  mixture_test.py --bin build/release/bin --minutes 30                 many
  mixture_test.py --bin build/release/bin --seed 7 --first-round 5 --rounds 1      one that failed
  mixture_test.py --bin build/release/bin --faults hang,full_disk      these only

A round: 20 s of faults (mixture_faults.py) while clients work, are idle, hang or die (mixture_clients.py); all heals;
the cluster settles; the clients check what they know, and copies of the nodes' files must have the same rows for all
members of a shard. At the end the nodes stop, and their own files are compared. The seed decides on the faults, their
victims and times. As root every program has a network namespace of its own and each node a disk of its own, else the
faults that need those are left out. Exit code 1: something is wrong.
"""

import argparse
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
import mixture_faults
import node_network
from fault_scenarios_test import LOAD_LIMIT_PER_CPU
from mixture_clients import TABLES, Clients, create_tables
from mixture_cluster import NODE_MEMORY, Cuts, MixtureCluster, node_name

FAULTS_S = 20
SETTLE_S = 60
# Of a cluster that has not settled in time: late, or never? On a busy machine only never is wrong.
LATE_S = 120
LOG_LINES = 40


class World:
    """What the faults work on."""

    def __init__(self, options, faults):
        self.nodes = nodes = options.nodes
        self.node_names = [*map(node_name, range(nodes))]
        self.cut_names = [*self.node_names, "control", "client"]
        self.lasting_tables = list(TABLES)
        self.passing_tables = []
        self.cluster = None
        self.clients = None
        self.place = (node_network.Loopback() if node_network.why_not() else
                      node_network.NodeNetwork([*self.cut_names, "operator"]))
        try:
            self.cuts = Cuts(self.place)
            self.cluster = MixtureCluster(self.place, nodes, options.node_arguments, options.replace_after,
                                          "clock" in faults)
            create_tables(self.cluster)
            self.clients = Clients(self.cluster, self.place, options.seed)
        except BaseException:
            self.close()
            raise

    def heal(self):
        """What is left when the faults are over: what their ends could not say to a control plane that was away."""
        def undrained():
            addresses = map(self.cluster.address, range(self.nodes))
            return all(self.cluster.call("node", "undrain", address)[0] for address in addresses)

        def dropped():
            left = set(self.cluster.tables()) & set(self.passing_tables)
            return self.cluster.read("status") is not None and all(
                [self.cluster.call("table", "drop", name, "--yes")[0] for name in left])

        died = self.cluster.died()
        assert not died, f"a program died by itself: {died}"
        cluster_test.wait_for("the control plane to take undrains", undrained)
        cluster_test.wait_for("the control plane to drop tables", dropped)
        self.passing_tables.clear()

    def close(self):
        if self.clients is not None:
            self.clients.durable["hung"].popen.send_signal(signal.SIGCONT)
            self.clients.close()
        try:
            if self.cluster is not None:
                self.cluster.close()
        finally:
            self.place.close()


class Run:
    def __init__(self, options):
        self.options = options
        self.faults = options.faults
        self.started = time.monotonic()
        self.timeline = []
        self.longest_settle_s = 0
        self.rows = 0

    def say(self, text):
        self.timeline.append(f"{time.monotonic() - self.round_started:6.1f} s  {text}")
        if self.options.verbose:
            print(f"    {self.timeline[-1]}", flush=True)

    def again(self):
        options = self.options
        words = [f"--seed {options.seed}", f"--nodes {options.nodes}", f"--faults {','.join(self.faults)}",
                 f"--replace-after {options.replace_after}", f"--node-arguments='{options.node_arguments}'"]
        return f"{os.path.relpath(__file__)} --bin {cluster_test.BIN} {' '.join(words)}"

    def round(self, world, number):
        self.round_started = time.monotonic()
        self.timeline = []
        faults = mixture_faults.Round(world, self.options.seed, number, self.faults, FAULTS_S, self.say)
        world.clients.begin_round()
        self.round_started = time.monotonic()
        faults.run()
        world.heal()
        healed = time.monotonic()
        self.say("all is healed")
        self.settle(world)
        settled_s = time.monotonic() - healed
        self.say(f"settled after {settled_s:.1f} s")
        world.clients.durable["hung"].popen.send_signal(signal.SIGCONT)
        world.clients.check()
        died = world.cluster.died()
        assert not died, f"a program died by itself: {died}"
        self.rows += world.cluster.compare_copies()
        self.longest_settle_s = max(self.longest_settle_s, settled_s)
        kinds = ", ".join(fault.text for _, _, fault in faults.planned)
        print(f"round {number}: settled after {settled_s:.1f} s, {world.clients.totals['acknowledged']} writes so far "
              f"({time.monotonic() - self.started:.0f} s): {kinds}", flush=True)

    def settle(self, world):
        limit_s = self.options.settle_s
        began = time.monotonic()
        if world.cluster.settle(limit_s):
            return
        load = os.getloadavg()[0]
        print(f"not settled after {limit_s} s (load {load:.0f}):", file=sys.stderr)
        world.cluster.tell_status(sys.stderr)
        if not world.cluster.settle(LATE_S):
            raise AssertionError(f"not settled within {limit_s} s, nor within {LATE_S} s more")
        late = f"settled only after {time.monotonic() - began:.0f} s"
        if load <= LOAD_LIMIT_PER_CPU * os.cpu_count():
            raise AssertionError(late)
        print(f"{late}; not judged: the machine does much else (load {load:.0f})", flush=True)

    def finish(self, world):
        """Nothing is under way any longer: members are equal, what was written without a pause, too. Returns reads from
        the disk."""
        world.clients.close()
        assert world.cluster.settle(self.options.settle_s), "not settled without clients"
        deferred = world.cluster.deferred_reads()
        self.rows += world.cluster.compare_members()
        died = world.cluster.ends.others
        assert not died, f"a program died by itself: {died}"
        return deferred

    def fail(self, world, number):
        print(f"--- FAILED: seed {self.options.seed}, round {number}; what was done to it:", *self.timeline, sep="\n",
              file=sys.stderr)
        if world is not None and world.cluster is not None:
            world.cluster.tell_status(sys.stderr)
            world.cluster.tell_logs(sys.stderr, LOG_LINES)
            if self.options.keep_logs:
                os.makedirs(self.options.keep_logs, exist_ok=True)
                for process in world.cluster.processes.values():
                    shutil.copy(process.log_path, self.options.keep_logs)
        print(f"--- all of it again:   {self.again()} --rounds {number}\n"
              f"    that round alone:  {self.again()} --rounds 1 --first-round {number}", file=sys.stderr)

    def run(self):
        options = self.options
        print(f"seed {options.seed}, {options.nodes} nodes, faults {','.join(self.faults)}", flush=True)
        number = options.first_round
        last = None if options.minutes else number + options.rounds - 1
        world = None
        self.round_started = time.monotonic()
        try:
            world = World(options, self.faults)
            while True:
                self.round(world, number)
                if number == last or (options.minutes and time.monotonic() - self.started > options.minutes * 60):
                    break
                number += 1
            deferred = self.finish(world)
        except BaseException:
            self.fail(world, number)
            raise
        finally:
            if world is not None:
                world.close()
        print(world.cluster.ends.line())
        totals = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in world.clients.totals.items())
        print(f"{number - options.first_round + 1} rounds in {time.monotonic() - self.started:.0f} s: {totals}, "
              f"{world.clients.registers.operations} operations on a register, {world.clients.scanner.scans} scans, "
              f"{deferred} reads from the disk in the nodes' last lives; settled after {self.longest_settle_s:.1f} s "
              f"at most; nothing lost; members agree in {self.rows} rows")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--first-round", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="as many rounds as begin in this time")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--nodes", type=int, default=4, choices=(3, 4, 5))
    parser.add_argument("--faults", default="all",
                        help=f"comma-separated: {', '.join(mixture_faults.FAULTS)}; =-NAME: all but that one")
    parser.add_argument("--node-arguments", default=NODE_MEMORY, help="of skuad")
    parser.add_argument("--replace-after", default="5s", help="of skua-control")
    parser.add_argument("--settle-s", type=int, default=SETTLE_S)
    parser.add_argument("--keep-logs", help="a directory for the programs' logs of a run that failed")
    parser.add_argument("--verbose", action="store_true", help="the faults as they happen")
    options = parser.parse_args()
    words = options.faults.split(",")
    without = {word[1:] for word in words if word.startswith("-")}
    named = [word for word in words if not word.startswith("-") and word != "all"]
    unknown = (without | set(named)) - set(mixture_faults.FAULTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    options.faults = named or [name for name in mixture_faults.FAULTS if name not in without]
    return options


if __name__ == "__main__":
    given = parse()
    cluster_test.BIN = os.path.abspath(given.bin)
    for missing, why in mixture_faults.lacks(given.faults, given.nodes).items():
        print(f"without {missing}: {why}")
        given.faults.remove(missing)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up
    Run(given).run()
