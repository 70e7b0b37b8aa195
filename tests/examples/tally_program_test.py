#!/usr/bin/env python3
"""skua-tally as its users run it: one process keeps counts, several add to them.

  tests/examples/tally_program_test.py [--bin build/release/bin] [--transport verbs --verbs-device rxe0]
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60
USERS = 3
TIMES = 2000


def run(program, *words, code=0):
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                          check=False)
    assert done.returncode == code, f'{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout if code == 0 else done.stderr


def try_all(program, options, folder):
    file = os.path.join(folder, 'tally')
    assert 'is `skua-tally serve` running?' in run(program, 'show', file, *options, code=1)
    with subprocess.Popen([program, 'serve', file, 'tea', 'coffee', *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as keeper:
        try:
            limit = time.monotonic() + PATIENCE_S
            while not os.path.exists(file):
                assert keeper.poll() is None and time.monotonic() < limit, 'the keeper does not come up'
                time.sleep(0.05)
            users = [subprocess.Popen([program, 'add', file, 'tea', '--times', str(TIMES), *options], stdout=subprocess.PIPE,
                                      text=True) for _ in range(USERS)]
            said = [user.communicate(timeout=PATIENCE_S)[0] for user in users]
            assert all(user.returncode == 0 for user in users), said
            shown = run(program, 'show', file, *options)
            assert re.fullmatch(r' +6000  tea\n +0  coffee\n', shown), [*said, shown]
            assert 'nothing is counted under "milk"' in run(program, 'add', file, 'milk', *options, code=1)
        finally:
            keeper.send_signal(signal.SIGTERM)
            last, words = keeper.communicate(timeout=PATIENCE_S)
    assert keeper.returncode == 0 and re.search('6000  tea', last), last + words
    assert not os.path.exists(file)
    print(*said, words, sep='')
    if 'verbs' in options:
        # The reads at first may be calls; what counts is the adapter's.
        assert all(re.search(rf'operations: (\d+) by', text) and int(re.search(r'operations: (\d+)', text)[1]) >= TIMES
                   for text in said), said


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--bin', default='build/release/bin')
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        try_all(os.path.join(arguments.bin, 'skua-tally'), options, folder)


if __name__ == '__main__':
    sys.exit(main())
