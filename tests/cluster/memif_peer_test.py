#!/usr/bin/env python3
"""A process on a memif link outlives its peers: clients come and go, one of them by SIGKILL, while it polls on one processor that it
shares with DPDK's control thread (where an unmap under a burst would show).

usage: tests/cluster/memif_peer_test.py --bin build/release/bin
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = ''
CLIENTS = 10
CONTROL = '127.0.0.1:18541'
START_WITHIN_S = 30


def words(role, address, socket):
    return ['--transport', 'dpdk', '--no-dpdk-huge-pages', '--dpdk-addresses', address, '--dpdk-devices',
            f'net_memif0,role={role},socket={socket},socket-abstract=no']


def on_one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class MemifPeerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='skua-memif-')
        self.socket = os.path.join(self.folder.name, 'memif.sock')
        self.server = subprocess.Popen(
            [os.path.join(BIN, 'skua-perf'), 'server', '--listen', CONTROL, *words('server', '10.77.0.1/24', self.socket)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=on_one_processor)
        deadline = time.monotonic() + START_WITHIN_S
        while not os.path.exists(self.socket):
            self.assertIsNone(self.server.poll(), 'the server ended')
            self.assertLess(time.monotonic(), deadline, 'the server does not start')
            time.sleep(0.05)

    def tearDown(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        self.folder.cleanup()

    def client(self, duration):
        return subprocess.Popen(
            [os.path.join(BIN, 'skua-perf'), 'rate', CONTROL, '--duration', duration,
             *words('client', '10.77.0.2/24', self.socket)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait_for_busy(self, client):
        """Until it has used half a second of a processor: it polls, so the test is under way."""
        deadline = time.monotonic() + START_WITHIN_S
        used = 0
        while used < os.sysconf('SC_CLK_TCK') / 2:
            self.assertIsNone(client.poll(), 'the client ended')
            self.assertLess(time.monotonic(), deadline, 'the client does not start')
            time.sleep(0.05)
            with open(f'/proc/{client.pid}/stat', encoding='utf-8') as stat:
                used = int(stat.read().rsplit(')', 1)[1].split()[11])

    def finish(self, client):
        text, _ = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 0, text)
        self.assertIn(' 0 failed', text)

    def test_clients_come_and_go(self):
        for _ in range(CLIENTS):
            self.finish(self.client('100ms'))
            self.assertIsNone(self.server.poll(), 'the server died with its client')

    def test_a_client_is_killed(self):
        self.finish(self.client('100ms'))
        victim = self.client('60s')
        self.wait_for_busy(victim)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        self.finish(self.client('100ms'))
        self.assertIsNone(self.server.poll(), 'the server died with its client')


def main():
    global BIN
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', required=True)
    arguments, rest = parser.parse_known_args()
    BIN = arguments.bin
    text = subprocess.run([os.path.join(BIN, 'skua-perf'), 'server', '--help'], stdout=subprocess.PIPE, text=True,
                          check=False).stdout
    if '--dpdk-devices' not in text:
        print('skipped: built without DPDK')
        sys.exit(77)
    if os.geteuid() != 0:
        print('skipped: DPDK needs root here')
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == '__main__':
    main()
