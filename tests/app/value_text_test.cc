#include "app/value_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "rpc/base/rng.h"

namespace skua::app {
namespace {

TEST(ValueText, ParseBool_WordsPeopleUse) {
  for (const char* yes : {"true", "yes", "on", "1"}) EXPECT_TRUE(*parse_bool(yes)) << yes;
  for (const char* no : {"false", "no", "off", "0"}) EXPECT_FALSE(*parse_bool(no)) << no;
  EXPECT_EQ(parse_bool("maybe").status().message(), "must be true or false, not maybe");
  EXPECT_EQ(parse_bool("").status().message(), "must be true or false, not empty");
}

TEST(ValueText, ParseInt_WholeTextOrNothing) {
  EXPECT_EQ(*parse_int("42"), 42);
  EXPECT_EQ(*parse_int("-7"), -7);
  EXPECT_EQ(*parse_int("+7"), 7);
  EXPECT_EQ(*parse_int("1_000_000"), 1'000'000);
  EXPECT_EQ(*parse_int("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* bad :
       {"", "4x", "x4", " 4", "4 ", "1.5", "0x10", "_4", "4_", "1__0", "--4", "9223372036854775808"}) {
    EXPECT_FALSE(parse_int(bad).ok()) << bad;
  }
  EXPECT_EQ(parse_int("99999999999999999999").status().message(),
            "must be a whole number of 18 digits at most, not 99999999999999999999");
}

TEST(ValueText, ParseDouble_FiniteOnly) {
  EXPECT_DOUBLE_EQ(*parse_double("0.99"), 0.99);
  EXPECT_DOUBLE_EQ(*parse_double("-1e3"), -1000);
  for (const char* bad : {"", "nan", "inf", "1.5x", "1e999"}) {
    EXPECT_FALSE(parse_double(bad).ok()) << bad;
  }
}

TEST(ValueText, ParseDuration_NumberAndUnit) {
  EXPECT_EQ(*parse_duration("0"), 0);
  EXPECT_EQ(*parse_duration("5ns"), 5);
  EXPECT_EQ(*parse_duration("250us"), 250 * kMicrosecond);
  EXPECT_EQ(*parse_duration("1.5s"), 1500 * kMillisecond);
  EXPECT_EQ(*parse_duration("2m"), 120 * kSecond);
  EXPECT_EQ(*parse_duration("1h"), 3600 * kSecond);
  for (const char* bad : {"", "5", "ms", "-5ms", "5 ms", "5MS", "5msx", "1e30h", "5d"}) {
    EXPECT_FALSE(parse_duration(bad).ok()) << bad;
  }
  EXPECT_EQ(parse_duration("5").status().message(), "must be a duration such as 250us, 500ms, 2s or 10m, not 5");
  EXPECT_EQ(parse_duration("5sec").status().message(),
            "must be a duration such as 250us, 500ms, 2s or 10m, not 5sec; did you mean 5s?");
  EXPECT_EQ(parse_duration("800000h").value(), int64_t{800'000} * 3600 * kSecond);
  EXPECT_EQ(parse_duration("2562047h").status().message(), "must be a duration of 100 years at most, not 2562047h");
}

TEST(ValueText, ParseSize_BinaryUnits) {
  EXPECT_EQ(*parse_size("0"), 0);
  EXPECT_EQ(*parse_size("4096"), 4096);
  EXPECT_EQ(*parse_size("17B"), 17);
  EXPECT_EQ(*parse_size("64MiB"), 64 << 20);
  EXPECT_EQ(*parse_size("2GiB"), int64_t{2} << 30);
  for (const char* bad : {"", "MiB", "-1", "1.5MiB", "64MB", "64M", "9000000000000TiB"}) {
    EXPECT_FALSE(parse_size(bad).ok()) << bad;
  }
  EXPECT_EQ(*parse_size("1048576TiB"), int64_t{1} << 60);
  for (const char* much : {"1048577TiB", "8388607TiB", "1152921504606846977"}) {
    EXPECT_EQ(std::string(parse_size(much).status().message()),
              std::string("must be a size of 1048576TiB at most, not ") + much);
  }
  EXPECT_EQ(parse_size("64mb").status().message(),
            "must be a size in bytes such as 4096, 64KiB, 16MiB or 2GiB, not 64mb; did you mean 64MiB?");
  EXPECT_EQ(parse_size("2G").status().message(),
            "must be a size in bytes such as 4096, 64KiB, 16MiB or 2GiB, not 2G; did you mean 2GiB?");
}

TEST(ValueText, Format_ShortestUnitThatIsExact) {
  EXPECT_EQ(format_duration(0), "0");
  EXPECT_EQ(format_duration(1500 * kMillisecond), "1500ms");
  EXPECT_EQ(format_duration(2 * kSecond), "2s");
  EXPECT_EQ(format_duration(7), "7ns");
  EXPECT_EQ(format_size(64 << 20), "64MiB");
  EXPECT_EQ(format_size(1537), "1537B");
  EXPECT_EQ(format_size(0), "0B");
  EXPECT_EQ(format_double(0.1), "0.1");
}

TEST(ValueText, Format_ReadsBackTheSame) {
  Rng rng(11);
  for (int i = 0; i < 2000; ++i) {
    // Below 2^53, where a double, through which durations with a fraction go, is exact.
    const auto value = static_cast<int64_t>(rng.next() >> (11 + rng.below(50)));
    EXPECT_EQ(*parse_duration(format_duration(value)), value);
    EXPECT_EQ(*parse_size(format_size(value)), value);
    const double real = static_cast<double>(value) / 1024;
    EXPECT_EQ(*parse_double(format_double(real)), real);
  }
}

}  // namespace
}  // namespace skua::app
