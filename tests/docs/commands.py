#!/usr/bin/env python3
"""The shell commands of the documents: blocks are run as they are written, and what the others call must exist.

  tests/docs/commands.py [--bin build/release/bin] [DOCUMENT]...     all documents, unless told

A comment in front of each ```sh block says what is done with it:

  <!-- run: cluster -->    run beside a cluster of three nodes, which the document's first such block starts
  <!-- run: alone -->      run without one
  <!-- run: tree -->       run in this source tree itself: what builds
  <!-- shown: WHY -->      not run

Of all blocks each program must be there, or a compiler of the document makes it, and each --option in its help. Of all links file and heading must be there.

All blocks of a document are one script, in their order, and the first failure is its end. But for `tree` they run in
a new folder that looks like the source tree, with the programs in PATH. Paths below /tmp, /var/lib and /var/tmp are put
into that folder. As root the script has processes and a network of its own, in which all of 10.0.0.0/16 is this
machine; whatever it leaves running is ended.

  <!-- run: alone --seeds=3 -->      what the block says of --seeds is replaced: for what takes long
  <!-- run: cluster                  lines that are run in front of the block, which readers need not see
  touch picture.png -->

A command with the comment `# exit code N`, or `# exit code N: WHY`, must end with N. `&&` is refused: the failure of what
stands before it would not be seen. A command with `&` behind it must not fail as long as the script runs, and in its first
two seconds.
"""

import argparse
import functools
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import links

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'docs', 'app/README.md', 'control/README.md', 'deploy/README.md',
             'examples/README.md', 'kvstore/README.md', 'rpc/README.md', 'tests/README.md', 'ycsb/README.md']
MODES = ('cluster', 'alone', 'tree')
# Ample: documents are run beside other steps of deploy/check.
LIMIT_S = 400
# The README builds.
TREE_LIMIT_S = 1800
LAST_LINES = 60
# Of the commands of all documents.
RAN_LEAST = 0.5
PLACES = re.compile(r'(?<![\w.~/])(?=/(?:tmp|var/lib|var/tmp)(?:/|\b))')
# What runs another command: that one is looked at instead.
WRAPPERS = {'sudo', 'source', 'nice', 'exec', 'then', 'do', 'else', 'if', '!', '{', '('}
# Other projects' programs, whose help is theirs, and the shell's own words.
FOREIGN = set('''
  export kill umask wait cd echo printf test ulimit for while until done fi }
  cat cp grep head install ls mkdir mv pgrep python3 rm sed sleep tail touch
  apt apt-get ip journalctl modprobe mount rdma systemctl systemd-sysusers useradd
  clang-format-14 cmake ctest curl docker g++ gcc git helm jq kubectl perf pkg-config podman shellcheck skopeo valgrind
  db_bench etcd etcdctl memcached openssl redis-benchmark redis-cli redis-server ucx_perftest
'''.split())

# What else a shell's block could be marked as; of ~~~ this program knows nothing.
OTHER_SHELL = re.compile(r'```+ *(sh|shell|bash|zsh|console|shell-session|shellsession|terminal)\b|````|~~~')
# A line of another block that looks like a command of ours; usages have brackets.
COMMAND = re.compile(r'(sudo |\./|build/|deploy/|tests/|skuad |skuactl |skua-\w+ )[\w-][^\[|]*$')

# Lines of the script are lines of the document, so that LINENO tells where it is.
PROLOGUE = r'''
docs_jobs=()
unset BASH_ENV
set -euo pipefail
cd "$DOCS_FOLDER"
docs_mode() { # MODE
  { set +x; } 2>/dev/null
  if [ "$1" = tree ]; then
    cd "$DOCS_REPO"
  else
    cd "$DOCS_FOLDER"
    export PATH=$DOCS_BIN:$PATH SKUA_BIN_DIR=$DOCS_BIN
  fi
  if [ "$1" = cluster ] && [ ! -e "$DOCS_FOLDER/cluster" ]; then
    "$DOCS_REPO/deploy/cluster" start --dir "$DOCS_FOLDER/cluster" --nodes 3
    export SKUA_CONTROL_ADDRESS=127.0.0.1:7400
  fi
  set -x
}
expect() { # CODE COMMAND...
  local code=0
  "${@:2}" || code=$?
  [ "$code" -eq "$1" ]
}
docs_job() { # PID LINE
  { set +x; } 2>/dev/null
  docs_jobs+=("$1 $2")
  set -x
}
# What was left in the background must not have failed. A job that has just begun gets a moment for it.
docs_judge_jobs() {
  local job pid line code
  for job in ${docs_jobs[@]+"${docs_jobs[@]}"}; do
    read -r pid line <<<"$job"
    if [ -e "/proc/$pid" ] && [ "$(ps -o etimes= -p "$pid" || echo 2)" -lt 2 ]; then
      timeout 2 tail --pid="$pid" -f /dev/null || true
    fi
    [ "$(ps -o stat= -p "$pid" | cut -c 1)" != Z ] && [ -e "/proc/$pid" ] && continue
    code=0
    wait "$pid" || code=$?
    # 127: the document has waited for it; 143 and 137: it has stopped it.
    case $code in 0 | 127 | 137 | 143) ;; *) echo "FAILED $line $code what runs in the background" ;; esac
  done
}
docs_end() {
  local code=$?
  { set +x; } 2>/dev/null
  trap - ERR
  set +e
  [ "$code" -ne 0 ] || docs_judge_jobs
  local conf
  for conf in "$DOCS_FOLDER"/cluster/cluster.conf "$DOCS_FOLDER"/tmp/*/cluster.conf; do
    [ ! -e "$conf" ] || "$DOCS_REPO/deploy/cluster" stop --dir "${conf%/*}" >/dev/null || true
  done
  kill $(jobs -p) 2>/dev/null || true
}
trap docs_end EXIT
trap 'echo "FAILED $LINENO $? $BASH_COMMAND"' ERR
PS4='+ ${SECONDS}s: '
'''
# In namespaces of its own: the network has all of 10.0.0.0/16.
NAMESPACES = ['unshare', '--net', '--pid', '--fork', '--kill-child', '--mount-proc', 'bash', '-c',
              'ip link set lo up && ip route add local 10.0.0.0/16 dev lo && BASH_ENV=$DOCS_PROLOGUE exec bash "$1"',
              'docs']


class Block:
    """A ```sh block: its lines, where they begin, and what its mark says."""

    def __init__(self, line, indent, mark):
        self.line, self.indent, self.lines = line, indent, []
        self.mode, self.reason, self.changes, self.setup, self.fault = None, '', [], [], None
        self.read_mark(mark)

    def read_mark(self, mark):
        match = re.fullmatch(r'\s*<!--\s*(run|shown):[ \t]*(.*?)\s*-->\s*', mark, re.DOTALL)
        if match is None:
            self.fault = 'no mark in front of it: <!-- run: cluster|alone|tree --> or <!-- shown: WHY -->'
            return
        kind, text = match.groups()
        if kind == 'shown':
            self.reason = ' '.join(text.split())
            self.fault = None if self.reason else 'the mark does not say why the block is not run: <!-- shown: WHY -->'
            return
        first, *self.setup = text.splitlines() or ['']
        words = first.split()
        self.mode = words[0] if words else ''
        if self.mode not in MODES:
            self.fault = f'the mark says run: {first}; it must be one of: {", ".join(MODES)}'
        for word in words[1:]:
            name, is_change, value = word.partition('=')
            if is_change:
                self.changes.append((name, value))
            else:
                self.fault = f'the mark has {word}; NAME=VALUE was expected'

    def add(self, line):
        self.lines.append(line[self.indent:] if not line[:self.indent].strip() else line)

    def end(self):
        """What can be judged only when all lines are there."""
        for name, _ in self.changes:
            if not any(pattern(name).search(line) for line in self.lines):
                self.fault = f'the mark replaces {name}, which the block does not have'
        if not any(line.strip() for line in self.lines):
            self.fault = 'an empty block'
        if self.mode is not None and any('&&' in line for line in self.setup + self.lines):
            self.fault = '&& hides that what stands before it has failed: write two lines'

    def script_lines(self):
        """As many lines as the block has."""
        return [self.watched(self.changed(line), self.line + number) for number, line in enumerate(self.lines, 1)]

    @staticmethod
    def watched(line, number):
        """What a line leaves in the background is noted."""
        return re.sub(r'(?<!&)&(\s*(?:#.*)?)$', rf'& docs_job $! {number}\1', line)

    def changed(self, line):
        for name, value in self.changes:
            line = pattern(name).sub(rf'\g<1>{value}', line)
        code = re.search(r'\s#\s*exit code (\d+)(?::|$)', line)
        return f'expect {code[1]} {line.strip()}' if code else line


def pattern(name):
    return re.compile(rf'((?<![\w-]){re.escape(name)}[ =])\S+')


def read(path):
    """The ```sh blocks of a document, and how many lines it has."""
    found, block, mark, fence = [], None, '', None
    with open(path, encoding='utf-8') as text:
        lines = text.read().splitlines()
    for number, line in enumerate(lines, 1):
        if fence is not None:
            if line.strip() == '```':
                if block is not None:
                    block.end()
                fence, block, mark = None, None, ''
            elif block is not None:
                block.add(line)
            elif fence.strip() == '```' and COMMAND.match(line.strip()):
                fence = '```text'
                found.append(Block(number, 0, mark))
                found[-1].fault = 'a command in a block that is not marked as ```sh'
        elif line.lstrip().startswith(('```', '~~~')):
            fence = line
            if line.strip() == '```sh':
                block = Block(number, len(line) - len(line.lstrip()), mark)
                found.append(block)
            elif OTHER_SHELL.match(line.strip()):
                found.append(Block(number, 0, mark))
                found[-1].fault = f'{line.strip()}: blocks of a shell are marked as ```sh'
        elif '<!--' in line and not is_open(mark):
            mark = line
        elif is_open(mark):
            mark += '\n' + line
        else:
            mark = ''
    return found, len(lines)


def is_open(mark):
    return '<!--' in mark and '-->' not in mark


# ---- Looking at commands

def commands(lines):
    """Commands, with lines that go on put together, without comments and what is given to them."""
    text = '\n'.join(lines).replace('\\\n', ' ')
    text = re.sub(r"<<-?'?(\w+)'?(.*?)\n(?:.*\n)*?\1(?=\n|$)", r'\2', text)
    text = re.sub(r'(?:^|(?<=\s))#[^\n]*|\d?>&\d', '', text)
    # What a command in `$()` prints is a word.
    text = re.sub(r'\$\([^()]*\)', 'X', text)
    # Words in quotes, also over several lines, are no commands.
    lexer = shlex.shlex(text, posix=True, punctuation_chars=';&|()\n')
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = ' \t', True, ''
    words = []
    for word in lexer:
        if not word or not set(word) <= set(';&|()\n'):
            words.append(word)
        elif words:
            yield words
            words = []
    if words:
        yield words


class Helps:
    """What programs say of their options."""

    def __init__(self, bin_folder):
        self.bin, self.texts = bin_folder, {}

    def path(self, name):
        if name.startswith(('build/fuzz/', 'build/fuzz-fast/', 'build/asan/', 'build/tsan/')):
            # Built by other steps; without options of ours.
            sources = glob.glob(os.path.join(REPO, f'tests/**/{os.path.basename(name)}.cc'), recursive=True)
            return sources[0] if sources else None
        if '/' in name:
            # Documents also call programs of a build.
            name = name.replace('build/release/bin', self.bin)
            return name if os.access(os.path.join(REPO, name), os.X_OK) else None
        own = os.path.join(self.bin, name)
        return own if os.access(os.path.join(REPO, own), os.X_OK) else None

    @staticmethod
    def printed(*command):
        done = subprocess.run(command, cwd=REPO, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=60)
        return done.stdout + done.stderr

    def of(self, path, words):
        """The help of a program and of its commands that are named."""
        texts = []
        for end in range(min(len(words), 3) + 1):
            key = (path, *words[:end])
            if end > 0 and not re.fullmatch(r'[a-z][a-z-]*', words[end - 1]):
                break
            if key not in self.texts:
                text = self.printed(path, *words[:end], '--help')
                # A program with many options shows some of them only then.
                if '--help-all' in text:
                    text = self.printed(path, *words[:end], '--help-all')
                self.texts[key] = re.sub(r'--\[no-\]([\w-]+)', r'--\1 --no-\1', text)
            texts.append(self.texts[key])
        return '\n'.join(texts)


def wrong(words, helps):
    """What is not as the command says, or nothing."""
    while words and (words[0] in WRAPPERS or re.match(r'\w+=', words[0])):
        words = words[1:]
    if not words or words[0] in FOREIGN or words[0].startswith(('<', '$')):
        return None
    path = helps.path(words[0])
    if path is None:
        return f'there is no program {words[0]}'
    rest = words[1:words.index('--')] if '--' in words else words[1:]
    plain = [word for word in rest if not word.startswith('-')]
    # GoogleTest's own.
    options = [word.split('=')[0] for word in rest if re.match(r'--[a-z]', word) and not word.startswith('--gtest_')]
    text = helps.of(path, plain) if options else ''
    unknown = [option for option in options
               if option != '--help' and not re.search(rf'(?<![\w-]){re.escape(option)}(?![\w-])', text)]
    return f'{words[0]} has no option {", ".join(unknown)}' if unknown else None


def check(name, found, helps):
    """How many commands were looked at, and what is wrong with them."""
    count, faults, compiled = 0, [], set()
    for block in found:
        if block.fault is not None:
            faults.append(f'{name}:{block.line}: {block.fault}')
            continue
        for words in commands(block.lines):
            count += 1
            if words[0] in compiled:
                continue
            if words[0] in ('gcc', 'g++') and '-o' in words[:-1]:
                compiled.add('./' + words[words.index('-o') + 1])
            fault = wrong(words, helps)
            if fault is not None:
                faults.append(f'{name}:{block.line}: {" ".join(words)[:100]}: {fault}')
    return count, faults


# ---- Running them

def script(found, length, folder, bin_folder):
    """A script with as many lines as the document."""
    lines = [''] * length
    for block in found:
        if block.mode is None:
            continue
        setup = [f'docs_mode {block.mode}', *(block.watched(line, block.line) for line in block.setup)]
        lines[block.line - 1] = ' '.join(line + ';' for line in setup if line.strip())
        lines[block.line:block.line + len(block.lines)] = block.script_lines()
    text = PLACES.sub(folder, '\n'.join(lines))
    return re.sub(r'(\$PWD/)?build/release/bin', lambda _: bin_folder, text) + '\n'


def look_alike(folder):
    """Fills a new folder with what the source tree has at its top, and with what machines have."""
    for name in os.listdir(REPO):
        os.symlink(os.path.join(REPO, name), os.path.join(folder, name))
    for name in ('tmp', 'var/lib', 'var/tmp', 'home', 'programs'):
        os.makedirs(os.path.join(folder, name))
    if shutil.which('sudo') is None:
        path = os.path.join(folder, 'programs', 'sudo')
        with open(path, 'w', encoding='utf-8') as sudo:
            sudo.write('#!/bin/sh\nexec "$@"\n')
        os.chmod(path, 0o755)


def run(name, found, length, bin_folder, options):
    """Runs a document; says what failed, if anything did."""
    folder = tempfile.mkdtemp(prefix='skua-docs.')
    try:
        look_alike(folder)
        for file, text in (('prologue', PROLOGUE), ('script', script(found, length, folder, bin_folder))):
            with open(os.path.join(folder, file), 'w', encoding='utf-8') as out:
                out.write(text)
        limit_s = options.limit or (TREE_LIMIT_S if any(block.mode == 'tree' for block in found) else LIMIT_S)
        output, is_late = execute(folder, bin_folder, limit_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.verbose:
        print(output.replace(folder, ''), flush=True)
    fault = judge(name, output, is_late, limit_s)
    if fault is not None:
        print('\n'.join(f'  {line}' for line in output.replace(folder, '').splitlines()[-LAST_LINES:]))
        print(fault, flush=True)
    return fault is None


def execute(folder, bin_folder, limit_s):
    """What it printed, and whether its time ran out."""
    path = os.path.join(folder, 'script')
    prologue = os.path.join(folder, 'prologue')
    environment = {**os.environ, 'DOCS_PROLOGUE': prologue, 'DOCS_FOLDER': folder, 'DOCS_REPO': REPO,
                   'DOCS_BIN': bin_folder, 'HOME': os.path.join(folder, 'home'), 'LC_ALL': 'C.UTF-8',
                   'PATH': f'{os.environ["PATH"]}:{folder}/programs'}
    # The compiler's cache stays where it is.
    environment.setdefault('CCACHE_DIR', os.path.expanduser('~/.cache/ccache'))
    command = [*NAMESPACES, path] if has_namespaces() else ['env', f'BASH_ENV={prologue}', 'bash', path]
    with open(os.path.join(folder, 'output'), 'w+', encoding='utf-8', errors='replace') as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out, start_new_session=True)
        try:
            code, is_late = process.wait(timeout=limit_s), False
        except subprocess.TimeoutExpired:
            is_late = True
            os.killpg(process.pid, 9)
            code = process.wait()
        out.seek(0)
        output = out.read()
    if code != 0 and 'FAILED ' not in output:
        output += f'\nFAILED 0 {code} the script\n'
    return output, is_late


@functools.cache
def has_namespaces():
    if shutil.which('unshare') is None:
        return False
    return subprocess.run([*NAMESPACES[:5], '--mount-proc', 'true'], check=False, capture_output=True).returncode == 0


def judge(name, output, is_late, limit_s):
    """What failed, or nothing."""
    if is_late:
        lines = [line for line in output.splitlines() if line.startswith('+')]
        return f'{name}: not done within {limit_s} s; the last command: {lines[-1] if lines else "none"}'
    failed = re.findall(r'^FAILED (\d+) (\d+) (.*)$', output, re.MULTILINE)
    if failed:
        line, code, command = failed[0]
        return f'{name}:{line}: {command}: exit code {code}'
    return None


def paths_of(names):
    """Files of what was named: documents, and folders of them."""
    for name in names:
        path = os.path.join(REPO, name)
        yield from sorted(glob.glob(os.path.join(path, '*.md'))) if os.path.isdir(path) else [path]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('documents', metavar='DOCUMENT', nargs='*', default=DOCUMENTS)
    parser.add_argument('--bin', default='build/release/bin')
    parser.add_argument('--check', action='store_true', help='run nothing, only look')
    parser.add_argument('--limit', metavar='SECONDS', type=int, help='for each document')
    parser.add_argument('--verbose', action='store_true', help='print all that commands print')
    options = parser.parse_args()
    bin_folder = os.path.join(REPO, options.bin)
    helps, looked, ran, bad, without_root = Helps(bin_folder), 0, 0, 0, []
    for path in paths_of(options.documents):
        name = os.path.relpath(path, REPO) if path.startswith(REPO) else path
        found, length = read(path)
        count, faults = check(name, found, helps)
        faults += [f'{name}:{fault}' for fault in links.broken(path)]
        looked += count
        print('\n'.join(faults), end='\n' if faults else '', flush=True)
        to_run = sum(sum(1 for _ in commands(block.lines)) for block in found if block.mode is not None)
        if faults or to_run == 0 or options.check:
            bad += bool(faults)
            continue
        if not has_namespaces() and any('sudo ' in line for block in found if block.mode for line in block.lines):
            without_root.append(name)
            continue
        since = time.monotonic()
        if run(name, found, length, bin_folder, options):
            ran += to_run
            print(f'{name}: ran {to_run} of {count} commands in {time.monotonic() - since:.0f} s', flush=True)
        else:
            bad += 1
    if looked == 0:
        print('commands.py: no commands were found')
    if without_root:
        print(f'not run, since they need root: {", ".join(without_root)}')
    print(f'looked at {looked} commands, ran {ran}; {bad} documents are wrong')
    is_everything = options.documents == DOCUMENTS and not options.check
    if is_everything and not without_root and ran < looked * RAN_LEAST:
        print(f'fewer than {RAN_LEAST:.0%} of the commands are run')
        return 1
    return 1 if bad or looked == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
