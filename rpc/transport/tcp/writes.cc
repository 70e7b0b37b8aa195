// The part of Links that sends: queued packets and frames. It also starts dials for peers that have something to send.
#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "rpc/transport/tcp/links.h"

namespace skua::rpc::tcp {

void Links::send(Peer& peer) {
  if (peer.link != nullptr) return flush(peer);
  if (peer.dial != nullptr || peer.waits_to_dial) return;
  if (peer.address.is_none()) {
    peer.wanted = false;
    peer.tx.drop(nullptr, *env_.completions);
    env_.peers->push_event({.peer = peer.id,
                            .kind = LinkEvent::Kind::kDown,
                            .identity = {},
                            .why = absl::UnavailableError(absl::StrCat(
                                name_of(peer), " is not connected and does not listen: it has to connect again"))});
    return;
  }
  if (env_.clock->now_ns() >= peer.retry_at_ns) return dial(peer);
  peer.waits_to_dial = true;
  waiting_.push_back(&peer);
}

void Links::connect(Peer& peer) {
  peer.wanted = true;
  send(peer);
}

void Links::flush(Peer& peer) {
  Connection& connection = *peer.link;
  if (connection.tx_blocked || !connection.broken.ok()) return;
  switch (write_queue(connection.fd.get(), peer.tx, connection.sends, *env_.completions)) {
    case WriteOutcome::kEmptied: return;
    case WriteOutcome::kBlocked: return block(connection);
    case WriteOutcome::kError: return fail_write(connection, errno);
  }
}

size_t Links::write_frames(Peer& peer, std::span<iovec> pieces) {
  Connection& connection = *peer.link;
  if (!connection.broken.ok()) return 0;
  size_t written = 0;
  const bool at_once = peer.tx.empty() && !connection.tx_blocked;
  if (at_once) {
    const ssize_t sent = write_pieces(connection.fd.get(), pieces);
    if (sent < 0 && errno != EAGAIN) {
      fail_write(connection, errno);
      return 0;
    }
    written = static_cast<size_t>(std::max<ssize_t>(sent, 0));
  }
  size_t copied = 0;
  for (const iovec& piece : pieces) {
    const size_t skipped = std::min(written, piece.iov_len);
    written -= skipped;
    if (skipped == piece.iov_len) continue;
    peer.tx.push_frame(ByteSpan(static_cast<const std::byte*>(piece.iov_base), piece.iov_len).subspan(skipped));
    copied += piece.iov_len - skipped;
  }
  if (!at_once) {
    flush(peer);
  } else if (copied > 0) {
    block(connection);
  }
  return copied;
}

/// The socket is full; epoll reports when there is room again.
void Links::block(Connection& connection) {
  connection.tx_blocked = true;
  ++blocked_count_;
}

void Links::fail_write(Connection& connection, int error) {
  fail(connection, absl::UnavailableError(absl::StrCat("connection to ", name_of(env_.peers->at(connection.peer)),
                                                       " broke: ", errno_text(error))));
}

void Links::abandon_tx() {
  for (PeerId id = 0; id < env_.peers->size(); ++id) {
    Peer& peer = env_.peers->at(id);
    peer.wanted = false;
    if (peer.tx.empty()) continue;
    if (peer.link != nullptr) {
      close(*peer.link, LinkEvent::Kind::kDown, absl::CancelledError("this endpoint ended"));
    } else {
      peer.tx.drop(nullptr, *env_.completions);
    }
  }
  abandon_zero_copy();
}

}  // namespace skua::rpc::tcp
