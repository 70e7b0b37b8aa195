// UserTable: who may connect to the gateway and what each of them may do: a users file.
//
//   # name    password                     grants
//   default   $scrypt$ln=14,r=8,p=1$...    cache=read,write
//   report    $scrypt$ln=14,r=8,p=1$...    cache=read users=read
//   app-7     certificate                  *=read,write
//
// Each line has one user. Blanks separate words. Lines that begin with # are comments. `certificate` instead of a
// hash: the user has no password and comes with a certificate (client_certificate.h). A grant is TABLE=RIGHTS; `*` is
// every table that the gateway serves and that has no grant of its own in the line. Tables that the gateway does not
// serve are left out: several gateways may share a file.
//
// Pure.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_USERS_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_USERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "kvstore/gateway/password_hash.h"

namespace skua::kv::gateway {

/// What may be done with the keys of a table.
struct Rights {
  bool read = false;
  bool write = false;

  [[nodiscard]] bool include(Rights needed) const { return (read || !needed.read) && (write || !needed.write); }
  friend bool operator==(Rights, Rights) = default;
};

struct ClientUser {
  std::string name;
  /// Nothing: the user comes with a certificate.
  std::optional<PasswordHash> password;
  /// By the numbers of databases. None: no rights.
  absl::flat_hash_map<uint32_t, Rights> rights;

  [[nodiscard]] Rights rights_in(uint32_t database) const {
    const auto found = rights.find(database);
    return found == rights.end() ? Rights{} : found->second;
  }
};

inline constexpr size_t kUsersMax = 10'000;
inline constexpr size_t kUserNameBytesMax = 128;

/// Immutable. Thread: any.
class UserTable {
 public:
  /// `databases`: numbers and names of the tables that the gateway serves. INVALID_ARGUMENT: names the line and says
  /// what is wrong with it, never shows a hash; or there is no user at all.
  static absl::StatusOr<UserTable> parse(std::string_view text, const std::map<uint32_t, std::string>& databases);

  /// Null: there is none.
  [[nodiscard]] std::shared_ptr<const ClientUser> find(std::string_view name) const;
  [[nodiscard]] size_t size() const { return users_.size(); }

 private:
  absl::flat_hash_map<std::string, std::shared_ptr<const ClientUser>> users_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_USERS_H_
