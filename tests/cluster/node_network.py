"""A network for a cluster on one machine, with a cable that can be cut between any two of its programs.

     node0       node1       node2       control     client          each a network namespace with one interface, eth0
       |           |           |           |           |
     ==+===========+===========+===========+===========+==          a bridge, in a namespace of its own

A cut is what a broken switch does: packets leave and do not arrive, and nobody is told. Each of the two is given a hardware address
for the other that no interface has (a permanent neighbour entry), so no packet filter is needed and connections that stand are
hit at once.
"""

import os
import shutil
import subprocess

NOBODY = "02:00:00:00:00:ff"


def why_not():
    """What this machine lacks; None if nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the program ip is missing (package iproute2)"
    name = f"skua-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespaces here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return None


class NodeNetwork:
    def __init__(self, names):
        self.prefix = f"skua-{os.getpid()}-"
        self.names = list(names)
        self.made = []
        self.add_namespace("switch")
        self.ip("-n", self.prefix + "switch", "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.prefix + "switch", "link", "set", "bridge", "up")
        for number, name in enumerate(self.names):
            self.add_namespace(name)
            port = f"port{number}"
            self.ip("-n", self.prefix + "switch", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
                    self.prefix + name)
            self.ip("-n", self.prefix + "switch", "link", "set", port, "master", "bridge", "up")
            self.inside(name, "link", "set", "eth0", "address", self.hardware(name))
            self.inside(name, "link", "set", "eth0", "up")
            self.inside(name, "address", "add", self.address(name) + "/24", "dev", "eth0")

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)

    def inside(self, name, *arguments):
        self.ip("-n", self.prefix + name, *arguments)

    def add_namespace(self, name):
        self.ip("netns", "add", self.prefix + name)
        self.made.append(name)
        self.inside(name, "link", "set", "lo", "up")

    def address(self, name):
        return f"10.77.0.{self.names.index(name) + 1}"

    def hardware(self, name):
        return f"02:00:00:00:00:{self.names.index(name) + 1:02x}"

    def command(self, name, *words):
        """What runs `words` there."""
        return ["ip", "netns", "exec", self.prefix + name, *words]

    def cut(self, one, *others):
        """From all of the others at the same moment."""
        self.tell(one, {other: NOBODY for other in others})
        for other in others:
            self.tell(other, {one: NOBODY})

    def deafen(self, receiver, sender):
        """What the sender sends does not arrive; the other way it does."""
        self.tell(sender, {receiver: NOBODY})

    def mend_one_way(self, receiver, sender):
        self.tell(sender, {receiver: self.hardware(receiver)})

    def mend(self, one, *others):
        for other in others:
            self.tell(other, {one: self.hardware(one)})
        self.tell(one, {other: self.hardware(other) for other in others})

    def tell(self, name, hardware):
        lines = [f"neigh replace {self.address(other)} lladdr {where} dev eth0 nud permanent"
                 for other, where in hardware.items()]
        subprocess.run(["ip", "-n", self.prefix + name, "-batch", "-"], input="\n".join(lines) + "\n", check=True,
                       capture_output=True, text=True)

    def close(self):
        for name in reversed(self.made):
            subprocess.run(["ip", "netns", "delete", self.prefix + name], check=False, capture_output=True)
        self.made = []


class Loopback:
    """The same for programs that all run on this machine's loopback; nothing can be cut."""

    def address(self, _):
        return "127.0.0.1"

    def command(self, _, *words):
        return list(words)

    def close(self):
        pass
