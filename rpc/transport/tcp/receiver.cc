#include "rpc/transport/tcp/receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "rpc/base/check.h"
#include "rpc/transport/tcp/tcp_limits.h"

namespace skua::rpc::tcp {
namespace {

/// recv() into one or two targets; repeated if a signal interrupts it.
ssize_t receive_into(int fd, std::span<iovec> targets) {
  while (true) {
    ssize_t got;
    if (targets.size() == 1) {
      got = recv(fd, targets[0].iov_base, targets[0].iov_len, MSG_DONTWAIT);
    } else {
      msghdr message{};
      message.msg_iov = targets.data();
      message.msg_iovlen = targets.size();
      got = recvmsg(fd, &message, MSG_DONTWAIT);
    }
    if (got >= 0 || errno != EINTR) return got;
  }
}

}  // namespace

void FrameReceiver::open(PeerId peer, const Dialect& dialect) {
  peer_ = peer;
  dialect_ = &dialect;
  state_ = State::kFrameHeader;
}

RxOutcome FrameReceiver::receive(int fd, RxContext& context) {
  bool drained = false;
  for (int reads = 0;; ++reads) {
    switch (parse(context)) {
      case Parse::kNeedBytes: break;
      case Parse::kStop: return drained && is_between_frames() ? RxOutcome::kDrained : RxOutcome::kMore;
      case Parse::kStarved: return RxOutcome::kStarved;
      case Parse::kMalformed: return RxOutcome::kMalformed;
    }
    if (drained) return RxOutcome::kDrained;
    if (reads == kReadsPerBurstMax) return RxOutcome::kMore;
    Read read;
    switch (state_) {
      case State::kPayloadPlaced: read = read_placed(fd, context); break;
      case State::kDiscard: read = read_discard(fd); break;
      default: read = read_chunk(fd, context); break;
    }
    switch (read) {
      case Read::kFull: break;
      // A short read took everything there was. Later bytes make a new epoll event.
      case Read::kShort: drained = true; break;
      case Read::kStarved: return RxOutcome::kStarved;
      case Read::kEnd: return RxOutcome::kEnd;
      case Read::kError: return errno == EAGAIN ? RxOutcome::kDrained : RxOutcome::kError;
    }
  }
}

FrameReceiver::Parse FrameReceiver::parse(RxContext& context) {
  while (true) {
    if (context.count == context.packets.size()) return Parse::kStop;
    if (!spilled_.empty() && !unspill(context)) return Parse::kStarved;
    if (state_ == State::kPayloadPlaced) {
      if (payload_done_ < payload_bytes_) return Parse::kNeedBytes;
      emit_placed(context);
      continue;
    }
    if (state_ == State::kDiscard) {
      if (payload_done_ < payload_bytes_) return Parse::kNeedBytes;
      end_packet();
      continue;
    }
    if (state_ == State::kFrameHeader) {
      if (region_size() < dialect_->frame_bytes) return Parse::kNeedBytes;
      switch (parse_prefix(context, context.chunks->at(chunk_, begin_))) {
        case Prefix::kPacket: break;
        case Prefix::kAlone:
          shrink_region(context, dialect_->frame_bytes);
          ++frame_count_;
          continue;
        case Prefix::kMalformed: return Parse::kMalformed;
      }
    }
    if (region_size() < prefix_bytes()) return Parse::kNeedBytes;
    const std::byte* frame = context.chunks->at(chunk_, begin_);
    if (state_ == State::kPacketHeader && !check_bundle(context, frame + dialect_->frame_bytes))
      return Parse::kMalformed;
    const uint32_t frame_bytes = prefix_bytes() + payload_bytes_;
    if (region_size() >= frame_bytes) {
      emit_lent(context, frame);
    } else if (stays_in_chunk_) {
      state_ = State::kPayloadInChunk;
      return Parse::kNeedBytes;
    } else if (!begin_placement(context, frame)) {
      return Parse::kStop;
    }
  }
}

FrameReceiver::Prefix FrameReceiver::parse_prefix(const RxContext& context, const std::byte* frame) {
  FramePrefix prefix;
  if (!dialect_->unpack(frame, prefix) || prefix.payload_bytes > context.payload_max_bytes) return Prefix::kMalformed;
  peer_has_ = prefix.has;
  if (prefix.is_alone) return Prefix::kAlone;
  payload_bytes_ = prefix.payload_bytes;
  asks_ = prefix.asks;
  stays_in_chunk_ = payload_bytes_ <= context.place_above_bytes;
  state_ = State::kPacketHeader;
  return Prefix::kPacket;
}

/// False: the frame is malformed.
bool FrameReceiver::check_bundle(const RxContext& context, const std::byte* header) {
  if (!is_bundle_header(header)) return true;
  // The engine reads a bundle in one piece, header and payload, so all of it must fit in a chunk.
  stays_in_chunk_ = true;
  const uint32_t bytes = kPacketHeaderBytes + payload_bytes_;
  const uint32_t most = std::min(kBundleBytesMax, context.chunks->chunk_bytes() - dialect_->frame_bytes);
  return bytes >= kBundleBytesMin && bytes <= most && bytes == bundle_bytes(header);
}

/// The engine has the packet, or it was thrown away.
void FrameReceiver::end_packet() {
  if (asks_) asked_count_ = (asked_count_ + 1) & kNoticeMask;
  state_ = State::kFrameHeader;
  ++frame_count_;
}

void FrameReceiver::emit_lent(RxContext& context, const std::byte* frame) {
  const std::byte* header = frame + dialect_->frame_bytes;
  RxPacket& packet = context.packets[context.count];
  packet.from = peer_;
  packet.placed = false;
  packet.placement = 0;
  if (payload_bytes_ > 0) {
    packet.header = ByteSpan(header, kPacketHeaderBytes);
    packet.payload = ByteSpan(header + kPacketHeaderBytes, payload_bytes_);
    packet.buffer = chunk_;
    context.chunks->add_ref(chunk_);
  } else {
    // Nothing is lent, so nothing keeps the header's bytes in the chunk.
    auto& copy = context.headers[context.count];
    std::memcpy(copy.data(), header, kPacketHeaderBytes);
    packet.header = copy;
    packet.payload = {};
    packet.buffer = kNoBuffer;
  }
  ++context.count;
  ++context.counters->rx_packets;
  context.counters->rx_bytes += kPacketHeaderBytes + payload_bytes_;
  context.counters->rx_zero_copy_bytes += payload_bytes_;
  expect_large_ = false;
  end_packet();
  shrink_region(context, prefix_bytes() + payload_bytes_);
}

/// False: the engine must first see the earlier packets of this burst.
bool FrameReceiver::begin_placement(RxContext& context, const std::byte* frame) {
  if (context.count > 0) return false;
  const std::byte* header = frame + dialect_->frame_bytes;
  std::memcpy(header_.data(), header, kPacketHeaderBytes);
  placement_ = {};
  if (context.placer != nullptr) placement_ = context.placer->place(peer_, header_, payload_bytes_);
  payload_done_ = region_size() - prefix_bytes();
  if (placement_.to != nullptr) {
    std::memcpy(placement_.to, header + kPacketHeaderBytes, payload_done_);
    context.counters->rx_copied_bytes += payload_done_;
    state_ = State::kPayloadPlaced;
  } else {
    ++context.counters->rx_dropped;
    state_ = State::kDiscard;
  }
  expect_large_ = true;
  shrink_region(context, region_size());
  return true;
}

void FrameReceiver::emit_placed(RxContext& context) {
  RxPacket& packet = context.packets[context.count];
  auto& copy = context.headers[context.count];
  copy = header_;
  packet.from = peer_;
  packet.placed = true;
  packet.header = copy;
  packet.payload = ByteSpan(placement_.to, payload_bytes_);
  packet.buffer = kNoBuffer;
  packet.placement = placement_.cookie;
  ++context.count;
  ++context.counters->rx_packets;
  context.counters->rx_bytes += kPacketHeaderBytes + payload_bytes_;
  placement_ = {};
  end_packet();
}

FrameReceiver::Read FrameReceiver::read_chunk(int fd, RxContext& context) {
  const uint32_t wanted = state_ == State::kPayloadInChunk ? prefix_bytes() + payload_bytes_ : prefix_bytes();
  if (!make_room(context, wanted - region_size())) return Read::kStarved;
  uint32_t limit = context.chunks->room();
  if (expect_large_ && region_size() < prefix_bytes()) limit = std::min(limit, kRxPeekBytes);
  iovec target{context.chunks->write_pointer(), limit};
  const ssize_t got = receive_into(fd, {&target, 1});
  if (got < 0) return Read::kError;
  if (got == 0) return Read::kEnd;
  extend_region(context, static_cast<uint32_t>(got));
  return static_cast<size_t>(got) < limit ? Read::kShort : Read::kFull;
}

FrameReceiver::Read FrameReceiver::read_placed(int fd, RxContext& context) {
  const uint32_t left = payload_bytes_ - payload_done_;
  std::array<iovec, 2> targets;
  targets[0] = {placement_.to + payload_done_, left};
  size_t count = 1;
  if (context.chunks->ensure_room(kRxPeekBytes)) {
    targets[1] = {context.chunks->write_pointer(), kRxPeekBytes};
    count = 2;
  }
  const ssize_t got = receive_into(fd, std::span(targets).first(count));
  if (got < 0) return Read::kError;
  if (got == 0) return Read::kEnd;
  const auto bytes = static_cast<uint32_t>(got);
  const uint32_t placed = std::min(bytes, left);
  payload_done_ += placed;
  context.counters->rx_zero_copy_bytes += placed;
  if (bytes > placed) extend_region(context, bytes - placed);
  return bytes < left + (count == 2 ? kRxPeekBytes : 0) ? Read::kShort : Read::kFull;
}

FrameReceiver::Read FrameReceiver::read_discard(int fd) {
  std::array<std::byte, 16 * 1024> scratch;
  const size_t limit = std::min<size_t>(payload_bytes_ - payload_done_, scratch.size());
  iovec target{scratch.data(), limit};
  const ssize_t got = receive_into(fd, {&target, 1});
  if (got < 0) return Read::kError;
  if (got == 0) return Read::kEnd;
  payload_done_ += static_cast<uint32_t>(got);
  return static_cast<size_t>(got) < limit ? Read::kShort : Read::kFull;
}

/// Makes the pool's write position follow the region, with room for `bytes` more. False: no chunk is free.
bool FrameReceiver::make_room(RxContext& context, uint32_t bytes) {
  ChunkPool& chunks = *context.chunks;
  const uint32_t size = region_size();
  if (size == 0) {
    // Prefer a fresh chunk to the small rest of a chunk.
    return chunks.ensure_room(std::max(bytes, std::min(kRxRoomMin, chunks.chunk_bytes()))) || chunks.ensure_room(bytes);
  }
  const bool follows = chunk_ == chunks.current() && end_ == chunks.write_offset();
  if (follows && chunks.room() >= bytes) return true;
  const std::byte* from = chunks.at(chunk_, begin_);
  if (!chunks.ensure_room(size + bytes)) return false;
  std::memcpy(chunks.write_pointer(), from, size);
  context.counters->rx_copied_bytes += size;
  shrink_region(context, size);
  extend_region(context, size);
  return true;
}

/// `bytes` were written at the pool's write position. That is right behind the region, unless the region is empty.
void FrameReceiver::extend_region(RxContext& context, uint32_t bytes) {
  ChunkPool& chunks = *context.chunks;
  if (region_size() == 0) {
    chunk_ = chunks.current();
    begin_ = end_ = chunks.write_offset();
    chunks.add_ref(chunk_);
  }
  end_ += bytes;
  chunks.commit(bytes);
}

void FrameReceiver::shrink_region(RxContext& context, uint32_t bytes) {
  if (bytes == 0) return;
  begin_ += bytes;
  if (begin_ == end_) context.chunks->drop_ref(chunk_);
}

void FrameReceiver::spill(RxContext& context) {
  const uint32_t size = region_size();
  if (size == 0) return;
  const std::byte* from = context.chunks->at(chunk_, begin_);
  spilled_.assign(from, from + size);
  context.counters->rx_copied_bytes += size;
  shrink_region(context, size);
}

bool FrameReceiver::unspill(RxContext& context) {
  const auto size = static_cast<uint32_t>(spilled_.size());
  if (!context.chunks->ensure_room(size)) return false;
  std::memcpy(context.chunks->write_pointer(), spilled_.data(), size);
  context.counters->rx_copied_bytes += size;
  extend_region(context, size);
  spilled_.clear();
  return true;
}

void FrameReceiver::cancel_placement(RxPlacer* placer) {
  if (state_ != State::kPayloadPlaced) return;
  if (placer != nullptr) placer->abandon(placement_.cookie);
  placement_ = {};
  state_ = State::kDiscard;
}

void FrameReceiver::reset(RxContext& context) {
  cancel_placement(context.placer);
  shrink_region(context, region_size());
  spilled_.clear();
  state_ = State::kClosed;
}

}  // namespace skua::rpc::tcp
