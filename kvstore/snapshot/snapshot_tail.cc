#include "kvstore/snapshot/snapshot_tail.h"

#include <algorithm>
#include <variant>

namespace skua::kv {

SnapshotTail::SnapshotTail(const SnapshotTailOptions& options, ShardId shard, NodeId from, EntryId begin, TimeNs now)
    : options_(options), shard_(shard), from_(from), end_(begin), ask_at_ns_(now), pause_ns_(options.pause_min_ns) {}

std::optional<FetchTail> SnapshotTail::poll(TimeNs now) {
  if (waits_ || lost_ || !known_ || now < ask_at_ns_) return std::nullopt;
  waits_ = true;
  return FetchTail{shard_.table_id, shard_.shard, end_.index, options_.bytes_max};
}

/// True if the frame is an Append of this shard from its primary that follows the last entry received.
bool SnapshotTail::follows(const ReplicaFrame& frame) const {
  const auto* const append = std::get_if<Append>(&frame.message);
  if (append == nullptr || ShardId{frame.envelope.table, frame.envelope.shard} != shard_ ||
      frame.envelope.from != from_) {
    return false;
  }
  // A source that no longer knows an epoch says 0.
  const bool agrees = append->prev.epoch == end_.epoch || append->prev.epoch == 0 || end_.epoch == 0;
  // The source chooses the end of the copy. If that is the highest possible index, no entry may follow; the subtraction
  // avoids an overflow.
  const bool committed =
      append->commit_index >= end_.index && append->epochs.size() <= append->commit_index - end_.index;
  return append->prev.index == end_.index && agrees && committed && std::ranges::is_sorted(append->epochs) &&
         (append->epochs.empty() || append->epochs.front() >= end_.epoch);
}

absl::StatusOr<SnapshotTail::Taken> SnapshotTail::on_piece(ByteSpan bytes, ReplicaFrame& frame, TimeNs now) {
  absl::Status status = decode_frame(bytes, frame);
  if (status.ok() && !follows(frame)) status = absl::InvalidArgumentError("these entries are not those that follow");
  if (!status.ok()) {
    waits_ = false;
    pause(now);
    return status;
  }
  const Append& append = std::get<Append>(frame.message);
  pause_ns_ = options_.pause_min_ns;
  at_end_ = end_.index + append.epochs.size() == append.commit_index;
  ask_at_ns_ = at_end_ ? now + options_.idle_ns : now;
  if (append.epochs.empty()) {
    waits_ = false;
    return Taken::kEmpty;
  }
  end_ = {end_.index + append.epochs.size(), append.epochs.back()};
  return Taken::kKeep;
}

void SnapshotTail::on_failed(const absl::Status& why, TimeNs now) {
  waits_ = false;
  lost_ = lost_ || absl::IsOutOfRange(why);
  known_ = known_ && !absl::IsUnimplemented(why);
  pause(now);
}

void SnapshotTail::pause(TimeNs now) {
  ask_at_ns_ = now + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, options_.pause_max_ns);
}

}  // namespace skua::kv
