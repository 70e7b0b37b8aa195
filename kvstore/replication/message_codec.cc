#include "kvstore/replication/message_codec.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

enum class Kind : uint8_t {
  kStartView = 1,
  kTailReport = 2,
  kAppend = 3,
  kAppendReply = 4,
  kHeartbeat = 5,
  kHeartbeatReply = 6,
  kConfirm = 7,
  kConfirmReply = 8,
  kRelease = 9,
  kSnapshotNeeded = 10,
  kStaleEpoch = 11,
  kRestored = 12,
};

constexpr size_t kKindAt = kEnvelopeBytes - 1;
constexpr uint8_t kReadAnywhere = 1;
constexpr uint8_t kAcknowledgeReceived = 1;
constexpr size_t kAppendCountAt = kEnvelopeBytes + 32;

static_assert(kEnvelopeBytes + 8 + 25 + EpochHistory::kRunsMax * 16 + 24 + 16 <= kFrameBytesMax, "a TailReport fits");

absl::Status malformed(const char* what, size_t bytes) {
  return absl::InvalidArgumentError(absl::StrCat("malformed replication message of ", bytes, " bytes: ", what));
}

// --- Parts

void write(ByteWriter& writer, const EntryId& id) {
  writer.write(id.index);
  writer.write(id.epoch);
}
EntryId read_id(ByteReader& reader) {
  EntryId id;
  id.index = reader.read<uint64_t>();
  id.epoch = reader.read<uint64_t>();
  return id;
}

void write(ByteWriter& writer, const LogLevels& levels) {
  writer.write(levels.received);
  writer.write(levels.written);
  writer.write(levels.durable);
}
bool read(ByteReader& reader, LogLevels& levels) {
  levels.received = reader.read<uint64_t>();
  levels.written = reader.read<uint64_t>();
  levels.durable = reader.read<uint64_t>();
  return reader.ok();
}

void write(ByteWriter& writer, const EpochHistory& log) {
  write(writer, log.base());
  writer.write(log.last_index());
  writer.write(static_cast<uint8_t>(log.runs().size()));
  for (const EntryId& run : log.runs()) write(writer, run);
}
bool read(ByteReader& reader, EpochHistory& log) {
  const EntryId base = read_id(reader);
  const auto last = reader.read<uint64_t>();
  const auto count = reader.read<uint8_t>();
  if (!reader.ok() || count > EpochHistory::kRunsMax) return false;
  std::array<EntryId, EpochHistory::kRunsMax> runs;
  for (size_t i = 0; i < count; ++i) runs[i] = read_id(reader);
  auto made = EpochHistory::from_parts(base, std::span(runs).first(count), last);
  if (!reader.ok() || !made) return false;
  log = *std::move(made);
  return true;
}

void write(ByteWriter& writer, const ReplicaId& id) {
  writer.write(id.node);
  writer.write(id.incarnation);
}
bool read(ByteReader& reader, ReplicaId& id) {
  id.node = reader.read<uint64_t>();
  id.incarnation = reader.read<uint64_t>();
  return reader.ok();
}

void write(ByteWriter& writer, const View& view) {
  writer.write(view.epoch);
  writer.write(view.change);
  writer.write(view.primary);
  writer.write(view.min_insync);
  writer.write(view.read_anywhere ? kReadAnywhere : uint8_t{0});
  writer.write(static_cast<uint8_t>(view.members.size()));
  writer.write(static_cast<uint8_t>(view.learners.size()));
  for (const ReplicaId& member : view.members) write(writer, member);
  for (const Learner& learner : view.learners) {
    write(writer, learner.id);
    writer.write(learner.join);
  }
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
  for (Learner& learner : view.learners) {
    static_cast<void>(read(reader, learner.id));
    learner.join = reader.read<uint64_t>();
  }
  return reader.ok() && is_sound(view);
}

bool fits(const View& view) {
  return view.members.size() <= kViewMembersMax && view.learners.size() <= kViewMembersMax;
}

// --- Bodies: each message's kind, writer and reader

constexpr Kind kind_of(const StartView&) {
  return Kind::kStartView;
}
bool fits(const StartView& m) {
  return fits(m.view);
}
void write(ByteWriter& writer, const StartView& m) {
  write(writer, m.view);
}
bool read(ByteReader& reader, StartView& m) {
  return read(reader, m.view);
}

constexpr Kind kind_of(const StaleEpoch&) {
  return Kind::kStaleEpoch;
}
bool fits(const StaleEpoch& m) {
  return fits(m.view);
}
void write(ByteWriter& writer, const StaleEpoch& m) {
  write(writer, m.view);
}
bool read(ByteReader& reader, StaleEpoch& m) {
  return read(reader, m.view);
}

constexpr Kind kind_of(const TailReport&) {
  return Kind::kTailReport;
}
bool fits(const TailReport& m) {
  return m.log.runs().size() <= EpochHistory::kRunsMax;
}
void write(ByteWriter& writer, const TailReport& m) {
  writer.write(m.epoch);
  write(writer, m.log);
  write(writer, m.levels);
  writer.write(m.commit_index);
  if (m.doubt != 0) writer.write(m.doubt);
}
bool read(ByteReader& reader, TailReport& m) {
  m.epoch = reader.read<uint64_t>();
  if (!read(reader, m.log) || !read(reader, m.levels)) return false;
  m.commit_index = reader.read<uint64_t>();
  const bool doubts = reader.remaining() != 0;
  m.doubt = doubts ? reader.read<uint64_t>() : 0;
  return reader.ok() && doubts == (m.doubt != 0);
}

constexpr Kind kind_of(const Append&) {
  return Kind::kAppend;
}
bool fits(const Append&) {
  return true;
}
void write(ByteWriter& writer, const Append& m) {
  writer.write(m.epoch);
  write(writer, m.prev);
  writer.write(m.commit_index);
  writer.write(uint32_t{0});  // number of entries; finish() fills it in
  writer.write(m.acknowledge_received ? kAcknowledgeReceived : uint8_t{0});
  writer.write(uint8_t{0});
  writer.write(uint16_t{0});
}

constexpr Kind kind_of(const AppendReply&) {
  return Kind::kAppendReply;
}
bool fits(const AppendReply&) {
  return true;
}
void write(ByteWriter& writer, const AppendReply& m) {
  writer.write(m.epoch);
  write(writer, m.levels);
}
bool read(ByteReader& reader, AppendReply& m) {
  m.epoch = reader.read<uint64_t>();
  return read(reader, m.levels);
}

constexpr Kind kind_of(const Heartbeat&) {
  return Kind::kHeartbeat;
}
bool fits(const Heartbeat&) {
  return true;
}
void write(ByteWriter& writer, const Heartbeat& m) {
  writer.write(m.epoch);
  writer.write(m.sent_ns);
  writer.write(m.commit_index);
}
bool read(ByteReader& reader, Heartbeat& m) {
  m.epoch = reader.read<uint64_t>();
  m.sent_ns = reader.read<TimeNs>();
  m.commit_index = reader.read<uint64_t>();
  return reader.ok();
}

constexpr Kind kind_of(const HeartbeatReply&) {
  return Kind::kHeartbeatReply;
}
bool fits(const HeartbeatReply&) {
  return true;
}
void write(ByteWriter& writer, const HeartbeatReply& m) {
  writer.write(m.epoch);
  writer.write(m.echo_ns);
  write(writer, m.levels);
  writer.write(static_cast<uint8_t>(m.granted));
}
bool read(ByteReader& reader, HeartbeatReply& m) {
  m.epoch = reader.read<uint64_t>();
  m.echo_ns = reader.read<TimeNs>();
  if (!read(reader, m.levels)) return false;
  const auto granted = reader.read<uint8_t>();
  m.granted = granted == 1;
  return reader.ok() && granted <= 1;
}

constexpr Kind kind_of(const Confirm&) {
  return Kind::kConfirm;
}
constexpr Kind kind_of(const ConfirmReply&) {
  return Kind::kConfirmReply;
}
constexpr Kind kind_of(const Release&) {
  return Kind::kRelease;
}
constexpr Kind kind_of(const SnapshotNeeded&) {
  return Kind::kSnapshotNeeded;
}

constexpr Kind kind_of(const Restored&) {
  return Kind::kRestored;
}
bool fits(const Restored&) {
  return true;
}
void write(ByteWriter& writer, const Restored& m) {
  writer.write(m.epoch);
  writer.write(m.doubt);
}
bool read(ByteReader& reader, Restored& m) {
  m.epoch = reader.read<uint64_t>();
  m.doubt = reader.read<uint64_t>();
  return reader.ok();
}

template <typename T>
constexpr bool kIsRound = std::is_same_v<T, Confirm> || std::is_same_v<T, ConfirmReply>;
template <typename T>
constexpr bool kIsEpoch = std::is_same_v<T, Release> || std::is_same_v<T, SnapshotNeeded>;

template <typename T>
requires(kIsRound<T> || kIsEpoch<T>) bool fits(const T&) {
  return true;
}
template <typename T>
requires kIsRound<T>
void write(ByteWriter& writer, const T& m) {
  writer.write(m.epoch);
  writer.write(m.round);
}
template <typename T>
requires kIsRound<T>
bool read(ByteReader& reader, T& m) {
  m.epoch = reader.read<uint64_t>();
  m.round = reader.read<uint64_t>();
  return reader.ok();
}
template <typename T>
requires kIsEpoch<T>
void write(ByteWriter& writer, const T& m) {
  writer.write(m.epoch);
}
template <typename T>
requires kIsEpoch<T>
bool read(ByteReader& reader, T& m) {
  m.epoch = reader.read<uint64_t>();
  return reader.ok();
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
  m.epoch = reader.read<uint64_t>();
  m.prev = read_id(reader);
  m.commit_index = reader.read<uint64_t>();
  count = reader.read<uint32_t>();
  const auto flags = reader.read<uint8_t>();
  const auto reserved = reader.read<uint8_t>();
  const auto also_reserved = reader.read<uint16_t>();
  m.acknowledge_received = flags == kAcknowledgeReceived;
  m.epochs.clear();
  return reader.ok() && flags <= kAcknowledgeReceived && reserved == 0 && also_reserved == 0;
}

void write_envelope(ByteWriter& writer, const ReplicaEnvelope& envelope, Kind kind) {
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

template <typename T>
absl::Status decode_body(ByteReader reader, ReplicaFrame& frame, size_t bytes) {
  if (!read(reader, remake<T>(frame.message))) return malformed("its body is not what its kind has", bytes);
  if (!reader.complete()) return malformed("bytes follow its end", bytes);
  return absl::OkStatus();
}

}  // namespace

// --- Frames

bool is_append(const ReplicaMessage& message) {
  return std::holds_alternative<Append>(message);
}

bool looks_like_append(ByteSpan bytes) {
  return bytes.size() > kKindAt && bytes[kKindAt] == static_cast<std::byte>(Kind::kAppend);
}

absl::StatusOr<ByteSpan> encode_frame(const ReplicaEnvelope& envelope, const ReplicaMessage& message,
                                      FrameBuffer& buffer) {
  SKUA_CHECK(!is_append(message), "Appends have entries: use AppendBuilder");
  ByteWriter writer(buffer);
  const bool encoded = std::visit(
      [&](const auto& m) {
        if (!fits(m)) return false;
        write_envelope(writer, envelope, kind_of(m));
        write(writer, m);
        return writer.ok();
      },
      message);
  if (encoded) return writer.written();
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
  const auto kind = static_cast<Kind>(reader.read<uint8_t>());
  frame.entries = {};
  switch (kind) {
    case Kind::kStartView: return decode_body<StartView>(reader, frame, bytes.size());
    case Kind::kTailReport: return decode_body<TailReport>(reader, frame, bytes.size());
    case Kind::kAppendReply: return decode_body<AppendReply>(reader, frame, bytes.size());
    case Kind::kHeartbeat: return decode_body<Heartbeat>(reader, frame, bytes.size());
    case Kind::kHeartbeatReply: return decode_body<HeartbeatReply>(reader, frame, bytes.size());
    case Kind::kConfirm: return decode_body<Confirm>(reader, frame, bytes.size());
    case Kind::kConfirmReply: return decode_body<ConfirmReply>(reader, frame, bytes.size());
    case Kind::kRelease: return decode_body<Release>(reader, frame, bytes.size());
    case Kind::kSnapshotNeeded: return decode_body<SnapshotNeeded>(reader, frame, bytes.size());
    case Kind::kStaleEpoch: return decode_body<StaleEpoch>(reader, frame, bytes.size());
    case Kind::kRestored: return decode_body<Restored>(reader, frame, bytes.size());
    case Kind::kAppend: {
      auto& append = remake<Append>(frame.message);
      uint32_t count = 0;
      if (!read_append_head(reader, append, count)) return malformed("its body is not what its kind has", bytes.size());
      if (count > kAppendEntriesMax) return malformed("it has too many entries", bytes.size());
      frame.entries = AppendEntries(bytes.last(reader.remaining()));
      for (uint32_t i = 0; i < count; ++i) {
        AppendEntry entry;
        if (!read_entry(reader, entry)) return malformed("one of its entries is none", bytes.size());
        append.epochs.push_back(entry.epoch);
      }
      if (!reader.complete()) return malformed("bytes follow its end", bytes.size());
      return absl::OkStatus();
    }
  }
  return malformed("there is no message of its kind", bytes.size());
}

AppendEntries::Iterator& AppendEntries::Iterator::operator++() {
  at_end_ = rest_.remaining() == 0;
  if (!at_end_) static_cast<void>(read_entry(rest_, entry_));
  return *this;
}

// --- Parts of an Append

void write_append_head(const ReplicaEnvelope& envelope, const Append& header, ByteWriter& writer) {
  write_envelope(writer, envelope, Kind::kAppend);
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
