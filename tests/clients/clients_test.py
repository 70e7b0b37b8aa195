#!/usr/bin/env python3
"""Client libraries of Redis and memcached with skua-gateway: each script in scripts/ uses one library.

  clients_test.py --bin build/release/bin [--npm FOLDER] [--only NAME]...

A script whose library is not installed is skipped, and the test says so. Libraries of Node come from npm, into a folder
that is removed afterwards, if there is an npm and a registry answers within 30 seconds; or from --npm, where they are
installed already.
Exit code 77: no library is here.
"""

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Callable

from memory_folder import memory_folder

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kvstore", "gateway"))
from gateway_programs import Programs, accepts, free_ports, wait_for  # noqa: E402

SCRIPTS = os.path.join(HERE, "scripts")
SCRIPT_LIMIT_S = 120
NPM_LIMIT_S = 30
NPM_PACKAGES = ["ioredis@6", "iovalkey@0.4", "redis@6", "memcached@2"]


class Skipped(Exception):
    """The library is not here."""


def output_of(command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **options)


def need(what, probe):
    """`probe`: a command that ends with 0 if `what` is installed."""
    if shutil.which(probe[0]) is None:
        raise Skipped(f"there is no {probe[0]}")
    if output_of(probe).returncode != 0:
        raise Skipped(f"{what} is not installed")


def python_script(script, module):
    """With this Python, or the system's, for which Debian has the libraries."""
    def command(_):
        for python in (sys.executable, "/usr/bin/python3"):
            if shutil.which(python) and output_of([python, "-c", f"import {module}"]).returncode == 0:
                return [python, os.path.join(SCRIPTS, script)]
        raise Skipped(f"{module} is not installed")
    return command


def hiredis_script(context):
    need("hiredis", ["pkg-config", "--exists", "hiredis"])
    need("a compiler", ["cc", "--version"])
    program = os.path.join(context.folder, "hiredis_client")
    flags = output_of(["pkg-config", "--cflags", "--libs", "hiredis"]).stdout.split()
    # Its headers are found as <hiredis/hiredis.h> and without the folder's name.
    source = os.path.join(SCRIPTS, "hiredis_client.c")
    built = output_of(["cc", "-Wall", "-Wextra", "-O1", source, "-o", program, *flags])
    if built.returncode != 0:
        raise AssertionError(f"hiredis_client.c: {built.stderr}")
    return [program]


def php_script(_):
    need("phpredis", ["php", "-r", "exit(extension_loaded('redis') ? 0 : 1);"])
    return ["php", os.path.join(SCRIPTS, "phpredis_client.php")]


def ruby_script(_):
    need("redis-rb", ["ruby", "-e", "require 'redis'"])
    return ["ruby", os.path.join(SCRIPTS, "redis_rb_client.rb")]


def node_script(script, *words):
    def command(context):
        context.install_npm()
        return ["node", os.path.join(SCRIPTS, script), *words]
    return command


@dataclasses.dataclass
class Context:
    folder: str
    npm_folder: str | None
    npm_failure: str = ""

    def install_npm(self):
        """Once for all."""
        if self.npm_failure:
            raise Skipped(self.npm_failure)
        if self.npm_folder is not None:
            return
        folder = os.path.join(self.folder, "npm")
        try:
            need("node", ["node", "--version"])
            need("npm", ["npm", "--version"])
            done = output_of(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--prefix",
                              folder, *NPM_PACKAGES], timeout=NPM_LIMIT_S)
            if done.returncode != 0:
                raise Skipped(f"npm install fails: {done.stderr.strip()[-200:]}")
        except (Skipped, subprocess.TimeoutExpired) as reason:
            is_slow = isinstance(reason, subprocess.TimeoutExpired)
            self.npm_failure = f"npm install took more than {NPM_LIMIT_S} s" if is_slow else str(reason)
            raise Skipped(self.npm_failure) from reason
        self.npm_folder = folder

    def environment(self):
        if self.npm_folder is None:
            return dict(os.environ)
        return {**os.environ, "NODE_PATH": os.path.join(self.npm_folder, "node_modules")}


@dataclasses.dataclass
class Client:
    name: str
    is_memcached: bool
    # Gives the command that the port is added to, or raises Skipped.
    command: Callable[[Context], list[str]]
    words: tuple[str, ...] = ()


CLIENTS = [
    Client("hiredis", False, hiredis_script),
    Client("redis-py", False, python_script("redis_py_client.py", "redis")),
    Client("phpredis", False, php_script),
    Client("redis-rb", False, ruby_script),
    Client("ioredis", False, node_script("ioredis_client.js"), ("ioredis",)),
    Client("iovalkey", False, node_script("ioredis_client.js"), ("iovalkey",)),
    Client("node-redis", False, node_script("node_redis_client.js")),
    Client("pymemcache", True, python_script("pymemcache_client.py", "pymemcache")),
    Client("pylibmc", True, python_script("pylibmc_client.py", "pylibmc")),
    Client("memcached for Node", True, node_script("node_memcached_client.js")),
]


def run_client(client, context, port):
    command = [*client.command(context), str(port), *client.words]
    done = output_of(command, timeout=SCRIPT_LIMIT_S, env=context.environment())
    if done.returncode != 0:
        raise AssertionError(f"{client.name} fails: {' '.join(command)}\n{done.stdout}{done.stderr}")


def run(arguments, folder):
    """How many clients ran."""
    context = Context(folder, arguments.npm)
    tempfile.tempdir = memory_folder()
    count = 0
    with Programs(arguments.bin) as programs:
        programs.start_cluster(1)
        programs.skuactl("table", "create", "cache", "--shards", "1")
        memcached_port = free_ports(1)
        _, port = programs.start_gateway("--databases", "0=cache", "--memcached-address", f"127.0.0.1:{memcached_port}")
        wait_for("the memcached address", lambda: accepts(memcached_port))
        for client in CLIENTS:
            if arguments.only and client.name not in arguments.only:
                continue
            try:
                run_client(client, context, memcached_port if client.is_memcached else port)
                print(f"{client.name}: passes", flush=True)
                count += 1
            except Skipped as reason:
                print(f"{client.name}: skipped, {reason}", flush=True)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--npm", help="a folder with node_modules, where libraries of Node are installed")
    parser.add_argument("--only", action="append", help="only this client")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if run(arguments, folder) > 0 else 77


if __name__ == "__main__":
    sys.exit(main())
