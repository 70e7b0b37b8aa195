#include "kvstore/ctl/doctor_dpdk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "rpc/base/check.h"

namespace skua::kv::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A machine that is a directory: two NUMA nodes with 2 MiB pages, a card of the kernel's with the default route,
/// another without.
class DoctorDpdk : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "doctor.XXXXXX";
    SKUA_CHECK(mkdtemp(name.data()) != nullptr, "no temporary directory");
    host_.root = name;
    host_.dpdk_version = "22.11.11";
    write("/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_ring.so", "");
    pages(0, 512, 100);
    pages(1, 512, 512);
    write("/proc/mounts", "proc /proc proc rw 0 0\nnodev /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n");
    write("/sys/kernel/iommu_groups/7/type", "DMA");
    write("/sys/bus/pci/drivers/vfio-pci/bind", "");
    write("/proc/self/status", "Name:\tskuactl\nCapEff:\t000001ffffffffff\n");
    card("0000:3b:00.0", "i40e", "eth0");
    card("0000:3b:00.1", "i40e", "eth1");
    write("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060100");  // no network card
    write("/proc/net/route",
          "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
          "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
          "eth1\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n");
  }
  void TearDown() override { fs::remove_all(host_.root); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = host_.root + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void link(const std::string& path, const std::string& target) const {
    const fs::path file = host_.root + path;
    fs::create_directories(file.parent_path());
    fs::remove(file);
    fs::create_symlink(host_.root + target, file);
  }
  void pages(int node, int count, int unused) const {
    const std::string at = "/sys/devices/system/node/node" + std::to_string(node) + "/hugepages/hugepages-2048kB/";
    write(at + "nr_hugepages", std::to_string(count));
    write(at + "free_hugepages", std::to_string(unused));
  }
  void card(const std::string& pci, const std::string& driver, const std::string& interface) const {
    const std::string device = "/sys/devices/pci0000:3a/" + pci;
    write(device + "/class", "0x020000");
    write(device + "/vendor", "0x8086");
    write(device + "/device", "0x1572");
    link(device + "/driver", "/sys/bus/pci/drivers/" + driver);
    link("/sys/bus/pci/devices/" + pci, device);
    if (interface.empty()) return;
    write("/sys/class/net/" + interface + "/operstate", "up");
    write("/sys/class/net/" + interface + "/mtu", "1500");
    // As virtio has it: a device in between.
    fs::create_directories(host_.root + device + "/virtio0");
    link("/sys/class/net/" + interface + "/device", device + "/virtio0");
  }

  [[nodiscard]] std::vector<Finding> all(const std::string& name, const DpdkPlan& plan = {}) const {
    std::vector<Finding> out = examine_dpdk(host_, plan);
    for (const Finding& finding : out) {
      EXPECT_EQ(finding.area, "dpdk");
      EXPECT_FALSE(finding.why.empty()) << finding.name;
      EXPECT_EQ(finding.remedy.empty(), finding.verdict == Verdict::kOk) << finding.name;
    }
    std::erase_if(out, [&](const Finding& finding) { return finding.name != name; });
    return out;
  }
  [[nodiscard]] Finding one(const std::string& name, const DpdkPlan& plan = {}) const {
    const std::vector<Finding> found = all(name, plan);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? Finding() : found.front();
  }

  DpdkHost host_;
};

TEST_F(DoctorDpdk, AMachineThatHasAllPasses) {
  card("0000:3b:00.1", "vfio-pci", "");
  fs::remove_all(host_.root + "/sys/class/net/eth1");
  for (const Finding& finding : examine_dpdk(host_, {.wanted = true, .devices = "0000:3b:00.1"})) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.name << ": " << finding.detail;
  }
}

TEST_F(DoctorDpdk, Library_MissingIsAFailureOnlyWhenWanted) {
  host_.dpdk_version = "";
  EXPECT_EQ(one("library").verdict, Verdict::kWarning);
  EXPECT_EQ(one("library", {.wanted = true}).verdict, Verdict::kFailure);
  fs::remove_all(host_.root + "/usr");
  EXPECT_THAT(one("drivers").remedy, HasSubstr("libdpdk-dev"));
}

TEST_F(DoctorDpdk, HugePages_AreCountedPerNode) {
  EXPECT_THAT(one("huge pages").detail,
              AllOf(HasSubstr("node 0: 512 of 2 MiB (100 free)"), HasSubstr("node 1: 512 of 2 MiB (512 free)")));
  pages(1, 0, 0);
  EXPECT_EQ(one("huge pages", {.wanted = true}).verdict, Verdict::kWarning) << "a node without";
  pages(0, 0, 0);
  const Finding none = one("huge pages", {.wanted = true});
  EXPECT_EQ(none.verdict, Verdict::kFailure);
  EXPECT_THAT(none.remedy, HasSubstr("deploy/host-setup huge-pages"));
  EXPECT_EQ(one("huge pages", {.wanted = true, .huge_pages = false}).verdict, Verdict::kWarning);
  pages(0, 512, 0);
  EXPECT_EQ(one("huge pages", {.wanted = true}).verdict, Verdict::kFailure) << "all in use";
}

TEST_F(DoctorDpdk, HugePages_AreFoundOnAMachineWithoutNodes) {
  fs::remove_all(host_.root + "/sys/devices/system");
  write("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2");
  write("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1");
  EXPECT_EQ(one("huge pages").detail, "reserved: 2 of 1024 MiB (1 free)");
}

TEST_F(DoctorDpdk, HugePages_WantAMount) {
  write("/proc/mounts", "proc /proc proc rw 0 0\n");
  EXPECT_EQ(one("huge page mount").verdict, Verdict::kWarning);
  EXPECT_THAT(one("huge page mount").remedy, HasSubstr("mount -t hugetlbfs"));
}

TEST_F(DoctorDpdk, Hardware_NeedsIommuVfioAndLockedMemory) {
  fs::remove_all(host_.root + "/sys/kernel/iommu_groups");
  fs::remove_all(host_.root + "/sys/bus/pci/drivers/vfio-pci");
  write("/proc/self/status", "CapEff:\t0000000000000000\n");
  host_.memlock_bytes = 8 << 20;
  for (const char* name : {"iommu", "vfio", "locked memory"}) {
    EXPECT_EQ(one(name, {.wanted = true, .devices = "net_memif0"}).verdict, Verdict::kWarning) << name;
    EXPECT_EQ(one(name, {.wanted = true, .devices = "0000:3b:00.1"}).verdict, Verdict::kFailure) << name;
  }
}

TEST_F(DoctorDpdk, Privileges_NamesWhatIsLacking) {
  write("/proc/self/status", "CapEff:\t0000000000003000\n");  // cap_net_admin, cap_net_raw
  const Finding finding = one("privileges");
  EXPECT_EQ(finding.verdict, Verdict::kWarning);
  EXPECT_THAT(finding.detail, AllOf(HasSubstr("cap_ipc_lock"), ::testing::Not(HasSubstr("cap_net_raw"))));
  EXPECT_THAT(finding.remedy, HasSubstr("setcap cap_ipc_lock,cap_sys_admin+ep"));
}

TEST_F(DoctorDpdk, Devices_OfTheKernelCanBeBoundButNotTheOneWithTheDefaultRoute) {
  const std::vector<Finding> cards = all("device");
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[0].detail, "0000:3b:00.0 (8086:1572), driver i40e, interface eth0, has the default route");
  EXPECT_EQ(cards[0].verdict, Verdict::kOk) << "nobody asked for it";
  EXPECT_EQ(cards[1].remedy, "sudo deploy/host-setup bind 0000:3b:00.1");
  const std::vector<Finding> asked = all("device", {.wanted = true, .devices = "0000:3b:00.0"});
  EXPECT_EQ(asked[0].verdict, Verdict::kFailure);
  EXPECT_THAT(asked[0].remedy, HasSubstr("another card"));
}

TEST_F(DoctorDpdk, Devices_TheDefaultRouteMayBeABridgesOrInIpv6) {
  write("/proc/net/route", "Iface\n");
  write("/proc/net/ipv6_route",
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
        "fe800000000000000000000000000001 00000400 00000001 00000000 00000003     br0\n");
  link("/sys/class/net/eth1/master", "/sys/devices/virtual/net/br0");
  EXPECT_THAT(all("device")[1].detail, HasSubstr("has the default route"));
}

TEST_F(DoctorDpdk, Devices_NoneOrAnUnknownOneIsSaid) {
  EXPECT_EQ(all("device", {.wanted = true, .devices = "0000:99:00.0"}).back().verdict, Verdict::kFailure);
  fs::remove_all(host_.root + "/sys/bus/pci/devices");
  const Finding finding = one("device");
  EXPECT_EQ(finding.verdict, Verdict::kWarning);
  EXPECT_THAT(finding.remedy, HasSubstr("net_af_packet0"));
}

TEST_F(DoctorDpdk, Interfaces_LinkAndMtuOfThoseThatAreNamed) {
  EXPECT_THAT(all("interface"), IsEmpty());
  EXPECT_EQ(one("interface", {.interfaces = {"eth1"}}).verdict, Verdict::kOk);
  const DpdkPlan plan = {.devices = "net_af_packet0,iface=eth1,qpairs=1"};
  write("/sys/class/net/eth1/mtu", "1400");
  EXPECT_EQ(one("interface", plan).verdict, Verdict::kWarning);
  EXPECT_EQ(one("interface", plan).remedy, "sudo ip link set eth1 mtu 1500");
  write("/sys/class/net/eth1/operstate", "down");
  EXPECT_EQ(one("interface", plan).verdict, Verdict::kFailure);
  EXPECT_THAT(one("interface", plan).remedy, HasSubstr("ip link set eth1 up"));
  EXPECT_THAT(one("interface", {.interfaces = {"eth9"}}).remedy, HasSubstr("eth0, eth1"));
}

}  // namespace
}  // namespace skua::kv::ctl
