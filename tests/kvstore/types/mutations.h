// Makes mutations for tests.
#ifndef SKUA_TESTS_KVSTORE_TYPES_MUTATIONS_H_
#define SKUA_TESTS_KVSTORE_TYPES_MUTATIONS_H_

#include <cstdint>
#include <string_view>

#include "kvstore/types/mutation.h"
#include "rpc/base/bytes.h"

namespace skua::kv::mutations {

inline Mutation put(std::string_view key, ByteSpan value, Condition condition = {}, uint64_t ttl_ms = 0) {
  return {Mutation::Kind::kPut, false, condition, key, value, ttl_ms, 0, false};
}
inline Mutation put_keeping_ttl(std::string_view key, ByteSpan value, Condition condition = {}) {
  return {Mutation::Kind::kPut, false, condition, key, value, 0, 0, true};
}
inline Mutation remove(std::string_view key, Condition condition = {}) {
  return {Mutation::Kind::kDelete, false, condition, key, {}, 0, 0, false};
}
inline Mutation patch(std::string_view key, ByteSpan fields, bool create_if_missing, Condition condition = {}) {
  return {Mutation::Kind::kPatch, create_if_missing, condition, key, fields, 0, 0, false};
}
inline Mutation edit(std::string_view key, ByteSpan edit, bool create_if_missing, Condition condition = {}) {
  return {Mutation::Kind::kPatch, create_if_missing, condition, key, edit, 0, 0, false, {}, true};
}
inline Mutation add(std::string_view key, int64_t delta, Condition condition = {}) {
  return {Mutation::Kind::kAdd, false, condition, key, {}, 0, delta, false};
}
inline Mutation append(std::string_view key, ByteSpan bytes, Condition condition = {}) {
  return {Mutation::Kind::kAppend, false, condition, key, bytes, 0, 0, false};
}
inline Mutation expire(std::string_view key, uint64_t ttl_ms, Condition condition = {}) {
  return {Mutation::Kind::kExpire, false, condition, key, {}, ttl_ms, 0, false};
}
inline Mutation check(std::string_view key, uint64_t version) {
  return {Mutation::Kind::kCheck, false, Condition::if_version(version), key, {}, 0, 0, false};
}

}  // namespace skua::kv::mutations

#endif  // SKUA_TESTS_KVSTORE_TYPES_MUTATIONS_H_
