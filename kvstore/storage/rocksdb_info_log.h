// What RocksDB has to say about a database, in <database>/LOG and LOG.old. RocksDB's own logger ends the process (an
// assertion of the library as Debian builds it) when it is used after a write that failed, so a full disk would.
#ifndef SKUA_KVSTORE_STORAGE_ROCKSDB_INFO_LOG_H_
#define SKUA_KVSTORE_STORAGE_ROCKSDB_INFO_LOG_H_

#include <rocksdb/env.h>

#include <cstdarg>
#include <cstdint>
#include <memory>
#include <string>

#include "rpc/base/line_file.h"

namespace skua::kv::internal {

/// Of each of the two files.
inline constexpr uint64_t kInfoLogBytes = uint64_t{2} << 20;

/// Warnings and errors, and no headers: the options are in a file of their own. Thread: any.
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
