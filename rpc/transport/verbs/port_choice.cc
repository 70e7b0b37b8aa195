#include "rpc/transport/verbs/port_choice.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/status.h"

namespace skua::rpc::verbs {
namespace {

int rank(const GidInfo& gid) {
  switch (gid.network) {
    case Network::kRoceV2: return gid.gid.is_ipv4() ? 0 : gid.gid.is_link_local() ? 2 : 1;
    case Network::kInfiniBand: return 3;
    case Network::kRoceV1: return 4;
  }
  return 5;
}

/// The parsed text of PortWish::device.
struct Wanted {
  std::string name;
  uint8_t port = 0;
  std::optional<Gid> gid;

  explicit Wanted(const std::string& text) : name(text), gid(Gid::parse(text)) {
    const size_t colon = text.rfind(':');
    if (gid.has_value() || colon == std::string::npos) return;
    const char* end = text.data() + text.size();
    uint8_t number = 0;
    if (const auto parsed = std::from_chars(text.data() + colon + 1, end, number);
        parsed.ec == std::errc() && parsed.ptr == end && number > 0) {
      name = text.substr(0, colon);
      port = number;
    }
  }

  [[nodiscard]] bool fits(const PortInfo& info) const {
    if (gid.has_value()) {
      return std::any_of(info.gids.begin(), info.gids.end(), [&](const GidInfo& have) { return have.gid == *gid; });
    }
    return name.empty() || (name == info.device && (port == 0 || port == info.port));
  }
};

const GidInfo* best_gid(const PortInfo& port, const Wanted& wanted, int gid_index) {
  const GidInfo* best = nullptr;
  for (const GidInfo& gid : port.gids) {
    if (gid_index >= 0 && gid.index != static_cast<uint32_t>(gid_index)) continue;
    if (gid_index < 0 && wanted.gid.has_value() && gid.gid != *wanted.gid) continue;
    if (best == nullptr || rank(gid) < rank(*best)) best = &gid;
  }
  return best;
}

std::string list(const std::vector<PortInfo>& ports) {
  return absl::StrJoin(ports, "; ",
                       [](std::string* out, const PortInfo& port) { absl::StrAppend(out, port.describe()); });
}

absl::Status none_at_all() {
  return absl::FailedPreconditionError(
      "no RDMA device here: is the adapter's driver loaded and /dev/infiniband there? `ibv_devices` (package "
      "ibverbs-utils) "
      "lists them. Without such an adapter Soft-RoCE does: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0");
}

}  // namespace

std::string PortInfo::describe() const {
  std::string out = absl::StrCat(device, " port ", static_cast<int>(port), " (", state);
  if (mtu_bytes != 0) absl::StrAppend(&out, ", MTU ", mtu_bytes);
  absl::StrAppend(&out, gids.empty() ? ", no GID" : ", GIDs ",
                  absl::StrJoin(gids, ", ", [](std::string* text, const GidInfo& gid) {
                    absl::StrAppend(text, gid.index, ": ", gid.gid.to_string(), " ", to_string(gid.network));
                  }));
  return out + ")";
}

absl::StatusOr<PortChoice> choose_port(const std::vector<PortInfo>& ports, const PortWish& wish) {
  if (ports.empty()) return none_at_all();
  const Wanted wanted(wish.device);
  std::vector<PortInfo> fitting;
  for (const PortInfo& port : ports) {
    if (wanted.fits(port)) fitting.push_back(port);
  }
  const std::string sought = wish.device.empty() ? "any RDMA port" : absl::StrCat("\"", wish.device, "\"");
  if (fitting.empty()) {
    const std::string text = absl::StrCat("no RDMA port fits ", sought,
                                          " (a device, DEVICE:PORT, or an IP address of one); found: ", list(ports));
    // The interface may get its address later.
    return wanted.gid.has_value() ? absl::UnavailableError(text) : absl::FailedPreconditionError(text);
  }
  for (const PortInfo& port : fitting) {
    if (!port.active) continue;
    if (const GidInfo* gid = best_gid(port, wanted, wish.gid_index)) return PortChoice{port, *gid};
  }
  const bool any_active = std::any_of(fitting.begin(), fitting.end(), [](const PortInfo& port) { return port.active; });
  if (any_active && wish.gid_index >= 0) {
    return absl::UnavailableError(absl::StrCat("looked for GID ", wish.gid_index, " on ", sought,
                                               ", which has no such entry; found: ", list(fitting)));
  }
  return absl::UnavailableError(
      any_active
          ? absl::StrCat("looked for ", sought,
                         ": no active port has a GID; give the network interface an IP address. Found: ", list(fitting))
          : absl::StrCat("looked for ", sought,
                         ": no port is active; is the cable in, the interface up, and on InfiniBand a "
                         "subnet manager running? Found: ",
                         list(fitting)));
}

}  // namespace skua::rpc::verbs
