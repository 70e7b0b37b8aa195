#include "kvstore/client/sessions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/operation_runner.h"
#include "kvstore/client/retry_policy.h"
#include "rpc/base/status.h"

namespace skua::kv {

Sessions::Sessions(OperationRunner& runner, rpc::Endpoint& endpoint, ClusterAccess& cluster, const RouteTable& routes,
                   ClientCounters& counters, uint64_t seed)
    : runner_(runner), endpoint_(endpoint), cluster_(cluster), routes_(routes), counters_(counters), rng_(seed) {
  endpoint_.on_session_event([this](const rpc::SessionEvent& event) { on_event(event); });
}

Sessions::Entry& Sessions::entry_of(TargetId target) {
  if (target >= entries_.size()) entries_.resize(target + 1);
  return entries_[target];
}

// --- Opening

TimeNs Sessions::ensure_open(TargetId target, TimeNs now) {
  Entry& entry = entry_of(target);
  if (entry.state == State::kOpen && entry.suspect && entry.calls == 0) lose(entry);
  switch (entry.state) {
    case State::kOpen: return kTimeNever;
    case State::kDescribing:
    case State::kAwaiting:  // after retry_at_ns the result of the opening counts as lost
    case State::kFailed:
      if (now < entry.retry_at_ns) return entry.retry_at_ns;
      break;
    case State::kClosed: break;
  }
  reset(entry);
  entry.state = State::kDescribing;
  entry.opening = ++openings_;
  entry.retry_at_ns = now + 3 * kBootstrapTimeoutNs;
  const Target& whom = routes_.target(target);
  cluster_.describe(whom.grpc_address, routes_.cluster_id(), kBootstrapTimeoutNs,
                    [this, target, opening = entry.opening,
                     mailbox = endpoint_.mailbox()](absl::StatusOr<control::NodeDescription> node) {
                      // A full mailbox drops the result. The opening then times out.
                      static_cast<void>(mailbox->post(
                          [this, target, opening, node = std::move(node)] { on_described(target, opening, node); }));
                    });
  return entry.retry_at_ns;
}

void Sessions::on_described(TargetId target, uint64_t opening, const absl::StatusOr<control::NodeDescription>& node) {
  Entry& entry = entries_[target];
  if (entry.opening != opening || entry.state != State::kDescribing) return;
  if (!node.ok()) return fail(target, node.status());
  const Target& whom = routes_.target(target);
  if (node->node_uuid != whom.node_uuid) {
    return fail(target,
                absl::FailedPreconditionError(absl::StrCat("node ", node->node_uuid, " answers at ", whom.grpc_address,
                                                           " now: a newer shard map will tell")));
  }
  entry.features = node->features;
  const rpc::Descriptor self = endpoint_.local_descriptor();
  const control::TransportDescriptor* found = nullptr;
  std::string spoken;
  for (const control::WorkerDescription& worker : node->workers) {
    if (worker.worker != whom.worker) continue;
    for (const control::TransportDescriptor& transport : worker.transports) {
      if (transport.kind == self.transport) found = &transport;
      absl::StrAppend(&spoken, spoken.empty() ? "" : ", ", transport.kind);
    }
  }
  if (found == nullptr) {
    return fail(target, absl::FailedPreconditionError(
                            absl::StrCat("the worker speaks ", spoken.empty() ? "nothing yet" : spoken,
                                         ", this client ", self.transport, ": start both with the same --transport")));
  }
  absl::StatusOr<rpc::Descriptor> peer = rpc::Descriptor::decode(as_byte_span(found->bytes));
  if (!peer.ok()) return fail(target, peer.status());
  absl::StatusOr<rpc::Endpoint::Offer> offer = endpoint_.begin_connect(*peer);
  if (!offer.ok()) return fail(target, offer.status());
  entry.state = State::kAwaiting;
  entry.session = offer->session;

  const control::OpenSessionRequest request{.grpc_address = whom.grpc_address,
                                            .cluster_id = routes_.cluster_id(),
                                            .node_uuid = whom.node_uuid,
                                            .incarnation = whom.incarnation,
                                            .worker = whom.worker,
                                            .transport = {self.transport, self.encode()},
                                            .offer = std::move(offer->bytes)};
  cluster_.open_session(request, kBootstrapTimeoutNs,
                        [this, target, opening, mailbox = endpoint_.mailbox()](absl::StatusOr<std::string> answer) {
                          static_cast<void>(mailbox->post([this, target, opening, answer = std::move(answer)] {
                            on_answered(target, opening, answer);
                          }));
                        });
}

void Sessions::on_answered(TargetId target, uint64_t opening, const absl::StatusOr<std::string>& answer) {
  Entry& entry = entries_[target];
  if (entry.opening != opening || entry.state != State::kAwaiting) return;
  if (!answer.ok()) return fail(target, answer.status());
  if (absl::Status status = endpoint_.finish_connect(entry.session, as_byte_span(*answer)); !status.ok()) {
    return fail(target, status);
  }
  if (!endpoint_.is_connected(entry.session)) {
    return fail(target, absl::InternalError("the node's answer to the handshake is malformed: do "
                                            "client and node have the same version?"));
  }
  entry.state = State::kOpen;
  entry.last_error = absl::OkStatus();
  ++counters_.sessions_opened;
  runner_.session_changed(target);
}

// --- Losing

void Sessions::fail(TargetId target, const absl::Status& why) {
  Entry& entry = entries_[target];
  reset(entry);
  pause(entry);
  entry.last_error = why;
  ++counters_.session_open_failures;
  cluster_.hurry();
  runner_.session_failed(target, absl::Status(why.code(), absl::StrCat("no session: ", why.message())));
}

void Sessions::lose(Entry& entry) {
  const bool heard = entry.heard;
  reset(entry);
  if (!heard) pause(entry);
  ++counters_.sessions_lost;
}

void Sessions::pause(Entry& entry) {
  entry.state = State::kFailed;
  entry.retry_at_ns = endpoint_.now_ns() + retry_pause(++entry.failures, kReopenPauseMinNs, kReopenPauseMaxNs, rng_);
}

void Sessions::reset(Entry& entry) {
  if (entry.session != rpc::SessionId{}) to_close_.push_back(entry.session);
  entry.session = {};
  entry.state = State::kClosed;
  entry.suspect = entry.heard = false;
  entry.calls = 0;
}

void Sessions::suspect(TargetId target, rpc::SessionId session) {
  Entry& entry = entries_[target];
  if (entry.session == session) entry.suspect = true;
}

void Sessions::call_ended(TargetId target, rpc::SessionId session, bool heard) {
  Entry& entry = entries_[target];
  if (entry.session != session) return;
  --entry.calls;
  if (heard) {
    entry.heard = true;
    entry.failures = 0;
  }
  if (!entry.suspect || entry.calls > 0) return;
  lose(entry);
  runner_.session_changed(target);
}

void Sessions::drop(TargetId target) {
  if (target >= entries_.size()) return;
  Entry& entry = entries_[target];
  if (entry.state == State::kOpen) ++counters_.sessions_lost;
  reset(entry);
  entry.failures = 0;
  runner_.session_changed(target);
}

void Sessions::on_event(const rpc::SessionEvent& event) {
  using Kind = rpc::SessionEvent::Kind;
  if (event.kind != Kind::kBroken && event.kind != Kind::kClosed) return;
  for (TargetId target = 0; target < entries_.size(); ++target) {
    Entry& entry = entries_[target];
    if (entry.session != event.session) continue;
    // Gives the session up: the engine would reconnect to the old address, and a restarted node may have another one.
    if (event.kind == Kind::kClosed) entry.session = {};
    lose(entry);
    cluster_.hurry();
    runner_.session_changed(target);
    return;
  }
}

void Sessions::close_all() {
  for (Entry& entry : entries_) reset(entry);
}

void Sessions::clean_up() {
  while (!to_close_.empty()) {
    const rpc::SessionId session = to_close_.back();
    to_close_.pop_back();
    endpoint_.close(session);
  }
}

}  // namespace skua::kv
