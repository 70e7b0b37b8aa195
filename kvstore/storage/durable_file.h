// Small files that are replaced as a whole.
#ifndef SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_
#define SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace skua::kv {

/// `directory`/`name` has these bytes, durably, or what it had before. INTERNAL names the path; RESOURCE_EXHAUSTED: the disk is
/// full.
[[nodiscard]] absl::Status replace_file(const std::string& directory, const std::string& name, std::string_view bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_
