// Values as people write them: on a command line, in the environment, in a TOML file.
#ifndef SKUA_APP_VALUE_TEXT_H_
#define SKUA_APP_VALUE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rpc/base/clock.h"

namespace skua::app {

// Each parser takes the whole text or refuses with an INVALID_ARGUMENT that says what is expected,
// without naming the option (the caller does).

/// true/false, yes/no, on/off, 1/0.
[[nodiscard]] absl::StatusOr<bool> parse_bool(std::string_view text);
/// Decimal, optionally signed; underscores between digits are allowed as in TOML (1_000_000).
[[nodiscard]] absl::StatusOr<int64_t> parse_int(std::string_view text);
[[nodiscard]] absl::StatusOr<double> parse_double(std::string_view text);
/// A number and a unit: 250us, 1.5s, 2m; units ns us ms s m h. Only 0 needs no unit. Not negative, and at most 100
/// years: a duration may be added to a time of any clock.
[[nodiscard]] absl::StatusOr<DurationNs> parse_duration(std::string_view text);
/// Bytes: a whole number, optionally with KiB, MiB, GiB, TiB or B. Not negative, and at most 1,048,576 TiB: a few sizes
/// may be added up.
[[nodiscard]] absl::StatusOr<int64_t> parse_size(std::string_view text);

/// The shortest text that parses back to the same value: 1500ms, 2s, 250us.
[[nodiscard]] std::string format_duration(DurationNs duration_ns);
/// 64MiB, 1536B, 0B.
[[nodiscard]] std::string format_size(int64_t size_bytes);
/// Shortest decimal that reads back as the same double.
[[nodiscard]] std::string format_double(double value);

}  // namespace skua::app

#endif  // SKUA_APP_VALUE_TEXT_H_
