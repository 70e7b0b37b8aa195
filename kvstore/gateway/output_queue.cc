#include "kvstore/gateway/output_queue.h"

#include <algorithm>
#include <utility>

namespace skua::kv::gateway {
namespace {

/// Small replies are put together into pieces of about this size: the kernel takes few large pieces faster.
constexpr size_t kPieceBytes = 16 * 1024;
/// An idle connection keeps no more memory than this for its next replies.
constexpr size_t kKeptBytesMax = 4096;

}  // namespace

OutputQueue::~OutputQueue() {
  for (const Piece& piece : pieces_) pinned_.remove(piece.value.size());
}

void OutputQueue::append_text(std::string_view text) {
  if (text.empty()) return;
  size_ += text.size();
  const bool fits =
      !pieces_.empty() && pieces_.back().value.size() == 0 && pieces_.back().text.size() + text.size() <= kPieceBytes;
  if (!fits) pieces_.push_back({std::exchange(spare_text_, {}), {}});
  pieces_.back().text.append(text);
}

void OutputQueue::append(ReplyBytes& reply) {
  if (reply.lent().empty() && reply.size() <= kPieceBytes) {
    append_text(reply.text());
    reply.clear();
    return;
  }
  std::string text;
  std::vector<ReplyBytes::Lent> lent;
  reply.take(text, lent);
  if (lent.empty()) {
    size_ += text.size();
    pieces_.push_back({std::move(text), {}});
    return;
  }
  size_t from = 0;
  for (ReplyBytes::Lent& part : lent) {
    append_text(std::string_view(text).substr(from, part.at - from));
    from = part.at;
    size_ += part.value.size();
    pieces_.push_back({{}, std::move(part.value)});
  }
  append_text(std::string_view(text).substr(from));
}

size_t OutputQueue::peek(std::span<std::string_view> pieces) const {
  const size_t count = std::min(pieces.size(), pieces_.size());
  for (size_t i = 0; i < count; ++i) pieces[i] = pieces_[i].bytes();
  if (count > 0) pieces[0].remove_prefix(sent_);
  return count;
}

void OutputQueue::consume(size_t bytes) {
  size_ -= bytes;
  sent_ += bytes;
  while (!pieces_.empty() && sent_ >= pieces_.front().bytes().size()) pop_front();
}

void OutputQueue::unpin_excess() {
  for (size_t i = 0; i < pieces_.size() && pinned_.is_beyond_limit(); ++i) {
    Piece& piece = pieces_[i];
    if (piece.value.size() == 0) continue;
    piece.text = piece.value.bytes().substr(i == 0 ? std::exchange(sent_, 0) : 0);
    pinned_.remove(piece.value.size());
    piece.value.reset();
  }
}

void OutputQueue::pop_front() {
  Piece& piece = pieces_.front();
  sent_ -= piece.bytes().size();
  pinned_.remove(piece.value.size());
  if (piece.value.size() == 0 && piece.text.capacity() <= kKeptBytesMax) {
    piece.text.clear();
    spare_text_.swap(piece.text);
  }
  pieces_.pop_front();
}

}  // namespace skua::kv::gateway
