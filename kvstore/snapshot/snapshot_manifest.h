// The manifest of a snapshot (shard_snapshot.h): which files belong to the snapshot, and what is in them.
//
// The manifest is the file SNAPSHOT of the directory (little endian):
//     0 u32 CRC-32C of bytes 4 to the end      28 u32 files
//     4 u32 bytes of the manifest              32 16 bytes cluster id
//     8 u64 magic "SKUASNAP"                   48 u64 applied index
//    16 u32 format: 1                          56 per file: u64 bytes, u32 CRC-32C, u16 bytes of the name, name
//    20 u32 table id    24 u32 shard
#ifndef SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_MANIFEST_H_
#define SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_MANIFEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/types/mutation.h"

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
inline constexpr size_t kSnapshotNameBytesMax = 255;
/// A manifest without files, and what each file adds to its name.
inline constexpr size_t kManifestBytesMin = 56;
inline constexpr size_t kManifestFileBytesMin = 14;
inline constexpr size_t kManifestBytesMax =
    kManifestBytesMin + kSnapshotFilesMax * (kManifestFileBytesMin + kSnapshotNameBytesMax);

[[nodiscard]] std::string encode_manifest(const SnapshotManifest& manifest);
/// `bytes` may come from a peer. FAILED_PRECONDITION: a newer format. DATA_LOSS: any other fault.
[[nodiscard]] absl::StatusOr<SnapshotManifest> decode_manifest(std::string_view bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_MANIFEST_H_
