#!/usr/bin/env python3
"""The test suites of Redis and memcached, and libmemcached's memcapable, with skua-gateway as their server.

  suites_test.py --bin build/release/bin [--all] [--redis FOLDER] [--memcached FOLDER]

The sources come from the Debian mirror of this system (apt-get source, with lists of its own; nothing of the system
changes), or from folders where they are unpacked already; the test works with copies. Without --all, units and tests that
take seconds are left out. redis_suite_skips.txt and memcached_suite_differences.txt say which tests are not for the
gateway, and why. All others must pass.
Exit code 77: the sources cannot be had here, or a program is missing.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from memory_folder import memory_folder

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kvstore", "gateway"))
from gateway_programs import LIMIT_S, Programs, free_ports  # noqa: E402

FETCH_LIMIT_S = 120
UNIT_LIMIT_S = 300
# Whose tests and replies are meant.
VERSIONS = {"redis": "7.0.", "memcached": "1.6.18"}
UNITS = ["unit/type/string", "unit/type/incr", "unit/type/hash", "unit/keyspace", "unit/multi", "unit/protocol", "unit/scan",
         "unit/quit"]
SLOW_UNITS = ["unit/expire", "unit/other"]
# Of the fast units: tests of thousands of commands, one after the other.
SLOW_TESTS = ["Very big payload random access", "SET 10000 numeric keys and access all them in reverse order",
              "DBSIZE should be 10000 now", "SETNX against expired volatile key", "GETRANGE fuzzing"]
DENIED_TAGS = "-needs:repl -needs:save -needs:config-maxmemory"
# The first wants a server that has counted nothing yet. Files that are not here want options of memcached's, or its memory.
FILES = ["issue_104", "bogus-commands", "cas", "flags", "incrdecr", "issue_108", "issue_152", "issue_192", "issue_3",
         "issue_61", "issue_68", "issue_70", "line-lengths", "malicious-commands", "metaget", "multiversioning", "noreply",
         "quit"]
SLOW_FILES = ["expirations", "flush-all", "getandtouch", "getset", "touch"]


class Unavailable(Exception):
    """The suite cannot run here."""


def apt_sources():
    """A line of deb-src for each archive of this system that has a component main, but for those of corrections."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                             "Created-By: Packages"], capture_output=True, text=True, check=False).stdout.split("\n")
    archives = [line.split() for line in listed if line.endswith(" main")]
    return [f"deb-src {uri} {release} main" for uri, release, _ in archives if "-" not in release]


def fetch(folder):
    """The folders of the sources of Redis and memcached, unpacked in `folder`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-source") is None:
        raise Unavailable("there is no apt-get, or no dpkg-source")
    sources = apt_sources()
    if not sources:
        raise Unavailable("apt knows no archive")
    os.makedirs(os.path.join(folder, "lists", "partial"))
    with open(os.path.join(folder, "sources.list"), "w", encoding="utf-8") as out:
        out.write("\n".join(sources) + "\n")
    options = [f"Dir::Etc::SourceList={folder}/sources.list", "Dir::Etc::SourceParts=/dev/null",
               f"Dir::State::Lists={folder}/lists", "Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=",
               "Acquire::Languages=none", "Acquire::Retries=1", "Acquire::http::Timeout=20",
               "APT::Update::Error-Mode=any", f"APT::Sandbox::User={'root' if os.getuid() == 0 else ''}"]
    words = ["apt-get", "-qq"] + [word for option in options for word in ("-o", option)]
    for action in (["update"], ["source", "redis", "memcached"]):
        done = subprocess.run([*words, *action], cwd=folder, capture_output=True, text=True, timeout=FETCH_LIMIT_S,
                              check=False)
        if done.returncode != 0:
            raise Unavailable(f"apt-get {' '.join(action)}: {done.stderr.strip()[-300:]}")
    found = []
    for suite, version in VERSIONS.items():
        names = [name for name in os.listdir(folder) if name.startswith(f"{suite}-{version}")]
        if len(names) != 1:
            raise Unavailable(f"Debian has another version of {suite} than {version}")
        found.append(os.path.join(folder, names[0]))
    return found


def replace_in(path, old, new):
    with open(path, encoding="latin-1") as file:
        text = file.read()
    if old not in text:
        raise AssertionError(f"{path} has no {old!r}: it is of another version")
    with open(path, "w", encoding="latin-1") as file:
        file.write(text.replace(old, new))


def lines_of(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return [line for line in file.read().split("\n") if line and not line.startswith("#")]


# --- Redis

def prepare_redis(source, folder):
    """A copy of what the suite needs, made fit for the gateway. See redis_suite_shim.tcl."""
    copy = os.path.join(folder, "redis")
    os.makedirs(copy)
    shutil.copytree(os.path.join(source, "tests"), os.path.join(copy, "tests"))
    shutil.copy(os.path.join(source, "runtest"), copy)
    os.makedirs(os.path.join(copy, "tests", "tmp"), exist_ok=True)
    replace_in(os.path.join(copy, "tests", "test_helper.tcl"), "\nif {$::client} {\n",
               "\nsource {" + os.path.join(HERE, "redis_suite_shim.tcl") + "}\nif {$::client} {\n")
    # Some tests add a field to the large hash. The gateway takes 1,024.
    hashes = os.path.join(copy, "tests", "unit", "type", "hash.tcl")
    replace_in(hashes, "$i < 1024", "$i < 1000")
    replace_in(hashes, "    } {1024}", "    } {1000}")
    return copy


def run_unit(copy, unit, port, skips):
    done = subprocess.run(["./runtest", "--host", "127.0.0.1", "--port", str(port), "--ignore-encoding", "--ignore-digest",
                           "--durable", "--skipfile", skips, "--baseport", str(free_ports(40) + 32), "--tags", DENIED_TAGS,
                           "--single", unit], cwd=copy, capture_output=True, timeout=UNIT_LIMIT_S, check=False)
    output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode("latin-1"))
    results = {kind: re.findall(rf"^\[{kind}\]: (.*?)(?: \(\d+ ms\))?$", output.split("!!! WARNING")[0], re.MULTILINE)
               for kind in ("ok", "err", "skip", "ignore", "exception")}
    has_ended = f"done]: {unit}" in output
    if done.returncode != 0 or not has_ended or results["err"] or results["exception"]:
        errors = done.stderr.decode("latin-1")[-1000:]
        raise AssertionError(f"{unit} fails with {len(results['err'])} tests:\n{output[-6000:]}{errors}")
    return results


def check_skips(skipped):
    """No line of the file is there for nothing."""
    for line in lines_of("redis_suite_skips.txt"):
        pattern = line[1:] if line.startswith("/") else "^" + re.escape(line) + "$"
        if not any(re.search(pattern, name) for name in skipped):
            raise AssertionError(f"redis_suite_skips.txt names no test: {line}")


def redis_suite(source, folder, port, is_all):
    copy = prepare_redis(source, folder)
    skips = os.path.join(folder, "skips")
    with open(skips, "w", encoding="utf-8") as out:
        out.write("\n".join(lines_of("redis_suite_skips.txt") + ([] if is_all else SLOW_TESTS)) + "\n")
    skipped = []
    for unit in UNITS + (SLOW_UNITS if is_all else []):
        results = run_unit(copy, unit, port, skips)
        skipped += results["skip"]
        print(f"redis {unit}: {len(results['ok'])} pass, {len(results['skip'])} skipped, {len(results['ignore'])} not for "
              "servers that run already", flush=True)
        if not results["ok"]:
            raise AssertionError(f"{unit} has no test that passes")
    if is_all:
        check_skips(skipped)


# --- memcached

def prepare_memcached(source, folder):
    copy = os.path.join(folder, "memcached")
    os.makedirs(copy)
    shutil.copytree(os.path.join(source, "t"), os.path.join(copy, "t"))
    shutil.copytree(os.path.join(source, "doc"), os.path.join(copy, "doc"))  # a text to store
    # Tests ask this program what it can do; the server is another one.
    program = os.path.join(copy, "memcached-debug")
    with open(program, "w", encoding="utf-8") as out:
        out.write("#!/bin/sh\necho memcached 1.6.18\n")
    os.chmod(program, 0o755)
    # memcached for tests has a command that moves its clock. Here time passes.
    replace_in(os.path.join(copy, "t", "lib", "MemcachedTest.pm"), 'print $sock "debugtime $move\\r\\n";\n    <$sock>;',
               "sleep($move);")
    return copy


def differences_of(file):
    """Numbers of tests of `file` that differ: lines of name, numbers and the reason."""
    numbers = set()
    for line in lines_of("memcached_suite_differences.txt"):
        name, ranges, _ = line.split(None, 2)
        if name != file:
            continue
        for part in ranges.split(","):
            first, _, last = part.partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def run_file(copy, file, port):
    """The numbers of the tests of a file that pass, and of those that fail."""
    done = subprocess.run(["perl", f"t/{file}.t"], cwd=copy, capture_output=True, timeout=UNIT_LIMIT_S, check=False,
                          env={**os.environ, "T_MEMD_USE_DAEMON": f"127.0.0.1:{port}"})
    output = done.stdout.decode("latin-1")
    plan = re.search(r"^1\.\.(\d+)", output, re.MULTILINE)
    passed = {int(number) for number in re.findall(r"^ok (\d+)", output, re.MULTILINE)}
    failed = {int(number) for number in re.findall(r"^not ok (\d+)", output, re.MULTILINE)}
    if plan is None or len(passed) + len(failed) != int(plan[1]):
        raise AssertionError(f"t/{file}.t ended early:\n{output[-2000:]}{done.stderr.decode('latin-1')[-2000:]}")
    unexpected = failed - differences_of(file)
    if unexpected:
        raise AssertionError(f"t/{file}.t fails with {sorted(unexpected)}:\n{done.stderr.decode('latin-1')[-4000:]}")
    return passed, failed


def flush_all(port):
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        client.sendall(b"flush_all\r\n")
        if client.recv(100) != b"OK\r\n":
            raise AssertionError("flush_all fails")


def memcached_suite(source, folder, port, is_all):
    copy = prepare_memcached(source, folder)
    total_passed = total_failed = 0
    for file in FILES + (SLOW_FILES if is_all else []):
        passed, failed = run_file(copy, file, port)
        stale = differences_of(file) - failed
        if stale:
            raise AssertionError(f"memcached_suite_differences.txt: {file} {sorted(stale)} pass")
        total_passed += len(passed)
        total_failed += len(failed)
        if failed:
            print(f"memcached t/{file}.t: {len(passed)} pass, {len(failed)} differ", flush=True)
        flush_all(port)
    print(f"memcached: {total_passed} pass, {total_failed} differ", flush=True)
    memcapable(port)


def memcapable(port):
    # Debian calls it so.
    program = shutil.which("memccapable") or shutil.which("memcapable")
    if program is None:
        print("memcapable: skipped, it is not installed")
        return
    done = subprocess.run([program, "-a", "-h", "127.0.0.1", "-p", str(port)], capture_output=True, text=True,
                          timeout=UNIT_LIMIT_S, check=False)
    if done.returncode != 0 or "All tests passed" not in done.stdout + done.stderr:
        raise AssertionError(f"memcapable:\n{done.stdout}{done.stderr}")
    print(f"memcapable: {done.stdout.count('[pass]')} pass")


def run(arguments, folder):
    redis, memcached = arguments.redis, arguments.memcached
    if redis is None or memcached is None:
        fetched = fetch(os.path.join(folder, "sources"))
        redis, memcached = redis or fetched[0], memcached or fetched[1]
    tempfile.tempdir = memory_folder()
    with Programs(arguments.bin) as programs, concurrent.futures.ThreadPoolExecutor() as suites:
        programs.start_cluster(1)
        for table in ("cache", "nine", "ten", "memcached"):
            programs.skuactl("table", "create", table, "--shards", "1")
        # A gateway for each: FLUSHALL of one suite must not empty the table of the other.
        _, redis_port = programs.start_gateway("--databases", "1=cache,9=nine,10=ten", "--allow-flush")
        _, memcached_port = programs.start_memcached_gateway("--databases", "0=memcached", "--allow-flush")
        both = [suites.submit(redis_suite, redis, folder, redis_port, arguments.all),
                suites.submit(memcached_suite, memcached, folder, memcached_port, arguments.all)]
        for suite in both:
            suite.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--all", action="store_true", help="also what takes long")
    parser.add_argument("--redis", help="unpacked sources of Redis 7.0")
    parser.add_argument("--memcached", help="unpacked sources of memcached 1.6")
    arguments = parser.parse_args()
    missing = [program for program in ("tclsh", "perl") if shutil.which(program) is None]
    if missing:
        print(f"skipped: there is no {', '.join(missing)} here")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(arguments, folder)
        except (Unavailable, subprocess.TimeoutExpired) as reason:
            if isinstance(reason, subprocess.TimeoutExpired) and "apt-get" not in reason.cmd:
                raise
            print(f"skipped: {reason}")
            return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
