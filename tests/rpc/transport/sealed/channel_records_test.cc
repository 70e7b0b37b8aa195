#include "rpc/transport/sealed/channel_records.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::rpc {
namespace {

ChannelOffer an_offer() {
  ChannelOffer offer{.mode = SealMode::kAuthenticate, .channel = 7, .nonce = {}};
  for (size_t i = 0; i < offer.nonce.size(); ++i) offer.nonce[i] = static_cast<std::byte>(i);
  return offer;
}

ChannelAnswer an_answer() {
  return {.mode = SealMode::kEncrypt,
          .channel = 9,
          .epoch = 1234567890123,
          .nonce = an_offer().nonce,
          .secret = RootSecret(as_byte_span(std::string(kHashBytes, 's')))};
}

TEST(ChannelRecords, AreReadAsTheyWereWritten) {
  EXPECT_EQ(ChannelOffer::decode(as_byte_span(an_offer().encode())), an_offer());
  const auto answer = ChannelAnswer::decode(as_byte_span(an_answer().encode()));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->encode(), an_answer().encode());
  ChannelAnswer open = an_answer();
  open.secret.reset();
  const auto read = ChannelAnswer::decode(as_byte_span(open.encode()));
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->secret.has_value());
}

TEST(ChannelRecords, OtherLengthsAndValuesAreRefused) {
  const std::string offer = an_offer().encode();
  const std::string answer = an_answer().encode();
  for (size_t size = 0; size < offer.size(); ++size) {
    EXPECT_FALSE(ChannelOffer::decode(as_byte_span(offer).first(size)).has_value());
  }
  for (size_t size = 0; size < answer.size(); ++size) {
    EXPECT_FALSE(ChannelAnswer::decode(as_byte_span(answer).first(size)).has_value());
  }
  EXPECT_FALSE(ChannelOffer::decode(as_byte_span(offer + "x")).has_value());
  EXPECT_FALSE(ChannelAnswer::decode(as_byte_span(answer + "x")).has_value());
  for (const size_t at : {0u, 1u}) {  // version, mode
    std::string changed = offer;
    changed[at] = 3;
    EXPECT_FALSE(ChannelOffer::decode(as_byte_span(changed)).has_value());
    changed = answer;
    changed[at] = 0;
    EXPECT_FALSE(ChannelAnswer::decode(as_byte_span(changed)).has_value());
  }
}

TEST(ChannelRecords, TheTranscriptCoversAllButTheSecret) {
  const Hash hash = channel_transcript(an_offer(), an_answer());
  ChannelAnswer other = an_answer();
  other.secret.reset();
  EXPECT_EQ(channel_transcript(an_offer(), other), hash);
  other.mode = SealMode::kAuthenticate;
  EXPECT_NE(channel_transcript(an_offer(), other), hash);
  ChannelOffer offer = an_offer();
  offer.mode = SealMode::kEncrypt;
  EXPECT_NE(channel_transcript(offer, an_answer()), hash);
  offer = an_offer();
  offer.nonce[3] ^= std::byte{1};
  EXPECT_NE(channel_transcript(offer, an_answer()), hash);
}

}  // namespace
}  // namespace skua::rpc
