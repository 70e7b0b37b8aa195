#!/usr/bin/env python3
"""What operations notice of certificates and keys that are replaced, in turn with the same load while nothing is.

usage: tests/perf/rotation_latency.py [--bin DIR] [--port FIRST] [--seconds N] [--pairs N] [--every SECONDS] [--target N]

One control plane and one node on loopback, with certificates of two authorities that all believe, and skua-ycsb (workload A) at a rate that
the machine bears alone. In the runs that rotate, all certificates are replaced every few seconds, signed by the one authority and the other
in turn, and client and node begin a new key of their packets each second; a process looks at its certificate once a second. In the
other runs keys live for an hour, and the same certificates are issued, but nobody gets them: what issuing takes of the machine is in both.

Prints a line a run: failed operations, and the 99th percentiles of reads and updates. Then the medians of the ratios of a run with
rotation to the run without before.

Examples:
  tests/perf/rotation_latency.py
  tests/perf/rotation_latency.py --pairs 1 --seconds 300 --every 6      # 50 certificates
"""

import argparse
import os
import re
import statistics
import tempfile
import threading

from processes import Processes, fail
from stranger_flood import Cluster, figure

AUTHORITIES = ('ca', 'ca2')
PERCENTILE = r', 99thPercentileLatency\(us\), ([\d.]+)'


class Rotation:
    """Certificates are issued again and again, from here to the end of the block, and replace those that are there if `installs`."""

    def __init__(self, cluster, every_s, installs):
        self.cluster, self.every_s, self.installs = cluster, every_s, installs
        self.count, self.stop = 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.wait(self.every_s):
            self.count += 1
            folder = tempfile.mkdtemp(dir=self.cluster.processes.folder)
            for role, name in self.cluster.names.items():
                self.cluster.skuactl('cert', 'issue', role, name, '--authority', self.cluster.path(AUTHORITIES[self.count % 2]), '--out', folder)
            for made in sorted(os.listdir(folder)) if self.installs else ():  # NAME.key, then NAME.pem
                os.replace(os.path.join(folder, made), self.cluster.path(f'certs/{made}'))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def load(cluster, options, *words):
    said = cluster.ycsb('run', '-p', 'readproportion=0.5', '-p', 'updateproportion=0.5', '-p', 'operationcount=100000000', '-p',
                        f'maxexecutiontime={options.seconds}', '-target', str(options.target), *words)
    failed = sum(int(count) for kind, count in re.findall(r'Return=(\w+), (\d+)', said) if kind != 'OK')
    return failed, figure(said, r'\[READ\]' + PERCENTILE), figure(said, r'\[UPDATE\]' + PERCENTILE)


def run(cluster, options, rotates):
    with Rotation(cluster, options.every, rotates) as rotation:
        failed, read, update = load(cluster, options, *(('-p', 'skua.packet_key_lifetime_s=1') if rotates else ()))
    print(f'{rotation.count:3} sets of certificates, {"replaced" if rotates else "not used"}: {failed} operations failed, 99% of reads '
          f'within {read:6.0f} us, of updates within {update:6.0f} us', flush=True)
    return read, update


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', default='build/release/bin')
    parser.add_argument('--port', type=int, default=23_200, help='the first of six ports')
    parser.add_argument('--seconds', type=int, default=30, help='of a run')
    parser.add_argument('--pairs', type=int, default=3)
    parser.add_argument('--every', type=float, default=6, help='seconds from one rotation to the next')
    parser.add_argument('--target', type=int, default=2000, help='operations per second that the client asks for')
    options = parser.parse_args()
    if options.every <= 0:
        fail('--every is a time above 0')
    with Processes(options.bin) as processes, Processes(options.bin) as others:
        staying = Cluster(processes, options.port, AUTHORITIES)
        rotating = Cluster(others, options.port + 3, AUTHORITIES, ('--packet-key-lifetime', '1s'))
        ratios = []
        for _ in range(options.pairs):
            before = run(staying, options, False)
            after = run(rotating, options, True)
            ratios.append([one / other for one, other in zip(after, before)])
    for what, kind in enumerate(('reads', 'updates')):
        print(f'{kind}: the 99th percentile times {statistics.median(pair[what] for pair in ratios):.2f}')


if __name__ == '__main__':
    main()
