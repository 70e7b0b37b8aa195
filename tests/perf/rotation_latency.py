#!/usr/bin/env python3
"""What operations notice of certificates and keys that are replaced, in turn with the same load while nothing is.

usage: tests/perf/rotation_latency.py [--bin DIR] [--port FIRST] [--seconds N] [--pairs N] [--every SECONDS] [--target N]

One control plane and one node on loopback, with certificates of two authorities that all believe, and skua-ycsb (workload A) at a rate that
the machine bears alone. In the runs that rotate, all certificates are replaced every few seconds, signed by the one authority and the other
in turn, and the client begins a new key of its packets each second, as nodes do in all runs; a process looks at its certificate once a
second. In the other runs the client's keys live for an hour, and the same certificates are issued, but nobody gets them: what issuing
takes of the machine is in both. Connections that stand are not made anew.

Prints a line a run: failed operations, and the 99th percentiles of reads and updates. Then the medians of the ratios of a run with
rotation to the run without before.

Examples:
  tests/perf/rotation_latency.py
  tests/perf/rotation_latency.py --pairs 1 --seconds 300 --every 6      # 50 certificates
"""

import argparse
import os
import re
import ssl
import statistics
import tempfile
import threading

from processes import Processes, fail
from stranger_flood import Cluster, figure

AUTHORITIES = ('ca', 'ca2')
KEYS = ('--packet-key-lifetime', '1s')
PERCENTILE = r', 99thPercentileLatency\(us\), ([\d.]+)'


class Rotation:
    """Certificates are issued again and again, from here to the end of the block, and replace those that are there if `installs`."""

    def __init__(self, cluster, every_s, installs):
        self.cluster, self.every_s, self.installs = cluster, every_s, installs
        self.count, self.trouble, self.stop = 0, None, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop.wait(self.every_s):
                self.check_served()
                self.rotate(AUTHORITIES[(self.count + 1) % 2])
                self.count += 1
        except (Exception, SystemExit) as trouble:  # pylint: disable=broad-exception-caught
            self.trouble = trouble

    def check_served(self):
        """The node shows the certificate that is in its file."""
        with open(self.cluster.path(f'certs/{self.cluster.names["node"]}.pem'), encoding='ascii') as pem:
            in_file = pem.read()
        if ssl.get_server_certificate(('127.0.0.1', self.cluster.ports['grpc'])).strip() != in_file.strip():
            raise RuntimeError('the node does not show the certificate of its file')

    def rotate(self, authority):
        folder = tempfile.mkdtemp(dir=self.cluster.processes.folder)
        for role, name in self.cluster.names.items():
            self.cluster.skuactl('cert', 'issue', role, name, '--authority', self.cluster.path(authority), '--out', folder)
        for made in sorted(os.listdir(folder)) if self.installs else ():  # NAME.key, then NAME.pem
            os.replace(os.path.join(folder, made), self.cluster.path(f'certs/{made}'))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        if self.trouble is not None:
            fail(f'certificates were not replaced: {self.trouble}')


def load(cluster, options, *words):
    said = cluster.ycsb('run', '-p', 'readproportion=0.5', '-p', 'updateproportion=0.5', '-p', 'operationcount=100000000', '-p',
                        f'maxexecutiontime={options.seconds}', '-target', str(options.target), *words)
    failed = sum(int(count) for kind, count in re.findall(r'Return=(\w+), (\d+)', said) if kind != 'OK')
    return failed, figure(said, r'\[READ\]' + PERCENTILE), figure(said, r'\[UPDATE\]' + PERCENTILE)


def run(cluster, options, rotates):
    with Rotation(cluster, options.every, rotates) as rotation:
        failed, read, update = load(cluster, options, '-p', f'skua.packet_key_lifetime_s={1 if rotates else 3600}')
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
        clusters = [Cluster(processes, options.port, AUTHORITIES, KEYS), Cluster(others, options.port + 3, AUTHORITIES, KEYS)]
        ratios = []
        for pair in range(options.pairs):
            # In turn which comes first, and which cluster it is: neither is like the other in all things.
            runs = [(clusters[pair // 2 % 2], False), (clusters[(pair // 2 + 1) % 2], True)]
            figures = {rotates: run(cluster, options, rotates) for cluster, rotates in (runs if pair % 2 == 0 else runs[::-1])}
            ratios.append([after / before for after, before in zip(figures[True], figures[False])])
    for what, kind in enumerate(('reads', 'updates')):
        print(f'{kind}: the 99th percentile times {statistics.median(pair[what] for pair in ratios):.2f}')


if __name__ == '__main__':
    main()
