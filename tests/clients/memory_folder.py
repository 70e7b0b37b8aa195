"""Where clusters of these tests keep their data. The tests send one command after the other; none is of disks."""

import os
import shutil

MEMORY = "/dev/shm"
ROOM_BYTES = 4 << 30


def memory_folder():
    """For tempfile.tempdir. None: there is not enough memory; the usual folder."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        return MEMORY
    return None
