#!/usr/bin/env python3
"""What the programs answer to mistakes that need no cluster."""

import contextlib
import http.server
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
import mistakes  # noqa: E402

# Those that share app/.
PROGRAMS = ("skuad", "skua-control", "skuactl", "skua-perf", "skua-gateway")


def files_limited_to(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


class StreamsTest(mistakes.MistakesTest):
    def test_help_to_a_full_device(self):
        for name in PROGRAMS:
            for words in (["--help"], ["--version"], ["--completion", "bash"], ["--man"], ["--print-config"]):
                with self.subTest(name=name, words=words), open("/dev/full", "wb") as full:
                    self.refused(self.program(name), *words, code=1, stdout=full,
                                 words=["cannot write to standard output: No space left on device"])

    def test_help_to_a_closed_stream(self):
        result = mistakes.run("sh", "-c", f"{self.program('skuactl')} --help >&-")
        self.judged(result, 1, ["cannot write to standard output: Bad file descriptor"], [])

    def test_help_to_a_reader_that_went_away(self):
        read, write = os.pipe()
        os.close(read)
        result = mistakes.run(self.program("skuad"), "--help", stdout=write)
        os.close(write)
        self.assertEqual(result.stderr, "")


class ManualTest(mistakes.MistakesTest):
    def test_mandoc_finds_nothing(self):
        if shutil.which("mandoc") is None:
            self.skipTest("mandoc is not installed")
        for name in (*PROGRAMS, "skua-tally"):
            with self.subTest(name=name):
                page = self.ok(mistakes.run(self.program(name), "--man"))
                self.assertIn(f".Dt {name.upper()} ", page)
                lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=page, text=True, capture_output=True,
                                      check=False)
                self.assertEqual((lint.stdout, lint.stderr, lint.returncode), ("", "", 0))


class LimitsTest(mistakes.MistakesTest):
    def test_few_files(self):
        for name in (*PROGRAMS, "skua-ycsb"):
            with self.subTest(name=name):
                self.refused(self.program(name), "--help", code=2, preexec_fn=files_limited_to(16),
                             words=[f"{name}: only 16 files may be open here", "ulimit -n"])

    def test_few_threads(self):
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o777)
            for name, *words in (("skua-control", "--data-dir", directory + "/c", "--listen-address", "127.0.0.1:0"),
                                 ("skuad", "--data-dir", directory + "/d"),
                                 ("skua-ycsb", "load", "basic", "-p", "recordcount=10", "-threads", "8")):
                with self.subTest(name=name):
                    self.refused(*self.as_nobody("prlimit", "--nproc=2", self.program(name), *words), code=2,
                                 words=["more threads", "ulimit -u"])
                    self.assertEqual(os.listdir(directory), [])

    def test_the_least_that_is_asked_for_is_enough(self):
        self.ok(mistakes.run(self.program("skua-perf"), "latency", "--duration", "50ms",
                             preexec_fn=files_limited_to(64)))
        self.refused(self.program("skuactl"), "--control-address", "127.0.0.1:1", "status", code=1,
                     preexec_fn=files_limited_to(64), words=["127.0.0.1:1", "cannot be reached"])


class EnvironmentTest(mistakes.MistakesTest):
    def variables(self, name):
        """Each option of the program as a variable, with the value that it has."""
        text = self.ok(mistakes.run(self.program(name), "--print-config"))
        found, table = {}, ""
        for line in text.splitlines():
            if match := re.fullmatch(r"\[(.*)\]", line):
                table = match[1].replace(".", "_").replace("-", "_") + "_"
            elif match := re.fullmatch(r"(?:# )?(\w+) = (.*?)  # .*", line):
                value = match[2].strip('"')
                found[f"SKUA_{table}{match[1]}".upper()] = "" if value == "[]" else value
        return found

    def test_one_environment_serves_all_programs(self):
        variables = {name: self.variables(name) for name in PROGRAMS}
        for name in PROGRAMS:
            for other in PROGRAMS:
                if name == other:
                    continue
                environment = {**os.environ, **{key: value for key, value in variables[other].items()
                                                if key not in variables[name]}}
                with self.subTest(name=name, other=other):
                    result = mistakes.run(self.program(name), "--print-config", env=environment)
                    self.ok(result)
                    self.assertEqual(result.stderr, "")

    def test_a_variable_that_nobody_takes(self):
        result = mistakes.run(self.program("skuactl"), "--print-config", env={**os.environ, "SKUA_CONTROL_ADDR": "h:1"})
        self.ok(result)
        self.assertIn("SKUA_CONTROL_ADDR is ignored", result.stderr)
        self.assertIn("did you mean SKUA_CONTROL_ADDRESS?", result.stderr)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def says(answer):
    """What was sent is read first: a connection that is closed before takes the answer with it."""
    return lambda peer: [peer.recv(100), peer.sendall(answer)]


class Listener:
    """Accepts one connection and gives it to `talk`."""

    def __init__(self, talk):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(mistakes.HANG_S)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, args=(talk,))
        self.thread.start()

    def serve(self, talk):
        connection, _ = self.socket.accept()
        with connection:
            talk(connection)

    def close(self):
        self.thread.join()
        self.socket.close()


class PerfTest(mistakes.MistakesTest):
    def perf(self, *words, **options):
        return mistakes.run(self.program("skua-perf"), *words, **options)

    def answered_by(self, talk, *words):
        listener = Listener(talk)
        self.addCleanup(listener.close)
        self.refused(self.program("skua-perf"), "latency", f"127.0.0.1:{listener.port}", code=2,
                     words=[f"127.0.0.1:{listener.port}", "skua-perf server --listen", *words])

    def server(self, *words):
        """A skua-perf server and its address."""
        process = subprocess.Popen([self.program("skua-perf"), "server", "--listen", "127.0.0.1:0", *words],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, re.search(r"serving on (\S+);", process.stderr.readline())[1]

    def test_options(self):
        for words, told in (
                (["latency", "localhost"], "has no port: write HOST:PORT"),
                (["latency", ""], "SERVER is empty"),
                (["latency", "http://localhost:1"], "leave out http://"),
                (["rate", "0.0.0.0:1"], "means every address"),
                (["read-lat", "::1"], "write it in brackets"),
                (["server", "--listen", "7400"], "has no host"),
                (["server", "--listen", "192.0.2.1:1"], "choose an address of this machine"),
                (["latency", "--duration", "2500000h"], "100 years at most"),
                (["latency", "--duration", "40h"], "1ms to 24h"),
                (["latency", "--size", "999TiB"], "4B to 16MiB"),
                (["latency", "--dpdk-mtu", "1500"], "--dpdk-mtu is for --transport dpdk"),
                (["latency", "--active-sessions", "3", "--sessions", "2"], "is more than --sessions 2"),
                (["help"], "did you mean --help?")):
            with self.subTest(words=words):
                self.refused(self.program("skua-perf"), *words, code=2, words=[told])

    def test_what_dpdk_prints_is_one_line(self):
        result = self.perf("latency", "--transport", "dpdk", "--dpdk-devices", "net_null0", "--dpdk-addresses",
                           "10.0.0.1/24", "--no-dpdk-huge-pages", "--dpdk-eal", "--frobnicate")
        if "without DPDK" in result.stderr:
            self.skipTest("built without DPDK")
        self.judged(result, 2, ["DPDK does not start", "unrecognized option '--frobnicate'"], [])
        self.assertEqual(result.stdout, "")

    def test_nobody_there(self):
        self.refused(self.program("skua-perf"), "latency", f"127.0.0.1:{free_port()}", code=1,
                     words=["Connection refused", "skua-perf server --listen"])

    def test_a_server_by_its_name(self):
        _, address = self.server()
        self.ok(self.perf("latency", f"localhost:{address.split(':')[1]}", "--duration", "10ms", "--warm-up", "0"))

    def test_a_web_server(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        server.RequestHandlerClass.log_message = lambda *ignored: None
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        self.refused(self.program("skua-perf"), "latency", f"127.0.0.1:{server.server_port}", code=2,
                     words=["is a web server, not a skua-perf server"])
        thread.join()
        server.server_close()

    def test_something_else(self):
        # The settings frame that a gRPC server begins with.
        self.answered_by(says(b"\0\0\x06\4\0\0\0\0\0\0\5\0\0\x40\0"), "is a gRPC server")
        self.answered_by(says(b"SSH-2.0-OpenSSH_9.2\r\n"), "is something else")
        self.answered_by(says(b"SKUAPERF9\n"), "another version")
        self.answered_by(lambda peer: peer.recv(100), "closed the connection")
        self.answered_by(lambda peer: [peer.recv(100), peer.recv(100)], "does not answer as a skua-perf server does")

    def test_a_wrong_client(self):
        process, address = self.server("--once")
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            # Until the server is through with it.
            with contextlib.suppress(ConnectionResetError):
                client.makefile("rb").read()
        self.assertIn("is no skua-perf", process.stderr.readline())
        self.assertEqual(process.wait(30), 1)

    def test_a_refusal_reaches_the_client(self):
        process, address = self.server()
        with socket.create_connection(tuple(address.split(":"))) as client:
            # A plan with memory, which tcp cannot serve, and a descriptor that is none.
            client.sendall(b"SKUAPERF3\n" + bytes(5) + (4096).to_bytes(4, "little") + b"\1\0x")
            answer = client.makefile("rb").read()
        self.assertTrue(answer.startswith(b"SKUAPERF3\n\1"), answer)
        self.assertIn(b"endpoint descriptor", answer)
        self.assertIn("endpoint descriptor", process.stderr.readline())

    def test_a_busy_port(self):
        _, address = self.server()
        self.refused(self.program("skua-perf"), "server", "--listen", address, code=2,
                     words=["Address already in use", "--listen"])

    def stopped(self, *words):
        process = subprocess.Popen([self.program("skua-perf"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        # It catches signals once it has threads; the test's thread is among them.
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        return out, err

    def test_interrupt_while_measuring(self):
        out, err = self.stopped("latency", "--duration", "1h", "--warm-up", "0")
        self.assertIn("stopped", err)
        if "nothing" not in err and "anything" not in err:
            self.assertIn("calls", out)
            self.assertIn("of 3600.0 s", err)

    def test_interrupt_while_warming_up(self):
        self.assertIn("stopped before anything was measured", self.stopped("latency", "--warm-up", "1h")[1])

    def test_a_full_device(self):
        for output in ("text", "json"):
            with open("/dev/full", "wb") as full:
                self.refused(self.program("skua-perf"), "--output", output, "latency", "--duration", "10ms", code=1,
                             stdout=full, words=["cannot write to standard output: No space left on device"])


class ConfigFileTest(mistakes.MistakesTest):
    def test_files_that_are_none(self):
        with tempfile.TemporaryDirectory() as directory:
            for name, content, told in (("binary", b"\x7fELF\0\1", "is not text in UTF-8"),
                                        ("yaml", b"listen_address: x\n", "expected '='"),
                                        ("twice", b"zone = 'a'\nzone = 'b'\n", "there is a second 'zone'"),
                                        ("other", b"zoen = 'a'\n", "did you mean zone?")):
                path = os.path.join(directory, name)
                with open(path, "wb") as file:
                    file.write(content)
                self.refused(self.program("skuad"), "--config", path, words=[path, told])
            self.refused(self.program("skuad"), "--config", directory, words=[directory, "is a directory"])


if __name__ == "__main__":
    mistakes.main()
