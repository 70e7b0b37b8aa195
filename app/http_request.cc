#include "app/http_request.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace skua::app {
namespace {

absl::Status bad(std::string_view what) {
  return absl::InvalidArgumentError(absl::string_view(what.data(), what.size()));
}

/// Takes the next line from `rest`, without its end.
std::string_view take_line(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Takes what stands before `separator`, and the separator; all of it if there is none.
std::string_view take_until(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != std::string_view::npos;
  });
}

bool has_control_character(std::string_view text) {
  return std::ranges::any_of(text,
                             [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\t'; });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool has_name(std::string_view name, std::string_view wanted) {
  return absl::EqualsIgnoreCase(absl::string_view(name.data(), name.size()),
                                absl::string_view(wanted.data(), wanted.size()));
}

HttpMethod method_of(std::string_view name) {
  return name == "GET" ? HttpMethod::kGet : name == "HEAD" ? HttpMethod::kHead : HttpMethod::kOther;
}

absl::Status read_request_line(std::string_view line, HttpRequest& request) {
  const std::string_view method = take_until(line, ' ');
  std::string_view query = take_until(line, ' ');
  if (!is_token(method) || query.empty()) return bad("the first line is not METHOD PATH HTTP/1.1");
  if (line != "HTTP/1.1" && line != "HTTP/1.0") return bad("only HTTP/1.1 and HTTP/1.0 are spoken");
  if (has_control_character(query) || query.front() != '/') return bad("the path does not begin with /");
  request.method = method_of(method);
  request.path = take_until(query, '?');
  while (!query.empty()) {
    std::string_view value = take_until(query, '&');
    const std::string_view name = take_until(value, '=');
    if (!name.empty()) request.parameters[std::string(name)] = value;
  }
  return absl::OkStatus();
}

absl::Status read_header(std::string_view line, bool& has_host, HttpRequest& request) {
  if (line.find(':') == std::string_view::npos) return bad("a header has no colon");
  const std::string_view name = take_until(line, ':');
  const std::string_view value = trimmed(line);
  if (!is_token(name)) return bad("the name of a header has a character that no name may have");
  if (has_control_character(value)) return bad("a header has a control character");
  if (has_name(name, "Host")) {
    if (has_host) return bad("there are two headers Host");
    has_host = true;
    request.host = value;
  } else if (has_name(name, "Accept")) {
    if (!request.accept.empty()) request.accept += ", ";
    request.accept += value;
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<size_t> http_head_bytes(std::string_view received, size_t from) {
  for (size_t at = received.find('\n', from); at != std::string_view::npos; at = received.find('\n', at + 1)) {
    const std::string_view line = received.substr(0, at);
    if (line.empty() || line == "\r" || line.ends_with('\n') || line.ends_with("\n\r")) return at + 1;
  }
  return std::nullopt;
}

absl::StatusOr<HttpRequest> parse_http_request(std::string_view head) {
  HttpRequest request;
  bool has_host = false;
  if (absl::Status status = read_request_line(take_line(head), request); !status.ok()) return status;
  while (true) {
    const std::string_view line = take_line(head);
    if (line.empty()) return request;
    if (absl::Status status = read_header(line, has_host, request); !status.ok()) return status;
  }
}

bool is_address_or_localhost(std::string_view host) {
  if (host.empty()) return true;
  std::string_view rest = host;
  std::string name;
  int family = AF_INET;
  if (rest.front() == '[') {
    rest.remove_prefix(1);
    if (rest.find(']') == std::string_view::npos) return false;
    name = take_until(rest, ']');
    family = AF_INET6;
    if (!rest.empty() && rest.front() != ':') return false;
  } else {
    name = take_until(rest, ':');
  }
  if (family == AF_INET && has_name(name, "localhost")) return true;
  in6_addr ignored{};
  return inet_pton(family, name.c_str(), &ignored) == 1;
}

}  // namespace skua::app
