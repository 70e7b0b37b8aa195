// ReplyPage: holds the bytes of a long reply from the time when it is sent until nobody reads them any more.
//
//      pending request            page                      message
//      bytes, built   ---swap---> bytes  <--- body --------- head        released: the page goes back to its pool
//
// A reply is kept for as long as its caller may ask for it again: until the caller says that it has the reply, or uses
// the sslot for another call, or its session ends. An idle caller may do none of these. So a reply holds neither its
// shard nor a pending request.
#ifndef SKUA_KVSTORE_SERVICE_REPLY_PAGE_H_
#define SKUA_KVSTORE_SERVICE_REPLY_PAGE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/codec/reply.h"
#include "kvstore/types/pinned_value.h"
#include "rpc/base/lease.h"
#include "rpc/base/message.h"

namespace skua::kv {

class ReplyPagePool;

/// Holds the body of a reply, in one of `bytes`, `rows` and `value`.
struct ReplyPage {
  explicit ReplyPage(ReplyPagePool& owner) : pool(owner) {}

  ReplyPagePool& pool;
  std::string bytes;
  std::unique_ptr<ScanReplyBuilder> rows;
  PinnedValue value;
  /// The reply's share of the memory that all replies to its caller may take. Empty: the reply is so short that the
  /// number of sslots bounds the memory.
  rpc::Lease share;
  ReplyPage* next_free = nullptr;
};

/// Recycles pages with their buffers, so that steady state allocates nothing. Each session has at most its window of
/// replies, which bounds how many pages are lent. Thread: the worker's. The pool outlives the messages (checked).
class ReplyPagePool {
 public:
  /// When a page comes back, its buffer goes back to the heap if it is larger than `buffer_bytes_kept`.
  explicit ReplyPagePool(size_t buffer_bytes_kept) : buffer_bytes_kept_(buffer_bytes_kept) {}
  ~ReplyPagePool();
  ReplyPagePool(const ReplyPagePool&) = delete;
  ReplyPagePool& operator=(const ReplyPagePool&) = delete;

  [[nodiscard]] ReplyPage& acquire();
  /// `bytes`, which lie in the page, become the body of `message`. The page comes back when the message releases them.
  static void lend(ReplyPage& page, ByteSpan bytes, rpc::Message& message);

 private:
  void take_back(ReplyPage& page);

  const size_t buffer_bytes_kept_;
  std::vector<std::unique_ptr<ReplyPage>> all_;
  ReplyPage* free_ = nullptr;
  size_t lent_count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_REPLY_PAGE_H_
