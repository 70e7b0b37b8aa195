// PUT, DELETE, PATCH, ADD, APPEND, EXPIRE and BATCH. Keys and values stay in the request's lease until the write is in
// the log and in memory.
#ifndef SKUA_KVSTORE_SERVICE_WRITE_SERVICE_H_
#define SKUA_KVSTORE_SERVICE_WRITE_SERVICE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/service/admission.h"
#include "kvstore/service/held_shards.h"
#include "kvstore/service/pending_request.h"
#include "kvstore/service/replies.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/types/mutation.h"
#include "rpc/endpoint.h"

namespace skua::kv {

/// Thread: the worker's.
class WriteService final : public RequestService {
 public:
  /// Both arguments outlive the service.
  WriteService(Admission& admission, Replies& replies) : admission_(admission), replies_(replies) {}

  /// OK, or why writes that make data grow are refused. Repetitions of writes that were executed are answered all the
  /// same.
  void set_growth(absl::Status growth) { growth_ = std::move(growth); }

  /// PUT, DELETE, PATCH, ADD, APPEND, EXPIRE: the call's method says which.
  void on_mutation(rpc::IncomingCall&& call);
  void on_batch(rpc::IncomingCall&& call);

  /// The shard has executed a write, or refused it.
  void write_done(WriteOp& op);
  void answer(PendingRequest& pending) override;
  void read_done(PendingRequest& pending) override;

 private:
  [[nodiscard]] PendingRequest* begin(rpc::IncomingCall& call, Method method, HeldShard& shard, const RequestId& id,
                                      bool grows);
  void start(PendingRequest& pending, const RequestId& id, Durability durability);
  [[nodiscard]] rpc::MessagePtr reply_to(PendingRequest& pending);

  Admission& admission_;
  Replies& replies_;
  absl::Status growth_;
  std::vector<std::byte> batch_reply_;  // where replies are encoded; keeps its memory
  std::vector<Mutation> ops_;  // of the batch that is being decoded; changes its memory with the pending request
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SERVICE_WRITE_SERVICE_H_
