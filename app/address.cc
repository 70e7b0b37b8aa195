#include "app/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/printable.h"

namespace skua::app {

namespace {

constexpr std::string_view kWrite = "write HOST:PORT, e.g. 10.0.0.1:7400";
constexpr size_t kNameBytesMax = 253;
constexpr size_t kLabelBytesMax = 63;

absl::Status wrong(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

bool is_ip(int family, const std::string& text) {
  in6_addr address;
  return inet_pton(family, text.c_str(), &address) == 1;
}

bool is_any_host(const std::string& host) {
  in6_addr address;
  return host == "0.0.0.0" || (inet_pton(AF_INET6, host.c_str(), &address) == 1 && IN6_IS_ADDR_UNSPECIFIED(&address));
}

/// What was meant for an IPv4 address: 10.0.0, 300.1.1.1.
bool is_numeric(std::string_view host) {
  return host.find_first_not_of("0123456789.") == std::string_view::npos;
}

/// By RFC 1123, and with the underscores that containers' names have.
bool is_name(std::string_view host) {
  if (host.size() > kNameBytesMax) return false;
  if (!host.empty() && host.back() == '.') host.remove_suffix(1);
  size_t label = 0;
  char before = '.';
  for (const char c : host) {
    const bool inner = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (!inner && c != '-' && c != '.') return false;
    if (!inner && before == '.') return false;
    if (c == '.' && before == '-') return false;
    label = c == '.' ? 0 : label + 1;
    if (label > kLabelBytesMax) return false;
    before = c;
  }
  return label > 0 && before != '-';
}

/// What is wrong with any text, whatever it stands for.
std::optional<std::string> complaint_of_text(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const bool blank =
      std::any_of(text.begin(), text.end(), [](char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); });
  if (blank) return "has a blank in it: leave it out";
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    return absl::StrCat("is a URL: leave out ", printable(text.substr(0, scheme + 3)));
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    return absl::StrCat("has a path: leave out ", printable(text.substr(slash)));
  }
  return std::nullopt;
}

/// An address of a link has its interface with it: fe80::1%eth0.
bool is_ipv6(std::string_view text) {
  return !text.ends_with('%') && is_ip(AF_INET6, std::string(text.substr(0, text.find('%'))));
}

absl::Status judge_host(const std::string& host, bool bracketed, const AddressRules& rules) {
  if (bracketed && !is_ipv6(host)) return wrong("has no IPv6 address in its brackets: write e.g. [::1]:7400");
  if (!rules.any_host_allowed && is_any_host(host)) {
    return wrong("means every address of a machine: write the one under which others reach it");
  }
  if (bracketed || host == "localhost" || is_ip(AF_INET, host)) return absl::OkStatus();
  if (host == "*") return wrong("has no host: write 0.0.0.0 for every address of the machine");
  if (is_numeric(host)) return wrong("has no IPv4 address: it is four numbers from 0 to 255, e.g. 10.0.0.1");
  if (!is_name(host))
    return wrong("has no host name: that is letters, digits, dashes and dots, e.g. node-1.example.org");
  if (!rules.name_allowed) return wrong("has a name: write its IP address, e.g. 10.0.0.1");
  return absl::OkStatus();
}

/// HOST and :PORT, the latter with its colon or empty. Brackets stay.
struct Parts {
  std::string_view host;
  std::string_view port;
};

absl::StatusOr<Parts> cut(std::string_view text) {
  if (text.front() == '[') {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos)
      return wrong("lacks the bracket ] after its IPv6 address: write e.g. [::1]:7400");
    const std::string_view rest = text.substr(bracket + 1);
    if (rest.empty() || rest.front() == ':') return Parts{text.substr(0, bracket + 1), rest};
    return wrong("has something else than :PORT after the bracket ]: write e.g. [::1]:7400");
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Parts{text, {}};
  const size_t last = text.rfind(':');
  if (last == colon) return Parts{text.substr(0, colon), text.substr(colon)};
  // Where it ends and the port begins nobody can tell.
  if (is_ipv6(text) || is_ipv6(text.substr(0, last))) {
    return wrong("has an IPv6 address without brackets: write it in brackets, e.g. [::1]:7400");
  }
  return wrong(absl::StrCat("has more than one colon: ", std::string(kWrite), " or [::1]:7400"));
}

absl::StatusOr<uint16_t> port_of(std::string_view text, bool zero_allowed) {
  uint32_t port = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  if (text.empty()) return wrong("has no port after the colon: write HOST:PORT, e.g. 10.0.0.1:7400");
  const bool in_range =
      digits && absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &port) && port <= 65'535;
  if (!in_range || (port == 0 && !zero_allowed)) {
    return wrong(absl::StrCat("has the port ", printable(text), ": a port is a number from ", zero_allowed ? 0 : 1,
                              " to 65535"));
  }
  return static_cast<uint16_t>(port);
}

}  // namespace

absl::StatusOr<Address> parse_address(std::string_view text, const AddressRules& rules) {
  if (text.empty()) return wrong(absl::StrCat("is empty: ", std::string(kWrite)));
  if (std::optional<std::string> complaint = complaint_of_text(text)) return wrong(*complaint);
  const absl::StatusOr<Parts> parts = cut(text);
  if (!parts.ok()) return parts.status();
  Address address;
  if (parts->host.empty()) return wrong(absl::StrCat("has no host: ", std::string(kWrite)));
  const bool bracketed = parts->host.front() == '[';
  address.host = std::string(bracketed ? parts->host.substr(1, parts->host.size() - 2) : parts->host);
  if (parts->port.empty() && rules.port_required) {
    const bool number = parts->host.find_first_not_of("0123456789") == std::string_view::npos;
    return wrong(absl::StrCat(number ? "has no host: " : "has no port: ", std::string(kWrite)));
  }
  if (absl::Status status = judge_host(address.host, bracketed, rules); !status.ok()) return status;
  if (parts->port.empty()) return address;
  const absl::StatusOr<uint16_t> port = port_of(parts->port.substr(1), rules.zero_port_allowed);
  if (!port.ok()) return port.status();
  address.port = *port;
  return address;
}

absl::Status check_address(std::string_view text, const AddressRules& rules) {
  return parse_address(text, rules).status();
}

absl::Status check_host(std::string_view text, const AddressRules& rules) {
  if (text.empty()) return wrong("is empty: write a host, e.g. 10.0.0.1");
  if (std::optional<std::string> complaint = complaint_of_text(text)) return wrong(*complaint);
  if (is_ipv6(text)) return judge_host(std::string(text), true, rules);
  if (text.front() != '[' && text.find(':') != std::string_view::npos) {
    return wrong("has a port: write the host alone, e.g. 10.0.0.1");
  }
  AddressRules host_alone = rules;
  host_alone.port_required = false;
  const absl::StatusOr<Address> address = parse_address(text, host_alone);
  if (!address.ok()) return address.status();
  if (text.back() == ']' || text.front() != '[') return absl::OkStatus();
  return wrong("has a port: write the host alone, e.g. 10.0.0.1");
}

}  // namespace skua::app
