// The part of Links that makes connections: accept, dial, hello and reply.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"
#include "rpc/transport/tcp/links.h"

namespace skua::rpc::tcp {
namespace {

constexpr DurationNs kAcceptPauseNs = 100 * kMillisecond;

absl::Status refusal_status(HelloCode code, const std::string& text) {
  switch (code) {
    case HelloCode::kFull: return absl::ResourceExhaustedError(text);
    case HelloCode::kSameUuid: return absl::AlreadyExistsError(text);
    case HelloCode::kWrongUuid: return absl::NotFoundError(text);
    default: return absl::FailedPreconditionError(text);
  }
}

}  // namespace

void Links::accept_some() {
  for (int accepted = 0; accepted < kAcceptsInARow;) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    UniqueFd fd(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors or memory. No new edge will come for the waiting connections, so try again after a pause.
      if (errno != EAGAIN) accept_again_ns_ = env_.clock->now_ns() + kAcceptPauseNs;
      return;
    }
    ++accepted;
    ++stats_.accepts;
    evict_handshake();
    Connection* added = add_connection(std::move(fd), false, SocketAddress::from_sockaddr(from));
    if (added != nullptr) on_hello_bytes(*added);
  }
  // Those that wait have had their edge.
  accept_again_ns_ = env_.clock->now_ns() + kAcceptRowPauseNs;
}

/// Makes room among the incoming connections that have not said hello. The oldest one is closed, so that many silent
/// connections cannot keep an honest one out.
void Links::evict_handshake() {
  const auto incoming = [](const Connection* connection) { return !connection->outgoing; };
  const auto count = std::count_if(handshakes_.begin(), handshakes_.end(), incoming);
  if (count < env_.options->handshakes_max) return;
  ++env_.rx->counters->rx_dropped;
  Connection& oldest = **std::find_if(handshakes_.begin(), handshakes_.end(), incoming);
  note_sent_away(oldest.remote, "too many connections have not said hello");
  close_quietly(oldest);
}

void Links::note_sent_away(const SocketAddress& from, const char* why) {
  if (!env_.options->on_sent_away) return;
  sent_away_from_ = from;
  sent_away_why_ = why;
  tell_sent_away(sent_away_.note(env_.clock->now_ns()));
}

void Links::tell_sent_away(std::optional<uint64_t> count) const {
  if (!count.has_value()) return;
  env_.options->on_sent_away(absl::StrCat("connections were sent away count=", *count,
                                          " latest_from=", sent_away_from_.to_string(), " at=", address_.to_string(),
                                          ": ", sent_away_why_));
}

void Links::back_off(Peer& peer, TimeNs now) {
  const TcpOptions& options = *env_.options;
  const uint32_t doublings = std::min(peer.failures, uint32_t{20});
  peer.retry_at_ns = now + std::min(options.reconnect_max_ns, options.reconnect_min_ns << doublings);
  ++peer.failures;
}

void Links::dial(Peer& peer) {
  ++stats_.dials;
  absl::StatusOr<UniqueFd> fd = start_connect(peer.address);
  if (!fd.ok()) return dial_failed(peer, LinkEvent::Kind::kDown, fd.status());
  Connection* added = add_connection(std::move(*fd), true, peer.address);
  if (added == nullptr) {
    return dial_failed(peer, LinkEvent::Kind::kDown,
                       absl::UnavailableError("cannot watch another connection with epoll"));
  }
  added->peer = peer.id;
  added->dial_number = ++dial_number_;
  peer.dial = added;
}

void Links::dial_failed(Peer& peer, LinkEvent::Kind kind, const absl::Status& why) {
  back_off(peer, env_.clock->now_ns());
  if (peer.link != nullptr) return;
  peer.wanted = false;
  peer.tx.drop(nullptr, *env_.completions);
  env_.peers->push_event({.peer = peer.id, .kind = kind, .identity = {}, .why = why});
}

void Links::on_connecting(Connection& connection, uint32_t events) {
  Peer& peer = env_.peers->at(connection.peer);
  int error = take_socket_error(connection.fd.get());
  if (error == 0 && (events & EPOLLOUT) == 0) return;
  Hello hello;
  hello.versions = env_.versions;
  hello.dial_number = connection.dial_number;
  hello.expected = peer.uuid;
  hello.sender = env_.options->self;
  hello.sender_address = address_.encode();
  if (error == 0 && !write_hello(connection.fd.get(), encode_hello(hello))) error = errno;
  if (error != 0) {
    close(connection, LinkEvent::Kind::kDown,
          absl::UnavailableError(absl::StrCat("cannot connect to ", name_of(peer), ": ", errno_text(error),
                                              "; check that it runs and listens there")));
    return;
  }
  connection.state = Connection::State::kHello;
  if ((events & EPOLLIN) != 0) on_hello_bytes(connection);
}

void Links::on_hello_bytes(Connection& connection) {
  switch (connection.hello->read(connection.fd.get())) {
    case HelloReader::Result::kWaiting: return;
    case HelloReader::Result::kMalformed: return drop_malformed(connection);
    case HelloReader::Result::kComplete: break;
    case HelloReader::Result::kEnd:
    case HelloReader::Result::kError:
      return connection.outgoing
                 ? close(connection, LinkEvent::Kind::kDown,
                         absl::UnavailableError(absl::StrCat(name_of(env_.peers->at(connection.peer)),
                                                             " closed the connection before it answered the hello; if "
                                                             "too many begin connections there, its log says so")))
                 : close_quietly(connection);
  }
  if (connection.outgoing) {
    absl::StatusOr<HelloReply> reply = decode_reply(connection.hello->bytes());
    return reply.ok() ? on_reply(connection, *reply) : drop_malformed(connection);
  }
  absl::StatusOr<Hello> hello = decode_hello(connection.hello->bytes());
  return hello.ok() ? on_hello(connection, *hello) : drop_malformed(connection);
}

void Links::drop_malformed(Connection& connection) {
  ++env_.rx->counters->rx_dropped;
  if (!connection.outgoing) return close_quietly(connection);
  close(connection, LinkEvent::Kind::kRefused,
        absl::FailedPreconditionError(
            absl::StrCat("what listens at ", connection.remote.to_string(),
                         " does not speak Skua's protocol; ask for the peer's descriptor again")));
}

bool Links::send_reply(Connection& connection, HelloReply reply) {
  reply.last_dial_number = dial_number_;
  return write_hello(connection.fd.get(), encode_reply(reply));
}

void Links::on_hello(Connection& connection, const Hello& hello) {
  HelloReply reply = judge_hello(hello, env_.options->self, env_.versions);
  const auto refuse = [&](HelloCode code, const std::string& text, const char* room = nullptr) {
    if (room != nullptr) note_sent_away(connection.remote, room);
    reply.code = code;
    reply.chosen = 0;
    reply.text = text;
    (void)send_reply(connection, reply);
    close_quietly(connection);
  };
  if (reply.code != HelloCode::kAccepted) {
    ++env_.rx->counters->rx_dropped;
    return refuse(reply.code, std::string(reply.text));
  }
  if (!SocketAddress::decode(as_byte_span(hello.sender_address)).ok()) return drop_malformed(connection);
  // Every caller gets its own peer: what a hello says about its sender must not affect other peers.
  const auto neighbours = callers_.find(connection.remote.ip);
  if (neighbours != callers_.end() && neighbours->second >= env_.options->callers_per_host_max) {
    return refuse(HelloCode::kFull,
                  absl::StrCat("this endpoint has ", env_.options->callers_per_host_max,
                               " connections from that address, its limit: close some"),
                  "their address has as many connections as it may have");
  }
  if (caller_count_ >= env_.options->callers_max) {
    return refuse(HelloCode::kFull,
                  absl::StrCat("this endpoint has ", caller_count_, " connections, its limit: try again later"),
                  "this endpoint has as many connections as it may have");
  }
  absl::StatusOr<Peer*> peer = env_.peers->add_caller(hello.sender.uuid);
  if (!peer.ok()) {
    return refuse(HelloCode::kFull, std::string(peer.status().message()), "this endpoint has no room for more peers");
  }
  if (!send_reply(connection, reply)) {
    env_.peers->retire(**peer);
    return close_quietly(connection);
  }
  connection.identity = hello.sender;
  establish(connection, **peer, reply.chosen);
}

void Links::on_reply(Connection& connection, const HelloReply& reply) {
  if (reply.code != HelloCode::kAccepted) return on_refusal(connection, reply);
  Peer& peer = env_.peers->at(connection.peer);
  const EndpointIdentity& self = env_.options->self;
  const bool in_range = reply.chosen >= env_.versions.min && reply.chosen <= env_.versions.max;
  if (!in_range || find_dialect(env_.dialects, reply.chosen) == nullptr) {
    return drop_malformed(connection);
  }
  // The other side checked the same, but is not trusted.
  if (reply.replier.uuid != peer.uuid || is_foreign_cluster(reply.replier.cluster_id, self.cluster_id)) {
    HelloReply refusal = reply;
    refusal.code = reply.replier.uuid != peer.uuid ? HelloCode::kWrongUuid : HelloCode::kCluster;
    refusal.text = absl::StrCat("it answered as endpoint ", reply.replier.uuid.to_string(), " of cluster ",
                                reply.replier.cluster_id.to_string(), ": ask for the peer's descriptor again");
    return on_refusal(connection, refusal);
  }
  SKUA_CHECK(peer.link == nullptr, "a dial was left open beside a connection");
  peer.dial = nullptr;
  connection.identity = reply.replier;
  establish(connection, peer, reply.chosen);
}

void Links::on_refusal(Connection& connection, const HelloReply& reply) {
  Peer& peer = env_.peers->at(connection.peer);
  if (reply.code != HelloCode::kRace && reply.code != HelloCode::kStale) {
    return close(connection, LinkEvent::Kind::kRefused,
                 refusal_status(reply.code, absl::StrCat(name_of(peer), " refused the connection: ", reply.text)));
  }
  // The peer is an earlier release that keeps one connection for both directions. It will accept a later dial.
  peer.dial = nullptr;
  close_quietly(connection);
  peer.retry_at_ns = env_.clock->now_ns() + env_.options->reconnect_min_ns;
  if (peer.wanted || !peer.tx.empty()) send(peer);
}

void Links::establish(Connection& connection, Peer& peer, uint16_t version) {
  connection.state = Connection::State::kFrames;
  connection.hello.reset();
  connection.deadline_ns = kTimeNever;
  connection.peer = peer.id;
  connection.dialect = find_dialect(env_.dialects, version);
  connection.up_since_ns = env_.clock->now_ns();
  connection.receiver.open(peer.id, *connection.dialect);
  std::erase(handshakes_, &connection);
  peer.link = &connection;
  peer.wanted = false;
  peer.host = absl::HashOf(connection.remote.ip);
  ++link_count_;
  if (!connection.outgoing) {
    ++callers_[connection.remote.ip];
    ++caller_count_;
    // The endpoint may be asleep until a later timer, so bring the check forward.
    if (is_crowded())
      unused_check_ns_ = std::min(unused_check_ns_, connection.up_since_ns + env_.options->unused_timeout_ns / 40);
  }
  start_zero_copy(connection, peer);
  peer.tx.repack(*find_dialect(env_.dialects, env_.versions.max), *connection.dialect);
  env_.peers->push_event(
      {.peer = peer.id, .kind = LinkEvent::Kind::kUp, .identity = connection.identity, .why = absl::OkStatus()});
  // Frames may have arrived together with the hello, and no further edge will announce them.
  activate(connection);
  flush(peer);
}

}  // namespace skua::rpc::tcp
