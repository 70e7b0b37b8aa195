#include "kvstore/c/parameters.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kvstore/c/entry_point.h"
#include "rpc/base/status.h"

namespace skua::c {
namespace {

/// The size of each struct in the first version of the header. It never changes, also when fields are added.
constexpr uint32_t kStructLeast = 40;

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
absl::Status read_struct(std::string_view name, const Struct* given, Struct& to) {
  static_assert(kStructLeast <= sizeof(Struct));
  if (given == nullptr) return absl::OkStatus();
  const uint32_t size = given->size;
  if (size < kStructLeast || size > 4096) {
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

}  // namespace

absl::Status read(const skua_read_options* given, kv::ReadOptions& to, std::vector<std::string_view>& names) {
  skua_read_options from = SKUA_READ_OPTIONS_INIT;
  absl::Status status = read_struct("skua_read_options", given, from);
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

template <typename Options>
absl::Status read(const skua_write_options* given, Options& to) {
  skua_write_options from = SKUA_WRITE_OPTIONS_INIT;
  absl::Status status = read_struct("skua_write_options", given, from);
  if (!status.ok()) return status;
  if (from.durability > SKUA_DURABILITY_SYNC) {
    return absl::InvalidArgumentError("skua_write_options.durability is none of SKUA_DURABILITY_...");
  }
  // Of a single write, and of an operation of a batch.
  if constexpr (!std::is_same_v<Options, kv::BatchOptions>) {
    if (from.has_if_version != 0) to.if_version = from.if_version;
    to.if_absent = from.if_absent != 0;
    to.if_present = from.if_present != 0;
    to.keep_ttl = from.keep_ttl != 0;
    to.ttl = std::chrono::nanoseconds(from.ttl_ns);
  }
  // Of a single write, and of a whole batch.
  if constexpr (!std::is_same_v<Options, kv::BatchOpOptions>) {
    to.timeout = std::chrono::nanoseconds(from.timeout_ns);
    to.durability = static_cast<kv::Durability>(from.durability);
  }
  return status;
}
template absl::Status read(const skua_write_options* given, kv::WriteOptions& to);
template absl::Status read(const skua_write_options* given, kv::BatchOpOptions& to);
template absl::Status read(const skua_write_options* given, kv::BatchOptions& to);

absl::Status read(const skua_scan_range* given, kv::ScanRange& to) {
  skua_scan_range from = SKUA_SCAN_RANGE_INIT;
  absl::Status status = read_struct("skua_scan_range", given, from);
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
