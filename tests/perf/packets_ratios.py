#!/usr/bin/env python3
"""What sealed packets cost: the same work with packets sealed over the same work with packets off, alternating.

usage: tests/perf/packets_ratios.py [--runs N] [--packets MODE]... [MEASURE]...

  calls      32-byte calls per second over a memif pair at 32 outstanding
  calls-tcp  the same over TCP on loopback
  bulk       goodput of 1 MiB requests over a memif pair in frames of 1,024 bytes
  jumbo      the same in frames of 9,000 bytes
  gets       GETs per second by the client library (get_rate) over a memif pair, values of 100 bytes, 32 outstanding
  gets-tcp   GETs per second by skua-ycsb over TCP on loopback, one field of 100 bytes, 32 outstanding

--packets: encrypt and authenticate unless told. The clusters of gets have certificates in all runs; of these, only packets differ.
One end is on one processor, the other on the other. Prints one line a run and the median ratios by state of the machine: see
dpdk_ratios.py for what does not count. For goodput and gets-tcp, `cipher alone` is what would be left if sealing took no more than
the cipher alone takes (cipher_floor, cipher_exchange), measured in the same run.

Examples:
  tests/perf/packets_ratios.py
  tests/perf/packets_ratios.py --runs 3 --packets encrypt calls bulk
"""

import argparse
import glob
import json
import os
import subprocess
import time

import get_ratio
import memif_pair as pair

MTU_1024 = 1010  # frames of 1,024 bytes
MTU_9000 = 8986
JUMBO_BUFFER_BYTES = 9216
VALUE_BYTES = 100
RECORDS = 100_000
OUTSTANDING = 32
SECONDS = 3
RUNS_PER_RATIO_MAX = 3
# Of gets-tcp: half of the GETs outstanding travel one way in one frame while the other half is worked on.
GETS_PER_FRAME = OUTSTANDING // 2
REQUEST_BYTES = 1106
RESPONSE_BYTES = 2692


def calls(packets):
    words = ['--packets', packets]
    found = pair.skua('rate', '--outstanding', str(OUTSTANDING), *words, server=words, seconds=SECONDS)
    return found['calls_per_second'], found['waited_ms']


def calls_tcp(packets):
    program = get_ratio.program('skua-perf')
    words = ['--transport', 'tcp', '--packets', packets]
    with pair.Pair() as processes:
        server = processes.start('taskset', '-c', str(pair.SERVER_CORE), program, 'server', '--listen', pair.CONTROL, '--polling',
                                 'busy', *words, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        found = pair.report_of(processes, 'skua-perf rate',
                               ['taskset', '-c', str(pair.CLIENT_CORE), program, 'rate', pair.CONTROL, '--polling', 'busy',
                                '--outstanding', str(OUTSTANDING), '--duration', f'{SECONDS}s', '--output', 'json', *words], server)
    return found['calls_per_second'], found['waited_ms']


def cipher_leaves(off_gbit_per_s, packets, packet_bytes):
    """The ratio that is left if each packet takes as much longer as the cipher alone takes for it."""
    done = subprocess.run(['taskset', '-c', str(pair.CLIENT_CORE), get_ratio.program('cipher_floor'), str(packet_bytes)], check=True,
                          capture_output=True, timeout=60)
    cipher_ns = json.loads(done.stdout)['seal_ns' if packets == 'encrypt' else 'sign_ns']
    off_ns = packet_bytes * 8 / off_gbit_per_s
    return off_ns / (off_ns + cipher_ns)


def cipher_leaves_of_gets(off_gets_per_s):
    """The same of gets-tcp, if the client takes as much longer for each frame as the cipher alone takes beside the kernel."""
    done = subprocess.run([get_ratio.program('cipher_exchange'), str(REQUEST_BYTES), str(RESPONSE_BYTES)], check=True,
                          capture_output=True, timeout=60)
    off_ns = GETS_PER_FRAME * 1e9 / off_gets_per_s
    return off_ns / (off_ns + json.loads(done.stdout)['side_ns'])


def goodput(packets, mtu, buffer_bytes=0):
    words = ['--dpdk-mtu', str(mtu), '--packets', packets]
    found = pair.skua('bandwidth', *words, server=words, buffer_bytes=buffer_bytes, seconds=SECONDS)
    return found['request_gbit_per_s'], found['waited_ms']


class Certificates:
    """An authority and certificates for the programs of a small cluster, made in its folder when the first is asked for."""

    def __init__(self, packets):
        self.packets = packets

    def options_of(self, folder, role):
        if not os.path.exists(f'{folder}/ca'):
            skuactl('cert', 'init', f'{folder}/ca')
        if not os.path.exists(f'{folder}/{role}'):
            names = [] if role == 'node' else [role]
            skuactl('cert', 'issue', role, *names, '--authority', f'{folder}/ca', '--out', f'{folder}/{role}')
        certificate, = glob.glob(f'{folder}/{role}/*.pem')
        key, = glob.glob(f'{folder}/{role}/*.key')
        words = ['--cert', certificate, '--key', key, '--ca', f'{folder}/ca/ca.pem']
        return words + ['--packets', self.packets] if role == 'node' else words


def skuactl(*words):
    done = subprocess.run([get_ratio.program('skuactl'), *words], check=False, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        pair.fail(f'skuactl {words[0]} {words[1]} failed: {done.stderr}')


def gets(packets):
    certificates = Certificates(packets)
    with get_ratio.Cluster(options_of=certificates.options_of) as cluster:
        _, certificate, _, key, _, authority = certificates.options_of(cluster.folder, 'client')
        variables = {'SKUA_CERT': certificate, 'SKUA_KEY': key, 'SKUA_CA': authority, 'SKUA_PACKETS': packets}
        words = [get_ratio.device(cluster), get_ratio.ADDRESS, get_ratio.CONTROL, get_ratio.TABLE, str(RECORDS), str(VALUE_BYTES),
                 str(OUTSTANDING)]
        return read_calmly(cluster, lambda: cluster.client('get_rate', *words, '0', **variables),
                           lambda: json.loads(cluster.client('get_rate', *words, str(SECONDS), **variables))['gets_per_second'])


def gets_tcp(packets):
    certificates = Certificates(packets)
    with get_ratio.Cluster('tcp', certificates.options_of) as cluster:
        _, certificate, _, key, _, authority = certificates.options_of(cluster.folder, 'client')
        words = [*get_ratio.ycsb_words(RECORDS, VALUE_BYTES, OUTSTANDING), '-p', f'skua.packets={packets}', '-p',
                 f'skua.cert={certificate}', '-p', f'skua.key={key}', '-p', f'skua.ca={authority}']
        return read_calmly(cluster, lambda: cluster.client('skua-ycsb', 'load', *words, '-p', 'skua.durability=memory'),
                           lambda: get_ratio.ycsb_reads(cluster, words))


def read_calmly(cluster, load, read):
    """What `read` tells of a loaded cluster at rest, and for how many milliseconds the worker waited meanwhile."""
    load()
    cluster.wait_for_calm()
    before = cluster.worker()
    rate = read()
    return rate, (cluster.worker()[1] - before[1]) / 1e6


MEASURES = {
    'calls': calls,
    'calls-tcp': calls_tcp,
    'bulk': lambda packets: goodput(packets, MTU_1024),
    'jumbo': lambda packets: goodput(packets, MTU_9000, JUMBO_BUFFER_BYTES),
    'gets': gets,
    'gets-tcp': gets_tcp,
}


PACKET_BYTES = {'bulk': 950, 'jumbo': 8926}  # of a frame: what is behind the network's headers and the sealed head


def measure(name, modes, wanted):
    """Prints `wanted` ratios of one state for each mode, and their medians."""
    run_once = MEASURES[name]
    ratios = {mode: {'near': [], 'far': []} for mode in modes}
    for run in range(1, RUNS_PER_RATIO_MAX * wanted + 1):
        before_ns = pair.distance_ns()
        off, waited_ms = run_once('off')
        for mode in modes:
            figure, waited = run_once(mode)
            after_ns = pair.distance_ns()
            state, counts, words = pair.judge(before_ns, after_ns, max(waited, waited_ms))
            if counts:
                ratios[mode][state].append(figure / off)
            if name in PACKET_BYTES:
                words = f'cipher alone {cipher_leaves(off, mode, PACKET_BYTES[name]):.3f}   {words}'
            elif name == 'gets-tcp' and mode == 'encrypt':
                words = f'cipher alone {cipher_leaves_of_gets(off):.3f}   {words}'
            print(f'{name:9} {run}: {mode:12} {figure:12.2f}  off {off:12.2f}  ratio {figure / off:.3f}   {words}', flush=True)
        if all(max(map(len, found.values())) >= wanted for found in ratios.values()):
            break
    for mode in modes:
        pair.print_medians(f'{name:9} {mode:12}', ratios[mode])
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--packets', action='append', choices=['encrypt', 'authenticate'])
    parser.add_argument('measures', nargs='*', metavar='MEASURE')
    options = parser.parse_args()
    for name in options.measures:
        if name not in MEASURES:
            pair.fail(f'unknown measure {name}; there are: {", ".join(MEASURES)}')
    pair.check_host(with_testpmd=False)
    for name in options.measures or MEASURES:
        measure(name, options.packets or ['encrypt', 'authenticate'], options.runs)


if __name__ == '__main__':
    main()
