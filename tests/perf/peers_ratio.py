#!/usr/bin/env python3
"""YCSB workload C against Skua, Redis, memcached and a bare store (ycsb_floor), in turn, with the same driver, over loopback TCP.

usage: tests/perf/peers_ratio.py [--runs N] [--bin FOLDER] [--threads N] [--inflight N] [--driver-cores LIST] [--server-cores LIST]

100,000 rows of one field of 100 bytes, read only; one server with one worker each. All servers run all the time; those that are not
measured sleep. The bare store does nothing but answer reads: it shows what the driver and the kernel leave. Prints one line a round, and the median ratios by state of the machine: see dpdk_ratios.py for what does not count.
By default driver and server share the processors as the kernel likes.

Examples:
  tests/perf/peers_ratio.py
  tests/perf/peers_ratio.py --server-cores 0 --driver-cores 1 --threads 1 --inflight 64
"""

import argparse
import os
import re
import shutil
import subprocess

import memif_pair as pair
import processes

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
CONTROL = '127.0.0.1:18560'
GRPC = '127.0.0.1:18561'
DATA = '127.0.0.1:18562'
REDIS_PORT = '18563'
MEMCACHED_PORT = '18564'
BARE_PORT = '18565'
RECORDS = 100_000
OPERATIONS = 1_000_000
ROUNDS_PER_RATIO_MAX = 3
STORES = {
    'skua': ['-p', f'skua.control={CONTROL}'],
    'redis': ['-p', 'redis.index=false', '-p', f'redis.port={REDIS_PORT}'],
    'memcached': ['-p', f'memcached.port={MEMCACHED_PORT}'],
    'bare': ['-p', f'bare.port={BARE_PORT}'],
}


def pinned(cores):
    return ['taskset', '-c', cores] if cores else []


class Servers(processes.Processes):
    """Skua's control plane and node, Redis, memcached and the bare store, each with one thread for requests."""

    def __init__(self, options):
        super().__init__(options.bin)
        self.options = options

    def __enter__(self):
        for needed in ('redis-server', 'memcached'):
            if shutil.which(needed) is None:
                processes.fail(f'no {needed}: install it (Debian: apt install redis-server memcached)')
        super().__enter__()
        on = pinned(self.options.server_cores)
        self.start(self.program('skua-control'), '--listen-address', CONTROL, '--data-dir', f'{self.folder}/control')
        self.start(*on, self.program('skuad'), '--control-address', CONTROL, '--data-dir', f'{self.folder}/node', '--grpc-address', GRPC,
                   '--data-address', DATA)
        self.start(*on, 'redis-server', '--port', REDIS_PORT, '--save', '', '--dir', self.folder)
        self.start(*on, 'memcached', '-u', 'nobody', '-t', '1', '-m', '1024', '-p', MEMCACHED_PORT, '-l', '127.0.0.1')
        self.start(*on, self.program('ycsb_floor'), 'serve', BARE_PORT)
        self.wait_until([self.program('skuactl'), '--control-address', CONTROL, 'table', 'create', 'usertable', '--shards', '1',
                         '--if-not-exists'])
        for store in STORES:
            self.ycsb('load', store, RECORDS)
        return self

    def ycsb(self, what, store, count):
        """Operations per second."""
        driver = self.program('ycsb_floor' if store == 'bare' else 'skua-ycsb')
        words = [*pinned(self.options.driver_cores), driver, what, store, '-P', os.path.join(ROOT, 'ycsb/workloads/workloadc'),
                 '-p', f'recordcount={RECORDS}', '-p', f'operationcount={count}', '-p', 'fieldcount=1', '-p', 'fieldlength=100', '-threads',
                 str(self.options.threads), '-inflight', str(self.options.inflight), *STORES[store]]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        found = re.search(r'^\[OVERALL\], Throughput\(ops/sec\), ([\d.]+)', done.stdout, re.M)
        if done.returncode != 0 or found is None:
            processes.fail(f'{" ".join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
        return float(found[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--runs', type=int, default=7)
    parser.add_argument('--bin', default=pair.BIN)
    parser.add_argument('--threads', type=int, default=4)
    parser.add_argument('--inflight', type=int, default=16)
    parser.add_argument('--driver-cores', default='')
    parser.add_argument('--server-cores', default='')
    options = parser.parse_args()
    peers = [store for store in STORES if store != 'skua']
    pairs = [*(('skua', peer) for peer in peers), ('bare', 'redis'), ('bare', 'memcached')]
    ratios = {pair_of: {} for pair_of in pairs}
    with Servers(options) as servers:
        for number in range(1, options.runs * ROUNDS_PER_RATIO_MAX + 1):
            before_ns = pair.distance_ns()
            rates = {store: servers.ycsb('run', store, OPERATIONS) for store in STORES}
            # Threads of driver and server share the processors, so that they wait says nothing.
            state, counts, words = pair.judge(before_ns, pair.distance_ns(), 0)
            line = '  '.join(f'{store} {rates[store] / 1000:4.0f}' for store in STORES)
            shares = '  '.join(f'{store} over {peer} {rates[store] / rates[peer]:.2f}' for store, peer in pairs)
            print(f'{number}: thousand/s {line}   {shares}   {words}', flush=True)
            if not counts:
                continue
            for store, peer in pairs:
                ratios[store, peer].setdefault(state, []).append(rates[store] / rates[peer])
            if len(ratios[pairs[0]][state]) >= options.runs:
                break
    for store, peer in pairs:
        pair.print_medians(f'{store} over {peer}', ratios[store, peer])


if __name__ == '__main__':
    main()
