// RcHandshake: how two transports connect a pair of queue pairs (RC), by datagrams of their own. Pure: time is an
// argument.
//
//   A                                              B
//     | -- open, generation 71 ------------------->|   B makes a queue pair and binds it to A's
//     | <----------- open, generation 15, echo 71 -|   A binds its own to B's
//     | -- ready, generation 71, echo 15 --------->|   both know that the other one is bound
//
// Each side has one queue pair for the other side. Until both are ready, each side repeats what the other side must
// know of it: its number and first sequence number, its generation, and the generation that it is bound to (echo; 0:
// none). There is no caller and no callee, so it makes no difference if both begin at once. One rule decides
// everything: a queue pair is bound once, to a queue pair that is unbound or bound to it. A side that hears of a newer
// generation than the one it is bound to makes a new queue pair. Messages with a generation older than the newest one
// heard are ignored. Generations are times of the maker's clock, so they grow even if the maker forgot the peer.
//
//   datagram   u64 magic   u8 version (1)   u8 state: 1 open, 2 ready, 3 closed   u8 READs and atomics served at a time
//              u8 zero   u32 QP number   u32 first PSN   u32 zero   u64 generation   u64 echo
//
// The location of the peer (GID or LID) is known from its endpoint's address. The datagram comes from that address,
// under the key of that endpoint.
#ifndef SKUA_RPC_TRANSPORT_VERBS_RC_HANDSHAKE_H_
#define SKUA_RPC_TRANSPORT_VERBS_RC_HANDSHAKE_H_

#include <array>
#include <cstdint>
#include <optional>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"

namespace skua::rpc::verbs {

struct ConnectMessage {
  static constexpr size_t kBytes = 40;
  /// The engine's packets begin with version and type, which never look like this.
  static constexpr uint64_t kMagic = 0x3143'524b'5300'00ff;
  enum class State : uint8_t { kOpen = 1, kReady = 2, kClosed = 3 };

  State state = State::kOpen;
  uint8_t reads_served = 1;
  uint32_t qp_number = 0;
  uint32_t psn = 0;
  uint64_t generation = 0;
  uint64_t echo = 0;

  bool operator==(const ConnectMessage&) const = default;
  /// True if the datagram begins with the magic; then it is not a packet of the engine.
  [[nodiscard]] static bool is_one(ByteSpan datagram) {
    return datagram.size() >= sizeof kMagic && load_le<uint64_t>(datagram.data()) == kMagic;
  }
  [[nodiscard]] std::array<std::byte, kBytes> encode() const;
  /// nullopt for anything that encode() does not produce, and for numbers that no queue pair has.
  static std::optional<ConnectMessage> decode(ByteSpan datagram);
};

class RcHandshake {
 public:
  static constexpr DurationNs kRepeatFirst = 20 * kMillisecond;
  static constexpr DurationNs kRepeatMax = 500 * kMillisecond;
  static constexpr uint32_t kTries = 12;
  /// This side makes a new queue pair at most this often, however often a peer comes with new generations.
  static constexpr DurationNs kRenewEvery = 2 * kMillisecond;
  static constexpr DurationNs kAnswerEvery = kMillisecond;

  /// What the owner must do, in this order.
  struct Action {
    bool close = false;   // destroy the queue pair
    bool renew = false;   // make a new queue pair
    bool bind = false;    // bind it to the queue pair in the message
    bool answer = false;  // send message()
  };

  /// The owner makes a new queue pair, which is bound to none.
  void begin(TimeNs now);
  /// The queue pair of this side is gone.
  void end();
  Action on_message(const ConnectMessage& message, TimeNs now);
  /// True if it is time to send message() (again). After kTries without success the handshake ends by itself: see
  /// running().
  bool due(TimeNs now);

  /// True if this side has a queue pair.
  [[nodiscard]] bool running() const { return generation_ != 0; }
  /// True if both queue pairs are bound to each other.
  [[nodiscard]] bool ready() const { return ready_; }
  /// The number made of the two generations that are bound to each other: the same at both ends. 0: not ready.
  [[nodiscard]] uint64_t connection() const { return ready_ ? connection_ : 0; }
  [[nodiscard]] TimeNs next_due_ns() const { return running() && !ready_ ? next_send_ns_ : kTimeNever; }
  /// The message to send, without the queue pair's numbers, which the owner fills in.
  [[nodiscard]] ConnectMessage message() const;

 private:
  uint64_t generation_ = 0;  // 0: none
  uint64_t bound_to_ = 0;
  uint64_t newest_ = 0;        // newest generation of this side ever
  uint64_t peers_newest_ = 0;  // newest generation heard of the peer
  bool ready_ = false;
  uint64_t connection_ = 0;
  uint32_t tries_ = 0;
  TimeNs begun_ns_ = 0;
  TimeNs next_send_ns_ = 0;
  TimeNs next_answer_ns_ = 0;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_HANDSHAKE_H_
