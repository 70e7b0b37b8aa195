// What the message codec's tests and its fuzz target share.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_MESSAGE_CODEC_TESTING_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_MESSAGE_CODEC_TESTING_H_

#include <optional>
#include <string>
#include <vector>

#include "kvstore/replication/copy_codec.h"
#include "kvstore/replication/message_codec.h"
#include "rpc/base/message.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/codec/codec_testing.h"

namespace skua::kv::testing {

/// The message's bytes as they travel.
inline std::string joined(const rpc::Message& message) {
  std::string bytes(as_string_view(message.head()));
  for (size_t i = 0; i < message.body_count(); ++i) bytes.append(as_string_view(message.body(i)));
  return bytes;
}

/// The plain encoding of an Append, for as many entries as one likes: AppendBuilder's twin.
inline std::string plain_append(const ReplicaEnvelope& envelope, const Append& header,
                                const std::vector<AppendEntry>& entries) {
  std::string out;
  const auto put = [&out](auto value) {
    std::array<std::byte, sizeof value> bytes;
    store_le(bytes.data(), value);
    out.append(as_string_view(bytes));
  };
  put(envelope.table);
  put(envelope.shard);
  put(envelope.from);
  put(envelope.incarnation);
  put(uint8_t{3});
  put(header.epoch);
  put(header.prev.index);
  put(header.prev.epoch);
  put(header.commit_index);
  put(static_cast<uint32_t>(entries.size()));
  put(static_cast<uint32_t>(header.acknowledge_received ? 1 : 0));
  for (const AppendEntry& entry : entries) {
    put(entry.epoch);
    put(entry.time);
    put(static_cast<uint32_t>(entry.payload.size()));
    put(durability_code(entry.durability));
    put(uint8_t{0});
    put(entry.flags);
    out.append(as_string_view(entry.payload));
  }
  return out;
}

// Each decodes `bytes` and, if they are accepted, encodes what was understood: the same bytes, if the decoder accepts
// what its encoder makes and nothing else. nullopt: refused.

inline std::optional<std::string> recode_frame(ByteSpan bytes) {
  ReplicaFrame frame;
  if (!decode_frame(bytes, frame).ok()) return std::nullopt;
  if (const auto* append = std::get_if<Append>(&frame.message)) {
    std::vector<AppendEntry> entries;
    for (const AppendEntry& entry : frame.entries) {
      if (entries.size() >= append->epochs.size() || append->epochs[entries.size()] != entry.epoch) return "epochs";
      entries.push_back(entry);
    }
    return plain_append(frame.envelope, *append, entries);
  }
  FrameBuffer buffer;
  return std::string(as_string_view(encode_frame(frame.envelope, frame.message, buffer).value()));
}

inline std::optional<std::string> recode_fetch_chunk(ByteSpan bytes) {
  const auto fetch = decode_fetch_chunk(bytes);
  if (!fetch.ok()) return std::nullopt;
  std::array<std::byte, kFetchChunkBytes> buffer;
  return std::string(as_string_view(encode_fetch_chunk(*fetch, buffer).value()));
}

inline std::optional<std::string> recode_chunk(ByteSpan bytes) {
  const auto chunk = decode_chunk(bytes);
  if (!chunk.ok()) return std::nullopt;
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  return std::string(as_string_view(encode_chunk_head(*chunk, buffer).value())).append(as_string_view(chunk->data));
}

inline std::optional<std::string> recode_fetch_tail(ByteSpan bytes) {
  const auto fetch = decode_fetch_tail(bytes);
  if (!fetch.ok()) return std::nullopt;
  std::array<std::byte, kFetchTailBytes> buffer;
  return std::string(as_string_view(encode_fetch_tail(*fetch, buffer)));
}

using RecodeMessage = std::optional<std::string> (*)(ByteSpan);
inline constexpr RecodeMessage kMessageRecoders[] = {recode_frame, recode_fetch_chunk, recode_chunk, recode_fetch_tail};

struct RandomAppend {
  Append header;
  std::vector<std::string> payloads;
  std::vector<AppendEntry> entries;
};

inline RandomAppend random_append(Rng& rng, size_t entries, size_t payload_max) {
  RandomAppend out;
  out.header = {.epoch = rng.next(), .prev = {rng.next(), rng.next()}, .epochs = {}, .commit_index = rng.next()};
  out.header.acknowledge_received = rng.chance(0.5);
  for (size_t i = 0; i < entries; ++i) out.payloads.push_back(random_text(rng, rng.below(payload_max + 1)));
  for (const std::string& payload : out.payloads) {
    out.entries.push_back({.epoch = rng.next(),
                           .time = static_cast<int64_t>(rng.next() >> 1),
                           .durability = *durability_of_code(rng.below(3)),
                           .flags = static_cast<uint16_t>(rng.next()),
                           .payload = as_byte_span(payload)});
  }
  return out;
}

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_MESSAGE_CODEC_TESTING_H_
