#include "ycsb/bindings/memcached_protocol.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace skua::ycsb {
namespace {

using Progress = MemcachedReplies::Progress;
using Kind = MemcachedReply::Kind;

TEST(MemcachedCommands, GoldenBytes) {
  MemcachedCommands commands;
  commands.get("user1", false);
  commands.get("user2", true);
  commands.set("user3", "a\r\nb", MemcachedCommands::StoreIf::kAlways);
  commands.set("user4", "", MemcachedCommands::StoreIf::kPresent);
  commands.set_version("user5", "x", 18'446'744'073'709'551'615U);
  commands.remove("user6");
  EXPECT_EQ(commands.unsent(),
            "mg user1 v\r\nmg user2 v c\r\nms user3 4\r\na\r\nb\r\nms user4 0 MR\r\n\r\n"
            "ms user5 1 C18446744073709551615\r\nx\r\nmd user6\r\n");
}

TEST(IsMemcachedKey, LengthAndCharacters) {
  EXPECT_TRUE(is_memcached_key("user1"));
  EXPECT_TRUE(is_memcached_key(std::string(250, 'k')));
  EXPECT_FALSE(is_memcached_key(std::string(251, 'k')));
  EXPECT_FALSE(is_memcached_key(""));
  EXPECT_FALSE(is_memcached_key("a b"));
  EXPECT_FALSE(is_memcached_key("a\nb"));
}

void feed(MemcachedReplies& replies, std::string_view text) {
  while (!text.empty()) {
    const std::span<char> room = replies.room();
    const size_t count = text.copy(room.data(), room.size());
    replies.received(count);
    text.remove_prefix(count);
  }
}

TEST(MemcachedReplies, Next_EveryKind) {
  MemcachedReplies replies;
  feed(replies,
       "VA 4 c42\r\na\r\nb\r\nVA 0 kuser1 c7\r\n\r\nHD\r\nHD c1\r\nEN\r\nNS\r\nEX\r\nNF\r\nERROR\r\n"
       "SERVER_ERROR object too large for cache\r\n");
  ASSERT_EQ(replies.next(), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kValue);
  EXPECT_EQ(replies.reply().text, "a\r\nb");
  EXPECT_EQ(replies.reply().version, 42U);
  ASSERT_EQ(replies.next(), Progress::kReply);
  EXPECT_EQ(replies.reply().text, "");
  EXPECT_EQ(replies.reply().version, 7U);
  for (const Kind kind : {Kind::kDone, Kind::kDone, Kind::kMiss, Kind::kNotStored, Kind::kExists, Kind::kNotFound}) {
    ASSERT_EQ(replies.next(), Progress::kReply);
    EXPECT_EQ(replies.reply().kind, kind);
  }
  ASSERT_EQ(replies.next(), Progress::kReply);
  EXPECT_EQ(replies.reply().kind, Kind::kError);
  ASSERT_EQ(replies.next(), Progress::kReply);
  EXPECT_EQ(replies.reply().text, "SERVER_ERROR object too large for cache");
  EXPECT_EQ(replies.next(), Progress::kNeedMore);
}

TEST(MemcachedReplies, Next_ByteByByte) {
  MemcachedReplies replies;
  const std::string text = "VA 12 c9\r\nvalue\r\nvalue\r\n";
  for (size_t i = 0; i < text.size(); ++i) {
    feed(replies, text.substr(i, 1));
    ASSERT_EQ(replies.next(), i + 1 < text.size() ? Progress::kNeedMore : Progress::kReply) << i;
  }
  EXPECT_EQ(replies.reply().text, "value\r\nvalue");
}

TEST(MemcachedReplies, Next_ValuesLargerThanTheBuffer) {
  MemcachedReplies replies;
  const std::string value(1'000'000, 'v');
  const std::string text = "EN\r\nVA 1000000\r\n" + value + "\r\nHD\r\n";
  std::vector<Kind> seen;
  for (size_t at = 0; at < text.size();) {
    const std::span<char> room = replies.room();
    const size_t count = std::min(room.size(), text.size() - at);
    text.copy(room.data(), count, at);
    replies.received(count);
    at += count;
    while (replies.next() == Progress::kReply) {
      seen.push_back(replies.reply().kind);
      if (seen.back() == Kind::kValue) {
        EXPECT_EQ(replies.reply().text, value);
      }
    }
  }
  EXPECT_EQ(seen, (std::vector<Kind>{Kind::kMiss, Kind::kValue, Kind::kDone}));
}

TEST(MemcachedReplies, Next_OtherProtocolsAreBroken) {
  for (const char* const text : {"HTTP/1.1 400 Bad Request\r\n", "-ERR unknown command\r\n", "VA x\r\n", "VA -1\r\n",
                                 "VA 1\r\nabc", "VA 99999999999999999999\r\n", "HDX\r\n", "\r\n"}) {
    MemcachedReplies replies;
    feed(replies, text);
    EXPECT_EQ(replies.next(), Progress::kBroken) << text;
  }
  MemcachedReplies replies;
  feed(replies, std::string(4096, 'x'));
  EXPECT_EQ(replies.next(), Progress::kBroken);
}

}  // namespace
}  // namespace skua::ycsb
