#include "app/log_throttle.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace skua::app {

std::string_view kind_of_line(std::string_view line) {
  constexpr size_t kKindBytesMax = 40;
  constexpr char kEnds[] = "0123456789'\"=:";
  return line.substr(0, std::min(line.find_first_of(kEnds), kKindBytesMax));
}

std::optional<uint64_t> LogThrottle::admit(std::string_view line, TimeNs now) {
  Bucket& bucket = buckets_[std::hash<std::string_view>()(kind_of_line(line)) % buckets_.size()];
  const double seconds = bucket.used ? static_cast<double>(now - bucket.filled_ns) / kSecond : 0;
  bucket.lines = bucket.used ? std::min<double>(limits_.burst, bucket.lines + seconds * limits_.per_second)
                             : static_cast<double>(limits_.burst);
  bucket.used = true;
  bucket.filled_ns = now;
  if (bucket.lines < 1) {
    ++bucket.left_out;
    return std::nullopt;
  }
  bucket.lines -= 1;
  return std::exchange(bucket.left_out, 0);
}

}  // namespace skua::app
