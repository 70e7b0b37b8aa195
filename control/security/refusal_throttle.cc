#include "control/security/refusal_throttle.h"

namespace skua::control {
namespace {

constexpr const char* kFurtherSources = "further sources";

}  // namespace

std::optional<uint64_t> RefusalThrottle::admit(const std::string& source, TimeNs now) {
  const bool room = sources_.size() < kSourcesMax || sources_.contains(source);
  const auto [at, is_new] = sources_.try_emplace(room ? source : kFurtherSources, Source{now, 0});
  if (is_new) return 0;
  Source& known = at->second;
  if (now - known.written_ns < kInterval) {
    ++known.left_out;
    return std::nullopt;
  }
  known.written_ns = now;
  return std::exchange(known.left_out, 0);
}

std::vector<std::pair<std::string, uint64_t>> RefusalThrottle::take_overdue(TimeNs now) {
  std::vector<std::pair<std::string, uint64_t>> overdue;
  if (now - looked_ns_ < kInterval) return overdue;
  looked_ns_ = now;
  for (auto at = sources_.begin(); at != sources_.end();) {
    if (now - at->second.written_ns < kTellAfter) {
      ++at;
      continue;
    }
    if (at->second.left_out > 0) overdue.emplace_back(at->first, at->second.left_out);
    at = sources_.erase(at);
  }
  return overdue;
}

}  // namespace skua::control
