// SnapshotSource: provides snapshots of this node's shards to learners on other nodes. A snapshot is made when it is
// first requested, read piece by piece, and forgotten when it is no longer requested.
//
//    FETCH_CHUNK, snapshot 0 -----> a recent snapshot of the shard, or a new one: exported on a reader's thread
//    FETCH_CHUNK, snapshot n -----> a piece of a file, with its CRC; NOT_FOUND once the snapshot is forgotten
//    sweep() ---------------------> forgets idle and old ones; the last reader removes their directories
//
// The number of snapshots is bounded, because each one keeps disk space that compaction could have freed. The maker of
// a snapshot must keep the shard's log from the snapshot's end on, as long as the snapshot exists or until its learner
// has caught up.
//
// SnapshotService serves it at a worker's endpoint. The worker's thread only passes requests on to the reader pool.
#ifndef SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_SOURCE_H_
#define SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/peers/peer_links.h"
#include "kvstore/replication/copy_codec.h"
#include "kvstore/storage/file_tree.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv {

/// Thread: any, for all methods. They wait for disks, so a polling thread must not call them.
class SnapshotSource {
 public:
  struct Options {
    /// Used by the source alone. create() removes its content.
    std::string directory;
    FileTree* files = &FileTree::system();  ///< outlives the source
    size_t open_max = 4;
    /// A snapshot that nobody asks for is removed after this time. One in use stays: a large copy may take many hours.
    DurationNs idle_max_ns = 60 * kSecond;
    /// A snapshot up to this age is also given to another learner.
    DurationNs share_max_ns = 2 * kSecond;
    /// A snapshot idle for this long may be removed: to make room for others, or when a new one of its shard is made.
    DurationNs evict_idle_ns = 5 * kSecond;
    /// An export that takes longer is reported (slow_exports()).
    DurationNs slow_ns = 30 * kSecond;
    uint64_t seed = 1;  ///< different in each process, so that ids of an earlier process are unknown
    /// Clock of the `now` arguments. With it, the age of a snapshot counts from its completion; without it (null), from
    /// its first request.
    std::function<TimeNs()> clock;
  };
  struct Exported {
    EntryId end;  ///< last entry of the snapshot
    std::vector<std::string> files;
    /// Held as long as the snapshot. It keeps the shard's log from the snapshot's end on.
    std::shared_ptr<void> hold{};
  };
  /// Creates directory `path` with the shard's files (export_shard()). NOT_FOUND: the shard is not on this node.
  using ExportFn = std::function<absl::StatusOr<Exported>(ShardId, const std::string& path)>;

  /// Creates or empties the directory. Errors: those of the file system.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SnapshotSource>> create(const Options& options, ExportFn make);
  SnapshotSource(const SnapshotSource&) = delete;
  SnapshotSource& operator=(const SnapshotSource&) = delete;

  /// Returns the encoded chunk. NOT_FOUND: no such shard or snapshot. UNAVAILABLE: the snapshot is being made, or
  /// another one, because one is made at a time; ask again. RESOURCE_EXHAUSTED: open_max snapshots exist.
  /// INVALID_ARGUMENT: no such file, or an offset beyond its end. Or an error of the storage.
  [[nodiscard]] absl::StatusOr<std::string> fetch(const FetchChunk& wanted, TimeNs now);
  /// Forgets snapshots that were not requested recently.
  void sweep(TimeNs now);

  /// Text for people: snapshots whose export takes too long; learners wait for them. Empty: none.
  [[nodiscard]] std::string slow_exports(TimeNs now) const;

  /// Snapshots that exist or are being made.
  [[nodiscard]] size_t open_count() const;

 private:
  struct File {
    std::string name;
    uint64_t bytes = 0;
  };
  /// The destructor removes the directory.
  struct Snapshot {
    explicit Snapshot(FileTree& tree) : file_tree(tree) {}
    ~Snapshot();
    FileTree& file_tree;
    uint64_t id = 0;
    ShardId shard;
    std::string path;
    EntryId end{};
    std::vector<File> files;
    std::shared_ptr<void> hold;
    bool ready = false;
    bool begun = false;  ///< a piece of it has been handed out
    TimeNs made_ns = 0;
    TimeNs used_ns = 0;
  };

  SnapshotSource(const Options& options, ExportFn make)
      : options_(options), make_(std::move(make)), rng_(options.seed) {}
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Snapshot>> find(const FetchChunk& wanted, TimeNs now, bool& made);
  [[nodiscard]] absl::Status fill(Snapshot& snapshot);
  using Snapshots = std::vector<std::shared_ptr<Snapshot>>;
  template <typename Is>
  void take_out(Is is_gone, Snapshots& gone);
  void evict(ShardId shard, TimeNs now, Snapshots& gone);

  const Options options_;
  const ExportFn make_;
  mutable std::mutex mutex_;
  // Protected by mutex_.
  Rng rng_;
  std::map<uint64_t, std::shared_ptr<Snapshot>> snapshots_;
};

/// Registers the handler of FETCH_CHUNK at a worker's endpoint. It answers only workers that `links` has identified and
/// that `allow` permits the shard. `links` and `source` outlive the endpoint. The pool stops before the endpoint ends.
/// Thread: the endpoint's.
class SnapshotService {
 public:
  using AllowFn = std::function<absl::Status(ShardId, PeerAddress)>;

  SnapshotService(rpc::Endpoint& endpoint, PeerLinks& links, ReaderPool& readers, SnapshotSource& source,
                  AllowFn allow);
  /// Refuses requests from now on. Call it before the pool stops.
  void stop() { stopped_ = true; }

 private:
  struct Job;
  void on_request(rpc::IncomingCall&& call);

  rpc::Endpoint& endpoint_;
  PeerLinks& links_;
  ReaderPool& readers_;
  SnapshotSource& source_;
  const AllowFn allow_;
  bool stopped_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_SOURCE_H_
