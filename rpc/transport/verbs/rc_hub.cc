#include "rpc/transport/verbs/rc_hub.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "rpc/base/check.h"
#include "rpc/transport/transport.h"

namespace skua::rpc::verbs {
namespace {

constexpr uint32_t kPsnMask = 0xffffff;
constexpr DurationNs kSweepEvery = 500 * kMillisecond;
/// Room for completions on their way, and for completions of pairs that ended.
constexpr int kCompletionsMax = static_cast<int>(2 * RcHub::kOwnersMax * RcHub::kOwnerDepth);
constexpr RcQueue::Depths kDepths{RcPair::kUsersMax * RcPair::kUserDepth, 1};

}  // namespace

RcHub::RcHub(Device& device, Rng rng) : device_(device), rng_(rng) {
  const ibv_device_attr& limits = device.limits();
  if (limits.max_qp_rd_atom <= 0 || !device.has_windows() || limits.max_cqe < kCompletionsMax ||
      limits.max_qp_wr < static_cast<int>(kDepths.send)) {
    return;
  }
  channel_ = ibv_create_comp_channel(device.context());
  if (channel_ == nullptr) return;
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  completions_ = ibv_create_cq(device.context(), kCompletionsMax, nullptr, channel_, 0);
  if (completions_ != nullptr) process_ = std::max<uint64_t>(rng_.next(), 1);
}

RcHub::~RcHub() {
  SKUA_CHECK(owners_.empty(), "an endpoint outlives its fabric");
  for (auto& [process, entry] : entries_) end_pair(entry);
  entries_.clear();
  if (completions_ != nullptr) ibv_destroy_cq(completions_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

// --- Owners ----------------------------------------------------------------------------------------------------------

uint32_t RcHub::add_owner(RcInbox& inbox) {
  const std::lock_guard lock(poll_mutex_);
  if (process_ == 0 || owners_.size() == kOwnersMax) return 0;
  do {
    last_owner_ = (last_owner_ + 1) & kOwnerMask;
  } while (last_owner_ == 0 || owners_.contains(last_owner_));
  owners_.emplace(last_owner_, &inbox);
  return last_owner_;
}

void RcHub::remove_owner(uint32_t owner) {
  const std::lock_guard lock(poll_mutex_);
  owners_.erase(owner);
}

void RcHub::poll(bool must) {
  // If another thread is polling, leave it to that thread.
  std::unique_lock lock(poll_mutex_, std::defer_lock);
  if (must) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;
  }
  std::array<ibv_wc, kBurstMax> completions;
  for (;;) {
    const int count = ibv_poll_cq(completions_, static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions.at(static_cast<size_t>(i));
      const auto owner = owners_.find(static_cast<uint32_t>(completion.wr_id >> kOwnerShift) & kOwnerMask);
      if (owner != owners_.end()) owner->second->put(completion);
    }
    if (count < static_cast<int>(completions.size())) return;
  }
}

void RcHub::arm() {
  ibv_req_notify_cq(completions_, 0);
}

void RcHub::on_event() {
  {
    const std::lock_guard lock(event_mutex_);
    ibv_cq* queue = nullptr;
    void* unused = nullptr;
    unsigned events = 0;
    while (ibv_get_cq_event(channel_, &queue, &unused) == 0) ++events;
    if (events > 0) ibv_ack_cq_events(completions_, events);
  }
  arm();
  poll(true);
}

// --- Pairs -----------------------------------------------------------------------------------------------------------

RcHub::Entry* RcHub::at(uint64_t process) {
  const auto found = entries_.find(process);
  if (found != entries_.end()) return &found->second;
  if (entries_.size() == kProcessesMax) make_room();
  if (entries_.size() == kProcessesMax) return nullptr;
  return &entries_[process];
}

/// Forgets processes that have no pair.
void RcHub::make_room() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second.pair == nullptr; });
}

bool RcHub::make_pair(uint64_t process, Entry& entry, TimeNs now) {
  absl::StatusOr<std::unique_ptr<RcQueue>> queue = RcQueue::create(
      device_, completions_, static_cast<uint32_t>(rng_.next()) & kPsnMask, kDepths, IBV_ACCESS_REMOTE_READ);
  if (!queue.ok()) {
    entry.handshake.end();
    return false;
  }
  entry.pair = std::make_shared<RcPair>(process, *std::move(queue), entry.progress, now);
  return true;
}

void RcHub::end_pair(Entry& entry) {
  if (entry.pair != nullptr) std::exchange(entry.pair, nullptr)->end();
}

std::optional<ConnectMessage> RcHub::word_of(const Entry& entry) {
  ConnectMessage out = entry.handshake.message();
  if (entry.pair == nullptr || out.generation == 0 || !entry.pair->describe(out.qp_number, out.psn, out.reads_served)) {
    return std::nullopt;
  }
  return out;
}

std::optional<ConnectMessage> RcHub::word_for(uint64_t process, TimeNs now) {
  const std::lock_guard lock(mutex_);
  Entry* entry = at(process);
  if (entry == nullptr) return std::nullopt;
  if (!entry->handshake.running()) {
    entry->handshake.begin(now);
    if (!make_pair(process, *entry, now)) return std::nullopt;
  }
  return word_of(*entry);
}

RcHub::Heard RcHub::on_word(uint64_t process, const ConnectMessage& word, const RcQueue::Remote& remote, TimeNs now) {
  const std::lock_guard lock(mutex_);
  Heard heard;
  Entry* entry = at(process);
  if (entry == nullptr) return heard;
  const bool was_ready = entry->handshake.ready();
  const RcHandshake::Action action = entry->handshake.on_message(word, now);
  if (action.close || action.renew) end_pair(*entry);
  if (action.renew && !make_pair(process, *entry, now)) return heard;
  if (action.bind) {
    RcQueue::Remote whole = remote;
    whole.qp_number = word.qp_number;
    whole.psn = word.psn;
    whole.reads_served = word.reads_served;
    if (!entry->pair->connect(whole)) {
      entry->handshake.end();
      end_pair(*entry);
      return heard;
    }
  }
  heard.news = action.bind || (entry->handshake.ready() && !was_ready);
  heard.answer = action.answer;
  return heard;
}

RcHub::Standing RcHub::standing(uint64_t process) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(process);
  if (found == entries_.end() || found->second.pair == nullptr || !found->second.handshake.ready()) return {};
  return {found->second.pair, found->second.handshake.connection()};
}

bool RcHub::is_held(uint64_t process, TimeNs now) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(process);
  return found != entries_.end() && found->second.progress->is_held(now);
}

std::optional<ConnectMessage> RcHub::end(const RcPair& pair) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(pair.process());
  if (found == entries_.end() || found->second.pair.get() != &pair) return std::nullopt;
  std::optional<ConnectMessage> word = word_of(found->second);
  if (word.has_value()) word->state = ConnectMessage::State::kClosed;
  found->second.handshake.end();
  end_pair(found->second);
  return word;
}

void RcHub::sweep(TimeNs now) {
  const std::lock_guard lock(mutex_);
  if (now < next_sweep_ns_) return;
  next_sweep_ns_ = now + kSweepEvery;
  for (auto& [process, entry] : entries_) {
    if (entry.pair == nullptr || now - entry.pair->begun_ns() < kUnansweredMax) continue;
    if (entry.handshake.ready() && entry.pair->users() > 0) continue;
    entry.handshake.end();
    end_pair(entry);
  }
}

size_t RcHub::pair_count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::ranges::count_if(entries_, [](const auto& e) { return e.second.pair != nullptr; }));
}

PeerProgress::Counts RcHub::counts(uint64_t process) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(process);
  return found == entries_.end() ? PeerProgress::Counts() : found->second.progress->counts();
}

}  // namespace skua::rpc::verbs
