// A shard's name, and writes to it.
//
// Every key that exists has a version: the shard's index of its last write. Indices rise by one with each mutation that
// takes effect and never go back or repeat, not through deletes and not through a restart. Version 0 means "absent".
#ifndef SKUA_KVSTORE_ENGINE_MUTATION_H_
#define SKUA_KVSTORE_ENGINE_MUTATION_H_

#include <compare>
#include <cstdint>
#include <string_view>

#include "kvstore/codec/request.h"
#include "kvstore/codec/status.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

/// A shard of a table on this node.
struct ShardId {
  uint32_t table_id = 0;
  uint32_t shard = 0;

  friend auto operator<=>(const ShardId&, const ShardId&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
};

/// One write, as views that the submitter keeps alive until its result is there.
struct Mutation {
  enum class Kind : uint8_t { kPut, kDelete, kPatch };
  Kind kind = Kind::kPut;
  bool create_if_missing = false;  ///< kPatch: a missing key is an empty row
  Condition condition{};           ///< kPut, kDelete
  std::string_view key{};
  ByteSpan value{};  ///< kPut: the value; kPatch: the fields in row format

  static Mutation put(std::string_view key, ByteSpan value, Condition condition = {}) {
    return {Kind::kPut, false, condition, key, value};
  }
  static Mutation remove(std::string_view key, Condition condition = {}) {
    return {Kind::kDelete, false, condition, key, {}};
  }
  static Mutation patch(std::string_view key, ByteSpan fields, bool create_if_missing) {
    return {Kind::kPatch, create_if_missing, {}, key, fields};
  }
};

/// What became of a mutation.
///   kOk                 done; version = its index
///   kNotFound           DELETE or PATCH of a key that is absent; version = 0
///   kAlreadyExists      if_absent; version = the key's
///   kVersionMismatch    if_version; version = the key's, 0 if absent
///   kNotARow            PATCH of a value that is not a row; version = the key's
///   kInvalidArgument    key or value outside of codec/limits.h, a malformed patch, or a patched row above the limits
///   kResourceExhausted  a queue or the log is full; not applied
///   kStorageFailed      the log's write or sync failed; it may or may not survive a restart
///   kShardReadOnly      refused because of an earlier failure; not applied
struct MutationResult {
  KvStatus status = KvStatus::kOk;
  uint64_t version = 0;

  friend bool operator==(const MutationResult&, const MutationResult&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_ENGINE_MUTATION_H_
