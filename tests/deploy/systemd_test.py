#!/usr/bin/env python3
"""The units in deploy/systemd: systemd takes them, and their options are the programs'.  systemd_test.py BIN_FOLDER"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNITS = sorted(glob.glob(os.path.join(REPO, 'deploy/systemd/*.service')))
BIN = ''


class SystemdTest(unittest.TestCase):
    def setUp(self):
        self.assertEqual([os.path.basename(unit) for unit in UNITS], ['skua-control.service', 'skuad.service'])

    def test_programs_know_the_options_of_the_units(self):
        for unit in UNITS:
            with open(unit, encoding='utf-8') as text:
                program, *words = re.search(r'^ExecStart=(.*)$', text.read(), re.MULTILINE)[1].split()
            command = [os.path.join(BIN, os.path.basename(program)), '--help']
            helped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for word in words:
                if word.startswith('--'):
                    self.assertRegex(helped, rf'(?m)^  {word} ', unit)

    @unittest.skipIf(shutil.which('systemd-analyze') is None, 'there is no systemd-analyze')
    def test_systemd_takes_the_units(self):
        with tempfile.TemporaryDirectory() as folder:
            copies = []
            for unit in UNITS:
                with open(unit, encoding='utf-8') as text:
                    words = text.read().replace('/usr/local/bin/', BIN + '/')
                copies.append(os.path.join(folder, os.path.basename(unit)))
                with open(copies[-1], 'w', encoding='utf-8') as out:
                    out.write(words)
            done = subprocess.run(['systemd-analyze', 'verify', *copies], check=False, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ''))


if __name__ == '__main__':
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
