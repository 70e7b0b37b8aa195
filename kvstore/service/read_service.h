// GET, MULTI_GET and SCAN.
//
//   GET, MULTI_GET   memory --- hit, known to be absent ---> answered at once
//                      `-- a miss: the shard fetches, or the reader pool reads ---> answered later
//                          (a MULTI_GET of what memory has: answered at once, without these keys)
//   SCAN             waits until the database shows what is committed, then the reader pool reads
//
// The GETs of a burst are looked up together at its end. A lookup waits for memory two or three times, and all lookups
// of a burst wait together.
#ifndef SKUA_KVSTORE_SERVICE_READ_SERVICE_H_
#define SKUA_KVSTORE_SERVICE_READ_SERVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kvstore/codec/chosen_fields.h"
#include "kvstore/memory/index.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/service/admission.h"
#include "kvstore/service/held_shards.h"
#include "kvstore/service/pending_request.h"
#include "kvstore/service/replies.h"
#include "kvstore/shard/fetch.h"
#include "kvstore/storage/reader_pool.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the worker's, but for read_done().
class ReadService final : public RequestService {
 public:
  /// All arguments outlive the service.
  ReadService(rpc::Endpoint& endpoint, ReaderPool& readers, HeldShards& shards, Admission& admission, Replies& replies)
      : mailbox_(endpoint.mailbox()), readers_(readers), shards_(shards), admission_(admission), replies_(replies) {}
  /// No GET may be gathered (checked).
  ~ReadService();
  ReadService(const ReadService&) = delete;
  ReadService& operator=(const ReadService&) = delete;

  void on_get(rpc::IncomingCall&& call);
  void on_multi_get(rpc::IncomingCall&& call);
  void on_scan(rpc::IncomingCall&& call);
  /// Answers the GETs of the burst.
  void burst_end();

  // --- What shards and readers say
  void fetch_done(FetchOp& op);
  /// The database shows everything that was committed when the SCAN came, or `wait.status` says why not.
  void applied(AppliedWait& wait);
  void read_done(PendingRequest& pending) override;
  void answer(PendingRequest& pending) override;

 private:
  struct Get {
    HeldShard* shard = nullptr;
    rpc::Lease request;
    rpc::ReplyToken reply;
    GetWishes wishes;
    bool confirmed = false;
  };
  /// Where a value's bytes lie.
  enum class Place : uint8_t { kMemoryTier, kCopy };

  void on_special_get(rpc::IncomingCall&& call);
  void gather(HeldShard& shard, const GetRequest& request, rpc::Lease& bytes, rpc::ReplyToken& reply, bool confirmed);
  /// `now`: a time after the key was looked up; used only if the shard has replicas.
  void answer_get(Get& get, const ItemKey& key, MemoryTier::Lookup& found, TimeNs now);
  void confirm_get(Get& get);
  void answer_fetched(PendingRequest& pending);
  [[nodiscard]] GetExtras extras_of(const GetWishes& wishes, const PinnedValue& value, uint64_t expires_at) const;
  void answer_value(rpc::ReplyToken& reply, HeldShard& shard, PinnedValue& value, Place place, const GetExtras& extras);
  void answer_fields(rpc::ReplyToken& reply, HeldShard& shard, PinnedValue& row, Place place, ByteSpan request,
                     const GetExtras& extras);
  void answer_parts(rpc::ReplyToken& reply, HeldShard& shard, const ChosenFields& fields, uint64_t version,
                    const GetExtras& extras);
  void answer_inline(rpc::ReplyToken& reply, const HeldShard& shard, const PinnedValue& value);
  void answer_copy(rpc::ReplyToken& reply, HeldShard& shard, PinnedValue&& value, const GetExtras& extras);
  [[nodiscard]] rpc::MessagePtr reply_head(const HeldShard& shard, uint64_t version, size_t bytes,
                                           const GetExtras& extras);
  [[nodiscard]] rpc::MessagePtr value_head(const HeldShard& shard, const PinnedValue& value, const GetExtras& extras);
  void tell_time(PendingRequest& pending, TimeNs deadline_ns) const;
  void submit(PendingRequest& pending);
  void send_page(PendingRequest& pending);

  const std::shared_ptr<rpc::Mailbox> mailbox_;
  ReaderPool& readers_;
  HeldShards& shards_;
  Admission& admission_;
  Replies& replies_;
  // The GETs of this burst.
  size_t gathered_count_ = 0;
  std::array<Get, Index::kBatch> gathered_;
  std::array<ItemKey, Index::kBatch> gathered_keys_;
  std::array<MemoryTier::Lookup, Index::kBatch> gathered_found_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_READ_SERVICE_H_
