// PendingRequest: a request that outlives its handler, because it waits for a disk or for other replicas.
//
//                        mutations           GET that misses      SCAN MULTI_GET
//      handler ------> Shard: write        Shard: fetch        Shard: is_applied
//        begin()           |                   |                 reader pool
//                          v write_done        v fetch_done      v read_done() by the mailbox
//      worker  <------ answer, end()      answer, end()        answer, end()
//
// A pending request keeps the request's lease (keys and values are views into it) and the token for the answer, and it
// keeps the shard from being closed. It ends when it is answered, because the bytes of the answer lie elsewhere
// (reply_page.h, the memory tier). It is recycled with its buffers, so that steady state allocates nothing. The
// worker's thread owns it, except between the hand-over to the reader pool and the mailbox task that brings it back.
// Readers touch only the members that are marked.
#ifndef SKUA_KVSTORE_SERVICE_PENDING_REQUEST_H_
#define SKUA_KVSTORE_SERVICE_PENDING_REQUEST_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/shard/shard.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/pinned_value.h"
#include "rpc/base/clock.h"
#include "rpc/endpoint.h"

namespace skua::kv {

struct HeldShard;
class PendingRequest;

/// Answers pending requests of some methods.
class RequestService {
 public:
  /// The request has its result, and the result may be told: answers the request and ends it. Thread: the worker's.
  virtual void answer(PendingRequest& pending) = 0;
  /// The reader pool has done the request's read. Thread: a reader's.
  virtual void read_done(PendingRequest& pending) = 0;

 protected:
  ~RequestService() = default;
};

/// The reply to a MULTI_GET while it is built: room for the head, then the values in the order of the keys.
struct MultiGetPage {
  // Of each key:
  std::vector<ItemKey> item_keys;
  std::vector<MemoryTier::Lookup> in_memory;
  std::vector<PinnedValue> from_disk;  // empty if memory has all
  std::vector<MultiGetEntry> entries;
  size_t unread_from = 0;  // set by read_missing(): keys from this index on that memory lacks were not read
  std::string bytes;
  MultiGetWishes wishes;

  /// Looks up all keys in memory. False: a key must be read from the database, or the values are more than
  /// kMultiGetPollingBytesMax together. Then a reader thread builds the reply.
  bool look_up(WorkerEngine& engine, const Shard& shard, const StringList& keys);
  /// Reads the keys that memory does not have, until all values together reach kBatchBytesMax. A value that does not
  /// fit is dropped. build() makes the keys from there on RESOURCE_EXHAUSTED. Thread: a reader. Errors: the database's.
  absl::Status read_missing(ShardDb& db, const StringList& keys);
  /// Copies the values into the reply. A key that has expired at `now_ms` is absent. With memory_only this may be
  /// called whatever look_up() returned; keys that memory lacks become RESOURCE_EXHAUSTED.
  void build(uint64_t now_ms);
  /// Offers the values that were read to memory, and releases all values.
  void let_go(Shard& shard, const StringList& keys);
  /// Releases all values.
  void release();
  /// Writes the head into its room. Returns the whole reply, which lies in `bytes`.
  [[nodiscard]] ByteSpan finish(const ReplyHead& head);
};

/// See the head of this file.
class PendingRequest final : public ReadJob {
 public:
  PendingRequest() { write.context = this; }

  /// Does the read of a MULTI_GET or SCAN and gives the request back to its service. `status` is DEADLINE_EXCEEDED if
  /// the deadline has passed, or passes during a SCAN. Thread: a reader.
  void run() override;

  /// Bytes that the result of a read holds.
  [[nodiscard]] size_t result_bytes() const;

  RequestService* service = nullptr;
  PendingRequest* next = nullptr;  // in the pool's free list
  HeldShard* shard = nullptr;
  uint64_t epoch = 0;  // the shard's read_epoch() when the request came
  Method method = Method::kGet;
  rpc::Lease request;
  rpc::ReplyToken reply;
  rpc::Lease share;  // of the caller's memory, for a result that waits for other replicas

  WriteOp write;                              // mutations
  std::vector<Mutation> batch;                // BATCH
  FetchOp fetch{.context = this};             // GET
  GetWishes wishes;                           // GET
  uint64_t now_ms = 0;                        // MULTI_GET, SCAN: rows that have expired by then are absent
  TimeNs deadline_ns = kTimeNever;            // MULTI_GET, SCAN: the caller's, by the endpoint's clock
  const std::atomic<TimeNs>* time = nullptr;  // MULTI_GET, SCAN: that clock's (HeldShards::told_time())
  AppliedWait applied{.context = this};       // SCAN
  StringList keys;                            // MULTI_GET
  ScanRequest scan;                           // SCAN
  rpc::SessionId session;                     // SCAN: the caller's, whose quota pays for what the page reads
  // Filled by a reader thread:
  absl::Status status;
  MultiGetPage multi_get;
  std::unique_ptr<ScanReplyBuilder> page;
  bool has_more = false;

 private:
  void run_scan();
  [[nodiscard]] bool is_late() const { return deadline_ns <= time->load(std::memory_order_relaxed); }
};

/// Recycles pending requests. Thread: the worker's.
class PendingRequestPool {
 public:
  explicit PendingRequestPool(size_t pending_max) : pending_max_(pending_max) {}
  /// All requests must have been released (checked).
  ~PendingRequestPool();
  PendingRequestPool(const PendingRequestPool&) = delete;
  PendingRequestPool& operator=(const PendingRequestPool&) = delete;

  /// Null: `pending_max` requests are in use.
  [[nodiscard]] PendingRequest* acquire();
  /// Releases the lease and the pinned value. The reply token must have been used.
  void release(PendingRequest& pending);

  [[nodiscard]] size_t in_use_count() const { return in_use_count_; }

 private:
  const size_t pending_max_;
  std::vector<std::unique_ptr<PendingRequest>> all_;
  PendingRequest* free_ = nullptr;
  size_t in_use_count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_PENDING_REQUEST_H_
