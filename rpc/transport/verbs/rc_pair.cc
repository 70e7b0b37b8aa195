#include "rpc/transport/verbs/rc_pair.h"

#include <algorithm>

namespace skua::rpc::verbs {

// --- RcInbox ---------------------------------------------------------------------------------------------------------

RcInbox::RcInbox(std::function<void()> wake, size_t completions_max) : wake_(std::move(wake)) {
  completions_.reserve(completions_max);
}

void RcInbox::put(const ibv_wc& completion) {
  {
    const std::lock_guard lock(mutex_);
    completions_.push_back(completion);
  }
  wake_sleeper();
}

void RcInbox::poke() {
  poked_.store(true);
  wake_sleeper();
}

void RcInbox::wake_sleeper() {
  // The sleeper stores and loads in the opposite order, so at least one side sees the other's store.
  has_mail_.store(true);
  if (sleeping_.load()) wake_();
}

bool RcInbox::take(std::vector<ibv_wc>& out) {
  out.clear();
  has_mail_.store(false);
  const bool poked = poked_.exchange(false);
  const std::lock_guard lock(mutex_);
  out.swap(completions_);
  return poked;
}

// --- PeerProgress ----------------------------------------------------------------------------------------------------

void PeerProgress::on_post(TimeNs now) {
  const std::lock_guard lock(mutex_);
  progress_.on_post(now);
}

void PeerProgress::on_end(uint32_t bytes, TimeNs now) {
  const std::lock_guard lock(mutex_);
  progress_.on_end(bytes, now);
  ++counts_.reads;
  counts_.read_bytes += bytes;
}

bool PeerProgress::give_up_stalled(TimeNs now) {
  const std::lock_guard lock(mutex_);
  // READs under way are about to fail; do not count a second stall until they have.
  if (!progress_.is_stalled(now) || progress_.is_held(now)) return false;
  progress_.hold_back(now);
  was_held_.store(true, std::memory_order_relaxed);
  ++counts_.stalls;
  return true;
}

bool PeerProgress::is_held(TimeNs now) const {
  const std::lock_guard lock(mutex_);
  return progress_.was_held() && progress_.is_held(now);
}

PeerProgress::Counts PeerProgress::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// --- RcPair ----------------------------------------------------------------------------------------------------------

bool RcPair::join(RcInbox& user) {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr || users_.size() == kUsersMax) return false;
  users_.push_back(&user);
  return true;
}

size_t RcPair::leave(RcInbox& user) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(users_, &user);
  if (found != users_.end()) users_.erase(found);
  return users_.size();
}

size_t RcPair::users() const {
  const std::lock_guard lock(mutex_);
  return users_.size();
}

bool RcPair::describe(uint32_t& qp_number, uint32_t& psn, uint8_t& reads_served) const {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return false;
  qp_number = queue_->number();
  psn = queue_->psn();
  reads_served = queue_->reads_served();
  return true;
}

bool RcPair::connect(const RcQueue::Remote& remote) {
  const std::lock_guard lock(mutex_);
  return queue_ != nullptr && queue_->bind(remote).ok();
}

bool RcPair::post(ibv_send_wr* first) {
  const std::lock_guard lock(mutex_);
  return queue_ != nullptr && queue_->post(first);
}

RcPair::Bind RcPair::bind(ibv_send_wr* request, ibv_mw* window) {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return Bind::kOver;
  bound_.push_back(window);
  return queue_->post(request) ? Bind::kPosted : Bind::kRefused;
}

void RcPair::on_bound(ibv_mw* window, uint32_t key) {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr) window->rkey = key;
}

bool RcPair::forget(ibv_mw* window) {
  if (queue_ == nullptr) return false;
  const auto found = std::ranges::find(bound_, window);
  if (found == bound_.end()) return false;
  *found = bound_.back();
  bound_.pop_back();
  return true;
}

bool RcPair::let_go(ibv_mw* window) {
  const std::lock_guard lock(mutex_);
  return forget(window);
}

void RcPair::close(ibv_mw* window) {
  const std::lock_guard lock(mutex_);
  if (forget(window)) ibv_dealloc_mw(window);
}

bool RcPair::in_error() const {
  const std::lock_guard lock(mutex_);
  return queue_ == nullptr || queue_->in_error();
}

void RcPair::end() {
  const std::lock_guard lock(mutex_);
  if (queue_ == nullptr) return;
  // A device may keep a queue pair as long as it has a bound window.
  if (!bound_.empty()) queue_->fail();
  for (ibv_mw* window : bound_) ibv_dealloc_mw(window);
  bound_.clear();
  queue_.reset();
  over_.store(true, std::memory_order_release);
  for (RcInbox* user : users_) user->poke();
}

void RcPair::fail_for_test() {
  const std::lock_guard lock(mutex_);
  if (queue_ != nullptr) queue_->fail();
}

}  // namespace skua::rpc::verbs
