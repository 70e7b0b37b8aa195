// A shard's queue beside a dumb one: a vector of writes that is searched from its end.
#include "kvstore/shard/write_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/shard/batch_work.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv {
namespace {

const KeyHasher kHasher(5);

/// A write of one key, or a batch, which the caller keeps until it leaves the queue.
struct TestWrite {
  std::vector<std::string> keys;  // all different
  std::string value;
  bool deletes = false;
  std::vector<Mutation> batch;
  WriteOp op;

  [[nodiscard]] bool has(const std::string& key) const { return std::ranges::find(keys, key) != keys.end(); }
};

class Twin {
 public:
  void push(TestWrite& write) { writes_.push_back(&write); }
  TestWrite& pop() {
    TestWrite& write = *writes_.front();
    writes_.pop_front();
    return write;
  }
  /// The value after the last pending effect of the key; nullptr: there is none.
  [[nodiscard]] const TestWrite* pending(const std::string& key) const {
    const auto is_last = [&](const TestWrite* write) {
      return write->op.state == WriteOp::State::kInLog && write->has(key);
    };
    const auto found = std::find_if(writes_.rbegin(), writes_.rend(), is_last);
    return found == writes_.rend() ? nullptr : *found;
  }
  [[nodiscard]] const std::deque<TestWrite*>& writes() const { return writes_; }
  void cut(size_t count) { writes_.resize(count); }

 private:
  std::deque<TestWrite*> writes_;
};

class WriteQueueTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kKeys = 5;

  void push() {
    TestWrite& write = *all_.emplace_back(std::make_unique<TestWrite>());
    const uint64_t first = rng_.below(kKeys);
    const uint64_t count = rng_.chance(0.4) ? rng_.between(1, kKeys) : 0;  // of a batch
    for (uint64_t i = 0; i < std::max<uint64_t>(count, 1); ++i) {
      write.keys.push_back("key" + std::to_string((first + i) % kKeys));
    }
    write.value = "value" + std::to_string(all_.size());
    write.op.index = all_.size();
    const bool has_effect = rng_.chance(0.7);
    write.op.state = has_effect ? WriteOp::State::kInLog : WriteOp::State::kAnswered;
    write.deletes = rng_.chance(0.2);
    count > 0 ? make_batch(write) : make_single(write);
    if (has_effect) queue_.enter(write.op);
    queue_.push(write.op);
    twin_.push(write);
  }

  static void make_single(TestWrite& write) {
    write.op.effect.key = write.keys.front();
    write.op.effect.key_hash = kHasher.hash(write.keys.front());
    if (!write.deletes) write.op.effect.value = as_byte_span(write.value);
  }

  static void make_batch(TestWrite& write) {
    for (const std::string& key : write.keys) {
      write.batch.push_back(write.deletes ? mutations::remove(key) : mutations::put(key, as_byte_span(write.value)));
    }
    write.op.batch = write.batch;
    write.op.work = std::make_unique<BatchWork>();
    write.op.work->begin(write.batch, kHasher);
    const auto before = [](const HashedKey&, PinnedValue&) { return CurrentState{1, {}, 0}; };
    ASSERT_EQ(write.op.work->evaluate(write.op, 0, 1 << 20, before), BatchWork::Outcome::kApplied);
    write.op.work->encode(write.op);
    ASSERT_EQ(write.op.effects().size(), write.keys.size());
  }

  void pop() {
    if (queue_.empty()) return;
    WriteOp& op = *queue_.front();
    EXPECT_EQ(&op, &twin_.pop().op);
    if (op.state == WriteOp::State::kInLog) queue_.withdraw(op);
    EXPECT_EQ(&queue_.pop(), &op);
  }

  /// Cuts the queue before its first write with a version above `index`.
  void cut(uint64_t index) {
    size_t kept = 0;
    while (kept < twin_.writes().size() && twin_.writes()[kept]->op.index <= index) ++kept;
    std::vector<TestWrite*> removed(twin_.writes().begin() + static_cast<std::ptrdiff_t>(kept), twin_.writes().end());
    twin_.cut(kept);
    WriteList list = queue_.cut([index](const WriteOp& op) { return op.index <= index; });
    for (const TestWrite* write : removed) {
      ASSERT_FALSE(list.empty());
      EXPECT_EQ(list.front(), &write->op);
      list.pop();
    }
    EXPECT_TRUE(list.empty());
  }

  void compare() {
    EXPECT_EQ(queue_.empty(), twin_.writes().empty());
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string(i);
      const auto state = queue_.pending(kHasher(key));
      const TestWrite* const expected = twin_.pending(key);
      ASSERT_EQ(state.has_value(), expected != nullptr);
      if (expected == nullptr) continue;
      EXPECT_EQ(state->version, expected->deletes ? 0 : expected->op.index);
      EXPECT_EQ(as_string_view(state->value), expected->deletes ? "" : expected->value);
    }
  }

  Rng rng_{7};
  std::vector<std::unique_ptr<TestWrite>> all_;
  WriteQueue queue_;
  Twin twin_;
};

TEST_F(WriteQueueTest, BehavesLikeItsDumbTwin) {
  for (int i = 0; i < 5000; ++i) {
    const uint64_t what = rng_.below(10);
    if (what < 5) {
      push();
    } else if (what < 9) {
      pop();
    } else {
      cut(all_.size() - std::min<size_t>(all_.size(), rng_.below(6)));
    }
    compare();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace skua::kv
