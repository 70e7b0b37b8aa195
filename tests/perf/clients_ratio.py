#!/usr/bin/env python3
"""Many clients with one call outstanding each, over one client with as many outstanding, on one memif pair, alternating.

usage: tests/perf/clients_ratio.py [--runs N] [CLIENTS]...

32-byte calls per second of CLIENTS clients (64), each with its own lane of the device, and so an address of its own and packets of
its own, which hold one call each. Two processors have no room for as many threads; so the client's processor does the work of all, in
two ways:

  clients     a loop stands for them that costs next to nothing (bare_clients.cc): what the server can do
  endpoints   an endpoint for each, polled in turn by one thread: what 64 of them on one processor can do

Controls go with it:

  sessions    one endpoint with CLIENTS sessions, one call outstanding in each: its calls share packets
  alone       one endpoint with one call outstanding: what a round trip costs with nothing to overlap it
  frames      bare frames of the same size, as many in flight, sent back by a loop (skua-perf raw): what device and machine leave room for

Prints one line a run and the median ratios by state of the machine: see dpdk_ratios.py for what does not count.

Examples:
  tests/perf/clients_ratio.py
  tests/perf/clients_ratio.py --runs 3 4 16 64
"""

import argparse

import memif_pair as pair

RUNS_PER_RATIO_MAX = 3
FRAME_BYTES = 114  # a bundle of one request of 32 bytes


def rate(*words):
    return pair.skua('rate', *words)


def measure(clients, wanted):
    """Prints `wanted` ratios of one state, and their medians; those of the other state as well, if there are some."""
    names = ('clients', 'endpoints', 'clients over bare frames')
    ratios = {name: {'near': [], 'far': []} for name in names}
    for run in range(1, RUNS_PER_RATIO_MAX * wanted + 1):
        before_ns = pair.distance_ns()
        one = rate('--outstanding', str(clients))
        bare = pair.bare_clients(clients)
        many = rate('--outstanding', '1', '--endpoints', str(clients))
        sessions = rate('--outstanding', str(clients), '--sessions', str(clients))
        alone = rate('--outstanding', '1')
        frames = pair.skua('raw', '--outstanding', str(clients), '--size', str(FRAME_BYTES))
        after_ns = pair.distance_ns()
        reports = (bare, many, one, sessions, alone, frames)
        state, counts, words = pair.judge(before_ns, after_ns, max(report['waited_ms'] for report in reports))
        million = [report['calls_per_second'] / 1e6 for report in reports]
        if counts:
            found = (million[0] / million[2], million[1] / million[2], million[0] / million[5])
            for name, ratio in zip(names, found):
                ratios[name][state].append(ratio)
        print(f'{clients:3} clients {run}: {million[0]:6.2f} million calls/s, endpoints {million[1]:6.2f}, one with as many '
              f'{million[2]:6.2f}, ratios {million[0] / million[2]:.3f} and {million[1] / million[2]:.3f}; sessions '
              f'{million[3]:6.2f}, alone {million[4]:6.2f}, frames {million[5]:6.2f}   {words}', flush=True)
        if max(map(len, ratios['clients'].values())) == wanted:
            break
    for name in names:
        pair.print_medians(f'{clients:3} {name}', ratios[name])


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
