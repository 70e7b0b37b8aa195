#include "kvstore/memory/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

/// Index::find_batch() of any number of keys.
void find_all(Index& index, std::span<const ItemKey> keys, std::span<Index::Slot*> found) {
  for (size_t at = 0; at < keys.size(); at += Index::kBatch) {
    const size_t count = std::min(Index::kBatch, keys.size() - at);
    index.find_batch(keys.subspan(at, count), found.subspan(at, count));
  }
}

/// Zeroed memory with an index in it, and items that are never freed.
class IndexTest : public testing::Test {
 protected:
  static constexpr size_t kItemBytesMax = 128;

  void make(size_t index_bytes, size_t items_max) {
    index_memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, index_bytes)));
    std::memset(index_memory_.get(), 0, index_bytes);
    items_.assign(items_max * kItemBytesMax, std::byte{0});
    index_ = std::make_unique<Index>(MutableByteSpan(index_memory_.get(), index_bytes), items_.data());
  }

  ItemPlace write_item(const ItemKey& key) {
    auto* item = reinterpret_cast<Item*>(items_.data() + used_);
    *item = {.hash = key.hash,
             .version = 1,
             .shard = key.shard,
             .value_bytes = 0,
             .key_bytes = static_cast<uint16_t>(key.text.size()),
             .flags = 0,
             .tag = 0};
    copy_bytes(item->key_start(), as_byte_span(key.text));
    const ItemPlace place = used_ / kItemAlignment + 1;
    used_ += item->bytes();
    EXPECT_LE(used_, items_.size());
    return place;
  }

  Index& index() { return *index_; }
  void rewind() { used_ = 0; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> index_memory_;
  std::vector<std::byte> items_;
  std::unique_ptr<Index> index_;
  size_t used_ = 0;
};

std::string name_of(uint64_t number) {
  return "key" + std::to_string(number);
}

TEST_F(IndexTest, Find_InsertUpdateErase) {
  make(Index::kBytesMin, 10);
  const ItemKey key(1, "key");
  EXPECT_EQ(index().find(key), nullptr);
  const ItemPlace first = write_item(key);
  ASSERT_TRUE(index().insert(key.hash, first));
  Index::Slot* slot = index().find(key);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->place(), first);
  EXPECT_EQ(index().find_place(key.hash, first), slot);
  EXPECT_EQ(index().find(ItemKey(2, "key")), nullptr) << "another shard's key";
  const ItemPlace second = write_item(key);
  slot->set_used();
  slot->set_place(second);
  EXPECT_EQ(index().find(key)->place(), second);
  EXPECT_TRUE(index().find(key)->used());
  EXPECT_EQ(index().find_place(key.hash, first), nullptr);
  EXPECT_EQ(index().items(), 1U);
  index().erase(key.hash, slot);
  EXPECT_EQ(index().find(key), nullptr);
  EXPECT_EQ(index().items(), 0U);
}

TEST_F(IndexTest, Find_EqualHashesAreToldApartByTheKey) {
  make(Index::kBytesMin, 40);
  std::vector<ItemKey> keys;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 30; ++i) names.push_back(name_of(i));
  for (const std::string& name : names) {
    ItemKey key(1, name);
    key.hash = 42;
    keys.push_back(key);
    ASSERT_TRUE(index().insert(key.hash, write_item(key)));
  }
  EXPECT_EQ(index().overflow_buckets(), 4U);
  std::vector<Index::Slot*> found(keys.size());
  find_all(index(), keys, found);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_NE(found[i], nullptr);
    EXPECT_EQ(found[i], index().find(keys[i]));
  }
  for (const ItemKey& key : keys) index().erase(key.hash, index().find(key));
  EXPECT_EQ(index().overflow_buckets(), 0U);
}

TEST_F(IndexTest, Insert_RefusedWhenTheOverflowIsUsedUpAndPossibleAfterAnErase) {
  constexpr size_t kKeys = 4000;
  make(Index::kBytesMin, kKeys);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < kKeys; ++i) names.push_back(name_of(i));
  size_t inserted = 0;
  ItemKey refused;
  for (;; ++inserted) {
    ASSERT_LT(inserted, kKeys);
    const ItemKey key(1, names[inserted]);
    const ItemPlace place = write_item(key);
    if (index().insert(key.hash, place)) continue;
    refused = key;
    break;
  }
  EXPECT_EQ(index().buckets(), index().buckets_max());
  EXPECT_EQ(index().find(refused), nullptr);
  for (size_t i = 0; i < inserted; ++i) {
    const ItemKey key(1, names[i]);
    Index::Slot* slot = index().find(key);
    ASSERT_NE(slot, nullptr) << names[i];
    index().erase(key.hash, slot);
  }
  EXPECT_EQ(index().items(), 0U);
  EXPECT_EQ(index().overflow_buckets(), 0U);
  EXPECT_TRUE(index().insert(refused.hash, write_item(refused)));
}

TEST_F(IndexTest, WriteCount_SurvivesGrowth) {
  constexpr size_t kKeys = 3000;
  make(size_t{256} << 10, kKeys);
  const ItemKey watched(1, "watched");
  index().count_write(watched.hash);
  const uint32_t before = index().write_count(watched.hash);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < kKeys; ++i) names.push_back(name_of(i));
  for (const std::string& name : names) {
    const ItemKey key(1, name);
    ASSERT_TRUE(index().insert(key.hash, write_item(key)));
  }
  EXPECT_GT(index().buckets(), 64U);
  EXPECT_EQ(index().write_count(watched.hash), before);
  index().count_write(watched.hash);
  EXPECT_NE(index().write_count(watched.hash), before);
}

/// The dumb twin: std::unordered_map from names to places.
void run_against_twin(Index& index, uint64_t seed, const std::vector<std::string>& names,
                      const std::function<ItemPlace(const ItemKey&)>& write_item) {
  Rng rng(seed);
  std::unordered_map<std::string, ItemPlace> twin;
  const uint64_t key_count = 1 + rng.below(names.size());
  uint64_t inserts_of_ten = 6;
  for (int step = 0; step < 20'000; ++step) {
    if (step % 5000 == 0) inserts_of_ten = 2 + rng.below(7);
    const std::string& name = names[rng.below(key_count)];
    const ItemKey key(7, name);
    Index::Slot* slot = index.find(key);
    const auto known = twin.find(name);
    ASSERT_EQ(slot != nullptr, known != twin.end()) << name << " at step " << step;
    if (slot != nullptr) {
      ASSERT_EQ(slot->place(), known->second);
    }
    if (rng.below(10) < inserts_of_ten) {
      if (slot != nullptr) continue;
      const ItemPlace place = write_item(key);
      ASSERT_TRUE(index.insert(key.hash, place));
      twin[name] = place;
    } else if (slot != nullptr) {
      index.erase(key.hash, slot);
      twin.erase(known);
    }
    ASSERT_EQ(index.items(), twin.size());
    if (step % 500 != 0) continue;
    std::vector<ItemKey> keys;
    const uint64_t batch = rng.below(70);
    for (uint64_t i = 0; i < batch; ++i) keys.emplace_back(7, names[rng.below(key_count)]);
    std::vector<Index::Slot*> found(keys.size());
    find_all(index, keys, found);
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(found[i], index.find(keys[i]));
  }
}

TEST_F(IndexTest, Property_AgreesWithUnorderedMap) {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < 12'000; ++i) names.push_back(name_of(i));
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    make(size_t{1} << 20, 20'000);
    rewind();
    run_against_twin(index(), seed, names, [&](const ItemKey& key) { return write_item(key); });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace skua::kv
