// Bytes of a shard's completion records: each result counts, and there is a bound for a client and for all.
#include <gtest/gtest.h>

#include <string>

#include "kvstore/codec/size_limits.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/completions/completions.h"
#include "tests/kvstore/codec/batch_results.h"
#include "tests/kvstore/completions/completion_testing.h"

namespace skua::kv {
namespace {

using Verdict = CompletionTable::Verdict;

TEST(CompletionBytes, ABatchClientFillsItsOwnShareOnly) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  const size_t ops = ops_of(kFewRecords.client_bytes_max / 4);
  for (uint64_t seq = 1; seq <= 4; ++seq) ASSERT_TRUE(write(table, {7, seq, 1}, seq, 1, ops));
  EXPECT_EQ(table.begin({7, 5, 1}, 1, ops * kBatchResultBytes), Verdict::kIncomplete);
  EXPECT_EQ(table.begin({7, 6, 1}, 1), Verdict::kIncomplete) << "no batch, but it takes room, too";
  EXPECT_TRUE(write(table, {8, 1, 1}, 7, 1, ops)) << "others are not concerned";
  EXPECT_TRUE(write(table, {7, 7, 2}, 8, 1, ops)) << "it was told of one";
  // What is under way counts, too.
  EXPECT_EQ(table.begin({9, 1, 1}, 1, 1200), Verdict::kNew);
  EXPECT_EQ(table.begin({9, 2, 1}, 1), Verdict::kIncomplete);
  table.finish({9, 1, 1}, 1200);
  EXPECT_EQ(table.begin({9, 2, 1}, 1), Verdict::kNew);
}

TEST(CompletionBytes, BatchResultsGoOldestFirstAndAreStaleThen) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  constexpr size_t kBytes = 1344;  // so that a client has room for one small result beside it
  const size_t ops = ops_of(kBytes);
  const size_t holders = kFewRecords.bytes_max / kBytes;
  uint64_t index = 0;
  for (uint64_t client = 1; client <= holders; ++client) ASSERT_TRUE(write(table, {client, 1, 1}, ++index, 1, ops));
  ASSERT_TRUE(write(table, {1, 2, 1}, ++index, 1)) << "so the second is the oldest";
  ASSERT_TRUE(write(table, {100, 1, 1}, ++index, 1, ops));
  EXPECT_LE(table.counts().bytes, kFewRecords.bytes_max);
  EXPECT_NE(table.find({1, 1, 1}, 1), nullptr);
  EXPECT_EQ(table.find({2, 1, 1}, 1), nullptr);
  EXPECT_EQ(table.begin({2, 1, 1}, 1, ops * kBatchResultBytes), Verdict::kStale);
  EXPECT_EQ(table.first_taken(2, 1), 2u);
  EXPECT_TRUE(write(table, {2, 2, 1}, ++index, 1, ops)) << "the client itself is known";
  EXPECT_EQ(table.clients(), holders + 1);
}

TEST(CompletionBytes, ResultsOfSingleWritesCountLikewise) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  const uint64_t each = kFewRecords.client_bytes_max / kCompletionResultBytes;
  const uint64_t holders = kFewRecords.bytes_max / (each * kCompletionResultBytes);
  uint64_t index = 0;
  for (uint64_t client = 1; client <= holders; ++client) {
    for (uint64_t seq = 1; seq <= each; ++seq) ASSERT_TRUE(write(table, {client, seq, 1}, ++index, 1));
    EXPECT_EQ(table.begin({client, each + 1, 1}, 1), Verdict::kIncomplete) << "its own share is full";
  }
  for (uint64_t seq = 1; seq <= each; ++seq) ASSERT_TRUE(write(table, {100, seq, 1}, ++index, 1));
  EXPECT_LE(table.counts().bytes, kFewRecords.bytes_max);
  EXPECT_EQ(table.find({1, each, 1}, 1), nullptr) << "the oldest";
  EXPECT_EQ(table.begin({1, each, 1}, 1), Verdict::kStale);
  EXPECT_NE(table.find({2, each, 1}, 1), nullptr);
  EXPECT_TRUE(write(table, {1, each + 1, 1}, ++index, 1)) << "the client itself is known";
}

TEST(CompletionBytes, ClientsThatKeepAllTheyMayDoNotFillMemory) {
  CompletionTable table;
  uint64_t index = 0;
  for (uint64_t client = 1; client <= 100; ++client) {
    for (uint64_t seq = 1; seq <= kIncompleteMax; ++seq) table.record({{client, seq, 1}, 0, {}}, ++index, 1);
  }
  EXPECT_LE(table.counts().bytes, kCompletionBytesMax);
  EXPECT_EQ(table.counts().bytes, table.counts().results * kCompletionResultBytes);
  EXPECT_LE(table.places(), 4 * table.counts().results + 100 * 16);
  for (uint64_t client = 1; client <= 100; ++client) {
    constexpr uint64_t kNext = kIncompleteMax + 1;
    table.record({{client, kNext, kNext}, 0, {}}, ++index, 1);
  }
  EXPECT_EQ(table.counts().results, 100u);
  EXPECT_LE(table.places(), 100u * 16) << "the room of results that were told is given back";
}

TEST(CompletionBytes, RefusalsPushOutOlderRefusalsAndNoRecords) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  ASSERT_TRUE(write(table, {1, 1, 1}, 1, 1));
  ASSERT_TRUE(refuse(table, {1, 2, 1}, 1));
  ASSERT_TRUE(write(table, {1, 3, 1}, 2, 1));
  ASSERT_TRUE(write(table, {2, 1, 1}, 3, 1));
  const uint64_t kept = kFewRecords.refused_bytes_max / kCompletionResultBytes;
  for (uint64_t client = 100; client < 100 + kept; ++client) ASSERT_TRUE(refuse(table, {client, 1, 1}, 1));
  EXPECT_LE(table.counts().refused_bytes, kFewRecords.refused_bytes_max);
  EXPECT_EQ(table.find({1, 2, 1}, 1), nullptr) << "the oldest refusal";
  EXPECT_EQ(table.begin({1, 2, 1}, 1), Verdict::kStale) << "an earlier attempt that comes late is not executed";
  EXPECT_NE(table.find({1, 3, 1}, 1), nullptr) << "what came after it stays";
  EXPECT_NE(table.find({2, 1, 1}, 1), nullptr);
  EXPECT_NE(table.find({100, 1, 1}, 1), nullptr);
  // A client that is refused often has its own bound before that.
  const uint64_t each = kFewRecords.client_bytes_max / kCompletionResultBytes;
  for (uint64_t seq = 1; seq <= each; ++seq) ASSERT_TRUE(refuse(table, {200, seq, 1}, 1));
  EXPECT_EQ(table.begin({200, each + 1, 1}, 1), Verdict::kIncomplete);
  EXPECT_EQ(table.find({100, 1, 1}, 1), nullptr);
  table.forget_refusals();
  EXPECT_EQ(table.counts().refused_bytes, 0u);
  EXPECT_EQ(table.counts().bytes, table.counts().results * kCompletionResultBytes);
  EXPECT_EQ(table.begin({200, each + 1, 1}, 1), Verdict::kNew);
}

TEST(CompletionBytes, ALogThatKeepsTooMuchOfOneClientLosesItsOldest) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  std::string results;
  for (size_t i = 0; i < 10; ++i) append_batch_result({}, results);
  for (uint64_t seq = 1; seq <= 4; ++seq) table.record({{7, seq, 1}, 0, as_byte_span(results)}, seq, 1);
  EXPECT_EQ(table.find({7, 1, 1}, 1), nullptr);
  EXPECT_NE(table.find({7, 2, 1}, 1), nullptr);
  CompletionTable wide;
  for (uint64_t seq = 10; seq < 10 + 3 * kIncompleteMax; ++seq) wide.record({{8, seq, 1}, 0, {}}, seq, 1);
  EXPECT_EQ(wide.counts().results, 2 * kIncompleteMax);
  for (uint64_t client = 100; client < 100 + 5 * kFewRecords.clients_max; ++client) {
    table.record({{client, 1, 1}, 0, {}}, 1'000'000 + client, 1);
  }
  EXPECT_LE(table.clients(), 2 * kFewRecords.clients_max);
  EXPECT_EQ(table.begin({100, 1, 1}, 1), Verdict::kStale) << "and it is right all the same";
}

}  // namespace
}  // namespace skua::kv
