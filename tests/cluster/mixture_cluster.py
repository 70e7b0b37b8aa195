"""The cluster of mixture_test.py: nodes on small disks of their own, each program in a network namespace of its own,
and all that a fault does to them, with counts, so that faults may overlap: what two faults keep down comes back when
both end.
"""

import errno
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import time

import cluster_test
from cluster_test import Cluster, Process, free_port, wait_for
from loop_mount import LoopMount
from program_ends import ProgramEnds

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
DISK_MIB = 512
MIB = 1 << 20
# 16 MiB for keys and values, so that a good part of the reads comes from the disk.
NODE_MEMORY = "--memory 128MiB --message-memory 32MiB"
CALL_LIMIT = "5s"
# What is written without a pause: it differs between members at any moment.
RESTLESS_TABLES = ("probe",)
COMPARE_LIMIT_S = 30


def node_name(index):
    return f"node{index}"


class Cuts:
    """Who does not hear whom. A pair is heard again when all faults that cut it are over."""

    def __init__(self, place):
        self.place = place
        self.lock = threading.Lock()
        self.count = {}

    def change(self, pairs, by):
        """`pairs`: (sender, receiver)."""
        with self.lock:
            for pair in pairs:
                self.count[pair] = self.count.get(pair, 0) + by
            for sender, receiver in pairs:
                if self.count[sender, receiver] > 0:
                    self.place.deafen(receiver, sender)
                else:
                    self.place.mend_one_way(receiver, sender)


class MixtureCluster(Cluster):
    def __init__(self, place, nodes, node_arguments, replace_after, with_clocks):
        self.place = place
        self.nodes = nodes
        self.replace_after = replace_after
        self.names = [*map(node_name, range(nodes)), "control"]
        self.client_prefix = tuple(place.command("operator"))
        self.lock = threading.RLock()
        self.down = {}  # name: how many faults keep it so
        self.lives = {}
        self.log_begins = {}  # name: where the log of its life begins
        self.filled = set()  # names of nodes whose disks were full
        self.ends = ProgramEnds()
        self.noted = {}  # process: whether it was to be started again
        self.clock_file = None
        self.mounts = []
        self.processes = {}
        try:
            super().__init__(0)
            self.node_arguments = node_arguments.split()
            if with_clocks:
                self.clock_file = os.path.join(self.directory, "clock")
                self.set_clock(0)
            self.grpc_ports = [free_port() for _ in range(nodes)]
            for index in range(nodes):
                self.mounts.append(LoopMount(DISK_MIB).__enter__())
                os.mkdir(os.path.join(self.mounts[index].path, "data"))
                os.symlink(os.path.join(self.mounts[index].path, "data"),
                           os.path.join(self.directory, node_name(index)))
                self.start_node(index)
            wait_for("the nodes to be alive", lambda: self.alive_count() == nodes)
        except BaseException:
            self.close()
            raise

    # ---- Programs

    def start_control(self):
        self.control_address = f"{self.place.address('control')}:{self.control_port}"
        self.begin_life("control")
        self.processes["control"] = Process(self.directory, "control", *self.place.command(
            "control", f"{cluster_test.BIN}/skua-control", "--listen-address", self.control_address,
            *cluster_test.UNSAFE, "--data-dir",
            f"{self.directory}/control", "--replace-after", self.replace_after))

    def start_node(self, index):
        name = node_name(index)
        address = self.place.address(name)
        environment = None
        self.begin_life(name)
        if self.clock_file is not None and index == self.nodes - 1:
            environment = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": self.clock_file, "NO_FAKE_STAT": "1",
                           "FAKETIME_CACHE_DURATION": "1", "DONT_FAKE_MONOTONIC": "1"}
        self.processes[name] = Process(self.directory, name, *self.place.command(
            name, f"{cluster_test.BIN}/skuad", "--control-address", self.control_address, "--data-dir",
            f"{self.directory}/{name}", "--grpc-address", f"{address}:{self.grpc_ports[index]}", "--data-address",
            f"{address}:0", *cluster_test.UNSAFE, *self.node_arguments), environment=environment)

    def begin_life(self, name):
        self.lives[name] = self.lives.get(name, 0) + 1
        last = self.processes.get(name)
        self.log_begins[name] = os.path.getsize(last.log_path) if last is not None else 0

    def start(self, name):
        if name == "control":
            self.start_control()
        else:
            self.start_node(int(name.removeprefix("node")))

    def kill(self, names):
        with self.lock:
            for name in names:
                if self.ended(name):
                    self.note_end(name)  # a fault comes too late to be the reason
                self.down[name] = self.down.get(name, 0) + 1
                self.processes[name].kill9()

    def revive(self, names):
        with self.lock:
            for name in names:
                self.down[name] -= 1
                if self.down[name] == 0:
                    self.start(name)

    @staticmethod
    def stands_still(pid):
        """Whether all threads have stopped; a signal reaches them one by one."""
        states = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as stat:
                states.append(stat.read().rpartition(")")[2].split()[0])
        return set(states) == {"T"}

    def hang(self, names):
        """Returns what to give to go_on."""
        with self.lock:
            hung = [self.processes[name].popen for name in names]
            for popen in hung:
                if popen.poll() is None:
                    popen.send_signal(signal.SIGSTOP)
            return hung

    def go_on(self, hung):
        with self.lock:
            for popen in hung:
                if popen.poll() is None:
                    popen.send_signal(signal.SIGCONT)

    def ended(self, name):
        """By itself."""
        return self.down.get(name, 0) == 0 and self.processes[name].popen.poll() is not None

    def note_end(self, name):
        """Once for each process. Returns whether it is to be started again."""
        process = self.processes[name]
        if process not in self.noted:
            with open(process.log_path, "rb") as log:
                log.seek(self.log_begins[name])
                words = log.read().decode("utf-8", "replace")
            self.noted[process] = self.ends.note(name, process.popen.returncode, words, name in self.filled)
        return self.noted[process]

    def died(self):
        """Programs that ended by themselves, and are not to be started again."""
        self.revive_aborted()
        return self.ends.others

    def set_clock(self, offset_s):
        with self.lock:
            with open(self.clock_file + ".new", "w", encoding="ascii") as out:
                out.write(f"{offset_s:+d}s\n")
            os.rename(self.clock_file + ".new", self.clock_file)

    def fill_disk(self, index, leave_mib):
        """Until the ballast, whose name is returned, is removed."""
        mount = self.mounts[index]
        assert mount.is_own, mount.description
        self.filled.add(node_name(index))
        name = os.path.join(mount.path, f"ballast-{time.monotonic_ns()}")
        about = os.statvfs(mount.path)
        size = about.f_bavail * about.f_frsize - leave_mib * MIB
        with open(name, "wb") as out:
            try:
                os.posix_fallocate(out.fileno(), 0, max(size, 1))
            except OSError as error:
                if error.errno != errno.ENOSPC:  # the node was faster: as full as it gets
                    raise
        return name

    def revive_aborted(self):
        """Nodes that a full disk ended (program_ends.py) are started again, as people would do. Returns which."""
        with self.lock:
            out = [name for name in filter(self.ended, list(self.processes)) if self.note_end(name)]
            for name in out:
                self.start(name)
            return out

    def address(self, index):
        return f"{self.place.address(node_name(index))}:{self.grpc_ports[index]}"

    # ---- What it says of itself

    def call(self, *arguments, timeout=CALL_LIMIT):
        """A skuactl; (whether it worked, its last word)."""
        done = self.ctl(*arguments, timeout=timeout)
        words = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
        return done.returncode == 0, words[0] if words else ""

    def read(self, *arguments):
        """A skuactl's JSON; None if it does not answer."""
        done = self.ctl("--output", "json", *arguments, timeout=CALL_LIMIT)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def tables(self):
        return [table["name"] for table in self.read("table", "list") or []]

    def settle(self, limit_s):
        """Whether skuactl says within this time that everything is as it should be."""
        end = time.monotonic() + limit_s
        while (left := end - time.monotonic()) > 0:
            if self.alive_count() == self.nodes:
                wait_s = max(1, min(20, int(left)))
                if self.ctl("status", "--wait-settled", f"{wait_s}s", timeout=f"{wait_s + 5}s").returncode == 0:
                    return True
            time.sleep(0.2)
        return False

    def members(self):
        """(table id, shard) -> (table, members by index); None if one is not settled, as a busy machine may do again."""
        ports = {self.address(index): index for index in range(self.nodes)}
        out = {}
        for table in self.tables():
            shown = self.read("shard", "show", table)
            assert shown is not None, f"no shards of {table}"
            for shard in shown["shards"]:
                if not shard["settled"]:
                    return None
                indexes = sorted(ports[one["grpc_address"]] for one in shard["replicas"])
                out[shown["id"], shard["shard"]] = (table, indexes)
        return out

    def deferred_reads(self):
        """What the nodes that run now did not have in memory. A gRPC call of an empty message, so that this needs no
        gRPC for Python."""
        total = 0
        for index in range(self.nodes):
            got = subprocess.run(
                [*self.client_prefix, "curl", "--silent", "--http2-prior-knowledge", "--max-time", "10",
                 "--data-binary", "@-", "--header", "content-type: application/grpc", "--header", "te: trailers",
                 f"http://{self.address(index)}/skua.node.v1.Admin/GetMetrics"],
                input=struct.pack(">BI", 0, 0), capture_output=True, check=False)
            total += sum(int(float(line.split()[-1])) for line in got.stdout.decode("utf-8", "replace").splitlines()
                         if line.startswith("skua_reads_deferred_total{"))
        return total

    def stop_nodes(self):
        for index in range(self.nodes):
            code = self.processes[node_name(index)].stop()
            assert code == 0, f"{node_name(index)} ended with {code} after SIGTERM"

    def compare_members(self):
        """Stops the nodes: each shard must be the same with all its members. Returns rows compared."""
        members = wait_for("all shards to be settled", self.members)
        self.stop_nodes()
        return self.compare(members, [self.dump(self.data_of(index)) for index in range(self.nodes)])

    def compare_copies(self):
        """The same of copies of what lies on the disks, while the nodes run and nobody writes but to RESTLESS_TABLES.

        What a member has acknowledged may not be in a file yet, so they are looked at again."""
        end = time.monotonic() + COMPARE_LIMIT_S
        while True:
            members = wait_for("all shards to be settled", self.members)
            members = {shard: held for shard, held in members.items() if held[0] not in RESTLESS_TABLES}
            dumps = [self.dump_copy(index) for index in range(self.nodes)]
            try:
                return self.compare(members, dumps)
            except AssertionError:
                if time.monotonic() > end:
                    raise

    @staticmethod
    def compare(members, dumps):
        rows = 0
        for (table_id, shard), (table, indexes) in members.items():
            held = [dumps[index].get((table_id, shard), {}) for index in indexes]
            for index, other in zip(indexes[1:], held[1:]):
                if held[0] != other:
                    both = held[0].keys() | other.keys()
                    keys = sorted(key for key in both if held[0].get(key) != other.get(key))
                    raise AssertionError(
                        f"{table}/{shard}: nodes {indexes[0]} and {index} differ in {len(keys)} of {len(both)} keys; "
                        f"{keys[0]} has (version, hash) {held[0].get(keys[0])} and {other.get(keys[0])}")
            rows += len(held[0])
        return rows

    def data_of(self, index):
        return f"{self.directory}/{node_name(index)}"

    def dump_copy(self, index):
        """Of the files as they are at one moment: the node stands still while they are copied."""
        copy = f"{self.data_of(index)}-copy"
        try:
            hung = self.hang([node_name(index)])
            try:
                wait_for("the node to stand still", lambda: all(self.stands_still(popen.pid) for popen in hung))
                subprocess.run(["cp", "-r", os.path.realpath(self.data_of(index)), copy], check=True)
            finally:
                self.go_on(hung)
            return self.dump(copy)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    @staticmethod
    def dump(directory):
        """(table id, shard) -> key -> (version, hash of the value)"""
        out = {}
        command = [f"{cluster_test.BIN}/skuactl", "store", "dump", directory, "--uncommitted", "--values", "--output",
                   "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as dumped:
            for line in dumped.stdout:
                row = json.loads(line)
                out.setdefault((row["table"], row["shard"]), {})[row["key"]] = (
                    row["version"], hashlib.blake2b(row["value"].encode(), digest_size=8).hexdigest())
            refused = dumped.stderr.read().decode()
        assert dumped.returncode == 0, f"{directory}: {refused}"
        return out

    def tell_status(self, out):
        """For people who look for what went wrong."""
        unsettled = (self.read("status") or {}).get("unsettled_shards", [])
        tables = sorted({shard["table"] for shard in unsettled})
        for words in (("status",), *(("shard", "show", table, "--unsettled") for table in tables)):
            done = self.ctl(*words, timeout=CALL_LIMIT)
            print(f"--- skuactl {' '.join(words)}\n{done.stdout}{done.stderr}", file=out)

    def tell_logs(self, out, lines):
        for name, process in self.processes.items():
            last = process.log().splitlines()[-lines:]
            print(f"--- last words of {name} (life {self.lives.get(name, 1)}):", *last, sep="\n", file=out)

    def close(self):
        for process in self.processes.values():
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGCONT)
        try:
            super().close()
        finally:
            for mount in self.mounts:
                mount.__exit__()
