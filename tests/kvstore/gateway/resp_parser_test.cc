#include "kvstore/gateway/resp_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::kv::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

struct Parsed {
  std::vector<Words> commands;
  std::string error;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};

/// Feeds `stream` in pieces of `piece_bytes`.
Parsed parse(std::string_view stream, size_t piece_bytes = 1 << 30) {
  Parsed out;
  RespParser parser;
  while (!stream.empty()) {
    std::string_view piece = stream.substr(0, piece_bytes);
    stream.remove_prefix(piece.size());
    for (;;) {
      const RespParser::Found found = parser.parse(piece);
      if (found == RespParser::Found::kNothing) break;
      if (found == RespParser::Found::kError) {
        out.error = parser.error();
        return out;
      }
      Words words;
      for (size_t i = 0; i < parser.arguments().size(); ++i) words.emplace_back(parser.arguments()[i]);
      out.commands.push_back(std::move(words));
    }
  }
  return out;
}

std::string error_of(std::string_view stream) {
  Parsed whole = parse(stream);
  EXPECT_TRUE(whole == parse(stream, 1)) << "cut into bytes";
  return whole.error;
}

TEST(RespParser, ArraysAndLines) {
  const Parsed whole = parse(
      "*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
      "PING\r\n"
      "\r\n"
      "*0\r\n"
      "*-1\r\n"
      "*1\r\n$0\r\n\r\n"
      "  set  b \t x\n"
      "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4");
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.commands.size(), 4U);
  EXPECT_THAT(whole.commands[0], ElementsAre("GET", "a"));
  EXPECT_THAT(whole.commands[1], ElementsAre("PING"));
  EXPECT_THAT(whole.commands[2], ElementsAre(""));
  EXPECT_THAT(whole.commands[3], ElementsAre("set", "b", "x"));
}

TEST(RespParser, EveryCutGivesTheSame) {
  using std::string_literals::operator""s;
  const std::string stream =
      "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n\r\n\0$*\r\n"s
      "echo \"a b\" 'c'\r\n"
      "*1\r\n$0\r\n\r\n\n*2\r\n$12\r\n0123456789ab\r\n$1\r\nx\r\nquit\n";
  const Parsed whole = parse(stream);
  ASSERT_EQ(whole.commands.size(), 5U);
  EXPECT_THAT(whole.commands[0], ElementsAre("SET", "k", "\r\n\0$*"s));
  for (size_t piece = 1; piece < stream.size(); ++piece) EXPECT_TRUE(parse(stream, piece) == whole) << piece;
}

TEST(RespParser, QuotedWords) {
  EXPECT_THAT(parse("a\"b c\" 'd \\' \\n' \"\\x41\\n\\q\\\"\" ''\n").commands,
              ElementsAre(ElementsAre("ab c", "d ' \\n", "A\nq\"", "")));
  EXPECT_EQ(error_of("get \"a\n"), "Protocol error: unbalanced quotes in request");
  EXPECT_EQ(error_of("get \"a\"b\n"), "Protocol error: unbalanced quotes in request");
  EXPECT_EQ(error_of("get 'a\\'\n"), "Protocol error: unbalanced quotes in request");
}

TEST(RespParser, Errors) {
  EXPECT_EQ(error_of("*x\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1048577\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1\r\nfoo\r\n"), "Protocol error: expected '$', got 'f'");
  EXPECT_EQ(error_of("*1\r\n$x\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$16842753\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$16842752\r\n"), "");
  EXPECT_EQ(error_of("*1\r\n$+1\r\n"), "Protocol error: invalid bulk length");
}

TEST(RespParser, CommandsBeforeAnErrorAreFound_AndNothingAfterIt) {
  const Parsed found = parse("PING\r\n*1\r\n!\r\nPING\r\n");
  EXPECT_THAT(found.commands, ElementsAre(ElementsAre("PING")));
  EXPECT_EQ(found.error, "Protocol error: expected '$', got '!'");
  RespParser parser;
  std::string_view input = "*x\r\n";
  EXPECT_EQ(parser.parse(input), RespParser::Found::kError);
  input = "PING\r\n";
  EXPECT_EQ(parser.parse(input), RespParser::Found::kError);
}

TEST(RespParser, LinesHaveALimit) {
  const size_t limit = kRespLineBytesMax;
  for (const size_t piece : {size_t{1000}, size_t{65536}, size_t{1} << 20}) {
    EXPECT_EQ(parse(std::string(limit, 'a') + "\n", piece).commands.size(), 1U) << piece;
    EXPECT_EQ(parse(std::string(limit + 1, 'a') + "\n", piece).error, "Protocol error: too big inline request");
    EXPECT_EQ(parse(std::string(limit + 1, 'a'), piece).error, "Protocol error: too big inline request");
    EXPECT_EQ(parse("*" + std::string(limit + 1, '1') + "\r\n", piece).error,
              "Protocol error: too big mbulk count string");
    EXPECT_EQ(parse("*1\r\n" + std::string(limit + 1, '$') + "\r\n", piece).error,
              "Protocol error: too big bulk count string");
    EXPECT_EQ(parse("*" + std::string(limit, '1') + "\r\n", piece).error, "Protocol error: invalid multibulk length");
  }
}

TEST(RespParser, ACommandHasALimit) {
  std::string stream = "*9\r\n";
  const std::string part(size_t{16} << 20, 'x');
  for (int i = 0; i < 4; ++i) stream += "$16777216\r\n" + part + "\r\n";
  stream += "$1\r\n";
  EXPECT_EQ(parse(stream).error, "Protocol error: a command of more than 67108864 bytes");
}

TEST(RespParser, AMillionWordsAreACommand) {
  std::string stream = "*1048576\r\n";
  for (int i = 0; i < 1048576; ++i) stream += "$1\r\nx\r\n";
  const Parsed found = parse(stream, 16384);
  ASSERT_EQ(found.commands.size(), 1U);
  EXPECT_EQ(found.commands[0].size(), 1048576U);
}

TEST(RespParser, KnowsWhetherItIsAmidACommand) {
  RespParser parser;
  EXPECT_FALSE(parser.is_amid_command());
  std::string_view input = "*1\r\n$4\r\nPI";
  EXPECT_EQ(parser.parse(input), RespParser::Found::kNothing);
  EXPECT_TRUE(parser.is_amid_command());
  input = "NG\r\nrest";
  EXPECT_EQ(parser.parse(input), RespParser::Found::kCommand);
  EXPECT_EQ(input, "rest");
  EXPECT_FALSE(parser.is_amid_command());
}

}  // namespace
}  // namespace skua::kv::gateway
