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
DROP_INS = sorted(glob.glob(os.path.join(REPO, 'deploy/systemd/examples/*.conf')))
# In tenths: 3.0 of 10.
EXPOSURE_MAX = 30
BIN = ''


class SystemdTest(unittest.TestCase):
    def setUp(self):
        self.assertEqual([os.path.basename(unit) for unit in UNITS], ['skua-control.service', 'skua-gateway.service', 'skuad.service'])

    def test_programs_know_the_options_of_the_units(self):
        for unit in UNITS:
            with open(unit, encoding='utf-8') as text:
                program, *words = re.search(r'^ExecStart=(.*)$', text.read(), re.MULTILINE)[1].split()
            command = [os.path.join(BIN, os.path.basename(program)), '--help']
            helped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for word in words:
                if word.startswith('--'):
                    self.assertRegex(helped, rf'(?m)^  {word} ', unit)

    def test_each_program_may_write_somewhere(self):
        """Data, or a certificate that is renewed: ProtectSystem=strict leaves a program nothing else."""
        for unit in UNITS:
            with open(unit, encoding='utf-8') as text:
                settings = dict(re.findall(r'(?m)^(\w+)=(.*)$', text.read()))
            self.assertEqual(settings['ProtectSystem'], 'strict')
            state = os.path.join('/var/lib', settings['StateDirectory'])
            for hidden in settings.get('InaccessiblePaths', '').split():
                self.assertFalse((state + '/').startswith(hidden.lstrip('-') + '/'), unit)

    def copied(self, folder, drop_in=None):
        """The units in a folder of their own, with the programs of this build, and the node's drop-in if one is told."""
        copies = []
        for unit in UNITS:
            with open(unit, encoding='utf-8') as text:
                words = text.read().replace('/usr/local/bin/', BIN + '/')
            copies.append(os.path.join(folder, os.path.basename(unit)))
            with open(copies[-1], 'w', encoding='utf-8') as out:
                out.write(words)
        if drop_in is not None:
            os.mkdir(os.path.join(folder, 'skuad.service.d'))
            shutil.copy(drop_in, os.path.join(folder, 'skuad.service.d'))
        return copies

    def analyze(self, folder, *words):
        # The units' own folder first, then the system's.
        return subprocess.run(['systemd-analyze', *words], check=False, capture_output=True, text=True,
                              env={**os.environ, 'SYSTEMD_UNIT_PATH': folder + ':'})

    def check_units(self, drop_in):
        with tempfile.TemporaryDirectory() as folder:
            copies = self.copied(folder, drop_in)
            done = self.analyze(folder, 'verify', '--man=no', *copies)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            for copy in copies:
                done = self.analyze(folder, 'security', '--offline=true', f'--threshold={EXPOSURE_MAX}', '--no-pager', copy)
                self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipIf(shutil.which('systemd-analyze') is None, 'there is no systemd-analyze')
    def test_systemd_takes_the_units(self):
        self.check_units(None)

    @unittest.skipIf(shutil.which('systemd-analyze') is None, 'there is no systemd-analyze')
    def test_systemd_takes_the_drop_ins(self):
        self.assertEqual(len(DROP_INS), 3)
        for drop_in in DROP_INS:
            with self.subTest(drop_in=drop_in):
                self.check_units(drop_in)

    @unittest.skipIf(shutil.which('systemd-sysusers') is None, 'there is no systemd-sysusers')
    def test_sysusers_makes_the_user(self):
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, 'etc'))
            subprocess.run(['systemd-sysusers', '--root', root, os.path.join(REPO, 'deploy/systemd/skua.sysusers')], check=True)
            with open(os.path.join(root, 'etc/passwd'), encoding='utf-8') as users:
                self.assertRegex(users.read(), '(?m)^skua:.*:/var/lib/skua:/usr/sbin/nologin$')


if __name__ == '__main__':
    BIN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
