#!/usr/bin/env python3
"""deploy/image's image, and the compose files of deploy/compose with it.

  image_test.py BUILD_FOLDER [--packages FOLDER] [--image ARCHIVE]

Makes the image, looks at it, and starts the services of each compose file by podman: same commands, users, volumes,
conditions and health checks. All share one network here, so each has an address of loopback in place of 0.0.0.0 and
127.0.0.1.
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
import ssl
import subprocess
import sys
import tempfile
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("skuad", "skua-control", "skua-gateway", "skuactl", "skua-ycsb", "skua-perf", "skua-tally")
COMPOSE = os.path.join(REPO, "deploy/compose")
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
    """The services of a compose file. Of it, what is here is followed; a key that is not known is an error."""

    KNOWN = {"image", "restart", "read_only", "cap_drop", "security_opt", "ulimits", "stop_grace_period", "depends_on",
             "healthcheck", "command", "volumes", "ports", "user", "environment", "network_mode"}

    def __init__(self, podman, image, file):
        import yaml  # main() has looked for it
        with open(os.path.join(COMPOSE, file), encoding="utf-8") as text:
            content = yaml.safe_load(text)
        self.services, self.project, self.volumes = content["services"], content["name"], set(content["volumes"])
        self.podman, self.image = podman, image
        self.addresses = {name: f"127.0.1.{number}" for number, name in enumerate(self.services, 1)}

    def here(self, name, word):
        address = self.addresses[name]
        return word.replace("$$", "$").replace("0.0.0.0:", address + ":").replace("127.0.0.1:", address + ":")

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
        for other, how in service.get("depends_on", {}).items():
            self.wait_for(other, how["condition"])
        self.podman.do("run", "--detach", f"--name={name}", *self.run_arguments(name), self.image,
                       *(self.here(name, word) for word in service["command"]), stdout=subprocess.DEVNULL)

    def run_arguments(self, name):
        service = self.services[name]
        assert set(service) <= self.KNOWN, set(service) - self.KNOWN
        words = [*self.podman.run_arguments(), *(f"--add-host={other}:{at}" for other, at in self.addresses.items())]
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in self.volumes, volume
            words.append(f"--volume={self.project}_{volume}")
        words += [f"--user={service['user']}"] if "user" in service else []
        words += [f"--env={variable}={value}" for variable, value in service.get("environment", {}).items()]
        words += [f"--cap-drop={capability}" for capability in service["cap_drop"]]
        words += [f"--security-opt={option.split(':')[0]}" for option in service["security_opt"]]
        # Where this is run by a root that may not raise its limits, those that there are must do.
        files = service["ulimits"]["nofile"]
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        words += [f"--ulimit=nofile={files}" if allowed >= files else "--ulimit=host"]
        words += ["--read-only"] if service["read_only"] else []
        return words

    def run(self, name, *command):
        """Another command in a container of the service, as of `docker compose run`: its exit code and its output."""
        done = subprocess.run([*self.podman.command, "run", "--rm", *self.run_arguments(name), self.image, *command],
                              check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def start_all(self):
        for name in self.services:
            self.start(name)
        self.wait_for("gateway", "service_healthy")

    def show_logs(self):
        for name in self.services:
            print(f"---- {name}", flush=True)
            subprocess.run([*self.podman.command, "logs", name], check=False, stderr=subprocess.STDOUT)


class Redis:
    """Commands to a gateway, each in a connection of its own; with TLS if `authority` is given."""

    def __init__(self, address, authority=None, password=None):
        self.address, self.password = address, password
        self.tls = ssl.create_default_context(cadata=authority) if authority else None

    def do(self, *words):
        """The first line of the answer, and the next one of a string's."""
        with contextlib.ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((self.address, 6379), LIMIT_S))
            if self.tls:
                connection = opened.enter_context(self.tls.wrap_socket(connection, server_hostname="localhost"))
            stream = opened.enter_context(connection.makefile("rwb"))
            if self.password:
                self.send(stream, "auth", "app", self.password)
                answer = stream.readline().strip().decode()
                if answer != "+OK":
                    return answer
            self.send(stream, *words)
            line = stream.readline().strip().decode()
            return stream.readline().strip().decode() if line.startswith("$") and line != "$-1" else line

    @staticmethod
    def send(stream, *words):
        stream.write(b"*%d\r\n" % len(words))
        for word in words:
            stream.write(b"$%d\r\n%s\r\n" % (len(word), word.encode()))
        stream.flush()


@contextlib.contextmanager
def started(podman, image, file):
    """All services of a compose file. Afterwards they have ended well, and their containers are gone."""
    compose = Compose(podman, image, file)
    try:
        compose.start_all()
        yield compose
        for name in ("gateway", "node-1", "node-2", "node-3", "control"):
            podman.do("stop", "--time", str(LIMIT_S), name, stdout=subprocess.DEVNULL)
            code = podman.output("inspect", "--format", "{{.State.ExitCode}}", name).strip()
            assert code == "0", f"{name} ended with {code}"
        podman.do("rm", "--all", stdout=subprocess.DEVNULL)
    except (AssertionError, subprocess.CalledProcessError, OSError):
        compose.show_logs()
        raise


def check_service(podman, compose, redis):
    """Values are there, also while a node is away and when it is back."""
    assert redis.do("set", "greeting", "hello") == "+OK"
    podman.do("stop", "--time", str(LIMIT_S), "node-2", stdout=subprocess.DEVNULL)
    until("two of three nodes take a write", lambda: redis.do("set", "greeting", "hello again") == "+OK")
    # With the same volume, it is the same node, and it catches up.
    podman.do("start", "node-2", stdout=subprocess.DEVNULL)
    compose.wait_for("node-2", "service_healthy")
    assert redis.do("get", "greeting") == "hello again"


def check_open(podman, image):
    with started(podman, image, "compose.yaml") as compose:
        check_service(podman, compose, Redis(compose.addresses["gateway"]))


def check_secure(podman, image):
    with started(podman, image, "compose.secure.yaml") as compose:
        def as_admin(*command):
            code, text = compose.run("admin", *command)
            assert code == 0, text
            return text

        def files(name):
            return set(compose.run(name, "busybox", "ls", "/etc/skua")[1].split())

        gateway = compose.addresses["gateway"]
        authority = podman.output("exec", "gateway", "busybox", "cat", "/etc/skua/clients-ca.pem")
        password = as_admin("busybox", "cat", "/etc/skua/password").strip()
        check_service(podman, compose, Redis(gateway, authority, password))
        # Others get nowhere.
        assert Redis(gateway, authority).do("get", "greeting").startswith("-NOAUTH")
        assert Redis(gateway, authority, "wrong").do("get", "greeting").startswith("-WRONGPASS")
        with contextlib.suppress(ConnectionError):
            answer = Redis(gateway).do("get", "greeting")
            assert "hello" not in answer, answer
        code, text = podman_without_certificate(compose)
        assert code != 0, text
        assert as_admin("skuactl", "status").count("certificates, packets encrypt") >= 3
        # Each has its own.
        assert files("node-1") == files("control") == {"tls.pem", "tls.key", "ca.pem"}
        assert len({compose.run(name, "busybox", "sha256sum", "/etc/skua/tls.key")[1].split()[0]
                    for name in ("control", "node-1", "node-2", "node-3", "admin", "gateway")}) == 6
        # What is good is not made again, and what is not there is, of the same node.
        before = certificates(compose)
        podman.do("start", "--attach", "certificates", stdout=subprocess.DEVNULL)
        assert certificates(compose) == before
        assert compose.run("certificates", "busybox", "rm", "/certificates/node-1/tls.pem")[0] == 0
        podman.do("start", "--attach", "certificates", stdout=subprocess.DEVNULL)
        after = certificates(compose)
        assert {name for name, line in after.items() if line != before[name]} == {"node-1"}, (before, after)
        assert after["node-1"]["name"] == before["node-1"]["name"]
        podman.do("stop", "--time", str(LIMIT_S), "node-1", stdout=subprocess.DEVNULL)
        podman.do("start", "node-1", stdout=subprocess.DEVNULL)
        compose.wait_for("node-1", "service_healthy")
        # What the Helm chart's nodes do before they stop.
        assert "leads no shard" in as_admin("skuactl", "node", "yield", "node-2:7410")


def podman_without_certificate(compose):
    return compose.run("admin", "busybox", "env", "-u", "SKUA_CERT", "-u", "SKUA_KEY", "-u", "SKUA_CA", "skuactl",
                       "status")


def certificates(compose):
    """Of each service, what its certificate says."""
    return {name: json.loads(compose.run(name, "skuactl", "--output", "json", "cert", "show", "/etc/skua/tls.pem")[1])
            for name in ("control", "node-1", "node-2", "node-3", "admin", "gateway")}


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
        if not arguments.image:
            packages = arguments.packages or packages_of(arguments.build)
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
    image = check_image(podman, archive)
    check_open(podman, image)
    check_secure(podman, image)
    print("three nodes in containers served, without and with certificates, and stopped")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    else:
        main()
