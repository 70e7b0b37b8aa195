#include "kvstore/gateway/gateway_thread.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "rpc/base/check.h"

namespace skua::kv::gateway {
namespace {

// What epoll says of descriptors that are no connection. Slots count from 0 and generations from 1.
constexpr uint64_t kClientEvent = 1;
constexpr uint64_t kWakeEvent = 2;
constexpr uint64_t kHostEvent = 3;
constexpr uint64_t kFirstListenerEvent = 4;  // and one more for each further listener

constexpr size_t kReadBytes = 64 * 1024;
/// Reads of one connection before others have their turn.
constexpr int kReadsPerTurn = 4;
/// Connections of one entrance that are accepted before others have their turn.
constexpr int kAcceptsPerTurn = 64;
/// How long commands may take to end when the gateway stops.
constexpr int64_t kStopMs = 5000;

/// How many events there are; below 0: a signal came.
int wait_for_events(int epoll, std::span<epoll_event> events, DurationNs wait_ns) {
  constexpr DurationNs kLongestNs = 3600 * kSecond;
  wait_ns = std::min(wait_ns, kLongestNs);
  const timespec timeout{.tv_sec = wait_ns / kSecond, .tv_nsec = wait_ns % kSecond};
  const int events_max = static_cast<int>(events.size());
  const int count = epoll_pwait2(epoll, events.data(), events_max, &timeout, nullptr);
  if (count >= 0 || errno == EINTR) return count;
  // Kernels before 5.11 have no epoll_pwait2, and some containers forbid it; epoll_wait counts in milliseconds.
  const DurationNs wait_ms = (wait_ns + kMillisecond - 1) / kMillisecond;
  return epoll_wait(epoll, events.data(), events_max, static_cast<int>(wait_ms));
}

/// The client need not hear of it.
void refuse(const OwnedFd& socket, ClientProtocol protocol) {
  const std::string_view text = too_many_clients(protocol);
  static_cast<void>(write_some(socket, {&text, 1}));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GatewayThread>> GatewayThread::create(GatewayIdentity& identity, ClientOptions options,
                                                                     std::vector<Entrance> entrances,
                                                                     ClientSecurity security,
                                                                     PasswordChecker* passwords) {
  // epoll is the one place to sleep at.
  options.spin = std::chrono::nanoseconds(0);
  absl::StatusOr<std::unique_ptr<AsyncClient>> client = AsyncClient::create(std::move(options));
  if (!client.ok()) return client.status();
  std::unique_ptr<GatewayThread> made(
      new GatewayThread(identity, *std::move(client), std::move(entrances), std::move(security), passwords));
  if (absl::Status status = made->watch_own(); !status.ok()) return status;
  return made;
}

GatewayThread::GatewayThread(GatewayIdentity& identity, std::unique_ptr<AsyncClient> client,
                             std::vector<Entrance> entrances, ClientSecurity security, PasswordChecker* passwords)
    : identity_(identity),
      context_(identity),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      tls_(std::move(security.tls)),
      passwords_(passwords),
      entrances_(std::move(entrances)),
      client_(std::move(client)),
      store_(*client_, identity.databases,
             [this](uint64_t id, const StoreTicket& ticket, StoreResult&& result) {
               take_result(id, ticket, std::move(result));
             }),
      read_buffer_(kReadBytes) {
  static_assert(kReadBytes >= TlsStream::kReadBytesMin);
  context_.users = std::move(security.users);
}

GatewayThread::~GatewayThread() {
  // Connections hold values that the client lends. The client's destructor ends its operations, and their results find
  // no connection any more.
  client_->adopt_thread();
  for (Slot& slot : slots_) {
    if (slot.connection != nullptr) close(*slot.connection);
  }
  late_results_.clear();
  client_.reset();
}

absl::Status GatewayThread::watch_own() {
  if (!epoll_.is_open() || !wake_event_.is_open()) {
    return absl::ResourceExhaustedError("no file descriptor is left: raise the limit of open files (ulimit -n)");
  }
  const bool is_watched = watch_input(epoll_.get(), client_->wait_fd(), kClientEvent) &&
                          watch_input(epoll_.get(), wake_event_.get(), kWakeEvent) &&
                          entrances_.watch(epoll_.get(), kFirstListenerEvent);
  return is_watched ? absl::OkStatus() : absl::ResourceExhaustedError("epoll watches nothing: no memory is left");
}

// --- The loop

void GatewayThread::begin(HostWait* wait) {
  client_->adopt_thread();
  host_ = wait;
}

bool GatewayThread::turn() {
  if (next_event_ == event_count_) gather_events();
  turn_us_ = time_of_day_us();
  share_.begin();
  handle_events();
  if (!ready_to_shake_.empty()) shake_some_hands();
  store_.flush_puts();  // before poll(), which sends
  if (entrances_.resume_ms() != 0) entrances_.resume(monotonic_ms());
  if (!handshakes_.empty() || !authentications_.empty()) end_late_connections();
  share_.begin();
  defers_results_ = false;
  finish_late_results();
  client_->poll();
  share_.begin();
  work_off_dirty();
  store_.flush_puts();  // the next sleep() sends
  return !may_end();
}

void GatewayThread::wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full: then the event is there.
  (void)!write(wake_event_.get(), &one, sizeof one);
}

void GatewayThread::stop() {
  is_stopped_ = true;
  wake();
}

bool GatewayThread::answers(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t mine = ++asked_count_;
  wake();
  return answered_.wait_for(lock, timeout, [&] { return answered_count_ >= mine; });
}

void GatewayThread::wake_up() {
  uint64_t count = 0;
  (void)!read(wake_event_.get(), &count, sizeof count);
  std::optional<ClientSecurity> security;
  std::vector<LateResult> checked;
  {
    const std::lock_guard lock(mutex_);
    answered_count_ = asked_count_;
    security.swap(new_security_);
    checked.swap(checked_passwords_);
  }
  answered_.notify_all();
  if (security.has_value()) take_security(*std::move(security));
  for (LateResult& password : checked) take_password(std::move(password));
  if (is_stopped_) begin_stop();
}

void GatewayThread::begin_stop() {
  if (stop_by_ms_ != 0) return;
  stop_by_ms_ = monotonic_ms() + kStopMs;
  entrances_.close();
  for (Slot& slot : slots_) {
    if (slot.connection == nullptr) continue;
    slot.connection->has_ended = true;
    slot.connection->unread.clear();
    serve(*slot.connection);
  }
}

bool GatewayThread::may_end() const {
  return stop_by_ms_ != 0 && (connection_count_ == 0 || monotonic_ms() >= stop_by_ms_);
}

void GatewayThread::gather_events() {
  const bool has_leftovers = next_dirty_ < dirty_now_.size() || !dirty_.empty() || !late_results_.empty();
  const int count = has_leftovers ? wait_for_events(epoll_.get(), events_, 0) : sleep();
  event_count_ = static_cast<size_t>(std::max(count, 0));
  next_event_ = 0;
}

/// False: epoll has no memory for it now. The loop must not sleep then: it would not hear of the host's work.
bool GatewayThread::watches_host() {
  if (is_host_watched_) return true;
  is_host_watched_ = watch_input(epoll_.get(), host_->fd(), kHostEvent);
  if (!is_host_watched_ && identity_.report) {
    identity_.report(true, "the worker cannot sleep, and polls instead", "epoll", "no memory is left for a watch");
  }
  return is_host_watched_;
}

/// Until epoll has something to tell: how many events.
int GatewayThread::sleep() {
  const DurationNs host_ns = host_ == nullptr ? kTimeNever : watches_host() ? host_->begin() : 0;
  // A client that is not going to wait is not told so.
  const std::optional<std::chrono::nanoseconds> client_wait =
      host_ns > 0 ? client_->begin_wait() : std::optional<std::chrono::nanoseconds>();
  DurationNs wait_ns = 0;
  if (client_wait.has_value()) wait_ns = std::min({host_ns, client_wait->count(), longest_sleep()});
  const int count = wait_for_events(epoll_.get(), events_, wait_ns);
  if (client_wait.has_value()) client_->end_wait();
  if (host_ != nullptr && host_ns > 0) host_->end();
  return count;
}

/// Until something of the loop's own is due.
DurationNs GatewayThread::longest_sleep() const {
  if (!ready_to_shake_.empty()) return 0;
  int64_t first_ms = INT64_MAX;
  for (const int64_t wake_ms :
       {entrances_.resume_ms(), stop_by_ms_, handshakes_.next_ms(), authentications_.next_ms()}) {
    if (wake_ms != 0) first_ms = std::min(first_ms, wake_ms);
  }
  return first_ms == INT64_MAX ? kTimeNever : std::max<int64_t>(first_ms - monotonic_ms(), 0) * kMillisecond;
}

/// Those that are left over come first in the next turn. epoll must not be asked before: it would tell of the same ones
/// again, in the same order, and a client that sends without pause would be the first each time.
void GatewayThread::handle_events() {
  while (next_event_ < event_count_ && !share_.is_over()) handle(events_[next_event_++]);
}

void GatewayThread::handle(const epoll_event& event) {
  if (event.data.u64 == kClientEvent || event.data.u64 == kHostEvent) return;  // the next poll() sees what it is
  if (event.data.u64 == kWakeEvent) return wake_up();
  if (const Entrance* const entrance = entrances_.find(event.data.u64)) return accept_some(*entrance);
  Connection* const connection = find(event.data.u64);
  if (connection == nullptr) return;
  if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) return close(*connection);
  if ((event.events & EPOLLRDHUP) != 0) put_check_last(*connection);
  if ((event.events & EPOLLOUT) != 0) connection->is_blocked = false;
  const bool reads = (event.events & EPOLLIN) != 0 || (connection->tls != nullptr && connection->tls->wants_write());
  if (reads) receive(*connection);
  // It may be gone, if what was read ended it.
  if (Connection* const still = find(event.data.u64); still != nullptr) serve(*still);
}

// --- Accepting

/// epoll tells again of those that are left over.
void GatewayThread::accept_some(const Entrance& entrance) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    OwnedFd socket = entrances_.accept(entrance, monotonic_ms());
    if (!socket.is_open()) return;
    identity_.connections_received.fetch_add(1, std::memory_order_relaxed);
    if (identity_.connections_now.load(std::memory_order_relaxed) >= identity_.connections_max) {
      identity_.connections_refused.fetch_add(1, std::memory_order_relaxed);
      if (tls_ == nullptr) refuse(socket, entrance.protocol);  // with TLS the client would not understand
    } else {
      add_connection(std::move(socket), entrance);
    }
  }
}

void GatewayThread::add_connection(OwnedFd socket, const Entrance& entrance) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  const uint64_t id = uint64_t{slots_[slot].generation} << 32 | slot;
  if (!watch_input(epoll_.get(), socket.get(), id)) return;
  free_slots_.pop_back();
  ClientSession session{.id = identity_.next_client_id.fetch_add(1, std::memory_order_relaxed),
                        .remote = remote_address(socket),
                        .local = local_address(socket),
                        .connected_ms = time_of_day_us() / 1000,
                        .database = entrance.database};
  slots_[slot].connection =
      std::make_unique<Connection>(context_, std::move(socket), id, std::move(session), entrance.protocol);
  slots_[slot].connection->events = EPOLLIN;
  ++connection_count_;
  identity_.connections_now.fetch_add(1, std::memory_order_relaxed);
  if ((tls_ != nullptr || context_.users != nullptr) && !begin_admission(*slots_[slot].connection)) {
    close(*slots_[slot].connection);
  }
}

// --- Connections

GatewayThread::Connection* GatewayThread::find(uint64_t id) {
  const auto slot = static_cast<uint32_t>(id);
  if (slot >= slots_.size()) return nullptr;
  Connection* const connection = slots_[slot].connection.get();
  return connection != nullptr && connection->id == id ? connection : nullptr;
}

void GatewayThread::close(Connection& connection) {
  const auto slot = static_cast<uint32_t>(connection.id);
  if (connection.tls != nullptr) connection.tls->say_end();
  ready_to_shake_.remove(connection.id);
  if (connection.check != 0) passwords_->forget(connection.check);
  ++slots_[slot].generation;
  slots_[slot].connection.reset();
  free_slots_.push_back(slot);
  --connection_count_;
  identity_.connections_now.fetch_sub(1, std::memory_order_relaxed);
}

void GatewayThread::take_result(uint64_t id, const StoreTicket& ticket, StoreResult&& result) {
  if (defers_results_) {
    late_results_.push_back({id, ticket, std::move(result)});
  } else {
    finish_result(id, ticket, std::move(result));
  }
}

void GatewayThread::finish_result(uint64_t id, const StoreTicket& ticket, StoreResult&& result) {
  Connection* const connection = find(id);
  if (connection == nullptr) return;  // the client went away meanwhile
  // Few commands do much with a result. The others need not look at the clock.
  const bool may_take_long = result.scan != nullptr || connection->client.may_work_long(ticket);
  connection->client.complete(ticket, std::move(result), turn_us_);
  if (!std::exchange(connection->is_dirty, true)) dirty_.push_back(id);
  if (may_take_long) defers_results_ = share_.is_over();
}

void GatewayThread::finish_late_results() {
  while (!late_results_.empty() && !defers_results_) {
    LateResult late = std::move(late_results_.front());
    late_results_.pop_front();
    finish_result(late.connection, late.ticket, std::move(late.result));
  }
}

/// Connections that got results: their replies, and the requests that follow.
void GatewayThread::work_off_dirty() {
  if (next_dirty_ == dirty_now_.size()) {
    dirty_now_.clear();
    next_dirty_ = 0;
    dirty_now_.swap(dirty_);
  }
  while (next_dirty_ < dirty_now_.size() && !share_.is_over()) {
    Connection* const connection = find(dirty_now_[next_dirty_++]);
    if (connection == nullptr) continue;
    connection->is_dirty = false;
    serve(*connection);
  }
}

void GatewayThread::receive(Connection& connection) {
  if (connection.tls != nullptr) return receive_encrypted(connection);
  for (int i = 0; i < kReadsPerTurn && connection.unread.empty() && !connection.has_ended; ++i) {
    const Transferred got = read_some(connection.fd, read_buffer_);
    if (got.is_over) connection.has_ended = true;
    if (got.bytes == 0) return;
    feed(connection, std::string_view(read_buffer_.data(), got.bytes));
    if (got.bytes < read_buffer_.size()) return;
  }
}

/// What the connection does not want yet is kept: at most what one read brings.
void GatewayThread::feed(Connection& connection, std::string_view bytes) {
  connection.client.receive(bytes, turn_us_);
  connection.unread.append(bytes);
}

/// Carries out what a connection has to do: requests to the store, replies to the client, input that was left over. It
/// may close the connection.
void GatewayThread::serve(Connection& connection) {
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    while (connection.client.has_requests()) {
      requests_.clear();
      connection.client.take_requests(requests_);
      // A request that is refused at once may bring further ones.
      for (const IssuedRequest& issued : requests_) {
        if (issued.request.kind == StoreRequest::Kind::kPassword) {
          check_password(connection, issued);
        } else {
          store_.run(connection.id, issued);
        }
      }
      store_.flush_gets();
    }
    if (!write_replies(connection)) return close(connection);
    if (!connection.unread.empty() && connection.client.wants_input()) {
      const std::string bytes = std::exchange(connection.unread, {});
      feed(connection, bytes);
      goes_on = true;
    }
    goes_on = goes_on || connection.client.has_requests();
  }
  if (context_.users != nullptr) note_admission(connection);
  const bool is_answered = connection.has_ended && connection.unread.empty() && connection.client.has_answered_all();
  if (connection.client.is_over() || is_answered) return close(connection);
  watch(connection);
}

/// False: the connection is broken.
bool GatewayThread::write_replies(Connection& connection) {
  while (!connection.is_blocked && !connection.client.output().empty()) {
    std::array<std::string_view, kPiecesMax> pieces;
    const size_t count = connection.client.output().peek(pieces);
    const std::span<const std::string_view> some = std::span(pieces).first(count);
    const Transferred sent = connection.tls == nullptr ? write_some(connection.fd, some) : connection.tls->write(some);
    if (sent.is_over) return false;
    if (sent.bytes > 0) {
      connection.client.sent(sent.bytes, turn_us_);
    } else {
      connection.is_blocked = true;
      connection.client.blocked();
    }
  }
  return true;
}

void GatewayThread::watch(Connection& connection) {
  const bool reads = !connection.has_ended && connection.unread.empty() && connection.client.wants_input();
  // TLS that cannot go on reading before it has written is not woken by what comes in.
  const bool waits = connection.tls != nullptr && connection.tls->wants_write();
  uint32_t events =
      (reads && !waits ? uint32_t{EPOLLIN} : 0) | (connection.is_blocked || waits ? uint32_t{EPOLLOUT} : 0);
  // A client whose password is checked is not read, and it may go away.
  if (connection.check != 0 && !connection.check_is_last) events |= EPOLLRDHUP;
  // While a handshake waits for its turn epoll does not watch the connection, or it would report it in each turn.
  if (ready_to_shake_.contains(connection.id)) events = 0;
  if (events == connection.events) return;
  connection.events = events;
  epoll_event event{.events = events, .data = {.u64 = connection.id}};
  SKUA_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event) == 0, "epoll lost a connection");
}

}  // namespace skua::kv::gateway
