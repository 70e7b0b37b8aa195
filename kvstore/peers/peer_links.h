// PeerLinks: what one worker says to workers of other nodes, and hears from them.
//
//      replicas of this worker's shards                                     another node's worker
//        send(node, worker, message)                                          handler of REPLICATE
//              |          ^ host: message, ready, failed, room                       ^
//              v          |                                                          |
//            PeerLinks -- link (node, worker) -- session of the worker's endpoint ---+
//              |                    ^
//              +-- wanted and away: offer --> PeerBootstrap (gRPC, its own thread) -- answer by the mailbox --+
//
//    link:  kClosed --send()--> kDescribing --> kAwaiting --> kOpen
//              ^                     |              |           |  session broken, connection lost, peer's next life
//              +---- pause over -- kFailed <--------+-----------+  (from kOpen the first attempt follows at once)
//
// A link is opened by the first send() and opened again, with a growing pause, while somebody has wanted it lately. One
// that nobody has wanted for long is closed and forgotten; those of a node that has left go with it (drop_peer()).
// There are at most as many as the known nodes have workers by the shard map: a message or a session that names another
// worker is refused.
//
// Nothing waits for a link: what cannot be sent now is dropped and counted, and the sender is told so, because replicas
// repeat by themselves what still matters. The other way there is no queue either: a message is handed on in the turn
// in which it came.
//
// Who speaks. A session's peer says who it is when the session is made: cluster, endpoint (which is a node's worker), process
// incarnation. Messages are taken from nodes that set_peer() named, in the incarnation it named, if the frame
// names the same node and storage incarnation, and if that node, asked at the address that set_peer() named, says that the session is its own
// (peer_proofs.h). Others are refused with the reason, and counted.
//
// The host is told from inside tick(), but for messages, which come from inside the endpoint's poll(). It may send in either.
//
// Thread: the endpoint's. Made after the endpoint and destroyed after it, as ShardServer; takes the endpoint's session events.
#ifndef SKUA_KVSTORE_PEERS_PEER_LINKS_H_
#define SKUA_KVSTORE_PEERS_PEER_LINKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/client/backoff.h"
#include "control/core/bootstrap.h"
#include "kvstore/codec/methods.h"
#include "kvstore/peers/peer_address.h"
#include "kvstore/peers/peer_bootstrap.h"
#include "kvstore/peers/peer_limits.h"
#include "kvstore/peers/peer_proofs.h"
#include "kvstore/replication/message_codec.h"
#include "kvstore/types/peer_info.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// A message that came. `frame` lives as long as the call; its entries refer to `bytes`.
struct PeerMessage {
  PeerAddress from;
  const ReplicaFrame& frame;
  rpc::Lease bytes;
  /// Empty if the message was itself a reply. Otherwise to be answered, now or later, with PeerLinks::make_frame() or nothing
  /// (null); an unanswered one holds a slot of the sender's window.
  rpc::ReplyToken reply;
};

class PeerLinksHost {
 public:
  virtual void on_peer_message(PeerMessage&& message) = 0;
  /// The link stands: what was dropped meanwhile may be said again.
  virtual void on_peer_ready(PeerAddress peer) = 0;
  /// The link broke, could not be opened, or the connection that the peer's own messages come by broke. Messages under way are
  /// lost.
  virtual void on_peer_failed(PeerAddress peer, const absl::Status& why) = 0;
  /// A link that was full has room again.
  virtual void on_peer_room(PeerAddress peer) = 0;

 protected:
  ~PeerLinksHost() = default;
};

struct PeerLinksOptions {
  std::string cluster_id;
  /// This node, as envelopes of others must not say.
  std::string node_uuid;
  /// Of one link: requests without an answer, and their bytes. One request goes whatever its size.
  size_t requests_max = 256;
  size_t bytes_max = size_t{32} << 20;
  /// How long a link that nobody sends by is opened again.
  DurationNs wanted_for_ns = 5 * kSecond;
  /// And after that how long it is kept, open or not.
  DurationNs kept_for_ns = kPeerLinkKeptNs;
  /// Longer than the endpoint's peer_timeout_ns: a peer that is silent breaks the link before its requests end one by one.
  DurationNs timeout_ns = 10 * kSecond;
  control::BackoffOptions pause = {2 * kPeerPauseMinNs, kPeerPauseMaxNs};
  uint64_t seed = 1;
};

struct PeerLinksCounters {
  uint64_t messages_sent = 0;
  uint64_t bytes_sent = 0;
  uint64_t messages_received = 0;
  uint64_t replies_received = 0;
  // Not sent.
  uint64_t dropped_unknown = 0;  ///< to a node that set_peer() did not name, or a worker that it cannot have
  uint64_t dropped_down = 0;     ///< the link does not stand
  uint64_t dropped_full = 0;
  uint64_t dropped_refused = 0;  ///< by the encoder or the endpoint
  uint64_t requests_failed = 0;  ///< sent, and no answer came, or a refusal
  // Refused: what came.
  uint64_t refused_malformed = 0;
  uint64_t refused_unknown = 0;      ///< its node is not known, or of another cluster, or cannot have that worker
  uint64_t refused_incarnation = 0;  ///< another life of the node than the known one, or of its storage
  uint64_t refused_envelope = 0;     ///< it names another node than its session's
  uint64_t refused_unproven = 0;     ///< the node that its session names does not know of the session
  uint64_t sessions_opened = 0;
  uint64_t sessions_lost = 0;
  uint64_t open_failures = 0;
};

class PeerLinks {
 public:
  /// Runs once, in the endpoint's poll() or inside close(); the response is empty unless the status is OK.
  using DoneFn = absl::AnyInvocable<void(rpc::CallResult&&)>;

  /// Registers the handlers of REPLICATE and VOUCH. Host and bootstrap outlive the endpoint.
  PeerLinks(rpc::Endpoint& endpoint, PeerBootstrap& bootstrap, PeerLinksHost& host, const PeerLinksOptions& options);
  ~PeerLinks();
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  // --- Nodes
  /// A node that is known, or known anew: in a later life its links are opened again; what is older than known is ignored.
  /// INVALID_ARGUMENT: its uuid is none.
  absl::Status set_peer(const PeerInfo& peer);
  void drop_peer(NodeId node);

  // --- Sending
  /// A frame to be sent or answered with; null (counted) if it is more than a message carries. Not for Appends.
  [[nodiscard]] rpc::MessagePtr make_frame(const ReplicaEnvelope& envelope, const ReplicaMessage& message);
  /// For Appends: begin(envelope, header, make_message()), add(), send(finish()).
  [[nodiscard]] AppendBuilder& append_builder() { return builder_; }
  [[nodiscard]] rpc::MessagePtr make_message() { return endpoint_.make_message(); }

  /// Sends a frame; what the peer answers comes to the host like any message. False: dropped, because the link does not stand
  /// (the host is told when it does), or is full (the host is told when there is room). A frame that gets no answer in time, or
  /// is refused, goes to `requests_failed`.
  [[nodiscard]] bool send(PeerAddress to, rpc::MessagePtr frame);
  /// Any request, on the same terms. False: `done` never runs.
  [[nodiscard]] bool call(PeerAddress to, Method method, rpc::MessagePtr request, DurationNs timeout_ns, DoneFn done);
  /// Would a message of so many bytes be sent now?
  [[nodiscard]] bool has_room(PeerAddress to, size_t bytes) const;

  /// Who is at the other end of a session that a node opened to here. Errors as for messages, counted; UNAVAILABLE: not known yet.
  [[nodiscard]] absl::StatusOr<PeerAddress> identify(rpc::SessionId session);

  // --- The loop
  /// After each poll. Returns when to call it again at the latest.
  TimeNs tick();
  /// The end: closes everything; nothing is opened from now on.
  void close_all();

  [[nodiscard]] const PeerLinksCounters& counters() const { return counters_; }
  [[nodiscard]] bool is_open(PeerAddress peer) const;
  /// Links that stand, are being opened, or were wanted lately.
  [[nodiscard]] size_t link_count() const { return links_.size(); }
  /// Why the link was not opened the last time, or lost; OK while it stands. NOT_FOUND, FAILED_PRECONDITION: there is
  /// no such node or worker.
  [[nodiscard]] absl::Status last_error(PeerAddress peer) const;

 private:
  struct Peer {
    PeerInfo info;
    rpc::Uuid uuid;
  };
  enum class State : uint8_t { kClosed, kDescribing, kAwaiting, kOpen, kFailed };
  struct Link {
    Link(const control::BackoffOptions& pause, uint64_t seed) : backoff(pause, seed) {}

    State state = State::kClosed;
    rpc::SessionId session;
    uint64_t opening = 0;  // its number: tells late results from current ones
    TimeNs until_ns = 0;   // kFailed: the next attempt; kDescribing, kAwaiting: given up
    TimeNs wanted_until_ns = 0;
    TimeNs opened_ns = 0;
    size_t requests = 0;
    size_t bytes = 0;
    bool was_full = false;
    absl::Status last_error;
    control::Backoff backoff;
  };
  /// A request that was sent.
  struct Pending {
    PeerAddress to;
    uint64_t opening = 0;
    size_t bytes = 0;
    bool is_frame = false;  // then `done` is empty, and the reply goes to the host
    DoneFn done;
  };
  struct Notice {
    enum class Kind : uint8_t { kReady, kFailed, kRoom } kind;
    PeerAddress peer;
    absl::Status why;
  };

  // Opening
  void open(PeerAddress peer, Link& link, TimeNs now);
  void on_described(PeerAddress peer, uint64_t opening, const absl::StatusOr<control::NodeDescription>& node);
  void on_answered(PeerAddress peer, uint64_t opening, const absl::StatusOr<control::OpenSessionAnswer>& answer);
  [[nodiscard]] absl::Status finish_opening(PeerAddress peer, Link& link, const std::string& answer);
  void fail(PeerAddress peer, Link& link, const absl::Status& why);
  void lose(PeerAddress peer, Link& link, const absl::Status& why);
  void reset(Link& link);
  void tell(Notice::Kind kind, PeerAddress peer, const absl::Status& why = absl::OkStatus());
  void on_event(const rpc::SessionEvent& event);
  [[nodiscard]] TimeNs run_link(PeerAddress peer, Link& link, TimeNs now);

  // Sending and receiving
  [[nodiscard]] Link* find(PeerAddress peer);
  /// The link, opened if need be as long as it is wanted.
  Link& want(PeerAddress to);
  [[nodiscard]] Link* ready_link(PeerAddress to, size_t bytes);
  [[nodiscard]] bool start_call(PeerAddress to, Method method, rpc::MessagePtr request, DurationNs timeout_ns,
                                DoneFn done, bool is_frame);
  void on_done(Pending& pending, rpc::CallResult&& result);
  void on_reply(PeerAddress from, rpc::Lease bytes);
  void on_request(rpc::IncomingCall&& call);
  void take(PeerAddress from, rpc::IncomingCall&& call);
  [[nodiscard]] const Peer* peer_of(const rpc::EndpointIdentity& identity, PeerAddress& address) const;
  [[nodiscard]] absl::StatusOr<PeerAddress> check(const rpc::EndpointIdentity& identity);
  /// Which known node's worker, in the life that is known of it, the identity names.
  [[nodiscard]] std::optional<PeerAddress> node_of(const rpc::EndpointIdentity& identity) const;
  /// There may be such a worker.
  [[nodiscard]] absl::Status check(PeerAddress address) const;
  /// Decodes and checks the envelope; null: refused and counted, `why` says why.
  [[nodiscard]] const ReplicaFrame* decode(PeerAddress from, ByteSpan bytes, absl::Status& why);

  // Proofs (peer_links_proof.cc)
  [[nodiscard]] PeerProofs::Proof& proof_of(rpc::SessionId session, PeerAddress claimed);
  [[nodiscard]] TimeNs run_proofs(TimeNs now);
  [[nodiscard]] bool ask(const PeerProofs::Proof& proof);
  void on_vouched(rpc::SessionId session, rpc::CallResult&& result);
  void fail_held(PeerProofs::Proof& proof, const absl::Status& why);
  [[nodiscard]] absl::Status refused(PeerAddress claimed);
  void on_vouch(rpc::IncomingCall&& call);
  void on_accepted(const rpc::SessionEvent& event);

  rpc::Endpoint& endpoint_;
  PeerBootstrap& bootstrap_;
  PeerLinksHost& host_;
  const PeerLinksOptions options_;
  rpc::Uuid cluster_;
  AppendBuffers buffers_;
  AppendBuilder builder_{buffers_};
  std::map<NodeId, Peer> peers_;
  std::map<PeerAddress, Link> links_;
  PeerProofs proofs_;
  uint64_t openings_ = 0;
  bool closing_ = false;
  bool dirty_ = false;  // tick() has something to do
  TimeNs due_ns_ = 0;   // or has then
  std::vector<rpc::SessionId> to_close_;
  std::vector<Notice> notices_;
  std::vector<Notice> telling_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::vector<Pending*> free_pending_;
  // Decoded into, one for Appends so that their memory is used again. Handlers do not nest.
  ReplicaFrame append_frame_;
  ReplicaFrame frame_;
  PeerLinksCounters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_LINKS_H_
