// Memory of RcConnections: registered and opened regions, and windows, which lend memory to peers (rc_connections.h
// shows their states).
#include <utility>

#include "rpc/transport/verbs/rc_connections.h"

namespace skua::rpc::verbs {
namespace {

constexpr DurationNs kRegisterAgainAfter = kSecond;

}  // namespace

// --- Regions ---------------------------------------------------------------------------------------------------------

const RegionTable::Region* RcConnections::local_region(ByteSpan bytes) {
  if (const RegionTable::Region* known = local_.find(bytes); known != nullptr) return known;
  const RegionTable::Region* region = host_.regions().find(bytes);
  if (region == nullptr) return nullptr;
  const TimeNs now = clock_.now_ns();
  if (now < register_again_ns_) return nullptr;
  absl::StatusOr<Registration> registration = device_.local_memory().acquire(region->bytes);
  if (!registration.ok()) {
    // After a failure, do not try again for a while: else every large message would make a system call in vain.
    register_again_ns_ = now + kRegisterAgainAfter;
    return nullptr;
  }
  local_.add(region->bytes, *registration);
  return local_.find(bytes);
}

void RcConnections::forget(MutableByteSpan region) {
  if (local_.remove(region)) device_.local_memory().release(region);
}

absl::StatusOr<MemoryName> RcConnections::open_region(MutableByteSpan region, uint8_t rights) {
  absl::StatusOr<Registration> registration = device_.open_memory(region, rights);
  if (!registration.ok()) return registration.status();
  open_.emplace(registration->key, *registration);
  return MemoryName{reinterpret_cast<uintptr_t>(region.data()), registration->key};
}

void RcConnections::close_region(uint32_t key) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  device_.close_memory(found->second);
  open_.erase(found);
}

// --- Windows ---------------------------------------------------------------------------------------------------------

std::optional<Loan> RcConnections::lend(PeerId peer, ByteSpan bytes, uint64_t cookie) {
  if (!device_.has_windows()) return std::nullopt;
  // Use the way whose number connection() returned.
  const Connection* share = find(shared_way(peer));
  const Way way = share != nullptr && shared_number(*share) != 0 ? shared_way(peer) : own_way(peer);
  Connection* connection = find(way);
  const bool stands = connection != nullptr && connection->handshake.ready() && !connection->broken;
  if (!stands || !has_room(way, *connection) || connection->windows == kWindowsPerPeerMax) return std::nullopt;
  const RegionTable::Region* region = local_region(bytes);
  if (region == nullptr) return std::nullopt;
  const std::optional<uint32_t> number = take_window();
  if (!number.has_value()) return std::nullopt;
  Window& window = windows_[*number];
  window.way = way;
  window.cookie = cookie;
  ++connection->windows;
  bind(*number, *region, bytes);
  return Loan{*number, {reinterpret_cast<uintptr_t>(bytes.data()), window.key}};
}

std::optional<uint32_t> RcConnections::take_window() {
  if (free_windows_.empty()) {
    if (windows_.size() == kWindowsMax) return std::nullopt;
    free_windows_.push_back(static_cast<uint32_t>(windows_.size()));
    windows_.emplace_back();
  }
  Window& window = windows_[free_windows_.back()];
  if (window.window == nullptr) {
    window.window = ibv_alloc_mw(device_.remote_domain(), IBV_MW_TYPE_2);
    if (window.window == nullptr) return std::nullopt;
    window.key = window.window->rkey;
  }
  const uint32_t number = free_windows_.back();
  free_windows_.pop_back();
  return number;
}

void RcConnections::bind(uint32_t number, const RegionTable::Region& region, ByteSpan bytes) {
  Window& window = windows_[number];
  window.state = Window::State::kLending;
  window.key = ibv_inc_rkey(window.key);
  ibv_send_wr request{};
  request.wr_id = request_id(take_slot(window.way, Slot::Kind::kLent, number));
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = IBV_SEND_SIGNALED;
  request.bind_mw.mw = window.window;
  request.bind_mw.rkey = window.key;
  request.bind_mw.bind_info.mr = static_cast<ibv_mr*>(region.handle);
  request.bind_mw.bind_info.addr = reinterpret_cast<uintptr_t>(bytes.data());
  request.bind_mw.bind_info.length = bytes.size();
  request.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
  Connection& connection = *connections_[window.way];
  bool posted = false;
  if (connection.pair != nullptr) {
    const RcPair::Bind bound = connection.pair->bind(&request, window.window);
    window.with_pair = bound != RcPair::Bind::kOver;
    posted = bound == RcPair::Bind::kPosted;
  } else {
    posted = connection.queue->post(&request);
  }
  // A refused request completes when its connection ends, which is now broken.
  if (!posted) mark_broken(window.way);
}

void RcConnections::take_back(uint64_t loan) {
  const auto number = static_cast<uint32_t>(loan);
  Window& window = windows_[number];
  if (window.state == Window::State::kDead) return finish_window(number);
  if (window.state == Window::State::kLending) {
    window.end_wanted = true;
    return;
  }
  window.state = Window::State::kEnding;
  invalidate(number);
}

void RcConnections::invalidate(uint32_t number) {
  Window& window = windows_[number];
  Connection& connection = *connections_[window.way];
  const bool is_over = connection.queue == nullptr && connection.pair == nullptr;
  if (connection.broken || connection.ending || is_over) return;  // end_windows() will finish it
  if (!has_room(window.way, connection)) return to_invalidate_.push_back(number);
  window.posted = true;
  ibv_send_wr request{};
  request.wr_id = request_id(take_slot(window.way, Slot::Kind::kTakenBack, number));
  request.opcode = IBV_WR_LOCAL_INV;
  request.send_flags = IBV_SEND_SIGNALED;
  request.invalidate_rkey = window.key;
  if (!post_to(connection, &request)) mark_broken(window.way);
}

void RcConnections::invalidate_waiting() {
  size_t kept = 0;
  for (size_t i = 0; i < to_invalidate_.size(); ++i) {
    const uint32_t number = to_invalidate_[i];
    const Window& window = windows_[number];
    // Windows whose connection ended are finished already, and may be in use again.
    if (window.state != Window::State::kEnding || window.posted) continue;
    if (has_room(window.way, *connections_[window.way])) {
      invalidate(number);
    } else {
      to_invalidate_[kept++] = number;
    }
  }
  to_invalidate_.resize(kept);
}

void RcConnections::on_window_done(Slot::Kind kind, uint32_t number, bool ok) {
  Window& window = windows_[number];
  if (kind == Slot::Kind::kTakenBack) {
    // If the invalidation failed, the connection is broken, and the window ends with it.
    if (ok) finish_window(number);
    return;
  }
  done_.push_back({window.cookie, ok, kind});
  // The next BIND_MW must give the key that the device knows.
  if (ok && window.with_pair) {
    connections_[window.way]->pair->on_bound(window.window, window.key);
  } else if (ok && window.window != nullptr) {
    window.window->rkey = window.key;
  }
  window.state = ok ? Window::State::kLent : Window::State::kDead;
  if (std::exchange(window.end_wanted, false)) take_back(number);
}

/// The connection is about to end. When this returns, no peer reaches memory through its windows.
void RcConnections::close_windows(Way way) {
  RcQueue* queue = connections_[way]->queue.get();
  for (Window& window : windows_) {
    if (window.way != way || window.window == nullptr) continue;
    // A device may keep a queue pair as long as it has a bound window.
    if (queue != nullptr) std::exchange(queue, nullptr)->fail();
    ibv_dealloc_mw(std::exchange(window.window, nullptr));
  }
}

/// The connection has ended, and all its work requests have too.
void RcConnections::end_windows(Way way) {
  for (uint32_t number = 0; number < windows_.size(); ++number) {
    Window& window = windows_[number];
    if (window.way != way) continue;
    const bool ending = window.state == Window::State::kEnding;
    window.state = Window::State::kDead;
    if (ending) finish_window(number);
  }
}

void RcConnections::finish_window(uint32_t number) {
  Window& window = windows_[number];
  done_.push_back({window.cookie, true, OneSidedCompletion::Kind::kTakenBack});
  window.state = Window::State::kFree;
  window.posted = false;
  Connection& connection = *connections_[window.way];
  --connection.windows;
  // If the pair has ended, it took the window with it.
  if (std::exchange(window.with_pair, false) && !connection.pair->let_go(window.window)) window.window = nullptr;
  window.way = kNoWay;
  free_windows_.push_back(number);
}

}  // namespace skua::rpc::verbs
