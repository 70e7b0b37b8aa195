// PartedOperation: an operation of several parts (MULTI_GET, SCAN). It starts parts while there is work left and fewer
// than kPartsInFlightMax are in flight. Each part runs like an operation of its own and reports here. The operation
// ends when its last part has ended.
#ifndef SKUA_KVSTORE_CLIENT_PARTED_OPERATION_H_
#define SKUA_KVSTORE_CLIENT_PARTED_OPERATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/operation.h"
#include "kvstore/codec/key_hash.h"
#include "kvstore/types/features.h"

namespace skua::kv {

/// INVALID_ARGUMENT: options are set that the method does not take: those of GET (at_least, with_ttl, size_only,
/// fields), and with SCAN memory_only. `method`: MULTI_GET or SCAN.
[[nodiscard]] absl::Status check_read_of_many(Method method, const ReadOptions& options);

class PartedOperation;

/// A part that asks one shard. Its parent says what is asked, and takes the answer.
class OperationPart final : public CallOperation {
 public:
  [[nodiscard]] absl::StatusOr<Request> encode(const Route& route, HeadBuffer& buffer) override;
  void on_reply(rpc::Lease&& reply) override;
  void finish(Outcome&& outcome) override;

  PartedOperation* parent = nullptr;
  uint32_t number = 0;  // the parent's, for what it asks
};

class PartedOperation : public Operation {
 public:
  /// The table's routes are known: starts parts. Called once.
  void start(const TableRoutes& table);

  // For the parts.

  /// The part's request, in the runner's scratch memory.
  [[nodiscard]] virtual absl::StatusOr<ByteSpan> encode_part(const OperationPart& part, const Route& route) = 0;
  /// Gives the part's reply to the runner's is_answer() and, if it is the answer, ends the part. INTERNAL: the reply is
  /// malformed. The part has not ended then; the caller fails the part.
  [[nodiscard]] virtual absl::Status take_reply(OperationPart& part, rpc::Lease&& lease) = 0;
  /// Ends the part.
  virtual void fail_part(OperationPart& part, Outcome&& outcome);

 protected:
  PartedOperation() { is_parted = true; }

  /// Divides the work.
  virtual void divide(const KeyPlacement& placement) = 0;
  /// Starts one part by ask() or run_part(). False: no work is left, or none that may start now.
  virtual bool start_part() = 0;

  /// Asks a shard. `needed`: what its node must know.
  void ask(uint32_t number, uint32_t of_shard, Features needed);
  /// `part` is fresh from its pool; its own fields are set.
  void run_part(CallOperation& part, Method of_part, uint32_t of_shard);
  /// The part has delivered what it was asked for, or its failure was noted.
  void part_ended(CallOperation& part);
  /// Keeps the first failure, with which the whole operation ends.
  void note_failure(Outcome&& outcome) {
    if (failure.ok()) failure = std::move(outcome);
  }

 private:
  void run();

  uint32_t table_id_ = 0;  // that the work was divided for
  uint32_t parts_running_ = 0;
  bool starting_parts_ = false;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_PARTED_OPERATION_H_
