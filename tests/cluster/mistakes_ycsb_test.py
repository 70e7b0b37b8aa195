#!/usr/bin/env python3
"""Mistakes of the first hour with skua-ycsb.

  mistakes_ycsb_test.py --bin build/release/bin [WORD]
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import cluster_test
import mistakes

WORKLOADS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "ycsb", "workloads")
A = os.path.join(WORKLOADS, "workloada")
NO_SKUA = {name: value for name, value in os.environ.items() if not name.startswith("SKUA_")}


class Ycsb(mistakes.MistakesTest):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="skua-mistakes-ycsb.")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def path(self, name, text=None):
        path = os.path.join(self.directory, name)
        if text is not None:
            with open(path, "w" if isinstance(text, str) else "wb") as file:
                file.write(text)
        return path

    def ycsb(self, *words, environment=None, **options):
        return mistakes.run(self.program("skua-ycsb"), *words, env={**NO_SKUA, **(environment or {})}, **options)

    def usage(self, *words, says=(), **options):
        """Exit code 2, and one line."""
        return self.judged(self.ycsb(*words, **options), 2, says)

    def failed(self, *words, says=(), code=1, **options):
        """The last line of standard error has the words; a run says before what it begins."""
        result = self.ycsb(*words, **options)
        self.assertEqual(result.returncode, code, (result.stdout or "") + result.stderr)
        last = result.stderr.splitlines()[-1]
        for word in says:
            self.assertIn(word, last)
        return result

    @contextlib.contextmanager
    def started(self, *words):
        process = subprocess.Popen([self.program("skua-ycsb"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=NO_SKUA)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def await_line(self, process, words):
        self.assertTrue(any(words in line for line in process.stderr), f"no line with {words}")

    def server(self, answer=b""):
        """A server of another kind, on the port that it returns: reads, says `answer` and closes; or says nothing."""
        listener = socket.create_server(("127.0.0.1", 0))
        connections = []

        def talk(connection):
            with contextlib.suppress(OSError), connection:
                connection.recv(4096)
                connection.sendall(answer)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    if answer:
                        threading.Thread(target=talk, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()

        def close():
            listener.close()
            for connection in connections:
                connection.close()

        self.addCleanup(close)
        return listener.getsockname()[1]


class CommandLine(Ycsb):
    def test_PropertyFiles(self):
        self.usage("run", "basic", "-P", "/tmp", says=["/tmp is a directory"])
        self.usage("run", "basic", "-P", self.path("nothing"), says=["nothing: No such file or directory"])
        self.usage("run", "basic", "-P", "workloads/workloada", says=["those of this project are in ycsb/workloads"])
        self.usage("run", "basic", "-P", self.program("skua-ycsb"), says=["line 1 is no text; is it a property file?"])
        self.usage("run", "basic", "-P", "/dev/zero", says=["/dev/zero has more than"])
        self.usage("run", "basic", "-P", self.path("word", "recordcount\n"), says=["recordcount=: must be a whole"])
        self.usage("run", "basic", A, says=["one word too many", "a property file goes after -P"])

    def test_WhatIsGivenTwiceOrUnknownIsWarnedOf(self):
        twice = self.path("twice", "recordcount=5\noperationcount=7\nrecordcount=6\nrequestdistributon=zipfian\n")
        result = self.ycsb("run", "basic", "-P", twice)
        self.ok(result)
        self.assertIn("twice: line 3: recordcount=6 replaces the 5 of line 1", result.stderr)
        self.assertIn("requestdistributon is not known and has no effect; did you mean requestdistribution?",
                      result.stderr)

    def test_WrongValues(self):
        for property_, says in [
                ("recordcount=1e6", "; write 1000000"),
                ("recordcount=1,000,000", "; write 1000000"),
                ("recordcount=-1", "must be a whole number"),
                ("operationcount=many", "must be a whole number"),
                ("threadcount=0", "from 1 to 1024"),
                ("readproportion=half", "must be a number"),
                ("requestdistribution=zipf", "must be one of uniform, zipfian"),
                ("insertstart=1000", "must be below recordcount (1000)"),
                ("insertstart=500", None),
                ("insertcount=1001", "must not exceed recordcount"),
                ("exporter=xml", "must be text, json, jsonarray"),
                ("measurementtype=hdr", "must be one of"),
                ("workload=site.ycsb.workloads.TimeSeriesWorkload", "only the core workload"),
                ("fieldlengthdistribution=histogram", "hist.txt"),
                ("maxexecutiontime=5s", "a whole number of seconds from"),
                ("table=", "must be the name of a table"),
                ("latencytrackederrors=NOTFOUND", "there are OK, ERROR, NOT_FOUND"),
                ("arrival=poisson", "give -target"),
                ("kv.inflight=65537", "from 1 to 65536")]:
            if says is None:
                self.ok(self.ycsb("run", "basic", "-P", A, "-p", property_))
            else:
                self.usage("run", "basic", "-P", A, "-p", property_, says=[says])
        binary = self.usage("run", "basic", "-p", "fieldlengthdistribution=histogram",
                            "-p", "fieldlengthhistogram=/bin/sh",
                            says=["fieldlengthhistogram=/bin/sh: ", "line 1: ", "BlockSize<TAB>bytes"])
        self.assertLess(len(binary), 400)
        self.usage("run", "basic", "-p", "operationcount", says=["must be name=value"])
        self.usage("run", "basic", "-threads", "1024", "-inflight", "65536", "-p", "fieldlength=16000000",
                   says=["MiB: lower one of them"])

    def test_Words(self):
        self.usage("run", "redsi", says=["did you mean redis?"])
        self.usage("run", "mongodb", says=["there are skua, basic"])
        self.usage("run", says=["which binding?"])
        self.usage("basic", "run", says=["the first word must be load or run, not basic"])
        self.usage("run", "basic", "-thread=4", says=["unknown option -thread; did you mean -threads?"])
        self.ok(self.ycsb("run", "basic", "-P", A, "-threads=2"))

    def test_ALoadDoesNotLookAtWhatOnlyARunNeeds(self):
        for odd in ("readproportion=0", "insertproportion=95", "insertstart=5000"):
            self.ok(self.ycsb("load", "basic", "-P", A, "-p", "updateproportion=0", "-p", odd))
        self.usage("load", "basic", says=["give -p recordcount=N"])
        self.usage("load", "basic", "-P", A, "-p", "insertcount=0", says=["give -p insertcount=N"])

    def test_NoEndIsSaid(self):
        with self.started("run", "basic", "-target", "10") as process:
            self.assertIn("the run goes on until it is interrupted", process.stderr.readline())


class Output(Ycsb):
    def test_AFullDevice(self):
        run = ["run", "basic", "-P", A]
        for words in (["--help"], ["--version"], run, [*run, "-p", "exporter=json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.failed(*words, stdout=full, says=["cannot write to standard output: No space left on device"])
        for words in (["exportfile=/dev/full"], ["measurement.raw.output_file=/dev/full", "-p", "measurementtype=raw"]):
            self.failed("run", "basic", "-P", A, "-p", *words, says=["=/dev/full: No space left on device"])

        os.symlink("/dev/full", self.path("READ.hdr"))
        self.failed("run", "basic", "-P", A, "-p", "hdrhistogram.fileoutput=true",
                    "-p", f"hdrhistogram.output.path={self.directory}/",
                    says=[f"{self.directory}/READ.hdr", "hdrhistogram.output.path", "No space left on device"])

    def test_WhereNothingCanBeWrittenIsFoundBeforeTheRun(self):
        for words, says in [(["exportfile=/none/report"], "exportfile=/none/report: No such file or directory"),
                            (["exportfile=/tmp"], "exportfile=/tmp: Is a directory"),
                            (["measurement.raw.output_file=/none/raw", "-p", "measurementtype=raw"],
                             "/none/raw: No such file"),
                            (["hdrhistogram.output.path=/none/x-", "-p", "hdrhistogram.fileoutput=true"],
                             "/none/x-CLEANUP.hdr: No such file"),
                            (["hdrhistogram.output.path=/dev/null/", "-p", "hdrhistogram.fileoutput=true"],
                             "Not a directory")]:
            self.usage("run", "basic", "-P", A, "-p", *words, says=[says])
        result = self.ycsb("run", "basic", "-P", A, "-p", f"hdrhistogram.output.path={self.directory}/")
        self.assertIn("has no effect without hdrhistogram.fileoutput=true", result.stderr)
        self.assertEqual(os.listdir(self.directory), [])


class OtherStores(Ycsb):
    def test_NobodyThere(self):
        port = cluster_test.free_port()
        self.judged(self.ycsb("run", "memcached", "-p", f"memcached.port={port}"), 1,
                    ["cannot connect to memcached", "is memcached running"])
        if "redis:" in self.ok(self.ycsb("--help")).lower():
            self.judged(self.ycsb("run", "redis", "-p", f"redis.port={port}"), 1,
                        ["cannot connect to redis", "is redis-server running"])

    def test_AnotherKindOfServer(self):
        web = self.server(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        self.judged(self.ycsb("run", "memcached", "-p", f"memcached.port={web}"), 1, ["memcached"])
        if "redis:" in self.ok(self.ycsb("--help")).lower():
            self.judged(self.ycsb("run", "redis", "-p", f"redis.port={web}"), 1, ["is it Redis?"])

    def test_RocksdbDirectories(self):
        data = self.path("node")
        os.mkdir(data)
        self.path("node/identity.toml", 'role = "node"\n')
        self.path("letter.txt", "x")
        for directory, says in [("", "rocksdb.dir is needed"), (data, "is the data directory of a Skua program"),
                                (f"{data}/shards", "is the data directory of a Skua program"),
                                (self.directory, "holds other files"), (self.path("letter.txt"), "is no directory")]:
            self.usage("load", "rocksdb", "-P", A, "-p", f"rocksdb.dir={directory}", says=[says])
        self.assertEqual(sorted(os.listdir(data)), ["identity.toml"])

    def test_MoreRecordsThanWereLoaded(self):
        store = ("rocksdb", "-P", A, "-p", f"rocksdb.dir={self.directory}/db", "-p", "fieldcount=1")
        self.ok(self.ycsb("load", *store, "-p", "recordcount=100"))
        result = self.failed("run", *store, "-p", "recordcount=10000",
                             says=["MOST OPERATIONS FAILED: ", " of 1000 (NOT_FOUND ",
                                   "was the table loaded with recordcount=10000"])
        self.assertIn("[READ], Return=NOT_FOUND, ", result.stdout)
        # Java's way with a read-modify-write: the update is sent after a read that failed.
        workload_f = os.path.join(WORKLOADS, "workloadf")
        result = self.failed("run", "rocksdb", "-P", workload_f, *store[3:], "-p", "recordcount=10000",
                             says=["MOST OPERATIONS FAILED"])
        self.assertIn("[UPDATE], Return=NOT_FOUND, ", result.stdout)
        self.assertNotIn("[READ-MODIFY-WRITE], Return=", result.stdout)
        # Values that are not those that dataintegrity=true expects.
        self.failed("run", *store, "-p", "recordcount=100", "-p", "dataintegrity=true", "-p", "readproportion=1",
                    "-p", "updateproportion=0", says=["(UNEXPECTED_STATE 1000)", "with the same dataintegrity"])

    def test_MemcachedHasNoScans(self):
        if shutil.which("memcached") is None:
            self.skipTest("memcached is not on PATH")
        port = cluster_test.free_port()
        with subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(port), "-u", "nobody"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as memcached:
            self.addCleanup(memcached.kill)
            store = ("memcached", "-P", os.path.join(WORKLOADS, "workloade"), "-p", f"memcached.port={port}",
                     "-p", "fieldcount=1")
            cluster_test.wait_for("memcached to answer", lambda: self.ycsb("load", *store).returncode == 0)
            self.failed("run", *store, says=["MOST OPERATIONS FAILED", "NOT_IMPLEMENTED",
                                             "memcached cannot do what this workload asks for"])
            memcached.kill()


class Interrupted(Ycsb):
    def test_ReportsWhatWasDone(self):
        for words in (["run", "basic", "-p", "operationcount=0"], ["load", "basic", "-p", "recordcount=1000000"]):
            with self.started(*words, "-s", "-target", "100") as process:
                self.await_line(process, " 0 sec: ")
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=mistakes.HANG_S)
                self.assertEqual(process.returncode, 130, err)
                self.assertIn("[OVERALL], Throughput(ops/sec), ", out)
                self.assertIn("interrupted: waits for what is in flight, then reports what was done", err)
                self.assertEqual("the load is not complete" in err, words[0] == "load", err)

    def test_WhileConnecting(self):
        with self.started("run", "skua", "-p", f"skua.control=127.0.0.1:{self.server()}",
                          "-p", "skua.timeout=3600000") as process:
            self.await_line(process, "Starting test.")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=mistakes.HANG_S)
            self.assertEqual((process.returncode, err.splitlines()[-1]),
                             (130, "skua-ycsb: interrupted while it was connecting"))


class Skua(Ycsb):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster_test.Cluster(1)
        cls.addClassCleanup(cls.cluster.close)
        made = cls.cluster.ctl("table", "create", "usertable", "--shards", "2")
        assert made.returncode == 0, made.stderr

    def setUp(self):
        super().setUp()
        self.control = self.cluster.control_address
        self.nowhere = f"127.0.0.1:{cluster_test.free_port()}"

    def test_WhereTheControlPlaneIs(self):
        load = ("load", "skua", "-P", A, "-p", "recordcount=10", "-p", "fieldcount=1")
        config = self.path("skua.toml", f'control_address = "{self.control}"\n')
        elsewhere = self.path("elsewhere.toml", f'control_address = "{self.nowhere}"\n')
        properties = self.path("properties", f"skua.control={self.control}\n")
        right = {"SKUA_CONTROL_ADDRESS": self.control}
        wrong = {"SKUA_CONTROL_ADDRESS": self.nowhere}
        for words, environment in [([], right), (["--config", config], {}), ([], {"SKUA_CONFIG": config}),
                                   (["--config", elsewhere], right), (["-P", properties], wrong),
                                   (["--control-address", self.control], wrong),
                                   (["--control-address", self.nowhere, "-p", f"skua.control={self.control}"], wrong)]:
            self.ok(self.ycsb(*load, *words, environment=environment))

    def test_AddressesThatAreNone(self):
        for address, says in [("localhost", "has no port"), ("http://localhost:7400", "is a URL: leave out http://"),
                              ("::1:7400", "has an IPv6 address without brackets"), ("127.0.0.1:99999", "port"),
                              (f"{self.control},", "is empty")]:
            self.usage("run", "skua", "-P", A, "-p", f"skua.control={address}", says=[says, "skua.control"])
            self.usage("run", "skua", "-P", A, environment={"SKUA_CONTROL_ADDRESS": address}, says=[says])
        self.usage("run", "skua", "-P", A, environment={"SKUA_CONTROL_ADRESS": "x"},
                   says=["did you mean SKUA_CONTROL_ADDRESS?"])
        self.usage("run", "skua", "-P", A, "--config", self.path("none.toml"), says=["none.toml"])
        misspelt = self.path("a.toml", "control_adress = 'x'\n")
        self.usage("run", "skua", "-P", A, "--config", misspelt, says=["a.toml:1", "did you mean"])
        self.usage("run", "skua", "-P", A, environment={"SKUA_TRANSPORT": "udp"},
                   says=["must be tcp or dpdk or verbs, not udp"])
        self.usage("run", "skua", "-P", A, "-p", "skua.timeout=5s", says=["a whole number of milliseconds from"])

    def test_OptionsOfATransportThatIsNotUsed(self):
        for words in (["--dpdk-mtu", "1500"], ["-p", "skua.dpdk.mtu=1500"]):
            result = self.ycsb("run", "skua", "-P", A, "-p", f"skua.control={self.nowhere}", *words)
            self.assertIn("Warning: property skua.dpdk.mtu has no effect with skua.transport=tcp", result.stderr)

    def test_TooFewFilesForItsThreads(self):
        # A session that cannot be opened ends the run, and each thread lets go of its own.
        result = mistakes.run("bash", "-c", 'ulimit -n 64; exec "$@"', "bash", self.program("skua-ycsb"), "run", "skua",
                              "-P", A, "-threads", "16", "-p", f"skua.control={self.control}",
                              "-p", "skua.timeout=2000", env=NO_SKUA)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("Too many open files", result.stderr.splitlines()[-1])
        self.assertIn("ulimit -n 65536", result.stderr.splitlines()[-1])

    def test_NobodyIsTheControlPlane(self):
        # It answers at once, or this waits for an hour.
        self.failed("run", "skua", "-P", A, "-p", f"skua.control={self.nowhere}", "-p", "skua.timeout=3600000",
                    says=[f"control plane at {self.nowhere}", "cannot be reached"])

    def test_SomebodyElseIsTheControlPlane(self):
        node = self.cluster.grpc_ports[0]
        self.failed("run", "skua", "-P", A, "-p", f"skua.control=127.0.0.1:{node}", says=["skuad"])
        web = self.server(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        self.failed("run", "skua", "-P", A, "-p", f"skua.control=127.0.0.1:{web}", says=["a web server"])

    def test_NoSuchTable(self):
        for table, says in [("usertabel", "there is no table usertabel; did you mean -p table=usertable?"),
                            ("orders", "there is no table orders; make it: skuactl table create orders")]:
            self.failed("run", "skua", "-P", A, "-p", f"skua.control={self.control}", "-p", f"table={table}",
                        says=[says])

    def test_MoreRecordsThanWereLoaded(self):
        store = ("skua", "-P", A, "-p", f"skua.control={self.control}", "-p", "fieldcount=1", "-inflight", "16")
        self.ok(self.ycsb("load", *store, "-p", "recordcount=100", "-p", "keyprefix=more"))
        self.failed("run", *store, "-p", "recordcount=100000", "-p", "keyprefix=more",
                    says=["MOST OPERATIONS FAILED", "NOT_FOUND", "was the table loaded with recordcount=100000"])

    def test_RowsOfSomebodyElse(self):
        for number in range(3):
            self.ok(self.cluster.ctl("put", "usertable", f"mine{number}", "no row"))
        self.failed("run", "skua", "-P", os.path.join(WORKLOADS, "workloadc"), "-p", f"skua.control={self.control}",
                    "-p", "recordcount=3", "-p", "keyprefix=mine", "-p", "insertorder=ordered",
                    says=["UNEXPECTED_STATE", "was the table loaded by skua-ycsb"])

    def test_TheDirectoryOfANode(self):
        self.usage("load", "rocksdb", "-P", A, "-p", f"rocksdb.dir={self.cluster.directory}/node0",
                   says=["is the data directory of a Skua program"])


if __name__ == "__main__":
    mistakes.main()
