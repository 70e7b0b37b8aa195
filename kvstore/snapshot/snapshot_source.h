// SnapshotSource: snapshots of this node's shards for learners on other nodes. Made when first asked for, read piece by piece,
// forgotten when nobody asks any more.
//
//    FETCH_CHUNK, snapshot 0 -----> one of the shard that is young enough, or a new one: export, on a reader's thread
//    FETCH_CHUNK, snapshot n -----> a piece of a file, with its CRC; NOT_FOUND once it is forgotten
//    sweep() ---------------------> idle and old ones go; their directories with the last reader
//
// Their number is bounded: each keeps disk space that compaction could have freed. Whoever makes one must keep the shard's
// log from its end on until it is gone, or its learner has caught up.
//
// SnapshotService puts it behind a worker's endpoint: the worker's thread only passes requests on to the reader pool.
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
#include "kvstore/replication/message_codec.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv {

/// Thread: any, for all methods. They wait for disks: not for a polling thread.
class SnapshotSource {
 public:
  struct Options {
    /// The source's own; what is in it is removed.
    std::string directory;
    size_t open_max = 4;
    DurationNs idle_max_ns = 60 * kSecond;
    DurationNs age_max_ns = 3600 * kSecond;
    /// Up to this age a snapshot serves another learner too.
    DurationNs share_max_ns = 2 * kSecond;
    /// One that is idle for so long makes room for others, and goes when its shard has a newer one.
    DurationNs evict_idle_ns = 5 * kSecond;
    /// One that is not there after so long is told of (slow_exports).
    DurationNs slow_ns = 30 * kSecond;
    uint64_t seed = 1;  ///< another one in each life: ids of an earlier one must not be known
    /// The clock that `now` is of: a snapshot's age begins when it is there. Null: when it was asked for.
    std::function<TimeNs()> clock;
  };
  struct Exported {
    EntryId end;  ///< the last entry that it has
    std::vector<std::string> files;
    /// Kept as long as the snapshot: what keeps the shard's log from its end on.
    std::shared_ptr<void> hold{};
  };
  /// Makes the directory `path` with the shard's files (export_shard). NOT_FOUND: there is no such shard here.
  using ExportFn = std::function<absl::StatusOr<Exported>(ShardId, const std::string& path)>;

  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SnapshotSource>> create(const Options& options, ExportFn make);
  ~SnapshotSource();
  SnapshotSource(const SnapshotSource&) = delete;
  SnapshotSource& operator=(const SnapshotSource&) = delete;

  /// The encoded chunk. NOT_FOUND (no such shard or snapshot), UNAVAILABLE (it is being made: ask again), RESOURCE_EXHAUSTED
  /// (open_max), INVALID_ARGUMENT (no such file or place in it), the storage's.
  [[nodiscard]] absl::StatusOr<std::string> fetch(const FetchChunk& wanted, TimeNs now);
  /// Forgets what nobody has asked for lately, and what is too old.
  void sweep(TimeNs now);

  /// Snapshots that have been in the making for too long, for people; empty: none. Those that asked for them wait.
  [[nodiscard]] std::string slow_exports(TimeNs now) const;

  [[nodiscard]] size_t open_count() const;

 private:
  struct File {
    std::string name;
    uint64_t bytes = 0;
  };
  /// Takes its directory with it.
  struct Snapshot {
    ~Snapshot();
    uint64_t id = 0;
    ShardId shard;
    std::string path;
    EntryId end{};
    std::vector<File> files;
    std::shared_ptr<void> hold;
    bool ready = false;
    bool begun = false;  ///< somebody has got a piece of it
    TimeNs made_ns = 0;
    TimeNs used_ns = 0;
  };

  SnapshotSource(const Options& options, ExportFn make)
      : options_(options), make_(std::move(make)), rng_(options.seed) {}
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Snapshot>> find(const FetchChunk& wanted, TimeNs now, bool& made);
  [[nodiscard]] absl::Status fill(Snapshot& snapshot);
  void evict(ShardId shard, TimeNs now, std::vector<std::shared_ptr<Snapshot>>& gone);

  const Options options_;
  const ExportFn make_;
  mutable std::mutex mutex_;
  // Protected by mutex_.
  Rng rng_;
  std::map<uint64_t, std::shared_ptr<Snapshot>> snapshots_;
};

/// Registers the handler of FETCH_CHUNK at a worker's endpoint; answers only workers that `links` knows and `allow` allows the shard.
/// All outlive the endpoint, but the pool, which is stopped before the endpoint ends. Thread: the endpoint's.
class SnapshotService {
 public:
  using AllowFn = std::function<absl::Status(ShardId, PeerAddress)>;

  SnapshotService(rpc::Endpoint& endpoint, PeerLinks& links, ReaderPool& readers, SnapshotSource& source,
                  AllowFn allow);
  /// From now on requests are refused. Before the pool stops.
  void stop() { stopped_ = true; }

 private:
  class Job;
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
