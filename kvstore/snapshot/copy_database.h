// Applies the tail to the database of a copy, and checks it: all of it comes from a peer (snapshot_copy.h).
//
//    tail's file    { u32 bytes, u32 CRC-32C, an Append } for each piece, little endian
#ifndef SKUA_KVSTORE_SNAPSHOT_COPY_DATABASE_H_
#define SKUA_KVSTORE_SNAPSHOT_COPY_DATABASE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kvstore/replication/epoch_history.h"
#include "kvstore/snapshot/shard_copy.h"
#include "kvstore/storage/file_tree.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Encodes a piece of a tail (an Append) for the tail's file.
[[nodiscard]] std::string tail_file_piece(ByteSpan piece);

/// Applies the pieces at offsets `begin` to `end` of the tail's file to the database. Waits for the disk. DATA_LOSS,
/// INVALID_ARGUMENT: the bytes are not valid pieces, or do not follow the last entry of the database. Other errors:
/// those of the files.
[[nodiscard]] absl::Status apply_tail_file(ShardCopy& database, FileTree& tree, const std::string& path, uint64_t begin,
                                           uint64_t end);

/// Checks that the database ends with `end`, which the snapshot's pieces announced, and that its record of epochs
/// (ShardCopy::runs()) does not go beyond. DATA_LOSS: a check failed.
[[nodiscard]] absl::Status check_announced(const ShardCopy& database, EntryId end);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_COPY_DATABASE_H_
