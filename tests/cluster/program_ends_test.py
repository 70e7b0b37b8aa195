#!/usr/bin/env python3
"""Which ends of a program mixture_test.py forgives."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program_ends import ProgramEnds

ROCKSDB = ("skuad: ./file/writable_file_writer.h:309: rocksdb::IOStatus "
           "rocksdb::WritableFileWriter::AssertFalseAndGetStatusForPrevError(): Assertion `sync_without_flush_called_' "
           "failed.\n")
CHECK = "kvstore/engine/engine.cc:12: a check failed: nothing is lost\n"
NO_SPACE = "2026-01-01 E write failed: IO error: No space left on device: While appending to file\n"


class ProgramEndsTest(unittest.TestCase):
    def forgiven(self, code, words, disk_was_full=True):
        ends = ProgramEnds()
        again = ends.note("node1", code, words, disk_was_full)
        self.assertEqual(again, not ends.others)
        self.assertEqual(ends.full_disk["node1"], int(again))
        return again

    def test_rocksdb_assertion_on_a_disk_that_was_full(self):
        self.assertTrue(self.forgiven(-signal.SIGABRT, NO_SPACE + ROCKSDB))

    def test_rocksdb_assertion_on_a_disk_that_was_not(self):
        self.assertFalse(self.forgiven(-signal.SIGABRT, ROCKSDB, disk_was_full=False))

    def test_other_signal(self):
        self.assertFalse(self.forgiven(-signal.SIGSEGV, ROCKSDB))

    def test_abort_without_a_word(self):
        self.assertFalse(self.forgiven(-signal.SIGABRT, NO_SPACE))

    def test_own_check(self):
        self.assertFalse(self.forgiven(-signal.SIGABRT, CHECK))

    def test_own_check_after_it(self):
        self.assertFalse(self.forgiven(-signal.SIGABRT, ROCKSDB + CHECK))

    def test_other_assertion_of_rocksdb(self):
        other = ROCKSDB.replace("writable_file_writer.h", "version_set.cc").replace("WritableFileWriter", "VersionSet")
        self.assertFalse(self.forgiven(-signal.SIGABRT, other))

    def test_line(self):
        ends = ProgramEnds()
        self.assertTrue(ends.line().endswith(": 0"))
        for name in ("node2", "node1", "node2"):
            ends.note(name, -signal.SIGABRT, ROCKSDB, True)
        self.assertTrue(ends.line().endswith(": 3 (node1 1, node2 2)"), ends.line())


if __name__ == "__main__":
    unittest.main(verbosity=2)
