#include "kvstore/node/node_copies.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/storage/shard_files.h"

namespace skua::kv {

absl::Status NodeCopies::start(const std::string& cluster_id, const NodeState& state,
                               std::map<ShardId, absl::Status>& refused) {
  const auto cluster = parse_uuid(cluster_id);
  if (!cluster.ok()) return cluster.status();
  disk_.reset();  // left by an earlier attempt to recover
  builder_.reset();
  std::memcpy(cluster_.data(), cluster->bytes.data(), cluster_.size());
  if (absl::Status finished = finish(refused); !finished.ok()) return finished;
  const SnapshotSource::Options source{.directory = options_.data_dir + "/snapshots",
                                       .seed = mix64(node_id_of(options_.node_uuid)) ^ mix64(state.incarnation),
                                       .clock = [this] { return clock_.now_ns(); }};
  auto made = SnapshotSource::create(source, export_);
  if (!made.ok()) return made.status();
  snapshots_ = *std::move(made);
  disk_ = std::make_unique<TaskThread>(
      TaskThread::Options{.name = "copies", .at_intervals = [this] { snapshots_->sweep(clock_.now_ns()); }});
  builder_ = std::make_unique<TaskThread>(TaskThread::Options{.name = "copies-build"});
  return absl::OkStatus();
}

/// Handles the copies that an earlier process left. If the shard of a copy has data, the copy is removed: either it was
/// installed, or it will be fetched again. If the shard has no data, the process ended while it replaced the data, and
/// the copy becomes the shard's database.
absl::Status NodeCopies::finish(std::map<ShardId, absl::Status>& refused) {
  std::error_code error;
  std::filesystem::create_directories(directory(), error);
  if (error) return files::io_error("making", directory(), error);
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator it(directory(), error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  if (error) return files::io_error("listing", directory(), error);
  const std::string shards = files::shards_dir(options_.data_dir);
  for (const auto& path : found) {
    const std::string name = path.filename().string();
    const auto id = files::parse_shard_name(name);
    if (id && !std::filesystem::exists(absl::StrCat(shards, "/", name), error)) {
      if (absl::Status ingested = take(*id, path.string()); absl::IsResourceExhausted(ingested)) {
        return ingested;
      } else if (!ingested.ok()) {
        refused[*id] = ingested;
        log(LogSeverity::kError, absl::StrCat("a copy cannot be made shard ", name, ": ", ingested.ToString()));
        continue;
      }
      log(LogSeverity::kInfo, absl::StrCat("a copy was made shard ", name, " after the node had stopped over it"));
    }
    if (absl::Status removed = files::remove_tree(path.string()); !removed.ok()) return removed;
  }
  return absl::OkStatus();
}

/// Makes the copy at `path` the shard's database. Older builds left the files of a snapshot there, with a manifest;
/// these are ingested.
absl::Status NodeCopies::take(ShardId id, const std::string& path) {
  const std::string shards = files::shards_dir(options_.data_dir);
  std::error_code error;
  if (std::filesystem::exists(absl::StrCat(path, "/", kSnapshotManifestName), error)) {
    return ingest_shard(path, cluster_, shards, id);
  }
  return files::rename_and_sync(path, absl::StrCat(shards, "/", files::shard_name(id)), shards);
}

absl::StatusOr<std::unique_ptr<ShardCopy>> NodeCopies::build(ShardId id, const std::string& path,
                                                             const std::string& directory) {
  if (absl::Status ingested = ingest_shard(path, cluster_, directory, id); !ingested.ok()) return ingested;
  return open_shard_copy(engine_, directory, id);
}

CopyResources NodeCopies::resources() {
  CopyResources means;
  means.source = snapshots_.get();
  means.disk = disk_.get();
  means.builder = builder_.get();
  means.slots = &slots_;
  means.copies.directory = directory();
  means.copies.pull.bytes_per_s = std::max<uint64_t>(options_.copy_bytes_per_s / kCopiesMax, 1);
  return means;
}

void NodeCopies::stop_threads() {
  if (disk_ != nullptr) disk_->stop();
  if (builder_ != nullptr) builder_->stop();
  snapshots_.reset();
}

std::vector<control::CopyReport> NodeCopies::report(uint32_t worker, const std::vector<CopyProgress>& copies) {
  const auto mib = [](uint64_t bytes) { return (bytes + (1 << 19)) >> 20; };
  std::vector<control::CopyReport>& own = reports_[worker];
  own.clear();
  for (const CopyProgress& copy : copies) {
    std::string text = absl::StrCat(copy.doing, ", ", mib(copy.bytes));
    if (copy.bytes_total != 0) absl::StrAppend(&text, " of ", mib(copy.bytes_total));
    absl::StrAppend(&text, " MiB and ", mib(copy.tail_bytes), " MiB written since, ", mib(copy.bytes_per_s), " MiB/s");
    if (copy.started_over != 0) absl::StrAppend(&text, ", started over ", copy.started_over, " times");
    if (!copy.trouble.empty()) absl::StrAppend(&text, "; the last request failed: ", copy.trouble);
    own.push_back({{copy.shard.table_id, copy.shard.shard}, std::move(text)});
  }
  std::vector<control::CopyReport> all;
  for (const auto& [index, reports] : reports_) all.insert(all.end(), reports.begin(), reports.end());
  return all;
}

}  // namespace skua::kv
