// What a small HTTP server reads of a request: the request line, Host and Accept. All other headers, and a body, are
// ignored. Pure.
//
// The head of a request is its lines up to the first empty one. A line ends with a line feed; a carriage return before
// the line feed belongs to the end.
#ifndef SKUA_APP_HTTP_REQUEST_H_
#define SKUA_APP_HTTP_REQUEST_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::app {

/// A head may be so long, with its empty line.
inline constexpr size_t kHttpHeadBytesMax = 8192;

enum class HttpMethod { kGet, kHead, kOther };

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  /// Without the query, as it was sent: nothing is decoded.
  std::string path{};
  /// The names of the query's parameters are keys: {"verbose", ""} for `?verbose`. Nothing is decoded.
  std::map<std::string, std::string> parameters{};
  /// The header Host; empty: there is none.
  std::string host{};
  /// The header Accept; several are joined with commas.
  std::string accept{};
};

/// The size of the head that `received` begins with, with its empty line. Empty: the head has no end yet. `from`: where
/// the search begins; the head does not end before that.
[[nodiscard]] std::optional<size_t> http_head_bytes(std::string_view received, size_t from = 0);

/// `head` as http_head_bytes() found it. INVALID_ARGUMENT: it is no request of HTTP/1; the message is one line.
[[nodiscard]] absl::StatusOr<HttpRequest> parse_http_request(std::string_view head);

/// Whether a header Host can only mean a server of this machine's loopback or an address: an IP address, localhost, or
/// nothing, each with or without a port. A name of a web site that an attacker has pointed to 127.0.0.1 is not of them.
[[nodiscard]] bool is_address_or_localhost(std::string_view host);

}  // namespace skua::app

#endif  // SKUA_APP_HTTP_REQUEST_H_
