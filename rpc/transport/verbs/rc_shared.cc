// An endpoint's shares of the queue pairs between processes (rc_hub.h): how it joins and how it leaves.
//
// Leaving must not disturb other users. When it is done, the peer reaches no memory of this endpoint, and the device
// writes to none of it. So windows are closed one by one, and operations under way get a short time to end. A single
// operation that has not ended by then cannot be called back from the device, so the pair is ended for all users.
#include <algorithm>
#include <utility>

#include "rpc/transport/verbs/rc_connections.h"

namespace skua::rpc::verbs {
namespace {

/// Pause after a failed attempt.
constexpr DurationNs kJoinAgainAfter = 200 * kMillisecond;
/// For peers that do not share, or if there is no room: use own connections for this long.
constexpr DurationNs kAloneFor = 60 * kSecond;
/// A peer may name another process at most this often.
constexpr DurationNs kNewProcessEvery = 200 * kMillisecond;
constexpr DurationNs kLeavePatience = 2 * kMillisecond;

/// Both ends have the same two numbers, in the same roles.
uint64_t number_of(uint64_t joining, uint64_t pair) {
  return std::max<uint64_t>(mix64(mix64(pair) ^ joining), 1);
}

}  // namespace

// --- Joining ---------------------------------------------------------------------------------------------------------

void RcConnections::ask_to_join(PeerId peer, Connection& connection, TimeNs now) {
  if (connection.joining || connection.pair != nullptr || now < connection.not_before_ns) return;
  if (host_.address_of(peer) == host_.own_address()) return;
  if (!find_address(shared_way(peer), connection, now)) {
    if (connection.address != nullptr) keep_waiting(shared_way(peer), connection);
    return;
  }
  connection.handshake.begin(now);
  connection.schedule.begin(now);
  connection.joining = true;
  run_join_timer(peer, connection, now);
  keep_waiting(shared_way(peer), connection);
}

bool RcConnections::join_if_ready(PeerId peer, Connection& connection, TimeNs now) {
  // A broken share must be ended first.
  if (connection.pair != nullptr || connection.broken || !connection.handshake.ready()) return false;
  const RcHub::Standing standing = hub_->standing(connection.process);
  if (standing.pair == nullptr) return false;
  if (!standing.pair->join(inbox_)) {
    connection.alone_until_ns = now + kAloneFor;
    say_closed(peer, connection, std::nullopt);
    leave(shared_way(peer), connection);
    return false;
  }
  connection.pair = standing.pair;
  connection.number = number_of(connection.handshake.connection(), standing.number);
  connection.joining = false;
  ++stats_.connected;
  return true;
}

void RcConnections::run_join_timer(PeerId peer, Connection& connection, TimeNs now) {
  if (!connection.joining) {
    if (connection.address != nullptr && !connection.address->pending()) ask_to_join(peer, connection, now);
    return;
  }
  // Another endpoint of this process may have received the last message about the pair.
  if (join_if_ready(peer, connection, now)) return say(peer, connection, now);
  if (!connection.joining) return;
  if (connection.schedule.due(now)) return say(peer, connection, now);
  if (!connection.schedule.is_over(now)) return;
  if (connection.process == 0) connection.alone_until_ns = now + kAloneFor;  // the peer does not know sharing
  leave(shared_way(peer), connection);
  connection.not_before_ns = now + kJoinAgainAfter;
}

/// Notes the peer's process. False: ignore the rest of the message.
bool RcConnections::hear_process(PeerId from, Connection& connection, const JoinMessage& message, TimeNs now) {
  if (message.process == hub_->process()) {
    connection.alone_until_ns = now + kAloneFor;
    leave(shared_way(from), connection);
    JoinMessage same;
    same.process = hub_->process();
    same.state = ConnectMessage::State::kClosed;
    same.generation = message.generation;
    if (message.state != ConnectMessage::State::kClosed) host_.send_own(from, same.encode());
    return false;
  }
  if (connection.process == message.process) return true;
  if (connection.process != 0 && now - connection.process_since_ns < kNewProcessEvery) return false;
  if (connection.pair != nullptr) leave(shared_way(from), connection);
  connection.process = message.process;
  connection.process_since_ns = now;
  return true;
}

void RcConnections::on_join(PeerId from, ByteSpan datagram, TimeNs now) {
  const std::optional<JoinMessage> message = JoinMessage::decode(datagram);
  if (!message.has_value() || from == kNoPeer) {
    ++stats_.bad_messages;
    return;
  }
  if (owner_ == 0) return;  // the peer gets no answer and makes its own connection
  Connection& connection = at(shared_way(from));
  const bool is_closed = message->state == ConnectMessage::State::kClosed;
  if (!is_closed && !find_address(shared_way(from), connection, now)) {
    if (connection.address != nullptr) keep_waiting(shared_way(from), connection);
    return;  // the peer repeats the message
  }
  if (!hear_process(from, connection, *message, now)) return;
  const bool was_joined = connection.pair != nullptr;
  const RcHandshake::Action action = connection.handshake.on_message(message->joining(), now);
  if (action.close || action.renew) {
    if (was_joined) ++stats_.broken;
    // leave() also ends the handshake, but the handshake already belongs to the new joining, so it is restored.
    const RcHandshake renewed = connection.handshake;
    leave(shared_way(from), connection);
    connection.handshake = renewed;
  }
  if (action.renew) {
    connection.joining = true;
    connection.schedule.begin(now);
    keep_waiting(shared_way(from), connection);
  }
  RcHub::Heard heard;
  if (message->pair.has_value()) heard = hub_->on_word(message->process, *message->pair, place_of(from), now);
  if (is_closed || !connection.handshake.running()) return end_broken();
  const bool joined = join_if_ready(from, connection, now);
  const bool news = action.renew || action.bind || heard.news || joined;
  const bool waits = !message->is_settled();
  if (connection.handshake.running() && (news || (waits && connection.schedule.may_answer(now)))) {
    say(from, connection, now);
  }
  end_broken();
}

void RcConnections::say(PeerId peer, const Connection& connection, TimeNs now) {
  const ConnectMessage joining = connection.handshake.message();
  if (joining.generation == 0) return;
  JoinMessage message;
  message.process = hub_->process();
  message.state = joining.state;
  message.generation = joining.generation;
  message.echo = joining.echo;
  if (connection.process != 0) message.pair = hub_->word_for(connection.process, now);
  host_.send_own(peer, message.encode());
}

/// `pair`: the message about the pair's end; nullopt: only this endpoint leaves.
void RcConnections::say_closed(PeerId peer, const Connection& connection, const std::optional<ConnectMessage>& pair) {
  const ConnectMessage joining = connection.handshake.message();
  if (joining.generation == 0) return;
  JoinMessage message;
  message.process = hub_->process();
  message.state = ConnectMessage::State::kClosed;
  message.generation = joining.generation;
  message.echo = joining.echo;
  message.pair = pair;
  host_.send_own(peer, message.encode());
}

// --- Leaving ---------------------------------------------------------------------------------------------------------

/// Closes the share's windows: those without a work request under way, or all.
void RcConnections::close_shared_windows(Way way, const Connection& connection, bool all) {
  for (Window& window : windows_) {
    if (window.way != way || !window.with_pair) continue;
    const bool rests =
        window.state == Window::State::kLent || (window.state == Window::State::kEnding && !window.posted);
    if (!rests && !all) continue;
    connection.pair->close(std::exchange(window.window, nullptr));
    window.with_pair = false;
  }
}

void RcConnections::leave(Way way, Connection& connection) {
  if (connection.pair != nullptr) {
    // Another thread may end the pair at any time. This reference keeps it alive meanwhile.
    const std::shared_ptr<RcPair> pair = connection.pair;
    connection.ending = true;
    close_shared_windows(way, connection, false);
    const TimeNs limit = clock_.now_ns() + kLeavePatience;
    while (connection.in_flight > 0 && !pair->is_over() && clock_.now_ns() < limit) poll(true);
    // A failed operation has broken the pair. Ending it tells the other users at once.
    if (connection.in_flight > 0 || std::exchange(connection.failed, false)) {
      if (const std::optional<ConnectMessage> word = hub_->end(*pair); word.has_value()) {
        say_closed(peer_of(way), connection, word);
      }
      // If another thread is ending the pair, this waits until that is done.
      pair->end();
    }
    poll(true);
    close_shared_windows(way, connection, true);
    pair->leave(inbox_);
    free_slots_of(way, connection);
    connection.ending = connection.failed = false;
  }
  end_windows(way);
  connection.pair.reset();
  connection.number = 0;
  connection.joining = false;
  connection.handshake.end();
}

/// Takes completions at once. Pairs that have ended are left later by end_broken(), which the callers call.
void RcConnections::take_mail() {
  const bool poked = inbox_.take(mail_);
  for (const ibv_wc& completion : mail_) on_completion(completion);
  if (!poked) return;
  for (Way way = 0; way < connections_.size(); ++way) {
    const Connection* connection = connections_[way].get();
    if (connection != nullptr && connection->pair != nullptr && connection->pair->is_over()) mark_broken(way);
  }
}

}  // namespace skua::rpc::verbs
