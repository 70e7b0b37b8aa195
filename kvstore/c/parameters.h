// Parameter structs of the C library, read. Each begins with its size, which tells the version of the header that its
// program was compiled with: a smaller struct lacks fields, which have their defaults then; a larger one has fields
// that this library does not know, which must be zero.
#ifndef SKUA_KVSTORE_C_PARAMETERS_H_
#define SKUA_KVSTORE_C_PARAMETERS_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "include/skua/skua.h"
#include "kvstore/client/batch.h"
#include "kvstore/client/types.h"

namespace skua::c {

// Each writes to `to` what `given` says, or the defaults if `given` is null. INVALID_ARGUMENT names the wrong
// parameter. Views in `to` point to what views in `given` point to.

/// `names` gets the names of fields that `to` points to.
[[nodiscard]] absl::Status read(const skua_read_options* given, kv::ReadOptions& to,
                                std::vector<std::string_view>& names);
/// `Options`: kv::WriteOptions, kv::BatchOpOptions or kv::BatchOptions.
template <typename Options>
[[nodiscard]] absl::Status read(const skua_write_options* given, Options& to);
[[nodiscard]] absl::Status read(const skua_scan_range* given, kv::ScanRange& to);

/// INVALID_ARGUMENT: an array that is null and not empty, or bytes that are.
[[nodiscard]] absl::Status read(const skua_bytes* given, size_t count, std::vector<std::string_view>& to);
[[nodiscard]] absl::Status read(const skua_field* given, size_t count, std::vector<kv::FieldUpdate>& to);

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_PARAMETERS_H_
