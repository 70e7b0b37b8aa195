// A storage node's worker as it runs in production, without threads: endpoint, shard server, engine, log, replication
// with its links, on a simulated network and disk. Around it an honest client, a peer node and a stranger:
//
//     address 1   honest client     a session of its own; its writes and reads are answered, whatever the others do
//     address 2   the worker
//     address 3   the stranger      sends packets of its own making, by no endpoint's rules
//     address 4   the peer node     its endpoint keeps the protocol's rules; what it says by it need not make sense
//
// Anybody can say to be the peer. So the worker asks the peer about each such session, and the peer says yes only for
// those that it opened; or says no, or nothing for a while. Of what is for nodes only a stranger gets nothing.
//
// Shards of the worker: kPlain without replicas; kAlone, whose only member is the worker, with the peer as a learner;
// kLed, which it leads and the peer backs up; kBacked, which the peer leads; kOpening and kFailed.
//
// Time is the network's, for all of them. It passes from one thing that is due to the next, and of the endpoints only
// those take a turn that something has happened to.
#ifndef SKUA_TESTS_FUZZ_NODE_WORLD_H_
#define SKUA_TESTS_FUZZ_NODE_WORLD_H_

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/codec/methods.h"
#include "kvstore/service/shard_server.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/machine_clock.h"
#include "kvstore/worker/worker_replication.h"
#include "rpc/endpoint.h"
#include "rpc/transport/sim/sim_network.h"
#include "rpc/wire/handshake.h"
#include "tests/fuzz/memory_db.h"
#include "tests/fuzz/stranger_watch.h"

namespace skua::kv::fuzz {

inline constexpr ShardId kPlain{1, 0};
inline constexpr ShardId kAlone{2, 0};
inline constexpr ShardId kLed{3, 0};
inline constexpr ShardId kBacked{4, 0};
inline constexpr ShardId kOpening{5, 0};
inline constexpr ShardId kFailed{6, 0};
inline constexpr std::array kShards = {kPlain, kAlone, kLed, kBacked, kOpening, kFailed};
inline constexpr uint64_t kEpoch = 5;  ///< in which all begin
inline constexpr uint64_t kMapRevision = 40;
inline constexpr std::string_view kHonestKey = "honest";
/// Of the worker's node and of the peer's.
inline constexpr uint64_t kStorage = 1;

/// Of everybody's endpoint: short, so that what is given up is gone soon.
inline constexpr DurationNs kIdleTimeoutNs = 1200 * kMillisecond;
/// Of promises between replicas. Longer than in production, next to the rest: heartbeats would be most of what happens
/// while time passes.
inline constexpr DurationNs kLeaseNs = 500 * kMillisecond;

class NodeWorld final : private PeerBootstrap {
 public:
  NodeWorld();
  ~NodeWorld() override;

  // --- Who is who
  [[nodiscard]] static std::string uuid(uint8_t number);
  [[nodiscard]] static const rpc::EndpointIdentity& identity(uint8_t number);
  [[nodiscard]] static NodeId node_id(uint8_t number);
  static constexpr uint8_t kClient = 1;
  static constexpr uint8_t kWorker = 2;
  static constexpr uint8_t kStranger = 3;
  static constexpr uint8_t kPeer = 4;
  static constexpr size_t kNumbers = 5;

  /// Who uses it may give it something to do.
  rpc::Endpoint& worker() {
    stir(kWorker);
    return *endpoint_;
  }
  [[nodiscard]] const ShardServer& server() const { return *server_; }
  rpc::SimNetwork& network() { return network_; }
  rpc::SimTransport& transport(uint8_t number) { return *transports_[number]; }
  [[nodiscard]] WireSession client_session() const { return client_wire_; }
  /// Of what the worker opened to the peer, and the peer to the worker; as they were made.
  [[nodiscard]] const std::vector<WireSession>& peer_sessions() const { return peer_wires_; }

  // --- The peer
  [[nodiscard]] const WorkerReplication& replication() const { return *replication_; }
  /// Calls the worker. `done` gets what comes back; it does not run if the call cannot be made.
  void call(
      Method method, std::string_view request, bool one_way, DurationNs timeout_ns,
      rpc::CompletionFn done = [](rpc::CallResult&&) {});
  void close_peer_session();
  /// What the peer answers to the worker's next requests, one each; without any: nothing, if `holds`, or an empty
  /// reply.
  std::deque<std::string> answers;
  bool holds = false;
  /// What the peer answers when it is asked whether a session is its own. kSilence: the truth, once it is late
  /// (release_held). It never says yes for what is not.
  enum class Vouching : uint8_t { kTruth, kNo, kSilence };
  Vouching vouching = Vouching::kTruth;
  /// The number of the session that the worker opened last; 0: none.
  [[nodiscard]] uint64_t link_nonce() const { return link_nonce_; }
  StrangerWatch& stranger_watch() { return stranger_watch_; }
  /// The peer asks the worker for something, by its endpoint or without.
  void count_peer_request(Method method);
  /// What the peer's bootstrap service says; without it the truth, nullopt: an error.
  std::optional<std::optional<std::string>> offer_answer;
  void release_held();

  // --- The control plane
  void tell_peers(bool with_peer, uint64_t incarnation, uint64_t storage = kStorage);
  /// The peer is revoked, or let in again: then the worker knows it from the next tell_peers() on.
  void shut_out_peer(bool is_out);
  /// The shard's next epoch. `peer_leads` of kLed and kBacked.
  void change_view(ShardId shard, bool peer_leads);
  /// As the control plane has it; empty: there is no such shard.
  [[nodiscard]] View view(ShardId shard) const {
    const auto found = views_.find(shard);
    return found == views_.end() ? View{} : found->second;
  }
  /// On which of its workers the peer has its replica of the shard; nullopt: it has none.
  void place_peer(ShardId shard, std::optional<uint32_t> worker);
  void leave(ShardId shard);

  // --- Time
  /// One turn of everybody.
  void turn();
  /// Until nothing is under way. False: it does not come to rest.
  void rest();
  /// Lets time pass, with all that is due in it.
  void pass(DurationNs time);
  void pass_unix_ms(uint64_t time);

  /// All is as at the beginning, but for what was written.
  void end_of_input();

  // --- What must hold
  /// The honest client writes and reads, and is answered.
  void check_client();
  /// Sessions of others have ended, and nothing of them is left.
  void check_balance();
  /// Nobody was taken for the peer: replicas got no more messages than it sent, and no copies were made for others.
  void check_proofs();
  [[nodiscard]] bool is_full() const;
  /// Copies of shards that were made for others.
  [[nodiscard]] uint64_t exports() const { return exports_; }

 private:
  enum class Place : uint8_t { kGone, kHere, kLeaving };

  // PeerBootstrap
  void describe(const std::string& grpc_address, const std::string& cluster_id, DescribeFn done) override;
  void open_session(const control::OpenSessionRequest& request, OpenSessionFn done) override;

  [[nodiscard]] ReplicationEvents events();
  void start_server();
  void start_shards();
  void start_peer();
  void serve_vouch();
  void answer_vouch(uint64_t number, rpc::ReplyToken reply);
  void connect_client();
  [[nodiscard]] rpc::SessionId connect(rpc::Endpoint& from, WireSession& wire);
  [[nodiscard]] static View view_of(ShardId shard, uint64_t epoch, bool peer_leads);
  [[nodiscard]] static bool is_replicated(ShardId shard);
  void return_to(ShardId shard);
  using Texts = std::vector<std::string>;
  [[nodiscard]] Texts ask(Method method, const Texts& requests);
  [[nodiscard]] bool check_shards();
  void stir(uint8_t number);
  /// Who took a turn, and what was found in it.
  struct Step {
    int turns = 0;
    size_t work = 0;
  };
  /// None, if nothing has happened to whom and nothing is due.
  void take_turn(uint8_t number, Step& step);
  [[nodiscard]] size_t run_worker();
  Step step();
  void discard_received(uint8_t number);

  /// The worker's machine. Its time of day goes on only when the input says so.
  class WorkerClock final : public MachineClock {
   public:
    explicit WorkerClock(const Clock& clock) : clock_(clock) {}
    [[nodiscard]] uint64_t unix_ms() const override { return unix_ms_; }
    [[nodiscard]] TimeNs boot_ns() const override { return clock_.now_ns(); }
    void pass_unix_ms(uint64_t time) { unix_ms_ += time; }

   private:
    const Clock& clock_;
    uint64_t unix_ms_ = 1'700'000'000'000;
  };

  const std::string directory_;
  rpc::SimNetwork network_{7};
  WorkerClock clock_{network_.clock()};
  std::array<std::unique_ptr<rpc::SimTransport>, kNumbers> transports_;  // by number
  std::array<bool, kNumbers> stirred_{};                                 // may have something to do, whatever is due
  TimeNs due_ns_ = 0;                                                    // of the worker's replicas and links
  ReaderPool readers_{{.threads = 0}};
  std::map<ShardId, std::unique_ptr<MemoryDb>> databases_;
  std::unique_ptr<SnapshotSource> snapshots_;
  TaskThread disk_{{}};
  CopySlots slots_{0};
  std::unique_ptr<WorkerReplication> replication_;  // these two outlive their endpoint
  std::unique_ptr<ShardServer> server_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  std::unique_ptr<rpc::Endpoint> client_;
  std::unique_ptr<rpc::Endpoint> peer_;
  std::vector<rpc::ReplyToken> held_;
  std::vector<std::pair<uint64_t, rpc::ReplyToken>> held_questions_;
  std::set<uint64_t> peer_nonces_;  // of the sessions that the peer opened
  uint64_t link_nonce_ = 0;
  StrangerWatch stranger_watch_;
  // Since the beginning.
  uint64_t peer_messages_ = 0;  // requests of the peer: messages to replicas
  uint64_t peer_fetches_ = 0;   // and for pieces of copies
  uint64_t exports_ = 0;        // copies that were made
  rpc::SessionId client_session_;
  WireSession client_wire_;
  std::optional<rpc::SessionId> peer_session_;
  std::vector<WireSession> peer_wires_;
  std::map<ShardId, View> views_;
  std::map<ShardId, Place> places_;
  std::deque<std::pair<ShardId, uint64_t>> to_persist_;
  std::deque<ShardId> to_allow_;
  uint64_t written_ = 0;
};

}  // namespace skua::kv::fuzz

#endif  // SKUA_TESTS_FUZZ_NODE_WORLD_H_
