// ClientSession: what a client has chosen for its connection.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_SESSION_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kvstore/gateway/resp_writer.h"

namespace skua::kv::gateway {

class Transaction;
struct ClientUser;

struct ClientSession {
  /// Of this connection; different from all others of the gateway, also later ones.
  uint64_t id = 0;
  /// "127.0.0.1:50112"
  std::string remote{};
  std::string local{};
  int64_t connected_ms = 0;
  uint32_t database = 0;
  RespVersion protocol = RespVersion::kResp2;
  std::string name{};
  /// No further commands are taken; the connection ends when the replies are out.
  bool is_ending = false;
  /// What WATCH and MULTI have begun; null: nothing. A WATCH that waits for the store has it, too.
  std::shared_ptr<Transaction> transaction{};
  /// Who the client is. Null: it has not authenticated, or the gateway has no users file.
  std::shared_ptr<const ClientUser> user{};
  /// The name in its certificate, which stands for a user of that name; empty: it has none. See client_certificate.h.
  std::string certificate_name{};
  /// The user came by the certificate, without a password.
  bool is_by_certificate = false;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_SESSION_H_
