#include "rpc/base/printable.h"

#include <gtest/gtest.h>

#include "rpc/base/rng.h"

namespace skua {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("plain \"text\" with \\ and ~"), "plain \"text\" with \\ and ~");
  EXPECT_EQ(printable("K\xc3\xa4se \xe2\x82\xac \xf0\x9f\x90\xa6"), "K\xc3\xa4se \xe2\x82\xac \xf0\x9f\x90\xa6");
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("two\nlines\r\t\x7f"), "two\\x0alines\\x0d\\x09\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b[2J"), "\\xc2\\x9b[2J") << "CSI of Latin-1";
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\x80"), "\\x80");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
  EXPECT_EQ(printable("\xe2\x82x"), "\\xe2\\x82x");
}

TEST(Printable, IsUtf8) {
  for (const std::string_view good : {"", "a\n", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\xa6", "\xc2\x9b"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const std::string_view bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(Printable, IsCut) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "12345...");
  EXPECT_EQ(printable("1234\n", 5), "1234...") << "not in the middle of an escape";
  EXPECT_EQ(printable("1234\xc3\xa4", 5), "1234...") << "nor of a character";
}

TEST(Printable, RandomBytesGiveNoControlCharacter) {
  Rng rng(1);
  for (int round = 0; round < 1000; ++round) {
    std::string bytes(rng.below(100), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.next());
    const std::string out = printable(bytes);
    for (const char c : out) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    EXPECT_EQ(printable(out), out);
  }
}

}  // namespace
}  // namespace skua
