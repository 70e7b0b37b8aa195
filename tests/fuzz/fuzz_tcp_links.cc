// A TCP transport and a stranger with plain sockets, on loopback: connections that say hello or anything else, frames
// of packets and bundles, ends in the middle of them; and peers that the transport dials, which answer anything. Frames
// are taken, and sent or given back at any later time. Bodies go by zero copy, and the stranger claims to have them.
//
// Packets come only by connections that stand, from ids that no earlier caller had. Connections, handshakes and
// callers stay within their bounds. Afterwards an honest caller is taken, and its packet arrives as it was sent. When
// all have hung up, no connection, handshake, chunk or token is left.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/base/clock.h"
#include "rpc/transport/tcp/address.h"
#include "rpc/transport/tcp/hello.h"
#include "rpc/transport/tcp/socket.h"
#include "rpc/transport/tcp/tcp_limits.h"
#include "rpc/transport/tcp/tcp_transport.h"
#include "tests/fuzz/fuzz_input.h"

namespace skua::rpc::tcp {
namespace {

using fuzz::FuzzInput;

constexpr size_t kSocketsMax = 12;
constexpr size_t kStepsMax = 80;
constexpr uint32_t kHandshakesMax = 4;
constexpr uint32_t kCallersMax = 5;
constexpr uint32_t kPayloadBytesMax = 5000;
constexpr uint32_t kFrameRoom = 1000;
constexpr size_t kFramesHeldMax = 6;
constexpr DurationNs kTimeoutNs = 100 * kMillisecond;
constexpr int kTurnsMax = 2000;
constexpr int kAcceptRowsMax = 1 + static_cast<int>(kStepsMax) / kAcceptsInARow;

Uuid uuid_of(uint8_t number) {
  Uuid out;
  out.bytes.fill(number);
  return out;
}

EndpointIdentity identity_of(uint8_t number) {
  return {.uuid = uuid_of(number), .incarnation = 1, .cluster_id = uuid_of(0xcc)};
}

/// Gives memory for every payload.
class Placer final : public RxPlacer {
 public:
  Placement place(PeerId, ByteSpan, size_t payload_bytes) override {
    SKUA_CHECK(payload_bytes <= kPayloadBytesMax, "a placement beyond bounds");
    auto& memory = placed[next_];
    memory = std::make_unique<std::byte[]>(payload_bytes + 1);
    return {memory.get(), next_++};
  }
  void abandon(uint64_t cookie) override { SKUA_CHECK(placed.erase(cookie) == 1, "a placement was abandoned twice"); }

  std::map<uint64_t, std::unique_ptr<std::byte[]>> placed;

 private:
  uint64_t next_ = 1;
};

/// Closed by a reset, so that no port is kept.
UniqueFd make_socket() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SKUA_CHECK(fd.is_open(), "no more sockets");
  const linger now{.l_onoff = 1, .l_linger = 0};
  SKUA_CHECK(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0, "a socket option");
  return fd;
}

/// What the transport dials. One for all inputs.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    SKUA_CHECK(bind(fd_.get(), reinterpret_cast<sockaddr*>(&at), length) == 0 && listen(fd_.get(), 64) == 0 &&
                   getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0,
               "a listener cannot be made");
    address_ = SocketAddress::parse("127.0.0.1", ntohs(at.sin_port)).value();
  }
  UniqueFd accept_one() { return UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  [[nodiscard]] const SocketAddress& address() const { return address_; }

 private:
  UniqueFd fd_;
  SocketAddress address_;
};

class World {
 public:
  explicit World(ByteSpan bytes) : in_(bytes) {
    TcpOptions options;
    options.listen_ip = "127.0.0.1";
    options.self = identity_of(1);
    options.rx_chunk_bytes = 4096;
    options.rx_chunk_count = 4;
    options.payload_max_bytes = kPayloadBytesMax;
    options.place_above_bytes = 1000;
    options.frame_max_bytes = kFrameRoom;
    options.inline_max_bytes = 64;
    options.zero_copy_above_bytes = 2000;
    options.zero_copy_though_copied = true;
    options.connect_timeout_ns = options.peer_timeout_ns = options.frame_timeout_ns = kTimeoutNs;
    options.handshakes_max = kHandshakesMax;
    options.callers_per_host_max = kCallersMax;
    options.clock = &clock_;
    transport_ = TcpTransport::create(options).value();
    transport_->set_placer(&placer_);
    const auto own = SocketAddress::decode(as_byte_span(transport_->local_descriptor().address));
    own.value().to_sockaddr(address_);
  }

  void run() {
    for (size_t i = 0; i < kStepsMax && !in_.empty(); ++i) {
      step();
      const TcpTransport::Stats stats = transport_->stats();
      SKUA_CHECK(stats.handshake_count <= kHandshakesMax + dialled_.size(), "more handshakes than may be");
      SKUA_CHECK(stats.link_count <= kCallersMax + dialled_.size(), "more connections than may be");
    }
    hang_up();
    check_honest();
    hang_up();
    finish();
  }

 private:
  void step() {
    switch (in_.pick(20)) {
      case 0:
      case 1: return call();
      case 2:
      case 3: return write(make_hello());
      case 4:
      case 5: return write(make_frame());
      case 6: return write(in_.short_text());
      case 7: return close_one();
      case 8: return dial();
      case 9: return take_dial();
      case 10: return write(make_reply());
      case 11: return send();
      case 12: return clock_.set(clock_.now_ns() + in_.byte() * kMillisecond);
      case 13: return release();
      case 14: return write(make_bundle());
      case 15: return in_.flag() ? take_frame() : write(make_notice());
      case 16: return send_frames(in_.pick(kFramesHeldMax + 1));
      default: return turn(1 + in_.pick(kBurstMax), in_.flag());
    }
  }

  // --- The stranger

  void call() {
    if (sockets_.size() == kSocketsMax) return;
    sockets_.push_back(connect_one());
  }
  UniqueFd connect_one() {
    UniqueFd fd = make_socket();
    SKUA_CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof(sockaddr_in)) == 0,
               "the transport does not listen");
    return fd;
  }
  void write(std::string_view bytes) {
    if (sockets_.empty()) call();
    const int fd = sockets_[in_.pick(sockets_.size())].get();
    // In pieces, so that reads end everywhere.
    while (!bytes.empty()) {
      const size_t piece = in_.seldom() ? 1 + in_.pick(64) : bytes.size();
      const ssize_t sent = ::send(fd, bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
      if (!bytes.empty()) turn(kBurstMax, false);
    }
  }
  void close_one() {
    if (sockets_.empty()) return;
    const size_t which = in_.pick(sockets_.size());
    if (in_.flag()) {
      shutdown(sockets_[which].get(), SHUT_WR);
    } else {
      sockets_.erase(sockets_.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  [[nodiscard]] std::string make_hello() {
    Hello hello;
    hello.versions = {1, static_cast<uint16_t>(1 + in_.pick(2))};
    if (in_.seldom()) hello.versions = {in_.number<uint16_t>(), in_.number<uint16_t>()};
    hello.dial_number = in_.byte();
    if (in_.flag()) hello.expected = uuid_of(in_.seldom() ? in_.byte() : 1);
    hello.sender = identity_of(in_.pick(4) == 0 ? in_.byte() : 7);
    if (in_.seldom()) hello.sender.cluster_id = uuid_of(in_.byte());
    if (in_.flag()) hello.sender_address = g_listener().address().encode();
    std::string bytes = encode_hello(hello);
    if (in_.seldom()) in_.damage(bytes);
    return bytes;
  }
  [[nodiscard]] std::string make_reply() {
    HelloReply reply;
    reply.versions = {1, 2};
    reply.chosen = static_cast<uint16_t>(1 + in_.pick(2));
    if (in_.seldom()) reply.chosen = in_.number<uint16_t>();
    if (in_.pick(4) == 0) reply.code = static_cast<HelloCode>(in_.pick(10));
    reply.replier = identity_of(in_.seldom() ? in_.byte() : static_cast<uint8_t>(kDialled + in_.pick(2)));
    if (in_.seldom()) reply.replier.cluster_id = uuid_of(in_.byte());
    reply.text = in_.seldom() ? in_.short_text() : "";
    std::string bytes = encode_reply(reply);
    if (in_.seldom()) in_.damage(bytes);
    return bytes;
  }
  [[nodiscard]] std::string make_frame() {
    constexpr std::array<uint32_t, 6> kSizes = {0, 1, 999, 1001, 4200, kPayloadBytesMax + 1};
    std::string frame = frame_of(std::string(kSizes[in_.pick(kSizes.size())], static_cast<char>(in_.byte())));
    if (in_.seldom()) in_.damage(frame);
    return frame;
  }
  /// Or a frame that asks.
  [[nodiscard]] std::string make_notice() {
    const FramePrefix asks{.has = static_cast<uint32_t>(in_.pick(4)), .asks = true};
    const FramePrefix alone{.has = static_cast<uint32_t>(in_.pick(4)), .is_alone = true};
    const bool is_alone = in_.flag();
    std::string frame(8, '\0');
    builtin_dialects()[1].pack(reinterpret_cast<std::byte*>(frame.data()), is_alone ? alone : asks);
    return is_alone ? frame : frame.append(kPacketHeaderBytes, 'h');
  }
  [[nodiscard]] std::string make_bundle() {
    std::string bundle(kPacketHeaderBytes + 8 + in_.byte(), static_cast<char>(in_.byte()));
    auto* at = reinterpret_cast<std::byte*>(bundle.data());
    at[0] = std::byte{0x21};
    store_le(at + 4, static_cast<uint32_t>(in_.seldom() ? in_.near(bundle.size()) : bundle.size()));
    std::string frame = frame_of(bundle.substr(kPacketHeaderBytes));
    frame.replace(frame.size() - bundle.size(), kPacketHeaderBytes, bundle, 0, kPacketHeaderBytes);
    if (in_.seldom()) in_.damage(frame);
    return frame;
  }
  [[nodiscard]] static std::string frame_of(const std::string& payload) {
    const Dialect& dialect = builtin_dialects().front();
    std::string frame(dialect.frame_bytes, '\0');
    dialect.pack(reinterpret_cast<std::byte*>(frame.data()), {.payload_bytes = static_cast<uint32_t>(payload.size())});
    return frame.append(kPacketHeaderBytes, 'h').append(payload);
  }

  // --- The transport

  void dial() {
    Descriptor whom;
    whom.transport = "tcp";
    whom.identity = identity_of(static_cast<uint8_t>(kDialled + in_.pick(2)));
    whom.address = g_listener().address().encode();
    const auto peer = transport_->resolve(whom);
    if (!peer.ok()) return;
    dialled_.insert(*peer);
    send_to(*peer);
  }
  void take_dial() {
    if (sockets_.size() == kSocketsMax) return;
    turn(kBurstMax, false);
    UniqueFd fd = g_listener().accept_one();
    if (!fd.is_open()) return;
    const linger now{.l_onoff = 1, .l_linger = 0};
    static_cast<void>(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now));
    sockets_.push_back(std::move(fd));
  }
  void send() {
    std::vector<PeerId> peers(dialled_.begin(), dialled_.end());
    peers.insert(peers.end(), up_.begin(), up_.end());
    if (!peers.empty()) send_to(peers[in_.pick(peers.size())]);
  }
  void send_to(PeerId peer) {
    static const std::string body(3000, 'b');
    TxPacket packet;
    packet.peer = peer;
    packet.header.fill(std::byte{5});
    packet.payload_bytes = in_.flag() ? 3000 : 10;
    packet.segments[0] = as_byte_span(body).first(packet.payload_bytes);
    packet.segment_count = 1;
    packet.token = ++tokens_given_;
    const bool taken = transport_->tx_burst(std::span(&packet, 1)) == 1;
    if (!taken || packet.done) ++tokens_back_;
  }
  void take_frame() {
    std::vector<PeerId> peers(dialled_.begin(), dialled_.end());
    peers.insert(peers.end(), up_.begin(), up_.end());
    if (peers.empty() || frames_.size() == kFramesHeldMax) return;
    const PeerId peer = peers[in_.pick(peers.size())];
    const TxFrame frame = transport_->take_frame(peer);
    if (frame.bytes == nullptr) return;
    SKUA_CHECK(frame.room == kFrameRoom && frame.peer == peer, "another frame than was asked for");
    frames_.push_back(frame);
    frames_.back().size =
        in_.seldom() ? 0 : static_cast<uint32_t>(kPacketHeaderBytes + in_.pick(kFrameRoom - kPacketHeaderBytes + 1));
    std::memset(frame.bytes, 0x21, frames_.back().size);
  }
  /// The newest ones, or others.
  void send_frames(size_t count) {
    count = std::min(count, frames_.size());
    if (count > 1 && in_.flag()) std::rotate(frames_.begin(), frames_.begin() + 1, frames_.end());
    transport_->send_frames(std::span(frames_).last(count));
    frames_.resize(frames_.size() - count);
  }
  void turn(size_t burst, bool holds) {
    std::array<RxPacket, kBurstMax> packets;
    const size_t count = transport_->rx_burst(std::span(packets).first(burst));
    poll_links();
    for (size_t i = 0; i < count; ++i) {
      const RxPacket& packet = packets[i];
      SKUA_CHECK(up_.contains(packet.from) || ended_now_.contains(packet.from), "a packet by no connection");
      SKUA_CHECK(packet.payload.size() <= kPayloadBytesMax, "a packet beyond bounds");
      last_payload_ = std::string(as_string_view(packet.payload));
      if (packet.placed) {
        SKUA_CHECK(placer_.placed.erase(packet.placement) == 1, "a placement that nobody made");
      } else if (packet.buffer != kNoBuffer) {
        held_.push_back(packet.buffer);
      }
    }
    ended_now_.clear();
    if (!holds) release();
    reap();
  }
  void poll_links() {
    std::array<LinkEvent, 8> events;
    while (const size_t count = transport_->poll_links(events)) {
      for (const LinkEvent& event : std::span(events).first(count)) {
        const bool is_caller = !dialled_.contains(event.peer);
        if (event.kind == LinkEvent::Kind::kUp) {
          SKUA_CHECK(up_.insert(event.peer).second, "a connection beside another one");
          SKUA_CHECK(!is_caller || callers_.insert(event.peer).second, "a caller has another one's number");
        } else if (up_.erase(event.peer) == 1) {
          ended_now_.insert(event.peer);
        }
      }
    }
  }
  void release() {
    transport_->release(held_);
    held_.clear();
  }
  void reap() {
    std::array<TxToken, 32> tokens;
    while (const size_t count = transport_->reap(tokens)) tokens_back_ += count;
  }

  // --- In the end

  void hang_up() {
    sockets_.clear();
    for (int turns = 0; turns < kTurnsMax; ++turns) {
      while (g_listener().accept_one().is_open()) {
      }
      clock_.set(clock_.now_ns() + kTimeoutNs);
      turn(kBurstMax, false);
      const TcpTransport::Stats stats = transport_->stats();
      if (stats.link_count + stats.handshake_count == 0) return;
    }
    SKUA_CHECK(false, "connections do not end");
  }
  void check_honest() {
    Hello hello;
    hello.versions = {1, 1};
    hello.sender = identity_of(9);
    const std::string payload = "an honest caller's";
    const std::string bytes = encode_hello(hello) + frame_of(payload);
    sockets_.push_back(connect_one());
    SKUA_CHECK(
        ::send(sockets_[0].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()),
        "an honest caller cannot speak");
    last_payload_.clear();
    for (int turns = 0; turns < kTurnsMax && last_payload_ != payload; ++turns) {
      // Connections of the stranger may wait before this one, and each row of them is followed by a pause.
      if (turns < kAcceptRowsMax) clock_.set(clock_.now_ns() + kAcceptRowPauseNs);
      turn(kBurstMax, false);
    }
    SKUA_CHECK(last_payload_ == payload, "an honest caller is not heard");
    std::array<char, 512> answer;
    const ssize_t got = recv(sockets_[0].get(), answer.data(), answer.size(), MSG_DONTWAIT);
    SKUA_CHECK(got > 0, "an honest caller is not answered");
    const auto reply = decode_reply(as_byte_span(std::string_view(answer.data(), static_cast<size_t>(got))));
    SKUA_CHECK(reply.ok() && reply->code == HelloCode::kAccepted, "an honest caller is refused");
  }
  void finish() {
    send_frames(frames_.size());
    transport_->abandon_tx();
    poll_links();
    reap();
    SKUA_CHECK(tokens_back_ == tokens_given_, "a token is lost, or came twice");
    SKUA_CHECK(up_.empty(), "a connection ended, and nobody was told");
    SKUA_CHECK(placer_.placed.empty(), "a placement was neither handed over nor abandoned");
    SKUA_CHECK(transport_->stats().chunk_refs == 0, "a chunk is held by nobody");
  }

  static Listener& g_listener() {
    static Listener listener;
    return listener;
  }

  static constexpr uint8_t kDialled = 0x40;
  FuzzInput in_;
  ManualClock clock_;
  Placer placer_;
  std::unique_ptr<TcpTransport> transport_;
  sockaddr_storage address_{};
  std::vector<UniqueFd> sockets_;
  std::set<PeerId> dialled_;
  std::set<PeerId> callers_;    // all that there ever were
  std::set<PeerId> up_;         // whose connections stand
  std::set<PeerId> ended_now_;  // since the last burst was taken
  std::vector<RxBufferId> held_;
  std::vector<TxFrame> frames_;
  std::string last_payload_;
  uint64_t tokens_given_ = 0;
  uint64_t tokens_back_ = 0;
};

}  // namespace
}  // namespace skua::rpc::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::rpc::tcp::World(std::as_bytes(std::span(data, size))).run();
  return 0;
}
