// Requests of remote memory as messages: how regions are asked for and given back, and how the operations travel where a transport
// has none of its own (rpc/remote_memory.h).
//
//   request     u8 kind, then by kind
//     allocate      u64 bytes, u8 rights, u32 lease in ms, u8 direct wanted
//     free          u64 key
//     renew         u64 key, u32 lease in ms
//     read          u64 key, u64 offset, u32 length
//     write         u64 key, u64 offset, u8 notice wanted, u32 notice, the bytes (all that is left)
//     fetch-add     u64 key, u64 offset, u64 addend
//     compare-swap  u64 key, u64 offset, u64 expected, u64 desired
//     check         u64 key, u64 offset, u32 length, u8 rights: would an operation be allowed? Nothing is done.
//     ring          u64 key: notices of writes to that region shall go by the transport (rpc/notice_ring.h)
//     open          u8 rights, u32 lease in ms, u8 direct wanted, the name (all that is left, 1 to 64 bytes)
//
//   answer (when OK)
//     allocate      u64 key, u32 lease granted in ms; if the peer's transport reaches the region by itself: u64 address, u32 key there
//     open          as allocate, with u64 bytes of the region behind the lease
//     renew         u32 lease granted in ms
//     ring          u64 address and u32 key of the ring there, u32 slot
//     read          the bytes
//     fetch-add,
//     compare-swap  u64 what was there before
#ifndef SKUA_RPC_WIRE_REMOTE_MEMORY_WIRE_H_
#define SKUA_RPC_WIRE_REMOTE_MEMORY_WIRE_H_

#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua::rpc {

struct RemoteMemoryRequest {
  enum class Kind : uint8_t {
    kAllocate = 1,
    kFree = 2,
    kRenew = 3,
    kRead = 4,
    kWrite = 5,
    kFetchAdd = 6,
    kCompareSwap = 7,
    kCheck = 8,
    kOpen = 9,
    kRing = 10,
  };
  /// Of every kind, without `content`.
  static constexpr size_t kEncodedMax = 1 + 4 * 8;
  /// Of a region that is published.
  static constexpr size_t kNameMax = 64;

  Kind kind = Kind::kRead;
  uint64_t key = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;     ///< allocate, read and check (there at most UINT32_MAX); write: of `content`
  uint8_t rights = 0;     ///< allocate, open, check
  uint32_t lease_ms = 0;  ///< allocate, open, renew
  bool direct = false;    ///< allocate, open
  bool has_notice = false;
  uint32_t notice = 0;
  uint64_t operand = 0;   ///< addend, or the value to swap in
  uint64_t expected = 0;  ///< compare-swap
  ByteSpan content{};     ///< write: the bytes, open: the name; a view into what was decoded

  /// Writes all but `content` to `to` (kEncodedMax bytes) and returns how much.
  size_t encode(MutableByteSpan to) const;
  /// False for anything malformed.
  [[nodiscard]] static bool decode(ByteSpan from, RemoteMemoryRequest& out);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_REMOTE_MEMORY_WIRE_H_
