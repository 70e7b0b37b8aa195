#include "kvstore/gateway/resp_writer.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/kvstore/gateway/reply_testing.h"

namespace skua::kv::gateway {
namespace {

std::string written(RespVersion version, const std::function<void(RespWriter&)>& write) {
  PinnedBytes pinned;
  ReplyBytes out(pinned);
  RespWriter writer(out, version);
  write(writer);
  return joined(out);
}

void expect_both(const std::function<void(RespWriter&)>& write, const std::string& resp2, const std::string& resp3) {
  EXPECT_EQ(written(RespVersion::kResp2, write), resp2);
  EXPECT_EQ(written(RespVersion::kResp3, write), resp3);
}

TEST(RespWriter, EachKindInBothProtocols) {
  expect_both([](RespWriter& w) { w.ok(); }, "+OK\r\n", "+OK\r\n");
  expect_both([](RespWriter& w) { w.error("ERR a\r\nb"); }, "-ERR a  b\r\n", "-ERR a  b\r\n");
  expect_both([](RespWriter& w) { w.integer(std::numeric_limits<int64_t>::min()); }, ":-9223372036854775808\r\n",
              ":-9223372036854775808\r\n");
  expect_both([](RespWriter& w) { w.bulk(std::string_view("a\r\n")); }, "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n");
  expect_both([](RespWriter& w) { w.bulk(std::string_view()); }, "$0\r\n\r\n", "$0\r\n\r\n");
  expect_both([](RespWriter& w) { w.verbatim("a"); }, "$1\r\na\r\n", "=5\r\ntxt:a\r\n");
  expect_both([](RespWriter& w) { w.null(); }, "$-1\r\n", "_\r\n");
  expect_both([](RespWriter& w) { w.array(3); }, "*3\r\n", "*3\r\n");
  expect_both([](RespWriter& w) { w.map(3); }, "*6\r\n", "%3\r\n");
  expect_both([](RespWriter& w) { w.set(3); }, "*3\r\n", "~3\r\n");
}

TEST(RespWriter, LargeValuesAreLentAndSmallOnesCopied) {
  const std::string small(kLentBytesMin - 1, 's');
  const std::string large(kLentBytesMin, 'l');
  PinnedBytes pinned;
  ReplyBytes out(pinned);
  RespWriter writer(out, RespVersion::kResp2);
  writer.bulk(ValueView(small, {}));
  writer.bulk(ValueView(large, {}));
  writer.bulk(ValueView(large, {}));
  writer.ok();
  EXPECT_EQ(out.lent().size(), 2U);
  const std::string expected = "$511\r\n" + small + "\r\n$512\r\n" + large + "\r\n$512\r\n" + large + "\r\n+OK\r\n";
  EXPECT_EQ(joined(out), expected);
  EXPECT_EQ(out.size(), expected.size());
  EXPECT_EQ(pinned.count(), 2 * large.size());
  out.clear();
  EXPECT_EQ(pinned.count(), 0U);
}

TEST(RespWriter, ValuesAreCopiedWhenTheConnectionHoldsTooMany) {
  const std::string most(kPinnedBytesMax - 1000, 'm');
  const std::string more(1001, 'n');
  PinnedBytes pinned;
  ReplyBytes out(pinned);
  RespWriter writer(out, RespVersion::kResp2);
  writer.bulk(ValueView(most, {}));
  writer.bulk(ValueView(more, {}));
  EXPECT_EQ(out.lent().size(), 1U);
  EXPECT_EQ(pinned.count(), most.size());
  writer.bulk(ValueView(std::string_view(more).substr(1), {}));
  EXPECT_EQ(pinned.count(), kPinnedBytesMax);
}

TEST(RespWriter, OneValueOfAnySizeIsLentIfThereIsNoOther) {
  const std::string large(10 * kPinnedBytesMax, 'l');
  const std::string small(kLentBytesMin, 's');
  PinnedBytes pinned;
  ReplyBytes out(pinned);
  RespWriter writer(out, RespVersion::kResp2);
  writer.bulk(ValueView(large, {}));
  writer.bulk(ValueView(small, {}));
  EXPECT_EQ(pinned.count(), large.size());
  EXPECT_TRUE(pinned.is_beyond_limit());
}

}  // namespace
}  // namespace skua::kv::gateway
