// Random (version 4) UUIDs as text: 36 characters, lower case, the only form that Skua stores.
#ifndef SKUA_APP_UUID_H_
#define SKUA_APP_UUID_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::app {

/// A fresh UUID from the kernel's generator (getrandom). Blocks only while the machine's entropy
/// pool is not yet initialised, in early boot. Thread: any.
[[nodiscard]] std::string random_uuid();

/// `text` (either case, with or without surrounding braces) in the canonical form. INVALID_ARGUMENT
/// quotes what was given.
[[nodiscard]] absl::StatusOr<std::string> parse_uuid(std::string_view text);

}  // namespace skua::app

#endif  // SKUA_APP_UUID_H_
