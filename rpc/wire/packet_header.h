// The 32 bytes at the start of every packet of protocol version 1.
//
//   offset  size  field
//        0     1  version (high 4 bits), type (low 4 bits)
//        1     1  flags
//        2     2  method (requests) or status code (responses)
//        4     4  session index      at the receiver
//        8     4  session generation at the receiver: a packet for an older life of that index is dropped
//       12     4  request number     request number % window is the sslot
//       16     4  message bytes      of the whole message this packet is a part of
//       20     2  packet index       the payload's place is index * payload size
//       22     2  deadline           requests: time left, in units of 1 ms, 65535 = that or longer
//       24     4  time stamp         in ticks of 64 ns; answers carry the request's stamp plus the time it was held,
//                                    so that the receiver's clock minus the stamp is the network's delay alone
//       28     4  CRC-32C            of bytes 0..27 and the payload; 0 where the transport has integrity of its own
//
// Little endian, fixed offsets. docs/wire-format.md explains each field. Some packet types have their own payloads
// (acknowledgement and pull bitmaps, handshake records).
#ifndef SKUA_RPC_WIRE_PACKET_HEADER_H_
#define SKUA_RPC_WIRE_PACKET_HEADER_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/base/crc32c.h"
#include "rpc/wire/drop_reason.h"

namespace skua::rpc {

inline constexpr uint8_t kProtocolVersion = 1;
inline constexpr size_t kHeaderBytes = 32;

enum class PacketType : uint8_t {
  kRequest = 1,         // caller -> callee: a piece of a request
  kResponse = 2,        // callee -> caller: a piece of a response; piece 0 acknowledges the whole request
  kAck = 3,             // callee -> caller: which pieces of a request arrived (PacketSet payload)
  kPull = 4,            // caller -> callee: which pieces of the response to send (PacketSet payload)
  kRelease = 5,         // caller -> callee: the response arrived, so its memory may be released
  kPing = 6,            // is the session alive?
  kPong = 7,            // yes
  kUnknownSession = 8,  // answer to a packet for a session that does not exist here (echoes index and generation)
  kConnect = 9,         // a session offer, where no other channel carries it
  kAccept = 10,         // the answer to an offer
  kDisconnect = 11,     // the session is closed
  kReleased = 12,  // callee -> caller: nothing of an announced request is being read any more (answer to a kRelease)
};
inline constexpr uint8_t kPacketTypeMax = 12;

/// The types that an open session handles itself, one bit each. The endpoint handles the others: they make and end
/// sessions.
inline constexpr uint32_t kSessionPacketTypes = 0b1'0000'1111'1110;
[[nodiscard]] constexpr bool is_for_session(PacketType type) {
  return (kSessionPacketTypes >> static_cast<uint8_t>(type) & 1u) != 0;
}

namespace packet_flags {
inline constexpr uint8_t kOneWay = 1;        // request: the receiver answers on its own, empty
inline constexpr uint8_t kEngineStatus = 2;  // response: the status is the engine's, no handler ran
/// request, response: the payload is a ReadList, and the receiver reads the message itself;
/// ack, pull: reading is not possible, so send it in packets;     release: answer once nothing of it is being read
inline constexpr uint8_t kByRead = 4;
}  // namespace packet_flags

/// 64 ns units of some clock, modulo 2^32 (275 s).
using Ticks = uint32_t;
inline constexpr DurationNs kTickNs = 64;
[[nodiscard]] inline Ticks to_ticks(TimeNs t) {
  return static_cast<Ticks>(static_cast<uint64_t>(t) >> 6);
}

/// In the deadline field: no deadline, or one that the field cannot express.
inline constexpr uint16_t kDeadlineUnlimited = UINT16_MAX;

/// The fields have the layout of the wire, so that the header is written and read in words (internal::HeaderWords).
struct PacketHeader {
  PacketType type = PacketType::kRequest;
  uint8_t flags = 0;
  uint16_t method = 0;
  uint32_t session_index = 0;
  uint32_t session_generation = 0;
  uint32_t req_num = 0;
  uint32_t message_bytes = 0;
  uint16_t packet_index = 0;
  uint16_t deadline_ms = kDeadlineUnlimited;
  Ticks stamp = 0;

  bool operator==(const PacketHeader&) const = default;
};

namespace internal {
inline constexpr size_t kCrcOffset = 28;
static_assert(sizeof(PacketHeader) == kCrcOffset && offsetof(PacketHeader, method) == 2 &&
              offsetof(PacketHeader, session_index) == 4 && offsetof(PacketHeader, session_generation) == 8 &&
              offsetof(PacketHeader, req_num) == 12 && offsetof(PacketHeader, message_bytes) == 16 &&
              offsetof(PacketHeader, packet_index) == 20 && offsetof(PacketHeader, deadline_ms) == 22 &&
              offsetof(PacketHeader, stamp) == 24);

/// Bytes 0..27 of a header as words, in memory order. Words that were stored as words can be loaded at once, whole or
/// in part. Words that were stored in parts can be loaded whole only after they have reached the cache.
struct HeaderWords {
  static constexpr uint64_t kVersion = uint64_t{kProtocolVersion} << 4;

  uint64_t first, second, third;
  uint32_t stamp;

  [[nodiscard]] static HeaderWords load(const std::byte* p) {
    return {load_le<uint64_t>(p), load_le<uint64_t>(p + 8), load_le<uint64_t>(p + 16), load_le<uint32_t>(p + 24)};
  }
  /// True: the header has our version, and a known type.
  [[nodiscard]] bool is_known() const { return static_cast<uint8_t>(first - kVersion - 1) < kPacketTypeMax; }
  void store(PacketHeader& to) const {
    HeaderWords{first & ~uint64_t{0xf0}, second, third, stamp}.store(reinterpret_cast<std::byte*>(&to));
  }

  [[nodiscard]] uint32_t crc(const ByteSpan* pieces, size_t piece_count) const {
#if defined(__SSE4_2__)
    uint64_t state = UINT32_MAX;
    state = _mm_crc32_u64(state, first);
    state = _mm_crc32_u64(state, second);
    state = _mm_crc32_u64(state, third);
    uint32_t crc = ~_mm_crc32_u32(static_cast<uint32_t>(state), stamp);
#else
    std::array<std::byte, kCrcOffset> bytes;
    store(bytes.data());
    uint32_t crc = crc32c(bytes);
#endif
    for (size_t i = 0; i < piece_count; ++i) crc = crc32c_extend(crc, pieces[i]);
    return crc;
  }
  void store(std::byte* to) const {
    store_le(to, first);
    store_le(to + 8, second);
    store_le(to + 16, third);
    store_le(to + 24, stamp);
  }
};

inline HeaderWords words_of(const PacketHeader& header) {
  HeaderWords words = HeaderWords::load(reinterpret_cast<const std::byte*>(&header));
  words.first |= HeaderWords::kVersion;
  return words;
}
}  // namespace internal

/// Makes a header from values in registers. This is cheaper than setting field by field; see HeaderWords.
inline PacketHeader make_header(const PacketHeader& parts) {
  const internal::HeaderWords words{
      uint64_t{static_cast<uint8_t>(parts.type)} | uint64_t{parts.flags} << 8 | uint64_t{parts.method} << 16 |
          uint64_t{parts.session_index} << 32,
      uint64_t{parts.session_generation} | uint64_t{parts.req_num} << 32,
      uint64_t{parts.message_bytes} | uint64_t{parts.packet_index} << 32 | uint64_t{parts.deadline_ms} << 48,
      parts.stamp};
  PacketHeader out;
  words.store(out);
  return out;
}

/// Writes the header with a zero CRC field. `to` has kHeaderBytes.
inline void encode_header(const PacketHeader& header, std::byte* to) {
  internal::words_of(header).store(to);
  store_le(to + internal::kCrcOffset, uint32_t{0});
}
/// Writes the header with the CRC over it and the payload's pieces. `to` has kHeaderBytes.
inline void encode_sealed_header(const PacketHeader& header, const ByteSpan* pieces, size_t piece_count,
                                 std::byte* to) {
  const internal::HeaderWords words = internal::words_of(header);
  words.store(to);
  store_le(to + internal::kCrcOffset, words.crc(pieces, piece_count));
}

/// The size of the message, as the header says; not verified. `header` has kHeaderBytes.
[[nodiscard]] inline uint32_t message_bytes_of(const std::byte* header) {
  return load_le<uint32_t>(header + 16);
}

struct DecodedHeader {
  bool ok = false;
  DropReason reason = DropReason::kTooShort;  // if !ok
  PacketHeader header;
};
/// Checks size, version and type; nothing else is verified. False: `out` is unchanged, and decode_header(bytes) has the
/// reason.
[[nodiscard]] inline bool decode_header(ByteSpan bytes, PacketHeader& out) {
  if (bytes.size() < kHeaderBytes) [[unlikely]] {
    return false;
  }
  const auto words = internal::HeaderWords::load(bytes.data());
  if (!words.is_known()) [[unlikely]] {
    return false;
  }
  words.store(out);
  return true;
}
[[nodiscard]] inline DecodedHeader decode_header(ByteSpan bytes) {
  DecodedHeader out;
  out.ok = decode_header(bytes, out.header);
  if (!out.ok && bytes.size() >= kHeaderBytes) {
    out.reason =
        static_cast<uint8_t>(bytes[0]) >> 4 != kProtocolVersion ? DropReason::kBadVersion : DropReason::kBadType;
  }
  return out;
}
/// True if the CRC field matches header and payload. `header` has kHeaderBytes.
[[nodiscard]] inline bool verify_checksum(ByteSpan header, ByteSpan payload) {
  const auto words = internal::HeaderWords::load(header.data());
  return words.crc(&payload, 1) == load_le<uint32_t>(header.data() + internal::kCrcOffset);
}

/// A set of packet indices: `base + bit`. It follows the header of kAck and kPull packets.
//
//   u16 base   everything below it is settled       u16 word count (0..4)       u64 words: bit i of
//   word w = base + 64 w + i
struct PacketSet {
  static constexpr size_t kWordsMax = 4;
  static constexpr size_t kEncodedMax = 4 + 8 * kWordsMax;

  uint16_t base = 0;
  uint16_t word_count = 0;
  std::array<uint64_t, kWordsMax> words{};

  bool operator==(const PacketSet&) const = default;

  /// Adds bits [bit, bit + count), count > 0, all below 64 * kWordsMax.
  void add(uint32_t bit, uint32_t count) {
    const uint32_t end = bit + count;
    for (uint32_t w = bit / 64; w <= (end - 1) / 64; ++w) {
      const uint64_t from = w == bit / 64 ? ~uint64_t{0} << (bit % 64) : ~uint64_t{0};
      const uint64_t to = w == (end - 1) / 64 ? ~uint64_t{0} >> (63 - (end - 1) % 64) : ~uint64_t{0};
      words[w] |= from & to;
    }
    word_count = static_cast<uint16_t>(std::max<uint32_t>(word_count, (end + 63) / 64));
  }
  [[nodiscard]] bool contains_bit(uint32_t bit) const { return (words[bit / 64] >> (bit % 64) & 1) != 0; }

  /// Calls f(index) for each index, in rising order.
  template <typename F>
  void for_each(F&& f) const {
    for (uint32_t w = 0; w < word_count; ++w) {
      for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
        f(base + 64 * w + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
  }
  /// One more than the highest index; 0 if there is none.
  [[nodiscard]] uint32_t end() const {
    for (uint32_t w = word_count; w-- > 0;) {
      if (words[w] != 0) return base + 64 * (w + 1) - static_cast<uint32_t>(std::countl_zero(words[w]));
    }
    return 0;
  }

  /// Writes into `to` (kEncodedMax bytes) and returns the size.
  size_t encode(std::byte* to) const;
  /// False: the bytes are malformed.
  [[nodiscard]] static bool decode(ByteSpan bytes, PacketSet& out);
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_PACKET_HEADER_H_
