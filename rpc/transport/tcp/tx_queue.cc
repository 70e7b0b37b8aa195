#include "rpc/transport/tcp/tx_queue.h"

#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/transport/tcp/limits.h"

namespace skua::rpc::tcp {
namespace {

static_assert((kTxEntriesMax & (kTxEntriesMax - 1)) == 0, "the piece ring masks its index");

}  // namespace

size_t TxCompletions::reap(std::span<TxToken> tokens) {
  const size_t count = std::min(tokens.size(), tokens_.size() - reaped_);
  std::copy_n(tokens_.begin() + static_cast<ptrdiff_t>(reaped_), count, tokens.begin());
  reaped_ += count;
  if (reaped_ == tokens_.size()) {
    tokens_.clear();
    reaped_ = 0;
  }
  return count;
}

void TxQueue::allocate() {
  entries_ = std::make_unique<Entry[]>(kTxEntriesMax);
  // Not cleared: pages of a ring that never fills are never touched.
  staging_.reset(new std::byte[kTxStagingBytes]);
}

TxQueue::Entry& TxQueue::entry(uint32_t position) const {
  return entries_[(first_ + position) & (kTxEntriesMax - 1)];
}

TxQueue::Entry& TxQueue::push_entry() {
  Entry& added = entry(entry_count_++);
  added = Entry{};
  return added;
}

bool TxQueue::has_room(const TxPacket& packet, bool copy_all) const {
  if (bytes_ >= limits_.bytes_max) return false;
  if (entry_count_ + reserved_entries_ + 2 * kTxSegmentsMax + 2 > kTxEntriesMax) return false;
  uint32_t copied = 2 * kFrameBytesMax + kPacketHeaderBytes;
  if (copy_all) {
    // One piece: wrapping around leaves at most a gap smaller than that.
    copied += packet.payload_bytes;
    return staging_used_ + reserved_bytes_ + 2 * copied <= kTxStagingBytes;
  }
  uint32_t largest = kPacketHeaderBytes;
  for (const ByteSpan segment : std::span(packet.segments).first(packet.segment_count)) {
    if (segment.size() > limits_.inline_max_bytes) continue;
    copied += static_cast<uint32_t>(segment.size());
    largest = std::max(largest, static_cast<uint32_t>(segment.size()));
  }
  // Wrapping around leaves at most one unused gap, smaller than the largest piece.
  return staging_used_ + reserved_bytes_ + copied + largest <= kTxStagingBytes;
}

/// Twice: wrapping around leaves a gap smaller than the bytes.
void TxQueue::reserve_room(uint32_t bytes) {
  reserved_bytes_ += 2 * bytes;
  ++reserved_entries_;
}

void TxQueue::give_up_room(uint32_t bytes) {
  SKUA_CHECK(reserved_entries_ > 0 && reserved_bytes_ >= 2 * bytes, "room was given up that nobody reserved");
  reserved_bytes_ -= 2 * bytes;
  --reserved_entries_;
}

/// Contiguous staging space; `padding` is what had to be skipped at the end of the ring.
std::byte* TxQueue::take_staging(uint32_t bytes, uint32_t& padding) {
  padding = 0;
  if (kTxStagingBytes - staging_tail_ < bytes) {
    padding = kTxStagingBytes - staging_tail_;
    staging_tail_ = 0;
    merge_allowed_ = false;
  }
  std::byte* to = staging_.get() + staging_tail_;
  staging_tail_ += bytes;
  staging_used_ += bytes + padding;
  return to;
}

/// `size` bytes, taken with `padding`, are filled in.
void TxQueue::append_staged(const std::byte* at, uint32_t size, uint32_t padding) {
  bytes_ += size;
  if (merge_allowed_) {
    Entry& last = entry(entry_count_ - 1);
    last.size += size;
    last.staged += size;
    return;
  }
  Entry& added = push_entry();
  added.data = at;
  added.size = size;
  added.staged = size + padding;
  merge_allowed_ = true;
}

void TxQueue::stage(ByteSpan bytes) {
  if (bytes.empty()) return;
  const auto size = static_cast<uint32_t>(bytes.size());
  uint32_t padding;
  std::byte* to = take_staging(size, padding);
  copy_bytes(to, bytes);
  append_staged(to, size, padding);
}

/// All of a packet in one piece: the usual case of small calls.
void TxQueue::stage_packet(const TxPacket& packet, const Dialect& dialect) {
  const uint32_t size = dialect.frame_bytes + static_cast<uint32_t>(kPacketHeaderBytes) + packet.payload_bytes;
  uint32_t padding;
  std::byte* const start = take_staging(size, padding);
  dialect.pack(start, packet.payload_bytes);
  std::memcpy(start + dialect.frame_bytes, packet.header.data(), kPacketHeaderBytes);
  std::byte* to = start + dialect.frame_bytes + kPacketHeaderBytes;
  const std::byte* const end = start + size;
  for (const ByteSpan segment : std::span(packet.segments).first(packet.segment_count)) {
    SKUA_CHECK(segment.size() <= static_cast<size_t>(end - to), "payload_bytes is less than the segments");
    copy_bytes(to, segment);
    to += segment.size();
  }
  SKUA_CHECK(to == end, "payload_bytes is more than the segments");
  append_staged(start, size, padding);
}

void TxQueue::stage_provisional_frame(const Dialect& dialect, uint32_t payload_bytes) {
  uint32_t padding;
  std::byte* to = take_staging(kFrameBytesMax, padding);
  dialect.pack(to, payload_bytes);
  bytes_ += dialect.frame_bytes;
  Entry& added = push_entry();
  added.data = to;
  added.size = dialect.frame_bytes;
  added.staged = kFrameBytesMax + padding;
  added.is_frame = true;
  merge_allowed_ = false;
}

bool TxQueue::push(TxPacket& packet, uint8_t index, const Dialect& dialect, bool provisional,
                   const TxCompletions& completions, TransportCounters& counters) {
  const bool copy_all = packet.payload_bytes <= limits_.inline_max_bytes;
  if (!has_room(packet, copy_all)) return false;
  if (entries_ == nullptr) allocate();
  ++counters.tx_packets;
  counters.tx_bytes += kPacketHeaderBytes + packet.payload_bytes;
  if (copy_all && !provisional) {
    stage_packet(packet, dialect);
    packet.done = true;
    counters.tx_copied_bytes += packet.payload_bytes;
    return true;
  }
  if (provisional) {
    stage_provisional_frame(dialect, packet.payload_bytes);
    stage(packet.header);
  } else {
    std::array<std::byte, kFrameBytesMax + kPacketHeaderBytes> prefix;
    dialect.pack(prefix.data(), packet.payload_bytes);
    std::memcpy(prefix.data() + dialect.frame_bytes, packet.header.data(), kPacketHeaderBytes);
    stage(ByteSpan(prefix).first(dialect.frame_bytes + kPacketHeaderBytes));
  }
  Entry* last_gathered = nullptr;
  size_t copied = 0;
  size_t payload = 0;
  for (const ByteSpan segment : std::span(packet.segments).first(packet.segment_count)) {
    payload += segment.size();
    if (copy_all || segment.size() <= limits_.inline_max_bytes) {
      stage(segment);
      copied += segment.size();
      continue;
    }
    Entry& added = push_entry();
    added.data = segment.data();
    added.size = static_cast<uint32_t>(segment.size());
    bytes_ += segment.size();
    merge_allowed_ = false;
    last_gathered = &added;
  }
  SKUA_CHECK(payload == packet.payload_bytes, "payload_bytes is not the sum of the segments");
  packet.done = last_gathered == nullptr;
  if (last_gathered != nullptr) {
    last_gathered->completes_packet = true;
    last_gathered->token = packet.token;
    last_gathered->burst = completions.burst();
    last_gathered->index = index;
  }
  counters.tx_copied_bytes += copied;
  counters.tx_zero_copy_bytes += packet.payload_bytes - copied;
  return true;
}

size_t TxQueue::gather(std::span<iovec> pieces, size_t& bytes) const {
  const auto count = static_cast<uint32_t>(std::min<size_t>(pieces.size(), static_cast<size_t>(entry_count_)));
  bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Entry& from = entry(i);
    const uint32_t skipped = i == 0 ? first_offset_ : 0;
    // The kernel only reads through an iovec that is written from.
    pieces[i].iov_base = const_cast<std::byte*>(from.data + skipped);
    pieces[i].iov_len = from.size - skipped;
    bytes += from.size - skipped;
  }
  return count;
}

void TxQueue::pop(TxCompletions& completions) {
  const Entry& front = entry(0);
  if (front.completes_packet) completions.complete(front.token, front.burst, front.index);
  staging_used_ -= front.staged;
  first_ = (first_ + 1) & (kTxEntriesMax - 1);
  first_offset_ = 0;
  if (--entry_count_ == 0) {
    // Start over, so that a queue that drains keeps to the same few cache lines.
    first_ = staging_tail_ = 0;
    merge_allowed_ = false;
  }
}

void TxQueue::consume(size_t bytes, TxCompletions& completions) {
  SKUA_CHECK(bytes <= bytes_, "more was written than was queued");
  bytes_ -= bytes;
  while (bytes > 0) {
    const size_t left = entry(0).size - first_offset_;
    if (bytes < left) {
      const auto part = static_cast<uint32_t>(bytes);
      first_offset_ += part;
      // A piece may be as long as the ring: its bytes make room as they go.
      if (Entry& front = entry(0); front.staged > 0) {
        front.staged -= part;
        staging_used_ -= part;
      }
      return;
    }
    bytes -= left;
    pop(completions);
  }
}

void TxQueue::drop(TxCompletions& completions) {
  while (entry_count_ > 0) pop(completions);
  bytes_ = 0;
  entries_.reset();
  staging_.reset();
}

void TxQueue::repack(const Dialect& from, const Dialect& to) {
  if (from.version == to.version) return;
  for (uint32_t i = 0; i < entry_count_; ++i) {
    Entry& frame = entry(i);
    if (!frame.is_frame) continue;
    uint32_t payload_bytes = 0;
    SKUA_CHECK(from.unpack(frame.data, payload_bytes), "a queued frame is not what was packed");
    to.pack(const_cast<std::byte*>(frame.data), payload_bytes);
    bytes_ += to.frame_bytes;
    bytes_ -= frame.size;
    frame.size = to.frame_bytes;
  }
}

}  // namespace skua::rpc::tcp
