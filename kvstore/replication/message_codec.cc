#include "kvstore/replication/message_codec.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kvstore/types/fields.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

/// A message's kind is its place in ReplicaMessage, from 1 on.
constexpr uint8_t kAppendKind = 3;
static_assert(std::is_same_v<std::variant_alternative_t<kAppendKind - 1, ReplicaMessage>, Append>);

constexpr size_t kKindAt = kEnvelopeBytes - 1;
constexpr uint8_t kReadAnywhere = 1;
constexpr uint32_t kAcknowledgeReceived = 1;  // with the reserved bytes behind the flags
constexpr size_t kAppendCountAt = kEnvelopeBytes + 32;
constexpr size_t kAppendEntriesAt = kAppendCountAt + 8;

static_assert(kEnvelopeBytes + 8 + 25 + EpochHistory::kRunsMax * 16 + 24 + 16 <= kFrameBytesMax, "a TailReport fits");

absl::Status malformed(const char* what, size_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat("malformed replication message of ", bytes, " bytes: ", what));
}

}  // namespace

// The fields of each part and message, in the order of their bytes. EpochHistory and View have more than fields.

template <>
constexpr auto kFields<LogLevels> = std::tuple(&LogLevels::received, &LogLevels::written, &LogLevels::durable);
template <>
constexpr auto kFields<ReplicaId> = std::tuple(&ReplicaId::node, &ReplicaId::incarnation);
template <>
constexpr auto kFields<Learner> = std::tuple(&Learner::id, &Learner::join);
template <>
constexpr auto kFields<ReplicaEnvelope> = std::tuple(&ReplicaEnvelope::table, &ReplicaEnvelope::shard,
                                                     &ReplicaEnvelope::from, &ReplicaEnvelope::incarnation);
template <>
constexpr auto kFields<StartView> = std::tuple(&StartView::view);
template <>
constexpr auto kFields<StaleEpoch> = std::tuple(&StaleEpoch::view);
template <>
constexpr auto kFields<AppendReply> = std::tuple(&AppendReply::epoch, &AppendReply::levels);
template <>
constexpr auto kFields<Heartbeat> = std::tuple(&Heartbeat::epoch, &Heartbeat::sent_ns, &Heartbeat::commit_index);
template <>
constexpr auto kFields<HeartbeatReply> = std::tuple(&HeartbeatReply::epoch, &HeartbeatReply::echo_ns,
                                                    &HeartbeatReply::levels, &HeartbeatReply::promises);
template <>
constexpr auto kFields<Confirm> = std::tuple(&Confirm::epoch, &Confirm::round);
template <>
constexpr auto kFields<ConfirmReply> = std::tuple(&ConfirmReply::epoch, &ConfirmReply::round);
template <>
constexpr auto kFields<Release> = std::tuple(&Release::epoch);
template <>
constexpr auto kFields<SnapshotNeeded> = std::tuple(&SnapshotNeeded::epoch);
template <>
constexpr auto kFields<Restored> = std::tuple(&Restored::epoch, &Restored::doubt);

namespace {

// What has more than fields is written and read by hand.
bool write(ByteWriter& writer, const EpochHistory& log);
bool write(ByteWriter& writer, const View& view);
bool read(ByteReader& reader, EpochHistory& log);
bool read(ByteReader& reader, View& view);

/// False: it is larger than messages may be.
template <typename T>
bool write(ByteWriter& writer, const T& value) {
  if constexpr (std::is_integral_v<T>) {
    writer.write(value);
    return true;
  } else {
    static_assert(HasFields<T> || std::is_same_v<T, Append>, "list its fields in kFields");
    return std::apply([&](auto... fields) { return (write(writer, value.*fields) && ...); }, kFields<T>);
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
    static_assert(HasFields<T>, "list its fields in kFields");
    return std::apply([&](auto... fields) { return (read(reader, value.*fields) && ...); }, kFields<T>);
  }
}

bool write(ByteWriter& writer, const EpochHistory& log) {
  if (log.runs().size() > EpochHistory::kRunsMax) return false;
  write_fields(writer, log.base(), log.last_index(), static_cast<uint8_t>(log.runs().size()));
  for (const EntryId& run : log.runs()) write_fields(writer, run);
  return true;
}

bool read(ByteReader& reader, EpochHistory& log) {
  EntryId base;
  uint64_t last = 0;
  uint8_t count = 0;
  read_fields(reader, base, last, count);
  if (!reader.ok() || count > EpochHistory::kRunsMax) return false;
  std::array<EntryId, EpochHistory::kRunsMax> runs;
  for (size_t i = 0; i < count; ++i) read_fields(reader, runs[i]);
  auto made = EpochHistory::from_parts(base, std::span(runs).first(count), last);
  if (!reader.ok() || !made) return false;
  log = *std::move(made);
  return true;
}

bool write(ByteWriter& writer, const View& view) {
  if (view.members.size() > kViewMembersMax || view.learners.size() > kViewMembersMax) return false;
  write_fields(writer, view.epoch, view.change, view.primary, view.min_insync,
               view.read_anywhere ? kReadAnywhere : uint8_t{0}, static_cast<uint8_t>(view.members.size()),
               static_cast<uint8_t>(view.learners.size()));
  for (const ReplicaId& member : view.members) write_fields(writer, member);
  for (const Learner& learner : view.learners) write_fields(writer, learner);
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
  uint8_t flags = 0;
  uint8_t members = 0;
  uint8_t learners = 0;
  read_fields(reader, view.epoch, view.change, view.primary, view.min_insync, flags, members, learners);
  if (!reader.ok() || flags > kReadAnywhere || members > kViewMembersMax || learners > kViewMembersMax) return false;
  view.read_anywhere = flags == kReadAnywhere;
  view.members.resize(members);
  for (ReplicaId& member : view.members) read_fields(reader, member);
  view.learners.resize(learners);
  for (Learner& learner : view.learners) read_fields(reader, learner);
  return reader.ok() && is_sound(view);
}

/// A doubt is only written if there is one.
bool write(ByteWriter& writer, const TailReport& m) {
  return write(writer, m.epoch) && write(writer, m.log) && write(writer, m.levels) && write(writer, m.commit_index) &&
         (m.doubt == 0 || write(writer, m.doubt));
}
bool read(ByteReader& reader, TailReport& m) {
  m.doubt = 0;
  return read(reader, m.epoch) && read(reader, m.log) && read(reader, m.levels) && read(reader, m.commit_index) &&
         (reader.remaining() == 0 || (read(reader, m.doubt) && m.doubt != 0));
}

/// Reads an Append up to its first entry. `count` becomes the number of entries.
bool read_append_head(ByteReader& reader, Append& m, uint32_t& count) {
  uint32_t flags = 0;  // those above the lowest byte are reserved
  read_fields(reader, m.epoch, m.prev, m.commit_index, count, flags);
  m.acknowledge_received = flags == kAcknowledgeReceived;
  m.epochs.clear();
  return reader.ok() && flags <= kAcknowledgeReceived;
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
  frame.entries = AppendEntries(bytes.subspan(kAppendEntriesAt), count);
  return absl::OkStatus();
}

using Decode = absl::Status (*)(ByteReader, ReplicaFrame&, ByteSpan);
constexpr size_t kKinds = std::variant_size_v<ReplicaMessage>;
constexpr auto kDecodersOf = []<size_t... kPlaces>(std::index_sequence<kPlaces...> /*places*/) {
  return std::array<Decode, kKinds>{decode_body<std::variant_alternative_t<kPlaces, ReplicaMessage>>...};
};
constexpr auto kDecoders = kDecodersOf(std::make_index_sequence<kKinds>());

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
  write_fields(writer, envelope, static_cast<uint8_t>(message.index() + 1));
  const bool fits = std::visit([&](const auto& m) { return write(writer, m); }, message);
  if (fits && writer.ok()) return writer.written();
  return absl::ResourceExhaustedError(absl::StrCat("a message between replicas carries up to ", kViewMembersMax,
                                                   " members and learners and ", EpochHistory::kRunsMax,
                                                   " runs of epochs"));
}

absl::Status decode_frame(ByteSpan bytes, ReplicaFrame& frame) {
  ByteReader reader(bytes);
  uint8_t kind = 0;
  read_fields(reader, frame.envelope, kind);
  frame.entries = {};
  if (kind < 1 || kind > kKinds) return malformed("there is no message of its kind", bytes.size());
  return kDecoders[kind - 1U](reader, frame, bytes);
}

// --- Parts of an Append

void write_append_head(const ReplicaEnvelope& envelope, const Append& header, ByteWriter& writer) {
  // The number of entries is 0 until set_append_count().
  write_fields(writer, envelope, kAppendKind, header.epoch, header.prev, header.commit_index, uint32_t{0},
               header.acknowledge_received ? kAcknowledgeReceived : uint32_t{0});
}

void set_append_count(MutableByteSpan written, uint32_t count) {
  store_le(written.data() + kAppendCountAt, count);
}

void write_entry_head(const AppendEntry& entry, ByteWriter& writer) {
  write_fields(writer, entry.epoch, entry.time, static_cast<uint32_t>(entry.payload.size()),
               durability_code(entry.durability), uint8_t{0}, entry.flags);
}

bool read_entry(ByteReader& reader, AppendEntry& entry) {
  uint32_t payload_bytes = 0;
  uint8_t code = 0;
  uint8_t reserved = 0;
  read_fields(reader, entry.epoch, entry.time, payload_bytes, code, reserved, entry.flags);
  const auto durability = durability_of_code(code);
  entry.payload = reader.read_bytes(payload_bytes);
  entry.durability = durability.value_or(Durability::kSync);
  return reader.ok() && reserved == 0 && durability && entry.time >= 0;
}

}  // namespace skua::kv
