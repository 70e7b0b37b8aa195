#include "kvstore/peers/peer_proofs.h"
#include "kvstore/peers/peer_limits.h"

#include <utility>

namespace skua::kv {
namespace {

/// Owns the memory of copied requests. The cookie of a lease is the address of its memory.
class HeapBytes final : public rpc::LeaseOwner {
 public:
  static rpc::Lease copy(ByteSpan bytes) {
    static HeapBytes owner;
    auto* const memory = new std::byte[bytes.size() + 1];
    copy_bytes(memory, bytes);
    return {{memory, bytes.size()}, &owner, reinterpret_cast<uintptr_t>(memory)};
  }
  void return_lease(uint64_t cookie) override {
    delete[] reinterpret_cast<std::byte*>(cookie);  // NOLINT(performance-no-int-to-ptr)
  }
};

}  // namespace

PeerProofs::Proof& PeerProofs::of(rpc::SessionId session, PeerAddress claimed, TimeNs now) {
  Proof& proof = proofs_[session.index];
  if (proof.session == session) return proof;
  // The index belonged to an earlier session whose end was not reported.
  if (proof.session != rpc::SessionId{}) forget(proof.session);
  Proof& begun = proofs_[session.index];
  begun.session = session;
  begun.claimed = claimed;
  begun.until_ns = now + kPeerProofTimeoutNs;
  ++asking_count_;
  return begun;
}

PeerProofs::Proof* PeerProofs::find(rpc::SessionId session) {
  const auto found = proofs_.find(session.index);
  return found != proofs_.end() && found->second.session == session ? &found->second : nullptr;
}

bool PeerProofs::hold(Proof& proof, rpc::IncomingCall& call) {
  const size_t bytes = call.request.size();
  if (proof.held.size() >= kHeldPerSessionMax || held_bytes_ + bytes > kHeldBytesMax) return false;
  held_bytes_ += bytes;
  call.request = HeapBytes::copy(call.request.bytes());
  proof.held.push_back(std::move(call));
  return true;
}

std::vector<rpc::IncomingCall> PeerProofs::take_held(Proof& proof) {
  for (const rpc::IncomingCall& call : proof.held) held_bytes_ -= call.request.size();
  return std::exchange(proof.held, {});
}

void PeerProofs::set(Proof& proof, Verdict verdict) {
  if (proof.verdict == Verdict::kAsking) --asking_count_;
  if (verdict == Verdict::kAsking) ++asking_count_;
  proof.verdict = verdict;
}

void PeerProofs::fail_held(Proof& proof, const absl::Status& why) {
  for (rpc::IncomingCall& call : take_held(proof)) call.reply.fail(why);
}

void PeerProofs::forget(rpc::SessionId session) {
  Proof* const proof = find(session);
  if (proof == nullptr) return;
  static_cast<void>(take_held(*proof));  // their callers get INTERNAL (rpc::ReplyToken)
  if (proof->verdict == Verdict::kAsking) --asking_count_;
  proofs_.erase(session.index);
}

void PeerProofs::forget_node(NodeId node) {
  for (auto it = proofs_.begin(); it != proofs_.end();) {
    const Proof& proof = (it++)->second;
    if (proof.claimed.node == node) forget(proof.session);
  }
}

void PeerProofs::clear() {
  proofs_.clear();
  asking_count_ = held_bytes_ = 0;
}

}  // namespace skua::kv
