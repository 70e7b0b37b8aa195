#include "ycsb/core/properties.h"

#include <gtest/gtest.h>

#include <string>

namespace skua::ycsb {
namespace {

// The expectations are what java.util.Properties.load gives for the same text, except that blanks
// at the end of a value are dropped.
TEST(Properties, Parse_LikeJava) {
  Properties p;
  const auto status = p.parse(
      "a=1\nb : 2\nc 3\n  d = 4  \n#x=1\n!y=2\ne=one\\\n   two\nf\\=g=h\\:i\nu=\\u0041\\t|\n"
      "k\\ l=m\nempty\nempty2=\n\nq\\\\=back\\\\slash\nr=a\\qb\nlast = x\\\n#notcomment\nz==y\n"
      "w=:v\nt \t=\t s\r\ncr=1\rcr2=2\n\\\nff=3\nodd=\\\\\\\nnext\n");
  ASSERT_TRUE(status.ok()) << status;
  const Properties::Map expected = {{"a", "1"},
                                    {"b", "2"},
                                    {"c", "3"},
                                    {"d", "4"},
                                    {"e", "onetwo"},
                                    {"f=g", "h:i"},
                                    {"u", "A\t|"},
                                    {"k l", "m"},
                                    {"empty", ""},
                                    {"empty2", ""},
                                    {"q\\", "back\\slash"},
                                    {"r", "aqb"},
                                    {"last", "x#notcomment"},
                                    {"z", "=y"},
                                    {"w", ":v"},
                                    {"t", "s"},
                                    {"cr", "1"},
                                    {"cr2", "2"},
                                    {"ff", "3"},
                                    {"odd", "\\next"}};
  EXPECT_EQ(p.all(), expected);
}

TEST(Properties, Parse_ContinuationAtTheEndAndInOddPlaces) {
  Properties end;
  ASSERT_TRUE(end.parse("end=1\\").ok());
  EXPECT_EQ(end.find("end"), "1");
  Properties odd;
  ASSERT_TRUE(odd.parse("a\\\n   # b=c\n# comment\\\nd=1").ok());
  EXPECT_EQ(odd.all(), (Properties::Map{{"a#", "b=c"}, {"d", "1"}}));
}

TEST(Properties, Parse_UnicodeBecomesUtf8) {
  Properties p;
  ASSERT_TRUE(p.parse("e=\\u00e9\neuro=\\u20AC\n").ok());
  EXPECT_EQ(p.find("e"), "\xc3\xa9");
  EXPECT_EQ(p.find("euro"), "\xe2\x82\xac");
}

TEST(Properties, Parse_BrokenUnicodeNamesTheLine) {
  for (const std::string text : {"a=1\nb=\\u12\n", "a=1\nb=\\uzzzz\n", "a=1\nb=\\u-123"}) {
    Properties p;
    const auto status = p.parse(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find("line 2"), std::string::npos) << status;
  }
}

TEST(Properties, Parse_LaterEntriesWin) {
  Properties p;
  ASSERT_TRUE(p.parse("a=1\na=2\n").ok());
  ASSERT_TRUE(p.parse("a=3").ok());
  EXPECT_EQ(p.find("a"), "3");
  p.erase("a");
  EXPECT_FALSE(p.has("a"));
}

TEST(Properties, Parse_RemarksOnWhatOneTextSaysTwice) {
  Properties p;
  std::vector<std::string> remarks;
  ASSERT_TRUE(p.parse("a=1\nb=1\na=1\nb=2\nb=3\n", &remarks).ok());
  EXPECT_EQ(remarks,
            (std::vector<std::string>{"line 4: b=2 replaces the 1 of line 2", "line 5: b=3 replaces the 2 of line 4"}));
  EXPECT_EQ(p.find("b"), "3");
  remarks.clear();
  ASSERT_TRUE(p.parse("b=4", &remarks).ok());  // another text
  EXPECT_TRUE(remarks.empty());
}

TEST(Properties, Parse_BytesThatNoTextHasAreRefused) {
  for (const std::string& text : {std::string("a=1\nb=\0\n", 8),
                                  std::string("a=1\n\x7f"
                                              "ELF"),
                                  std::string("a=1\nPK\x03\x04")}) {
    Properties p;
    const auto status = p.parse(text);
    EXPECT_EQ(status.message(), "line 2 is no text; is it a property file?");
  }
  Properties p;
  EXPECT_TRUE(p.parse("a=\xc3\xa9\tb\f\n").ok());
}

Properties one(std::string_view value) {
  Properties p;
  p.set("x", value);
  return p;
}

TEST(PropertyReader, Whole_TakesNumbersInRangeOnly) {
  const Properties good = one("42");
  PropertyReader in(good);
  EXPECT_EQ(in.whole("x", 1, 0, 100), 42U);
  EXPECT_EQ(in.whole("absent", 7, 0, 1), 7U);
  EXPECT_TRUE(in.status().ok());
  for (const char* bad : {"", "101", "-1", "1e3", "4 2", "1.5", "99999999999999999999999"}) {
    const Properties p = one(bad);
    PropertyReader reader(p);
    EXPECT_EQ(reader.whole("x", 9, 0, 100), 9U);
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(PropertyReader, Whole_SaysHowToWriteTheNumberThatIsMeant) {
  const auto complaint = [](std::string_view value) {
    const Properties p = one(value);
    PropertyReader in(p);
    (void)in.whole("x", 0, 0, 2'000'000'000);
    return std::string(in.status().message());
  };
  for (const char* million : {"1e6", "1,000,000", "1_000_000", "1M", "1000k"})
    EXPECT_NE(complaint(million).find("; write 1000000"), std::string::npos) << complaint(million);
  for (const char* other : {"", "-5", "many", "1.5", "2000000001", "3g", "1e300", "nan", "k"})
    EXPECT_EQ(complaint(other), "x=" + std::string(other) + ": must be a whole number from 0 to 2000000000");
}

TEST(PropertyReader, Real_TakesFiniteNumbersInRangeOnly) {
  const Properties good = one("0.5");
  PropertyReader in(good);
  EXPECT_EQ(in.real("x", 1, 0, 1), 0.5);
  for (const char* bad : {"", "1.5", "-0.1", "nan", "inf", "0,5", "half"}) {
    const Properties p = one(bad);
    PropertyReader reader(p);
    EXPECT_EQ(reader.real("x", 0.25, 0, 1), 0.25);
    EXPECT_FALSE(reader.status().ok()) << bad;
  }
}

TEST(PropertyReader, Flag_TrueAndFalseInAnyCase) {
  for (const auto& [text, value] : {std::pair("true", true), {"TRUE", true}, {"False", false}}) {
    const Properties p = one(text);
    PropertyReader in(p);
    EXPECT_EQ(in.flag("x", !value), value);
    EXPECT_TRUE(in.status().ok());
  }
  const Properties p = one("ture");
  PropertyReader in(p);
  EXPECT_FALSE(in.flag("x", true));
  EXPECT_FALSE(in.status().ok());
}

TEST(PropertyReader, Choice_ListsWhatMayBeChosen) {
  const Properties p = one("blue");
  PropertyReader in(p);
  EXPECT_EQ(in.choice("absent", "green", {"red", "green"}), 1U);
  EXPECT_EQ(in.choice("x", "red", {"red", "blue"}), 1U);
  EXPECT_TRUE(in.status().ok());
  EXPECT_EQ(in.choice("x", "red", {"red", "green"}), 0U);
  EXPECT_EQ(std::string(in.status().message()), "x=blue: must be one of red, green");
}

TEST(PropertyReader, Status_KeepsTheFirstError) {
  const Properties p = one("bad");
  PropertyReader in(p);
  (void)in.whole("x", 0, 0, 1);
  in.fail("second");
  EXPECT_EQ(std::string(in.status().message()).substr(0, 5), "x=bad");
}

}  // namespace
}  // namespace skua::ycsb
