// PUT, DELETE, PATCH, ADD, APPEND and EXPIRE. Each is header, mutation head and key. ADD has a number before the key;
// PUT, PATCH and APPEND have bytes behind it. batch.cc has BATCH.
#include "kvstore/codec/methods.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/request_header.h"

namespace skua::kv {
namespace {

/// The parts of a mutation of one key.
struct Parts {
  Method method;
  Route route{};
  uint8_t flags = 0;
  MutationHead head{};
  std::string_view key{};
  ByteSpan body{};    // PUT, PATCH, APPEND
  int64_t delta = 0;  // ADD
};

bool has_body(Method method) {
  return method == Method::kPut || method == Method::kPatch || method == Method::kAppend;
}

absl::Status check(const Parts& parts) {
  if (absl::Status status = check_key(parts.key); !status.ok()) return status;
  if (absl::Status status = check_value(parts.body); !status.ok()) return status;
  return check_rules(parts.method, parts.head.condition, parts.head.ttl_ms);
}

absl::StatusOr<ByteSpan> encode(const Parts& parts, HeadBuffer& buffer) {
  if (absl::Status status = check(parts); !status.ok()) return status;
  if (absl::Status status = check_request_id(parts.head.id); !status.ok()) return status;
  ByteWriter writer(buffer);
  write_mutation_head(writer,
                      {.route = parts.route,
                       .flags = parts.flags,
                       .key_bytes = static_cast<uint16_t>(parts.key.size()),
                       .count = static_cast<uint32_t>(parts.body.size())},
                      parts.head);
  if (parts.method == Method::kAdd) writer.write(parts.delta);
  writer.write_bytes(as_byte_span(parts.key));
  return writer.written();
}

absl::Status decode(ByteSpan bytes, Parts& parts) {
  const Method method = parts.method;
  ByteReader reader(bytes);
  RequestHeader header;
  const uint8_t own_flags = method == Method::kPatch ? kCreateIfMissingBit : uint8_t{0};
  if (absl::Status status = read_mutation_head(method, bytes, own_flags, reader, header, parts.head); !status.ok()) {
    return status;
  }
  parts.route = header.route;
  parts.flags = header.flags;
  if (method == Method::kAdd) parts.delta = reader.read<int64_t>();
  parts.key = as_string_view(reader.read_bytes(header.key_bytes));
  if (has_body(method)) parts.body = reader.read_bytes(header.count);
  if (!reader.complete() || (!has_body(method) && header.count != 0)) {
    return malformed_request(method, "its length disagrees with its key's and value's", bytes.size());
  }
  return check(parts);
}

}  // namespace

absl::StatusOr<ByteSpan> encode_put_head(const PutRequest& request, HeadBuffer& buffer) {
  return encode({.method = Method::kPut,
                 .route = request.route,
                 .head = {request.id, request.durability, request.condition, request.ttl_ms},
                 .key = request.key,
                 .body = request.value},
                buffer);
}

absl::StatusOr<ByteSpan> encode_delete(const DeleteRequest& request, HeadBuffer& buffer) {
  return encode({.method = Method::kDelete,
                 .route = request.route,
                 .head = {request.id, request.durability, request.condition},
                 .key = request.key},
                buffer);
}

absl::StatusOr<ByteSpan> encode_patch_head(const PatchRequest& request, HeadBuffer& buffer) {
  if (absl::Status status = check_patch(request.condition, request.create_if_missing, request.fields); !status.ok()) {
    return status;
  }
  return encode({.method = Method::kPatch,
                 .route = request.route,
                 .flags = request.create_if_missing ? kCreateIfMissingBit : uint8_t{0},
                 .head = {request.id, request.durability, request.condition},
                 .key = request.key,
                 .body = request.fields},
                buffer);
}

absl::StatusOr<ByteSpan> encode_add(const AddRequest& request, HeadBuffer& buffer) {
  return encode({.method = Method::kAdd,
                 .route = request.route,
                 .head = {request.id, request.durability, request.condition},
                 .key = request.key,
                 .delta = request.delta},
                buffer);
}

absl::StatusOr<ByteSpan> encode_append_head(const AppendRequest& request, HeadBuffer& buffer) {
  return encode({.method = Method::kAppend,
                 .route = request.route,
                 .head = {request.id, request.durability, request.condition},
                 .key = request.key,
                 .body = request.value},
                buffer);
}

absl::StatusOr<ByteSpan> encode_expire(const ExpireRequest& request, HeadBuffer& buffer) {
  return encode({.method = Method::kExpire,
                 .route = request.route,
                 .head = {request.id, request.durability, request.condition, request.ttl_ms},
                 .key = request.key},
                buffer);
}

absl::StatusOr<PutRequest> decode_put(ByteSpan bytes) {
  Parts parts{.method = Method::kPut};
  if (absl::Status status = decode(bytes, parts); !status.ok()) return status;
  const MutationHead& head = parts.head;
  return PutRequest{parts.route, head.condition, parts.key, parts.body, head.id, head.durability, head.ttl_ms};
}

absl::StatusOr<DeleteRequest> decode_delete(ByteSpan bytes) {
  Parts parts{.method = Method::kDelete};
  if (absl::Status status = decode(bytes, parts); !status.ok()) return status;
  return DeleteRequest{parts.route, parts.head.condition, parts.key, parts.head.id, parts.head.durability};
}

absl::StatusOr<PatchRequest> decode_patch(ByteSpan bytes) {
  Parts parts{.method = Method::kPatch};
  if (absl::Status status = decode(bytes, parts); !status.ok()) return status;
  const MutationHead& head = parts.head;
  const bool create = (parts.flags & kCreateIfMissingBit) != 0;
  if (absl::Status status = check_patch(head.condition, create, parts.body); !status.ok()) return status;
  return PatchRequest{parts.route, create, parts.key, parts.body, head.condition, head.id, head.durability};
}

absl::StatusOr<AddRequest> decode_add(ByteSpan bytes) {
  Parts parts{.method = Method::kAdd};
  if (absl::Status status = decode(bytes, parts); !status.ok()) return status;
  return AddRequest{parts.route, parts.head.condition, parts.key, parts.delta, parts.head.id, parts.head.durability};
}

absl::StatusOr<AppendRequest> decode_append(ByteSpan bytes) {
  Parts parts{.method = Method::kAppend};
  if (absl::Status status = decode(bytes, parts); !status.ok()) return status;
  return AppendRequest{parts.route, parts.head.condition, parts.key, parts.body, parts.head.id, parts.head.durability};
}

absl::StatusOr<ExpireRequest> decode_expire(ByteSpan bytes) {
  Parts parts{.method = Method::kExpire};
  if (absl::Status status = decode(bytes, parts); !status.ok()) return status;
  const MutationHead& head = parts.head;
  return ExpireRequest{parts.route, head.condition, parts.key, head.ttl_ms, head.id, head.durability};
}

}  // namespace skua::kv
