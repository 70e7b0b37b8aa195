// PeerProofs: which of the sessions that others opened to here are of the nodes that they name.
//
// A session's identity is what its offer says, and a node's uuid and incarnation are known to everybody. So the node itself is asked,
// at the address at which the control plane has it, by a link that was opened from here:
//
//      session, "I am worker w of node X"                    link to worker w of node X (kvstore/peers/peer_links.h)
//        first message --> kAsking: held ----- VOUCH(the number of the session's offer) ----->
//                          kProven: taken <---------- yes: one of my links has that number ---
//                          kRefused: failed <--------- no
//
// The number is random, and only who made the offer and who took it know it (rpc::Endpoint::session_nonce). Without an answer in
// time what is held fails, and the next message asks again.
//
// Held requests are copied: nothing of the endpoint's memory waits for another node.
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
    bool is_asked = false;  // the question is under way
    TimeNs ask_ns = 0;      // not before
    TimeNs until_ns = 0;    // kAsking: given up then
    std::vector<rpc::IncomingCall> held;
  };

  /// Of a session that claims to be `claimed`; begun at `now` if it is new.
  Proof& of(rpc::SessionId session, PeerAddress claimed, TimeNs now);
  /// Null: not known.
  [[nodiscard]] Proof* find(rpc::SessionId session);
  /// Keeps a copy of the request until the session's verdict. False: too much is held; the call is the caller's still.
  [[nodiscard]] bool hold(Proof& proof, rpc::IncomingCall& call);
  /// What was held for the session, oldest first.
  [[nodiscard]] std::vector<rpc::IncomingCall> take_held(Proof& proof);
  /// The session has ended, or must be asked for anew.
  void forget(rpc::SessionId session);
  /// Of all sessions that claim to be of the node. Their callers are told that nobody answered.
  void forget_node(NodeId node);
  void clear();

  /// Calls `fn(Proof&)` for each that has no verdict; it may end others, not begin any.
  template <typename Fn>
  void for_each_asking(Fn fn) {
    if (asking_count_ == 0) return;
    for (auto it = proofs_.begin(); it != proofs_.end();) {
      Proof& proof = (it++)->second;
      if (proof.verdict == Verdict::kAsking) fn(proof);
    }
  }
  void set(Proof& proof, Verdict verdict);

 private:
  std::map<uint32_t, Proof> proofs_;  // by the session's index
  size_t asking_count_ = 0;
  size_t held_bytes_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_PEERS_PEER_PROOFS_H_
