// Entries that are not committed, in rows of the database (replica_rows.h). Such entries go into rows for two reasons:
//
//    the shard is closed    it leaves the log, and its entries must be there when it is opened again
//    the log needs room     they stand in its oldest segment, which all shards of the worker wait for
//
// Nobody knows how long an entry waits to be committed: its shard may have lost its majority, or follow a faulty
// primary. The rows are made durable. Then the log is told that it need not keep the entries (Log::set_kept):
//
//    segments   | 3 4 5 . . | . . . . . | 6 . . . . |      3, 4, 5 are not committed; the points are other shards'
//    rows         3 4 5  -> keep() -> kept -> set_kept(5)
//    segments               | . . . . . | 6 . . . . |      recovery takes 3, 4, 5 from the rows, and 6 from the log
//
// When an entry is committed or replaced, its row is deleted: together with the next entry that is applied, or with the
// next rows that are written. One more row has the epoch runs of the last barrier.
#ifndef SKUA_KVSTORE_SHARD_TAIL_ROWS_H_
#define SKUA_KVSTORE_SHARD_TAIL_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/shard/entry.h"
#include "kvstore/shard/shard_context.h"
#include "kvstore/shard/shard_log.h"
#include "kvstore/storage/shard_db.h"

namespace skua::kv {

/// Thread: the worker's. The applier has views of the rows' bytes until they are applied.
class TailRows {
 public:
  using Entries = std::deque<Entry*>;

  TailRows(ShardContext& shard, ShardLog& log) : shard_(shard), log_(log) {}

  /// The row of this entry is not needed any more. It is deleted with a later record.
  void add_old(uint64_t index) { old_.push_back(index); }
  /// Appends what is to be written to the database with the record `index`: the deletion of some old rows, and, if
  /// `runs` is given, the epoch runs of the barrier that the record is.
  void append_for(uint64_t index, std::optional<ByteSpan> runs, std::vector<AppliedEffect>& out);
  /// How many rows append_for() will append at most.
  [[nodiscard]] size_t rows_max() const;

  /// The shard is being closed: queues a row for each entry that is not committed. hand_on() gives them to the applier.
  void close(const Entries& entries);
  [[nodiscard]] bool is_closed() const { return closed_; }
  /// The log needs room, and its oldest segment holds the entry `index` of this shard. False: the rows wait for room in
  /// the applier.
  [[nodiscard]] bool keep_pinning(uint64_t index, const Entries& entries);
  /// The rows that keep_pinning() has queued are durable.
  void kept();
  /// Gives the applier as many of the queued rows as it has room for. False: the rest must wait.
  [[nodiscard]] bool hand_on();
  /// The database has everything up to `index`.
  void applied(uint64_t index);
  /// Entries behind `index` are not entries any more.
  void truncated(uint64_t index) { kept_index_ = std::min(kept_index_, index); }

 private:
  struct Row {
    uint64_t index = 0;
    std::string key;
    std::string value;
  };

  void queue(const Entries& entries, uint64_t last_index);
  [[nodiscard]] AppliedEffect add_row(uint64_t released_by, uint64_t version, std::string key,
                                      std::optional<std::string> value);
  [[nodiscard]] std::vector<uint64_t> take_old(size_t count_max);

  ShardContext& shard_;
  ShardLog& log_;
  bool closed_ = false;  // nothing more is applied, also nothing that waited for room
  /// Indices of rows to be deleted: their entries were truncated or applied.
  std::vector<uint64_t> old_;
  std::deque<Row> bytes_;            // of rows on their way to the database
  std::deque<AppliedEffect> queue_;  // rows that wait for room in the applier
  bool keeping_ = false;             // rows are on their way to the database
  bool keep_asked_ = false;          // the applier has all of these rows and was asked to keep() them
  bool begins_anew_ = false;         // when the rows are kept, the log is to forget all it has of the shard
  uint64_t kept_index_ = 0;          // the last entry that is in the rows, now or when the log was told last
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_TAIL_ROWS_H_
