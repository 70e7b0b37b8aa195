// The words of SCAN and HSCAN.
#ifndef SKUA_KVSTORE_GATEWAY_SCAN_OPTIONS_H_
#define SKUA_KVSTORE_GATEWAY_SCAN_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kvstore/gateway/command_run.h"

namespace skua::kv::gateway {

/// Views are of the command's words.
struct ScanOptions {
  std::string_view pattern = "*";
  int64_t count = 10;                         ///< at least 1
  std::optional<std::string_view> type = {};  ///< only keys of this type
};

/// MATCH, COUNT and, if `takes_type`, TYPE, from the word `first` on. Nothing: the client has been told what is wrong.
[[nodiscard]] std::optional<ScanOptions> parse_scan_options(CommandRun& run, size_t first, bool takes_type);

/// Nothing: the text is no cursor.
[[nodiscard]] std::optional<uint64_t> parse_cursor(std::string_view text);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_SCAN_OPTIONS_H_
