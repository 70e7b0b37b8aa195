// What a session keeps for small calls: one cache line for itself, one for each sslot of its own, one for each of its
// peer's; and one more where calls are given as bytes, or answers as more than forty.
//
//   SessionHot  -->  [ClientSlot] x window             [ServerSlot] x window
//   64 bytes          64 bytes each, and 64 of data     24 bytes each, and 64 of data, from a line's begin on
//
// What was sent is kept until it is known to have come: as a message, or, if it was given as a few bytes, in the sslot
// itself (FewBytes), which costs no message.
//
// Both halves of a session, and the small calls (small_calls.h), use the same sslots and the same request numbers. Who
// has an sslot is its state: kSmall (kExecuting, kResponding at the callee) is small_calls.h's, kLarge is CallerHalf's
// or CalleeHalf's. A small call that does not go well (no answer in time, cancelled, its session breaks, an answer in
// packets) is taken over by its half, under its number, and goes on there. That way is one way until the sslot is used
// again.
#ifndef SKUA_RPC_PROTOCOL_SMALL_SLOTS_H_
#define SKUA_RPC_PROTOCOL_SMALL_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "rpc/base/message.h"
#include "rpc/protocol/call.h"
#include "rpc/protocol/options.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

struct Association;

inline constexpr uint16_t kNoFreeSlot = UINT16_MAX;
/// Calls with longer time-outs are large ones: sslots of small calls keep times in 32-bit ticks.
inline constexpr DurationNs kSmallTimeoutMax = 60 * kSecond;

/// A request or answer that was given as bytes.
struct FewBytes {
  static constexpr size_t kMax = kFewBytesMax;
  std::byte at[kMax];
};

/// What an sslot keeps of what was sent.
struct Kept {
  Message* message = nullptr;  // a hold (MessagePtr::leak()); null: the bytes are in `few`
  uint8_t few_count = 0;

  void release() { MessagePtr::adopt(std::exchange(message, nullptr)).reset(); }
  [[nodiscard]] uint16_t size() const {
    return message != nullptr ? static_cast<uint16_t>(message->size()) : few_count;
  }
};

/// One request of ours.
struct alignas(64) ClientSlot {
  enum class State : uint8_t { kFree, kSmall, kLarge };

  uint32_t req_num = 0;
  uint16_t next_free = kNoFreeSlot;
  State state = State::kFree;
  // Of a small call:
  uint8_t method = 0;
  uint8_t charge = 0;  // quarters of credits
  Ticks sent = 0;
  Ticks deadline = 0;
  Kept request;
  CompletionFn completion;
  FewBytes few;
};
static_assert(sizeof(ClientSlot) == 128 && offsetof(ClientSlot, few) == 64);

/// One request of the peer's.
struct alignas(64) ServerSlot {
  enum class State : uint8_t { kIdle, kExecuting, kResponding, kLarge };

  uint32_t req_num = 0;
  State state = State::kIdle;
  uint8_t method = 0;
  uint16_t request_bytes = 0;
  Kept response;  // kResponding: for a repeated request
  FewBytes few;
};
static_assert(sizeof(ServerSlot) == 128 && offsetof(ServerSlot, few) == 24);

/// What a small call needs of its session. Thread: the endpoint's. The session owns it; its address stays.
struct alignas(64) SessionHot {
  static constexpr int16_t kQuarters = 4;

  /// Why a call takes the way of the large ones.
  enum Hindrance : uint16_t {
    kClosed = 1,
    kNotJoined = 2,  // it belongs to no association (yet)
    kQuiet = 4,      // its connection broke
    kBusy = 8,       // calls wait for sslots or credits: nobody overtakes them
    kPaced = 16,     // congestion control wants a gap between packets
    kUnarmed = 32,   // `due` means nothing: no hindrance, but the next call arms the timer
  };
  static constexpr uint16_t kCannotAnswer = kClosed | kNotJoined | kQuiet;

  uint16_t hindrances = kClosed | kNotJoined | kUnarmed;
  uint16_t mask = 0;  // window - 1
  uint16_t free_head = kNoFreeSlot;
  uint16_t small_count = 0;  // sslots with small calls of ours
  /// Quarters of credits: a packet takes four, a small call what its answer may take of one. Below 0 for a moment when
  /// small calls become large ones.
  int16_t credits = 0;
  int16_t credits_barred = 0;  // by the congestion window
  uint8_t charge = 1;          // quarters that a small call takes
  uint16_t charge_bytes = 0;   // the largest answer that it pays for
  uint32_t handle = UINT32_MAX;
  uint32_t remote_handle = 0;
  uint32_t handle_generation = 0;  // the application's SessionId
  uint32_t wire_generation = 0;
  /// The session's timer comes at this time, or before.
  Ticks due = 0;
  /// When a record of it came last.
  Ticks heard = 0;
  /// A delay sample in [quiet_from, quiet_from + quiet_span) tells congestion control nothing.
  Ticks quiet_from = 0;
  Ticks quiet_span = UINT32_MAX;
  ClientSlot* client = nullptr;  // null: no sslots yet; the server's follow the window
  Association* association = nullptr;

  [[nodiscard]] ServerSlot* server() const { return reinterpret_cast<ServerSlot*>(client + mask + 1); }
  [[nodiscard]] uint32_t window() const { return mask + 1u; }
  void hinder(Hindrance what, bool is) {
    hindrances = static_cast<uint16_t>(is ? hindrances | what : hindrances & ~what);
  }
  [[nodiscard]] bool has_free_slot() const { return free_head != kNoFreeSlot; }
  /// A free sslot (there is one), with its next number.
  uint32_t take_slot(ClientSlot::State state) {
    const uint32_t index = free_head;
    ClientSlot& slot = client[index];
    free_head = slot.next_free;
    slot.req_num += window();
    slot.state = state;
    return index;
  }
  void free_slot(uint32_t index) {
    client[index].state = ClientSlot::State::kFree;
    client[index].next_free = free_head;
    free_head = static_cast<uint16_t>(index);
  }
};
static_assert(sizeof(SessionHot) == 64);

/// The memory of a session's sslots, made at first use so that an idle session is small.
class SmallSlots {
 public:
  SmallSlots() = default;
  SmallSlots(const SmallSlots&) = delete;
  SmallSlots& operator=(const SmallSlots&) = delete;
  ~SmallSlots() { clear(); }

  /// A window of each, all free, numbers before the first.
  void make(SessionHot& hot);
  void clear();
  [[nodiscard]] bool exists() const { return hot_ != nullptr; }

 private:
  SessionHot* hot_ = nullptr;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SMALL_SLOTS_H_
