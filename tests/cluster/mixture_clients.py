"""The clients of mixture_test.py, which look on all the time, and what must be so of what they were told.

  tables       client             what it does
  t, anywhere  durability_client  writes, deletes, counts with conditions, adds, reads by GET and MULTI_GET; knows what
                                  each key may be; keeps replies for a while, whose bytes must stay
  idle         durability_client  the same, but nothing from the beginning of a round on, with its sessions open; keeps
                                  replies until all has settled
  hung         durability_client  the same; a fault stops it in the middle (SIGSTOP)
  dead         durability_client  the same; a fault kills it in the middle, and nobody asks what became of it
  probe        register_client    one puts, one gets, one key without a pause
  t            skuactl scan       again and again: versions of a key never go back, counters never fall
  rows         skua-ycsb          one scan, and nothing for as long as a round lasts
"""

import json
import os
import random
import subprocess
import threading
import time
import types

import cluster_test
from cluster_test import wait_for
from fault_scenarios_test import Register, check_order
from kill_test import DurabilityClient

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
#        name        shards  options                clients' arguments
TABLES = {
    "t": (3, (), ("--keys", "5000", "--value-bytes", "4000", "--in-flight", "8")),
    "anywhere": (2, ("--read-anywhere",), ("--keys", "1000", "--value-bytes", "2000", "--in-flight", "4")),
    "idle": (2, (), ("--keys", "2000", "--value-bytes", "4000", "--in-flight", "32")),
    "hung": (2, (), ("--keys", "500", "--value-bytes", "1000", "--in-flight", "16")),
    "dead": (1, (), ()),
    "probe": (1, (), ()),
    "rows": (2, (), ()),
}
# An operation gives up after 20 s, and a machine may be slow.
ANSWER_LIMIT_S = 180
PROGRESS_LIMIT_S = 60
IDLE_LOAD_S = 1
ROWS = 200
EVENTS_KEPT = 2000


def create_tables(cluster):
    for name, (shards, options, _) in TABLES.items():
        words = ("table", "create", name, "--shards", str(shards), "--replicas", "3", "--if-not-exists", *options)
        wait_for(f"table {name}", lambda: cluster.call(*words, timeout="20s")[0])
    assert cluster.settle(cluster_test.LIMIT_S), "the new tables' replicas are not there"


class Scanner:
    """Scans a table again and again, from one place or another."""

    def __init__(self, cluster, place, table, seed):
        self.command = [*place.command("client"), f"{cluster_test.BIN}/skuactl", "--control-address",
                        cluster.control_address, "--timeout", "20s", "--output", "json", "scan", table]
        self.rng = random.Random(seed)
        self.rows = {}  # key: (version, value)
        self.scans = 0
        self.failed = 0
        self.broken = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping.wait(0.2) and self.broken is None:
            start = self.rng.choice(("counter", "counter", f"key{self.rng.randrange(5000)}"))
            done = subprocess.run([*self.command, "--start", start, "--end", start + "~", "--limit", "200"],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.failed += 1
                continue
            try:
                self.look(start, json.loads(done.stdout)["rows"])
            except AssertionError as error:
                self.broken = str(error)
            self.scans += 1

    def look(self, start, rows):
        keys = [row["key"] for row in rows]
        assert keys == sorted(set(keys)), f"a scan from {start} has keys twice or out of order: {keys}"
        for row in rows:
            key, version, value = row["key"], row["version"], row["value"]
            known_version, known_value = self.rows.get(key, (0, "0"))
            told = f"a scan has {key} at version {version} with '{value[:40]}'"
            assert version >= known_version, f"{told}; an earlier one had version {known_version}"
            if key.startswith("counter"):
                assert int(value) >= int(known_value), f"{told}; an earlier one had '{known_value}'"
            else:
                assert value.startswith(f"{key} write "), told
            self.rows[key] = (version, value if key.startswith("counter") else "0")
        if start == "counter":
            missing = {key for key in self.rows if key.startswith("counter")} - set(keys)
            assert not missing, f"a scan lacks {sorted(missing)}, which are never deleted"

    def check(self):
        assert self.broken is None, self.broken

    def close(self):
        self.stopping.set()
        self.thread.join()


class Registers:
    """A register_client that puts and one that gets, and all that they were told."""

    def __init__(self, cluster):
        assert cluster.call("put", "probe", "key", "value", timeout="20s")[0], "the first put failed"
        self.both = [Register(cluster, kind) for kind in ("put", "get")]
        self.operations = 0

    def check(self):
        """They go on, and what they were told fits together."""
        now_ns = time.monotonic_ns()
        for one in self.both:
            wait_for("operations on a register to work again", lambda: any(
                event[3] == "OK" and event[1] > now_ns for event in one.events[-20:]), PROGRESS_LIMIT_S)
        events = [event for one in self.both for event in list(one.events)]
        lost = [event for event in events if event[3] == "NOT_FOUND"]
        assert not lost, f"a key that is never deleted was not there: {lost[:3]}"
        check_order(events)
        for one in self.both:
            self.forget(one.events)

    def forget(self, events):
        """All but the last ones, and the highest version that the others had.

        It stays as an operation without a beginning: it bounds what comes later, and nothing bounds it. The others were
        judged already, and a beginning at its end would make it look later than it was."""
        old = events[:-EVENTS_KEPT]
        told = [event for event in old if event[3] == "OK"]
        self.operations += len(old)
        del events[:len(old)]
        if told:
            last_ns = max(event[2] for event in told)
            events.insert(0, ("get", 0, last_ns, "OK", max(event[4] for event in told)))

    def close(self):
        for one in self.both:
            one.close()


class Clients:
    def __init__(self, cluster, place, seed):
        self.cluster = cluster
        self.place = place
        # What the clients are told of the cluster: they run where they can be cut off, skuactl of the test does not.
        self.seen = types.SimpleNamespace(client_prefix=tuple(place.command("client")), place=place,
                                          control_address=cluster.control_address, directory=cluster.directory)
        self.totals = {"acknowledged": 0, "unknown": 0, "refused": 0, "reads": 0, "failed_reads": 0, "multi_gets": 0,
                       "kept_replies": 0}
        self.durable = {}
        self.hanging = threading.Lock()
        self.others = []
        self.ycsb = None
        try:
            for number, (table, (_, _, arguments)) in enumerate(TABLES.items()):
                if arguments:
                    self.durable[table] = DurabilityClient(self.seen, table, "--seed", str(seed + number), *arguments)
            self.scanner = Scanner(self.seen, place, "t", seed)
            self.others.append(self.scanner)
            self.registers = Registers(cluster=self.with_seen())
            self.others.append(self.registers)
            self.load_rows()
        except BaseException:
            self.close()
            raise

    def with_seen(self):
        return types.SimpleNamespace(**vars(self.seen), call=self.cluster.call)

    def ycsb_command(self, *words):
        return [*self.seen.client_prefix, f"{cluster_test.BIN}/skua-ycsb", *words, "-P",
                os.path.join(SOURCE, "ycsb/workloads/workloade"), "-p", f"skua.control={self.cluster.control_address}",
                "-p", "table=rows", "-p", f"recordcount={ROWS}", "-p", "fieldcount=1", "-p", "fieldlength=20",
                "-threads", "1"]

    def load_rows(self):
        done = subprocess.run(self.ycsb_command("load", "skua"), capture_output=True, text=True, check=False)
        assert done.returncode == 0 and f"[INSERT], Return=OK, {ROWS}" in done.stdout, done.stdout + done.stderr

    def begin_round(self):
        """Load runs; the idle ones have done something on every shard, and are idle."""
        idle = self.durable["idle"]
        idle.tell("load")
        for table in ("t", "anywhere"):
            self.durable[table].tell("load")
        # A scan goes to every shard; the next one comes much later.
        self.end_ycsb()
        self.ycsb = subprocess.Popen(self.ycsb_command("run", "skua") + [
            "-p", "insertproportion=0", "-p", "scanproportion=1", "-p", "maxscanlength=20", "-target", "0.002"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(IDLE_LOAD_S)
        self.paused("idle")
        kept = self.tell("idle", "keep")
        assert idle.figure(kept, "replies") > 0, f"no replies of 300 to 4,000 bytes: {kept}"

    def end_ycsb(self):
        if self.ycsb is not None:
            self.ycsb.kill()
            self.ycsb.wait()
            self.ycsb = None

    def tell(self, table, word):
        try:
            return self.durable[table].tell(word, ANSWER_LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"table {table}: {error}") from None

    def paused(self, table):
        paused = self.tell(table, "pause")
        for name in self.totals:
            self.totals[name] += self.durable[table].figure(paused, name)

    def check(self):
        """Nothing that was acknowledged is lost, nothing done twice, nothing went back. `hung` must go on by now."""
        for table in ("t", "anywhere", "hung"):
            self.paused(table)
        for table in self.durable:
            self.tell(table, "check")
        self.registers.check()
        self.scanner.check()
        for table in TABLES:
            done, words = self.cluster.call("put", table, "afterwards", "value", timeout="20s")
            assert done, f"a put into {table} after everything healed: {words}"

    def start_dying(self):
        """A client with a table of its own, to be killed."""
        popen = subprocess.Popen(
            [*self.seen.client_prefix, f"{cluster_test.BIN}/durability_client", "--control",
             self.cluster.control_address, "--table", "dead", "--keys", "200"], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        popen.stdin.write("load\n")
        popen.stdin.flush()
        return popen

    def close(self):
        self.end_ycsb()
        for client in self.durable.values():
            client.close()
        for one in self.others:
            one.close()
