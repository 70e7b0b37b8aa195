#include "kvstore/gateway/transaction_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"
#include "kvstore/gateway/redis_numbers.h"
#include "rpc/base/bytes.h"
#include "rpc/base/lease.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

using StoreKind = StoreRequest::Kind;
using StoreStatus = StoreResult::Status;

bool is_for_one_key(const StoreRequest& request) {
  return request.kind != StoreKind::kScan && request.kind != StoreKind::kBatch && request.kind != StoreKind::kCheck;
}

void add_condition(StoreRequest& request, uint64_t version) {
  if (version == 0) {
    request.if_absent = true;
  } else {
    request.if_version = version;
  }
}

}  // namespace

bool TransactionStore::needs(const StoreRequest& request) const {
  if (!is_for_one_key(request) || request.is_blind_put()) return false;
  const auto found = records_.find(request.key);
  return found == records_.end() || (!found->second.is_known && found->second.change == Change::kNone);
}

void TransactionStore::learn(std::string_view key, const StoreResult& got) {
  Record& record = records_.try_emplace(std::string(key)).first->second;
  if (record.is_known || record.change != Change::kNone) return;
  record.is_known = true;
  if (!got.ok()) return;
  record.cluster_version = record.version = got.version;
  set_value(record, std::string(got.value.bytes()));
  record.mark = got.mark;
  record.ttl_ms = got.ttl_ms;
}

StoreResult TransactionStore::run(const StoreRequest& request) {
  if (!is_for_one_key(request)) return {.status = StoreStatus::kRefused, .text = "not possible inside MULTI"};
  Record& record = records_.try_emplace(std::string(request.key)).first->second;
  if (record.change == Change::kNone && !request.is_blind_put()) record.is_used = true;
  if (request.if_absent && record.version != 0) return {.status = StoreStatus::kExists};
  if (request.if_present && record.version == 0) return {.status = StoreStatus::kNotFound};
  if (request.if_version.value_or(record.version) != record.version) return {.status = StoreStatus::kOtherVersion};
  return request.kind == StoreKind::kGet ? read(record) : write(request, record);
}

StoreResult TransactionStore::read(const Record& record) {
  if (record.version == 0) return {.status = StoreStatus::kNotFound};
  touched_bytes_ += record.value->size();
  return {.version = record.version,
          .mark = record.mark,
          .value = ValueView(*record.value, rpc::Lease()),
          .ttl_ms = record.ttl_ms};
}

StoreResult TransactionStore::write(const StoreRequest& request, Record& record) {
  const bool is_there = record.version != 0;
  switch (request.kind) {
    case StoreKind::kPut:
      set_value(record, std::string(request.value));
      record.mark = request.mark;
      if (request.keep_ttl) break;
      record.has_cluster_expiry = false;
      record.ttl_ms = request.ttl_ms > 0 ? std::optional(request.ttl_ms) : std::nullopt;
      break;
    case StoreKind::kAppend:
      if (record.mark.row) return {.status = StoreStatus::kRefused, .text = "the value is a hash"};
      set_value(record, is_there ? absl::StrCat(*record.value, absl_view(request.value)) : std::string(request.value));
      break;
    case StoreKind::kAdd: return add(request.delta, record);
    case StoreKind::kEdit: return edit(request, record);
    case StoreKind::kExpire:
      if (!is_there) return {.status = StoreStatus::kNotFound};
      record.has_cluster_expiry = false;
      record.ttl_ms = request.ttl_ms > 0 ? std::optional(request.ttl_ms) : std::nullopt;
      record.version = next_version_++;
      if (record.change == Change::kNone) record.change = Change::kExpiry;
      return {.version = record.version};
    case StoreKind::kRemove:
      if (!is_there) return {.status = StoreStatus::kNotFound};
      remove(record);
      return {};
    default: return {.status = StoreStatus::kRefused, .text = "not possible inside MULTI"};
  }
  record.change = Change::kValue;
  record.version = next_version_++;
  return {.version = record.version};
}

StoreResult TransactionStore::add(int64_t delta, Record& record) {
  const std::optional<int64_t> before = record.version != 0 ? parse_integer(*record.value) : std::optional<int64_t>(0);
  if (!before.has_value() || record.mark.row) return {.status = StoreStatus::kNotANumber};
  int64_t sum = 0;
  if (__builtin_add_overflow(*before, delta, &sum)) return {.status = StoreStatus::kOverflow};
  set_value(record, absl::StrCat(sum));
  record.change = Change::kValue;
  record.version = next_version_++;
  return {.version = record.version, .number = sum};
}

StoreResult TransactionStore::edit(const StoreRequest& request, Record& record) {
  const bool is_there = record.version != 0;
  if (!is_there && !request.creates) return {.status = StoreStatus::kNotFound};
  if (is_there && !record.mark.row) return {.status = StoreStatus::kNotARow};
  std::string row;
  StoreResult result;
  const ByteSpan before = is_there ? as_byte_span(*record.value) : ByteSpan{};
  touched_bytes_ += before.size();
  switch (edit_row(before, as_byte_span(request.value), row, result.fields)) {
    case Edited::kDone: break;
    case Edited::kUnchanged: return result;
    case Edited::kNotARow: return {.status = StoreStatus::kNotARow};
    case Edited::kMalformed: return {.status = StoreStatus::kRefused, .text = "the edit is malformed"};
    case Edited::kTooManyFields:
      return {.status = StoreStatus::kRefused, .text = "the hash would have more than 1024 fields"};
    case Edited::kTooLarge: return {.status = StoreStatus::kRefused, .text = "the hash would have more than 16 MiB"};
  }
  if (result.fields.left == 0) {
    remove(record);
    return result;
  }
  set_value(record, std::move(row));
  if (!is_there) record.mark = request.mark;
  record.change = Change::kValue;
  result.version = record.version = next_version_++;
  return result;
}

void TransactionStore::set_value(Record& record, std::string value) {
  if (record.value != nullptr) {
    value_bytes_ -= record.value->size();
    replaced_.push_back(std::move(record.value));
  }
  value_bytes_ += value.size();
  touched_bytes_ += value.size();
  record.value = std::make_shared<const std::string>(std::move(value));
}

void TransactionStore::remove(Record& record) {
  value_bytes_ -= record.value->size();
  replaced_.push_back(std::move(record.value));
  record.change = Change::kRemoved;
  record.version = 0;
  record.value = nullptr;
  record.mark = {};
  record.ttl_ms.reset();
  record.has_cluster_expiry = false;
}

// --- The batch

StoreRequest TransactionStore::change_of(std::string_view key, const Record& record) {
  switch (record.change) {
    case Change::kNone: break;
    case Change::kExpiry: return {.kind = StoreKind::kExpire, .key = key, .ttl_ms = record.ttl_ms.value_or(0)};
    case Change::kRemoved: return {.kind = StoreKind::kRemove, .key = key};
    case Change::kValue: {
      // The cluster knows the key's time to live better than we do: some milliseconds have passed since it was read.
      const bool keeps = record.has_cluster_expiry && record.cluster_version != 0;
      return {.kind = StoreKind::kPut,
              .key = key,
              .value = *record.value,
              .mark = record.mark,
              .ttl_ms = keeps ? 0 : record.ttl_ms.value_or(0),
              .keep_ttl = keeps};
    }
  }
  return {.kind = StoreKind::kCheck, .key = key};
}

std::vector<StoreRequest> TransactionStore::batch(const Transaction& transaction, uint32_t database) const {
  std::vector<StoreRequest> operations;
  for (const auto& [key, record] : records_) {
    std::optional<uint64_t> expected = transaction.watched_version(database, key);
    if (!expected.has_value() && record.is_used) expected = record.cluster_version;
    StoreRequest operation = change_of(key, record);
    // Made and removed by the transaction: nothing is left to do.
    if (operation.kind == StoreKind::kRemove && expected == 0U) operation.kind = StoreKind::kCheck;
    if (operation.kind == StoreKind::kCheck && !expected.has_value()) continue;
    if (expected.has_value()) add_condition(operation, *expected);
    operations.push_back(operation);
  }
  for (const WatchedKey& watched : transaction.watched()) {
    if (records_.contains(watched.key)) continue;
    StoreRequest check{.kind = StoreKind::kCheck, .key = watched.key};
    add_condition(check, watched.version);
    operations.push_back(check);
  }
  return operations;
}

}  // namespace skua::kv::gateway
