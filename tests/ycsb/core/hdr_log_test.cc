#include "ycsb/core/hdr_log.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

std::string from_base64(const std::string& text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    have += 6;
    if (have >= 8) out += static_cast<char>(bits >> (have -= 8) & 0xff);
  }
  return out;
}

uint64_t big_endian(const std::string& bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

/// The first value that HdrHistogram (3 digits, lowest 1) counts at an index.
uint64_t value_at(uint64_t index) {
  if (index < 2048) return index;
  const uint64_t shift = index / 1024 - 1;
  return (index % 1024 + 1024) << shift;
}

/// A reader written from the format's description: value to count.
std::map<uint64_t, uint64_t> decode(const std::string& text) {
  const std::string bytes = from_base64(text);
  EXPECT_EQ(big_endian(bytes, 0, 4), 0x1c849314U);
  EXPECT_EQ(big_endian(bytes, 4, 4), bytes.size() - 8);
  std::string plain;  // stored blocks only
  size_t at = 10;
  for (bool last = false; !last;) {
    last = bytes.at(at) == 1;
    const size_t size = static_cast<unsigned char>(bytes.at(at + 1)) |
                        static_cast<size_t>(static_cast<unsigned char>(bytes.at(at + 2))) << 8;
    plain += bytes.substr(at + 5, size);
    at += 5 + size;
  }
  EXPECT_EQ(bytes.size(), at + 4);  // the checksum
  EXPECT_EQ(big_endian(plain, 0, 4), 0x1c849313U);
  EXPECT_EQ(big_endian(plain, 4, 4), plain.size() - 40);
  EXPECT_EQ(big_endian(plain, 12, 4), 3U);
  EXPECT_EQ(big_endian(plain, 16, 8), 1U);
  std::map<uint64_t, uint64_t> counts;
  uint64_t index = 0;
  for (size_t i = 40; i < plain.size();) {
    uint64_t bits = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(plain[i++]);
      bits |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const auto number = static_cast<int64_t>(bits >> 1 ^ (~(bits & 1) + 1));
    if (number < 0) {
      index += static_cast<uint64_t>(-number);
    } else {
      counts[value_at(index++)] = static_cast<uint64_t>(number);
    }
  }
  return counts;
}

TEST(HdrLog, HdrEncode_ReadsBack) {
  Histogram histogram(kLatencyMaxUs);
  for (const uint64_t value : std::initializer_list<uint64_t>{0, 1, 1, 5, 2047, 2048, 4096, 1'000'000})
    histogram.record(value);
  histogram.record_n(300'000'000, 1'000'000);
  std::map<uint64_t, uint64_t> expected;
  histogram.for_each_bucket([&](uint64_t low, uint64_t /*high*/, uint64_t count) { expected[low] = count; });
  EXPECT_EQ(decode(hdr_encode(histogram)), expected);
  EXPECT_EQ(hdr_encode(histogram).substr(0, 5), "HISTF");
}

TEST(HdrLog, HdrEncode_ManyBucketsNeedSeveralBlocks) {
  Histogram histogram(kLatencyMaxUs);
  for (uint64_t i = 0; i < 70'000; ++i) histogram.record_n(i * 61'000, 1 + i % 1000);
  std::map<uint64_t, uint64_t> expected;
  histogram.for_each_bucket([&](uint64_t low, uint64_t /*high*/, uint64_t count) { expected[low] = count; });
  EXPECT_EQ(decode(hdr_encode(histogram)), expected);
}

TEST(HdrLog, HdrEncode_Empty) {
  EXPECT_TRUE(decode(hdr_encode(Histogram(kLatencyMaxUs))).empty());
}

TEST(HdrLog, HdrLogHeader_AndLine) {
  EXPECT_EQ(hdr_log_header("READ", 1'700'000'000'123, "Tue Nov 14 22:13:20 UTC 2023"),
            "#[Logging for: READ]\n#[Histogram log format version 1.3]\n"
            "#[StartTime: 1700000000.123 (seconds since epoch), Tue Nov 14 22:13:20 UTC 2023]\n"
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
            "\"Interval_Compressed_Histogram\"\n");
  Histogram histogram(kLatencyMaxUs);
  histogram.record(2000);
  const std::string line = hdr_log_line(histogram, kSecond, 3'500 * kMillisecond);
  EXPECT_EQ(line.substr(0, 23), "1.000,2.500,0.002,HISTF");
  EXPECT_EQ(line.back(), '\n');
}

}  // namespace
}  // namespace skua::ycsb
