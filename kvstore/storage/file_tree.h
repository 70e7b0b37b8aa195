// FileTree: files and directories, as copies of shards use them: pieces of files are written and read in any order, and
// whole directories are renamed and removed.
#ifndef SKUA_KVSTORE_STORAGE_FILE_TREE_H_
#define SKUA_KVSTORE_STORAGE_FILE_TREE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::kv {

/// The errors name the path. RESOURCE_EXHAUSTED: the disk is full. All methods may wait for the disk. Thread: any; one
/// at a time for each path.
class FileTree {
 public:
  virtual ~FileTree() = default;

  /// Makes the directory and those above it. OK if it exists.
  [[nodiscard]] virtual absl::Status make_directories(const std::string& path) = 0;
  /// Removes a file, or a directory and everything in it. OK if it does not exist.
  [[nodiscard]] virtual absl::Status remove(const std::string& path) = 0;
  /// Renames `from` to `to`; both lie below the directory `parent`. The new name is durable when this returns OK.
  [[nodiscard]] virtual absl::Status rename(const std::string& from, const std::string& to,
                                            const std::string& parent) = 0;
  [[nodiscard]] virtual absl::StatusOr<uint64_t> size(const std::string& path) = 0;
  /// Reads `to.size()` bytes from `offset` on. INTERNAL if the file is shorter.
  [[nodiscard]] virtual absl::Status read(const std::string& path, uint64_t offset, std::span<char> to) = 0;
  /// Writes the bytes at `offset`, which may be beyond the file's end. Makes the file if there is none. Not durable.
  [[nodiscard]] virtual absl::Status write(const std::string& path, uint64_t offset, std::string_view bytes) = 0;

  /// The machine's file system.
  [[nodiscard]] static FileTree& system();
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_FILE_TREE_H_
