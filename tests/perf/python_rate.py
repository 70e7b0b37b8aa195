#!/usr/bin/env python3
"""How many GETs a second of processor time the client library for Python makes, on a cluster of its own.

  python_rate.py --build build/release [--seconds 3] [--rounds 5]

A line for each way, the median of rounds in turn: GETs per second of the client's own processor time, which does not count what
the node does on another processor, and per second that went by.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
KEYS = [f"key{i:04}" for i in range(1000)]
VALUE = b"v" * 100


class Rate:
    """Counts for a time."""

    def __init__(self, seconds):
        self.begin, self.begin_cpu, self.end, self.gets = time.monotonic(), time.process_time(), time.monotonic() + seconds, 0

    def goes_on(self, gets):
        self.gets += gets
        return time.monotonic() < self.end

    def result(self):
        return self.gets / (time.process_time() - self.begin_cpu), self.gets / (time.monotonic() - self.begin)


async def gathered(client, seconds):
    """64 GETs at a time, awaited together."""
    rate, at = Rate(seconds), 0
    while rate.goes_on(64):
        await asyncio.gather(*(client.get("t", key) for key in KEYS[at:at + 64]))
        at = (at + 64) % 900
    return rate.result()


async def tasks(client, seconds):
    """64 tasks, each with one GET at a time."""
    rate = Rate(seconds)

    async def one(first):
        at = first
        while rate.goes_on(1):
            await client.get("t", KEYS[at % len(KEYS)])
            at += 7

    await asyncio.gather(*(one(i) for i in range(64)))
    return rate.result()


async def multi_get(client, seconds):
    """A multi_get of 64 keys at a time."""
    rate, at = Rate(seconds), 0
    while rate.goes_on(64):
        await client.multi_get("t", KEYS[at:at + 64])
        at = (at + 64) % 900
    return rate.result()


WAYS = {"asyncio, 64 at a time by gather()": gathered, "asyncio, 64 tasks": tasks, "asyncio, multi_get of 64": multi_get}


async def measure(address, seconds, rounds):
    import skua  # what main() built

    results = {name: [] for name in WAYS}
    async with skua.AsyncClient(control_address=address) as client:
        await asyncio.gather(*(client.put("t", key, VALUE) for key in KEYS))
        for _ in range(rounds):
            for name, way in WAYS.items():
                results[name].append(await way(client, seconds))
    for name, told in results.items():
        of_cpu, of_time = (statistics.median(values) for values in zip(*told))
        low, high = min(cpu for cpu, _ in told), max(cpu for cpu, _ in told)
        print(f"{name}: {of_cpu:,.0f} ({low:,.0f} to {high:,.0f}) a second of processor time, {of_time:,.0f} a second")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.address:
        asyncio.run(measure(arguments.address, arguments.seconds, arguments.rounds))
        return 0
    sys.path.insert(0, os.path.join(ROOT, "tests", "kvstore", "gateway"))
    from gateway_programs import Programs

    with tempfile.TemporaryDirectory() as folder, Programs(os.path.join(arguments.build, "bin")) as programs:
        subprocess.run(["cmake", "--install", arguments.build, "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
        libraries = next(where for where, _, files in os.walk(folder) if "libskua.so.1" in files)
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(libraries, "pkgconfig"), "LD_LIBRARY_PATH": libraries,
                       "PYTHONPATH": os.path.join(folder, "python")}
        subprocess.run([sys.executable, os.path.join(ROOT, "bindings", "python", "build.py"), "--out", environment["PYTHONPATH"]],
                       check=True, env=environment, stdout=subprocess.DEVNULL)
        programs.start_cluster(1)
        programs.skuactl("table", "create", "t", "--shards", "4")
        return subprocess.run([sys.executable, __file__, "--build", arguments.build, "--seconds", str(arguments.seconds), "--rounds",
                               str(arguments.rounds), "--address", f"127.0.0.1:{programs.control_port}"], check=False,
                              env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
