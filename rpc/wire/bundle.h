// Bundles: packets of protocol version 2. A bundle carries many small messages between two endpoints. They may belong
// to any sessions of one association (rpc/protocol/association.h).
//
//   | head 28 | record 12 | its bytes | record 12 | its bytes | ...
//
// Head
//   offset  size  field
//        0     1  version 2 (high 4 bits), type 1 (low 4 bits)
//        1     1  flags
//        2     2  records
//        4     4  CRC-32C of bytes 0..3 and 8..end; on a stream, which detects corruption itself: bytes of the bundle
//        8     4  association   at the receiver; kNoAssociation: there is none yet, and all records are joins
//       12     4  epoch         of the association, at the receiver; a bundle with another epoch is rejected
//       16     4  time stamp    when the bundle was sealed, in the sender's ticks of 64 ns
//       20     4  echo          newest time stamp from the receiver, plus the time since it came
//       24     4  sequence      counts the association's bundles
//
// Record
//        0     4  session at the receiver: index (low 20 bits), life of the index (high 12 bits)
//        4     4  request number
//        8     2  bytes (low 12 bits), kind (high 4 bits)
//       10     1  method of a request; 0 in others
//       11     1  time left for a request, as time_code()
//
// Little endian. docs/wire-format.md explains each field. An encrypted form is possible: the head is authenticated, a
// tag replaces the CRC, and the sequence is the packet's number.
#ifndef SKUA_RPC_WIRE_BUNDLE_H_
#define SKUA_RPC_WIRE_BUNDLE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/base/crc32c.h"
#include "rpc/wire/drop_reason.h"
#include "rpc/wire/packet_header.h"

namespace skua::rpc {

inline constexpr uint8_t kBundleVersion = 2;
inline constexpr size_t kBundleHeadBytes = 28;
/// Of the checksum, or the length (stream_bundle_bytes()).
inline constexpr size_t kBundleChecksumOffset = 4;
inline constexpr size_t kRecordHeadBytes = 12;
/// Limit for the bytes of one record.
inline constexpr uint32_t kRecordBytesMax = 4095;
inline constexpr uint32_t kNoAssociation = UINT32_MAX;
/// Number of sessions that a record can name.
inline constexpr uint32_t kRecordSessionsMax = 1u << 20;

/// The name of a session in records.
[[nodiscard]] constexpr uint32_t session_handle(uint32_t index, uint32_t life) {
  return index | life << 20;
}
[[nodiscard]] constexpr uint32_t index_of_handle(uint32_t handle) {
  return handle & (kRecordSessionsMax - 1);
}

enum class RecordKind : uint8_t {
  kRequest = 1,
  kResponse = 2,  // the whole answer, status OK; other answers are packets of version 1
  kJoin = 3,      // opener -> acceptor: the session shall join this association (JoinRecord)
  kJoined = 4,    // acceptor -> opener: the session has joined (JoinRecord)
  kMissing = 5,   // both ways: bundles that did not come (MissingRecord)
};

namespace bundle_flags {
inline constexpr uint8_t kNoEcho = 1;  // nothing was heard yet, so the echo is not valid
}

struct BundleHead {
  static constexpr uint8_t kVersionAndType = kBundleVersion << 4 | 1;

  uint8_t flags = 0;
  uint16_t records = 0;
  uint32_t association = kNoAssociation;
  uint32_t epoch = 0;
  Ticks stamp = 0;
  Ticks echo = 0;
  uint32_t sequence = 0;
  bool operator==(const BundleHead&) const = default;
};

/// Whether the packet begins like one of version 2. `packet` must not be empty.
[[nodiscard]] inline bool is_bundle(const std::byte* packet) {
  return static_cast<uint8_t>(*packet) >> 4 == kBundleVersion;
}

/// Size of a bundle on a stream, from its first 8 bytes. Not verified: check it against a limit.
[[nodiscard]] inline uint32_t stream_bundle_bytes(const std::byte* bundle) {
  return load_le<uint32_t>(bundle + kBundleChecksumOffset);
}

namespace internal {

/// A head as words, without its checksum. The checksum is computed from these words: a load of a whole word of which
/// parts were just stored has to wait.
struct BundleWords {
  uint32_t first;  // version to records
  uint64_t ids;    // association, epoch
  uint64_t times;  // time stamp, echo
  uint32_t sequence;

  [[nodiscard]] static BundleWords read(const std::byte* from) {
    return {load_le<uint32_t>(from), load_le<uint64_t>(from + 8), load_le<uint64_t>(from + 16),
            load_le<uint32_t>(from + 24)};
  }
  void write(std::byte* to) const {
    store_le(to, first);
    store_le(to + 8, ids);
    store_le(to + 16, times);
    store_le(to + 24, sequence);
  }
  /// Checksum of a bundle with this head. Only the records of `bundle` are read.
  [[nodiscard, gnu::always_inline]] uint32_t crc(ByteSpan bundle) const {
    const ByteSpan records = bundle.subspan(kBundleHeadBytes);
#if defined(__SSE4_2__)
    uint64_t state = _mm_crc32_u32(UINT32_MAX, first);
    state = _mm_crc32_u64(state, ids);
    state = _mm_crc32_u64(state, times);
    if (records.size() >= sizeof(uint32_t)) [[likely]] {
      const uint64_t last = sequence | uint64_t{load_le<uint32_t>(records.data())} << 32;
      return crc32c_extend(~static_cast<uint32_t>(_mm_crc32_u64(state, last)), records.subspan(sizeof(uint32_t)));
    }
    const uint32_t crc = ~_mm_crc32_u32(static_cast<uint32_t>(state), sequence);
#else
    std::array<std::byte, kBundleHeadBytes> bytes;
    write(bytes.data());
    const uint32_t crc = crc32c_extend(crc32c(ByteSpan(bytes).first(4)), ByteSpan(bytes).subspan(8));
#endif
    return crc32c_extend(crc, records);
  }
};

}  // namespace internal

/// Checksum of a whole bundle, without its checksum field.
[[nodiscard]] inline uint32_t bundle_crc(ByteSpan bundle) {
  return internal::BundleWords::read(bundle.data()).crc(bundle);
}

/// Writes the head of a bundle whose records were written. `integrity`: the wire detects damage itself.
inline void seal_bundle(const BundleHead& head, bool integrity, MutableByteSpan bundle) {
  const internal::BundleWords words{
      .first = uint32_t{BundleHead::kVersionAndType} | uint32_t{head.flags} << 8 | uint32_t{head.records} << 16,
      .ids = uint64_t{head.association} | uint64_t{head.epoch} << 32,
      .times = uint64_t{head.stamp} | uint64_t{head.echo} << 32,
      .sequence = head.sequence};
  words.write(bundle.data());
  store_le(bundle.data() + kBundleChecksumOffset, integrity ? static_cast<uint32_t>(bundle.size()) : words.crc(bundle));
}

/// False: drop the bundle; `why` has the reason. Checks size, version, type, and length or checksum. Nothing else is
/// verified.
[[nodiscard]] inline bool open_bundle(ByteSpan bundle, bool integrity, BundleHead& out, DropReason& why) {
  if (bundle.size() < kBundleHeadBytes) [[unlikely]] {
    why = DropReason::kTooShort;
    return false;
  }
  const auto words = internal::BundleWords::read(bundle.data());
  if ((words.first & 0xff) != BundleHead::kVersionAndType) [[unlikely]] {
    why = (words.first >> 4 & 15) == kBundleVersion ? DropReason::kBadType : DropReason::kBadVersion;
    return false;
  }
  const auto seal = load_le<uint32_t>(bundle.data() + kBundleChecksumOffset);
  if (integrity ? seal != bundle.size() : seal != words.crc(bundle)) [[unlikely]] {
    why = integrity ? DropReason::kBadLength : DropReason::kBadChecksum;
    return false;
  }
  out.flags = static_cast<uint8_t>(words.first >> 8);
  out.records = static_cast<uint16_t>(words.first >> 16);
  out.association = static_cast<uint32_t>(words.ids);
  out.epoch = static_cast<uint32_t>(words.ids >> 32);
  out.stamp = static_cast<uint32_t>(words.times);
  out.echo = static_cast<uint32_t>(words.times >> 32);
  out.sequence = words.sequence;
  return true;
}

// --- Records ---------------------------------------------------------------------------------------------------------

/// The code for the time left of a request: 4 bits of exponent, 4 of mantissa, in ms. Rounded up: to whole ms below 16
/// ms, by less than an eighth above. 0xff: 15 << 15 ms or longer.
[[nodiscard]] constexpr uint8_t time_code(DurationNs left) {
  if (left <= 0) return 0;
  const uint64_t ms = (static_cast<uint64_t>(left) + kMillisecond - 1) / kMillisecond;
  if (ms < 16) return static_cast<uint8_t>(ms);
  const auto exponent = static_cast<uint32_t>(std::bit_width(ms)) - 4;
  const uint64_t mantissa = (ms + (uint64_t{1} << exponent) - 1) >> exponent;  // 8..16
  if (mantissa == 16) return exponent >= 15 ? 0xff : static_cast<uint8_t>((exponent + 1) << 4 | 8);
  return exponent > 15 ? 0xff : static_cast<uint8_t>(exponent << 4 | mantissa);
}
/// The time of a code. All codes are valid, also those that time_code() does not make.
[[nodiscard]] constexpr DurationNs time_of_code(uint8_t code) {
  return static_cast<DurationNs>(code & 15u) * (DurationNs{1} << (code >> 4)) * kMillisecond;
}

/// The 12 bytes before a record's own bytes. `bytes` is at most kRecordBytesMax. A `kind` that was read may not be in
/// RecordKind.
struct RecordHead {
  uint32_t session = 0;
  uint32_t number = 0;
  uint16_t bytes = 0;
  RecordKind kind = RecordKind::kRequest;
  uint8_t method = 0;
  uint8_t time = 0;
  bool operator==(const RecordHead&) const = default;

  void write(std::byte* to) const {
    store_le(to, uint64_t{session} | uint64_t{number} << 32);
    store_le(to + 8, uint32_t{bytes} | uint32_t{static_cast<uint8_t>(kind)} << 12 | uint32_t{method} << 16 |
                         uint32_t{time} << 24);
  }
  [[nodiscard]] static RecordHead read(const std::byte* from) {
    const auto ids = load_le<uint64_t>(from);
    const auto rest = load_le<uint32_t>(from + 8);
    return {static_cast<uint32_t>(ids),
            static_cast<uint32_t>(ids >> 32),
            static_cast<uint16_t>(rest & kRecordBytesMax),
            static_cast<RecordKind>(rest >> 12 & 15),
            static_cast<uint8_t>(rest >> 16),
            static_cast<uint8_t>(rest >> 24)};
  }
};

/// A record's head as it lies in the packet. Fields are extracted from the words where they are used: a load of a whole
/// word of which parts were just stored has to wait.
struct RawRecord {
  uint32_t session;
  uint32_t number;
  uint32_t rest;

  [[nodiscard]] static RawRecord read(const std::byte* from) {
    return {load_le<uint32_t>(from), load_le<uint32_t>(from + 4), load_le<uint32_t>(from + 8)};
  }
  [[nodiscard]] uint32_t bytes() const { return rest & kRecordBytesMax; }
  [[nodiscard]] uint32_t kind() const { return rest >> 12 & 15; }
  [[nodiscard]] uint8_t method() const { return static_cast<uint8_t>(rest >> 16); }
  [[nodiscard]] uint8_t time() const { return static_cast<uint8_t>(rest >> 24); }
  [[nodiscard]] bool is_call() const { return kind() - 1 <= 1; }
  [[nodiscard]] bool is(RecordKind what) const { return kind() == static_cast<uint32_t>(what); }
  /// Writes the head of a request or answer, before its bytes.
  static void write(std::byte* to, uint32_t session, uint32_t number, uint32_t bytes, RecordKind kind, uint8_t method,
                    uint8_t time) {
    store_le(to, session);
    store_le(to + 4, number);
    store_le(to + 8,
             bytes | uint32_t{static_cast<uint8_t>(kind)} << 12 | uint32_t{method} << 16 | uint32_t{time} << 24);
  }
};

/// Reads the records of a bundle that open_bundle() accepted, one by one. The bundle must stay while records are used.
class RecordReader {
 public:
  RecordReader(ByteSpan bundle, uint16_t records)
      : at_(bundle.data() + kBundleHeadBytes), room_(bundle.size() - kBundleHeadBytes), left_(records) {}

  /// False: there are no more records, or the next one does not fit (then is_malformed() is true).
  [[nodiscard]] bool next(RawRecord& record, ByteSpan& bytes) {
    if (left_ == 0) return false;
    if (room_ < kRecordHeadBytes) [[unlikely]] {
      return false;
    }
    record = RawRecord::read(at_);
    const size_t behind_head = room_ - kRecordHeadBytes;
    if (behind_head < record.bytes()) [[unlikely]] {
      return false;
    }
    bytes = ByteSpan(at_ + kRecordHeadBytes, record.bytes());
    at_ += kRecordHeadBytes + record.bytes();
    room_ = behind_head - record.bytes();
    --left_;
    return true;
  }
  [[nodiscard]] bool next(RecordHead& head, ByteSpan& bytes) {
    const std::byte* at = at_;
    RawRecord record;
    if (!next(record, bytes)) return false;
    head = RecordHead::read(at);
    return true;
  }
  /// The session that the next record names; the record may not fit. UINT32_MAX: there is none.
  [[nodiscard]] uint32_t next_session() const {
    return left_ > 0 && room_ >= kRecordHeadBytes ? load_le<uint32_t>(at_) : UINT32_MAX;
  }
  /// Valid once next() has returned false. True: the records do not end where the bundle ends.
  [[nodiscard]] bool is_malformed() const { return left_ != 0 || room_ != 0; }

 private:
  const std::byte* at_;
  size_t room_;  // bytes from at_ on
  uint32_t left_;
};

/// Lets a session join an association. Both directions have the same fields.
//
//   kJoin      head.session 0, head.number: the acceptor's index of the session
//   kJoined    head.session: the opener's, head.number 0
//   payload    u32 generation   kJoin: the session's at the acceptor, which only its opener was told
//                              kJoined: at the opener
//              u32 association, u32 epoch    the sender's: bundles to it have to carry these
//              u32 session      the sender's handle of the session: records to it have to carry this
struct JoinRecord {
  static constexpr size_t kBytes = 16;

  uint32_t generation = 0;
  uint32_t association = 0;
  uint32_t epoch = 0;
  uint32_t session = 0;
  bool operator==(const JoinRecord&) const = default;

  void write(std::byte* to) const {
    store_le(to, generation);
    store_le(to + 4, association);
    store_le(to + 8, epoch);
    store_le(to + 12, session);
  }
  [[nodiscard]] static bool read(ByteSpan bytes, JoinRecord& out) {
    if (bytes.size() != kBytes) return false;
    out = {load_le<uint32_t>(bytes.data()), load_le<uint32_t>(bytes.data() + 4), load_le<uint32_t>(bytes.data() + 8),
           load_le<uint32_t>(bytes.data() + 12)};
    return true;
  }
};

/// Names bundles of the association that did not come, by sequence numbers. Their sender repeats their records.
//
//   head.session 0, head.number: the first      payload    u32 count
struct MissingRecord {
  static constexpr size_t kBytes = 4;

  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const MissingRecord&) const = default;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_BUNDLE_H_
