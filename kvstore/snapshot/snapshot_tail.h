// SnapshotTail: the committed entries behind a snapshot, asked for while its files still travel. Pure: no clock, no files, no
// network.
//
//    primary's log   ... 4711 | 4712 4713 ...                        ... 9034 |<- what it keeps ->| 9950
//    snapshot's end ---------^                                                         ^
//                              \____ asked for, and kept in a file beside the copy ____/ end(): not far behind, however long
//                                                                                        the files take
//
// So the primary need not keep what is written while a shard is copied, only what is written while nothing can be asked for:
// its bound (ShardReplica::Options::hold_bytes) limits neither the size of a shard nor how much is written to it.
//
// One request at a time; the next one when the pieces before it are kept. One that brings less than it may has reached the
// end: the next one comes after a while.
//
// Thread: one at a time.
#ifndef SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_TAIL_H_
#define SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_TAIL_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "kvstore/replication/message_codec.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct SnapshotTailOptions {
  uint32_t bytes_max = kChunkBytesMax;  ///< of entries, in one piece
  DurationNs idle_ns = 20 * kMillisecond;
  /// After a failure, doubling.
  DurationNs pause_min_ns = 20 * kMillisecond;
  DurationNs pause_max_ns = kSecond;
};

class SnapshotTail {
 public:
  enum class Taken : uint8_t {
    kKeep,   ///< keep the piece, then kept()
    kEmpty,  ///< nothing is in it
  };

  /// Behind `begin`, the last entry of a snapshot of the shard at `from`.
  SnapshotTail(const SnapshotTailOptions& options, uint32_t table, uint32_t shard, NodeId from, EntryId begin,
               TimeNs now);

  /// What to send now. Its outcome goes to on_piece() or on_failed(), once.
  [[nodiscard]] std::optional<FetchTail> poll(TimeNs now);
  /// INVALID_ARGUMENT: it is not what was asked for; asked again. `frame` is for the decoder's use.
  [[nodiscard]] absl::StatusOr<Taken> on_piece(ByteSpan bytes, ReplicaFrame& frame, TimeNs now);
  void on_failed(const absl::Status& why, TimeNs now);
  /// The piece is where it can be read from.
  void kept();

  /// The last entry that was brought.
  [[nodiscard]] EntryId end() const { return end_; }
  /// A request is under way, or what it brought is not kept yet.
  [[nodiscard]] bool is_waiting() const { return waits_; }
  /// The source had nothing more.
  [[nodiscard]] bool at_end() const { return at_end_; }
  /// OUT_OF_RANGE: the source does not have what follows any more. Its snapshot is of no use.
  [[nodiscard]] bool is_lost() const { return lost_; }
  /// False: the source is of a build that does not know of this.
  [[nodiscard]] bool is_known() const { return known_; }

 private:
  [[nodiscard]] bool follows(const ReplicaFrame& frame) const;
  void pause(TimeNs now);

  const SnapshotTailOptions options_;
  const uint32_t table_;
  const uint32_t shard_;
  const NodeId from_;
  EntryId end_;
  bool waits_ = false;  // for an answer, or for kept()
  bool at_end_ = false;
  bool lost_ = false;
  bool known_ = true;
  TimeNs ask_at_ns_;
  DurationNs pause_ns_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_TAIL_H_
