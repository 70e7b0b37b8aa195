#include "kvstore/codec/effect.h"

#include "kvstore/codec/size_limits.h"
#include "kvstore/types/fields.h"

namespace skua::kv {
namespace {

constexpr uint8_t kPut = 1;
constexpr uint8_t kDelete = 2;
constexpr uint8_t kCompletion = 3;
constexpr uint8_t kEntry = 4;
constexpr uint8_t kBarrier = 5;
constexpr uint8_t kHasExpiry = 1;
constexpr uint8_t kHasMark = 2;
constexpr size_t kHeadBytes = 8;

/// The flags of an effect: what follows its head.
uint8_t flags_of(const Effect& effect) {
  if (!effect.value) return 0;
  return static_cast<uint8_t>((effect.expires_at != 0 ? kHasExpiry : 0) | (effect.mark.empty() ? 0 : kHasMark));
}

/// True if the results are those of a batch that took effect: each status is one that append_batch_result() writes, the
/// reserved bytes are zero, and the value is 0 where the key was absent.
bool sound_results(ByteSpan results) {
  for (size_t at = 0; at < results.size(); at += kBatchResultBytes) {
    const auto word = load_le<uint64_t>(results.data() + at);
    const bool not_found = word == static_cast<uint64_t>(KvStatus::kNotFound);
    if (word != static_cast<uint64_t>(KvStatus::kOk) && !not_found) return false;
    if (not_found && load_le<int64_t>(results.data() + at + sizeof word) != 0) return false;
  }
  return true;
}

/// The completion that `rest` begins with, which it loses. nullopt if it begins with none.
std::optional<Completion> read_completion(ByteSpan& rest) {
  ByteReader reader(rest);
  if (reader.read<uint8_t>() != kCompletion || reader.read<uint8_t>() != 0) return std::nullopt;
  uint16_t results = 0;
  uint32_t zeros = 0;
  Completion out;
  read_fields(reader, results, zeros, out.id.client_id, out.id.seq, out.id.first_incomplete, out.value);
  out.batch_results = reader.read_bytes(results * kBatchResultBytes);
  const bool sound = reader.ok() && zeros == 0 && results <= kBatchOpsMax && out.id.client_id != 0 && out.id.seq != 0 &&
                     out.id.first_incomplete <= out.id.seq && sound_results(out.batch_results);
  if (!sound) return std::nullopt;
  rest = reader.read_rest();
  return out;
}

/// As read_completion(), for the head of an entry.
std::optional<EntryHead> read_entry_head(ByteSpan& rest) {
  ByteReader reader(rest);
  if (reader.read<uint64_t>() != kEntry) return std::nullopt;
  EntryHead out;
  read_fields(reader, out.epoch, out.commit_index);
  if (!reader.ok()) return std::nullopt;
  rest = reader.read_rest();
  return out;
}

/// Writes the head of an effect to where there is room for it. Returns where it ends.
std::byte* write_head(const Effect& effect, std::byte* to) {
  const uint8_t flags = flags_of(effect);
  const size_t value_bytes = effect.value ? effect.value->size() : 0;
  store_le(to, uint64_t{effect.value ? kPut : kDelete} | uint64_t{flags} << 8 | uint64_t{effect.key.size()} << 16 |
                   uint64_t{value_bytes} << 32);
  to += kHeadBytes;
  if ((flags & kHasExpiry) != 0) {
    store_le(to, effect.expires_at);
    to += sizeof effect.expires_at;
  }
  if ((flags & kHasMark) != 0) {
    store_le(to, effect.mark.word());
    to += kMarkBytes;
  }
  return to;
}

}  // namespace

std::optional<ByteSpan> read_barrier(ByteSpan payload) {
  ByteReader reader(payload);
  if (reader.read<uint32_t>() != kBarrier) return std::nullopt;
  const size_t bytes = reader.read<uint32_t>();
  if (!reader.ok() || reader.remaining() != bytes) return std::nullopt;
  return reader.read_rest();
}

void encode_entry_head(const EntryHead& entry, ByteWriter& out) {
  write_fields(out, uint64_t{kEntry}, entry.epoch, entry.commit_index);
}

std::string encode_barrier(ByteSpan bytes) {
  std::string out;
  append_le(out, uint32_t{kBarrier});
  append_prefixed<uint32_t>(out, as_string_view(bytes));
  return out;
}

void encode_effect_head(const Effect& effect, ByteWriter& out) {
  EffectHead head;
  const std::byte* const end = write_head(effect, head.data());
  out.write_bytes({head.data(), end});
}

size_t encoded_bytes(const Effect& effect) {
  const uint8_t flags = flags_of(effect);
  return kHeadBytes + ((flags & kHasExpiry) != 0 ? sizeof effect.expires_at : 0) +
         ((flags & kHasMark) != 0 ? kMarkBytes : 0) + effect.key.size() + (effect.value ? effect.value->size() : 0);
}

std::byte* encode_effect(Effect& effect, std::byte* to) {
  to = write_head(effect, to);
  std::byte* const value = to + effect.key.size();
  copy_bytes(to, as_byte_span(effect.key));
  effect.key = as_string_view({to, effect.key.size()});
  if (!effect.value) return value;
  copy_bytes(value, *effect.value);
  effect.value = ByteSpan(value, effect.value->size());
  return value + effect.value->size();
}

void encode_completion_head(const Completion& completion, ByteWriter& out) {
  write_fields(out, kCompletion, uint8_t{0}, static_cast<uint16_t>(completion.batch_results.size() / kBatchResultBytes),
               uint32_t{0}, completion.id.client_id, completion.id.seq, completion.id.first_incomplete,
               completion.value);
}

void encode_batch_results(std::span<const MutationResult> results, MutableByteSpan to) {
  std::byte* at = to.data();
  for (const MutationResult& result : results) {
    store_le(at, static_cast<uint64_t>(result.status));
    store_le(at + sizeof(uint64_t), result.value);
    at += kBatchResultBytes;
  }
}

MutationResult batch_result(ByteSpan results, size_t at, uint64_t version) {
  const std::byte* const from = results.data() + at * kBatchResultBytes;
  MutationResult result;
  result.status = static_cast<KvStatus>(load_le<uint64_t>(from));
  result.version = result.status == KvStatus::kOk ? version : 0;
  result.value = load_le<int64_t>(from + sizeof(uint64_t));
  return result;
}

EffectReader::EffectReader(ByteSpan payload) : rest_(payload) {
  entry_ = read_entry_head(rest_);
  barrier_ = read_barrier(rest_);
  if (barrier_) rest_ = {};
  completion_ = read_completion(rest_);
}

std::optional<Effect> EffectReader::next() {
  if (rest_.size() < kHeadBytes) return std::nullopt;
  ByteReader reader(rest_);
  const auto kind = reader.read<uint8_t>();
  const auto flags = reader.read<uint8_t>();
  const size_t key_bytes = reader.read<uint16_t>();
  const size_t value_bytes = reader.read<uint32_t>();
  const bool has_expiry = (flags & kHasExpiry) != 0;
  const bool has_mark = (flags & kHasMark) != 0;
  Effect effect;
  if (has_expiry) effect.expires_at = reader.read<uint64_t>();
  const auto mark = RecordMark::of_word(has_mark ? reader.read<uint64_t>() : 0);
  const uint8_t flags_allowed = kind == kPut ? kHasExpiry | kHasMark : 0;
  const bool sound = (kind == kPut || (kind == kDelete && value_bytes == 0)) && (flags & ~flags_allowed) == 0 &&
                     (effect.expires_at != 0) == has_expiry && mark.has_value() && mark->empty() != has_mark &&
                     key_bytes >= 1 && key_bytes <= kKeyBytesMax && value_bytes <= kValueBytesMax && reader.ok() &&
                     reader.remaining() >= key_bytes + value_bytes;
  if (!sound) return std::nullopt;
  effect.mark = *mark;
  effect.key = as_string_view(reader.read_bytes(key_bytes));
  const ByteSpan value = reader.read_bytes(value_bytes);
  if (kind == kPut) effect.value = value;
  rest_ = reader.read_rest();
  return effect;
}

}  // namespace skua::kv
