#include "rpc/transport/verbs/verbs_settings.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {
namespace {

constexpr uint32_t kDepthMin = 2 * kBurstMax;
constexpr uint32_t kDepthMax = 32'768;

absl::Status check_depth(const char* name, uint32_t depth) {
  if (depth >= kDepthMin && depth <= kDepthMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " must be ", kDepthMin, " to ", kDepthMax, ", not ", depth));
}

}  // namespace

absl::StatusOr<VerbsOptions> VerbsSettings::to_options() const {
  if (mtu != 0 && (mtu < 256 || mtu > 4096 || !std::has_single_bit(mtu))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--verbs-mtu must be 256, 512, 1024, 2048 or 4096 (0: the port's), not ", mtu));
  }
  if (gid_index < -1 || gid_index > UINT8_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("--verbs-gid-index must be -1 to 255, not ", gid_index));
  }
  if (traffic_class > UINT8_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("--verbs-traffic-class must be 0 to 255, not ", traffic_class));
  }
  if (absl::Status status = check_depth("verbs-receive-packets", receive_packets); !status.ok()) return status;
  if (absl::Status status = check_depth("verbs-send-packets", send_packets); !status.ok()) return status;
  VerbsOptions out;
  out.device = device;
  out.gid_index = gid_index;
  out.mtu_bytes = mtu;
  out.traffic_class = static_cast<uint8_t>(traffic_class);
  out.receive_depth = receive_packets;
  out.send_depth = send_packets;
  return out;
}

}  // namespace skua::rpc
