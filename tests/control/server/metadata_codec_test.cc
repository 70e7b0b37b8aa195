#include "control/server/metadata_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/core/cluster_limits.h"
#include "tests/control/core/core_fixture.h"

namespace skua::control::metadata {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

ClusterState sample_state() {
  ClusterState state = empty_cluster();
  state.map_revision = 9;
  state.next_table_id = 0x20;
  state.nodes[test_uuid(1)] = test_node(1, 3);
  state.nodes[test_uuid(2)] = test_node(2);
  state.tables[0x1f] = {0x1f, "t", 2};
  state.shards[{0x1f, 0}] = {0x1f, 0, 4, Replica{test_uuid(1), 1}, {Replica{test_uuid(2), 0}}};
  state.shards[{0x1f, 1}] = {0x1f, 1, 2, std::nullopt, {}};
  return state;
}

/// The same with everything that replication adds.
ClusterState replicated_state() {
  ClusterState state = sample_state();
  state.nodes[test_uuid(1)].zone = "rack-1";
  state.nodes[test_uuid(1)].storage_incarnation = 4;
  state.nodes[test_uuid(1)].draining = true;
  state.nodes[test_uuid(1)].replication_version = 9;
  state.nodes[test_uuid(1)].secret = test_uuid(1234);
  state.tables[0x1f].replicas = 3;
  state.tables[0x1f].min_insync = 2;
  state.tables[0x1f].read_anywhere = true;
  state.tables[0x1f].hash_tags = true;
  ShardRecord& shard = state.shards[{0x1f, 0}];
  shard.primary->storage_incarnation = 4;
  state.nodes[test_uuid(3)] = test_node(3);
  shard.learners = {{{test_uuid(3), 1, 2}, 6}};
  shard.leaving = {test_uuid(2)};
  shard.former = {test_uuid(3), test_uuid(8)};  // a learner now; a node that was removed since
  shard.change = 11;
  shard.next_join = 7;
  shard.fork = 1;
  shard.primary_incarnation = 3;
  return state;
}

/// The whole state as one change on an empty cluster.
Changes everything(const ClusterState& state) {
  Changes changes;
  for (const auto& [uuid, node] : state.nodes) changes.put_nodes.push_back(node);
  for (const auto& [id, table] : state.tables) changes.put_tables.push_back(table);
  for (const auto& [key, shard] : state.shards) changes.put_shards.push_back(shard);
  changes.map_revision = state.map_revision;
  changes.next_table_id = state.next_table_id;
  return changes;
}

std::vector<KeyValue> stored(const ClusterState& state) {
  std::map<std::string, std::string> kvs;
  for (const Operation& op : encode_new_cluster(state)) kvs[op.key] = op.value;
  for (const Operation& op : encode_changes(everything(state))) kvs[op.key] = op.value;
  std::vector<KeyValue> result;
  for (const auto& [key, value] : kvs) result.push_back({key, value, 1, 1});
  return result;
}

TEST(Keys, SortNumerically) {
  EXPECT_EQ(node_key("u"), "skua/nodes/u");
  EXPECT_EQ(table_key(31), "skua/tables/000000000000001f");
  EXPECT_EQ(shard_key(31, 10), "skua/shards/000000000000001f/0000000a");
  EXPECT_EQ(shards_prefix(31), "skua/shards/000000000000001f/");
}

TEST(State, RoundTrips) {
  const ClusterState state = sample_state();
  const auto decoded = decode_state(stored(state));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->cluster_id, state.cluster_id);
  EXPECT_EQ(decoded->cluster_name, state.cluster_name);
  EXPECT_EQ(decoded->map_revision, state.map_revision);
  EXPECT_EQ(decoded->next_table_id, state.next_table_id);
  EXPECT_EQ(decoded->nodes, state.nodes);
  EXPECT_EQ(decoded->tables, state.tables);
  EXPECT_EQ(decoded->shards, state.shards);
}

TEST(State, RoundTripsWithReplication) {
  const ClusterState state = replicated_state();
  const auto decoded = decode_state(stored(state));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->nodes, state.nodes);
  EXPECT_EQ(decoded->tables, state.tables);
  EXPECT_EQ(decoded->shards, state.shards);
}

TEST(State, RoundTripsWhoIsRevoked) {
  ClusterState state = sample_state();
  EXPECT_THAT(decode_state(stored(state))->denied, testing::IsEmpty())
      << "as states were written before there was a list";
  Changes revoked = everything(state);
  revoked.put_denied = {"admin/eve", "client/app-7"};
  std::map<std::string, std::string> kvs;
  const auto carry_out = [&](const std::vector<Operation>& operations) {
    for (const Operation& op : operations) {
      op.kind == Operation::Kind::kPut ? kvs[op.key] = op.value : (kvs.erase(op.key), std::string());
    }
    std::vector<KeyValue> result;
    for (const auto& [key, value] : kvs) result.push_back({key, value, 1, 1});
    return decode_state(result);
  };
  (void)carry_out(encode_new_cluster(state));
  EXPECT_EQ(carry_out(encode_changes(revoked))->denied, *revoked.put_denied);
  // A change of something else leaves the list alone, and the last one to leave takes the record along: an older
  // release reads the store again.
  EXPECT_EQ(carry_out(encode_changes(everything(state)))->denied, *revoked.put_denied);
  revoked.put_denied->clear();
  EXPECT_THAT(carry_out(encode_changes(revoked))->denied, testing::IsEmpty());
  EXPECT_FALSE(kvs.contains(kDeniedKey));
}

TEST(State, RoundTripsGrants) {
  ClusterState state = sample_state();
  EXPECT_THAT(decode_state(stored(state))->grants, testing::IsEmpty());
  Changes granted = everything(state);
  granted.put_grants[0x1f] = {{"client/a", kRightRead}, {"client/b", kRightsAll}};
  std::map<std::string, std::string> kvs;
  const auto carry_out = [&](const std::vector<Operation>& operations) {
    for (const Operation& op : operations) {
      op.kind == Operation::Kind::kPut ? kvs[op.key] = op.value : (kvs.erase(op.key), std::string());
    }
    std::vector<KeyValue> result;
    for (const auto& [key, value] : kvs) result.push_back({key, value, 1, 1});
    return decode_state(result);
  };
  (void)carry_out(encode_new_cluster(state));
  EXPECT_EQ(carry_out(encode_changes(granted))->grants, granted.put_grants);
  EXPECT_TRUE(kvs.contains("skua/grants/000000000000001f"));
  EXPECT_EQ(carry_out(encode_changes(everything(state)))->grants, granted.put_grants);
  // An older release reads the store again when the last one is gone.
  granted.put_grants[0x1f].clear();
  EXPECT_THAT(carry_out(encode_changes(granted))->grants, testing::IsEmpty());
  EXPECT_FALSE(kvs.contains(grants_key(0x1f)));
}

TEST(State, RoundTripsQuotas) {
  const ClusterState state = sample_state();
  EXPECT_THAT(decode_state(stored(state))->quotas, testing::IsEmpty())
      << "as states were written before there were quotas";
  Changes limited = everything(state);
  limited.put_quotas = Quotas{{"client/a", {1, 2, 3, 4}}, {"client/b", {0, kQuotaBytesMax, 0, 0}}};
  std::map<std::string, std::string> kvs;
  const auto carry_out = [&](const std::vector<Operation>& operations) {
    for (const Operation& op : operations) {
      op.kind == Operation::Kind::kPut ? kvs[op.key] = op.value : (kvs.erase(op.key), std::string());
    }
    std::vector<KeyValue> result;
    for (const auto& [key, value] : kvs) result.push_back({key, value, 1, 1});
    return decode_state(result);
  };
  (void)carry_out(encode_new_cluster(state));
  EXPECT_EQ(carry_out(encode_changes(limited))->quotas, *limited.put_quotas);
  EXPECT_EQ(carry_out(encode_changes(everything(state)))->quotas, *limited.put_quotas);
  // An older release reads the store again when the last one is gone.
  limited.put_quotas->clear();
  EXPECT_THAT(carry_out(encode_changes(limited))->quotas, testing::IsEmpty());
  EXPECT_FALSE(kvs.contains(kQuotasKey));
}

TEST(State, RoundTripsJoinTokens) {
  const ClusterState state = sample_state();
  Changes given = everything(state);
  given.put_join_tokens = JoinTokens{{std::string(64, 'a'), {"client/a", 1'800'000'000}},
                                     {std::string(64, 'b'), {"node/b", 1'900'000'000, std::string(64, 'c')}}};
  std::map<std::string, std::string> kvs;
  const auto carry_out = [&](const std::vector<Operation>& operations) {
    for (const Operation& op : operations) {
      op.kind == Operation::Kind::kPut ? kvs[op.key] = op.value : (kvs.erase(op.key), std::string());
    }
    std::vector<KeyValue> result;
    for (const auto& [key, value] : kvs) result.push_back({key, value, 1, 1});
    return decode_state(result);
  };
  (void)carry_out(encode_new_cluster(state));
  EXPECT_EQ(carry_out(encode_changes(given))->join_tokens, *given.put_join_tokens);
  EXPECT_EQ(carry_out(encode_changes(everything(state)))->join_tokens, *given.put_join_tokens);
  given.put_join_tokens->clear();
  EXPECT_THAT(carry_out(encode_changes(given))->join_tokens, testing::IsEmpty());
  EXPECT_FALSE(kvs.contains(kJoinTokensKey));
}

TEST(DecodeState, JoinTokensThatCannotBeAreDataLoss) {
  const auto refused = [](const std::string& hash, const JoinTokenRecord& token, const std::string& behind = "") {
    Changes changes = everything(sample_state());
    changes.put_join_tokens = JoinTokens{{hash, token}};
    std::vector<KeyValue> kvs = stored(sample_state());
    for (const Operation& op : encode_changes(changes)) {
      if (op.key == kJoinTokensKey) kvs.push_back({op.key, op.value + behind, 1, 1});
    }
    const absl::Status status = decode_state(kvs).status();
    return status.code() == StatusCode::kDataLoss && status.message().find(kJoinTokensKey) != std::string::npos;
  };
  const std::string hash(64, 'a');
  EXPECT_FALSE(refused(hash, {"client/a", 1'800'000'000}));
  EXPECT_TRUE(refused(hash, {"client/a", 1'800'000'000}, "\xff"));
  EXPECT_TRUE(refused("secret", {"client/a", 1'800'000'000}));
  EXPECT_TRUE(refused(hash, {"control/c1", 1'800'000'000}));
  EXPECT_TRUE(refused(hash, {"client/a", 1'800'000'000, "key"}));
}

TEST(DecodeState, GrantsThatCannotBeAreDataLoss) {
  const auto refused = [](TableId table, const TableGrants& grants, const std::string& behind = "") {
    Changes changes = everything(sample_state());
    changes.put_grants[table] = grants;
    std::vector<KeyValue> kvs = stored(sample_state());
    for (const Operation& op : encode_changes(changes)) {
      if (op.key == grants_key(table)) kvs.push_back({op.key, op.value + behind, 1, 1});
    }
    const absl::Status status = decode_state(kvs).status();
    return status.code() == StatusCode::kDataLoss && status.message().find("grants/") != std::string::npos;
  };
  EXPECT_FALSE(refused(0x1f, {{"client/a", kRightRead}}));
  EXPECT_TRUE(refused(0x1f, {{"client/a", kRightRead}}, "\xff"));
  EXPECT_TRUE(refused(0x1e, {{"client/a", kRightRead}})) << "no such table";
  EXPECT_TRUE(refused(0x1f, {{"admin/a", kRightRead}}));
  EXPECT_TRUE(refused(0x1f, {{"client/a", 0}}));
  EXPECT_TRUE(refused(0x1f, {{"client/a", kRightsAll + 1}})) << "a later release's right is not dropped";
  EXPECT_TRUE(refused(0x1f, {{"client/a", kRightRead}},
                      std::string("\x12\x0c\x0a\x08"
                                  "client/a\x10\x01",
                                  14)))
      << "twice";
  TableGrants many;
  for (size_t i = 0; i <= kGrantsMax; ++i) many["client/" + std::to_string(i)] = kRightRead;
  EXPECT_TRUE(refused(0x1f, many));
}

TEST(DecodeState, QuotasThatCannotBeAreDataLoss) {
  const auto refused = [](const Quotas& quotas, const std::string& behind = "") {
    Changes changes = everything(sample_state());
    changes.put_quotas = quotas;
    std::vector<KeyValue> kvs = stored(sample_state());
    for (const Operation& op : encode_changes(changes)) {
      if (op.key == kQuotasKey) kvs.push_back({op.key, op.value + behind, 1, 1});
    }
    const absl::Status status = decode_state(kvs).status();
    return status.code() == StatusCode::kDataLoss && status.message().find(kQuotasKey) != std::string::npos;
  };
  EXPECT_FALSE(refused({{"client/a", {1, 0, 0, 0}}}));
  EXPECT_TRUE(refused({{"client/a", {1, 0, 0, 0}}}, "\xff"));
  EXPECT_TRUE(refused({{"node/a", {1, 0, 0, 0}}}));
  EXPECT_TRUE(refused({{"client/a", {}}})) << "a later release's limit is not dropped";
  EXPECT_TRUE(refused({{"client/a", {kQuotaOperationsMax + 1, 0, 0, 0}}}));
  EXPECT_TRUE(refused({{"client/a", {1, 0, 0, 0}}}, std::string("\x0a\x0c\x0a\x08"
                                                                "client/a\x10\x01",
                                                                14)))
      << "twice";
  Quotas many;
  for (size_t i = 0; i <= kQuotasMax; ++i) many["client/" + std::to_string(i)] = {1, 0, 0, 0};
  EXPECT_TRUE(refused(many));
}

TEST(DecodeState, AListThatCannotBeReadIsDataLoss) {
  std::vector<KeyValue> kvs = stored(sample_state());
  kvs.push_back({kDeniedKey, "\xff", 1, 1});
  EXPECT_EQ(decode_state(kvs).status().code(), StatusCode::kDataLoss) << "not: nobody is revoked";
}

TEST(DecodeState, RecordsWithoutReplicationAreTablesOfOneReplica) {
  // As they were written before there were replicas: id 5, "t", one shard, served by node 1 in epoch 3.
  ClusterState state = sample_state();
  state.tables.clear();
  state.shards.clear();
  std::vector<KeyValue> old = stored(state);
  const std::string uuid = test_uuid(1);
  const std::string replica = "\x0a\x24" + uuid + "\x10\x01";
  old.push_back({table_key(5), std::string("\x08\x05\x12\x01t\x18\x01"), 1, 1});
  old.push_back(
      {shard_key(5, 0), std::string("\x08\x05\x18\x03\x22") + static_cast<char>(replica.size()) + replica, 1, 1});
  const auto decoded = decode_state(old);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->tables.at(5), (Table{5, "t", 1, 1, 1, false}));
  EXPECT_EQ(decoded->shards.at({5, 0}), (ShardRecord{5, 0, 3, Replica{uuid, 1}}));
}

TEST(DecodeState, ReplicasThatCannotBeAreDataLoss) {
  const auto refused = [](auto&& spoil) {
    ClusterState state = replicated_state();
    spoil(state.shards[{0x1f, 0}]);
    return decode_state(stored(state)).status().code() == StatusCode::kDataLoss;
  };
  EXPECT_TRUE(refused([](ShardRecord& r) { r.backups.push_back(*r.primary); }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.learners[0].replica.node_uuid = test_uuid(9); }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.backups[0].node_uuid = test_uuid(9); }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.leaving = {test_uuid(3)}; }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.primary.reset(); }));
  const auto on_worker = [](Replica& replica) { replica.worker = kWorkersPerNodeMax; };
  EXPECT_TRUE(refused([&](ShardRecord& r) { on_worker(*r.primary); })) << "no client takes such a map";
  EXPECT_TRUE(refused([&](ShardRecord& r) { on_worker(r.backups[0]); }));
  EXPECT_TRUE(refused([&](ShardRecord& r) { on_worker(r.learners[0].replica); }));
}

TEST(DecodeState, TablesThatNobodyCouldUseAreDataLoss) {
  const auto refused = [](uint32_t shard_count) {
    ClusterState state = replicated_state();
    state.tables.begin()->second.shard_count = shard_count;
    std::erase_if(state.shards, [&](const auto& entry) { return entry.first.second >= shard_count; });
    const absl::Status status = decode_state(stored(state)).status();
    return status.code() == StatusCode::kDataLoss && status.message().find("tables/") != std::string::npos;
  };
  EXPECT_TRUE(refused(0)) << "no client takes a map with such a table";
  EXPECT_TRUE(refused(kShardsPerTableMax + 1));
}

TEST(EncodeChanges, ATableWithHashTagsHasNoShardsForBuildsBefore) {
  Changes changes;
  changes.put_tables.push_back(Table{5, "t", 2, 1, 1, false, true});
  std::string record;
  for (const Operation& op : encode_changes(changes)) {
    if (op.key == table_key(5)) record = op.value;
  }
  // id 5, "t", no shard_count (field 3), replicas, min_insync, hash_tag_shard_count.
  EXPECT_EQ(record, "\x08\x05\x12\x01t\x20\x01\x28\x01\x38\x02");
}

TEST(EncodeChanges, DropTakesAllShardsWithThePrefix) {
  Changes changes;
  changes.delete_tables.push_back(31);
  const auto operations = encode_changes(changes);
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(operations[1].kind, Operation::Kind::kDeletePrefix);
  EXPECT_EQ(operations[1].key, shards_prefix(31));
  EXPECT_EQ(operations[2].key, kMapKey);
}

TEST(DecodeState, DamageIsDataLossNamingTheKey) {
  const std::vector<KeyValue> good = stored(sample_state());
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<KeyValue> bad = good;
    bad[i].value = "\xff garbage";
    const auto decoded = decode_state(bad);
    EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss) << good[i].key;
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(good[i].key));
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("backup"));
  }
}

TEST(DecodeState, MissingAndForeignKeysAreDataLoss) {
  const std::vector<KeyValue> good = stored(sample_state());
  for (size_t i = 0; i < good.size(); ++i) {
    if (good[i].key == node_key(test_uuid(2))) continue;  // a node without shards may go
    std::vector<KeyValue> bad = good;
    bad.erase(bad.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(decode_state(bad).status().code(), StatusCode::kDataLoss) << good[i].key;
  }
  std::vector<KeyValue> bad = good;
  bad.push_back({"skua/unheard-of", "", 1, 1});
  EXPECT_EQ(decode_state(bad).status().code(), StatusCode::kDataLoss);
}

TEST(DecodeState, RecordUnderAnotherKeyIsDataLoss) {
  std::vector<KeyValue> bad = stored(sample_state());
  for (KeyValue& kv : bad) {
    if (kv.key == shard_key(31, 1)) kv.value = bad[bad.size() - 2].value;
  }
  bad.back().value = bad[bad.size() - 3].value;
  EXPECT_EQ(decode_state(bad).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace skua::control::metadata
