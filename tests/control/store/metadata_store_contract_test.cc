// The contract of metadata_store.h, run against every implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "control/store/embedded_store.h"
#include "control/store/memory_store.h"
#include "control/store/metadata_store.h"
#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

struct Implementation {
  const char* name;
  std::function<std::unique_ptr<MetadataStore>(const std::string& directory)> open;
};

void PrintTo(const Implementation& implementation, std::ostream* out) {
  *out << implementation.name;
}

class MetadataStoreContract : public testing::TestWithParam<Implementation> {
 protected:
  MetadataStoreContract() : store_(GetParam().open(dir_.path())) {}

  /// Runs operations without compares; returns the revision.
  uint64_t run(std::vector<Operation> operations) {
    const auto result = store_->transact({{}, std::move(operations), {}});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->revision : 0;
  }
  uint64_t put(const std::string& key, const std::string& value) { return run({Operation::put(key, value)}); }
  std::optional<KeyValue> get(const std::string& key) {
    const auto result = store_->get(key);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->kv : std::nullopt;
  }
  std::unique_ptr<Watch> watch(const std::string& prefix, uint64_t from) {
    auto result = store_->watch(prefix, from);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : nullptr;
  }

  TempDir dir_;
  std::unique_ptr<MetadataStore> store_;
};

TEST_P(MetadataStoreContract, Get_EmptyStoreIsAtRevisionZero) {
  const auto result = store_->get("a");
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->kv.has_value());
  EXPECT_EQ(result->revision, 0u);
}

TEST_P(MetadataStoreContract, Get_ShowsCreateAndModRevision) {
  EXPECT_EQ(put("a", "1"), 1u);
  EXPECT_EQ(put("b", "x"), 2u);
  EXPECT_EQ(put("a", "2"), 3u);
  EXPECT_EQ(get("a"), (KeyValue{"a", "2", 1, 3}));
  EXPECT_EQ(store_->get("a")->revision, 3u);
}

TEST_P(MetadataStoreContract, Get_DeletedKeyStartsAnewWhenPutAgain) {
  put("a", "1");
  EXPECT_EQ(run({Operation::erase("a")}), 2u);
  EXPECT_FALSE(get("a").has_value());
  put("a", "2");
  EXPECT_EQ(get("a"), (KeyValue{"a", "2", 3, 3}));
}

TEST_P(MetadataStoreContract, Range_IsSortedAndLimitedToThePrefix) {
  run({Operation::put("n/b", "2"), Operation::put("n/a", "1"), Operation::put("n", "x"), Operation::put("o/a", "y"),
       Operation::put(std::string("n/\xff"), "3")});
  const auto result = store_->range("n/");
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->kvs,
              ElementsAre(KeyValue{"n/a", "1", 1, 1}, KeyValue{"n/b", "2", 1, 1}, KeyValue{"n/\xff", "3", 1, 1}));
  EXPECT_EQ(result->revision, 1u);
  EXPECT_THAT(store_->range("nothing")->kvs, IsEmpty());
  EXPECT_EQ(store_->range("")->kvs.size(), 5u);
}

TEST_P(MetadataStoreContract, Transact_ComparesChooseTheBranch) {
  const Transaction create{{Compare::absent("a")}, {Operation::put("a", "first")}, {Operation::put("lost", "x")}};
  auto result = store_->transact(create);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->succeeded);
  result = store_->transact(create);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->succeeded);
  EXPECT_EQ(get("a")->value, "first");
  EXPECT_TRUE(get("lost").has_value());
}

TEST_P(MetadataStoreContract, Transact_CompareAndSwapOnModRevision) {
  const uint64_t first = put("a", "1");
  auto result = store_->transact({{Compare::unchanged("a", first)}, {Operation::put("a", "2")}, {}});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->succeeded);
  result = store_->transact({{Compare::unchanged("a", first)}, {Operation::put("a", "3")}, {}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->succeeded);
  EXPECT_EQ(get("a")->value, "2");
}

TEST_P(MetadataStoreContract, Transact_AllComparesMustHold) {
  put("a", "1");
  const auto result =
      store_->transact({{Compare::unchanged("a", 1), Compare::absent("a")}, {Operation::put("b", "x")}, {}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->succeeded);
  EXPECT_FALSE(get("b").has_value());
}

TEST_P(MetadataStoreContract, Transact_WithoutAChangeKeepsTheRevision) {
  put("a", "1");
  EXPECT_EQ(run({}), 1u);
  EXPECT_EQ(run({Operation::erase("nope")}), 1u);
  EXPECT_EQ(run({Operation::erase_prefix("nope/")}), 1u);
  EXPECT_EQ(store_->transact({{Compare::absent("a")}, {Operation::put("a", "2")}, {}})->revision, 1u);
  EXPECT_EQ(put("a", "1"), 2u) << "a put of the same value is a change";
}

TEST_P(MetadataStoreContract, Transact_ErasePrefixTakesAllItsKeys) {
  run({Operation::put("s/1/0", ""), Operation::put("s/1/1", ""), Operation::put("s/10/0", ""),
       Operation::put("s/2/0", "")});
  EXPECT_EQ(run({Operation::erase_prefix("s/1/"), Operation::put("t", "")}), 2u);
  EXPECT_FALSE(get("s/1/0").has_value());
  EXPECT_FALSE(get("s/1/1").has_value());
  EXPECT_TRUE(get("s/10/0").has_value());
  EXPECT_TRUE(get("s/2/0").has_value());
}

TEST_P(MetadataStoreContract, Transact_RefusesWhatItMustNotRun) {
  const auto code = [&](Transaction transaction) { return store_->transact(transaction).status().code(); };
  EXPECT_EQ(code({{}, {Operation::put("a", ""), Operation::put("a", "")}, {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{}, {Operation::put("a", ""), Operation::erase("a")}, {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{}, {}, {Operation::erase_prefix("a"), Operation::put("ab", "")}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{}, {Operation::put("", "")}, {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{Compare::absent("")}, {}, {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{}, {Operation::put(std::string(kStoreKeyMax + 1, 'k'), "")}, {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{}, {Operation::put("a", std::string(kStoreValueMax + 1, 'v'))}, {}}), StatusCode::kInvalidArgument);
  std::vector<Operation> many;
  for (size_t i = 0; i <= kTransactionOpsMax; ++i) many.push_back(Operation::put(absl::StrCat(i), ""));
  EXPECT_EQ(code({{}, many, {}}), StatusCode::kInvalidArgument);
  many.pop_back();
  EXPECT_EQ(code({{}, many, {}}), StatusCode::kOk);
  EXPECT_FALSE(get("a").has_value());
}

TEST_P(MetadataStoreContract, Transact_TakesTheLargestKeyAndValue) {
  const std::string key(kStoreKeyMax, 'k');
  const std::string value(kStoreValueMax, '\0');
  put(key, value);
  EXPECT_EQ(get(key)->value, value);
}

TEST_P(MetadataStoreContract, Watch_DeliversFromARevisionOn) {
  put("a/1", "x");
  put("b/1", "y");
  run({Operation::erase("a/1"), Operation::put("a/2", "z")});
  const auto all = watch("a/", 1)->next(kSecond);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->revision, 3u);
  EXPECT_THAT(all->events, testing::UnorderedElementsAre(WatchEvent{WatchEvent::Kind::kPut, {"a/1", "x", 1, 1}},
                                                         WatchEvent{WatchEvent::Kind::kDelete, {"a/1", "", 0, 3}},
                                                         WatchEvent{WatchEvent::Kind::kPut, {"a/2", "z", 3, 3}}));
  const auto later = watch("a/", 2)->next(kSecond);
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->events.size(), 2u);
}

TEST_P(MetadataStoreContract, Watch_FromZeroMeansFromNow) {
  put("a", "old");
  const auto watcher = watch("", 0);
  put("a", "new");
  const auto batch = watcher->next(kSecond);
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(batch->events, ElementsAre(WatchEvent{WatchEvent::Kind::kPut, {"a", "new", 1, 2}}));
}

TEST_P(MetadataStoreContract, Watch_TimesOutWithAnEmptyBatchAndTheRevision) {
  put("b", "");
  const auto batch = watch("a", 1)->next(0);
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(batch->events, IsEmpty());
  EXPECT_EQ(batch->revision, 1u);
}

TEST_P(MetadataStoreContract, Watch_WakesUpForAChange) {
  const auto watcher = watch("a", 0);
  std::thread writer([&] { put("a", "1"); });
  const auto batch = watcher->next(60 * kSecond);
  writer.join();
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->events.size(), 1u);
}

TEST_P(MetadataStoreContract, Watch_ShowsEachChangeOnce) {
  const auto watcher = watch("a", 1);
  put("a", "1");
  EXPECT_EQ(watcher->next(kSecond)->events.size(), 1u);
  EXPECT_THAT(watcher->next(0)->events, IsEmpty());
  put("a", "2");
  put("a", "3");
  EXPECT_EQ(watcher->next(kSecond)->events.size(), 2u);
}

TEST_P(MetadataStoreContract, Watch_SplitsLongHistoryBetweenRevisionsOnly) {
  const size_t per_revision = kWatchBatchMax / 2 + 1;
  for (int revision = 1; revision <= 3; ++revision) {
    std::vector<Operation> puts;
    for (size_t i = 0; i < per_revision; ++i) puts.push_back(Operation::put(absl::StrCat(i), "v"));
    run(std::move(puts));
  }
  const auto watcher = watch("", 1);
  const auto first = watcher->next(kSecond);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->events.size(), 2 * per_revision);
  EXPECT_EQ(first->revision, 2u);
  const auto second = watcher->next(kSecond);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->events.size(), per_revision);
  EXPECT_EQ(second->revision, 3u);
}

TEST_P(MetadataStoreContract, Compact_FailsWatchesThatNeedTheHistory) {
  const auto behind = watch("", 1);
  for (int i = 0; i < 5; ++i) put("a", absl::StrCat(i));
  const auto in_time = watch("", 4);
  ASSERT_TRUE(store_->compact(4).ok());
  EXPECT_EQ(behind->next(0).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->watch("", 3).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(in_time->next(kSecond)->events.size(), 2u);
  EXPECT_EQ(get("a")->value, "4");
}

TEST_P(MetadataStoreContract, Compact_GoesForwardOnly) {
  for (int i = 0; i < 5; ++i) put("a", "");
  ASSERT_TRUE(store_->compact(4).ok());
  EXPECT_TRUE(store_->compact(2).ok());
  EXPECT_EQ(store_->watch("", 3).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->compact(6).code(), StatusCode::kOutOfRange);
}

TEST_P(MetadataStoreContract, Transact_RacingIncrementsLoseNone) {
  put("counter", "0");
  constexpr int kThreads = 4;
  constexpr int kEach = 25;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int done = 0; done < kEach;) {
        const KeyValue kv = *store_->get("counter")->kv;
        const auto result = store_->transact({{Compare::unchanged("counter", kv.mod_revision)},
                                              {Operation::put("counter", absl::StrCat(std::stoi(kv.value) + 1))},
                                              {}});
        if (result.ok() && result->succeeded) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(get("counter")->value, absl::StrCat(kThreads * kEach));
}

INSTANTIATE_TEST_SUITE_P(
    Implementations, MetadataStoreContract,
    testing::Values(Implementation{"memory", [](const std::string&) { return std::make_unique<MemoryStore>(); }},
                    Implementation{"embedded",
                                   [](const std::string& directory) {
                                     auto store = open_embedded_store({.directory = directory});
                                     EXPECT_TRUE(store.ok()) << store.status();
                                     return *std::move(store);
                                   }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace skua::control
