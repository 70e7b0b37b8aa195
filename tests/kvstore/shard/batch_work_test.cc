#include "kvstore/shard/batch_work.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/codec/key_hash.h"
#include "kvstore/shard/write_op.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

PinnedValue owned(const std::string& text, uint64_t version) {
  auto* copy = new std::string(text);
  return {as_byte_span(*copy), version, copy, [](void* bytes) { delete static_cast<std::string*>(bytes); }, 0};
}

class BatchWorkTest : public ::testing::Test {
 protected:
  BatchWork::Outcome evaluate(std::vector<Mutation> batch, size_t payload_bytes_max = 1 << 20) {
    batch_ = std::move(batch);
    op_.batch = batch_;
    op_.index = 100;
    if (op_.work == nullptr) op_.work = std::make_unique<BatchWork>();
    op_.work->begin(op_.batch, hasher_);
    return op_.work->evaluate(op_, 0, payload_bytes_max, [this](const HashedKey& key, PinnedValue& /*pin*/) {
      const auto found = before_.find(key.text);
      return found == before_.end() ? CurrentState{} : CurrentState{7, as_byte_span(found->second), 0};
    });
  }
  [[nodiscard]] std::map<std::string, std::string> effects() const {
    std::map<std::string, std::string> out;
    for (const Effect& effect : op_.work->effects()) {
      out[std::string(effect.key)] = effect.value ? std::string(as_string_view(*effect.value)) : "deleted";
    }
    return out;
  }

  std::vector<Mutation> batch_;
  std::map<std::string, std::string, std::less<>> before_;
  const KeyHasher hasher_{5};
  WriteOp op_;
};

TEST_F(BatchWorkTest, ALaterOperationSeesTheEffectOfTheEarlierOne) {
  before_["a"] = "1";
  EXPECT_EQ(evaluate({mutations::append("a", as_byte_span("2")), mutations::append("a", as_byte_span("3")),
                      mutations::put("b", as_byte_span("x")), mutations::remove("b")}),
            BatchWork::Outcome::kApplied);
  EXPECT_EQ(effects(), (std::map<std::string, std::string>{{"a", "123"}, {"b", "deleted"}}));
  op_.work->encode(op_);
  EXPECT_EQ(effects(), (std::map<std::string, std::string>{{"a", "123"}, {"b", "deleted"}}))
      << "the effects are views into the payload now";
  EXPECT_EQ(op_.payload_bytes(), op_.work->record_bytes());
}

TEST_F(BatchWorkTest, ManyOperationsOnFewKeysAreLikeOneAfterTheOther) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    std::deque<std::string> keys;
    std::deque<std::string> values;
    std::vector<Mutation> batch;
    before_ = {{"key0", "old"}, {"key1", "older"}};
    std::map<std::string, std::string> after;  // by key; "deleted"
    const auto state = [&](const std::string& key) -> std::string {
      if (const auto found = after.find(key); found != after.end()) return found->second;
      const auto found = before_.find(key);
      return found == before_.end() ? "deleted" : found->second;
    };
    for (uint64_t n = rng.between(1, 40); n > 0; --n) {
      const std::string& key = keys.emplace_back("key" + std::to_string(rng.below(1 + rng.below(40))));
      const std::string& value = values.emplace_back("v" + std::to_string(rng.next()));
      const bool is_here = state(key) != "deleted";
      switch (rng.below(4)) {
        case 0:
          batch.push_back(mutations::put(key, as_byte_span(value)));
          after[key] = value;
          break;
        case 1:
          batch.push_back(mutations::append(key, as_byte_span(value)));
          after[key] = is_here ? state(key) + value : value;
          break;
        case 2:
          batch.push_back(mutations::remove(key));
          if (is_here) after[key] = "deleted";
          break;
        default:
          if (!is_here) continue;
          batch.push_back(mutations::expire(key, 5));
          after[key] = state(key);
          break;
      }
    }
    if (batch.empty()) continue;
    if (rng.chance(0.5)) op_.id = {1, 2, 2};
    ASSERT_EQ(evaluate(batch), BatchWork::Outcome::kApplied);
    ASSERT_EQ(effects(), after);
    for (const HashedEffect& effect : op_.effects()) ASSERT_EQ(effect.key_hash, hasher_.hash(effect.key));
    op_.work->encode(op_);
    ASSERT_EQ(effects(), after);
    EffectReader reader(op_.work->payload());
    ASSERT_EQ(reader.completion().has_value(), op_.id.client_id != 0);
    if (reader.completion()) {
      ASSERT_EQ(as_string_view(reader.completion()->batch_results), as_string_view(op_.work->results()));
      ASSERT_EQ(op_.work->results().size(), batch.size() * kBatchResultBytes);
    }
    size_t read = 0;
    while (const auto effect = reader.next()) ASSERT_EQ(effect->key, op_.effects()[read++].key);
    ASSERT_TRUE(reader.complete());
    ASSERT_EQ(read, after.size());
    op_.id = {};
  }
}

TEST_F(BatchWorkTest, OneRefusedOperationRefusesAll) {
  before_["a"] = "1";
  EXPECT_EQ(evaluate({mutations::put("b", as_byte_span("x")), mutations::put("a", {}, Condition::if_absent())}),
            BatchWork::Outcome::kNotApplied);
  EXPECT_EQ(op_.results[0].version, 0u);
  EXPECT_EQ(op_.results[1].status, KvStatus::kAlreadyExists);
  EXPECT_EQ(op_.results[1].version, 7u);
}

TEST_F(BatchWorkTest, ARemovalOfAMissingKeyRefusesAllOnlyIfItWantsTheKey) {
  EXPECT_EQ(evaluate({mutations::remove("lock"), mutations::put("b", as_byte_span("x"))}),
            BatchWork::Outcome::kApplied);
  EXPECT_EQ(evaluate({mutations::remove("lock", Condition::if_present()), mutations::put("b", as_byte_span("x"))}),
            BatchWork::Outcome::kNotApplied);
  EXPECT_EQ(op_.results[0].status, KvStatus::kNotFound);
}

TEST_F(BatchWorkTest, AChecksVersionLetsTheBatchIn) {
  before_["a"] = "1";
  EXPECT_EQ(evaluate({mutations::check("a", 7), mutations::check("none", 0), mutations::put("b", as_byte_span("x"))}),
            BatchWork::Outcome::kApplied);
  EXPECT_EQ(effects(), (std::map<std::string, std::string>{{"b", "x"}}));
  EXPECT_EQ(op_.results[0], (MutationResult{KvStatus::kOk, 7}));
  EXPECT_EQ(op_.results[1], (MutationResult{KvStatus::kOk, 0}));
  EXPECT_EQ(op_.results[2], (MutationResult{KvStatus::kOk, 100}));
  op_.work->encode(op_);
  EXPECT_EQ(op_.payload_bytes(), op_.work->record_bytes());
}

TEST_F(BatchWorkTest, AChecksVersionKeepsTheBatchOut) {
  before_["a"] = "1";
  EXPECT_EQ(evaluate({mutations::put("b", as_byte_span("x")), mutations::check("a", 6)}),
            BatchWork::Outcome::kNotApplied);
  EXPECT_EQ(op_.results[0], (MutationResult{KvStatus::kOk, 0}));
  EXPECT_EQ(op_.results[1], (MutationResult{KvStatus::kVersionMismatch, 7}));
  EXPECT_EQ(evaluate({mutations::check("a", 0)}), BatchWork::Outcome::kNotApplied);
  EXPECT_EQ(evaluate({mutations::check("none", 7)}), BatchWork::Outcome::kNotApplied);
  EXPECT_EQ(op_.results[0], (MutationResult{KvStatus::kVersionMismatch, 0}));
  EXPECT_EQ(evaluate({mutations::put("a", {}), mutations::check("a", 7)}), BatchWork::Outcome::kNotApplied)
      << "it sees the writes before it";
}

TEST_F(BatchWorkTest, ATooLargeRecordIsNeverBuilt) {
  before_["a"] = std::string(1000, 'a');
  std::vector<Mutation> batch(4, mutations::append("a", as_byte_span("more")));
  EXPECT_EQ(evaluate(batch, 1008), BatchWork::Outcome::kTooLarge);
  EXPECT_GT(op_.work->record_bytes(), 1008u);
}

TEST_F(BatchWorkTest, OperationsOnOneKeyMayNotMakeAnyAmountOfValues) {
  before_["a"] = std::string(1000, 'a');
  EXPECT_EQ(evaluate(std::vector<Mutation>(8, mutations::append("a", {})), 1100), BatchWork::Outcome::kApplied);
  EXPECT_EQ(evaluate(std::vector<Mutation>(9, mutations::append("a", {})), 1100), BatchWork::Outcome::kTooMuch);
  EXPECT_EQ(evaluate({mutations::append("a", {})}, 1100), BatchWork::Outcome::kApplied) << "each batch counts its own";
}

TEST_F(BatchWorkTest, AReleasedBatchHasNothing) {
  before_["a"] = std::string(1000, 'a');
  ASSERT_EQ(evaluate({mutations::append("a", {}), mutations::put("b", {})}), BatchWork::Outcome::kApplied);
  op_.work->encode(op_);
  ASSERT_GT(op_.payload_bytes(), 1000u);
  op_.work->release(0);
  EXPECT_TRUE(op_.work->effects().empty());
  EXPECT_TRUE(op_.work->payload().empty());
  EXPECT_TRUE(op_.work->results().empty());
  ASSERT_EQ(evaluate({mutations::put("b", as_byte_span("x"))}), BatchWork::Outcome::kApplied);
  op_.work->encode(op_);
  EXPECT_EQ(effects(), (std::map<std::string, std::string>{{"b", "x"}}));
}

TEST_F(BatchWorkTest, Needed_OnlyKeysWhoseFirstOperationLooksAtTheOldState) {
  const std::vector<Mutation> batch = {mutations::put("new", as_byte_span("x")),
                                       mutations::append("new", {}),
                                       mutations::append("value", {}),
                                       mutations::remove("version"),
                                       mutations::check("checked", 3),
                                       mutations::check("both", 4),
                                       mutations::append("both", {}),
                                       mutations::check("written", 5),
                                       mutations::put("written", {}),
                                       mutations::append("written", {})};
  BatchWork work;
  work.begin(batch, KeyHasher(5));
  ASSERT_EQ(work.needed().size(), 5u);
  EXPECT_TRUE(work.needed()[3].value) << "a check leaves the value to the append behind it";
  EXPECT_FALSE(work.needed()[4].value);
  EXPECT_EQ(work.needed()[2].key, "checked");
  EXPECT_FALSE(work.needed()[2].value);
  EXPECT_EQ(work.needed()[0].key, "value");
  EXPECT_TRUE(work.needed()[0].value);
  EXPECT_EQ(work.needed()[1].key, "version");
  EXPECT_FALSE(work.needed()[1].value);
}

TEST_F(BatchWorkTest, TooManyBytesOfOldValuesFailTheBatch) {
  const std::vector<Mutation> batch = {mutations::append("a", {}), mutations::append("b", {})};
  BatchWork work;
  work.begin(batch, KeyHasher(5));
  work.begin_fetch("a");
  work.begin_fetch("b");
  work.take_fetched(work.needed()[0], absl::OkStatus(), owned("12345", 3), 8);
  EXPECT_TRUE(work.failure().ok());
  EXPECT_EQ(work.fetched("a")->version, 3u);
  work.take_fetched(work.needed()[1], absl::OkStatus(), owned("12345", 4), 8);
  EXPECT_EQ(work.failure().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(work.fetched("a")) << "nothing is kept for a batch that fails";
  EXPECT_EQ(work.fetching(), 0u);
}

}  // namespace
}  // namespace skua::kv
