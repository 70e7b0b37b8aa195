// Entries that wait to be committed, and the log that they share with other shards: the log does not fill because of
// them, and they are there after a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/effect.h"
#include "kvstore/shard/worker_engine.h"
#include "tests/kvstore/shard/engine_lives.h"

namespace skua::kv {
namespace {

using testing::put_of;
using testing::World;

constexpr size_t kReplicated = 0;
constexpr size_t kPlain = 1;

/// Beside the replicated shard a plain one, which fills the log.
class KeptTailTest : public ::testing::Test {
 protected:
  KeptTailTest() { start(); }
  static WorkerEngine::Options options() {
    WorkerEngine::Options options = testing::small_engine_options();
    options.unfinished_bytes_max = 1 << 20;
    return options;
  }

  void start() {
    world_.start();
    ASSERT_TRUE(world_.refused.empty());
    world_.replicate(kReplicated);
    shard().entries().raise_epoch(++log_epoch_);
  }
  void restart(bool crash) {
    crash ? world_.crash() : world_.stop();
    start();
  }
  Shard& shard() { return world_.shard(kReplicated); }

  static std::string payload_of(const std::string& value) {
    EffectHead buffer;
    ByteWriter head(buffer);
    encode_effect_head({.key = "key", .value = as_byte_span(value)}, head);
    return absl::StrCat(std::string(as_string_view(head.written())), "key", value);
  }
  /// Of an entry, which no other one has.
  std::string append(uint64_t epoch = 1) {
    const std::string payload = payload_of(absl::StrCat("value ", ++made_));
    const ReplicaEntry entry{shard().indices().last + 1, epoch, 1, Durability::kSync, as_byte_span(payload)};
    EXPECT_TRUE(shard().entries().append(entry).ok());
    return payload;
  }
  void wait_until_synced() {
    world_.tasks().run_until([&] {
      world_.engine().tick();
      return shard().indices().synced == shard().indices().last;
    });
  }
  void commit(uint64_t index) {
    world_.tasks().run_until([&] {
      world_.engine().tick();
      shard().commit_entries(index);
      return shard().indices().committed == index;
    });
  }
  /// So many segments of 64 KiB with writes of the plain shard. The log may have no room for a moment.
  void fill_segments(size_t count) {
    size_t& written = world_.counts[KvStatus::kOk];
    const size_t enough = written + count * 32;
    while (written < enough) {
      for (size_t i = 0; i < 8; ++i) {
        world_.write(kPlain, put_of(absl::StrCat("key", i), std::string(2 << 10, 'x')));
      }
      world_.wait_for_answers();
      if (world_.last_result.status == KvStatus::kOk) continue;
      wait_for_room();
    }
  }
  /// Until the log may take a segment. What it holds becomes durable elsewhere in its own time; until then it refuses
  /// entries.
  void wait_for_room() {
    world_.tasks().run_until([&] {
      world_.engine().tick();
      return world_.engine().counters().log.segments_in_use < testing::small_log_options().segments_max;
    });
  }
  /// The log refuses entries while it has no room, and a primary sends them again.
  std::string append_written(uint64_t epoch) {
    const uint64_t last = shard().indices().last;
    for (;;) {
      const size_t refusals = world_.log_refusals;
      std::string payload = append(epoch);
      world_.tasks().run_until([&] {
        world_.engine().tick();
        return shard().indices().written > last || world_.log_refusals != refusals;
      });
      if (world_.log_refusals == refusals) return payload;
      wait_for_room();
    }
  }
  std::vector<std::string> tail() {
    std::vector<std::string> payloads;
    for (uint64_t index = shard().indices().committed + 1; const Entry* entry = shard().entries().find(index);
         ++index) {
      payloads.push_back(entry->payload);
    }
    return payloads;
  }

  World world_{51, options()};
  uint64_t log_epoch_ = 1;
  int made_ = 0;
};

TEST_F(KeptTailTest, OtherShardsGoOnWritingForEver) {
  std::vector<std::string> entries;
  for (int i = 0; i < 5; ++i) {
    entries.push_back(append());
    fill_segments(1);
  }
  fill_segments(40);
  EXPECT_EQ(tail(), entries);
}

TEST_F(KeptTailTest, EntriesAreThereAfterACrash) {
  std::vector<std::string> entries;
  for (int i = 0; i < 3; ++i) entries.push_back(append());
  fill_segments(20);
  entries.push_back(append());
  wait_until_synced();
  restart(true);
  EXPECT_EQ(tail(), entries);
  fill_segments(20);
  restart(false);
  EXPECT_EQ(tail(), entries);
}

TEST_F(KeptTailTest, WhatReplacesThemIsThereAfterACrash) {
  append();
  const std::string first = append();
  for (int i = 0; i < 3; ++i) append();
  commit(1);
  fill_segments(20);
  shard().entries().raise_epoch(++log_epoch_);
  shard().entries().truncate(2);
  const std::string second = append(2);
  fill_segments(20);  // their rows replace those of the others
  restart(true);
  EXPECT_EQ(tail(), (std::vector<std::string>{first, second}));
}

TEST_F(KeptTailTest, WhatIsCommittedLeavesNoRow) {
  for (int i = 0; i < 5; ++i) append();
  fill_segments(20);
  const std::string last = append();
  commit(6);
  world_.wait_applied(kReplicated);
  EXPECT_EQ(world_.read(kReplicated, "key").value, last.substr(last.find("value")));
  restart(false);
  EXPECT_TRUE(tail().empty());
  for (const auto& [key, row] : world_.disk(kReplicated).state().rows) EXPECT_EQ(key, "key");
}

/// Whatever is appended, committed, replaced and lost.
TEST_F(KeptTailTest, ATailIsWhatItsTwinHas) {
  std::map<uint64_t, std::string> twin;  // not committed
  uint64_t committed = 0;
  uint64_t epoch = 1;
  for (int step = 0; step < 400; ++step) {
    const uint64_t last = shard().indices().last;
    switch (world_.rng().below(10)) {
      case 0:
      case 1:
      case 2:
      case 3: twin[last + 1] = append_written(epoch); break;
      case 4:
      case 5: fill_segments(1 + world_.rng().below(4)); break;
      case 6:
        if (last == committed) break;
        committed += world_.rng().below(last - committed + 1);
        commit(committed);
        twin.erase(twin.begin(), twin.upper_bound(committed));
        break;
      case 7: {
        const uint64_t kept = committed + world_.rng().below(last - committed + 1);
        shard().entries().raise_epoch(++log_epoch_);
        shard().entries().truncate(kept);
        twin.erase(twin.upper_bound(kept), twin.end());
        twin[kept + 1] = append_written(++epoch);  // what is truncated and not replaced may come back
        break;
      }
      case 8:
        if (!world_.rng().chance(0.3)) break;
        wait_until_synced();
        restart(world_.rng().chance(0.7));
        // That entries are committed may be lost.
        for (size_t extra = tail().size() - twin.size(); extra > 0; --extra) ASSERT_LE(extra, committed);
        commit(committed);
        break;
      default: world_.wait_for_answers();
    }
    std::vector<std::string> expected;
    for (const auto& [index, payload] : twin) expected.push_back(payload);
    ASSERT_EQ(tail(), expected) << "step " << step;
  }
}

/// A primary that never tells what is committed does not take this node's memory.
TEST_F(KeptTailTest, WhatWaitsIsBounded) {
  const std::string payload = payload_of(std::string(8 << 10, 'x'));
  // The log refuses some, until rows have what it holds.
  while (shard().entries().has_room(false)) {
    while (shard().entries().has_room(false)) {
      const ReplicaEntry entry{shard().indices().last + 1, 1, 1, Durability::kSync, as_byte_span(payload)};
      if (!shard().entries().append(entry).ok()) break;
    }
    static_cast<void>(world_.tasks().run());
    wait_until_synced();
  }
  EXPECT_LE(tail().size(), options().unfinished_bytes_max / payload.size());
  EXPECT_GE(tail().size(), options().unfinished_bytes_max / (payload.size() + 1000));
  commit(shard().indices().last);
  EXPECT_TRUE(shard().entries().has_room(false));
}

/// What is truncated and not replaced by anything does not keep the log either.
TEST_F(KeptTailTest, WhatIsTruncatedDoesNotKeepTheLog) {
  const std::string first = append();
  for (int i = 0; i < 4; ++i) append();
  wait_until_synced();
  shard().entries().raise_epoch(++log_epoch_);
  shard().entries().truncate(1);
  fill_segments(40);
  EXPECT_EQ(tail(), std::vector<std::string>{first});
  const std::string second = append(2);
  wait_until_synced();
  restart(true);
  EXPECT_EQ(tail(), (std::vector<std::string>{first, second}));
  shard().entries().truncate(0);
  shard().entries().raise_epoch(++log_epoch_);
  fill_segments(40);
  EXPECT_TRUE(tail().empty());
}

}  // namespace
}  // namespace skua::kv
