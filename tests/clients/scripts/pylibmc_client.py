"""pylibmc, which stands on libmemcached, with the gateway: pylibmc_client.py PORT."""

import sys

import pylibmc

BINARY = bytes(range(256))
LARGE = b"x" * (1 << 20)

client = pylibmc.Client([f"127.0.0.1:{sys.argv[1]}"], behaviors={"cas": True, "tcp_nodelay": True})
client.delete_multi(["m:bin", "m:large", "m:n", "m:cas", "m:object", "m:absent"])
assert client.set("m:bin", BINARY) and client.get("m:bin") == BINARY
# Flags tell how the client has written a value.
assert client.set("m:object", {"a": [1, "x"]}) and client.get("m:object") == {"a": [1, "x"]}
assert client.set("m:bin", BINARY, time=100) and client.touch("m:bin", 100)
assert client.add("m:bin", b"2") is False and client.replace("m:bin", b"1")
assert client.set("m:cas", 1)
value, version = client.gets("m:cas")
assert value == 1 and client.cas("m:cas", 2, version)
assert client.cas("m:cas", 3, version) is False
assert client.set("m:n", 7) and client.incr("m:n", 5) == 12 and client.decr("m:n", 2) == 10
try:
    client.incr("m:absent")
    raise AssertionError("there is no such key")
except pylibmc.NotFound:
    pass
assert not client.set_multi({f"m:many{i}": i for i in range(100)})
assert client.get_multi([f"m:many{i}" for i in range(200)]) == {f"m:many{i}": i for i in range(100)}
assert client.delete_multi([f"m:many{i}" for i in range(100)]) and client.get("m:many0") is None
# The client itself refuses values beyond 1 MiB with their names; a little less goes.
assert client.set("m:large", LARGE[:1_000_000]) and client.get("m:large") == LARGE[:1_000_000]
