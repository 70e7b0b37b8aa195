#include "kvstore/replication/copy_codec.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "rpc/base/rng.h"
#include "tests/kvstore/codec/codec_testing.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

using testing::hex;
using testing::random_text;
using testing::recode_chunk;
using testing::recode_fetch_chunk;
using testing::recode_fetch_tail;

std::string encoded(const Chunk& chunk) {
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  return std::string(as_string_view(encode_chunk_head(chunk, buffer).value())).append(as_string_view(chunk.data));
}

TEST(CopyCodecTest, Chunk_GoldenBytes) {
  std::array<std::byte, kFetchChunkBytes> buffer;
  EXPECT_EQ(hex(encode_fetch_chunk({1, 2, 3, 4, 5, 6}, buffer).value()),
            "0100000002000000"
            "0300000000000000"
            "04000000"
            "0500000000000000"
            "06000000");
  EXPECT_EQ(hex(as_byte_span(encoded({.snapshot = 1,
                                      .end = {2, 3},
                                      .files = 4,
                                      .file_bytes = 9,
                                      .offset = 6,
                                      .crc32c = 0x01020304,
                                      .name = "f",
                                      .data = as_byte_span("xyz")}))),
            "0100000000000000"
            "0200000000000000"
            "0300000000000000"
            "04000000"
            "0900000000000000"
            "0600000000000000"
            "04030201"
            "01"
            "66"
            "78797a");
}

TEST(CopyCodecTest, Chunk_OfALogThatNobodyHasIsRefused) {
  Chunk chunk{.snapshot = 1, .end = {EpochHistory::kIndexMax, 3}, .files = 1, .name = "CURRENT"};
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  EXPECT_TRUE(encode_chunk_head(chunk, buffer).ok());
  ++chunk.end.index;
  EXPECT_FALSE(encode_chunk_head(chunk, buffer).ok());
}

TEST(CopyCodecTest, Chunk_RoundTripsAndRefusesTruncation) {
  const std::string bytes = encoded({.snapshot = 1,
                                     .end = {2, 3},
                                     .files = 4,
                                     .file_bytes = 9,
                                     .offset = 6,
                                     .crc32c = 5,
                                     .name = "000012.sst",
                                     .data = as_byte_span("xyz")});
  EXPECT_EQ(recode_chunk(as_byte_span(bytes)), bytes);
  for (size_t size = 0; size < bytes.size() - 3; ++size) {
    EXPECT_FALSE(recode_chunk(as_byte_span(bytes).first(size))) << size;
  }
  std::array<std::byte, kFetchChunkBytes> buffer;
  const std::string fetch(as_string_view(encode_fetch_chunk({1, 2, 3, 4, 5, 6}, buffer).value()));
  EXPECT_EQ(recode_fetch_chunk(as_byte_span(fetch)), fetch);
  for (size_t size = 0; size < fetch.size(); ++size) EXPECT_FALSE(recode_fetch_chunk(as_byte_span(fetch).first(size)));
  EXPECT_FALSE(recode_fetch_chunk(as_byte_span(fetch + '\0')));
}

TEST(CopyCodecTest, FetchTail_GoldenBytesAndBounds) {
  std::array<std::byte, kFetchTailBytes> buffer;
  const std::string fetch(as_string_view(encode_fetch_tail({1, 2, 3, 4}, buffer)));
  EXPECT_EQ(hex(as_byte_span(fetch)),
            "0100000002000000"
            "0300000000000000"
            "04000000");
  EXPECT_EQ(recode_fetch_tail(as_byte_span(fetch)), fetch);
  for (size_t size = 0; size < fetch.size(); ++size) EXPECT_FALSE(recode_fetch_tail(as_byte_span(fetch).first(size)));
  EXPECT_FALSE(recode_fetch_tail(as_byte_span(fetch + '\0')));
  for (const uint32_t bytes_max : {uint32_t{0}, static_cast<uint32_t>(kChunkBytesMax + 1)}) {
    EXPECT_FALSE(recode_fetch_tail(encode_fetch_tail({1, 2, 3, bytes_max}, buffer)));
  }
}

TEST(CopyCodecTest, Chunk_RefusesWhatIsOutsideOfItsFile) {
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  const Chunk good = {.snapshot = 1, .files = 1, .file_bytes = 3, .name = "f", .data = as_byte_span("xyz")};
  const auto refused = [&](auto change) {
    Chunk chunk = good;
    change(chunk);
    return !encode_chunk_head(chunk, buffer).ok();
  };
  EXPECT_FALSE(refused([](Chunk&) {}));
  EXPECT_TRUE(refused([](Chunk& c) { c.offset = 1; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.snapshot = 0; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.files = 0; }));
  EXPECT_TRUE(refused([](Chunk& c) { c.data = {}; }));
  EXPECT_FALSE(refused([](Chunk& c) { c.data = {}, c.file_bytes = 0; }));
  for (const std::string_view name : {"", ".", "..", "a/b", "/etc/passwd", "../up"}) {
    EXPECT_TRUE(refused([&](Chunk& c) { c.name = name; })) << name;
  }
}

}  // namespace
}  // namespace skua::kv
