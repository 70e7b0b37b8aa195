#!/usr/bin/env python3
"""How the engine over DPDK behaves when things are not perfect, on a memif pair.

usage: tests/perf/dpdk_behaviour.py [--runs N] [--plots FOLDER] [TEST]...

  loss       goodput of 1 MiB requests while 0, 1e-5 ... 1e-2 of the packets are thrown away at both ends, over lossless
  sessions   calls per second with 64 active of 64, 1,000, 5,000 and 20,000 open sessions, over 64 of 64
  idle       the first call after one second of idling, over the median of calls in a row
  copies     bytes copied on transmit per 64 KiB request
  incast     a bystander's small calls while 1, 2 and 4 clients fetch 1 MiB responses, each over a link of its own to one server:
             p99 over that without them, and what was dropped or repeated

Each figure is the median of --runs (3), alternating. With --plots, loss.svg and sessions.svg are drawn there (gnuplot). A memif pair has no
switch, so incast is about the ends: rings, threads and their processors (all clients share one here, all of the server's threads the other).
What a switch's buffer does to it is measured in the simulator: build/release/bin/rpc_sim --incast 100.

Examples:
  tests/perf/dpdk_behaviour.py
  tests/perf/dpdk_behaviour.py --plots docs/plots loss sessions
"""

import argparse
import os
import shutil
import statistics
import subprocess

import memif_pair as pair

LOSSES = ('0', '1e-5', '1e-4', '1e-3', '1e-2')
SESSIONS = (64, 1000, 5000, 20000)
CROWDS = (0, 1, 2, 4)


def alternate(runs, cases, measure):
    """{case: median of measure(case)}, the cases taken in turn."""
    seen = {case: [] for case in cases}
    for _ in range(runs):
        for case in cases:
            seen[case].append(measure(case))
    return {case: statistics.median(values) for case, values in seen.items()}


def plot(folder, name, title, x, y, rows, logscale=''):
    if folder is None:
        return
    if shutil.which('gnuplot') is None:
        pair.fail('gnuplot is not there: apt-get install gnuplot-nox, or leave --plots out')
    os.makedirs(folder, exist_ok=True)
    data = '\n'.join(f'{label} {value}' for label, value in rows)
    script = f'''set terminal svg size 640,360 font "sans,12" background "white"
set output "{os.path.join(folder, name)}.svg"
set title "{title}"
set xlabel "{x}"
set ylabel "{y}"
set yrange [0:*]
set grid y
{logscale}
$data << END
{data}
END
plot $data using 2:xtic(1) with linespoints linewidth 2 pointtype 7 notitle
'''
    subprocess.run(['gnuplot'], input=script, text=True, check=True)


def loss(runs, plots):
    def measure(probability):
        words = ['--loss', probability]
        return pair.skua('bandwidth', *words, server=words)['request_gbit_per_s']
    seen = alternate(runs, LOSSES, measure)
    for probability, gbit in seen.items():
        print(f'loss {probability:5}  {gbit:7.2f} Gbit/s  of lossless {gbit / seen["0"]:.3f}', flush=True)
    plot(plots, 'loss', 'Goodput of 1 MiB requests over memif', 'share of packets lost', 'Gbit/s', seen.items())


def sessions(runs, plots):
    def measure(count):
        return pair.skua('rate', '--outstanding', '64', '--sessions', str(count), '--active-sessions', '64')['calls_per_second']
    seen = alternate(runs, SESSIONS, measure)
    for count, rate in seen.items():
        print(f'sessions {count:6}  {rate:10.0f} calls/s  of 64 open {rate / seen[64]:.3f}', flush=True)
    plot(plots, 'sessions', 'Small calls over 64 active sessions, memif', 'sessions open', 'calls per second', seen.items())


def idle(runs, _plots):
    results = [pair.skua('latency', '--idle', '1s', seconds=8) for _ in range(runs)]
    first = statistics.median(r['after_idle_us']['p50'] for r in results)
    median = statistics.median(r['round_trip_us']['p50'] for r in results)
    print(f'first call after 1 s {first:.2f} us, median in a row {median:.2f} us, ratio {first / median:.2f}', flush=True)


def copies(_runs, _plots):
    r = pair.skua('bandwidth', '--size', '64KiB')
    print(f'64 KiB requests: {r["tx_copied_bytes"] / max(r["calls"], 1):.1f} bytes copied on transmit per call, '
          f'{r["tx_zero_copy_bytes"] / max(r["calls"], 1):.0f} in place', flush=True)


def incast(runs, _plots):
    fetch = ['bandwidth', '--size', '4', '--response-size', '1MiB', '--outstanding', '1']
    call = ['latency', '--size', '64', '--response-size', '64']
    harm = {count: [] for count in CROWDS}

    def measure(count):
        bystander, crowd = pair.skua_crowd(count, fetch, call)
        harm[count].append((sum(r['rx_dropped'] for r in [bystander, *crowd]), sum(r['retransmits'] for r in [bystander, *crowd]),
                            sum(r['response_gbit_per_s'] for r in crowd)))
        return bystander['round_trip_us']['p99']
    seen = alternate(runs, CROWDS, measure)
    for count, p99 in seen.items():
        dropped, repeated, gbit = (statistics.median(column) for column in zip(*harm[count]))
        print(f'incast {count} clients  {gbit:6.2f} Gbit/s  dropped {dropped:.0f}, repeated {repeated:.0f}  bystander p99 {p99:8.1f} us'
              f'  of alone {p99 / seen[0]:.2f}', flush=True)


TESTS = {'loss': loss, 'sessions': sessions, 'idle': idle, 'copies': copies, 'incast': incast}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--plots', metavar='FOLDER')
    parser.add_argument('tests', nargs='*', metavar='TEST')
    options = parser.parse_args()
    for name in options.tests:
        if name not in TESTS:
            pair.fail(f'unknown test {name}; there are: {", ".join(TESTS)}')
    pair.check_host(with_testpmd=False)
    for name in options.tests or TESTS:
        TESTS[name](options.runs, options.plots)
        print(flush=True)


if __name__ == '__main__':
    main()
