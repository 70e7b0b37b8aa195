// Channels: how the two ends of a keyed transport agree on keys.
//
// A transport may seal what it carries (rpc/transport/sealed). Then its peers are channels: each has keys that only two
// endpoints know, and belongs to one principal, the name in a certificate. The keys come with the first session. Its
// offer and answer travel over a channel of their own that is secret and knows the principal (gRPC with mutual TLS);
// a record of the channel travels with each:
//
//   opener                                                     acceptor
//   offer(peer)            ---- offer of channel and session ---->   accept(): finds or makes the channel
//   finish(peer, answer)   <--- answer of channel and session ----
//
// Later sessions of the same principal between the same endpoints find the channel, and use its keys.
//
// While a cluster turns protection on, some ends have no keys yet. Channels may admit them: a peer without keys is a
// keyless channel, whose packets are not sealed in either direction. Which of the two a session has is said by its
// offer and answer alone, never by a packet.
#ifndef SKUA_RPC_TRANSPORT_CHANNELS_H_
#define SKUA_RPC_TRANSPORT_CHANNELS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"
#include "rpc/transport/descriptor.h"
#include "rpc/transport/transport.h"

namespace skua::rpc {

/// Where an offer came from, as its carrier knows.
struct OfferOrigin {
  /// Offers from one place have the same number; used for limits.
  uint64_t source = 0;
  /// Who proved to be the opener; empty: the carrier knows nobody.
  std::string principal;
  /// The opener proved to be a node of the cluster: it may use what is kept for nodes.
  bool is_node = false;
};

/// Thread: the endpoint's.
class Channels {
 public:
  virtual ~Channels() = default;

  /// What travels with the offer of a session to a peer that was resolved. Secret is nothing of it.
  [[nodiscard]] virtual std::string offer(PeerId peer) = 0;

  struct Accepted {
    PeerId peer = kNoPeer;
    std::string answer;  // secret
  };
  /// The channel that the offer is for. `opener` is what the session's offer says of its sender. INVALID_ARGUMENT: not
  /// an offer. RESOURCE_EXHAUSTED: too many channels, of the opener or of all; the message names the limit. Errors of
  /// Transport::resolve_claimed().
  [[nodiscard]] virtual absl::StatusOr<Accepted> accept(ByteSpan offer, const Descriptor& opener,
                                                        const OfferOrigin& origin) = 0;

  /// From now on the peer can be sent to. INVALID_ARGUMENT: not an answer to this peer's offer. FAILED_PRECONDITION:
  /// the acceptor protects less than this end wants. ABORTED: the acceptor lost the channel, or this end did; the next
  /// offer makes a new one.
  [[nodiscard]] virtual absl::Status finish(PeerId peer, ByteSpan answer) = 0;

  /// Sessions without keys are opened and accepted as well.
  [[nodiscard]] virtual bool admits_keyless() const = 0;
  /// The peer at the same address as `dialled`, which was resolved, without keys: the acceptor has answered without a
  /// channel. FAILED_PRECONDITION: none is admitted. RESOURCE_EXHAUSTED: as accept().
  [[nodiscard]] virtual absl::StatusOr<PeerId> keyless(PeerId dialled) = 0;
  /// The peer without keys that an offer over a transport of datagrams says to be from. The offer may say anything, so
  /// its origin pays for the channel, and not the place that it names. RESOURCE_EXHAUSTED: as accept(). Errors of
  /// Transport::resolve_claimed().
  [[nodiscard]] virtual absl::StatusOr<PeerId> claim_keyless(const Descriptor& opener, const OfferOrigin& origin) = 0;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_TRANSPORT_CHANNELS_H_
