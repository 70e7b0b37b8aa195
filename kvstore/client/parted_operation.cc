#include "kvstore/client/parted_operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/client_limits.h"
#include "kvstore/client/operation_runner.h"

namespace skua::kv {

absl::Status check_read_of_many(Method method, const ReadOptions& options) {
  if (options.memory_only && method != Method::kMultiGet) {
    return absl::InvalidArgumentError(absl::StrCat(method_name(method), " does not take memory_only"));
  }
  if (options.at_least.empty() && !options.with_ttl && !options.size_only && options.fields.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      method_name(method), " takes neither at_least nor with_ttl nor size_only nor fields; read the keys with GET"));
}

// --- One part

absl::StatusOr<CallOperation::Request> OperationPart::encode(const Route& route, HeadBuffer&) {
  return request_of(parent->encode_part(*this, route));
}

void OperationPart::on_reply(rpc::Lease&& lease) {
  if (absl::Status status = parent->take_reply(*this, std::move(lease)); !status.ok()) {
    runner->on_malformed(*this, status);
  }
}

void OperationPart::finish(Outcome&& outcome) {
  parent->fail_part(*this, std::move(outcome));
}

// --- All of it

void PartedOperation::start(const TableRoutes& table) {
  table_id_ = table.id;
  divide(table.placement());
  run();
}

void PartedOperation::run() {
  // A part may end inside the loop below and call this again. The loop then sees the new count of parts.
  if (std::exchange(starting_parts_, true)) return;
  bool more = true;
  while (more && parts_running_ < kPartsInFlightMax) more = start_part();
  starting_parts_ = false;
  if (parts_running_ > 0) return;
  finish(std::move(failure));
}

void PartedOperation::ask(uint32_t number, uint32_t of_shard, Features needed) {
  OperationPart& part = runner->pools().parts.take();
  part.parent = this;
  part.number = number;
  part.features = needed;
  run_part(part, method, of_shard);
}

void PartedOperation::run_part(CallOperation& part, Method of_part, uint32_t of_shard) {
  part.runner = runner;
  part.method = of_part;
  part.is_part = true;
  part.part_table = table_id_;
  part.set_table(table);
  part.started_ns = started_ns;
  part.deadline_ns = deadline_ns;
  part.shard = of_shard;
  part.shard_known = true;
  ++parts_running_;
  runner->dispatch(part);
}

void PartedOperation::fail_part(OperationPart& part, Outcome&& outcome) {
  note_failure(std::move(outcome));
  part_ended(part);
}

void PartedOperation::part_ended(CallOperation& part) {
  part.drop();
  --parts_running_;
  run();
}

}  // namespace skua::kv
