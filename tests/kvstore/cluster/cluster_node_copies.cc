// Copies of a node's shards: what node_copies.cc does in production, over simulated files.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/kvstore/cluster/cluster_node.h"

namespace skua::kv::sim {
namespace {

constexpr char kCopiesDir[] = "copies";
/// Bytes of a piece of a snapshot: small, so that copies take many requests.
constexpr uint32_t kChunkBytes = 512;

}  // namespace

/// As NodeCopies::start(): what an earlier process left is finished or removed.
absl::Status ClusterNode::start_copying() {
  for (const auto& [id, path] : tree_->databases_in(kCopiesDir)) {
    if (!machine_->has_database(id)) {
      if (absl::Status taken = ingest_copy(id, path); !taken.ok()) return taken;
    }
  }
  if (absl::Status removed = tree_->remove(kCopiesDir); !removed.ok()) return removed;
  SnapshotSource::Options options;
  options.directory = "snapshots";
  options.files = tree_.get();
  options.seed = kernel_.rng.next();
  options.clock = [this] { return wire_.clock().now_ns(); };
  auto source = SnapshotSource::create(
      options, [this](ShardId id, const std::string& path) { return export_snapshot(id, path); });
  if (!source.ok()) return source.status();
  const auto later = [this](absl::AnyInvocable<void()> then) {
    run(kernel_.now() + options_.sync_ns + kernel_.between(0, 5 * kMillisecond),
        [this, then = std::move(then)]() mutable {
          wire_.enter();
          then();
          kick();
        });
  };
  copying_ = std::make_unique<Copying>(later);
  copying_->source = *std::move(source);
  return absl::OkStatus();
}

CopyResources ClusterNode::copy_resources() {
  CopyResources copying;
  copying.source = copying_->source.get();
  copying.disk = &copying_->disk;
  copying.builder = &copying_->builder;
  copying.slots = &copying_->slots;
  copying.copies.directory = kCopiesDir;
  copying.copies.files = tree_.get();
  copying.copies.pull.chunk_bytes = kChunkBytes;
  // A link that takes one request at a time would refuse the others, and each refusal counts as a failure.
  copying.copies.pull.requests_max = std::min<size_t>(copying.copies.pull.requests_max, options_.links.requests_max);
  copying.copies.pause_min_ns = 200 * kMillisecond;
  copying.copies.pause_max_ns = 2 * kSecond;
  return copying;
}

absl::StatusOr<SnapshotSource::Exported> ClusterNode::export_snapshot(ShardId id, const std::string& path) {
  if (!machine_->running()) return absl::UnavailableError("the process has ended");
  const auto hold = worker_->server().shards().hold_entries(id);
  if (!hold.ok()) return hold.status();
  SnapshotSource::Exported exported;
  exported.hold = std::shared_ptr<void>(nullptr, [this, life = life_, id, hold = *hold](void*) {
    if (life == life_) worker_->server().shards().release_entries(id, hold);
  });
  const Database& from = machine_->database(id);
  oracle_.found(id.shard, from.index(), contents_of(from), "a copy");
  auto manifest = export_sim_shard(from, cluster_bytes(), *tree_, path);
  if (!manifest.ok()) return manifest.status();
  const Replica& replica = this->replica(id.shard)->replica();
  exported.end = {manifest->index, replica.log().epoch_of(manifest->index).value_or(0)};
  exported.files = {kSnapshotManifestName, manifest->files.front().name};
  return exported;
}

ClusterId ClusterNode::cluster_bytes() {
  ClusterId bytes{};
  const std::string text = cluster_uuid();
  for (size_t i = 0; i < bytes.size() && i < text.size(); ++i) bytes[i] = static_cast<std::byte>(text[i]);
  return bytes;
}

absl::StatusOr<std::unique_ptr<ShardCopy>> ClusterNode::build_copy(ShardId id, const std::string& path,
                                                                   const std::string& directory) {
  return build_sim_copy(id, cluster_bytes(), *tree_, path, directory);
}

void ClusterNode::install_copy(ShardId id, const std::string& path) {
  kernel_.note("copy", id.shard, number_, tree_->database(path)->index());
  news_.copies[id] = path;
  tell_news();
}

void ClusterNode::copying_says(const std::string& line) {
  if (absl::StrContains(line, "has gone on meanwhile")) kernel_.hit(Probe::kSnapshotTooOld);
  if (kernel_.verbose) kernel_.note(line.c_str(), number_);
}

absl::Status ClusterNode::ingest_copy(ShardId id, const std::string& path) {
  machine_->make_database(id);
  Database& database = machine_->database(id);
  database.become(*tree_->database(path));
  if (kernel_.mutant == WorldMutant::kCopyOffByOne) static_cast<void>(database.ingest({}, database.index() + 1));
  kernel_.hit(Probe::kSnapshotInstalled);
  return absl::OkStatus();
}

absl::Status ClusterNode::discard_copy(const std::string& path) {
  return tree_->remove(path);
}

}  // namespace skua::kv::sim
