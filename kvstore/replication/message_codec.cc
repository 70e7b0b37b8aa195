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

static_assert(kEnvelopeBytes + 8 + 25 + EpochRuns::kRunsMax * 16 + 24 + 16 <= kFrameBytesMax, "a TailReport fits");
static_assert(kEnvelopeBytes + kAppendHeadBytes + kAppendEntryHeadBytes <= rpc::Message::kHeadMax,
              "a single large entry needs one body only");

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

void write(ByteWriter& writer, const EpochRuns& log) {
  write(writer, log.base());
  writer.write(log.last_index());
  writer.write(static_cast<uint8_t>(log.runs().size()));
  for (const EntryId& run : log.runs()) write(writer, run);
}
bool read(ByteReader& reader, EpochRuns& log) {
  const EntryId base = read_id(reader);
  const auto last = reader.read<uint64_t>();
  const auto count = reader.read<uint8_t>();
  if (!reader.ok() || count > EpochRuns::kRunsMax) return false;
  std::array<EntryId, EpochRuns::kRunsMax> runs;
  for (size_t i = 0; i < count; ++i) runs[i] = read_id(reader);
  auto made = EpochRuns::from_parts(base, std::span(runs).first(count), last);
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
  return m.log.runs().size() <= EpochRuns::kRunsMax;
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
                                                   " members and learners and ", EpochRuns::kRunsMax,
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

// --- Appends

AppendBuffers::~AppendBuffers() {
  SKUA_CHECK(outstanding_count_ == 0, "an Append outlives the buffers that it lies in");
  for (Buffer* buffer : free_) delete buffer;
}

AppendBuffers::Buffer* AppendBuffers::take() {
  ++outstanding_count_;
  if (free_.empty()) {
    auto* made = new Buffer;
    made->owner = this;
    return made;
  }
  Buffer* buffer = free_.back();
  free_.pop_back();
  buffer->bytes.clear();
  return buffer;
}

void AppendBuffers::put_back(void* context) {
  auto* buffer = static_cast<Buffer*>(context);
  AppendBuffers& owner = *buffer->owner;
  --owner.outstanding_count_;
  if (owner.free_.size() == kKeptMax) {
    delete buffer;
  } else {
    owner.free_.push_back(buffer);
  }
}

AppendBuilder::~AppendBuilder() {
  if (message_) static_cast<void>(finish());
}

void AppendBuilder::begin(const ReplicaEnvelope& envelope, const Append& header, rpc::MessagePtr message) {
  SKUA_CHECK(!message_, "finish one Append before the next");
  message_ = std::move(message);
  SKUA_CHECK(message_->size() == 0, "an Append begins in an empty message");
  ByteWriter writer(message_->head_room());
  write_envelope(writer, envelope, Kind::kAppend);
  write(writer, header);
  message_->set_head_size(writer.size());
  piece_count_ = count_ = copied_bytes_ = 0;
  bytes_ = writer.size();
}

bool AppendBuilder::add(const AppendEntry& entry, rpc::BodyReleaseFn release, void* context) {
  SKUA_CHECK(message_, "an Append begins with begin()");
  const bool copies = entry.payload.size() <= kAppendCopyBytesMax;
  const size_t copied = kAppendEntryHeadBytes + (copies ? entry.payload.size() : 0);
  const size_t added = kAppendEntryHeadBytes + entry.payload.size();
  if (count_ > 0 && (count_ == kAppendEntriesMax || bytes_ + added > kAppendBytesMax ||
                     copied_bytes_ + copied > kAppendCopiedBytesMax)) {
    return false;
  }
  const bool into_head = piece_count_ == 0 && rpc::Message::kHeadMax - message_->head().size() >= copied;
  const bool into_last = piece_count_ > 0 && pieces_[piece_count_ - 1].copied;
  const size_t pieces = (into_head || into_last ? 0 : 1) + (copies ? 0 : 1);
  if (piece_count_ + pieces > pieces_.size()) return false;

  std::array<std::byte, kAppendEntryHeadBytes> head;
  ByteWriter writer(head);
  writer.write(entry.epoch);
  writer.write(entry.time);
  writer.write(static_cast<uint32_t>(entry.payload.size()));
  writer.write(durability_code(entry.durability));
  writer.write(uint8_t{0});
  writer.write(entry.flags);
  copy(writer.written(), into_head);
  if (copies) {
    copy(entry.payload, into_head);
    if (release != nullptr) release(context);
  } else {
    pieces_[piece_count_++] = {.bytes = entry.payload, .release = release, .context = context};
  }
  ++count_;
  bytes_ += added;
  copied_bytes_ += copied;
  return true;
}

void AppendBuilder::copy(ByteSpan bytes, bool into_head) {
  if (into_head) {
    SKUA_CHECK(message_->append_head(bytes), "there was room a moment ago");
    return;
  }
  if (buffer_ == nullptr) buffer_ = buffers_.take();
  if (piece_count_ == 0 || !pieces_[piece_count_ - 1].copied) {
    pieces_[piece_count_++] = {.copied = true, .begin = buffer_->bytes.size()};
  }
  buffer_->bytes.insert(buffer_->bytes.end(), bytes.begin(), bytes.end());
  pieces_[piece_count_ - 1].size += bytes.size();
}

rpc::MessagePtr AppendBuilder::finish() {
  SKUA_CHECK(message_, "an Append begins with begin()");
  store_le(message_->head_room().data() + kAppendCountAt, static_cast<uint32_t>(count_));
  AppendBuffers::Buffer* lent = nullptr;
  for (size_t i = 0; i < piece_count_; ++i) {
    const Piece& piece = pieces_[i];
    bool added = false;
    if (piece.copied) {
      // All bodies are released at the same time, so it is enough that the buffer's first piece releases the buffer.
      AppendBuffers::Buffer* hangs = std::exchange(lent, buffer_) == nullptr ? buffer_ : nullptr;
      added = message_->add_body(ByteSpan(buffer_->bytes).subspan(piece.begin, piece.size),
                                 hangs != nullptr ? &AppendBuffers::put_back : nullptr, hangs);
    } else {
      added = message_->add_body(piece.bytes, piece.release, piece.context);
    }
    SKUA_CHECK(added, "an Append has no more pieces than bodies");
  }
  buffer_ = nullptr;
  return std::move(message_);
}

// --- Snapshots

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kChunkNameBytesMax && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

namespace {

bool is_sound(const FetchChunk& fetch) {
  return fetch.file < kChunkFilesMax && fetch.bytes_max >= 1 && fetch.bytes_max <= kChunkBytesMax &&
         (fetch.snapshot != 0 || (fetch.file == 0 && fetch.offset == 0));
}

bool is_sound(const Chunk& chunk) {
  const bool in_file = chunk.offset <= chunk.file_bytes && chunk.data.size() <= chunk.file_bytes - chunk.offset;
  return chunk.snapshot != 0 && chunk.files >= 1 && chunk.files <= kChunkFilesMax && in_file &&
         chunk.data.size() <= kChunkBytesMax && (!chunk.data.empty() || chunk.offset == chunk.file_bytes) &&
         is_plain_file_name(chunk.name) && chunk.end.index <= EpochRuns::kIndexMax;
}

}  // namespace

absl::StatusOr<ByteSpan> encode_fetch_chunk(const FetchChunk& fetch, MutableByteSpan buffer) {
  if (!is_sound(fetch)) return absl::InvalidArgumentError("no such part of a snapshot can be asked for");
  ByteWriter writer(buffer);
  writer.write(fetch.table);
  writer.write(fetch.shard);
  writer.write(fetch.snapshot);
  writer.write(fetch.file);
  writer.write(fetch.offset);
  writer.write(fetch.bytes_max);
  SKUA_CHECK(writer.ok(), "size the buffer with kFetchChunkBytes");
  return writer.written();
}

absl::StatusOr<FetchChunk> decode_fetch_chunk(ByteSpan bytes) {
  ByteReader reader(bytes);
  FetchChunk fetch;
  fetch.table = reader.read<uint32_t>();
  fetch.shard = reader.read<uint32_t>();
  fetch.snapshot = reader.read<uint64_t>();
  fetch.file = reader.read<uint32_t>();
  fetch.offset = reader.read<uint64_t>();
  fetch.bytes_max = reader.read<uint32_t>();
  if (!reader.complete()) return malformed("a request for a chunk has 32 bytes", bytes.size());
  if (!is_sound(fetch)) return malformed("no such part of a snapshot can be asked for", bytes.size());
  return fetch;
}

ByteSpan encode_fetch_tail(const FetchTail& fetch, MutableByteSpan buffer) {
  ByteWriter writer(buffer);
  writer.write(fetch.table);
  writer.write(fetch.shard);
  writer.write(fetch.after);
  writer.write(fetch.bytes_max);
  SKUA_CHECK(writer.ok(), "size the buffer with kFetchTailBytes");
  return writer.written();
}

absl::StatusOr<FetchTail> decode_fetch_tail(ByteSpan bytes) {
  ByteReader reader(bytes);
  FetchTail fetch;
  fetch.table = reader.read<uint32_t>();
  fetch.shard = reader.read<uint32_t>();
  fetch.after = reader.read<uint64_t>();
  fetch.bytes_max = reader.read<uint32_t>();
  if (!reader.complete()) return malformed("a request for a tail has 20 bytes", bytes.size());
  if (fetch.bytes_max < 1 || fetch.bytes_max > kChunkBytesMax) {
    return malformed("so much cannot be asked for at once", bytes.size());
  }
  return fetch;
}

absl::StatusOr<ByteSpan> encode_chunk_head(const Chunk& chunk, MutableByteSpan buffer) {
  if (!is_sound(chunk)) return absl::InvalidArgumentError("a snapshot's file has no such part");
  ByteWriter writer(buffer);
  writer.write(chunk.snapshot);
  write(writer, chunk.end);
  writer.write(chunk.files);
  writer.write(chunk.file_bytes);
  writer.write(chunk.offset);
  writer.write(chunk.crc32c);
  writer.write_prefixed<uint8_t>(as_byte_span(chunk.name));
  SKUA_CHECK(writer.ok(), "size the buffer with kChunkHeadBytesMax");
  return writer.written();
}

absl::StatusOr<Chunk> decode_chunk(ByteSpan bytes) {
  ByteReader reader(bytes);
  Chunk chunk;
  chunk.snapshot = reader.read<uint64_t>();
  chunk.end = read_id(reader);
  chunk.files = reader.read<uint32_t>();
  chunk.file_bytes = reader.read<uint64_t>();
  chunk.offset = reader.read<uint64_t>();
  chunk.crc32c = reader.read<uint32_t>();
  chunk.name = as_string_view(reader.read_prefixed<uint8_t>());
  if (!reader.ok()) return malformed("a chunk of a snapshot is cut off", bytes.size());
  chunk.data = reader.read_rest();
  if (!is_sound(chunk)) return malformed("a snapshot's file has no such part", bytes.size());
  return chunk;
}

}  // namespace skua::kv
