// Whole files, as users name them in options: read and written with every error told.
#ifndef SKUA_APP_FILE_H_
#define SKUA_APP_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::app {

/// The bytes of the file. NOT_FOUND: there is none; INVALID_ARGUMENT: `PATH is a directory`, or it has more than
/// `bytes_max` (which ends the reading of /dev/zero); other errors: `PATH: ` and errno's words. `-` is a name like any
/// other.
[[nodiscard]] absl::StatusOr<std::string> read_file(const std::string& path, size_t bytes_max = SIZE_MAX);

/// Makes the file, or replaces what is in it, with `bytes`. OK: the system has taken all of them and the file is
/// closed. Errors are those of read_file, e.g. `PATH: No space left on device`; then the file may be there, with a part
/// of the bytes.
[[nodiscard]] absl::Status write_file(const std::string& path, std::string_view bytes);

/// Whether write_file() may succeed, as far as can be told without changing anything. Errors are those of read_file.
[[nodiscard]] absl::Status check_output_file(const std::string& path);

}  // namespace skua::app

#endif  // SKUA_APP_FILE_H_
