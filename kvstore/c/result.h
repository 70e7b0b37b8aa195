// Results of the C library: what the client's results say, with views of the bytes, and the memory that the views point
// into.
//
//   lent      lives on the stack while a callback runs; its views point into received memory
//   owned     an OwnedResult: counts its references; its views point into memory of its own
#ifndef SKUA_KVSTORE_C_RESULT_H_
#define SKUA_KVSTORE_C_RESULT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "include/skua/skua.h"
#include "kvstore/client/client.h"
#include "kvstore/client/types.h"

namespace skua::c {

struct ResultEntry {
  skua_code code = SKUA_OK;
  std::string text;
  std::string_view key;
  std::string_view value;
  uint64_t version = 0;
  int64_t number = 0;
  kv::Token token;
};

/// The parts of an answer that few programs ask for.
struct ResultAnswer {
  uint64_t version = 0;
  kv::Token token;
  int64_t ttl_ms = -1;
};

/// Of a GET. `Result`: kv::GetResult, kv::ReadResult.
template <typename Result>
[[nodiscard]] ResultAnswer answer_of(const Result& get) noexcept {
  return {get.version, get.token, get.ttl.has_value() ? int64_t{get.ttl->count()} : -1};
}

/// What every result has. Numbers and views: making one costs next to nothing.
struct ResultFields {
  ResultFields() noexcept : answer() {}
  /// Of a GET that is OK, lent: reads `from` when it is asked, and points into it.
  explicit ResultFields(const kv::GetResult& from) noexcept : reads_get(true), value(from.value.bytes()), get(&from) {}

  [[nodiscard]] ResultAnswer full_answer() const noexcept { return reads_get ? answer_of(*get) : answer; }

  skua_code code = SKUA_OK;
  skua_outcome outcome = SKUA_ANSWERED;
  bool may_have_been_applied = false;
  bool repeated = false;
  bool has_more = false;
  bool reads_get = false;
  skua_durability durability = SKUA_DURABILITY_DEFAULT;
  std::string_view value;
  int64_t number = 0;
  union {
    ResultAnswer answer;
    const kv::GetResult* get;  // if reads_get
  };
};

/// The further parts of failures and of results of several keys.
struct ResultDetails {
  std::string text;
  std::vector<ResultEntry> entries;
  std::string next_start;
};

}  // namespace skua::c

struct skua_result : skua::c::ResultFields {
  /// Null: no text, no entries. A GET or a write that succeeded needs no memory for its result.
  std::unique_ptr<skua::c::ResultDetails> details;
  std::atomic<uint32_t> references{1};
  bool is_lent = false;

  skua_result() = default;
  /// Of a GET that is OK, lent.
  explicit skua_result(const skua::kv::GetResult& from) noexcept : ResultFields(from), is_lent(true) {}

  [[nodiscard]] skua::c::ResultDetails& make_details() {
    if (details == nullptr) details = std::make_unique<skua::c::ResultDetails>();
    return *details;
  }
};

namespace skua::c {

/// A result that owns what its views point into: bytes that were copied, or what a blocking client returned.
struct OwnedResult : skua_result {
  std::string bytes;
  std::vector<kv::OwnedRow> rows;
  std::vector<kv::ReadResult> reads;
};

template <typename Result>
inline constexpr bool kIsWrite = std::is_base_of_v<kv::WriteResult, Result>;

// Fill a result with what the client says. Views point into `from`, if `to` does not own memory.
void take(const kv::WriteResult& from, skua_result& to);
void take(const kv::BatchResult& from, skua_result& to);
void take(const kv::GetResult& from, skua_result& to);
void take(kv::ReadResult&& from, OwnedResult& to);
void take(const kv::MultiGetResult& from, skua_result& to);
void take(std::vector<kv::ReadResult>&& from, OwnedResult& to);
void take(const kv::ScanResult& from, skua_result& to);
void take(kv::RowsResult&& from, OwnedResult& to);

/// Fills a result with an operation that was refused before it began.
void refuse(const absl::Status& status, skua_result& to);

/// Fills the result of an operation whose result found no memory. `is_write`: the operation may have taken effect.
void tell_no_memory(bool is_write, skua_result& to) noexcept;

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_RESULT_H_
