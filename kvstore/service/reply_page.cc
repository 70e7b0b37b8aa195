#include "kvstore/service/reply_page.h"

#include <utility>

#include "rpc/base/check.h"

namespace skua::kv {

ReplyPagePool::~ReplyPagePool() {
  SKUA_CHECK(lent_count_ == 0, "replies must be let go of before their pages' pool goes");
}

ReplyPage& ReplyPagePool::acquire() {
  if (free_ == nullptr) free_ = all_.emplace_back(std::make_unique<ReplyPage>(*this)).get();
  ++lent_count_;
  return *std::exchange(free_, free_->next_free);
}

void ReplyPagePool::lend(ReplyPage& page, ByteSpan bytes, rpc::Message& message) {
  const bool added = message.add_body(
      bytes,
      [](void* context) {
        auto* lent = static_cast<ReplyPage*>(context);
        lent->pool.take_back(*lent);
      },
      &page);
  SKUA_CHECK(added, "a new message has room for a body");
}

void ReplyPagePool::take_back(ReplyPage& page) {
  if (page.bytes.capacity() > buffer_bytes_kept_) std::string().swap(page.bytes);
  if (page.rows != nullptr && page.rows->capacity() > buffer_bytes_kept_) page.rows.reset();
  page.value.reset();
  page.share.reset();
  page.next_free = std::exchange(free_, &page);
  --lent_count_;
}

}  // namespace skua::kv
