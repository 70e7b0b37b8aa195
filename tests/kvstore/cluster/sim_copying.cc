#include "tests/kvstore/cluster/sim_copying.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/bytes.h"
#include "rpc/base/crc32c.h"

namespace skua::kv::sim {
namespace {

constexpr char kRowsName[] = "rows";
constexpr size_t kTasksMax = 256;

bool is_below(const std::string& path, const std::string& directory) {
  return path == directory || path.starts_with(directory + "/");
}

/// Moves the entries of `map` that lie below `from`.
template <typename Map>
void move_below(Map& map, const std::string& from, const std::string& to) {
  Map moved;
  for (auto it = map.begin(); it != map.end();) {
    if (!is_below(it->first, from)) {
      ++it;
      continue;
    }
    moved.emplace(to + it->first.substr(from.size()), std::move(it->second));
    it = map.erase(it);
  }
  map.merge(moved);
}

void append_number(std::string& out, uint64_t number) {
  std::array<std::byte, sizeof number> bytes;
  store_le(bytes.data(), number);
  out.append(as_string_view(bytes));
}

void append_rows(std::string& out, const Database::Rows& rows) {
  for (const auto& [key, row] : rows) {
    append_number(out, key.size());
    out.append(key);
    append_number(out, row.version);
    append_number(out, row.expires_at);
    append_number(out, row.value.size());
    out.append(row.value);
  }
}

/// Reads what append_rows() wrote. What it returns are views of the text.
class RowReader {
 public:
  explicit RowReader(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  AppliedEffect next() {
    AppliedEffect effect;
    effect.key = text(number());
    effect.version = number();
    effect.expires_at = number();
    effect.value = as_byte_span(text(number()));
    return effect;
  }

 private:
  std::string_view text(size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  uint64_t number() { return load_le<uint64_t>(as_byte_span(text(sizeof(uint64_t))).data()); }

  std::string_view rest_;
};

/// Opens the database of a copy.
class CopyEngine final : public RocksdbEngine {
 public:
  explicit CopyEngine(SimFileTree& tree) : tree_(tree) {}
  absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string& dir, ShardId id, IfMissing) override {
    Database* const database = tree_.database(absl::StrCat(dir, "/", files::shard_name(id)));
    if (database == nullptr) return absl::NotFoundError("no such database");
    return open_database(*database);
  }
  absl::Status destroy_shard(const std::string&, ShardId) override { return absl::UnimplementedError("a copy"); }
  absl::StatusOr<std::vector<ShardId>> list_shards(const std::string&) override {
    return absl::UnimplementedError("a copy");
  }

 private:
  SimFileTree& tree_;
};

absl::StatusOr<std::string> read_whole(SimFileTree& tree, const std::string& path) {
  const auto bytes = tree.size(path);
  if (!bytes.ok()) return bytes.status();
  std::string text(*bytes, '\0');
  if (absl::Status read = tree.read(path, 0, text); !read.ok()) return read;
  return text;
}

}  // namespace

// --- SimFileTree

absl::Status SimFileTree::make_directories(const std::string& /*path*/) {
  return machine_.begin_operation() ? absl::OkStatus() : Machine::ended();
}

absl::Status SimFileTree::remove(const std::string& path) {
  if (!machine_.begin_operation()) return Machine::ended();
  std::erase_if(files_, [&](const auto& file) { return is_below(file.first, path); });
  std::erase_if(databases_, [&](const auto& database) { return is_below(database.first, path); });
  return absl::OkStatus();
}

absl::Status SimFileTree::rename(const std::string& from, const std::string& to, const std::string& /*parent*/) {
  if (!machine_.begin_operation()) return Machine::ended();
  move_below(files_, from, to);
  move_below(databases_, from, to);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SimFileTree::size(const std::string& path) {
  if (!machine_.running()) return Machine::ended();
  const auto found = files_.find(path);
  if (found == files_.end()) return absl::InternalError(absl::StrCat("no file ", path));
  return found->second.size();
}

absl::Status SimFileTree::read(const std::string& path, uint64_t offset, std::span<char> to) {
  const auto bytes = size(path);
  if (!bytes.ok()) return bytes.status();
  if (offset + to.size() > *bytes) return absl::InternalError(absl::StrCat(path, " is shorter"));
  const std::string& file = files_.at(path);
  std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
  return absl::OkStatus();
}

absl::Status SimFileTree::write(const std::string& path, uint64_t offset, std::string_view bytes) {
  if (!machine_.begin_operation()) return Machine::ended();
  std::string& file = files_[path];
  if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size());
  file.replace(offset, bytes.size(), bytes);
  return absl::OkStatus();
}

Database& SimFileTree::make_database(const std::string& path, ShardId id) {
  auto& place = databases_[path];
  place = std::make_unique<Database>(machine_, id);
  return *place;
}

Database* SimFileTree::database(const std::string& path) const {
  const auto found = databases_.find(path);
  return found == databases_.end() ? nullptr : found->second.get();
}

std::map<ShardId, std::string> SimFileTree::databases_in(const std::string& directory) const {
  std::map<ShardId, std::string> found;
  for (const auto& [path, database] : databases_) {
    if (path == absl::StrCat(directory, "/", files::shard_name(database->id()))) found[database->id()] = path;
  }
  return found;
}

// --- Snapshots

absl::StatusOr<SnapshotManifest> export_sim_shard(const Database& database, const ClusterId& cluster, SimFileTree& tree,
                                                  const std::string& path) {
  std::string rows;
  append_rows(rows, database.rows());
  append_rows(rows, database.internal_rows());
  SnapshotManifest manifest{.cluster_id = cluster, .id = database.id(), .index = database.index(), .files = {}};
  manifest.files.push_back({kRowsName, rows.size(), crc32c(as_byte_span(rows))});
  if (absl::Status made = tree.write(absl::StrCat(path, "/", kRowsName), 0, rows); !made.ok()) return made;
  const std::string text = encode_manifest(manifest);
  if (absl::Status made = tree.write(absl::StrCat(path, "/", kSnapshotManifestName), 0, text); !made.ok()) return made;
  return manifest;
}

absl::StatusOr<std::unique_ptr<ShardCopy>> build_sim_copy(ShardId id, const ClusterId& cluster, SimFileTree& tree,
                                                          const std::string& path, const std::string& directory) {
  const auto text = read_whole(tree, absl::StrCat(path, "/", kSnapshotManifestName));
  if (!text.ok()) return text.status();
  const auto manifest = decode_manifest(*text);
  if (!manifest.ok()) return manifest.status();
  const auto rows = read_whole(tree, absl::StrCat(path, "/", kRowsName));
  if (!rows.ok()) return rows.status();
  const SnapshotFile found{kRowsName, rows->size(), crc32c(as_byte_span(*rows))};
  if (manifest->cluster_id != cluster || manifest->id != id || manifest->files != std::vector{found}) {
    return absl::DataLossError("the files are not what the snapshot's manifest says");
  }
  std::vector<AppliedEffect> effects;
  for (RowReader reader(*rows); !reader.at_end();) effects.push_back(reader.next());
  Database& database = tree.make_database(absl::StrCat(directory, "/", files::shard_name(id)), id);
  if (absl::Status filled = database.ingest(effects, manifest->index); !filled.ok()) return filled;
  CopyEngine engine(tree);
  return open_shard_copy(engine, directory, id);
}

// --- SimDiskTasks

bool SimDiskTasks::submit(absl::AnyInvocable<void()> task) {
  if (tasks_.size() >= kTasksMax) return false;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) schedule_([this] { step(); });
  return true;
}

void SimDiskTasks::step() {
  auto task = std::move(tasks_.front());
  task();
  tasks_.pop_front();
  if (!tasks_.empty()) schedule_([this] { step(); });
}

}  // namespace skua::kv::sim
