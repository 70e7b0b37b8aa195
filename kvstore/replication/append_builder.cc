#include "kvstore/replication/append_builder.h"

#include <utility>

#include "rpc/base/check.h"

namespace skua::kv {

static_assert(kEnvelopeBytes + kAppendHeadBytes + kAppendEntryHeadBytes <= rpc::Message::kHeadMax,
              "a single large entry needs one body only");

AppendBuffers::~AppendBuffers() {
  SKUA_CHECK(outstanding_count_ == 0, "an Append outlives the buffers that it lies in");
  for (Buffer* buffer : free_) delete buffer;
}

AppendBuffers::Buffer* AppendBuffers::take() {
  ++outstanding_count_;
  if (free_.empty()) return new Buffer{.owner = this};
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
  write_append_head(envelope, header, writer);
  message_->set_head_size(writer.size());
  piece_count_ = count_ = copied_bytes_ = 0;
  bytes_ = writer.size();
}

bool AppendBuilder::add(const AppendEntry& entry, rpc::BodyReleaseFn release, void* context) {
  SKUA_CHECK(message_, "an Append begins with begin()");
  const bool copies = entry.payload.size() <= kAppendCopyBytesMax;
  const size_t copied = kAppendEntryHeadBytes + (copies ? entry.payload.size() : 0);
  const size_t added = kAppendEntryHeadBytes + entry.payload.size();
  if (count_ > 0 &&
      (count_ == kAppendEntriesMax || bytes_ + added > bytes_max_ || copied_bytes_ + copied > kAppendCopiedBytesMax)) {
    return false;
  }
  const bool into_head = piece_count_ == 0 && rpc::Message::kHeadMax - message_->head().size() >= copied;
  const bool into_last = piece_count_ > 0 && pieces_[piece_count_ - 1].copied;
  const size_t pieces = (into_head || into_last ? 0 : 1) + (copies ? 0 : 1);
  if (piece_count_ + pieces > pieces_.size()) return false;

  std::array<std::byte, kAppendEntryHeadBytes> head;
  ByteWriter writer(head);
  write_entry_head(entry, writer);
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
  set_append_count(message_->head_room(), static_cast<uint32_t>(count_));
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

}  // namespace skua::kv
