#include "kvstore/snapshot/shard_snapshot.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/offline_db.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/bytes.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 20;

/// Computes the checksum and size of a file. If `sync`, the file is durable afterwards.
absl::StatusOr<SnapshotFile> read_through(const std::string& path, bool sync) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return files::io_error("opening", path, errno);
  SnapshotFile file{.name = fs::path(path).filename().string()};
  std::vector<char> piece(kPieceBytes);
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto got = static_cast<size_t>(in.gcount());
    file.crc32c = crc32c_extend(file.crc32c, as_byte_span(std::string_view(piece.data(), got)));
    file.bytes += got;
  }
  if (in.bad()) return files::io_error("reading", path, std::make_error_code(std::errc::io_error));
  if (!sync) return file;
  if (absl::Status synced = files::sync(path); !synced.ok()) return synced;
  return file;
}

absl::Status write_manifest(const std::string& directory, const SnapshotManifest& manifest) {
  const std::string path = absl::StrCat(directory, "/", kSnapshotManifestName);
  const std::string bytes = encode_manifest(manifest);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) return files::io_error("writing", path, errno);
  return read_through(path, true).status();
}

absl::StatusOr<SnapshotManifest> read_manifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kSnapshotManifestName);
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(
        absl::StrCat(directory, " is no snapshot of a shard: it has no ", kSnapshotManifestName));
  }
  if (error) return files::io_error("reading", path, error);
  if (bytes > kManifestBytesMax) {
    return absl::DataLossError(absl::StrCat(path, " is larger than any manifest"));
  }
  std::string text(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return files::io_error("reading", path, std::make_error_code(std::errc::io_error));
  }
  auto manifest = decode_manifest(text);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(), absl::StrCat(path, ": ", manifest.status().message()));
}

/// Adds every file of the checkpoint to the manifest, and makes the files durable.
absl::Status describe_files(const std::string& directory, SnapshotManifest& manifest) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    auto file = read_through(it->path().string(), true);
    if (!file.ok()) return file.status();
    manifest.files.push_back(*std::move(file));
  }
  if (error) return files::io_error("listing", directory, error);
  std::ranges::sort(manifest.files, {}, &SnapshotFile::name);
  return absl::OkStatus();
}

absl::Status export_aside(ShardDb& db, const std::string& aside, SnapshotManifest& manifest) {
  if (absl::Status made = db.checkpoint(aside); !made.ok()) return made;
  {
    // Writes may have arrived before the checkpoint's flush. So the index is read from the checkpoint itself.
    const auto copy = OfflineDb::open(aside, manifest.id);
    if (!copy.ok()) return copy.status();
    manifest.index = (*copy)->applied_index();
  }
  if (absl::Status described = describe_files(aside, manifest); !described.ok()) return described;
  if (absl::Status written = write_manifest(aside, manifest); !written.ok()) return written;
  return files::sync(aside);
}

/// Links or copies one file. Tables and blobs never change, so a hard link serves as a copy. Other files are small and
/// are copied.
absl::Status bring(const std::string& from, const std::string& to, const std::string& name) {
  std::error_code error;
  if (name.ends_with(".sst") || name.ends_with(".blob")) {
    fs::create_hard_link(from, to, error);
    if (!error) return absl::OkStatus();
  }
  fs::copy_file(from, to, error);
  if (error == std::errc::no_such_file_or_directory) {
    return absl::DataLossError(absl::StrCat(from, " is in the snapshot's manifest and is missing"));
  }
  return error ? files::io_error("copying", absl::StrCat(from, " to ", to), error) : absl::OkStatus();
}

absl::Status check_claims(const SnapshotManifest& manifest, const std::string& path, const ClusterId& cluster_id,
                          ShardId id) {
  if (manifest.cluster_id != cluster_id) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a snapshot of another cluster's shard"));
  }
  if (manifest.id != id) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is a snapshot of shard ", files::shard_name(manifest.id),
                                                      ", not of ", files::shard_name(id)));
  }
  return absl::OkStatus();
}

absl::Status ingest_aside(const std::string& path, const SnapshotManifest& manifest, const std::string& aside) {
  std::error_code error;
  fs::create_directory(aside, error);
  if (error) return files::io_error("making", aside, error);
  for (const SnapshotFile& file : manifest.files) {
    const std::string to = absl::StrCat(aside, "/", file.name);
    if (absl::Status brought = bring(absl::StrCat(path, "/", file.name), to, file.name); !brought.ok()) return brought;
    const auto found = read_through(to, true);
    if (!found.ok()) return found.status();
    if (*found != file) {
      return absl::DataLossError(absl::StrCat(path, "/", file.name,
                                              " is not what the snapshot's manifest says: ", found->bytes, " bytes of ",
                                              file.bytes, found->bytes == file.bytes ? ", with another checksum" : ""));
    }
  }
  const auto db = OfflineDb::open(aside, manifest.id);
  if (!db.ok()) return db.status();
  if ((*db)->applied_index() != manifest.index) {
    return absl::DataLossError(
        absl::StrCat(path, " has index ", (*db)->applied_index(), ", and ", manifest.index, " in its manifest"));
  }
  return files::sync(aside);
}

}  // namespace

absl::StatusOr<SnapshotManifest> export_shard(ShardDb& db, const ClusterId& cluster_id, const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
  const std::string parent = fs::absolute(path).parent_path().string();
  const std::string aside = absl::StrCat(parent, "/", files::kNewPrefix, fs::path(path).filename().string());
  const auto clean = [&] {
    const absl::Status removed = files::remove_tree(aside);
    // RocksDB builds a checkpoint in this directory before it renames it.
    return removed.ok() ? files::remove_tree(aside + ".tmp") : removed;
  };
  if (absl::Status cleaned = clean(); !cleaned.ok()) return cleaned;
  SnapshotManifest manifest{.cluster_id = cluster_id, .id = db.id(), .index = 0, .files = {}};
  absl::Status made = export_aside(db, aside, manifest);
  if (made.ok()) made = files::rename_and_sync(aside, path, parent);
  if (made.ok()) return manifest;
  (void)clean();  // leftovers are removed by the next export or start
  return made;
}

absl::Status ingest_shard(const std::string& path, const ClusterId& cluster_id, const std::string& shards_dir,
                          ShardId id) {
  const auto manifest = read_manifest(path);
  if (!manifest.ok()) return manifest.status();
  if (absl::Status checked = check_claims(*manifest, path, cluster_id, id); !checked.ok()) return checked;
  const std::string name = files::shard_name(id);
  const std::string final_path = absl::StrCat(shards_dir, "/", name);
  std::error_code error;
  if (fs::exists(final_path, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(final_path, " exists: a snapshot does not replace a shard; its data must be removed first"));
  }
  const std::string aside = absl::StrCat(shards_dir, "/", files::kIngestPrefix, name);
  if (absl::Status cleaned = files::remove_tree(aside); !cleaned.ok()) return cleaned;
  absl::Status made = ingest_aside(path, *manifest, aside);
  if (made.ok()) made = files::rename_and_sync(aside, final_path, shards_dir);
  if (!made.ok()) (void)files::remove_tree(aside);
  return made;
}

}  // namespace skua::kv
