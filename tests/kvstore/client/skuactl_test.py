#!/usr/bin/env python3
"""skuactl without a cluster: the command line, its refusals, and doctor.   skuactl_test.py PATH-TO-SKUACTL"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

SKUACTL = None


def skuactl(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKUA_")}
    return subprocess.run([SKUACTL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env=environment, check=False)


def dead_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class SkuactlTest(unittest.TestCase):
    def refused(self, code, words, *arguments):
        result = skuactl(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("skuactl: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_CommandLine_IsRefusedInOneLineWithCode2(self):
        self.refused(2, ["--no-such-flag"], "--no-such-flag")
        self.refused(2, ["--limt", "--limit"], "scan", "t", "--limt", "5")
        self.refused(2, ["unknown option --x", "write -- before it"], "put", "t", "k", "--x")
        self.refused(2, ["TABLE"], "get")
        self.refused(2, ["KEY"], "get", "t")
        self.refused(2, ["limit"], "scan", "t", "--limit", "0")
        self.refused(2, ["timeout"], "status", "--timeout", "soon")
        self.refused(2, ["output"], "status", "--output", "yaml")
        self.refused(2, ["--file"], "put", "t", "k", "v", "--file", "/dev/null")
        self.refused(2, ["/no/such/file"], "put", "t", "k", "--file", "/no/such/file")
        self.refused(2, ["no integer"], "add", "t", "k", "many")
        self.refused(2, ["TTL", "never"], "expire", "t", "k", "soon")
        self.refused(2, ["durability"], "put", "t", "k", "v", "--durability", "paper")
        self.refused(2, ["/no/such/file"], "batch", "t", "--file", "/no/such/file")
        self.refused(2, ["no operation"], "batch", "t")
        self.refused(2, ["--if-absent", "--if-version"], "put", "t", "k", "v", "--if-absent", "--if-version", "1")

    def test_Dpdk_SettingsAreRefusedInOneLineWithCode2(self):
        dpdk = ("get", "t", "k", "--transport", "dpdk")
        self.refused(2, ["--dpdk-devices"], *dpdk)
        self.refused(2, ["--dpdk-addresses"], *dpdk, "--dpdk-devices", "net_memif0")
        self.refused(2, ["10.77.0.1"], *dpdk, "--dpdk-devices", "net_memif0", "--dpdk-addresses", "10.77.0.1")
        self.refused(2, ["transport"], "get", "t", "k", "--transport", "pigeon")

    def test_Verbs_SettingsAreRefusedInOneLineWithCode2(self):
        verbs = ("get", "t", "k", "--transport", "verbs")
        self.refused(2, ["--verbs-mtu"], *verbs, "--verbs-mtu", "1500")
        self.refused(2, [], *verbs, "--verbs-device", "nothing9")

    def test_Operations_AreRefusedInOneLineWithCode2(self):
        self.refused(2, ["NODE"], "node", "drain")
        self.refused(2, ["wait"], "node", "drain", "n", "--wait", "soon")
        self.refused(2, ["TABLE"], "shard", "show")
        self.refused(2, ["SHARD", "number"], "shard", "show", "t", "first")
        self.refused(2, ["--to"], "shard", "transfer", "t", "0")
        self.refused(2, ["--from"], "shard", "move", "t", "0", "--to", "n")
        self.refused(2, ["replicas"], "table", "create", "t", "--replicas", "6")
        self.refused(2, ["min-insync"], "table", "create", "t", "--min-insync", "-1")
        self.refused(2, ["--shards", "0 to 4096"], "table", "create", "t", "--shards", "4097")

    def test_Transport_OptionsOfOneThatIsNotUsedAreRefused(self):
        self.refused(2, ["--dpdk-devices is for --transport dpdk, and this is tcp"], "get", "t", "k", "--dpdk-devices", "net_ring0")
        self.refused(2, ["--verbs-mtu is for --transport verbs, and this is dpdk"], "get", "t", "k", "--transport", "dpdk",
                     "--dpdk-devices", "net_ring0", "--verbs-mtu", "1024")

    def test_Nothing_StandsForNothing(self):
        self.refused(2, ["TABLE", "table's name", "empty"], "get", "", "k")
        self.refused(2, ["KEY", "empty"], "get", "t", "")
        self.refused(2, ["NAME", "table's name"], "table", "create", "")
        self.refused(2, ["NAME", "table's name"], "table", "drop", "", "--yes")
        self.refused(2, ["SHARD", "empty"], "shard", "show", "t", "")
        self.refused(2, ["SHARD", "empty"], "shard", "move", "t", "", "--from", "a", "--to", "b")
        self.refused(2, ["--from", "node", "empty"], "shard", "move", "t", "0", "--from", "", "--to", "b")
        self.refused(2, ["--to", "node", "empty"], "shard", "move", "t", "0", "--from", "a", "--to", "")
        self.refused(2, ["--from", "node"], "shard", "recover", "t", "0", "--from", "", "--yes")
        self.refused(2, ["NODE", "node"], "node", "remove", "")
        self.refused(2, ["--data-dir", "directory"], "doctor", "--data-dir", "")
        self.refused(2, ["DIR", "directory"], "store", "inspect", "")
        self.refused(2, ["--control-address", "empty"], "status", "--control-address", "")

    def test_Put_WantsAValue(self):
        for command in ("put", "append"):
            self.refused(2, ["VALUE is missing", "''", "--file"], command, "t", "k")
            self.refused(2, ["VALUE or --file"], command, "t", "k", "", "--file", "/dev/null")
            self.refused(2, ["is a directory"], command, "t", "k", "--file", "/tmp")
            self.refused(2, ["cannot read", "empty"], command, "t", "k", "--file", "")
            self.refused(2, ["/dev/zero is too large", "16,777,216"], command, "t", "k", "--file", "/dev/zero")
            self.refused(1, ["cannot be reached"], command, "t", "k", "", "--control-address", dead_address())

    def test_Ttl_MustBeOneThatCanBeMeant(self):
        for ttl, words in {"0": ["1ms at least", "has none"], "0s": ["1ms"], "10us": ["1ms"], "-5s": ["duration"], "": ["duration"],
                           "101y": ["duration"], "900000h": ["100 years"], "60": ["duration"]}.items():
            self.refused(2, ["--ttl", *words], "put", "t", "k", "v", "--ttl", ttl)
            self.refused(2, ["TTL", "never", *words], "expire", "t", "k", ttl)

    def test_Scan_RangesMustHoldSomething(self):
        self.refused(2, ["--start and --end are the same", "to stop before"], "scan", "t", "--start", "a", "--end", "a")
        self.refused(2, ["--start b is behind --end a"], "scan", "t", "--start", "b", "--end", "a")
        self.refused(2, ["--start \\xff is behind --end \\x00"], "scan", "t", "--start", "\\xff", "--end", "\\x00")
        for limit in ("0", "100001", "-1", "many"):
            self.refused(2, ["--limit", "1 to 100000" if limit != "many" else "number"], "scan", "t", "--limit", limit)

    def test_Keys_AreReadAsTheyArePrinted(self):
        for key in ("a\\", "\\x0", "\\n", "C:\\dir"):
            self.refused(2, ["KEY", "no escape", "--raw-keys"], "get", "t", key)
        self.refused(2, ["--start", "no escape"], "scan", "t", "--start", "\\z")
        self.refused(2, ["1,025 bytes"], "get", "t", "\\x00" * 1025)

    def test_Numbers_ThatCannotBeMeant(self):
        self.refused(2, ["--timeout", "1ms to 1h"], "status", "--timeout", "0")
        self.refused(2, ["--timeout", "1ms to 1h"], "status", "--timeout", "2h")
        self.refused(2, ["--if-version", "negative"], "put", "t", "k", "v", "--if-version", "-1")
        self.refused(2, ["DELTA", "''"], "add", "t", "n", "")
        self.refused(2, ["--wait", "1m"], "table", "create", "t", "--wait", "2m")

    def test_Quotas_OfAnotherKindAreRefused(self):
        for words, said in ((["client/a", "--sessions", "-1"], ["--sessions", "0 to 65536"]),
                            (["client/a", "--client-ids", "65537"], ["--client-ids", "0 to 65536"]),
                            (["client/a", "--operations-per-s", "10k"], ["--operations-per-s", "10k"]),
                            (["client/a", "--bytes-per-s", "1MB"], ["--bytes-per-s", "MiB"]),
                            (["a", "--sessions", "1"], ["an identity is ROLE/NAME"]), ([], ["IDENTITY"])):
            self.refused(2, said, "quota", "set", *words)
        help_text = skuactl("quota", "set", "--help").stdout
        for word in ("--operations-per-s", "of each node", "skuactl quota set client/report"):
            self.assertIn(word, help_text)

    def test_Addresses_AreJudgedBeforeAnythingIsAsked(self):
        for address, words in {"127.0.0.1": ["has no port", "HOST:PORT"], "http://127.0.0.1:7400": ["is a URL"],
                               "127.0.0.1:70000": ["port"], "::1:7400": ["brackets"], "10.0.0.1:7400,10.0.0.2": ["10.0.0.2", "no port"],
                               "10.0.0.1 :7400": ["blank"]}.items():
            self.refused(2, ["--control-address", *words], "get", "t", "k", "--control-address", address)

    def test_Output_ToAFullDeviceEndsWithCode1(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([SKUACTL, "--output", "json", "doctor"], stdin=subprocess.DEVNULL, stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        if result.stderr:  # without one the machine has findings, which are code 1 too
            self.assertIn("No space left on device", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_Operations_HelpHasExamples(self):
        for command, words in {
                ("table", "create"): ("--replicas", "--min-insync", "--read-anywhere", "--replicas 3"),
                ("node", "drain"): ("--wait", "skuactl node drain"),
                ("node", "undrain"): ("skuactl node undrain",),
                ("node", "remove"): ("--force", "--yes", "skuactl node remove"),
                ("shard", "show"): ("--unsettled", "skuactl shard show notes 3"),
                ("shard", "move"): ("--from", "--to", "skuactl shard move"),
                ("shard", "transfer"): ("--to", "skuactl shard transfer"),
                ("shard", "recover"): ("lost", "--yes", "skuactl shard recover"),
                ("status",): ("--wait-settled", "skuactl status")}.items():
            result = skuactl(*command, "--help")
            self.assertEqual(result.returncode, 0)
            for word in words:
                self.assertIn(word, result.stdout, command)
        for shell in ("bash", "zsh", "fish"):
            completion = skuactl("--completion", shell).stdout
            for word in ("drain", "transfer", "wait-settled"):
                self.assertIn(word, completion, shell)

    def test_Unreachable_IsOneLineThatNamesTheAddress(self):
        address = dead_address()
        reach = ("--control-address", address, "--timeout", "300ms")
        self.refused(1, [address], *reach, "status")
        self.refused(1, [address], *reach, "table", "list")
        self.refused(1, [address], *reach, "node", "list")
        self.refused(1, [address], *reach, "node", "drain", "n")
        self.refused(1, [address], *reach, "shard", "show", "t")
        self.refused(1, [address], *reach, "shard", "move", "t", "0", "--from", "a", "--to", "b")

    def test_Unreachable_IsToldByAllCommandsAlikeAndAtOnce(self):
        for address in (dead_address(), f"{dead_address()},{dead_address()}"):
            # With a time-out that is longer than this test waits for a command.
            reach = ("--control-address", address, "--timeout", "10m")
            said = skuactl(*reach, "status")
            self.assertEqual(said.returncode, 1)
            self.assertIn("cannot be reached", said.stderr)
            self.assertIn(address, said.stderr)
            for command in (("get", "t", "k"), ("put", "t", "k", "v"), ("scan", "t"), ("add", "t", "k", "-5"), ("ttl", "t", "k"),
                            ("del", "t", "k"), ("table", "create", "t"), ("node", "drain", "abcd", "--wait", "1h")):
                result = skuactl(*reach, *command)
                self.assertEqual((result.returncode, result.stderr), (1, said.stderr), command)

    def test_Silence_IsToldFromAbsence(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            result = skuactl("--control-address", address, "--timeout", "200ms", "table", "list")
            self.assertEqual(result.returncode, 1)
            self.assertIn(address, result.stderr)
            self.assertNotIn("Deadline Exceeded", result.stderr)

    def test_Limits_AreNamedBeforeAnythingIsSent(self):
        self.refused(2, ["the key has 1,025 bytes; at most 1,024 are allowed"], "get", "t", "k" * 1025)

    def test_Batch_NamesTheLineThatIsWrong(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("add left -5\nadd right five\n")
            file.flush()
            self.refused(2, ["line 2", "DELTA"], "batch", "t", "--file", file.name)

    def test_Help_OfCommandsThatWriteHasExamples(self):
        for command, words in {"put": ("--ttl", "--durability", "--if-absent", "--tag"), "add": ("DELTA", "skuactl add"),
                               "append": ("--file",), "expire": ("never",), "del": ("--if-version",),
                               "ttl": ("skuactl ttl",), "tag": ("skuactl tag",), "batch": ("add left -5", "--file", "--create")}.items():
            result = skuactl(command, "--help")
            self.assertEqual(result.returncode, 0)
            for word in words:
                self.assertIn(word, result.stdout, command)

    def test_Help_HasExamplesAndCompletionIsAScript(self):
        result = skuactl("--help")
        self.assertEqual(result.returncode, 0)
        for word in ("status", "doctor", "table", "--control-address", "skuactl put notes greeting hello"):
            self.assertIn(word, result.stdout)
        result = skuactl("--completion", "bash")
        self.assertEqual(result.returncode, 0)
        self.assertIn("skuactl", result.stdout)

    def test_Help_OfAVerbBeginsWithWhatIsItsOwn(self):
        for words in (["get", "--help"], ["help", "get"]):
            text = skuactl(*words).stdout
            for earlier, later in (("--with-version", "skuactl get notes greeting"), ("skuactl get notes greeting", "--control-address"),
                                   ("--control-address", "options of the connection: skuactl --help-all")):
                self.assertLess(text.index(earlier), text.index(later))
            self.assertNotIn("--dpdk-devices", text)
            self.assertLess(text.count("\n"), 45, text)
        self.assertEqual(skuactl("help", "table", "create").stdout, skuactl("table", "create", "--help").stdout)
        self.assertEqual(skuactl("help").stdout, skuactl("--help").stdout)
        self.refused(2, ["skuactl table has no command crate"], "help", "table", "crate")
        for words in (["--help-all"], ["get", "--help-all"], ["--man"], ["--completion", "bash"], ["--completion", "zsh"],
                      ["--completion", "fish"]):
            text = skuactl(*words).stdout.replace("\\-", "-")
            for option in ("control-address", "cert", "packets", "dpdk-devices", "verbs-device"):
                self.assertIn(option, text, words)

    def test_Store_RefusesWhatIsNoDataDirectory(self):
        for command in ("inspect", "verify", "dump"):
            self.refused(2, ["DIR"], "store", command)
            self.refused(2, ["/proc", "--data-dir"], "store", command, "/proc")
            self.refused(2, ["does not exist", "--data-dir"], "store", command, "/no/such/directory")
            self.refused(2, ["not even a directory"], "store", command, "/etc/passwd")
            with tempfile.TemporaryDirectory() as empty:
                self.refused(2, ["it is empty"], "store", command, empty)
                self.assertEqual(os.listdir(empty), [])
            result = skuactl("store", command, "--help")
            self.assertIn(f"skuactl store {command} /var/lib/skua", result.stdout)
        self.assertIn("inspect", skuactl("--completion", "bash").stdout)

    def test_CertIssue_SaysThatTheAuthorityEndsEarlier(self):
        with tempfile.TemporaryDirectory() as directory:
            made = skuactl("cert", "init", f"{directory}/ca", "--days", "10")
            self.assertEqual(made.returncode, 0, made.stderr)
            for role, options in (("client", []), ("server", ["--hosts", "localhost"])):
                long = skuactl("cert", "issue", role, f"{role}-long", "--authority", f"{directory}/ca", "--out", directory,
                               "--days", "30", *options)
                self.assertEqual(long.returncode, 0, long.stderr)
                self.assertIn("the authority expires at", long.stderr)
                self.assertIn("--days 30 is more", long.stderr)
                short = skuactl("cert", "issue", role, f"{role}-short", "--authority", f"{directory}/ca", "--out", directory,
                                "--days", "5", *options)
                self.assertEqual((short.returncode, short.stderr), (0, ""))

    def test_CertInit_ThatFindsNoRoomSaysSoAndLeavesNothing(self):
        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        with tempfile.TemporaryDirectory() as directory:
            failed = subprocess.run([SKUACTL, "cert", "init", f"{directory}/ca"], stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, timeout=120, check=False, preexec_fn=limit_files)
            self.assertEqual(failed.returncode, 1, failed.stderr)
            self.assertIn("ca.key: File too large", failed.stderr)
            self.assertEqual(os.listdir(f"{directory}/ca"), [])

    def test_Doctor_JsonParsesAndEveryComplaintHasARemedy(self):
        result = skuactl("--output", "json", "doctor", "--data-dir", ".")
        findings = json.loads(result.stdout)
        self.assertEqual({finding["area"] for finding in findings}, {"machine", "disk", "tcp", "security", "dpdk", "verbs"})
        for finding in findings:
            self.assertIn(finding["verdict"], ("ok", "warn", "FAIL"))
            self.assertTrue(finding["detail"])
            self.assertTrue(finding["why"], finding)
            if finding["verdict"] != "ok":
                self.assertTrue(finding["remedy"], finding)
        failed = any(finding["verdict"] == "FAIL" for finding in findings)
        self.assertEqual(result.returncode, 1 if failed else 0)

    def test_Doctor_TakesAFileForWhatItIs(self):
        with tempfile.NamedTemporaryFile() as file:
            for directory in (file.name, "/tmp/" + "x" * 5000):
                result = skuactl("--output", "json", "doctor", "--data-dir", directory)
                disk = [finding for finding in json.loads(result.stdout) if finding["check"] == "sync"][0]
                if directory == file.name:
                    self.assertEqual((result.returncode, disk["verdict"]), (1, "FAIL"))
                    self.assertIn("is a file", disk["remedy"])

    def test_Doctor_FailsWhereNobodyCanWrite(self):
        result = skuactl("--output", "json", "doctor", "--data-dir", "/proc")
        self.assertEqual(result.returncode, 1)
        sync = [finding for finding in json.loads(result.stdout) if finding["check"] == "sync"]
        self.assertEqual(sync[0]["verdict"], "FAIL")
        self.assertIn("--data-dir", sync[0]["remedy"])


if __name__ == "__main__":
    SKUACTL = sys.argv.pop(1)
    unittest.main(verbosity=2)
