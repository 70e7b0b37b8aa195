// A memory tier, a simulated durable tier behind it, and a dumb model of what a client must see; one seed, one history.
//
//    random operation --> tier          model: key -> newest version
//          |                ^
//          |   fill, late   | mark_clean, later still
//          +--> unapplied --+--> disk (a map)
//
// Checked: a hit has the newest version's bytes; "absent" is only said of absent keys; after a miss the disk has the
// newest version; a value in a reader's hands never changes; a refused put is possible again once everything is
// durable and released; the counters add up.
#ifndef SKUA_TESTS_KVSTORE_MEMORY_MEMORY_WORLD_H_
#define SKUA_TESTS_KVSTORE_MEMORY_MEMORY_WORLD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/memory/memory_tier.h"
#include "rpc/base/rng.h"

namespace skua::kv {

class MemoryWorld {
 public:
  explicit MemoryWorld(uint64_t seed);

  /// Runs `steps` operations and then ends all that is under way. What was found wrong, or "".
  std::string run(int steps);

  /// Of the tier, after run().
  [[nodiscard]] const MemoryTier::Counters& counters() const { return counters_; }
  [[nodiscard]] uint64_t data_bytes() const { return data_bytes_; }
  [[nodiscard]] uint64_t budget_bytes() const { return options_.budget_bytes; }

 private:
  struct Record {
    uint64_t version = 0;
    uint64_t expiry = 0;
    bool present = false;
    std::string value{};
  };
  struct Write {
    std::string key;
    Record record;
  };
  struct ShardState {
    uint32_t number = 0;
    uint64_t last_index = 0;
    uint64_t disk_index = 0;
    std::map<std::string, Record> newest{};
    std::map<std::string, Record> disk{};
    std::deque<Write> unapplied{};
  };
  struct Fill {
    size_t shard;
    uint32_t number;
    std::string key;
    Record record;
    MemoryTier::Ticket ticket;
  };
  struct Pin {
    PinnedValue value;
    std::string bytes;
  };

  void step();
  void write(ShardState& shard);
  void put(ShardState& shard, const std::string& key);
  void erase(ShardState& shard, const std::string& key);
  void get_some(size_t shard_number);
  void check(size_t shard_number, const std::string& key, MemoryTier::Lookup lookup);
  void finish_fill();
  void apply_some(ShardState& shard, size_t count);
  void drop(ShardState& shard);
  static void apply_without_tier(ShardState& shard);
  void check_pins();
  void settle();
  void fail(const std::string& what);

  [[nodiscard]] std::string random_key();
  [[nodiscard]] std::string random_value();
  [[nodiscard]] bool visible(const Record& record) const {
    return record.present && (record.expiry == 0 || record.expiry > now_);
  }

  Rng rng_;
  MemoryTier::Options options_;
  uint64_t key_count_ = 0;
  uint64_t value_bytes_max_ = 0;
  uint64_t lag_max_ = 0;
  double write_share_ = 0;
  uint64_t now_ = 1;
  std::unique_ptr<MemoryTier> tier_;
  std::vector<ShardState> shards_;
  std::vector<Pin> pins_;
  std::vector<Fill> fills_;
  std::string failure_;
  MemoryTier::Counters counters_;
  uint64_t data_bytes_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_TESTS_KVSTORE_MEMORY_MEMORY_WORLD_H_
