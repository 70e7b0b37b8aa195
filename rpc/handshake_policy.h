// HandshakePolicy: what an endpoint offers when it opens a session, and what it agrees to when others do.
#ifndef SKUA_RPC_HANDSHAKE_POLICY_H_
#define SKUA_RPC_HANDSHAKE_POLICY_H_

#include <cstdint>

#include "rpc/endpoint.h"
#include "rpc/transport/transport.h"
#include "rpc/wire/handshake.h"

namespace skua::rpc {

/// Thread: the endpoint's. `transport` and `options` must outlive it.
class HandshakePolicy {
 public:
  HandshakePolicy(const Transport& transport, const EndpointOptions& options)
      : transport_(transport), options_(options) {}

  /// What this endpoint can do, over any path.
  [[nodiscard]] SessionTerms own_terms() const;
  /// Reduces the terms to what the path to `peer` carries.
  [[nodiscard]] SessionTerms fit_path(SessionTerms terms, PeerId peer) const;
  /// The smaller value of each term, adjusted: windows are powers of two, and packet indices have 16 bits.
  [[nodiscard]] SessionTerms common_terms(const SessionTerms& offered) const;
  /// The highest protocol version, with its flags. Bundles need a transport with frames.
  [[nodiscard]] uint8_t version_max() const;

 private:
  const Transport& transport_;
  const EndpointOptions& options_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_HANDSHAKE_POLICY_H_
