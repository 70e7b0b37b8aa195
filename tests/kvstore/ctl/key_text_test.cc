#include "kvstore/ctl/key_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rpc/base/printable.h"
#include "rpc/base/rng.h"

namespace skua::kv::ctl {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text) {
  return std::string(parse_key(text).status().message());
}

TEST(KeyText, ShowsWhatIsNotPrintable) {
  EXPECT_EQ(key_text("plain"), "plain");
  EXPECT_EQ(key_text(std::string("a\0b\n", 4)), "a\\x00b\\x0a");
  EXPECT_EQ(key_text("\xff"), "\\xff");
  EXPECT_EQ(key_text("\\x00"), "\\\\x00") << "four characters, and not a zero byte";
  EXPECT_EQ(key_text("h\xc3\xbctte"), "h\xc3\xbctte");
  EXPECT_EQ(key_text(""), "");
}

TEST(KeyText, IsReadBack) {
  EXPECT_EQ(*parse_key("a\\x00b"), std::string("a\0b", 3));
  EXPECT_EQ(*parse_key("\\\\x00"), "\\x00");
  EXPECT_EQ(*parse_key("\\xFF\\xfF"), "\xff\xff");
  EXPECT_EQ(*parse_key(""), "");
}

TEST(KeyText, RefusesWhatIsNoEscape) {
  for (const char* text : {"\\", "a\\", "\\x", "\\x0", "\\xg0", "\\n", "C:\\temp"}) {
    EXPECT_THAT(refusal(text), HasSubstr("no escape")) << text;
    EXPECT_THAT(refusal(text), HasSubstr("--raw-keys")) << text;
  }
}

TEST(KeyText, RoundTripsAnyBytes) {
  Rng rng(17);
  for (int round = 0; round < 2000; ++round) {
    std::string key;
    const uint64_t size = rng.between(0, 20);
    for (uint64_t i = 0; i < size; ++i) {
      key.push_back(static_cast<char>(rng.chance(0.3) ? '\\' : static_cast<char>(rng.between(0, 255))));
    }
    const std::string text = key_text(key);
    EXPECT_EQ(printable(text), text) << "fit for a terminal";
    const auto back = parse_key(text);
    ASSERT_TRUE(back.ok()) << text << ": " << back.status();
    ASSERT_EQ(*back, key) << text;
  }
}

TEST(ShellWord, QuotesAnything) {
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace skua::kv::ctl
