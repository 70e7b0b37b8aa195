// What replicas of a shard tell each other. The shard, and who sent it to whom, the carrier knows.
//
//    primary                                          others
//    StartView  ---------------------------------->   "you have the view: where does your log end?"
//               <----------------------------------   TailReport
//    Append     ---------------------------------->   entries after `prev`
//               <----------------------------------   AppendReply: how far they are received, written, durable
//    Heartbeat  ---------------------------------->   who leads, what is committed
//               <----------------------------------   HeartbeatReply: a promise (lease.h), and how far the log is
//    Confirm    ---------------------------------->   "are you still in my epoch?"
//               <----------------------------------   ConfirmReply
//    SnapshotNeeded ------------------------------>   the log does not reach back to your end
//               <----------------------------------   Release: the old primary serves no reads any more
//
// A message of an older epoch is answered with StaleEpoch, which carries the view. Views come from the control plane: one in a message
// is a reason to ask there, no more.
#ifndef SKUA_KVSTORE_REPLICATION_MESSAGES_H_
#define SKUA_KVSTORE_REPLICATION_MESSAGES_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "kvstore/replication/epoch_runs.h"
#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// How far a log is: the last entry of which so much is true. durable <= written <= received.
struct LogLevels {
  uint64_t received = 0;  ///< in the log's queue
  uint64_t written = 0;   ///< survives the process
  uint64_t durable = 0;   ///< survives a power cut

  friend bool operator==(const LogLevels&, const LogLevels&) = default;
};

struct StartView {
  View view;
};

struct TailReport {
  uint64_t epoch = 0;
  EpochRuns log;
  LogLevels levels;
  uint64_t commit_index = 0;
  uint64_t doubt = 0;  ///< not 0: the sender may lack what it had acknowledged; Restored names it
};

/// Entries prev.index + 1 and so on; their bytes travel with it.
struct Append {
  uint64_t epoch = 0;
  EntryId prev;
  std::vector<uint64_t> epochs;  ///< of each entry
  uint64_t commit_index = 0;
  bool acknowledge_received = false;  ///< somebody waits for no more than that
};

struct AppendReply {
  uint64_t epoch = 0;
  LogLevels levels;  ///< of what agrees with the primary's log
};

struct Heartbeat {
  uint64_t epoch = 0;
  TimeNs sent_ns = 0;  ///< the sender's clock
  uint64_t commit_index = 0;
};

struct HeartbeatReply {
  uint64_t epoch = 0;
  TimeNs echo_ns = 0;  ///< Heartbeat::sent_ns
  bool granted = false;
  LogLevels levels;
};

struct Confirm {
  uint64_t epoch = 0;
  uint64_t round = 0;
};

struct ConfirmReply {
  uint64_t epoch = 0;
  uint64_t round = 0;
};

struct Release {
  uint64_t epoch = 0;  ///< the one that the sender has adopted
};

struct SnapshotNeeded {
  uint64_t epoch = 0;
};

/// To a replica that reported a doubt: everything that was committed before that report is durable at it.
struct Restored {
  uint64_t epoch = 0;
  uint64_t doubt = 0;
};

struct StaleEpoch {
  View view;
};

using ReplicaMessage = std::variant<StartView, TailReport, Append, AppendReply, Heartbeat, HeartbeatReply, Confirm,
                                    ConfirmReply, Release, SnapshotNeeded, StaleEpoch, Restored>;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_MESSAGES_H_
