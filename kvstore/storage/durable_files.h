// Small files that are replaced as a whole: what a node remembers across restarts, apart from its shards' data.
#ifndef SKUA_KVSTORE_STORAGE_DURABLE_FILES_H_
#define SKUA_KVSTORE_STORAGE_DURABLE_FILES_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// The files of one directory, by name. Thread: any; one at a time for each file.
class DurableFiles {
 public:
  virtual ~DurableFiles() = default;
  /// Gives the file these bytes, durably. After an error or a crash the file has either these bytes or the former ones.
  /// Errors name the path: RESOURCE_EXHAUSTED if the disk is full, INTERNAL else.
  [[nodiscard]] virtual absl::Status replace(const std::string& name, std::string_view bytes) const = 0;
  /// The bytes of the file; nullopt: there is no such file. That a file cannot be read is never taken for its absence.
  /// INTERNAL, or RESOURCE_EXHAUSTED if the system is short of something: names the path and the way out.
  [[nodiscard]] virtual absl::StatusOr<std::optional<std::string>> read(const std::string& name) const = 0;
  /// The file's path, for people.
  [[nodiscard]] virtual std::string path_of(const std::string& name) const = 0;
};

/// Files of a directory of this machine. The directory exists when they are used.
class DirectoryFiles final : public DurableFiles {
 public:
  explicit DirectoryFiles(std::string directory) : directory_(std::move(directory)) {}
  [[nodiscard]] absl::Status replace(const std::string& name, std::string_view bytes) const override;
  [[nodiscard]] absl::StatusOr<std::optional<std::string>> read(const std::string& name) const override;
  [[nodiscard]] std::string path_of(const std::string& name) const override { return directory_ + "/" + name; }

 private:
  const std::string directory_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_DURABLE_FILES_H_
