// What the requests of the key-value service have in common: the header, and the head of mutations. For kvstore/codec
// only.
#ifndef SKUA_KVSTORE_CODEC_REQUEST_HEADER_H_
#define SKUA_KVSTORE_CODEC_REQUEST_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/text.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr uint8_t kConditionBits = 3;
inline constexpr uint8_t kCreateIfMissingBit = 4;
inline constexpr uint8_t kKeepTtlBit = 8;
inline constexpr uint8_t kEditsRowBit = 8;  // PATCH
inline constexpr int kDurabilityShift = 4;
inline constexpr uint8_t kDurabilityBits = 3 << kDurabilityShift;
inline constexpr uint8_t kMarkFollowsBit = 64;

/// The 32 bytes that every request starts with.
struct RequestHeader {
  Route route{};
  uint8_t flags = 0;
  uint16_t key_bytes = 0;
  uint32_t count = 0;
};

/// The 40 bytes that follow the header in a mutation. The kind of the condition and the durability are in the flags of
/// the header.
struct MutationHead {
  RequestId id{};
  Durability durability = Durability::kDefault;
  Condition condition{};
  uint64_t ttl_ms = 0;
};

/// Which conditions a mutation may have, and whether it may have a time to live.
struct MutationRules {
  bool if_absent = true;
  bool ttl = false;
};

/// The rules of a method, which a request or an operation of a batch names.
[[nodiscard]] MutationRules rules_of(Method method);

void write_request_header(ByteWriter& writer, const RequestHeader& header);
/// Reads the header. Refuses what no encoder writes: another format, and flags outside of `flags_allowed`.
[[nodiscard]] absl::Status read_request_header(Method method, ByteSpan bytes, uint8_t flags_allowed, ByteReader& reader,
                                               RequestHeader& header);

/// Writes header and mutation head. Adds condition and durability to `header.flags`.
void write_mutation_head(ByteWriter& writer, RequestHeader header, const MutationHead& head);
/// Reads header and mutation head. `own_flags` are allowed besides those of condition and durability. Does not check
/// the rules of the method.
[[nodiscard]] absl::Status read_mutation_head(Method method, ByteSpan bytes, uint8_t own_flags, ByteReader& reader,
                                              RequestHeader& header, MutationHead& head);

/// INVALID_ARGUMENT for an id whose fields contradict each other.
[[nodiscard]] absl::Status check_request_id(const RequestId& id);
/// INVALID_ARGUMENT for a condition or a time to live that the method cannot have, and for a time to live above
/// kTtlMsMax.
[[nodiscard]] absl::Status check_rules(Method method, const Condition& condition, uint64_t ttl_ms);
[[nodiscard]] absl::Status check_patch(const Mutation& patch);

[[nodiscard]] absl::Status malformed_request(Method method, const char* what, size_t size);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REQUEST_HEADER_H_
