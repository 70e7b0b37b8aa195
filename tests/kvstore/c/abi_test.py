#!/usr/bin/env python3
"""The interface of libskua.so.1 is still what libskua.abi says: programs that were compiled before go on working.

  abi_test.py [--write]

abidiff (Debian: abigail-tools) compares types, sizes, offsets, enumerators and parameters. It sees a library that has all
functions of skua.h with empty bodies: handles stay opaque in it, as they are for programs. The true library is compiled with
the same header, and symbols_test.py sees to it that it has the same functions.

If the test fails, the header has changed:

  a function, a constant, a field at the end of a parameter struct is new
      Older programs go on working. Look at what abidiff says, run `abi_test.py --write`, and commit libskua.abi. New
      functions also go into deploy/debian/libskua1.symbols, with the version that brings them.
  anything else
      Programs that are installed would break without a word. Keep what was there, and add a function or field beside it.
      If it must be so: the library becomes libskua.so.2, in kvstore/c/CMakeLists.txt, skua.map and deploy/package.

Exit code 77: there is no abidiff here, or this is another architecture than the baseline's.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "..", "..", "..", "include")
BASELINE = os.path.join(HERE, "libskua.abi")
MACHINE = "x86_64"
SKIPPED = 77
# abidiff's exit code is a set of bits. 1 and 2: it could not compare.
COULD_NOT = 1 | 2
FUNCTION = re.compile(r"^SKUA_API ([^;{]*\bskua_\w+\([^;{]*\));", re.MULTILINE)


def with_bodies(header):
    """Each function of the header, defined. And how many."""
    return FUNCTION.subn(r"SKUA_API \1 { __builtin_trap(); }", header)


def make_library(header, folder):
    """A library of the header's functions."""
    text, count = with_bodies(header)
    assert count == len(re.findall(r"^SKUA_API ", header, re.MULTILINE)) > 50, f"{count} functions were found"
    source, library = os.path.join(folder, "skua.c"), os.path.join(folder, "libskua.so.1")
    with open(source, "w", encoding="ascii") as file:
        file.write(text)
    subprocess.run(["gcc", "-std=c11", "-g", "-O0", "-fPIC", "-shared", "-Wl,-soname,libskua.so.1", "-Wno-unused-parameter",
                    f"-fdebug-prefix-map={folder}=.", "-o", library, source], check=True, cwd=folder)
    return library


def write_baseline(header, folder):
    told = subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--type-id-style", "hash",
                           make_library(header, folder)], check=True, text=True, stdout=subprocess.PIPE).stdout
    with open(BASELINE, "w", encoding="ascii") as file:
        file.write(told)


def differences(header, folder):
    """What abidiff says; nothing if there is no difference."""
    done = subprocess.run(["abidiff", BASELINE, make_library(header, folder)], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert not done.returncode & COULD_NOT, done.stdout
    assert (done.returncode == 0) == (done.stdout.strip() == ""), done
    return done.stdout


# Changes of the header that must be told.
MUTANTS = (
    ("a field amid a struct", "  uint8_t if_absent; ", "  uint8_t new_field;\n  uint8_t if_absent; "),
    ("a field before the last", "  skua_token at_least; ", "  uint64_t new_field;\n  skua_token at_least; "),
    ("an enumerator's number", "SKUA_NOT_FOUND = 5", "SKUA_NOT_FOUND = 55"),
    ("a parameter's type", "skua_bytes key, int64_t delta,", "skua_bytes key, int32_t delta,"),
    ("one function less", "SKUA_API int skua_wait_fd(const skua_client* client);", ""),
    ("one function more", "SKUA_API int skua_wait_fd(", "SKUA_API int skua_new(int number);\nSKUA_API int skua_wait_fd("),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="the header as it is becomes the baseline")
    arguments = parser.parse_args()
    for tool in ("abidiff", "abidw", "gcc"):
        if shutil.which(tool) is None:
            print(f"left out: there is no {tool} (Debian: abigail-tools, gcc)")
            return SKIPPED
    if platform.machine() != MACHINE:
        print(f"left out: the baseline is of {MACHINE}, and this is {platform.machine()}")
        return SKIPPED
    with open(os.path.join(INCLUDE, "skua", "skua.h"), encoding="ascii") as file:
        header = file.read()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.write:
            write_baseline(header, folder)
            return 0
        told = differences(header, folder)
        if told:
            print(told, __doc__, sep="\n")
            return 1
        for name, old, new in MUTANTS:
            assert old in header, f"skua.h has no {old!r} any more: mend the mutant ({name})"
            if not differences(header.replace(old, new), folder):
                print(f"nobody noticed: {name}")
                return 1
    print(f"as libskua.abi says; {len(MUTANTS)} changes were noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
