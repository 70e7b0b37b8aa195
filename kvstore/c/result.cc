#include "kvstore/c/result.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "kvstore/c/entry_point.h"
#include "kvstore/codec/row.h"
#include "rpc/base/bytes.h"
#include "rpc/base/status.h"

namespace skua::c {
namespace {

/// The store's answer, as types.h says. With a detail, or in doubt, the store has not answered. Of a failure.
bool is_answer(const kv::Outcome& outcome) {
  if (outcome.detail != nullptr || outcome.may_have_been_applied) return false;
  switch (outcome.status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange: return true;
    default: return false;
  }
}

void take_status(const absl::Status& status, skua_code& code, std::string& text) {
  code = code_of(status);
  if (!status.ok()) text.assign(std_view(status.message()));
}

void take_failure(const kv::Outcome& from, skua_result& to) {
  take_status(from.status, to.code, to.make_details().text);
  to.may_have_been_applied = from.may_have_been_applied;
  to.outcome = is_answer(from) ? SKUA_ANSWERED : from.may_have_been_applied ? SKUA_IN_DOUBT : SKUA_NOT_DONE;
}

/// `to` is new: it says that all went well.
void take_outcome(const kv::Outcome& from, skua_result& to) {
  if (!from.ok()) take_failure(from, to);
  to.answer.version = from.version;
  to.answer.token = from.token;
}

std::vector<ResultEntry>& make_entries(size_t count, skua_result& to) {
  to.make_details().entries.resize(count);
  return to.details->entries;
}

template <typename Reads>
void take_entries(const Reads& reads, skua_result& to) {
  std::vector<ResultEntry>& entries = make_entries(reads.size(), to);
  for (size_t i = 0; i < reads.size(); ++i) {
    take_status(reads[i].status, entries[i].code, entries[i].text);
    entries[i].value = reads[i].value;
    entries[i].version = reads[i].version;
    entries[i].token = reads[i].token;
  }
}

/// `rows`: those of `from`, wherever they are now.
template <typename Rows, typename Scan>
void take_scan(const Scan& from, const Rows& rows, skua_result& to) {
  take_outcome(from, to);
  to.has_more = from.has_more;
  std::vector<ResultEntry>& entries = make_entries(rows.size(), to);
  for (size_t i = 0; i < rows.size(); ++i) {
    entries[i].key = rows[i].key;
    entries[i].value = rows[i].value;
    entries[i].version = rows[i].version;
  }
  to.details->next_start = from.next_start;
}

std::span<ResultEntry> entries_of(skua_result& result) {
  return result.details == nullptr ? std::span<ResultEntry>() : result.details->entries;
}

/// Moves what the views point to into `bytes` of the same result.
void copy_bytes(OwnedResult& result) {
  size_t total = result.value.size();
  for (const ResultEntry& entry : entries_of(result)) total += entry.key.size() + entry.value.size();
  result.bytes.reserve(total);
  const auto copy = [&result](std::string_view& view) {
    const size_t begin = result.bytes.size();
    result.bytes.append(view);
    view = std::string_view(result.bytes).substr(begin);
  };
  copy(result.value);
  for (ResultEntry& entry : entries_of(result)) {
    copy(entry.key);
    copy(entry.value);
  }
}

skua_token token_of(const kv::Token& token) {
  return {token.table_id, token.shard, token.epoch, token.index};
}

}  // namespace

void take(const kv::WriteResult& from, skua_result& to) {
  take_outcome(from, to);
  to.durability = static_cast<skua_durability>(from.durability);
  to.number = from.value;
  to.repeated = from.repeated;
}

void take(const kv::BatchResult& from, skua_result& to) {
  take(static_cast<const kv::WriteResult&>(from), to);
  std::vector<ResultEntry>& entries = make_entries(from.ops.size(), to);
  for (size_t i = 0; i < from.ops.size(); ++i) {
    take_status(from.ops[i].status, entries[i].code, entries[i].text);
    entries[i].version = from.ops[i].version;
    entries[i].number = from.ops[i].value;
  }
}

void take(const kv::GetResult& from, skua_result& to) {
  take_outcome(from, to);
  to.value = from.value.bytes();
  to.answer = answer_of(from);
}

void take(kv::ReadResult&& from, OwnedResult& to) {
  take_outcome(from, to);
  to.answer = answer_of(from);
  to.bytes = std::move(from.value);
  to.value = to.bytes;
}

void take(const kv::MultiGetResult& from, skua_result& to) {
  take_outcome(from, to);
  take_entries(from.entries, to);
}

void take(std::vector<kv::ReadResult>&& from, OwnedResult& to) {
  to.reads = std::move(from);
  const auto failed = std::ranges::find_if(to.reads, [](const kv::ReadResult& read) {
    return !read.ok() && read.status.code() != absl::StatusCode::kNotFound;
  });
  if (failed != to.reads.end()) take_failure(*failed, to);
  take_entries(to.reads, to);
}

void take(const kv::ScanResult& from, skua_result& to) {
  take_scan(from, from.rows, to);
}

void take(kv::RowsResult&& from, OwnedResult& to) {
  to.rows = std::move(from.rows);
  take_scan(from, to.rows, to);
}

void refuse(const absl::Status& status, skua_result& to) {
  take_status(status, to.code, to.make_details().text);
  to.outcome = SKUA_NOT_DONE;
}

void tell_no_memory(bool is_write, skua_result& to) noexcept {
  static_cast<ResultFields&>(to) = ResultFields();
  to.details.reset();
  to.code = SKUA_RESOURCE_EXHAUSTED;
  to.may_have_been_applied = is_write;
  to.outcome = is_write ? SKUA_IN_DOUBT : SKUA_NOT_DONE;
}

}  // namespace skua::c

using skua::c::bytes_of;
using skua::c::ResultEntry;

skua_result* skua_result_keep(const skua_result* result) {
  if (result == nullptr) return nullptr;
  if (!result->is_lent) {
    skua_result* const same = const_cast<skua_result*>(result);
    same->references.fetch_add(1, std::memory_order_relaxed);
    return same;
  }
  skua_result* kept = nullptr;
  const absl::Status status = skua::c::without_exceptions([&] {
    auto copy = std::make_unique<skua::c::OwnedResult>();
    static_cast<skua::c::ResultFields&>(*copy) = *result;
    copy->answer = result->full_answer();
    copy->reads_get = false;
    if (result->details != nullptr) copy->make_details() = *result->details;
    skua::c::copy_bytes(*copy);
    kept = copy.release();
    return absl::OkStatus();
  });
  return status.ok() ? kept : nullptr;
}

void skua_result_release(skua_result* result) {
  if (result == nullptr || result->is_lent) return;
  if (result->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete static_cast<skua::c::OwnedResult*>(result);
}

skua_code skua_result_code(const skua_result* result) {
  return result == nullptr ? SKUA_INVALID_ARGUMENT : result->code;
}

const char* skua_result_text(const skua_result* result) {
  if (result == nullptr) return "the result is NULL";
  return result->details == nullptr ? "" : result->details->text.c_str();
}

skua_outcome skua_result_outcome(const skua_result* result) {
  return result == nullptr ? SKUA_NOT_DONE : result->outcome;
}

bool skua_may_have_been_applied(const skua_result* result) {
  return result != nullptr && result->may_have_been_applied;
}

uint64_t skua_result_version(const skua_result* result) {
  return result == nullptr ? 0 : result->full_answer().version;
}

skua_token skua_result_token(const skua_result* result) {
  return result == nullptr ? skua_token{0, 0, 0, 0} : skua::c::token_of(result->full_answer().token);
}

bool skua_row_next(skua_bytes* row, skua_field* field) {
  if (row == nullptr || field == nullptr || skua::c::lacks_data(*row)) return false;
  const std::string_view bytes = skua::c::view_of(*row);
  const std::optional<skua::kv::Field> next = skua::kv::RowReader(skua::as_byte_span(bytes)).next();
  if (!next.has_value()) return false;
  *field = {bytes_of(next->name), bytes_of(skua::as_string_view(next->value))};
  *row = bytes_of(bytes.substr(skua::kv::field_bytes(*next)));
  return true;
}

skua_bytes skua_result_value(const skua_result* result) {
  return result == nullptr ? skua_bytes{nullptr, 0} : bytes_of(result->value);
}

int64_t skua_result_ttl_ms(const skua_result* result) {
  return result == nullptr ? -1 : result->full_answer().ttl_ms;
}

int64_t skua_result_number(const skua_result* result) {
  return result == nullptr ? 0 : result->number;
}

skua_durability skua_result_durability(const skua_result* result) {
  return result == nullptr ? SKUA_DURABILITY_DEFAULT : result->durability;
}

bool skua_result_repeated(const skua_result* result) {
  return result != nullptr && result->repeated;
}

size_t skua_result_entry_count(const skua_result* result) {
  return result == nullptr || result->details == nullptr ? 0 : result->details->entries.size();
}

bool skua_result_entry(const skua_result* result, size_t position, skua_entry* entry) {
  // A later version has fields behind these, and fills them if the caller's struct has them.
  if (entry == nullptr || entry->size < sizeof(skua_entry)) return false;
  if (position >= skua_result_entry_count(result)) return false;
  const ResultEntry& from = result->details->entries[position];
  entry->code = from.code;
  entry->text = from.text.c_str();
  entry->key = bytes_of(from.key);
  entry->value = bytes_of(from.value);
  entry->version = from.version;
  entry->number = from.number;
  entry->token = skua::c::token_of(from.token);
  return true;
}

bool skua_result_has_more(const skua_result* result) {
  return result != nullptr && result->has_more;
}

skua_bytes skua_result_next_start(const skua_result* result) {
  return result == nullptr || result->details == nullptr ? skua_bytes{nullptr, 0}
                                                         : bytes_of(result->details->next_start);
}
