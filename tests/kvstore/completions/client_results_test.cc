#include "kvstore/completions/client_results.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "kvstore/codec/effect.h"
#include "kvstore/completions/completion_limits.h"
#include "rpc/base/bytes.h"
#include "tests/kvstore/codec/batch_results.h"

namespace skua::kv {
namespace {

CompletionResult executed(uint64_t seq, uint64_t version = 7) {
  return {.seq = seq, .version = version};
}
CompletionResult refused(uint64_t seq) {
  return {.seq = seq, .has_effect = false, .status = KvStatus::kNotFound};
}

TEST(ClientResultsTest, Keep_InOrderWhateverTheOrderOfArrival) {
  CompletionCounts all;
  ClientResults results(all);
  for (const uint64_t seq : {5U, 3U, 9U, 4U}) results.keep(executed(seq));
  results.keep(refused(10));
  EXPECT_EQ(results.size(), 5U);
  EXPECT_EQ(results.first_seq(), 3U);
  EXPECT_EQ(results.last_seq(true), 9U);
  EXPECT_EQ(results.last_seq(false), 10U);
  EXPECT_EQ(results.find(6), nullptr);
  EXPECT_EQ(results.find(4)->seq, 4U);
  EXPECT_EQ(all.bytes, 4 * kCompletionResultBytes);
  EXPECT_EQ(all.refused_bytes, kCompletionResultBytes);
}

TEST(ClientResultsTest, Keep_AnEffectReplacesARefusalAndNotTheOtherWayRound) {
  CompletionCounts all;
  ClientResults results(all);
  results.keep(refused(1));
  results.keep(executed(1, 11));
  results.keep(executed(1, 12));
  results.keep(refused(1));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results.find(1)->has_effect);
  EXPECT_EQ(results.find(1)->version, 11U);
  EXPECT_EQ(all.results, 1U);
  EXPECT_EQ(all.bytes, kCompletionResultBytes);
  EXPECT_EQ(all.refused_bytes, 0U);
}

TEST(ClientResultsTest, Drop_GivesBackCountsAndMemory) {
  CompletionCounts all;
  ClientResults results(all);
  for (uint64_t seq = 1; seq <= 1000; ++seq) results.keep(seq % 2 == 0 ? executed(seq) : refused(seq));
  results.drop_below(901);
  EXPECT_EQ(results.first_seq(), 901U);
  EXPECT_EQ(all.results, 100U);
  EXPECT_LE(results.places(), 400U);
  results.drop_refused();
  EXPECT_EQ(results.find(901), nullptr);
  EXPECT_NE(results.find(902), nullptr);
  EXPECT_EQ(all.results, 50U);
  EXPECT_EQ(all.refused_bytes, 0U);
  results.drop_below(UINT64_MAX);
  EXPECT_EQ(results.size(), 0U);
  EXPECT_LE(results.places(), 16U);
}

TEST(ClientResultsTest, Counts_AreOfAllClientsUntilTheirEnd) {
  CompletionCounts all;
  ClientResults stays(all);
  stays.keep(executed(1));
  {
    ClientResults goes(all);
    goes.keep(executed(1));
    goes.keep(refused(2));
    EXPECT_EQ(all.results, 3U);
  }
  EXPECT_EQ(all.results, 1U);
  EXPECT_EQ(all.bytes, stays.counts().bytes);
  EXPECT_EQ(all.refused_bytes, 0U);
}

TEST(ClientResultsTest, Row_HasWhatHadAnEffect) {
  CompletionCounts all;
  ClientResults results(all);
  std::string batch_results;
  append_batch_result({}, batch_results);
  results.keep({.seq = 3, .version = 30, .value = -1, .batch_results = batch_results});
  results.keep(refused(4));
  results.keep(executed(5, 50));
  std::string row;
  results.encode(row);
  CompletionCounts of_loaded;
  ClientResults loaded(of_loaded);
  ByteReader reader(as_byte_span(row));
  ASSERT_TRUE(loaded.load(reader, 3, 5));
  EXPECT_EQ(loaded.size(), 2U);
  EXPECT_EQ(loaded.find(3)->value, -1);
  EXPECT_EQ(loaded.find(3)->batch_results, batch_results);
  EXPECT_EQ(loaded.find(5)->version, 50U);
  EXPECT_EQ(of_loaded.bytes, all.bytes);
}

TEST(ClientResultsTest, Load_RefusesWhatNoEncodeWrote) {
  CompletionCounts all;
  ClientResults results(all);
  results.keep(executed(3));
  results.keep(executed(5));
  std::string row;
  results.encode(row);
  const auto loads = [](const std::string& bytes, uint64_t seq_min, uint64_t seq_max) {
    CompletionCounts counts;
    bool loaded = false;
    {
      ClientResults into(counts);
      ByteReader reader(as_byte_span(bytes));
      loaded = into.load(reader, seq_min, seq_max);
    }
    EXPECT_EQ(counts.results, 0U);
    EXPECT_EQ(counts.bytes, 0U);
    return loaded;
  };
  ASSERT_TRUE(loads(row, 3, 5));
  EXPECT_FALSE(loads(row, 4, 5));
  EXPECT_FALSE(loads(row, 3, 4));
  EXPECT_FALSE(loads(row + "x", 3, 5));
  for (size_t bytes = 0; bytes < row.size(); ++bytes) EXPECT_FALSE(loads(row.substr(0, bytes), 3, 5)) << bytes;
  std::string unordered = row.substr(0, 8) + row.substr(8 + 32) + row.substr(8, 32);
  EXPECT_FALSE(loads(unordered, 3, 5));
  std::string too_many = row;
  too_many[8 + 24 + 2] = 1;  // 65,536 results of a batch
  EXPECT_FALSE(loads(too_many, 3, 5));
}

}  // namespace
}  // namespace skua::kv
