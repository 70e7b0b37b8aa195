#!/usr/bin/env python3
"""deploy/image's image, and deploy/compose/compose.yaml with it.

  image_test.py BUILD_FOLDER [--packages FOLDER] [--image ARCHIVE]

Makes the image, looks at it, and starts the services of the compose file by podman: same commands, volumes, conditions
and health checks. All share one network here, so each has an address of loopback in place of 0.0.0.0 and 127.0.0.1.
Needs root, podman and a Debian mirror; else it says why it is skipped (exit code 77).
"""

import argparse
import contextlib
import glob
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("skuad", "skua-control", "skua-gateway", "skuactl", "skua-ycsb", "skua-perf", "skua-tally")
COMPOSE = os.path.join(REPO, "deploy/compose/compose.yaml")
SIZE_MAX = 120 << 20
SKIPPED = 77
# Generous: for machines that are busy.
LIMIT_S = 60

# Also for an interpreter that is not Debian's.
sys.path.append("/usr/lib/python3/dist-packages")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def run(*command, **options):
    print("+", *command[:12], flush=True)
    return subprocess.run(command, check=True, text=True, **options)


def until(what, condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"not within {LIMIT_S} s: {what}"
        time.sleep(0.2)


class Podman:
    """Podman with storage of its own below a folder."""

    def __init__(self, folder):
        self.command = ["podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/run",
                        "--tmpdir", f"{folder}/tmp", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]

    def do(self, *words, **options):
        print("+ podman", *words[:12], flush=True)
        return subprocess.run([*self.command, *words], check=True, text=True, **options)

    def output(self, *words):
        return subprocess.run([*self.command, *words], check=True, text=True, stdout=subprocess.PIPE).stdout

    def succeeds(self, *words):
        return subprocess.run([*self.command, *words], check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def run_arguments(self):
        return ["--cgroups=disabled", "--network=host", "--log-driver=k8s-file"]


def check_image(podman, archive):
    podman.do("load", "--quiet", "--input", archive)
    about = json.loads(podman.output("image", "inspect", podman.output("images", "--quiet").split()[0]))[0]
    assert about["Config"]["User"] == "10001:10001", about["Config"]
    assert not about["Config"].get("Entrypoint"), about["Config"]
    assert about["Labels"]["org.opencontainers.image.version"], about["Labels"]
    assert about["Size"] <= SIZE_MAX, f"{about['Size'] / 2**20:.0f} MiB"
    name = about["RepoTags"][0]
    print(f"image {name}: {about['Size'] / 2**20:.1f} MiB")
    # The others are services.
    for program in ("skua-ycsb", "skua-perf", "skua-tally"):
        podman.do("run", "--rm", "--read-only", *podman.run_arguments(), name, program, "--help",
                  stdout=subprocess.DEVNULL)
    assert not podman.succeeds("run", "--rm", *podman.run_arguments(), name, "sh", "-c", "exit 0"), "there is a shell"
    return name


class Compose:
    """The services of the compose file. Of it, what is here is followed; a key that is not known is an error."""

    KNOWN = {"image", "restart", "read_only", "cap_drop", "security_opt", "ulimits", "stop_grace_period", "depends_on",
             "healthcheck", "command", "volumes", "ports"}

    def __init__(self, podman, image):
        import yaml  # main() has looked for it
        with open(COMPOSE, encoding="utf-8") as text:
            self.services = yaml.safe_load(text)["services"]
        self.podman, self.image = podman, image
        self.addresses = {name: f"127.0.1.{number}" for number, name in enumerate(self.services, 1)}

    def here(self, name, word):
        address = self.addresses[name]
        return word.replace("0.0.0.0:", address + ":").replace("127.0.0.1:", address + ":")

    def is_healthy(self, name):
        kind, *test = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD", test
        return self.podman.succeeds("exec", name, *(self.here(name, word) for word in test))

    def wait_for(self, name, condition):
        if condition == "service_healthy":
            until(f"{name} is healthy", lambda: self.is_healthy(name))
        else:
            assert condition == "service_completed_successfully", condition
            assert self.podman.output("wait", name).strip() == "0", f"{name} failed"

    def start(self, name):
        service = self.services[name]
        assert set(service) <= self.KNOWN, set(service) - self.KNOWN
        for other, how in service.get("depends_on", {}).items():
            self.wait_for(other, how["condition"])
        words = [f"--add-host={other}:{address}" for other, address in self.addresses.items()]
        words += [f"--volume={volume}" for volume in service.get("volumes", [])]
        words += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
        words += [f"--security-opt={option.split(':')[0]}" for option in service["security_opt"]]
        # Where this is run by a root that may not raise its limits, those that there are must do.
        files = service["ulimits"]["nofile"]
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        words += [f"--ulimit=nofile={files}" if allowed >= files else "--ulimit=host"]
        words += ["--read-only"] if service["read_only"] else []
        self.podman.do("run", "--detach", f"--name={name}", *self.podman.run_arguments(), *words, self.image,
                       *(self.here(name, word) for word in service["command"]), stdout=subprocess.DEVNULL)

    def start_all(self):
        for name in self.services:
            self.start(name)
        self.wait_for("gateway", "service_healthy")

    def show_logs(self):
        for name in self.services:
            print(f"---- {name}", flush=True)
            subprocess.run([*self.podman.command, "logs", name], check=False, stderr=subprocess.STDOUT)


def redis(address, *words):
    """One command to the gateway; the first line of its answer, and the next one of a string's."""
    with socket.create_connection((address, 6379), LIMIT_S) as connection, connection.makefile("rwb") as stream:
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            stream.write(b"$%d\r\n%s\r\n" % (len(word), word.encode()))
        stream.flush()
        line = stream.readline().strip().decode()
        return stream.readline().strip().decode() if line.startswith("$") and line != "$-1" else line


def check_compose(podman, image):
    compose = Compose(podman, image)
    gateway = compose.addresses["gateway"]
    try:
        compose.start_all()
        assert redis(gateway, "set", "greeting", "hello") == "+OK"
        podman.do("stop", "--time", str(LIMIT_S), "node-2", stdout=subprocess.DEVNULL)
        until("two of three nodes take a write", lambda: redis(gateway, "set", "greeting", "hello again") == "+OK")
        # With the same volume, it is the same node, and it catches up.
        podman.do("start", "node-2", stdout=subprocess.DEVNULL)
        compose.wait_for("node-2", "service_healthy")
        assert redis(gateway, "get", "greeting") == "hello again"
        for name in ("gateway", "node-1", "node-2", "node-3", "control"):
            podman.do("stop", "--time", str(LIMIT_S), name, stdout=subprocess.DEVNULL)
            code = podman.output("inspect", "--format", "{{.State.ExitCode}}", name).strip()
            assert code == "0", f"{name} ended with {code}"
    except (AssertionError, subprocess.CalledProcessError, OSError):
        compose.show_logs()
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--packages", help="a folder of packages that deploy/package made before")
    parser.add_argument("--image", help="an archive that deploy/image made before")
    arguments = parser.parse_args()
    for tool in ("mmdebstrap", "cpack", "dpkg-shlibdeps", "podman"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    with contextlib.suppress(ImportError):
        import yaml  # noqa: F401
    if "yaml" not in sys.modules:
        skip("python3-yaml is not installed")
    if os.geteuid() != 0:
        skip("containers without cgroups need root")
    for name in PROGRAMS:
        if not os.path.exists(os.path.join(arguments.build, "bin", name)):
            skip(f"{name} is not built")
    with tempfile.TemporaryDirectory(prefix="skua-image-test-") as folder:
        archive = arguments.image or f"{folder}/image.tar"
        packages = arguments.packages or packages_of(arguments.build)
        if not arguments.image:
            run(os.path.join(REPO, "deploy/image"), "--packages", packages, "--out", archive)
        # Processes, mounts and network of their own, which end with the test.
        own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        ended = subprocess.run([*own, sys.executable, __file__, "--inside", folder, archive], check=False, timeout=600)
    sys.exit(ended.returncode)


def packages_of(build):
    """Those of package_test.py, which takes half a minute to make them, if they are of these programs."""
    packages = os.path.join(build, "packages-of-tests")
    made = [os.path.getmtime(path) for path in glob.glob(packages + "/*.deb")]
    if len(made) != 4 or min(made) < max(os.path.getmtime(os.path.join(build, "bin", name)) for name in PROGRAMS):
        run(os.path.join(REPO, "deploy/package"), "--no-build", "--build", build, "--out", packages)
    return packages


def inside(folder, archive):
    run("ip", "link", "set", "lo", "up")
    # crun refuses machines that have both versions of cgroups, also for containers without any. Others need no mount.
    subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=False)
    podman = Podman(folder)
    if not podman.succeeds("info"):
        skip("podman does not run here")
    check_compose(podman, check_image(podman, archive))
    print("three nodes in containers served, and stopped")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    else:
        main()
