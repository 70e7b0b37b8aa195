// What all functions of the C library have in common: no exception leaves them, and what failed is told in a
// skua_error.
#ifndef SKUA_KVSTORE_C_ENTRY_POINT_H_
#define SKUA_KVSTORE_C_ENTRY_POINT_H_

#include <exception>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "include/skua/skua.h"

namespace skua::c {

/// Fills `error`, unless it is null or too small for a text, and returns the status's code. OK leaves an empty text.
skua_code fill(skua_error* error, const absl::Status& status) noexcept;
/// The same. Without a call for the most frequent case.
inline skua_code report(skua_error* error, const absl::Status& status) noexcept {
  return error == nullptr && status.ok() ? SKUA_OK : fill(error, status);
}

[[nodiscard]] skua_code code_of(const absl::Status& status) noexcept;

// INVALID_ARGUMENT, naming the argument.
[[nodiscard]] absl::Status no_data(std::string_view name, skua_bytes bytes);
[[nodiscard]] absl::Status is_null(std::string_view name);

[[nodiscard]] inline bool lacks_data(skua_bytes bytes) noexcept {
  return bytes.data == nullptr && bytes.length != 0;
}
/// OK, or INVALID_ARGUMENT naming the argument: `bytes` has a length and no data.
[[nodiscard]] inline absl::Status check_bytes(std::string_view name, skua_bytes bytes) {
  return lacks_data(bytes) ? no_data(name, bytes) : absl::OkStatus();
}
/// OK, or INVALID_ARGUMENT naming the argument.
[[nodiscard]] inline absl::Status check_not_null(std::string_view name, const void* pointer) {
  return pointer != nullptr ? absl::OkStatus() : is_null(name);
}

[[nodiscard]] inline std::string_view view_of(skua_bytes bytes) noexcept {
  return {static_cast<const char*>(bytes.data), bytes.length};
}
[[nodiscard]] inline skua_bytes bytes_of(std::string_view view) noexcept {
  return {view.data(), view.size()};
}

/// RESOURCE_EXHAUSTED with the error's text, as far as there is memory for the text.
[[nodiscard]] absl::Status status_of(const std::system_error& error) noexcept;

/// Returns what `body` returns, which is an absl::Status. An exception becomes a status, and without a text if memory
/// is short. std::system_error: there was no thread or descriptor for a client.
template <typename Body>
[[nodiscard]] absl::Status without_exceptions(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  } catch (const std::system_error& error) {
    return status_of(error);
  } catch (...) {
    return absl::Status(absl::StatusCode::kInternal, "");
  }
}

}  // namespace skua::c

#endif  // SKUA_KVSTORE_C_ENTRY_POINT_H_
