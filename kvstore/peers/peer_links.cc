#include "kvstore/peers/peer_links.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/peers/peer_limits.h"
#include "rpc/base/check.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

/// If a link was open for at least this long, its next pause is the shortest again.
constexpr DurationNs kStoodWellNs = kSecond;

std::string describe(PeerAddress peer, const std::string& uuid) {
  return absl::StrCat("worker ", peer.worker, " of node ", uuid);
}

}  // namespace

PeerLinks::PeerLinks(rpc::Endpoint& endpoint, PeerBootstrap& bootstrap, PeerLinksHost& host,
                     const PeerLinksOptions& options)
    : endpoint_(endpoint),
      bootstrap_(bootstrap),
      host_(host),
      options_(options),
      builder_(buffers_, options.append_bytes_max),
      peers_(options.cluster_id) {
  SKUA_CHECK(parse_uuid(options.node_uuid).ok(), "a node's own id is a uuid");
  // Writes of clients hold their places until replicas have them, so replicas must not need the same places.
  const rpc::ServeOptions for_nodes{.may_have_reserved = true};
  endpoint_.serve(
      static_cast<rpc::MethodId>(Method::kReplicate), [this](rpc::IncomingCall&& call) { on_request(std::move(call)); },
      for_nodes);
  endpoint_.serve(
      static_cast<rpc::MethodId>(Method::kVouch), [this](rpc::IncomingCall&& call) { on_vouch(std::move(call)); },
      for_nodes);
  endpoint_.on_session_event([this](const rpc::SessionEvent& event) { on_event(event); });
  endpoint_.keep_for([this](const rpc::EndpointIdentity& identity) {
    const auto named = peers_.worker_of(identity);
    return named.has_value() && named->is_current;
  });
}

// --- Nodes

absl::Status PeerLinks::set_peer(const PeerInfo& info) {
  const absl::StatusOr<std::optional<NodeId>> moved = peers_.set(info);
  if (!moved.ok() || !moved->has_value()) return moved.status();
  const NodeId node = **moved;
  for (auto it = links_.lower_bound({node, 0}); it != links_.end() && it->first.node == node; ++it) {
    Link& link = it->second;
    if (link.state == State::kOpen) {
      lose(it->first, link, absl::UnavailableError(absl::StrCat("node ", info.uuid, " has been started again")));
    }
    reset(link);
    link.backoff.reset();
  }
  return absl::OkStatus();
}

void PeerLinks::drop_peer(NodeId node) {
  peers_.drop(node);
  proofs_.forget_node(node);
  auto it = links_.lower_bound({node, 0});
  while (it != links_.end() && it->first.node == node) {
    reset(it->second);
    it = links_.erase(it);
  }
}

// --- Opening

void PeerLinks::open(PeerAddress peer, Link& link, TimeNs now) {
  const PeerInfo& whom = *peers_.find(peer.node);
  link.state = State::kDescribing;
  link.opening = ++openings_;
  link.until_ns = now + 3 * kPeerBootstrapTimeoutNs;
  bootstrap_.describe(whom.grpc_address, options_.cluster_id,
                      [this, peer, opening = link.opening,
                       mailbox = endpoint_.mailbox()](absl::StatusOr<control::NodeDescription> node) {
                        // If the mailbox is full, the result is lost. Then the opening ends by its deadline.
                        static_cast<void>(mailbox->post(
                            [this, peer, opening, node = std::move(node)] { on_described(peer, opening, node); }));
                      });
}

void PeerLinks::on_described(PeerAddress peer, uint64_t opening, const absl::StatusOr<control::NodeDescription>& node) {
  Link* link = find(peer);
  if (link == nullptr || link->opening != opening || link->state != State::kDescribing) return;
  if (!node.ok()) return fail(peer, *link, node.status());
  const PeerInfo& whom = *peers_.find(peer.node);
  if (node->node_uuid != whom.uuid || node->incarnation != whom.incarnation) {
    return fail(peer, *link,
                absl::FailedPreconditionError(absl::StrCat(
                    "node ", node->node_uuid, " incarnation ", node->incarnation, " answers at ", whom.grpc_address,
                    ", expected is incarnation ", whom.incarnation, ": a newer map will tell")));
  }
  const rpc::Descriptor self = endpoint_.local_descriptor();
  const control::TransportDescriptor* found = nullptr;
  for (const control::WorkerDescription& worker : node->workers) {
    if (worker.worker != peer.worker) continue;
    for (const control::TransportDescriptor& transport : worker.transports) {
      if (transport.kind == self.transport) found = &transport;
    }
  }
  if (found == nullptr) {
    return fail(peer, *link,
                absl::FailedPreconditionError(absl::StrCat(
                    "it does not speak ", self.transport, ": start all nodes of a cluster with the same --transport")));
  }
  const absl::StatusOr<rpc::Descriptor> descriptor = rpc::Descriptor::decode(as_byte_span(found->bytes));
  if (!descriptor.ok()) return fail(peer, *link, descriptor.status());
  absl::StatusOr<rpc::Endpoint::Offer> offer = endpoint_.begin_connect(*descriptor);
  if (!offer.ok()) return fail(peer, *link, offer.status());
  link->state = State::kAwaiting;
  link->session = offer->session;

  const control::OpenSessionRequest request{.grpc_address = whom.grpc_address,
                                            .cluster_id = options_.cluster_id,
                                            .node_uuid = whom.uuid,
                                            .incarnation = whom.incarnation,
                                            .worker = peer.worker,
                                            .transport = {self.transport, self.encode()},
                                            .offer = std::move(offer->bytes)};
  bootstrap_.open_session(
      request, [this, peer, opening, mailbox = endpoint_.mailbox()](absl::StatusOr<control::OpenSessionAnswer> answer) {
        static_cast<void>(
            mailbox->post([this, peer, opening, answer = std::move(answer)] { on_answered(peer, opening, answer); }));
      });
}

void PeerLinks::on_answered(PeerAddress peer, uint64_t opening,
                            const absl::StatusOr<control::OpenSessionAnswer>& answer) {
  Link* link = find(peer);
  if (link == nullptr || link->opening != opening || link->state != State::kAwaiting) return;
  if (!answer.ok()) return fail(peer, *link, answer.status());
  if (absl::Status status = finish_opening(peer, *link, answer->answer); !status.ok()) return fail(peer, *link, status);
  link->state = State::kOpen;
  link->opened_ns = endpoint_.now_ns();
  link->last_error = absl::OkStatus();
  ++counters_.sessions_opened;
  notices_.add(Notice::kReady, peer);
}

absl::Status PeerLinks::finish_opening(PeerAddress peer, Link& link, const std::string& answer) {
  if (absl::Status status = endpoint_.finish_connect(link.session, as_byte_span(answer)); !status.ok()) return status;
  if (!endpoint_.is_connected(link.session)) {
    return absl::InternalError("the node's answer to the handshake is malformed: do both nodes have the same version?");
  }
  const PeerInfo& whom = *peers_.find(peer.node);
  const auto expected = worker_identity(whom.uuid, whom.incarnation, options_.cluster_id, peer.worker);
  if (expected.ok() && endpoint_.peer_identity(link.session) == *expected) return absl::OkStatus();
  return absl::FailedPreconditionError("another endpoint than the one that was asked for answered the handshake");
}

void PeerLinks::fail(PeerAddress peer, Link& link, const absl::Status& why) {
  reset(link);
  link.state = State::kFailed;
  link.until_ns = endpoint_.now_ns() + link.backoff.next();
  link.last_error = absl::Status(
      why.code(),
      absl::StrCat("cannot open a session with ", describe(peer, peers_.find(peer.node)->uuid), ": ", why.message()));
  ++counters_.open_failures;
  notices_.add(Notice::kFailed, peer, link.last_error);
}

// --- Losing links

void PeerLinks::lose(PeerAddress peer, Link& link, const absl::Status& why) {
  const TimeNs now = endpoint_.now_ns();
  // A link that breaks right after it opened must not be opened again without a pause.
  const bool stood_well = now - link.opened_ns >= kStoodWellNs;
  reset(link);
  if (stood_well) {
    link.backoff.reset();
  } else {
    link.state = State::kFailed;
    link.until_ns = now + link.backoff.next();
  }
  link.last_error = why;
  ++counters_.sessions_lost;
  notices_.add(Notice::kFailed, peer, why);
}

void PeerLinks::reset(Link& link) {
  if (link.session != rpc::SessionId{}) to_close_.push_back(link.session);
  link.session = {};
  link.state = State::kClosed;
  link.opening = 0;
  link.requests = link.bytes = link.questions = 0;
  link.was_answered = false;
  link.was_full = false;
  link.refuses_until_ns = 0;
  dirty_ = true;
}

void PeerLinks::on_event(const rpc::SessionEvent& event) {
  using Kind = rpc::SessionEvent::Kind;
  if (event.kind == Kind::kAccepted) return on_accepted(event);
  if (event.kind != Kind::kBroken && event.kind != Kind::kClosed && event.kind != Kind::kLinkLost) return;
  for (auto& [peer, link] : links_) {
    if (link.session != event.session) continue;
    if (event.kind == Kind::kClosed) link.session = {};
    // The engine would repair the session. But a peer that restarted has another address and has lost all requests
    // under way.
    if (link.state == State::kOpen) return lose(peer, link, event.why);
    return fail(peer, link, event.why);
  }
  if (event.kind == Kind::kClosed) proofs_.forget(event.session);
  // A session that the peer opened. If it merely ends, the peer wanted that. If its connection broke, the peer may be
  // dead.
  if (event.kind != Kind::kLinkLost) return;
  const auto named = peers_.worker_of(event.peer);
  if (!named.has_value() || named->node.incarnation != event.peer.incarnation) return;
  // Any process can open a session in the name of a node and break it. So only proven sessions count.
  const PeerProofs::Proof* const proof = proofs_.find(event.session);
  if (proof == nullptr || proof->verdict != PeerProofs::Verdict::kProven) return;
  notices_.add(Notice::kFailed, named->address, event.why);
}

// --- Sending

rpc::MessagePtr PeerLinks::make_frame(const ReplicaEnvelope& envelope, const ReplicaMessage& message) {
  FrameBuffer buffer;
  const auto bytes = encode_frame(envelope, message, buffer);
  if (!bytes.ok()) {
    ++counters_.dropped_refused;
    return {};
  }
  rpc::MessagePtr made = endpoint_.make_message();
  made->append_copy(*bytes);
  return made;
}

const PeerLinks::Link* PeerLinks::find(PeerAddress peer) const {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : &found->second;
}

PeerLinks::Link& PeerLinks::want(PeerAddress to) {
  const uint64_t seed = options_.seed + mix64(to.node + to.worker);
  Link& link = links_.try_emplace(to, options_.pause, seed).first->second;
  link.wanted_until_ns = endpoint_.now_ns() + options_.wanted_for_ns;
  return link;
}

PeerLinks::Link* PeerLinks::ready_link(PeerAddress to, size_t bytes, bool has_entries) {
  if (closing_ || !peers_.check(to).ok()) {
    ++counters_.dropped_unknown;
    return nullptr;
  }
  Link& link = want(to);
  if (link.state != State::kOpen) {
    dirty_ = true;
    ++counters_.dropped_down;
    return nullptr;
  }
  if (has_room(to, bytes, has_entries)) return &link;
  link.was_full = true;
  ++counters_.dropped_full;
  return nullptr;
}

bool PeerLinks::has_room(PeerAddress to, size_t bytes, bool has_entries) const {
  const Link* const link = find(to);
  if (link == nullptr || link->state != State::kOpen) return false;
  // Small frames ignore the limit on bytes, so that heartbeats do not wait for data: a node without heartbeats looks
  // dead to its peers.
  const bool fits = bytes <= kFrameBytesMax || link->bytes + bytes <= options_.bytes_max;
  const size_t requests_max = link->requests_max(options_);
  return link->requests == 0 || (link->requests < requests_max - (has_entries ? requests_max / 8 : 0) && fits);
}

bool PeerLinks::send(PeerAddress to, rpc::MessagePtr frame, bool has_entries) {
  Link* const link = frame ? ready_link(to, frame->size(), has_entries) : nullptr;
  return link != nullptr &&
         start_call(*link, to, Method::kReplicate, std::move(frame), options_.timeout_ns, {}, Kind::kFrame);
}

bool PeerLinks::call(PeerAddress to, Method method, rpc::MessagePtr request, DurationNs timeout_ns, DoneFn done) {
  Link* const link = ready_link(to, request->size());
  return link != nullptr &&
         start_call(*link, to, method, std::move(request), timeout_ns, std::move(done), Kind::kRequest);
}

bool PeerLinks::start_call(Link& link, PeerAddress to, Method method, rpc::MessagePtr request, DurationNs timeout_ns,
                           DoneFn done, Kind kind) {
  const size_t bytes = kind == Kind::kQuestion ? 0 : request->size();
  if (free_pending_.empty()) {
    pending_.push_back(std::make_unique<Pending>());
    free_pending_.push_back(pending_.back().get());
  }
  Pending* pending = free_pending_.back();
  const auto started =
      endpoint_.call(link.session, static_cast<rpc::MethodId>(method), std::move(request), {.timeout_ns = timeout_ns},
                     [this, pending](rpc::CallResult&& result) { on_done(*pending, std::move(result)); });
  if (!started.ok()) {
    ++counters_.dropped_refused;
    return false;
  }
  free_pending_.pop_back();
  pending->to = to;
  pending->opening = link.opening;
  pending->bytes = bytes;
  pending->kind = kind;
  pending->done = std::move(done);
  ++(kind == Kind::kQuestion ? link.questions : link.requests);
  link.bytes += bytes;
  ++counters_.messages_sent;
  return true;
}

void PeerLinks::on_done(Pending& pending, rpc::CallResult&& result) {
  const PeerAddress to = pending.to;
  const Kind kind = pending.kind;
  DoneFn done = std::move(pending.done);
  Link* link = find(to);
  const bool current = link != nullptr && link->opening == pending.opening;
  if (current) {
    --(kind == Kind::kQuestion ? link->questions : link->requests);
    link->bytes -= pending.bytes;
    // Only success tells that the peer holds nothing back: what it holds, it fails when it gives up asking.
    if (kind != Kind::kQuestion && result.status.ok()) link->was_answered = true;
    if (link->was_full && link->requests <= link->requests_max(options_) / 2 && link->bytes <= options_.bytes_max / 2) {
      link->was_full = false;
      notices_.add(Notice::kRoom, to);
    }
  }
  free_pending_.push_back(&pending);
  if (!result.status.ok()) ++counters_.requests_failed;
  if (kind != Kind::kFrame) {
    if (done) done(std::move(result));
    return;
  }
  if (current && absl::IsInvalidArgument(result.status)) {
    link->refusal = result.status;
    link->refuses_until_ns = endpoint_.now_ns() + kPeerRefusesNs;
  }
  // Answers of an earlier session of the link are of no use.
  if (current && result.status.ok() && result.response.size() > 0) on_reply(to, std::move(result.response));
}

// --- Receiving

const ReplicaFrame* PeerLinks::decode(PeerAddress from, ByteSpan bytes, absl::Status& why) {
  ReplicaFrame& frame = looks_like_append(bytes) ? append_frame_ : frame_;
  why = decode_frame(bytes, frame);
  if (!why.ok()) {
    ++counters_.refused_malformed;
    return nullptr;
  }
  if (frame.envelope.from != from.node) {
    ++counters_.refused_envelope;
    why = absl::InvalidArgumentError("the message names another node as its sender than the session does");
    return nullptr;
  }
  const uint64_t storage = peers_.find(from.node)->storage_incarnation;
  if (storage == 0 || storage == frame.envelope.incarnation) return &frame;
  ++counters_.refused_incarnation;
  why = absl::FailedPreconditionError(absl::StrCat("the sender's storage is known here in incarnation ", storage,
                                                   ", the message is of ", frame.envelope.incarnation,
                                                   ": wait for a newer map"));
  return nullptr;
}

void PeerLinks::on_request(rpc::IncomingCall&& call) {
  const auto from = check(endpoint_.peer_identity(call.session));
  if (!from.ok()) return call.reply.fail(from.status());
  PeerProofs::Proof& proof = proof_of(call.session, *from);
  switch (proof.verdict) {
    case PeerProofs::Verdict::kProven: return take(*from, std::move(call));
    case PeerProofs::Verdict::kRefused: return call.reply.fail(refused(*from));
    case PeerProofs::Verdict::kAsking: break;
  }
  if (!proofs_.hold(proof, call)) {
    call.reply.fail(absl::ResourceExhaustedError("the node that the session names is being asked: try again"));
  }
}

void PeerLinks::take(PeerAddress from, rpc::IncomingCall&& call) {
  absl::Status why;
  const ReplicaFrame* frame = decode(from, call.request.bytes(), why);
  if (frame == nullptr) return call.reply.fail(why);
  ++counters_.messages_received;
  host_.on_peer_message({from, *frame, std::move(call.request), std::move(call.reply)});
}

void PeerLinks::on_reply(PeerAddress from, rpc::Lease bytes) {
  absl::Status why;
  const ReplicaFrame* frame = decode(from, bytes.bytes(), why);
  if (frame == nullptr) return;
  ++counters_.replies_received;
  host_.on_peer_message({from, *frame, std::move(bytes), {}});
}

// --- The loop

TimeNs PeerLinks::tick() {
  const TimeNs now = endpoint_.now_ns();
  if (!dirty_ && notices_.empty() && now < due_ns_) return due_ns_;
  dirty_ = false;
  due_ns_ = run_proofs(now);
  while (!to_close_.empty()) {
    const rpc::SessionId session = to_close_.back();
    to_close_.pop_back();
    endpoint_.close(session);
  }
  for (auto it = links_.begin(); it != links_.end();) {
    auto& [peer, link] = *it;
    // A link with requests under way is kept.
    const TimeNs kept_until =
        link.requests > 0 ? now + options_.kept_for_ns : link.wanted_until_ns + options_.kept_for_ns;
    if (now >= kept_until) {
      reset(link);
      it = links_.erase(it);
      continue;
    }
    due_ns_ = std::min({due_ns_, kept_until, run_link(peer, link, now)});
    ++it;
  }
  notices_.tell_all([this](const PeerNotices::Notice& notice) {
    switch (notice.kind) {
      case Notice::kReady: return host_.on_peer_ready(notice.peer);
      case Notice::kFailed: return host_.on_peer_failed(notice.peer, notice.why);
      case Notice::kRoom: return host_.on_peer_room(notice.peer);
    }
  });
  return dirty_ || !notices_.empty() ? now : due_ns_;
}

TimeNs PeerLinks::run_link(PeerAddress peer, Link& link, TimeNs now) {
  if (link.state == State::kOpen) return kTimeNever;
  const bool underway = link.state == State::kDescribing || link.state == State::kAwaiting;
  if (underway && now >= link.until_ns) {
    fail(peer, link, absl::DeadlineExceededError("the node's bootstrap service did not answer in time"));
  }
  if (link.state != State::kClosed && now < link.until_ns) return link.until_ns;
  if (closing_ || now >= link.wanted_until_ns) return kTimeNever;
  open(peer, link, now);
  return link.until_ns;
}

void PeerLinks::close_all() {
  closing_ = true;
  proofs_.clear();
  for (auto& [peer, link] : links_) reset(link);
  static_cast<void>(tick());
}

bool PeerLinks::is_open(PeerAddress peer) const {
  const Link* const link = find(peer);
  return link != nullptr && link->state == State::kOpen;
}

absl::Status PeerLinks::last_error(PeerAddress peer) const {
  if (absl::Status status = peers_.check(peer); !status.ok()) return status;
  const Link* const link = find(peer);
  return link == nullptr ? absl::OkStatus() : link->last_error;
}

std::vector<std::string> PeerLinks::refusals() const {
  std::vector<std::string> out;
  for (const auto& [peer, link] : links_) {
    if (endpoint_.now_ns() >= link.refuses_until_ns) continue;
    out.push_back(absl::StrCat(describe(peer, peers_.find(peer.node)->uuid),
                               " refuses what is replicated to it: ", link.refusal.message()));
  }
  return out;
}

}  // namespace skua::kv
