// Requests of the key-value service: structs of views, and their encodings.
//
// Every request starts with the same 32 bytes, little endian (docs/wire-format.md):
//
//    0  u32 table_id        the shard that the client routed to, and the epoch in which it knows the shard; a server
//    4  u32 shard           that has another view answers WRONG_SHARD with its own epoch
//    8  u64 epoch
//   16  u64 map_revision    a server that has seen an older map refreshes its map before it refuses
//   24  u8  format = 2
//   25  u8  flags           GET: 1 = at_least_index follows, 2 = tell the time to live, 8 = the value's size instead of
//                           the value, 16 = only some fields of the row. GET, MULTI_GET, SCAN: 4 = tell marks.
//                           MULTI_GET: 8 = only what memory has. SCAN: 8 = no values, 16 = only count. Mutations:
//                           bits 0-1 condition (0 none, 1 if_version, 2 if_absent, 3 if_present), 4 = create if
//                           missing (PATCH), 8 = keep the time to live (PUT) or edit (PATCH), bits 4-5 durability,
//                           64 = u64 mark (types/record_mark.h) follows the head (PUT, PATCH)
//   26  u16 key_bytes       SCAN: the start key's; MULTI_GET, BATCH: 0
//   28  u32 count           PUT, APPEND: value bytes; PATCH: bytes of fields; GET: names of fields; MULTI_GET: keys;
//                           SCAN: rows_max; BATCH: operations; else 0
//
// A mutation goes on with 40 bytes, its head:
//
//   32  u64 client_id       0: not exactly-once; then the next two are 0 as well (RequestId)
//   40  u64 seq
//   48  u64 first_incomplete
//   56  u64 version         of if_version; else 0
//   64  u64 ttl_ms          PUT, EXPIRE: 0 = for ever; else 0
//
//   GET        [u64 at_least_index], key            PUT        [u64 mark], key | value
//              | { u16 length, name } x count       DELETE     key
//   MULTI_GET  { u16 length, key } x count
//   SCAN       u32 bytes_max, u16 end, u16 token,   PATCH      [u64 mark], key | fields, or an edit (row.h)
//              start, end, token                    ADD        i64 delta, key
//   BATCH      | operations (batch.h)               APPEND     key | bytes
//                                                   EXPIRE     key
//
// Encoding makes the *head*: everything before the `|`. The value bytes follow unchanged: a sender hands them to the
// RPC engine as a body span, so they are not copied. Decoding returns views of the received bytes, which must be
// contiguous and outlive the struct. A decoder accepts exactly what the encoder can make: nothing is missing, nothing
// is left over, reserved bits are zero, and each size is within size_limits.h.
//
// The error of all functions here is INVALID_ARGUMENT; it names the request, the field, the limit and the actual size.
// Thread: any; all functions are pure.
#ifndef SKUA_KVSTORE_CODEC_REQUEST_H_
#define SKUA_KVSTORE_CODEC_REQUEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/codec/string_list.h"
#include "kvstore/types/durability.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr uint8_t kRequestFormat = 2;
inline constexpr size_t kRequestHeaderBytes = 32;
inline constexpr size_t kMutationHeadBytes = 40;

/// A buffer for an encoded head. It is large enough for every function that takes one.
using HeadBuffer = std::array<std::byte, kHeadBytesMax>;

/// The shard that the client addresses, and what the client knows of the shard map.
struct Route {
  uint32_t table_id = 0;
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t map_revision = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

/// What the reply to a GET shall have.
struct GetWishes {
  bool ttl = false;        ///< the remaining time to live, too
  bool mark = false;       ///< the record's mark, too
  bool size_only = false;  ///< the value's size instead of the value
  bool fields = false;     ///< of the value, which is a row, only the fields that the request names; not with size_only

  /// Whether it shall have just the value.
  [[nodiscard]] bool is_plain() const { return !(ttl | mark | size_only | fields); }
};

struct GetRequest {
  Route route{};
  std::string_view key{};
  uint64_t at_least_index = 0;  ///< the state to be read must have this index of the shard or a later one; 0: any state
  GetWishes wishes{};
  StringList fields{};  ///< with wishes.fields: 1..kFieldsMax names; a name may come twice
};

/// PUT, DELETE, PATCH, ADD, APPEND, EXPIRE.
struct MutationRequest {
  Route route{};
  Mutation mutation{};
  RequestId id{};
  Durability durability = Durability::kDefault;
};

/// Reads one page of the keys of a shard, in byte order.
struct ScanRequest {
  Route route{};
  std::string_view start_key{};  ///< inclusive; empty: from the first key
  std::string_view end_key{};    ///< exclusive; empty: to the last key
  uint32_t rows_max = 0;         ///< 1..kScanRowsMax
  uint32_t bytes_max = 0;        ///< of rows with their heads, 1..kScanBytesMax; the first row is returned whatever its
                                 ///< size
  std::string_view resume_token{};  ///< of the previous page's reply, with the same start and end;
                                    ///< empty: the first page
  bool wants_marks = false;         ///< the rows shall have the records' marks
  bool keys_only = false;   ///< the rows shall have no values; bytes_max is of what is left; see kScanReadBytesMax
  bool count_only = false;  ///< the reply shall have the number of rows only; bytes_max has no meaning; see
                            ///< kScanReadBytesMax
};

/// What a MULTI_GET asks for besides values.
struct MultiGetWishes {
  bool marks = false;        ///< the entries shall have the records' marks
  bool memory_only = false;  ///< keys that memory does not have, and values that are many bytes, shall be refused
                             ///< (RESOURCE_EXHAUSTED) instead of being waited for

  friend bool operator==(const MultiGetWishes&, const MultiGetWishes&) = default;
};

struct MultiGetRequest {
  Route route{};
  StringList keys;  ///< 1..kBatchOpsMax, all in route.shard; duplicates allowed
  MultiGetWishes wishes;
};

/// OK if the key, or the value, is within its limits. Clients check before they send.
[[nodiscard]] absl::Status check_key(std::string_view key);
[[nodiscard]] absl::Status check_value(ByteSpan value);

/// OK if the mutation is within its limits, has a condition and a time to live that its kind may have, and no part that
/// only others have.
[[nodiscard]] absl::Status check_mutation(const Mutation& mutation);

/// The method by which a mutation of this kind is asked for; kBatch for a check, which only batches have, and for a
/// number that is no kind.
[[nodiscard]] Method method_of(Mutation::Kind kind);
/// The kind of mutation that the method asks for; nullopt: it is not a method of one mutation.
[[nodiscard]] std::optional<Mutation::Kind> kind_of(Method method);

/// Encodes the names of fields for a GET into `encoded`, which loses its content. Errors: there are none or more than
/// kFieldsMax, or one has not 1..kFieldNameBytesMax bytes.
[[nodiscard]] absl::Status encode_field_names(std::span<const std::string_view> names, std::string& encoded);

/// Encoders of requests whose head fits a HeadBuffer. They check the limits, write the head, and return it as a view of
/// `buffer`. The sender puts the mutation's value, or the names of a GET's fields, behind the head.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_get(const GetRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_mutation_head(const MutationRequest& request, HeadBuffer& buffer);

/// Size of an encoded MULTI_GET or SCAN, for the buffer to encode into.
[[nodiscard]] size_t multi_get_bytes(std::span<const std::string_view> keys);
[[nodiscard]] size_t scan_bytes(const ScanRequest& request);

/// Encode into a buffer of at least that size (INVALID_ARGUMENT if it is smaller). They return the part that was
/// written.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_multi_get(const Route& route, std::span<const std::string_view> keys,
                                                        MutableByteSpan buffer, const MultiGetWishes& wishes = {});
[[nodiscard]] absl::StatusOr<ByteSpan> encode_scan(const ScanRequest& request, MutableByteSpan buffer);

/// Decodes the route only, for a server that may refuse the request before it decodes the rest.
[[nodiscard]] absl::StatusOr<Route> decode_route(ByteSpan bytes);

[[nodiscard]] absl::StatusOr<GetRequest> decode_get(ByteSpan bytes);
/// As encode_get(), for a request without an index and without wishes for more than the value. The key must be within
/// its limits (not checked).
[[nodiscard]] inline ByteSpan encode_plain_get(const Route& route, std::string_view key, HeadBuffer& buffer) {
  std::byte* to = buffer.data();
  store_le(to, route.table_id);
  store_le(to + 4, route.shard);
  store_le(to + 8, route.epoch);
  store_le(to + 16, route.map_revision);
  store_le(to + 24, kRequestFormat | uint64_t{key.size()} << 16);
  copy_bytes(to + kRequestHeaderBytes, as_byte_span(key));
  return ByteSpan(buffer).first(kRequestHeaderBytes + key.size());
}
/// As decode_get(), but only for the most frequent form: a GET without flags. `out` must be empty. False: the request
/// has another form or is malformed; call decode_get().
[[nodiscard]] inline bool decode_plain_get(ByteSpan bytes, GetRequest& out) {
  if (bytes.size() <= kRequestHeaderBytes || bytes.size() > kRequestHeaderBytes + kKeyBytesMax) return false;
  const std::byte* at = bytes.data();
  const uint64_t key_bytes = bytes.size() - kRequestHeaderBytes;
  // Format, flags, key_bytes and count as one word.
  if (load_le<uint64_t>(at + 24) != (kRequestFormat | key_bytes << 16)) return false;
  out.route.table_id = load_le<uint32_t>(at);
  out.route.shard = load_le<uint32_t>(at + 4);
  out.route.epoch = load_le<uint64_t>(at + 8);
  out.route.map_revision = load_le<uint64_t>(at + 16);
  out.key = as_string_view(bytes.subspan(kRequestHeaderBytes));
  return true;
}
/// `method` is that of a mutation (checked). No check is decoded.
[[nodiscard]] absl::StatusOr<MutationRequest> decode_mutation(Method method, ByteSpan bytes);
[[nodiscard]] absl::StatusOr<MultiGetRequest> decode_multi_get(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<ScanRequest> decode_scan(ByteSpan bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REQUEST_H_
