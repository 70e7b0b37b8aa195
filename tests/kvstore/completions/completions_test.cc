#include "kvstore/completions/completions.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kvstore/codec/size_limits.h"
#include "kvstore/completions/completion_limits.h"
#include "kvstore/storage/completion_rows.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/batch_results.h"

namespace skua::kv {
namespace {

using Verdict = CompletionTable::Verdict;

Completion completion(uint64_t client_id, uint64_t seq, uint64_t first_incomplete, int64_t value = 0) {
  return {{client_id, seq, first_incomplete}, value, {}};
}

TEST(Completions, Find_GivesTheFirstAnswerUntilItIsTold) {
  CompletionTable table;
  EXPECT_EQ(table.begin({1, 5, 5}, 10), Verdict::kNew);
  EXPECT_EQ(table.find({1, 5, 5}, 10), nullptr) << "it is under way";
  table.record(completion(1, 5, 5, -3), 70, 10);
  table.finish({1, 5, 5});
  const CompletionTable::Result* kept = table.find({1, 5, 5}, 11);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->version, 70u);
  EXPECT_EQ(kept->value, -3);
  EXPECT_EQ(table.find({2, 5, 5}, 11), nullptr);
  EXPECT_EQ(table.begin({1, 7, 6}, 11), Verdict::kNew);
  EXPECT_EQ(table.find({1, 5, 5}, 11), nullptr) << "told";
  EXPECT_EQ(table.begin({1, 5, 5}, 11), Verdict::kStale);
  EXPECT_EQ(table.counts().results, 0u);
}

TEST(Completions, Refuse_IsFoundAndInNoRow) {
  CompletionTable table;
  ASSERT_EQ(table.begin({1, 5, 5}, 10), Verdict::kNew);
  table.refuse({1, 5, 5}, {.seq = 5, .version = 3, .has_effect = false, .status = KvStatus::kVersionMismatch}, 20);
  table.finish({1, 5, 5});
  const CompletionTable::Result* kept = table.find({1, 5, 5}, 20 + kClientSilentMsMax);
  ASSERT_NE(kept, nullptr) << "silent from the refusal on";
  EXPECT_EQ(kept->status, KvStatus::kVersionMismatch);
  EXPECT_EQ(kept->version, 3u);
  table.record(completion(1, 6, 5), 8, 20);
  std::string row;
  ASSERT_TRUE(table.encode_row(1, row));
  CompletionTable loaded;
  ASSERT_TRUE(loaded.load(1, as_byte_span(row), 1));
  EXPECT_EQ(loaded.find({1, 5, 5}, 20), nullptr);
  EXPECT_NE(loaded.find({1, 6, 5}, 20), nullptr);
  EXPECT_EQ(loaded.counts().results, 1u);
  EXPECT_EQ(table.begin({1, 7, 6}, 20), Verdict::kNew);
  EXPECT_EQ(table.find({1, 5, 5}, 20), nullptr) << "told";
  EXPECT_EQ(table.counts().results, 1u);
}

TEST(Completions, ForgetRefusals_KeepsWhatTookEffect) {
  CompletionTable table;
  for (uint64_t seq = 1; seq <= 6; ++seq) {
    if (seq % 2 == 0) table.record(completion(1, seq, 1), 10 + seq, 10);
    if (seq % 2 != 0) table.refuse({1, seq, 1}, {.seq = seq, .has_effect = false, .status = KvStatus::kNotFound}, 10);
  }
  table.record(completion(1, 3, 1), 20, 10);
  EXPECT_EQ(table.counts().results, 6u);
  EXPECT_EQ(table.find({1, 3, 1}, 10)->version, 20u) << "what was executed was not refused";
  table.forget_refusals();
  EXPECT_EQ(table.counts().results, 4u);
  for (uint64_t seq = 1; seq <= 6; ++seq) {
    EXPECT_EQ(table.find({1, seq, 1}, 10) != nullptr, seq % 2 == 0 || seq == 3) << seq;
  }
}

TEST(Completions, Begin_BoundsWhatAClientMayLeaveIncomplete) {
  CompletionTable table;
  for (uint64_t seq = 1; seq <= kIncompleteMax; ++seq) {
    ASSERT_EQ(table.begin({1, seq, 1}, 0), Verdict::kNew);
    if (seq % 2 == 0) table.record(completion(1, seq, 1), seq, 0);
    if (seq % 2 == 0) table.finish({1, seq, 1});
  }
  EXPECT_EQ(table.begin({1, kIncompleteMax + 1, 1}, 0), Verdict::kIncomplete);
  EXPECT_EQ(table.begin({2, 1, 1}, 0), Verdict::kNew) << "others are not concerned";
  EXPECT_EQ(table.begin({1, kIncompleteMax + 1, 3}, 0), Verdict::kNew) << "one result less";
}

TEST(Completions, Begin_BoundsTheClients) {
  CompletionTable table;
  for (uint64_t client = 1; client <= kCompletionClientsMax; ++client)
    table.record(completion(client, 1, 1), client, 5);
  EXPECT_EQ(table.begin({kCompletionClientsMax + 1, 1, 1}, 5), Verdict::kFull);
  EXPECT_EQ(table.begin({7, 2, 1}, 5), Verdict::kNew);
  EXPECT_EQ(table.begin({kCompletionClientsMax + 1, 1, 1}, 6 + kClientSilentMsMax), Verdict::kNew);
  EXPECT_EQ(table.clients(), 2u) << "the silent ones are forgotten, but not one with an attempt under way";
}

TEST(Completions, Record_OfAClientThatWasSilentBeginsAnew) {
  CompletionTable table;
  table.record(completion(1, 9, 9), 1, 1000);
  EXPECT_NE(table.find({1, 9, 9}, 1000 + kClientSilentMsMax), nullptr);
  EXPECT_EQ(table.find({1, 9, 9}, 1001 + kClientSilentMsMax), nullptr);
  table.record(completion(1, 3, 3), 2, 1001 + kClientSilentMsMax);
  EXPECT_NE(table.find({1, 3, 3}, 1001 + kClientSilentMsMax), nullptr);
  EXPECT_EQ(table.find({1, 9, 9}, 1001 + kClientSilentMsMax), nullptr);
}

TEST(Completions, Row_IsTheDocumentedLayout) {
  CompletionTable table;
  table.record(completion(1, 5, 4, -1), 7, 0x1122);
  std::string row;
  ASSERT_TRUE(table.encode_row(1, row));
  EXPECT_EQ(row, std::string("\x22\x11\0\0\0\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
                             "\5\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
                             56));
  EXPECT_FALSE(table.encode_row(2, row));
  EXPECT_EQ(completion_key(0x0102), std::string(kKeyBytesMax, '\0') + std::string("\0\0\0\0\0\0\1\2", 8));
}

TEST(Completions, Load_RefusesWhatIsNoRow) {
  CompletionTable table;
  table.record(completion(1, 5, 4, -1), 7, 1);
  table.record(completion(1, 6, 4, -1), 8, 1);
  std::string row;
  ASSERT_TRUE(table.encode_row(1, row));
  for (size_t size = 0; size < row.size(); ++size) {
    CompletionTable other;
    EXPECT_FALSE(other.load(1, as_byte_span(row).first(size), 8));
    EXPECT_EQ(other.clients(), 0u);
  }
  CompletionTable other;
  EXPECT_TRUE(other.load(1, as_byte_span(row), 8));
  EXPECT_FALSE(other.load(1, as_byte_span(row), 8)) << "a second row of one client";
  EXPECT_FALSE(other.load(2, as_byte_span(row + "x"), 8));
}

/// The dumb twin: everything that was ever recorded.
struct Twin {
  struct Client {
    std::map<uint64_t, uint64_t> version_of;
    uint64_t first_incomplete = 0;
    uint64_t last_ms = 0;
  };
  std::map<uint64_t, Client> clients;

  Client* find(uint64_t id, uint64_t now_ms) {
    const auto it = clients.find(id);
    if (it != clients.end() && now_ms > it->second.last_ms + kClientSilentMsMax) clients.erase(it);
    const auto found = clients.find(id);
    return found == clients.end() ? nullptr : &found->second;
  }
  void record(const RequestId& id, uint64_t index, uint64_t now_ms) {
    find(id.client_id, now_ms);
    Client& client = clients[id.client_id];
    client.first_incomplete = std::max(client.first_incomplete, id.first_incomplete);
    client.last_ms = now_ms;
    client.version_of.try_emplace(id.seq, index);
  }
  uint64_t version(const RequestId& id, uint64_t now_ms) {
    const Client* client = find(id.client_id, now_ms);
    if (client == nullptr || id.seq < client->first_incomplete) return 0;
    const auto it = client->version_of.find(id.seq);
    return it == client->version_of.end() ? 0 : it->second;
  }
};

/// A worker's table, the rows that its records leave in a database, and what is loaded from there: all say the same.
TEST(Completions, Any_TableRowsAndTwinAgree) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    CompletionTable table;
    CompletionRows rows;
    std::map<std::string, InternalRow> database;
    Twin twin;
    std::map<uint64_t, uint64_t> next_seq;
    uint64_t now_ms = 1;
    std::vector<AppliedEffect> effects;
    for (uint64_t index = 1; index <= 1500; ++index) {
      now_ms += rng.chance(0.01) ? rng.below(2 * kClientSilentMsMax) : rng.below(100);
      const uint64_t client_id = rng.between(1, 5);
      const uint64_t newest = next_seq[client_id] += rng.below(3);
      const RequestId id = {client_id, newest + 1 - rng.below(std::min<uint64_t>(newest + 1, 6)), newest - newest % 20};
      if (id.seq == 0 || id.first_incomplete > id.seq) continue;
      const CompletionTable::Result* kept = table.find(id, now_ms);
      ASSERT_EQ(kept == nullptr ? 0 : kept->version, twin.version(id, now_ms)) << "seed " << seed << " index " << index;
      if (kept != nullptr) continue;
      const Verdict verdict = table.begin(id, now_ms);
      if (verdict == Verdict::kStale) continue;
      ASSERT_EQ(verdict, Verdict::kNew);
      if (rng.chance(0.9)) {
        std::string results;
        for (uint64_t n = rng.chance(0.2) ? rng.below(4) : 0; n > 0; --n) append_batch_result({}, results);
        const Completion done = {id, static_cast<int64_t>(index), as_byte_span(results)};
        table.record(done, index, now_ms);
        rows.record(done, index, now_ms);
        twin.record(id, index, now_ms);
      }
      table.finish(id);
      if (!rng.chance(0.1)) continue;
      effects.clear();
      rows.collect(index, effects);
      for (const AppliedEffect& effect : effects) {
        const std::string key(effect.key);
        if (effect.value) database[key] = {key, std::string(as_string_view(*effect.value)), effect.version};
        if (!effect.value) database.erase(key);
      }
      std::vector<InternalRow> loaded;
      for (const auto& [key, row] : database) loaded.push_back(row);
      CompletionTable again;
      ASSERT_TRUE(load_completions(loaded, again).ok());
      for (uint64_t client = 1; client <= 5; ++client) {
        for (uint64_t seq = 1; seq <= next_seq[client] + 1; ++seq) {
          const CompletionTable::Result* is = again.find({client, seq, 0}, now_ms);
          ASSERT_EQ(is == nullptr ? 0 : is->version, twin.version({client, seq, 0}, now_ms)) << client << " " << seq;
        }
      }
    }
  }
}

}  // namespace
}  // namespace skua::kv
