// The outcome of an operation as one byte of a reply.
//
// 0..16 are gRPC's codes with gRPC's meaning. Codes from 32 on tell a client more than a gRPC code can, because the
// client acts on the difference: it refreshes the shard map, or reads the current version, or it tells a write that
// certainly did not happen from a write that may have happened.
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
  kAlreadyExists = 6,  ///< if_absent, and the key exists; the reply's version is the key's
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

  kWrongShard = 32,       ///< the server is not the owner in its epoch (in the reply): refresh, retry; not applied
  kVersionMismatch = 33,  ///< if_version, and the key has another version (in the reply; 0: absent); not applied
  kNotARow = 34,          ///< PATCH of a value that is not in row format, or that lacks the mark; not applied. GET of
                          ///< fields: the value is not in row format
  kStorageFailed = 35,    ///< the log's write or sync failed: the operation may or may not survive a restart
  kShardReadOnly = 36,    ///< the shard refuses writes because of an earlier storage failure; not applied

  kNotANumber = 37,         ///< ADD to a value that is no decimal int64; not applied
  kCounterOverflow = 38,    ///< ADD beyond an int64's range; not applied
  kStaleRetry = 39,         ///< the shard keeps no result for a seq so low; an earlier attempt may have been applied
  kTooManyIncomplete = 40,  ///< the shard keeps as many results for this client as it may; not applied
  kBehindToken = 41,        ///< the shard lacks the index that the read demands (at_least_index)
  kIsARow = 42,             ///< APPEND to a record that is marked as a row; not applied
};

/// "OK", "WRONG_SHARD", ...; "UNKNOWN" for a byte that is no KvStatus.
[[nodiscard]] const char* status_name(KvStatus status);

/// The nearest gRPC code. kWrongShard and kShardReadOnly become UNAVAILABLE; kVersionMismatch, kNotARow, kNotANumber
/// and kBehindToken become FAILED_PRECONDITION; kCounterOverflow OUT_OF_RANGE; kStaleRetry ABORTED; kTooManyIncomplete
/// RESOURCE_EXHAUSTED; kStorageFailed DATA_LOSS; kIsARow INVALID_ARGUMENT, so that nobody who appends with if_version
/// takes it for a mismatch and tries again. A byte that is no KvStatus becomes UNKNOWN.
[[nodiscard]] absl::StatusCode to_status_code(KvStatus status);

/// The KvStatus with the number of the gRPC code; kUnknown for a code that gRPC does not have.
[[nodiscard]] KvStatus from_status_code(absl::StatusCode code);

/// The message for an absl::Status made of `status`: "WRONG_SHARD: `text`". The name is left out if it is the name of
/// the gRPC code, because a printed absl::Status names its code already. Never empty.
[[nodiscard]] std::string status_text(KvStatus status, std::string_view text);

/// True if a write that was answered with `status` was certainly not applied. If the write was sent several times with
/// one RequestId, no attempt was applied.
[[nodiscard]] bool certainly_not_applied(KvStatus status);

/// True if the status is the final answer to one mutation that had no effect, because of the state of its key: the
/// answer is as good as a read of that state. After other errors a client may repeat the mutation.
[[nodiscard]] bool rests_on_state(KvStatus status);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_STATUS_H_
