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
// snapshot_manifest.h describes the manifest.
#ifndef SKUA_KVSTORE_SNAPSHOT_SHARD_SNAPSHOT_H_
#define SKUA_KVSTORE_SNAPSHOT_SHARD_SNAPSHOT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/snapshot/snapshot_manifest.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

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
