// PeerLinks: carries the messages between one worker and workers of other nodes, in both directions.
//
//      replicas of this worker's shards                                     another node's worker
//        send(node, worker, message)                                          handler of REPLICATE
//              |          ^ host: message, ready, failed, room                       ^
//              v          |                                                          |
//            PeerLinks -- link (node, worker) -- session of the worker's endpoint ---+
//              |                    ^
//              +-- wanted, not open: offer -> PeerBootstrap (gRPC, its own thread) -- answer by the mailbox --+
//
//    link:  kClosed --send()--> kDescribing --> kAwaiting --> kOpen
//              ^                     |              |           |  session broken, connection lost, peer's next life
//              +---- pause over -- kFailed <--------+-----------+  (without a pause after one second of kOpen)
//
// The first send() opens a link. If the link breaks, it is opened again, with a growing pause, as long as it was wanted
// recently. A link that was unwanted for long is closed and forgotten. When a node leaves, its links go (drop_peer()).
// By the shard map, known nodes have a certain number of workers; this bounds the number of links. Messages to other
// workers, and sessions of other workers, are refused.
//
// No message waits for a link. A message that cannot be sent now is dropped and counted, and the sender is told so.
// Replicas repeat messages that still matter. Received messages do not wait in a queue either: each is passed on in the
// poll() in which it arrived. (Exception: messages on a session that is not proven yet.)
//
// Who sends. The peer of a session names itself when the session is made: cluster, endpoint (that is, a node's worker),
// process incarnation. A message is accepted if four conditions hold:
//   - set_peer() named the node, in the incarnation of the session
//   - the frame names the same node as the session
//   - the frame names the storage incarnation that set_peer() named (any, if it named none)
//   - the node, asked at the address that set_peer() named, says that it opened the session (peer_proofs.h); a node of
//     an older release, which cannot be asked, is believed
// Other messages are refused with the reason, and counted.
//
// The host's callbacks run inside tick(). Only messages are passed on inside the endpoint's poll(). The host may send
// in both.
//
// Thread: the endpoint's. Created after the endpoint and destroyed after it, like ShardServer. It observes the session
// events of the endpoint.
#ifndef SKUA_KVSTORE_PEERS_PEER_LINKS_H_
#define SKUA_KVSTORE_PEERS_PEER_LINKS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/client/backoff.h"
#include "control/core/bootstrap.h"
#include "kvstore/codec/methods.h"
#include "kvstore/peers/known_peers.h"
#include "kvstore/peers/peer_address.h"
#include "kvstore/peers/peer_bootstrap.h"
#include "kvstore/peers/peer_limits.h"
#include "kvstore/peers/peer_notices.h"
#include "kvstore/peers/peer_proofs.h"
#include "kvstore/replication/append_builder.h"
#include "kvstore/replication/message_codec.h"
#include "kvstore/types/peer_info.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// A received message. `frame` is valid during the call only; its entries point into `bytes`.
struct PeerMessage {
  PeerAddress from;
  const ReplicaFrame& frame;
  rpc::Lease bytes;
  /// Empty if the message is itself a reply. Otherwise the host must answer, now or later, with a frame of
  /// PeerLinks::make_frame() or with null (no content). An unanswered message occupies a slot of the sender's window.
  rpc::ReplyToken reply;
};

class PeerLinksHost {
 public:
  virtual void on_peer_message(PeerMessage&& message) = 0;
  /// The link is open. The host may repeat messages that were dropped.
  virtual void on_peer_ready(PeerAddress peer) = 0;
  /// The link broke or could not be opened, or a connection that carries the peer's own messages broke. Messages under
  /// way are lost.
  virtual void on_peer_failed(PeerAddress peer, const absl::Status& why) = 0;
  /// A link that was full has room again. send() may be repeated.
  virtual void on_peer_room(PeerAddress peer) = 0;

 protected:
  ~PeerLinksHost() = default;
};

struct PeerLinksOptions {
  std::string cluster_id;
  /// Uuid of this node.
  std::string node_uuid;
  /// Limits of one link: unanswered requests, and their bytes. A link without requests takes one of any size.
  size_t requests_max = 256;
  size_t bytes_max = size_t{32} << 20;
  /// A link counts as wanted for this long after a send(). A wanted link is opened again if it breaks.
  DurationNs wanted_for_ns = 5 * kSecond;
  /// How long a link is kept after that, open or not.
  DurationNs kept_for_ns = kPeerLinkKeptNs;
  /// Timeout of a frame. Longer than the endpoint's peer_timeout_ns: a silent peer breaks the link before its requests
  /// time out one by one.
  DurationNs timeout_ns = 10 * kSecond;
  control::BackoffOptions pause = {2 * kPeerPauseMinNs, kPeerPauseMaxNs};
  uint64_t seed = 1;
  /// Of an Append of several entries: what the peers' message memory takes at once.
  size_t append_bytes_max = kAppendBytesMax;
};

struct PeerLinksCounters {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t replies_received = 0;
  // Messages that were not sent.
  uint64_t dropped_unknown = 0;  ///< set_peer() did not name the node, or the node has no such worker
  uint64_t dropped_down = 0;     ///< the link is not open
  uint64_t dropped_full = 0;
  uint64_t dropped_refused = 0;  ///< refused by the encoder or the endpoint
  uint64_t requests_failed = 0;  ///< sent, but not answered, or answered with an error
  // Refused messages and sessions.
  uint64_t refused_malformed = 0;
  uint64_t refused_unknown = 0;      ///< unknown node, other cluster, or impossible worker
  uint64_t refused_incarnation = 0;  ///< another incarnation of the node or its storage than the known one
  uint64_t refused_envelope = 0;     ///< the frame names another node than the session
  uint64_t refused_unproven = 0;     ///< the node that the session names did not open it
  uint64_t sessions_opened = 0;
  uint64_t sessions_lost = 0;
  uint64_t open_failures = 0;
};

class PeerLinks {
 public:
  /// Runs once, inside the endpoint's poll() or close(). The response is empty unless the status is OK.
  using DoneFn = absl::AnyInvocable<void(rpc::CallResult&&)>;

  /// Registers the handlers of REPLICATE and VOUCH. `host` and `bootstrap` outlive the endpoint.
  PeerLinks(rpc::Endpoint& endpoint, PeerBootstrap& bootstrap, PeerLinksHost& host, const PeerLinksOptions& options);
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  // --- Nodes
  /// Makes a node known or updates it. If it has a new incarnation, uuid or address, its links are opened again. An
  /// incarnation older than the known one is ignored. INVALID_ARGUMENT: its uuid is malformed.
  absl::Status set_peer(const PeerInfo& peer);
  /// Forgets a node that has left, and closes its links.
  void drop_peer(NodeId node);

  // --- Sending
  /// Encodes a frame to send or to answer with. Null (counted) if it exceeds the size of a message. Not for Appends.
  [[nodiscard]] rpc::MessagePtr make_frame(const ReplicaEnvelope& envelope, const ReplicaMessage& message);
  /// Builds Appends: begin(envelope, header, make_message()), add(), send(finish()).
  [[nodiscard]] AppendBuilder& append_builder() { return builder_; }
  [[nodiscard]] rpc::MessagePtr make_message() { return endpoint_.make_message(); }

  /// Sends a frame. The peer's answer comes to the host like any message. False: the frame is dropped, because the link
  /// is not open (on_peer_ready() follows when it is), or full (on_peer_room() follows), or `to` is unknown. A frame
  /// that is refused or not answered in time counts in `requests_failed`.
  /// `has_entries`: the peer may answer late, when its disk has the entries. Such frames leave an eighth of the link's
  /// requests to others: without heartbeats a peer whose disk is slow would look dead.
  [[nodiscard]] bool send(PeerAddress to, rpc::MessagePtr frame, bool has_entries = false);
  /// Sends any request, under the same conditions. False: `done` never runs.
  [[nodiscard]] bool call(PeerAddress to, Method method, rpc::MessagePtr request, DurationNs timeout_ns, DoneFn done);
  /// True if a message of `bytes` would be sent now; `has_entries` as for send().
  [[nodiscard]] bool has_room(PeerAddress to, size_t bytes, bool has_entries = false) const;

  /// The worker at the other end of a session that another node opened to this one. Errors as for messages, counted.
  /// UNAVAILABLE: the proof is not complete yet.
  [[nodiscard]] absl::StatusOr<PeerAddress> identify(rpc::SessionId session);

  // --- The loop
  /// Call it after each poll(). Returns the latest time for the next call.
  TimeNs tick();
  /// Closes all links and opens none from now on.
  void close_all();

  [[nodiscard]] const PeerLinksCounters& counters() const { return counters_; }
  [[nodiscard]] bool is_open(PeerAddress peer) const;
  /// Links that are open, are being opened, or are kept because they were wanted.
  [[nodiscard]] size_t link_count() const { return links_.size(); }
  /// Error of the last attempt to open the link, or of its loss. OK while the link is open. NOT_FOUND,
  /// FAILED_PRECONDITION: there is no such node or worker.
  [[nodiscard]] absl::Status last_error(PeerAddress peer) const;
  /// A text for people about each open link whose peer refused a frame for good (INVALID_ARGUMENT) a short time ago.
  /// Such a peer lives, and what it refuses reaches no majority through it, however often it is sent.
  [[nodiscard]] std::vector<std::string> refusals() const;

 private:
  using Notice = PeerNotices::Kind;
  enum class State : uint8_t { kClosed, kDescribing, kAwaiting, kOpen, kFailed };
  struct Link {
    Link(const control::BackoffOptions& pause, uint64_t seed) : backoff(pause, seed) {}

    State state = State::kClosed;
    rpc::SessionId session;
    uint64_t opening = 0;  // number of the opening: distinguishes late results from current ones
    TimeNs until_ns = 0;   // kFailed: time of the next attempt; kDescribing, kAwaiting: deadline
    TimeNs wanted_until_ns = 0;
    TimeNs opened_ns = 0;
    size_t requests = 0;  // without questions
    size_t bytes = 0;     // of the requests
    size_t questions = 0;
    bool was_answered = false;  // the peer has answered a request of this opening
    bool was_full = false;
    absl::Status last_error;
    absl::Status refusal;         // of the last frame that the peer refused for good
    TimeNs refuses_until_ns = 0;  // when that refusal is no news any more
    control::Backoff backoff;

    [[nodiscard]] size_t requests_max(const PeerLinksOptions& options) const {
      return was_answered ? options.requests_max : std::min(options.requests_max, kUnprovenRequestsMax);
    }
  };
  enum class Kind : uint8_t {
    kFrame,     // the reply goes to the host
    kRequest,   // the reply goes to the caller
    kQuestion,  // as kRequest; does not wait for frames, which may themselves wait for its answer
  };
  /// A request that was sent.
  struct Pending {
    PeerAddress to;
    uint64_t opening = 0;
    size_t bytes = 0;
    Kind kind = Kind::kFrame;
    DoneFn done;
  };

  // Opening
  void open(PeerAddress peer, Link& link, TimeNs now);
  void on_described(PeerAddress peer, uint64_t opening, const absl::StatusOr<control::NodeDescription>& node);
  void on_answered(PeerAddress peer, uint64_t opening, const absl::StatusOr<control::OpenSessionAnswer>& answer);
  [[nodiscard]] absl::Status finish_opening(PeerAddress peer, Link& link, const std::string& answer);
  void fail(PeerAddress peer, Link& link, const absl::Status& why);
  void lose(PeerAddress peer, Link& link, const absl::Status& why);
  void reset(Link& link);
  void on_event(const rpc::SessionEvent& event);
  [[nodiscard]] TimeNs run_link(PeerAddress peer, Link& link, TimeNs now);

  // Sending and receiving
  [[nodiscard]] const Link* find(PeerAddress peer) const;
  [[nodiscard]] Link* find(PeerAddress peer) { return const_cast<Link*>(std::as_const(*this).find(peer)); }
  /// Marks the link as wanted, so that tick() opens it. Creates it if needed.
  Link& want(PeerAddress to);
  [[nodiscard]] Link* ready_link(PeerAddress to, size_t bytes, bool has_entries = false);
  [[nodiscard]] bool start_call(Link& link, PeerAddress to, Method method, rpc::MessagePtr request,
                                DurationNs timeout_ns, DoneFn done, Kind kind);
  void on_done(Pending& pending, rpc::CallResult&& result);
  void on_reply(PeerAddress from, rpc::Lease bytes);
  void on_request(rpc::IncomingCall&& call);
  void take(PeerAddress from, rpc::IncomingCall&& call);
  /// The worker that the identity names. Errors, counted: unknown node or worker, or another incarnation.
  [[nodiscard]] absl::StatusOr<PeerAddress> check(const rpc::EndpointIdentity& identity);
  /// Decodes a frame and checks its envelope. Null: refused and counted; `why` is the reason.
  [[nodiscard]] const ReplicaFrame* decode(PeerAddress from, ByteSpan bytes, absl::Status& why);

  // Proofs (peer_links_proof.cc)
  [[nodiscard]] PeerProofs::Proof& proof_of(rpc::SessionId session, PeerAddress claimed);
  [[nodiscard]] TimeNs run_proofs(TimeNs now);
  [[nodiscard]] bool ask(const PeerProofs::Proof& proof);
  void on_vouched(rpc::SessionId session, rpc::CallResult&& result);
  [[nodiscard]] absl::Status refused(PeerAddress claimed);
  void on_vouch(rpc::IncomingCall&& call);
  void on_accepted(const rpc::SessionEvent& event);

  rpc::Endpoint& endpoint_;
  PeerBootstrap& bootstrap_;
  PeerLinksHost& host_;
  const PeerLinksOptions options_;
  AppendBuffers buffers_;
  AppendBuilder builder_;  // uses buffers_
  KnownPeers peers_;
  std::map<PeerAddress, Link> links_;
  PeerProofs proofs_;
  uint64_t openings_ = 0;
  bool closing_ = false;
  bool dirty_ = false;  // tick() has something to do now
  TimeNs due_ns_ = 0;   // and at this time at the latest
  std::vector<rpc::SessionId> to_close_;
  PeerNotices notices_;
  std::vector<std::unique_ptr<Pending>> pending_;
  std::vector<Pending*> free_pending_;
  // Frames are decoded into these. Appends have their own, so that its memory is reused. Handlers do not nest.
  ReplicaFrame append_frame_;
  ReplicaFrame frame_;
  PeerLinksCounters counters_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_LINKS_H_
