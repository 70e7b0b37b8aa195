#include "kvstore/service/replies.h"

#include <utility>

#include "rpc/base/status.h"

namespace skua::kv {

rpc::MessagePtr Replies::error_message(const ReplyHead& head) {
  HeadBuffer buffer;
  rpc::MessagePtr message = make_message();
  message->append_copy(encode_error_reply(head, buffer));
  return message;
}

/// The session may have ended while its request waited for a disk. Then nobody is told, and nothing is counted.
void Replies::count_for_quota(rpc::SessionId session, size_t bytes) {
  if (QuotaAccount* const account = owners_->account(session)) account->replied(bytes);
}

void Replies::error(rpc::ReplyToken& reply, Method method, const HeldShard& shard, const absl::Status& why) {
  error(reply, method, shard, from_status_code(why.code()), std_view(why.message()));
}

std::optional<rpc::Lease> Replies::reserve(rpc::ReplyToken& reply, Method method, const HeldShard& shard,
                                           size_t bytes) {
  std::optional<rpc::Lease> share = reply.reserve(bytes);
  if (!share.has_value()) {
    error(reply, method, shard, KvStatus::kResourceExhausted,
          "replies that this client has not taken yet use up its memory here; ask for less at a time");
  }
  return share;
}

ReplyPage* Replies::take_page(rpc::ReplyToken& reply, Method method, const HeldShard& shard, size_t bytes) {
  if (bytes <= kShortReplyBytesMax) return &short_pages_.acquire();
  std::optional<rpc::Lease> share = reserve(reply, method, shard, bytes);
  if (!share.has_value()) return nullptr;
  ReplyPage& page = pages_.acquire();
  page.share = *std::move(share);
  return &page;
}

}  // namespace skua::kv
