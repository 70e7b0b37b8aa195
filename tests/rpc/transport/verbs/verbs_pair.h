// Two verbs transports on one device that know each other. Runs where there are two Soft-RoCE links as tests/vm makes
// them: rxe0 with 10.77.0.1 and an MTU of 4096, rxe1 with 10.78.0.1 and an MTU of 1024.
#ifndef SKUA_TESTS_RPC_TRANSPORT_VERBS_VERBS_PAIR_H_
#define SKUA_TESTS_RPC_TRANSPORT_VERBS_VERBS_PAIR_H_

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/memory/arena.h"
#include "rpc/transport/verbs/ud_queue.h"
#include "rpc/transport/verbs/verbs_fabric.h"
#include "rpc/transport/verbs/verbs_transport.h"

namespace skua::rpc::verbs {

inline constexpr DurationNs kPatience = 30 * kSecond;
inline constexpr uint32_t kDepth = 64;

inline EndpointIdentity identity_of(uint8_t number) {
  EndpointIdentity out;
  out.uuid.bytes = {0x7e, number};
  out.incarnation = 1;
  return out;
}

inline std::unique_ptr<VerbsFabric> fabric_on(const std::string& device) {
  VerbsOptions options;
  options.device = device;
  options.receive_depth = options.send_depth = kDepth;
  return VerbsFabric::start(options).value();
}

inline VerbsTransport& inside(Transport& transport) {
  return dynamic_cast<VerbsTransport&>(transport);
}

class VerbsPair : public testing::Test {
 protected:
  VerbsPair() : VerbsPair("rxe0") {}
  explicit VerbsPair(const std::string& device) : fabric_(fabric_on(device)) {
    sender_ = fabric_->make_transport(identity_of(1)).value();
    receiver_ = fabric_->make_transport(identity_of(2)).value();
    to_receiver_ = sender_->resolve(receiver_->local_descriptor()).value();
    to_sender_ = receiver_->resolve(sender_->local_descriptor()).value();
    wait_for(*sender_, to_receiver_);
    wait_for(*receiver_, to_sender_);
  }

  /// On a busy machine an address handle takes longer than resolve() waits for it.
  void wait_for(Transport& transport, PeerId peer) const {
    const TimeNs limit = clock_.now_ns() + kPatience;
    while (!inside(transport).resolved(peer) && clock_.now_ns() < limit) std::this_thread::yield();
    ASSERT_TRUE(inside(transport).resolved(peer));
  }

  TxPacket packet(ByteSpan body, TxToken token, uint8_t mark = 7) const {
    TxPacket out;
    out.peer = to_receiver_;
    out.header.fill(std::byte{mark});
    out.token = token;
    out.segment_count = body.empty() ? 0 : 1;
    out.segments[0] = body;
    out.payload_bytes = static_cast<uint32_t>(body.size());
    return out;
  }
  bool send(TxPacket& one) { return sender_->tx_burst(std::span(&one, 1)) == 1; }

  /// Turns until `done` or the end of patience.
  bool until(const std::function<bool()>& done) {
    const TimeNs limit = clock_.now_ns() + kPatience;
    while (!done()) {
      if (clock_.now_ns() > limit) return false;
      receive();
      for (Transport* end : {sender_.get(), receiver_.get()}) {
        std::array<LinkEvent, 8> events;
        const size_t count = end->poll_links(events);
        for (size_t i = 0; i < count; ++i) links_.push_back(events[i]);
      }
    }
    return true;
  }

  /// Takes what has arrived; it stays lent.
  void receive() {
    std::array<RxPacket, kBurstMax> burst;
    const size_t count = receiver_->rx_burst(burst);
    for (size_t i = 0; i < count; ++i) arrived_.push_back(burst[i]);
  }
  void release_all() {
    for (const RxPacket& packet : arrived_) receiver_->release(std::span(&packet.buffer, 1));
    arrived_.clear();
  }

  /// Every buffer is posted, free or in arrived_.
  void expect_nothing_lost() {
    const UdQueue& queue = inside(*receiver_).queue();
    EXPECT_EQ(queue.posted_buffers() + queue.free_buffers() + arrived_.size(), queue.buffer_count());
  }

  const SteadyClock clock_;
  const std::unique_ptr<VerbsFabric> fabric_;
  std::unique_ptr<Transport> sender_;
  std::unique_ptr<Transport> receiver_;
  PeerId to_receiver_ = kNoPeer;
  PeerId to_sender_ = kNoPeer;
  std::deque<RxPacket> arrived_;
  std::vector<LinkEvent> links_;
};

/// Memory that the sender's transport knows.
class Registered {
 public:
  Registered(Transport& transport, size_t bytes)
      : arena_({.on_map = [&](MutableByteSpan region) { return transport.register_region(region); },
                .on_unmap = [&](MutableByteSpan region) { transport.unregister_region(region); }}),
        bytes_(arena_.map(bytes).value().first(bytes)) {
    for (size_t i = 0; i < bytes; ++i) bytes_[i] = static_cast<std::byte>(mix64(i));
  }
  [[nodiscard]] ByteSpan bytes() const { return bytes_; }

 private:
  Arena arena_;
  MutableByteSpan bytes_;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_TESTS_RPC_TRANSPORT_VERBS_VERBS_PAIR_H_
