// A shard's queue beside a dumb one: a vector of writes that is searched from its end.
#include "kvstore/shard/write_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// A write of one key, which the caller keeps until it leaves the queue.
struct TestWrite {
  std::string key;
  std::string value;
  WriteOp op;
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
      return write->op.state == WriteOp::State::kInLog && write->key == key;
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
  static constexpr int kKeys = 5;
  /// Some keys have the same hash.
  static uint64_t hash_of(std::string_view key) { return key_hash(key) % 3; }

  void push() {
    TestWrite& write = *all_.emplace_back(std::make_unique<TestWrite>());
    write.key = "key" + std::to_string(rng_.below(kKeys));
    write.value = "value" + std::to_string(all_.size());
    write.op.index = all_.size();
    const bool has_effect = rng_.chance(0.7);
    write.op.state = has_effect ? WriteOp::State::kInLog : WriteOp::State::kAnswered;
    write.op.effect.key = write.key;
    write.op.effect.key_hash = hash_of(write.key);
    if (rng_.chance(0.8)) write.op.effect.value = as_byte_span(write.value);
    if (has_effect) queue_.enter(write.op);
    queue_.push(write.op);
    twin_.push(write);
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
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string(i);
      const auto state = queue_.pending({key, hash_of(key)});
      const TestWrite* const expected = twin_.pending(key);
      EXPECT_EQ(queue_.is_pending({key, hash_of(key)}), expected != nullptr);
      ASSERT_EQ(state.has_value(), expected != nullptr);
      if (expected == nullptr) continue;
      EXPECT_EQ(state->version, expected->op.effect.value ? expected->op.index : 0);
      EXPECT_EQ(as_string_view(state->value), expected->op.effect.value ? expected->value : "");
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
