#!/usr/bin/env python3
"""The shell of skuactl, at a terminal and with a script, over a cluster of one node.   shell_test.py --bin build/release/bin"""

import argparse
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cluster"))
import cluster_test
from cluster_test import Cluster, wait_for

LIMIT_S = 60


class Terminal:
    """skuactl with a terminal of its own, and what it wrote there."""

    def __init__(self, home, *arguments):
        environment = {**os.environ, "HOME": home, "TERM": "xterm"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(f"{cluster_test.BIN}/skuactl", ["skuactl", *arguments], environment)
        self.text = ""

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def expect(self, words):
        """Waits until `words` are there, behind all that was expected before."""
        end = time.monotonic() + LIMIT_S
        while words not in self.text:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                got = os.read(self.fd, 4096).decode(errors="replace") if ready else ""
            except OSError:  # the program has ended
                got = ""
            if not got:
                raise AssertionError(f"{words!r} did not come; there was: {self.text!r}")
            self.text += got
        seen, self.text = self.text.split(words, 1)
        return seen

    def code(self):
        """The exit code. The shell must be about to end."""
        end = time.monotonic() + LIMIT_S
        while True:
            ended, state = os.waitpid(self.pid, os.WNOHANG)
            if ended != 0:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(state)
            if time.monotonic() > end:
                raise AssertionError(f"the shell does not end; there was: {self.text!r}")
            time.sleep(0.1)


class ShellTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(1)
        for table in ("notes", "numbers"):
            made = cls.cluster.ctl("table", "create", table, "--shards", "1")
            assert made.returncode == 0, made.stderr
        cls.home = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()
        cls.cluster.close()

    def terminal(self):
        terminal = Terminal(self.home.name, "--control-address", self.cluster.control_address, "shell")
        terminal.expect("skuactl> ")
        return terminal

    def script(self, text, *options):
        """`text`: the commands, or an open file with them."""
        return subprocess.run([f"{cluster_test.BIN}/skuactl", "--control-address", self.cluster.control_address, "shell", *options],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              **({"input": text} if isinstance(text, str) else {"stdin": text}))

    def test_Script_InAFileRunsEachLineOnce(self):
        path = os.path.join(self.home.name, "commands.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("add numbers visits 1\n" * 3 + "get numbers visits\n")
        with open(path, encoding="utf-8") as file:
            result = self.script(file)
        self.assertEqual(result.stdout.split()[-1], "3", result)
        self.assertEqual(result.returncode, 0, result)

    def test_Terminal_CompletesCommandsTablesAndNodesAndRunsThem(self):
        terminal = self.terminal()
        terminal.type("pu\tnot\tgreeting 'hello world'\n")
        terminal.expect("written, version")
        terminal.type("get n\t")  # two tables begin with it
        terminal.expect("notes  numbers")
        terminal.type("otes greeting\n")
        terminal.expect("hello world\r\n")
        terminal.expect("skuactl> ")
        terminal.type("node drain 12\t")
        terminal.expect(f"7.0.0.1:{self.cluster.grpc_ports[0]}")  # the rest, at the cursor
        terminal.type("\x03")
        terminal.expect("skuactl> ")
        terminal.type("help get\n")
        terminal.expect("usage: skuactl get")
        terminal.type("get notes nobody\n")
        terminal.expect("has no key")
        terminal.expect("skuactl> ")
        terminal.type("exit\n")
        self.assertEqual(terminal.code(), 1, "the code of the last command")

    def test_Terminal_RemembersLinesAndCtrlCEndsTheCommandOnly(self):
        terminal = self.terminal()
        terminal.type("put notes remembered yes\n")
        terminal.expect("written, version")
        terminal.expect("skuactl> ")
        terminal.type("exit\n")
        self.assertEqual(terminal.code(), 0)
        terminal = self.terminal()
        terminal.type("\x1b[A\x1b[A")
        terminal.expect("put notes remembered yes")
        terminal.type("\x03")
        terminal.expect("skuactl> ")
        # It reads from the terminal until it is interrupted.
        terminal.type("put notes typed --file -\n")
        terminal.expect("Ctrl-D")
        terminal.type("\x03")
        terminal.expect("skuactl> ")
        terminal.type("\x04")
        self.assertEqual(terminal.code(), 130)

    def test_Script_RunsEachLineAndStopsAtAFailure(self):
        done = self.script("# numbers\nput numbers one 1\nskuactl get numbers one\n\nget numbers none\nput numbers two 2\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n1\n", done.stdout)
        self.assertIn("line 5 failed", done.stderr)
        self.assertEqual(self.cluster.ctl("get", "numbers", "two").returncode, 1)
        done = self.script("get numbers none\nput numbers three 3\n", "--keep-going")
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1 failed", done.stderr)
        self.assertEqual(self.cluster.ctl("get", "numbers", "three").stdout, "3\n")

    def test_Script_RefusesWhatMakesNoSense(self):
        for text, code, words in (("get 'notes\n", 2, "line 1: a quote has no end"), ("shell\n", 2, "this is the shell already"),
                                  ("--timeout=2s shell\n", 2, "this is the shell already"),
                                  ("foo\n", 2, "unknown command foo"), ("exit\nfoo\n", 0, ""), ("", 0, "")):
            done = self.script(text)
            self.assertEqual(done.returncode, code, text)
            self.assertIn(words, done.stderr)

    def test_Script_IsNotReadByItsCommands(self):
        done = self.script("put notes empty --file -\nget notes empty\n")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("cannot read standard input", done.stderr)
        self.assertEqual(self.cluster.ctl("get", "notes", "empty").returncode, 1)

    def test_Script_ThatCannotBeReadIsAFailure(self):
        with open("/dev/null", "wb") as unreadable:
            done = subprocess.run([f"{cluster_test.BIN}/skuactl", "shell"], stdin=unreadable, capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read standard input", done.stderr)

    def test_Script_LineThatAReadErrorCutsDoesNotRun(self):
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)  # a read of an empty pipe is an error then
        os.write(theirs, b"help\nno such")
        done = subprocess.run([f"{cluster_test.BIN}/skuactl", "shell", "--keep-going"], stdin=ours, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        os.close(ours)
        os.close(theirs)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("unknown command", done.stderr)
        self.assertIn("cannot read standard input to its end", done.stderr)

    def test_Script_EndsWithCtrlCAlsoIfItKeepsGoing(self):
        # A control plane that takes connections and says nothing.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            shell = subprocess.Popen(
                [f"{cluster_test.BIN}/skuactl", "--control-address", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "60s",
                 "shell", "--keep-going"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
            shell.stdin.write("status\nstatus\nstatus\n")
            shell.stdin.close()
            silent.settimeout(LIMIT_S)
            connection, _ = silent.accept()  # the first command waits for an answer
            os.killpg(shell.pid, signal.SIGINT)
            self.assertEqual(shell.wait(LIMIT_S), -signal.SIGINT)
            self.assertEqual(shell.stderr.read(), "")
            shell.stderr.close()
            connection.close()

    def test_Script_EndsWithCtrlCThatItsCommandTakes(self):
        # It waits for lines, and ends in order, with code 1 and words of its own.
        fifo = os.path.join(self.home.name, "lines")
        os.mkfifo(fifo)
        shell = subprocess.Popen(
            [f"{cluster_test.BIN}/skuactl", "--control-address", self.cluster.control_address, "shell", "--keep-going"],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(shell.kill)
        shell.stdin.write(f"import numbers --file {fifo}\nput numbers behind 1\n")
        shell.stdin.close()
        with open(fifo, "w", encoding="utf-8") as lines:
            lines.write('{"key":"first","value":"v"}\n')
            lines.flush()
            wait_for("the line to be stored", lambda: self.cluster.ctl("exists", "numbers", "first").returncode == 0)
            os.killpg(shell.pid, signal.SIGINT)
            self.assertEqual(shell.wait(LIMIT_S), -signal.SIGINT)
        self.assertIn("CANCELLED: interrupted", shell.stderr.read())
        shell.stderr.close()
        self.assertEqual(self.cluster.ctl("get", "numbers", "behind").returncode, 1)

    def test_Shell_TakesItsCommandWithItWhenItIsKilled(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            shell = subprocess.Popen(
                [f"{cluster_test.BIN}/skuactl", "--control-address", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "600s",
                 "shell"], stdin=subprocess.PIPE, text=True)
            shell.stdin.write("status\n")
            shell.stdin.close()
            silent.settimeout(LIMIT_S)
            connection, _ = silent.accept()
            shell.kill()
            shell.wait()
            connection.settimeout(LIMIT_S)
            while connection.recv(4096):  # until the command's end of the connection is closed
                pass
            connection.close()

    def test_Terminal_IsSetBackWhenASignalEndsTheShell(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            terminal = self.terminal()
            os.kill(terminal.pid, signal.SIGQUIT)  # nothing to quit
            os.kill(terminal.pid, number)
            terminal.expect("\n")
            settings = termios.tcgetattr(terminal.fd)
            self.assertTrue(settings[3] & termios.ECHO and settings[3] & termios.ICANON)
            self.assertEqual(terminal.code(), 128 + number)

    def test_History_HasNoSecrets(self):
        terminal = self.terminal()
        for line in ("cert join skua-join-secret", " get notes hidden", "get notes shown"):
            terminal.type(line + "\n")
            terminal.expect("skuactl: ")
            terminal.expect("skuactl> ")
        with open(os.path.join(self.home.name, ".skuactl_history"), encoding="utf-8") as history:
            lines = history.read().splitlines()
        self.assertEqual(lines[-1], "get notes shown")
        self.assertFalse([line for line in lines if "secret" in line or "hidden" in line])
        terminal.type("exit\n")
        terminal.code()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    cluster_test.BIN = os.path.abspath(arguments.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
