// Messages of remote memory (rpc/remote_memory.h): requests for regions, and operations that are made by calls.
//
//   request     u8 kind, then by kind
//     allocate      u64 bytes, u8 rights, u32 lease in ms, u8 direct wanted
//     free          u64 key
//     renew         u64 key, u32 lease in ms
//     read          u64 key, u64 offset, u32 length
//     write         u64 key, u64 offset, u8 notice wanted, u32 notice, the bytes (all that is left)
//     fetch-add     u64 key, u64 offset, u64 addend
//     compare-swap  u64 key, u64 offset, u64 expected, u64 desired
//     check         u64 key, u64 offset, u32 length, u8 rights: is an operation allowed? Changes nothing
//     ring          u64 key: asks for a ring, for notices by the transport (rpc/notice_ring.h)
//     open          u8 rights, u32 lease in ms, u8 direct wanted, the name (all that is left, 1 to 64 bytes)
//
//   answer (when OK)
//     allocate      u64 key, u32 lease granted in ms; if the transport reaches the region: u64 address, u32 key there
//     open          as allocate, with u64 bytes of the region after the lease
//     renew         u32 lease granted in ms
//     ring          u64 address and u32 key of the ring there, u32 slot
//     read          the bytes
//     fetch-add,
//     compare-swap  u64 the value before
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
  /// Size limit of every kind, without `content`.
  static constexpr size_t kEncodedMax = 1 + 4 * 8;
  /// Size limit of a published region's name.
  static constexpr size_t kNameMax = 64;

  Kind kind = Kind::kRead;
  uint64_t key = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;     ///< allocate; read and check (at most UINT32_MAX); write: size of `content`
  uint8_t rights = 0;     ///< allocate, open, check
  uint32_t lease_ms = 0;  ///< allocate, open, renew
  bool direct = false;    ///< allocate, open
  bool has_notice = false;
  uint32_t notice = 0;
  uint64_t operand = 0;   ///< addend, or the new value
  uint64_t expected = 0;  ///< compare-swap
  ByteSpan content{};     ///< write: the bytes; open: the name. After decode() it refers to the decoded bytes

  /// Writes everything but `content` to `to` (kEncodedMax bytes). Returns how many bytes.
  size_t encode(MutableByteSpan to) const;
  /// False: the bytes are malformed.
  [[nodiscard]] static bool decode(ByteSpan from, RemoteMemoryRequest& out);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_REMOTE_MEMORY_WIRE_H_
