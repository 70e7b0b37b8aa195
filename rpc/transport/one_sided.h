// OneSided: operations on a peer's memory that its processor takes no part in, for transports that have them
// (Capabilities::one_sided). The engine moves large messages with them: the sender names the memory, the receiver READs it.
//
//    owner of the memory                              user
//      key_of(bytes): what a peer must know             post(operations) ----> device ----> memory of the owner
//      ... the operation runs, the owner is not told    reap(completions) <---
//
// Connections. Operations need a connection between both transports besides the packets' way; the transport makes it by itself,
// on demand, and makes it anew after a failure. ready() says whether it stands; until then, and for peers that cannot, the
// caller sends packets. A failure completes every operation in flight with ok = false: they may or may not have run.
//
// Lifetimes. Memory given to post() is the device's until its completion was reaped. Memory that a peer was told of may be read by
// that peer until it says that it is done, or until sever(): the engine keeps both rules.
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
  enum class Kind : uint8_t { kRead, kWrite, kFetchAdd, kCompareSwap };
  Kind kind = Kind::kRead;
  PeerId peer = kNoPeer;
  /// Here: filled by a READ, sent by a WRITE; 8 bytes that an atomic puts the previous value into. Registered memory.
  MutableByteSpan local{};
  /// There: `local.size()` bytes.
  uint64_t address = 0;
  uint32_t key = 0;
  /// Atomics.
  uint64_t operand = 0;
  uint64_t expected = 0;
  /// Handed back with the completion.
  uint64_t cookie = 0;
};

struct OneSidedCompletion {
  uint64_t cookie = 0;
  bool ok = false;
};

/// What a peer must know of memory here.
struct MemoryName {
  uint64_t address = 0;
  uint32_t key = 0;
};

class OneSided {
 public:
  virtual ~OneSided() = default;

  /// Operations between us and `peer` work now, in both directions. False: a connection is asked for if there is none.
  [[nodiscard]] virtual bool ready(PeerId peer) = 0;
  /// The key under which peers reach [bytes] by their address here, or nothing: not registered as a whole.
  [[nodiscard]] virtual std::optional<uint32_t> key_of(ByteSpan bytes) = 0;
  /// Opens [region] (registered or not), and nothing around it, to all connected peers that know the key returned: for READs,
  /// WRITEs and atomics. RESOURCE_EXHAUSTED names the limit.
  virtual absl::StatusOr<uint32_t> open_region(MutableByteSpan region) = 0;
  /// When this returns nobody reaches it any more under that key.
  virtual void close_region(uint32_t key) = 0;
  /// By what peers reach [bytes]: the key, and an address that is their own unless a transport names memory differently.
  [[nodiscard]] virtual std::optional<MemoryName> name_of(ByteSpan bytes) {
    const std::optional<uint32_t> key = key_of(bytes);
    if (!key.has_value()) return std::nullopt;
    return MemoryName{reinterpret_cast<uintptr_t>(bytes.data()), *key};
  }
  /// Takes a prefix and returns how many. One for a peer that is not ready is taken, and completes with ok = false.
  virtual size_t post(std::span<const OneSidedOperation> operations) = 0;
  /// Completions in any order; returns how many were written.
  virtual size_t reap(std::span<OneSidedCompletion> completions) = 0;
  /// Ends the connection with `peer`: when this returns, the peer reaches no memory here any more, and our own operations with
  /// it will complete, with ok = false if they had not ended. The next ready() makes a new one.
  virtual void sever(PeerId peer) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_ONE_SIDED_H_
