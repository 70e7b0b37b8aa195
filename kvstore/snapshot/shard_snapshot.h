// A shard's database as files that can travel: taken from a running shard, shipped, and made a database elsewhere.
//
//    ShardDb --checkpoint: hard links, at an applied index--> .new-<name>/ --checksums, manifest, sync, rename--> <name>/
//                                                                                                                   |
//    <shards>/7-0/ <--rename, sync-- opened, index compared <-- checksums compared <-- <shards>/.in-7-0/ <--ingest--+
//
// Checkpoints, not RocksDB's export of column families, which in 7.8 loses range tombstones. What a crash leaves begins with
// .new- or .in- and is removed when it is next met, and by remove_leftovers() when the node starts.
//
// The manifest is the file SNAPSHOT of the directory (little endian):
//     0 u32 CRC-32C of bytes 4 to the end      28 u32 files
//     4 u32 bytes of the manifest              32 16 bytes cluster id
//     8 u64 magic "SKUASNAP"                   48 u64 applied index
//    16 u32 format: 1                          56 per file: u64 bytes, u32 CRC-32C, u16 bytes of the name, name
//    20 u32 table id    24 u32 shard
#ifndef SKUA_KVSTORE_SNAPSHOT_SHARD_SNAPSHOT_H_
#define SKUA_KVSTORE_SNAPSHOT_SHARD_SNAPSHOT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

using ClusterId = std::array<std::byte, 16>;

struct SnapshotFile {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const SnapshotFile&, const SnapshotFile&) = default;
};

struct SnapshotManifest {
  ClusterId cluster_id{};
  ShardId id{};
  uint64_t index = 0;  ///< every write up to it is in the files, none above
  std::vector<SnapshotFile> files;

  friend bool operator==(const SnapshotManifest&, const SnapshotManifest&) = default;
};

inline constexpr uint32_t kSnapshotFormat = 1;
inline constexpr char kSnapshotManifestName[] = "SNAPSHOT";
/// A manifest that names more is refused: it is read into memory.
inline constexpr size_t kSnapshotFilesMax = size_t{1} << 20;

[[nodiscard]] std::string encode_manifest(const SnapshotManifest& manifest);
/// The bytes may come from a peer. FAILED_PRECONDITION if the format is newer, DATA_LOSS for all else.
[[nodiscard]] absl::StatusOr<SnapshotManifest> decode_manifest(std::string_view bytes);

/// Makes the directory `path`, whose parent exists on the file system of the database, with the shard's files and their
/// manifest; durable when it returns. Reads all of them once. Writes go on meanwhile, and those of them that come before the
/// checkpoint's flush are in it. Errors: ALREADY_EXISTS, the storage's. Thread: as ShardDb::flush.
[[nodiscard]] absl::StatusOr<SnapshotManifest> export_shard(ShardDb& db, const ClusterId& cluster_id,
                                                            const std::string& path);

/// Makes the snapshot at `path` the database of shard `id` below `shards_dir`, to be opened then; the snapshot stays. Table
/// files are linked where the file system is the same, and copied otherwise. Errors leave nothing behind: NOT_FOUND (no snapshot),
/// FAILED_PRECONDITION (another cluster's, another shard's, or a newer format), ALREADY_EXISTS (the shard has a database
/// here), DATA_LOSS (a file is missing or is not what the manifest says).
[[nodiscard]] absl::Status ingest_shard(const std::string& path, const ClusterId& cluster_id,
                                        const std::string& shards_dir, ShardId id);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SHARD_SNAPSHOT_H_
