#!/usr/bin/env python3
"""The audit log of a control plane, as real processes: what is in it, that it outlives kill -9, and what skuactl finds.

  audit_log_test.py --bin build/release/bin [WORD]
"""

import glob
import json
import os
import stat

import mistakes
from cluster_test import Process, free_port, wait_for


class AuditLogTest(mistakes.MistakesTest):
    def log_of(self, cluster):
        return f"{cluster.directory}/control/audit.jsonl"

    def lines(self, path):
        with open(path, encoding="utf-8") as log:
            return [json.loads(line) for line in log]

    def write(self, path, lines):
        with open(path, "w", encoding="utf-8") as log:
            log.writelines(lines)

    def audit(self, *arguments):
        return (self.program("skuactl"), "audit", *arguments)

    def make_log(self, tables):
        """A control plane that was stopped, and its log: each table was created and dropped."""
        cluster = self.make_cluster(1)
        for table in tables:
            self.ok(cluster.ctl("table", "create", table, "--shards", "1"))
            self.ok(cluster.ctl("table", "drop", table, "--yes"))
        cluster.processes["control"].stop()
        return cluster, self.log_of(cluster)

    def test_Administration_IsThereAfterKill9(self):
        cluster = self.make_cluster(1)
        path = self.log_of(cluster)
        for number in range(5):
            self.ok(cluster.ctl("table", "create", f"t{number}", "--shards", "1"))
            cluster.processes["control"].kill9()
            cluster.start_control()
            wait_for("the control plane", lambda: cluster.alive_count() == 1)
        created = [line["arguments"]["name"] for line in self.lines(path)
                   if (line.get("method"), line.get("outcome"), line.get("changed", True)) == ("Tables/CreateTable", "OK", True)]
        self.assertEqual(created, [f"t{number}" for number in range(5)])
        self.assertIn("lines are as they were written", self.ok(mistakes.run(*self.audit("verify", path))))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        shown = self.ok(mistakes.run(*self.audit("show", path)))
        self.assertIn("who=anonymous", shown)
        self.assertIn("method=Tables/CreateTable outcome=OK arguments.name=t4", shown)

    def test_Verify_NamesTheFirstBadLine(self):
        _, path = self.make_log(["t1", "t2"])
        with open(path, encoding="utf-8") as log:
            good = log.readlines()
        self.assertGreaterEqual(len(good), 7)
        verdict = json.loads(self.ok(mistakes.run(*self.audit("verify", path, "--output", "json"))))
        self.assertEqual((verdict["intact"], verdict["lines"], verdict["first_seq"]), (True, len(good), 1))
        for name, bad, line, words in [
                ("changed", good[:2] + [good[2].replace("t1", "t9")] + good[3:], 3, "was changed after it was written"),
                ("removed", good[:3] + good[4:], 4, "1 in between are missing"),
                ("inserted", good[:3] + [good[2]] + good[3:], 4, "it was inserted"),
                ("cut at the front", good[2:], 1, "were cut off"),
                ("emptied", [], 1, "there is no line")]:
            with self.subTest(name):
                self.write(path, bad)
                self.refused(*self.audit("verify", path), code=1, words=(f"{path}, line {line}: ", words))
                result = mistakes.run(*self.audit("verify", path, "--output", "json"))
                self.assertEqual((result.returncode, json.loads(result.stdout)["intact"]), (1, False))
        # What was cut off at the end shows only to who has noted the hash.
        self.write(path, good[:-1])
        self.ok(mistakes.run(*self.audit("verify", path)))
        self.refused(*self.audit("verify", path, "--contains", json.loads(good[-1])["hash"]), code=1, words=("were cut off",))
        self.ok(mistakes.run(*self.audit("verify", path, "--contains", json.loads(good[-2])["hash"])))
        self.write(path, good[:-1] + [good[-1][:50]])
        self.assertIn("not complete (50 bytes)", self.ok(mistakes.run(*self.audit("verify", path))))
        self.refused(*self.audit("verify", f"{path}.9"), words=(f"{path}.9", "No such file"))

    def test_Verify_TakesFilesThatACrashBegan(self):
        _, path = self.make_log(["t1"])
        with open(path, encoding="utf-8") as log:
            good = log.readlines()
        for torn in (f"{path}.refused", f"{path}.0"):
            with self.subTest(torn):
                self.write(torn, [good[0][:40]])
                said = self.ok(mistakes.run(*self.audit("verify", torn, path)))
                self.assertIn(f"{torn} has only a part of its first line (40 bytes)", said)
                verdict = json.loads(self.ok(mistakes.run(*self.audit("verify", path, torn, "--output", "json"))))
                self.assertEqual((verdict["intact"], verdict["lines"]), (True, len(good)))
                self.assertEqual(verdict["torn_files"], [{"file": torn, "torn_bytes": 40}])
                self.assertEqual(len(self.ok(mistakes.run(*self.audit("show", path, torn))).splitlines()), len(good))
        self.refused(*self.audit("verify", torn), code=1, words=(f"{torn}, line 1: there is no line",))

    def test_WhatChangedNothing_IsAChainOfItsOwn(self):
        cluster = self.make_cluster(1)
        self.ok(cluster.ctl("table", "create", "t", "--shards", "1"))
        cluster.ctl("table", "create", "t", "--shards", "1")
        cluster.processes["control"].stop()
        path = self.log_of(cluster)
        others = f"{path}.refused"
        self.assertEqual([line["event"] for line in self.lines(path)], ["begin", "start", "call", "stop"])
        self.assertIn("Tables/CreateTable", [line.get("method") for line in self.lines(others)])
        verdict = json.loads(self.ok(mistakes.run(*self.audit("verify", others, path, "--output", "json"))))
        self.assertEqual([chain["chain"] for chain in verdict["chains"]], ["changes", "refusals"])
        self.assertEqual((verdict["intact"], verdict["lines"]), (True, 4))
        shown = self.ok(mistakes.run(*self.audit("show", others, path))).splitlines()
        self.assertEqual(len(shown), 4 + len(self.lines(others)))
        self.assertEqual(shown, sorted(shown, key=lambda line: line.split()[0]))
        # What was left out is told at the end as well, perhaps in the same millisecond.
        self.assertTrue(any(" stop" in line for line in shown[-2:]), shown)
        good = self.lines(others)
        with open(others, encoding="utf-8") as log:
            lines = log.readlines()
        self.write(others, lines[:-1] + [lines[-1].replace("anonymous", "anonymouz")])
        self.refused(*self.audit("verify", path, others), code=1, words=(f"{others}, line {len(good)}: ", "was changed"))

    def test_Program_LogsTheHashOfTheLastLine(self):
        cluster, path = self.make_log(["t"])
        last = self.lines(path)[-1]
        self.assertEqual(last["event"], "stop")
        self.assertIn(f"seq={last['seq']} hash={last['hash']}", cluster.processes["control"].log())

    def test_Option_ChoosesAPlaceOrNone(self):
        cluster = self.make_cluster(0)
        elsewhere = f"{cluster.directory}/elsewhere.jsonl"
        data = f"{cluster.directory}/second"
        for choice, written in [("off", []), (elsewhere, [elsewhere])]:
            port = free_port()
            process = Process(cluster.directory, "second", self.program("skua-control"), "--data-dir", data,
                              "--listen-address", f"127.0.0.1:{port}", "--audit-log", choice)
            self.addCleanup(process.kill9)
            wait_for("a second control plane", lambda p=process: f"address=127.0.0.1:{port}" in p.log())
            process.stop()
            self.assertEqual(glob.glob(f"{data}/audit*") + glob.glob(elsewhere), written)
        self.refused(self.program("skua-control"), "--data-dir", data, "--listen-address", f"127.0.0.1:{free_port()}",
                     "--audit-log", self.log_of(cluster), words=("another process writes to the audit log",))
        self.refused(self.program("skua-control"), "--data-dir", data, "--listen-address", f"127.0.0.1:{free_port()}",
                     "--audit-log", self.program("skuactl"), words=("is no audit log",))
        self.refused(self.program("skua-control"), "--data-dir", data, "--listen-address", f"127.0.0.1:{free_port()}",
                     "--audit-log", f"{cluster.directory}/no/such", code=1, words=("No such file",))


if __name__ == "__main__":
    mistakes.main()
