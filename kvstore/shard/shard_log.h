// A shard's part of the worker's log.
//
//    sync, flush    the record's bytes are the submitter's and the op's; the write waits for its group
//    memory         the record has bytes of its own (entry.h), and the write goes on at once
//
// The first record of a shard brings a start with it: the index behind which the shard goes on in this log.
//
// If the log has no room for a group, all of the group comes back, and so do all later records of the group's shards
// (refusal()). If writes were answered whose records were not written, these records ("unlogged") go to the log before
// any other record of the shard.
#ifndef SKUA_KVSTORE_SHARD_SHARD_LOG_H_
#define SKUA_KVSTORE_SHARD_SHARD_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/log/record.h"
#include "kvstore/shard/entry.h"
#include "kvstore/shard/log_op.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/write_op.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Thread: the worker's.
class ShardLog {
 public:
  /// `epoch` goes into the log's records.
  ShardLog(ShardContext& shard, uint64_t epoch);

  [[nodiscard]] LogShard id() const { return id_; }
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  /// An epoch lower than the current one changes nothing.
  void raise_epoch(uint64_t epoch) { epoch_ = std::max(epoch_, epoch); }
  /// The epoch of the last record that was given to the log.
  [[nodiscard]] uint64_t record_epoch() const { return record_epoch_; }

  /// Gives the record of a write to the log. A write that asks for durability "memory" counts as written from then on.
  /// Errors: the log takes no record now; then nothing was given.
  [[nodiscard]] absl::Status submit(WriteOp& op);
  /// The same for a record that owns its bytes. `head` stands before the payload, and stays until the entry is back.
  [[nodiscard]] absl::Status submit(Entry& entry, ByteSpan head = {});
  /// The database has everything of the shard: the shard goes on behind its last index in the current epoch, and the
  /// log forgets what it has of the shard.
  void begin_anew();
  /// The log needs nothing of the shard any more. False: nothing was given.
  [[nodiscard]] bool end();

  /// The log has given back an op of the shard. Not for the shard's end. A start is gone afterwards.
  void take_back(LogOp& op);
  /// The log has written the record.
  void wrote(uint64_t index, Durability achieved);
  /// Records of the shard that the log has and has not given back.
  [[nodiscard]] size_t in_log() const { return in_log_; }
  /// The log has a start of the shard, or was given one.
  [[nodiscard]] bool is_started() const { return started_; }

  /// Not OK: the log had no room for a record of the shard. It takes none until clear_refusal().
  [[nodiscard]] const absl::Status& refusal() const { return refusal_; }
  void refuse(const absl::Status& why) { refusal_.Update(why); }
  void clear_refusal() { refusal_ = absl::OkStatus(); }

  [[nodiscard]] bool has_unlogged() const { return !unlogged_.empty(); }
  /// Gives the unlogged records to the log, in the order of their indices. They may use the log's reserve, because
  /// nothing else of the shard can be written before them. False: try again later.
  [[nodiscard]] bool resubmit();
  void forget_unlogged();

 private:
  [[nodiscard]] absl::Status submit(LogSubmission&& record);
  [[nodiscard]] absl::Status start(uint64_t index);
  [[nodiscard]] absl::Status submit_copy(WriteOp& op);
  void write_back(WriteOp& op);
  void start_back(LogOp& op);
  void copy_back(Entry& entry);

  ShardContext& shard_;
  const LogShard id_;
  uint64_t epoch_ = 0;
  uint64_t record_epoch_ = 0;
  bool started_ = false;
  uint64_t start_index_ = 0;  // of the last start
  size_t in_log_ = 0;
  std::list<LogOp> starts_;  // starts under way; a record that replaces others may need one before the last is back
  LogOp end_{LogOp::Kind::kShardEnd};
  absl::Status refusal_;
  std::vector<Entry*> unlogged_;  // refused records of writes that were answered
  uint64_t resubmitted_ms_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_SHARD_LOG_H_
