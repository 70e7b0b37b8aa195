"""Programs that a measurement starts."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

START_WITHIN_S = 120
END_WITHIN_S = 60


def fail(text):
    sys.exit(f'{os.path.basename(sys.argv[0])}: {text}')


class Processes:
    """A folder, and programs that run while it is there. What they print goes to the folder's `log`."""

    def __init__(self, bin_folder):
        self.bin = bin_folder
        self.running = []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='skua-perf-')
        self.log = open(os.path.join(self.folder, 'log'), 'wb')  # pylint: disable=consider-using-with
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def program(self, name):
        return os.path.join(self.bin, name)

    def start(self, *words):
        if shutil.which(words[0]) is None:
            fail(f'no program {words[0]}: build it first (cmake --build --preset release)')
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)  # pylint: disable=consider-using-with
        self.running.append(process)
        return process

    def wait_until(self, words):
        """Until the command succeeds."""
        deadline = time.monotonic() + START_WITHIN_S
        while subprocess.run(words, capture_output=True, check=False).returncode != 0:
            if time.monotonic() > deadline:
                fail(f'the programs do not start; see {self.folder}/log')
            time.sleep(0.2)
