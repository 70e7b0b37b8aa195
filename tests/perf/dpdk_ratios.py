#!/usr/bin/env python3
"""The engine over DPDK against bare DPDK, on the same memif pair, alternating.

usage: tests/perf/dpdk_ratios.py [--runs N] [MEASURE]...

  rate        32-byte calls per second at 32 outstanding / packets per second of testpmd macswap
  rate8       the same at 8 outstanding
  rate256     the same at 256 outstanding
  latency     median round trip of 32 bytes at one outstanding / of bare bursts (skua-perf raw)
  requests    goodput of 1 MiB requests in frames of 1,024 bytes / testpmd txonly with the same frames
  responses   the same for 1 MiB responses
  trusted     requests without checksums (--trusted-wire) / the same
  jumbo       goodput of 1 MiB requests in frames of 9,000 bytes / the same testpmd figure

Each measure is run beside its peer until there are --runs ratios (7) of one state of the machine; the last lines of each are the median ratios
by state. The machine's speed drifts, so only ratios mean anything. Its two processors may be near or far (cache_line_ping); a run does not
count if that changed meanwhile, or if a thread of ours waited for its processor for more than 1 % of the time.

Examples:
  tests/perf/dpdk_ratios.py
  tests/perf/dpdk_ratios.py --runs 3 rate latency
"""

import argparse

import memif_pair as pair

MTU_1024 = 1010  # frames of 1,024 bytes


RUNS_PER_RATIO_MAX = 3


def rate(outstanding):
    bare = pair.testpmd('macswap', 'flowgen', 'Rx-pps')
    ours = pair.skua('rate', '--outstanding', str(outstanding))
    return ours['calls_per_second'], bare, 'calls/s', 'packets/s', ours['waited_ms']


def latency():
    bare = pair.skua('raw')
    ours = pair.skua('latency')
    return (ours['round_trip_us']['p50'], bare['round_trip_us']['p50'], 'us', 'us',
            max(ours['waited_ms'], bare['waited_ms']))


def goodput(*sizes, mtu, buffer_bytes=0, both=()):
    """`both`: more arguments for both ends."""
    bare = pair.testpmd('rxonly', 'txonly', 'Rx-bps', frame_bytes=1024)
    words = ['--dpdk-mtu', str(mtu), *both]
    ours = pair.skua('bandwidth', *sizes, *words, server=words, buffer_bytes=buffer_bytes)
    gbit = max(ours['request_gbit_per_s'], ours['response_gbit_per_s'])
    return gbit, bare / 1e9, 'Gbit/s', 'Gbit/s', ours['waited_ms']


MEASURES = {
    'rate': lambda: rate(32),
    'rate8': lambda: rate(8),
    'rate256': lambda: rate(256),
    'latency': latency,
    'requests': lambda: goodput(mtu=MTU_1024),
    'responses': lambda: goodput('--size', '4', '--response-size', '1MiB', mtu=MTU_1024),
    'trusted': lambda: goodput(mtu=MTU_1024, both=['--trusted-wire']),
    'jumbo': lambda: goodput(mtu=8986, buffer_bytes=9216),
}


def measure(name, wanted):
    """Prints `wanted` ratios of one state, and their median; those of the other state as well, if there are some."""
    ratios = {'near': [], 'far': []}
    for run in range(1, RUNS_PER_RATIO_MAX * wanted + 1):
        before_ns = pair.distance_ns()
        ours, bare, unit, bare_unit, waited_ms = MEASURES[name]()
        after_ns = pair.distance_ns()
        state, counts, words = pair.judge(before_ns, after_ns, waited_ms)
        if counts:
            ratios[state].append(ours / bare)
        print(f'{name:9} {run}: {ours:12.2f} {unit:8} bare {bare:12.2f} {bare_unit:10} ratio {ours / bare:.3f}   {words}', flush=True)
        if max(map(len, ratios.values())) == wanted:
            break
    pair.print_medians(f'{name:9}', ratios)
    print(flush=True)


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
        measure(name, options.runs)


if __name__ == '__main__':
    main()
