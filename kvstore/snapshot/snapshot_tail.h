// SnapshotTail: requests the committed entries behind a snapshot while the files of the snapshot still travel. Pure: no
// clock, no files, no network.
//
//    primary's log   ... 4711 | 4712 4713 ...                        ... 9034 |<- what it keeps ->| 9950
//    snapshot's end ---------^                                                         ^
//                              \____ requested, kept in a file beside the copy ________/ end(): not far behind, however
//                                                                                        long the files take
//
// So the primary need not keep entries for the whole duration of a copy, only for times in which the tail cannot be
// requested. The bound on what it keeps (ShardReplica::Options::hold_bytes) limits neither the size of a shard nor the
// rate of writes to it.
//
// One request is under way at a time. The next one follows when the piece before it is kept. If a piece reaches the
// commit index, the tail is at its end, and the next request follows after a pause.
//
// Thread: one at a time.
#ifndef SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_TAIL_H_
#define SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_TAIL_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "kvstore/replication/copy_codec.h"
#include "kvstore/replication/message_codec.h"
#include "kvstore/types/mutation.h"
#include "rpc/base/clock.h"

namespace skua::kv {

struct SnapshotTailOptions {
  uint32_t bytes_max = kChunkBytesMax;  ///< of entries in one piece
  DurationNs idle_ns = 20 * kMillisecond;
  /// Pause after a failure; it doubles with each further failure.
  DurationNs pause_min_ns = 20 * kMillisecond;
  DurationNs pause_max_ns = kSecond;
};

class SnapshotTail {
 public:
  enum class Taken : uint8_t {
    kKeep,   ///< keep the piece, then call kept()
    kEmpty,  ///< the piece has no entries
  };

  /// Requests the entries behind `begin`, which is the last entry of a snapshot of the shard at `from`.
  SnapshotTail(const SnapshotTailOptions& options, ShardId shard, NodeId from, EntryId begin, TimeNs now);

  /// The request to send now, if any. Its outcome goes to on_piece() or on_failed(), once.
  [[nodiscard]] std::optional<FetchTail> poll(TimeNs now);
  /// INVALID_ARGUMENT and the decoder's errors: the piece is not what was requested; it is requested again. `frame` is
  /// scratch space for the decoder.
  [[nodiscard]] absl::StatusOr<Taken> on_piece(ByteSpan bytes, ReplicaFrame& frame, TimeNs now);
  /// The request was lost, not sent, or refused. OUT_OF_RANGE sets is_lost(), UNIMPLEMENTED clears is_known(); other
  /// errors cause a pause.
  void on_failed(const absl::Status& why, TimeNs now);
  /// The piece has been written to a place from which it can be read.
  void kept() { waits_ = false; }

  /// The last entry received.
  [[nodiscard]] EntryId end() const { return end_; }
  /// A request is under way, or its piece is not kept yet.
  [[nodiscard]] bool is_waiting() const { return waits_; }
  /// At the last piece, the source had no more committed entries.
  [[nodiscard]] bool at_end() const { return at_end_; }
  /// The source answered OUT_OF_RANGE: it no longer has the entries that follow. So its snapshot is useless.
  [[nodiscard]] bool is_lost() const { return lost_; }
  /// False: the source's build does not know this request.
  [[nodiscard]] bool is_known() const { return known_; }

 private:
  [[nodiscard]] bool follows(const ReplicaFrame& frame) const;
  void pause(TimeNs now);

  const SnapshotTailOptions options_;
  const ShardId shard_;
  const NodeId from_;
  EntryId end_;
  bool waits_ = false;  // for an answer or for kept()
  bool at_end_ = false;
  bool lost_ = false;
  bool known_ = true;
  TimeNs ask_at_ns_;
  DurationNs pause_ns_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SNAPSHOT_SNAPSHOT_TAIL_H_
