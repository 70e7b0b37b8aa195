#include "kvstore/client/types.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"

namespace skua::kv {

absl::Status check_options(const ClientOptions& options) {
  if (options.control_address.empty()) {
    return absl::InvalidArgumentError(
        "control_address is empty: give host:port of skua-control, for example 127.0.0.1:7400");
  }
  if (options.timeout.count() <= 0 || options.timeout.count() > kClientTimeoutMax) {
    return absl::InvalidArgumentError("timeout must be above 0 and at most one hour");
  }
  if (options.operations_max == 0 || options.operations_max > kClientOperationsMax) {
    return absl::InvalidArgumentError(absl::StrCat("operations_max must be 1..", kClientOperationsMax));
  }
  if (!std::has_single_bit(options.session_window) || options.session_window > kClientWindowMax) {
    return absl::InvalidArgumentError(absl::StrCat("session_window must be a power of two, 1..", kClientWindowMax));
  }
  if (options.packet_key_lifetime.count() < rpc::kPacketKeyLifetimeMin ||
      options.packet_key_lifetime.count() > rpc::kPacketKeyLifetimeMax) {
    return absl::InvalidArgumentError("packet_key_lifetime must be at least one second and at most 24 hours");
  }
  if (options.spin.count() < 0) return absl::InvalidArgumentError("spin must not be negative");
  return options.traffic.check();
}

PutValue PutValue::lend(std::string_view bytes, ReleaseFn release, void* context) {
  PutValue value(bytes);
  value.release_ = release;
  value.context_ = context;
  return value;
}

PutValue::PutValue(PutValue&& other) noexcept
    : owned_(std::exchange(other.owned_, std::nullopt)),
      view_(std::exchange(other.view_, {})),
      release_(std::exchange(other.release_, nullptr)),
      context_(other.context_) {}

PutValue& PutValue::operator=(PutValue&& other) noexcept {
  if (this == &other) return *this;
  release();
  owned_ = std::exchange(other.owned_, std::nullopt);
  view_ = std::exchange(other.view_, {});
  release_ = std::exchange(other.release_, nullptr);
  context_ = other.context_;
  return *this;
}

void PutValue::release() {
  if (ReleaseFn release = std::exchange(release_, nullptr); release != nullptr) release(context_);
}

}  // namespace skua::kv
