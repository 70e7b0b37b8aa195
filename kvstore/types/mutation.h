// The name of a shard, the mutations of a shard, and their results.
//
// Every key that exists has a version: the shard's index of the last write to the key. A shard gives each mutation that
// takes effect an index; indices rise by one. An index never goes back and is never used twice, not after deletes and
// not after a restart. After a run of the shard that did not end in order the indices jump ahead (shard_life.h).
// Version 0 means "absent". All writes of a batch have the same version, because a batch is one mutation.
#ifndef SKUA_KVSTORE_TYPES_MUTATION_H_
#define SKUA_KVSTORE_TYPES_MUTATION_H_

#include <compare>
#include <cstdint>
#include <string_view>

#include "kvstore/types/record_mark.h"
#include "kvstore/types/status.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// Names a shard of a table.
struct ShardId {
  uint32_t table_id = 0;
  uint32_t shard = 0;

  friend auto operator<=>(const ShardId&, const ShardId&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
};

/// The condition under which a mutation is applied.
struct Condition {
  enum class Kind : uint8_t { kNone = 0, kIfVersion = 1, kIfAbsent = 2, kIfPresent = 3 };
  Kind kind = Kind::kNone;
  uint64_t version = 0;  ///< kIfVersion: the version that the key must have; else 0

  static Condition none() { return {}; }
  static Condition if_version(uint64_t version) { return {Kind::kIfVersion, version}; }
  static Condition if_absent() { return {Kind::kIfAbsent, 0}; }
  static Condition if_present() { return {Kind::kIfPresent, 0}; }
  friend bool operator==(const Condition&, const Condition&) = default;
};

/// One write of one key. Its members are views; the submitter keeps the bytes alive until the result is there.
struct Mutation {
  /// The numbers stand in requests (codec/batch.h).
  enum class Kind : uint8_t {
    kPut = 1,
    kDelete = 2,
    /// Adds to a counter, which is a value that is a decimal int64 in ASCII. A missing key counts as 0. The expiry of
    /// the key stays, and its mark.
    kAdd = 3,
    /// Appends to a value. A missing key is an empty value. The expiry and the mark stay.
    kAppend = 4,
    /// Replaces or adds fields of a row (codec/row.h), and if it edits the row, removes fields.
    kPatch = 5,
    /// Sets or clears the expiry of a key that exists. The key gets a new version.
    kExpire = 6,
    /// An operation of batches only. It writes nothing. If the key does not have the condition's version, the batch is
    /// not applied. The condition is if_version; version 0: the key must be absent.
    kCheck = 7,
  };
  Kind kind = Kind::kPut;
  bool create_if_missing = false;  ///< kPatch: a missing key counts as an empty row
  Condition condition{};
  std::string_view key{};
  ByteSpan value{};     ///< kPut: the value; kPatch: the fields in row format, or an edit; kAppend: the bytes to append
  uint64_t ttl_ms = 0;  ///< kPut, kExpire: the key is absent after this time; 0: never
  int64_t delta = 0;    ///< kAdd: added to the counter
  bool keep_ttl = false;  ///< kPut: the expiry of the key stays, as it does when kAppend changes the value; ttl_ms is 0
  /// kPut: the record's mark. kPatch: only `row`: the record must be marked as a row, and one that is made will be.
  RecordMark mark{};
  /// kPatch: `value` is an edit (codec/row.h), and the result has PatchCounts. If the last field goes, so does the key.
  /// An edit that only removes fields makes no key, and changes nothing if the row has none of the fields.
  bool edits_row = false;
};

/// The result of a mutation.
///   kOk                 the mutation is done; version = its index. A check holds; version = the key's, 0 if absent.
///                       An edit changes nothing; version = the key's
///   kNotFound           DELETE, PATCH or EXPIRE of a key that is absent, or if_present, and the key is; version = 0
///   kAlreadyExists      if_absent, and the key exists; version = the key's
///   kVersionMismatch    if_version or a check, and the key has another version; version = the key's, 0 if absent
///   kNotARow            PATCH of a value that is not a row, or that is not marked as one (RecordMark); version = the
///                       key's
///   kIsARow             APPEND to a value that is marked as a row (RecordMark); version = the key's
///   kNotANumber         ADD to a value that is no decimal int64; version = the key's
///   kCounterOverflow    ADD beyond an int64; version = the key's
///   kInvalidArgument    a key or value outside of codec/size_limits.h, also as the result of APPEND or PATCH; a
///                       malformed patch; or more bytes than a record of the log may have
///   kStaleRetry         the seq is below the client's first_incomplete, or below what the shard has forgotten to make
///                       room; an earlier attempt may have been applied. version = the first seq of the client that the
///                       shard accepts
///   kTooManyIncomplete  the shard keeps kIncompleteMax results of the client, or too many bytes of them
///   kResourceExhausted  a queue or the log is full, or the shard has no room for another client; not applied
///   kStorageFailed      the log's write or sync failed; the mutation may or may not survive a restart
///   kShardReadOnly      refused because of an earlier failure; not applied
struct MutationResult {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;
  int64_t value = 0;  ///< kAdd: the counter after the addition; kPatch that edits: PatchCounts::word()

  friend bool operator==(const MutationResult&, const MutationResult&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_MUTATION_H_
