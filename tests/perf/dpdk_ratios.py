#!/usr/bin/env python3
"""The engine over DPDK against bare DPDK, on the same memif pair, alternating.

usage: tests/perf/dpdk_ratios.py [--runs N] [MEASURE]...

  rate        32-byte calls per second at 32 outstanding / packets per second of testpmd macswap
  latency     median round trip of 32 bytes at one outstanding / of bare bursts (skua-perf raw)
  requests    goodput of 1 MiB requests in frames of 1,024 bytes / testpmd txonly with the same frames
  responses   the same for 1 MiB responses
  jumbo       goodput of 1 MiB requests in frames of 9,000 bytes / the same testpmd figure

Each measure is run --runs times (7) beside its peer; the last line of each is the median ratio. The machine's speed drifts, so only the
ratios mean anything.

Examples:
  tests/perf/dpdk_ratios.py
  tests/perf/dpdk_ratios.py --runs 3 rate latency
"""

import argparse
import statistics

import memif_pair as pair

MTU_1024 = 1010  # frames of 1,024 bytes


def rate():
    bare = pair.testpmd('macswap', 'flowgen', 'Rx-pps')
    ours = pair.skua('rate', '--outstanding', '32')
    return ours['calls_per_second'], bare, 'calls/s', 'packets/s'


def latency():
    bare = pair.skua('raw')
    ours = pair.skua('latency')
    return ours['round_trip_us']['p50'], bare['round_trip_us']['p50'], 'us', 'us'


def goodput(*sizes, mtu, buffer_bytes=0):
    bare = pair.testpmd('rxonly', 'txonly', 'Rx-bps', frame_bytes=1024)
    mtu_words = ['--dpdk-mtu', str(mtu)]
    ours = pair.skua('bandwidth', *sizes, *mtu_words, server=mtu_words, buffer_bytes=buffer_bytes)
    gbit = max(ours['request_gbit_per_s'], ours['response_gbit_per_s'])
    return gbit, bare / 1e9, 'Gbit/s', 'Gbit/s'


MEASURES = {
    'rate': rate,
    'latency': latency,
    'requests': lambda: goodput(mtu=MTU_1024),
    'responses': lambda: goodput('--size', '4', '--response-size', '1MiB', mtu=MTU_1024),
    'jumbo': lambda: goodput(mtu=8986, buffer_bytes=9216),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--runs', type=int, default=7)
    parser.add_argument('measures', nargs='*', metavar='MEASURE')
    options = parser.parse_args()
    for name in options.measures:
        if name not in MEASURES:
            pair.fail(f'unknown measure {name}; there are: {", ".join(MEASURES)}')
    pair.check_host(with_testpmd=True)
    for name in options.measures or MEASURES:
        ratios = []
        for run in range(options.runs):
            ours, bare, unit, bare_unit = MEASURES[name]()
            ratios.append(ours / bare)
            print(f'{name:9} {run + 1}: {ours:12.2f} {unit:8} bare {bare:12.2f} {bare_unit:10} ratio {ratios[-1]:.3f}', flush=True)
        print(f'{name:9} median ratio {statistics.median(ratios):.3f}  ({min(ratios):.3f} to {max(ratios):.3f})\n', flush=True)


if __name__ == '__main__':
    main()
