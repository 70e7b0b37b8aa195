#include "kvstore/replication/append_builder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/kvstore/replication/message_codec_testing.h"

namespace skua::kv {
namespace {

using testing::joined;
using testing::plain_append;
using testing::random_append;
using testing::RandomAppend;
using testing::recode_frame;

constexpr ReplicaEnvelope kEnvelope = {.table = 1, .shard = 2, .from = 3, .incarnation = 4};

/// Adds all entries, in as many Appends as that takes; what came out, joined.
std::vector<std::string> build(const RandomAppend& append, AppendBuffers& buffers, size_t* released) {
  std::vector<std::string> messages;
  AppendBuilder builder(buffers);
  const auto release = [](void* count) { ++*static_cast<size_t*>(count); };
  for (size_t i = 0; i < append.entries.size();) {
    builder.begin(kEnvelope, append.header, rpc::MessagePtr::make());
    const size_t first = i;
    while (i < append.entries.size() && builder.add(append.entries[i], release, released)) ++i;
    EXPECT_EQ(builder.count(), i - first);
    EXPECT_GT(i, first);
    const rpc::MessagePtr message = builder.finish();
    messages.push_back(joined(*message));
    EXPECT_EQ(messages.back(), plain_append(kEnvelope, append.header,
                                            {append.entries.begin() + static_cast<ptrdiff_t>(first),
                                             append.entries.begin() + static_cast<ptrdiff_t>(i)}));
    EXPECT_TRUE(recode_frame(as_byte_span(messages.back())));
  }
  return messages;
}

TEST(AppendBuilderTest, Build_AsItsTwinWhateverTheSizes) {
  Rng rng(5);
  AppendBuffers buffers;
  for (int i = 0; i < 60; ++i) {
    const size_t payload_max = size_t{1} << rng.below(16);
    const RandomAppend append = random_append(rng, rng.between(1, 60), payload_max);
    size_t released = 0;
    static_cast<void>(build(append, buffers, &released));
    ASSERT_EQ(released, append.entries.size());
    ASSERT_EQ(buffers.outstanding_count(), 0U);
  }
}

TEST(AppendBuilderTest, Large_IsNotCopied) {
  AppendBuffers buffers;
  AppendBuilder builder(buffers);
  const std::string payload(kAppendBytesMax, 'x');
  size_t released = 0;
  builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
  ASSERT_TRUE(builder.add(
      {.payload = as_byte_span(payload)}, [](void* count) { ++*static_cast<size_t*>(count); }, &released));
  rpc::MessagePtr message = builder.finish();
  ASSERT_EQ(message->body_count(), 1U);
  EXPECT_EQ(message->body(0).data(), as_byte_span(payload).data());
  EXPECT_EQ(released, 0U);
  EXPECT_EQ(buffers.outstanding_count(), 0U);
  message.reset();
  EXPECT_EQ(released, 1U);
}

TEST(AppendBuilderTest, Small_AreCopiedIntoOneBody) {
  AppendBuffers buffers;
  Rng rng(6);
  const RandomAppend append = random_append(rng, 256, 100);
  size_t released = 0;
  EXPECT_EQ(build(append, buffers, &released).size(), 1U);
  EXPECT_EQ(released, 256U);
}

TEST(AppendBuilderTest, Full_IsSaidAtEachBound) {
  AppendBuffers buffers;
  AppendBuilder builder(buffers);
  const auto filled = [&](size_t payload_bytes) {
    const std::string payload(payload_bytes, 'x');
    builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
    while (builder.add({.payload = as_byte_span(payload)})) {
    }
    const rpc::MessagePtr message = builder.finish();
    return builder.count();
  };
  EXPECT_EQ(filled(0), kAppendEntriesMax);
  EXPECT_EQ(filled(kAppendCopyBytesMax), kAppendCopiedBytesMax / (kAppendCopyBytesMax + kAppendEntryHeadBytes));
  EXPECT_EQ(filled(kAppendCopyBytesMax + 1), 2U);  // each needs a body for its head and one for itself
  EXPECT_EQ(filled(kAppendBytesMax / 2 + 1), 1U);
  EXPECT_EQ(filled(kAppendBytesMax + 1), 1U);  // alone it goes
}

/// Peers with little message memory do not take more at once.
TEST(AppendBuilderTest, SeveralEntries_KeepTheLimitThatWasGiven) {
  AppendBuffers buffers;
  constexpr size_t kBytesMax = size_t{1} << 20;
  AppendBuilder builder(buffers, kBytesMax);
  const auto filled = [&](size_t payload_bytes) {
    const std::string payload(payload_bytes, 'x');
    builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
    while (builder.add({.payload = as_byte_span(payload)})) {
    }
    const rpc::MessagePtr message = builder.finish();
    EXPECT_TRUE(message->size() <= kBytesMax || builder.count() == 1);
    return builder.count();
  };
  EXPECT_EQ(filled(kBytesMax / 2 - 200), 2U);
  EXPECT_EQ(filled(kBytesMax / 2), 1U);
  EXPECT_EQ(filled(kBytesMax), 1U) << "alone it goes";
}

TEST(AppendBuilderTest, Unfinished_LetsGo) {
  AppendBuffers buffers;
  const std::string payload(kAppendCopyBytesMax + 1, 'x');
  size_t released = 0;
  {
    AppendBuilder builder(buffers);
    builder.begin(kEnvelope, {}, rpc::MessagePtr::make());
    ASSERT_TRUE(builder.add(
        {.payload = as_byte_span(payload)}, [](void* count) { ++*static_cast<size_t*>(count); }, &released));
  }
  EXPECT_EQ(released, 1U);
}

}  // namespace
}  // namespace skua::kv
