#!/usr/bin/env python3
"""skuactl without a cluster: the command line, its refusals, and doctor.   skuactl_test.py PATH-TO-SKUACTL"""

import json
import os
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

    def test_Drop_WantsYesWhenNobodyCanBeAsked(self):
        self.refused(2, ["--yes"], "table", "drop", "t")

    def test_Operations_AreRefusedInOneLineWithCode2(self):
        self.refused(2, ["NODE"], "node", "drain")
        self.refused(2, ["wait"], "node", "drain", "n", "--wait", "soon")
        self.refused(2, ["TABLE"], "shard", "show")
        self.refused(2, ["SHARD", "number"], "shard", "show", "t", "first")
        self.refused(2, ["--to"], "shard", "transfer", "t", "0")
        self.refused(2, ["--from"], "shard", "move", "t", "0", "--to", "n")
        self.refused(2, ["replicas"], "table", "create", "t", "--replicas", "6")
        self.refused(2, ["min-insync"], "table", "create", "t", "--min-insync", "-1")

    def test_Operations_ThatMayLoseDataWantYesWhenNobodyCanBeAsked(self):
        self.refused(2, ["--yes", "may be lost"], "shard", "recover", "t", "0", "--from", "n")

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
        self.refused(1, [address, "DEADLINE_EXCEEDED"], *reach, "get", "t", "k")
        self.refused(1, [address, "DEADLINE_EXCEEDED"], *reach, "put", "t", "k", "v")
        self.refused(1, [address, "DEADLINE_EXCEEDED"], *reach, "scan", "t")
        self.refused(1, [address, "DEADLINE_EXCEEDED"], *reach, "add", "t", "k", "-5")
        self.refused(1, [address, "DEADLINE_EXCEEDED"], *reach, "ttl", "t", "k")

    def test_Limits_AreNamedBeforeAnythingIsSent(self):
        self.refused(1, ["INVALID_ARGUMENT", "1024"], "--control-address", dead_address(), "get", "t", "k" * 1025)

    def test_Batch_NamesTheLineThatIsWrong(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("add left -5\nadd right five\n")
            file.flush()
            self.refused(2, ["line 2", "DELTA"], "batch", "t", "--file", file.name)

    def test_Help_OfCommandsThatWriteHasExamples(self):
        for command, words in {"put": ("--ttl", "--durability", "--if-absent"), "add": ("DELTA", "skuactl add"),
                               "append": ("--file",), "expire": ("never",), "del": ("--if-version",),
                               "ttl": ("skuactl ttl",), "batch": ("add left -5", "--file", "--create")}.items():
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

    def test_Store_RefusesWhatIsNoDataDirectory(self):
        for command in ("inspect", "verify", "dump"):
            self.refused(2, ["DIR"], "store", command)
            self.refused(2, ["/proc", "--data-dir"], "store", command, "/proc")
            result = skuactl("store", command, "--help")
            self.assertIn(f"skuactl store {command} /var/lib/skua", result.stdout)
        self.assertIn("inspect", skuactl("--completion", "bash").stdout)

    def test_Doctor_JsonParsesAndEveryComplaintHasARemedy(self):
        result = skuactl("--output", "json", "doctor", "--data-dir", ".")
        findings = json.loads(result.stdout)
        self.assertEqual({finding["area"] for finding in findings}, {"machine", "disk", "tcp", "dpdk", "verbs"})
        for finding in findings:
            self.assertIn(finding["verdict"], ("ok", "warn", "FAIL"))
            self.assertTrue(finding["detail"])
            self.assertTrue(finding["why"], finding)
            if finding["verdict"] != "ok":
                self.assertTrue(finding["remedy"], finding)
        failed = any(finding["verdict"] == "FAIL" for finding in findings)
        self.assertEqual(result.returncode, 1 if failed else 0)

    def test_Doctor_FailsWhereNobodyCanWrite(self):
        result = skuactl("--output", "json", "doctor", "--data-dir", "/proc")
        self.assertEqual(result.returncode, 1)
        sync = [finding for finding in json.loads(result.stdout) if finding["check"] == "sync"]
        self.assertEqual(sync[0]["verdict"], "FAIL")
        self.assertIn("--data-dir", sync[0]["remedy"])


if __name__ == "__main__":
    SKUACTL = sys.argv.pop(1)
    unittest.main()
