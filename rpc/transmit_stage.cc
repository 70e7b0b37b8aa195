#include "rpc/transmit_stage.h"

#include <algorithm>
#include <utility>

#include "rpc/base/check.h"
#include "rpc/protocol/protocol_mutants.h"
#include "rpc/protocol/session.h"

namespace skua::rpc {
namespace {

/// Added to the third word of a header, this increments packet_index.
constexpr uint64_t kNextIndex = uint64_t{1} << 32;

/// Writes spans of the first `bytes` of `rest` into `out`. Returns how many spans it wrote.
size_t cut(std::span<const ByteSpan> rest, size_t bytes, std::array<ByteSpan, kTxSegmentsMax>& out) {
  size_t count = 0;
  for (; bytes > 0; rest = rest.subspan(1)) {
    out[count] = rest.front().first(std::min(bytes, rest.front().size()));
    bytes -= out[count++].size();
  }
  return count;
}

/// Removes the first `bytes` from the spans.
void skip(std::span<ByteSpan>& rest, size_t bytes) {
  for (; bytes > 0 && bytes >= rest.front().size(); rest = rest.subspan(1)) bytes -= rest.front().size();
  if (bytes > 0) rest.front() = rest.front().subspan(bytes);
}

}  // namespace

static_assert(kTxSegmentsMax == Message::kBodiesMax + 1, "a whole message fits one packet's segments");

bool TransmitStage::seals(const Session& session) const {
  return !capabilities_.integrity && session.is_sealed();
}

// --- Staging ---------------------------------------------------------------------------------------------------------

void TransmitStage::stage(PeerId peer, const internal::HeaderWords& header, const MessagePtr& payload,
                          std::span<const ByteSpan> rest, size_t length, bool sealed) {
  SKUA_CHECK(has_room(), "a packet was emitted without room in the burst");
  TxPacket& packet = staged_[staged_count_++];
  packet.peer = peer;
  packet.done = false;
  packet.payload_bytes = static_cast<uint32_t>(length);
  size_t segments = 0;
  packet.token = kNoToken;
  if (length > 0) {
    segments = cut(rest, length, packet.segments);
    packet.token = reinterpret_cast<uintptr_t>(MessagePtr(payload).leak());
  }
  packet.segment_count = static_cast<uint8_t>(segments);
  header.store(packet.header.data());
  const uint32_t crc = sealed ? header.crc(packet.segments.data(), segments) : 0;
  store_le(packet.header.data() + internal::kCrcOffset, crc);
}

void TransmitStage::emit(const Session& session, const PacketHeader& header, const MessagePtr& payload, size_t offset,
                         size_t length) {
  std::array<ByteSpan, kTxSegmentsMax> segments;
  const size_t count = length == 0 ? 0 : payload->slice(offset, length, segments);
  stage(session.route(), internal::words_of(header), payload, std::span(segments).first(count), length, seals(session));
}

void TransmitStage::stage_control(PeerId peer, const PacketHeader& header, const MessagePtr& message) {
  std::array<ByteSpan, kTxSegmentsMax> segments;
  const size_t count = message->slice(0, message->size(), segments);
  stage(peer, internal::words_of(header), message, std::span(segments).first(count), message->size(),
        !capabilities_.integrity);
}

// --- Pieces ----------------------------------------------------------------------------------------------------------

void TransmitStage::emit_train(const Session& session, const PacketHeader& header, const MessagePtr& message,
                               uint32_t piece_bytes, uint32_t count) {
  const bool in_frames = capabilities_.frames && piece_bytes <= capabilities_.inline_max_bytes;
  const PeerId peer = session.route();
  const bool sealed = seals(session);
  // The header stays in words: reading a word of which a part was just written would stall the processor.
  internal::HeaderWords piece = internal::words_of(header);
  size_t offset = size_t{header.packet_index} * piece_bytes;
  const size_t end = std::min(message->size(), offset + size_t{count} * piece_bytes);
  std::array<ByteSpan, kTxSegmentsMax> segments;
  std::span<ByteSpan> rest = std::span(segments).first(message->slice(offset, end - offset, segments));
  for (; offset < end; piece.third += kNextIndex) {
    const size_t length = std::min<size_t>(piece_bytes, end - offset);
    const bool is_written = in_frames && write_piece(peer, piece, rest, length, sealed);
    if (!is_written) stage(peer, piece, message, rest, length, sealed);
    skip(rest, length);
    offset += length;
  }
}

/// Writes a piece into a frame of the transport. False: there is no frame. `rest` starts at the piece's bytes.
bool TransmitStage::write_piece(PeerId peer, const internal::HeaderWords& header, std::span<const ByteSpan> rest,
                                size_t length, bool sealed) {
  if (piece_count_ == pieces_.size()) flush_pieces();
  TxFrame frame = transport_.take_frame(peer);
  if (frame.bytes == nullptr) return false;
  if (frame.room < kHeaderBytes + length) [[unlikely]] {
    transport_.send_frames({&frame, 1});  // returns the frame, with size 0
    return false;
  }
  frame.size = static_cast<uint32_t>(kHeaderBytes + length);
  header.store(frame.bytes);
  std::byte* to = frame.bytes + kHeaderBytes;
  uint32_t crc = sealed ? header.crc(nullptr, 0) : 0;
  for (size_t left = length; left > 0; rest = rest.subspan(1)) {
    const ByteSpan part = rest.front().first(std::min(left, rest.front().size()));
    if (sealed) {
      crc = crc32c_copy(crc, part, to);
    } else {
      copy_bytes(to, part);
    }
    to += part.size();
    left -= part.size();
  }
  store_le(frame.bytes + internal::kCrcOffset, crc);
  pieces_[piece_count_++] = frame;
  counters_.tx_copied_bytes += length;
  return true;
}

// --- To the transport and back ---------------------------------------------------------------------------------------

void TransmitStage::flush_pieces() {
  if (piece_count_ == 0) return;
  counters_.packets_sent += piece_count_;
  transport_.send_frames(std::span(pieces_).first(std::exchange(piece_count_, 0)));
}

size_t TransmitStage::flush_all() {
  flush_pieces();
  if (staged_count_ == 0) return 0;
  is_flushing_ = true;
  const size_t taken = transport_.tx_burst(std::span(staged_).first(staged_count_));
  for (size_t i = 0; i < taken; ++i) {
    if (staged_[i].token == kNoToken) continue;
    if (staged_[i].done || mutant(Mutant::kFreeBeforeTxDone)) {
      let_go(staged_[i].token);
    } else {
      ++in_wire_count_;
    }
  }
  counters_.packets_sent += taken;
  // Releasing a body may have staged more packets, after those that were not taken.
  if (taken < staged_count_) {
    std::copy(staged_.begin() + taken, staged_.begin() + staged_count_, staged_.begin());
  }
  staged_count_ -= taken;
  is_flushing_ = false;
  return taken;
}

void TransmitStage::reap_tokens() {
  if (!capabilities_.tx_completion) return;
  std::array<TxToken, kBurstMax> tokens;
  while (const size_t count = transport_.reap(tokens)) {
    for (size_t i = 0; i < count; ++i) {
      if (mutant(Mutant::kFreeBeforeTxDone)) continue;
      --in_wire_count_;
      let_go(tokens[i]);
    }
    if (count < tokens.size()) break;
  }
}

void TransmitStage::end() {
  for (size_t i = 0; i < staged_count_; ++i) let_go(staged_[i].token);
  staged_count_ = 0;
  flush_pieces();  // frames return to the transport by being sent
  transport_.abandon_tx();
  reap();
  SKUA_CHECK(in_wire_count_ == 0 || mutant(Mutant::kFreeBeforeTxDone),
             "the transport keeps memory that it was told to let go");
}

}  // namespace skua::rpc
