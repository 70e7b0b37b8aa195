// LogThrottle: no kind of line fills the disk, whoever makes it come again and again.
//
//    kind: the line up to its first digit, quote, '=' or ':', or 40 bytes
//          "client refused address=..." -> "client refused address"
//    each kind: a bucket of `burst` lines that fills at `per_second`
//    empty: the line is left out, and counted; the next one of the kind that is written says how many were
//
// Kinds share 64 buckets by their hash, so that texts which somebody else chose take no memory.
//
// Pure: time is an argument.
#ifndef SKUA_APP_LOG_THROTTLE_H_
#define SKUA_APP_LOG_THROTTLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rpc/base/clock.h"

namespace skua::app {

class LogThrottle {
 public:
  struct Limits {
    uint32_t burst = 200;
    uint32_t per_second = 10;
  };

  explicit LogThrottle(const Limits& limits) : limits_(limits) {}

  /// May the line be written? Then: how many of its kind were left out before. Nothing: it is left out itself.
  [[nodiscard]] std::optional<uint64_t> admit(std::string_view line, TimeNs now);

 private:
  struct Bucket {
    bool used = false;
    double lines = 0;
    TimeNs filled_ns = 0;
    uint64_t left_out = 0;
  };

  const Limits limits_;
  std::array<Bucket, 64> buckets_{};
};

/// The part of a line that says what kind of line it is.
[[nodiscard]] std::string_view kind_of_line(std::string_view line);

}  // namespace skua::app

#endif  // SKUA_APP_LOG_THROTTLE_H_
