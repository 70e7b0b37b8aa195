// PendingRequest: a request that outlives its handler, because it waits for a disk or a wire.
//
//                        mutations           GET that misses      SCAN MULTI_GET
//      handler ------> engine: write       engine: fetch       engine: is_applied
//        acquire()         |                   |                 reader pool
//                          v write_done        v fetch_done      v read_done() by the mailbox
//      worker  <----- answer, release()   answer, release()    answer, release()
//
// It keeps the request's lease (keys and values are views into it), the duty to answer, and the shard
// from being closed. It ends when it is answered: what the answer is made of lies elsewhere (reply_page.h, the memory
// tier). It is recycled with its buffers, so that steady state allocates nothing. The worker's thread owns it, except
// between the hand-over to the reader pool and the mailbox task that brings it back; readers touch only what is marked.
#ifndef SKUA_KVSTORE_SERVICE_PENDING_REQUEST_H_
#define SKUA_KVSTORE_SERVICE_PENDING_REQUEST_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/codec/methods.h"
#include "kvstore/codec/reply.h"
#include "kvstore/codec/request.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/pinned_value.h"
#include "rpc/endpoint.h"

namespace skua::kv {

class ShardServer;
struct HeldShard;

/// The reply to a MULTI_GET while it is put together: values in key order behind room for the head.
struct MultiGetPage {
  /// What is known of a key.
  struct Slot {
    MemoryTier::Lookup memory;
    PinnedValue from_disk;
  };

  std::vector<Slot> slots;
  std::vector<MultiGetEntry> entries;
  std::string bytes;
  absl::Status failure;

  /// Looks up each key in memory. False: a disk is needed, or the values are more than kMultiGetPollingBytesMax.
  bool look_up(WorkerEngine& engine, const EngineShard& shard, const KeyList& keys);
  /// Reads what memory does not have. False: see `failure`.
  bool read_missing(ShardDb& db, const KeyList& keys);
  /// Copies the values.
  void build(uint64_t now_ms);
  /// Keeps in memory what was read, and gives all values back.
  void let_go(WorkerEngine& engine, const EngineShard& shard, const KeyList& keys);
  /// Writes the head into its room; the whole reply.
  [[nodiscard]] ByteSpan finish(const ReplyHead& head);
  void trim();
};

/// See the head of this file.
class PendingRequest final : public ReadJob {
 public:
  explicit PendingRequest(ShardServer& owner);

  /// On a reader thread: does the MULTI_GET's or SCAN's read and goes back to the server.
  void run() override;

  ShardServer& server;
  PendingRequest* next = nullptr;  // in the pool's free list
  HeldShard* shard = nullptr;
  uint64_t epoch = 0;  // the shard's when the request came
  Method method = Method::kGet;
  rpc::Lease request;
  rpc::ReplyToken reply;

  WriteOp write;                // mutations
  std::vector<Mutation> batch;  // BATCH
  FetchOp fetch;                // GET
  bool wants_ttl = false;       // GET
  uint64_t now_ms = 0;          // MULTI_GET, SCAN: rows that have expired by then are absent
  AppliedWait applied;          // SCAN
  KeyList keys;                 // MULTI_GET
  ScanRequest scan;             // SCAN
  // Filled by a reader thread:
  absl::Status status;
  MultiGetPage multi_get;
  std::unique_ptr<ScanReplyBuilder> page;
  bool has_more = false;

 private:
  void run_scan();
};

/// Recycles pending requests. Thread: the worker's.
class PendingRequestPool {
 public:
  PendingRequestPool(ShardServer& server, size_t pending_max) : server_(server), pending_max_(pending_max) {}
  /// All must be back (checked).
  ~PendingRequestPool();
  PendingRequestPool(const PendingRequestPool&) = delete;
  PendingRequestPool& operator=(const PendingRequestPool&) = delete;

  /// Null at the bound.
  [[nodiscard]] PendingRequest* acquire();
  /// Gives back the lease and the pinned value; the reply token must have been used.
  void release(PendingRequest& pending);

  [[nodiscard]] size_t in_use_count() const { return in_use_count_; }

 private:
  ShardServer& server_;
  const size_t pending_max_;
  std::vector<std::unique_ptr<PendingRequest>> all_;
  PendingRequest* free_ = nullptr;
  size_t in_use_count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_PENDING_REQUEST_H_
