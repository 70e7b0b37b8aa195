// Replies of the key-value service, and the memory in which they lie until the transport has sent them.
#ifndef SKUA_KVSTORE_SERVICE_REPLIES_H_
#define SKUA_KVSTORE_SERVICE_REPLIES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply.h"
#include "kvstore/service/held_shards.h"
#include "kvstore/service/reply_page.h"
#include "kvstore/service/service_limits.h"
#include "kvstore/service/session_owners.h"
#include "kvstore/service/stats.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the worker's. Outlives the endpoint, because replies that the endpoint still holds lie in the pages.
class Replies {
 public:
  explicit Replies(rpc::Endpoint& endpoint) : endpoint_(endpoint) {}

  /// The revision of the newest map whose changes have been made here. Every reply tells it.
  void set_map_revision(uint64_t revision) { map_revision_ = revision; }
  [[nodiscard]] uint64_t map_revision() const { return map_revision_; }
  [[nodiscard]] RequestStats& stats() { return stats_; }
  [[nodiscard]] const RequestStats& stats() const { return stats_; }

  /// The head of a reply for a shard that is served.
  [[nodiscard]] ReplyHead head_of(const HeldShard& shard, KvStatus status, uint64_t version = 0,
                                  std::string_view text = {}) const {
    return {status, version, shard.epoch, map_revision_, shard.shard->indices().committed, text};
  }
  [[nodiscard]] rpc::MessagePtr make_message() { return endpoint_.make_message(); }

  /// Whose accounts replies are counted in (quota_ledger.h); null: nobody has a quota. The owners outlive the use.
  void set_accounts(const SessionOwners* owners) { owners_ = owners; }

  void send(rpc::ReplyToken& reply, Method method, KvStatus status, rpc::MessagePtr message) {
    if (owners_ != nullptr) [[unlikely]] {
      count_for_quota(reply.session(), message->size());
    }
    send_uncounted(reply, method, status, std::move(message));
  }
  void error(rpc::ReplyToken& reply, Method method, const ReplyHead& head) {
    send(reply, method, head.status, error_message(head));
  }
  void error(rpc::ReplyToken& reply, Method method, const HeldShard& shard, KvStatus status,
             std::string_view text = {}) {
    error(reply, method, head_of(shard, status, 0, text));
  }
  void error(rpc::ReplyToken& reply, Method method, const HeldShard& shard, const absl::Status& why);
  /// As error(), but the reply does not count for a quota. A client over its quota tries again. If its refusals counted
  /// too, it would never get below its quota.
  void error_uncounted(rpc::ReplyToken& reply, Method method, const ReplyHead& head) {
    send_uncounted(reply, method, head.status, error_message(head));
  }

  /// A share of the caller's memory, until the lease ends. nullopt: earlier replies that the caller has not taken yet
  /// use up that memory, and the request was answered.
  [[nodiscard]] std::optional<rpc::Lease> reserve(rpc::ReplyToken& reply, Method method, const HeldShard& shard,
                                                  size_t bytes);
  /// A page for a reply of so many bytes, with their share of the caller's memory. Null: as reserve(). A short reply
  /// needs no share.
  [[nodiscard]] ReplyPage* take_page(rpc::ReplyToken& reply, Method method, const HeldShard& shard, size_t bytes);

 private:
  void send_uncounted(rpc::ReplyToken& reply, Method method, KvStatus status, rpc::MessagePtr message) {
    stats_.count(method, status);
    stats_.reply_bytes += message->size();
    reply.reply(std::move(message));
  }
  [[nodiscard]] rpc::MessagePtr error_message(const ReplyHead& head);
  void count_for_quota(rpc::SessionId session, size_t bytes);

  rpc::Endpoint& endpoint_;
  const SessionOwners* owners_ = nullptr;  // here, because each reply reads what is beside it
  uint64_t map_revision_ = 0;
  RequestStats stats_;
  ReplyPagePool short_pages_{kShortReplyBytesMax};
  ReplyPagePool pages_{kReplyBufferBytesKept};
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_REPLIES_H_
