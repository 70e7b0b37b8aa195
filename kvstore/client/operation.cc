#include "kvstore/client/operation.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv {
namespace {

// A recycled operation keeps its buffers for its next use. Larger buffers than this are freed.
constexpr size_t kKeptBytesMax = 64 * 1024;

void clear_keeping_some(std::string& bytes) {
  bytes.clear();
  if (bytes.capacity() > kKeptBytesMax) bytes.shrink_to_fit();
}

}  // namespace

absl::Status check_read_of_many(Method method, const ReadOptions& options) {
  if (options.at_least.empty() && !options.with_ttl) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(method_name(method), " takes neither at_least nor with_ttl; read the keys with GET"));
}

Operation& OperationPool::take() {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Operation>());
    all_.back()->pool = this;
    free_.push_back(all_.back().get());
  }
  Operation& operation = *free_.back();
  free_.pop_back();
  operation.uses = 1;
  ++in_use_;
  return operation;
}

void OperationPool::drop(Operation& operation) {
  if (--operation.uses == 0) operation.pool->recycle(operation);
}

void OperationPool::recycle(Operation& operation) {
  operation.state = Operation::State::kFree;
  if (operation.is_write()) {
    operation.value = PutValue();
    clear_keeping_some(operation.payload);
    operation.condition = {};
    operation.create_if_missing = false;
    operation.uncertain = false;
    operation.durability = Durability::kDefault;
    operation.ttl_ms = 0;
    operation.delta = 0;
    if (operation.batch != nullptr) operation.batch->ops.clear();
  }
  operation.wants_ttl = false;
  operation.at_least = {};
  operation.attempt = 0;
  operation.shard_known = false;
  operation.target = kNoTarget;
  operation.session = {};
  operation.moved = false;
  operation.spreads = operation.at_backup = operation.to_primary = false;
  if (operation.failed_attempts > 0) {
    operation.trail.clear();
    operation.failed_attempts = 0;
  }
  if (!operation.failure.ok()) operation.failure = Outcome();
  operation.parent = nullptr;
  operation.alone = false;
  free_.push_back(&operation);
  --in_use_;
}

void OperationPool::set_value(Operation& operation, PutValue&& value) {
  const bool is_view = !value.owned_.has_value() && value.release_ == nullptr;
  if (is_view) {
    operation.payload.assign(value.bytes());
  } else {
    operation.value = std::move(value);
  }
}

}  // namespace skua::kv
