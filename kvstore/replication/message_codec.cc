#include "kvstore/replication/message_codec.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// A message's kind is its place in ReplicaMessage, from 1 on.
constexpr uint8_t kAppendKind = 3;
static_assert(std::is_same_v<std::variant_alternative_t<kAppendKind - 1, ReplicaMessage>, Append>);

constexpr size_t kKindAt = kEnvelopeBytes - 1;
constexpr uint8_t kReadAnywhere = 1;
constexpr uint8_t kAcknowledgeReceived = 1;
constexpr size_t kAppendCountAt = kEnvelopeBytes + 32;
constexpr size_t kAppendEntriesAt = kAppendCountAt + 8;

static_assert(kEnvelopeBytes + 8 + 25 + EpochHistory::kRunsMax * 16 + 24 + 16 <= kFrameBytesMax, "a TailReport fits");

absl::Status malformed(const char* what, size_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat("malformed replication message of ", bytes, " bytes: ", what));
}

// --- Fields. Those of each part and message are listed once, in the order of their bytes.

template <typename T, typename... Ts>
concept OneOf = (std::is_same_v<std::remove_const_t<T>, Ts> || ...);

auto fields_of(OneOf<EntryId> auto& id) {
  return std::tie(id.index, id.epoch);
}
auto fields_of(OneOf<LogLevels> auto& levels) {
  return std::tie(levels.received, levels.written, levels.durable);
}
auto fields_of(OneOf<ReplicaId> auto& id) {
  return std::tie(id.node, id.incarnation);
}
auto fields_of(OneOf<Learner> auto& learner) {
  return std::tie(learner.id, learner.join);
}
auto fields_of(OneOf<StartView, StaleEpoch> auto& m) {
  return std::tie(m.view);
}
auto fields_of(OneOf<AppendReply> auto& m) {
  return std::tie(m.epoch, m.levels);
}
auto fields_of(OneOf<Heartbeat> auto& m) {
  return std::tie(m.epoch, m.sent_ns, m.commit_index);
}
auto fields_of(OneOf<HeartbeatReply> auto& m) {
  return std::tie(m.epoch, m.echo_ns, m.levels, m.promises);
}
auto fields_of(OneOf<Confirm, ConfirmReply> auto& m) {
  return std::tie(m.epoch, m.round);
}
auto fields_of(OneOf<Release, SnapshotNeeded> auto& m) {
  return std::tie(m.epoch);
}
auto fields_of(OneOf<Restored> auto& m) {
  return std::tie(m.epoch, m.doubt);
}

// What has more than fields is written and read by hand.
bool write(ByteWriter& writer, const EpochHistory& log);
bool write(ByteWriter& writer, const View& view);
bool read(ByteReader& reader, EpochHistory& log);
bool read(ByteReader& reader, View& view);

/// False: it is larger than messages may be.
template <typename T>
bool write(ByteWriter& writer, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    writer.write(static_cast<uint8_t>(value));
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    writer.write(value);
    return true;
  } else {
    return std::apply([&](const auto&... fields) { return (write(writer, fields) && ...); }, fields_of(value));
  }
}

/// False: the bytes are not well-formed.
template <typename T>
bool read(ByteReader& reader, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    const auto byte = reader.read<uint8_t>();
    value = byte == 1;
    return reader.ok() && byte <= 1;
  } else if constexpr (std::is_integral_v<T>) {
    value = reader.read<T>();
    return reader.ok();
  } else {
    return std::apply([&](auto&... fields) { return (read(reader, fields) && ...); }, fields_of(value));
  }
}

bool write(ByteWriter& writer, const EpochHistory& log) {
  if (log.runs().size() > EpochHistory::kRunsMax) return false;
  write(writer, log.base());
  writer.write(log.last_index());
  writer.write(static_cast<uint8_t>(log.runs().size()));
  for (const EntryId& run : log.runs()) write(writer, run);
  return true;
}

bool read(ByteReader& reader, EpochHistory& log) {
  EntryId base;
  uint64_t last = 0;
  uint8_t count = 0;
  if (!read(reader, base) || !read(reader, last) || !read(reader, count) || count > EpochHistory::kRunsMax)
    return false;
  std::array<EntryId, EpochHistory::kRunsMax> runs;
  for (size_t i = 0; i < count; ++i) {
    if (!read(reader, runs[i])) return false;
  }
  auto made = EpochHistory::from_parts(base, std::span(runs).first(count), last);
  if (!made) return false;
  log = *std::move(made);
  return true;
}

bool write(ByteWriter& writer, const View& view) {
  if (view.members.size() > kViewMembersMax || view.learners.size() > kViewMembersMax) return false;
  writer.write(view.epoch);
  writer.write(view.change);
  writer.write(view.primary);
  writer.write(view.min_insync);
  writer.write(view.read_anywhere ? kReadAnywhere : uint8_t{0});
  writer.write(static_cast<uint8_t>(view.members.size()));
  writer.write(static_cast<uint8_t>(view.learners.size()));
  for (const ReplicaId& member : view.members) write(writer, member);
  for (const Learner& learner : view.learners) write(writer, learner);
  return true;
}

/// Members and learners are sorted by node without duplicates, and the primary is a member or 0.
bool is_sound(const View& view) {
  NodeId before = 0;
  bool has_primary = view.primary == 0;
  for (const ReplicaId& member : view.members) {
    if (member.node <= std::exchange(before, member.node)) return false;
    has_primary = has_primary || member.node == view.primary;
  }
  before = 0;
  for (const Learner& learner : view.learners) {
    if (learner.id.node <= std::exchange(before, learner.id.node)) return false;
  }
  return has_primary;
}

bool read(ByteReader& reader, View& view) {
  view.epoch = reader.read<uint64_t>();
  view.change = reader.read<uint64_t>();
  view.primary = reader.read<uint64_t>();
  view.min_insync = reader.read<uint32_t>();
  const auto flags = reader.read<uint8_t>();
  const auto members = reader.read<uint8_t>();
  const auto learners = reader.read<uint8_t>();
  if (!reader.ok() || flags > kReadAnywhere || members > kViewMembersMax || learners > kViewMembersMax) return false;
  view.read_anywhere = flags == kReadAnywhere;
  view.members.resize(members);
  for (ReplicaId& member : view.members) static_cast<void>(read(reader, member));
  view.learners.resize(learners);
  for (Learner& learner : view.learners) static_cast<void>(read(reader, learner));
  return reader.ok() && is_sound(view);
}

/// A doubt is only written if there is one.
bool write(ByteWriter& writer, const TailReport& m) {
  return write(writer, m.epoch) && write(writer, m.log) && write(writer, m.levels) && write(writer, m.commit_index) &&
         (m.doubt == 0 || write(writer, m.doubt));
}
bool read(ByteReader& reader, TailReport& m) {
  if (!read(reader, m.epoch) || !read(reader, m.log) || !read(reader, m.levels)) return false;
  if (!read(reader, m.commit_index)) return false;
  m.doubt = 0;
  return reader.remaining() == 0 || (read(reader, m.doubt) && m.doubt != 0);
}

bool write(ByteWriter& writer, const Append& m) {
  writer.write(m.epoch);
  write(writer, m.prev);
  writer.write(m.commit_index);
  writer.write(uint32_t{0});  // number of entries; finish() fills it in
  writer.write(m.acknowledge_received ? kAcknowledgeReceived : uint8_t{0});
  writer.write(uint8_t{0});
  writer.write(uint16_t{0});
  return true;
}

/// Reads an entry; false if the bytes are not a well-formed entry.
bool read_entry(ByteReader& reader, AppendEntry& entry) {
  entry.epoch = reader.read<uint64_t>();
  entry.time = reader.read<int64_t>();
  const auto payload_bytes = reader.read<uint32_t>();
  const auto durability = durability_of_code(reader.read<uint8_t>());
  const auto reserved = reader.read<uint8_t>();
  entry.flags = reader.read<uint16_t>();
  entry.payload = reader.read_bytes(payload_bytes);
  entry.durability = durability.value_or(Durability::kSync);
  return reader.ok() && reserved == 0 && durability && entry.time >= 0;
}

/// Reads an Append up to its first entry. `count` becomes the number of entries.
bool read_append_head(ByteReader& reader, Append& m, uint32_t& count) {
  if (!read(reader, m.epoch) || !read(reader, m.prev) || !read(reader, m.commit_index)) return false;
  count = reader.read<uint32_t>();
  const auto flags = reader.read<uint8_t>();
  const auto reserved = reader.read<uint8_t>();
  const auto also_reserved = reader.read<uint16_t>();
  m.acknowledge_received = flags == kAcknowledgeReceived;
  m.epochs.clear();
  return reader.ok() && flags <= kAcknowledgeReceived && reserved == 0 && also_reserved == 0;
}

void write_envelope(ByteWriter& writer, const ReplicaEnvelope& envelope, uint8_t kind) {
  writer.write(envelope.table);
  writer.write(envelope.shard);
  writer.write(envelope.from);
  writer.write(envelope.incarnation);
  writer.write(kind);
}

/// The message's alternative of this type, so that its memory is reused; or a new one if it holds another type.
template <typename T>
T& remake(ReplicaMessage& message) {
  if (T* same = std::get_if<T>(&message)) return *same;
  return message.emplace<T>();
}

/// Decodes a message's body behind the envelope. `bytes`: of the whole frame.
template <typename T>
absl::Status decode_body(ByteReader reader, ReplicaFrame& frame, ByteSpan bytes) {
  if (!read(reader, remake<T>(frame.message))) return malformed("its body is not what its kind has", bytes.size());
  if (!reader.complete()) return malformed("bytes follow its end", bytes.size());
  return absl::OkStatus();
}

template <>
absl::Status decode_body<Append>(ByteReader reader, ReplicaFrame& frame, ByteSpan bytes) {
  auto& append = remake<Append>(frame.message);
  uint32_t count = 0;
  if (!read_append_head(reader, append, count)) return malformed("its body is not what its kind has", bytes.size());
  if (count > kAppendEntriesMax) return malformed("it has too many entries", bytes.size());
  for (uint32_t i = 0; i < count; ++i) {
    AppendEntry entry;
    if (!read_entry(reader, entry)) return malformed("one of its entries is none", bytes.size());
    append.epochs.push_back(entry.epoch);
  }
  if (!reader.complete()) return malformed("bytes follow its end", bytes.size());
  return absl::OkStatus();
}

using Decode = absl::Status (*)(ByteReader, ReplicaFrame&, ByteSpan);
constexpr size_t kKinds = std::variant_size_v<ReplicaMessage>;
template <size_t... kPlaces>
constexpr std::array<Decode, kKinds> decoders(std::index_sequence<kPlaces...> /*places*/) {
  return {decode_body<std::variant_alternative_t<kPlaces, ReplicaMessage>>...};
}
constexpr std::array<Decode, kKinds> kDecoders = decoders(std::make_index_sequence<kKinds>());

}  // namespace

// --- Frames

bool is_append(const ReplicaMessage& message) {
  return std::holds_alternative<Append>(message);
}

bool looks_like_append(ByteSpan bytes) {
  return bytes.size() > kKindAt && bytes[kKindAt] == std::byte{kAppendKind};
}

absl::StatusOr<ByteSpan> encode_frame(const ReplicaEnvelope& envelope, const ReplicaMessage& message,
                                      FrameBuffer& buffer) {
  SKUA_CHECK(!is_append(message), "Appends have entries: use AppendBuilder");
  ByteWriter writer(buffer);
  write_envelope(writer, envelope, static_cast<uint8_t>(message.index() + 1));
  const bool fits = std::visit([&](const auto& m) { return write(writer, m); }, message);
  if (fits && writer.ok()) return writer.written();
  return absl::ResourceExhaustedError(absl::StrCat("a message between replicas carries up to ", kViewMembersMax,
                                                   " members and learners and ", EpochHistory::kRunsMax,
                                                   " runs of epochs"));
}

absl::Status decode_frame(ByteSpan bytes, ReplicaFrame& frame) {
  ByteReader reader(bytes);
  frame.envelope.table = reader.read<uint32_t>();
  frame.envelope.shard = reader.read<uint32_t>();
  frame.envelope.from = reader.read<uint64_t>();
  frame.envelope.incarnation = reader.read<uint64_t>();
  const auto kind = reader.read<uint8_t>();
  frame.entries = {};
  if (kind < 1 || kind > kKinds) return malformed("there is no message of its kind", bytes.size());
  absl::Status decoded = kDecoders[kind - 1U](reader, frame, bytes);
  if (decoded.ok() && kind == kAppendKind) frame.entries = AppendEntries(bytes.subspan(kAppendEntriesAt));
  return decoded;
}

AppendEntries::Iterator& AppendEntries::Iterator::operator++() {
  at_end_ = rest_.remaining() == 0;
  if (!at_end_) static_cast<void>(read_entry(rest_, entry_));
  return *this;
}

// --- Parts of an Append

void write_append_head(const ReplicaEnvelope& envelope, const Append& header, ByteWriter& writer) {
  write_envelope(writer, envelope, kAppendKind);
  write(writer, header);
}

void set_append_count(MutableByteSpan written, uint32_t count) {
  store_le(written.data() + kAppendCountAt, count);
}

void write_entry_head(const AppendEntry& entry, ByteWriter& writer) {
  writer.write(entry.epoch);
  writer.write(entry.time);
  writer.write(static_cast<uint32_t>(entry.payload.size()));
  writer.write(durability_code(entry.durability));
  writer.write(uint8_t{0});
  writer.write(entry.flags);
}

}  // namespace skua::kv
