// The messages between the replicas of a shard. They do not name shard and sender: the envelope does (message_codec.h).
//
//    primary                                          others
//    StartView  ---------------------------------->   "this is the view: where does your log end?"
//               <----------------------------------   TailReport
//    Append     ---------------------------------->   entries after `prev`
//               <----------------------------------   AppendReply: up to where they are received, written, durable
//    Heartbeat  ---------------------------------->   who leads, what is committed
//               <----------------------------------   HeartbeatReply: a promise (lease.h), and the log's levels
//    Confirm    ---------------------------------->   "are you still in my epoch?"
//               <----------------------------------   ConfirmReply
//    SnapshotNeeded ------------------------------>   "my log does not reach back to the end of yours"
//    Restored   ---------------------------------->   "your log has all committed entries again"
//               <----------------------------------   Release: the old primary serves no reads any more
//
// A message of an older epoch is answered with StaleEpoch, which carries the receiver's view. Replicas adopt only views
// from the control plane. A newer view in a message only makes the receiver ask the control plane.
#ifndef SKUA_KVSTORE_REPLICATION_MESSAGES_H_
#define SKUA_KVSTORE_REPLICATION_MESSAGES_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "kvstore/replication/epoch_history.h"
#include "kvstore/replication/log_levels.h"
#include "kvstore/replication/view.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct StartView {
  View view;
};

struct TailReport {
  uint64_t epoch = 0;
  EpochHistory log;
  LogLevels levels;
  uint64_t commit_index = 0;
  uint64_t doubt = 0;  ///< not 0: the sender may lack entries that it had acknowledged; Restored repeats this number
};

/// Entries from prev.index + 1 on. Their bytes travel in the same message.
struct Append {
  uint64_t epoch = 0;
  EntryId prev;
  std::vector<uint64_t> epochs;  ///< each entry's epoch
  uint64_t commit_index = 0;
  bool acknowledge_received = false;  ///< reply as soon as the entries are received: one has durability kMemory
};

struct AppendReply {
  uint64_t epoch = 0;
  LogLevels levels;  ///< only of entries that agree with the primary's log
};

struct Heartbeat {
  uint64_t epoch = 0;
  TimeNs sent_ns = 0;  ///< the sender's clock
  uint64_t commit_index = 0;
};

struct HeartbeatReply {
  uint64_t epoch = 0;
  TimeNs echo_ns = 0;     ///< Heartbeat::sent_ns
  bool promises = false;  ///< lease.h
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
  uint64_t epoch = 0;  ///< the epoch that the sender has adopted
};

struct SnapshotNeeded {
  uint64_t epoch = 0;
};

/// For a replica that reported a doubt: all entries that were committed before that report are durable in its log.
struct Restored {
  uint64_t epoch = 0;
  uint64_t doubt = 0;
};

struct StaleEpoch {
  View view;
};

/// The order is that of the messages' numbers on the wire (message_codec.h): only its end may grow.
using ReplicaMessage = std::variant<StartView, TailReport, Append, AppendReply, Heartbeat, HeartbeatReply, Confirm,
                                    ConfirmReply, Release, SnapshotNeeded, StaleEpoch, Restored>;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_MESSAGES_H_
