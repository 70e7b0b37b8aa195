#include "kvstore/storage/rocksdb_info_log.h"

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace skua::kv::internal {
namespace {

/// Bytes of a line; longer lines are cut.
constexpr size_t kLineBytesMax = 4096;

}  // namespace

void RocksdbInfoLog::Logv(const char* format, va_list arguments) {
  std::array<char, kLineBytesMax> text;
  if (std::vsnprintf(text.data(), text.size(), format, arguments) < 0) return;
  std::string_view line(text.data());
  while (line.ends_with('\n')) line.remove_suffix(1);
  std::string stamped = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ ", absl::Now(), absl::UTCTimeZone());
  file_.write(stamped.append(line));
}

}  // namespace skua::kv::internal
