// A shard's name, and writes to it.
//
// Every key that exists has a version: the shard's index of its last write. Indices rise by one with each mutation that
// takes effect and never go back or repeat, not through deletes and not through a restart; after one that was not in order they
// jump (shard_life.h). Version 0 means "absent". What
// a batch writes has one version: it is one mutation.
#ifndef SKUA_KVSTORE_TYPES_MUTATION_H_
#define SKUA_KVSTORE_TYPES_MUTATION_H_

#include <compare>
#include <cstdint>
#include <string_view>

#include "kvstore/types/status.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A shard of a table on this node.
struct ShardId {
  uint32_t table_id = 0;
  uint32_t shard = 0;

  friend auto operator<=>(const ShardId&, const ShardId&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
};

/// When a mutation happens at all.
struct Condition {
  enum class Kind : uint8_t { kNone = 0, kIfVersion = 1, kIfAbsent = 2 };
  Kind kind = Kind::kNone;
  uint64_t version = 0;  ///< kIfVersion: the version the key must have; else 0

  static Condition none() { return {}; }
  static Condition if_version(uint64_t version) { return {Kind::kIfVersion, version}; }
  static Condition if_absent() { return {Kind::kIfAbsent, 0}; }
  friend bool operator==(const Condition&, const Condition&) = default;
};

/// One write, as views that the submitter keeps alive until its result is there.
struct Mutation {
  enum class Kind : uint8_t { kPut, kDelete, kPatch, kAdd, kAppend, kExpire };
  Kind kind = Kind::kPut;
  bool create_if_missing = false;  ///< kPatch: a missing key is an empty row
  Condition condition{};
  std::string_view key{};
  ByteSpan value{};     ///< kPut: the value; kPatch: the fields in row format; kAppend: what is appended
  uint64_t ttl_ms = 0;  ///< kPut, kExpire: absent after so long; 0: never
  int64_t delta = 0;    ///< kAdd

  static Mutation put(std::string_view key, ByteSpan value, Condition condition = {}, uint64_t ttl_ms = 0) {
    return {Kind::kPut, false, condition, key, value, ttl_ms, 0};
  }
  static Mutation remove(std::string_view key, Condition condition = {}) {
    return {Kind::kDelete, false, condition, key, {}, 0, 0};
  }
  static Mutation patch(std::string_view key, ByteSpan fields, bool create_if_missing, Condition condition = {}) {
    return {Kind::kPatch, create_if_missing, condition, key, fields, 0, 0};
  }
  static Mutation add(std::string_view key, int64_t delta, Condition condition = {}) {
    return {Kind::kAdd, false, condition, key, {}, 0, delta};
  }
  static Mutation append(std::string_view key, ByteSpan bytes, Condition condition = {}) {
    return {Kind::kAppend, false, condition, key, bytes, 0, 0};
  }
  static Mutation expire(std::string_view key, uint64_t ttl_ms, Condition condition = {}) {
    return {Kind::kExpire, false, condition, key, {}, ttl_ms, 0};
  }
};

/// What became of a mutation.
///   kOk                 done; version = its index
///   kNotFound           DELETE, PATCH or EXPIRE of a key that is absent; version = 0
///   kAlreadyExists      if_absent; version = the key's
///   kVersionMismatch    if_version; version = the key's, 0 if absent
///   kNotARow            PATCH of a value that is not a row; version = the key's
///   kNotANumber         ADD to a value that is no decimal int64; version = the key's
///   kCounterOverflow    ADD beyond an int64; version = the key's
///   kInvalidArgument    key or value outside of codec/size_limits.h, also after APPEND or PATCH, or a malformed patch; or more
///                       bytes than a record of the log may have
///   kStaleRetry         its seq is below the client's first_incomplete, or below what the shard has forgotten to make room; an earlier
///                       attempt may have been applied. version = from which seq on the client's writes are taken
///   kTooManyIncomplete  the client has kIncompleteMax results here, or too many bytes of batches' results
///   kResourceExhausted  a queue or the log is full, or the shard has no room for another client; not applied
///   kStorageFailed      the log's write or sync failed; it may or may not survive a restart
///   kShardReadOnly      refused because of an earlier failure; not applied
struct MutationResult {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;
  int64_t value = 0;  ///< kAdd: the counter now

  friend bool operator==(const MutationResult&, const MutationResult&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_MUTATION_H_
