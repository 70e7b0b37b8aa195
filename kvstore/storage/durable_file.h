// Replaces small files as a whole.
#ifndef SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_
#define SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// Gives `directory`/`name` these bytes, durably. After an error or a crash the file has either these bytes or the
/// former ones. Errors name the path: RESOURCE_EXHAUSTED if the disk is full, INTERNAL else.
[[nodiscard]] absl::Status replace_file(const std::string& directory, const std::string& name, std::string_view bytes);

/// The bytes of `directory`/`name`; nullopt: there is no such file. That a file cannot be read is never taken for its
/// absence. INTERNAL, or RESOURCE_EXHAUSTED if the system is short of something: names the path and the way out.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> read_file(const std::string& directory,
                                                                   const std::string& name);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_DURABLE_FILE_H_
