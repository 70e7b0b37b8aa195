#!/usr/bin/env python3
"""deploy/package's packages: lintian, and the life of a machine that has them.

  package_test.py BUILD_FOLDER [--base TARBALL] [--packages FOLDER]

In a fresh Debian (mmdebstrap): installed, started by hand, a first SET by redis-cli, the examples of docs/c.md and
docs/python.md with the installed libraries, upgraded, purged. Needs root, a Debian mirror and some minutes; else it says why
it is skipped (exit code 77). TARBALL: a Debian that mmdebstrap made before, with INCLUDED; it is made there if it is missing.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = ["libskua-dev", "libskua-dpdk1", "libskua-verbs1", "libskua1", "python3-skua", "skua-control", "skua-gateway", "skua-server", "skua-tools"]
INCLUDED = "systemd-standalone-sysusers,redis-tools,python3,python3-cffi-backend"
SKIPPED = 77
# What the package manager itself keeps, and what is not of the chroot.
NOT_LOOKED_AT = ("/proc", "/sys", "/dev", "/tmp", "/var/cache", "/var/log", "/var/lib/apt", "/var/lib/dpkg")

# Without a device, and in a chroot without /sys, the plug-ins say so; each must be found and loaded for that.
TRY_PLUGINS = r"""
import skua
for transport, options in {"dpdk": {"dpdk_devices": "net_nosuch0", "dpdk_addresses": "10.77.0.1/24", "dpdk_huge_pages": False},
                           "verbs": {"verbs_device": "nosuch0"}}.items():
    try:
        skua.Client(transport=transport, **options)
    except skua.Error as error:
        print(error.text)
"""

# In namespaces of their own: processes, mounts and network. Ends with all that it started.
SERVE = r"""
set -euo pipefail
ip link set lo up
mount -t proc proc "$ROOT/proc"
in_root() { chroot "$ROOT" "$@"; }
as_skua() { exec chroot "$ROOT" setpriv --reuid skua --regid skua --clear-groups "$@"; }  # only with & behind it
until_ok() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done; "$@"; }
as_skua skua-control --config /etc/skua/skua-control.toml & control=$!
as_skua skuad --config /etc/skua/skuad.toml --memory 256MiB & node=$!
until_ok in_root skuactl table create cache --if-not-exists
until_ok curl -fsS http://127.0.0.1:7411/readyz
as_skua skua-gateway --config /etc/skua/skua-gateway.toml & gateway=$!
until_ok in_root redis-cli ping
eval "$1"
for port in 7401 7411 6380; do curl -fsS "http://127.0.0.1:$port/readyz?verbose"; done
kill "$gateway" && wait "$gateway"
kill "$node" && wait "$node"
kill "$control" && wait "$control"
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def run(*command, **options):
    print("+", *command[:8], flush=True)
    return subprocess.run(command, check=True, text=True, **options)


class Machine:
    """A Debian in a folder."""

    def __init__(self, folder, base):
        self.root = os.path.join(folder, "root")
        if not os.path.exists(base):
            made = subprocess.run(["mmdebstrap", "--quiet", "--variant=apt", f"--include={INCLUDED}", "bookworm", base],
                                  check=False)
            if made.returncode != 0:
                skip("mmdebstrap makes no Debian here: is a mirror reachable?")
        os.mkdir(self.root)
        run("tar", "-C", self.root, "-xf", base)
        shutil.copy("/etc/resolv.conf", self.root + "/etc/resolv.conf")

    def do(self, *command, **options):
        return run("chroot", self.root, "env", "DEBIAN_FRONTEND=noninteractive", *command, **options)

    def install(self, packages):
        for package in packages:
            shutil.copy(package, self.root + "/tmp/")
        self.do("apt-get", "-qq", "-y", "--no-install-recommends", "install",
                *("/tmp/" + os.path.basename(package) for package in packages), stdout=subprocess.DEVNULL)

    def serve(self, script):
        """Starts the programs, runs the script beside them, and stops them."""
        run("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", SERVE, "serve", script,
            env={**os.environ, "ROOT": self.root}, timeout=300)

    def compile(self, *command):
        """By the compiler of here, against the headers and the library of there: a compiler takes long to install."""
        configs = glob.glob(self.root + "/usr/lib/*/pkgconfig/skua.pc")
        assert len(configs) == 1, configs
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", configs[0]], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split()
        # The libraries that libskua.so.1 needs are found when the program runs.
        run(*command, *flags, "-Wl,--allow-shlib-undefined")

    def paths(self):
        """All that lies in it, but for what the package manager keeps for itself."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            inside = folder[len(self.root):] or "/"
            if inside.startswith(NOT_LOOKED_AT):
                folders.clear()
                continue
            found.update(os.path.join(inside, name) for name in folders + files)
        return found

    def users(self):
        with open(self.root + "/etc/passwd", encoding="utf-8") as users:
            return users.read()


def higher_version(package, folder):
    """The same package, in a version above its own."""
    tree = os.path.join(folder, "tree-" + os.path.basename(package))
    run("dpkg-deb", "-R", package, tree)
    with open(tree + "/DEBIAN/control", encoding="utf-8") as control:
        text = control.read()
    with open(tree + "/DEBIAN/control", "w", encoding="utf-8") as control:
        # libskua-dev needs the libskua1 of its own version.
        control.write(re.sub(r"(?m)^Version: .*$|\(= [^)]*", r"\g<0>+1", text))
    out = os.path.join(folder, "higher-" + os.path.basename(package))
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, out, stdout=subprocess.DEVNULL)
    return out


def python_of(document):
    """The program that the document writes into a file."""
    with open(os.path.join(REPO, document), encoding="utf-8") as text:
        return re.search(r"<<'PYTHON'\n(.*?)^PYTHON$", text.read(), re.DOTALL | re.MULTILINE).group(1)


def put_examples(machine):
    """Programs of applications, and what runs them."""
    machine.compile("gcc", os.path.join(REPO, "examples/c/session_store.c"), "-o", machine.root + "/tmp/session_store")
    for compiler in ("g++", "clang++-19"):
        if shutil.which(compiler):
            machine.compile(compiler, "-std=c++17", "-fsyntax-only", "-include", "skua/skua.hpp", "-xc++", "/dev/null")
    with open(machine.root + "/tmp/notes.py", "w", encoding="utf-8") as program:
        program.write(python_of("docs/python.md"))
    return r"""
in_root skuactl table create sessions --shards 2
in_root skuactl table create notes --shards 2
id=$(in_root /tmp/session_store login ada)
in_root /tmp/session_store visit "$id" /notes
in_root /tmp/session_store show "$id" | grep /notes
in_root python3 /tmp/notes.py | grep "visits: 1"
"""


def check_cmake_package(machine, folder):
    """find_package(Skua) finds the library of there."""
    source = os.path.join(REPO, "tests/consumers/c_cmake")
    made = subprocess.run(["cmake", "-S", source, "-B", folder + "/c_cmake", f"-DCMAKE_PREFIX_PATH={machine.root}/usr",
                           f"-DCMAKE_LIBRARY_ARCHITECTURE={os.uname().machine}-linux-gnu"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    with open(folder + "/c_cmake/CMakeCache.txt", encoding="utf-8") as cache:
        found = re.search(r"(?m)^Skua_DIR:\w+=(.*)$", cache.read()).group(1)
    assert found.startswith(machine.root), (found, made)
    run("cmake", "--build", folder + "/c_cmake", stdout=subprocess.DEVNULL)


def check_plugins(machine):
    said = machine.do("python3", "-c", TRY_PLUGINS, stdout=subprocess.PIPE).stdout
    print(said)
    assert re.fullmatch(r"DPDK does not start: .*\n.*RDMA.*\n", said), said


def check_life(packages, folder, base):
    machine = Machine(folder, base)
    machine.do("apt-get", "-qq", "update")
    before = machine.paths()
    machine.install(packages)
    added = machine.paths() - before
    for path in ("/etc/systemd/system/multi-user.target.wants/skuad.service", "/usr/share/man/man8/skuad.8.gz",
                 "/etc/skua/skuad.toml", "/var/lib/skua"):
        assert path in added, f"{path} is missing"
    assert "\nskua:" in machine.users()
    kept = machine.do("stat", "-c", "%U:%G:%a", "/etc/skua/skuad.toml", stdout=subprocess.PIPE).stdout.strip()
    assert kept == "root:skua:640", f"/etc/skua/skuad.toml is {kept}"
    check_cmake_package(machine, folder)
    check_plugins(machine)
    machine.serve(put_examples(machine) + 'test "$(in_root redis-cli set greeting hello)" = OK')
    with open(machine.root + "/etc/skua/skuad.toml", "a", encoding="utf-8") as config:
        config.write("# the administrator was here\n")
    machine.install([higher_version(package, folder) for package in packages])
    with open(machine.root + "/etc/skua/skuad.toml", encoding="utf-8") as config:
        assert "the administrator was here" in config.read(), "the configuration was replaced"
    versions = machine.do("dpkg-query", "-W", "-f", "${Version}\n", *PACKAGES, stdout=subprocess.PIPE).stdout
    assert all(version.endswith("+1") for version in versions.split()), versions
    machine.serve('test "$(in_root redis-cli get greeting)" = hello')
    machine.do("apt-get", "-qq", "-y", "purge", *PACKAGES, stdout=subprocess.DEVNULL)
    left = sorted(path for path in machine.paths() - before if "skua" in path)
    assert left == [], f"left behind: {left}"
    assert "\nskua:" in machine.users(), "the user is gone, and another one may get its number"
    print("installed, compiled against, served, upgraded and purged")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--base", help="a tarball of mmdebstrap's")
    parser.add_argument("--packages", help="a folder of packages that deploy/package made before")
    arguments = parser.parse_args()
    for tool in ("mmdebstrap", "lintian", "cpack", "dpkg-shlibdeps", "curl", "pkg-config"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    if os.geteuid() != 0:
        skip("a chroot needs root")
    for name in ("skuad", "skua-control", "skua-gateway", "skuactl", "skua-ycsb", "skua-perf", "skua-tally"):
        if not os.path.exists(os.path.join(arguments.build, "bin", name)):
            skip(f"{name} is not built")
    for name in ("libskua.so.1", "skua/libskua-transport-dpdk.so.1", "skua/libskua-transport-verbs.so.1"):
        if not os.path.exists(os.path.join(arguments.build, "lib", name)):
            skip(f"{name} is not built")
    with tempfile.TemporaryDirectory(prefix="skua-package-test-") as folder:
        # image_test.py takes them from there.
        built = arguments.packages or os.path.join(arguments.build, "packages-of-tests")
        if not arguments.packages:
            shutil.rmtree(built, ignore_errors=True)
            run(os.path.join(REPO, "deploy/package"), "--no-build", "--build", arguments.build, "--out", built)
        packages = sorted(glob.glob(built + "/*.deb"))
        assert [os.path.basename(package).split("_")[0] for package in packages] == PACKAGES, packages
        run("lintian", "--allow-root", "--fail-on", "error,warning", *packages)
        check_life(packages, folder, arguments.base or folder + "/base.tar")


if __name__ == "__main__":
    main()
