#include "rpc/protocol/congestion.h"

#include "rpc/protocol/congestion_swift.h"
#include "rpc/protocol/congestion_timely.h"

namespace skua::rpc {

std::unique_ptr<CongestionPolicy> make_congestion_policy(const ProtocolOptions& options, uint32_t credits) {
  switch (options.congestion) {
    case CongestionControl::kNone: return nullptr;
    case CongestionControl::kTimely: return std::make_unique<TimelyPolicy>(options.timely);
    case CongestionControl::kSwift: return std::make_unique<SwiftPolicy>(options.swift, credits);
  }
  return nullptr;
}

}  // namespace skua::rpc
