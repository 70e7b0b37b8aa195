// Patterns of KEYS and SCAN: * ? [abc] [^a] [a-z] and \ in front of what stands for itself. Pure.
#ifndef SKUA_KVSTORE_GATEWAY_GLOB_H_
#define SKUA_KVSTORE_GATEWAY_GLOB_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace skua::kv::gateway {

/// Steps of glob_matches() that may be done at a time. More would keep a thread for seconds.
inline constexpr size_t kMatchStepsMax = size_t{64} << 20;

/// Takes at most pattern.size() * text.size() steps.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);

/// A prefix that all matching texts have: the pattern up to its first special character.
[[nodiscard]] std::string glob_prefix(std::string_view pattern);

/// The first text behind all that begin with `prefix`, in the order of bytes. Empty: there is none.
[[nodiscard]] std::string end_of_prefix(std::string_view prefix);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GLOB_H_
