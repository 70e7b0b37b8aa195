// What goes into a copy's database, and what of it is checked: all of it comes from a peer (snapshot_copy.h).
//
//    tail's file    { u32 bytes, u32 CRC-32C, an Append } each, little endian
#ifndef SKUA_KVSTORE_SNAPSHOT_COPY_DATABASE_H_
#define SKUA_KVSTORE_SNAPSHOT_COPY_DATABASE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kvstore/replication/epoch_runs.h"
#include "kvstore/snapshot/shard_copy.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A piece of a tail as it stands in the file.
[[nodiscard]] std::string tail_file_piece(ByteSpan piece);

/// Brings the pieces between two places of a tail's file into the database. Waits for the disk. DATA_LOSS,
/// INVALID_ARGUMENT: they are none, or do not follow what the database has.
[[nodiscard]] absl::Status apply_tail_file(ShardCopy& database, const std::string& path, uint64_t begin, uint64_t end);

/// Whether the database is the one that was announced with the snapshot's pieces. DATA_LOSS: it is not.
[[nodiscard]] absl::Status check_announced(const ShardCopy& database, EntryId end);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_COPY_DATABASE_H_
