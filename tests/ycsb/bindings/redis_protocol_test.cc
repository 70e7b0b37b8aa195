#include "ycsb/bindings/redis_protocol.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skua::ycsb {
namespace {

using Progress = RedisReplies::Progress;
using Kind = RedisReply::Kind;

TEST(RedisCommands, Argument_GoldenBytes) {
  RedisCommands commands;
  commands.begin(3);
  commands.argument("HMGET");
  commands.argument("");
  commands.argument(int64_t{-42});
  EXPECT_EQ(commands.unsent(), "*3\r\n$5\r\nHMGET\r\n$0\r\n\r\n$3\r\n-42\r\n");
}

TEST(RedisCommands, MarkSent_LeavesTheRest) {
  RedisCommands commands;
  commands.begin(1);
  commands.argument("PING");
  const std::string all(commands.unsent());
  commands.mark_sent(3);
  EXPECT_EQ(commands.unsent(), all.substr(3));
  commands.begin(1);
  EXPECT_EQ(commands.unsent(), all.substr(3) + "*1\r\n");
  commands.mark_sent(commands.unsent().size());
  EXPECT_EQ(commands.unsent(), "");
}

void feed(RedisReplies& replies, std::string_view text) {
  while (!text.empty()) {
    const std::span<char> room = replies.room();
    const size_t count = text.copy(room.data(), room.size());
    replies.received(count);
    text.remove_prefix(count);
  }
}

TEST(RedisReplies, Next_EveryKind) {
  RedisReplies replies;
  feed(replies, "+OK\r\n-ERR no\r\n:17\r\n$-1\r\n$3\r\nabc\r\n*2\r\n$1\r\na\r\n$-1\r\n*0\r\n");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kStatus);
  EXPECT_EQ(replies.reply().text, "OK");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kError);
  EXPECT_EQ(replies.reply().text, "ERR no");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().integer, 17);
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kNil);
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().text, "abc");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kArray);
  EXPECT_EQ(replies.reply().element_count, 2U);
  EXPECT_EQ(replies.reply().nil_count, 1U);
  ASSERT_EQ(replies.reply().ends.size(), 2U);
  EXPECT_EQ(replies.reply().element(0), "a");
  EXPECT_EQ(replies.reply().element(1), "");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().element_count, 0U);
  EXPECT_EQ(replies.next(true), Progress::kNeedMore);
}

TEST(RedisReplies, Next_ElementsAreCountedEvenIfNotKept) {
  RedisReplies replies;
  feed(replies, "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
  ASSERT_EQ(replies.next(false), Progress::kReply);
  EXPECT_EQ(replies.reply().element_count, 2U);
  EXPECT_TRUE(replies.reply().ends.empty());
}

// Whether elements are kept or skipped, and however the bytes come: the same replies are found.
TEST(RedisReplies, Next_SkippedElementsEndWhereKeptOnesDo) {
  const std::string text =
      "*4\r\n$6\r\nfield0\r\n$5\r\nvalue\r\n$0\r\n\r\n$13\r\n$3\r\nabc\r\n$5\r\n\r\n:1\r\n*3\r\n$1\r\na\r\n$-1\r\n:"
      "7\r\n"
      "*0\r\n$2\r\nok\r\n+end\r\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    for (const bool keep : {false, true}) {
      RedisReplies replies;
      std::vector<Kind> seen;
      size_t nil_count = 0;
      std::string text_of_last;
      for (size_t at = 0; at < text.size(); at += piece) {
        feed(replies, text.substr(at, piece));
        for (Progress progress = replies.next(keep); progress != Progress::kNeedMore; progress = replies.next(keep)) {
          ASSERT_EQ(progress, Progress::kReply) << piece;
          seen.push_back(replies.reply().kind);
          nil_count += replies.reply().nil_count;
          text_of_last = replies.reply().text;
        }
      }
      ASSERT_EQ(seen, (std::vector<Kind>{Kind::kArray, Kind::kInteger, Kind::kArray, Kind::kArray, Kind::kString,
                                         Kind::kStatus}))
          << piece;
      ASSERT_EQ(nil_count, 1U);
      ASSERT_EQ(text_of_last, "end");
    }
  }
}

TEST(RedisReplies, Next_ByteByByte) {
  RedisReplies replies;
  const std::string text = "*3\r\n$6\r\nfield0\r\n$5\r\nvalue\r\n$0\r\n\r\n";
  for (size_t i = 0; i < text.size(); ++i) {
    feed(replies, text.substr(i, 1));
    const Progress progress = replies.next(true);
    ASSERT_EQ(progress, i + 1 < text.size() ? Progress::kNeedMore : Progress::kReply) << i;
  }
  EXPECT_EQ(replies.reply().element(0), "field0");
  EXPECT_EQ(replies.reply().element(1), "value");
  EXPECT_EQ(replies.reply().element(2), "");
}

TEST(RedisReplies, Next_ArraysInArraysAndNilOnes) {
  RedisReplies replies;
  feed(replies, "*3\r\n*2\r\n$1\r\na\r\n:5\r\n*-1\r\n$1\r\nb\r\n*-1\r\n+next\r\n");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kArray);
  EXPECT_EQ(replies.reply().element_count, 3U);
  EXPECT_EQ(replies.reply().nil_count, 1U);
  EXPECT_EQ(replies.reply().text, "ab");
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kNil);
  ASSERT_EQ(replies.next(true), Progress::kReply);
  EXPECT_EQ(replies.reply().text, "next");
}

TEST(RedisReplies, Next_ElementsLargerThanTheBuffer) {
  RedisReplies replies;
  const std::string value(1'000'000, 'v');
  const std::string text = "*2\r\n$1\r\nk\r\n$1000000\r\n" + value + "\r\n+OK\r\n";
  std::vector<Kind> seen;
  for (size_t at = 0; at < text.size();) {
    const std::span<char> room = replies.room();
    ASSERT_FALSE(room.empty());
    const size_t count = text.copy(room.data(), room.size(), at);
    replies.received(count);
    at += count;
    while (replies.next(true) == Progress::kReply) {
      seen.push_back(replies.reply().kind);
      if (seen.size() == 1) {
        EXPECT_EQ(replies.reply().element(1), value);
      }
    }
  }
  EXPECT_EQ(seen, (std::vector<Kind>{Kind::kArray, Kind::kStatus}));
}

TEST(RedisReplies, Next_DamageIsBroken) {
  for (const char* const text : {"$-2\r\n", "$x\r\n", "$99999999999999999999\r\n", "$1\r\nabc", "*-2\r\n", "*2x\r\n",
                                 ":\r\n", "+a\rb", "%1\r\n", "\r\n", "*1\r\nx"}) {
    RedisReplies replies;
    feed(replies, text);
    EXPECT_EQ(replies.next(true), Progress::kBroken) << text;
  }
}

TEST(RedisReplies, Next_OtherProtocolsAreBroken) {
  RedisReplies replies;
  feed(replies, "HTTP/1.1 400 Bad Request\r\n");
  EXPECT_EQ(replies.next(true), Progress::kBroken);
}

}  // namespace
}  // namespace skua::ycsb
