#include "ycsb/core/hdr_log.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

#include "ycsb/core/text.h"
#include "ycsb/core/workload_limits.h"

namespace skua::ycsb {
namespace {

constexpr uint32_t kCompressedCookie = 0x1c849314;
constexpr uint32_t kPlainCookie = 0x1c849313;
constexpr int kSubBits = 10;

template <typename T>
void append_big_endian(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out += static_cast<char>(value >> shift & 0xff);
}

void append_zigzag(std::string& out, int64_t value) {
  auto bits = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  while (bits >= 0x80) {
    out += static_cast<char>(bits | 0x80);
    bits >>= 7;
  }
  out += static_cast<char>(bits);
}

/// The position of a value's bucket in HdrHistogram's array of counts.
int64_t index_of(uint64_t value) {
  if (value < (uint64_t{2} << kSubBits)) return static_cast<int64_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  return (int64_t{shift} << kSubBits) + static_cast<int64_t>(value >> shift);
}

std::string encode_plain(const Histogram& histogram) {
  std::string counts;
  int64_t next = 0;
  histogram.for_each_bucket([&](uint64_t low, uint64_t /*high*/, uint64_t count) {
    const int64_t index = index_of(low);
    if (index > next) append_zigzag(counts, next - index);
    append_zigzag(counts, static_cast<int64_t>(count));
    next = index + 1;
  });
  std::string out;
  append_big_endian(out, kPlainCookie);
  append_big_endian(out, static_cast<uint32_t>(counts.size()));
  append_big_endian(out, uint32_t{0});
  append_big_endian(out, uint32_t{3});
  append_big_endian(out, uint64_t{1});
  append_big_endian(out, kLatencyMaxUs);
  append_big_endian(out, std::bit_cast<uint64_t>(1.0));
  return out + counts;
}

uint32_t adler32(std::string_view bytes) {
  constexpr uint32_t kModulus = 65'521;
  uint32_t a = 1;
  uint32_t b = 0;
  for (const char c : bytes) {
    a = (a + static_cast<unsigned char>(c)) % kModulus;
    b = (b + a) % kModulus;
  }
  return b << 16 | a;
}

/// A zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4).
std::string zlib_stored(std::string_view bytes) {
  constexpr size_t kBlockMax = 65'535;
  std::string out = "\x78\x01";
  std::string_view rest = bytes;
  do {
    const std::string_view block = rest.substr(0, kBlockMax);
    rest.remove_prefix(block.size());
    const auto size = static_cast<uint32_t>(block.size());
    out += static_cast<char>(rest.empty() ? 1 : 0);
    for (const uint32_t length : {size, ~size}) {
      out += static_cast<char>(length & 0xff);
      out += static_cast<char>(length >> 8 & 0xff);
    }
    out += block;
  } while (!rest.empty());
  append_big_endian(out, adler32(bytes));
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string hdr_encode(const Histogram& histogram) {
  const std::string contents = zlib_stored(encode_plain(histogram));
  std::string out;
  append_big_endian(out, kCompressedCookie);
  append_big_endian(out, static_cast<uint32_t>(contents.size()));
  return base64(out + contents);
}

std::string hdr_log_header(std::string_view name, int64_t start_epoch_ms, std::string_view date) {
  std::array<char, 48> start;
  std::snprintf(start.data(), start.size(), "%.3f", static_cast<double>(start_epoch_ms) / 1000);
  return concat("#[Logging for: ", name, "]\n#[Histogram log format version 1.3]\n#[StartTime: ", start.data(),
                " (seconds since epoch), ", date, "]\n", "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",",
                "\"Interval_Compressed_Histogram\"\n");
}

std::string hdr_log_line(const Histogram& histogram, TimeNs interval_start, TimeNs interval_end) {
  const double start = static_cast<double>(interval_start) / kSecond;
  const double end = static_cast<double>(interval_end) / kSecond;
  std::array<char, 96> numbers;
  // The log's column is the maximum over a million, whatever the unit: as Java's writer does.
  std::snprintf(numbers.data(), numbers.size(), "%.3f,%.3f,%.3f,", start, end - start,
                static_cast<double>(histogram.max()) / 1e6);
  return concat(numbers.data(), hdr_encode(histogram), "\n");
}

}  // namespace skua::ycsb
