#!/usr/bin/env python3
"""Commands in the documents: those of the README are run as they are written, and what the others call must exist.

  tests/docs/commands.py --run README.md --check docs [--bin build/release/bin]

--run runs all lines of a file's ```sh blocks as one script, with the first failure as the end; only /tmp/skua becomes a new folder,
so that a cluster which is there already is left alone. Lines that deploy/check runs as steps of its own are left out. --check
looks at each command in the ```sh blocks below a folder: its program must be there, and each --option must be in its help.
"""

import argparse
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = {'./deploy/quickstart', './deploy/check'}
BLOCK = re.compile(r'^```sh\n(.*?)^```', re.MULTILINE | re.DOTALL)
LIMIT_S = 1200
# What runs another command: that one is looked at instead.
WRAPPERS = {'sudo', 'source', 'nice'}
# Other projects' programs, whose help is theirs.
FOREIGN = {'ucx_perftest', 'perf', 'valgrind', 'db_bench', 'grep', 'systemctl', 'export', 'kill', 'sleep', 'modprobe', 'rdma', 'ulimit',
           'cmake', 'git', 'curl', 'docker', 'mount', 'echo'}


def blocks(path):
    with open(path, encoding='utf-8') as text:
        return BLOCK.findall(text.read())


def commands(text):
    """Commands, with lines that go on put together, without comments."""
    for line in text.replace('\\\n', ' ').splitlines():
        words = shlex.split(line, comments=True) if "<(" not in line else line.split('#')[0].split()
        if words:
            yield words


def run(path):
    folder = tempfile.mkdtemp(prefix='skua-readme.')
    cluster = os.path.join(folder, 'skua')
    lines = [line for block in blocks(path) for line in block.splitlines() if line.strip() not in STEPS]
    count = sum(1 for _ in commands('\n'.join(lines)))
    script = '\n'.join(lines).replace('/tmp/skua', cluster)
    try:
        # -x shows each command before what it prints.
        code = subprocess.run(['bash', '-euxo', 'pipefail', '-c', script], cwd=REPO, check=False, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT).returncode
    finally:
        if os.path.exists(cluster):
            subprocess.run([os.path.join(REPO, 'deploy/cluster'), 'stop', '--dir', cluster], check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
    if code != 0:
        print(f'{path}: the last command above failed with {code}')
        return None
    return count


class Helps:
    """What programs say of their options."""

    def __init__(self, bin_folder):
        self.bin, self.texts = bin_folder, {}

    def path(self, name):
        if name.startswith('build/fuzz/bin/fuzzers/'):
            # Built by a later step; without options of ours.
            sources = glob.glob(os.path.join(REPO, f'tests/**/{os.path.basename(name)}.cc'), recursive=True)
            return sources[0] if sources else None
        if '/' in name:
            # Documents also call programs of a build.
            name = name.replace('build/release/bin', self.bin)
            return name if os.access(os.path.join(REPO, name), os.X_OK) else None
        own = os.path.join(self.bin, name)
        return own if os.access(os.path.join(REPO, own), os.X_OK) else None

    def of(self, path, words):
        """The help of a program and of its commands that are named."""
        texts = []
        for end in range(min(len(words), 3) + 1):
            key = (path, *words[:end])
            if end > 0 and not re.fullmatch(r'[a-z][a-z-]*', words[end - 1]):
                break
            if key not in self.texts:
                done = subprocess.run([path, *words[:end], '--help'], cwd=REPO, check=False, capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL, timeout=60)
                self.texts[key] = done.stdout + done.stderr
            texts.append(self.texts[key])
        return '\n'.join(texts)


def wrong(words, helps):
    """What is not as the command says, or nothing."""
    while words and (words[0] in WRAPPERS or '=' in words[0]):
        words = words[1:]
    if not words or words[0] in FOREIGN or words[0].startswith('<('):
        return None
    path = helps.path(words[0])
    if path is None:
        return f'there is no program {words[0]}'
    rest = words[1:words.index('--')] if '--' in words else words[1:]
    plain = [word for word in rest if not word.startswith('-')]
    # GoogleTest's own.
    options = [word.split('=')[0] for word in rest if re.match(r'--[a-z]', word) and not word.startswith('--gtest_')]
    text = helps.of(path, plain) if options else ''
    unknown = [option for option in options if not re.search(rf'(?<![\w-]){re.escape(option)}(?![\w-])', text) and option != '--help']
    return f'{words[0]} has no option {", ".join(unknown)}' if unknown else None


def check(folder, helps):
    count, faults = 0, []
    for path in sorted(glob.glob(os.path.join(folder, '*.md'))):
        for block in blocks(path):
            for words in commands(block):
                count += 1
                fault = wrong(words, helps)
                if fault is not None:
                    faults.append(f'{path}: {" ".join(words)[:100]}: {fault}')
    return count, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--run', metavar='FILE', action='append', default=[])
    parser.add_argument('--check', metavar='FOLDER', action='append', default=[])
    parser.add_argument('--bin', default='build/release/bin')
    options = parser.parse_args()
    os.chdir(REPO)
    for folder in options.check:
        count, faults = check(folder, Helps(options.bin))
        print('\n'.join(faults + [f'looked at {count} commands in {folder}']), flush=True)
        if faults or count == 0:
            return 1
    total = 0
    for path in options.run:
        count = run(path)
        if not count:
            return 1
        total += count
    print(f'ran {total} commands')
    return 0


if __name__ == '__main__':
    sys.exit(main())
