// Clients that want more of a shard's completion records than there is room for.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kvstore/completions/completion_limits.h"
#include "kvstore/completions/completions.h"
#include "tests/kvstore/codec/batch_results.h"
#include "tests/kvstore/completions/completion_testing.h"

namespace skua::kv {
namespace {

using Verdict = CompletionTable::Verdict;

constexpr uint64_t kIdle = kCompletionIdleMsMin;

TEST(CompletionRoom, AFloodOfNewClientsKeepsOnlyNewOnesOut) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  uint64_t index = 0;
  for (uint64_t client = 1; client <= 10; ++client) {
    ASSERT_TRUE(write(table, {client, 1, 1}, ++index, 1));
    ASSERT_TRUE(write(table, {client, 2, 2}, ++index, 1));
  }
  size_t taken = 0;
  for (uint64_t client = 1000; client < 2000; ++client) {
    taken += write(table, {client, 1, 1}, ++index, 2 * kIdle) ? 1 : 0;
  }
  EXPECT_EQ(taken, kFewRecords.newcomers_max) << "the others may try again";
  EXPECT_EQ(table.begin({2000, 1, 1}, 2 * kIdle), Verdict::kFull);
  for (uint64_t client = 1; client <= 10; ++client) {
    EXPECT_NE(table.find({client, 2, 2}, 2 * kIdle), nullptr) << "idle for longer than all of the flood";
    EXPECT_TRUE(write(table, {client, 3, 3}, ++index, 2 * kIdle));
  }
  // And not for an hour: the flood's own are let go.
  const uint64_t first_taken = 1 + kCompletionSeqMargin;
  EXPECT_TRUE(write(table, {2000, first_taken, first_taken}, ++index, 3 * kIdle));
  EXPECT_EQ(table.clients(), 10 + kFewRecords.newcomers_max);
}

TEST(CompletionRoom, ARepetitionOfAForgottenClientIsNeverNew) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  ASSERT_TRUE(write(table, {7, 5, 4}, 1, 1));
  for (uint64_t client = 1000; client < 1000 + kFewRecords.newcomers_max; ++client) {
    ASSERT_TRUE(write(table, {client, 1, 1}, client, 1 + kIdle)) << client;
  }
  EXPECT_EQ(table.find({7, 5, 4}, 1 + kIdle), nullptr) << "forgotten";
  EXPECT_EQ(table.begin({7, 5, 4}, 1 + kIdle), Verdict::kStale);
  EXPECT_EQ(table.begin({8, 1, 1}, 1 + kIdle), Verdict::kStale) << "it might be another that was forgotten";
  const uint64_t first_taken = table.first_taken(8, 1 + kIdle);
  EXPECT_EQ(first_taken, 5 + kCompletionSeqMargin);
  EXPECT_EQ(table.begin({8, first_taken, first_taken}, 1 + kIdle), Verdict::kFull);
  EXPECT_EQ(table.begin({8, first_taken, first_taken}, 1 + 2 * kIdle), Verdict::kNew);
  // It writes again while the old write is still incomplete.
  ASSERT_TRUE(write(table, {7, 6, 5}, 5000, 1 + 2 * kIdle));
  EXPECT_EQ(table.begin({7, 5, 5}, 1 + 2 * kIdle), Verdict::kStale) << "also of a client that came back";
  EXPECT_EQ(table.first_taken(7, 1 + 2 * kIdle), 6u);
  // Nobody repeats after so long.
  EXPECT_EQ(table.begin({9, 1, 1}, 2 + 2 * kIdle + kClientSilentMsMax), Verdict::kNew);
}

TEST(CompletionRoom, NumbersThatLeaveNoRoomAboveStayInTheirShare) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  uint64_t index = 0;
  const uint64_t far = UINT64_MAX - 1;
  size_t taken = 0;
  for (uint64_t client = 1; client <= 20; ++client) taken += write(table, {client, far, far}, ++index, 1) ? 1 : 0;
  EXPECT_EQ(taken, kFewRecords.far_max);
  EXPECT_EQ(table.begin({100, UINT64_MAX, 1}, 1), Verdict::kFull);
  EXPECT_EQ(table.begin({CompletionTable::kFloorClient, 1, 1}, 1), Verdict::kFull);
  for (uint64_t client = 1000; client < 1000 + kFewRecords.newcomers_max; ++client) {
    ASSERT_TRUE(write(table, {client, 1, 1}, ++index, 1));
  }
  EXPECT_EQ(table.begin({1000, far, 1}, 1), Verdict::kFull) << "no way around";
  EXPECT_TRUE(write(table, {2000, 9, 1}, ++index, 1 + kIdle));
  EXPECT_EQ(table.first_taken(2001, 1 + kIdle), 1 + kCompletionSeqMargin) << "the far ones stay";
  EXPECT_NE(table.find({1, far, far}, 1 + kIdle), nullptr);
}

TEST(CompletionRoom, AttemptsWithFarNumbersKeepTheirPlacesForAMoment) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  const uint64_t far = uint64_t{1} << 60;
  const auto attempt = [&](uint64_t client, uint64_t now_ms) {
    const RequestId id{client, far, far};
    if (table.begin(id, now_ms) != Verdict::kNew) return false;
    table.refuse(id, {.seq = far, .has_effect = false, .status = KvStatus::kNotFound}, now_ms);
    table.finish(id);
    return true;
  };
  ASSERT_TRUE(write(table, {1, far, far}, 1, 1));
  size_t taken = 0;
  for (uint64_t client = 100; client < 120; ++client) taken += attempt(client, 1) ? 1 : 0;
  EXPECT_EQ(taken, kFewRecords.far_max - 1);
  EXPECT_EQ(table.begin({2, far, far}, kIdle), Verdict::kFull);
  EXPECT_TRUE(write(table, {2, far, far}, 2, 1 + kIdle)) << "nothing of the others was executed";
  EXPECT_NE(table.find({1, far, far}, 1 + kIdle), nullptr);
}

TEST(CompletionRoom, AnAttemptWithAFarNumberMakesNobodyFarThatWrote) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  const uint64_t far = uint64_t{1} << 60;
  uint64_t index = 0;
  for (uint64_t client = 1; client <= kFewRecords.far_max; ++client) {
    ASSERT_TRUE(write(table, {client, 1, 1}, ++index, 1));
    ASSERT_EQ(table.begin({client, far, 1}, 1), Verdict::kNew);
  }
  ASSERT_TRUE(write(table, {20, 1, 1}, ++index, 1));
  EXPECT_EQ(table.begin({20, far, 1}, 1), Verdict::kFull) << "those at work have all places";
  ASSERT_TRUE(write(table, {1, 2, 1}, ++index, 1)) << "that one stays near";
  for (uint64_t client = 1; client <= kFewRecords.far_max; ++client) table.finish({client, far, 1});
  EXPECT_TRUE(write(table, {20, far, 1}, ++index, 1));
  for (uint64_t client = 1000; table.find({1, 1, 1}, 1 + kIdle) != nullptr; ++client) {
    ASSERT_LT(client, 1000 + 2 * kFewRecords.clients_max) << "it keeps its place";
    ASSERT_TRUE(write(table, {client, 10, 10}, ++index, 1 + kIdle)) << client;
    ASSERT_TRUE(write(table, {client, 11, 10}, ++index, 1 + kIdle)) << client;
  }
  EXPECT_EQ(table.begin({1, 1, 1}, 1 + kIdle), Verdict::kStale);
}

TEST(CompletionRoom, WhatIsLoadedKeepsToTheBounds) {
  CompletionTable wide;
  std::string results;
  for (size_t i = 0; i < 10; ++i) append_batch_result({}, results);
  constexpr uint64_t kClients = 100 * kFewRecords.clients_max;
  for (uint64_t client = 1; client <= kClients; ++client) {
    for (uint64_t seq = 1; seq <= 4; ++seq)
      wide.record({{client, seq, 1}, 0, as_byte_span(results)}, 4 * client + seq, client);
  }
  CompletionTable table;
  table.set_limits(kFewRecords);
  std::string row;
  for (uint64_t client = 1; client <= kClients; ++client) {
    const auto version = wide.encode_row(client, row);
    ASSERT_TRUE(table.load(client, as_byte_span(row), version.value()));
  }
  std::map<uint64_t, size_t> changed;
  table.loaded(kClients - 1, [&](uint64_t client) { ++changed[client]; });
  EXPECT_LE(table.clients(), 2 * kFewRecords.clients_max);
  EXPECT_LE(table.counts().bytes, kFewRecords.bytes_max);
  EXPECT_TRUE(changed.contains(1));
  EXPECT_TRUE(changed.contains(CompletionTable::kFloorClient));
  EXPECT_NE(table.find({kClients, 4, 1}, kClients), nullptr) << "the latest stays";
  // And it is right all the same.
  for (const uint64_t client : {uint64_t{1}, kClients})
    EXPECT_EQ(table.begin({client, 1, 1}, kClients), Verdict::kStale);
}

TEST(CompletionRoom, WhoIsForgottenAtWorkGoesOn) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  ASSERT_TRUE(write(table, {7, 1, 1}, 1, 1));
  for (uint64_t client = 1000; client < 999 + kFewRecords.newcomers_max; ++client) {
    ASSERT_TRUE(write(table, {client, 1, 1}, client, 1));
  }
  const uint64_t later = 1 + kIdle;
  ASSERT_EQ(table.begin({7, 2, 1}, later), Verdict::kNew);
  ASSERT_EQ(table.begin({7, 3, 1}, later), Verdict::kNew);
  table.refuse({7, 3, 1}, {.seq = 3, .has_effect = false, .status = KvStatus::kNotFound}, later);
  table.finish({7, 3, 1});
  EXPECT_TRUE(write(table, {3000, 2, 2}, 3000, later));
  EXPECT_EQ(table.begin({7, 1, 1}, later), Verdict::kStale) << "it was the oldest";
  EXPECT_NE(table.find({7, 3, 1}, later), nullptr) << "it was refused just now";
  table.record({{7, 2, 1}, 0, {}}, 3001, later);
  table.finish({7, 2, 1});
  EXPECT_NE(table.find({7, 2, 1}, later), nullptr);
  EXPECT_EQ(table.begin({7, 1, 1}, later), Verdict::kStale);
}

TEST(CompletionRoom, ClientsThatAreOnlyRefusedTakeNobodysRoom) {
  CompletionTable table;
  table.set_limits(kFewRecords);
  for (uint64_t client = 1; client <= kFewRecords.newcomers_max; ++client)
    ASSERT_TRUE(write(table, {client, 1, 1}, client, 1));
  const uint64_t later = 1 + kIdle;
  size_t taken = 0;
  for (uint64_t client = 1000; client < 1100; ++client) {
    if (table.begin({client, 5, 5}, later) != Verdict::kNew) continue;
    table.refuse({client, 5, 5}, {.seq = 5, .has_effect = false, .status = KvStatus::kNotFound}, later);
    table.finish({client, 5, 5});
    ++taken;
  }
  EXPECT_EQ(taken, kFewRecords.newcomers_max);
  for (uint64_t client = 1; client <= kFewRecords.newcomers_max; ++client) {
    EXPECT_NE(table.find({client, 1, 1}, later), nullptr);
  }
  EXPECT_EQ(table.begin({2000, 1, 1}, later), Verdict::kFull);
  EXPECT_EQ(table.begin({2000, 1, 1}, later + kIdle), Verdict::kNew);
}

TEST(CompletionRoom, Row_KeepsKindAndFloor) {
  CompletionTable table;
  table.record({{1, 5, 5}, 0, {}}, 1, 0x10);
  table.record({{1, 6, 6}, 0, {}}, 2, 0x11);
  std::string row;
  EXPECT_EQ(table.encode_row(1, row), 2u);
  EXPECT_EQ(row.substr(0, 16), std::string("\x11\0\0\0\0\0\0\x80\6\0\0\0\0\0\0\0", 16));
  const uint64_t far = uint64_t{1} << 60;
  table.record({{2, far, far}, 0, {}}, 3, 0x12);
  EXPECT_EQ(table.encode_row(2, row), 3u);
  EXPECT_EQ(row.substr(0, 16), std::string("\x12\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\x10", 16));
  EXPECT_EQ(table.encode_row(CompletionTable::kFloorClient, row), std::nullopt);
  const std::string floor("\7\0\0\0\0\0\0\0\x0b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
  CompletionTable loaded;
  for (size_t size = 0; size < floor.size(); ++size) {
    EXPECT_FALSE(loaded.load(CompletionTable::kFloorClient, as_byte_span(floor).first(size), 9));
  }
  ASSERT_TRUE(loaded.load(CompletionTable::kFloorClient, as_byte_span(floor), 9));
  loaded.loaded();
  EXPECT_EQ(loaded.clients(), 0u);
  EXPECT_EQ(loaded.begin({1, 10, 1}, 8), Verdict::kStale);
  EXPECT_EQ(loaded.begin({1, 11, 1}, 8), Verdict::kNew);
  EXPECT_EQ(loaded.encode_row(CompletionTable::kFloorClient, row), 0u);
  EXPECT_EQ(row, floor);
}

}  // namespace
}  // namespace skua::kv
