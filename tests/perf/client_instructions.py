#!/usr/bin/env python3
"""How many instructions a GET takes in the client: by the C++ AsyncClient and by skua.h, on a cluster of its own.

  client_instructions.py --bin build/release/bin

valgrind's callgrind counts all of the process. The figure is what a GET more takes: the difference of two numbers of GETs. The
client is slow under valgrind, so that replies of all 32 GETs in flight are there whenever it looks: bundles are as full as they
get. Medians of rounds.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kvstore", "gateway"))
from gateway_programs import Programs  # noqa: E402

FEW, MANY = 4000, 24000
ROUNDS = 3


def instructions(program, address, gets):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, address, "t", str(gets)],
                          capture_output=True, text=True, timeout=300, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None or done.stdout.strip() != f"{gets * 100} bytes":
        sys.exit(f"{program} did not end well:\n{done.stdout}{done.stderr}")
    return int(collected.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    binaries = parser.parse_args().bin
    told = {"gets_by_cpp": [], "gets_by_c": []}
    with Programs(binaries) as programs:
        programs.start_cluster(1)
        programs.skuactl("table", "create", "t", "--shards", "1")
        rows = "".join(json.dumps({"key": f"key{i}", "value": "v" * 100}) + "\n" for i in range(1000))
        address = f"127.0.0.1:{programs.control_port}"
        subprocess.run([os.path.join(binaries, "skuactl"), "import", "t", "--control-address", address], input=rows, text=True,
                       check=True)
        for _ in range(ROUNDS):
            for name, figures in told.items():
                program = os.path.join(binaries, name)
                figures.append((instructions(program, address, MANY) - instructions(program, address, FEW)) / (MANY - FEW))
    medians = {name: statistics.median(figures) for name, figures in told.items()}
    for name, figures in told.items():
        print(f"{name}: {medians[name]:,.0f} instructions a GET ({min(figures):,.0f} to {max(figures):,.0f})")
    print(f"C / C++: {medians['gets_by_c'] / medians['gets_by_cpp']:.3f}")


if __name__ == "__main__":
    main()
