#!/usr/bin/env python3
"""Failures of a cluster of three nodes, one at a time, under load: what docs/operations.md says of them is so.

  fault_scenarios_test.py --bin build/release/bin                                    all of them, short
  fault_scenarios_test.py --bin build/release/bin --scenario stopped_primary --long  one, as long as people wait

Three kinds of clients look on, all the time:

  durability_client   writes, counts, adds and reads many keys; knows what each may be             table t, 3 shards
  register_client     one puts and one gets a key without a pause; all that ever had an answer     table probe, 1 shard
                      must fit together: a version that one was told, later ones never fall below

Each scenario prints how long the longest operation on that key took. As root every program has a network namespace of its own, so
that any two can be cut off from each other; else the scenarios that cut are left out. Without etcd the one that kills it is.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster_test
import node_network
from cluster_test import Cluster, Process, free_port, wait_for
from failover_test import settled
from kill_test import DurabilityClient

NODES = 3
# Of a primary that hangs or is cut off: what others are promised, 0.4 s, finding out, and the change of the view take half a second, and
# 3 s if one of the others is removed first.
GAP_LIMIT_S = 4
LOAD_LIMIT_PER_CPU = 4
LEASE_S = 0.4
CALM_S = 2


def node_name(index):
    return f"node{index}"


class FaultCluster(Cluster):
    """Three nodes, a control process, and etcd if there is one; each where `place` says."""

    def __init__(self, place):
        self.place = place
        self.has_etcd = shutil.which("etcd") is not None
        self.client_prefix = tuple(place.command("client"))
        self.etcd_ports = (free_port(), free_port())
        self.processes = {}
        try:
            super().__init__(0)
            self.grpc_ports = [free_port() for _ in range(NODES)]
            for index in range(NODES):
                self.start_node(index)
            wait_for("the nodes to be alive", lambda: self.alive_count() == NODES)
            for table, shards in (("t", 3), ("probe", 1)):
                # A control process that has just taken the lead has heard of nobody.
                wait_for(f"table {table}", lambda: self.ctl("table", "create", table, "--shards", str(shards), "--replicas",
                                                            "3", "--if-not-exists").returncode == 0)
            wait_for("all replicas to be there", self.is_settled)
        except BaseException:
            self.close()
            raise

    def start_control(self):
        if self.has_etcd and "etcd" not in self.processes:
            self.start_etcd()
        self.control_address = f"{self.place.address('control')}:{self.control_port}"
        metadata = ("--metadata", f"etcd://127.0.0.1:{self.etcd_ports[0]}/skua") if self.has_etcd else ()
        self.processes["control"] = Process(self.directory, "control", *self.place.command(
            "control", f"{cluster_test.BIN}/skua-control", "--listen-address", self.control_address,
            *cluster_test.UNSAFE, "--data-dir",
            f"{self.directory}/control", *metadata))

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{port}" for port in self.etcd_ports)
        self.processes["etcd"] = Process(self.directory, "etcd", *self.place.command(
            "control", "etcd", "--name", "skua", "--data-dir", f"{self.directory}/etcd", "--logger", "zap", "--log-level",
            "warn", "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"skua={peer}", "--max-txn-ops", "10000",
            "--max-request-bytes", "8388608"))

    def start_node(self, index):
        address = self.place.address(node_name(index))
        self.processes[node_name(index)] = Process(self.directory, node_name(index), *self.place.command(
            node_name(index), f"{cluster_test.BIN}/skuad", "--control-address", self.control_address, "--data-dir",
            f"{self.directory}/node{index}", "--grpc-address", f"{address}:{self.grpc_ports[index]}", "--data-address",
            f"{address}:0", *cluster_test.UNSAFE))

    def is_settled(self):
        return settled(self)

    def signal(self, index, number):
        self.processes[node_name(index)].popen.send_signal(number)

    def views(self):
        """(table, shard) -> (epoch, primary, all members), nodes by their index."""
        out = {}
        for table in ("t", "probe"):
            shown = self.ctl("--output", "json", "shard", "show", table)
            assert shown.returncode == 0, shown.stderr
            for shard in json.loads(shown.stdout)["shards"]:
                members = {replica["role"]: [] for replica in shard["replicas"]}
                for replica in shard["replicas"]:
                    members[replica["role"]].append(
                        next(index for index, port in enumerate(self.grpc_ports)
                             if replica["grpc_address"] == f"{self.place.address(node_name(index))}:{port}"))
                primary = members.get("primary", [None])[0]
                out[table, shard["shard"]] = (shard["epoch"], primary,
                                              sorted(members.get("primary", []) + members.get("backup", [])))
        return out

    def probe(self):
        """(epoch, primary, members) of the shard that the register clients work on."""
        return self.views()["probe", 0]


class Register:
    """A register_client, and what it told."""

    def __init__(self, cluster, kind, where="client", timeout_ms=20000):
        self.events = []
        self.popen = subprocess.Popen(
            cluster.place.command(where, f"{cluster_test.BIN}/register_client", "--control", cluster.control_address,
                                  "--table", "probe", "--key", "key", "--do", kind, "--timeout-ms", str(timeout_ms)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(os.path.join(
                cluster.directory, f"register-{where}-{kind}.log"), "ab"), text=True)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.popen.stdout:
            kind, began, ended, code, version = line.split()
            self.events.append((kind, int(began), int(ended), code, int(version)))

    def within(self, began_ns, ended_ns):
        """What ended in this time; what is under way at its end is waited for."""
        wait_for("the operation under way to end", lambda: self.events and self.events[-1][2] >= ended_ns)
        return [event for event in list(self.events) if began_ns <= event[2] and event[1] <= ended_ns]

    def close(self):
        if self.popen.poll() is None:
            self.popen.stdin.close()
        self.popen.wait()
        self.thread.join()


def check_order(events):
    """Of operations on one key: each shows what had an answer before it began, or something newer. No two writes are the same."""
    written = [version for kind, _, _, code, version in events if kind == "put" and code == "OK"]
    assert len(written) == len(set(written)), "two writes got one version"
    by_end = sorted((event for event in events if event[3] == "OK"), key=lambda event: event[2])
    known, at = 0, 0
    for kind, began, ended, _, version in sorted(by_end, key=lambda event: event[1]):
        while at < len(by_end) and by_end[at][2] < began:
            known, at = max(known, by_end[at][4]), at + 1
        if version < known or (kind == "put" and version == known):
            raise AssertionError(f"a {kind} from {began} to {ended} has version {version}; {known} had been told before")


def longest_s(events):
    return max((ended - began for _, began, ended, _, _ in events), default=0) / 1e9


class World:
    """A cluster, its clients, and what a scenario saw."""

    def __init__(self, place, long):
        self.long = long
        self.place = place
        self.cluster = FaultCluster(place)
        self.registers = []
        self.stale_events = []  # of clients that may fail
        self.client = None
        self.notes = []
        try:
            self.client = DurabilityClient(self.cluster, "t", "--keys", "500")
            assert self.cluster.ctl("put", "probe", "key", "value").returncode == 0
            self.registers = [Register(self.cluster, kind) for kind in ("put", "get")]
        except BaseException:
            self.close()
            raise

    def lasts(self, short_s, long_s):
        return long_s if self.long else short_s

    def note(self, text):
        self.notes.append(text)

    def run(self, scenario):
        """Every operation must succeed, everything come back, and nothing be lost; returns the longest put and get."""
        began = time.monotonic()
        self.notes = []
        wait_for("all replicas to be there", self.cluster.is_settled)
        self.client.tell("load")
        time.sleep(0.5)
        from_ns = time.monotonic_ns()
        scenario(self)
        wait_for("all replicas to be there again", self.cluster.is_settled, 90)
        until_ns = time.monotonic_ns()
        paused = self.client.tell("pause")
        self.client.tell("check")
        events = [register.within(from_ns, until_ns) for register in self.registers]
        for one in events:
            failed = [event for event in one if event[3] != "OK"]
            assert not failed, f"failed operations: {failed[:5]}"
        for figure in ("unknown", "refused", "failed_reads"):
            assert self.client.figure(paused, figure) == 0, paused
        check_order(self.stale_events + [event for register in self.registers for event in register.events])
        longest = [longest_s(one) for one in events]
        print(f"{scenario.__name__}: longest put {longest[0]:.2f} s, get {longest[1]:.2f} s, of other operations "
              f"{self.client.figure(paused, 'longest_ms') / 1e3:.2f} s, {self.client.figure(paused, 'acknowledged')} writes"
              f"{''.join('; ' + note for note in self.notes)} ({time.monotonic() - began:.0f} s)", flush=True)
        limits = LIMITS_S[scenario.__name__]
        load = os.getloadavg()[0]
        if load > LOAD_LIMIT_PER_CPU * os.cpu_count():
            print(f"not judged by time: the machine does much else (load {load:.0f})")
        else:
            assert longest[0] < limits[0] and longest[1] < limits[1], f"longer than {limits}"

    def close(self):
        for register in self.registers:
            register.close()
        if self.client is not None:
            self.client.close()
        for index in range(NODES):
            process = self.cluster.processes.get(node_name(index))
            if process is not None and process.popen.poll() is None:
                process.popen.send_signal(signal.SIGCONT)
        self.cluster.close()


# ---- The scenarios

def killed_backup(world):
    """kill -9 of a backup: no read fails or waits; writes wait until it is out of the view."""
    _, primary, _ = world.cluster.probe()
    victim = (primary + 1) % NODES
    world.cluster.processes[node_name(victim)].kill9()
    wait_for("it to leave the view", lambda: victim not in world.cluster.probe()[2])
    time.sleep(world.lasts(1, 10))
    world.cluster.start_node(victim)


def stopped_backup(world):
    """SIGSTOP of a backup: as above."""
    _, primary, _ = world.cluster.probe()
    victim = (primary + 1) % NODES
    world.cluster.signal(victim, signal.SIGSTOP)
    wait_for("it to leave the view", lambda: victim not in world.cluster.probe()[2])
    time.sleep(world.lasts(2, 10))
    world.cluster.signal(victim, signal.SIGCONT)


def stopped_primary(world):
    """SIGSTOP of a primary, then SIGCONT: another one serves at once, and the old one comes back as a member."""
    _, primary, _ = world.cluster.probe()
    began = time.monotonic()
    world.cluster.signal(primary, signal.SIGSTOP)
    wait_for("another primary", lambda: world.cluster.probe()[1] not in (None, primary))
    time.sleep(max(0, began + world.lasts(4, 10) - time.monotonic()))
    world.cluster.signal(primary, signal.SIGCONT)
    wait_for("it to be a member again", lambda: primary in world.cluster.probe()[2])


def calm_views(world):
    """The views, once all nodes are members and nothing has changed for a while: who has just come back may be slow at first."""
    seen, since = None, 0

    def is_calm():
        nonlocal seen, since
        views = world.cluster.views()
        if views != seen or any(len(members) < NODES for _, _, members in views.values()):
            seen, since = views, time.monotonic()
        return time.monotonic() - since > CALM_S

    wait_for("views that stay", is_calm)
    return seen


def nothing_happens(world, fault):
    """`fault(views)` does something and makes it good again: the views stay. Returns them. Epochs only grow, so one look after it is enough.

    Nodes that share a busy machine may wait for a processor or the disk longer than their peers do for them. So a change that
    begins with peers' suspicions is no proof: the fault is tried again. It must once pass with nothing changed.
    """
    for attempts_left in reversed(range(3)):
        before = calm_views(world)
        control = world.cluster.processes["control"]
        known = len(control.log())
        fault(before)
        after = world.cluster.views()
        if after == before:
            return before
        changes = [line for line in control.log()[known:].splitlines() if "views changed:" in line]
        what = "\n".join([f"{before} became {after}", *changes])
        reasons = re.findall(r"\(([^()]*)\)", changes[0]) if changes else []
        if attempts_left == 0 or not reasons or not all("is suspected by" in reason for reason in reasons):
            raise AssertionError(what)
        world.note(f"once more, because of {reasons[0]}")
    raise AssertionError("unreachable")


def cut_from_control(world):
    """The primary and the control plane do not hear each other: nothing happens."""
    def cut(views):
        primary = node_name(views["probe", 0][1])
        world.place.cut(primary, "control")
        time.sleep(world.lasts(6, 40))
        world.place.mend(primary, "control")
        wait_for("the control plane to hear of it", lambda: world.cluster.alive_count() == NODES)

    nothing_happens(world, cut)


def cut_from_one_backup(world):
    """The primary and one backup do not hear each other: one of them leaves the view, and that is all."""
    _, primary, _ = world.cluster.probe()
    backup = (primary + 1) % NODES
    world.place.cut(node_name(primary), node_name(backup))
    wait_for("one to leave", lambda: len(world.cluster.probe()[2]) < NODES)
    time.sleep(2)
    before = world.cluster.views()
    for _, leader, members in before.values():
        # Who backs up a third one hears it.
        assert len(members) == (NODES - 1 if leader in (primary, backup) else NODES), before
        assert leader not in (primary, backup) or not {primary, backup} <= set(members), before
    time.sleep(world.lasts(4, 30))
    after = world.cluster.views()
    changes = sum(after[shard][0] - before[shard][0] for shard in after)
    world.note(f"{changes} more changes of {len(after)} views within {world.lasts(4, 30)} s")
    world.place.mend(node_name(primary), node_name(backup))
    assert changes == 0, f"{before} became {after}"


def cut_from_all_backups(world):
    """The primary hears clients and the control plane, but no other member. A client that hears it alone gets no more answers."""
    _, primary, _ = world.cluster.probe()
    others = [node_name(index) for index in range(NODES) if index != primary]
    stale = [Register(world.cluster, kind, "stale", 1000) for kind in ("put", "get")]
    try:
        wait_for("its first answers", lambda: all(len(register.events) > 10 for register in stale))
        world.place.cut("stale", "control")
        world.place.cut(node_name(primary), *others)
        cut_ns = time.monotonic_ns()
        wait_for("another primary", lambda: world.cluster.probe()[1] not in (None, primary))
        changed_ns = time.monotonic_ns()
        time.sleep(world.lasts(3, 10))
        until_ns = time.monotonic_ns()
        world.place.mend(node_name(primary), *others)
        wait_for("it to be a member again", lambda: primary in world.cluster.probe()[2])
        world.place.mend("stale", "control")
        for register in stale:
            answered = [ended for _, began, ended, code, _ in register.within(cut_ns, until_ns)
                        if code == "OK" and began > cut_ns and ended < until_ns]
            last_s = (max(answered, default=cut_ns) - cut_ns) / 1e9
            world.note(f"last stale {register.events[0][0]} after {last_s:.2f} s")
            assert last_s < LEASE_S + 0.2 or max(answered) < changed_ns, f"{last_s} s"
    finally:
        for register in stale:
            register.close()
            world.stale_events += register.events


def killed_control(world):
    """No control plane: nothing happens."""
    def kill(_):
        world.cluster.processes["control"].kill9()
        time.sleep(world.lasts(5, 60))
        world.cluster.start_control()
        wait_for("the nodes to be alive", lambda: world.cluster.alive_count() == NODES)

    nothing_happens(world, kill)


def killed_etcd(world):
    """No etcd: nothing happens, and when it is back views can be changed again."""
    def kill(_):
        world.cluster.processes["etcd"].kill9()
        time.sleep(world.lasts(6, 60))
        world.cluster.start_etcd()
        wait_for("the control plane to lead again", lambda: world.cluster.alive_count() == NODES)

    _, primary, _ = nothing_happens(world, kill)["probe", 0]
    began = time.monotonic()
    world.cluster.processes[node_name(primary)].kill9()
    wait_for("another primary", lambda: world.cluster.probe()[1] not in (None, primary))
    world.note(f"another primary {time.monotonic() - began:.1f} s after a kill")
    world.cluster.start_node(primary)


# The longest put and get. Of what should wait for nothing: a machine that does something else for a while.
NOTHING_S = 1.5
LIMITS_S = {
    "killed_backup": (GAP_LIMIT_S, NOTHING_S),
    "stopped_backup": (GAP_LIMIT_S, NOTHING_S),
    "stopped_primary": (GAP_LIMIT_S, GAP_LIMIT_S),
    "cut_from_control": (NOTHING_S, NOTHING_S),
    "cut_from_one_backup": (GAP_LIMIT_S, GAP_LIMIT_S),
    "cut_from_all_backups": (GAP_LIMIT_S, GAP_LIMIT_S),
    "killed_control": (NOTHING_S, NOTHING_S),
    "killed_etcd": (GAP_LIMIT_S, GAP_LIMIT_S),
}
CUTS = (cut_from_control, cut_from_one_backup, cut_from_all_backups)
SCENARIOS = (killed_backup, stopped_backup, stopped_primary, *CUTS, killed_control, killed_etcd)


def run(scenarios, long):
    lacks = node_network.why_not()
    if lacks is not None:
        print(f"without the scenarios that cut the network: {lacks}")
        scenarios = [scenario for scenario in scenarios if scenario not in CUTS]
    if shutil.which("etcd") is None and killed_etcd in scenarios:
        print("without killed_etcd: etcd is not installed (Debian's etcd-server; deploy/install-deps)")
        scenarios = [scenario for scenario in scenarios if scenario is not killed_etcd]
    place = node_network.Loopback() if lacks else node_network.NodeNetwork(
        [*map(node_name, range(NODES)), "control", "client", "stale"])
    world = None
    try:
        world = World(place, long)
        for scenario in scenarios:
            world.run(scenario)
    except BaseException:
        for name, process in ({} if world is None else world.cluster.processes).items():
            print(f"last words of {name}:\n{process.log()[-6000:]}", file=sys.stderr)
        raise
    finally:
        if world is not None:
            world.close()
        place.close()


if __name__ == "__main__":
    names = [scenario.__name__ for scenario in SCENARIOS]
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--scenario", action="append", choices=names, help="this one; may be given several times")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    started = time.monotonic()
    run([scenario for scenario in SCENARIOS if arguments.scenario is None or scenario.__name__ in arguments.scenario],
        arguments.long)
    print(f"nothing lost, nothing done twice, no read went back ({time.monotonic() - started:.0f} s)")
