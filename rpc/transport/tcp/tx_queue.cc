#include "rpc/transport/tcp/tx_queue.h"

#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/transport/tcp/tcp_limits.h"

namespace skua::rpc::tcp {
namespace {

static_assert((kTxEntriesMax & (kTxEntriesMax - 1)) == 0, "the piece ring masks its index");

}  // namespace

void TxQueue::allocate() {
  entries_ = std::make_unique<Entry[]>(kTxEntriesMax);
  // Not zeroed, so that pages of a ring that never fills are never touched.
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
  if (entry_count_ + reserved_frames_ + 2 * kTxSegmentsMax + 2 > kTxEntriesMax) return false;
  // A wrap-around leaves at most one gap, which is smaller than the piece that wraps.
  const uint32_t reserved = reserved_frames_ == 0 ? 0 : (reserved_frames_ + 1) * limits_.frame_bytes;
  uint32_t copied = 2 * kFrameBytesMax + kPacketHeaderBytes;
  if (copy_all) {
    copied += packet.payload_bytes;
    return staging_used_ + reserved + 2 * copied <= kTxStagingBytes;
  }
  uint32_t largest = kPacketHeaderBytes;
  for (const ByteSpan segment : std::span(packet.segments).first(packet.segment_count)) {
    if (segment.size() > limits_.inline_max_bytes) continue;
    copied += static_cast<uint32_t>(segment.size());
    largest = std::max(largest, static_cast<uint32_t>(segment.size()));
  }
  return staging_used_ + reserved + copied + largest <= kTxStagingBytes;
}

void TxQueue::give_up_frame() {
  SKUA_CHECK(reserved_frames_ > 0, "room was given up that nobody reserved");
  --reserved_frames_;
}

/// Takes contiguous staging space. `padding` is set to the bytes skipped at the end of the ring.
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

/// Queues `size` bytes that were taken with `padding` and are now filled in.
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

/// Copies a whole packet into one piece: the usual case for small calls.
void TxQueue::stage_packet(const TxPacket& packet, const Dialect& dialect, const FramePrefix& prefix) {
  const uint32_t size = dialect.frame_bytes + static_cast<uint32_t>(kPacketHeaderBytes) + packet.payload_bytes;
  uint32_t padding;
  std::byte* const start = take_staging(size, padding);
  dialect.pack(start, prefix);
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

void TxQueue::stage_provisional_frame(const Dialect& dialect, const FramePrefix& prefix) {
  uint32_t padding;
  std::byte* to = take_staging(kFrameBytesMax, padding);
  dialect.pack(to, prefix);
  bytes_ += dialect.frame_bytes;
  Entry& added = push_entry();
  added.data = to;
  added.size = dialect.frame_bytes;
  added.staged = kFrameBytesMax + padding;
  added.is_frame = true;
  merge_allowed_ = false;
}

/// Stages frame prefix and packet header, in front of the segments.
void TxQueue::stage_prefix(const TxPacket& packet, const TxFraming& framing, const FramePrefix& prefix) {
  const Dialect& dialect = *framing.dialect;
  if (framing.provisional) {
    stage_provisional_frame(dialect, prefix);
    stage(packet.header);
    return;
  }
  std::array<std::byte, kFrameBytesMax + kPacketHeaderBytes> bytes;
  dialect.pack(bytes.data(), prefix);
  std::memcpy(bytes.data() + dialect.frame_bytes, packet.header.data(), kPacketHeaderBytes);
  stage(ByteSpan(bytes).first(dialect.frame_bytes + kPacketHeaderBytes));
}

bool TxQueue::push(TxPacket& packet, uint8_t index, const TxFraming& framing, const TxCompletions& completions,
                   TransportCounters& counters) {
  const bool copy_all = packet.payload_bytes <= limits_.inline_max_bytes;
  if (!has_room(packet, copy_all)) return false;
  if (entries_ == nullptr) allocate();
  ++counters.tx_packets;
  counters.tx_bytes += kPacketHeaderBytes + packet.payload_bytes;
  FramePrefix prefix{.payload_bytes = packet.payload_bytes, .has = framing.has};
  if (copy_all && !framing.provisional) {
    stage_packet(packet, *framing.dialect, prefix);
    packet.done = true;
    counters.tx_copied_bytes += packet.payload_bytes;
    return true;
  }
  const std::span<const ByteSpan> segments = std::span(packet.segments).first(packet.segment_count);
  const auto is_large = [&framing](ByteSpan segment) { return segment.size() > framing.zero_copy_above_bytes; };
  prefix.asks = framing.asks && std::any_of(segments.begin(), segments.end(), is_large);
  stage_prefix(packet, framing, prefix);
  Entry* last_gathered = nullptr;
  size_t copied = 0;
  size_t payload = 0;
  for (const ByteSpan segment : segments) {
    payload += segment.size();
    if (copy_all || segment.size() <= limits_.inline_max_bytes) {
      stage(segment);
      copied += segment.size();
      continue;
    }
    Entry& added = push_entry();
    added.data = segment.data();
    added.size = static_cast<uint32_t>(segment.size());
    added.by_zero_copy = is_large(segment);
    bytes_ += segment.size();
    merge_allowed_ = false;
    last_gathered = &added;
  }
  SKUA_CHECK(payload == packet.payload_bytes, "payload_bytes is not the sum of the segments");
  packet.done = last_gathered == nullptr;
  if (last_gathered != nullptr) {
    last_gathered->completes_packet = true;
    last_gathered->asks = prefix.asks;
    last_gathered->token = packet.token;
    last_gathered->burst = completions.burst();
    last_gathered->index = index;
  }
  counters.tx_copied_bytes += copied;
  counters.tx_zero_copy_bytes += packet.payload_bytes - copied;
  return true;
}

TxQueue::Run TxQueue::gather(std::span<iovec> pieces, bool zero_copy) const {
  Run run;
  run.by_zero_copy = zero_copy && entry_count_ > 0 && entry(0).by_zero_copy;
  const auto most = static_cast<uint32_t>(std::min<size_t>(pieces.size(), static_cast<size_t>(entry_count_)));
  for (uint32_t i = 0; i < most; ++i) {
    const Entry& from = entry(i);
    if (zero_copy && from.by_zero_copy != run.by_zero_copy) {
      run.goes_on = true;
      break;
    }
    const uint32_t skipped = i == 0 ? first_offset_ : 0;
    // The kernel only reads through this iovec, so the const_cast is safe.
    pieces[i].iov_base = const_cast<std::byte*>(from.data + skipped);
    pieces[i].iov_len = from.size - skipped;
    run.bytes += from.size - skipped;
    ++run.count;
  }
  return run;
}

/// The oldest packet was written completely, or is forgotten.
void TxQueue::complete(const Entry& front, bool is_whole, ZeroCopySends* sends, TxCompletions& completions) {
  const bool asked = front.asks && is_whole;
  if (asked) sends->add_asked();
  if (front_write_.has_value() && sends != nullptr) {
    sends->wait_for(front.token, *front_write_, asked, completions);
  } else {
    completions.complete(front.token, front.burst, front.index);
  }
  front_write_.reset();
}

void TxQueue::pop() {
  staging_used_ -= entry(0).staged;
  first_ = (first_ + 1) & (kTxEntriesMax - 1);
  first_offset_ = 0;
  if (--entry_count_ == 0) {
    // Start over at the beginning, so that a queue that drains stays in the same few cache lines.
    first_ = staging_tail_ = 0;
    merge_allowed_ = false;
  }
}

void TxQueue::consume(size_t bytes, bool by_zero_copy, ZeroCopySends& sends, TxCompletions& completions) {
  SKUA_CHECK(bytes <= bytes_, "more was written than was queued");
  bytes_ -= bytes;
  written_bytes_ += bytes;
  std::optional<uint32_t> write;
  if (by_zero_copy && bytes > 0) write = sends.add_write();
  while (bytes > 0) {
    if (write.has_value()) front_write_ = write;
    Entry& front = entry(0);
    const size_t left = front.size - first_offset_;
    if (bytes < left) {
      const auto part = static_cast<uint32_t>(bytes);
      first_offset_ += part;
      // One piece may be as long as the ring, so written bytes are freed before the piece is done.
      if (front.staged > 0) {
        front.staged -= part;
        staging_used_ -= part;
      }
      return;
    }
    bytes -= left;
    if (front.completes_packet) complete(front, true, &sends, completions);
    pop();
  }
}

void TxQueue::drop(ZeroCopySends* sends, TxCompletions& completions) {
  for (; entry_count_ > 0; pop()) {
    if (entry(0).completes_packet) complete(entry(0), false, sends, completions);
  }
  bytes_ = 0;
  entries_.reset();
  staging_.reset();
}

void TxQueue::repack(const Dialect& from, const Dialect& to) {
  if (from.version == to.version) return;
  for (uint32_t i = 0; i < entry_count_; ++i) {
    Entry& frame = entry(i);
    if (!frame.is_frame) continue;
    FramePrefix prefix;
    SKUA_CHECK(from.unpack(frame.data, prefix), "a queued frame is not what was packed");
    to.pack(const_cast<std::byte*>(frame.data), prefix);
    bytes_ += to.frame_bytes;
    bytes_ -= frame.size;
    frame.size = to.frame_bytes;
  }
}

}  // namespace skua::rpc::tcp
