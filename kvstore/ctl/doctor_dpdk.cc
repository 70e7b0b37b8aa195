#include "kvstore/ctl/doctor_dpdk.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kvstore/ctl/host_examiner.h"
#include "kvstore/ctl/host_files.h"

namespace skua::kv::ctl {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLockedBytesWanted = uint64_t{1} << 30;
constexpr uint64_t kMtuWanted = 1500;

/// A capability that DPDK's drivers ask for. `bit`: its bit in CapEff.
struct Capability {
  int bit;
  const char* name;
  const char* use;
};
constexpr Capability kCapabilities[] = {
    {12, "cap_net_admin", "af_xdp, tap"},
    {13, "cap_net_raw", "af_packet"},
    {14, "cap_ipc_lock", "locking memory for devices"},
    {21, "cap_sys_admin", "af_xdp, physical addresses"},
};

/// True if DPDK can use a network card that is bound to this driver.
bool serves_dpdk(const std::string& driver) {
  // With the two mlx drivers the card is shared: the kernel keeps its interface, and DPDK has queues of its own.
  static constexpr const char* kDrivers[] = {"vfio-pci", "igb_uio", "uio_pci_generic", "mlx5_core", "mlx4_core"};
  return std::ranges::find(kDrivers, driver) != std::end(kDrivers);
}

/// The network interfaces of a card. With virtio there is another device between the card and the interface.
std::vector<std::string> interfaces_on(const std::string& class_net, const std::string& pci) {
  std::vector<std::string> out;
  for (const std::string& name : names_in(class_net)) {
    std::error_code error;
    const fs::path device = fs::canonical(absl::StrCat(class_net, "/", name, "/device"), error);
    if (!error && std::find(device.begin(), device.end(), fs::path(pci)) != device.end()) out.push_back(name);
  }
  return out;
}

/// The words of each line of a file.
std::vector<std::vector<std::string>> word_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return lines;
}

struct NetworkCard {
  std::string pci;
  std::string ids;
  std::string driver;
  std::vector<std::string> interfaces;
};

class DpdkExaminer : public HostExaminer {
 public:
  DpdkExaminer(const DpdkHost& host, const DpdkPlan& plan)
      : HostExaminer("dpdk", host.root, plan.wanted), host_(host), plan_(plan) {}

  std::vector<Finding> run() {
    find_cards();
    library();
    drivers();
    huge_pages();
    huge_page_mount();
    iommu();
    vfio();
    privileges();
    locked_memory();
    cards();
    named_devices();
    for (const std::string& name : plan_.interfaces) interface(name);
    return take();
  }

 private:
  [[nodiscard]] bool drives_hardware() const {
    return std::ranges::any_of(cards_, [&](const auto& card) { return absl::StrContains(plan_.devices, card.pci); });
  }

  void find_cards() {
    const std::string devices = path("/sys/bus/pci/devices/");
    for (const std::string& pci : names_in(devices)) {
      const std::string device = devices + pci;
      if (!absl::StartsWith(first_line(device + "/class"), "0x02")) continue;  // network controllers
      const auto id = [&](const char* file) {
        const std::string text = first_line(device + "/" + file);
        return absl::StartsWith(text, "0x") ? text.substr(2) : text;
      };
      cards_.push_back({pci, absl::StrCat(id("vendor"), ":", id("device")), link_name(device + "/driver"),
                        interfaces_on(path("/sys/class/net"), pci)});
    }
  }

  // --- The library

  void library() {
    const bool built = !host_.dpdk_version.empty();
    add("library", built ? Verdict::kOk : lack(),
        built ? absl::StrCat("built with DPDK ", host_.dpdk_version) : "this build has no DPDK transport",
        "./deploy/install-deps build && cmake --preset release && cmake --build --preset release",
        "the dpdk transport is compiled when libdpdk-dev is there");
  }

  void drivers() {
    std::string found;
    for (const char* lib : {"/usr/lib", "/usr/local/lib"}) {
      std::vector<std::string> places = {path(lib)};
      for (const std::string& name : names_in(path(lib))) places.push_back(absl::StrCat(path(lib), "/", name));
      for (const std::string& place : places) {
        for (const std::string& name : names_in(place + "/dpdk")) {
          if (absl::StartsWith(name, "pmds-")) found = absl::StrCat(place, "/dpdk/", name);
        }
      }
    }
    add("drivers", found.empty() ? lack() : Verdict::kOk,
        found.empty() ? "no directory of DPDK drivers (/usr/lib/*/dpdk/pmds-*)" : absl::StrCat("in ", found),
        "apt-get install libdpdk-dev", "DPDK loads a driver for each kind of device when a program starts");
  }

  // --- Memory

  void huge_pages() {
    struct Place {
      std::string name;
      std::string directory;
    };
    std::vector<Place> places;
    for (const std::string& name : names_in(path("/sys/devices/system/node"))) {
      const std::string directory = path("/sys/devices/system/node/") + name + "/hugepages";
      if (absl::StartsWith(name, "node") && exists(directory)) {
        places.push_back({absl::StrCat("node ", name.substr(4), ": "), directory});
      }
    }
    if (places.empty()) places.push_back({"", path("/sys/kernel/mm/hugepages")});

    uint64_t reserved = 0;
    uint64_t free = 0;
    size_t without = 0;
    std::vector<std::string> details;
    for (const Place& place : places) {
      std::vector<std::string> kinds;
      for (const std::string& kind : names_in(place.directory)) {  // hugepages-2048kB
        const std::string pages = absl::StrCat(place.directory, "/", kind);
        const uint64_t count = number_in(pages + "/nr_hugepages");
        uint64_t kib = 0;
        if (count == 0 || !absl::SimpleAtoi(kind.substr(10, kind.size() - 12), &kib)) continue;
        const uint64_t unused = number_in(pages + "/free_hugepages");
        reserved += count;
        free += unused;
        kinds.push_back(absl::StrCat(count, " of ", kib / 1024, " MiB (", unused, " free)"));
      }
      if (kinds.empty()) ++without;
      details.push_back(absl::StrCat(place.name, kinds.empty() ? "none" : absl::StrJoin(kinds, ", ")));
    }
    const Verdict verdict = reserved == 0 || free == 0 ? lack(plan_.huge_pages)
                            : without > 0              ? Verdict::kWarning
                                                       : Verdict::kOk;
    add("huge pages", verdict, absl::StrCat("reserved: ", absl::StrJoin(details, "; ")),
        reserved > 0 && free == 0
            ? "end what uses them, or: sudo deploy/host-setup huge-pages --count 1024"
            : "sudo deploy/host-setup huge-pages --count 512   (or --dpdk-huge-pages=false, slower)",
        "packet buffers live in them: fewer TLB misses, and memory that a device can be given; each NUMA node with a "
        "card or a worker needs its own");
  }

  void huge_page_mount() {
    std::ifstream mounts(path("/proc/mounts"));
    std::string line;
    std::string found;
    while (std::getline(mounts, line)) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() > 2 && words[2] == "hugetlbfs") found = words[1];
    }
    add("huge page mount", found.empty() ? Verdict::kWarning : Verdict::kOk,
        found.empty() ? "no hugetlbfs is mounted" : absl::StrCat("hugetlbfs on ", found),
        "sudo mkdir -p /dev/hugepages && sudo mount -t hugetlbfs nodev /dev/hugepages",
        "skuad works without it; testpmd and other DPDK programs keep their huge pages in files there");
  }

  void locked_memory() {
    const bool unlimited = may_lock_all(host_.memlock_bytes);
    const bool enough = unlimited || host_.memlock_bytes >= kLockedBytesWanted;
    add("locked memory", enough ? Verdict::kOk : lack(drives_hardware()),
        unlimited ? "unlimited" : absl::StrCat("limit ", host_.memlock_bytes, " bytes"), "ulimit -l unlimited",
        "memory that a card reads and writes is locked: packet buffers, and messages sent without copying");
  }

  // --- Access to devices

  void iommu() {
    const size_t groups = names_in(path("/sys/kernel/iommu_groups")).size();
    add("iommu", groups > 0 ? Verdict::kOk : lack(drives_hardware()),
        groups > 0 ? absl::StrCat(groups, " groups") : "no IOMMU in use",
        "add intel_iommu=on iommu=pt (AMD: iommu=pt) to the kernel's command line and reboot; without an IOMMU: sudo "
        "deploy/host-setup bind --no-iommu ADDRESS",
        "vfio-pci lets a program drive a card only within memory that an IOMMU guards");
  }

  void vfio() {
    const bool there = exists(path("/sys/bus/pci/drivers/vfio-pci"));
    add("vfio", there ? Verdict::kOk : lack(drives_hardware()),
        there ? "vfio-pci is loaded" : "vfio-pci is not loaded: only virtual devices can be driven",
        "sudo modprobe vfio-pci", "the kernel's driver that hands a card over to a program");
  }

  void privileges() {
    const uint64_t held = capabilities();
    std::vector<std::string> missing;
    std::vector<std::string> names;
    for (const Capability& capability : kCapabilities) {
      if ((held >> capability.bit & 1) != 0) continue;
      missing.push_back(absl::StrCat(capability.name, " (", capability.use, ")"));
      names.emplace_back(capability.name);
    }
    add("privileges", missing.empty() ? Verdict::kOk : Verdict::kWarning,
        missing.empty() ? "all that DPDK's drivers ask for" : absl::StrCat("lacking: ", absl::StrJoin(missing, ", ")),
        absl::StrCat("run as root, or: sudo setcap ", absl::StrJoin(names, ","),
                     "+ep $(command -v skuad)   (and the same for clients)"),
        "which of them are needed depends on the driver; memif needs none");
  }

  [[nodiscard]] bool has_default_route(const std::string& interface) const {
    const std::string master = link_name(absl::StrCat(path("/sys/class/net/"), interface, "/master"));
    const auto is_meant = [&](const std::string& name) { return name == interface || name == master; };
    // Iface Destination Gateway Flags RefCnt Use Metric Mask ...
    const auto is_v4 = [&](const std::vector<std::string>& words) {
      return words.size() >= 8 && words[1] == "00000000" && words[7] == "00000000" && is_meant(words[0]);
    };
    // destination prefix-length ... interface
    const auto is_v6 = [&](const std::vector<std::string>& words) {
      return words.size() >= 10 && words[0] == std::string(32, '0') && words[1] == "00" && is_meant(words.back());
    };
    return std::ranges::any_of(word_lines(path("/proc/net/route")), is_v4) ||
           std::ranges::any_of(word_lines(path("/proc/net/ipv6_route")), is_v6);
  }

  void cards() {
    if (cards_.empty()) {
      add("device", Verdict::kWarning, "no network card on the PCI bus",
          "use a virtual device, for example --dpdk-devices net_af_packet0,iface=eth1; or try: sudo deploy/cluster "
          "start --dir /tmp/skua --transport dpdk",
          "DPDK drives cards by their PCI addresses; virtual devices go through the kernel, and are slower");
    }
    const bool any = std::ranges::any_of(cards_, serves_dpdk, &NetworkCard::driver);
    for (const NetworkCard& card : cards_) {
      const bool routed =
          std::ranges::any_of(card.interfaces, [&](const std::string& name) { return has_default_route(name); });
      std::string detail = absl::StrCat(
          card.pci, " (", card.ids, "), ", card.driver.empty() ? "no driver" : absl::StrCat("driver ", card.driver),
          card.interfaces.empty() ? "" : absl::StrCat(", interface ", absl::StrJoin(card.interfaces, ", ")),
          routed ? ", has the default route" : "");
      const bool named = absl::StrContains(plan_.devices, card.pci);
      const bool good = serves_dpdk(card.driver) || (!named && (any || routed));
      add("device", good ? Verdict::kOk : lack(named), std::move(detail),
          routed ? "choose another card: this one connects the host"
                 : absl::StrCat("sudo deploy/host-setup bind ", card.pci),
          serves_dpdk(card.driver) ? "DPDK can drive it" : "the kernel drives it: DPDK needs it bound to vfio-pci");
    }
  }

  void named_devices() {
    for (const absl::string_view device : absl::StrSplit(plan_.devices, ';', absl::SkipWhitespace())) {
      for (const absl::string_view word : absl::StrSplit(device, ',')) {
        if (absl::StartsWith(word, "iface=")) interface(std::string(word.substr(6)));
      }
      const std::string name(device.substr(0, device.find(',')));
      const bool pci = name.find(':') != std::string::npos;
      if (!pci || std::ranges::find(cards_, name, &NetworkCard::pci) != cards_.end()) continue;
      add("device", Verdict::kFailure, absl::StrCat(name, ": no such network card"),
          "ls /sys/bus/pci/devices   (addresses are written in full: 0000:3b:00.0)", "--dpdk-devices names it");
    }
  }

  void interface(const std::string& name) {
    const std::string directory = path("/sys/class/net/") + name;
    if (!exists(directory)) {
      const std::vector<std::string> others = names_in(path("/sys/class/net"));
      return add("interface", Verdict::kFailure, absl::StrCat(name, ": no such interface"),
                 absl::StrCat("ip link; there are: ", absl::StrJoin(others, ", ")),
                 "a card that is bound to vfio-pci has none; name it by its PCI address");
    }
    const uint64_t mtu = number_in(directory + "/mtu");
    // Some virtual interfaces have no operstate "up", but have a carrier.
    const bool up = first_line(directory + "/operstate") == "up" || first_line(directory + "/carrier") == "1";
    std::string driver = link_name(directory + "/device/driver");
    if (driver.empty()) driver = "virtual";
    const std::string what = absl::StrCat(name, " (", driver, "): link ", up ? "up" : "down", ", MTU ", mtu);
    if (!up) {
      return add("interface", Verdict::kFailure, what,
                 absl::StrCat("sudo ip link set ", name, " up   (and is the cable in?)"),
                 "without a link no packet arrives");
    }
    add("interface", mtu >= kMtuWanted ? Verdict::kOk : Verdict::kWarning, what,
        absl::StrCat("sudo ip link set ", name, " mtu ", kMtuWanted),
        "every packet costs the same, so that small ones cost throughput; all nodes and clients need the same MTU");
  }

  const DpdkHost& host_;
  const DpdkPlan& plan_;
  std::vector<NetworkCard> cards_;
};

}  // namespace

DpdkHost dpdk_host() {
  DpdkHost host;
#ifdef SKUA_DPDK_VERSION
  host.dpdk_version = SKUA_DPDK_VERSION;
#endif
  host.memlock_bytes = locked_memory_limit();
  return host;
}

std::vector<Finding> examine_dpdk(const DpdkHost& host, const DpdkPlan& plan) {
  return DpdkExaminer(host, plan).run();
}

}  // namespace skua::kv::ctl
