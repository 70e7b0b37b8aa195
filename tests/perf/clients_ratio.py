#!/usr/bin/env python3
"""Many clients with one call outstanding each, over one client with as many outstanding, on one memif pair, alternating.

usage: tests/perf/clients_ratio.py [--runs N] [CLIENTS]...

32-byte calls per second of CLIENTS endpoints (64), which one thread polls in turn: each has its own lane of the device, and so an address
of its own and packets of its own, which hold one call each. Two processors have no room for as many threads; so the client's processor
polls them all and hands each the packets that came for it through the one queue pair. Two controls go with it:

  sessions    one endpoint with CLIENTS sessions, one call outstanding in each: its calls share packets
  alone       one endpoint with one call outstanding: what a round trip costs with nothing to overlap it

Prints one line a run and the median ratios by state of the machine: see dpdk_ratios.py for what does not count.

Examples:
  tests/perf/clients_ratio.py
  tests/perf/clients_ratio.py --runs 3 4 16 64
"""

import argparse

import memif_pair as pair

RUNS_PER_RATIO_MAX = 3


def rate(*words):
    return pair.skua('rate', *words)


def measure(clients, wanted):
    """Prints `wanted` ratios of one state, and their median; those of the other state as well, if there are some."""
    ratios = {'near': [], 'far': []}
    for run in range(1, RUNS_PER_RATIO_MAX * wanted + 1):
        before_ns = pair.distance_ns()
        one = rate('--outstanding', str(clients))
        many = rate('--outstanding', '1', '--endpoints', str(clients))
        sessions = rate('--outstanding', str(clients), '--sessions', str(clients))
        alone = rate('--outstanding', '1')
        after_ns = pair.distance_ns()
        waited_ms = max(report['waited_ms'] for report in (one, many, sessions, alone))
        state, counts, words = pair.judge(before_ns, after_ns, waited_ms)
        if counts:
            ratios[state].append(many['calls_per_second'] / one['calls_per_second'])
        million = [report['calls_per_second'] / 1e6 for report in (many, one, sessions, alone)]
        print(f'{clients:3} clients {run}: {million[0]:6.2f} million calls/s, one with as many {million[1]:6.2f}, ratio '
              f'{million[0] / million[1]:.3f}; sessions {million[2]:6.2f}, alone {million[3]:6.2f}   {words}', flush=True)
        if max(map(len, ratios.values())) == wanted:
            break
    pair.print_medians(f'{clients:3} clients', ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('clients', nargs='*', type=int, metavar='CLIENTS', default=[64])
    options = parser.parse_args()
    pair.check_host(with_testpmd=False)
    for clients in options.clients:
        measure(clients, options.runs)


if __name__ == '__main__':
    main()
