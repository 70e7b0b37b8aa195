// A disk that runs full when a test says so, below RocksDB: what takes room fails with ENOSPC, while files can be read
// and removed, as on a real one.
#ifndef SKUA_TESTS_KVSTORE_STORAGE_FULL_DISK_ENV_H_
#define SKUA_TESTS_KVSTORE_STORAGE_FULL_DISK_ENV_H_

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstdint>
#include <memory>

namespace skua::kv::testing {

/// Thread: any. Outlives the engines over it.
class FullDiskEnv {
 public:
  FullDiskEnv();
  ~FullDiskEnv();

  [[nodiscard]] rocksdb::Env* env() { return env_.get(); }

  enum class Error : uint8_t { kNoSpace, kQuota, kFiles, kIo };
  /// So many calls that take room succeed, then all fail.
  void fill_after(uint64_t calls, Error error = Error::kNoSpace);
  void free_space();
  /// Calls that failed so far.
  [[nodiscard]] uint64_t refusals() const;

 private:
  class FullDisk;
  const std::shared_ptr<FullDisk> disk_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_STORAGE_FULL_DISK_ENV_H_
