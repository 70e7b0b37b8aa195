#include "control/store/etcd_address.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/status.h"

namespace skua::control {
namespace {

absl::Status wrong(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("metadata address \"", absl_view(text), "\" ", absl_view(what),
                   ". Give etcd://HOST:PORT,HOST:PORT/PREFIX, for example etcd://10.0.0.1:2379/skua, etcds:// for an "
                   "etcd with TLS, or embedded"));
}

bool is_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  const std::string_view port = text.substr(colon + 1);
  return !port.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         text.find_first_of(" /@\"") == std::string_view::npos;
}

/// "a/kv" would lie within the keys of "a".
bool lies_within_keys(std::string_view prefix) {
  return absl::StrCat("/", absl_view(prefix), "/").find("/kv/") != std::string::npos;
}

bool is_prefix_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
}

}  // namespace

std::string EtcdAddress::text() const {
  return absl::StrCat(absl_view(tls ? kEtcdTlsScheme : kEtcdScheme), absl::StrJoin(endpoints, ","), "/", prefix);
}

std::string EtcdAddress::key_prefix() const {
  return absl::StrCat("/", prefix, "/kv/");
}

std::string EtcdAddress::leader_key() const {
  return absl::StrCat("/", prefix, "/leader");
}

absl::StatusOr<EtcdAddress> parse_etcd_address(std::string_view text) {
  EtcdAddress address;
  address.tls = text.starts_with(kEtcdTlsScheme);
  if (!address.tls && !text.starts_with(kEtcdScheme)) return wrong(text, "does not start with etcd:// or etcds://");
  std::string_view rest = text.substr(address.tls ? kEtcdTlsScheme.size() : kEtcdScheme.size());
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    std::string_view prefix = rest.substr(slash);
    rest = rest.substr(0, slash);
    while (prefix.starts_with('/')) prefix.remove_prefix(1);
    while (prefix.ends_with('/')) prefix.remove_suffix(1);
    if (prefix.size() > kEtcdPrefixMax || !std::all_of(prefix.begin(), prefix.end(), is_prefix_character)) {
      return wrong(text, absl::StrCat("has a prefix that is not up to ", kEtcdPrefixMax,
                                      " letters, digits, dashes, dots, underscores and slashes"));
    }
    if (lies_within_keys(prefix)) return wrong(text, "has a prefix with a part named kv, which Skua uses itself");
    if (!prefix.empty()) address.prefix = prefix;
  }
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view endpoint = rest.substr(0, comma);
    if (!is_endpoint(endpoint)) return wrong(text, "names a member that is not HOST:PORT");
    address.endpoints.emplace_back(endpoint);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (address.endpoints.size() > kEtcdEndpointsMax) {
    return wrong(text, absl::StrCat("names more than ", kEtcdEndpointsMax, " members"));
  }
  return address;
}

std::string prefix_end(std::string prefix) {
  while (!prefix.empty()) {
    const auto last = static_cast<unsigned char>(prefix.back());
    if (last < 0xff) {
      prefix.back() = static_cast<char>(last + 1);
      return prefix;
    }
    prefix.pop_back();
  }
  return std::string(1, '\0');
}

}  // namespace skua::control
