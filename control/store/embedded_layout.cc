#include "control/store/embedded_layout.h"

#include <vector>

#include "rpc/base/bytes.h"

namespace skua::control::embedded {
namespace {

/// Appends an integer, little endian.
template <typename T>
void append(std::string& to, T value) {
  std::byte bytes[sizeof(T)];
  store_le(bytes, value);
  to.append(as_string_view(bytes));
}

void append_big_endian(std::string& to, uint64_t value, int byte_count) {
  for (int i = byte_count - 1; i >= 0; --i) to.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

std::string encode_u64(uint64_t value) {
  std::string bytes;
  append(bytes, value);
  return bytes;
}

std::optional<uint64_t> decode_u64(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  const auto value = reader.read<uint64_t>();
  if (!reader.complete()) return std::nullopt;
  return value;
}

std::string user_key(std::string_view key) {
  return std::string(kUserPrefix).append(key);
}

std::string history_key(uint64_t revision, uint32_t index) {
  std::string key = kHistoryPrefix;
  append_big_endian(key, revision, 8);
  append_big_endian(key, index, 4);
  return key;
}

std::string encode_record(const KeyValue& kv) {
  std::string bytes;
  append(bytes, kv.create_revision);
  append(bytes, kv.mod_revision);
  return bytes.append(kv.value);
}

std::optional<KeyValue> decode_record(std::string_view key, std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  KeyValue kv;
  kv.key = key;
  kv.create_revision = reader.read<uint64_t>();
  kv.mod_revision = reader.read<uint64_t>();
  kv.value = as_string_view(reader.read_rest());
  if (!reader.ok()) return std::nullopt;
  return kv;
}

std::string encode_event(const WatchEvent& event) {
  std::string bytes;
  append(bytes, static_cast<uint8_t>(event.kind));
  append(bytes, event.kv.create_revision);
  append(bytes, event.kv.mod_revision);
  append(bytes, static_cast<uint32_t>(event.kv.key.size()));
  return bytes.append(event.kv.key).append(event.kv.value);
}

std::optional<WatchEvent> decode_event(std::string_view bytes) {
  ByteReader reader(as_byte_span(bytes));
  WatchEvent event;
  const auto kind = reader.read<uint8_t>();
  event.kv.create_revision = reader.read<uint64_t>();
  event.kv.mod_revision = reader.read<uint64_t>();
  event.kv.key = as_string_view(reader.read_prefixed<uint32_t>());
  event.kv.value = as_string_view(reader.read_rest());
  if (!reader.ok() || kind > static_cast<uint8_t>(WatchEvent::Kind::kDelete)) return std::nullopt;
  event.kind = static_cast<WatchEvent::Kind>(kind);
  return event;
}

}  // namespace skua::control::embedded
