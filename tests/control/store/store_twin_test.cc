// Random transactions against the embedded store and its dumb twin, which must agree on everything,
// also across reopening.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "control/store/embedded_store.h"
#include "control/store/memory_store.h"
#include "rpc/base/rng.h"
#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

std::string random_key(Rng& rng) {
  return absl::StrCat(rng.below(3), "/", rng.below(5));
}

std::vector<Operation> random_operations(Rng& rng) {
  std::vector<Operation> operations;
  for (uint64_t i = rng.below(4); i > 0; --i) {
    switch (rng.below(6)) {
      case 0: operations.push_back(Operation::erase_prefix(absl::StrCat(rng.below(3), "/"))); break;
      case 1: operations.push_back(Operation::erase(random_key(rng))); break;
      default: operations.push_back(Operation::put(random_key(rng), absl::StrCat(rng.next()))); break;
    }
  }
  return operations;
}

Transaction random_transaction(Rng& rng, uint64_t revision) {
  Transaction transaction;
  for (uint64_t i = rng.below(3); i > 0; --i) {
    const uint64_t wanted = rng.chance(0.5) ? 0 : rng.below(revision + 1);
    transaction.compares.push_back({random_key(rng), wanted});
  }
  transaction.then_ops = random_operations(rng);
  transaction.else_ops = random_operations(rng);
  return transaction;
}

std::vector<WatchEvent> history(MetadataStore& store, uint64_t from) {
  const auto watch = store.watch("", from);
  if (!watch.ok()) return {};
  std::vector<WatchEvent> events;
  while (true) {
    const auto batch = (*watch)->next(0);
    if (!batch.ok() || batch->events.empty()) break;
    events.insert(events.end(), batch->events.begin(), batch->events.end());
  }
  std::sort(events.begin(), events.end(), [](const WatchEvent& a, const WatchEvent& b) {
    return std::tie(a.kv.mod_revision, a.kv.key) < std::tie(b.kv.mod_revision, b.kv.key);
  });
  return events;
}

TEST(EmbeddedStore, AgreesWithItsTwin) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    TempDir dir;
    MemoryStore twin;
    auto store = open_embedded_store({.directory = dir.path()});
    ASSERT_TRUE(store.ok()) << store.status();
    uint64_t oldest = 1;
    for (int i = 0; i < 250; ++i) {
      const uint64_t revision = twin.get("x")->revision;
      const Transaction transaction = random_transaction(rng, revision);
      const auto expected = twin.transact(transaction);
      const auto actual = (*store)->transact(transaction);
      ASSERT_EQ(actual.status().code(), expected.status().code());
      if (expected.ok()) {
        ASSERT_EQ(actual->succeeded, expected->succeeded);
        ASSERT_EQ(actual->revision, expected->revision);
      }
      if (rng.chance(0.02)) {
        oldest = rng.below(revision + 1);
        ASSERT_EQ((*store)->compact(oldest).code(), twin.compact(oldest).code());
      }
      if (rng.chance(0.02)) {
        store->reset();
        store = open_embedded_store({.directory = dir.path()});
        ASSERT_TRUE(store.ok()) << store.status();
      }
      ASSERT_EQ((*store)->range("")->kvs, twin.range("")->kvs);
      const uint64_t from = rng.below(revision + 2);
      ASSERT_EQ((*store)->watch("", from).status().code(), twin.watch("", from).status().code());
      ASSERT_EQ(history(**store, from), history(twin, from));
    }
  }
}

}  // namespace
}  // namespace skua::control
