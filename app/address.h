// HOST:PORT as users write it, judged as text: no name is looked up, nothing is connected to.
#ifndef SKUA_APP_ADDRESS_H_
#define SKUA_APP_ADDRESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace skua::app {

/// What an address may be. The default: where a program is to connect to.
struct AddressRules {
  /// If not, HOST alone will do, too.
  bool port_required = true;
  /// A name instead of an IP address. `localhost` may always stand.
  bool name_allowed = true;
  /// Port 0: the system chooses one. For listeners.
  bool zero_port_allowed = false;
  /// 0.0.0.0 and [::]: every address of the machine. For listeners.
  bool any_host_allowed = false;
  /// An option may be empty though its default is not. For listeners that may be left out.
  bool empty_allowed = false;
};

struct Address {
  /// Without brackets.
  std::string host;
  /// 0 if it was left out.
  uint16_t port = 0;
};

/// INVALID_ARGUMENT says what is wrong and what to write instead, without the text itself, so that it follows it: `has
/// no port: write HOST:PORT, e.g. 10.0.0.1:7400`, `is a URL: leave out http://`. Option::address() (option.h) judges an
/// option's value by it.
[[nodiscard]] absl::StatusOr<Address> parse_address(std::string_view text, const AddressRules& rules = {});

/// parse_address() for those who only want to know whether.
[[nodiscard]] absl::Status check_address(std::string_view text, const AddressRules& rules = {});

/// The same for a host without a port: an IPv6 address with or without brackets. `rules` of ports do not count.
[[nodiscard]] absl::Status check_host(std::string_view text, const AddressRules& rules = {});

}  // namespace skua::app

#endif  // SKUA_APP_ADDRESS_H_
