#include "kvstore/gateway/hazards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv::gateway {
namespace {

/// Names its keys only when it is asked to.
struct TestCommand : HazardNode {
  std::vector<uint64_t> keys;
  int asked_count = 0;
  bool is_done = false;

  void name_keys() override {
    ++asked_count;
    key_hashes.insert(key_hashes.end(), keys.begin(), keys.end());
  }
  /// The rule, as the head of hazards.h has it.
  [[nodiscard]] bool waits_for(const TestCommand& before) const {
    if (before.is_done) return false;
    if (is_whole_table || before.is_whole_table) return true;
    if (!is_write && !before.is_write) return false;
    return std::any_of(keys.begin(), keys.end(), [&](uint64_t key) {
      return std::find(before.keys.begin(), before.keys.end(), key) != before.keys.end();
    });
  }
};

/// Commands of one connection, and the dumb twin: each command asks all before it.
class Twin {
 public:
  explicit Twin(uint64_t seed) : rng_(seed) {}

  void add() {
    auto command = std::make_unique<TestCommand>();
    const uint64_t kind = rng_.below(40);
    command->is_whole_table = kind == 0;
    command->is_write = kind <= writes_of_40_;
    for (uint64_t i = rng_.below(4); i > 0 && kind != 0; --i) command->keys.push_back(rng_.below(12));
    hazards_.add(*command);
    commands_.push_back(std::move(command));
    check();
  }
  /// One of those that run.
  void finish_one() {
    std::vector<TestCommand*> running;
    for (const auto& command : commands_) {
      if (!command->is_done && command->blocker_count == 0) running.push_back(command.get());
    }
    if (running.empty()) return;
    TestCommand& ended = *running[rng_.below(running.size())];
    std::vector<HazardNode*> ready;
    hazards_.finish(ended, ready);
    ended.is_done = true;
    for (HazardNode* node : ready) EXPECT_EQ(node->blocker_count, 0U);
    check();
  }
  void change_mixture() { writes_of_40_ = std::vector<uint64_t>{0, 1, 20}[rng_.below(3)]; }
  [[nodiscard]] bool coin() { return rng_.below(2) == 0; }
  [[nodiscard]] size_t unfinished_count() const { return hazards_.unfinished_count(); }
  [[nodiscard]] size_t key_count() const { return hazards_.key_count(); }

 private:
  void check() {
    size_t unfinished = 0;
    for (size_t i = 0; i < commands_.size(); ++i) {
      const TestCommand& command = *commands_[i];
      EXPECT_LE(command.asked_count, 1);
      if (command.is_done) continue;
      ++unfinished;
      const bool waits = std::any_of(commands_.begin(), commands_.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const auto& before) { return command.waits_for(*before); });
      EXPECT_EQ(command.blocker_count > 0, waits) << "command " << i;
    }
    EXPECT_EQ(hazards_.unfinished_count(), unfinished);
  }

  Rng rng_;
  Hazards hazards_;
  std::vector<std::unique_ptr<TestCommand>> commands_;
  uint64_t writes_of_40_ = 1;
};

TEST(HazardsTest, CommandsWaitForThoseThatTheRuleNames) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Twin twin(seed);
    for (int i = 0; i < 120; ++i) {
      if (i % 30 == 0) twin.change_mixture();
      if (twin.coin()) {
        twin.add();
      } else {
        twin.finish_one();
      }
    }
    while (twin.unfinished_count() > 0) twin.finish_one();
    EXPECT_EQ(twin.key_count(), 0U);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(HazardsTest, NobodyAsksForTheKeysOfReadsAmongReads) {
  Hazards hazards;
  std::vector<TestCommand> reads(3);
  for (TestCommand& read : reads) hazards.add(read);
  std::vector<HazardNode*> ready;
  for (TestCommand& read : reads) hazards.finish(read, ready);
  EXPECT_EQ(reads[0].asked_count + reads[1].asked_count + reads[2].asked_count, 0);
  EXPECT_EQ(hazards.unfinished_count(), 0U);
}

TEST(HazardsTest, NobodyAsksForTheKeysOfACommandAlone) {
  Hazards hazards;
  std::vector<TestCommand> commands(3);
  std::vector<HazardNode*> ready;
  commands[0].is_write = true;
  commands[0].keys = commands[1].keys = {1};
  commands[2].keys = {2};
  hazards.add(commands[0]);
  hazards.finish(commands[0], ready);
  EXPECT_EQ(commands[0].asked_count, 0);
  commands[0].key_hashes.clear();
  hazards.add(commands[0]);
  hazards.add(commands[1]);
  hazards.add(commands[2]);
  EXPECT_EQ(commands[0].asked_count, 1) << "others have come";
  EXPECT_EQ(commands[1].blocker_count, 1U);
  EXPECT_EQ(commands[2].blocker_count, 0U);
}

TEST(HazardsTest, ForgetKeysThatNobodyUses) {
  Hazards hazards;
  std::vector<HazardNode> nodes(4);
  nodes[0].key_hashes = {1, 2, 1};
  nodes[0].is_write = true;
  nodes[1].key_hashes = {2, 2};
  nodes[2].key_hashes = {2, 3};
  nodes[2].is_write = true;
  nodes[3].is_whole_table = true;
  for (HazardNode& node : nodes) hazards.add(node);
  EXPECT_EQ(nodes[0].blocker_count, 0U);
  EXPECT_EQ(nodes[1].blocker_count, 1U);
  EXPECT_EQ(nodes[2].blocker_count, 1U);
  EXPECT_EQ(nodes[3].blocker_count, 3U);
  std::vector<HazardNode*> ready;
  for (HazardNode& node : nodes) {
    EXPECT_EQ(node.blocker_count, 0U);
    ready.clear();
    hazards.finish(node, ready);
  }
  EXPECT_EQ(hazards.unfinished_count(), 0U);
  EXPECT_EQ(hazards.key_count(), 0U);
}

TEST(HazardsTest, KeepNoMemoryOfACommandOfManyKeys) {
  HazardNode node;
  for (uint64_t i = 0; i < 100'000; ++i) node.key_hashes.push_back(i);
  node.forget_keys();
  EXPECT_LE(node.key_hashes.capacity(), 64U);
}

}  // namespace
}  // namespace skua::kv::gateway
