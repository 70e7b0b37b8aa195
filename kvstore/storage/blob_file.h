// Checks RocksDB's blob files record by record. RocksDB itself checks a blob only when it is read, and its message does
// not say where the blob lies.
//
//    header (30 bytes) | record | record | ... | footer (32 bytes)
//
//    record (little endian): u64 key bytes, u64 value bytes, u64 expiration, u32 CRC of the bytes before, u32 CRC of
//    key and value, key, value. CRCs are CRC-32C, masked as RocksDB does (rotated, plus a constant).
#ifndef SKUA_KVSTORE_STORAGE_BLOB_FILE_H_
#define SKUA_KVSTORE_STORAGE_BLOB_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace skua::kv {

/// Reads the whole file. DATA_LOSS with path and offset of the first record that is not sound.
[[nodiscard]] absl::Status check_blob_file(const std::string& path);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_STORAGE_BLOB_FILE_H_
