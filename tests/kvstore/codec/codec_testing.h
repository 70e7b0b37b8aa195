// What the codec's tests and its fuzz target share.
#ifndef SKUA_TESTS_KVSTORE_CODEC_CODEC_TESTING_H_
#define SKUA_TESTS_KVSTORE_CODEC_CODEC_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/codec/batch.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/codec/row.h"
#include "rpc/base/bytes.h"
#include "rpc/base/check.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/types/mutations.h"

namespace skua::kv::testing {

/// The bytes as lower-case hexadecimal, for golden comparisons that print well.
inline std::string hex(ByteSpan bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text.push_back(kDigits[static_cast<size_t>(byte) >> 4]);
    text.push_back(kDigits[static_cast<size_t>(byte) & 15]);
  }
  return text;
}

/// `size` random bytes.
inline std::string random_text(Rng& rng, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  return text;
}

/// Half of them are empty.
inline RecordMark random_mark(Rng& rng) {
  if (rng.chance(0.5)) return {};
  return {static_cast<uint32_t>(rng.chance(0.3) ? 0 : rng.next()), rng.chance(0.5)};
}

/// The fields of a row, in their order.
using Fields = std::vector<std::pair<std::string, std::string>>;

inline std::string make_row(const Fields& fields) {
  std::string row;
  for (const auto& [name, value] : fields) append_field(row, {name, as_byte_span(value)});
  return row;
}

inline Fields read_row(std::string_view row) {
  Fields fields;
  RowReader reader(as_byte_span(row));
  while (const auto field = reader.next()) fields.emplace_back(field->name, as_string_view(field->value));
  SKUA_CHECK(reader.ok(), "the bytes are a row");
  return fields;
}

/// Head and body as one message, as it travels.
inline std::string joined(ByteSpan head, ByteSpan body) {
  return std::string(as_string_view(head)).append(as_string_view(body));
}

// Each recode_x decodes `bytes` and, if they are accepted, encodes what was understood. A decoder that accepts exactly
// what its encoder makes gives the same bytes back; nullopt if they were refused.

/// What is made for plain GETs and their replies agrees with what is made for all.
inline std::optional<std::string> recode_get(ByteSpan bytes) {
  const auto request = decode_get(bytes);
  GetRequest plain;
  const bool is_plain = request.ok() && request->at_least_index == 0 && request->wishes.is_plain();
  SKUA_CHECK(decode_plain_get(bytes, plain) == is_plain, "one decoder takes what the other one does not");
  HeadBuffer head;
  if (!request.ok()) return std::nullopt;
  std::string all = joined(encode_get(*request, head).value(), request->fields.bytes());
  if (is_plain) {
    SKUA_CHECK(as_string_view(encode_plain_get(plain.route, plain.key, head)) == all, "a plain GET is another request");
  }
  return all;
}

template <Method method>
std::optional<std::string> recode_mutation(ByteSpan bytes) {
  const auto request = decode_mutation(method, bytes);
  HeadBuffer head;
  if (!request.ok()) return std::nullopt;
  return joined(encode_mutation_head(*request, head).value(), request->mutation.value);
}

/// The operations one by one, as they were understood: once by the decoder, and once more by the iterator.
inline std::optional<std::string> recode_batch(ByteSpan bytes) {
  std::vector<Mutation> ops(1, mutations::put("left by the batch before", {}));
  const auto request = decode_batch(bytes, &ops);
  HeadBuffer head;
  if (decode_batch(bytes).ok() != request.ok()) return std::string("what has operations is a batch, and nothing else");
  if (!request.ok()) return std::nullopt;
  BatchOpsBuilder builder;
  BatchOpsBuilder iterated;
  for (const Mutation& op : ops) {
    if (!builder.add(op).ok()) return std::string("an operation that was decoded cannot be encoded");
  }
  for (const Mutation& op : request->ops) static_cast<void>(iterated.add(op));
  const std::string_view again_bytes = as_string_view(iterated.ops().bytes());
  if (as_string_view(builder.ops().bytes()) != again_bytes) return std::string("iterating gives other operations");
  const BatchRequest again{request->route, builder.ops(), request->id, request->durability};
  return joined(encode_batch_head(again, head).value(), builder.ops().bytes());
}

inline std::optional<std::string> recode_multi_get(ByteSpan bytes) {
  const auto request = decode_multi_get(bytes);
  if (!request.ok()) return std::nullopt;
  std::vector<std::string_view> keys;
  for (std::string_view key : request->keys) keys.push_back(key);
  std::vector<std::byte> buffer(multi_get_bytes(keys));
  return std::string(as_string_view(encode_multi_get(request->route, keys, buffer, request->wishes).value()));
}

inline std::optional<std::string> recode_scan(ByteSpan bytes) {
  const auto request = decode_scan(bytes);
  if (!request.ok()) return std::nullopt;
  std::vector<std::byte> buffer(scan_bytes(*request));
  return std::string(as_string_view(encode_scan(*request, buffer).value()));
}

inline std::string recode_error(const ReplyHead& head) {
  HeadBuffer buffer;
  return std::string(as_string_view(encode_error_reply(head, buffer)));
}

inline std::optional<std::string> recode_write_reply(ByteSpan bytes) {
  const auto reply = decode_write_reply(bytes);
  HeadBuffer head;
  if (!reply.ok()) return std::nullopt;
  if (reply->head.status != KvStatus::kOk) return recode_error(reply->head);
  return std::string(as_string_view(encode_write_reply(*reply, head)));
}

inline std::optional<std::string> recode_add_reply(ByteSpan bytes) {
  const auto reply = decode_add_reply(bytes);
  HeadBuffer head;
  if (!reply.ok()) return std::nullopt;
  if (reply->write.head.status != KvStatus::kOk) return recode_error(reply->write.head);
  return std::string(as_string_view(encode_add_reply(*reply, head)));
}

inline std::optional<std::string> recode_batch_reply(ByteSpan bytes) {
  auto reply = decode_batch_reply(bytes);
  if (!reply.ok()) return std::nullopt;
  if (reply->head.status != KvStatus::kOk) return recode_error(reply->head);
  std::vector<MutationResult> entries;
  for (const MutationResult& entry : reply->entries) entries.push_back(entry);
  std::vector<std::byte> buffer(batch_reply_bytes(entries.size()));
  return std::string(as_string_view(encode_batch_reply(*reply, entries, buffer)));
}

inline std::optional<std::string> recode_get_reply(ByteSpan bytes) {
  const auto reply = decode_get_reply(bytes);
  GetReply plain;
  const bool is_plain = reply.ok() && reply->head.status == KvStatus::kOk && reply->ttl_ms == 0 &&
                        reply->mark.empty() && !reply->size_only;
  SKUA_CHECK(decode_plain_get_reply(bytes, plain) == is_plain, "one decoder takes what the other one does not");
  HeadBuffer head;
  if (!reply.ok()) return std::nullopt;
  if (reply->head.status != KvStatus::kOk) return recode_error(reply->head);
  const GetExtras extras = {reply->ttl_ms, reply->mark, reply->size_only};
  const size_t value_bytes = reply->size_only ? reply->value_bytes : reply->value.size();
  std::string all = joined(encode_get_reply_head(reply->head, value_bytes, head, extras), reply->value);
  if (is_plain) {
    write_get_reply_head(plain.head, plain.value.size(), head.data());
    SKUA_CHECK(joined(ByteSpan(head).first(kReplyHeaderBytes), plain.value) == all, "a plain reply is another one");
  }
  return all;
}

inline std::optional<std::string> recode_multi_get_reply(ByteSpan bytes) {
  auto reply = decode_multi_get_reply(bytes);
  if (!reply.ok()) return std::nullopt;
  if (reply->head.status != KvStatus::kOk) return recode_error(reply->head);
  std::vector<MultiGetEntry> entries;
  std::string values;
  while (auto entry = reply->entries.next()) {
    entries.push_back(*entry);
    values.append(as_string_view(entry->value));
  }
  const bool with_marks = reply->has_marks;
  std::vector<std::byte> buffer(multi_get_reply_head_bytes(entries.size(), with_marks));
  return joined(encode_multi_get_reply_head(reply->head, entries, buffer, with_marks), as_byte_span(values));
}

inline std::optional<std::string> recode_scan_reply(ByteSpan bytes) {
  auto reply = decode_scan_reply(bytes);
  if (!reply.ok()) return std::nullopt;
  if (reply->head.status != KvStatus::kOk) return recode_error(reply->head);
  // Without rows nobody knows after which key the next page starts.
  if (reply->is_count && (reply->has_more || reply->counted == 0)) return std::string(as_string_view(bytes));
  ScanReplyBuilder builder(SIZE_MAX, SIZE_MAX, reply->has_marks);
  for (uint32_t i = 0; i < std::min(reply->counted, uint32_t{1000}); ++i)
    SKUA_CHECK(builder.count({"k", 0, {}}), "unlimited");
  if (reply->counted > 1000) return std::string(as_string_view(bytes));
  std::string_view last_key;
  while (auto row = reply->rows.next()) {
    if (!builder.add(*row)) return std::string("a row did not fit an unlimited page");
    last_key = row->key;
  }
  // A server may resume elsewhere than after the last row; this builder does not.
  if (reply->has_more && decode_resume_token(reply->resume_token).value() != last_key) {
    return std::string(as_string_view(bytes));
  }
  return std::string(as_string_view(builder.finish(reply->head, reply->has_more)));
}

using Recode = std::optional<std::string> (*)(ByteSpan);

inline constexpr Recode kRecoders[] = {
    recode_get,
    recode_mutation<Method::kPut>,
    recode_mutation<Method::kDelete>,
    recode_multi_get,
    recode_mutation<Method::kPatch>,
    recode_scan,
    recode_write_reply,
    recode_get_reply,
    recode_multi_get_reply,
    recode_scan_reply,
    recode_mutation<Method::kAdd>,
    recode_mutation<Method::kAppend>,
    recode_mutation<Method::kExpire>,
    recode_batch,
    recode_add_reply,
    recode_batch_reply,
};

/// Those of replies.
inline constexpr Recode kReplyRecoders[] = {recode_write_reply, recode_get_reply, recode_multi_get_reply,
                                            recode_scan_reply,  recode_add_reply, recode_batch_reply};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_CODEC_CODEC_TESTING_H_
