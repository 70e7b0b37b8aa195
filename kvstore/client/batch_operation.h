// BATCH: Batch encodes the operations, and the client sends these bytes unchanged. All keys must be in one shard.
#ifndef SKUA_KVSTORE_CLIENT_BATCH_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_BATCH_OPERATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/client/client_calls.h"
#include "kvstore/client/operation.h"
#include "kvstore/codec/batch.h"
#include "kvstore/codec/key_hash.h"

namespace skua::kv {

class BatchOperation final : public NumberedOperation {
 public:
  /// INVALID_ARGUMENT: the batch has no operations. Else the batch's status.
  [[nodiscard]] absl::Status accept(const BatchCall& call, BatchCallback&& callback);

  /// Sets the shard, the one of all keys. INVALID_ARGUMENT: the keys are in different shards.
  [[nodiscard]] absl::Status place(const KeyPlacement& placement);
  [[nodiscard]] absl::StatusOr<Request> encode(const Route& route, HeadBuffer& buffer) override;
  void on_reply(rpc::Lease&& reply) override;
  void finish(Outcome&& outcome) override;

 protected:
  void reset() override;

 private:
  void read_entries(BatchReply& reply, BatchResult& result) const;

  BatchOpsBuilder ops_;
  Durability durability_ = Durability::kDefault;
  BatchCallback done_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_BATCH_OPERATION_H_
