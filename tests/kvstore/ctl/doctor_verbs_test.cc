#include "kvstore/ctl/doctor_verbs.h"

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

constexpr const char* kIpv4Gid = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
constexpr const char* kLinkLocalGid = "fe80:0000:0000:0000:0c42:a1ff:fe00:0001";

/// A machine that is a directory, with a RoCE card of one port.
class DoctorVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "doctor.XXXXXX";
    SKUA_CHECK(mkdtemp(name.data()) != nullptr, "no temporary directory");
    host_.root = name;
    host_.built = true;
    host_.memlock_bytes = UINT64_MAX;
    host_.may_open = [](const std::string&) { return true; };
    write("/etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
    write("/etc/libibverbs.d/rxe.driver", "driver rxe\n");
    write("/sys/module/ib_uverbs/refcnt", "1");
    write("/sys/module/rdma_ucm/refcnt", "0");
    write("/proc/sys/kernel/osrelease", "6.1.0-56-amd64\n");
    write("/proc/self/status", "Name:\tskuactl\nCapEff:\t0000000000000000\n");
    write("/dev/infiniband/uverbs0", "");
    write("/dev/infiniband/rdma_cm", "");
    port("mlx5_0", "1", "4: ACTIVE", "Ethernet");
    gid("mlx5_0", "1", "0", kLinkLocalGid, "RoCE v2", "eth1");
    gid("mlx5_0", "1", "1", kIpv4Gid, "RoCE v2", "eth1");
    gid("mlx5_0", "1", "2", "0000:0000:0000:0000:0000:0000:0000:0000", "", "");
    write("/sys/class/net/eth1/mtu", "9000");
    write("/sys/class/net/eth1/operstate", "up");
  }
  void TearDown() override { fs::remove_all(host_.root); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = host_.root + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void remove(const std::string& path) const { fs::remove_all(host_.root + path); }
  void port(const std::string& device, const std::string& number, const std::string& state,
            const std::string& link_layer) const {
    const std::string at = "/sys/class/infiniband/" + device + "/ports/" + number;
    write(at + "/state", state + "\n");
    write(at + "/link_layer", link_layer + "\n");
  }
  void gid(const std::string& device, const std::string& number, const std::string& index, const std::string& text,
           const std::string& type, const std::string& interface) const {
    const std::string at = "/sys/class/infiniband/" + device + "/ports/" + number;
    write(at + "/gids/" + index, text + "\n");
    write(at + "/gid_attrs/types/" + index, type + "\n");
    write(at + "/gid_attrs/ndevs/" + index, interface + "\n");
  }
  void without_devices() const {
    remove("/sys/class/infiniband");
    remove("/dev/infiniband");
  }

  [[nodiscard]] std::vector<Finding> all(const std::string& name, const VerbsPlan& plan = {}) const {
    std::vector<Finding> out = examine_verbs(host_, plan);
    for (const Finding& finding : out) {
      EXPECT_EQ(finding.area, "verbs");
      EXPECT_FALSE(finding.why.empty()) << finding.name;
      EXPECT_FALSE(finding.detail.empty()) << finding.name;
      EXPECT_EQ(finding.remedy.empty(), finding.verdict == Verdict::kOk) << finding.name;
    }
    std::erase_if(out, [&](const Finding& finding) { return finding.name != name; });
    return out;
  }
  [[nodiscard]] Finding one(const std::string& name, const VerbsPlan& plan = {}) const {
    const std::vector<Finding> found = all(name, plan);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? Finding() : found.front();
  }

  VerbsHost host_;
};

TEST_F(DoctorVerbs, AMachineThatHasAllPasses) {
  for (const char* device : {"", "mlx5_0", "mlx5_0:1", "10.77.0.1", "fe80::c42:a1ff:fe00:1"}) {
    for (const Finding& finding : examine_verbs(host_, {.wanted = true, .device = device})) {
      EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.name << ": " << finding.detail;
    }
  }
}

TEST_F(DoctorVerbs, Library_MissingIsAFailureOnlyWhenWanted) {
  host_.built = false;
  EXPECT_EQ(one("library").verdict, Verdict::kWarning);
  EXPECT_EQ(one("library", {.wanted = true}).verdict, Verdict::kFailure);
}

TEST_F(DoctorVerbs, Providers_AreListedOrToBeInstalled) {
  EXPECT_EQ(one("providers").detail, "for mlx5, rxe");
  remove("/etc/libibverbs.d");
  EXPECT_EQ(one("providers", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("providers").remedy, HasSubstr("ibverbs-providers"));
}

TEST_F(DoctorVerbs, Modules_TheRemedyDependsOnTheKernel) {
  remove("/sys/module/ib_uverbs");
  without_devices();
  EXPECT_EQ(one("ib_uverbs", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("ib_uverbs").remedy, HasSubstr("linux-image")) << "this kernel has none";
  write("/lib/modules/6.1.0-56-amd64/kernel/drivers/infiniband/core/ib_uverbs.ko.xz", "");
  EXPECT_EQ(one("ib_uverbs").remedy, "sudo modprobe ib_uverbs");
  write("/sys/class/infiniband_verbs/abi_version", "6");
  EXPECT_EQ(one("ib_uverbs").verdict, Verdict::kOk) << "part of the kernel";
}

TEST_F(DoctorVerbs, Modules_ConnectionManagerIsForTools) {
  remove("/sys/module/rdma_ucm");
  EXPECT_EQ(one("rdma_ucm", {.wanted = true}).verdict, Verdict::kWarning);
  EXPECT_EQ(one("rdma_ucm").remedy, "sudo modprobe rdma_ucm");
}

TEST_F(DoctorVerbs, Devices_WithoutOneSoftRoceIsOffered) {
  EXPECT_EQ(one("rdma_rxe").verdict, Verdict::kOk) << "there is an adapter";
  without_devices();
  EXPECT_EQ(one("devices").verdict, Verdict::kWarning);
  EXPECT_EQ(one("devices", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("rdma_rxe", {.wanted = true}).remedy, HasSubstr("tests/vm/run")) << "this kernel has none";
  write("/lib/modules/6.1.0-56-amd64/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko", "");
  EXPECT_EQ(one("devices").remedy, "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth1");
  EXPECT_THAT(all("port"), IsEmpty());
  EXPECT_THAT(all("device files"), IsEmpty());
}

TEST_F(DoctorVerbs, Device_ThatIsNotThereIsSaidWithWhatIs) {
  for (const char* device : {"mlx5_1", "mlx5_0:2", "10.77.0.9", "fe80::1"}) {
    const Finding finding = one("device", {.wanted = true, .device = device});
    EXPECT_EQ(finding.verdict, Verdict::kFailure) << device;
    EXPECT_THAT(finding.remedy, AllOf(HasSubstr("mlx5_0:1"), HasSubstr("10.77.0.1")));
  }
}

TEST_F(DoctorVerbs, Port_DownIsAFailureIfItIsTheOnlyOneOrNamed) {
  EXPECT_EQ(one("port").detail, "mlx5_0:1 (RoCE on eth1) is active");
  port("mlx5_0", "1", "1: DOWN", "Ethernet");
  EXPECT_EQ(one("port", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("port").remedy, HasSubstr("sudo ip link set eth1 up"));
  EXPECT_THAT(all("GIDs"), IsEmpty());
  port("mlx5_1", "1", "4: ACTIVE", "InfiniBand");
  EXPECT_EQ(all("port", {.wanted = true})[0].verdict, Verdict::kWarning);
  EXPECT_EQ(one("port", {.wanted = true, .device = "mlx5_0"}).verdict, Verdict::kFailure);
  EXPECT_EQ(one("port", {.wanted = true, .device = "mlx5_1"}).verdict, Verdict::kOk);
}

TEST_F(DoctorVerbs, Port_OfInfiniBandWaitsForASubnetManager) {
  port("mlx5_1", "1", "2: INIT", "InfiniBand");
  const Finding finding = one("port", {.device = "mlx5_1"});
  EXPECT_EQ(finding.detail, "mlx5_1:1 (InfiniBand) is init");
  EXPECT_THAT(finding.remedy, HasSubstr("opensm"));
}

TEST_F(DoctorVerbs, Gids_WantAnAddressThatOthersCanReach) {
  EXPECT_THAT(one("GIDs").detail,
              AllOf(HasSubstr("0: fe80::c42:a1ff:fe00:1 RoCE v2"), HasSubstr("1: 10.77.0.1 RoCE v2")));
  remove("/sys/class/infiniband/mlx5_0/ports/1/gids/1");
  EXPECT_EQ(one("GIDs", {.wanted = true}).verdict, Verdict::kWarning) << "within one network it works";
  EXPECT_THAT(one("GIDs").remedy, HasSubstr("ip address add 10.1.0.7/16 dev eth1"));
  remove("/sys/class/infiniband/mlx5_0/ports/1/gids");
  EXPECT_EQ(one("GIDs", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_EQ(one("GIDs").detail, "mlx5_0:1: none");
}

TEST_F(DoctorVerbs, Mtu_OfTheInterfaceMakesThatOfPackets) {
  const std::pair<const char*, const char*> cases[] = {
      {"9000", "4096"}, {"4200", "4096"}, {"4096", "2048"}, {"1500", "1024"}, {"1000", "512"}};
  for (const auto& [interface, packet] : cases) {
    write("/sys/class/net/eth1/mtu", interface);
    const Finding finding = one("MTU", {.wanted = true});
    EXPECT_EQ(finding.detail, std::string("mlx5_0:1: eth1 has ") + interface + ", which makes packets of " + packet);
    EXPECT_EQ(finding.verdict == Verdict::kOk, packet == std::string("4096"));
  }
  EXPECT_THAT(one("MTU").remedy, HasSubstr("sudo ip link set eth1 mtu 4200"));
}

TEST_F(DoctorVerbs, DeviceFiles_ThisUserMustBeAllowedToOpen) {
  EXPECT_EQ(one("device files").detail, "this user may open /dev/infiniband/uverbs0");
  host_.may_open = [](const std::string&) { return false; };
  EXPECT_EQ(one("device files", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("device files").remedy, HasSubstr("sudo chmod 0666 /dev/infiniband/uverbs0 "));
  remove("/dev/infiniband");
  EXPECT_EQ(one("device files", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("device files").remedy, HasSubstr("udevadm trigger"));
}

TEST_F(DoctorVerbs, LockedMemory_IsJudgedByWhatAWorkerTakes) {
  host_.memlock_bytes = uint64_t{1} << 30;
  EXPECT_EQ(one("locked memory", {.wanted = true}).verdict, Verdict::kOk);
  host_.memlock_bytes = 64 << 20;
  EXPECT_EQ(one("locked memory", {.wanted = true}).verdict, Verdict::kWarning);
  host_.memlock_bytes = 8 << 20;
  EXPECT_EQ(one("locked memory", {.wanted = true}).verdict, Verdict::kFailure);
  EXPECT_THAT(one("locked memory").detail, HasSubstr("limit 8192 KiB"));
  EXPECT_THAT(one("locked memory").remedy, AllOf(HasSubstr("ulimit -l unlimited"), HasSubstr("LimitMEMLOCK=infinity")));
  write("/proc/self/status", "CapEff:\t0000000000004000\n");
  EXPECT_EQ(one("locked memory", {.wanted = true}).detail, "unlimited") << "cap_ipc_lock";
}

}  // namespace
}  // namespace skua::kv::ctl
