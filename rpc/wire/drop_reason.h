// Why a packet was dropped. Each drop is counted under exactly one reason. A packet that is damaged, malformed or from
// a foreign sender changes no state. A duplicate may cause an answer to be sent again.
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
  kStaleRequest,        // a request number older than the sslot's
  kUnexpectedResponse,  // no call with this number is in flight in the sslot
  kDuplicate,           // a packet that was already received
  kNotReady,            // the session is not connected (yet)
  kTooLarge,            // a message above the negotiated maximum
  kNoMemory,            // no buffer for its message; the sender repeats it, or the call fails
  kMalformedHandshake,  // an offer or answer that does not decode
  kRefusedHandshake,    // an offer that was refused
  kForeignSender,       // for a session, but not from its peer
  kUnknownAssociation,  // a bundle of an association that does not exist here, or has another epoch or peer
  kStaleBundle,         // a bundle or request much older than the newest one
};
inline constexpr size_t kDropReasonCount = 18;

/// A name for counters and logs, such as "bad_checksum".
[[nodiscard]] std::string_view drop_reason_name(DropReason reason);

}  // namespace skua::rpc

#endif  // SKUA_RPC_WIRE_DROP_REASON_H_
