#!/usr/bin/env python3
"""deploy/check with steps of this test's own: what passes, fails and is skipped, and that a step that looks at nothing fails.
And the steps' tests: those of the build in FOLDER.

usage: check_test.py --build FOLDER [unittest's arguments]
"""

import argparse
import collections
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = ''
STEPS = """
step_good() { echo "checked 3 files" >>"$notes"; }
step_bad() { echo "what went wrong"; false; echo "checked 3 files" >>"$notes"; }
step_idle() { true; }
step_zero() { echo "checked 0 tests" >>"$notes"; }
step_skipped() { echo "note its tool is missing" >>"$notes"; exit 77; }
step_partly() { echo "checked 1 tests" >>"$notes"; echo "note other_test was skipped: no etcd" >>"$notes"; }
step_leaves() { sleep 987 & echo "checked 1 files" >>"$notes"; }
step_hangs() { sleep 988; }
"""


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.steps = tempfile.NamedTemporaryFile('w', suffix='.sh')
        self.addCleanup(self.steps.close)
        self.steps.write(STEPS)
        self.steps.flush()
        # Logs of its own.
        self.logs = tempfile.TemporaryDirectory()
        self.addCleanup(self.logs.cleanup)

    def command(self, *steps):
        return [os.path.join(REPO, 'deploy/check'), *(word for step in steps for word in ('--only', step))]

    @property
    def environment(self):
        return {**os.environ, 'SKUA_CHECK_STEPS': self.steps.name, 'SKUA_CHECK_LOGS': self.logs.name}

    def check(self, *steps):
        return subprocess.run(self.command(*steps), check=False, capture_output=True, text=True, env=self.environment, timeout=60)

    def last_line(self, done):
        return done.stdout.splitlines()[-1]

    def test_what_passes(self):
        done = self.check('good')
        self.assertEqual((done.returncode, self.last_line(done)), (0, '1 passed, 0 failed'))
        self.assertRegex(done.stdout, r'passed +good +\d+ s +3 files')

    def test_what_fails_is_shown_and_counted(self):
        done = self.check('bad', 'good')
        self.assertEqual((done.returncode, self.last_line(done)), (1, '1 passed, 1 failed'))
        self.assertIn('bad | what went wrong', done.stdout)
        self.assertIn('exit code 1', done.stdout)

    def test_a_step_that_looks_at_nothing_fails(self):
        for step in ('idle', 'zero'):
            done = self.check(step)
            self.assertEqual((done.returncode, self.last_line(done)), (1, '0 passed, 1 failed'))
            self.assertIn('it has looked at nothing', done.stdout)

    def test_a_skip_has_its_reason_in_the_summary(self):
        done = self.check('skipped', 'partly')
        self.assertEqual((done.returncode, self.last_line(done)), (0, '1 passed, 0 failed, 1 skipped'))
        self.assertIn('its tool is missing', done.stdout)
        self.assertIn('other_test was skipped: no etcd', done.stdout)

    def test_an_unknown_step_is_refused(self):
        done = self.check('nosuch')
        self.assertEqual(done.returncode, 2)
        self.assertIn('nosuch', done.stderr)

    @staticmethod
    def runs(words):
        return subprocess.run(['pgrep', '-f', f'^{words}$'], check=False, stdout=subprocess.DEVNULL).returncode == 0

    def test_nothing_that_a_step_started_is_left(self):
        self.assertEqual(self.check('leaves').returncode, 0)
        self.assertFalse(self.runs('sleep 987'))

    def test_a_signal_ends_the_steps_too(self):
        with subprocess.Popen(self.command('hangs'), env=self.environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as check:
            end = time.monotonic() + 30
            while not self.runs('sleep 988') and time.monotonic() < end:
                time.sleep(0.05)
            check.send_signal(signal.SIGTERM)
            _, words = check.communicate(timeout=30)
        self.assertEqual(check.returncode, 128 + signal.SIGTERM)
        self.assertIn('nothing is left running', words)
        self.assertFalse(self.runs('sleep 988'))

    def test_every_step_of_the_program_has_a_function_and_a_help_text(self):
        helped = subprocess.run([os.path.join(REPO, 'deploy/check'), '--list'], check=True, capture_output=True, text=True)
        with open(os.path.join(REPO, 'deploy/check-steps.sh'), encoding='utf-8') as text:
            functions = re.findall(r'^step_(\w+)\(\)', text.read(), re.MULTILINE)
        self.assertEqual(sorted(helped.stdout.split()), sorted(functions))

    def test_the_workflow_has_all_steps(self):
        known = subprocess.run([os.path.join(REPO, 'deploy/check'), '--list'], check=True, capture_output=True, text=True)
        with open(os.path.join(REPO, '.github/workflows/check.yml'), encoding='utf-8') as text:
            jobs = re.search(r'step: \[(.*)\]', text.read()).group(1).split(', ')
        # Each job installs packages by itself.
        self.assertEqual(['deps', *jobs], known.stdout.split())

    # A step's tests, as CTest selects them: the step itself runs, and only lists them.
    LISTED_STEP = """
        . deploy/common.sh; . deploy/check-steps.sh
        need_release() { :; }
        run_tests() { local folder=$1; shift; ctest --test-dir "$build${folder#release}" --show-only=json-v1 "$@"; }
        step_$0"""

    def listed(self, step):
        done = subprocess.run(['bash', '-c', self.LISTED_STEP, step], cwd=REPO, check=True, capture_output=True, text=True,
                              env={**os.environ, 'build': BUILD})
        return [test['name'] for test in json.loads(done.stdout)['tests']]

    def test_every_registered_test_belongs_to_one_step(self):
        everything = subprocess.run(['ctest', '--test-dir', BUILD, '--show-only=json-v1'], check=True, capture_output=True, text=True)
        registered = [test['name'] for test in json.loads(everything.stdout)['tests']]
        self.assertIn('programs_test', registered)
        runs = collections.Counter(self.listed('test') + self.listed('cluster') + self.listed('packages'))
        self.assertEqual({name: runs[name] for name in registered}, dict.fromkeys(registered, 1))


REPORT = """<testsuite tests="6">
<testcase name="a_test" status="run"><system-out>[ RUN ] A.B
/x/y.cc:31: Skipped
no device
here
[  SKIPPED ] A.B (0 ms)
/x/y.cc:40: Skipped
no zsh

[  SKIPPED ] A.C (0 ms)</system-out></testcase>
<testcase name="b_test" status="run"><system-out>test_c (T.test_c) ... skipped 'gnuplot is not there'
without killed_etcd: etcd is not installed</system-out></testcase>
<testcase name="c_test" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>skipped: needs root</system-out></testcase>
<testcase name="d_test" status="run"/>
<testcase name="e_test" status="fail"><failure message=""/><system-out>[ RUN ] A.B
/x/y.cc:31: Failure
  Actual: 3
[  FAILED  ] A.B (0 ms)
[  FAILED  ] A.B, where 3 is 4
SUMMARY: ThreadSanitizer: data race /x/y.h:3 in f</system-out></testcase>
<testcase name="f_test" status="fail"><failure message=""/><system-out>Segmentation fault</system-out></testcase>
</testsuite>"""


class TestReportTest(unittest.TestCase):
    def test_every_test_in_python_prints_what_was_skipped(self):
        for path in glob.glob(os.path.join(REPO, 'tests/**/*.py'), recursive=True):
            with open(path, encoding='utf-8') as text:
                for call in re.findall(r'^ .*\bunittest\.main\(.*', text.read(), re.MULTILINE):
                    self.assertIn('verbosity=2', call, path)

    def test_counts_and_reasons(self):
        with tempfile.NamedTemporaryFile('w', suffix='.xml') as report:
            report.write(REPORT)
            report.flush()
            done = subprocess.run([os.path.join(REPO, 'deploy/test-report'), report.name], check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines(), [
            'checked 5 tests', 'note a_test, 1 skipped: no device here', 'note a_test, 1 skipped: no zsh',
            'note b_test, 1 skipped: gnuplot is not there',
            'note b_test, 1 skipped: without killed_etcd: etcd is not installed', 'note c_test was skipped: needs root',
            'note e_test FAILED: /x/y.cc:31: Failure', 'note e_test FAILED: [ FAILED ] A.B',
            'note e_test FAILED: SUMMARY: ThreadSanitizer: data race /x/y.h:3 in f', 'note f_test FAILED: Segmentation fault'])


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', required=True)
    options, rest = parser.parse_known_args()
    BUILD = os.path.abspath(options.build)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
