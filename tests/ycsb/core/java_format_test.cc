#include "ycsb/core/java_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace skua::ycsb {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// What a JVM prints, except for the last three, where it would switch to E-notation.
TEST(JavaFormat, JavaDouble) {
  for (const auto& [value, text] : {std::pair(0.0, "0.0"),
                                    {1.0, "1.0"},
                                    {8100.4, "8100.4"},
                                    {0.1, "0.1"},
                                    {1.0 / 3, "0.3333333333333333"},
                                    {9999999.5, "9999999.5"},
                                    {100.0 / 7, "14.285714285714286"},
                                    {476190.4761904762, "476190.4761904762"},
                                    {kNan, "NaN"},
                                    {kInfinity, "Infinity"},
                                    {1e7, "10000000.0"},
                                    {123456789.125, "123456789.125"},
                                    {1e-5, "0.00001"}}) {
    EXPECT_EQ(java_double(value), text);
  }
}

TEST(JavaFormat, JavaTwoDecimals) {
  for (const auto& [value, text] : {std::pair(0.0, "0"),
                                    {0.5, "0.5"},
                                    {0.125, "0.12"},
                                    {0.135, "0.14"},
                                    {1.005, "1"},
                                    {2.675, "2.67"},
                                    {1234567.891, "1234567.89"},
                                    {0.004, "0"},
                                    {0.005, "0.01"},
                                    {0.015, "0.01"},
                                    {99.995, "100"},
                                    {1e10, "10000000000"},
                                    {12.30, "12.3"},
                                    {100.0, "100"},
                                    {kNan, "NaN"},
                                    {kInfinity, "\u221e"}}) {
    EXPECT_EQ(java_two_decimals(value), text) << value;
  }
}

TEST(JavaFormat, JavaOrdinal) {
  for (const auto& [percentile, text] : {std::pair(50.0, "50th"),
                                         {95.0, "95th"},
                                         {99.0, "99th"},
                                         {1.0, "1st"},
                                         {2.0, "2nd"},
                                         {3.0, "3rd"},
                                         {11.0, "11th"},
                                         {12.0, "12th"},
                                         {13.0, "13th"},
                                         {21.0, "21st"},
                                         {100.0, "100th"},
                                         {99.9, "99.9"},
                                         {99.99, "99.99"}}) {
    EXPECT_EQ(java_ordinal(percentile), text);
  }
}

TEST(JavaFormat, JavaRemainingTime) {
  for (const auto& [seconds, text] : {std::pair(0.0, "0 second "),
                                      {5.0, "5 second "},
                                      {10.0, "10 seconds "},
                                      {60.0, "1 minute "},
                                      {150.0, "2 minutes "},
                                      {3600.0, "1 hour "},
                                      {3661.0, "1 hour 1 minute "},
                                      {86400.0, "1 day "},
                                      {180000.0, "2 days 2 hours "},
                                      {86400.0 + 120, "1 day "},
                                      {kNan, "0 second "},
                                      {kInfinity, "106751991167300 days 15 hours "}}) {
    EXPECT_EQ(java_remaining_time(seconds), text);
  }
}

}  // namespace
}  // namespace skua::ycsb
