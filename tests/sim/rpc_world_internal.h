// World, the inside of run_world(): nodes under faults, and what is known of each of their calls.
//
// Files: rpc_world.cc (faults, nodes that come and go, time, what is checked at the end), rpc_world_calls.cc (what the
// nodes say to each other, and what is checked with each call), rpc_world_wire.cc (what is seen on the wire),
// rpc_world_keys.cc (sealed packets, and how their keys travel).
#ifndef SKUA_TESTS_SIM_RPC_WORLD_INTERNAL_H_
#define SKUA_TESTS_SIM_RPC_WORLD_INTERNAL_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/transport/sealed/sealed_transport.h"
#include "rpc/wire/bundle.h"
#include "tests/rpc/crypto/nonce_watch.h"
#include "tests/sim/rpc_world.h"

namespace skua::rpc::sim {

enum Method : MethodId { kEcho = 1, kDeferred = 2, kNested = 3, kDropToken = 4, kRefuse = 5 };

/// The first bytes of each request.
struct RequestHead {
  uint64_t call_id = 0;
  uint32_t response_bytes = 0;
  uint32_t reserved = 0;
};

/// `bytes` are what a message of `call_id` is filled with.
bool matches_pattern(uint64_t call_id, ByteSpan bytes);

/// Where the bodies of messages lie.
class BodyMemory {
 public:
  /// `reuse`: blocks are used again, the last one first, instead of going back to the system: whoever still reads one
  /// finds another message.
  explicit BodyMemory(bool reuse) : reuse_(reuse) {}
  /// Adds a body of `bytes` of the pattern of `call_id`.
  void append_pattern(Message& message, uint64_t call_id, size_t bytes);

 private:
  struct Block {
    BodyMemory* memory = nullptr;
    std::string bytes;
  };
  static void release(void* context);

  const bool reuse_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_;
};

struct CallRecord {
  uint32_t from = 0;
  uint32_t to = 0;
  MethodId method = 0;
  bool one_way = false;
  /// Both nodes speak version 2, and nothing about the call itself stands against a bundle.
  bool is_small = false;
  bool before_join = false;  // and its session had not joined when it began
  bool in_bundle = false;    // its request was seen on the wire as a record ...
  bool in_packet = false;    // ... and as a packet
  bool cancelled = false;
  bool completed = false;
  bool claimed_not_executed = false;
  bool ok = false;
  uint32_t handler_runs = 0;
  uint32_t response_bytes = 0;
  TimeNs deadline_ns = 0;
  CallId handle;
};

/// A node's own clock, so that its time stamps are none of another's, and wrap at another time.
class NodeClock final : public Clock {
 public:
  explicit NodeClock(const Clock& network) : network_(network) {}
  [[nodiscard]] TimeNs now_ns() const override { return network_.now_ns() + ahead_ns; }

  DurationNs ahead_ns = 0;

 private:
  const Clock& network_;
};

class World {
 public:
  explicit World(const WorldOptions& options)
      : options_(options),
        rng_(options.seed),
        bodies_(options.memory_taken_back),
        network_(rng_.next()),
        nonces_([this] { violate("two frames were sealed under one key with one nonce"); }) {}
  ~World() {
    for (Node& node : nodes_) crash(node);
  }

  WorldResult run();

 private:
  struct Deferred {
    TimeNs due_ns = 0;
    uint64_t call_id = 0;
    uint32_t response_bytes = 0;
    bool nested = false;
    SessionId caller;
    Lease request;
    ReplyToken reply;
  };
  struct KeptLease {
    TimeNs until_ns = 0;
    uint64_t call_id = 0;
    Lease lease;
  };
  /// To a node, and which of the sessions to it.
  using Lane = std::pair<uint32_t, uint32_t>;
  struct Node {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    bool bundles = false;  // it speaks version 2
    bool is_paced = false;
    std::unique_ptr<NodeClock> clock;
    std::shared_ptr<Transport> transport;
    SealedTransport* sealed = nullptr;  // `transport`, if packets are sealed
    std::unique_ptr<Endpoint> endpoint;
    std::map<Lane, SessionId> sessions;
    std::set<uint32_t> joined;  // its sessions, by index
    std::deque<Deferred> deferred;
    std::deque<KeptLease> kept;
    TimeNs restart_ns = kTimeNever;
    [[nodiscard]] bool up() const { return endpoint != nullptr; }
  };

  /// What travels beside the packets to open a session.
  struct Letter {
    enum class Kind : uint8_t { kOffer, kAnswer, kLoss };
    TimeNs due_ns = 0;
    Kind kind = Kind::kOffer;
    uint32_t opener = 0;
    uint64_t incarnation = 0;  // the opener's
    uint32_t to = 0;
    uint64_t to_incarnation = 0;
    SessionId session;
    std::string bytes;
  };

  static constexpr size_t kViolationsKept = 10;

  template <typename... Args>
  void violate(const Args&... args) {
    if (result_.violations.size() < kViolationsKept) {
      result_.violations.push_back(absl::StrCat("t=", now() / kMicrosecond, "us: ", args...));
    }
  }
  [[nodiscard]] TimeNs now() const { return network_.now_ns(); }

  void choose_faults();
  void start(Node& node);
  void choose_congestion(ProtocolOptions& protocol);
  void crash(Node& node);
  void renew_session(Node& node);
  void serve(Node& node);
  void handle(Node& node, IncomingCall&& call);
  void reply(ReplyToken token, uint64_t call_id, uint32_t response_bytes, Endpoint& endpoint);
  void run_due(Node& node);
  void nested_then_reply(Node& node, Deferred&& deferred);
  [[nodiscard]] Lane any_lane(uint32_t to) { return {to, static_cast<uint32_t>(rng_.below(lane_count_))}; }
  /// `timeout_ns` 0: any, and perhaps one-way.
  void start_call(Node& from, Lane lane, MethodId method, DurationNs timeout_ns = 0,
                  std::optional<size_t> body_bytes = {});
  SessionId* session_to(Node& from, Lane lane);
  void append_pattern(Message& message, uint64_t call_id, size_t bytes);
  [[nodiscard]] bool may_be_small(const Node& from, uint32_t to, const CallOptions& options, size_t bytes) const;
  void on_complete(uint64_t call_id, CallResult&& result);
  void judge(uint64_t call_id, CallResult&& result);
  void cover_completion(const CallRecord& record, const CallResult& result);
  void meddle(Node& node);
  void cancel(uint64_t call_id);
  size_t random_size();
  void act();
  void act_calls(Node& node);
  void step_to(TimeNs when);
  [[nodiscard]] TimeNs next_event() const;
  void poll_nodes();
  void settle();
  void check_liveness();
  void check_joined();
  void final_checks();
  void check_balance(const Node& node);

  // rpc_world_wire.cc
  /// A packet arrives; it may be changed.
  void watch(uint32_t from_address, uint32_t to_address, std::vector<std::byte>& packet);
  void watch_bundle(Node& from, Node& to, std::vector<std::byte>& packet);
  void watch_packet(ByteSpan packet);
  void watch_request(const Node& from, const Node& to, ByteSpan request);
  void check_echo(const Node& to, const BundleHead& head);
  void cut(std::vector<std::byte>& bundle, const BundleHead& head);
  CallRecord* call_of(ByteSpan request);

  // rpc_world_keys.cc
  std::shared_ptr<Transport> protect(std::shared_ptr<SimTransport> wire, Node& node);
  absl::StatusOr<SessionId> open_session(Node& from, uint32_t to);
  [[nodiscard]] DurationNs letter_delay();
  void deliver_letters();
  void deliver_offer(Letter letter);
  void deliver_answer(const Letter& letter);
  void watch_sealed(ByteSpan packet);
  void cover_seals(const Node& node);

  const WorldOptions options_;
  Rng rng_;
  BodyMemory bodies_;
  SimNetwork network_;
  NonceWatch nonces_;
  std::vector<Node> nodes_;
  std::vector<Letter> letters_;
  std::vector<CallRecord> calls_;
  uint32_t open_calls_ = 0;
  bool faulty_ = true;
  double crash_chance_ = 0;
  double partition_chance_ = 0;
  double cut_chance_ = 0;
  bool is_damaging_ = false;  // packets may be damaged
  double renewal_chance_ = 0;
  double letter_loss_ = 0;
  uint32_t lane_count_ = 1;
  enum class Versions : uint8_t { kAllNew, kAllOld, kMixed } versions_ = Versions::kAllNew;
  uint64_t retransmits_of_dead_ = 0;
  TimeNs next_action_ns_ = 0;
  TimeNs heal_ns_ = kTimeNever;
  std::string last_error_;
  TimeNs last_completion_ns_ = 0;
  WorldResult result_;
};

}  // namespace skua::rpc::sim

#endif  // SKUA_TESTS_SIM_RPC_WORLD_INTERNAL_H_
