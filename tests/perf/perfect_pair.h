// Two endpoints on one thread, over a wire that is two arrays of packets, or over a transport of the caller's. Time
// is what the pair says it is, so that nothing but the work varies.
#ifndef SKUA_TESTS_PERF_PERFECT_PAIR_H_
#define SKUA_TESTS_PERF_PERFECT_PAIR_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "rpc/base/check.h"
#include "rpc/endpoint.h"

namespace skua::rpc {

inline constexpr size_t kWirePackets = 128;
inline constexpr size_t kWirePayload = 960;

struct WirePacket {
  std::array<std::byte, kPacketHeaderBytes> header;
  std::array<std::byte, kWirePayload> payload;
  uint32_t payload_bytes = 0;
};

/// One direction: a ring whose slots are lent to the receiver.
struct Pipe {
  std::vector<WirePacket> ring{kWirePackets};
  size_t written = 0;
  size_t read = 0;
};

class WireTransport final : public Transport {
 public:
  WireTransport(uint8_t number, Pipe& out, Pipe& in, bool integrity) : out_(out), in_(in) {
    identity_.uuid.bytes = {number};
    identity_.incarnation = 1;
    capabilities_.payload_max_bytes = kWirePayload;
    capabilities_.segments_max = kTxSegmentsMax;
    capabilities_.lendable_count = kWirePackets / 2;
    capabilities_.integrity = integrity;
    capabilities_.frames = true;
    capabilities_.receives_in_memory = true;
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const TransportCounters& counters() const override { return counters_; }
  [[nodiscard]] Descriptor local_descriptor() const override { return {"wire", identity_, ""}; }
  absl::StatusOr<PeerId> resolve(const Descriptor& /*peer*/) override { return PeerId{0}; }
  size_t tx_burst(std::span<TxPacket> packets) override {
    for (TxPacket& packet : packets) {
      WirePacket& slot = out_.ring[out_.written++ % kWirePackets];
      std::memcpy(slot.header.data(), packet.header.data(), kPacketHeaderBytes);
      slot.payload_bytes = packet.payload_bytes;
      std::byte* to = slot.payload.data();
      for (size_t i = 0; i < packet.segment_count; ++i) {
        std::memcpy(to, packet.segments[i].data(), packet.segments[i].size());
        to += packet.segments[i].size();
      }
      packet.done = true;
    }
    return packets.size();
  }
  TxFrame take_frame(PeerId peer) override {
    std::byte* frame = frames_[taken_++ % kWireFrames].data();
    return {.peer = peer, .size = 0, .bytes = frame, .room = kPacketHeaderBytes + kWirePayload, .cookie = 0};
  }
  void send_frames(std::span<const TxFrame> frames) override {
    for (const TxFrame& frame : frames) {
      if (frame.size == 0) continue;
      WirePacket& slot = out_.ring[out_.written++ % kWirePackets];
      std::memcpy(slot.header.data(), frame.bytes, kPacketHeaderBytes);
      slot.payload_bytes = frame.size - static_cast<uint32_t>(kPacketHeaderBytes);
      std::memcpy(slot.payload.data(), frame.bytes + kPacketHeaderBytes, slot.payload_bytes);
    }
  }
  size_t rx_burst(std::span<RxPacket> packets) override {
    size_t count = 0;
    for (; count < packets.size() && in_.read < in_.written; ++count) {
      const WirePacket& slot = in_.ring[in_.read++ % kWirePackets];
      RxPacket& packet = packets[count];
      packet.from = 0;
      packet.placed = false;
      packet.header = slot.header;
      packet.payload = ByteSpan(slot.payload).first(slot.payload_bytes);
      packet.buffer = 1;
    }
    return count;
  }
  void release(std::span<const RxBufferId> /*buffers*/) override {}
  void wait(DurationNs /*timeout_ns*/) override {}
  void wake() override {}

 private:
  Pipe& out_;
  Pipe& in_;
  static constexpr size_t kWireFrames = 64;  // more than are written at a time
  using FrameBytes = std::array<std::byte, kPacketHeaderBytes + kWirePayload + kFrameSlack>;
  std::vector<FrameBytes> frames_{kWireFrames};
  size_t taken_ = 0;
  EndpointIdentity identity_;
  Capabilities capabilities_;
  TransportCounters counters_;
};

/// Each waits for no wire: turn() is all that happens.
struct Pair {
  Pair(Transport& client_wire, Transport& server_wire, uint32_t sessions, bool trusted_wire = false) {
    EndpointOptions options;
    options.spin_ns = kTimeNever;
    options.protocol.window = 64;
    options.trusted_wire = trusted_wire;
    options.sessions_max = options.sessions_per_peer_max = options.sessions_per_host_max = sessions + 1;
    client = std::make_unique<Endpoint>(client_wire, clock, options);
    server = std::make_unique<Endpoint>(server_wire, clock, options);
    server->serve(1, [](IncomingCall&& call) { call.reply.reply(call.request.bytes()); });
    for (uint32_t i = 0; i < sessions; ++i) {
      session.push_back(client->connect(server->local_descriptor()).value());
      for (uint32_t turns = 0; !client->is_connected(session.back()); ++turns) {
        SKUA_CHECK(turns < 10'000, "a session does not open over a perfect wire: was it refused?");
        turn();
      }
    }
  }

  void turn() {
    clock.advance(kMicrosecond);  // a network of constant delay
    for (uint32_t i = 0; i < client_polls; ++i) client->poll();
    for (uint32_t i = 0; i < server_polls; ++i) server->poll();
  }

  ManualClock clock;
  /// In a turn.
  uint32_t client_polls = 1;
  uint32_t server_polls = 1;
  std::unique_ptr<Endpoint> client;
  std::unique_ptr<Endpoint> server;
  std::vector<SessionId> session;
};

/// A pair with the two arrays between them.
struct WirePair {
  WirePair(bool integrity, uint32_t sessions)
      : client_wire(1, there, back, integrity),
        server_wire(2, back, there, integrity),
        pair(client_wire, server_wire, sessions) {}

  Pipe there;
  Pipe back;
  WireTransport client_wire;
  WireTransport server_wire;
  Pair pair;
};

/// Calls of 32 bytes, so many at a time.
class SmallCalls {
 public:
  /// Over `active` of the pair's sessions, evenly.
  SmallCalls(Pair& pair, uint32_t outstanding, uint32_t active)
      : pair_(pair),
        outstanding_(outstanding),
        active_(active),
        stride_(static_cast<uint32_t>(pair.session.size()) / active) {}

  /// Makes up what is missing, and lets both sides have a turn.
  void turn() {
    while (in_flight_ < outstanding_) {
      const SessionId session = pair_.session[size_t{next_++ % active_} * stride_];
      const auto call = pair_.client->call(session, 1, ByteSpan(content_), {}, [this](CallResult&& result) {
        SKUA_CHECK(result.status.ok(), "a call over a perfect wire failed");
        --in_flight_;
        ++done_;
      });
      SKUA_CHECK(call.ok(), "a call was refused");
      ++in_flight_;
    }
    pair_.turn();
  }
  void finish() {
    while (in_flight_ > 0) pair_.turn();
  }
  [[nodiscard]] uint64_t done() const { return done_; }

 private:
  Pair& pair_;
  const uint32_t outstanding_;
  const uint32_t active_;
  const uint32_t stride_;
  const std::array<std::byte, 32> content_{};
  uint32_t in_flight_ = 0;
  uint32_t next_ = 0;
  uint64_t done_ = 0;
};

/// Messages of so many bytes there and so many back, one at a time.
class LargeMessages {
 public:
  LargeMessages(Pair& pair, size_t request_bytes, size_t response_bytes)
      : pair_(pair), request_bytes_(request_bytes), content_(std::max(request_bytes, response_bytes)) {
    pair_.server->serve(
        2, [this, response_bytes](IncomingCall&& call) { call.reply.reply(message(*pair_.server, response_bytes)); });
  }
  LargeMessages(const LargeMessages&) = delete;
  LargeMessages& operator=(const LargeMessages&) = delete;

  void call() {
    bool done = false;
    const auto call = pair_.client->call(pair_.session[0], 2, message(*pair_.client, request_bytes_), {},
                                         [&done](CallResult&& result) {
                                           SKUA_CHECK(result.status.ok(), "a call over a perfect wire failed");
                                           done = true;
                                         });
    SKUA_CHECK(call.ok(), "a call was refused");
    while (!done) pair_.turn();
  }
  /// Of any kind, both ways, since the pair was made.
  [[nodiscard]] uint64_t packets() const {
    return pair_.client->counters().packets_sent + pair_.server->counters().packets_sent;
  }

 private:
  [[nodiscard]] MessagePtr message(Endpoint& endpoint, size_t bytes) const {
    MessagePtr out = endpoint.make_message();
    SKUA_CHECK(out->add_body(ByteSpan(content_).first(bytes), nullptr, nullptr), "one body");
    return out;
  }

  Pair& pair_;
  const size_t request_bytes_;
  const std::vector<std::byte> content_;
};

}  // namespace skua::rpc

#endif  // SKUA_TESTS_PERF_PERFECT_PAIR_H_
