#include "rpc/wire/drop_reason.h"

namespace skua::rpc {

std::string_view drop_reason_name(DropReason reason) {
  switch (reason) {
    case DropReason::kTooShort: return "too_short";
    case DropReason::kBadVersion: return "bad_version";
    case DropReason::kBadType: return "bad_type";
    case DropReason::kBadChecksum: return "bad_checksum";
    case DropReason::kBadLength: return "bad_length";
    case DropReason::kUnknownSession: return "unknown_session";
    case DropReason::kOldGeneration: return "old_generation";
    case DropReason::kStaleRequest: return "stale_request";
    case DropReason::kUnexpectedResponse: return "unexpected_response";
    case DropReason::kDuplicate: return "duplicate";
    case DropReason::kNotReady: return "not_ready";
    case DropReason::kTooLarge: return "too_large";
    case DropReason::kNoMemory: return "no_memory";
    case DropReason::kMalformedHandshake: return "malformed_handshake";
    case DropReason::kRefusedHandshake: return "refused_handshake";
    case DropReason::kForeignSender: return "foreign_sender";
    case DropReason::kUnknownAssociation: return "unknown_association";
    case DropReason::kStaleBundle: return "stale_bundle";
  }
  return "unknown";
}

}  // namespace skua::rpc
