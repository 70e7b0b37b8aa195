// Requests that read. request_mutations.cc has the mutations.
#include "kvstore/codec/request.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/request_header.h"
#include "kvstore/types/fields.h"

namespace skua::kv {
namespace {

constexpr uint8_t kGetAtLeast = 1;
constexpr uint8_t kGetWantsTtl = 2;
constexpr uint8_t kWantsMarks = 4;
constexpr uint8_t kGetSizeOnly = 8;
constexpr uint8_t kGetFields = 16;
constexpr uint8_t kMultiGetMemoryOnly = 8;
constexpr uint8_t kScanKeysOnly = 8;
constexpr uint8_t kScanCountOnly = 16;
constexpr size_t kScanFixedBytes = sizeof(uint32_t) + 2 * sizeof(uint16_t);

static_assert(kRequestHeaderBytes + kMutationHeadBytes + kMarkBytes + kKeyBytesMax <= kHeadBytesMax);
static_assert(kHeadBytesMax + kValueBytesMax <= kMessageBytesMax);
static_assert(kRequestHeaderBytes + kBatchOpsMax * (sizeof(uint16_t) + kKeyBytesMax) <= kMessageBytesMax);
static_assert(kHeadBytesMax + kFieldsMax * (sizeof(uint16_t) + kFieldNameBytesMax) <= kMessageBytesMax);

absl::Status check_scan(const ScanRequest& request) {
  if (request.count_only && (request.keys_only || request.wants_marks)) {
    return absl::InvalidArgumentError("a SCAN that counts has neither keys nor marks");
  }
  absl::Status status = check_limit("the start key", "byte", request.start_key.size(), kKeyBytesMax);
  if (status.ok()) status = check_limit("the end key", "byte", request.end_key.size(), kKeyBytesMax);
  if (status.ok()) status = check_limit("the resume token", "byte", request.resume_token.size(), kResumeTokenBytesMax);
  if (status.ok()) status = check_limit("a SCAN page", "row", request.rows_max, kScanRowsMax, 1);
  if (status.ok()) status = check_limit("a SCAN page", "byte", request.bytes_max, kScanBytesMax, 1);
  return status;
}

absl::Status check_get_wishes(const GetWishes& wishes) {
  if (!wishes.fields || !wishes.size_only) return absl::OkStatus();
  return absl::InvalidArgumentError("a GET asks for fields or for the value's size, not for both");
}

absl::Status check_field_name(std::string_view name) {
  return check_limit("a field's name", "byte", name.size(), kFieldNameBytesMax, 1);
}

absl::Status buffer_too_small(Method method, size_t size) {
  return absl::InvalidArgumentError(
      absl::StrCat(method_name(method), " request does not fit a buffer of ", size, " bytes"));
}

}  // namespace

absl::Status check_key(std::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("the key is empty; it must have 1 byte at least");
  return check_limit("the key", "byte", key.size(), kKeyBytesMax);
}

absl::Status check_value(ByteSpan value) {
  return check_limit("the value", "byte", value.size(), kValueBytesMax);
}

absl::Status encode_field_names(std::span<const std::string_view> names, std::string& encoded) {
  encoded.clear();
  absl::Status status = check_limit("a GET of fields", "name", names.size(), kFieldsMax, 1);
  if (!status.ok()) return status;
  size_t bytes = names.size() * sizeof(uint16_t);
  for (const std::string_view name : names) bytes += name.size();
  encoded.reserve(std::min(bytes, kFieldsMax * (sizeof(uint16_t) + kFieldNameBytesMax)));
  for (const std::string_view name : names) {
    if (absl::Status sound = check_field_name(name); !sound.ok()) return sound;
    append_prefixed<uint16_t>(encoded, name);
  }
  return absl::OkStatus();
}

absl::StatusOr<ByteSpan> encode_get(const GetRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  if (absl::Status status = check_get_wishes(request.wishes); !status.ok()) return status;
  const bool at_least = request.at_least_index != 0;
  const GetWishes& wishes = request.wishes;
  const auto flags = static_cast<uint8_t>((at_least ? kGetAtLeast : 0) | (wishes.ttl ? kGetWantsTtl : 0) |
                                          (wishes.mark ? kWantsMarks : 0) | (wishes.size_only ? kGetSizeOnly : 0) |
                                          (wishes.fields ? kGetFields : 0));
  ByteWriter writer(buffer);
  writer.write(RequestHeader{.route = request.route,
                             .flags = flags,
                             .key_bytes = static_cast<uint16_t>(request.key.size()),
                             .count = static_cast<uint32_t>(wishes.fields ? request.fields.size() : 0)});
  if (at_least) writer.write(request.at_least_index);
  writer.write_bytes(as_byte_span(request.key));
  return writer.written();
}

size_t multi_get_bytes(std::span<const std::string_view> keys) {
  size_t bytes = kRequestHeaderBytes + keys.size() * sizeof(uint16_t);
  for (std::string_view key : keys) bytes += key.size();
  return bytes;
}

size_t scan_bytes(const ScanRequest& request) {
  return kRequestHeaderBytes + kScanFixedBytes + request.start_key.size() + request.end_key.size() +
         request.resume_token.size();
}

absl::StatusOr<ByteSpan> encode_multi_get(const Route& route, std::span<const std::string_view> keys,
                                          MutableByteSpan buffer, const MultiGetWishes& wishes) {
  absl::Status status = check_limit("a MULTI_GET", "key", keys.size(), kBatchOpsMax, 1);
  if (!status.ok()) return status;
  ByteWriter writer(buffer);
  const auto flags =
      static_cast<uint8_t>((wishes.marks ? kWantsMarks : 0) | (wishes.memory_only ? kMultiGetMemoryOnly : 0));
  writer.write(RequestHeader{.route = route, .flags = flags, .count = static_cast<uint32_t>(keys.size())});
  for (std::string_view key : keys) {
    if (absl::Status sound = check_key(key); !sound.ok()) return sound;
    writer.write_prefixed<uint16_t>(as_byte_span(key));
  }
  if (!writer.ok()) return buffer_too_small(Method::kMultiGet, buffer.size());
  return writer.written();
}

absl::StatusOr<ByteSpan> encode_scan(const ScanRequest& request, MutableByteSpan buffer) {
  if (absl::Status status = check_scan(request); !status.ok()) return status;
  ByteWriter writer(buffer);
  const auto flags =
      static_cast<uint8_t>((request.wants_marks ? kWantsMarks : 0) | (request.keys_only ? kScanKeysOnly : 0) |
                           (request.count_only ? kScanCountOnly : 0));
  writer.write(RequestHeader{.route = request.route,
                             .flags = flags,
                             .key_bytes = static_cast<uint16_t>(request.start_key.size()),
                             .count = request.rows_max});
  write_fields(writer, request.bytes_max, static_cast<uint16_t>(request.end_key.size()),
               static_cast<uint16_t>(request.resume_token.size()));
  writer.write_bytes(as_byte_span(request.start_key));
  writer.write_bytes(as_byte_span(request.end_key));
  writer.write_bytes(as_byte_span(request.resume_token));
  if (!writer.ok()) return buffer_too_small(Method::kScan, buffer.size());
  return writer.written();
}

absl::StatusOr<Route> decode_route(ByteSpan bytes) {
  if (bytes.size() < kRequestHeaderBytes) [[unlikely]] {
    return absl::InvalidArgumentError(absl::StrCat("request of ", bytes.size(), " bytes is shorter than its header"));
  }
  return load_le<Route>(bytes.data());
}

namespace {

/// `reader` is behind the key.
absl::Status read_field_names(ByteSpan bytes, RequestReader& reader, GetRequest& request) {
  const uint32_t count = reader.header().count;
  if (absl::Status status = check_get_wishes(request.wishes); !status.ok()) return status;
  if (count < 1 || count > kFieldsMax) return beyond_limit("a GET of fields", "name", count, kFieldsMax, 1);
  const ByteSpan encoded = bytes.last(reader.remaining());
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view name = as_string_view(reader.read_prefixed<uint16_t>());
    if (!reader.ok()) return reader.malformed("it ends inside the names of fields");
    if (absl::Status status = check_field_name(name); !status.ok()) return status;
  }
  if (!reader.complete()) return reader.malformed("bytes follow its last name");
  request.fields = StringList(encoded, count);
  return absl::OkStatus();
}

absl::Status read_get(ByteSpan bytes, GetRequest& request) {
  RequestReader reader(Method::kGet, bytes);
  constexpr uint8_t kAllowed = kGetAtLeast | kGetWantsTtl | kWantsMarks | kGetSizeOnly | kGetFields;
  if (absl::Status status = reader.read_header(kAllowed); !status.ok()) return status;
  const RequestHeader& header = reader.header();
  request.route = header.route;
  request.wishes = {.ttl = reader.has(kGetWantsTtl),
                    .mark = reader.has(kWantsMarks),
                    .size_only = reader.has(kGetSizeOnly),
                    .fields = reader.has(kGetFields)};
  if (reader.has(kGetAtLeast)) {
    request.at_least_index = reader.read<uint64_t>();
    if (request.at_least_index == 0) return reader.malformed("it asks for index 0");
  }
  request.key = as_string_view(reader.read_bytes(header.key_bytes));
  if (request.wishes.fields) {
    if (absl::Status status = read_field_names(bytes, reader, request); !status.ok()) return status;
  } else if (!reader.complete() || header.count != 0) {
    return reader.malformed("its length disagrees with its key's");
  }
  return check_key(request.key);
}

}  // namespace

/// Reads the request into its place in the result. A copy would load the fields in other widths than they were just
/// stored in, and such a load waits until the stores are in the cache.
absl::StatusOr<GetRequest> decode_get(ByteSpan bytes) {
  absl::StatusOr<GetRequest> request(absl::in_place);
  if (absl::Status status = read_get(bytes, *request); !status.ok()) request = std::move(status);
  return request;
}

absl::StatusOr<MultiGetRequest> decode_multi_get(ByteSpan bytes) {
  RequestReader reader(Method::kMultiGet, bytes);
  constexpr uint8_t kAllowed = kWantsMarks | kMultiGetMemoryOnly;
  if (absl::Status status = reader.read_header(kAllowed); !status.ok()) return status;
  const RequestHeader& header = reader.header();
  if (header.key_bytes != 0) return reader.malformed("reserved bits are set");
  if (header.count < 1 || header.count > kBatchOpsMax) {
    return beyond_limit("a MULTI_GET", "key", header.count, kBatchOpsMax, 1);
  }
  const MultiGetRequest request{
      .route = header.route,
      .keys = StringList(bytes.subspan(kRequestHeaderBytes), header.count),
      .wishes = {.marks = reader.has(kWantsMarks), .memory_only = reader.has(kMultiGetMemoryOnly)}};
  for (uint32_t i = 0; i < header.count; ++i) {
    const std::string_view key = as_string_view(reader.read_prefixed<uint16_t>());
    if (!reader.ok()) return reader.malformed("it ends inside its keys");
    if (absl::Status status = check_key(key); !status.ok()) return status;
  }
  if (!reader.complete()) return reader.malformed("bytes follow its last key");
  return request;
}

absl::StatusOr<ScanRequest> decode_scan(ByteSpan bytes) {
  RequestReader reader(Method::kScan, bytes);
  constexpr uint8_t kAllowed = kWantsMarks | kScanKeysOnly | kScanCountOnly;
  if (absl::Status status = reader.read_header(kAllowed); !status.ok()) return status;
  const RequestHeader& header = reader.header();
  ScanRequest request{.route = header.route, .rows_max = header.count};
  request.wants_marks = reader.has(kWantsMarks);
  request.keys_only = reader.has(kScanKeysOnly);
  request.count_only = reader.has(kScanCountOnly);
  request.bytes_max = reader.read<uint32_t>();
  const auto end_bytes = reader.read<uint16_t>();
  const auto token_bytes = reader.read<uint16_t>();
  request.start_key = as_string_view(reader.read_bytes(header.key_bytes));
  request.end_key = as_string_view(reader.read_bytes(end_bytes));
  request.resume_token = as_string_view(reader.read_bytes(token_bytes));
  if (!reader.complete()) {
    return reader.malformed("its length disagrees with its keys' and token's");
  }
  if (absl::Status status = check_scan(request); !status.ok()) return status;
  return request;
}

}  // namespace skua::kv
