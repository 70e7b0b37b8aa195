// Reads a password for --hash-password: from a terminal, which does not show it, or from a pipe. A signal that ends or
// stops the program meanwhile finds the terminal as it was: else the user's shell would not show what is typed either.
#ifndef SKUA_KVSTORE_GATEWAY_PASSWORD_PROMPT_H_
#define SKUA_KVSTORE_GATEWAY_PASSWORD_PROMPT_H_

#include <string>

#include "absl/status/statusor.h"

namespace skua::kv::gateway {

/// One line of standard input, without its end. At a terminal it is asked for twice. INVALID_ARGUMENT: there is none,
/// or what was typed the second time is something else. Thread: one; there are no others yet.
[[nodiscard]] absl::StatusOr<std::string> read_password();

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_PASSWORD_PROMPT_H_
