// Helpers for texts for people: texts from peers, and numbers in texts.
#ifndef SKUA_CONTROL_CORE_TEXT_H_
#define SKUA_CONTROL_CORE_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/clock.h"

namespace skua::control {

/// At most the first `max` bytes of a text. Never cuts a UTF-8 character in two, because a message with half a
/// character cannot be read.
[[nodiscard]] inline std::string cut_text(std::string_view text, size_t max) {
  if (text.size() <= max) return std::string(text);
  // The bytes that continue a UTF-8 character begin with the bits 10.
  while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xc0) == 0x80) --max;
  return std::string(text.substr(0, max));
}

/// "1 shard", "2 shards".
[[nodiscard]] inline std::string count_of(uint64_t n, const char* thing) {
  return absl::StrCat(n, " ", thing, n == 1 ? "" : "s");
}

/// "shard 3 of table users".
[[nodiscard]] inline std::string shard_name(const std::string& table, uint32_t shard) {
  return absl::StrCat("shard ", shard, " of table ", table);
}

/// "a, b, c": up to eight of the names, then "..." if there are more. "none" if there are no names.
[[nodiscard]] inline std::string few_of(const std::vector<std::string>& names) {
  constexpr size_t kShownMax = 8;
  const size_t shown = std::min(names.size(), kShownMax);
  std::string text = absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (shown < names.size()) text += ", ...";
  return names.empty() ? "none" : text;
}

/// "40 s", "12 min", "3 h", "5 days".
[[nodiscard]] inline std::string rough_time(DurationNs time_ns) {
  constexpr DurationNs kMinute = 60 * kSecond;
  constexpr DurationNs kHour = 60 * kMinute;
  if (time_ns < 2 * kMinute) return absl::StrCat(time_ns / kSecond, " s");
  if (time_ns < 2 * kHour) return absl::StrCat(time_ns / kMinute, " min");
  if (time_ns < 48 * kHour) return absl::StrCat(time_ns / kHour, " h");
  return absl::StrCat(time_ns / (24 * kHour), " days");
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_TEXT_H_
