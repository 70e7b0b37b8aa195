// Requests of the key-value service: structs of views, and their encodings.
//
// Every request starts with the same 32 bytes, little endian (docs/wire-format.md):
//
//    0  u32 table_id        what the client routed by; a server that holds another view answers WRONG_SHARD with its
//    4  u32 shard           own epoch
//    8  u64 epoch
//   16  u64 map_revision    a server that has seen less refreshes its map before it refuses
//   24  u8  format = 2
//   25  u8  flags           GET: 1 = at_least_index follows, 2 = tell the time to live. Mutations: bits 0-1 condition
//                           (0 none, 1 if_version, 2 if_absent), 4 = create if missing (PATCH), bits 4-5 durability
//   26  u16 key_bytes       SCAN: the start key's; MULTI_GET, BATCH: 0
//   28  u32 count           PUT, APPEND: value bytes; PATCH: bytes of fields; MULTI_GET: keys; SCAN: rows_max;
//                           BATCH: operations; else 0
//
// A mutation goes on with 40 bytes, its head:
//
//   32  u64 client_id       0: not exactly-once, and then the next two are 0 as well (RequestId)
//   40  u64 seq
//   48  u64 first_incomplete
//   56  u64 version         of if_version; else 0
//   64  u64 ttl_ms          PUT, EXPIRE: 0 = for ever; else 0
//
//   GET        [u64 at_least_index], key            PUT        key | value
//   MULTI_GET  { u16 length, key } x count          DELETE     key
//   SCAN       u32 bytes_max, u16 end, u16 token,   PATCH      key | fields in row format (row.h)
//              start, end, token                    ADD        i64 delta, key
//   BATCH      | operations (batch.h)               APPEND     key | bytes
//                                                   EXPIRE     key
//
// Encoding makes the *head*, all that stands before the `|`; the value bytes follow as they are, so that a sender hands
// them to the RPC engine as a body span and nobody copies them. Decoding yields views into the received bytes, which
// must outlive the struct and be contiguous. A decoder accepts exactly what the encoder can make: nothing missing,
// nothing left over, reserved bits zero, each size within size_limits.h.
//
// Errors of all functions here: INVALID_ARGUMENT naming the request, the field, the limit and the actual size.
// Thread: any; everything is pure.
#ifndef SKUA_KVSTORE_CODEC_REQUEST_H_
#define SKUA_KVSTORE_CODEC_REQUEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/types/durability.h"
#include "kvstore/types/mutation.h"
#include "kvstore/types/request_id.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr uint8_t kRequestFormat = 2;
inline constexpr size_t kRequestHeaderBytes = 32;
inline constexpr size_t kMutationHeadBytes = 40;

/// Where an encoded head is made; large enough for each function that takes one.
using HeadBuffer = std::array<std::byte, kHeadBytesMax>;

/// Whom the client believes it is talking to.
struct Route {
  uint32_t table_id = 0;
  uint32_t shard = 0;
  uint64_t epoch = 0;
  uint64_t map_revision = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

struct GetRequest {
  Route route{};
  std::string_view key{};
  uint64_t at_least_index = 0;  ///< answer only with this index of the shard or a later one; 0: any
  bool wants_ttl = false;       ///< tell the remaining time to live
};

struct PutRequest {
  Route route{};
  Condition condition{};
  std::string_view key{};
  ByteSpan value{};
  RequestId id{};
  Durability durability = Durability::kDefault;
  uint64_t ttl_ms = 0;  ///< 0: for ever; at most kTtlMsMax
};

struct DeleteRequest {
  Route route{};
  Condition condition{};  ///< not kIfAbsent
  std::string_view key{};
  RequestId id{};
  Durability durability = Durability::kDefault;
};

struct PatchRequest {
  Route route{};
  bool create_if_missing = false;
  std::string_view key{};
  ByteSpan fields{};  ///< a row (row.h): the fields to replace or add; at least one
  Condition condition{};
  RequestId id{};
  Durability durability = Durability::kDefault;
};

/// Adds to a counter: a value that is a decimal int64 in ASCII. A missing key counts from 0; the expiry stays.
struct AddRequest {
  Route route{};
  Condition condition{};
  std::string_view key{};
  int64_t delta = 0;
  RequestId id{};
  Durability durability = Durability::kDefault;
};

/// Appends to a value. A missing key is an empty value; the expiry stays; the result is at most kValueBytesMax.
struct AppendRequest {
  Route route{};
  Condition condition{};
  std::string_view key{};
  ByteSpan value{};
  RequestId id{};
  Durability durability = Durability::kDefault;
};

/// Sets or clears the expiry of a key that exists: a write, with a version of its own.
struct ExpireRequest {
  Route route{};
  Condition condition{};  ///< not kIfAbsent
  std::string_view key{};
  uint64_t ttl_ms = 0;  ///< 0: for ever
  RequestId id{};
  Durability durability = Durability::kDefault;
};

/// One page of a shard's keys in byte order.
struct ScanRequest {
  Route route{};
  std::string_view start_key{};     ///< inclusive; empty: from the first key
  std::string_view end_key{};       ///< exclusive; empty: to the last key
  uint32_t rows_max = 0;            ///< 1..kScanRowsMax
  uint32_t bytes_max = 0;           ///< of keys and values, 1..kScanBytesMax; the first row is returned however large
  std::string_view resume_token{};  ///< of the previous page's reply, with the same start and end;
                                    ///< empty: the first page
};

/// The keys of a decoded MULTI_GET: a checked view that is iterated without allocation.
class KeyList {
 public:
  class Iterator {
   public:
    explicit Iterator(ByteReader rest) : rest_(rest) { ++*this; }
    std::string_view operator*() const { return key_; }
    Iterator& operator++() {
      at_end_ = rest_.remaining() == 0;
      if (!at_end_) key_ = as_string_view(rest_.read_prefixed<uint16_t>());
      return *this;
    }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end_; }

   private:
    ByteReader rest_;
    std::string_view key_;
    bool at_end_ = false;
  };

  KeyList() = default;
  [[nodiscard]] Iterator begin() const { return Iterator(ByteReader(encoded_)); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }
  [[nodiscard]] size_t size() const { return count_; }

 private:
  friend absl::StatusOr<struct MultiGetRequest> decode_multi_get(ByteSpan);
  KeyList(ByteSpan encoded, size_t count) : encoded_(encoded), count_(count) {}

  ByteSpan encoded_;
  size_t count_ = 0;
};

struct MultiGetRequest {
  Route route{};
  KeyList keys;  ///< 1..kBatchOpsMax, all in route.shard; duplicates allowed
};

/// OK if a key of this size, or a value, is within its limit. Clients ask before they send.
[[nodiscard]] absl::Status check_key(std::string_view key);
[[nodiscard]] absl::Status check_value(ByteSpan value);

/// Encoders of requests whose head fits a HeadBuffer: check the limits, write the head, return it as a view of
/// `buffer`. After the head of a PUT or APPEND the sender puts `value`, after that of a PATCH `fields`.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_get(const GetRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_put_head(const PutRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_delete(const DeleteRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_patch_head(const PatchRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_add(const AddRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_append_head(const AppendRequest& request, HeadBuffer& buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_expire(const ExpireRequest& request, HeadBuffer& buffer);

/// Bytes of an encoded MULTI_GET or SCAN: the buffer to encode into.
[[nodiscard]] size_t multi_get_bytes(std::span<const std::string_view> keys);
[[nodiscard]] size_t scan_bytes(const ScanRequest& request);

/// Encoders into a buffer of at least that size (INVALID_ARGUMENT if it is smaller); return the part that was written.
[[nodiscard]] absl::StatusOr<ByteSpan> encode_multi_get(const Route& route, std::span<const std::string_view> keys,
                                                        MutableByteSpan buffer);
[[nodiscard]] absl::StatusOr<ByteSpan> encode_scan(const ScanRequest& request, MutableByteSpan buffer);

/// The route alone, for a server that refuses before it looks further.
[[nodiscard]] absl::StatusOr<Route> decode_route(ByteSpan bytes);

[[nodiscard]] absl::StatusOr<GetRequest> decode_get(ByteSpan bytes);
/// encode_get() of a request without an index or a wish for the time to live, whose key is within bounds.
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
/// decode_get() of what most GETs are, which have no flags, into an empty `out`. False: it is another one, or none; see
/// decode_get().
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
[[nodiscard]] absl::StatusOr<PutRequest> decode_put(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<DeleteRequest> decode_delete(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<MultiGetRequest> decode_multi_get(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<PatchRequest> decode_patch(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<AddRequest> decode_add(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<AppendRequest> decode_append(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<ExpireRequest> decode_expire(ByteSpan bytes);
[[nodiscard]] absl::StatusOr<ScanRequest> decode_scan(ByteSpan bytes);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REQUEST_H_
