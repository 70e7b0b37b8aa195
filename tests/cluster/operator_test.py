#!/usr/bin/env python3
"""What an operator sees of the servers: their pages over HTTP, and what they tell the service manager."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import mistakes  # noqa: E402

LIMIT_S = 60
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? ([0-9.e+]+|[+-]Inf)$')


def wait_for(what, condition):
    """The condition's value once it is true."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {LIMIT_S} s: {what}")


def get(address, path, accept=None):
    """Status, type and text."""
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def faults_of(text):
    """What is wrong with OpenMetrics: families without HELP or TYPE, samples of no family, samples that repeat."""
    lines = text.split("\n")
    faults = [] if lines[-2:] == ["# EOF", ""] else ["it does not end with # EOF"]
    types, helps, seen = {}, set(), set()
    for line in lines[:-2]:
        if line.startswith("# HELP "):
            helps.add(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            faults += [f"{name} has two types"] if name in types else []
            types[name] = kind
        elif not (match := SAMPLE.match(line)):
            faults.append(f"no sample: {line}")
        else:
            name = match[1]
            for suffix, kind in (("_total", "counter"), ("_bucket", "histogram"), ("_sum", "histogram"),
                                 ("_count", "histogram"), ("", "gauge")):
                if name.endswith(suffix) and types.get(name.removesuffix(suffix)) == kind:
                    break
            else:
                faults.append(f"of no family: {line}")
            faults += [f"repeats: {line}"] if (name, match[2]) in seen else []
            seen.add((name, match[2]))
    return faults + [f"{name} has no HELP" for name in types if name not in helps]


class Server:
    """A program of the test, with a socket that it takes for the service manager's."""

    def __init__(self, case, name, *words):
        self.folder = case.folder
        self.log = os.path.join(case.folder, name + ".log")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        case.addCleanup(self.manager.close)
        self.manager.settimeout(LIMIT_S)
        path = os.path.join(case.folder, name + ".notify")
        self.manager.bind(path)
        environment = {**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([case.program(name), *words, "--http-address", "127.0.0.1:0"],
                                            stderr=log, stdout=log, env=environment)
        case.addCleanup(self.end)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()

    def text(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def logged(self, word):
        """The value of word= in the log."""
        def look():
            if self.process.poll() is not None:
                raise AssertionError(self.text())
            return re.search(rf'\b{word}="?([^\s"]+)', self.text())
        return wait_for(f"{word} in {self.log}", look)[1]

    def hears(self, pattern):
        """Reads messages until one matches."""
        heard = []
        while not heard or not re.fullmatch(pattern, heard[-1]):
            heard.append(self.manager.recv(4096).decode())
        return heard


class OperatorTest(mistakes.MistakesTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="skua-operator-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.control = Server(self, "skua-control", "--data-dir", self.folder + "/c",
                              "--listen-address", "127.0.0.1:0")
        self.control_address = self.control.logged("address")
        self.node = Server(self, "skuad", "--data-dir", self.folder + "/n", "--control-address", self.control_address,
                           "--grpc-address", "127.0.0.1:0", "--data-address", "127.0.0.1:0", "--workers", "2",
                           "--memory", "256MiB")

    def start_gateway(self):
        wait_for("a table", lambda: mistakes.run(self.program("skuactl"), "--control-address", self.control_address,
                                                 "table", "create", "cache", "--if-not-exists").returncode == 0)
        return Server(self, "skua-gateway", "--databases", "0=cache", "--control-address", self.control_address,
                      "--listen-address", "127.0.0.1:0")

    def becomes_ready(self, server):
        address = server.logged("http_address")
        wait_for("readiness", lambda: get(address, "/readyz")[0] == 200)
        return address

    def check_metrics(self, address, *wanted):
        status, kind, text = get(address, "/metrics", OPEN_METRICS)
        self.assertEqual((status, kind), (200, OPEN_METRICS + "; charset=utf-8"))
        self.assertEqual(faults_of(text), [])
        self.assertEqual(get(address, "/metrics")[1], "text/plain; version=0.0.4; charset=utf-8")
        plain = get(address, "/metrics")[2]
        for line in wanted:
            self.assertIn(line + "\n", plain)
        if shutil.which("promtool") is not None:
            done = subprocess.run(["promtool", "check", "metrics"], input=plain, capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_pages_of_all_servers(self):
        gateway = self.start_gateway()
        address = self.becomes_ready(self.node)
        self.assertEqual(get(address, "/livez"), (200, "text/plain; charset=utf-8", "ok\n"))
        self.assertIn("[+]replicas-current ok\nreadyz check passed\n", get(address, "/readyz?verbose")[2])
        self.check_metrics(address, 'skua_worker_up{worker="1"} 1', "skua_ready 1",
                           'skua_requests_total{worker="0",method="GET",status="NOT_FOUND"} 0')
        address = self.becomes_ready(self.control)
        self.assertIn("[+]leader ok: leads\n[+]metadata ok\n", get(address, "/readyz?verbose")[2])
        self.check_metrics(address, "skua_control_leader 1", 'skua_control_nodes{liveness="alive"} 1',
                           'skua_control_nodes{liveness="stopped"} 0', 'skua_control_shards{state="unavailable"} 0')
        address = self.becomes_ready(gateway)
        self.assertEqual(get(address, "/livez")[0], 200)
        self.check_metrics(address, "skua_gateway_connections 0", "skua_gateway_commands_total 0",
                           "skua_gateway_control_reachable 1")
        self.control.end()
        status, _, text = get(address, "/readyz?verbose")
        self.assertEqual(status, 200)
        self.assertIn("[+]threads ok\n[+]control-plane ok: away, goes on without: ", text)
        self.check_metrics(address, "skua_gateway_control_reachable 0")
        self.assertEqual(get(address, "/livez")[0], 200)
        gateway.process.send_signal(signal.SIGTERM)
        self.assertIn("READY=1", gateway.hears("STOPPING=1"))

    def test_the_service_manager_hears(self):
        for server in (self.control, self.node):
            heard = server.hears("STATUS=ready")
            self.assertEqual(heard[0], "STATUS=starting")
            self.assertTrue(any(message.startswith("EXTEND_TIMEOUT_USEC=") for message in heard), heard)
            self.assertIn("READY=1", heard)
            server.hears("WATCHDOG=1")
        self.node.process.send_signal(signal.SIGTERM)
        self.node.hears("STOPPING=1")
        self.assertEqual(self.node.process.wait(LIMIT_S), 0)

    def test_a_node_without_a_control_plane_is_alive_and_not_ready(self):
        self.becomes_ready(self.node)
        self.node.end()
        self.control.end()
        os.remove(os.path.join(self.folder, "skuad.notify"))
        node = Server(self, "skuad", "--data-dir", self.folder + "/n", "--control-address", self.control_address,
                      "--grpc-address", "127.0.0.1:0", "--data-address", "127.0.0.1:0", "--workers", "2",
                      "--memory", "256MiB")
        node.hears("READY=1")
        address = node.logged("http_address")
        status, _, text = get(address, "/readyz?verbose")
        self.assertEqual(status, 503)
        self.assertIn("[-]registered failed: the control plane has not registered this node yet\n[+]recovered ok\n",
                      text)
        self.assertEqual(get(address, "/livez")[0], 200)


class MistakesTest(mistakes.MistakesTest):
    def test_other_machines_need_a_persons_word(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, *words in (("skuad", "--data-dir", folder), ("skua-control", "--data-dir", folder),
                                 ("skua-gateway", "--databases", "0=t")):
                with self.subTest(name=name):
                    self.refused(self.program(name), *words, "--http-address", "0.0.0.0:0", code=2,
                                 words=["--http-address 0.0.0.0:0", "--http-security off-unsafe"])
                    self.refused(self.program(name), *words, "--http-address", "nowhere", code=2,
                                 words=["has no port"])

    def test_a_port_in_use(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.refused(self.program("skua-control"), "--data-dir", folder, "--listen-address", "127.0.0.1:0",
                         "--http-address", address, code=2, words=[address])
            self.assertEqual(os.listdir(folder), [])

    def test_the_checker_of_metrics_finds_faults(self):
        good = '# HELP a A.\n# TYPE a counter\na_total{x="1"} 3\n# EOF\n'
        self.assertEqual(faults_of(good), [])
        for bad in (good.replace("# EOF\n", ""), good.replace("# HELP a A.\n", ""), good.replace("a_total", "b_total"),
                    good.replace("# EOF", 'a_total{x="1"} 4\n# EOF'), good.replace(" 3", " x")):
            self.assertNotEqual(faults_of(bad), [], bad)


if __name__ == "__main__":
    mistakes.main()
