#!/usr/bin/env python3
"""Instructions per GET and per PUT outside the kernel, at the node and at the client, over TCP, counted by valgrind's callgrind.

usage: tests/perf/operation_instructions.py [--threads N] [--inflight N] [--large] [--side node|client|both]
                                            [--bin FOLDER] [--profile FOLDER] [OPERATION]...

  get     YCSB workload C: 100,000 rows of one field of 100 bytes
  put     the same keys, written anew, answered when memory has them

One node with one worker; skua-ycsb is the client. One of the two runs under callgrind, twice with different numbers of operations: the
difference is what operations cost. All threads of the node are counted: of a PUT, also what brings it into RocksDB. Polls that find
nothing are counted too, so the node sleeps when it is idle.

--large: fields of 1,000 bytes. --profile keeps callgrind's files there.

Examples:
  tests/perf/operation_instructions.py get
  tests/perf/operation_instructions.py --profile /tmp/profile get put
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import time

import processes

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
CONTROL = '127.0.0.1:18550'
GRPC = '127.0.0.1:18551'
DATA = '127.0.0.1:18552'
RECORDS = 100_000
CALM_TICKS = 10  # hundredths of a second, in two seconds
FEW = 20_000
MANY = 120_000


class Cluster(processes.Processes):
    """A control plane and one node, which runs under callgrind if `counted`."""

    def __init__(self, bin_folder, counted):
        super().__init__(bin_folder)
        self.counted = counted

    def __enter__(self):
        super().__enter__()
        self.start(self.program('skua-control'), '--listen-address', CONTROL, '--data-dir', f'{self.folder}/control')
        counter = ['valgrind', '--tool=callgrind', f'--callgrind-out-file={self.folder}/node.out', '--dump-instr=yes'] if self.counted else []
        self.node = self.start(*counter, self.program('skuad'), '--control-address', CONTROL, '--data-dir', f'{self.folder}/node',
                               '--grpc-address', GRPC, '--data-address', DATA)
        self.wait_until([self.program('skuactl'), '--control-address', CONTROL, 'table', 'create', 'usertable', '--shards', '1',
                         '--if-not-exists'])
        return self

    def wait_for_calm(self):
        """Until what was written is in RocksDB."""
        def ran():
            with open(f'/proc/{self.node.pid}/stat', encoding='ascii') as figures:
                return sum(int(word) for word in figures.read().rsplit(')', 1)[1].split()[11:13])
        deadline = time.monotonic() + processes.START_WITHIN_S
        before = ran()
        while time.monotonic() < deadline:
            time.sleep(2)
            now = ran()
            if now - before < CALM_TICKS:
                return
            before = now
        processes.fail('the node does not come to rest')

    def ycsb(self, what, options, count, counter=()):
        words = [*counter, self.program('skua-ycsb'), what, 'skua', '-P', os.path.join(ROOT, 'ycsb/workloads/workloadc'), '-p',
                 f'recordcount={RECORDS}', '-p', 'fieldcount=1', '-p', f'fieldlength={1000 if options.large else 100}', '-p',
                 f'skua.control={CONTROL}', '-p', f'operationcount={count}', '-p', 'skua.durability=memory', '-threads',
                 str(options.threads), '-inflight', str(options.inflight)]
        if what == 'run' and self.operation == 'put':
            words += ['-p', 'readproportion=0', '-p', 'updateproportion=1']
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode != 0 or (what == 'run' and 'Return=OK' not in done.stdout):
            processes.fail(f'{" ".join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
        return done

    operation = 'get'


def at_node(options, operation):
    with Cluster(options.bin, counted=True) as cluster:
        cluster.operation = operation
        cluster.ycsb('load', options, 0)
        cluster.ycsb('run', options, FEW)
        cluster.wait_for_calm()
        totals = []
        for count in (FEW, MANY):
            subprocess.run(['callgrind_control', '--zero', str(cluster.node.pid)], check=True, capture_output=True)
            cluster.ycsb('run', options, count)
            subprocess.run(['callgrind_control', f'--dump={operation}{count}', str(cluster.node.pid)], check=True, capture_output=True)
            found = sorted(glob.glob(f'{cluster.folder}/node.out.*'), key=os.path.getmtime)[-1]
            with open(found, encoding='utf-8', errors='replace') as profile:
                totals.append(int(re.search(r'^totals: (\d+)', profile.read(), re.M)[1]))
            if options.profile:
                shutil.copy(found, os.path.join(options.profile, f'node-{operation}-{count}.out'))
        return (totals[1] - totals[0]) / (MANY - FEW)


def at_client(options, operation):
    with Cluster(options.bin, counted=False) as cluster:
        cluster.operation = operation
        cluster.ycsb('load', options, 0)
        totals = []
        for count in (FEW, MANY):
            out = f'{cluster.folder}/client-{count}.out'
            cluster.ycsb('run', options, count, ['valgrind', '--tool=callgrind', f'--callgrind-out-file={out}', '--dump-instr=yes'])
            with open(out, encoding='utf-8', errors='replace') as profile:
                totals.append(int(re.search(r'^(?:totals|summary): (\d+)', profile.read(), re.M)[1]))
            if options.profile:
                shutil.copy(out, os.path.join(options.profile, f'client-{operation}-{count}.out'))
        return (totals[1] - totals[0]) / (MANY - FEW)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--bin', default=os.path.join(ROOT, 'build/release/bin'))
    parser.add_argument('--threads', type=int, default=4)
    parser.add_argument('--inflight', type=int, default=16)
    parser.add_argument('--large', action='store_true')
    parser.add_argument('--profile')
    parser.add_argument('--side', choices=['node', 'client', 'both'], default='both')
    parser.add_argument('operations', nargs='*', metavar='OPERATION', default=['get'])
    options = parser.parse_args()
    if shutil.which('valgrind') is None:
        processes.fail('valgrind is not there: apt-get install valgrind')
    for operation in options.operations:
        if options.side != 'client':
            print(f'{operation}: node   {at_node(options, operation):7.0f} instructions', flush=True)
        if options.side != 'node':
            print(f'{operation}: client {at_client(options, operation):7.0f} instructions, with the driver\'s own', flush=True)


if __name__ == '__main__':
    main()
