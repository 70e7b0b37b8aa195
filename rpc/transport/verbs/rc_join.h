// Joining a shared queue pair: how two endpoints agree to use the queue pair between their processes (rc_hub.h). Pure:
// time is an argument.
//
//   endpoint a2 of process A                               endpoint b1 of process B
//     | -- open, generation 71, "I am of A" -------------------->|
//     | <-- open, 15, echo 71, "I am of B", pair: B's half ------|   a pair of A and B is being made, or there is one
//     | -- ready, 71, echo 15, pair: A's half, bound ----------->|
//
// Two handshakes with the same rules (rc_handshake.h) travel in one datagram. One is between the two endpoints; its
// number becomes part of the connection's number. The other is that of the pair; all endpoints of both processes take
// part in it. An endpoint has joined when both handshakes are complete. An endpoint's process is its own claim. Such a
// claim must not be believed across principals; today there is only one principal.
//
//   datagram   u64 magic   u8 version (1)   u8 state of the joining   u8 state of the pair, 0: nothing about a pair
//              u8 READs and atomics served at a time   u32 QP number   u32 first PSN   u32 zero
//              u64 process   u64 generation   u64 echo   u64 pair's generation   u64 pair's echo
#ifndef SKUA_RPC_TRANSPORT_VERBS_RC_JOIN_H_
#define SKUA_RPC_TRANSPORT_VERBS_RC_JOIN_H_

#include <array>
#include <cstdint>
#include <optional>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/transport/verbs/rc_handshake.h"

namespace skua::rpc::verbs {

struct JoinMessage {
  static constexpr size_t kBytes = 64;
  /// As ConnectMessage::kMagic, with another value.
  static constexpr uint64_t kMagic = 0x314e'494f'4a00'00ff;

  /// Drawn at random by each process.
  uint64_t process = 0;
  ConnectMessage::State state = ConnectMessage::State::kOpen;
  uint64_t generation = 0;
  uint64_t echo = 0;
  std::optional<ConnectMessage> pair;

  bool operator==(const JoinMessage&) const = default;
  [[nodiscard]] static bool is_one(ByteSpan datagram) {
    return datagram.size() >= sizeof kMagic && load_le<uint64_t>(datagram.data()) == kMagic;
  }
  /// The part for the handshake of the two endpoints; it names no queue pair.
  [[nodiscard]] ConnectMessage joining() const;
  /// True if the sender waits for nothing more.
  [[nodiscard]] bool is_settled() const {
    return state == ConnectMessage::State::kReady && pair.has_value() && pair->state == ConnectMessage::State::kReady;
  }
  [[nodiscard]] std::array<std::byte, kBytes> encode() const;
  /// nullopt for anything that encode() does not produce, and for numbers that no queue pair has.
  static std::optional<JoinMessage> decode(ByteSpan datagram);
};

/// When an endpoint that has not joined yet repeats its message.
class JoinSchedule {
 public:
  static constexpr DurationNs kRepeatFirst = 20 * kMillisecond;
  static constexpr DurationNs kAnswerEvery = 5 * kMillisecond;
  static constexpr uint32_t kTries = 6;  // 1.3 s

  void begin(TimeNs now) {
    tries_ = 0;
    next_ns_ = now;
    next_answer_ns_ = 0;
  }
  [[nodiscard]] TimeNs next_due_ns() const { return next_ns_; }
  /// True if it is time to send the message.
  bool due(TimeNs now) {
    if (now < next_ns_ || is_over(now)) return false;
    next_ns_ = now + (kRepeatFirst << tries_++);
    return true;
  }
  /// True if all tries were in vain.
  [[nodiscard]] bool is_over(TimeNs now) const { return tries_ == kTries && now >= next_ns_; }
  /// Limits the answers that bring nothing new to a peer that waits. True: answer now.
  bool may_answer(TimeNs now) {
    if (now < next_answer_ns_) return false;
    next_answer_ns_ = now + kAnswerEvery;
    return true;
  }

 private:
  uint32_t tries_ = 0;
  TimeNs next_ns_ = 0;
  TimeNs next_answer_ns_ = 0;
};

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_RC_JOIN_H_
