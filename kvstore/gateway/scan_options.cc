#include "kvstore/gateway/scan_options.h"

#include <charconv>
#include <system_error>

#include "absl/strings/match.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/redis_errors.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {

std::optional<ScanOptions> parse_scan_options(CommandRun& run, size_t first, bool takes_type) {
  ScanOptions options;
  for (size_t i = first; i < run.size(); i += 2) {
    const absl::string_view word = absl_view(run.arg(i));
    const bool has_value = i + 1 < run.size();
    if (has_value && absl::EqualsIgnoreCase(word, "count")) {
      const std::optional<int64_t> count = integer_arg(run, i + 1);
      if (!count.has_value()) return std::nullopt;
      options.count = *count;
      if (options.count >= 1) continue;
    } else if (has_value && absl::EqualsIgnoreCase(word, "match")) {
      options.pattern = run.arg(i + 1);
      if (reply_long_pattern(run, options.pattern)) return std::nullopt;
      continue;
    } else if (has_value && takes_type && absl::EqualsIgnoreCase(word, "type")) {
      options.type = run.arg(i + 1);
      continue;
    }
    return refuse(run, errors::kSyntax);
  }
  return options;
}

std::optional<uint64_t> parse_cursor(std::string_view text) {
  uint64_t cursor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cursor);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return cursor;
}

}  // namespace skua::kv::gateway
