// Users for tests: a table without slow hashes, and an answer to the question whether a password is right.
#ifndef SKUA_TESTS_KVSTORE_GATEWAY_USERS_TESTING_H_
#define SKUA_TESTS_KVSTORE_GATEWAY_USERS_TESTING_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "kvstore/gateway/client_users.h"
#include "tests/kvstore/gateway/fake_store.h"

namespace skua::kv::gateway {

/// A hash whose password nobody knows. `which` tells hashes apart.
inline std::string some_hash(uint8_t which = 0) {
  PasswordHash hash;
  hash.salt[0] = which;
  return password_hash_text(hash);
}

/// A users file, in which HASH and OTHER stand for two hashes. The tables are those of FakeGateway.
inline std::shared_ptr<const UserTable> users_of(std::string_view text, const FakeGateway& gateway) {
  const std::string whole = absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                                                {{"HASH", some_hash(0)}, {"OTHER", some_hash(1)}});
  return std::make_shared<const UserTable>(*UserTable::parse(whole, gateway.identity.databases));
}

/// The password "right" is right for each user that has a password; "busy" is not checked.
inline std::optional<StoreResult> judge_password(const StoreRequest& request) {
  if (request.kind != StoreRequest::Kind::kPassword) return std::nullopt;
  if (request.value == "busy") return StoreResult{.status = StoreResult::Status::kNotApplied};
  const bool is_right = request.user != nullptr && request.user->password.has_value() && request.value == "right";
  return StoreResult{.status = is_right ? StoreResult::Status::kOk : StoreResult::Status::kNotFound};
}

/// A gateway that has these users.
inline void give_users(FakeGateway& gateway, std::string_view text) {
  gateway.context.users = users_of(text, gateway);
  gateway.store.on_request = judge_password;
}

}  // namespace skua::kv::gateway

#endif  // SKUA_TESTS_KVSTORE_GATEWAY_USERS_TESTING_H_
