#!/usr/bin/env python3
"""House rules that a compiler does not know, checked over the whole tree.

  arrows     an #include "..." or a third-party <...> that arrows.txt does not list
  cycle      folders of arrows.txt that may, through others, include themselves
  guard      a header whose guard is not SKUA_<PATH>_H_
  length     a source file of more than 500 lines; of more than 800 in tests/ and LONG_FILES
  secrets    a program that sets `simulation_seed`, from which whoever knows it can guess the numbers that sessions are kept apart by
  unfinished a marker that says "later" (UNFINISHED below): finish it, or write it where readers look

usage: tidy.py [ROOT]      prints one line for each finding; exit code 1 when there is any
"""

import fnmatch
import os
import re
import sys

LINES_MAX = 500
TEST_LINES_MAX = 800
# Product sources that were longer when the limit came. Take a file out when it is shorter; add none.
LONG_FILES = {'rpc/protocol/session_caller.cc'}
SOURCE_SUFFIXES = ('.h', '.cc')
TEXT_SUFFIXES = SOURCE_SUFFIXES + ('.py', '.sh', '.proto', '.cmake', '.md', '.txt', '.toml')
SKIPPED_FOLDERS = {'build', 'cmake', 'third_party'}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
# Spelled so that this file does not find itself.
UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X)\b')

SIMULATION_SEED = re.compile(r'\bsimulation_seed\b')
# Where it is declared and handed on.
SIMULATION_SEED_FILES = ('tests/*', 'rpc/endpoint*', 'rpc/remote_memory*', 'kvstore/client/client_core.*')


class Arrows:
    """arrows.txt, read."""

    def __init__(self, path):
        self.allowed = {}      # folder, file or file name -> set of what it may include
        self.wrapped = {}      # prefix of a <header> -> folders that may include it
        with open(path, encoding='utf-8') as lines:
            for number, line in enumerate(lines, 1):
                line = line.split('#', 1)[0].strip()
                if not line:
                    continue
                who, colon, what = line.partition(':')
                if not colon:
                    raise SystemExit(f'{path}:{number}: no colon in "{line}"')
                who = who.strip()
                table = self.wrapped if who.startswith('<') else self.allowed
                table.setdefault(who.strip('<>'), set()).update(what.split())
        self.folders = {who for who in self.allowed if '.' not in who and '*' not in who}

    def folder_of(self, file):
        """The nearest folder above `file` that has a line, or None."""
        folder = os.path.dirname(file)
        while folder:
            if folder in self.folders:
                return folder
            folder = os.path.dirname(folder)
        return None

    def allows(self, file, included):
        folder, target = self.folder_of(file), self.folder_of(included)
        if target == folder:
            return True
        if target is not None and target.split('/')[0] == 'tests':
            return folder == 'tests'
        name = os.path.basename(file)
        items = set(self.allowed.get(folder, ())) | self.allowed.get(file, set())
        for pattern, more in self.allowed.items():
            if '.' in pattern and '/' not in pattern and fnmatch.fnmatch(name, pattern):
                items |= more
        return any(self.matches(item, included, target) for item in items)

    @staticmethod
    def matches(item, included, target):
        if item == '**':
            return True
        if item.endswith('/**'):
            return included.startswith(item[:-2])
        return item in (included, target)

    def cycles(self):
        """Folders that reach themselves over folder-to-folder arrows."""
        edges = {who: {what for what in whats if what in self.folders and what != who}
                 for who, whats in self.allowed.items() if who in self.folders}
        for start in sorted(edges):
            seen, left = set(), list(edges[start])
            while left:
                folder = left.pop()
                if folder not in seen:
                    seen.add(folder)
                    left.extend(edges.get(folder, ()))
            if start in seen:
                yield start


def tree(root):
    """Every file below `root`, relative to it, in order; no hidden and no build folders."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith('.'))
        for file in sorted(files):
            yield os.path.relpath(os.path.join(folder, file), root)


def check_includes(arrows, file, lines):
    folder = arrows.folder_of(file)
    if folder is None:
        yield f'{file}:1: arrows: its folder has no line in arrows.txt'
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, angled = match.groups()
        # A quoted path of ours names one of our top folders; the others are libraries' own.
        if quoted and quoted.split('/')[0] in {f.split('/')[0] for f in arrows.folders}:
            if arrows.folder_of(quoted) is None:
                yield f'{file}:{number}: arrows: the folder of {quoted} has no line in arrows.txt'
            elif not arrows.allows(file, quoted):
                yield f'{file}:{number}: arrows: {folder} may not include {quoted}'
            continue
        for prefix, owners in arrows.wrapped.items():
            if (quoted or angled).startswith(prefix) and not {folder, file} & owners and folder != 'tests':
                yield (f'{file}:{number}: arrows: <{quoted or angled}> belongs behind '
                       f'{" ".join(sorted(owners))}')


def check_secrets(file, lines):
    if any(fnmatch.fnmatchcase(file, pattern) for pattern in SIMULATION_SEED_FILES):
        return
    for number, line in enumerate(lines, 1):
        if SIMULATION_SEED.search(line):
            yield f'{file}:{number}: secrets: simulation_seed is for simulations; the system draws what peers must not guess'


def check_guard(file, lines):
    wanted = 'SKUA_' + re.sub(r'[^A-Z0-9]', '_', file.upper()) + '_'
    guards = [line.split()[1] for line in lines if line.startswith('#ifndef ') and len(line.split()) > 1]
    if not guards or guards[0] != wanted:
        yield f'{file}:1: guard: it must be {wanted}'


def check_tree(root):
    """Findings, one line of text each."""
    arrows = Arrows(os.path.join(root, 'tests/tidy/arrows.txt'))
    for folder in arrows.cycles():
        yield f'tests/tidy/arrows.txt:1: cycle: {folder} may include itself through others'
    for file in tree(root):
        name = os.path.basename(file)
        if not name.endswith(TEXT_SUFFIXES):
            continue
        with open(os.path.join(root, file), encoding='utf-8', errors='replace') as text:
            lines = text.read().splitlines()
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                yield f'{file}:{number}: unfinished: {line.strip()}'
        if not name.endswith(SOURCE_SUFFIXES):
            continue
        lines_max = TEST_LINES_MAX if file.startswith('tests/') or file in LONG_FILES else LINES_MAX
        if len(lines) > lines_max:
            yield f'{file}:{lines_max + 1}: length: {len(lines)} lines; does it hold two ideas?'
        yield from check_includes(arrows, file, lines)
        yield from check_secrets(file, lines)
        if name.endswith('.h'):
            yield from check_guard(file, lines)


def main(arguments):
    if len(arguments) > 2 or arguments[1:2] in (['-h'], ['--help']):
        print(__doc__.strip())
        return 0 if len(arguments) == 2 else 2
    root = arguments[1] if len(arguments) == 2 else os.path.join(os.path.dirname(__file__), '../..')
    findings = list(check_tree(root))
    for finding in findings:
        print(finding)
    print(f'tidy: {len(findings)} findings')
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
