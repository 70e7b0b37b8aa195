#include "rpc/transport/tcp/links.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc::tcp {
namespace {

constexpr uint64_t kListenerData = UINT64_MAX;
constexpr uint64_t kWakeData = UINT64_MAX - 1;
constexpr uint32_t kGone = EPOLLRDHUP | EPOLLHUP;

absl::Status descriptor_error(const char* what) {
  return absl::UnavailableError(absl::StrCat("cannot make ", what, " for the TCP transport: ", errno_text(errno),
                                             "; raise the limit (ulimit -n)"));
}

}  // namespace

Links::Links(const Environment& environment) : env_(environment) {
  active_.reserve(kEpollEventsMax);
  failed_.reserve(kEpollEventsMax);
}

Links::~Links() {
  // The engine no longer exists: do not call the placer, report nothing.
  env_.rx->placer = nullptr;
  for (std::unique_ptr<Connection>& connection : slots_) {
    if (connection == nullptr) continue;
    connection->receiver.reset(*env_.rx);
    // After this nobody keeps the packets' memory unchanged, so the kernel must forget it.
    if (connection->sends.has_waiting()) forget_writes(connection->fd.get());
  }
}

absl::Status Links::open() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.is_open()) return descriptor_error("an epoll instance");
  wake_fd_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_fd_.is_open()) return descriptor_error("an eventfd");
  // Edge-triggered: the eventfd never needs to be read.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = kWakeData}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_fd_.get(), &event) != 0) {
    return descriptor_error("an epoll entry");
  }
  const TcpOptions& options = *env_.options;
  if (options.listen_ip.empty()) return absl::OkStatus();

  absl::StatusOr<SocketAddress> at = SocketAddress::parse(options.listen_ip, options.listen_port);
  if (!at.ok()) return at.status();
  absl::StatusOr<UniqueFd> listener = listen_on(*at, address_);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  event = {.events = EPOLLIN | EPOLLET, .data = {.u64 = kListenerData}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0) {
    return descriptor_error("an epoll entry");
  }
  if (!options.advertise_ip.empty()) {
    absl::StatusOr<SocketAddress> said = SocketAddress::parse(options.advertise_ip, address_.port);
    if (!said.ok()) return said.status();
    address_ = *said;
  } else if (address_.is_wildcard()) {
    address_ = reachable_address(address_.family, address_.port);
  }
  return absl::OkStatus();
}

// --- Connections

Connection* Links::add_connection(UniqueFd fd, bool outgoing, const SocketAddress& remote) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  auto connection = std::make_unique<Connection>();
  connection->slot = free_slots_.back();
  connection->generation = next_generation_++;
  connection->outgoing = outgoing;
  connection->state = outgoing ? Connection::State::kConnecting : Connection::State::kHello;
  connection->remote = remote;
  connection->hello = std::make_unique<HelloReader>(outgoing ? HelloKind::kReply : HelloKind::kHello);
  connection->deadline_ns = env_.clock->now_ns() + env_.options->connect_timeout_ns;
  tune_connection(fd.get(), env_.options->peer_timeout_ns);
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {}};
  event.data.u64 = uint64_t{connection->generation} << 32 | connection->slot;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return nullptr;
  connection->fd = std::move(fd);
  free_slots_.pop_back();
  Connection* added = connection.get();
  slots_[added->slot] = std::move(connection);
  handshakes_.push_back(added);
  return added;
}

Connection* Links::find(uint64_t event_data) const {
  const auto slot = static_cast<uint32_t>(event_data);
  const auto generation = static_cast<uint32_t>(event_data >> 32);
  Connection* connection = slot < slots_.size() ? slots_[slot].get() : nullptr;
  return connection != nullptr && connection->generation == generation ? connection : nullptr;
}

void Links::activate(Connection& connection) {
  connection.readable = true;
  connection.idle_reads = 0;
  if (connection.active) return;
  connection.active = true;
  active_.push_back(&connection);
}

void Links::deactivate(Connection& connection) {
  if (connection.active) std::erase(active_, &connection);
  connection.active = false;
}

void Links::fail(Connection& connection, absl::Status why) {
  if (!connection.broken.ok()) return;
  connection.broken = std::move(why);
  deactivate(connection);
  failed_.push_back(&connection);
}

/// Queues the LinkEvent of the connection's peer and frees the connection.
void Links::close(Connection& connection, LinkEvent::Kind kind, const absl::Status& why) {
  const PeerId id = connection.peer;
  const EndpointIdentity identity = connection.identity;
  const TimeNs up_since_ns = connection.up_since_ns;
  Peer* peer = id == kNoPeer ? nullptr : &env_.peers->at(id);
  const bool was_link = peer != nullptr && peer->link == &connection;
  const bool was_dial = peer != nullptr && peer->dial == &connection;
  if (was_link) peer->link = nullptr;
  if (was_link && !connection.outgoing) {
    const auto callers = callers_.find(connection.remote.ip);
    if (--callers->second == 0) callers_.erase(callers);
    --caller_count_;
  }
  if (was_link) peer->tx.drop(&connection.sends, *env_.completions);
  close_quietly(connection);
  if (was_dial) {
    peer->dial = nullptr;
    dial_failed(*peer, kind, why);
  }
  if (!was_link) return;
  --link_count_;
  ++stats_.links_lost;
  const TimeNs now = env_.clock->now_ns();
  // If the connection stood for a while, redial at once. If it broke soon after it was made, count a failure.
  if (now - up_since_ns >= env_.options->reconnect_max_ns) {
    peer->failures = 0;
    peer->retry_at_ns = now;
  } else {
    back_off(*peer, now);
  }
  env_.peers->retire(*peer);
  env_.peers->push_event({.peer = id, .kind = kind, .identity = identity, .why = why});
}

void Links::close_quietly(Connection& connection) {
  deactivate(connection);
  std::erase(handshakes_, &connection);
  std::erase(failed_, &connection);
  if (connection.owes) std::erase(owing_, &connection);
  if (connection.sends.has_waiting()) bury(connection);
  if (connection.tx_blocked) --blocked_count_;
  connection.receiver.reset(*env_.rx);
  free_slots_.push_back(connection.slot);
  slots_[connection.slot].reset();
}

void Links::after_read(Connection& connection, RxOutcome outcome, bool produced) {
  const int error = errno;
  const auto from = [&] { return name_of(env_.peers->at(connection.peer)); };
  connection.idle_reads = produced ? 0 : connection.idle_reads + 1;
  if (produced) {
    producer_streak_ = last_producer_ == connection.generation ? producer_streak_ + 1 : 0;
    last_producer_ = connection.generation;
  }
  if (!connection.receiver.is_between_frames()) some_are_half_ = true;
  if (connection.dialect->has_notices) take_notices(connection);
  switch (outcome) {
    case RxOutcome::kMore:
    case RxOutcome::kStarved: connection.readable = true; return;
    case RxOutcome::kDrained:
      connection.readable = connection.hung_up;
      connection.drained = true;
      return;
    case RxOutcome::kEnd:
      fail(connection, absl::UnavailableError(absl::StrCat(from(), " closed the connection")));
      return;
    case RxOutcome::kMalformed:
      ++env_.rx->counters->rx_dropped;
      fail(connection,
           absl::UnavailableError(absl::StrCat(from(), " sent a malformed frame; the connection was closed")));
      return;
    case RxOutcome::kError:
      fail(connection, absl::UnavailableError(absl::StrCat("connection to ", from(), " broke: ", errno_text(error))));
      return;
  }
}

bool Links::is_hot(const Connection& connection) const {
  if (link_count_ == 1) return connection.idle_reads <= kHotIdleAlone;
  return connection.generation == last_producer_ && producer_streak_ >= kHotStreak &&
         connection.idle_reads <= kHotIdleAmongOthers;
}

void Links::sweep_active() {
  for (size_t i = 0; i < active_.size();) {
    Connection& connection = *active_[i];
    if (connection.readable || is_hot(connection)) {
      ++i;
      continue;
    }
    connection.active = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
}

void Links::spill_all() {
  for (std::unique_ptr<Connection>& connection : slots_) {
    if (connection != nullptr) connection->receiver.spill(*env_.rx);
  }
}

void Links::cancel_placements(RxPlacer* placer) {
  for (std::unique_ptr<Connection>& connection : slots_) {
    if (connection != nullptr) connection->receiver.cancel_placement(placer);
  }
}

// --- Events

bool Links::turn_due() {
  ++bursts_since_turn_;
  return active_.empty() || bursts_since_turn_ >= kEpollEveryBursts || blocked_count_ > 0 || events_pending_ > 0 ||
         !failed_.empty();
}

void Links::turn() {
  bursts_since_turn_ = 0;
  const int count = events_pending_ > 0 ? events_pending_ : wait_epoll(0);
  events_pending_ = 0;
  for (int i = 0; i < count; ++i) handle(events_[static_cast<size_t>(i)]);
  if (!graves_.empty()) visit_graves();
  if (has_timers()) run_timers();
  while (!failed_.empty()) {
    Connection& connection = *failed_.back();
    const absl::Status why = connection.broken;
    close(connection, LinkEvent::Kind::kDown, why);
  }
}

void Links::handle(const epoll_event& event) {
  if (event.data.u64 == kWakeData) return;
  if (event.data.u64 == kListenerData) {
    if (accept_again_ns_ == kTimeNever) accept_some();
    return;
  }
  Connection* connection = find(event.data.u64);
  if (connection == nullptr || !connection->broken.ok()) return;
  switch (connection->state) {
    case Connection::State::kConnecting: return on_connecting(*connection, event.events);
    case Connection::State::kHello: return on_hello_bytes(*connection);
    case Connection::State::kFrames: break;
  }
  // EPOLLERR means either notes in the error queue, or an error.
  const bool has_error = (event.events & EPOLLERR) != 0 && !read_notes(*connection);
  if ((event.events & kGone) != 0) connection->hung_up = true;
  if ((event.events & (EPOLLIN | kGone)) != 0 || has_error) activate(*connection);
  if ((event.events & EPOLLOUT) != 0 && connection->tx_blocked) {
    connection->tx_blocked = false;
    --blocked_count_;
    flush(env_.peers->at(connection->peer));
  }
}

/// An edge with nothing new: its bytes were already read, or the socket was writable before.
bool Links::is_idle_event(const epoll_event& event) const {
  if (event.data.u64 == kWakeData) return true;
  if (event.data.u64 == kListenerData || event.events != EPOLLOUT) return false;
  const Connection* connection = find(event.data.u64);
  return connection == nullptr || (connection->state == Connection::State::kFrames && !connection->tx_blocked);
}

int Links::wait_epoll(DurationNs timeout_ns) {
  if (timeout_ns <= 0) {
    return std::max(0, epoll_wait(epoll_.get(), events_.data(), kEpollEventsMax, 0));
  }
  const timespec timeout{.tv_sec = timeout_ns / kSecond, .tv_nsec = timeout_ns % kSecond};
  int count = epoll_pwait2(epoll_.get(), events_.data(), kEpollEventsMax, &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {
    // Kernels before 5.11 have no epoll_pwait2; epoll_wait counts in milliseconds.
    const auto ms = std::min<DurationNs>((timeout_ns + kMillisecond - 1) / kMillisecond, INT32_MAX);
    count = epoll_wait(epoll_.get(), events_.data(), kEpollEventsMax, static_cast<int>(ms));
  }
  return std::max(0, count);
}

/// The next rx_burst handles the events, because connections may only be closed there.
void Links::take_events(DurationNs timeout_ns) {
  const auto begin = events_.begin();
  const auto end = begin + wait_epoll(timeout_ns);
  const auto idle = [this](const epoll_event& event) { return is_idle_event(event); };
  events_pending_ = static_cast<int>(std::remove_if(begin, end, idle) - begin);
}

DurationNs Links::begin_wait(DurationNs timeout_ns) {
  if (owes()) tell_owed();
  if (events_pending_ > 0 || !failed_.empty() || env_.peers->has_events()) return 0;
  const bool has_chunk = env_.rx->chunks->has_fresh();
  for (const Connection* connection : active_) {
    if (connection->readable && (has_chunk || connection->receiver.reads_without_chunk())) return 0;
  }
  const DurationNs until_timer =
      has_timers() ? std::max<DurationNs>(next_timer_ns() - env_.clock->now_ns(), 0) : kTimeNever;
  const DurationNs left = std::min(timeout_ns, until_timer);
  if (left <= 0) return 0;
  // A wake() that comes from now on writes to wake_fd_. One that came before is seen here.
  sleeping_.store(true);
  if (!woken_.load()) return left;
  stop_sleeping();
  return 0;
}

void Links::end_wait() {
  take_events(0);
  stop_sleeping();
}

void Links::stop_sleeping() {
  sleeping_.store(false);
  woken_.store(false);
}

void Links::wait(DurationNs timeout_ns) {
  DurationNs left = begin_wait(timeout_ns);
  if (left == 0) return;
  const TimeNs now = env_.clock->now_ns();
  const TimeNs end = left < kTimeNever - now ? now + left : kTimeNever;
  for (; left > 0 && events_pending_ == 0 && !woken_.load(); left = end - env_.clock->now_ns()) take_events(left);
  stop_sleeping();
}

void Links::wake() {
  woken_.store(true);
  if (!sleeping_.load()) return;
  const uint64_t one = 1;
  // The write fails only if the counter is full. Then the event is there already.
  (void)!write(wake_fd_.get(), &one, sizeof one);
}

// --- Time

TimeNs Links::next_timer_ns() const {
  TimeNs next = some_are_half_ ? std::min(accept_again_ns_, half_check_ns_) : accept_again_ns_;
  if (caller_count_ > 0) next = std::min(next, unused_check_ns_);
  next = std::min(next, sent_away_.due_ns());
  for (const Grave& grave : graves_) next = std::min(next, grave.until_ns);
  for (const Connection* connection : handshakes_) next = std::min(next, connection->deadline_ns);
  for (const Peer* peer : waiting_) next = std::min(next, peer->retry_at_ns);
  return next;
}

void Links::run_timers() {
  const TimeNs now = env_.clock->now_ns();
  for (size_t i = 0; i < handshakes_.size();) {
    Connection& connection = *handshakes_[i];
    if (connection.deadline_ns > now) {
      ++i;
      continue;
    }
    // Both calls remove the connection from handshakes_.
    if (connection.peer == kNoPeer) {
      close_quietly(connection);
    } else {
      close(connection, LinkEvent::Kind::kDown,
            absl::UnavailableError(absl::StrCat(name_of(env_.peers->at(connection.peer)), " did not answer within ",
                                                env_.options->connect_timeout_ns / kMillisecond,
                                                " ms; check that it runs and that no firewall drops the packets")));
    }
  }
  for (size_t i = 0; i < waiting_.size();) {
    Peer& peer = *waiting_[i];
    const bool wanted = peer.link == nullptr && peer.dial == nullptr && (peer.wanted || !peer.tx.empty());
    if (wanted && peer.retry_at_ns > now) {
      ++i;
      continue;
    }
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
    peer.waits_to_dial = false;
    if (wanted) dial(peer);
  }
  if (some_are_half_ && half_check_ns_ <= now) check_half_frames(now);
  if (caller_count_ > 0 && unused_check_ns_ <= now) end_unused_callers(now);
  if (sent_away_.due_ns() <= now) tell_sent_away(sent_away_.take(now));
  if (accept_again_ns_ <= now) {
    accept_again_ns_ = kTimeNever;
    accept_some();
  }
}

/// A peer that begins a frame and does not finish it holds memory here. Checks all connections, several times within
/// the time allowed for a frame. The clock of a frame runs from its first part to its end, however many parts come. It
/// stands still while bytes lie here unread, which is this side's delay.
void Links::check_half_frames(TimeNs now) {
  const DurationNs timeout = env_.options->frame_timeout_ns;
  half_check_ns_ = now + timeout / 10;
  const DurationNs since_last = now - std::exchange(half_checked_ns_, now);
  some_are_half_ = false;
  for (const std::unique_ptr<Connection>& connection : slots_) {
    if (connection == nullptr || connection->state != Connection::State::kFrames || !connection->broken.ok()) continue;
    const bool drained = std::exchange(connection->drained, false) || !connection->readable;
    if (connection->receiver.is_between_frames()) {
      connection->half_since_ns = kTimeNever;
      continue;
    }
    some_are_half_ = true;
    const uint64_t frame = connection->receiver.frame_count();
    if (std::exchange(connection->half_frame, frame) != frame || connection->half_since_ns == kTimeNever) {
      connection->half_since_ns = now;
    } else if (!drained) {
      connection->half_since_ns += since_last;
    }
    const auto tens_of_mib = static_cast<double>(connection->receiver.payload_bytes()) / (10 << 20);
    const auto allowed = static_cast<DurationNs>(static_cast<double>(timeout) * (1 + tens_of_mib));
    if (now - connection->half_since_ns < allowed) continue;
    ++env_.rx->counters->rx_dropped;
    fail(*connection, absl::UnavailableError(absl::StrCat(name_of(env_.peers->at(connection->peer)),
                                                          " sent a part of a frame, and the rest did not come")));
  }
}

/// A caller that opens no session holds a file descriptor, which the node's files also need. An honest caller loses
/// nothing: it connects again when it has something to send.
void Links::end_unused_callers(TimeNs now) {
  const DurationNs allowed = env_.options->unused_timeout_ns / (is_crowded() ? 10 : 1);
  unused_check_ns_ = now + allowed / 4;
  if (peer_use_ == nullptr) return;
  for (const std::unique_ptr<Connection>& connection : slots_) {
    if (connection == nullptr || connection->outgoing || connection->state != Connection::State::kFrames ||
        !connection->broken.ok()) {
      continue;
    }
    if (peer_use_->is_used(connection->peer)) {
      connection->unused_since_ns = kTimeNever;
    } else if (connection->unused_since_ns == kTimeNever) {
      connection->unused_since_ns = now;
    } else if (now - connection->unused_since_ns >= allowed) {
      fail(*connection,
           absl::UnavailableError(absl::StrCat(name_of(env_.peers->at(connection->peer)), " has no session here")));
    }
  }
}

std::string Links::name_of(const Peer& peer) const {
  return absl::StrCat("endpoint ", peer.uuid.to_string(), " (",
                      peer.address.is_none() ? "does not listen" : peer.address.to_string(), ")");
}

TcpTransport::Stats Links::stats() const {
  TcpTransport::Stats out = stats_;
  out.link_count = link_count_;
  out.handshake_count = handshakes_.size();
  for (const std::unique_ptr<Connection>& connection : slots_) {
    if (connection == nullptr) continue;
    out.zero_copy_links += connection->sends.is_on() ? 1 : 0;
    out.zero_copy_waiting += connection->sends.waiting_count();
  }
  for (const Grave& grave : graves_) out.zero_copy_waiting += grave.sends.waiting_count();
  return out;
}

}  // namespace skua::rpc::tcp
