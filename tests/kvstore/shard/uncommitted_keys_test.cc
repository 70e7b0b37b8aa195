#include "kvstore/shard/uncommitted_keys.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

struct Entry {
  uint64_t index = 0;
  std::vector<std::string> keys;
  std::string payload;
};

Entry make_entry(uint64_t index, Rng& rng) {
  Entry entry{index, {}, {}};
  std::set<std::string> keys;
  while (keys.size() < rng.between(1, 3)) keys.insert("key" + std::to_string(rng.below(12)));
  for (const std::string& key : keys) {
    EffectHead buffer;
    ByteWriter head(buffer);
    encode_effect_head({key, std::nullopt, 0}, head);
    entry.payload.append(as_string_view(head.written())).append(key);
    entry.keys.push_back(key);
  }
  return entry;
}

TEST(UncommittedKeys, AgreesWithALookAtAllEntries) {
  Rng rng(11);
  UncommittedKeys keys;
  keys.set_active(true);
  std::deque<Entry> entries;  // behind `committed`
  uint64_t last = 0;
  uint64_t committed = 0;
  for (int step = 0; step < 5000; ++step) {
    if (rng.chance(0.5)) {
      entries.push_back(make_entry(++last, rng));
      keys.add(last, as_byte_span(entries.back().payload));
    } else if (!entries.empty() && rng.chance(0.9)) {
      committed = entries.front().index;
      // Some come into memory by another way, which forgets nothing.
      if (rng.chance(0.8)) keys.forget(committed, as_byte_span(entries.front().payload));
      entries.pop_front();
    } else if (rng.chance(0.1)) {
      while (last > committed && rng.chance(0.7)) {
        entries.pop_back();
        --last;
      }
      keys.set_active(true);
      for (const Entry& entry : entries) keys.add(entry.index, as_byte_span(entry.payload));
    }
    for (int number = 0; number < 12; ++number) {
      const std::string key = "key" + std::to_string(number);
      bool touched = false;
      for (const Entry& entry : entries) {
        touched = touched || std::ranges::find(entry.keys, key) != entry.keys.end();
      }
      ASSERT_EQ(keys.touches(key, committed), touched) << key << " at step " << step;
    }
  }
}

}  // namespace
}  // namespace skua::kv
