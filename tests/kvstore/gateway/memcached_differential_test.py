#!/usr/bin/env python3
"""Random streams of commands to a memcached and to skua-gateway on a cluster: the replies are the same, byte for byte, but for
versions (cas), of which each server has its own.

  memcached_differential_test.py --bin build/release/bin [--commands 20000] [--seed 1]

Commands come pipelined, in pieces of any size. Three kinds of pipelines keep away from what is known to differ:
  versions  no touch: the gateway gives a touched key another version
  times     no cas
  numbers   no reads: memcached does not fill up a shorter number with blanks while a reply holds the old one
No pipeline has a get with a key that is too long: memcached forgets the replies before it.
Exit code 77: there is no memcached here.
"""

import argparse
import random
import re
import shutil
import socket
import sys

from gateway_programs import LIMIT_S, Programs

KEYS = [f"key:{i}" for i in range(6)]
ENCODED = {"a2V5OjA=": "key:0", "a2V5OjE=": "key:1"}
END = b"MN\r\n"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)

    def send(self, data):
        self.socket.sendall(data)

    def replies(self):
        """All bytes up to the reply of mn. No value has its text."""
        out = b""
        while not out.endswith(END):
            got = self.socket.recv(1 << 20)
            if not got:
                raise AssertionError(f"the server closed the connection after {out[-200:]!r}")
            out += got
        return out

    def ask(self, data):
        self.send(data + b"mn\r\n")
        return self.replies()[:-len(END)]

    def versions(self):
        return {key.decode(): int(version)
                for key, version in re.findall(rb"VALUE (\S+) \d+ \d+ (\d+)\r\n", self.ask(b"gets " + " ".join(KEYS).encode() + b"\r\n"))}


def without_versions(replies):
    out = re.sub(rb"(VALUE \S+ \d+ \d+) \d+\r\n", rb"\1 #\r\n", replies)
    return re.sub(rb" t[1-9]\d*", b" t#", re.sub(rb" c\d+", b" c#", out))


class Streams:
    """Makes commands: bytes in which {key} stands for the version of a key, which each server has of its own."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def key(self):
        return self.random.choice(KEYS)

    def value(self):
        kind = self.random.randrange(8)
        if kind < 4:
            return self.random.choice(["0", "7", "10", "99", "100", "18446744073709551615", "18446744073709551616", "05"])
        size = self.random.choice([0, 1, 5, 20, 600, 3000]) if kind < 7 else self.random.choice([20_000, 70_000])
        return "".join(self.random.choice(LETTERS) for _ in range(size))

    def flags(self):
        return self.random.choice([0, 1, 77, 4294967295])

    def exptime(self):
        return self.random.choice([0, 0, 0, 100_000, -1, 1_600_000_000, 2_000_000_000])

    def noreply(self):
        return self.random.choice(["", "", "", " noreply"])

    def store(self):
        name = self.random.choice(["set", "set", "set", "add", "replace", "append", "prepend"])
        value = self.value()
        return f"{name} {self.key()} {self.flags()} {self.exptime()} {len(value)}{self.noreply()}\r\n{value}\r\n"

    def cas(self):
        key, value = self.key(), self.value()
        version = self.random.choice(["{" + key + "}", "{" + key + "}", "1"])
        return f"cas {key} {self.flags()} {self.exptime()} {len(value)} {version}{self.noreply()}\r\n{value}\r\n"

    def some(self, flags):
        chosen = self.random.sample(flags, self.random.randrange(min(5, len(flags)) + 1))
        return "".join(" " + flag for flag in chosen)

    def meta_set(self, version=True):
        key, value = self.key(), self.value()
        flags = [f"F{self.flags()}", f"T{self.exptime()}", f"M{self.random.choice('ERSAP')}", "c", "k", "Oabc", "q"]
        if version:
            flags.append("C{" + key + "}")
        return f"ms {key} {len(value)}{self.some(flags)}\r\n{value}\r\n"

    def read(self):
        keys = " ".join(self.key() for _ in range(self.random.choice([1, 1, 2, 5, 40])))
        return self.random.choice([f"get {keys}\r\n", f"gets {keys}\r\n",
                                   f"mg {self.key()}{self.some(['v', 's', 'f', 'c', 'k', 't', 'q', 'Oabc', 'u'])}\r\n",
                                   f"mg {self.random.choice(list(ENCODED))} b{self.some(['v', 's', 'f'])}\r\n"])

    def delete(self):
        return self.random.choice([f"delete {self.key()}{self.noreply()}\r\n", f"delete {self.key()} 0\r\n",
                                   f"md {self.key()}{self.some(['q', 'k', 'Oabc'])}\r\n"])

    def touch(self):
        one, other = self.random.sample(KEYS, 2)  # a key that is named twice and expires at once is read twice by the gateway
        return self.random.choice([f"touch {self.key()} {self.exptime()}{self.noreply()}\r\n",
                                   f"gat {self.exptime()} {one} {other}\r\n",
                                   f"gats {self.exptime()} {self.key()}\r\n",
                                   f"mg {self.key()} T{self.random.choice([0, 100_000])}{self.some(['v', 't', 'k'])}\r\n"])

    def sum(self):
        delta = self.random.choice([0, 1, 1, 9, 100, 18446744073709551615, "x", -1, 18446744073709551616])
        flags = [f"D{self.random.choice([1, 100])}", f"M{self.random.choice('ID+-')}", "N0", "J50", "v", "c", "k", "q", "Oabc"]
        return self.random.choice([f"incr {self.key()} {delta}{self.noreply()}\r\n", f"decr {self.key()} {delta}{self.noreply()}\r\n",
                                   f"ma {self.key()}{self.some(flags)}\r\n"])

    def mistake(self):
        long = "k" * 251
        return self.random.choice([
            "\r\n", "\n", "x\r\n", "get\r\n", "GET a\r\n", "foo\r\n", "set a\r\n", f"delete {long}\r\n",
            f"set {long} 0 0 1\r\n1\r\n", "set a x 0 1\r\n1\r\n", "set a 0 0 -1\r\n1\r\n",
            "set a 0 0 1 noreply\r\n123\r\n", "set a 0 0 2\r\n1234\r\n", "set a x 0 1 noreply\r\n1\r\n", "cas a 0 0 1\r\n1\r\n",
            "cas a 0 0 1 x\r\n1\r\n", "touch a\r\n", "touch a x\r\n", "touch a b c d\r\n", "gat\r\n", "gat 0\r\n", "gat x a\r\n",
            "incr a\r\n", "delete\r\n", "delete a 1\r\n", "delete a b c\r\n", "delete a b c d\r\n", "verbosity\r\n", "verbosity x\r\n",
            "verbosity 0\r\n", "version\r\n", "version x\r\n", "mg\r\n", "mg a v v\r\n", "mg a z\r\n", "mg !! b\r\n",
            f"mg a O{long[:40]}\r\n", f"mg {long}\r\n", "ms\r\n", "ms a\r\n", "ms a x\r\n1\r\n", "ms a 1 z\r\n1\r\n", "ms a 1 MX\r\n1\r\n",
            "ms a 1 Tx\r\n1\r\n", "ms a 1 Fx\r\n1\r\n", "ms a 1 M\r\n1\r\n", "ms a 2\r\n1234\r\n", "ms a 1 c c\r\n1\r\n", "md\r\n", "md a z\r\n",
            "ma\r\n", "ma a Mx\r\n", "ma a Dx\r\n", "me\r\n", "me nosuch\r\n", "mx a\r\n", "  get   key:0  \r\n", "get key:0\n"])

    def pipeline(self):
        kind = self.random.randrange(3)
        makers = [[self.store, self.cas, self.meta_set, self.read, self.delete],
                  [self.store, lambda: self.meta_set(False), self.read, self.touch, self.touch, self.delete],
                  [self.store, self.sum, self.sum, self.sum, self.cas, self.delete]][kind]
        count = self.random.choice([1, 3, 20, 60])
        return [self.mistake() if kind < 2 and self.random.randrange(12) == 0 else self.random.choice(makers)()
                for _ in range(count)]


def with_versions(commands, versions):
    text = "".join(commands)
    for key in KEYS:
        text = text.replace("{" + key + "}", str(versions.get(key, 123456789)))
    return text.encode()


def first_difference(memcached, gateway):
    """From the line before it on."""
    lines = [without_versions(replies).split(b"\r\n") for replies in (memcached, gateway)]
    at = next((i for i, (one, other) in enumerate(zip(*lines)) if one != other), min(map(len, lines)))
    shown = [[line[:200] for line in some[max(at - 1, 0):at + 4]] for some in lines]
    return f" line {at} of the replies\n memcached: {shown[0]}\n gateway:   {shown[1]}"


def run_stream(seed, count, memcached_port, gateway_port):
    streams = Streams(seed)
    memcached, gateway = Client(memcached_port), Client(gateway_port)
    for key in KEYS:
        for client in (memcached, gateway):
            client.ask(f"delete {key}\r\ndelete a\r\n".encode())
    while count > 0:
        commands = streams.pipeline()
        count -= len(commands)
        expected = memcached.ask(with_versions(commands, memcached.versions()))
        data = with_versions(commands, gateway.versions()) + b"mn\r\n"
        while data:
            size = streams.random.choice([1, 10, 1000, 100_000])
            gateway.send(data[:size])
            data = data[size:]
        got = gateway.replies()[:-len(END)]
        look = b"get " + " ".join(KEYS).encode() + b" a\r\n"
        for one, other in ((expected, got), (memcached.ask(look), gateway.ask(look))):
            if without_versions(one) != without_versions(other):
                shown = "\n  ".join(repr(command)[:100] for command in commands)
                raise AssertionError(f"seed {seed}:\n  {shown}\n{first_difference(one, other)}")
    memcached.socket.close()
    gateway.socket.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if shutil.which("memcached") is None:
        print("no memcached here: deploy/install-deps check")
        sys.exit(77)
    with Programs(arguments.bin) as programs:
        programs.start_cluster(3)
        programs.skuactl("table", "create", "cache", "--shards", "4", "--replicas", "3")
        _, gateway_port = programs.start_memcached_gateway("--databases", "0=cache", "--threads", "2")
        memcached_port = programs.start_memcached()
        per_stream = 1000
        for i in range(max(1, arguments.commands // per_stream)):
            run_stream(arguments.seed + i, per_stream, memcached_port, gateway_port)
    print(f"{arguments.commands} commands: the same replies")


if __name__ == "__main__":
    main()
