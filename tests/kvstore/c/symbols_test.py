#!/usr/bin/env python3
"""What libskua.so shows to programs: the functions of skua.h, and nothing else.

  symbols_test.py --library build/release/lib/libskua.so.1
"""

import argparse
import os
import re
import subprocess
import sys
import unittest

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "include", "skua", "skua.h")
LIBRARY = None


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class SymbolsTest(unittest.TestCase):
    def test_exports_what_the_header_declares(self):
        with open(HEADER, encoding="utf-8") as header:
            declared = set(re.findall(r"^SKUA_API [\w\s*]*?\b(skua_\w+)\(", header.read(), re.MULTILINE))
        self.assertGreater(len(declared), 50)
        exported = {}
        for line in output("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY).splitlines():
            name, _, version = line.split()[-1].partition("@@")
            exported[name] = version
        self.assertEqual(exported.pop("SKUA_1.0", ""), "")  # the version itself
        self.assertEqual(set(exported), declared)
        self.assertEqual(set(exported.values()), {"SKUA_1.0"})

    def test_is_named_by_its_abi_and_needs_no_devices_libraries(self):
        dynamic = output("readelf", "-d", LIBRARY)
        self.assertIn("soname: [libskua.so.1]", dynamic)
        for foreign in ("librte_", "libibverbs", "librocksdb", "libspdlog"):
            self.assertNotIn(foreign, dynamic)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    arguments, rest = parser.parse_known_args()
    LIBRARY = arguments.library
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
