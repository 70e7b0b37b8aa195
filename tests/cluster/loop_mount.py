"""A file system of its own for a test's data: an ext4 on a loop device, as root; else the temporary directory."""

import os
import shutil
import subprocess
import tempfile


class LoopMount:
    """with LoopMount(64) as mount: ... mount.path, mount.description, mount.is_own"""

    def __init__(self, mib):
        self.mib = mib
        self.path = tempfile.mkdtemp(prefix="skua-loop-mount.")
        self.image = self.path + ".img"
        self.is_own = False
        self.description = f"{self.path} (no file system of its own: that needs root, mkfs.ext4 and a loop device)"

    def __enter__(self):
        try:
            with open(self.image, "wb") as image:
                image.truncate(self.mib << 20)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", self.image], check=True, capture_output=True)
            subprocess.run(["mount", "-o", "loop", self.image, self.path], check=True, capture_output=True)
            self.is_own = True
            self.description = f"an ext4 of {self.mib} MiB on a loop device"
        except (OSError, subprocess.CalledProcessError):
            pass
        return self

    def __exit__(self, *_):
        if self.is_own:
            # A killed process may hold it for a moment longer.
            if subprocess.run(["umount", self.path], check=False, capture_output=True).returncode != 0:
                subprocess.run(["umount", "-l", self.path], check=False)
        if os.path.exists(self.image):
            os.unlink(self.image)
        shutil.rmtree(self.path, ignore_errors=True)
