// Lines and blocks of memcached's text protocol. fuzz_memcached shows that cuts make no difference.
#include "kvstore/gateway/memcached_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/gateway/memcached_numbers.h"

namespace skua::kv::gateway {
namespace {

using Found = MemcachedParser::Found;

/// What comes of a stream: "word|word;" for each command, "!error;" for each refusal, "#error" at the end.
std::string parsed(std::string_view stream, size_t piece_bytes) {
  MemcachedParser parser;
  std::string out;
  while (!stream.empty()) {
    std::string_view piece = stream.substr(0, piece_bytes);
    stream.remove_prefix(piece.size());
    while (!piece.empty()) {
      const Found found = parser.parse(piece);
      if (found == Found::kBroken) return out + "#" + std::string(parser.error());
      if (found == Found::kRefused) out += "!" + std::string(parser.error()) + ";";
      if (found != Found::kCommand) continue;
      for (size_t i = 0; i < parser.arguments().size(); ++i) {
        out += (i == 0 ? "" : "|") + std::string(parser.arguments()[i]);
      }
      out += ";";
    }
  }
  return out + (parser.is_amid_command() ? "..." : "");
}

/// The same in one piece and byte by byte.
std::string parsed(std::string_view stream) {
  const std::string whole = parsed(stream, SIZE_MAX);
  EXPECT_EQ(parsed(stream, 1), whole);
  return whole;
}

TEST(MemcachedParser, LinesAndBlocks) {
  EXPECT_EQ(parsed("get a b\r\nget  c \nversion\r\n"), "get|a|b;get|c;version;");
  EXPECT_EQ(parsed("set a 1 2 5\r\nhe\r\no\r\nget a\r\n"), "set|a|1|2|5|he\r\no;get|a;");
  EXPECT_EQ(parsed("set a 1 2 0 noreply\r\n\r\ncas a 0 0 1 77\r\nx\r\n"), "set|a|1|2|0|noreply|;cas|a|0|0|1|77|x;");
  EXPECT_EQ(parsed("ms a 2 T5 c\r\nab\r\nmn\r\n"), "ms|a|2|T5|c|ab;mn;");
  EXPECT_EQ(parsed("set a 0 0 5\r\nhel"), "...");
  EXPECT_EQ(parsed("get a"), "...");
}

TEST(MemcachedParser, LinesThatMakeNoSense_HaveNoBlock) {
  const std::string bad = "!CLIENT_ERROR bad command line format;";
  EXPECT_EQ(parsed("\r\n\nx\r\nset a 0 0\r\n"), "!ERROR;!ERROR;!ERROR;!ERROR;");
  for (const char* line : {"set a x 0 1", "set a 0 x 1", "set a 0 0 x", "set a 0 0 -1", "set a 4294967296 0 1",
                           "set a 0 0 2147483646", "cas a 0 0 1 x", "ms a x", "ms a"}) {
    EXPECT_EQ(parsed(std::string(line) + "\r\nget b\r\n"), bad + "get|b;") << line;
  }
  EXPECT_EQ(parsed("set " + std::string(251, 'k') + " 0 0 1\r\nget b\r\n"), bad + "get|b;");
  EXPECT_EQ(parsed("set a x 0 1 noreply\r\nget b\r\n"), "!;get|b;");
}

TEST(MemcachedParser, BlocksThatAreRefused_AreSkipped) {
  EXPECT_EQ(parsed("set a 0 0 2\r\nabcd\r\nget b\r\n"), "!CLIENT_ERROR bad data chunk;!ERROR;get|b;");
  EXPECT_EQ(parsed("set a 0 0 2 noreply\r\nab\r\rget b\r\n"), "!;get|b;");
  EXPECT_EQ(parsed("set a\x01 0 0 5\r\nget c\r\nget b\r\n"), "!CLIENT_ERROR bad command line format;get|b;");
  const size_t size = kMemcachedBlockBytesMax + 1;
  const std::string large = "set a 0 0 " + std::to_string(size) + "\r\n" + std::string(size, 'v') + "\r\nget b\r\n";
  EXPECT_EQ(parsed(large, SIZE_MAX), "!SERVER_ERROR object too large for cache;get|b;");
  EXPECT_EQ(parsed(large, 100'000), "!SERVER_ERROR object too large for cache;get|b;");
}

TEST(MemcachedParser, LongLines) {
  EXPECT_EQ(parsed("touch " + std::string(kMemcachedLineBytesMax - 6, 'x') + "\nget b\n").size(),
            kMemcachedLineBytesMax + 1 + 6);
  EXPECT_EQ(parsed("touch " + std::string(kMemcachedLineBytesMax - 5, 'x') + "\nget b\n"),
            "#CLIENT_ERROR line too long");
  std::string keys = "get";
  while (keys.size() < 10'000) keys += " key";
  EXPECT_EQ(parsed(keys + "\r\n").size(), keys.size() + 1);
  std::string endless = "get ";
  endless.resize(kMemcachedKeysLineBytesMax + 1, 'k');
  EXPECT_EQ(parsed(endless, SIZE_MAX), "#CLIENT_ERROR line too long");
  EXPECT_EQ(parsed(endless, 1000), "#CLIENT_ERROR line too long");
}

TEST(MemcachedParser, EncodedKeys) {
  EXPECT_EQ(parsed("mg YWI= b v\r\nmg YWI= v\r\n"), "mg|ab|b|v;mg|YWI=|v;");
  EXPECT_EQ(parsed("ms YWI= 1 b\r\nx\r\nms YWI= 1 k\r\nb\r\n"), "ms|ab|1|b|x;ms|YWI=|1|k|b;");
  EXPECT_EQ(parsed("mg !! b\r\nms !! 1 b\r\nx\r\nmn\r\n"),
            "!CLIENT_ERROR error decoding key;!CLIENT_ERROR error decoding key;mn;");
}

TEST(MemcachedNumbers, AreReadAsMemcachedDoes) {
  EXPECT_EQ(parse_memcached_u64("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_memcached_u64("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_memcached_u64(" +7 "), 7U);
  EXPECT_EQ(parse_memcached_u64("-1"), std::nullopt);
  EXPECT_EQ(parse_memcached_u64("7x"), std::nullopt);
  EXPECT_EQ(parse_memcached_u64(""), std::nullopt);
  EXPECT_EQ(parse_memcached_u32("4294967295"), UINT32_MAX);
  EXPECT_EQ(parse_memcached_u32("4294967296"), std::nullopt);
  EXPECT_EQ(parse_memcached_i64("-5"), -5);
  EXPECT_EQ(parse_memcached_i64("9223372036854775808"), std::nullopt);
}

}  // namespace
}  // namespace skua::kv::gateway
