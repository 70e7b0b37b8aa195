#include "rpc/handshake_policy.h"

#include <algorithm>
#include <bit>

#include "rpc/protocol/options.h"
#include "rpc/wire/bundle.h"

namespace skua::rpc {
namespace {

/// Reduces `bytes` to what packets of the session can carry: a message has at most so many.
uint32_t limit_message(uint32_t bytes, uint32_t payload_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{payload_bytes} * kPacketsPerMessageMax, bytes));
}

}  // namespace

SessionTerms HandshakePolicy::own_terms() const {
  const Capabilities& caps = transport_.capabilities();
  const ProtocolOptions& protocol = options_.protocol;
  SessionTerms terms;
  terms.window = protocol.window;
  terms.payload_bytes = std::min(caps.payload_max_bytes, protocol.message_max_bytes);
  terms.credits = session_credits(protocol, terms.payload_bytes, caps.lendable_count);
  terms.message_max_bytes = limit_message(protocol.message_max_bytes, terms.payload_bytes);
  return terms;
}

SessionTerms HandshakePolicy::fit_path(SessionTerms terms, PeerId peer) const {
  terms.payload_bytes = std::min(terms.payload_bytes, transport_.payload_max_bytes(peer));
  terms.message_max_bytes = limit_message(terms.message_max_bytes, terms.payload_bytes);
  return terms;
}

SessionTerms HandshakePolicy::common_terms(const SessionTerms& offered) const {
  const SessionTerms own = own_terms();
  SessionTerms out;
  out.window = std::bit_floor(std::min(own.window, offered.window));
  out.credits = std::min(own.credits, offered.credits);
  out.payload_bytes = std::min(own.payload_bytes, offered.payload_bytes);
  out.message_max_bytes = limit_message(std::min(own.message_max_bytes, offered.message_max_bytes), out.payload_bytes);
  return out;
}

uint8_t HandshakePolicy::version_max() const {
  const bool bundles = transport_.capabilities().frames && options_.bundles;
  const uint8_t version = bundles ? kBundleVersion : kProtocolVersion;
  return options_.trusted_wire ? version | version_flags::kTrustedWire : version;
}

}  // namespace skua::rpc
