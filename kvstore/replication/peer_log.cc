#include "kvstore/replication/peer_log.h"

#include <utility>

namespace skua::kv {

void PeerLog::forget() {
  is_matched_ = needs_snapshot_ = is_refused_ = false;
  agreed_ = next_ = 0;
  acked_ = {};
}

PeerLog::Report PeerLog::take_report(const std::optional<EntryId>& common, uint64_t first_available, bool is_member) {
  if (is_member && common && common->index < acked_.durable) {
    return std::exchange(was_too_short_, true) ? Report::kHasLost : Report::kTooShort;
  }
  was_too_short_ = false;
  if (!common || common->index + 1 < first_available) {
    need_snapshot();
    return Report::kTooFarBehind;
  }
  is_matched_ = true;
  needs_snapshot_ = is_refused_ = false;
  agreed_ = common->index;
  next_ = agreed_ + 1;
  // The peer may have lost entries that were written but not synced.
  acked_.received = std::min(acked_.received, agreed_);
  acked_.written = std::min(acked_.written, agreed_);
  return Report::kAgrees;
}

bool PeerLog::take_heartbeat_reply(TimeNs sent_ns, uint64_t received, uint64_t base) {
  if (!is_matched_ || sent_ns <= last_send_ns_ || received >= next_ - 1) return false;
  // The peer has the entries up to `agreed_` but may not know that they agree. They need not be sent again, and may not
  // be readable here any more.
  next_ = std::max({received, agreed_, base}) + 1;
  return received < agreed_;
}

std::optional<PeerLog::Range> PeerLog::send_next(uint64_t last_index, const ReplicaOptions& options, TimeNs now) {
  const uint64_t window_end = acked_.received + options.window_entries_max;
  const uint64_t end = std::min(last_index, window_end);
  if (next_ > end) return std::nullopt;
  const Range range{next_, std::min(end, next_ + options.append_entries_max - 1)};
  next_ = range.last + 1;
  last_send_ns_ = now;
  return range;
}

}  // namespace skua::kv
