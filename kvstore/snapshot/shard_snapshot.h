// Snapshots of shards: the files of a shard's database. A snapshot is taken from a running shard, sent to another node,
// and made a database there.
//
//  ShardDb --checkpoint: hard links, at an applied index--> .new-<name>/ --checksums, manifest, sync, rename--> <name>/
//                                                                                                                 |
//  <shards>/7-0/ <--rename, sync-- opened, index compared <-- checksums compared <-- <shards>/.in-7-0/ <--ingest--+
//
// Snapshots are RocksDB checkpoints. RocksDB 7.8 can also export column families, but the export loses range
// tombstones. Directories that a crash leaves behind begin with .new- or .in-. They are removed by the next export or
// ingest of the same name, and by remove_leftovers() when the node starts.
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
  uint64_t index = 0;  ///< the files contain all writes up to this index, and no later ones
  std::vector<SnapshotFile> files;

  friend bool operator==(const SnapshotManifest&, const SnapshotManifest&) = default;
};

inline constexpr uint32_t kSnapshotFormat = 1;
inline constexpr char kSnapshotManifestName[] = "SNAPSHOT";
/// Manifests with more files are refused, because a manifest is read into memory.
inline constexpr size_t kSnapshotFilesMax = size_t{1} << 20;

[[nodiscard]] std::string encode_manifest(const SnapshotManifest& manifest);
/// `bytes` may come from a peer. FAILED_PRECONDITION: a newer format. DATA_LOSS: any other fault.
[[nodiscard]] absl::StatusOr<SnapshotManifest> decode_manifest(std::string_view bytes);

/// Creates directory `path` with the shard's files and their manifest. The parent directory exists, on the file system
/// of the database. Once it returns OK the directory is durable. Reads every file once, for the checksums. Writes to
/// the shard continue; those before the checkpoint's flush are in the snapshot. Errors: ALREADY_EXISTS, the storage's.
/// Thread: as ShardDb::flush.
[[nodiscard]] absl::StatusOr<SnapshotManifest> export_shard(ShardDb& db, const ClusterId& cluster_id,
                                                            const std::string& path);

/// Makes the snapshot at `path` the database of shard `id` below `shards_dir`. The caller opens it afterwards. The
/// snapshot stays. Table files are hard-linked if the file system is the same, else copied. On an error nothing is left
/// behind: NOT_FOUND (no snapshot), FAILED_PRECONDITION (of another cluster or shard, or a newer format),
/// ALREADY_EXISTS (the shard has a database here), DATA_LOSS (a file is missing or differs from the manifest).
[[nodiscard]] absl::Status ingest_shard(const std::string& path, const ClusterId& cluster_id,
                                        const std::string& shards_dir, ShardId id);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SHARD_SNAPSHOT_H_
