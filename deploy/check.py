"""Everything that must be true of the tree, step by step.

    alone    deps --> build --> headers --> vm       vm: an emulated machine that shares processors polls in vain
    wide                                     `--> test ------> asan --> tsan --> fuzz --> tidy   keep all processors busy
    narrow                                   `--> structure --> format --> cluster --> ...       mostly wait; beside the wide

The steps are functions of check-steps.sh. A step passes when it ends with 0 and has said how much it looked at; a step that
has looked at nothing fails, because it cannot have found anything.

What a step says beside its output goes to build/check-logs/STEP.notes, a line each:
    checked 124 tests          what it looked at
    note ycsb_plot_test: ...   something for the summary, above all what was skipped, and why
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(FOLDER)
LOGS = os.environ.get('SKUA_CHECK_LOGS', os.path.join(REPO, 'build', 'check-logs'))
# Another file of steps, for the tests of this program: its functions are the steps, all of them narrow.
STEPS_FILE = os.environ.get('SKUA_CHECK_STEPS', os.path.join(FOLDER, 'check-steps.sh'))
SKIPPED = 77
PROGRESS_S = 60
LAST_LINES = 60
LAST_LINES_AGAIN = 15

ALONE = {
    'deps': 'packages are there (installs what is missing)',
    'build': 'release build of everything by GCC; warnings are errors (asan builds everything by clang)',
    'headers': 'headers compile alone: those that changed since the whole tree was clean, and what includes them',
    'vm': 'the tests that need RDMA devices, in an emulated guest',
}
WIDE = {
    'test': 'unit, conformance and simulation tests',
    'asan': 'the tests under AddressSanitizer and UBSan, and forty seeds of each simulation',
    'tsan': 'the tests that have threads under ThreadSanitizer',
    'fuzz': 'each fuzz target for a while',
    'tidy': 'clang-tidy: what changed since the whole tree was clean, see deploy/run-clang-tidy',
}
NARROW = {
    'structure': 'include arrows, header guards, file sizes',
    'format': 'clang-format and shellcheck',
    'cluster': 'real processes: kill -9, cut networks, full disks, over TCP and DPDK',
    'quickstart': 'the quickstart at a small scale; nothing is left running',
    'readme': 'the commands of the README and the documents as they are written; of those that cannot be run, that they exist',
    'packages': 'Debian packages in a fresh Debian, the container image with three nodes, the Helm chart',
}
FAST = ('deps', 'build', 'test', 'structure', 'format')
# Without these nothing can be said of the rest.
FIRST = ('deps', 'build')

EXAMPLES = """
A step alone builds what it needs. Each step's output is in build/check-logs/STEP.log. A step, or a test in one, that cannot
run here is skipped, and the summary says why. The last line counts steps: `N passed, N failed, N skipped`. Exit code: 0 if
nothing failed, 1 if something did, 2 for a wrong command line.

Examples:
  ./deploy/check                      all of it
  ./deploy/check --fast               before each commit
  ./deploy/check --only asan          one step
  ./deploy/check --only fuzz --fuzz-seconds 600
"""


class Step:
    """One step: a shell function in a process group of its own, its log, and what came of it."""

    def __init__(self, name, settings):
        self.name, self.settings = name, dict(settings)
        self.log = os.path.join(LOGS, f'{name}.log')
        self.notes_path = os.path.join(LOGS, f'{name}.notes')
        self.process = None
        self.began_s = None
        self.outcome = None  # passed, skipped, FAILED or not run
        self.took_s = 0
        self.checked, self.notes = [], []

    def run(self, polite):
        """Blocks until it has ended. `polite`: others go first."""
        open(self.notes_path, 'w', encoding='utf-8').close()
        script = f'set -euo pipefail; . {FOLDER}/common.sh; . "$steps_file"; step_{self.name}'
        nice = ['nice', '-n', '10'] if polite else []
        environment = {**os.environ, **self.settings, 'steps_file': STEPS_FILE, 'notes': self.notes_path, 'logs': LOGS}
        print(f'== {self.name}', flush=True)
        self.began_s = time.monotonic()
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen([*nice, 'bash', '-c', script, 'check'], cwd=REPO, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=environment, start_new_session=True)
            code = self.process.wait()
        # Whatever it left running.
        kill_group(self.process)
        self.took_s = time.monotonic() - self.began_s
        self.judge(code)
        self.tell()

    def judge(self, code):
        with open(self.notes_path, encoding='utf-8', errors='replace') as notes:
            for line in notes.read().splitlines():
                word, _, text = line.partition(' ')
                (self.checked if word == 'checked' else self.notes).append(text)
        if code == SKIPPED:
            self.outcome = 'skipped'
        elif code != 0:
            self.outcome = 'FAILED'
            self.notes.append(f'exit code {code}; the whole output: {os.path.relpath(self.log, REPO)}')
        elif not any(not text.startswith('0 ') for text in self.checked):
            self.outcome = 'FAILED'
            self.notes.append('it has looked at nothing, so it cannot have found anything')
        else:
            self.outcome = 'passed'

    def tell(self):
        lines = [f'== {self.name}: {self.outcome} after {self.took_s:.0f} s']
        if self.outcome == 'FAILED':
            lines += self.excerpt(LAST_LINES) + self.troubles()
        print('\n'.join(lines), flush=True)

    def troubles(self):
        """What is wrong in a few lines."""
        return [f'  {self.name}: {note}' for note in self.notes if 'skipped' not in note]

    def excerpt(self, count):
        return [f'   {self.name} | {line}' for line in self.last_lines(count)]

    def last_lines(self, count):
        try:
            with open(self.log, 'rb') as log:
                log.seek(max(0, os.path.getsize(self.log) - 200 * count - 1000))
                return log.read().decode('utf-8', 'replace').splitlines()[-count:]
        except OSError:
            return []

    def progress(self):
        last = (self.last_lines(1) or [''])[0]
        return f'   {self.name}, {time.monotonic() - self.began_s:.0f} s: {last[:110]}'

    @property
    def is_running(self):
        return self.began_s is not None and self.outcome is None

    def summary(self):
        text = f'  {self.outcome:8} {self.name:11} {self.took_s:6.0f} s   {", ".join(self.checked)}'.rstrip()
        return '\n'.join([text, *(f'{"":24} {note}' for note in self.notes)])


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def known_steps():
    if 'SKUA_CHECK_STEPS' not in os.environ:
        return {**ALONE, **WIDE, **NARROW}
    with open(STEPS_FILE, encoding='utf-8') as text:
        return {line[len('step_'):line.index('(')]: '' for line in text if line.startswith('step_')}


def parse(known):
    texts = '\n'.join(f'  {name:12} {text}' for name, text in known.items())
    parser = argparse.ArgumentParser(
        prog='deploy/check', formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f'Checks everything that must be true of the tree, in steps:\n\n{texts}', epilog=EXAMPLES)
    def number(text):
        if not text.isdigit() or not 1 <= int(text) <= 999999:
            raise argparse.ArgumentTypeError(f'a number from 1 to 999999, not "{text}"')
        return int(text)
    parser.add_argument('--only', action='append', default=[], metavar='STEP', choices=list(known),
                        help='this step alone; may be given several times')
    parser.add_argument('--fast', action='store_true', help=', '.join(FAST))
    parser.add_argument('--whole', action='store_true', help='tidy and headers look at the whole tree')
    parser.add_argument('--fuzz-seconds', type=number, default=60, metavar='N', help='for each fuzz target (60)')
    parser.add_argument('--jobs', type=number, default=os.cpu_count(), metavar='N',
                        help='compilers and tests at a time (one for each processor)')
    parser.add_argument('--list', action='store_true', help='print the names of the steps')
    return parser.parse_args()


class Run:
    """The selected steps, in lanes."""

    def __init__(self, steps):
        self.steps = steps
        self.stopped = threading.Event()

    def lane(self, names, polite):
        for name in names:
            if name in self.steps and not self.stopped.is_set():
                self.steps[name].run(polite)

    def all(self):
        for name in ALONE:
            self.lane([name], False)
            if name == 'build' and name in self.steps and self.steps[name].outcome == 'passed':
                for step in self.steps.values():
                    step.settings['built'] = 'true'
            if name in FIRST and name in self.steps and self.steps[name].outcome == 'FAILED':
                return
        # Narrow steps wait for processes that must answer in time; wide ones leave them the processors.
        wide = threading.Thread(target=self.lane, args=(WIDE, True), daemon=True)
        wide.start()
        self.lane([name for name in self.steps if name not in ALONE and name not in WIDE], False)
        wide.join()

    def tell_progress(self):
        while not self.stopped.wait(PROGRESS_S):
            for step in self.steps.values():
                if step.is_running:
                    print(step.progress(), flush=True)

    def stop(self):
        self.stopped.set()
        for step in self.steps.values():
            if step.is_running and step.process is not None:
                kill_group(step.process)


def main():
    known = known_steps()
    options = parse(known)
    if options.list:
        print('\n'.join(known))
        return 0
    wanted = set(options.only) | (set(FAST) if options.fast else set())
    if shutil.which('bash') is None:
        print('check: bash is not there', file=sys.stderr)
        return 2
    os.makedirs(LOGS, exist_ok=True)
    settings = {'jobs': str(options.jobs), 'fuzz_seconds': str(options.fuzz_seconds), 'whole': 'true' if options.whole else 'false',
                'built': 'false'}
    run = Run({name: Step(name, settings) for name in known if not wanted or name in wanted})

    def interrupted(number, _):
        run.stop()
        print(f'check: stopped by signal {number}; nothing is left running', file=sys.stderr)
        os._exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)

    began_s = time.monotonic()
    threading.Thread(target=run.tell_progress, daemon=True).start()
    run.all()
    run.stopped.set()
    for step in run.steps.values():
        if step.outcome is None:
            step.outcome = 'not run'
            step.notes.append(f'it needs {" and ".join(FIRST)}')
    # What failed once more: of a long run, some keep only the end.
    for step in run.steps.values():
        if step.outcome == 'FAILED':
            print('\n' + '\n'.join(step.excerpt(LAST_LINES_AGAIN)))
    print('\n' + '\n'.join(step.summary() for step in run.steps.values()))
    # And what is wrong in a few lines, last.
    for step in run.steps.values():
        if step.outcome == 'FAILED':
            print('\n'.join(step.troubles()))
    print(f'  in all               {time.monotonic() - began_s:6.0f} s')
    counts = {word: sum(step.outcome == word for step in run.steps.values()) for word in ('passed', 'FAILED', 'skipped')}
    skipped = f', {counts["skipped"]} skipped' if counts['skipped'] else ''
    print(f'{counts["passed"]} passed, {counts["FAILED"]} failed{skipped}')
    return 1 if counts['FAILED'] else 0


if __name__ == '__main__':
    sys.exit(main())
