// PeerProofs: whether the sessions that others opened to this worker belong to the nodes that they name.
//
// A session's identity comes from its offer, and everybody knows a node's uuid and incarnation. So an identity proves
// nothing. Therefore the named node is asked, on a link that this worker opened to the address that the control plane
// knows:
//
//      session, "I am worker w of node X"                    link to worker w of node X (kvstore/peers/peer_links.h)
//        first message --> kAsking: held ----- VOUCH(nonce of the session's offer) --------->
//                          kProven: accepted <------ yes: one of my links has that nonce -----
//                          kRefused: failed <--------- no
//
// The nonce is random. Only the two ends of the session know it, and observers of their packets
// (rpc::Endpoint::session_nonce). Without an answer in time the held requests fail, and the next message starts a new
// question.
//
// Held requests are copied, so that no receive memory of the endpoint waits for another node.
//
// Thread: the endpoint's.
#ifndef SKUA_KVSTORE_PEERS_PEER_PROOFS_H_
#define SKUA_KVSTORE_PEERS_PEER_PROOFS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "kvstore/peers/peer_address.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"

namespace skua::kv {

class PeerProofs {
 public:
  enum class Verdict : uint8_t { kAsking, kProven, kRefused };

  struct Proof {
    rpc::SessionId session;
    PeerAddress claimed;
    Verdict verdict = Verdict::kAsking;
    bool is_asked = false;  // a question is under way
    TimeNs ask_ns = 0;      // earliest time of the next question
    TimeNs until_ns = 0;    // kAsking: deadline
    std::vector<rpc::IncomingCall> held;
  };

  /// The proof of a session that claims to belong to `claimed`. If the session is new, the proof begins at `now`.
  Proof& of(rpc::SessionId session, PeerAddress claimed, TimeNs now);
  /// Null: the session is unknown.
  [[nodiscard]] Proof* find(rpc::SessionId session);
  /// Moves the call into the proof, with a copy of its request, until the session's verdict. False: too much is held;
  /// then the caller still owns the call.
  [[nodiscard]] bool hold(Proof& proof, rpc::IncomingCall& call);
  /// Removes and returns the held calls of the session, oldest first.
  [[nodiscard]] std::vector<rpc::IncomingCall> take_held(Proof& proof);
  /// Fails the held calls of the session, oldest first.
  void fail_held(Proof& proof, const absl::Status& why);
  /// Call it when the session has ended or must be proven again. Held calls are destroyed unanswered; their callers get
  /// INTERNAL (rpc::ReplyToken).
  void forget(rpc::SessionId session);
  /// Forgets all sessions that claim to belong to the node.
  void forget_node(NodeId node);
  void clear();

  /// Calls `fn(Proof&)` for each proof without a verdict. `fn` may end only the proof that it gets, and may begin none.
  template <typename Fn>
  void for_each_asking(Fn fn) {
    if (asking_count_ == 0) return;
    for (auto it = proofs_.begin(); it != proofs_.end();) {
      Proof& proof = (it++)->second;
      if (proof.verdict == Verdict::kAsking) fn(proof);
    }
  }
  /// Sets the verdict of a proof. Held calls stay until take_held().
  void set(Proof& proof, Verdict verdict);

 private:
  std::map<uint32_t, Proof> proofs_;  // by session index
  size_t asking_count_ = 0;
  size_t held_bytes_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_PROOFS_H_
