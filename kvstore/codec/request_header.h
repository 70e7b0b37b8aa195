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

/// The 32 bytes that every request starts with, as they lie in it (little endian, no gaps). They are read and written
/// in one go, because every request has them.
struct RequestHeader {
  Route route{};
  uint8_t format = kRequestFormat;
  uint8_t flags = 0;
  uint16_t key_bytes = 0;
  uint32_t count = 0;
};
static_assert(sizeof(RequestHeader) == kRequestHeaderBytes);
static_assert(offsetof(RequestHeader, format) == offsetof(Route, map_revision) + sizeof(uint64_t));

/// The 40 bytes that follow the header in a mutation. The kind of the condition and the durability are in the flags of
/// the header.
struct MutationHead {
  RequestId id{};
  Durability durability = Durability::kDefault;
  Condition condition{};
  uint64_t ttl_ms = 0;
};

/// Reads a request: first its header, then what follows.
class RequestReader : public ByteReader {
 public:
  RequestReader(Method method, ByteSpan bytes) : ByteReader(bytes), method_(method), size_(bytes.size()) {}

  /// Reads the header. Refuses what no encoder writes: another format, and flags outside of `flags_allowed`.
  [[nodiscard]] absl::Status read_header(uint8_t flags_allowed);
  /// Reads header and mutation head. `own_flags` are allowed besides those of condition and durability. Does not check
  /// the rules of the method.
  [[nodiscard]] absl::Status read_mutation_head(uint8_t own_flags, MutationHead& head);

  [[nodiscard]] const RequestHeader& header() const { return header_; }
  [[nodiscard]] bool has(uint8_t flag) const { return (header_.flags & flag) != 0; }
  /// INVALID_ARGUMENT that says what is wrong with the request.
  [[nodiscard]] absl::Status malformed(const char* what) const;

 private:
  const Method method_;
  const size_t size_;
  RequestHeader header_;
};

/// Writes header and mutation head. Adds condition and durability to `header.flags`.
void write_mutation_head(ByteWriter& writer, RequestHeader header, const MutationHead& head);

/// INVALID_ARGUMENT for an id whose fields contradict each other.
[[nodiscard]] absl::Status check_request_id(const RequestId& id);
/// INVALID_ARGUMENT for a condition or a time to live that the method cannot have, and for a time to live above
/// kTtlMsMax.
[[nodiscard]] absl::Status check_rules(Method method, const Condition& condition, uint64_t ttl_ms);
[[nodiscard]] absl::Status check_patch(const Mutation& patch);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REQUEST_HEADER_H_
