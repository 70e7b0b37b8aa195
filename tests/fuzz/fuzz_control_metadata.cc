// What the control plane reads at start: whatever is stored, it is refused by name or makes a state that a core can
// work with, that clients take as a map, and that is stored again as it was read.
//
//     input = records;  record = kind | number | length (2 bytes) | value
//
// Values of kind 8 to 15 stand for the record that belongs under their key, with one byte changed: fuzzers rarely
// guess keys that values agree with.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <source_location>
#include <string>
#include <vector>

#include "control/core/cluster_core.h"
#include "control/core/cluster_progress.h"
#include "control/core/shard_map.h"
#include "control/proto/convert.h"
#include "control/server/metadata_codec.h"
#include "control/server/state_store.h"
#include "control/store/memory_store.h"
#include "tests/control/core/core_fixture.h"

namespace {

using namespace skua::control;  // NOLINT(google-build-using-namespace)

void require(bool condition, std::source_location where = std::source_location::current()) {
  if (condition) return;
  std::fprintf(stderr, "%s:%u is not so\n", where.file_name(), static_cast<unsigned>(where.line()));
  std::abort();
}

/// A cluster with everything in it.
std::map<std::string, std::string> good_records() {
  ClusterState state = empty_cluster();
  Changes changes;
  for (uint64_t n = 1; n <= 3; ++n) changes.put_nodes.push_back(test_node(n));
  changes.put_tables.push_back({1, "t", 2, 3, 2, false});
  changes.put_tables.push_back({2, "u", 1});
  for (uint32_t shard = 0; shard < 2; ++shard) {
    ShardRecord record{1, shard, 4, Replica{test_uuid(1), 1, 0}, {{test_uuid(2), 0, 0}}};
    record.learners.push_back({{test_uuid(3), 1, 0}, 5});
    record.leaving.push_back(test_uuid(2));
    record.change = 9;
    record.next_join = 6;
    changes.put_shards.push_back(record);
  }
  changes.put_shards.push_back({2, 0, 1, Replica{test_uuid(3), 0, 0}});
  changes.put_join_tokens = JoinTokens{{std::string(64, 'a'), {"client/a", 1'900'000'000}},
                                       {std::string(64, 'b'), {"client/b", 1'900'000'000, std::string(64, 'c')}}};
  changes.put_grants[2] = {{"client/a", kRightRead}, {"client/b", kRightsAll}};
  changes.put_quotas = Quotas{{"client/a", {1, 2, 3, 4}}, {"client/b", {0, 5, 0, 0}}};
  changes.map_revision = 7;
  changes.next_table_id = 3;
  std::map<std::string, std::string> records;
  for (const Operation& put : metadata::encode_new_cluster(state)) records[put.key] = put.value;
  for (const Operation& put : metadata::encode_changes(changes)) records[put.key] = put.value;
  return records;
}

std::string key_of(uint8_t kind, uint8_t n) {
  switch (kind % 8) {
    case 0: return metadata::kClusterKey;
    case 1: return n < 0x80 ? metadata::kMapKey : metadata::kQuotasKey;
    case 2: return metadata::node_key(test_uuid(n % 4));
    case 3: return metadata::table_key(n % 4);
    case 4:
    case 5: return metadata::shard_key(n / 4 % 4, n % 4);
    case 6: return metadata::grants_key(n % 4);
    default: return std::string(metadata::kRoot) + static_cast<char>(n);
  }
}

void check_state(const ClusterState& state) {
  const ShardMap map = build_shard_map(state);
  const auto again = from_proto(to_proto(map));
  if (!again.ok()) std::fprintf(stderr, "%s\n", again.status().ToString().c_str());
  require(again.ok());
  require(*again == map);
  constexpr skua::TimeNs kNow = 100 * skua::kSecond;
  ClusterCore core({.suspect_after_ns = 3 * skua::kSecond, .views = {}, .claims_need_proof = false}, state, kNow);
  (void)core.step(RegisterNode{"", test_node(1, 2, 1), 0}, kNow);
  (void)core.step(Tick{}, kNow + skua::kSecond);
  (void)core.step(Tick{}, kNow + 10 * skua::kSecond);
  (void)core.step(NodeLeave{test_uuid(2), "", true}, kNow + 10 * skua::kSecond);
  (void)core.step(CreateTable{"new", 2}, kNow + 10 * skua::kSecond);
  (void)core.step(RemoveGrant{"client/a", "u", kRightsAll, true}, kNow + 10 * skua::kSecond);
  (void)core.step(AddGrant{"client/c", "t", kRightScan}, kNow + 10 * skua::kSecond);
  (void)core.step(SetQuota{"client/a", {7, 0, 0, 0}}, kNow + 10 * skua::kSecond);
  (void)core.step(RemoveQuota{"client/b"}, kNow + 10 * skua::kSecond);
  (void)shard_troubles(core.context(), 16);
  for (const auto& [uuid, node] : state.nodes) (void)drain_progress(core.context(), uuid);
  for (const auto& [id, table] : state.tables) require(settled_shard_count(core.context(), id) <= table.shard_count);
}

/// Stored again it is the same.
void check_stored_again(const ClusterState& state) {
  Changes all;
  for (const auto& [uuid, node] : state.nodes) all.put_nodes.push_back(node);
  for (const auto& [id, table] : state.tables) all.put_tables.push_back(table);
  for (const auto& [key, shard] : state.shards) all.put_shards.push_back(shard);
  all.put_grants = state.grants;
  if (!state.quotas.empty()) all.put_quotas = state.quotas;
  all.put_join_tokens = state.join_tokens;
  all.map_revision = state.map_revision;
  all.next_table_id = state.next_table_id;
  std::map<std::string, std::string> records;
  for (const Operation& put : metadata::encode_new_cluster(state)) records[put.key] = put.value;
  for (const Operation& put : metadata::encode_changes(all)) records[put.key] = put.value;
  std::vector<KeyValue> kvs;
  for (const auto& [key, value] : records) kvs.push_back({key, value});
  const auto again = metadata::decode_state(kvs);
  require(again.ok());
  require(again->nodes == state.nodes && again->tables == state.tables && again->shards == state.shards);
  require(again->grants == state.grants);
  require(again->quotas == state.quotas);
  require(again->join_tokens == state.join_tokens);
  require(again->map_revision == state.map_revision && again->next_table_id == state.next_table_id);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::map<std::string, std::string> good = good_records();
  std::map<std::string, std::string> records = good;
  while (size >= 4) {
    const uint8_t kind = data[0];
    const std::string key = key_of(kind, data[1]);
    const size_t wanted = data[2] | static_cast<size_t>(data[3]) << 8;
    data += 4;
    size -= 4;
    if (kind & 8) {
      std::string& value = records[key];
      if (!value.empty()) value[wanted % value.size()] = static_cast<char>(kind >> 4 | data[-3] << 4);
      continue;
    }
    if (kind & 16) {
      records.erase(key);
      continue;
    }
    const size_t taken = std::min(wanted, size);
    records[key].assign(reinterpret_cast<const char*>(data), taken);
    data += taken;
    size -= taken;
  }
  std::vector<KeyValue> kvs;
  for (const auto& [key, value] : records) kvs.push_back({key, value});
  const auto state = metadata::decode_state(kvs);
  if (!state.ok()) {
    require(!state.status().message().empty());
    return 0;
  }
  check_state(*state);
  check_stored_again(*state);
  return 0;
}
