// The contract of metadata_store.h, run against every implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "control/store/embedded_store.h"
#include "control/store/etcd_store.h"
#include "control/store/memory_store.h"
#include "control/store/metadata_store.h"
#include "tests/control/etcd_process.h"
#include "tests/control/temp_dir.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

struct Implementation {
  const char* name;
  std::function<std::unique_ptr<MetadataStore>(const std::string& directory)> open;
  /// Watches have everything that has happened at once.
  bool in_process = true;
};

void PrintTo(const Implementation& implementation, std::ostream* out) {
  *out << implementation.name;
}

class MetadataStoreContract : public testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    store_ = GetParam().open(dir_.path());
    if (store_ == nullptr) GTEST_SKIP() << kNoEtcd;
    base_ = store_->get("a")->revision;
  }

  /// The n-th revision that a test makes. Others may have used the store before.
  [[nodiscard]] uint64_t rev(uint64_t n) const { return base_ + n; }
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
  /// The watch's events up to `revision`, in however many batches they come.
  static std::vector<WatchEvent> read_to(Watch& watch, uint64_t revision) {
    std::vector<WatchEvent> events;
    EXPECT_TRUE(eventually([&] {
      const auto batch = watch.next(kSecond);
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok()) return true;
      events.insert(events.end(), batch->events.begin(), batch->events.end());
      return batch->revision >= revision;
    }));
    return events;
  }

  TempDir dir_;
  std::unique_ptr<MetadataStore> store_;
  uint64_t base_ = 0;
};

TEST_P(MetadataStoreContract, Get_ReadingIsNoChange) {
  const auto result = store_->get("a");
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->kv.has_value());
  EXPECT_EQ(result->revision, rev(0));
}

TEST_P(MetadataStoreContract, Get_ShowsCreateAndModRevision) {
  EXPECT_EQ(put("a", "1"), rev(1));
  EXPECT_EQ(put("b", "x"), rev(2));
  EXPECT_EQ(put("a", "2"), rev(3));
  EXPECT_EQ(get("a"), (KeyValue{"a", "2", rev(1), rev(3)}));
  EXPECT_EQ(store_->get("a")->revision, rev(3));
}

TEST_P(MetadataStoreContract, Get_DeletedKeyStartsAnewWhenPutAgain) {
  put("a", "1");
  EXPECT_EQ(run({Operation::erase("a")}), rev(2));
  EXPECT_FALSE(get("a").has_value());
  put("a", "2");
  EXPECT_EQ(get("a"), (KeyValue{"a", "2", rev(3), rev(3)}));
}

TEST_P(MetadataStoreContract, Range_IsSortedAndLimitedToThePrefix) {
  run({Operation::put("n/b", "2"), Operation::put("n/a", "1"), Operation::put("n", "x"), Operation::put("o/a", "y"),
       Operation::put(std::string("n/\xff"), "3")});
  const auto result = store_->range("n/");
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->kvs, ElementsAre(KeyValue{"n/a", "1", rev(1), rev(1)}, KeyValue{"n/b", "2", rev(1), rev(1)},
                                       KeyValue{"n/\xff", "3", rev(1), rev(1)}));
  EXPECT_EQ(result->revision, rev(1));
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
      store_->transact({{Compare::unchanged("a", rev(1)), Compare::absent("a")}, {Operation::put("b", "x")}, {}});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->succeeded);
  EXPECT_FALSE(get("b").has_value());
}

TEST_P(MetadataStoreContract, Transact_WithoutAChangeKeepsTheRevision) {
  put("a", "1");
  EXPECT_EQ(run({}), rev(1));
  EXPECT_EQ(run({Operation::erase("nope")}), rev(1));
  EXPECT_EQ(run({Operation::erase_prefix("nope/")}), rev(1));
  EXPECT_EQ(store_->transact({{Compare::absent("a")}, {Operation::put("a", "2")}, {}})->revision, rev(1));
  EXPECT_EQ(put("a", "1"), rev(2)) << "a put of the same value is a change";
}

TEST_P(MetadataStoreContract, Transact_ErasePrefixTakesAllItsKeys) {
  run({Operation::put("s/1/0", ""), Operation::put("s/1/1", ""), Operation::put("s/10/0", ""),
       Operation::put("s/2/0", "")});
  EXPECT_EQ(run({Operation::erase_prefix("s/1/"), Operation::put("t", "")}), rev(2));
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
  EXPECT_THAT(read_to(*watch("a/", rev(1)), rev(3)),
              testing::UnorderedElementsAre(WatchEvent{WatchEvent::Kind::kPut, {"a/1", "x", rev(1), rev(1)}},
                                            WatchEvent{WatchEvent::Kind::kDelete, {"a/1", "", 0, rev(3)}},
                                            WatchEvent{WatchEvent::Kind::kPut, {"a/2", "z", rev(3), rev(3)}}));
  EXPECT_EQ(read_to(*watch("a/", rev(2)), rev(3)).size(), 2u);
  EXPECT_EQ(read_to(*watch("a/", rev(3)), rev(3)).size(), 2u);
}

TEST_P(MetadataStoreContract, Watch_FromZeroMeansFromNow) {
  put("a", "old");
  const auto watcher = watch("", 0);
  put("a", "new");
  EXPECT_THAT(read_to(*watcher, rev(2)), ElementsAre(WatchEvent{WatchEvent::Kind::kPut, {"a", "new", rev(1), rev(2)}}));
}

TEST_P(MetadataStoreContract, Watch_TimesOutWithAnEmptyBatchAndTheRevision) {
  put("b", "");
  const auto batch = watch("a", rev(1))->next(0);
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(batch->events, IsEmpty());
  EXPECT_EQ(batch->revision, GetParam().in_process ? rev(1) : rev(0));
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
  const auto watcher = watch("a", rev(1));
  put("a", "1");
  EXPECT_EQ(read_to(*watcher, rev(1)).size(), 1u);
  EXPECT_THAT(watcher->next(0)->events, IsEmpty());
  put("a", "2");
  put("a", "3");
  EXPECT_EQ(read_to(*watcher, rev(3)).size(), 2u);
}

TEST_P(MetadataStoreContract, Watch_SplitsLongHistoryBetweenRevisionsOnly) {
  const size_t per_revision = kWatchBatchMax / 2 + 1;
  for (int revision = 1; revision <= 3; ++revision) {
    std::vector<Operation> puts;
    for (size_t i = 0; i < per_revision; ++i) puts.push_back(Operation::put(absl::StrCat(i), "v"));
    run(std::move(puts));
  }
  const auto watcher = watch("", rev(1));
  const auto first = watcher->next(kGenerous);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->events.size(), 2 * per_revision);
  EXPECT_EQ(first->revision, rev(2));
  const auto second = watcher->next(kGenerous);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->events.size(), per_revision);
  EXPECT_EQ(second->revision, rev(3));
}

TEST_P(MetadataStoreContract, Compact_FailsWatchesThatNeedTheHistory) {
  const auto behind = watch("", rev(1));
  for (int i = 0; i < 5; ++i) put("a", absl::StrCat(i));
  const auto in_time = watch("", rev(4));
  ASSERT_TRUE(store_->compact(rev(4)).ok());
  EXPECT_EQ(behind->next(GetParam().in_process ? 0 : kGenerous).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->watch("", rev(3)).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(read_to(*in_time, rev(5)).size(), 2u);
  EXPECT_EQ(get("a")->value, "4");
}

TEST_P(MetadataStoreContract, Compact_GoesForwardOnly) {
  for (int i = 0; i < 5; ++i) put("a", "");
  ASSERT_TRUE(store_->compact(rev(4)).ok());
  EXPECT_TRUE(store_->compact(rev(2)).ok());
  EXPECT_EQ(store_->watch("", rev(3)).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(store_->compact(rev(6)).code(), StatusCode::kOutOfRange);
}

TEST_P(MetadataStoreContract, Compact_KeepsADeletionAtItsRevision) {
  put("a", "");
  ASSERT_EQ(run({Operation::erase("a")}), rev(2));
  put("b", "");
  ASSERT_TRUE(store_->compact(rev(2)).ok());
  EXPECT_EQ(read_to(*watch("", rev(2)), rev(3)).size(), 2u);
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

/// All tests share one etcd; each has a prefix. Null if etcd is not installed.
std::unique_ptr<MetadataStore> open_on_shared_etcd() {
  if (!EtcdProcess::is_installed()) return nullptr;
  static EtcdProcess etcd;
  static int opened = 0;
  auto store = EtcdStore::open({.address = etcd.address(absl::StrCat("test", ++opened)),
                                .call_timeout_ns = kGenerous,
                                .open_timeout_ns = kGenerous});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

INSTANTIATE_TEST_SUITE_P(
    Implementations, MetadataStoreContract,
    testing::Values(Implementation{"memory", [](const std::string&) { return std::make_unique<MemoryStore>(); }},
                    Implementation{"embedded",
                                   [](const std::string& directory) {
                                     auto store = open_embedded_store({.directory = directory});
                                     EXPECT_TRUE(store.ok()) << store.status();
                                     return *std::move(store);
                                   }},
                    Implementation{"etcd", [](const std::string&) { return open_on_shared_etcd(); }, false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace skua::control
