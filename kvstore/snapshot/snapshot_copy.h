// SnapshotCopies: brings copies of shards to this node's replicas whose logs the primaries' kept entries do not reach.
//
//    wanted(shard, from), again and again       by the replica, as long as its primary says so
//         |
//      waiting --slot, pause over--> fetching --> building ---> following --> closing --------> install()
//         ^                          SnapshotPull  checksums,    ShardCopy:     sync, rename     the shard manager: the old
//         |                          files aside   a database    entries go in                   data go, these come, and the
//         |                          \____________ SnapshotTail: entries aside _/                replica is made anew
//         +---- a file cannot be written, or is not what it should be; the source does not have what follows any more
//
//    <directory>/.new-7-0-3-1/   files/ that were fetched, the tail, and db/ that is made of them; removed when the copy ends,
//                                and when the node starts
//    <directory>/7-0/            whole, until it is the shard's data; a start of the node ends what a crash cut off
//
// What is written while the files travel is fetched beside them (snapshot_tail.h), so a copy that is installed is not far behind
// whatever its size and the load. Three bounds: what the primary keeps for a tail that cannot ask (hold_bytes), the tail's file
// (tail_bytes_max), and the time between two attempts. At the first two the copy starts over, and says so.
//
// A copy must not take back what this replica has acknowledged meanwhile. So it is taken only if it has at least the replica's
// whole log, or if the log has another entry where the copy ends: then what follows that entry was never committed.
//
// Nobody tells when a copy is of no use any more; its wishes cease. Retries pause longer and longer. Disks are waited for on
// another thread. Thread: one, the worker's.
#ifndef SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_COPY_H_
#define SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_COPY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/replication/message_codec.h"
#include "kvstore/replication/replica.h"
#include "kvstore/snapshot/shard_copy.h"
#include "kvstore/snapshot/snapshot_pull.h"
#include "kvstore/snapshot/snapshot_tail.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/node_log.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// How many copies a node makes at a time. Thread: any.
class CopySlots {
 public:
  explicit CopySlots(int count) : free_(count) {}
  [[nodiscard]] bool take() {
    if (free_.fetch_sub(1) > 0) return true;
    free_.fetch_add(1);
    return false;
  }
  void give_back() { free_.fetch_add(1); }

 private:
  std::atomic<int> free_;
};

/// Where a replica is just now.
struct ReplicaPosition {
  NodeId primary = 0;
  uint64_t last_index = 0;
};

/// May not call back.
class SnapshotCopyHost {
 public:
  using Fetched = absl::AnyInvocable<void(const absl::StatusOr<ByteSpan>& chunk)>;
  using Work = absl::AnyInvocable<absl::Status()>;
  using Worked = absl::AnyInvocable<void(const absl::Status&)>;

  /// Asks the shard's replica at `from`. False: not sent, `done` never runs.
  virtual bool fetch(ShardId shard, NodeId from, const FetchChunk& what, Fetched done) = 0;
  /// For the entries behind a snapshot, on the same terms.
  virtual bool fetch_tail(ShardId shard, NodeId from, const FetchTail& what, Fetched done) = 0;
  /// Runs `work` where it may wait for disks, in the order of the calls, and `done` on this thread later. False: neither.
  virtual bool on_disk(Work work, Worked done) = 0;
  /// The same for work that takes long, which the other sort does not wait for.
  virtual bool on_builder(Work work, Worked done) = 0;
  /// Of the shard's replica; nullopt: there is none just now.
  virtual std::optional<ReplicaPosition> position(ShardId shard) = 0;
  /// Replica::snapshot_fit() of a snapshot that ends with `end`.
  virtual SnapshotFit fit(ShardId shard, EntryId end) = 0;
  /// Makes the snapshot of the shard that `path` holds a database below `directory`. Thread: where on_builder() runs.
  virtual absl::StatusOr<std::unique_ptr<ShardCopy>> build(ShardId shard, const std::string& path,
                                                           const std::string& directory) = 0;
  /// From now on the replica takes nothing; its shard's data are to be replaced by those at `path`.
  virtual void install(ShardId shard, const std::string& path) = 0;
  [[nodiscard]] virtual std::string name_of(NodeId node) = 0;
  virtual void tell(LogSeverity severity, const std::string& line) = 0;

 protected:
  ~SnapshotCopyHost() = default;
};

/// For operators.
struct CopyProgress {
  ShardId shard;
  NodeId from = 0;
  const char* doing = "";     ///< "fetching", "building", "following", "closing"
  uint64_t bytes = 0;         ///< of the snapshot, that are here
  uint64_t bytes_total = 0;   ///< 0: not known yet
  uint64_t tail_bytes = 0;    ///< written to the shard since the snapshot, and fetched
  uint64_t bytes_per_s = 0;   ///< lately, both together
  uint32_t started_over = 0;  ///< times, lately
  std::string trouble;        ///< why the last request failed; empty: it did not
};

class SnapshotCopies {
 public:
  struct Options {
    std::string directory;  ///< exists
    SnapshotPullOptions pull;
    SnapshotTailOptions tail;
    /// Of a tail's file; or as much as the snapshot has, if that is more.
    uint64_t tail_bytes_max = uint64_t{4} << 30;
    /// One that nobody has wanted for so long does not begin: the wish may be older than what the replica has now.
    DurationNs begin_within_ns = 200 * kMillisecond;
    /// A copy under way that nobody has wanted for so long ends.
    DurationNs wanted_for_ns = 5 * kSecond;
    /// Between two attempts at a shard.
    DurationNs pause_min_ns = kSecond;
    DurationNs pause_max_ns = 60 * kSecond;
    DurationNs tell_every_ns = 10 * kSecond;
  };

  /// All outlive it.
  SnapshotCopies(const Options& options, SnapshotCopyHost& host, CopySlots& slots);
  /// cancel_all(). No request or work may end after.
  ~SnapshotCopies();
  SnapshotCopies(const SnapshotCopies&) = delete;
  SnapshotCopies& operator=(const SnapshotCopies&) = delete;

  /// The primary `from` says that the shard's log does not reach. Cheap: comes with every heartbeat.
  void wanted(ShardId shard, NodeId from, TimeNs now);
  /// Often.
  void tick(TimeNs now);
  /// The node ends: no more copies.
  void cancel_all();

  [[nodiscard]] size_t count() const { return copies_.size(); }
  /// Of those under way.
  [[nodiscard]] std::vector<CopyProgress> progress() const;

 private:
  enum class State : uint8_t { kWaiting, kFetching, kBuilding, kFollowing, kClosing };
  /// The builder thread's.
  struct Built {
    std::unique_ptr<ShardCopy> database;
  };
  struct Copy {
    uint64_t id = 0;  // tells late results from current ones
    NodeId from = 0;
    State state = State::kWaiting;
    TimeNs wanted_ns = 0;
    TimeNs told_ns = 0;
    std::unique_ptr<SnapshotPull> pull;
    uint64_t attempt = 0;  // the pull's, that `path` and what follows are of
    std::string path;
    uint64_t bytes_total = 0;
    std::unique_ptr<SnapshotTail> tail;  // once the snapshot's end is known
    uint64_t tail_bytes = 0;             // in its file
    uint64_t tail_applied = 0;           // of them, in the database
    bool applying = false;
    bool ending = false;  // nothing more is asked for
    std::shared_ptr<Built> built;
    EntryId end;                // of what is installed
    absl::Status trouble;       // of the last request that failed since it was logged
    absl::Status last_request;  // how it ended
    // For the rate.
    TimeNs measured_ns = 0;
    uint64_t measured_bytes = 0;
    uint64_t bytes_per_s = 0;
  };
  struct Pause {
    TimeNs until_ns = 0;
    DurationNs next_ns = 0;
    uint32_t started_over = 0;
  };
  using Copies = std::map<ShardId, Copy>;

  void begin(ShardId shard, Copy& copy, TimeNs now);
  void run(ShardId shard, Copy& copy, TimeNs now);
  void fetch(ShardId shard, Copy& copy, TimeNs now);
  void start_attempt(ShardId shard, Copy& copy);
  void fetched(ShardId shard, uint64_t id, uint64_t number, const absl::StatusOr<ByteSpan>& bytes);
  void written(ShardId shard, uint64_t id, uint64_t number, const absl::Status& status);
  void ask_tail(ShardId shard, Copy& copy, TimeNs now);
  void tail_fetched(ShardId shard, uint64_t id, uint64_t attempt, const absl::StatusOr<ByteSpan>& bytes);
  void tail_written(ShardId shard, uint64_t id, uint64_t attempt, uint64_t bytes, const absl::Status& status);
  void build(ShardId shard, Copy& copy);
  void built(ShardId shard, uint64_t id, const absl::Status& status);
  void follow(ShardId shard, Copy& copy);
  void followed(ShardId shard, uint64_t id, uint64_t applied, const absl::Status& status);
  void close(ShardId shard, Copy& copy);
  void closed(ShardId shard, uint64_t id, const absl::Status& status);
  [[nodiscard]] bool may_install(ShardId shard, const Copy& copy) const;
  void give_up(ShardId shard, const std::string& why, LogSeverity severity);
  void leave(Copy& copy);
  void remove(const std::string& path, std::shared_ptr<Built> built = nullptr);
  void measure(Copy& copy, TimeNs now) const;
  [[nodiscard]] CopyProgress progress_of(ShardId shard, const Copy& copy) const;
  void tell_progress(ShardId shard, Copy& copy, TimeNs now);
  [[nodiscard]] Copy* find(ShardId shard, uint64_t id);
  [[nodiscard]] std::string final_path(ShardId shard) const;

  const Options options_;
  SnapshotCopyHost& host_;
  CopySlots& slots_;
  Copies copies_;
  std::map<ShardId, Pause> pauses_;  // as many as shards
  uint64_t last_id_ = 0;
  TimeNs now_ = 0;
  bool closed_ = false;
  std::vector<SnapshotPull::Request> requests_;
  ReplicaFrame frame_;  // decoded into
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_COPY_H_
