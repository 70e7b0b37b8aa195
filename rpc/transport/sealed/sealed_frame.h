// The 32 bytes in front of every sealed frame.
//
//   offset  size  field
//        0     1  version 3 (high 4 bits), heard (2 bits), mode (low 2 bits)
//        1     1  generation of the sender's key, modulo 256
//        2     2  frame number, bits 32 to 47
//        4     4  bytes of the whole frame: a receiver of a stream finds the end by them
//        8     4  channel: the receiver's index of it
//       12     4  frame number, bits 0 to 31
//       16    16  tag: authenticates bytes 0 to 15 and what follows
//       32        a packet or bundle as it would travel unsealed: encrypted, or as it is (mode)
//
// `heard` is the newest generation of the receiver's keys that the sender has opened a frame of, modulo 4.
// Little endian. Version and length stand where those of a bundle stand (rpc/wire/bundle.h), so a stream transport
// handles sealed frames as it handles bundles.
#ifndef SKUA_RPC_TRANSPORT_SEALED_SEALED_FRAME_H_
#define SKUA_RPC_TRANSPORT_SEALED_SEALED_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/bytes.h"
#include "rpc/crypto/aead.h"

namespace skua::rpc {

/// What the tag covers is authentic in both modes.
enum class SealMode : uint8_t {
  kAuthenticate = 1,  // anybody on the path may read it
  kEncrypt = 2,       // nobody may
};

inline constexpr uint8_t kSealedVersion = 3;
inline constexpr size_t kSealedHeadBytes = 32;
inline constexpr size_t kSealedAuthenticBytes = 16;  // of the head, before the tag
static_assert(kSealedAuthenticBytes + kAeadTagBytes == kSealedHeadBytes);

/// Frame numbers are below this. A channel whose numbers are used up ends.
inline constexpr uint64_t kFrameNumberEnd = uint64_t{1} << 48;

struct SealedHead {
  SealMode mode = SealMode::kEncrypt;
  uint8_t heard = 0;
  uint8_t generation = 0;
  uint32_t frame_bytes = 0;
  uint32_t channel = 0;
  uint64_t number = 0;
  bool operator==(const SealedHead&) const = default;

  /// Writes all but the tag.
  void write(std::byte* to) const {
    store_le(to, static_cast<uint32_t>(kSealedVersion << 4 | (heard & 3) << 2 | static_cast<uint8_t>(mode)) |
                     uint32_t{generation} << 8 | static_cast<uint32_t>(number >> 32) << 16);
    store_le(to + 4, frame_bytes);
    store_le(to + 8, channel);
    store_le(to + 12, static_cast<uint32_t>(number));
  }
  /// False: not a sealed frame, or of a mode that does not exist. `from` has kSealedHeadBytes.
  [[nodiscard]] static bool read(const std::byte* from, SealedHead& out) {
    const auto first = load_le<uint32_t>(from);
    const auto mode = static_cast<uint8_t>(first & 3);
    if ((first >> 4 & 15) != kSealedVersion || (mode != 1 && mode != 2)) return false;
    out = {.mode = static_cast<SealMode>(mode),
           .heard = static_cast<uint8_t>(first >> 2 & 3),
           .generation = static_cast<uint8_t>(first >> 8),
           .frame_bytes = load_le<uint32_t>(from + 4),
           .channel = load_le<uint32_t>(from + 8),
           .number = uint64_t{first >> 16} << 32 | load_le<uint32_t>(from + 12)};
    return true;
  }
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_SEALED_SEALED_FRAME_H_
