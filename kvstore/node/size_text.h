#ifndef SKUA_KVSTORE_NODE_SIZE_TEXT_H_
#define SKUA_KVSTORE_NODE_SIZE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace skua::kv {

/// A size as text for messages, rounded down: 256 bytes, 500 KiB, 512 MiB, 23 GiB, 100 TiB.
[[nodiscard]] inline std::string size_text(uint64_t bytes) {
  constexpr uint64_t kEnough = 10;
  if (bytes >> 40 >= kEnough) return absl::StrCat(bytes >> 40, " TiB");
  if (bytes >> 30 >= kEnough) return absl::StrCat(bytes >> 30, " GiB");
  if (bytes >> 20 > 0) return absl::StrCat(bytes >> 20, " MiB");
  if (bytes >> 10 > 0) return absl::StrCat(bytes >> 10, " KiB");
  return absl::StrCat(bytes, " bytes");
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_SIZE_TEXT_H_
