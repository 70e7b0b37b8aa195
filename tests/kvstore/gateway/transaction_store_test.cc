// What EXEC asks of the cluster, by what the commands have asked of the TransactionStore.
#include "kvstore/gateway/transaction_store.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"
#include "kvstore/codec/size_limits.h"
#include "rpc/base/bytes.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

using Kind = StoreRequest::Kind;
using Status = StoreResult::Status;

std::string text_of(const StoreRequest& operation) {
  constexpr const char* kNames[] = {"get",    "put",  "remove", "add",   "append",
                                    "expire", "scan", "edit",   "batch", "check"};
  std::string out = absl::StrCat(kNames[static_cast<size_t>(operation.kind)], " ", absl_view(operation.key));
  if (operation.kind == Kind::kPut) absl::StrAppend(&out, " ", absl_view(operation.value));
  if (operation.if_version.has_value()) absl::StrAppend(&out, " version=", *operation.if_version);
  if (operation.if_absent) out += " absent";
  if (operation.keep_ttl) out += " keep";
  if (operation.ttl_ms > 0) absl::StrAppend(&out, " ttl=", operation.ttl_ms);
  if (operation.mark.tag > 0) absl::StrAppend(&out, " tag=", operation.mark.tag);
  return out;
}

class TransactionStores : public ::testing::Test {
 protected:
  void learn(std::string_view key, uint64_t version, std::string_view value = "1") {
    if (version == 0) return store.learn(key, {.status = Status::kNotFound});
    store.learn(key, {.version = version, .mark = {.tag = 5}, .value = ValueView(value, rpc::Lease()), .ttl_ms = 900});
  }
  std::vector<std::string> batch() {
    std::vector<std::string> out;
    for (const StoreRequest& operation : store.batch(transaction, 0)) out.push_back(text_of(operation));
    return out;
  }
  using Texts = std::vector<std::string>;

  TransactionStore store;
  Transaction transaction;
};

TEST_F(TransactionStores, AsksForWhatItDoesNotKnow) {
  EXPECT_TRUE(store.needs({.kind = Kind::kGet, .key = "a"}));
  EXPECT_TRUE(store.needs({.kind = Kind::kAdd, .key = "a", .delta = 1}));
  EXPECT_TRUE(store.needs({.kind = Kind::kRemove, .key = "a"}));
  EXPECT_TRUE(store.needs({.kind = Kind::kPut, .key = "a", .if_absent = true}));
  EXPECT_TRUE(store.needs({.kind = Kind::kPut, .key = "a", .keep_ttl = true}));
  EXPECT_FALSE(store.needs({.kind = Kind::kPut, .key = "a"}));
  EXPECT_TRUE(store.run({.kind = Kind::kPut, .key = "a", .value = "x"}).ok());
  EXPECT_FALSE(store.needs({.kind = Kind::kGet, .key = "a"}));
  EXPECT_EQ(store.run({.kind = Kind::kGet, .key = "a"}).value.str(), "x");
  EXPECT_EQ(store.run({.kind = Kind::kScan}).status, Status::kRefused);
}

TEST_F(TransactionStores, OneOperationForEachKey) {
  learn("a", 10);
  learn("b", 20);
  learn("c", 30);
  learn("d", 40);
  learn("e", 0);
  learn("f", 0);
  learn("g", 50);
  EXPECT_EQ(store.run({.kind = Kind::kAdd, .key = "a", .delta = 4}).number, 5);
  EXPECT_EQ(store.run({.kind = Kind::kAdd, .key = "a", .delta = 4}).number, 9);
  EXPECT_TRUE(store.run({.kind = Kind::kExpire, .key = "b", .ttl_ms = 70}).ok());
  EXPECT_TRUE(store.run({.kind = Kind::kRemove, .key = "c"}).ok());
  EXPECT_EQ(store.run({.kind = Kind::kGet, .key = "d", .with_ttl = true}).ttl_ms, 900U);
  EXPECT_TRUE(store.run({.kind = Kind::kPut, .key = "e", .value = "n", .if_absent = true, .ttl_ms = 80}).ok());
  EXPECT_TRUE(store.run({.kind = Kind::kAppend, .key = "f", .value = "n"}).ok());
  EXPECT_TRUE(store.run({.kind = Kind::kRemove, .key = "f"}).ok());
  EXPECT_TRUE(store.run({.kind = Kind::kPut, .key = "g", .value = "n"}).ok());
  EXPECT_TRUE(store.run({.kind = Kind::kPut, .key = "h", .value = "n"}).ok());
  EXPECT_EQ(batch(), (Texts{"put a 9 version=10 keep tag=5", "expire b version=20 ttl=70", "remove c version=30",
                            "check d version=40", "put e n absent ttl=80", "check f absent", "put g n", "put h n"}));
}

TEST_F(TransactionStores, WatchedKeysHaveTheirVersionsAsConditions) {
  ASSERT_TRUE(transaction.watch(0, "a"));
  ASSERT_TRUE(transaction.watch(0, "b"));
  ASSERT_TRUE(transaction.watch(0, "b"));
  transaction.watched()[1].version = 7;
  ASSERT_TRUE(transaction.watch(0, "c"));
  EXPECT_TRUE(store.run({.kind = Kind::kPut, .key = "c", .value = "n"}).ok());
  EXPECT_EQ(batch(), (Texts{"put c n absent", "check a absent", "check b version=7"}));
}

TEST_F(TransactionStores, ValuesLiveUntilTheEndOfTheCommand) {
  learn("a", 10, "old");
  const StoreResult old = store.run({.kind = Kind::kGet, .key = "a"});
  EXPECT_TRUE(store.run({.kind = Kind::kPut, .key = "a", .value = "new", .if_version = old.version}).ok());
  EXPECT_EQ(old.value.str(), "old");
  EXPECT_EQ(store.run({.kind = Kind::kPut, .key = "a", .value = "new", .if_version = old.version}).status,
            Status::kOtherVersion);
  store.end_command();
  EXPECT_EQ(store.value_bytes(), 3U);
  EXPECT_TRUE(store.run({.kind = Kind::kRemove, .key = "a"}).ok());
  EXPECT_EQ(store.value_bytes(), 0U);
  EXPECT_EQ(store.run({.kind = Kind::kRemove, .key = "a"}).status, Status::kNotFound);
  EXPECT_EQ(store.run({.kind = Kind::kExpire, .key = "a"}).status, Status::kNotFound);
}

TEST_F(TransactionStores, EditsOfRows) {
  std::string sets;
  append_field(sets, {"f", as_byte_span("1")});
  std::string removes;
  append_field(removes, {.name = "f", .is_removed = true});
  const auto edit = [&](std::string_view key, std::string_view fields, bool creates) {
    return store.run({.kind = Kind::kEdit, .key = key, .value = fields, .mark = {.row = true}, .creates = creates});
  };
  learn("a", 10, "a string");
  learn("b", 0);
  learn("c", 0);
  EXPECT_EQ(edit("a", sets, true).status, Status::kNotARow);
  EXPECT_EQ(edit("b", removes, false).status, Status::kNotFound);
  EXPECT_EQ(edit("b", sets, true).fields, (PatchCounts{1, 0, 1}));
  EXPECT_EQ(edit("b", sets, true).fields, (PatchCounts{0, 0, 1}));
  EXPECT_EQ(edit("c", sets, true).fields, (PatchCounts{1, 0, 1}));
  EXPECT_EQ(edit("c", removes, false).fields, (PatchCounts{0, 1, 0}));
  std::string many;
  for (size_t i = 0; i < kFieldsMax; ++i) append_field(many, {absl::StrCat("g", i), {}});
  EXPECT_EQ(edit("b", many, true).status, Status::kRefused);
  EXPECT_EQ(batch(),
            (Texts{"check a version=10", absl::StrCat("put b ", absl_view(sets), " absent"), "check c absent"}));
}

TEST_F(TransactionStores, Numbers) {
  learn("a", 10, "x");
  learn("b", 20, "9223372036854775807");
  EXPECT_EQ(store.run({.kind = Kind::kAdd, .key = "a", .delta = 1}).status, Status::kNotANumber);
  EXPECT_EQ(store.run({.kind = Kind::kAdd, .key = "b", .delta = 1}).status, Status::kOverflow);
  EXPECT_EQ(batch(), (Texts{"check a version=10", "check b version=20"})) << "the errors depend on the values";
}

}  // namespace
}  // namespace skua::kv::gateway
