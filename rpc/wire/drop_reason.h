// Why a packet was thrown away. Each drop is counted under exactly one reason; none changes any
// state.
#ifndef SKUA_RPC_WIRE_DROP_REASON_H_
#define SKUA_RPC_WIRE_DROP_REASON_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace skua::rpc {

enum class DropReason : uint8_t {
  kTooShort,            // fewer bytes than a header
  kBadVersion,          // another protocol version
  kBadType,             // no such packet type
  kBadChecksum,         // corrupted on the wire
  kBadLength,           // sizes in the header contradict each other or the payload
  kUnknownSession,      // no session at that index
  kOldGeneration,       // the session at that index is a newer one
  kStaleRequest,        // a request number that the slot has left behind
  kUnexpectedResponse,  // nothing is in flight in that slot, or of another number
  kDuplicate,           // a packet that was already received
  kNotReady,            // the session is not connected (yet)
  kTooLarge,            // a message above the negotiated maximum
  kNoMemory,            // no buffer to assemble it in; the sender will repeat it
  kMalformedHandshake,  // an offer or answer that does not decode
  kRefusedHandshake,    // an offer that was answered with no
  kForeignSender,       // for a session, and not from its peer
  kUnknownAssociation,  // a bundle of an association that is none here, or of another epoch or peer
  kStaleBundle,         // a bundle or request that lies far behind what came since
};
inline constexpr size_t kDropReasonCount = 18;

/// A name for counters and logs, such as "bad_checksum".
[[nodiscard]] std::string_view drop_reason_name(DropReason reason);

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_DROP_REASON_H_
