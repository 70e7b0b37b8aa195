"""pymemcache with the gateway: pymemcache_client.py PORT."""

import sys

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

BINARY = bytes(range(256))
LARGE = b"x" * (1 << 20)

client = Client(("127.0.0.1", int(sys.argv[1])), timeout=60, default_noreply=False)
client.delete_many(["m:bin", "m:large", "m:n", "m:cas", "m:absent"])
assert client.set("m:bin", BINARY) and client.get("m:bin") == BINARY
assert client.set("m:large", LARGE) and client.get("m:large") == LARGE
assert client.set("m:bin", b"1", expire=100) and client.touch("m:bin", 100)
assert client.add("m:bin", b"2") is False and client.append("m:bin", b"2") and client.get("m:bin") == b"12"
assert client.set("m:cas", b"1")
value, version = client.gets("m:cas")
assert value == b"1" and client.cas("m:cas", b"2", version) and client.cas("m:cas", b"3", version) is False
assert client.set("m:n", b"7") and client.incr("m:n", 5) == 12 and client.decr("m:n", 2) == 10
assert client.incr("m:absent", 1) is None
assert not client.set_many({f"m:many{i}": b"%d" % i for i in range(100)})
assert len(client.get_many([f"m:many{i}" for i in range(200)])) == 100
client.set_many({f"m:many{i}": b"x" for i in range(100)}, noreply=True)
assert client.get("m:many99") == b"x"
assert client.delete_many([f"m:many{i}" for i in range(100)]) and not client.delete("m:many0")
try:
    client.incr("m:large", 1)
    raise AssertionError("this is no number")
except MemcacheClientError:
    pass
assert b"version" in client.stats() and client.version()
