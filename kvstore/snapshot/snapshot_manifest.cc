#include "kvstore/snapshot/snapshot_manifest.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/bytes.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {
namespace {

constexpr uint64_t kMagic = 0x50414e5341554b53;  // "SKUASNAP"

/// True if a name is safe for a local file. Names come from a peer.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > kSnapshotNameBytesMax || name == "." || name == ".." ||
      name == kSnapshotManifestName) {
    return false;
  }
  return std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

}  // namespace

std::string encode_manifest(const SnapshotManifest& manifest) {
  size_t size = kManifestBytesMin;
  for (const SnapshotFile& file : manifest.files) size += kManifestFileBytesMin + file.name.size();
  std::vector<std::byte> bytes(size);
  ByteWriter writer(bytes);
  writer.write(uint32_t{0});
  writer.write(static_cast<uint32_t>(size));
  writer.write(kMagic);
  writer.write(kSnapshotFormat);
  writer.write(manifest.id.table_id);
  writer.write(manifest.id.shard);
  writer.write(static_cast<uint32_t>(manifest.files.size()));
  writer.write_bytes(manifest.cluster_id);
  writer.write(manifest.index);
  for (const SnapshotFile& file : manifest.files) {
    writer.write(file.bytes);
    writer.write(file.crc32c);
    writer.write(static_cast<uint16_t>(file.name.size()));
    writer.write_bytes(as_byte_span(file.name));
  }
  store_le(bytes.data(), crc32c(ByteSpan(bytes).subspan(sizeof(uint32_t))));
  return std::string(as_string_view(bytes));
}

absl::StatusOr<SnapshotManifest> decode_manifest(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  const auto crc = reader.read<uint32_t>();
  const auto size = reader.read<uint32_t>();
  const auto magic = reader.read<uint64_t>();
  const auto format = reader.read<uint32_t>();
  SnapshotManifest manifest;
  manifest.id.table_id = reader.read<uint32_t>();
  manifest.id.shard = reader.read<uint32_t>();
  const auto count = reader.read<uint32_t>();
  std::ranges::copy(reader.read_bytes(manifest.cluster_id.size()), manifest.cluster_id.begin());
  manifest.index = reader.read<uint64_t>();
  if (!reader.ok() || magic != kMagic || size != bytes.size() ||
      crc32c(as_byte_span(bytes).subspan(sizeof(uint32_t))) != crc) {
    return absl::DataLossError("the snapshot's manifest is damaged");
  }
  if (format != kSnapshotFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("the snapshot has format ", format, "; this build reads format ", kSnapshotFormat));
  }
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < count && reader.ok() && count <= kSnapshotFilesMax; ++i) {
    SnapshotFile file{.name = {}, .bytes = reader.read<uint64_t>(), .crc32c = reader.read<uint32_t>()};
    const std::string_view name = as_string_view(reader.read_bytes(reader.read<uint16_t>()));
    if (!reader.ok() || !is_plain_name(name) || !names.insert(name).second) break;
    file.name = name;
    manifest.files.push_back(std::move(file));
  }
  if (!reader.complete() || manifest.files.size() != count) {
    return absl::DataLossError("the snapshot's manifest contradicts itself");
  }
  return manifest;
}

}  // namespace skua::kv
