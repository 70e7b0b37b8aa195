// SnapshotCopies: copies shards to this node. A replica needs a copy if its log ends before the first entry that the
// primary still has.
//
//    wanted(shard, from), repeatedly            called by the replica, as long as its primary says that it needs a copy
//         |
//      waiting --slot, pause over--> fetching --> building ---> following --> closing --------> install()
//         ^                          SnapshotPull  checksums,    ShardCopy:     sync, rename     shard manager replaces
//         |                          files aside   a database    entries go in                   the data and creates
//         |                          \____________ SnapshotTail: entries aside _/                the replica anew
//         +---- a file cannot be written or is damaged; the source has lost entries that follow the snapshot
//
//    <directory>/.new-7-0-3-1/   files/ (fetched), tail, and db/ (built from files/); removed when the copy ends, and
//                                when the node starts
//    <directory>/7-0/            a complete copy, until it is installed; at its next start the node
//                                installs it if the shard's data are removed already, else removes it
//
// Entries that are written while the files travel are fetched at the same time (snapshot_tail.h). So an installed copy
// is not far behind, whatever its size and the load. There are three bounds: what the primary keeps for a tail that
// cannot be requested at the moment (hold_bytes), the size of the tail's file (tail_bytes_max), and the time between
// two attempts. If one of the first two is exceeded, the copy starts over, and the node's log says so.
//
// A copy must not remove entries that this replica has acknowledged meanwhile. So it is installed only in two cases: it
// contains the replica's whole log, or the log has a different entry where the copy ends. In the second case the
// entries of the log from there on were never committed.
//
// A copy is not cancelled explicitly: if wanted() is not called for some time, the copy ends. Pauses between attempts
// grow. Disks are accessed on other threads. Thread: one, the worker's.
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
#include "kvstore/replication/copy_codec.h"
#include "kvstore/replication/message_codec.h"
#include "kvstore/replication/replica.h"
#include "kvstore/snapshot/shard_copy.h"
#include "kvstore/snapshot/snapshot_pull.h"
#include "kvstore/snapshot/snapshot_tail.h"
#include "kvstore/storage/file_tree.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/node_log.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Limits the number of copies that a node makes at the same time. take() is false if no slot is free; after true the
/// caller owes give_back(). Thread: any. (std::counting_semaphore::try_acquire() may spin and yield.)
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

/// Primary and log end of a replica at the moment.
struct ReplicaPosition {
  NodeId primary = 0;
  uint64_t last_index = 0;
};

/// Implementations must not call SnapshotCopies from these methods. `done` callbacks run later, on the thread of
/// SnapshotCopies.
class SnapshotCopyHost {
 public:
  using Fetched = absl::AnyInvocable<void(const absl::StatusOr<ByteSpan>& chunk)>;
  using Work = absl::AnyInvocable<absl::Status()>;
  using Worked = absl::AnyInvocable<void(const absl::Status&)>;

  /// Sends the request to the shard's replica at `from`. False: not sent; `done` never runs.
  virtual bool fetch(ShardId shard, NodeId from, const FetchChunk& what, Fetched done) = 0;
  /// As fetch(), for the entries behind a snapshot.
  virtual bool fetch_tail(ShardId shard, NodeId from, const FetchTail& what, Fetched done) = 0;
  /// Runs `work` on a thread that may wait for disks, in the order of the calls. Then runs `done` on this thread.
  /// False: neither runs.
  virtual bool on_disk(Work work, Worked done) = 0;
  /// As on_disk(), on another thread, for work that takes long. So short work does not wait for it.
  virtual bool on_builder(Work work, Worked done) = 0;
  /// Position of the shard's replica. Empty: there is no replica at the moment.
  virtual std::optional<ReplicaPosition> position(ShardId shard) = 0;
  /// Replica::snapshot_fit() for a snapshot that ends with `end`.
  virtual SnapshotFit fit(ShardId shard, EntryId end) = 0;
  /// Makes the snapshot at `path` a database below `directory`, and opens it. Thread: the one of on_builder().
  virtual absl::StatusOr<std::unique_ptr<ShardCopy>> build(ShardId shard, const std::string& path,
                                                           const std::string& directory) = 0;
  /// The replica stops accepting entries. The database at `path` replaces the data of its shard.
  virtual void install(ShardId shard, const std::string& path) = 0;
  [[nodiscard]] virtual std::string name_of(NodeId node) = 0;
  virtual void tell(LogSeverity severity, const std::string& line) = 0;

 protected:
  ~SnapshotCopyHost() = default;
};

/// Progress of one copy, for operators.
struct CopyProgress {
  ShardId shard;
  NodeId from = 0;
  const char* doing = "";     ///< "fetching", "building", "following", "closing"
  uint64_t bytes = 0;         ///< bytes of the snapshot that have arrived
  uint64_t bytes_total = 0;   ///< 0: not known yet
  uint64_t tail_bytes = 0;    ///< bytes of entries behind the snapshot that have arrived
  uint64_t bytes_per_s = 0;   ///< recent rate, snapshot and tail together
  uint32_t started_over = 0;  ///< how often, recently
  std::string trouble;        ///< error of the last request; empty: it succeeded
};

class SnapshotCopies {
 public:
  struct Options {
    std::string directory;                  ///< exists
    FileTree* files = &FileTree::system();  ///< outlives the copies
    SnapshotPullOptions pull;
    SnapshotTailOptions tail;
    /// Largest size of a tail's file, or the size of the snapshot if that is larger.
    uint64_t tail_bytes_max = uint64_t{4} << 30;
    /// A copy begins only if it was wanted this recently. What the replica has may have changed since an older call of
    /// wanted().
    DurationNs begin_within_ns = 200 * kMillisecond;
    /// A copy under way that was not wanted for this long ends.
    DurationNs wanted_for_ns = 5 * kSecond;
    /// Pauses between two attempts for one shard.
    DurationNs pause_min_ns = kSecond;
    DurationNs pause_max_ns = 60 * kSecond;
    DurationNs tell_every_ns = 10 * kSecond;
  };

  /// `host` and `slots` outlive it.
  SnapshotCopies(const Options& options, SnapshotCopyHost& host, CopySlots& slots)
      : options_(options), host_(host), slots_(slots) {}
  /// Calls cancel_all(). No `done` callback may run afterwards.
  ~SnapshotCopies() { cancel_all(); }
  SnapshotCopies(const SnapshotCopies&) = delete;
  SnapshotCopies& operator=(const SnapshotCopies&) = delete;

  /// The primary `from` says that its log does not reach back to the log of the shard's replica here. Called with every
  /// heartbeat, so it is cheap.
  void wanted(ShardId shard, NodeId from, TimeNs now);
  /// Does what is due. Call it often.
  void tick(TimeNs now);
  /// Cancels all copies and begins no more, because the node stops.
  void cancel_all();

  [[nodiscard]] size_t count() const { return copies_.size(); }
  /// Progress of the copies under way.
  [[nodiscard]] std::vector<CopyProgress> progress() const;

 private:
  enum class State : uint8_t { kWaiting, kFetching, kBuilding, kFollowing, kClosing };
  /// Used by the builder thread; the worker's thread reads it only between the builder's jobs.
  using Built = std::unique_ptr<ShardCopy>;
  struct Copy {
    uint64_t id = 0;  // distinguishes late results from current ones
    NodeId from = 0;
    State state = State::kWaiting;
    TimeNs wanted_ns = 0;
    TimeNs told_ns = 0;
    std::unique_ptr<SnapshotPull> pull;
    uint64_t attempt = 0;  // attempt of `pull` that `path` and the members below belong to
    std::string path;
    uint64_t bytes_total = 0;
    std::unique_ptr<SnapshotTail> tail;  // created once the snapshot's end is known
    uint64_t tail_bytes = 0;             // bytes in the file of the tail
    uint64_t tail_applied = 0;           // bytes of that file applied to the database
    bool applying = false;
    bool ending = false;  // no more of the tail is requested
    std::shared_ptr<Built> built;
    EntryId end;                // last entry of the finished copy
    absl::Status trouble;       // last failure of a request since the last line in the log
    absl::Status last_request;  // result of the last request
    // For measuring the rate.
    TimeNs measured_ns = 0;
    uint64_t measured_bytes = 0;
    uint64_t bytes_per_s = 0;
  };
  struct Pause {
    TimeNs until_ns = 0;
    DurationNs next_ns = 0;
    uint32_t started_over = 0;
  };
  using Work = SnapshotCopyHost::Work;
  using Worked = SnapshotCopyHost::Worked;

  void begin(ShardId shard, Copy& copy, TimeNs now);
  void run(ShardId shard, Copy& copy, TimeNs now);
  void fetch(ShardId shard, Copy& copy, TimeNs now);
  void start_attempt(ShardId shard, Copy& copy);
  void fetched(ShardId shard, uint64_t id, uint64_t number, const absl::StatusOr<ByteSpan>& bytes);
  void ask_tail(ShardId shard, Copy& copy, TimeNs now);
  void tail_fetched(ShardId shard, uint64_t id, uint64_t attempt, const absl::StatusOr<ByteSpan>& bytes);
  void tail_written(ShardId shard, uint64_t id, uint64_t attempt, uint64_t bytes, const absl::Status& status);
  void build(ShardId shard, Copy& copy);
  void follow(ShardId shard, Copy& copy);
  void close(ShardId shard, Copy& copy);
  void closed(ShardId shard, uint64_t id, const absl::Status& status);
  [[nodiscard]] bool may_install(ShardId shard, const Copy& copy) const;
  template <typename Done>
  void work(bool (SnapshotCopyHost::*where)(Work, Worked), ShardId shard, uint64_t id, Work what, Done done);
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
  std::map<ShardId, Copy> copies_;
  std::map<ShardId, Pause> pauses_;  // at most one per shard
  uint64_t last_id_ = 0;
  TimeNs now_ = 0;
  bool closed_ = false;
  std::vector<SnapshotPull::Request> requests_;
  ReplicaFrame frame_;  // replies are decoded into it
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_COPY_H_
