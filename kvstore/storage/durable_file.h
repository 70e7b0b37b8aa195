// Small files that are replaced as a whole.
#ifndef SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_
#define SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// `directory`/`name` has these bytes, durably, or what it had before. INTERNAL names the path; RESOURCE_EXHAUSTED: the disk is
/// full.
[[nodiscard]] absl::Status replace_file(const std::string& directory, const std::string& name, std::string_view bytes);

/// The bytes of `directory`/`name`; nullopt: there is no such file. INTERNAL names the path, and what the system says: that
/// a file cannot be read is never taken for its absence.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> read_file(const std::string& directory,
                                                                   const std::string& name);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_
