#!/usr/bin/env python3
"""The Python package: built against an installed client library, and used on a cluster (package_cases.py); its types.

  python_package_test.py --build build/release --bin build/release/bin [NAME]

Exit code 77: this Python has no cffi.
"""

import argparse
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

DEBIANS_PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "..", "kvstore", "gateway"))
from gateway_programs import Programs  # noqa: E402


def has(python, *modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], check=False, capture_output=True).returncode == 0


def check_types(folder):
    """Whether mypy --strict finds nothing, or is not there: in the package, in its examples, in what uses all of it."""
    if shutil.which("mypy") is None:
        print("left out: types, for there is no mypy")
        return True
    package = os.path.join(ROOT, "bindings", "python")
    files = [os.path.join(package, "skua"), os.path.join(HERE, "typing_cases.py")]
    if has(DEBIANS_PYTHON, "numpy"):
        files += glob.glob(os.path.join(ROOT, "examples", "python", "*.py"))
    else:
        print("left out: the types of examples/python, for mypy would not find numpy")
    return subprocess.run(["mypy", "--strict", "--python-executable", DEBIANS_PYTHON, "--cache-dir", os.path.join(folder, "mypy"),
                           *files], check=False, env={**os.environ, "MYPYPATH": package}).returncode == 0


def run_example(environment, control_address):
    """Whether the example with numpy works, by a Python that has it."""
    python = next((python for python in (sys.executable, DEBIANS_PYTHON) if has(python, "cffi", "numpy")), None)
    if python is None:
        print("left out: examples/python/tensor_cache.py, for no Python here has numpy")
        return True
    done = subprocess.run([python, os.path.join(ROOT, "examples", "python", "tensor_cache.py"), control_address, "t"], check=False,
                          env=environment, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    return done.returncode == 0 and "loaded 12 MiB, float32, shape (24, 512, 256)" in done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--bin", required=True)
    arguments, rest = parser.parse_known_args()
    if importlib.util.find_spec("cffi") is None:
        print(f"left out: {sys.executable} has no cffi")
        return 77
    with tempfile.TemporaryDirectory() as folder, Programs(arguments.bin) as programs:
        prefix, package = os.path.join(folder, "prefix"), os.path.join(folder, "package")
        subprocess.run(["cmake", "--install", arguments.build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        libraries = next(where for where, _, files in os.walk(prefix) if "libskua.so.1" in files)
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(libraries, "pkgconfig"), "LD_LIBRARY_PATH": libraries,
                       "PYTHONPATH": package}
        subprocess.run([sys.executable, os.path.join(ROOT, "bindings", "python", "build.py"), "--out", package], check=True,
                       env=environment)
        programs.start_cluster(1)
        programs.skuactl("table", "create", "t", "--shards", "4")
        programs.skuactl("table", "create", "one", "--shards", "1")
        environment["SKUA_CONTROL_ADDRESS"] = f"127.0.0.1:{programs.control_port}"
        cases = [sys.executable, os.path.join(HERE, "package_cases.py"), *rest]
        done = subprocess.run(cases, check=False, env=environment, stderr=subprocess.PIPE, text=True)
        print(done.stderr, file=sys.stderr)
        # What fails inside of a callback is printed by cffi, and by nobody else.
        if "cffi callback" in done.stderr or not run_example(environment, environment["SKUA_CONTROL_ADDRESS"]):
            return 1
        if not check_types(folder):
            return 1
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
