"""The faults of mixture_test.py. Each is planned by a random generator of its own, so that a seed always has the same
faults at the same times, with a beginning and an end:

     round    |---- hang node1 ----|    |-- cut node0 node2 --|        |<- all is over: heal, settle, check
              0      |------- loss 12 % at node3 -------|   |- kill -|  20 s
"""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import node_network
from loop_mount import LoopMount
from mixture_cluster import FAKETIME, node_name

LOSS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packet_loss.py")
SHORTEST_S = 0.5
DYING_S = 1.0
HOW_MANY = (5, 14)
PROBE_MIB = 16


@dataclasses.dataclass
class Fault:
    text: str
    begin: Callable[[], object]  # what it returns is noted
    end: Callable[[], object]


def one_or_two(rng, names):
    return rng.sample(names, rng.choice((1, 1, 1, 2)))


def hang(world, rng):
    """SIGSTOP of one or two nodes."""
    return hang_of(world, one_or_two(rng, world.node_names))


def control_hang(world, _):
    """SIGSTOP of the control plane."""
    return hang_of(world, ["control"])


def hang_of(world, names):
    hung = []
    return Fault(f"hang {' '.join(names)}", lambda: hung.extend(world.cluster.hang(names)),
                 lambda: world.cluster.go_on(hung))


def kill(world, rng):
    """kill -9 of one, two or all nodes."""
    how_many = rng.choice((1, 1, 1, 2, 2, len(world.node_names)))
    return kill_of(world, rng.sample(world.node_names, how_many))


def control_kill(world, _):
    """kill -9 of the control plane."""
    return kill_of(world, ["control"])


def kill_of(world, names):
    return Fault(f"kill {' '.join(names)}", lambda: world.cluster.kill(names), lambda: world.cluster.revive(names))


def cut(world, rng):
    """Two programs do not hear each other."""
    one, other = rng.sample(world.cut_names, 2)
    return cut_of(world, f"cut {one} {other}", [(one, other), (other, one)])


def cut_one_way(world, rng):
    """What one program sends does not reach another one, or anybody."""
    sender, *receivers = rng.sample(world.cut_names, len(world.cut_names))
    receivers = receivers[:rng.choice((1, 1, len(receivers)))]
    return cut_of(world, f"cut_one_way {sender} to {' '.join(receivers)}", [(sender, other) for other in receivers])


def isolate(world, rng):
    """A node hears nobody, and nobody hears it."""
    alone = rng.choice(world.node_names)
    others = [name for name in world.cut_names if name != alone]
    return cut_of(world, f"isolate {alone}", [pair for other in others for pair in ((alone, other), (other, alone))])


def cut_of(world, text, pairs):
    return Fault(text, lambda: world.cuts.change(pairs, 1), lambda: world.cuts.change(pairs, -1))


def loss(world, rng):
    """A part of the packets that arrive at a program is dropped."""
    name, percent = rng.choice(world.cut_names), rng.choice((1, 5, 20, 40))
    dropping = []

    def begin():
        command = world.place.command(name, sys.executable, LOSS, "--interface", "eth0", "--percent", str(percent))
        one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        dropping.append(one)
        said = one.stdout.readline().strip()
        return said if said != "dropping" else None  # another one is at work there: as good

    def end():
        for one in dropping:
            one.communicate()

    return Fault(f"loss {percent} % at {name}", begin, end)


def full_disk(world, rng):
    """Somebody takes the space on a node's disk, but for a part of what the node keeps for its own work."""
    return full_disk_of(world, "full_disk", rng.randrange(len(world.node_names)), rng.choice((20, 40, 80)))


def no_space(world, rng):
    """The same, and of what the node keeps for itself, too: its databases fail."""
    return full_disk_of(world, "no_space", rng.randrange(len(world.node_names)), rng.choice((0, 2)))


def full_disk_of(world, what, index, leave_mib):
    ballast = []

    def end():
        for one in ballast:
            os.unlink(one)
        ended = world.cluster.revive_aborted()
        return f"RocksDB's assertion ended {' '.join(ended)}: started again" if ended else None

    return Fault(f"{what} node{index}, {leave_mib} MiB free",
                 lambda: ballast.append(world.cluster.fill_disk(index, leave_mib)), end)


def move(world, rng):
    """Shards get other members, or other primaries."""
    picks = [(rng.random() < 0.5, rng.random(), rng.random(), rng.random()) for _ in range(3)]

    def one(is_move, shard_pick, from_pick, to_pick):
        shards = [(table, shard) for table in world.lasting_tables
                  for shard in (world.cluster.read("shard", "show", table) or {"shards": []})["shards"]]
        if not shards:
            return "nobody tells where shards are"
        table, shard = shards[int(shard_pick * len(shards))]
        held = [replica["grpc_address"] for replica in shard["replicas"] if replica["role"] in ("primary", "backup")]
        nodes = range(len(world.node_names))
        free = [address for address in map(world.cluster.address, nodes) if address not in held]
        if not held or (is_move and not free):
            return f"{table}/{shard['shard']} has nowhere to go"
        source = held[int(from_pick * len(held))]
        words = (("move", table, str(shard["shard"]), "--from", source, "--to", free[int(to_pick * len(free))])
                 if is_move else ("transfer", table, str(shard["shard"]), "--to", source))
        return f"{' '.join(words)}: {world.cluster.call('shard', *words)[1]}"

    return Fault("move", lambda: "; ".join(one(*pick) for pick in picks), lambda: None)


def drain(world, rng):
    """A node is drained, and undrained."""
    address = world.cluster.address(rng.randrange(len(world.node_names)))
    return Fault(f"drain {address}", lambda: world.cluster.call("node", "drain", address)[1],
                 lambda: world.cluster.call("node", "undrain", address)[1])


def table(world, rng):
    """A table is created, written to, and dropped."""
    name = f"passing{rng.randrange(1 << 30)}"
    shards = rng.choice((1, 3))

    def begin():
        world.passing_tables.append(name)
        said = world.cluster.call("table", "create", name, "--shards", str(shards), "--replicas", "3")[1]
        return f"{said}; {world.cluster.call('put', name, 'key', 'value')[1]}"

    return Fault(f"table {name}", begin, lambda: world.cluster.call("table", "drop", name, "--yes")[1])


def clock(world, rng):
    """A node's clock jumps, and jumps back."""
    offset_s = rng.choice((-86400, -600, -2, 2, 600, 86400))
    return Fault(f"clock of {world.node_names[-1]} {offset_s:+d} s", lambda: world.cluster.set_clock(offset_s),
                 lambda: world.cluster.set_clock(0))


def hung_client(world, rng):
    """A client stops in the middle of its work; it may go on only when the cluster has settled without it."""
    late = rng.random() < 0.5
    hung = world.clients.durable["hung"]

    def begin():
        with world.clients.hanging:  # otherwise one stops the client while another waits for its answer
            hung.popen.send_signal(signal.SIGCONT)
            hung.tell("load")
            time.sleep(SHORTEST_S)
            hung.popen.send_signal(signal.SIGSTOP)

    def end():
        if not late:
            hung.popen.send_signal(signal.SIGCONT)

    return Fault(f"hung_client{' until all has settled' if late else ''}", begin, end)


def dead_client(world, _):
    """Clients are killed in the middle of their work."""
    def begin():
        dying = [world.clients.start_dying() for _ in range(2)]
        time.sleep(DYING_S)
        for one in dying:
            one.kill()
            one.wait()
            one.stdin.close()

    return Fault("dead_client", begin, lambda: None)


FAULTS = {fault.__name__: fault for fault in (
    hang, cut, cut_one_way, isolate, loss, kill, control_kill, control_hang, full_disk, no_space, move, drain, table,
    clock, hung_client, dead_client)}


def lacks(names, nodes):
    """What of these cannot be had on this machine: name -> why."""
    out = {}
    network = node_network.why_not()
    if network is not None:
        out.update(dict.fromkeys(("cut", "cut_one_way", "isolate", "loss"), network))
    with LoopMount(PROBE_MIB) as mount:
        if not mount.is_own:
            out.update(dict.fromkeys(("full_disk", "no_space"), "disks of their own need root and a loop device"))
    if not os.path.exists(FAKETIME):
        out["clock"] = "libfaketime is not installed"
    if nodes < 4:
        out["drain"] = "with three nodes and three replicas there is nowhere to go"
    return {name: why for name, why in out.items() if name in names}


class Round:
    """Faults at random times, several at once, each on a thread of its own."""

    def __init__(self, world, seed, number, names, lasts_s, say):
        self.world = world
        self.say = say
        self.errors = []
        rng = random.Random(f"{seed}/{number}")
        kinds = [rng.choice(names) for _ in range(rng.randrange(*HOW_MANY))]
        self.planned = []
        for kind in kinds:
            begins_s = rng.uniform(0, lasts_s * 0.7)
            ends_s = min(lasts_s, begins_s + rng.choice((SHORTEST_S, 2, 5, 10, lasts_s)) * rng.uniform(1, 1.5))
            self.planned.append((begins_s, ends_s, FAULTS[kind](world, random.Random(rng.random()))))
        self.planned.sort(key=lambda one: one[0])

    def run(self):
        self.started = time.monotonic()
        threads = [threading.Thread(target=self.run_one, args=one) for one in self.planned]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.errors, "\n".join(self.errors)

    def run_one(self, begins_s, ends_s, fault):
        try:
            self.at(begins_s)
            said = fault.begin()
            self.say(f"begins: {fault.text}{self.answer(said)}")
            self.at(ends_s)
            said = fault.end()
            self.say(f"ends:   {fault.text}{self.answer(said)}")
        except Exception:  # the round's thread tells of it
            self.errors.append(f"{fault.text}: {traceback.format_exc()}")

    @staticmethod
    def answer(said):
        return f" ({said})" if isinstance(said, str) else ""

    def at(self, since_start_s):
        time.sleep(max(0, self.started + since_start_s - time.monotonic()))
