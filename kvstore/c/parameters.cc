#include "kvstore/c/parameters.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kvstore/c/entry_point.h"
#include "rpc/base/status.h"

namespace skua::c {
namespace {

// The structs' sizes in the first version of the header. They never change, also when fields are added.
constexpr uint32_t kReadOptionsLeast = 40;
constexpr uint32_t kWriteOptionsLeast = 40;
constexpr uint32_t kScanRangeLeast = 40;
static_assert(kReadOptionsLeast <= sizeof(skua_read_options));
static_assert(kWriteOptionsLeast <= sizeof(skua_write_options));
static_assert(kScanRangeLeast <= sizeof(skua_scan_range));

/// skua_no_value()
bool is_no_value(const skua_bytes& value) {
  return value.data == nullptr && value.length == SIZE_MAX;
}

/// `list` and `item`: what messages call them.
absl::Status read_list(const char* list, const char* item, const skua_bytes* given, size_t count,
                       std::vector<std::string_view>& to) {
  absl::Status status = count == 0 ? absl::OkStatus() : check_not_null(list, given);
  for (size_t i = 0; status.ok() && i < count; ++i) {
    status = check_bytes(item, given[i]);
    if (status.ok()) to.push_back(view_of(given[i]));
  }
  return status;
}

/// `to` has the defaults, and gets what `given` has of it.
template <typename Struct>
absl::Status read_struct(std::string_view name, const Struct* given, uint32_t size_least, Struct& to) {
  if (given == nullptr) return absl::OkStatus();
  const uint32_t size = given->size;
  if (size < size_least || size > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl_view(name), ".size is ", size, ": make the struct with its ..._INIT of skua.h"));
  }
  const char* const bytes = reinterpret_cast<const char*>(given);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      return absl::UnimplementedError(absl::StrCat(
          absl_view(name), " asks for what this library does not know: the program was compiled for a newer one"));
    }
  }
  std::memcpy(&to, given, std::min<size_t>(size, sizeof(Struct)));
  return absl::OkStatus();
}

absl::Status read_write_options(const skua_write_options* given, skua_write_options& to) {
  absl::Status status = read_struct("skua_write_options", given, kWriteOptionsLeast, to);
  if (!status.ok()) return status;
  if (to.durability > SKUA_DURABILITY_SYNC) {
    return absl::InvalidArgumentError("skua_write_options.durability is none of SKUA_DURABILITY_...");
  }
  return absl::OkStatus();
}

template <typename Options>
void take_conditions(const skua_write_options& from, Options& to) {
  if (from.has_if_version != 0) to.if_version = from.if_version;
  to.if_absent = from.if_absent != 0;
  to.if_present = from.if_present != 0;
  to.keep_ttl = from.keep_ttl != 0;
  to.ttl = std::chrono::nanoseconds(from.ttl_ns);
}

template <typename Options>
void take_call(const skua_write_options& from, Options& to) {
  to.timeout = std::chrono::nanoseconds(from.timeout_ns);
  to.durability = static_cast<kv::Durability>(from.durability);
}

}  // namespace

absl::Status read(const skua_read_options* given, kv::ReadOptions& to, std::vector<std::string_view>& names) {
  skua_read_options from = SKUA_READ_OPTIONS_INIT;
  absl::Status status = read_struct("skua_read_options", given, kReadOptionsLeast, from);
  if (!status.ok()) return status;
  to.timeout = std::chrono::nanoseconds(from.timeout_ns);
  to.with_ttl = from.with_ttl != 0;
  to.at_least = {.table_id = from.at_least.table_id,
                 .shard = from.at_least.shard,
                 .epoch = from.at_least.epoch,
                 .index = from.at_least.index};
  if (from.field_count > 0) status = read_list("fields", "a field's name", from.fields, from.field_count, names);
  to.fields = names;
  return status;
}

absl::Status read(const skua_write_options* given, kv::WriteOptions& to) {
  skua_write_options from = SKUA_WRITE_OPTIONS_INIT;
  absl::Status status = read_write_options(given, from);
  if (!status.ok()) return status;
  take_conditions(from, to);
  take_call(from, to);
  return status;
}

absl::Status read(const skua_write_options* given, kv::BatchOpOptions& to) {
  skua_write_options from = SKUA_WRITE_OPTIONS_INIT;
  absl::Status status = read_write_options(given, from);
  if (status.ok()) take_conditions(from, to);
  return status;
}

absl::Status read(const skua_write_options* given, kv::BatchOptions& to) {
  skua_write_options from = SKUA_WRITE_OPTIONS_INIT;
  absl::Status status = read_write_options(given, from);
  if (status.ok()) take_call(from, to);
  return status;
}

absl::Status read(const skua_write_options* given, kv::PatchOptions& to) {
  skua_write_options from = SKUA_WRITE_OPTIONS_INIT;
  absl::Status status = read_write_options(given, from);
  if (!status.ok()) return status;
  if (from.if_absent != 0 || from.if_present != 0 || from.keep_ttl != 0 || from.ttl_ns != 0) {
    return absl::InvalidArgumentError("a patch takes none of if_absent, if_present, keep_ttl and ttl_ns");
  }
  if (from.has_if_version != 0) to.if_version = from.if_version;
  take_call(from, to);
  return status;
}

absl::Status read(const skua_scan_range* given, kv::ScanRange& to) {
  skua_scan_range from = SKUA_SCAN_RANGE_INIT;
  absl::Status status = read_struct("skua_scan_range", given, kScanRangeLeast, from);
  if (status.ok()) status = check_bytes("skua_scan_range.start", from.start);
  if (status.ok()) status = check_bytes("skua_scan_range.end", from.end);
  if (!status.ok()) return status;
  to = {.start = view_of(from.start), .end = view_of(from.end), .limit = from.limit};
  return status;
}

absl::Status read(const skua_bytes* given, size_t count, std::vector<std::string_view>& to) {
  return read_list("keys", "a key", given, count, to);
}

absl::Status read(const skua_field* given, size_t count, std::vector<kv::FieldUpdate>& to) {
  absl::Status status = count == 0 ? absl::OkStatus() : check_not_null("fields", given);
  for (size_t i = 0; status.ok() && i < count; ++i) {
    status = check_bytes("a field's name", given[i].name);
    const bool remove = is_no_value(given[i].value);
    if (status.ok() && !remove) status = check_bytes("a field's value", given[i].value);
    if (!status.ok()) break;
    to.push_back({.name = view_of(given[i].name), .value = remove ? "" : view_of(given[i].value), .remove = remove});
  }
  return status;
}

}  // namespace skua::c
