#include "rpc/wire/handshake.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

constexpr uint32_t kOfferMagic = 0x666f4b53;           // "SKof"
constexpr uint32_t kAnswerMagic = 0x6e614b53;          // "SKan"
constexpr uint32_t kKeyedMagic = 0x68634b53;           // "SKch"
constexpr uint32_t kKeyedOrKeylessMagic = 0x70634b53;  // "SKcp"

template <size_t Capacity>
class Record {
 public:
  ByteWriter writer{buffer_};
  std::string take() {
    SKUA_CHECK(writer.ok(), "handshake record larger than its buffer");
    return std::string(as_string_view(writer.written()));
  }

 private:
  std::array<std::byte, Capacity> buffer_;
};

void write_terms(ByteWriter& writer, const SessionTerms& terms) {
  writer.write(terms.window);
  writer.write(terms.credits);
  writer.write(terms.message_max_bytes);
  writer.write(terms.payload_bytes);
}

SessionTerms read_terms(ByteReader& reader) {
  SessionTerms terms;
  terms.window = reader.read<uint16_t>();
  terms.credits = reader.read<uint32_t>();
  terms.message_max_bytes = reader.read<uint32_t>();
  terms.payload_bytes = reader.read<uint32_t>();
  return terms;
}

void write_id(ByteWriter& writer, const std::array<uint8_t, 16>& id) {
  writer.write_bytes({reinterpret_cast<const std::byte*>(id.data()), id.size()});
}

void read_id(ByteReader& reader, std::array<uint8_t, 16>& id) {
  copy_bytes(reinterpret_cast<std::byte*>(id.data()), reader.read_bytes(id.size()));
}

absl::Status malformed(const char* what, size_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat("session ", what, " is malformed (", bytes, " bytes)"));
}

bool plausible(const SessionTerms& terms) {
  return terms.window > 0 && terms.credits > 0 && terms.payload_bytes > 0 && terms.message_max_bytes > 0;
}

}  // namespace

std::string SessionOffer::encode() const {
  SKUA_CHECK(descriptor.size() <= kDescriptorMax, "descriptor too long for a session offer");
  Record<64 + kDescriptorMax> record;
  ByteWriter& writer = record.writer;
  writer.write(kOfferMagic);
  writer.write(version_min);
  writer.write(version_max);
  write_terms(writer, terms);
  writer.write(session_index);
  writer.write(session_generation);
  writer.write(nonce);
  writer.write_prefixed<uint16_t>(as_byte_span(descriptor));
  return record.take();
}

absl::StatusOr<SessionOffer> SessionOffer::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  SessionOffer out;
  const auto magic = reader.read<uint32_t>();
  out.version_min = reader.read<uint8_t>();
  out.version_max = reader.read<uint8_t>();
  out.terms = read_terms(reader);
  out.session_index = reader.read<uint32_t>();
  out.session_generation = reader.read<uint32_t>();
  out.nonce = reader.read<uint64_t>();
  out.descriptor = as_string_view(reader.read_prefixed<uint16_t>());
  if (!reader.complete() || magic != kOfferMagic || out.descriptor.size() > kDescriptorMax ||
      out.version_min > out.version_max || !plausible(out.terms)) {
    return malformed("offer", bytes.size());
  }
  return out;
}

std::string SessionAnswer::encode() const {
  Record<128 + kTextMax> record;
  ByteWriter& writer = record.writer;
  writer.write(kAnswerMagic);
  writer.write(version);
  writer.write(static_cast<uint8_t>(code));
  write_terms(writer, terms);
  writer.write(session_index);
  writer.write(session_generation);
  writer.write(nonce);
  write_id(writer, uuid);
  writer.write(incarnation);
  write_id(writer, cluster_id);
  writer.write_prefixed<uint16_t>(as_byte_span(std::string_view(text).substr(0, kTextMax)));
  return record.take();
}

absl::StatusOr<SessionAnswer> SessionAnswer::decode(ByteSpan bytes) {
  ByteReader reader(bytes);
  SessionAnswer out;
  const auto magic = reader.read<uint32_t>();
  out.version = reader.read<uint8_t>();
  const auto code = reader.read<uint8_t>();
  out.terms = read_terms(reader);
  out.session_index = reader.read<uint32_t>();
  out.session_generation = reader.read<uint32_t>();
  out.nonce = reader.read<uint64_t>();
  read_id(reader, out.uuid);
  out.incarnation = reader.read<uint64_t>();
  read_id(reader, out.cluster_id);
  out.text = as_string_view(reader.read_prefixed<uint16_t>());
  const bool refused = code != 0;
  if (!reader.complete() || magic != kAnswerMagic || code > 16 || out.text.size() > kTextMax ||
      refused != (out.version == 0) || (!refused && !plausible(out.terms))) {
    return malformed("answer", bytes.size());
  }
  out.code = static_cast<absl::StatusCode>(code);
  return out;
}

std::string KeyedRecord::write(ByteSpan channel, ByteSpan session, bool may_be_keyless) {
  std::string out(sizeof kKeyedMagic + sizeof(uint16_t) + channel.size() + session.size(), '\0');
  ByteWriter writer({reinterpret_cast<std::byte*>(out.data()), out.size()});
  writer.write(may_be_keyless ? kKeyedOrKeylessMagic : kKeyedMagic);
  writer.write_prefixed<uint16_t>(channel);
  writer.write_bytes(session);
  return out;
}

KeyedRecord KeyedRecord::read(ByteSpan bytes) {
  ByteReader reader(bytes);
  const auto magic = reader.read<uint32_t>();
  if (magic != kKeyedMagic && magic != kKeyedOrKeylessMagic) {
    return {.has_channel = false, .may_be_keyless = false, .channel = {}, .session = bytes};
  }
  KeyedRecord out{.has_channel = true,
                  .may_be_keyless = magic == kKeyedOrKeylessMagic,
                  .channel = reader.read_prefixed<uint16_t>(),
                  .session = {}};
  if (reader.ok()) out.session = reader.read_rest();
  return out;
}

}  // namespace skua::rpc
