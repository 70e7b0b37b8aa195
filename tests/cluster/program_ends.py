"""How programs ended that nobody told to end.

Debian's RocksDB is built with its assertions, and one of them fails when a file is closed that could not be written
because the disk was full. Such an end is counted and told, and people start the node again. Any other is a failure.
"""

import collections
import re
import signal

LAST_WORDS = 4000
# What an assertion or a CHECK says: [PROGRAM: ]FILE:LINE: what.
CLAIM = re.compile(r"^(?:[\w-]+: )?\S+\.(?:c|cc|cpp|h|hh|hpp):\d+: .*$", re.MULTILINE)
FULL_DISK = re.compile(r"writable_file_writer\.h:\d+: .*WritableFileWriter.*: Assertion .* failed")


def is_full_disk_abort(code, words):
    """Of a program with that exit code and these words in its log since it was started."""
    claims = CLAIM.findall(words[-LAST_WORDS:])
    return code == -signal.SIGABRT and bool(claims) and FULL_DISK.search(claims[-1]) is not None


class ProgramEnds:
    def __init__(self):
        self.full_disk = collections.Counter()  # by the program's name
        self.others = []

    def note(self, name, code, words, disk_was_full):
        """Returns whether it is to be started again."""
        if disk_was_full and is_full_disk_abort(code, words):
            self.full_disk[name] += 1
            return True
        claims = CLAIM.findall(words[-LAST_WORDS:])
        self.others.append(f"{name} ended with {code}{': ' + claims[-1] if claims else ''}")
        return False

    def line(self):
        which = ", ".join(f"{name} {count}" for name, count in sorted(self.full_disk.items()))
        return (f"nodes that RocksDB's assertion about full disks ended: {sum(self.full_disk.values())}"
                f"{' (' + which + ')' if which else ''}")
