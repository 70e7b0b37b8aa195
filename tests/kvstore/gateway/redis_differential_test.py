#!/usr/bin/env python3
"""Random streams of commands to a redis-server and to skua-gateway on a cluster: the replies are the same, byte for byte.

  redis_differential_test.py --bin build/release/bin [--commands 20000] [--seed 1]

Commands come pipelined, in pieces of any size. Where Redis promises no order (KEYS) or no exact time (TTL), the replies are
compared in that sense. Exit code 77: there is no redis-server here.
"""

import argparse
import random
import shutil
import sys
import time

from gateway_programs import Programs
import redis_transactions
from redis_client import Connection, encode

EXACT, NEAR, SORTED = "exact", "near", "sorted"
NEAR_MS = 5000


class Streams:
    """Makes commands. Few keys, so that they meet."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        # No two times are near to each other: the gateway knows times of expiry to some milliseconds only.
        self.times = (int(time.time()) + 1000 + 100 * i for i in range(10**9))

    def key(self):
        return f"key:{self.random.randrange(6)}"

    def value(self):
        kind = self.random.randrange(12)
        if kind < 4:
            return str(self.random.randrange(-100, 100))
        if kind < 6:
            return f"{self.random.uniform(-100, 100):.4f}"
        if kind == 6:
            return self.random.choice(["", " 1", "9223372036854775807", "-9223372036854775808", "1e3", "inf", "01", "3.0"])
        size = self.random.choice([1, 5, 20, 600, 3000]) if kind < 11 else self.random.choice([20_000, 70_000])
        return self.random.randbytes(size)

    def number(self):
        return self.random.choice([self.random.randrange(-20, 20), self.random.randrange(-2000, 2000), 2**63 - 1, -2**63, "x", "1.5"])

    def expiry(self):
        unit = self.random.choice(["EXAT", "PXAT", "exat"])
        when = next(self.times)
        return [unit, when if unit.lower() == "exat" else when * 1000]

    def case(self, word):
        return self.random.choice([word, word.lower(), word.capitalize()])

    def set(self):
        words = ["SET", self.key(), self.value()]
        options = [[], [], self.expiry(), ["KEEPTTL"], ["EX", self.random.choice([0, -1, "x", 100_000])],
                   ["PXAT", 1], ["EX", 5, "EX", 100_000]]
        for option in [self.random.choice(options), self.random.choice([[], [], ["NX"], ["XX"]]),
                       self.random.choice([[], [], ["GET"]])]:
            words += option
        if self.random.randrange(20) == 0:
            words += self.random.choice([["NX", "XX"], ["FOO"], ["EX"], ["EX", 1, "PX", 1]])
        return words, EXACT

    def expire(self):
        flags = self.random.choice([[], [], [], ["NX"], ["XX"], ["GT"], ["LT"], ["GT", "XX"], ["NX", "GT"], ["GT", "LT"], ["FOO"]])
        unit, when = self.random.choice([("EXPIREAT", next(self.times)), ("PEXPIREAT", next(self.times) * 1000), ("EXPIREAT", 1),
                                         ("EXPIRE", -1), ("EXPIRE", 2**63 - 1), ("PEXPIRE", "x"), ("EXPIRE", 0)])
        return [unit, self.key(), when, *flags], EXACT

    def getex(self):
        return ["GETEX", self.key(), *self.random.choice([[], ["PERSIST"], self.expiry(), ["EX"], ["FOO"], ["PXAT", 1], ["EX", 0], ["EX", "x"],
                                                              ["EX", 5, "EX", 100_000], ["PERSIST", "PERSIST"], ["EX", 1, "PX", 1]])], EXACT

    def field(self):
        return self.random.choice(["a", "b", "c", "n", "m", "field:1", "field:2", "x" * 100])

    def fields(self):
        return [self.field() for _ in range(self.random.choice([1, 1, 2, 5]))]

    def hash(self):
        key, field, value = self.key, self.field, self.value
        pairs = [word for name in self.fields() for word in (name, value())]
        return self.random.choice([
            lambda: ["HSET", key(), *pairs], lambda: ["HSET", key(), *pairs], lambda: ["HMSET", key(), *pairs],
            lambda: ["HSET", key(), *pairs[:-1]], lambda: ["HSETNX", key(), field(), value()],
            lambda: ["HGET", key(), field()], lambda: ["HMGET", key(), *self.fields()], lambda: ["HGETALL", key()],
            lambda: ["HGETALL", key()], lambda: ["HDEL", key(), *self.fields()], lambda: ["HLEN", key()],
            lambda: ["HKEYS", key()], lambda: ["HVALS", key()], lambda: ["HEXISTS", key(), field()],
            lambda: ["HSTRLEN", key(), field()], lambda: ["HINCRBY", key(), field(), self.number()],
            lambda: ["HINCRBYFLOAT", key(), field(), value()],
            lambda: ["HSCAN", key(), self.random.choice([0, 0, 0, "x"]),
                     *self.random.choice([[], ["MATCH", "field:*"], ["COUNT", 5], ["COUNT", 0], ["COUNT", "x"], ["TYPE", "hash"],
                                          ["COUNT", 100, "MATCH", "[ab]"]])],
            lambda: ["DEL", key()]])(), EXACT

    def simple(self):
        key = self.key
        return self.random.choice([
            lambda: ["GET", key()], lambda: ["GET", key()], lambda: ["STRLEN", key()], lambda: ["TYPE", key()],
            lambda: ["GETDEL", key()], lambda: ["GETSET", key(), self.value()], lambda: ["PERSIST", key()],
            lambda: ["APPEND", key(), self.value()], lambda: ["SETNX", key(), self.value()],
            lambda: ["GETRANGE", key(), self.number(), self.number()],
            lambda: ["SETRANGE", key(), self.random.choice([0, 3, 40, -1, "x", 2**40]), self.value()],
            lambda: ["INCR", key()], lambda: ["DECR", key()], lambda: ["INCRBY", key(), self.number()],
            lambda: ["DECRBY", key(), self.number()], lambda: ["INCRBYFLOAT", key(), self.value()],
            lambda: ["MGET", key(), key(), key()], lambda: ["MSET", key(), self.value(), key(), self.value()],
            # One key: keys of several shards are refused.
            lambda one=key(): ["MSETNX", one, self.value(), one, self.value()],
            lambda: ["DEL", key(), key()], lambda: ["UNLINK", key()], lambda: ["EXISTS", key(), key(), "nosuch"],
            lambda: ["SETEX", key(), self.random.choice([100_000, 0, "x"]), self.value()],
            lambda: ["PSETEX", key(), self.random.choice([100_000_000, -5]), self.value()],
            lambda: ["PING"], lambda: ["ECHO", self.value()],
            lambda: ["SELECT", self.random.choice([0, 1, 0, 1, 99, -1, "x", 9_999_999_999])]])(), EXACT

    def mistake(self):
        return self.random.choice([["GET"], ["SET", "a"], ["MSET", "a", "1", "b"], ["FOO", "a\r\nb", "c" * 200, "d"], ["foo"],
                                   ["CONFIG"], ["CONFIG", "FOO"], ["CLIENT", "nosuch"], ["PING", "a", "b"], ["INCR", "a", "b"],
                                   ["EXPIRE", "a"], ["GETEX"], ["CONFIG", "GET"], ["x" * 300], ["HELLO", "9"], ["HELLO", "x"],
                                   ["AUTH", "x"], ["AUTH", "a", "b"], ["HSET", "a", "b"], ["HGET", "a"], ["HSCAN", "a"], ["SCAN", "x"], ["SCAN", "0", "COUNT", "0"],
                                   ["SCAN", "0", "FOO", "1"], ["DBSIZE", "a"], ["RANDOMKEY", "a"], ["MSETNX", "a", "1", "b"], ["CLIENT", "SETNAME", "a b"]]), EXACT

    def command(self):
        kind = self.random.randrange(26)
        if kind >= 20:
            return self.hash()
        if kind < 3:
            return self.set()
        if kind < 5:
            return self.expire()
        if kind == 5:
            return self.getex()
        if kind == 6:
            return [self.random.choice(["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), self.key()], NEAR
        if kind == 7:
            return self.random.choice([(["KEYS", self.random.choice(["*", "key:[0-3]", "key:?", "nosuch", "k*5", "k" * 1100 + "*"])], SORTED),
                                       (["SCAN", "0", "COUNT", "5000", "MATCH", "key:*"], SORTED),
                                       (["SCAN", "0", "COUNT", "5000", "TYPE", self.random.choice(["hash", "string", "list"])], SORTED)])
        if kind == 8:
            return self.mistake()
        return self.simple()


def near(words, one, other):
    if not isinstance(one, int) or not isinstance(other, int) or one < 0 or other < 0:
        return one == other
    limit = NEAR_MS if words[0].upper().startswith("P") else NEAR_MS // 1000
    return abs(one - other) <= limit


def in_order(value):
    """Text that is the same for lists that have the same parts."""
    return str(sorted(in_order(part) for part in value)) if isinstance(value, list) else repr(value)


def agree(words, how, redis, gateway):
    if how == NEAR:
        return near(words, redis.value, gateway.value)
    if how == SORTED:
        return in_order(redis.value) == in_order(gateway.value)
    return redis.raw == gateway.raw


def empty(connection):
    for database in (0, 1):
        connection.ask("SELECT", database)
        keys = connection.ask("KEYS", "*")
        if keys:
            connection.ask("DEL", *keys)


def run_stream(seed, count, redis_port, gateway_port):
    streams = Streams(seed)
    redis, gateway = Connection(redis_port), Connection(gateway_port)
    for connection in (redis, gateway):
        empty(connection)
        connection.ask("SELECT", 0)
        if seed % 2 == 0:
            connection.ask("HELLO", 3)
    history = []
    while count > 0:
        pipeline = [streams.command() for _ in range(min(count, streams.random.choice([1, 3, 20, 100])))]
        count -= len(pipeline)
        data = b"".join(encode(*words) for words, _ in pipeline)
        redis.send(data)
        while data:
            size = streams.random.choice([1, 10, 1000, 100_000])
            gateway.send(data[:size])
            data = data[size:]
        for words, how in pipeline:
            history.append(words)
            expected, got = redis.reply(), gateway.reply()
            if not agree(words, how, expected, got):
                before = "\n  ".join(repr(old)[:200] for old in history[-12:])
                raise AssertionError(f"seed {seed}, command {len(history)}:\n  {before}\n redis:   {expected}\n gateway: {got}")
    # Redis counts keys that have expired until somebody asks for them.
    for database in (0, 1):
        sizes = []
        for connection in (redis, gateway):
            connection.ask("SELECT", database)
            connection.ask("EXISTS", *[f"key:{i}" for i in range(6)])
            sizes.append(connection.ask("DBSIZE"))
        if sizes[0] != sizes[1]:
            raise AssertionError(f"seed {seed}: redis has {sizes[0]} keys in database {database}, the gateway {sizes[1]}")
    redis.close()
    gateway.close()


BAD_STREAMS = [b"*x\r\n", b"*2147483648\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n!1\r\nb\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$x\r\n", b"*\r\n",
               b"GET \"a\r\n", b"GET 'a'b\r\n", b"PING\r\n*1\r\nfoo\r\n", b"x" * 70_000, b"*" + b"1" * 70_000,
               b"*1\r\n$99999999999\r\n", b"*1\r\n$" + b"1" * 70_000]


def compare_bad_streams(redis_port, gateway_port):
    for stream in BAD_STREAMS:
        replies = []
        for port in (redis_port, gateway_port):
            connection = Connection(port)
            connection.send(stream)
            replies.append(connection.rest())
            connection.close()
        if replies[0] != replies[1]:
            raise AssertionError(f"to {stream[:60]!r} redis says {replies[0]!r}, the gateway {replies[1]!r}")


INLINE = (b"PING\r\n\r\n  set  inline \"a\\x41 b\"\nGET inline\r\nget 'inline'\n*0\r\n*-1\r\nECHO ''\r\nDEL inline\r\n"
          b"echo \"\\n\\r\\t\\a\\b\\\\\\\"\"\r\necho a\"b c\"\r\n*1\r\n$4\r\nPINGxxPING\r\n")


def compare_inline(redis_port, gateway_port):
    replies = []
    for port in (redis_port, gateway_port):
        connection = Connection(port)
        connection.send(INLINE)
        replies.append([connection.reply().raw for _ in range(10)])
        connection.close()
    if replies[0] != replies[1]:
        raise AssertionError(f"inline commands: redis says {replies[0]}, the gateway {replies[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if shutil.which("redis-server") is None:
        print("no redis-server here: deploy/install-deps check")
        sys.exit(77)
    with Programs(arguments.bin) as programs:
        programs.start_cluster(3)
        programs.skuactl("table", "create", "cache", "--shards", "4", "--replicas", "3")
        programs.skuactl("table", "create", "users", "--shards", "1")
        _, gateway_port = programs.start_gateway("--databases", "0=cache,1=users", "--threads", "2")
        redis_port = programs.start_redis()
        compare_bad_streams(redis_port, gateway_port)
        compare_inline(redis_port, gateway_port)
        redis_transactions.compare_scripts(redis_port, gateway_port)
        redis_transactions.compare_random(Streams(arguments.seed), arguments.commands // 20, redis_port, gateway_port)
        redis_transactions.check_shards(gateway_port)
        redis_transactions.check_transfers(gateway_port)
        per_stream = 1000
        for i in range(max(1, arguments.commands // per_stream)):
            run_stream(arguments.seed + i, per_stream, redis_port, gateway_port)
    print(f"{arguments.commands} commands: the same replies")


if __name__ == "__main__":
    main()
