"""redis-py with the gateway: redis_py_client.py PORT."""

import sys

import redis

BINARY = bytes(range(256))
LARGE = b"x" * (1 << 20)


def use(protocol):
    client = redis.Redis(port=int(sys.argv[1]), socket_timeout=60, **protocol)
    client.delete("c:bin", "c:large", "c:h", "c:n", "c:t", "c:absent")
    assert client.ping()
    assert client.set("c:bin", BINARY) and client.get("c:bin") == BINARY
    assert client.set("c:large", LARGE) and client.get("c:large") == LARGE
    assert client.set("c:bin", b"1", ex=100, xx=True) and 90 < client.ttl("c:bin") <= 100
    assert client.set("c:bin", b"2", nx=True) is None
    pipe = client.pipeline(transaction=False)
    for _ in range(1000):
        pipe.incr("c:n")
    assert pipe.execute() == list(range(1, 1001))
    with client.pipeline() as transaction:
        transaction.watch("c:t")
        transaction.multi()
        transaction.set("c:t", 1).incr("c:t")
        client.set("c:t", 7)
        try:
            transaction.execute()
            raise AssertionError("a watched key was changed")
        except redis.WatchError:
            pass
        assert transaction.set("c:t", 1).incr("c:t").execute() == [True, 2]
    assert client.hset("c:h", mapping={"a": 1, "b": BINARY}) == 2
    assert client.hgetall("c:h") == {b"a": b"1", b"b": BINARY} and client.hincrby("c:h", "a", 2) == 3
    try:
        client.incr("c:h")
        raise AssertionError("a hash is no number")
    except redis.ResponseError as error:
        assert "WRONGTYPE" in str(error) or "wrong kind" in str(error), error
    assert client.get("c:absent") is None
    assert {b"c:bin", b"c:large", b"c:h"} <= set(client.scan_iter(match="c:*"))
    assert client.info()["redis_mode"] == "standalone" and client.client_setname("c") and client.client_getname() == "c"


use({})
if int(redis.__version__.split(".", maxsplit=1)[0]) >= 5:
    use({"protocol": 3})
