#!/usr/bin/env python3
"""Mistakes of the first hour that are made with skuactl, in a cluster of three nodes.

  mistakes_skuactl_test.py --bin build/release/bin [WORD]

What needs no cluster is in tests/kvstore/client/skuactl_test.py.
"""

import json
import os
import re
import signal
import socket
import subprocess
import threading

import cluster_test
import mistakes

FULL = "/dev/full"
NO_SPACE = "No space left on device"


class DeafProxy:
    """Passes connections on to an address. Of one that has asked for `word` nothing more is passed back: the request arrives, its
    answer does not."""

    def __init__(self, address, word):
        self.target = (address.split(":")[0], int(address.split(":")[1]))
        self.word = word.encode()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            asked = threading.Event()
            threading.Thread(target=self.forth, args=(client, server, asked), daemon=True).start()
            threading.Thread(target=self.back, args=(client, server, asked), daemon=True).start()

    def forth(self, client, server, asked):
        with client, server:
            while data := client.recv(65536):
                if self.word in data:
                    asked.set()
                server.sendall(data)

    def back(self, client, server, asked):
        try:
            while data := server.recv(65536):
                if not asked.is_set():
                    client.sendall(data)
        except OSError:
            pass  # forth() has closed both

    def close(self):
        self.listener.close()


class SkuactlMistakesTest(mistakes.MistakesTest):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster_test.Cluster(3)
        cls.addClassCleanup(cls.cluster.close)
        for name, shards, replicas in (("t", 3, 1), ("one", 1, 1), ("copies", 2, 3)):
            made = cls.cluster.ctl("table", "create", name, "--shards", str(shards), "--replicas", str(replicas))
            assert made.returncode == 0, made.stderr

    def words(self, *arguments, timeout="20s"):
        return (self.program("skuactl"), "--control-address", self.cluster.control_address, "--timeout", timeout, *arguments)

    def ctl(self, *arguments, **options):
        return mistakes.run(*self.words(*arguments), **options)

    def json(self, *arguments):
        return json.loads(self.ok(self.ctl("--output", "json", *arguments)))

    def refuses(self, *arguments, timeout="20s", **options):
        return self.refused(*self.words(*arguments, timeout=timeout), **options)

    def node(self, index):
        port = self.cluster.grpc_ports[index]
        return next(node for node in self.json("status")["nodes"] if node["grpc_address"].endswith(f":{port}"))

    # --- What is written must arrive

    def test_Output_ToAFullDeviceEndsWithCode1(self):
        self.ok(self.ctl("put", "t", "full", "value"))
        for command in (("get", "t", "full"), ("scan", "t"), ("status",), ("table", "list"), ("--output", "json", "status")):
            with open(FULL, "w", encoding="ascii") as full:
                self.refuses(*command, code=1, words=["standard output", NO_SPACE], stdout=full)

    def test_Get_ToAFileThatTakesNothingFails(self):
        self.ok(self.ctl("put", "t", "file", "value"))
        self.refuses("get", "t", "file", "--file", FULL, code=1, words=[FULL, NO_SPACE])
        self.refuses("get", "t", "file", "--file", self.cluster.directory, words=["cannot write the file", "is a directory"])
        self.refuses("get", "t", "file", "--file", "/no/such/directory/f", words=["cannot write the file", "No such file"])
        copy = self.cluster.directory + "/copy"
        self.ok(self.ctl("get", "t", "file", "--file", copy))
        with open(copy, encoding="ascii") as file:
            self.assertEqual(file.read(), "value")
        # As put takes it; a file of this name is nobody's wish.
        self.assertEqual(self.ok(self.ctl("get", "t", "file", "--file", "-")), "value")
        self.refuses("--output", "json", "get", "t", "file", "--file", "-", words=["--output json", "leave one out"])
        with open(FULL, "w", encoding="ascii") as full:
            self.refuses("get", "t", "file", "--file", "-", code=1, words=[NO_SPACE], stdout=full)

    def test_Put_TakesItsValueFromWhereItIsSaid(self):
        self.ok(self.ctl("put", "t", "empty", ""))
        self.assertEqual(self.json("get", "t", "empty")["value"], "")
        self.ok(self.ctl("put", "t", "piped", "--file", "-", input="from\na pipe"))
        self.assertEqual(self.json("get", "t", "piped")["value"], "from\na pipe")
        large = self.cluster.directory + "/large"
        with open(large, "wb") as file:
            file.truncate((16 << 20) + 1)
        self.refuses("put", "t", "large", "--file", large, words=["16,777,217 bytes", "16,777,216"])

    # --- Scans

    def test_Scan_ContinuedByItsHintsShowsEachRowOnce(self):
        self.ok(self.ctl("table", "create", "binary", "--shards", "3"))
        keys = [b"\x00", b"\x00\x00", b"\x01\xff", b"a", b"a\x00", b"a\\x00", b"a\\", b"a b", b"a'b", b"\xff\xfe", b"\xff" * 3, b"tab\t",
                b"line\n", "grün".encode(), b"\\x00", b"\\\\", b"--limit", b"--"]
        for number, key in enumerate(keys):
            text = "".join(chr(c) if c in b"-abtlinegr'" else "\\\\" if c == 0x5c else f"\\x{c:02x}" for c in key)
            self.ok(self.ctl("put", "binary", "--", text, str(number)))
        plain, raw = dict(os.environ), {**os.environ, "SKUA_RAW_KEYS": "true"}
        for how, environment in ([], plain), (["--raw-keys"], plain), ([], raw):
            for limit in "1", "3":
                with self.subTest(how=how, raw=environment is raw, limit=limit):
                    scan = ["scan", "binary", "--limit", limit, *how]
                    shown = self.scanned(scan, environment)
                    self.assertEqual([keys[int(value)] for _, value in shown], sorted(keys))
                    self.assertEqual(self.scanned_json(scan, environment, "next_cursor", "--cursor"), len(keys))
        scan = ["scan", "binary", "--limit", "5"]
        self.assertEqual(self.scanned_json(scan, plain, "next_start_argument", "--start"), len(keys))
        self.assertIsNone(json.loads(self.ok(self.ctl("--output", "json", *scan, env=raw)))["next_start_argument"])
        # What is printed is what other commands take.
        for key, value in shown:
            self.assertEqual(self.ok(self.ctl("get", "binary", "--", key)).strip(), value)
        self.refuses("scan", "binary", "--start", "a", "--cursor", "b", words=["--start and --cursor", "leave one out"])

    def scanned(self, command, environment):
        """Keys and values, each scan continued as the one before says."""
        shown, start = [], []
        while True:
            result = self.ctl(*command, *start, env=environment)
            shown += [line.split("\t") for line in self.ok(result).splitlines()]
            if not result.stderr:
                return shown
            hint = re.search(r"go on with (--.*)$", result.stderr.strip())
            # As a shell would read it.
            start = subprocess.run(["bash", "-c", f"printf '%s\\0' {hint[1]}"], capture_output=True, check=True,
                                   text=True).stdout.split("\0")[:-1]

    def scanned_json(self, command, environment, name, option):
        """How many rows they are by JSON, whose field `name` is given to `option`."""
        seen, start = 0, []
        while True:
            answer = json.loads(self.ok(self.ctl("--output", "json", *command, *start, env=environment)))
            seen += len(answer["rows"])
            if not answer["has_more"]:
                return seen
            start = [f"{option}={answer[name]}"]

    def test_Scan_RawKeysAreTakenAsTheyAre(self):
        self.ok(self.ctl("put", "one", "--raw-keys", "C:\\new", "v"))
        self.assertEqual(self.json("get", "one", "C:\\\\new")["key"], "C:\\new")
        self.refuses("get", "one", "C:\\new", words=["\\n", "no escape", "--raw-keys"])

    # --- Names

    def test_Names_ThatAreNearlyRightAreOffered(self):
        self.refuses("get", "copeis", "k", code=1, words=["no table \"copeis\"", "did you mean copies?"])
        self.refuses("put", "elsewhere", "k", "v", code=1, words=["no table \"elsewhere\"", "copies", "one"])
        self.refuses("table", "drop", "copeis", "--yes", code=1, words=["did you mean copies?"])
        self.refuses("shard", "show", "copeis", code=1, words=["did you mean copies?"])
        self.refuses("shard", "move", "copeis", "0", "--from", "a", "--to", "b", code=1, words=["did you mean copies?"])
        self.refuses("shard", "show", "one", "1", code=1, words=["shard 0 only"])
        self.refuses("shard", "transfer", "t", "3", "--to", "x", code=1, words=["shards 0 to 2"])

    def test_Nodes_AreNotNamedByThreeCharacters(self):
        uuid = self.node(0)["uuid"]
        for command in ("drain", "undrain", "remove"):
            self.refuses("node", command, "", words=["NODE", "empty"])
            said = self.refuses("node", command, uuid[:1], code=1)
            self.assertRegex(said, "too short|may be any of")
        self.assertFalse(self.node(0)["draining"])

    def test_WhatDestroys_LooksFirstAndAsksThen(self):
        self.refuses("table", "drop", "nowhere", code=1, words=["no table"], without=["--yes"])
        self.refuses("table", "drop", "one", words=["--yes", "deletes all its data"])
        address = self.node(0)["grpc_address"]
        self.refuses("shard", "recover", "nowhere", "0", "--from", address, code=1, words=["no table"], without=["--yes"])
        self.refuses("shard", "recover", "t", "0", "--from", "10.9.9.9:1", code=1, words=["no node"], without=["--yes"])
        self.refuses("shard", "recover", "t", "0", "--from", address, words=["--yes", "may be lost"])
        self.refuses("node", "remove", address, "--force", code=1, words=["is alive", "Stop its process"], without=["--yes"])
        self.refuses("shard", "move", "t", "0", "--from", address, "--to", address, words=["the same node"])

    # --- Conditions and limits

    def test_Conditions_TellTheVersionThatIsThere(self):
        version = self.json("put", "t", "versioned", "v")["version"]
        self.refuses("put", "t", "versioned", "w", "--if-version", "1" + str(version), code=1,
                     words=["VERSION_MISMATCH", f"the key has version {version}"])
        self.refuses("put", "t", "versioned", "w", "--if-absent", code=1, words=[f"the key has version {version}"])
        self.refuses("put", "t", "unversioned", "w", "--if-version", "7", code=1, words=["the key does not exist"])
        self.refuses("add", "t", "versioned", code=1, words=["NOT_A_NUMBER", "no decimal"])
        for command in (("get", "t", "nothing"), ("del", "t", "nothing"), ("expire", "t", "nothing", "1h"), ("ttl", "t", "nothing")):
            said = self.refuses(*command, code=1, words=["NOT_FOUND", "table t has no key 'nothing'"])
            self.assertEqual(said.count("NOT_FOUND"), 1)

    def test_Batch_NamesTheLineThatCannotBe(self):
        self.ok(self.ctl("put", "one", "text", "x"))
        moves = "\ufeff# moves\r\n\r\nput a 1\r\nadd text 5\r\n"
        self.refuses("batch", "one", code=1, words=["line 4:", "nothing was applied", "NOT_A_NUMBER"], input=moves)
        self.refuses("batch", "one", words=["line 2", "did you mean expire?"], input="put a 1\nexipre a 1h\n")
        self.refuses("batch", "one", "--file", self.cluster.directory, words=["is a directory"])
        self.ok(self.ctl("batch", "one", input='\ufeffput "--ttl" "--create"\r\n'))
        self.assertEqual(self.json("get", "one", "--", "--ttl")["value"], "--create")

    # --- Tables

    def test_Table_OneShardIsOne(self):
        said = self.ok(self.ctl("table", "create", "single", "--shards", "1", "--replicas", "1"))
        self.assertIn("1 shard, 1 replica, ready", said)
        self.assertIn("1 shard, 1 replica,", self.ok(self.ctl("shard", "show", "single")))

    def test_Table_ThatIsNotReadyEndsWithCode1(self):
        process = self.cluster.processes["node0"].popen
        process.send_signal(signal.SIGSTOP)
        try:
            said = self.refuses("table", "create", "slow", "--shards", "1", "--replicas", "3", "--wait", "200ms", code=1,
                                words=["table slow is made", "not served yet", "skuactl status"], stdout=subprocess.DEVNULL)
        finally:
            process.send_signal(signal.SIGCONT)
        self.assertIn(self.node(0)["uuid"], said)
        self.ok(self.ctl("status", "--wait-settled", "60s"))

    def test_Waiting_ThatIsInterruptedSaysWhatIsThere(self):
        # All of them: without some, the cluster soon takes those for dead and goes on, and there is nothing to wait for.
        stopped = [self.cluster.processes[f"node{index}"].popen for index in range(3)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            said = self.interrupted(
                "table", "create", "awaited", "--shards", "1", "--replicas", "3", "--wait", "60s",
                begun=lambda: any(table["name"] == "awaited" for table in self.json("table", "list")))
            for word in ("CANCELLED", "no longer waiting", "table awaited is made", "not served yet", "skuactl status"):
                self.assertIn(word, said)
            cluster_test.wait_for("the cluster to miss the nodes", lambda: not self.json("status")["settled"])
            said = self.interrupted("status", "--wait-settled", "5m", begun=lambda: True)
            for word in ("CANCELLED", "no longer waiting", "not settled", "skuactl shard show TABLE --unsettled"):
                self.assertIn(word, said)
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
        self.ok(self.ctl("status", "--wait-settled", "60s"))

    def test_Waiting_ForATableThatIsDroppedSaysSo(self):
        stopped = [self.cluster.processes[f"node{index}"].popen for index in range(3)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)

        def is_listed():
            return any(table["name"] == "brief" for table in self.json("table", "list"))
        try:
            waiting = subprocess.Popen(self.words("table", "create", "brief", "--shards", "1", "--replicas", "3", "--wait", "60s"),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(waiting.kill)
            cluster_test.wait_for("the table to be made", is_listed)
            self.ok(self.ctl("table", "drop", "brief", "--yes"))
            told, said = waiting.communicate(timeout=mistakes.HANG_S)
            self.assertEqual((waiting.returncode, told), (1, ""), said)
            self.assertIn("table brief was made, and was dropped meanwhile", said)
            self.assertFalse(is_listed(), "it was made again")
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
        self.ok(self.ctl("status", "--wait-settled", "60s"))

    def test_Waiting_WithoutAControlPlaneSaysHowOldTheReportIs(self):
        stopped = [self.cluster.processes[f"node{index}"].popen for index in range(3)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)

        def said_without_control_plane():
            waiting = subprocess.Popen(self.words("status", "--wait-settled", "4s"), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.addCleanup(waiting.kill)
            cluster_test.wait_for("the command to take signals",
                                  lambda: waiting.poll() is not None or cluster_test.catches(waiting.pid, signal.SIGINT))
            self.cluster.processes["control"].stop()
            said = waiting.communicate(timeout=mistakes.HANG_S)[1]
            self.cluster.start_control()
            self.assertEqual(waiting.returncode, 1, said)
            # Otherwise the control plane was away before the first look, or still there at the last.
            return said if "DEADLINE_EXCEEDED" in said and "has not answered for" in said else None
        try:
            cluster_test.wait_for("the cluster to miss the nodes", lambda: not self.json("status")["settled"])
            said = cluster_test.wait_for("a look before the control plane is away", said_without_control_plane)
            for word in ("not settled within 4s", "the report above is that old", "cannot be reached"):
                self.assertIn(word, said)
        finally:
            for process in stopped:
                process.send_signal(signal.SIGCONT)
        cluster_test.wait_for("the nodes to be back", lambda: self.cluster.alive_count() == 3)
        self.ok(self.ctl("status", "--wait-settled", "60s"))

    def interrupted(self, *command, begun):
        """What a command that waits says of Ctrl-C, once it takes that and `begun`."""
        waiting = subprocess.Popen(self.words(*command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(waiting.kill)
        cluster_test.wait_for("the command to take signals",
                              lambda: waiting.poll() is not None or cluster_test.catches(waiting.pid, signal.SIGINT))
        if waiting.poll() is not None:
            self.fail(f'{" ".join(command)} ended with {waiting.returncode}: {waiting.communicate()[1]}')
        cluster_test.wait_for("the command to wait", begun)
        waiting.send_signal(signal.SIGINT)
        said = waiting.communicate(timeout=mistakes.HANG_S)[1]
        self.assertEqual(waiting.returncode, 1, said)
        self.assertEqual(said.count("\n"), 1, said)
        return said

    # --- Drains

    def test_Drain_ThatIsTakenBackEndsTheWaiting(self):
        address = self.node(2)["grpc_address"]
        waiting = subprocess.Popen(self.words("node", "drain", address, "--wait", "5m"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(waiting.kill)
        self.assertIn("still to be moved", waiting.stderr.readline())
        self.ok(self.ctl("node", "undrain", address))
        said = waiting.communicate(timeout=mistakes.HANG_S)[1]
        self.assertEqual(waiting.returncode, 1, said)
        for word in ("FAILED_PRECONDITION", "was taken back", "takes shards again"):
            self.assertIn(word, said)

    def test_Drain_ThatIsStuckSaysWhyAndHowToLook(self):
        address = self.node(2)["grpc_address"]
        try:
            result = self.ctl("node", "drain", address, "--wait", "1s")
            self.assertEqual(result.returncode, 1, result.stderr)
            last = result.stderr.strip().splitlines()[-1]
            for word in ("DEADLINE_EXCEEDED", "is not empty after 1s", "no other live node has room", "skuactl node list", "undrain"):
                self.assertIn(word, last)
            waiting = subprocess.Popen(self.words("node", "drain", address, "--wait", "5m"), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            watchdog = threading.Timer(mistakes.HANG_S, waiting.kill)
            watchdog.start()
            self.addCleanup(watchdog.cancel)
            self.assertIn("still to be moved", waiting.stderr.readline())
            # A control plane that goes away and comes back does not end the waiting.
            self.cluster.processes["control"].stop()
            self.assertTrue(any("cannot be reached" in line for line in waiting.stderr))
            self.cluster.start_control()
            cluster_test.wait_for("the nodes to be back", lambda: self.cluster.alive_count() == 3)
            waiting.send_signal(signal.SIGINT)
            said = waiting.communicate(timeout=mistakes.HANG_S)[1]
            self.assertEqual(waiting.returncode, 1, said)
            for word in ("no longer waiting", "The drain goes on in the cluster", "skuactl node list", "undrain"):
                self.assertIn(word, said)
            self.assertTrue(self.node(2)["draining"])
        finally:
            self.ok(self.ctl("node", "undrain", address))
        self.ok(self.ctl("status", "--wait-settled", "60s"))

    def test_Drain_OfShardsThatAreNotCopiedEndsAndSaysSo(self):
        cluster = cluster_test.Cluster(2)
        self.addCleanup(cluster.close)
        ctl = (self.program("skuactl"), "--control-address", cluster.control_address)
        self.ok(cluster.ctl("table", "create", "alone", "--shards", "2"))
        self.ok(cluster.ctl("table", "create", "pairs", "--shards", "2", "--replicas", "1"))
        address, other = (f"127.0.0.1:{port}" for port in cluster.grpc_ports[:2])
        self.refused(*ctl, "node", "drain", address, "--wait", "5m", code=1,
                     words=["does not become empty", "2 shards stay here", "(alone, pairs)", "skuactl node undrain"])
        shard = next(shard["shard"] for shard in json.loads(
            self.ok(cluster.ctl("--output", "json", "shard", "show", "alone")))["shards"]
            if shard["replicas"][0]["grpc_address"] == address)
        self.refused(*ctl, "shard", "move", "alone", str(shard), "--from", address, "--to", other, code=1,
                     words=["stays where it is", "has one replica", "--replicas 2"])

    # --- The control plane

    def test_ControlPlane_WrongKindOfServerIsNamed(self):
        node = self.node(0)["grpc_address"]
        for command in (("status",), ("get", "t", "k"), ("put", "t", "k", "v"), ("scan", "t")):
            self.refused(self.program("skuactl"), "--control-address", node, *command, code=1, words=[node, "storage node"])

    def test_Change_WithoutAnAnswerMayHaveBeenDone(self):
        proxy = DeafProxy(self.cluster.control_address, "UndrainNode")
        self.addCleanup(proxy.close)
        self.refused(self.program("skuactl"), "--control-address", proxy.address, "--timeout", "2s", "node", "undrain",
                     self.node(1)["uuid"], code=1, words=["it may have been done", "look with skuactl node list"])

    def test_Status_IsValidJsonWithAllThatIsKnown(self):
        status = self.json("status")
        for name in ("hints", "troubles", "unsettled_shards"):
            self.assertIn(name, status)
        self.assertEqual(status["nodes"][0]["unserved"], [])

    # --- Data directories

    def test_Store_SaysWhatADirectoryIsInstead(self):
        directory = self.cluster.directory
        self.refused(self.program("skuactl"), "store", "inspect", f"{directory}/node1", words=["in use by process", "stop it first"])
        self.refused(self.program("skuactl"), "store", "inspect", directory, words=["holds node0, node1, node2"])
        self.refused(self.program("skuactl"), "store", "inspect", f"{directory}/control", words=["control plane"])

    def test_StoppedNode_IsLookedIntoAndDrained(self):
        table = self.json("table", "create", "counted", "--shards", "1")["id"]
        for number in range(3):
            self.ok(self.ctl("put", "counted", f"k{number}", "v"))
        address = self.json("shard", "show", "counted")["shards"][0]["replicas"][0]["grpc_address"]
        index = self.cluster.grpc_ports.index(int(address.split(":")[1]))
        self.assertEqual(self.cluster.processes[f"node{index}"].stop(), 0)
        try:
            found = json.loads(self.ok(mistakes.run(self.program("skuactl"), "--output", "json", "store", "inspect",
                                                    f"{self.cluster.directory}/node{index}")))
            shard = next(shard for shard in found["shards"] if shard["table"] == table)
            self.assertEqual((shard["keys"], shard["keys_complete"]), (3, True))
            self.refuses("get", "counted", "k0", code=1, words=[address, "is that node running?"], timeout="2s")
            self.assertIn("the node is stopped", self.ok(self.ctl("node", "drain", address)))
            self.assertIn("takes shards again", self.ok(self.ctl("node", "undrain", address)))
            self.assertIn("it was not drained", self.ok(self.ctl("node", "undrain", address)))
            self.refuses("node", "remove", address, code=1, words=["FAILED_PRECONDITION"])
        finally:
            self.cluster.start_node(index)
        self.ok(self.ctl("status", "--wait-settled", "60s", limit_s=120))
        self.assertEqual(self.json("get", "counted", "k2")["value"], "v")


if __name__ == "__main__":
    mistakes.main()
