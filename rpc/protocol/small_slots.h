// What a session keeps for small calls: one cache line for the session, one for each sslot of its own, and one for each
// of its peer's. One more per sslot is used if requests are given as bytes, or answers as more than 40 bytes.
//
//   SessionHot  -->  [ClientSlot] x window             [ServerSlot] x window
//   64 bytes          64 bytes each, and 64 of data     24 bytes each, and 64 of data; each begins a cache line
//
// What was sent is kept until the peer is known to have it: as a message; or, if it was given as a few bytes, in the
// sslot itself (FewBytes), without a message buffer.
//
// Both halves of a session and the small calls (small_calls.h) use the same sslots and request numbers. The state of an
// sslot says who uses it: kSmall (at the callee kExecuting, kResponding) is for small_calls.h, kLarge for CallerHalf or
// CalleeHalf. If a small call has a problem (no answer in time, cancelled, its session breaks, an answer in packets),
// its half takes it over, under the same number, and it goes on there. It does not become a small call again; the sslot
// does with its next call.
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
/// Calls with longer time-outs are large ones: the sslots of small calls keep times in 32-bit ticks.
inline constexpr DurationNs kSmallTimeoutMax = 60 * kSecond;

/// A request or answer that was given as bytes.
struct FewBytes {
  static constexpr size_t kMax = kFewBytesMax;
  std::byte at[kMax];
};

/// What an sslot keeps of a request or answer that was sent.
struct Kept {
  Message* message = nullptr;  // a hold (MessagePtr::leak()); null: the bytes are in `few`
  uint8_t few_count = 0;

  void release() { MessagePtr::adopt(std::exchange(message, nullptr)).reset(); }
  [[nodiscard]] uint16_t size() const {
    return message != nullptr ? static_cast<uint16_t>(message->size()) : few_count;
  }
};

/// An sslot for requests of ours.
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

/// An sslot for requests of the peer's.
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

/// The part of a session that small calls use. Thread: the endpoint's. Owned by the session; it never moves.
struct alignas(64) SessionHot {
  static constexpr int16_t kQuarters = 4;

  /// Reasons why a call is a large one.
  enum Hindrance : uint16_t {
    kClosed = 1,
    kNotJoined = 2,  // the session belongs to no association (yet)
    kQuiet = 4,      // its connection broke
    kBusy = 8,       // calls wait for sslots or credits: small calls must not overtake them
    kPaced = 16,     // congestion control wants a gap between packets
    kUnarmed = 32,   // `due` is not valid: no reason by itself, but the next call has to arm the timer
  };
  static constexpr uint16_t kCannotAnswer = kClosed | kNotJoined | kQuiet;

  uint16_t hindrances = kClosed | kNotJoined | kUnarmed;
  uint16_t mask = 0;  // window - 1
  uint16_t free_head = kNoFreeSlot;
  uint16_t small_count = 0;  // sslots with small calls of ours
  /// In quarters of a credit. A packet takes four quarters; a small call takes the part of a packet that its answer may
  /// use. Below 0 for a moment when small calls become large ones.
  int16_t credits = 0;
  int16_t credits_barred = 0;  // not usable because of the congestion window
  uint8_t charge = 1;          // quarters that a small call takes
  uint16_t charge_bytes = 0;   // the largest answer that `charge` pays for
  uint32_t handle = UINT32_MAX;
  uint32_t remote_handle = 0;
  uint32_t handle_generation = 0;  // of the application's SessionId
  uint32_t wire_generation = 0;
  /// The session's timer will run at this time or earlier.
  Ticks due = 0;
  /// When the last record of the session came.
  Ticks heard = 0;
  /// A delay sample in [quiet_from, quiet_from + quiet_span) changes nothing for congestion control.
  Ticks quiet_from = 0;
  Ticks quiet_span = UINT32_MAX;
  ClientSlot* client = nullptr;  // null: no sslots yet. The server's lie behind the client's
  Association* association = nullptr;

  [[nodiscard]] ServerSlot* server() const { return reinterpret_cast<ServerSlot*>(client + mask + 1); }
  [[nodiscard]] uint32_t window() const { return mask + 1u; }
  void hinder(Hindrance what, bool is) {
    hindrances = static_cast<uint16_t>(is ? hindrances | what : hindrances & ~what);
  }
  [[nodiscard]] bool has_free_slot() const { return free_head != kNoFreeSlot; }
  /// Takes a free sslot (there must be one), and gives it its next number.
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

  /// Makes a window of sslots for each side. All are free, with the numbers before their first.
  void make(SessionHot& hot);
  void clear();
  [[nodiscard]] bool exists() const { return hot_ != nullptr; }

 private:
  SessionHot* hot_ = nullptr;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_SMALL_SLOTS_H_
