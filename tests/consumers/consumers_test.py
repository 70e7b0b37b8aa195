#!/usr/bin/env python3
"""The client library as users get it: installed into a folder, found there by CMake and pkg-config, built against by
programs in C and C++, and run on a cluster.

  consumers_test.py --build build/release --bin build/release/bin [NAME]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kvstore", "gateway"))
from gateway_programs import Programs  # noqa: E402

LIMIT_S = 120
BUILD = BIN = None


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


class ConsumersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        # What is installed may be moved: nothing of it names the folder.
        run("cmake", "--install", BUILD, "--prefix", os.path.join(cls.folder, "first"))
        cls.prefix = os.path.join(cls.folder, "prefix")
        os.rename(os.path.join(cls.folder, "first"), cls.prefix)
        cls.programs = Programs(BIN)
        cls.addClassCleanup(cls.programs.__exit__)
        cls.programs.start_cluster(1)

    def libraries(self):
        return next(folder for folder, _, files in os.walk(self.prefix) if "libskua.so.1" in files)

    def cmake_project(self, name, *words):
        build = os.path.join(self.folder, name)
        run("cmake", "-S", os.path.join(HERE, name), "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", *words)
        run("cmake", "--build", build)
        return os.path.join(build, "consumer")

    def run_on_table(self, table, program, environment=None):
        self.programs.skuactl("table", "create", table, "--shards", "1")
        output = run(program, f"127.0.0.1:{self.programs.control_port}", table, env={**os.environ, **(environment or {})})
        self.assertEqual(output.split()[0], "ok")

    def test_what_is_installed(self):
        installed = {os.path.relpath(os.path.join(folder, file), self.prefix)
                     for folder, _, files in os.walk(self.prefix) for file in files}
        names = {os.path.basename(file) for file in installed}
        for name in ("skua.h", "skua.hpp", "skua_coro.hpp", "libskua.so", "libskua.so.1", "skua.pc", "SkuaConfig.cmake",
                     "SkuaConfigVersion.cmake"):
            self.assertIn(name, names)
        # The library looks for its plug-ins in the folder `skua` beside it.
        for kind in ("dpdk", "verbs"):
            self.assertTrue(os.path.exists(os.path.join(self.libraries(), "skua", f"libskua-transport-{kind}.so.1")))
        for file in installed:
            with open(os.path.join(self.prefix, file), "rb") as content:
                self.assertNotIn(self.folder.encode(), content.read(), file)

    def test_c_by_cmake(self):
        self.run_on_table("c", self.cmake_project("c_cmake"))

    def test_with_certificates(self):
        program = self.cmake_project("c_cmake")
        with Programs(BIN) as programs:
            programs.start_cluster(1, "--secure", "true")
            folder = os.path.join(programs.cluster_directory(), "certificates")

            def options(name):
                return {"cert": f"{folder}/{name}.pem", "key": f"{folder}/{name}.key", "ca": f"{folder}/ca/ca.pem"}

            admin = [word for name, value in options("admin").items() for word in (f"--{name}", value)]
            programs.skuactl("table", "create", "secret", "--shards", "1", *admin)
            command = [program, f"127.0.0.1:{programs.control_port}", "secret"]
            client = [f"{name}={value}" for name, value in options("client").items()]
            self.assertEqual(run(*command, *client).split()[0], "ok")
            # Neither side trusts a client of another authority. The result says so; gRPC, which would write of it, is silent.
            other = os.path.join(self.folder, "other_authority")
            programs.skuactl("cert", "init", other)
            programs.skuactl("cert", "issue", "client", "stranger", "--authority", other, "--out", other)
            foreign = [f"cert={other}/stranger.pem", f"key={other}/stranger.key", f"ca={other}/ca.pem", "timeout=1s"]
            for words, is_noisy in ((foreign, False), ([*foreign, "grpc-log=keep"], True), (["timeout=1s"], False)):
                refused = subprocess.run([*command, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                                         env={name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"})
                self.assertEqual(refused.returncode, 1)
                self.assertRegex(refused.stderr, r"not so: put: \w+ .+\n$")
                self.assertEqual(len(refused.stderr.splitlines()) > 1, is_noisy, refused.stderr)
            # The library says which file is wrong, and connects to nothing.
            wrong = subprocess.run([*command, *client, "key=/nosuch"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertIn("/nosuch", wrong.stderr)

    def found(self):
        """Where the library is found by pkg-config and by programs."""
        return {"PKG_CONFIG_PATH": os.path.join(self.libraries(), "pkgconfig"), "LD_LIBRARY_PATH": self.libraries()}

    def compile(self, compiler, source, *words):
        """By pkg-config; the program."""
        flags = run("pkg-config", "--cflags", "--libs", "skua", env={**os.environ, **self.found()}).split()
        program = os.path.join(self.folder, "pkg_" + os.path.basename(source).split(".")[0])
        run(compiler, *words, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", source, *flags, "-o", program)
        return program

    def test_c_by_pkg_config(self):
        program = self.compile("gcc", os.path.join(HERE, "c_pkgconfig", "consumer.c"), "-std=c11", "-D_POSIX_C_SOURCE=200809L")
        self.run_on_table("pkg", program, self.found())

    def test_cpp_without_exceptions_by_each_compiler(self):
        compilers = [name for name in ("g++", "clang++-19", "clang++") if shutil.which(name)]
        for compiler in compilers:
            with self.subTest(compiler):
                program = self.cmake_project("cpp_cmake", f"-DCMAKE_CXX_COMPILER={compiler}")
                self.run_on_table("cpp" + "".join(filter(str.isalnum, compiler)), program)
                shutil.rmtree(os.path.dirname(program))

    def test_coroutines_by_each_compiler(self):
        example = os.path.join(HERE, "..", "..", "examples", "cpp", "count_words.cc")
        for compiler in [name for name in ("g++", "clang++-19") if shutil.which(name)]:
            with self.subTest(compiler):
                table = "coro" + "".join(filter(str.isalnum, compiler))
                self.run_on_table(table, self.compile(compiler, os.path.join(HERE, "coro", "consumer.cc"), "-std=c++20",
                                                      "-fno-exceptions", "-fno-rtti"), self.found())
        program = self.compile("g++", example, "-std=c++20")
        counted = run(program, "corog", input="to be or not to be",
                      env={**os.environ, **self.found(), "SKUA_CONTROL_ADDRESS": f"127.0.0.1:{self.programs.control_port}"})
        self.assertEqual(counted.split("\n"), ["2 be", "1 not", "1 or", "2 to", ""])

    def test_other_versions_are_not_found(self):
        project = os.path.join(self.folder, "other_version")
        os.mkdir(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="ascii") as text:
            text.write("cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES NONE)\nfind_package(Skua 99 REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, 'is compatible\\s+with requested\\s+version "99"'):
            run("cmake", "-S", project, "-B", os.path.join(project, "build"), f"-DCMAKE_PREFIX_PATH={self.prefix}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    BUILD, BIN = os.path.abspath(arguments.build), os.path.abspath(arguments.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
