#include "rpc/wire/bundle.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/wire/bundle_testing.h"
#include "tests/rpc/wire/wire_testing.h"

namespace skua::rpc {
namespace {

using testing::encode_records;
using testing::from_hex;
using testing::read_records;
using testing::read_records_by_hand;
using testing::Record;
using testing::RecordsRead;
using testing::refusal_by_hand;
using testing::seal;
using testing::to_hex;

/// No byte twice: a field at another's place is seen.
BundleHead sample_head() {
  BundleHead head;
  head.flags = 0xa5;
  head.records = 0x0102;
  head.association = 0x03040506;
  head.epoch = 0x0708090a;
  head.stamp = 0x0b0c0d0e;
  head.echo = 0x0f101112;
  head.sequence = 0x13141516;
  return head;
}

/// A request of three bytes and a response of four.
std::vector<Record> two_records() {
  return {
      {{session_handle(1, 3), 5, 3, RecordKind::kRequest, 7, 0x10}, "key"},
      {{session_handle(2, 3), 6, 4, RecordKind::kResponse, 0, 0}, "skua"},
  };
}

std::string two_record_bundle(bool integrity, uint16_t records = 2) {
  BundleHead head;
  head.records = records;
  head.association = 1;
  head.epoch = 0x0a0b0c0d;
  head.stamp = 256;
  head.echo = 512;
  head.sequence = 3;
  return seal(head, integrity, encode_records(two_records()));
}

/// A copy of exactly that size, so that the address sanitizer sees a read behind it.
std::vector<std::byte> exact_copy(ByteSpan bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Why open_bundle() refuses; none: it does not. The twin agrees.
std::optional<DropReason> refusal(ByteSpan bundle, bool integrity) {
  const std::vector<std::byte> copy = exact_copy(bundle);
  BundleHead head;
  DropReason why{};
  std::optional<DropReason> out;
  if (!open_bundle(copy, integrity, head, why)) out = why;
  EXPECT_EQ(out, refusal_by_hand(bundle, integrity));
  return out;
}

/// The reader's word for a bundle; the twin agrees.
RecordsRead records_of(ByteSpan bundle, uint16_t count) {
  const std::vector<std::byte> copy = exact_copy(bundle);
  RecordsRead out = read_records(copy, count);
  EXPECT_EQ(out, read_records_by_hand(copy, count));
  return out;
}
RecordsRead records_of(std::string_view bundle, uint16_t count) {
  return records_of(as_byte_span(bundle), count);
}

std::string record_hex(const RecordHead& head) {
  return to_hex(encode_records({{head, ""}}));
}

// If one of these fails the wire format changed: that is a new protocol version, not a new test.

TEST(BundleHead, Seal_GoldenBytesWithCrc) {
  EXPECT_EQ(to_hex(seal(sample_head(), false, "")),
            "21a50201"
            "a9994562"
            "06050403"
            "0a090807"
            "0e0d0c0b"
            "1211100f"
            "16151413");
}

TEST(BundleHead, Seal_GoldenBytesOnAStream) {
  EXPECT_EQ(to_hex(seal(sample_head(), true, "")),
            "21a50201"
            "1c000000"
            "06050403"
            "0a090807"
            "0e0d0c0b"
            "1211100f"
            "16151413");
}

TEST(BundleHead, Seal_DefaultsAreOfNoAssociation) {
  EXPECT_EQ(to_hex(seal(BundleHead(), false, "")),
            "21000000"
            "a6f93473"
            "ffffffff"
            "00000000"
            "00000000"
            "00000000"
            "00000000");
}

TEST(Bundle, Seal_GoldenBytesOfAWhole) {
  const std::string records =
      "01003000"
      "05000000"
      "03100710"
      "6b6579"
      "02003000"
      "06000000"
      "04200000"
      "736b7561";
  const std::string fields = "01000000 0d0c0b0a 00010000 00020000 03000000";
  EXPECT_EQ(to_hex(two_record_bundle(false)), to_hex(from_hex("21000200 17830cc3" + fields + records)));
  EXPECT_EQ(to_hex(two_record_bundle(true)), to_hex(from_hex("21000200 3b000000" + fields + records)));
}

TEST(BundleRecord, Write_GoldenBytesOfEachKind) {
  const uint32_t session = session_handle(0x12345, 0xabc);
  EXPECT_EQ(record_hex({session, 0x0b0c0d0e, 0x123, RecordKind::kRequest, 0x07, 0x18}), "4523c1ab0e0d0c0b23110718");
  EXPECT_EQ(record_hex({session, 0x0b0c0d0e, 0xfff, RecordKind::kResponse, 0, 0}), "4523c1ab0e0d0c0bff2f0000");
  EXPECT_EQ(record_hex({0, 0x0b0c0d0e, 16, RecordKind::kJoin, 0, 0}), "000000000e0d0c0b10300000");
  EXPECT_EQ(record_hex({session, 0, 16, RecordKind::kJoined, 0, 0}), "4523c1ab0000000010400000");
  EXPECT_EQ(record_hex({0, 0x01020304, MissingRecord::kBytes, RecordKind::kMissing, 0, 0}), "000000000403020104500000");
}

TEST(BundleRecord, Kinds_KeepTheirNumbers) {
  EXPECT_EQ(static_cast<int>(RecordKind::kRequest), 1);
  EXPECT_EQ(static_cast<int>(RecordKind::kResponse), 2);
  EXPECT_EQ(static_cast<int>(RecordKind::kJoin), 3);
  EXPECT_EQ(static_cast<int>(RecordKind::kJoined), 4);
  EXPECT_EQ(static_cast<int>(RecordKind::kMissing), 5);
  EXPECT_EQ(bundle_flags::kNoEcho, 1);
  EXPECT_EQ(kBundleVersion, 2);
  EXPECT_EQ(kBundleHeadBytes, 28u);
  EXPECT_EQ(kRecordHeadBytes, 12u);
  EXPECT_EQ(kRecordBytesMax, 4095u);
  EXPECT_EQ(kNoAssociation, UINT32_MAX);
}

TEST(JoinRecord, Write_GoldenBytes) {
  std::byte bytes[JoinRecord::kBytes];
  JoinRecord{0x01020304, 0x05060708, 0x090a0b0c, 0x0d0e0f10}.write(bytes);
  EXPECT_EQ(to_hex(bytes), "04030201080706050c0b0a09100f0e0d");
}

// --- Round trips -----------------------------------------------------------------------------------------------------

TEST(BundleHead, Open_EveryFieldAtItsEndsAlone) {
  // One field at a time goes to all ones: fields that overlap would disturb each other.
  const auto check = [](const BundleHead& head) {
    for (const bool integrity : {false, true}) {
      const std::string bundle = seal(head, integrity, "");
      BundleHead out;
      DropReason why;
      ASSERT_TRUE(open_bundle(as_byte_span(bundle), integrity, out, why));
      EXPECT_EQ(out, head);
      EXPECT_EQ(testing::head_by_hand(as_byte_span(bundle)), head);
    }
  };
  BundleHead zero;
  zero.association = 0;
  check(zero);
  BundleHead h;
  (h = zero).flags = UINT8_MAX, check(h);
  (h = zero).records = UINT16_MAX, check(h);
  (h = zero).association = UINT32_MAX, check(h);
  (h = zero).epoch = UINT32_MAX, check(h);
  (h = zero).stamp = UINT32_MAX, check(h);
  (h = zero).echo = UINT32_MAX, check(h);
  (h = zero).sequence = UINT32_MAX, check(h);
}

TEST(BundleRecord, Read_EveryFieldAtItsEndsAlone) {
  const auto check = [](const RecordHead& head) {
    std::byte bytes[kRecordHeadBytes];
    head.write(bytes);
    EXPECT_EQ(RecordHead::read(bytes), head);
  };
  RecordHead zero;
  zero.kind = RecordKind{0};
  check(zero);
  RecordHead h;
  (h = zero).session = UINT32_MAX, check(h);
  (h = zero).number = UINT32_MAX, check(h);
  (h = zero).bytes = kRecordBytesMax, check(h);
  (h = zero).method = UINT8_MAX, check(h);
  (h = zero).time = UINT8_MAX, check(h);
  for (uint8_t kind = 0; kind < 16; ++kind) {
    (h = zero).kind = RecordKind{kind}, check(h);
  }
}

TEST(BundleRecord, SessionHandle_IndexAndLife) {
  EXPECT_EQ(session_handle(0, 0), 0u);
  EXPECT_EQ(session_handle(kRecordSessionsMax - 1, 0), 0x000fffffu);
  EXPECT_EQ(session_handle(0, 4095), 0xfff00000u);
  EXPECT_EQ(session_handle(7, 4096), session_handle(7, 0)) << "the life wraps";
  for (const uint32_t index : {0u, 1u, 0x12345u, kRecordSessionsMax - 1}) {
    EXPECT_EQ(index_of_handle(session_handle(index, 0xabc)), index);
  }
}

std::vector<Record> random_records(Rng& rng) {
  std::vector<Record> out(rng.below(20));
  for (Record& record : out) {
    const uint64_t bytes = rng.below(8) == 0 ? rng.below(kRecordBytesMax + 1) : rng.below(64);
    record.head = {static_cast<uint32_t>(rng.next()), static_cast<uint32_t>(rng.next()),
                   static_cast<uint16_t>(bytes),      RecordKind(rng.below(16)),
                   static_cast<uint8_t>(rng.next()),  static_cast<uint8_t>(rng.next())};
    for (uint64_t i = 0; i < bytes; ++i) record.bytes.push_back(static_cast<char>(rng.next()));
  }
  return out;
}

TEST(Bundle, Open_RandomRoundTrips) {
  Rng rng(1);
  for (int i = 0; i < 1'000; ++i) {
    const std::vector<Record> records = random_records(rng);
    BundleHead head;
    head.flags = static_cast<uint8_t>(rng.next());
    head.records = static_cast<uint16_t>(records.size());
    head.association = static_cast<uint32_t>(rng.next());
    head.epoch = static_cast<uint32_t>(rng.next());
    head.stamp = static_cast<uint32_t>(rng.next());
    head.echo = static_cast<uint32_t>(rng.next());
    head.sequence = static_cast<uint32_t>(rng.next());
    const bool integrity = rng.below(2) == 1;
    const std::string bundle = seal(head, integrity, encode_records(records));
    ASSERT_EQ(refusal(as_byte_span(bundle), integrity), std::nullopt);
    BundleHead out;
    DropReason why;
    ASSERT_TRUE(open_bundle(as_byte_span(bundle), integrity, out, why));
    ASSERT_EQ(out, head);
    ASSERT_EQ(records_of(bundle, out.records), (RecordsRead{records, false}));
  }
}

TEST(JoinRecord, Read_RoundTripsAndRefusesEveryOtherLength) {
  const JoinRecord join{0x01020304, 0x05060708, 0x090a0b0c, 0x0d0e0f10};
  std::string bytes(2 * JoinRecord::kBytes, '\0');
  join.write(reinterpret_cast<std::byte*>(bytes.data()));
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const std::vector<std::byte> cut = exact_copy(as_byte_span(bytes).first(size));
    JoinRecord out;
    EXPECT_EQ(JoinRecord::read(cut, out), size == JoinRecord::kBytes) << size;
    EXPECT_EQ(out, size == JoinRecord::kBytes ? join : JoinRecord()) << size;
  }
}

// --- What is refused -------------------------------------------------------------------------------------------------

TEST(Bundle, Open_AnyFlippedBitIsSeen) {
  std::string bundle = two_record_bundle(false);
  for (size_t bit = 0; bit < 8 * bundle.size(); ++bit) {
    const auto flip = static_cast<char>(1u << (bit % 8));
    bundle[bit / 8] ^= flip;
    const DropReason expected = bit < 4   ? DropReason::kBadType
                                : bit < 8 ? DropReason::kBadVersion
                                          : DropReason::kBadChecksum;
    EXPECT_EQ(refusal(as_byte_span(bundle), false), expected) << bit;
    bundle[bit / 8] ^= flip;
  }
  EXPECT_EQ(refusal(as_byte_span(bundle), false), std::nullopt);
}

TEST(Bundle, Open_OnAStreamOnlyTheLengthIsLookedAt) {
  std::string bundle = two_record_bundle(true);
  for (size_t bit = 0; bit < 8 * bundle.size(); ++bit) {
    const auto flip = static_cast<char>(1u << (bit % 8));
    bundle[bit / 8] ^= flip;
    const size_t byte = bit / 8;
    const std::optional<DropReason> expected = bit < 4                 ? std::optional(DropReason::kBadType)
                                               : bit < 8               ? std::optional(DropReason::kBadVersion)
                                               : byte >= 4 && byte < 8 ? std::optional(DropReason::kBadLength)
                                                                       : std::nullopt;
    EXPECT_EQ(refusal(as_byte_span(bundle), true), expected) << bit;
    bundle[bit / 8] ^= flip;
  }
}

TEST(Bundle, Open_TruncatedAtEveryByte) {
  for (const bool integrity : {false, true}) {
    const std::string bundle = two_record_bundle(integrity);
    for (size_t size = 0; size < bundle.size(); ++size) {
      const DropReason expected = size < kBundleHeadBytes ? DropReason::kTooShort
                                  : integrity             ? DropReason::kBadLength
                                                          : DropReason::kBadChecksum;
      EXPECT_EQ(refusal(as_byte_span(bundle).first(size), integrity), expected) << size;
    }
    const DropReason longer = integrity ? DropReason::kBadLength : DropReason::kBadChecksum;
    EXPECT_EQ(refusal(as_byte_span(bundle + '\0'), integrity), longer);
  }
}

TEST(Bundle, Open_CrcIsNoLengthAndLengthIsNoCrc) {
  EXPECT_EQ(refusal(as_byte_span(two_record_bundle(false)), true), DropReason::kBadLength);
  EXPECT_EQ(refusal(as_byte_span(two_record_bundle(true)), false), DropReason::kBadChecksum);
}

TEST(Bundle, Open_EveryVersionAndTypeNibble) {
  std::string bundle = two_record_bundle(true);
  for (unsigned first = 0; first < 256; ++first) {
    bundle[0] = static_cast<char>(first);
    EXPECT_EQ(is_bundle(as_byte_span(bundle).data()), first >> 4 == kBundleVersion) << first;
    const std::optional<DropReason> expected = first >> 4 != kBundleVersion ? std::optional(DropReason::kBadVersion)
                                               : (first & 15) != 1          ? std::optional(DropReason::kBadType)
                                                                            : std::nullopt;
    EXPECT_EQ(refusal(as_byte_span(bundle), true), expected) << first;
  }
}

TEST(Bundle, PacketsOfVersion1AndBundlesAreNotTakenForEachOther) {
  std::byte header[kHeaderBytes];
  encode_header(PacketHeader(), header);
  EXPECT_FALSE(is_bundle(header));
  EXPECT_EQ(refusal(header, false), DropReason::kBadVersion);
  const std::string bundle = two_record_bundle(false);
  EXPECT_TRUE(is_bundle(as_byte_span(bundle).data()));
  EXPECT_EQ(decode_header(as_byte_span(bundle)).reason, DropReason::kBadVersion);
}

TEST(Bundle, StreamBundleBytes_FromTheFirstEight) {
  const std::string bundle = two_record_bundle(true);
  EXPECT_EQ(stream_bundle_bytes(exact_copy(as_byte_span(bundle).first(8)).data()), bundle.size());
}

// --- RecordReader ----------------------------------------------------------------------------------------------------

TEST(RecordReader, Next_LendsWhatLiesInTheBundle) {
  const std::string bundle = two_record_bundle(false);
  RecordReader reader(as_byte_span(bundle), 2);
  RecordHead head;
  ByteSpan bytes;
  ASSERT_TRUE(reader.next(head, bytes));
  EXPECT_EQ(reinterpret_cast<const char*>(bytes.data()), bundle.data() + kBundleHeadBytes + kRecordHeadBytes);
  EXPECT_EQ(head, two_records()[0].head);
  ASSERT_TRUE(reader.next(head, bytes));
  EXPECT_EQ(as_string_view(bytes), "skua");
  EXPECT_FALSE(reader.next(head, bytes));
  EXPECT_FALSE(reader.is_malformed());
  EXPECT_FALSE(reader.next(head, bytes)) << "and again";
}

TEST(RecordReader, NextSession_IsTheNextRecords) {
  const std::string bundle = two_record_bundle(false);
  RecordReader reader(as_byte_span(bundle), 2);
  RecordHead head;
  ByteSpan bytes;
  for (const auto& record : two_records()) {
    EXPECT_EQ(reader.next_session(), record.head.session);
    ASSERT_TRUE(reader.next(head, bytes));
  }
  EXPECT_EQ(reader.next_session(), UINT32_MAX);
  // More are said than there are.
  RecordReader cut(as_byte_span(bundle).first(kBundleHeadBytes + kRecordHeadBytes - 1), 1);
  EXPECT_EQ(cut.next_session(), UINT32_MAX);
}

TEST(RecordReader, NoRecords) {
  const std::string bundle = seal(BundleHead(), false, "");
  EXPECT_EQ(records_of(bundle, 0), (RecordsRead{{}, false}));
  EXPECT_EQ(records_of(bundle, 1), (RecordsRead{{}, true}));
  EXPECT_EQ(records_of(bundle, UINT16_MAX), (RecordsRead{{}, true}));
}

TEST(RecordReader, RecordsWithoutBytesAndOfTheLargestSize) {
  const std::vector<Record> records = {
      {{1, 1, 0, RecordKind::kRequest, 1, 1}, ""},
      {{1, 2, kRecordBytesMax, RecordKind::kRequest, 1, 1}, std::string(kRecordBytesMax, 'x')},
      {{1, 3, 0, RecordKind::kResponse, 0, 0}, ""},
  };
  BundleHead head;
  head.records = 3;
  EXPECT_EQ(records_of(seal(head, false, encode_records(records)), 3), (RecordsRead{records, false}));
}

TEST(RecordReader, TooManyRecordsSaid) {
  EXPECT_EQ(records_of(two_record_bundle(false, 3), 3), (RecordsRead{two_records(), true}));
  EXPECT_EQ(records_of(two_record_bundle(false, UINT16_MAX), UINT16_MAX), (RecordsRead{two_records(), true}));
}

TEST(RecordReader, TooFewRecordsSaid) {
  EXPECT_EQ(records_of(two_record_bundle(false, 1), 1), (RecordsRead{{two_records()[0]}, true}));
  EXPECT_EQ(records_of(two_record_bundle(false, 0), 0), (RecordsRead{{}, true}));
}

TEST(RecordReader, BytesBehindTheLast) {
  for (size_t more = 1; more < 2 * kRecordHeadBytes; ++more) {
    BundleHead head;
    head.records = 2;
    const std::string bundle = seal(head, false, encode_records(two_records()) + std::string(more, '\0'));
    EXPECT_EQ(records_of(bundle, 2), (RecordsRead{two_records(), true})) << more;
  }
}

TEST(RecordReader, RecordPastTheEnd) {
  for (const uint32_t bytes : {5u, 6u, 100u, kRecordBytesMax}) {
    std::vector<Record> records = two_records();
    records[1].head.bytes = static_cast<uint16_t>(bytes);  // and there are four
    BundleHead head;
    head.records = 2;
    const std::string bundle = seal(head, false, encode_records(records));
    EXPECT_EQ(records_of(bundle, 2), (RecordsRead{{two_records()[0]}, true})) << bytes;
  }
}

TEST(RecordReader, RecordsCutAtEveryByte) {
  const std::string bundle = two_record_bundle(false);
  const size_t first_end = kBundleHeadBytes + kRecordHeadBytes + two_records()[0].bytes.size();
  for (size_t size = kBundleHeadBytes; size < bundle.size(); ++size) {
    std::vector<Record> whole;
    if (size >= first_end) whole.push_back(two_records()[0]);
    EXPECT_EQ(records_of(std::string_view(bundle).substr(0, size), 2), (RecordsRead{whole, true})) << size;
  }
}

// --- Time left -------------------------------------------------------------------------------------------------------

constexpr DurationNs kLongestNs = DurationNs{15 << 15} * kMillisecond;

TEST(TimeCode, Golden) {
  EXPECT_EQ(time_code(0), 0);
  EXPECT_EQ(time_code(1), 1);
  EXPECT_EQ(time_code(15 * kMillisecond), 0x0f);
  EXPECT_EQ(time_code(16 * kMillisecond), 0x18);
  EXPECT_EQ(time_code(17 * kMillisecond), 0x19);
  EXPECT_EQ(time_code(100 * kMillisecond), 0x3d);  // 13 << 3: 104 ms
  EXPECT_EQ(time_code(kSecond), 0x78);             // 8 << 7: 1,024 ms
  EXPECT_EQ(time_code(60 * kSecond), 0xcf);        // 15 << 12: 61,440 ms
  EXPECT_EQ(time_of_code(0x3d), 104 * kMillisecond);
  EXPECT_EQ(time_of_code(0xcf), 61'440 * kMillisecond);
  EXPECT_EQ(time_of_code(0xff), kLongestNs);
}

TEST(TimeCode, ExactBelow16Ms) {
  for (int ms = 0; ms <= 16; ++ms) {
    EXPECT_EQ(time_of_code(time_code(ms * kMillisecond)), ms * kMillisecond);
  }
}

TEST(TimeCode, NothingLeftOrLess) {
  EXPECT_EQ(time_code(-1), 0);
  EXPECT_EQ(time_code(-kSecond), 0);
  EXPECT_EQ(time_code(std::numeric_limits<DurationNs>::min()), 0);
}

TEST(TimeCode, TheLargestIsThatOrLonger) {
  EXPECT_EQ(time_code(kLongestNs - kMillisecond), 0xff);
  EXPECT_EQ(time_code(kLongestNs), 0xff);
  EXPECT_EQ(time_code(kLongestNs + 1), 0xff);
  EXPECT_EQ(time_code(2 * kLongestNs), 0xff);
  EXPECT_EQ(time_code(1'000'000 * kSecond), 0xff);
  EXPECT_EQ(time_code(std::numeric_limits<DurationNs>::max()), 0xff);
  EXPECT_EQ(time_code(kTimeNever - 1), 0xff);
}

// Every ms up to the largest, its edges a nanosecond to each side.
TEST(TimeCode, RoundsUp_IsMonotonic_ErrorBelowAnEighth) {
  DurationNs previous = 0;
  size_t rounded_down = 0, fell = 0, too_long = 0;
  for (int64_t ms = 1; ms <= 15 << 15; ++ms) {
    for (const DurationNs left : {ms * kMillisecond - 1, ms * kMillisecond}) {
      const DurationNs coded = time_of_code(time_code(left));
      rounded_down += coded < left ? 1 : 0;
      fell += coded < previous ? 1 : 0;
      too_long += ms < 16 ? (coded != ms * kMillisecond) : (8 * (coded - ms * kMillisecond) >= ms * kMillisecond);
      previous = coded;
    }
  }
  EXPECT_EQ(rounded_down, 0u);
  EXPECT_EQ(fell, 0u);
  EXPECT_EQ(too_long, 0u);
}

TEST(TimeCode, WhatAnyCodeSaysIsSaidAgain) {
  for (unsigned code = 0; code < 256; ++code) {
    const DurationNs time = time_of_code(static_cast<uint8_t>(code));
    EXPECT_EQ(time_of_code(time_code(time)), time) << code;
    if (code < 16 || (code & 15) >= 8) {
      EXPECT_EQ(time_code(time), code);
    }
  }
}

}  // namespace
}  // namespace skua::rpc
