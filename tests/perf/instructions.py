#!/usr/bin/env python3
"""How many instructions a call of 32 bytes takes, both sides and transport, against what is recorded in instructions.txt.

  instructions.py --bin build/release/bin              compares: exit code 1 if a case takes 3 % more than recorded
  instructions.py --bin build/release/bin --record     writes what it takes now into instructions.txt

valgrind's callgrind counts, so that figures repeat exactly for one build; compilers and versions of libraries change them.
A case that takes 3 % less fails as well: record it, so that it does not get lost.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, 'instructions.txt')
HEAD = """# Instructions a call of 32 bytes, both sides and transport: wire (two arrays of packets) or dpdk (its ring device), and how many
# calls are in flight. Written by tests/perf/instructions.py --record.
"""
CASES = [('wire', 32), ('wire', 1), ('dpdk', 32), ('dpdk', 1)]
CALLS = 5000
TOLERANCE = 0.03
SKIPPED = 77


def count(program, wire, in_flight):
    """Instructions a call."""
    done = subprocess.run(
        ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', '--collect-atstart=no',
         '--toggle-collect=skua::rpc::count_calls*', program, wire, str(in_flight), str(CALLS)],
        capture_output=True, text=True, timeout=600, check=False)
    collected = re.search(r'Collected : (\d+)', done.stderr)
    calls = done.stdout.strip().splitlines()[-1:] or ['']
    if done.returncode != 0 or collected is None or not calls[0].isdigit():
        sys.exit(f'instructions: {program} {wire} {in_flight} did not end well:\n{done.stdout}{done.stderr}')
    return int(collected.group(1)) / int(calls[0])


def read_recorded():
    with open(RECORDED, encoding='ascii') as text:
        rows = [line.split() for line in text if line.strip() and not line.startswith('#')]
    return {(wire, int(in_flight)): int(figure) for wire, in_flight, figure in rows}


def compare(measured, recorded):
    failed = False
    for (wire, in_flight), figure in measured.items():
        before = recorded.get((wire, in_flight))
        ratio = figure / before if before else float('inf')
        word = 'more' if ratio > 1 + TOLERANCE else 'less' if ratio < 1 - TOLERANCE else 'as before'
        failed = failed or word != 'as before'
        print(f'{wire:5} {in_flight:4} in flight: {figure:6.0f} instructions a call, recorded {before}: {word}')
    if failed:
        print('instructions: find out why; if it is as it should be, record it: tests/perf/instructions.py --bin ... --record')
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', required=True, help='where call_instructions is')
    parser.add_argument('--record', action='store_true', help='write what is measured instead of comparing')
    arguments = parser.parse_args()
    if shutil.which('valgrind') is None:
        print('skipped: valgrind is not installed')
        return SKIPPED
    program = os.path.join(arguments.bin, 'call_instructions')
    measured = {case: count(program, *case) for case in CASES}
    if not arguments.record:
        return compare(measured, read_recorded())
    with open(RECORDED, 'w', encoding='ascii') as text:
        text.write(HEAD)
        text.writelines(f'{wire:5} {in_flight:4} {figure:8.0f}\n' for (wire, in_flight), figure in measured.items())
    print(f'recorded in {RECORDED}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
