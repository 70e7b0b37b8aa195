#!/usr/bin/env python3
"""What a user does wrong with deploy/cluster: one line says what and what to do, and nothing is left behind."""

import os
import shutil
import socket
import subprocess
import tempfile
import unittest

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = '#!/bin/sh\necho "it cannot start" >&2\nexit 1\n'


class ClusterMistakesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        # Programs that end at once: no mistake here gets further.
        self.bin = os.path.join(self.folder.name, 'bin')
        os.mkdir(self.bin)
        for name in ('skuad', 'skua-control', 'skuactl'):
            path = os.path.join(self.bin, name)
            with open(path, 'w', encoding='utf-8') as out:
                out.write(PROGRAM)
            os.chmod(path, 0o755)
        self.dir = os.path.join(self.folder.name, 'cluster')

    def run_cluster(self, *arguments):
        return self.run_script('deploy/cluster', *arguments)

    def run_script(self, name, *arguments):
        return subprocess.run([os.path.join(REPO, name), *arguments], check=False, capture_output=True, text=True,
                              timeout=60, env={**os.environ, 'SKUA_BIN_DIR': self.bin}, stdin=subprocess.DEVNULL)

    def refused(self, code, words, *arguments):
        done = self.run_cluster(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(words, done.stderr)

    def test_directory_that_is_none_is_named(self):
        path = os.path.join(self.folder.name, 'file')
        with open(path, 'w', encoding='utf-8'):
            pass
        self.refused(2, f'--dir {path} is a file', 'start', '--dir', path)
        self.refused(1, '--dir /proc/no/cluster cannot be made', 'start', '--dir', '/proc/no/cluster')
        self.refused(2, '--dir DIR is required', 'start')

    def test_ports_that_meet_are_refused(self):
        for port in ('21101', '21200'):
            self.refused(2, f'port {port} would be used twice', 'start', '--dir', self.dir, '--control-port', port,
                         '--base-port', '21100')
        self.assertFalse(os.path.exists(self.dir))

    def test_port_of_any_worker_that_is_in_use_is_found_and_nothing_is_made(self):
        with socket.socket() as other:
            other.bind(('127.0.0.1', 0))
            other.listen()
            port = other.getsockname()[1]
            # The second worker of node 0.
            self.refused(1, f'port {port} is in use', 'start', '--dir', self.dir, '--workers', '2',
                         '--base-port', str(port - 2), '--control-port', '1')
        self.assertFalse(os.path.exists(self.dir))

    def test_failed_start_does_not_decide_how_the_next_one_is_started(self):
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            port = free.getsockname()[1]
        done = self.run_cluster('start', '--dir', self.dir, '--nodes', '1', '--control-port', str(port),
                                '--base-port', '21100')
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn('ended while starting', done.stderr)
        self.assertIn('it cannot start', done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.dir, 'cluster.conf')))
        self.refused(1, 'no cluster was started', 'status', '--dir', self.dir)

    def test_quickstart_keeps_nothing_in_a_directory_that_is_used(self):
        os.mkdir(self.dir)
        with open(os.path.join(self.dir, 'cluster.conf'), 'w', encoding='utf-8'):
            pass
        done = self.run_script('deploy/quickstart', '--skip-install', '--skip-build', '--keep', self.dir)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn('is there already; name a directory that is new, or empty', done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.dir, 'cluster.conf')))

    def test_options_may_have_an_equals_sign(self):
        self.refused(2, '--nodes needs a number from 1 to 200, not "0"', 'start', f'--dir={self.dir}', '--nodes=0')
        self.refused(2, 'unknown option --node', 'start', f'--dir={self.dir}', '--node=1')

    def test_certificates_come_in_two_steps_and_to_all_nodes(self):
        os.mkdir(self.dir)
        for words, says in ((('--secure', 'accept', '--node', '1'), 'leave --node away'),
                            (('--secure', 'false'), '--secure must be one of: accept true')):
            with open(os.path.join(self.dir, 'cluster.conf'), 'w', encoding='utf-8') as out:
                out.write('nodes=3\nsecure=false\n')
            done = self.run_script('deploy/rolling-restart', '--dir', self.dir, *words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(says, done.stderr)
        for before, to, says in (('secure=false\n', 'true', 'first --secure accept'), ('', 'true', 'first --secure accept'),
                                 ('secure=accept\n', 'false', 'first --secure accept')):
            with open(os.path.join(self.dir, 'cluster.conf'), 'w', encoding='utf-8') as out:
                out.write('nodes=3\n' + before)
            self.refused(1, says, 'revive', '--dir', self.dir, '--secure', to)

    def test_certificates_are_not_wanted_while_a_process_has_none(self):
        os.mkdir(self.dir)
        with open(os.path.join(self.dir, 'cluster.conf'), 'w', encoding='utf-8') as out:
            out.write('nodes=1\nsecure=accept\n')
        # A node of before the step that was interrupted.
        path = os.path.join(self.bin, 'skuad')
        os.remove(path)
        shutil.copy(shutil.which('sleep'), path)
        with subprocess.Popen([path, '600']) as node:
            self.addCleanup(node.kill)
            with open(os.path.join(self.dir, 'node0.pid'), 'w', encoding='utf-8') as out:
                out.write(f'{node.pid}\n')
            self.refused(1, 'first finish deploy/rolling-restart', 'revive', '--dir', self.dir, '--secure', 'true')
            node.kill()


if __name__ == '__main__':
    unittest.main(verbosity=2)
