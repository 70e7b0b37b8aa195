#include "rpc/base/message.h"

#include <algorithm>

namespace skua::rpc {

void Message::append_copy(ByteSpan bytes) {
  if (body_count_ == 0 && append_head(bytes)) return;
  auto* copy = new std::string(as_string_view(bytes));
  const bool added = add_body(
      as_byte_span(*copy), [](void* owned) { delete static_cast<std::string*>(owned); }, copy);
  if (!added) delete copy;
  SKUA_CHECK(added, "a message has at most four bodies");
}

size_t Message::slice_bodies(size_t offset, size_t length, std::array<ByteSpan, kBodiesMax + 1>& out) const {
  size_t count = 0;
  auto take = [&](ByteSpan piece) {
    if (offset >= piece.size()) {
      offset -= piece.size();
      return;
    }
    piece = piece.subspan(offset, std::min(length, piece.size() - offset));
    offset = 0;
    length -= piece.size();
    out[count++] = piece;
  };
  if (length > 0) take(head());
  for (size_t i = 0; i < body_count_ && length > 0; ++i) take(bodies_[i].bytes);
  return count;
}

void Message::release_bodies() {
  for (size_t i = 0; i < body_count_; ++i) {
    Body body = std::exchange(bodies_[i], {});
    if (body.release != nullptr) body.release(body.context);
  }
  body_count_ = 0;
  body_bytes_ = 0;
}

void MessagePtr::free(Message* message) {
  MessagePool* pool = message->pool_;
  if (message->body_count_ > 0 || pool == nullptr || !pool->recycle(message)) [[unlikely]] {
    return free_slowly(message);
  }
  message->head_size_ = 0;
}

/// Releases the bodies before the message can be used again, because their owners may make messages.
void MessagePtr::free_slowly(Message* message) {
  message->clear();
  MessagePool* pool = message->pool_;
  if (pool != nullptr && pool->recycle(message)) return;
  if (pool != nullptr) --pool->made_count_;
  delete message;
}

MessagePool::~MessagePool() {
  SKUA_CHECK(outstanding_count() == 0, "a message outlives its pool");
  while (free_ != nullptr) delete std::exchange(free_, free_->next_free_);
}

MessagePtr MessagePool::make_new() {
  auto* message = new Message;
  message->pool_ = this;
  ++made_count_;
  return MessagePtr(message);
}

bool SharedBody::attach(Message& message) {
  uses_.fetch_add(1, std::memory_order_relaxed);
  if (message.add_body(as_byte_span(bytes_), &SharedBody::drop, this)) return true;
  drop(this);
  return false;
}

void SharedBody::drop(void* self) {
  auto* body = static_cast<SharedBody*>(self);
  if (body->uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete body;
}

}  // namespace skua::rpc
