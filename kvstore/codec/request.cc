#include "kvstore/codec/request.h"

#include "absl/strings/str_cat.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/row.h"

namespace skua::kv {
namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kPatchCreates = 1;
constexpr size_t kVersionBytes = sizeof(uint64_t);
constexpr size_t kScanFixedBytes = sizeof(uint32_t) + 2 * sizeof(uint16_t);

static_assert(kRequestHeaderBytes + kVersionBytes + kKeyBytesMax <= kHeadBytesMax);
static_assert(kHeadBytesMax + kValueBytesMax <= kMessageBytesMax);
static_assert(kRequestHeaderBytes + kBatchOpsMax * (sizeof(uint16_t) + kKeyBytesMax) <= kMessageBytesMax);

/// The 32 bytes that every request starts with.
struct Header {
  Route route;
  uint8_t flags = 0;
  uint16_t key_bytes = 0;
  uint32_t count = 0;
};

void write_header(ByteWriter& writer, const Header& header) {
  writer.write(header.route.table_id);
  writer.write(header.route.shard);
  writer.write(header.route.epoch);
  writer.write(header.route.map_revision);
  writer.write(kFormat);
  writer.write(header.flags);
  writer.write(header.key_bytes);
  writer.write(header.count);
}

absl::Status malformed(Method method, const char* what, size_t size) {
  return absl::InvalidArgumentError(
      absl::StrCat(method_name(method), " request of ", size, " bytes is malformed: ", what));
}

absl::Status above_limit(const char* what, size_t size, const char* limit_name, size_t limit) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", size, "; the limit ", limit_name, " is ", limit));
}

/// Reads the header and refuses what no encoder writes: another format, flags above `flags_max`.
absl::Status read_header(Method method, ByteSpan bytes, uint8_t flags_max, ByteReader& reader, Header& header) {
  if (bytes.size() < kRequestHeaderBytes) return malformed(method, "shorter than its header", bytes.size());
  header.route.table_id = reader.read<uint32_t>();
  header.route.shard = reader.read<uint32_t>();
  header.route.epoch = reader.read<uint64_t>();
  header.route.map_revision = reader.read<uint64_t>();
  const auto format = reader.read<uint8_t>();
  header.flags = reader.read<uint8_t>();
  header.key_bytes = reader.read<uint16_t>();
  header.count = reader.read<uint32_t>();
  if (format != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat(method_name(method), " request has format ", format, "; this build reads format ", kFormat));
  }
  if (header.flags > flags_max) return malformed(method, "unknown flags", bytes.size());
  return absl::OkStatus();
}

/// The condition of a PUT or DELETE: the kind is the header's flags, the version follows the header.
absl::Status read_condition(Method method, const Header& header, ByteReader& reader, size_t size,
                            Condition& condition) {
  condition.kind = static_cast<Condition::Kind>(header.flags);
  condition.version = reader.read<uint64_t>();
  if (condition.kind != Condition::Kind::kIfVersion && condition.version != 0) {
    return malformed(method, "a version without if_version", size);
  }
  return absl::OkStatus();
}

uint64_t condition_version(const Condition& condition) {
  return condition.kind == Condition::Kind::kIfVersion ? condition.version : 0;
}

absl::Status check_patch_fields(ByteSpan fields) {
  if (fields.empty()) return absl::InvalidArgumentError("PATCH request names no field");
  return check_row(fields);
}

absl::Status check_scan(const ScanRequest& request) {
  if (request.start_key.size() > kKeyBytesMax) {
    return above_limit("bytes of the start key", request.start_key.size(), "kKeyBytesMax", kKeyBytesMax);
  }
  if (request.end_key.size() > kKeyBytesMax) {
    return above_limit("bytes of the end key", request.end_key.size(), "kKeyBytesMax", kKeyBytesMax);
  }
  if (request.resume_token.size() > kResumeTokenBytesMax) {
    return above_limit("bytes of the resume token", request.resume_token.size(), "kResumeTokenBytesMax",
                       kResumeTokenBytesMax);
  }
  if (request.rows_max < 1 || request.rows_max > kScanRowsMax) {
    return above_limit("rows of a SCAN page (1 at least)", request.rows_max, "kScanRowsMax", kScanRowsMax);
  }
  if (request.bytes_max < 1 || request.bytes_max > kScanBytesMax) {
    return above_limit("bytes of a SCAN page (1 at least)", request.bytes_max, "kScanBytesMax", kScanBytesMax);
  }
  return absl::OkStatus();
}

absl::Status buffer_too_small(Method method, size_t size) {
  return absl::InvalidArgumentError(
      absl::StrCat(method_name(method), " request does not fit a buffer of ", size, " bytes"));
}

}  // namespace

absl::Status check_key(std::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("key is empty; it must have 1 byte at least");
  if (key.size() > kKeyBytesMax) return above_limit("bytes of the key", key.size(), "kKeyBytesMax", kKeyBytesMax);
  return absl::OkStatus();
}

absl::Status check_value(ByteSpan value) {
  if (value.size() <= kValueBytesMax) return absl::OkStatus();
  return above_limit("bytes of the value", value.size(), "kValueBytesMax", kValueBytesMax);
}

absl::StatusOr<ByteSpan> encode_get(const GetRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_header(writer, {.route = request.route, .key_bytes = static_cast<uint16_t>(request.key.size())});
  writer.write_bytes(as_byte_span(request.key));
  return writer.written();
}

absl::StatusOr<ByteSpan> encode_put_head(const PutRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  if (absl::Status status = check_value(request.value); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_header(writer, {.route = request.route,
                        .flags = static_cast<uint8_t>(request.condition.kind),
                        .key_bytes = static_cast<uint16_t>(request.key.size()),
                        .count = static_cast<uint32_t>(request.value.size())});
  writer.write(condition_version(request.condition));
  writer.write_bytes(as_byte_span(request.key));
  return writer.written();
}

absl::StatusOr<ByteSpan> encode_delete(const DeleteRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  if (request.condition.kind == Condition::Kind::kIfAbsent) {
    return absl::InvalidArgumentError("DELETE if_absent would delete nothing; use none or if_version");
  }
  ByteWriter writer(buffer);
  write_header(writer, {.route = request.route,
                        .flags = static_cast<uint8_t>(request.condition.kind),
                        .key_bytes = static_cast<uint16_t>(request.key.size())});
  writer.write(condition_version(request.condition));
  writer.write_bytes(as_byte_span(request.key));
  return writer.written();
}

absl::StatusOr<ByteSpan> encode_patch_head(const PatchRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  if (absl::Status status = check_patch_fields(request.fields); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_header(writer, {.route = request.route,
                        .flags = request.create_if_missing ? kPatchCreates : uint8_t{0},
                        .key_bytes = static_cast<uint16_t>(request.key.size()),
                        .count = static_cast<uint32_t>(request.fields.size())});
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
                                          MutableByteSpan buffer) {
  if (keys.empty() || keys.size() > kBatchOpsMax) {
    return above_limit("keys of a MULTI_GET (1 at least)", keys.size(), "kBatchOpsMax", kBatchOpsMax);
  }
  ByteWriter writer(buffer);
  write_header(writer, {.route = route, .count = static_cast<uint32_t>(keys.size())});
  for (std::string_view key : keys) {
    if (absl::Status status = check_key(key); !status.ok()) return status;
    writer.write_prefixed<uint16_t>(as_byte_span(key));
  }
  if (!writer.ok()) return buffer_too_small(Method::kMultiGet, buffer.size());
  return writer.written();
}

absl::StatusOr<ByteSpan> encode_scan(const ScanRequest& request, MutableByteSpan buffer) {
  if (absl::Status status = check_scan(request); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_header(writer, {.route = request.route,
                        .key_bytes = static_cast<uint16_t>(request.start_key.size()),
                        .count = request.rows_max});
  writer.write(request.bytes_max);
  writer.write(static_cast<uint16_t>(request.end_key.size()));
  writer.write(static_cast<uint16_t>(request.resume_token.size()));
  writer.write_bytes(as_byte_span(request.start_key));
  writer.write_bytes(as_byte_span(request.end_key));
  writer.write_bytes(as_byte_span(request.resume_token));
  if (!writer.ok()) return buffer_too_small(Method::kScan, buffer.size());
  return writer.written();
}

absl::StatusOr<Route> decode_route(ByteSpan bytes) {
  if (bytes.size() < kRequestHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("request of ", bytes.size(), " bytes is shorter than its header"));
  }
  ByteReader reader(bytes);
  Route route;
  route.table_id = reader.read<uint32_t>();
  route.shard = reader.read<uint32_t>();
  route.epoch = reader.read<uint64_t>();
  route.map_revision = reader.read<uint64_t>();
  return route;
}

absl::StatusOr<GetRequest> decode_get(ByteSpan bytes) {
  ByteReader reader(bytes);
  Header header;
  if (absl::Status status = read_header(Method::kGet, bytes, 0, reader, header); !status.ok()) return status;
  const GetRequest request{header.route, as_string_view(reader.read_bytes(header.key_bytes))};
  if (!reader.complete() || header.count != 0) {
    return malformed(Method::kGet, "its length disagrees with its key's", bytes.size());
  }
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  return request;
}

absl::StatusOr<PutRequest> decode_put(ByteSpan bytes) {
  ByteReader reader(bytes);
  Header header;
  if (absl::Status status =
          read_header(Method::kPut, bytes, static_cast<uint8_t>(Condition::Kind::kIfAbsent), reader, header);
      !status.ok()) {
    return status;
  }
  PutRequest request{.route = header.route};
  if (absl::Status status = read_condition(Method::kPut, header, reader, bytes.size(), request.condition);
      !status.ok()) {
    return status;
  }
  request.key = as_string_view(reader.read_bytes(header.key_bytes));
  request.value = reader.read_bytes(header.count);
  if (!reader.complete()) {
    return malformed(Method::kPut, "its length disagrees with its key's and value's", bytes.size());
  }
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  if (absl::Status status = check_value(request.value); !status.ok()) return status;
  return request;
}

absl::StatusOr<DeleteRequest> decode_delete(ByteSpan bytes) {
  ByteReader reader(bytes);
  Header header;
  if (absl::Status status =
          read_header(Method::kDelete, bytes, static_cast<uint8_t>(Condition::Kind::kIfVersion), reader, header);
      !status.ok()) {
    return status;
  }
  DeleteRequest request{.route = header.route};
  if (absl::Status status = read_condition(Method::kDelete, header, reader, bytes.size(), request.condition);
      !status.ok()) {
    return status;
  }
  request.key = as_string_view(reader.read_bytes(header.key_bytes));
  if (!reader.complete() || header.count != 0) {
    return malformed(Method::kDelete, "its length disagrees with its key's", bytes.size());
  }
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  return request;
}

absl::StatusOr<MultiGetRequest> decode_multi_get(ByteSpan bytes) {
  ByteReader reader(bytes);
  Header header;
  if (absl::Status status = read_header(Method::kMultiGet, bytes, 0, reader, header); !status.ok()) return status;
  if (header.key_bytes != 0) return malformed(Method::kMultiGet, "reserved bits are set", bytes.size());
  if (header.count < 1 || header.count > kBatchOpsMax) {
    return above_limit("keys of a MULTI_GET (1 at least)", header.count, "kBatchOpsMax", kBatchOpsMax);
  }
  const MultiGetRequest request{header.route, KeyList(bytes.subspan(kRequestHeaderBytes), header.count)};
  for (uint32_t i = 0; i < header.count; ++i) {
    const std::string_view key = as_string_view(reader.read_prefixed<uint16_t>());
    if (!reader.ok()) return malformed(Method::kMultiGet, "it ends inside its keys", bytes.size());
    if (absl::Status status = check_key(key); !status.ok()) return status;
  }
  if (!reader.complete()) return malformed(Method::kMultiGet, "bytes follow its last key", bytes.size());
  return request;
}

absl::StatusOr<PatchRequest> decode_patch(ByteSpan bytes) {
  ByteReader reader(bytes);
  Header header;
  if (absl::Status status = read_header(Method::kPatch, bytes, kPatchCreates, reader, header); !status.ok()) {
    return status;
  }
  PatchRequest request{.route = header.route, .create_if_missing = header.flags == kPatchCreates};
  request.key = as_string_view(reader.read_bytes(header.key_bytes));
  request.fields = reader.read_bytes(header.count);
  if (!reader.complete()) {
    return malformed(Method::kPatch, "its length disagrees with its key's and fields'", bytes.size());
  }
  if (absl::Status status = check_key(request.key); !status.ok()) return status;
  if (absl::Status status = check_patch_fields(request.fields); !status.ok()) return status;
  return request;
}

absl::StatusOr<ScanRequest> decode_scan(ByteSpan bytes) {
  ByteReader reader(bytes);
  Header header;
  if (absl::Status status = read_header(Method::kScan, bytes, 0, reader, header); !status.ok()) return status;
  ScanRequest request{.route = header.route, .rows_max = header.count};
  request.bytes_max = reader.read<uint32_t>();
  const auto end_bytes = reader.read<uint16_t>();
  const auto token_bytes = reader.read<uint16_t>();
  request.start_key = as_string_view(reader.read_bytes(header.key_bytes));
  request.end_key = as_string_view(reader.read_bytes(end_bytes));
  request.resume_token = as_string_view(reader.read_bytes(token_bytes));
  if (!reader.complete()) {
    return malformed(Method::kScan, "its length disagrees with its keys' and token's", bytes.size());
  }
  if (absl::Status status = check_scan(request); !status.ok()) return status;
  return request;
}

}  // namespace skua::kv
