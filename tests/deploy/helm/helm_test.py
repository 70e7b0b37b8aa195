#!/usr/bin/env python3
"""deploy/helm/skua: values against their schema, what it makes against golden files, options against the programs.

  helm_test.py PROGRAMS [--update]

Helm is not in Debian, so render.go stands for it; it needs Go and sprig (apt install golang-go
golang-github-masterminds-sprig-dev, 520 MB). Without them the golden files themselves are looked at, and
golden/chart.sha256 says whether they are of this chart. --update writes them.
"""

import argparse
import copy
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
CHART = os.path.join(REPO, "deploy/helm/skua")
GO_LIBRARIES = "/usr/share/gocode"
SKIPPED = 77

# Also for an interpreter that is not Debian's.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}: deploy/install-deps check")
    sys.exit(SKIPPED)

CASES = ("etcd", "mixed", "nodes", "open", "plain")
PROGRAMS = ""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def merged(base, over):
    """As Helm lays values of a user over the chart's."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{name: merged(base.get(name), value) for name, value in over.items()}}


def values(case):
    return merged(yaml.safe_load(read(f"{CHART}/values.yaml")), yaml.safe_load(read(f"{HERE}/values/{case}.yaml")))


def chart_sum():
    """Of all that the golden files come from."""
    files = [f"{HERE}/render.go"]
    for top in (CHART, f"{HERE}/values"):
        files += [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
    texts = [f"{os.path.relpath(path, REPO)}\n{read(path)}\n" for path in sorted(files)]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def why_no_renderer():
    if shutil.which("go") is None:
        return "go is not installed"
    if not os.path.isdir(f"{GO_LIBRARIES}/src/github.com/Masterminds/sprig"):
        return "golang-github-masterminds-sprig-dev is not installed"
    return None


class Renderer:
    def __init__(self, folder):
        self.path = f"{folder}/render"
        self.chart = yaml.safe_load(read(f"{CHART}/Chart.yaml"))
        # Helm gives templates the fields of Chart.yaml with a capital letter in front.
        self.chart = {name[0].upper() + name[1:]: value for name, value in self.chart.items()}
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": GO_LIBRARIES, "GOCACHE": f"{folder}/cache",
                       "GOFLAGS": ""}
        subprocess.run(["go", "build", "-o", self.path, f"{HERE}/render.go"], check=True, env=environment)

    def render(self, case):
        objects = json.dumps({"Values": values(case), "Chart": self.chart})
        return subprocess.run([self.path, CHART, "example", "storage"], check=True, input=objects, text=True,
                              stdout=subprocess.PIPE).stdout


def update():
    with tempfile.TemporaryDirectory(prefix="skua-helm-") as folder:
        renderer = Renderer(folder)
        results = {case + ".yaml": renderer.render(case) for case in CASES}
    results["chart.sha256"] = chart_sum() + "\n"
    for name, text in results.items():
        with open(f"{HERE}/golden/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def objects(case):
    """The rendered objects, by kind and name. NOTES.txt is text."""
    parts = read(f"{HERE}/golden/{case}.yaml").split("\n---\n")
    documents = [yaml.safe_load(part) for part in parts if not part.startswith("---\n# NOTES")]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def pods(case):
    specs = {name: document["spec"] for name, document in objects(case).items()}
    return {name: spec["template"] for name, spec in specs.items() if "template" in spec}


class Schema(unittest.TestCase):
    schema = json.loads(read(f"{CHART}/values.schema.json"))

    def test_is_a_schema(self):
        jsonschema.Draft7Validator.check_schema(self.schema)

    def test_takes_the_cases(self):
        for case in CASES:
            jsonschema.validate(values(case), self.schema)

    def test_refuses(self):
        def refused(*path, value):
            wrong = copy.deepcopy(values("plain"))
            place = wrong
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = value
            with self.assertRaises(jsonschema.ValidationError, msg=f"{path} = {value}"):
                jsonschema.validate(wrong, self.schema)
        refused("image", "repository", value="")
        refused("control", "replicas", value=3)          # embedded metadata
        refused("control", "metadata", value="http://etcd:2379")
        refused("node", "replicas", value=0)
        refused("node", "replcas", value=3)
        refused("node", "memory", value="1Gi")           # Kubernetes's unit, not the program's
        refused("node", "extraArgs", value=["workers=2"])
        refused("security", "mode", value="off")
        refused("gateway", "databases", value=["cache"])
        refused("gateway", "databases", value=["10000=cache"])
        refused("gateway", "memcached", "database", value=10000)
        refused("gateway", "memcached", "port", value=11211)
        refused("gateway", "memcached", value=True)
        refused("gateway", "clients", "security", value="off")
        refused("gateway", "clients", "tlsSecret", value="")
        refused("gateway", "clients", "usersSecret", value="")     # then nobody is known
        refused("gateway", "clients", "caSecret", value="Ca")      # no name of a Secret
        refused("gateway", "clients", "password", value="tea")
        refused("node", "terminationGracePeriodSeconds", value=29)  # the node hands over its shards in that time, too
        refused("control", "etcdSecret", value="skua-etcd")        # embedded metadata
        refused("tables", value=[{"replicas": 3}])

    def test_wants_known_clients_only_with_tls(self):
        """Neither users nor authorities of clients: only where security is off, or nobody serves clients."""
        for mode, security, enabled, is_taken in (
                ("certificates", "auto", True, False), ("certificates", "tls", True, False),
                ("certificates", "off-unsafe", True, True), ("certificates", "auto", False, True),
                ("off-unsafe", "auto", True, True), ("off-unsafe", "tls", True, False)):
            given = copy.deepcopy(values("plain"))
            given["security"]["mode"] = mode
            given["gateway"]["enabled"] = enabled
            given["gateway"]["clients"].update({"security": security, "usersSecret": ""})
            found = jsonschema.Draft7Validator(self.schema).is_valid(given)
            self.assertEqual(found, is_taken, (mode, security, enabled))
            given["gateway"]["clients"]["caSecret"] = "clients-authority"
            jsonschema.validate(given, self.schema)


class Golden(unittest.TestCase):
    def test_is_what_the_chart_gives(self):
        self.assertEqual(read(f"{HERE}/golden/chart.sha256").strip(), chart_sum(),
                         "the chart changed: run tests/deploy/helm/helm_test.py --update, and look at the difference")
        why = why_no_renderer()
        if why:
            self.skipTest(why)
        with tempfile.TemporaryDirectory(prefix="skua-helm-") as folder:
            renderer = Renderer(folder)
            for case in CASES:
                self.assertEqual(renderer.render(case), read(f"{HERE}/golden/{case}.yaml"), case)

    def test_selectors_find_pods(self):
        for case in CASES:
            labels = [pod["metadata"]["labels"] for pod in pods(case).values()]
            for name, document in objects(case).items():
                selector = document["spec"].get("selector")
                if selector:
                    wanted = selector.get("matchLabels", selector).items()
                    self.assertEqual(sum(wanted <= found.items() for found in labels), 1, (case, name))

    def test_services_name_ports_of_their_pods(self):
        for case in CASES:
            for (kind, name), service in objects(case).items():
                if kind == "Service":
                    wanted = service["spec"]["selector"].items()
                    pod = next(pod for pod in pods(case).values() if wanted <= pod["metadata"]["labels"].items())
                    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
                    for port in service["spec"]["ports"]:
                        self.assertEqual(ports.get(port["targetPort"]), port["port"], (case, name))

    def test_nodes_are_reached_by_stable_names(self):
        for case in CASES:
            node = objects(case)["StatefulSet", "example-node"]
            service = objects(case)["Service", node["spec"]["serviceName"]]
            self.assertEqual(service["spec"]["clusterIP"], "None")
            self.assertTrue(service["spec"]["publishNotReadyAddresses"])
            self.assertEqual(objects(case)["PodDisruptionBudget", "example-node"]["spec"]["maxUnavailable"], 1)
            host = f"$(POD_NAME).example-node.storage.svc.{values(case)['clusterDomain']}"
            self.assertIn(f"--advertise-host={host}", node["spec"]["template"]["spec"]["containers"][0]["args"])

    def test_nodes_keep_apart(self):
        for case in CASES:
            pod = objects(case)["StatefulSet", "example-node"]["spec"]["template"]
            apart = pod["spec"]["affinity"]["podAntiAffinity"]
            is_must = values(case)["node"]["spread"] == "DoNotSchedule"
            terms = apart["requiredDuringSchedulingIgnoredDuringExecution"] if is_must else [
                term["podAffinityTerm"] for term in apart["preferredDuringSchedulingIgnoredDuringExecution"]]
            self.assertEqual(len(apart), 1)
            self.assertEqual([term["topologyKey"] for term in terms], ["kubernetes.io/hostname"])
            wanted = terms[0]["labelSelector"]["matchLabels"].items()
            self.assertLessEqual(wanted, pod["metadata"]["labels"].items())

    def test_pods_have_what_they_mount_and_probe(self):
        for case in CASES:
            for name, pod in pods(case).items():
                claims = objects(case)[name]["spec"].get("volumeClaimTemplates", [])
                volumes = {volume["name"] for volume in pod["spec"]["volumes"] or []}
                volumes |= {claim["metadata"]["name"] for claim in claims}
                for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
                    mounted = {mount["name"] for mount in container["volumeMounts"] or []}
                    self.assertEqual(mounted, volumes, (case, name))
                    ports = {port["name"] for port in container.get("ports", [])}
                    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                        self.assertEqual(probe in container, bool(ports), (case, name))
                        if ports:
                            self.assertIn(container[probe]["httpGet"]["port"], ports)

    def test_files_of_options_are_mounted(self):
        """Of each option that names a file of a Secret; and nothing is mounted that no option names."""
        for case in CASES:
            for name, pod in pods(case).items():
                for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
                    hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
                    words = container["args"] + " ".join(hook).split()
                    files = [word.split("=/", 1)[1] for word in words if "=/etc/" in word]
                    folders = {"/" + os.path.dirname(path) for path in files}
                    mounts = {mount["mountPath"] for mount in container["volumeMounts"] or []}
                    self.assertEqual(folders, mounts - {"/var/lib/skua"}, (case, name))

    def test_pods_are_confined(self):
        for case in CASES:
            for name, pod in pods(case).items():
                spec = pod["spec"]
                self.assertFalse(spec["automountServiceAccountToken"], (case, name))
                # Else the Service NAME-gateway gives each container variables that look like options of the programs.
                self.assertFalse(spec["enableServiceLinks"], (case, name))
                self.assertTrue(spec["securityContext"]["runAsNonRoot"], (case, name))
                for volume in spec["volumes"] or []:
                    self.assertEqual(volume["secret"]["defaultMode"], 0o440, (case, name))
                for container in spec["containers"] + spec.get("initContainers", []):
                    context = container["securityContext"]
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, (case, name))
                    self.assertTrue(context["readOnlyRootFilesystem"], (case, name))
                    self.assertFalse(context["allowPrivilegeEscalation"], (case, name))
                    self.assertIn("memory", container["resources"]["limits"], (case, name))

    def test_several_pods_are_not_taken_away_together(self):
        for case in CASES:
            for (kind, name), document in objects(case).items():
                if kind in ("StatefulSet", "Deployment"):
                    is_wanted = document["spec"]["replicas"] > 1
                    self.assertEqual(("PodDisruptionBudget", name) in objects(case), is_wanted, (case, name))

    def test_clients_of_gateways_are_known(self):
        expected = {"etcd": {"tls", "users", "ca"}, "mixed": {"tls", "ca"}, "open": set(), "plain": {"tls", "users"}}
        for case, files in expected.items():
            container = pods(case)["Deployment", "example-gateway"]["spec"]["containers"][0]
            options = {word.split("=")[0] for word in container["args"]}
            self.assertEqual("--security" in options, not files, case)
            self.assertEqual({"--client-tls-cert", "--client-tls-key"} <= options, "tls" in files, case)
            self.assertEqual("--users-file" in options, "users" in files, case)
            self.assertEqual("--client-tls-ca" in options, "ca" in files, case)
            self.assertEqual({mount["name"] for mount in container["volumeMounts"] or []} - {"certificates"}, files)
        self.assertNotIn(("Deployment", "example-gateway"), objects("nodes"))

    def test_gateways_serve_memcached_if_told(self):
        for case in ("etcd", "mixed", "open", "plain"):
            is_on = values(case)["gateway"]["memcached"]["enabled"]
            args = pods(case)["Deployment", "example-gateway"]["spec"]["containers"][0]["args"]
            ports = [port["port"] for port in objects(case)["Service", "example-gateway"]["spec"]["ports"]]
            self.assertEqual("--memcached-address=0.0.0.0:11211" in args, is_on, case)
            self.assertEqual(ports, [6379, 11211] if is_on else [6379], case)

    def test_nodes_hand_over_by_themselves(self):
        for case in CASES:
            spec = pods(case)["StatefulSet", "example-node"]["spec"]
            self.assertNotIn("lifecycle", spec["containers"][0], case)
            # No pod of a node has an administrator's certificate.
            secrets = {volume["secret"]["secretName"] for volume in spec["volumes"] or []}
            self.assertNotIn(values(case)["security"]["secrets"]["admin"], secrets, case)
            self.assertEqual(spec["terminationGracePeriodSeconds"],
                             values(case)["node"]["terminationGracePeriodSeconds"], case)

    def test_servers_take_their_options(self):
        """The programs themselves look at each container's options, but for certificates, which are not there."""
        for case in CASES:
            for name, pod in pods(case).items():
                for container in pod["spec"]["containers"]:
                    program = container["command"][0]
                    if program == "skuactl":
                        continue
                    with self.subTest(case=case, name=name), tempfile.TemporaryDirectory() as folder:
                        self.check_options(program, container["args"], folder)

    def check_options(self, program, arguments, folder):
        path = os.path.join(PROGRAMS, program)
        if not os.path.exists(path):
            self.skipTest(f"{program} is not built")
        left = ("--cert=", "--key=", "--ca=", "--etcd-ca=", "--etcd-cert=", "--etcd-key=", "--security=")
        taken = [word.replace("$(POD_NAME)", "pod-0") for word in arguments if not word.startswith(left)]
        taken = [f"--data-dir={folder}/data" if word.startswith("--data-dir=") else word for word in taken]
        # Without certificates, an etcd has no TLS; and the machine of this test may be small.
        taken = ["--memory=1GiB" if word.startswith("--memory=") else word for word in taken]
        taken = [word.replace("=etcds://", "=etcd://") for word in taken]
        look = "--print-config" if program == "skua-gateway" else "--check-config"
        done = subprocess.run([path, *taken, "--security=off-unsafe", look], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, f"{program} {' '.join(taken)}:\n{done.stdout}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="?", default=f"{REPO}/build/release/bin")
    parser.add_argument("--update", action="store_true")
    parsed = parser.parse_args()
    PROGRAMS = parsed.programs
    if parsed.update:
        update()
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
