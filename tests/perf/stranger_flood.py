#!/usr/bin/env python3
"""A client with a certificate, with and without a flood of strangers at its node, in turn.

usage: tests/perf/stranger_flood.py [--bin DIR] [--port FIRST] [--seconds N] [--pairs N] [--flooders N] [KIND]...

One control plane and one node on loopback, with certificates, and skua-ycsb (workload B) at a rate that the machine bears alone (--target). The
flood comes from processes without certificates, as fast as they can, at each of these:

  data       the data port: connections that say garbage, and connections that say nothing
  grpc       the gRPC port: connections that say garbage, or half of a greeting of TLS
  handshake  the gRPC port: greetings of TLS that are answered, with a signature, and not gone on with
  sink       nobody: the same as grpc, at a listener of the flooders' own. What flooders take from the machine is in all figures; here
             it is alone

Prints a line a run: operations per second, the 99th percentile of reads, what the flooders got done, the node's memory and whether it was
suspected. Then for each kind the medians of the ratios of a run with the flood to the run without it before.

Each flooder begins a new connection as soon as one ends, and waits for an answer for half a second at most: however slowly the node
answers, there are always as many that wait as all of them have connections. On a machine of few processors they take much of it
themselves: --nice 19 gives them only what others leave, and `sink` says what they take.

Examples:
  tests/perf/stranger_flood.py
  tests/perf/stranger_flood.py --pairs 3 --seconds 8 handshake
"""

import argparse
import json
import multiprocessing
import os
import re
import socket
import ssl
import statistics
import subprocess
import threading
import time

from processes import Processes, fail

KINDS = ('data', 'grpc', 'handshake', 'sink')
CONNECTIONS_EACH = 64
PATIENCE_S = 0.5
RECORDS = 10_000


def greeting():
    """The bytes with which a client of TLS begins."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(['h2'])
    session = context.wrap_bio(incoming, outgoing)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def words_of(kind):
    """What a connection says, and whether it waits for an answer."""
    hello = greeting()
    return {'data': [(os.urandom(64), True), (b'', True), (os.urandom(2000), False)],
            'grpc': [(b'\x16\x03\x01' + os.urandom(500), True), (hello[:100], True), (b'PRI * HTTP/2.0\r\n\r\n', False)],
            'handshake': [(hello, True)]}[kind]


def flood(nice, port, words, stop, tried, answered):
    """A stranger: CONNECTIONS_EACH connections at a time, each of which is made anew when it ends or its time is up."""
    os.nice(nice)
    threads = [threading.Thread(target=one_after_the_other, args=(port, words, stop, tried, answered), daemon=True)
               for _ in range(CONNECTIONS_EACH)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def add(count):
    with count.get_lock():
        count.value += 1


def one_after_the_other(port, words, stop, tried, answered):
    turn = 0
    while not stop.is_set():
        said, waits = words[turn % len(words)]
        turn += 1
        try:
            with socket.create_connection(('127.0.0.1', port), PATIENCE_S) as connection:
                connection.settimeout(PATIENCE_S)
                connection.sendall(said)
                if waits and connection.recv(4096):
                    add(answered)
        except OSError:
            pass
        add(tried)


def serve_sink(nice, port_pipe, stop):
    """Takes connections and closes them."""
    os.nice(nice)
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        listener.listen(4096)
        listener.settimeout(PATIENCE_S)
        port_pipe.send(listener.getsockname()[1])
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
                connection.close()
            except OSError:
                pass


class Flood:
    """Strangers, from here to the end of the block."""

    def __init__(self, kind, ports, options):
        self.stop = multiprocessing.Event()
        self.tried, self.answered = multiprocessing.Value('q', 0), multiprocessing.Value('q', 0)
        self.began = time.monotonic()
        self.processes = []
        if kind == 'sink':
            mine, theirs = multiprocessing.Pipe()
            self.start(serve_sink, options.nice, theirs, self.stop)
            port, kind = mine.recv(), 'grpc'
        else:
            port = ports['data' if kind == 'data' else 'grpc']
        for _ in range(options.flooders):
            self.start(flood, options.nice, port, words_of(kind), self.stop, self.tried, self.answered)

    def start(self, *what):
        process = multiprocessing.Process(target=what[0], args=what[1:], daemon=True)
        process.start()
        self.processes.append(process)

    def rates(self):
        """Connections per second until now: tried, answered."""
        seconds = time.monotonic() - self.began
        return self.tried.value / seconds, self.answered.value / seconds

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                process.kill()


class Cluster:
    """A control plane, a node and a client's certificate. All believe all of the authorities; the first one signs."""

    def __init__(self, processes, port, authorities=('ca',), node_words=()):
        self.processes, self.port = processes, port
        self.control = f'127.0.0.1:{port}'
        self.ports = {'grpc': port + 1, 'data': port + 2}
        self.make_authorities(authorities)
        node, = self.issue('node')
        self.names = {'node': node, 'control': 'control', 'admin': 'admin', 'client': 'client'}  # of certificates, by role
        for role in ('control', 'admin', 'client'):
            self.issue(role, role)
        processes.start(processes.program('skua-control'), '--data-dir', self.path('c'), '--listen-address', self.control,
                        *self.credentials('control'))
        self.node = processes.start(
            processes.program('skuad'), '--data-dir', self.path('d'), '--control-address', self.control, '--grpc-address',
            f'127.0.0.1:{self.ports["grpc"]}', '--data-address', f'127.0.0.1:{self.ports["data"]}', *self.credentials(node), *node_words)
        self.admin = (*self.credentials('admin'), '--control-address', self.control)
        processes.wait_until([processes.program('skuactl'), *self.admin, 'table', 'create', 'usertable', '--shards', '4'])
        said = self.ycsb('load')
        if 'Return=OK' not in said:
            fail(f'the table cannot be filled:\n{said[-2000:]}')

    def make_authorities(self, names):
        of_cluster = ()
        with open(self.path('trusted.pem'), 'w', encoding='ascii') as trusted:
            for name in names:
                self.skuactl('cert', 'init', self.path(name), *of_cluster)
                with open(self.path(f'{name}/ca.pem'), encoding='ascii') as pem:
                    trusted.write(pem.read())
                said = self.skuactl('cert', 'show', self.path(f'{name}/ca.pem'))
                of_cluster = ('--cluster-id', said.split(' of cluster ')[1].split()[0])

    def path(self, name):
        return os.path.join(self.processes.folder, name)

    def skuactl(self, *words):
        result = subprocess.run([self.processes.program('skuactl'), *words], capture_output=True, text=True, check=False, timeout=120)
        if result.returncode != 0:
            fail(result.stderr)
        return result.stdout

    def issue(self, role, *name):
        """The name of the certificate that is there then."""
        before = set(os.listdir(self.path('certs'))) if os.path.exists(self.path('certs')) else set()
        self.skuactl('cert', 'issue', role, *name, '--authority', self.path('ca'), '--out', self.path('certs'))
        return [made[:-len('.pem')] for made in set(os.listdir(self.path('certs'))) - before if made.endswith('.pem')]

    def credentials(self, name):
        return ('--cert', self.path(f'certs/{name}.pem'), '--key', self.path(f'certs/{name}.key'), '--ca',
                self.path('trusted.pem'))

    def ycsb(self, phase, *more):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
        return subprocess.run(
            [self.processes.program('skua-ycsb'), phase, 'skua', '-P', os.path.join(root, 'ycsb/workloads/workloadb'), '-p',
             f'recordcount={RECORDS}', '--control-address', self.control, *self.credentials('client'), '-threads', '1', '-inflight', '8',
             *more], capture_output=True, text=True, check=False, timeout=600).stdout

    def memory_mib(self):
        with open(f'/proc/{self.node.pid}/status', encoding='ascii') as status:
            return int(re.search(r'VmRSS:\s+(\d+)', status.read()).group(1)) / 1024

    def liveness(self):
        return json.loads(self.skuactl(*self.admin, '--output', 'json', 'status'))['nodes'][0]['state']


def figure(said, pattern):
    found = re.search(pattern, said)
    if not found:
        fail(f'no {pattern} in:\n{said[-3000:]}')
    return float(found.group(1))


class Watch:
    """Whether the node was ever not alive, asked once a second of the control plane."""

    def __init__(self, cluster):
        self.cluster, self.stop, self.seen = cluster, threading.Event(), set()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop.wait(1):
            try:
                self.seen.add(self.cluster.liveness())
            except SystemExit:
                self.seen.add('not shown: the control plane gave no answer')

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def run(cluster, options, kind=None):
    """Operations per second, and microseconds of the 99th percentile of reads."""
    words = ('-p', 'operationcount=100000000', '-p', f'maxexecutiontime={options.seconds}')
    if options.target:
        words += ('-target', str(options.target))
    with Watch(cluster) as watch:
        if kind is None:
            said = cluster.ycsb('run', *words)
        else:
            with Flood(kind, cluster.ports, options) as strangers:
                said = cluster.ycsb('run', *words)
                tried, answered = strangers.rates()
    throughput = figure(said, r'\[OVERALL\], Throughput\(ops/sec\), ([\d.]+)')
    p99 = figure(said, r'\[READ\], 99thPercentileLatency\(us\), ([\d.]+)')
    words = '' if kind is None else f', strangers {tried:5.0f}/s, of which {answered:5.0f}/s were answered'
    if watch.seen - {'alive'}:
        words += f', the node was {watch.seen - {"alive"}}'
    print(f'{kind or "alone":9}: {throughput:8.0f} operations/s, 99% of reads within {p99:7.0f} us, memory {cluster.memory_mib():5.0f} MiB'
          f'{words}', flush=True)
    return throughput, p99


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', default='build/release/bin')
    parser.add_argument('--port', type=int, default=23_100, help='the first of three ports')
    parser.add_argument('--seconds', type=int, default=8)
    parser.add_argument('--pairs', type=int, default=3)
    parser.add_argument('--flooders', type=int, default=2, help=f'processes, each with {CONNECTIONS_EACH} connections at a time')
    parser.add_argument('--nice', type=int, default=0, help='how much the flooders stand back for others')
    parser.add_argument('--target', type=int, default=2000, help='operations per second that the client asks for; 0: as many as it gets')
    parser.add_argument('kinds', nargs='*', metavar='KIND', help=f'of {", ".join(KINDS)}; all by default')
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            fail(f'no such kind: {kind}')
    with Processes(options.bin) as processes:
        cluster = Cluster(processes, options.port)
        for kind in options.kinds or KINDS:
            ratios = []
            for _ in range(options.pairs):
                alone = run(cluster, options)
                flooded = run(cluster, options, kind)
                ratios.append((flooded[0] / alone[0], flooded[1] / alone[1]))
            print(f'{kind}: {statistics.median(r[0] for r in ratios):.2f} of the operations, the 99th percentile times '
                  f'{statistics.median(r[1] for r in ratios):.2f}', flush=True)


if __name__ == '__main__':
    main()
