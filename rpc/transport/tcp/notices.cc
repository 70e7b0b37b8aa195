// The part of Links that reports when packets' memory is free: notes of the kernel about zero-copy writes, and notices
// between engines. zero_copy.h explains both.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "rpc/transport/tcp/links.h"

namespace skua::rpc::tcp {
namespace {

/// How long a dead connection waits for bytes that the kernel had given to a device.
constexpr DurationNs kGraveNs = 1 * kSecond;
/// When the endpoint ends: how many milliseconds to wait for acknowledgements, over all connections.
constexpr int kAbandonWaits = 10;

}  // namespace

void Links::start_zero_copy(Connection& connection, const Peer& peer) {
  if (env_.options->zero_copy_above_bytes == UINT32_MAX || peer.copies_anyway) return;
  if (!enable_zero_copy(connection.fd.get())) return;
  connection.sends.turn_on(connection.outgoing && connection.dialect->has_notices);
}

bool Links::read_notes(Connection& connection) {
  bool any = false;
  while (const std::optional<WritesDone> done = read_writes_done(connection.fd.get())) {
    any = true;
    connection.sends.on_writes_done(done->first, done->last, *env_.completions);
    if (!done->copied || env_.options->zero_copy_though_copied) continue;
    connection.sends.turn_off();
    env_.peers->at(connection.peer).copies_anyway = true;
  }
  return any;
}

void Links::take_notices(Connection& connection) {
  if (!connection.sends.on_peer_has(connection.receiver.peer_has(), *env_.completions)) {
    ++env_.rx->counters->rx_dropped;
    return fail(connection, absl::UnavailableError(absl::StrCat(name_of(env_.peers->at(connection.peer)),
                                                                " says that it has what was not sent to it")));
  }
  if (connection.receiver.asked_count() == connection.told || connection.owes) return;
  connection.owes = true;
  owing_.push_back(&connection);
}

void Links::tell_owed() {
  std::erase_if(owing_, [this](Connection* connection) {
    Peer& peer = env_.peers->at(connection->peer);
    const uint32_t has = connection->receiver.asked_count();
    // If packets wait behind a full socket, the next frame queued there tells it.
    const bool is_told = has == connection->told || !connection->broken.ok();
    if (!is_told && !peer.tx.empty()) return false;
    connection->owes = false;
    if (is_told) return true;
    std::array<std::byte, kFrameBytesMax> frame;
    connection->dialect->pack(frame.data(), {.has = has, .is_alone = true});
    connection->told = has;
    ++stats_.notices;
    iovec piece{frame.data(), connection->dialect->frame_bytes};
    (void)write_frames(peer, {&piece, 1});
    return true;
  });
}

/// The connection ends while the kernel may still read packets' memory.
void Links::bury(Connection& connection) {
  forget_writes(connection.fd.get());
  Grave grave{std::move(connection.fd), std::move(connection.sends), env_.clock->now_ns() + kGraveNs};
  if (!visit(grave)) graves_.push_back(std::move(grave));
}

/// True: nobody reads the memory any more.
bool Links::visit(Grave& grave) {
  while (const std::optional<WritesDone> done = read_writes_done(grave.fd.get())) {
    grave.sends.on_writes_done(done->first, done->last, *env_.completions);
  }
  if (env_.clock->now_ns() >= grave.until_ns) grave.sends.complete_all(*env_.completions);
  return !grave.sends.has_waiting();
}

void Links::visit_graves() {
  std::erase_if(graves_, [this](Grave& grave) { return visit(grave); });
}

void Links::abandon_zero_copy() {
  int waits = kAbandonWaits;
  for (std::unique_ptr<Connection>& connection : slots_) {
    if (connection == nullptr || !connection->sends.has_waiting()) continue;
    (void)read_notes(*connection);
    for (; waits > 0 && connection->sends.has_waiting(); --waits) {
      wait_for_note(connection->fd.get(), kMillisecond);
      (void)read_notes(*connection);
    }
    if (!connection->sends.has_waiting()) continue;
    close(*connection, LinkEvent::Kind::kDown, absl::CancelledError("this endpoint ended"));
  }
  for (Grave& grave : graves_) {
    for (waits = kAbandonWaits; waits > 0 && !visit(grave); --waits) wait_for_note(grave.fd.get(), kMillisecond);
    grave.sends.complete_all(*env_.completions);
  }
  graves_.clear();
}

}  // namespace skua::rpc::tcp
