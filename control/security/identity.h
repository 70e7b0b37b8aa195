// Identity: who a program of a cluster is, as its certificate says. The certificate has one URI among its alternative
// names:
//
//     skua://0c7b64f1-8f5e-4b0e-9d0c-0a1f6a3f5d11/node/5f0f4f5e-2c6e-4c8b-9a55-0d7a3a4f8b10
//            cluster id                           role name
//
// The name of a node is the node's uuid. Others are chosen by whoever issues the certificate.
#ifndef SKUA_CONTROL_SECURITY_IDENTITY_H_
#define SKUA_CONTROL_SECURITY_IDENTITY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace skua::control {

enum class Role : uint8_t {
  kControl,  ///< skua-control
  kNode,     ///< skuad
  kAdmin,    ///< may change the cluster
  kMonitor,  ///< may look at the cluster, and read no data
  kClient,   ///< reads and writes data
};

/// Any number of roles.
class Roles {
 public:
  constexpr Roles() = default;
  constexpr Roles(Role role) : bits_(1u << static_cast<uint32_t>(role)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] constexpr bool contains(Role role) const { return (bits_ & Roles(role).bits_) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr Roles operator|(Roles a, Roles b) { return Roles(a.bits_ | b.bits_); }
  friend bool operator==(Roles, Roles) = default;

 private:
  explicit constexpr Roles(uint32_t bits) : bits_(bits) {}

  uint32_t bits_ = 0;
};
constexpr Roles operator|(Role a, Role b) {
  return Roles(a) | Roles(b);
}

/// "control", "node", "admin", "monitor", "client".
[[nodiscard]] const char* role_name(Role role);
[[nodiscard]] std::optional<Role> role_of(std::string_view name);
/// "admin or monitor".
[[nodiscard]] std::string roles_text(Roles roles);

/// Bytes of a name: letters, digits and -._@ only. The first is no dot, because names become names of files.
inline constexpr size_t kPrincipalNameMax = 128;

struct Identity {
  std::string cluster_id;
  Role role = Role::kClient;
  std::string name;

  /// "node 5f0f4f5e-..", "client app-7".
  [[nodiscard]] std::string describe() const;
  /// "node/5f0f4f5e-..", "client/app-7": what it is called within its cluster.
  [[nodiscard]] std::string principal() const;
  friend bool operator==(const Identity&, const Identity&) = default;
};

/// INVALID_ARGUMENT: no cluster id, a node whose name is no uuid, or a name with other bytes than it may have.
[[nodiscard]] absl::Status check_identity(const Identity& identity);

/// Only of an identity that passes check_identity().
[[nodiscard]] std::string identity_uri(const Identity& identity);

/// INVALID_ARGUMENT: not a URI of identity_uri().
[[nodiscard]] absl::StatusOr<Identity> parse_identity_uri(std::string_view uri);

/// The identity of Identity::principal() in this cluster. INVALID_ARGUMENT: not ROLE/NAME.
[[nodiscard]] absl::StatusOr<Identity> parse_principal(std::string_view principal, const std::string& cluster_id);

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_IDENTITY_H_
