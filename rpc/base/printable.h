// Makes text from others fit for a terminal or a log.
#ifndef SKUA_RPC_BASE_PRINTABLE_H_
#define SKUA_RPC_BASE_PRINTABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace skua {

/// `text` with \xNN for control characters (also those of Latin-1, which terminals obey in UTF-8) and for bytes that
/// are not UTF-8. What goes beyond bytes_max is replaced by "...". Thread: any.
[[nodiscard]] std::string printable(std::string_view text, size_t bytes_max = SIZE_MAX);

/// Well-formed by RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace skua

#endif  // SKUA_RPC_BASE_PRINTABLE_H_
