#include "kvstore/ctl/doctor_verbs.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kvstore/ctl/host_examiner.h"
#include "kvstore/ctl/host_files.h"

namespace skua::kv::ctl {
namespace {

/// Locked memory: the packet buffers of one worker with a few messages, and with as many as --message-memory allows.
constexpr uint64_t kLockedBytesNeeded = uint64_t{16} << 20;
constexpr uint64_t kLockedBytesWanted = uint64_t{1} << 30;
constexpr uint32_t kRdmaMtuMax = 4096;
/// Bytes of an Ethernet packet that the kernel reserves for RoCE's headers.
constexpr uint64_t kRoceHeaderBytes = 96;
constexpr uint64_t kEthernetMtuWanted = 4200;

/// An entry of a port's GID table.
struct Gid {
  std::string index;
  std::string type;       // "RoCE v2", "IB/RoCE v1"
  std::string interface;  // RoCE: the network interface that the GID belongs to
  std::string text;       // as the kernel writes it: fe80:0000:...
  [[nodiscard]] bool is_link_local() const { return absl::StartsWith(text, "fe80:"); }
  [[nodiscard]] bool is_ipv4() const { return absl::StartsWith(text, "0000:0000:0000:0000:0000:ffff:"); }
};

struct Port {
  std::string device;
  std::string number;
  std::string state;  // "ACTIVE"
  bool ethernet = false;
  std::vector<Gid> gids;
  [[nodiscard]] std::string name() const { return absl::StrCat(device, ":", number); }
  [[nodiscard]] bool active() const { return state == "ACTIVE"; }
};

using GidBytes = std::array<unsigned char, 16>;

/// The GID of an IP address. Nothing if the text is not an IP address.
std::optional<GidBytes> gid_of(const std::string& address) {
  GidBytes out{};
  if (inet_pton(AF_INET6, address.c_str(), out.data()) == 1) return out;
  out = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (inet_pton(AF_INET, address.c_str(), out.data() + 12) == 1) return out;
  return std::nullopt;
}

/// The GID as an IP address in its usual notation: 10.77.0.1, fe80::1.
std::string address_of(const Gid& gid) {
  const std::optional<GidBytes> bytes = gid_of(gid.text);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (!bytes.has_value()) return gid.text;
  const bool ok = gid.is_ipv4() ? inet_ntop(AF_INET, bytes->data() + 12, text.data(), text.size()) != nullptr
                                : inet_ntop(AF_INET6, bytes->data(), text.data(), text.size()) != nullptr;
  return ok ? text.data() : gid.text;
}

class VerbsExaminer : public HostExaminer {
 public:
  VerbsExaminer(const VerbsHost& host, const VerbsPlan& plan)
      : HostExaminer("verbs", host.root, plan.wanted), host_(host), plan_(plan) {}

  std::vector<Finding> run() {
    find_ports();
    library();
    providers();
    kernel_modules();
    devices();
    named_device();
    for (const Port& port : ports_) {
      if (!is_meant(port)) continue;
      port_state(port);
      if (!port.active()) continue;
      gids(port);
      mtu(port);
    }
    device_files();
    locked_memory();
    return take();
  }

 private:
  [[nodiscard]] bool has_module(const std::string& name) const { return exists(path("/sys/module/") + name); }

  void find_ports() {
    const std::string all = path("/sys/class/infiniband/");
    for (const std::string& device : names_in(all)) {
      for (const std::string& number : names_in(absl::StrCat(all, device, "/ports"))) {
        const std::string at = absl::StrCat(all, device, "/ports/", number);
        Port& port = ports_.emplace_back();
        port.device = device;
        port.number = number;
        const std::string state = first_line(at + "/state");  // "4: ACTIVE"
        port.state = state.substr(std::min(state.size(), state.find(' ') + 1));
        port.ethernet = first_line(at + "/link_layer") == "Ethernet";
        for (const std::string& index : names_in(at + "/gids")) {
          Gid gid{index, first_line(absl::StrCat(at, "/gid_attrs/types/", index)),
                  first_line(absl::StrCat(at, "/gid_attrs/ndevs/", index)),
                  first_line(absl::StrCat(at, "/gids/", index))};
          // Unused entries are zero.
          if (gid.text.find_first_not_of("0:") != std::string::npos) port.gids.push_back(std::move(gid));
        }
      }
    }
  }

  /// The plan names this port, its device or one of its addresses, or it names no device at all.
  [[nodiscard]] bool is_meant(const Port& port) const {
    if (plan_.device.empty() || plan_.device == port.device || plan_.device == port.name()) return true;
    const std::optional<GidBytes> wish = gid_of(plan_.device);
    return wish.has_value() && std::ranges::any_of(port.gids, [&](const Gid& gid) { return gid_of(gid.text) == wish; });
  }

  // --- Software

  void library() {
    add("library", host_.built ? Verdict::kOk : lack(),
        host_.built ? "built with libibverbs" : "this build has no verbs transport",
        "./deploy/install-deps build && cmake --preset release && cmake --build --preset release",
        "the verbs transport is compiled when libibverbs-dev is there");
  }

  void providers() {
    std::vector<std::string> found;
    for (const std::string& name : names_in(path("/etc/libibverbs.d"))) {
      if (absl::EndsWith(name, ".driver")) found.push_back(name.substr(0, name.size() - 7));
    }
    add("providers", found.empty() ? lack() : Verdict::kOk,
        found.empty() ? "no providers (/etc/libibverbs.d/*.driver)" : absl::StrCat("for ", absl::StrJoin(found, ", ")),
        "sudo apt-get install ibverbs-providers",
        "libibverbs loads one for each kind of device; it sees no device without");
  }

  [[nodiscard]] bool can_load(const std::string& folder, const std::string& name) const {
    const std::string release = first_line(path("/proc/sys/kernel/osrelease"));
    for (const std::string& file :
         names_in(absl::StrCat(path("/lib/modules/"), release, "/kernel/drivers/infiniband/", folder))) {
      if (absl::StartsWith(file, name + ".ko")) return true;
    }
    return false;
  }

  void kernel_modules() {
    const bool uverbs = has_module("ib_uverbs") || exists(path("/sys/class/infiniband_verbs"));
    add("ib_uverbs", uverbs ? Verdict::kOk : lack(),
        uverbs ? "the kernel lets programs use RDMA devices" : "the kernel module is not loaded",
        uverbs || can_load("core", "ib_uverbs")
            ? "sudo modprobe ib_uverbs"
            : "use a kernel with InfiniBand support (Debian: sudo apt-get install linux-image-amd64), or: tests/vm/run",
        "programs reach RDMA devices through it");
    const bool rxe = has_module("rdma_rxe");
    const bool hardware =
        std::ranges::any_of(ports_, [](const Port& port) { return !absl::StartsWith(port.device, "rxe"); });
    add("rdma_rxe", rxe || hardware ? Verdict::kOk : Verdict::kWarning,
        rxe        ? "Soft-RoCE is loaded"
        : hardware ? "not loaded, and not needed: there is an adapter"
                   : "Soft-RoCE is not loaded",
        soft_roce_remedy(), "RDMA in software, over any network interface: for trying it out");
    const bool ucm = has_module("rdma_ucm");
    add("rdma_ucm", ucm || !uverbs ? Verdict::kOk : Verdict::kWarning, ucm ? "loaded" : "not loaded",
        "sudo modprobe rdma_ucm",
        "Skua works without it; rping, ib_send_bw -R and other tools that look for faults need it");
  }

  [[nodiscard]] std::string soft_roce_remedy() const {
    if (!has_module("rdma_rxe") && !can_load("sw/rxe", "rdma_rxe")) {
      return "this kernel has no rdma_rxe: tests/vm/run tries verbs in an emulated machine";
    }
    std::string interface = "eth0";
    for (const std::string& name : names_in(path("/sys/class/net"))) {
      if (name == "lo" || first_line(absl::StrCat(path("/sys/class/net/"), name, "/operstate")) != "up") continue;
      interface = name;
      break;
    }
    return absl::StrCat("sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev ", interface);
  }

  // --- Devices

  void devices() {
    const std::vector<std::string> names = names_in(path("/sys/class/infiniband"));
    add("devices", names.empty() ? lack() : Verdict::kOk,
        names.empty() ? "no RDMA device in /sys/class/infiniband" : absl::StrJoin(names, ", "), soft_roce_remedy(),
        "verbs need an RDMA adapter with its driver, or one in software (Soft-RoCE)");
  }

  void named_device() {
    if (ports_.empty() || std::ranges::any_of(ports_, [&](const Port& port) { return is_meant(port); })) return;
    std::vector<std::string> there;
    for (const Port& port : ports_) {
      there.push_back(port.name());
      for (const Gid& gid : port.gids) there.push_back(address_of(gid));
    }
    add("device", Verdict::kFailure, absl::StrCat(plan_.device, ": no such RDMA device, port or address"),
        absl::StrCat("--verbs-device with one of: ", absl::StrJoin(there, ", ")), "--verbs-device names it");
  }

  void port_state(const Port& port) {
    const bool any = std::ranges::any_of(ports_, &Port::active);
    // A card with two ports often has an unused one: while another port is active, this is a warning only.
    const Verdict down = plan_.wanted && (!any || !plan_.device.empty()) ? Verdict::kFailure : Verdict::kWarning;
    const std::string interface = port.gids.empty() ? "" : port.gids.front().interface;
    add("port", port.active() ? Verdict::kOk : down,
        absl::StrCat(port.name(), " (", port.ethernet ? "RoCE" : "InfiniBand",
                     interface.empty() ? "" : absl::StrCat(" on ", interface), ") is ",
                     absl::AsciiStrToLower(port.state)),
        port.ethernet ? absl::StrCat("sudo ip link set ", interface.empty() ? "INTERFACE" : interface,
                                     " up   (which interface: rdma link; and is the cable in?)")
                      : "is the cable in, and does a subnet manager run? (sudo systemctl start opensm)",
        "packets go through an active port only");
  }

  void gids(const Port& port) {
    std::vector<std::string> texts;
    texts.reserve(port.gids.size());
    for (const Gid& gid : port.gids) {
      texts.push_back(
          absl::StrCat(gid.index, ": ", address_of(gid), gid.type.empty() ? "" : absl::StrCat(" ", gid.type)));
    }
    const bool routable =
        std::ranges::any_of(port.gids, [](const Gid& gid) { return gid.type == "RoCE v2" && !gid.is_link_local(); });
    const bool good = port.ethernet ? routable : !port.gids.empty();
    const std::string interface =
        port.gids.empty() || port.gids.front().interface.empty() ? "INTERFACE" : port.gids.front().interface;
    add("GIDs",
        good                ? Verdict::kOk
        : port.gids.empty() ? lack()
                            : Verdict::kWarning,
        absl::StrCat(port.name(), ": ", texts.empty() ? "none" : absl::StrJoin(texts, ", ")),
        port.ethernet
            ? absl::StrCat("sudo ip address add 10.1.0.7/16 dev ", interface, "   (an address of your network)")
            : "does a subnet manager run? (sudo systemctl start opensm)",
        "a GID is a port's address; those of RoCE v2 come from the interface's IP addresses, and both ends need one "
        "kind");
  }

  /// Ethernet only: on InfiniBand the subnet manager sets the MTU, and the kernel's files do not show it.
  void mtu(const Port& port) {
    if (!port.ethernet || port.gids.empty() || port.gids.front().interface.empty()) return;
    const std::string& interface = port.gids.front().interface;
    const uint64_t ethernet = number_in(absl::StrCat(path("/sys/class/net/"), interface, "/mtu"));
    if (ethernet <= kRoceHeaderBytes) return;
    const uint64_t rdma = std::min<uint64_t>(kRdmaMtuMax, std::bit_floor(ethernet - kRoceHeaderBytes));
    add("MTU", rdma >= kRdmaMtuMax ? Verdict::kOk : Verdict::kWarning,
        absl::StrCat(port.name(), ": ", interface, " has ", ethernet, ", which makes packets of ", rdma),
        absl::StrCat("sudo ip link set ", interface, " mtu ", kEthernetMtuWanted,
                     "   (or 9000; on all nodes, clients and switches)"),
        "an RDMA packet has 256, 512, 1024, 2048 or 4096 bytes: the largest that fits; each costs the same");
  }

  // --- Permissions

  void device_files() {
    std::vector<std::string> closed;
    std::vector<std::string> open;
    for (const std::string& name : names_in(path("/dev/infiniband"))) {
      if (!absl::StartsWith(name, "uverbs")) continue;
      const std::string file = "/dev/infiniband/" + name;
      (host_.may_open(path(file)) ? open : closed).push_back(file);
    }
    if (open.empty() && closed.empty()) {
      if (ports_.empty()) return;
      return add("device files", lack(), "no /dev/infiniband/uverbs*",
                 "sudo modprobe ib_uverbs; sudo udevadm trigger   (in a container: --device=/dev/infiniband)",
                 "a program opens a device by its file");
    }
    add("device files", closed.empty() ? Verdict::kOk : lack(),
        closed.empty() ? absl::StrCat("this user may open ", absl::StrJoin(open, ", "))
                       : absl::StrCat("this user may not open ", absl::StrJoin(closed, ", ")),
        absl::StrCat("sudo chmod 0666 ", absl::StrJoin(closed, " "),
                     "   (for good: echo 'KERNEL==\"uverbs*\", MODE=\"0666\"' | sudo tee "
                     "/etc/udev/rules.d/90-uverbs.rules)"),
        "a program opens a device by its file");
  }

  void locked_memory() {
    const bool unlimited = may_lock_all(host_.memlock_bytes);
    const Verdict verdict = unlimited || host_.memlock_bytes >= kLockedBytesWanted ? Verdict::kOk
                            : host_.memlock_bytes >= kLockedBytesNeeded            ? Verdict::kWarning
                                                                                   : lack();
    add("locked memory", verdict,
        unlimited ? "unlimited"
                  : absl::StrCat("limit ", host_.memlock_bytes >> 10,
                                 " KiB; a worker needs 6 MiB for packet buffers, and "
                                 "memory for messages up to --message-memory (1 GiB)"),
        "ulimit -l unlimited   (systemd: LimitMEMLOCK=infinity; for good: echo '* - memlock unlimited' | sudo tee "
        "/etc/security/limits.d/90-memlock.conf, and log in again)",
        "memory that an RDMA device reads and writes is locked; beyond the limit messages are refused");
  }

  const VerbsHost& host_;
  const VerbsPlan& plan_;
  std::vector<Port> ports_;
};

}  // namespace

VerbsHost verbs_host() {
  VerbsHost host;
#ifdef SKUA_HAS_VERBS
  host.built = true;
#endif
  host.memlock_bytes = locked_memory_limit();
  host.may_open = [](const std::string& path) { return access(path.c_str(), R_OK | W_OK) == 0; };
  return host;
}

std::vector<Finding> examine_verbs(const VerbsHost& host, const VerbsPlan& plan) {
  return VerbsExaminer(host, plan).run();
}

}  // namespace skua::kv::ctl
