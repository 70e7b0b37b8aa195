#!/usr/bin/env python3
"""deploy/changed.py over a repository of its own: what must be looked at again."""

import os
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'deploy', 'changed.py')
FILES = {
    'rpc/base.h': '',
    'rpc/user.h': '#include "rpc/base.h"\n',
    'rpc/other.h': '#include <string>\n',
    'control/convert.h': '#include "control/map.grpc.pb.h"\n',
    'control/map.proto': '',
}
HEADERS = [name for name in FILES if name.endswith('.h')]


class Changed(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix='skua-changed.')
        self.addCleanup(shutil.rmtree, self.root)
        for name, text in FILES.items():
            self.write(name, text)
        os.makedirs(os.path.join(self.root, 'deploy'))
        shutil.copy(SCRIPT, os.path.join(self.root, 'deploy'))
        self.git('init', '-q')
        self.git('add', '.')
        self.git('-c', 'user.name=t', '-c', 'user.email=t@t', 'commit', '-qm', 'all')
        self.write('deploy/clean-commit', self.git('rev-parse', 'HEAD'))

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as out:
            out.write(text)

    def git(self, *words):
        return subprocess.run(['git', *words], cwd=self.root, check=True, stdout=subprocess.PIPE, text=True).stdout

    def again(self, *words):
        done = subprocess.run(['python3', 'deploy/changed.py', *words, *HEADERS], cwd=self.root, check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout.split()

    def test_Nothing_WhenNothingChanged(self):
        self.assertEqual(self.again(), [])

    def test_Whole_IsEverything(self):
        self.assertEqual(self.again('--whole'), HEADERS)

    def test_AHeaderThatChanged_AndWhoeverIncludesIt(self):
        self.write('rpc/base.h', 'int x;\n')
        self.assertEqual(self.again(), ['rpc/base.h', 'rpc/user.h'])

    def test_AGeneratedHeader_WhenItsSourceChanged(self):
        self.write('control/map.proto', 'message Map {}\n')
        self.assertEqual(self.again(), ['control/convert.h'])

    def test_ANewHeader(self):
        self.write('rpc/other.h', '#include "rpc/new.h"\n')
        self.write('rpc/new.h', '')
        self.assertEqual(self.again('rpc/new.h'), ['rpc/new.h', 'rpc/other.h'])

    def test_Everything_WhenNobodyKnowsTheCommit(self):
        self.write('deploy/clean-commit', '0123456789abcdef0123456789abcdef01234567')
        self.assertEqual(self.again(), HEADERS)
        os.remove(os.path.join(self.root, 'deploy/clean-commit'))
        self.assertEqual(self.again(), HEADERS)


if __name__ == '__main__':
    unittest.main(verbosity=2)
