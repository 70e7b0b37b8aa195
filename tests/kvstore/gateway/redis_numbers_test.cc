#include "kvstore/gateway/redis_numbers.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace skua::kv::gateway {
namespace {

TEST(RedisNumbers, OnlyTheFormThatAnIntegerIsPrintedIn) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("10"), 10);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* text : {"", "-", "+1", "01", "-0", "00", " 1", "1 ", "1a", "1.0", "-01", "0x1",
                           "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(RedisNumbers, FloatsAsStrtoldTakesThem) {
  EXPECT_EQ(parse_float("1.5"), 1.5L);
  EXPECT_EQ(parse_float("-5.0e3"), -5000.0L);
  EXPECT_EQ(parse_float("+.5"), .5L);
  EXPECT_TRUE(parse_float("inf").has_value());
  for (const char* text : {"", " 1", "1 ", "a", "1a", "nan", "1e99999", "1e-99999"}) {
    EXPECT_EQ(parse_float(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_float(std::string(5 * 1024, '0')), std::nullopt);
  for (const long double value : {1e300L, std::numeric_limits<long double>::max()}) {
    EXPECT_EQ(parse_float(format_float(value)), value) << "what was written can be read";
  }
}

TEST(RedisNumbers, FloatsArePrintedWithoutZerosAtTheEnd) {
  EXPECT_EQ(format_float(10.6L), "10.6");
  EXPECT_EQ(format_float(5.0L), "5");
  EXPECT_EQ(format_float(100.0L), "100");
  EXPECT_EQ(format_float(-0.0L), "0");
  EXPECT_EQ(format_float(-5000.25L), "-5000.25");
  EXPECT_EQ(format_float(*parse_float("1e300")).size(), 301U);
}

}  // namespace
}  // namespace skua::kv::gateway
