// Keys as text. Commands print keys and take keys in the same notation, so a printed key can be given to another
// command.
//
//   a\x00b     any byte, as two hex digits          \\     a backslash          everything else stands for itself
//
// Printed keys are UTF-8 without control characters and without tabs. Pure.
#ifndef SKUA_KVSTORE_CTL_KEY_TEXT_H_
#define SKUA_KVSTORE_CTL_KEY_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::kv::ctl {

[[nodiscard]] std::string key_text(std::string_view key);

/// The key that `text` stands for. For every key: parse_key(key_text(key)) == key. INVALID_ARGUMENT: a backslash does
/// not begin an escape; the message says what to write instead.
[[nodiscard]] absl::StatusOr<std::string> parse_key(std::string_view text);

/// `text` as one word for a shell, in single quotes.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_KEY_TEXT_H_
