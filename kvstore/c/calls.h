// Operations of the C library, whichever kind of client carries them out. Each function here returns a maker of a call:
// maker(run) checks the parameters, makes them a call of kvstore/client/client_calls.h, and returns run(call), which is
// a status. What the parameters point to is read then.
#ifndef SKUA_KVSTORE_C_CALLS_H_
#define SKUA_KVSTORE_C_CALLS_H_

#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "include/skua/skua.h"
#include "kvstore/c/batch.h"
#include "kvstore/c/entry_point.h"
#include "kvstore/c/parameters.h"
#include "kvstore/client/client_calls.h"

namespace skua::c {

inline absl::Status check_place(const char* table, skua_bytes key) {
  absl::Status status = check_not_null("table", table);
  return status.ok() ? check_bytes("key", key) : status;
}

/// `Call`: kv::GetCall or kv::PlainGetCall.
template <typename Call>
auto get_call(const char* table, skua_bytes key, const skua_read_options* given) {
  return [=](auto&& run) -> absl::Status {
    // Few instructions: the options are read in place, and there is no status before the call's.
    if (table == nullptr || lacks_data(key)) [[unlikely]] {
      return check_place(table, key);
    }
    Call call{table, view_of(key), {}};
    if (given == nullptr) return run(call);
    std::vector<std::string_view> names;
    absl::Status status = read(given, call.options, names);
    return status.ok() ? run(call) : status;
  };
}

/// What a write takes beside its key and its options.
struct WriteArguments {
  skua_bytes value = {nullptr, 0};
  int64_t delta = 0;
  int64_t ttl_ns = 0;  ///< EXPIRE
};

/// PUT, DELETE, ADD, APPEND, EXPIRE.
template <kv::Method kMethod>
auto write_call(const char* table, skua_bytes key, const WriteArguments& arguments, const skua_write_options* given) {
  return [=](auto&& run) -> absl::Status {
    kv::WriteCall call{.method = kMethod, .table = {}, .key = view_of(key), .options = {}};
    absl::Status status = check_place(table, key);
    if (status.ok()) status = check_bytes("value", arguments.value);
    if (status.ok()) status = read(given, call.options);
    if (!status.ok()) return status;
    call.table = table;
    call.value = view_of(arguments.value);
    call.delta = arguments.delta;
    if (kMethod == kv::Method::kExpire) call.options.ttl = std::chrono::nanoseconds(arguments.ttl_ns);
    return run(std::move(call));
  };
}

struct PatchArguments {
  const skua_field* fields = nullptr;
  size_t field_count = 0;
  bool create_if_missing = false;
};

inline auto patch_call(const char* table, skua_bytes key, const PatchArguments& arguments,
                       const skua_write_options* given) {
  return [=](auto&& run) -> absl::Status {
    std::vector<kv::FieldUpdate> fields;
    kv::WriteCall call{.method = kv::Method::kPatch, .table = {}, .key = view_of(key), .options = {}};
    absl::Status status = check_place(table, key);
    if (status.ok()) status = read(arguments.fields, arguments.field_count, fields);
    if (status.ok()) status = read(given, call.options);
    if (!status.ok()) return status;
    const kv::WriteOptions& options = call.options;
    if (options.if_absent || options.if_present || options.keep_ttl || options.ttl.count() != 0) {
      return absl::InvalidArgumentError("a patch takes none of if_absent, if_present, keep_ttl and ttl_ns");
    }
    call.table = table;
    call.fields = fields;
    call.create_if_missing = arguments.create_if_missing;
    return run(std::move(call));
  };
}

inline auto multi_get_call(const char* table, const skua_bytes* keys, size_t key_count,
                           const skua_read_options* given) {
  return [=](auto&& run) -> absl::Status {
    std::vector<std::string_view> views;
    std::vector<std::string_view> names;
    kv::ReadOptions options;
    absl::Status status = check_not_null("table", table);
    if (status.ok() && key_count == 0) status = absl::InvalidArgumentError("a multi_get takes at least one key");
    if (status.ok()) status = read(keys, key_count, views);
    if (status.ok()) status = read(given, options, names);
    return status.ok() ? run(kv::MultiGetCall{table, views, options}) : status;
  };
}

inline auto scan_call(const char* table, const skua_scan_range* given_range, const skua_read_options* given) {
  return [=](auto&& run) -> absl::Status {
    kv::ScanRange range;
    kv::ReadOptions options;
    std::vector<std::string_view> names;
    absl::Status status = check_not_null("table", table);
    if (status.ok()) status = read(given_range, range);
    if (status.ok()) status = read(given, options, names);
    return status.ok() ? run(kv::ScanCall{table, range, options}) : status;
  };
}

inline auto batch_call(const char* table, const skua_batch* batch, const skua_write_options* given) {
  return [=](auto&& run) -> absl::Status {
    kv::BatchOptions options;
    absl::Status status = check_not_null("table", table);
    if (status.ok()) status = check_not_null("batch", batch);
    if (status.ok()) status = batch->status();
    if (status.ok()) status = read(given, options);
    return status.ok() ? run(kv::BatchCall{table, batch->batch, options}) : status;
  };
}

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_CALLS_H_
