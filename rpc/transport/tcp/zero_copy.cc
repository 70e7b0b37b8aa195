#include "rpc/transport/tcp/zero_copy.h"

#include "rpc/base/check.h"

namespace skua::rpc::tcp {
namespace {

static_assert((kZeroCopyWritesMax & (kZeroCopyWritesMax - 1)) == 0, "write numbers are masked");
static_assert((kZeroCopyWaitingMax & (kZeroCopyWaitingMax - 1)) == 0, "the ring masks its index");
static_assert(kZeroCopyWaitingMax < kNoticeMask / 2, "a count names packets that wait without doubt");

}  // namespace

void ZeroCopySends::turn_on(bool believes_peer) {
  is_on_ = true;
  believes_peer_ = believes_peer;
}

uint32_t ZeroCopySends::add_write() {
  if (state_ == nullptr) state_ = std::make_unique<State>();
  return next_write_++;
}

void ZeroCopySends::wait_for(TxToken token, uint32_t last_write, bool asked, TxCompletions& completions) {
  SKUA_CHECK(waiting_count_ < kZeroCopyWaitingMax, "more packets wait for the kernel than there is room for");
  state_->waiting[(first_waiting_ + waiting_count_++) & (kZeroCopyWaitingMax - 1)] = {token, last_write, asked_, asked};
  // The rest of the packet may have been copied, long after the kernel finished `last_write`.
  complete_free(completions);
}

void ZeroCopySends::on_writes_done(uint32_t first, uint32_t last, TxCompletions& completions) {
  const uint32_t open = next_write_ - first_open_;
  if (last - first_open_ >= open || first - first_open_ > last - first_open_) return;
  for (uint32_t write = first; write != last + 1; ++write) state_->is_done[write & (kZeroCopyWritesMax - 1)] = true;
  while (first_open_ != next_write_ && state_->is_done[first_open_ & (kZeroCopyWritesMax - 1)]) {
    state_->is_done[first_open_++ & (kZeroCopyWritesMax - 1)] = false;
  }
  is_paused_ = false;
  complete_free(completions);
}

void ZeroCopySends::on_no_memory() {
  // A note from the kernel ends the pause. If no write is open, no note will come, so turn off.
  if (first_open_ == next_write_) turn_off();
  is_paused_ = true;
}

bool ZeroCopySends::on_peer_has(uint32_t count, TxCompletions& completions) {
  if (((count - peer_has_) & kNoticeMask) > ((asked_ - peer_has_) & kNoticeMask)) return false;
  peer_has_ = count;
  complete_free(completions);
  return true;
}

bool ZeroCopySends::is_free(const Waiting& packet) const {
  // A waiting packet's last write is either at or after first_open_, or finished.
  if (static_cast<int32_t>(first_open_ - packet.last_write) > 0) return true;
  return packet.asked && ((peer_has_ - packet.ask) & kNoticeMask) <= kNoticeMask / 2;
}

void ZeroCopySends::complete_front(TxCompletions& completions) {
  completions.complete(state_->waiting[first_waiting_].token);
  first_waiting_ = (first_waiting_ + 1) & (kZeroCopyWaitingMax - 1);
  --waiting_count_;
}

void ZeroCopySends::complete_free(TxCompletions& completions) {
  while (waiting_count_ > 0 && is_free(state_->waiting[first_waiting_])) complete_front(completions);
}

void ZeroCopySends::complete_all(TxCompletions& completions) {
  while (waiting_count_ > 0) complete_front(completions);
}

}  // namespace skua::rpc::tcp
