#include "control/security/join_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skua::control {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

JoinToken a_token() {
  return {.port = 7401, .secret = "0123456789abcdef", .authority = std::string(kAuthorityHashBytes, '\xa5')};
}

TEST(JoinToken, IsOneWordThatSaysWhatWentIn) {
  const std::string word = encode_join_token(a_token());
  EXPECT_THAT(word, MatchesRegex("skua-join-[-_0-9A-Za-z]+"));
  const auto parsed = parse_join_token(word);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, a_token());
}

TEST(JoinToken, AWordThatWasCopiedBadlyIsRefused) {
  const std::string word = encode_join_token(a_token());
  for (size_t at = 0; at < word.size(); ++at) {
    std::string other = word;
    other[at] = other[at] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(parse_join_token(other).ok()) << at;
    EXPECT_FALSE(parse_join_token(word.substr(0, at)).ok()) << at;
    EXPECT_FALSE(parse_join_token(word.substr(0, at) + " " + word.substr(at)).ok()) << at;
  }
  EXPECT_FALSE(parse_join_token(word + "=").ok());
  EXPECT_FALSE(parse_join_token(word + "\n").ok());
  JoinToken nowhere = a_token();
  nowhere.port = 0;
  EXPECT_FALSE(parse_join_token(encode_join_token(nowhere)).ok());
}

TEST(JoinToken, ARefusalDoesNotRepeatTheWord) {
  const std::string word = encode_join_token(a_token());
  const auto refused = parse_join_token(word.substr(0, word.size() - 1));
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), Not(HasSubstr(word.substr(10, 20))));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("skuactl cert join-token"));
}

TEST(JoinToken, SecretsAreRandomAndKnownByTheirHash) {
  const auto one = make_join_secret();
  const auto other = make_join_secret();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->size(), kJoinSecretBytes);
  EXPECT_NE(*one, *other);
  EXPECT_EQ(join_secret_hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace skua::control
