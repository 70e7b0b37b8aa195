#include "kvstore/c/entry_point.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

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
  switch (code) {
    case SKUA_OK: return "OK";
    case SKUA_CANCELLED: return "CANCELLED";
    case SKUA_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case SKUA_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case SKUA_NOT_FOUND: return "NOT_FOUND";
    case SKUA_ALREADY_EXISTS: return "ALREADY_EXISTS";
    case SKUA_PERMISSION_DENIED: return "PERMISSION_DENIED";
    case SKUA_RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case SKUA_FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case SKUA_ABORTED: return "ABORTED";
    case SKUA_OUT_OF_RANGE: return "OUT_OF_RANGE";
    case SKUA_UNIMPLEMENTED: return "UNIMPLEMENTED";
    case SKUA_INTERNAL: return "INTERNAL";
    case SKUA_UNAVAILABLE: return "UNAVAILABLE";
    case SKUA_DATA_LOSS: return "DATA_LOSS";
    case SKUA_UNAUTHENTICATED: return "UNAUTHENTICATED";
    default: return "UNKNOWN";
  }
}

const char* skua_version(void) {
  return SKUA_VERSION;
}
