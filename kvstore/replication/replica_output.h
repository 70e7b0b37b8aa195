// What a replica wants: messages to its peers, work for its log, and reports to the control plane. replica.h fills it,
// and the driver of the replica carries it out.
#ifndef SKUA_KVSTORE_REPLICATION_REPLICA_OUTPUT_H_
#define SKUA_KVSTORE_REPLICATION_REPLICA_OUTPUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/messages.h"
#include "kvstore/replication/view.h"

namespace skua::kv {

/// A report to the control plane. Repeated until the view changes.
struct ReplicaReport {
  enum class Kind : uint8_t {
    kSuspect,  ///< `node` does not answer
    kSlow,     ///< `node` holds up every write
    /// This replica is the view's primary (`node`) but cannot go on in this epoch: it has restarted, its log has
    /// refused entries, its log hangs, or it is doubtful.
    kNeedsEpoch,
    kCaughtUp,   ///< learner `node` is near the end of the log
    kJoinReady,  ///< learner `node` has all that it needs to become a member; attempt `join`
    kDoubtful,   ///< this replica (`node`) may lack entries that it acknowledged; its log ends with `last`
  };
  Kind kind = Kind::kSuspect;
  uint64_t epoch = 0;
  NodeId node = 0;
  uint64_t join = 0;
  EntryId last{};

  friend bool operator==(const ReplicaReport&, const ReplicaReport&) = default;
};

/// What the driver must do. The driver clears it afterwards. Order: first the view, then truncate and append, then the
/// messages.
struct ReplicaOutput {
  struct Envelope {
    NodeId to = 0;
    ReplicaMessage message;
  };
  /// Entries first..last are to be sent to a peer; make_append() makes the message.
  struct Send {
    NodeId to = 0;
    uint64_t first = 0;
    uint64_t last = 0;
  };

  std::optional<View> persist_view;        ///< make this view durable, then call view_persisted()
  std::optional<uint64_t> truncate_after;  ///< drop the log's entries behind this one
  uint64_t accept_first = 0;               ///< log the entries of the Append just given, from this index on; 0: none
  bool append_barrier = false;             ///< log a barrier with index last_index()
  bool fetch_view = false;                 ///< ask the control plane for the view: there is, or may be, a newer one
  bool fetch_snapshot = false;             ///< fetch a snapshot, then call install_snapshot()
  bool failed = false;                     ///< the log lacks committed entries: only a snapshot helps
  bool restored = false;                   ///< Replica::Restart::doubt is over
  std::vector<Envelope> messages;
  std::vector<Send> sends;
  std::vector<ReplicaReport> reports;

  /// Keeps the memory.
  void clear() {
    persist_view.reset();
    truncate_after.reset();
    accept_first = 0;
    append_barrier = fetch_view = fetch_snapshot = failed = restored = false;
    messages.clear();
    sends.clear();
    reports.clear();
  }
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_REPLICA_OUTPUT_H_
