// What is etcd's own: members that are away, limits, restarts, other users, and the condition that the leader has not
// changed. metadata_store_contract_test.cc has the rest.
#include "control/store/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "control/store/memory_store.h"
#include "rpc/base/rng.h"
#include "tests/app/free_port.h"
#include "tests/control/etcd_process.h"
#include "tests/control/wait.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

class EtcdStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdProcess::is_installed()) GTEST_SKIP() << kNoEtcd;
  }

  static std::unique_ptr<EtcdStore> open(const EtcdAddress& address) {
    auto store = EtcdStore::open({.address = address, .open_timeout_ns = kGenerous});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  static uint64_t put(MetadataStore& store, const std::string& key, const std::string& value) {
    const auto result = store.transact({{}, {Operation::put(key, value)}, {}});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->revision : 0;
  }
  /// The watch's events up to `revision`, whatever happens to etcd meanwhile.
  static std::vector<WatchEvent> read_to(Watch& watch, uint64_t revision) {
    std::vector<WatchEvent> events;
    uint64_t reached = 0;
    EXPECT_TRUE(eventually([&] {
      const auto batch = watch.next(kSecond);
      if (!batch.ok()) return false;
      events.insert(events.end(), batch->events.begin(), batch->events.end());
      reached = batch->revision;
      return reached >= revision;
    }));
    return events;
  }
};

TEST_F(EtcdStoreTest, Open_UnreachableIsOneLineWithTheWayOut) {
  const auto store = EtcdStore::open({.address = {{app::free_address()}, "p"}, .open_timeout_ns = 300 * kMillisecond});
  EXPECT_EQ(store.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(text(store.status()),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("cannot be reached"), HasSubstr("--metadata")));
}

TEST_F(EtcdStoreTest, Open_GoesOnToTheMemberThatAnswers) {
  EtcdProcess etcd;
  EtcdAddress address = etcd.address("p");
  address.endpoints.insert(address.endpoints.begin(), app::free_address());
  const auto store = open(address);
  ASSERT_NE(store, nullptr);
  put(*store, "a", "1");
  EXPECT_EQ(store->get("a")->kv->value, "1");
}

TEST_F(EtcdStoreTest, Prefixes_DoNotSeeEachOther) {
  EtcdProcess etcd;
  const auto one = open(etcd.address("p"));
  const auto other = open(etcd.address("p/k"));
  ASSERT_TRUE(one != nullptr && other != nullptr);
  const uint64_t first = put(*one, "a", "one");
  put(*other, "a", "other");
  const uint64_t last = put(*one, "b", "one");
  EXPECT_EQ(one->range("")->kvs.size(), 2u);
  EXPECT_EQ(other->range("")->kvs.size(), 1u);
  EXPECT_EQ(read_to(**one->watch("", first), last).size(), 2u);
  EXPECT_TRUE(one->transact({{}, {Operation::erase_prefix("a")}, {}}).ok());
  EXPECT_EQ(other->get("a")->kv->value, "other");
}

TEST_F(EtcdStoreTest, Transact_LimitsOfEtcdNameTheOption) {
  EtcdProcess etcd(std::vector<std::string>{});
  const auto store = open(etcd.address("p"));
  ASSERT_NE(store, nullptr);
  Transaction many;
  for (int i = 0; i < 200; ++i) many.then_ops.push_back(Operation::put(absl::StrCat(i), ""));
  const auto too_many = store->transact(many);
  EXPECT_EQ(too_many.status().code(), StatusCode::kInvalidArgument) << too_many.status();
  EXPECT_THAT(text(too_many.status()), HasSubstr("--max-txn-ops="));
  Transaction large;
  for (int i = 0; i < 3; ++i)
    large.then_ops.push_back(Operation::put(absl::StrCat(i), std::string(kStoreValueMax, 'v')));
  const auto too_large = store->transact(large);
  EXPECT_EQ(too_large.status().code(), StatusCode::kInvalidArgument) << too_large.status();
  EXPECT_THAT(text(too_large.status()), HasSubstr("--max-request-bytes="));
  EXPECT_TRUE(store->range("")->kvs.empty());
}

TEST_F(EtcdStoreTest, Watch_PutsFragmentsTogether) {
  EtcdProcess etcd(std::vector<std::string>{});
  const auto store = open(etcd.address("p"));
  ASSERT_NE(store, nullptr);
  const uint64_t first = put(*store, "0", std::string(kStoreValueMax, 'v'));
  uint64_t last = first;
  for (int i = 1; i < 5; ++i) last = put(*store, absl::StrCat(i), std::string(kStoreValueMax, 'v'));
  const auto events = read_to(**store->watch("", first), last);
  ASSERT_EQ(events.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(events[i].kv.key, absl::StrCat(i));
}

TEST_F(EtcdStoreTest, Restart_WatchAndStoreGoOn) {
  EtcdProcess etcd;
  const auto store = open(etcd.address("p"));
  ASSERT_NE(store, nullptr);
  const uint64_t first = put(*store, "a", "1");
  const auto watch = *store->watch("a", first);
  EXPECT_EQ(read_to(*watch, first).size(), 1u);
  etcd.kill9();
  EXPECT_EQ(store->transact({{}, {Operation::put("a", "lost?")}, {}}).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(eventually([&] { return watch->next(0).status().code() == StatusCode::kUnavailable; }));
  etcd.start();
  uint64_t last = 0;
  ASSERT_TRUE(eventually([&] {
    const auto result = store->transact({{}, {Operation::put("a", "2")}, {}});
    if (result.ok()) last = result->revision;
    return result.ok();
  }));
  const auto events = read_to(*watch, last);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kv.value, "2");
  for (const WatchEvent& event : events) EXPECT_GT(event.kv.mod_revision, first);
}

TEST_F(EtcdStoreTest, RequireLeader_WithoutTheLeaderKeyNothingIsWritten) {
  EtcdProcess etcd;
  const auto store = open(etcd.address("p"));
  ASSERT_NE(store, nullptr);
  store->require_leader(12345);
  const auto nobody = store->transact({{}, {Operation::put("a", "1")}, {}});
  EXPECT_EQ(nobody.status().code(), StatusCode::kFailedPrecondition) << nobody.status();
  EXPECT_THAT(text(nobody.status()), HasSubstr("nobody does"));
  EXPECT_FALSE(store->get("a")->kv.has_value());
  store->require_leader(0);
  EXPECT_TRUE(store->transact({{}, {Operation::put("a", "1")}, {}}).ok());
}

std::vector<Operation> random_operations(Rng& rng) {
  std::vector<Operation> operations;
  for (uint64_t i = rng.below(4); i > 0; --i) {
    const std::string key = absl::StrCat(rng.below(3), "/", rng.below(5));
    switch (rng.below(6)) {
      case 0: operations.push_back(Operation::erase_prefix(absl::StrCat(rng.below(3), "/"))); break;
      case 1: operations.push_back(Operation::erase(key)); break;
      default: operations.push_back(Operation::put(key, absl::StrCat(rng.next()))); break;
    }
  }
  return operations;
}

TEST_F(EtcdStoreTest, AgreesWithTheTwin) {
  EtcdProcess etcd;
  const auto store = open(etcd.address("p"));
  ASSERT_NE(store, nullptr);
  MemoryStore twin;
  const uint64_t base = store->get("x")->revision;
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    const uint64_t revision = twin.get("x")->revision;
    Transaction of_twin;
    for (uint64_t n = rng.below(3); n > 0; --n) {
      const uint64_t wanted = rng.chance(0.5) ? 0 : rng.below(revision + 1);
      of_twin.compares.push_back({absl::StrCat(rng.below(3), "/", rng.below(5)), wanted});
    }
    of_twin.then_ops = random_operations(rng);
    of_twin.else_ops = random_operations(rng);
    Transaction of_etcd = of_twin;
    for (Compare& compare : of_etcd.compares) compare.mod_revision += compare.mod_revision == 0 ? 0 : base;
    const auto expected = twin.transact(of_twin);
    const auto actual = store->transact(of_etcd);
    ASSERT_EQ(actual.status().code(), expected.status().code()) << actual.status();
    if (!expected.ok()) continue;
    ASSERT_EQ(actual->succeeded, expected->succeeded);
    ASSERT_EQ(actual->revision, base + expected->revision);
    auto kvs = twin.range("")->kvs;
    for (KeyValue& kv : kvs) {
      kv.create_revision += base;
      kv.mod_revision += base;
    }
    ASSERT_EQ(store->range("")->kvs, kvs);
  }
}

}  // namespace
}  // namespace skua::control
