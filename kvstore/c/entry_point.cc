#include "kvstore/c/entry_point.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace skua::c {

skua_code code_of(const absl::Status& status) noexcept {
  const int code = status.raw_code();
  return code >= SKUA_OK && code <= SKUA_UNAUTHENTICATED ? static_cast<skua_code>(code) : SKUA_UNKNOWN;
}

skua_code fill(skua_error* error, const absl::Status& status) noexcept {
  const skua_code code = code_of(status);
  // Room for one character and the zero behind it.
  constexpr size_t kLeast = offsetof(skua_error, text) + 2;
  if (error == nullptr || error->size < kLeast) return code;
  error->code = code;
  const absl::string_view text = status.ok() || !status.message().empty() ? status.message() : skua_code_name(code);
  const size_t room = std::min<size_t>(error->size, sizeof(skua_error)) - offsetof(skua_error, text) - 1;
  const size_t length = std::min(room, text.size());
  if (length > 0) std::memcpy(error->text, text.data(), length);
  error->text[length] = '\0';
  return code;
}

absl::Status status_of(const std::system_error& error) noexcept {
  try {
    return absl::ResourceExhaustedError(error.what());
  } catch (...) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

absl::Status no_data(std::string_view name, skua_bytes bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat(absl::string_view(name.data(), name.size()), " has ", bytes.length, " bytes, but its data is NULL"));
}

absl::Status is_null(std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(name.data(), name.size()), " must not be NULL"));
}

}  // namespace skua::c

const char* skua_code_name(int code) {
  static constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  static_assert(std::size(kNames) == SKUA_UNAUTHENTICATED + 1);
  return kNames[code >= SKUA_OK && code <= SKUA_UNAUTHENTICATED ? code : SKUA_UNKNOWN];
}

const char* skua_version(void) {
  return SKUA_VERSION;
}
