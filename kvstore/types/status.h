// The outcome of an operation as one byte of a reply.
//
// 0..16 are gRPC's codes with gRPC's meaning. 32 and above say more than a gRPC code can, because a client acts on the
// difference: refresh the shard map, read the current version, or tell a write that is known not to have happened from
// one that may have.
#ifndef SKUA_KVSTORE_TYPES_STATUS_H_
#define SKUA_KVSTORE_TYPES_STATUS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace skua::kv {

enum class KvStatus : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,  ///< if_absent, and the key is there; the reply's version is the key's
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,

  kWrongShard = 32,       ///< not the owner in the server's epoch (in the reply): refresh, retry; not applied
  kVersionMismatch = 33,  ///< if_version, and the key has another version (in the reply; 0: absent); not applied
  kNotARow = 34,          ///< PATCH of a value that is not in row format; not applied
  kStorageFailed = 35,    ///< the write or its sync failed: the operation may or may not survive a restart
  kShardReadOnly = 36,    ///< the shard refuses writes since an earlier storage failure; not applied

  kNotANumber = 37,         ///< ADD to a value that is no decimal int64; not applied
  kCounterOverflow = 38,    ///< ADD beyond an int64's range; not applied
  kStaleRetry = 39,         ///< a mutation whose seq is below the client's first_incomplete: its fate has been told
  kTooManyIncomplete = 40,  ///< the shard keeps kIncompleteMax results for this client; not applied
  kBehindToken = 41,        ///< the shard has not the index that a read asks for at least
};

/// "OK", "WRONG_SHARD", ...; "UNKNOWN" for a byte that is none.
[[nodiscard]] const char* status_name(KvStatus status);

/// The nearest gRPC code: kWrongShard and kShardReadOnly are UNAVAILABLE; kVersionMismatch, kNotARow, kNotANumber and
/// kBehindToken FAILED_PRECONDITION; kCounterOverflow OUT_OF_RANGE, kStaleRetry ABORTED, kTooManyIncomplete
/// RESOURCE_EXHAUSTED, kStorageFailed DATA_LOSS, bytes that are none UNKNOWN.
[[nodiscard]] absl::StatusCode to_status_code(KvStatus status);

/// gRPC code to the same number.
[[nodiscard]] KvStatus from_status_code(absl::StatusCode code);

/// What an absl::Status made of `status` says: "WRONG_SHARD: `text`". A name that is the code's own is left out, since
/// whoever prints the status names its code. Never empty.
[[nodiscard]] std::string status_text(KvStatus status, std::string_view text);

/// True if a write answered with `status` did certainly not happen (if it was sent more than once with one RequestId:
/// neither then nor before).
[[nodiscard]] bool certainly_not_applied(KvStatus status);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_STATUS_H_
