#!/usr/bin/env python3
"""GETs of values of about 1 KB over a memif pair, over calls of the same sizes by the engine alone, alternating.

usage: tests/perf/get_ratio.py [--runs N] [--outstanding N] [--records N] [MEASURE]...

  library     GETs per second by the client library (get_rate), values of 1,024 bytes
  ycsb        GETs per second by skua-ycsb, rows of one field of 1,000 bytes (1,014 with its name and lengths)

One skuad with one worker on one processor, one client thread on the other, both never asleep. The other side of the ratio is `skua-perf rate`
on such a pair with requests and answers of those sizes and as many outstanding. Each run starts a cluster anew and fills it; keys
are drawn at random. Prints one line a run and the median ratios by state of the machine: see dpdk_ratios.py for what does not count.

Examples:
  tests/perf/get_ratio.py
  tests/perf/get_ratio.py --runs 3 --outstanding 64 library
"""

import argparse
import json
import os
import re
import subprocess
import time

import memif_pair as pair

CONTROL = '127.0.0.1:18540'
GRPC = '127.0.0.1:18541'
DATA = '127.0.0.1:18542'
ADDRESS = '10.77.0.2/24'
TABLE = 'usertable'
SECONDS = 3
VALUE_BYTES = 1024
FIELD_BYTES = 1000
REQUEST_BYTES = 48  # 32 of header, and the key
START_WITHIN_S = 30
CALM_NS = 5_000_000  # of half a second
RUNS_PER_RATIO_MAX = 3


def program(name):
    return os.path.join(pair.BIN, name)


def device(cluster):
    return pair.memif('client', cluster.socket, 0)


class Cluster(pair.Pair):
    """A control plane and one node, whose worker has one end of the pair, or speaks TCP. `options_of` gives further options for
    a program of a role (control, node, admin), once the cluster has a folder."""

    def __init__(self, transport='dpdk', options_of=lambda folder, role: []):
        self.transport = transport
        self.options_of = options_of

    def __enter__(self):
        super().__enter__()
        self.log = os.path.join(self.folder, 'log')
        words = ['--transport', self.transport, *self.options_of(self.folder, 'node')]
        if self.transport == 'dpdk':
            words += ['--dpdk-devices', pair.memif('server', self.socket, 0), '--dpdk-addresses', '10.77.0.1/24']
        with open(self.log, 'wb') as log:
            self.start(program('skua-control'), '--listen-address', CONTROL, '--data-dir', f'{self.folder}/control',
                       *self.options_of(self.folder, 'control'), stdout=log, stderr=log)
            self.node = self.start(
                'taskset', '-c', str(pair.SERVER_CORE), program('skuad'), '--control-address', CONTROL, '--data-dir',
                f'{self.folder}/node', '--grpc-address', GRPC, '--data-address', DATA, '--polling', 'busy', *words, stdout=log,
                stderr=log)
        deadline = time.monotonic() + START_WITHIN_S
        create = [program('skuactl'), '--control-address', CONTROL, 'table', 'create', TABLE, '--shards', '1', '--if-not-exists',
                  *self.options_of(self.folder, 'admin')]
        while subprocess.run(create, capture_output=True, check=False).returncode != 0:
            if time.monotonic() > deadline:
                self.fail('the cluster does not start')
            time.sleep(0.1)
        return self

    def threads(self):
        """How long each thread of the node ran and waited for a processor, in nanoseconds; that which ran most comes last."""
        found = []
        for task in os.listdir(f'/proc/{self.node.pid}/task'):
            with open(f'/proc/{self.node.pid}/task/{task}/schedstat', encoding='ascii') as figures:
                found.append(tuple(int(word) for word in figures.read().split()[:2]))
        return sorted(found)

    def worker(self):
        return self.threads()[-1]

    def others_ran_ns(self):
        return sum(ran for ran, _ in self.threads()[:-1])

    def wait_for_calm(self):
        """Until what was written is in RocksDB, whose threads share the worker's processor."""
        deadline = time.monotonic() + START_WITHIN_S
        ran = self.others_ran_ns()
        while time.monotonic() < deadline:
            time.sleep(0.5)
            before, ran = ran, self.others_ran_ns()
            if ran - before < CALM_NS:
                return
        self.fail('the node does not come to rest')

    def fail(self, what, *texts):
        with open(self.log, encoding='utf-8', errors='replace') as log:
            pair.fail('\n'.join([what, *texts, log.read()[-2000:]]))

    def client(self, name, *words, **variables):
        """What a program on the client's processor prints."""
        done = subprocess.run(['taskset', '-c', str(pair.CLIENT_CORE), program(name), *words], capture_output=True, text=True,
                              check=False, timeout=100, env={**os.environ, **variables})
        if done.returncode != 0:
            self.fail(f'{name} failed', done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


def library(cluster, options):
    """Loads the table; the function returned reads from it: GETs per second."""
    words = [device(cluster), ADDRESS, CONTROL, TABLE, str(options.records), str(VALUE_BYTES), str(options.outstanding)]
    cluster.client('get_rate', *words, '0')
    return lambda: json.loads(cluster.client('get_rate', *words, str(SECONDS)))['gets_per_second']


def ycsb(cluster, options):
    words = [*ycsb_words(options.records, FIELD_BYTES, options.outstanding), '-p', 'skua.transport=dpdk', '-p',
             f'skua.dpdk.devices={device(cluster)}', '-p', f'skua.dpdk.addresses={ADDRESS}']
    cluster.client('skua-ycsb', 'load', *words, '-p', 'skua.durability=memory')
    return lambda: ycsb_reads(cluster, words)


def ycsb_words(records, field_bytes, outstanding):
    return ['skua', '-P', os.path.join(pair.ROOT, 'ycsb/workloads/workloadc'), '-p', f'recordcount={records}', '-p', 'fieldcount=1',
            '-p', f'fieldlength={field_bytes}', '-p', f'skua.control={CONTROL}', '-p', 'skua.spin=1000000', '-p',
            'requestdistribution=uniform', '-threads', '1', '-inflight', str(outstanding)]


def ycsb_reads(cluster, words):
    """GETs per second."""
    text = cluster.client('skua-ycsb', 'run', *words, '-p', 'operationcount=0', '-p', f'maxexecutiontime={SECONDS}')
    if 'Return=OK' not in text:
        cluster.fail('skua-ycsb read nothing', text)
    return float(re.search(r'Throughput\(ops/sec\), ([\d.]+)', text)[1])


def gets(prepare, options):
    """GETs per second, and for how many milliseconds the worker waited for its processor meanwhile."""
    with Cluster() as cluster:
        read = prepare(cluster, options)
        cluster.wait_for_calm()
        before = cluster.worker()
        rate = read()
        return rate, (cluster.worker()[1] - before[1]) / 1e6


MEASURES = {'library': (library, VALUE_BYTES), 'ycsb': (ycsb, FIELD_BYTES + 14)}


def measure(name, options):
    """Prints `--runs` ratios of one state, and their median; those of the other state as well, if there are some."""
    prepare, value_bytes = MEASURES[name]
    ratios = {'near': [], 'far': []}
    for run in range(1, RUNS_PER_RATIO_MAX * options.runs + 1):
        before_ns = pair.distance_ns()
        echo = pair.skua('rate', '--size', str(REQUEST_BYTES), '--response-size', str(value_bytes), '--outstanding',
                         str(options.outstanding), seconds=SECONDS)
        rate, waited = gets(prepare, options)
        after_ns = pair.distance_ns()
        ratio = rate / echo['calls_per_second']
        state, counts, words = pair.judge(before_ns, after_ns, max(waited, echo['waited_ms']))
        if counts:
            ratios[state].append(ratio)
        print(f'{name:7} {run}: {rate:9.0f} GETs/s, {echo["calls_per_second"]:9.0f} calls/s, ratio {ratio:.3f}   {words}', flush=True)
        if max(map(len, ratios.values())) == options.runs:
            break
    pair.print_medians(f'{name:7}', ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--outstanding', type=int, default=32)
    parser.add_argument('--records', type=int, default=100_000)
    parser.add_argument('measures', nargs='*', metavar='MEASURE')
    options = parser.parse_args()
    for name in options.measures:
        if name not in MEASURES:
            pair.fail(f'unknown measure {name}; there are: {", ".join(MEASURES)}')
    pair.check_host(with_testpmd=False)
    for name in options.measures or MEASURES:
        measure(name, options)


if __name__ == '__main__':
    main()
