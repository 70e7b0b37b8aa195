// Writes RocksDB's messages about a database to <database>/LOG and LOG.old. RocksDB's own logger is not used: after a
// write that failed, its next use ends the process (an assertion of the library as Debian builds it), so a full disk
// would end the process.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_INFO_LOG_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_INFO_LOG_H_

#include <rocksdb/env.h>

#include <cstdarg>
#include <cstdint>
#include <memory>
#include <string>

#include "rpc/base/line_file.h"

namespace skua::kv::internal {

/// The largest size of each of the two files.
inline constexpr uint64_t kInfoLogBytes = uint64_t{2} << 20;

/// Takes warnings and errors. Takes no headers: RocksDB writes the options to a file of their own. Thread: any.
class RocksdbInfoLog final : public rocksdb::Logger {
 public:
  explicit RocksdbInfoLog(const std::string& database)
      : rocksdb::Logger(rocksdb::WARN_LEVEL), file_(database + "/LOG", kInfoLogBytes) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override;
  void LogHeader(const char* /*format*/, va_list /*arguments*/) override {}

 private:
  LineFile file_;
};

}  // namespace skua::kv::internal

#endif  // SKUA_KVSTORE_STORAGE_ROCKSDB_INFO_LOG_H_
