// The gateway's small parts: patterns, cursors, the queue of output, memory of coroutines, hazards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "kvstore/gateway/frame_pool.h"
#include "kvstore/gateway/glob.h"
#include "kvstore/gateway/output_queue.h"
#include "kvstore/gateway/resp_writer.h"
#include "kvstore/gateway/scan_cursors.h"
#include "tests/kvstore/gateway/reply_testing.h"

namespace skua::kv::gateway {
namespace {

TEST(Glob, MatchesAsRedisDoes) {
  for (const auto& [pattern, text] : std::vector<std::pair<const char*, const char*>>{{"*", ""},
                                                                                      {"", ""},
                                                                                      {"*", "abc"},
                                                                                      {"a*c", "abbc"},
                                                                                      {"a*c", "ac"},
                                                                                      {"h?llo", "hello"},
                                                                                      {"h[ae]llo", "hallo"},
                                                                                      {"h[^e]llo", "hallo"},
                                                                                      {"h[a-c]llo", "hbllo"},
                                                                                      {"h[c-a]llo", "hbllo"},
                                                                                      {"\\*", "*"},
                                                                                      {"a\\?", "a?"},
                                                                                      {"[\\]]", "]"},
                                                                                      {"*a*b*", "xxaxxbxx"},
                                                                                      {"a**", "a"},
                                                                                      {"[a", "a"},
                                                                                      {"\\", "\\"},
                                                                                      {"*?", "x"}}) {
    EXPECT_TRUE(glob_matches(pattern, text)) << pattern << " " << text;
  }
  for (const auto& [pattern, text] : std::vector<std::pair<const char*, const char*>>{{"", "a"},
                                                                                      {"a", ""},
                                                                                      {"a*c", "abcd"},
                                                                                      {"h?llo", "hllo"},
                                                                                      {"h[^e]llo", "hello"},
                                                                                      {"h[ae]llo", "hillo"},
                                                                                      {"\\*", "a"},
                                                                                      {"*ab", "aba"},
                                                                                      {"[]", "a"},
                                                                                      {"A", "a"},
                                                                                      {"?", ""}}) {
    EXPECT_FALSE(glob_matches(pattern, text)) << pattern << " " << text;
  }
}

TEST(Glob, StarsCostNoMoreThanTheTextTimesThePattern) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(20'000, 'a')));
}

TEST(Glob, PrefixesBoundAScan) {
  EXPECT_EQ(glob_prefix("user:*"), "user:");
  EXPECT_EQ(glob_prefix("*"), "");
  EXPECT_EQ(glob_prefix("a\\*b"), "a");
  EXPECT_EQ(end_of_prefix("ab"), "ac");
  EXPECT_EQ(end_of_prefix("a\xff\xff"), "b");
  EXPECT_EQ(end_of_prefix("\xff"), "");
  EXPECT_EQ(end_of_prefix(""), "");
}

TEST(ScanCursors, TheOneThatWasNotUsedForLongestGoesFirst) {
  ScanCursors cursors(0, 2);
  const uint64_t a = cursors.remember(1, 0, "a");
  const uint64_t b = cursors.remember(1, 0, "b");
  EXPECT_NE(a, 0U);
  EXPECT_NE(a, b);
  EXPECT_EQ(cursors.find(0, a), "a");
  const uint64_t c = cursors.remember(1, 0, "c");
  EXPECT_EQ(cursors.find(0, b), std::nullopt);
  EXPECT_EQ(cursors.find(0, a), "a");
  EXPECT_EQ(cursors.find(0, c), "c");
  EXPECT_EQ(cursors.find(1, c), std::nullopt) << "another database";
}

TEST(ScanCursors, AClientThatBeginsManyScans_ForgetsItsOwn) {
  ScanCursors cursors(0, 100, 2);
  const uint64_t others = cursors.remember(7, 0, "o");
  const uint64_t a = cursors.remember(1, 0, "a");
  const uint64_t b = cursors.remember(1, 0, "b");
  const uint64_t c = cursors.remember(1, 0, "c");
  EXPECT_EQ(cursors.find(0, a), std::nullopt);
  EXPECT_EQ(cursors.find(0, b), "b");
  EXPECT_EQ(cursors.find(0, c), "c");
  for (int i = 0; i < 200; ++i) static_cast<void>(cursors.remember(1, 0, "d"));
  EXPECT_EQ(cursors.find(0, others), "o");
}

TEST(ScanCursors, GatewaysHaveDifferentOnes_BelowTheSignBit) {
  ScanCursors one(1);
  ScanCursors other(UINT64_MAX);
  const uint64_t cursor = other.remember(1, 0, "k");
  EXPECT_NE(one.remember(1, 0, "k"), cursor);
  EXPECT_EQ(one.find(0, cursor), std::nullopt);
  EXPECT_LT(cursor, uint64_t{1} << 63);
}

TEST(OutputQueue, KeepsTheOrderOfBytesAndLentValues) {
  PinnedBytes pinned;
  std::string expected;
  std::string got;
  const std::string large(3000, 'L');
  {
    OutputQueue queue(pinned);
    for (int i = 0; i < 40; ++i) {
      ReplyBytes reply(pinned);
      RespWriter writer(reply, RespVersion::kResp2);
      writer.integer(i);
      if (i % 3 == 0) writer.bulk(ValueView(large, {}));
      if (i % 7 == 0) writer.bulk(std::string_view(std::string(20'000, 'x')));
      expected += joined(reply);
      queue.append(reply);
      EXPECT_TRUE(reply.empty());
    }
    EXPECT_EQ(queue.size(), expected.size());
    EXPECT_EQ(pinned.count(), 14 * large.size());
    while (queue.size() > 2 * large.size()) {
      std::array<std::string_view, 3> pieces;
      const size_t count = queue.peek(pieces);
      ASSERT_GT(count, 0U);
      std::string bytes;
      for (size_t i = 0; i < count; ++i) bytes += pieces[i];
      bytes.resize(std::min<size_t>(bytes.size(), 777));
      got += bytes;
      queue.consume(bytes.size());
    }
    EXPECT_EQ(got, expected.substr(0, got.size()));
    EXPECT_GT(pinned.count(), 0U);
  }
  EXPECT_EQ(pinned.count(), 0U);
}

TEST(PinnedBytes, OfAllConnectionsAreBounded) {
  PinnedTotal total{.count = 0, .max = 1000};
  PinnedBytes one(&total);
  PinnedBytes other(&total);
  EXPECT_TRUE(one.try_add(600));
  EXPECT_FALSE(other.try_add(600));
  EXPECT_TRUE(other.try_add(400));
  one.remove(600);
  EXPECT_TRUE(other.try_add(600));
  EXPECT_EQ(total.count, 1000U);
}

TEST(OutputQueue, CopiesALargeValueThatTheKernelDoesNotTake) {
  PinnedBytes pinned;
  OutputQueue queue(pinned);
  std::string large(2 * kPinnedBytesMax, 'L');
  ReplyBytes reply(pinned);
  RespWriter(reply, RespVersion::kResp2).bulk(ValueView(large, {}));
  std::string expected = joined(reply);
  queue.append(reply);
  queue.consume(1000);
  EXPECT_EQ(pinned.count(), large.size());
  queue.unpin_excess();
  EXPECT_EQ(pinned.count(), 0U);
  large.assign(large.size(), '!');  // the memory is somebody else's now
  std::string got;
  while (!queue.empty()) {
    std::array<std::string_view, 2> pieces;
    ASSERT_GT(queue.peek(pieces), 0U);
    got += pieces[0];
    queue.consume(pieces[0].size());
  }
  EXPECT_EQ(got, expected.substr(1000));
}

TEST(FramePool, GivesTheSameMemoryAgain) {
  FramePool pool;
  void* const small = pool.take(300);
  pool.give(small, 300);
  EXPECT_EQ(pool.take(400), small) << "both are of 257 to 512 bytes";
  void* const large = pool.take(100'000);
  pool.give(large, 100'000);
  pool.give(small, 400);
}

}  // namespace
}  // namespace skua::kv::gateway
