#include "rpc/wire/handshake.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpc/base/rng.h"
#include "tests/rpc/wire/wire_testing.h"

namespace skua::rpc {
namespace {

using testing::from_hex;
using testing::to_hex;

SessionTerms sample_terms() {
  return {.window = 0x0102, .credits = 0x03040506, .message_max_bytes = 0x0708090a, .payload_bytes = 0x0b0c0d0e};
}

SessionOffer sample_offer() {
  SessionOffer offer;
  offer.version_min = 1;
  offer.version_max = 3;
  offer.terms = sample_terms();
  offer.session_index = 0x11121314;
  offer.session_generation = 0x15161718;
  offer.nonce = 0x2122232425262728;
  offer.descriptor = "where";
  return offer;
}

SessionAnswer sample_answer() {
  SessionAnswer answer;
  answer.version = 2;
  answer.terms = sample_terms();
  answer.session_index = 0x11121314;
  answer.session_generation = 0x15161718;
  answer.nonce = 0x2122232425262728;
  for (size_t i = 0; i < 16; ++i) {
    answer.uuid[i] = static_cast<uint8_t>(0x40 + i);
    answer.cluster_id[i] = static_cast<uint8_t>(0x60 + i);
  }
  answer.incarnation = 0x3132333435363738;
  answer.text = "hm";
  return answer;
}

constexpr char kOfferHex[] =
    "534b6f66"           // "SKof"
    "01 03"              // versions
    "0201"               // window
    "06050403"           // credits
    "0a090807"           // largest message
    "0e0d0c0b"           // payload
    "14131211 18171615"  // session
    "2827262524232221"   // nonce
    "0500 7768657265";   // descriptor

constexpr char kAnswerHex[] =
    "534b616e"  // "SKan"
    "02 00"     // version, code
    "0201"
    "06050403"
    "0a090807"
    "0e0d0c0b"
    "14131211 18171615"
    "2827262524232221"
    "404142434445464748494a4b4c4d4e4f"  // uuid
    "3837363534333231"                  // incarnation
    "606162636465666768696a6b6c6d6e6f"  // cluster
    "0200 686d";                        // text

TEST(SessionOffer, Encode_GoldenBytes) {
  EXPECT_EQ(to_hex(sample_offer().encode()), to_hex(from_hex(kOfferHex)));
}

TEST(SessionOffer, Decode_GoldenBytes) {
  const auto offer = SessionOffer::decode(as_byte_span(from_hex(kOfferHex)));
  ASSERT_TRUE(offer.ok()) << offer.status();
  EXPECT_EQ(*offer, sample_offer());
}

TEST(SessionAnswer, Encode_GoldenBytes) {
  EXPECT_EQ(to_hex(sample_answer().encode()), to_hex(from_hex(kAnswerHex)));
}

TEST(SessionAnswer, Decode_GoldenBytes) {
  const auto answer = SessionAnswer::decode(as_byte_span(from_hex(kAnswerHex)));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(*answer, sample_answer());
}

template <typename Record>
void expect_round_trip(const Record& record) {
  const auto decoded = Record::decode(as_byte_span(record.encode()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
}

template <typename Record>
void expect_refused(const Record& record) {
  const auto decoded = Record::decode(as_byte_span(record.encode()));
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
}

template <typename Record>
void expect_every_cut_refused(const std::string& whole) {
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<long>(size));
    const auto decoded = Record::decode(as_byte_span({cut.data(), cut.size()}));
    ASSERT_FALSE(decoded.ok()) << size;
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Record::decode(as_byte_span(whole)).ok());
  EXPECT_FALSE(Record::decode(as_byte_span(whole + "x")).ok());
}

TEST(SessionOffer, Decode_TruncatedAtEveryByte) {
  expect_every_cut_refused<SessionOffer>(sample_offer().encode());
}

TEST(SessionAnswer, Decode_TruncatedAtEveryByte) {
  expect_every_cut_refused<SessionAnswer>(sample_answer().encode());
}

TEST(SessionOffer, Decode_EveryFieldAtItsEnds) {
  SessionOffer o;
  (o = sample_offer()).version_min = 0, expect_round_trip(o);
  (o = sample_offer()).version_min = o.version_max, expect_round_trip(o);
  (o = sample_offer()).version_max = UINT8_MAX, expect_round_trip(o);
  (o = sample_offer()).terms = {1, 1, 1, 1}, expect_round_trip(o);
  (o = sample_offer()).terms = {UINT16_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, expect_round_trip(o);
  (o = sample_offer()).session_index = UINT32_MAX, expect_round_trip(o);
  (o = sample_offer()).session_generation = UINT32_MAX, expect_round_trip(o);
  (o = sample_offer()).nonce = UINT64_MAX, expect_round_trip(o);
  (o = sample_offer()).descriptor = "", expect_round_trip(o);
  (o = sample_offer()).descriptor = std::string(SessionOffer::kDescriptorMax, '\0'), expect_round_trip(o);
}

TEST(SessionOffer, Decode_ImpossibleTermsAndVersions) {
  SessionOffer o;
  (o = sample_offer()).terms.window = 0, expect_refused(o);
  (o = sample_offer()).terms.credits = 0, expect_refused(o);
  (o = sample_offer()).terms.message_max_bytes = 0, expect_refused(o);
  (o = sample_offer()).terms.payload_bytes = 0, expect_refused(o);
  (o = sample_offer()).version_min = 4, expect_refused(o);
}

TEST(SessionVersion, CommonVersion_TheLowerOneAndTheFlagsOfBoth) {
  using version_flags::kTrustedWire;
  EXPECT_EQ(common_version(1, 2), 1);
  EXPECT_EQ(common_version(2 | kTrustedWire, 2), 2);
  EXPECT_EQ(common_version(2, 3 | kTrustedWire), 2);
  EXPECT_EQ(common_version(2 | kTrustedWire, 1 | kTrustedWire), 1 | kTrustedWire);
  EXPECT_EQ(version_of(2 | kTrustedWire), 2);
  // Who knows no flags answers the lower of two numbers: its own version.
  EXPECT_EQ(std::min<uint8_t>(2 | kTrustedWire, 1), 1);
}

TEST(SessionOffer, Decode_OversizedDescriptor) {
  std::string bytes = sample_offer().encode();
  bytes.resize(bytes.size() - 7);  // length and "where"
  const size_t size = SessionOffer::kDescriptorMax + 1;
  bytes.push_back(static_cast<char>(size & 255));
  bytes.push_back(static_cast<char>(size >> 8));
  bytes.append(size, 'x');
  EXPECT_FALSE(SessionOffer::decode(as_byte_span(bytes)).ok());
}

TEST(SessionOfferDeathTest, Encode_OversizedDescriptor) {
  SessionOffer offer = sample_offer();
  offer.descriptor.assign(SessionOffer::kDescriptorMax + 1, 'x');
  EXPECT_DEATH(static_cast<void>(offer.encode()), "descriptor too long");
}

TEST(SessionOffer, Decode_AnotherMagic) {
  EXPECT_FALSE(SessionOffer::decode(as_byte_span(sample_answer().encode())).ok());
  EXPECT_FALSE(SessionAnswer::decode(as_byte_span(sample_offer().encode())).ok());
}

TEST(SessionAnswer, Decode_EveryFieldAtItsEnds) {
  SessionAnswer a;
  (a = sample_answer()).version = UINT8_MAX, expect_round_trip(a);
  (a = sample_answer()).terms = {1, 1, 1, 1}, expect_round_trip(a);
  (a = sample_answer()).terms = {UINT16_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, expect_round_trip(a);
  (a = sample_answer()).session_index = UINT32_MAX, expect_round_trip(a);
  (a = sample_answer()).session_generation = UINT32_MAX, expect_round_trip(a);
  (a = sample_answer()).nonce = UINT64_MAX, expect_round_trip(a);
  (a = sample_answer()).incarnation = UINT64_MAX, expect_round_trip(a);
  (a = sample_answer()).uuid.fill(0xff), expect_round_trip(a);
  (a = sample_answer()).cluster_id.fill(0xff), expect_round_trip(a);
  (a = sample_answer()).text = "", expect_round_trip(a);
  (a = sample_answer()).text = std::string(SessionAnswer::kTextMax, 'x'), expect_round_trip(a);
}

TEST(SessionAnswer, Decode_EveryRefusal) {
  for (int code = 1; code <= 16; ++code) {
    SessionAnswer answer = sample_answer();
    answer.code = static_cast<absl::StatusCode>(code);
    answer.version = 0;
    answer.terms = {};  // a refusal has none
    expect_round_trip(answer);
  }
}

TEST(SessionAnswer, Decode_ContradictionsAreRefused) {
  SessionAnswer a;
  (a = sample_answer()).code = absl::StatusCode::kInternal, expect_refused(a);  // but a version
  (a = sample_answer()).version = 0, expect_refused(a);                         // but no error
  (a = sample_answer()).code = static_cast<absl::StatusCode>(17), a.version = 0, expect_refused(a);
  (a = sample_answer()).terms.window = 0, expect_refused(a);
  (a = sample_answer()).terms.credits = 0, expect_refused(a);
  (a = sample_answer()).terms.message_max_bytes = 0, expect_refused(a);
  (a = sample_answer()).terms.payload_bytes = 0, expect_refused(a);
}

TEST(SessionAnswer, Encode_LongTextIsCut) {
  SessionAnswer answer = sample_answer();
  answer.text = std::string(SessionAnswer::kTextMax + 100, 't');
  const auto decoded = SessionAnswer::decode(as_byte_span(answer.encode()));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->text.size(), SessionAnswer::kTextMax);
}

TEST(Handshake, Decode_RandomBytesAndFlippedBitsNeverCrash) {
  Rng rng(2);
  const std::string offer = sample_offer().encode();
  const std::string answer = sample_answer().encode();
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = i % 2 == 0 ? offer : answer;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
      bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
    }
    if (rng.chance(0.3)) bytes.resize(rng.below(bytes.size()));
    if (const auto decoded = SessionOffer::decode(as_byte_span(bytes)); decoded.ok()) {
      EXPECT_EQ(decoded->encode(), bytes);
    }
    if (const auto decoded = SessionAnswer::decode(as_byte_span(bytes)); decoded.ok()) {
      EXPECT_EQ(decoded->encode(), bytes);
    }
  }
}

}  // namespace
}  // namespace skua::rpc
