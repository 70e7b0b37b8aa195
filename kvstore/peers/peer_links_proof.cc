// The part of PeerLinks that checks whether a session belongs to the node that it names (peer_proofs.h).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/peers/peer_identity.h"
#include "kvstore/peers/peer_limits.h"
#include "kvstore/peers/peer_links.h"

namespace skua::kv {
namespace {

using Verdict = PeerProofs::Verdict;

constexpr std::byte kYes{1};
constexpr std::byte kNo{0};

/// Pause after a question that failed or could not be sent.
constexpr DurationNs kAskAgainNs = 10 * kMillisecond;

}  // namespace

absl::StatusOr<PeerAddress> PeerLinks::check(const rpc::EndpointIdentity& identity) {
  const auto named = peers_.worker_of(identity);
  if (!named.has_value()) {
    ++counters_.refused_unknown;
    return absl::FailedPreconditionError(absl::StrCat("this node knows no ", identity.uuid.to_string(), " of cluster ",
                                                      identity.cluster_id.to_string(),
                                                      ": it serves other nodes of its own cluster's map only"));
  }
  if (identity.incarnation != named->node.incarnation) {
    ++counters_.refused_incarnation;
    return absl::FailedPreconditionError(absl::StrCat("node ", named->node.uuid, " is known here in incarnation ",
                                                      named->node.incarnation, ", the session is of ",
                                                      identity.incarnation, ": open another, or wait for a newer map"));
  }
  if (named->is_current) return named->address;
  ++counters_.refused_unknown;
  return peers_.check(named->address);
}

/// The endpoint reserves its last sessions for nodes (rpc::Endpoint::keep_for). So when only these are left, a session
/// that claims to belong to a node is questioned at once.
void PeerLinks::on_accepted(const rpc::SessionEvent& event) {
  if (closing_ || !endpoint_.is_short_of_sessions()) return;
  const auto named = peers_.worker_of(event.peer);
  if (named.has_value() && named->is_current) static_cast<void>(proof_of(event.session, named->address));
}

absl::StatusOr<PeerAddress> PeerLinks::identify(rpc::SessionId session) {
  const auto claimed = check(endpoint_.peer_identity(session));
  if (!claimed.ok()) return claimed.status();
  switch (proof_of(session, *claimed).verdict) {
    case Verdict::kProven: return *claimed;
    case Verdict::kAsking:
      return absl::UnavailableError("the node that the session names is being asked whether it opened it: try again");
    case Verdict::kRefused: break;
  }
  return refused(*claimed);
}

absl::Status PeerLinks::refused(PeerAddress claimed) {
  ++counters_.refused_unproven;
  const PeerInfo* const known = peers_.find(claimed.node);
  return absl::PermissionDeniedError(absl::StrCat("the session says that it is of worker ", claimed.worker, " of node ",
                                                  known == nullptr ? "?" : known->uuid,
                                                  ", and that node says that it did not open it"));
}

PeerProofs::Proof& PeerLinks::proof_of(rpc::SessionId session, PeerAddress claimed) {
  PeerProofs::Proof& proof = proofs_.of(session, claimed, endpoint_.now_ns());
  if (proof.verdict == Verdict::kAsking) {
    dirty_ = true;
    // The node seems to be alive, so the first request ends the pause of the link to it.
    Link& link = want(claimed);
    const bool is_new = proof.held.empty() && !proof.is_asked && proof.ask_ns == 0;
    if (is_new && link.state == State::kFailed) link.until_ns = endpoint_.now_ns();
  }
  return proof;
}

/// Sends the questions that are due, and fails proofs past their deadline. Returns the latest time for the next call.
TimeNs PeerLinks::run_proofs(TimeNs now) {
  TimeNs next = kTimeNever;
  std::vector<rpc::SessionId> overdue;
  proofs_.for_each_asking([&](PeerProofs::Proof& proof) {
    if (now >= proof.until_ns) {
      overdue.push_back(proof.session);
      return;
    }
    next = std::min(next, proof.until_ns);
    want(proof.claimed);
    if (proof.is_asked) return;
    if (now >= proof.ask_ns) proof.is_asked = ask(proof);
    if (!proof.is_asked) next = std::min(next, std::max(proof.ask_ns, now + kAskAgainNs));
  });
  for (const rpc::SessionId session : overdue) {
    PeerProofs::Proof* const proof = proofs_.find(session);
    if (endpoint_.is_short_of_sessions()) to_close_.push_back(session);
    proofs_.fail_held(*proof,
                      absl::UnavailableError("the node that the session names did not say in time that it opened it"));
    proofs_.forget(session);
  }
  return next;
}

/// Sends the question. False: the link is not open, or has too many questions under way.
bool PeerLinks::ask(const PeerProofs::Proof& proof) {
  std::array<std::byte, sizeof(uint64_t)> number;
  Link* const link = find(proof.claimed);
  if (closing_ || link == nullptr || link->state != State::kOpen || link->questions >= kQuestionsMax) return false;
  store_le(number.data(), endpoint_.session_nonce(proof.session));
  rpc::MessagePtr question = endpoint_.make_message();
  question->append_copy(number);
  return start_call(
      *link, proof.claimed, Method::kVouch, std::move(question), kPeerProofTimeoutNs,
      [this, session = proof.session](rpc::CallResult&& result) { on_vouched(session, std::move(result)); },
      Kind::kQuestion);
}

void PeerLinks::on_vouched(rpc::SessionId session, rpc::CallResult&& result) {
  PeerProofs::Proof* const proof = proofs_.find(session);
  if (proof == nullptr || proof->verdict != Verdict::kAsking) return;
  proof->is_asked = false;
  // A node that the control plane knows to be of an older release does not know VOUCH. Then the identity of the session
  // has to suffice. From any other node this answer is none.
  const PeerInfo* const known = peers_.find(proof->claimed.node);
  const bool may_be_older = known != nullptr && !known->vouches;
  const bool is_older = may_be_older && result.from_peer && absl::IsUnimplemented(result.status);
  if (!result.status.ok() && !is_older) {
    dirty_ = true;  // asked again until the deadline
    proof->ask_ns = endpoint_.now_ns() + kAskAgainNs;
    return;
  }
  const ByteSpan answer = result.response.bytes();
  const bool proven = is_older || (answer.size() == 1 && answer[0] == kYes);
  proofs_.set(*proof, proven ? Verdict::kProven : Verdict::kRefused);
  if (!proven) {
    dirty_ = true;
    if (endpoint_.is_short_of_sessions()) to_close_.push_back(session);
    return proofs_.fail_held(*proof, refused(proof->claimed));
  }
  for (rpc::IncomingCall& call : proofs_.take_held(*proof)) on_request(std::move(call));
}

/// Handles VOUCH: another node asks whether this node opened a session to it.
void PeerLinks::on_vouch(rpc::IncomingCall&& call) {
  const ByteSpan question = call.request.bytes();
  if (question.size() != sizeof(uint64_t)) {
    ++counters_.refused_malformed;
    return call.reply.fail(absl::InvalidArgumentError("a question for a session has eight bytes"));
  }
  // The nonce only counts for a link that leads to the node that asks: a node must not use a nonce that it got from
  // another one. The asker itself needs no proof, because the answer is only about links to the node that it names.
  const auto asker = check(endpoint_.peer_identity(call.session));
  if (!asker.ok()) return call.reply.fail(absl::UnavailableError(asker.status().message()));  // it may be known soon
  const auto number = load_le<uint64_t>(question.data());
  const Link* const link = find(*asker);
  const bool is_ours = link != nullptr && link->session != rpc::SessionId{} && number != 0 &&
                       endpoint_.session_nonce(link->session) == number;
  rpc::MessagePtr answer = endpoint_.make_message();
  answer->append_copy({is_ours ? &kYes : &kNo, 1});
  call.reply.reply(std::move(answer));
}

}  // namespace skua::kv
