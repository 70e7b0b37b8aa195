// OneSided: operations on a peer's memory without the peer's processor, for transports that have them
// (Capabilities::one_sided). The engine moves large messages with these operations: the sender names the memory, the
// receiver READs it.
//
//    owner of the memory                              user
//      lend(peer, bytes): what the peer must know       post(operations) ----> device ----> memory of the owner
//      ... the operation runs, the owner is not told    reap(completions) <---
//      take_back(loan)
//
// Loans. lend() lends exactly the given bytes to one peer, for READs only, over the connection that stands. The name of
// a loan opens nothing else, so a peer gains nothing by guessing names or by keeping old ones. The device does the
// lending and the taking back, and both take time; reap() reports when each is done:
//
//      lend() ----> kLent: the name may be told ----> take_back() ----> kTakenBack: nobody reads the bytes any more
//
// Every loan must be taken back exactly once, even if the lending failed or the connection has ended. Every loan gets
// both completions, each once.
//
// Connections. Operations need a connection between both transports, separate from the path of packets. The transport
// makes this connection on demand, and makes it anew after a failure. ready() says whether a connection stands. Until
// then, and for peers that do not support operations, the caller sends packets. A failure completes every operation in
// flight with ok = false: the operation may or may not have run.
//
// Connection numbers. Memory is lent to a peer for a while. If the peer does not answer, sever() takes the memory back:
// the connection dies, and with it everything that the peer has posted. But the peer may also know of memory for which
// it has not posted an operation yet. It may post that operation much later, on a newer connection, when the memory
// already holds something else. Waiting does not help, because a peer may pause for any length of time. So connections
// have numbers:
//
//    owner                                                     peer
//    connection(peer) == 71
//      announces memory, "by 71" ------------------------------> posts what says "by 71" while connection(owner) == 71
//    sever(peer): 71 is over, on this side at once                       (a post on a dead connection fails by itself)
//      the memory is used for something else
//    connection(peer) == 93, for whatever comes next ----------> "by 71" is refused before it is posted: 71 != 93
//
// A number names one pair of connected ends, for the life of that pair. Both sides compute the number from a value that
// each side drew for its own end. So neither side knows the number before it is bound to the other end, and a number
// never comes back. An operation with a number is posted to that connection or fails at the caller. post() itself
// compares the number, so the connection cannot change between the check and the post. Therefore no peer that follows
// this rule reads memory that was announced over a dead connection. A peer that breaks the rule reaches only what is
// lent to it at that moment.
//
// Lifetimes. Memory given to post() belongs to the device until the completion was reaped. The peer may read lent
// memory until kTakenBack was reaped, or until sever(). The engine keeps both rules.
//
// Thread: the endpoint's, as for Transport.
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
  /// Post over this connection only, else the operation fails (see above). 0: over any connection that stands.
  uint64_t connection = 0;
  /// Local memory, registered. A READ fills it, a WRITE sends it, an atomic puts the previous value (8 bytes) into it.
  MutableByteSpan local{};
  /// The peer's memory: `local.size()` bytes at `address`.
  uint64_t address = 0;
  uint32_t key = 0;
  /// For atomics: the number to add, or the new value of a compare-and-swap, and the value that it compares with.
  uint64_t operand = 0;
  uint64_t expected = 0;
  /// kWriteWithNotice: after `local`, the operation writes these bytes (registered memory) to `entry_address` of the
  /// peer. When both are in place, the peer gets a notice with `number`.
  ByteSpan entry{};
  uint64_t entry_address = 0;
  uint32_t entry_key = 0;
  uint32_t number = 0;
  /// Handed back with the completion.
  uint64_t cookie = 0;
};

struct OneSidedCompletion {
  enum class Kind : uint8_t { kOperation, kLent, kTakenBack, kNotice };
  /// Cookie of the operation or of the loan. kNotice: the number that `peer` sent; it is not to be trusted.
  uint64_t cookie = 0;
  /// kLent: true if the peer may be told the name. False if the loan failed; the caller must still take it back.
  bool ok = false;
  Kind kind = Kind::kOperation;
  PeerId peer = kNoPeer;
};

/// What a peer must know to use memory of this endpoint.
struct MemoryName {
  uint64_t address = 0;
  uint32_t key = 0;
};

/// A loan of memory that one peer may READ.
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

  /// Number of the connection over which memory may be announced to `peer` and read by it, in both directions. Both
  /// ends get the same number, and no other connection ever has it. 0: no connection stands (the transport then asks
  /// for one), or READs of messages make no progress at present and packets are the better way.
  [[nodiscard]] virtual uint64_t connection(PeerId peer) = 0;
  /// True if a connection stands, whether or not READs make progress on it. If none stands, the transport asks for one.
  [[nodiscard]] virtual bool ready(PeerId peer) { return connection(peer) != 0; }
  /// Lets `peer` READ [bytes], as described above. nullopt: no connection stands, [bytes] do not lie in registered
  /// memory, the device cannot lend, or the limit of loans is reached.
  [[nodiscard]] virtual std::optional<Loan> lend(PeerId peer, ByteSpan bytes, uint64_t cookie) = 0;
  /// Ends the loan. [bytes] must stay unchanged until kTakenBack was reaped.
  virtual void take_back(uint64_t loan) = 0;
  /// Opens exactly [region] (registered or not) to all connected peers that know the returned name, for the operations
  /// in `rights` (memory_rights). Ends with close_region(). RESOURCE_EXHAUSTED names the limit; UNIMPLEMENTED names the
  /// right that the device does not have.
  virtual absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) = 0;
  /// When this returns, no peer reaches the region under that key any more. Operations under way fail, whether or not
  /// they ran.
  virtual void close_region(uint32_t key) = 0;
  /// Reserves room for `count` more notices from `peer` that can wait here to be reaped. False: too many for this peer
  /// or for all peers, no connection stands, or the transport has no notices. The caller must then not let the peer
  /// send notices.
  virtual bool reserve_notices(PeerId /*peer*/, uint32_t /*count*/) { return false; }
  virtual void release_notices(PeerId /*peer*/, uint32_t /*count*/) {}
  /// True if [bytes] may be an operation's `local` or `entry`.
  [[nodiscard]] virtual bool usable(ByteSpan bytes) = 0;
  /// Takes the first operations and returns how many it took. An operation for a peer that is not ready is taken and
  /// completes with ok = false.
  virtual size_t post(std::span<const OneSidedOperation> operations) = 0;
  /// Writes completions, in any order, and notices of peers; returns how many were written.
  virtual size_t reap(std::span<OneSidedCompletion> completions) = 0;
  /// Ends the connection with `peer`. When this returns, the peer reaches no memory here any more. This endpoint's
  /// operations with the peer still complete, with ok = false if they had not ended. The next connection() asks for a
  /// new connection.
  virtual void sever(PeerId peer) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_ONE_SIDED_H_
