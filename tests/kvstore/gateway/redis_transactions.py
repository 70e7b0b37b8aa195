"""Transactions of a redis-server and of skua-gateway: the replies are the same, byte for byte. And transfers between accounts,
by clients that get in each other's way: no money is made or lost, and nobody sees a part of a transfer."""

import random
import threading

from redis_client import Connection, encode

DATABASE = 1  # its table has one shard

# Replies that do not depend on what is in the store.
SCRIPTS = [
    ["MULTI", "EXEC", "EXEC", "DISCARD", "MULTI", "DISCARD", "DISCARD"],
    ["MULTI", "MULTI", "WATCH a", "PING", "EXEC"],
    ["MULTI", "FOO", "SET a 1", "EXEC", "EXISTS a"],
    ["MULTI", "GET", "WATCH", "MULTI x", "DISCARD x", "EXEC"],
    ["MULTI", "SET a 1", "EXEC x", "EXEC", "EXISTS a", "EXEC x"],
    ["MULTI", "SET a 1 FOO", "SET a x", "INCR a", "APPEND a y", "UNWATCH", "CONFIG FOO", "EXEC", "GET a"],
    ["MULTI", "SET a 1 FOO", "SET a x", "INCR a", "APPEND a y", "UNWATCH", "EXEC", "GET a", "DEL a"],
    ["WATCH a", "SET a 1", "MULTI", "GET a", "EXEC", "MULTI", "GET a", "EXEC", "DEL a"],
    ["WATCH a", "SET a 1", "UNWATCH", "MULTI", "GET a", "EXEC", "DEL a"],
    ["WATCH a", "SET a 1", "MULTI", "DISCARD", "MULTI", "GET a", "EXEC", "DEL a"],
    ["WATCH a", "SET a 1", "EXEC", "MULTI", "GET a", "EXEC", "DEL a"],
    ["WATCH a b", "SET b 1", "EXEC x", "MULTI", "GET b", "EXEC", "DEL b"],
    ["WATCH a", "SET a 1", "MULTI", "FOO", "EXEC", "DEL a"],
    ["MULTI", "HSET a f 1 g 2", "HINCRBY a f 2", "HDEL a g", "HGETALL a", "GET a", "EXEC", "HGET a f", "TYPE a", "DEL a"],
    ["HSET a f 1", "WATCH a", "HSET a f 2", "MULTI", "HGET a f", "EXEC", "MULTI", "HSET a h 1", "HLEN a", "EXEC", "DEL a"],
    ["MSETNX a 1 b 2", "MGET a b", "MSETNX b 3 c 4", "MGET a b c", "MSETNX a x a y", "DEL a b c"],
    ["MULTI", "MSETNX a 1 b 2", "MSETNX b 3 c 4", "EXEC", "MGET a b c", "DEL a b c"],
    ["MULTI", *["SETRANGE a 1099511627776 x"] * 3, "EXEC"],
    ["MULTI", "SET a 1", "RESET", "SELECT 1", "EXEC", "EXISTS a"],
    ["HELLO 3", "WATCH a", "SET a 1", "MULTI", "GET a", "EXEC", "MULTI", "GET b", "EXEC", "DEL a"],
]


def run_script(port, script):
    connection = Connection(port)
    connection.ask("SELECT", DATABASE)
    connection.ask("DEL", "a", "b")
    connection.send(b"".join(encode(*line.split()) for line in script))
    # What HELLO says has the number of the connection.
    replies = [connection.reply().raw for _ in script]
    connection.close()
    return [raw for line, raw in zip(script, replies) if not line.startswith("HELLO")]


def compare_scripts(redis_port, gateway_port):
    for script in SCRIPTS:
        redis, gateway = run_script(redis_port, script), run_script(gateway_port, script)
        if redis != gateway:
            raise AssertionError(f"{script}:\n redis:   {redis}\n gateway: {gateway}")


def simple_change(streams):
    """A command that changes a key surely, if it does anything."""
    key = streams.key()
    return streams.random.choice([["SET", key, streams.value()], ["DEL", key], ["APPEND", key, "x"], ["EXPIRE", key, 100_000]])


def queued_command(streams):
    kind = streams.random.randrange(40)
    if kind == 0:
        return streams.random.choice([["GET"], ["FOO", "x"], ["SET", "a"], ["MULTI"], ["WATCH", "a"], ["PING", "a", "b"]])
    if kind < 10:
        return streams.set()[0]
    if kind < 14:
        return streams.expire()[0]
    if kind < 16:
        return streams.getex()[0]
    while True:
        words = streams.simple()[0]
        if words[0] != "SELECT":
            return words


def transaction(streams):
    """Commands of the client, and of another one, in their order: (of the other one?, words)."""
    steps = []
    # Two changes can make an absent key absent again, which a gateway does not take for a change.
    is_changed = False
    if streams.random.randrange(2) == 0:
        steps.append((False, ["WATCH", streams.key(), streams.key()]))
        is_changed = streams.random.randrange(3) == 0
        if is_changed:
            steps.append((streams.random.randrange(3) > 0, simple_change(streams)))
    steps.append((False, ["MULTI"]))
    steps += [(False, queued_command(streams)) for _ in range(streams.random.randrange(8))]
    if streams.random.randrange(10) == 0 and not is_changed:
        steps.append((True, simple_change(streams)))
    steps.append((False, ["DISCARD"] if streams.random.randrange(12) == 0 else ["EXEC"]))
    return steps


def pieces(steps):
    """Steps that one client may send without waiting."""
    out = []
    for is_other, words in steps:
        if not out or out[-1][0] != is_other:
            out.append((is_other, []))
        out[-1][1].append(words)
    return out


def compare_random(streams, count, redis_port, gateway_port):
    clients = [(Connection(port), Connection(port)) for port in (redis_port, gateway_port)]
    for own, other in clients:
        for connection in (own, other):
            connection.ask("SELECT", DATABASE)
        own.ask("DEL", *[f"key:{i}" for i in range(6)])
    if streams.random.randrange(2) == 0:
        for own, _ in clients:
            own.ask("HELLO", 3)
    history = []
    null_count = 0
    for _ in range(count):
        for is_other, commands in pieces(transaction(streams)):
            for own, other in clients:
                (other if is_other else own).send(b"".join(encode(*words) for words in commands))
            for words in commands:
                history.append(("other " if is_other else "") + repr(words)[:200])
                redis, gateway = [(other if is_other else own).reply() for own, other in clients]
                null_count += words == ["EXEC"] and redis.value is None
                if redis.raw != gateway.raw:
                    before = "\n  ".join(history[-25:])
                    raise AssertionError(f"transactions:\n  {before}\n redis:   {redis}\n gateway: {gateway}")
    for own, other in clients:
        own.close()
        other.close()
    if count >= 100 and null_count == 0:
        raise AssertionError("no transaction met a change of another client")


# --- Transfers

ACCOUNTS = 3
START = 1000


def transfer_by_watch(connection, source, target, amount):
    """False: somebody else came in between."""
    connection.ask("WATCH", source, target)
    balances = [int(connection.ask("GET", account)) for account in (source, target)]
    connection.ask("MULTI")
    connection.ask("SET", source, balances[0] - amount)
    connection.ask("SET", target, balances[1] + amount)
    done = connection.ask("EXEC")
    if done is not None and done != ["+OK", "+OK"]:
        raise AssertionError(f"EXEC: {done}")
    return done is not None


def transfer_by_counters(connection, source, target, amount):
    connection.send(encode("MULTI") + encode("DECRBY", source, amount) + encode("INCRBY", target, amount) + encode("EXEC"))
    done = [connection.reply().value for _ in range(4)][3]
    if isinstance(done, str) and done.startswith("-TRYAGAIN"):
        return False
    if not isinstance(done, list) or len(done) != 2:
        raise AssertionError(f"EXEC: {done}")
    return True


def look(connection):
    connection.send(encode("MULTI") + b"".join(encode("GET", f"account:{i}") for i in range(ACCOUNTS)) + encode("EXEC"))
    values = [connection.reply().value for _ in range(ACCOUNTS + 2)][-1]
    if isinstance(values, str) and values.startswith("-TRYAGAIN"):
        return
    if sum(int(value) for value in values) != ACCOUNTS * START:
        raise AssertionError(f"the accounts have {values}")


def run_client(port, seed, transfers, errors):
    try:
        rng = random.Random(seed)
        connection = Connection(port)
        connection.ask("SELECT", DATABASE)
        transfer = transfer_by_watch if seed % 2 == 0 else transfer_by_counters
        done = 0
        while done < transfers and not errors:
            source, target = rng.sample(range(ACCOUNTS), 2)
            done += transfer(connection, f"account:{source}", f"account:{target}", rng.randrange(1, 50))
            look(connection)
        connection.close()
    except Exception as error:  # pylint: disable=broad-except
        errors.append(error)


def check_transfers(gateway_port, clients=6, transfers=25):
    connection = Connection(gateway_port)
    connection.ask("SELECT", DATABASE)
    for i in range(ACCOUNTS):
        connection.ask("SET", f"account:{i}", START)
    errors = []
    threads = [threading.Thread(target=run_client, args=(gateway_port, seed, transfers, errors)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    look(connection)
    connection.ask("DEL", *[f"account:{i}" for i in range(ACCOUNTS)])
    connection.close()


def check_shards(gateway_port):
    """Keys of several shards, in the table of database 0."""
    connection = Connection(gateway_port)
    keys = [f"many:{i}" for i in range(20)]
    connection.ask("MULTI")
    for key in keys:
        connection.ask("SET", key, 1)
    expected = "-CROSSSLOT Keys in request don't hash to the same slot"
    if (got := connection.ask("EXEC")) != expected or connection.ask("EXISTS", *keys) != 0:
        raise AssertionError(f"a transaction over several shards: {got}")
    connection.ask("MULTI")
    connection.ask("SET", keys[0], 1)
    connection.ask("INCR", keys[0])
    if (got := connection.ask("EXEC")) != ["+OK", 2]:
        raise AssertionError(f"a transaction over one key: {got}")
    connection.ask("DEL", keys[0])
    connection.close()
