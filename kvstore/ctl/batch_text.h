// Parses batches from text, one operation per line:
//
//   # money from one pocket to the other
//   add left -5
//   add right 5
//   put last "a cup of \"tea\"" --if-version 17
//
//   put KEY VALUE [--ttl TTL]     append KEY VALUE      patch KEY FIELD=VALUE... [--create]
//   add KEY DELTA                 del KEY               expire KEY TTL|never
//   check KEY VERSION
//
// check writes nothing: all operations are applied only if the key has the version; 0: only if the key is absent. Every
// other operation takes --if-version N. put, add, append, and patch with --create take --if-absent instead.
//
// Words are separated by blanks. A word in double quotes may contain blanks and the escapes of C (\n, \x00, \"), and is
// never an option. Empty lines and lines that begin with # are ignored. Lines may end with CR LF, and the text may
// begin with the byte order mark of UTF-8. Pure.
#ifndef SKUA_KVSTORE_CTL_BATCH_TEXT_H_
#define SKUA_KVSTORE_CTL_BATCH_TEXT_H_

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/batch.h"

namespace skua::kv::ctl {

struct BatchWord {
  std::string text;
  bool quoted = false;

  friend bool operator==(const BatchWord&, const BatchWord&) = default;
};

/// Splits one line into words. INVALID_ARGUMENT: a quoted word does not end, is not followed by a blank, or has a bad
/// escape.
[[nodiscard]] absl::StatusOr<std::vector<BatchWord>> split_words(std::string_view line);

/// Adds the operations of all lines to `batch`, and for each operation the number of its line, from 1, to `lines`.
/// INVALID_ARGUMENT names the line, what is wrong and what was expected.
[[nodiscard]] absl::Status parse_batch(std::string_view text, Batch& batch, std::vector<size_t>& lines);

/// A time to live as users write it: `30s`, `12h`. INVALID_ARGUMENT: no duration, less than a millisecond, more than
/// 100 years.
[[nodiscard]] absl::StatusOr<std::chrono::nanoseconds> parse_ttl(const std::string& text);

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_BATCH_TEXT_H_
