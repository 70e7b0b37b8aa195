// Sequences of requests to the control plane, from their bytes through conversion into the core over a store: whatever
// comes, the core's invariants hold after each step, and what is stored is what the core believes.
//
//     input = steps;  step = kind | time that passes | what addresses answer | length (2 bytes) | protobuf bytes
//
// A fuzzer rarely guesses a uuid: a text of one byte where one belongs stands for a uuid of eight, and likewise for
// addresses.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "control/core/cluster_progress.h"
#include "control/proto/convert.h"
#include "control/proto/requests.h"
#include "control/server/state_store.h"
#include "control/store/memory_store.h"
#include "rpc/base/bytes.h"
#include "tests/control/core/core_fixture.h"
#include "tests/control/core/core_invariants.h"

namespace {

using namespace skua::control;  // NOLINT(google-build-using-namespace)

constexpr size_t kStepsMax = 64;
constexpr uint32_t kShardsHere = 9;

void require(const std::string& broken) {
  if (broken.empty()) return;
  std::fprintf(stderr, "broken: %s\n", broken.c_str());
  std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  [[nodiscard]] bool empty() const { return left_ == 0; }
  uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::string bytes() {
    const size_t wanted = byte() | static_cast<size_t>(byte()) << 8;
    const size_t size = wanted < left_ ? wanted : left_;
    std::string taken(reinterpret_cast<const char*>(data_), size);
    data_ += size;
    left_ -= size;
    return taken;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

uint64_t number(char c) {
  return static_cast<uint64_t>(c & 7) + 1;
}
void expand_uuid(std::string& text) {
  if (text.size() == 1) text = test_uuid(number(text[0]));
}
void expand_address(std::string& text) {
  if (text.size() == 1) text = test_node(number(text[0])).grpc_address;
}

void expand(RegisterNode& event) {
  expand_uuid(event.node.uuid);
  expand_uuid(event.node.instance);
  expand_address(event.node.grpc_address);
  if (event.node.versions.max == 0) event.node.versions = kProtocolVersions;
}
void expand(NodeHeartbeat& event) {
  expand_uuid(event.uuid);
  expand_uuid(event.instance);
}
void expand(NodeLeave& event) {
  expand_uuid(event.uuid);
  expand_uuid(event.instance);
}
void expand(ReplicaReport& event) {
  expand_uuid(event.uuid);
  expand_uuid(event.instance);
  for (Suspicion& fact : event.suspicions) expand_uuid(fact.accused);
  for (CaughtUp& fact : event.caught_up) expand_uuid(fact.learner);
  for (JoinReady& fact : event.join_ready) expand_uuid(fact.learner);
}
/// Large tables only make a run slow.
void expand(CreateTable& event) {
  if (event.shard_count <= 4096) event.shard_count %= kShardsHere;
}
void expand(DropTable&) {}
void expand(DrainNode& event) {
  expand_uuid(event.uuid);
}
void expand(UndrainNode& event) {
  expand_uuid(event.uuid);
}
void expand(MoveShard& event) {
  expand_uuid(event.from);
  expand_uuid(event.to);
}
void expand(TransferPrimary& event) {
  expand_uuid(event.to);
}
void expand(ForceRecover& event) {
  expand_uuid(event.node);
}

void expand(RevokeIdentity&) {}
void expand(UnrevokeIdentity&) {}
void expand_client(std::string& text) {
  if (text.size() == 1) text = "client/" + text;
}
void expand(AddGrant& event) {
  expand_client(event.principal);
}
void expand(RemoveGrant& event) {
  expand_client(event.principal);
}

void expand(SetQuota& event) {
  expand_client(event.principal);
}
void expand(RemoveQuota& event) {
  expand_client(event.principal);
}

/// The event in a request's bytes. Bytes that are no message, and messages that conversion refuses, are a tick.
template <typename Request>
Event event_of(const std::string& bytes) {
  Request request;
  if (!request.ParseFromString(bytes)) return Tick{};
  auto event = from_proto(request);
  expand(event);
  return event;
}

Event heartbeat_of(const std::string& bytes, int64_t unix_ms) {
  v1::HeartbeatRequest request;
  if (!request.ParseFromString(bytes)) return Tick{};
  NodeHeartbeat event = from_proto(request, unix_ms);
  expand(event);
  return event;
}

Event report_of(const std::string& bytes) {
  v1::ReportReplicasRequest request;
  if (!request.ParseFromString(bytes)) return Tick{};
  auto event = from_proto(request);
  if (!event.ok()) return Tick{};
  expand(*event);
  return *std::move(event);
}

Event event_of(uint8_t kind, const std::string& bytes, int64_t unix_ms) {
  switch (kind % 16) {
    case 0: return event_of<v1::RegisterRequest>(bytes);
    case 1: return heartbeat_of(bytes, unix_ms);
    case 2: return report_of(bytes);
    case 3: return event_of<v1::LeaveRequest>(bytes);
    case 4: return event_of<v1::CreateTableRequest>(bytes);
    case 5: return event_of<v1::DropTableRequest>(bytes);
    case 6: return event_of<v1::DrainNodeRequest>(bytes);
    case 7: return event_of<v1::UndrainNodeRequest>(bytes);
    case 8: return event_of<v1::MoveShardRequest>(bytes);
    case 9: return event_of<v1::TransferPrimaryRequest>(bytes);
    case 10: return event_of<v1::RecoverShardRequest>(bytes);
    case 11: return kind < 0x80 ? event_of<v1::SetQuotaRequest>(bytes) : event_of<v1::RemoveQuotaRequest>(bytes);
    case 12: return event_of<v1::RevokeIdentityRequest>(bytes);
    case 13: return event_of<v1::UnrevokeIdentityRequest>(bytes);
    case 14: return event_of<v1::AddGrantRequest>(bytes);
    case 15: return event_of<v1::RemoveGrantRequest>(bytes);
    default: return Tick{};
  }
}

/// A control plane without threads: the core, and the store that it is brought back from.
class Control {
 public:
  Control() : states_(store_), core_(options(), *states_.load_or_create({}, kClusterId), now_) {}

  void pass(uint8_t time) { now_ += time * (skua::kSecond / 16); }

  /// As Controller does it: asks what the core wants to know, decides, commits.
  void step(Event event, uint8_t answers) {
    const ClusterState before = core_.state();
    Decision decision = core_.step(event, now_);
    if (!decision.ask.empty()) {
      require(broken_invariant(before, core_.state(), event, decision, true));
      auto& claim = std::get<RegisterNode>(event);
      for (const std::string& address : decision.ask) {
        claim.answers.push_back(answer(address, claim.node, answers));
        answers = static_cast<uint8_t>(answers >> 3);
      }
      decision = core_.step(event, now_);
      require(decision.ask.empty() ? "" : "the same question again");
    }
    if (decision.status.ok() && !decision.changes.empty()) {
      const auto committed = states_.commit(decision.changes);
      if (!committed.ok()) return reload();  // beyond the store's limits
      core_.committed(decision.changes, now_);
    }
    require(broken_invariant(before, core_.state(), event, decision, true));
  }

  /// What is stored is what is believed, and people can be told of it.
  void look() {
    const ClusterState& state = core_.state();
    const auto stored = StateStore(store_).load();
    if (!stored.ok()) return require(std::string(stored.status().message()));
    require(stored->nodes == state.nodes && stored->tables == state.tables && stored->shards == state.shards &&
                    stored->denied == state.denied && stored->grants == state.grants &&
                    stored->quotas == state.quotas && stored->map_revision == state.map_revision &&
                    stored->next_table_id == state.next_table_id
                ? ""
                : "what is stored is not what is believed");
    const ShardMap map = build_shard_map(state);
    const auto again = from_proto(to_proto(map));
    require(again.ok() && *again == map ? "" : "a shard map does not survive the wire");
    tell();
    for (const auto& [id, table] : state.tables) {
      require(available_shard_count(core_.context(), id) <= table.shard_count ? ""
                                                                              : "more shards available than there are");
      require(settled_shard_count(core_.context(), id) <= table.shard_count ? ""
                                                                            : "more shards settled than there are");
      (void)lagging_owners(core_.context(), id, state.map_revision);
    }
  }

  void reload() {
    auto stored = states_.load();
    require(stored.ok() ? "" : "what was stored cannot be read");
    core_.reload(*std::move(stored), now_);
  }

  [[nodiscard]] int64_t unix_ms() const { return now_ / skua::kMillisecond; }

 private:
  /// What people are told is a message that they can read.
  void tell() const {
    v1::GetStatusReply reply;
    for (const std::string& trouble : shard_troubles(core_.context(), 16)) reply.add_troubles(trouble);
    for (const auto& [uuid, node] : core_.state().nodes) {
      const NodeStatus status = core_.node_status(uuid).value_or(NodeStatus{});
      v1::NodeStatus& added = *reply.add_nodes();
      *added.mutable_node() = to_proto(node);
      added.set_trouble(trouble_of(status));
      added.set_drain_progress(drain_progress(core_.context(), uuid));
      for (const CopyReport& copy : status.copies) *added.add_copies() = to_proto(copy);
    }
    require(v1::GetStatusReply().ParseFromString(reply.SerializeAsString()) ? "" : "a status that nobody can read");
  }

  static CoreOptions options() {
    CoreOptions options;
    options.claims_need_proof = true;
    return options;
  }

  static ClaimAnswer answer(const std::string& address, const NodeInfo& claimed, uint8_t how) {
    ClaimAnswer answer{address};
    answer.answered = (how & 7) != 1;
    answer.uuid = (how & 7) == 2 ? test_uuid(9) : claimed.uuid;
    answer.incarnation = claimed.incarnation - ((how & 7) == 3 ? 1 : 0);
    answer.other_instance = (how & 7) == 4;
    return answer;
  }

  skua::TimeNs now_ = 100 * skua::kSecond;
  MemoryStore store_;
  StateStore states_;
  ClusterCore core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Control control;
  for (size_t i = 0; i < kStepsMax && !input.empty(); ++i) {
    const uint8_t kind = input.byte();
    control.pass(input.byte());
    const uint8_t answers = input.byte();
    control.step(event_of(kind, input.bytes(), control.unix_ms()), answers);
    if (kind >= 0xf0) control.reload();
  }
  control.step(Tick{}, 0);
  control.look();
  return 0;
}
