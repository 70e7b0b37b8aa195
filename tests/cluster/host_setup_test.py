#!/usr/bin/env python3
"""deploy/host-setup on machines that are directories: what it would do, and what it refuses."""

import os
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "host-setup"))
SYS_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB"


class HostSetupTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="skua-host-setup-test.")
        self.addCleanup(shutil.rmtree, self.root)
        for directory in (SYS_PAGES, "/sys/devices/system/node/node1/hugepages/hugepages-1048576kB"):
            self.write(f"{directory}/nr_hugepages", "0")
            self.write(f"{directory}/free_hugepages", "0")
        self.write("/proc/mounts", "nodev /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n")
        self.write("/proc/net/route",
                   "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
                   "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
        os.makedirs(self.root + "/sys/bus/pci/drivers/vfio-pci")
        self.card("0000:3b:00.0", "i40e", "eth0", "up")
        self.card("0000:3b:00.1", "i40e", "eth1", "down")
        self.write("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n")

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        with open(self.root + path, "w", encoding="ascii") as file:
            file.write(text)

    def link(self, path, target):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        os.symlink(self.root + target, self.root + path)

    def card(self, pci, driver, interface, state, iommu=True):
        device = f"/sys/devices/pci0000:3a/{pci}"
        for name, text in (("class", "0x020000"), ("vendor", "0x8086"), ("device", "0x1572")):
            self.write(f"{device}/{name}", text + "\n")
        self.link(f"{device}/driver", f"/sys/bus/pci/drivers/{driver}")
        if iommu:
            self.link(f"{device}/iommu_group", "/sys/kernel/iommu_groups/7")
            os.makedirs(self.root + "/sys/kernel/iommu_groups/7", exist_ok=True)
        self.link(f"/sys/bus/pci/devices/{pci}", device)
        if interface:
            os.makedirs(self.root + device + "/virtio0")
            self.write(f"/sys/class/net/{interface}/operstate", state + "\n")
            self.write(f"/sys/class/net/{interface}/mtu", "1500\n")
            self.link(f"/sys/class/net/{interface}/device", device + "/virtio0")

    def setup_host(self, *arguments):
        environment = dict(os.environ, SKUA_HOST_ROOT=self.root)
        return subprocess.run([SCRIPT, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              env=environment, check=False)

    def does(self, *arguments):
        result = self.setup_host(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()

    def refuses(self, code, words, *arguments):
        result = self.setup_host(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_HugePages_AreReservedAndMounted(self):
        self.assertEqual(self.does("huge-pages", "--count", "512"), [f"echo 512 > {SYS_PAGES}/nr_hugepages"])
        self.assertEqual(self.does("huge-pages", "--count", "2", "--size", "1G", "--node", "1"), [
            "echo 2 > /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages",
            "mkdir -p /dev/hugepages-1G", "mount -t hugetlbfs -o pagesize=1G nodev /dev/hugepages-1G"])
        self.refuses(1, ["1G"], "huge-pages", "--count", "2", "--size", "1G")
        self.refuses(2, ["--count"], "huge-pages")
        self.refuses(2, ["--size"], "huge-pages", "--count", "2", "--size", "3M")

    def reserve(self, pages):
        self.write(f"{SYS_PAGES}/nr_hugepages", f"{pages}\n")

    def test_HugePages_AreNeverMadeFewerWithoutForce(self):
        self.reserve(1024)
        for count in ("512", "1"):
            said = self.does("huge-pages", "--count", count)
            self.assertEqual(len(said), 1, said)
            for word in ("1024 huge pages", "already", f"--force makes them {count}"):
                self.assertIn(word, said[0])
        self.refuses(1, ["1024 huge pages", "--force"], "huge-pages", "--count", "0")
        self.assertEqual(self.does("huge-pages", "--count", "1024"), [])
        self.assertEqual(self.does("huge-pages", "--count", "2048"), [f"echo 2048 > {SYS_PAGES}/nr_hugepages"])
        for count in (0, 512):
            self.assertEqual(self.does("huge-pages", "--count", str(count), "--force"),
                             [f"echo {count} > {SYS_PAGES}/nr_hugepages"])
        self.reserve(1)
        self.refuses(1, ["1 huge page of 2M"], "huge-pages", "--count", "0")

    def test_HugePages_LeaveMemoryForTheRest(self):
        self.write("/proc/meminfo", "MemTotal:  8000000 kB\nMemAvailable:  2048000 kB\n")
        self.refuses(1, ["20000 MiB", "2000 MiB", "--force"], "huge-pages", "--count", "10000")
        self.assertEqual(self.does("huge-pages", "--count", "10000", "--force"),
                         [f"echo 10000 > {SYS_PAGES}/nr_hugepages"])
        # What is reserved already counts no more.
        self.reserve(9900)
        self.assertEqual(self.does("huge-pages", "--count", "10000"), [f"echo 10000 > {SYS_PAGES}/nr_hugepages"])

    def test_HugePages_NumbersThatCannotBeMeant(self):
        for count in ("-1", "1.5", "many", "", "12345678901"):
            self.refuses(2, ["--count"], "huge-pages", "--count", count)
        self.assertEqual(self.does("huge-pages", "--count", "010"), [f"echo 10 > {SYS_PAGES}/nr_hugepages"])
        self.refuses(1, ["no NUMA node 9", "it has 1"], "huge-pages", "--count", "4", "--node", "9")
        self.refuses(1, ["2M on node 1"], "huge-pages", "--count", "4", "--node", "1")
        self.refuses(2, ["--node"], "huge-pages", "--count", "4", "--node", "one")

    def test_Bind_TakesACardFromTheKernel(self):
        device = "/sys/bus/pci/devices/0000:3b:00.1"
        for address in ("0000:3b:00.1", "3b:00.1"):
            self.assertEqual(self.does("bind", address), [
                "ip link set eth1 down", f"echo 0000:3b:00.1 > {device}/driver/unbind",
                f"echo vfio-pci > {device}/driver_override", "echo 0000:3b:00.1 > /sys/bus/pci/drivers_probe"])

    def test_Bind_LoadsTheDriver(self):
        os.rmdir(self.root + "/sys/bus/pci/drivers/vfio-pci")
        self.assertEqual(self.does("bind", "3b:00.1")[0], "modprobe vfio-pci")
        self.assertEqual(self.does("bind", "3b:00.1", "--driver", "uio_pci_generic")[0], "modprobe uio_pci_generic")

    def test_Bind_RefusesWhatTheDefaultRouteLeadsOver(self):
        self.refuses(1, ["eth0", "default route"], "bind", "0000:3b:00.0")
        self.refuses(1, ["eth0", "default route"], "bind", "0000:3b:00.1", "0000:3b:00.0", "--force")
        self.write("/proc/net/route", "Iface\n")
        self.link("/sys/class/net/eth1/master", "/sys/devices/virtual/net/br0")
        self.write("/proc/net/ipv6_route", f"{'0' * 32} 00 {'0' * 32} 00 {'fe80' + '0' * 28} 0400 01 00 03      br0\n")
        self.refuses(1, ["eth1", "default route"], "bind", "0000:3b:00.1")

    def test_Bind_RefusesWhatCannotWork(self):
        self.card("0000:3c:00.0", "i40e", "eth2", "down", iommu=False)
        self.card("0000:3d:00.0", "mlx5_core", "eth3", "down")
        self.refuses(1, ["IOMMU", "--no-iommu"], "bind", "0000:3c:00.0")
        self.assertIn("echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
                      self.does("bind", "0000:3c:00.0", "--no-iommu"))
        self.refuses(1, ["mlx5_core"], "bind", "0000:3d:00.0")
        self.refuses(2, ["twice"], "bind", "0000:3b:00.1", "3b:00.1")
        self.write("/sys/class/net/eth1/operstate", "up\n")
        self.refuses(1, ["eth1", "--force"], "bind", "0000:3b:00.1")
        self.refuses(1, ["0000:99:00.0"], "bind", "0000:99:00.0")
        self.refuses(1, ["no network card"], "bind", "0000:00:1f.0")
        self.refuses(2, ["eth1", "is an interface", "0000:3b:00.1"], "bind", "eth1")
        self.refuses(2, ["eth7", "PCI address"], "bind", "eth7")
        self.refuses(2, ["PCI address"], "bind")

    def test_Unbind_GivesItBack(self):
        self.card("0000:3c:00.0", "vfio-pci", None, None)
        device = "/sys/bus/pci/devices/0000:3c:00.0"
        self.assertEqual(self.does("unbind", "3c:00.0"), [
            f"echo 0000:3c:00.0 > {device}/driver/unbind", f"echo  > {device}/driver_override",
            "echo 0000:3c:00.0 > /sys/bus/pci/drivers_probe"])
        self.assertIn("already", self.does("unbind", "0000:3b:00.1")[0])
        self.assertIn("already", self.does("bind", "0000:3c:00.0")[0])

    def test_Status_ShowsPagesAndCards(self):
        text = "\n".join(self.does("status"))
        self.assertIn("0000:3b:00.0 (8086:1572) driver i40e, eth0 is up, MTU 1500, default route", text)
        self.assertIn("0000:3b:00.1 (8086:1572) driver i40e, eth1 is down, MTU 1500", text)
        self.assertIn("/dev/hugepages", text)
        self.assertNotIn("1f.0", text)

    def test_CommandLine_IsRefusedInOneLine(self):
        self.refuses(2, ["sudo"], "sudo")
        self.refuses(2, ["--fast"], "status", "--fast")
        self.assertIn("Examples", self.setup_host("--help").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
