#!/usr/bin/env python3
"""Builds the Python package `skua` against an installed client library, which pkg-config must find.

  build.py --out DIR

DIR/skua is the package then: add DIR to PYTHONPATH. The module in it uses Python's stable ABI, so that it serves every
Python 3 that has cffi (python3-cffi).
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import cffi

HERE = os.path.dirname(os.path.abspath(__file__))
CALLBACK = '\nextern "Python" void skua_python_done(void* context, const skua_result* result);\n'


def declarations(header):
    """What cffi reads of skua.h: no comments, no preprocessor, no functions with a body."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^static inline .*?^}", "", text, flags=re.MULTILINE | re.DOTALL)
    return text.replace("SKUA_API ", "") + CALLBACK


def pkg_config(what):
    done = subprocess.run(["pkg-config", what, "skua"], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"build.py: pkg-config does not find skua; set PKG_CONFIG_PATH to the lib/pkgconfig of its prefix\n{done.stderr}")
    return done.stdout.split()


def module():
    """The cffi.FFI of skua._skua."""
    include = next(flag[2:] for flag in [*pkg_config("--cflags"), "-I/usr/include"] if flag.startswith("-I"))
    with open(os.path.join(include, "skua", "skua.h"), encoding="utf-8") as header:
        text = header.read()
    ffi = cffi.FFI()
    ffi.cdef(declarations(text))
    ffi.set_source("skua._skua", "#include <skua/skua.h>", py_limited_api=True, extra_compile_args=pkg_config("--cflags"),
                   extra_link_args=pkg_config("--libs"))
    return ffi


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="DIR", help="where the package goes")
    out = os.path.join(os.path.abspath(parser.parse_args().out), "skua")
    with tempfile.TemporaryDirectory() as folder:
        built = module().compile(tmpdir=folder)
        os.makedirs(out, exist_ok=True)
        shutil.copy(built, out)
    for file in [*glob.glob(os.path.join(HERE, "skua", "*.py")), *glob.glob(os.path.join(HERE, "skua", "*.pyi")),
                 os.path.join(HERE, "skua", "py.typed")]:
        shutil.copy(file, out)
    print(out)


if __name__ == "__main__":
    main()
