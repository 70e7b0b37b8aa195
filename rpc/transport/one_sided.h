// OneSided: operations on a peer's memory that its processor takes no part in, for transports that have them
// (Capabilities::one_sided). The engine moves large messages with them: the sender names the memory, the receiver READs it.
//
//    owner of the memory                              user
//      lend(peer, bytes): what the peer must know       post(operations) ----> device ----> memory of the owner
//      ... the operation runs, the owner is not told    reap(completions) <---
//      take_back(loan)
//
// Loans. What a peer is told of is lent to that peer alone: exactly these bytes, for READs, over the connection that
// stands. No name opens anything else, so a peer learns nothing by guessing names, or by keeping names. Lending and
// taking back are the device's work and take their time; reap() tells when they are done:
//
//      lend() ----> kLent: the name may be told ----> take_back() ----> kTakenBack: nobody reads the bytes any more
//
// Each loan is taken back once, also if it never came about or its connection is over; both completions come once for
// each.
//
// Connections. Operations need a connection between both transports besides the packets' way; the transport makes it by itself,
// on demand, and makes it anew after a failure. ready() says whether one stands; until then, and for peers that cannot, the
// caller sends packets. A failure completes every operation in flight with ok = false: they may or may not have run.
//
// Which connection. Memory is lent to a peer for a while, and sever() is how it is taken back from one that does not answer: the
// connection dies, and with it all that the peer has posted. What it was told of and has not posted yet is the other half. It may
// come long after, find a connection that was made since, and read memory that means something else by then. No time to wait
// in between is long enough for that, because a peer may stand still for as long as it likes. So connections have numbers:
//
//    owner                                                     peer
//    connection(peer) == 71
//      announces memory, "by 71" ------------------------------> posts what says "by 71" while connection(owner) == 71
//    sever(peer): 71 is over, on this side at once                       (a post on a dead connection fails by itself)
//      the memory is used for something else
//    connection(peer) == 93, for whatever comes next ----------> "by 71" is refused before it is posted: 71 != 93
//
// A number names one pair of ends of one life: both sides compute it from what each of them drew for its own end, so neither can
// have it before the other end is the one that it is bound to, and it never comes back. An operation with a number is posted to that connection
// or fails here; the number is looked at in post() itself, so nothing can come in between. Therefore memory that was announced over a dead
// connection is read by nobody who keeps to this. Who does not keep to this reaches what is lent to them at that
// moment, and no more.
//
// Lifetimes. Memory given to post() is the device's until its completion was reaped. Memory that is lent may be read by
// the peer until kTakenBack was reaped, or until sever(): the engine keeps both rules.
//
// Thread: the endpoint's, as Transport.
#ifndef SKUA_RPC_TRANSPORT_ONE_SIDED_H_
#define SKUA_RPC_TRANSPORT_ONE_SIDED_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

struct OneSidedOperation {
  enum class Kind : uint8_t { kRead, kWrite, kFetchAdd, kCompareSwap, kWriteWithNotice };
  Kind kind = Kind::kRead;
  PeerId peer = kNoPeer;
  /// Over this one, or it fails (see above); 0: over whichever stands.
  uint64_t connection = 0;
  /// Here: filled by a READ, sent by a WRITE; 8 bytes that an atomic puts the previous value into. Registered memory.
  MutableByteSpan local{};
  /// There: `local.size()` bytes.
  uint64_t address = 0;
  uint32_t key = 0;
  /// Atomics.
  uint64_t operand = 0;
  uint64_t expected = 0;
  /// kWriteWithNotice: once `local` is in place so are these bytes of registered memory, there; then the peer gets the
  /// number.
  ByteSpan entry{};
  uint64_t entry_address = 0;
  uint32_t entry_key = 0;
  uint32_t number = 0;
  /// Handed back with the completion.
  uint64_t cookie = 0;
};

struct OneSidedCompletion {
  enum class Kind : uint8_t { kOperation, kLent, kTakenBack, kNotice };
  /// The operation's, or the loan's. Of kNotice: the number that `peer` sent, a peer's word.
  uint64_t cookie = 0;
  /// Of kLent: the name may be told. False: the loan did not come about; it is to be taken back all the same.
  bool ok = false;
  Kind kind = Kind::kOperation;
  PeerId peer = kNoPeer;
};

/// What a peer must know of memory here.
struct MemoryName {
  uint64_t address = 0;
  uint32_t key = 0;
};

/// Memory that one peer may READ.
struct Loan {
  uint64_t number = 0;
  MemoryName name;
};

namespace memory_rights {
inline constexpr uint8_t kRead = 1;
inline constexpr uint8_t kWrite = 2;
inline constexpr uint8_t kAtomic = 4;
inline constexpr uint8_t kAll = kRead | kWrite | kAtomic;
}  // namespace memory_rights

class OneSided {
 public:
  virtual ~OneSided() = default;

  /// The connection by which memory may be announced to `peer` and read by it, in both directions: the same number at
  /// both ends, and no other connection's ever. 0: none, and one is asked for; or READs of messages do not get on at
  /// present, and packets do better.
  [[nodiscard]] virtual uint64_t connection(PeerId peer) = 0;
  /// A connection stands, fast or slow. If not, it is asked for.
  [[nodiscard]] virtual bool ready(PeerId peer) { return connection(peer) != 0; }
  /// Lets `peer` READ [bytes], see above. Nothing: no connection stands, [bytes] are not registered as a whole, the
  /// device cannot lend, or as much is lent as can be.
  [[nodiscard]] virtual std::optional<Loan> lend(PeerId peer, ByteSpan bytes, uint64_t cookie) = 0;
  /// Ends the loan; [bytes] stay as they are until kTakenBack was reaped.
  virtual void take_back(uint64_t loan) = 0;
  /// Opens [region] (registered or not), and nothing around it, to all connected peers that know the name returned, for what `rights`
  /// (memory_rights) says and nothing else. RESOURCE_EXHAUSTED names the limit, UNIMPLEMENTED the right that the device has not.
  virtual absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) = 0;
  /// When this returns nobody reaches it any more under that key; operations that are under way fail, having run or not.
  virtual void close_region(uint32_t key) = 0;
  /// From now on so many notices more from `peer` can wait here to be reaped. False: that is too many for this peer or
  /// for all, no connection stands, or there are none; then nobody may be told to send any.
  virtual bool reserve_notices(PeerId /*peer*/, uint32_t /*count*/) { return false; }
  virtual void release_notices(PeerId /*peer*/, uint32_t /*count*/) {}
  /// May be an operation's `local` or `entry`.
  [[nodiscard]] virtual bool usable(ByteSpan bytes) = 0;
  /// Takes a prefix and returns how many. One for a peer that is not ready is taken, and completes with ok = false.
  virtual size_t post(std::span<const OneSidedOperation> operations) = 0;
  /// Completions in any order, and notices of peers; returns how many were written.
  virtual size_t reap(std::span<OneSidedCompletion> completions) = 0;
  /// Ends the connection with `peer`: when this returns, the peer reaches no memory here any more, and our own operations with
  /// it will complete, with ok = false if they had not ended. The next connection() asks for a new one.
  virtual void sever(PeerId peer) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_ONE_SIDED_H_
