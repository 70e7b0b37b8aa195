// Join tokens: who may get a first certificate, without a file that is carried by hand.
//
//   skuactl cert join-token    AddJoinToken --> store (skua/tokens): hash of the secret, identity, expiry
//        | the word (control/security/join_token.h)
//        v
//   skuad --join-token         UseJoinToken (secret, key) --> store: the key's hash  --> then, and only then, a
//                                                                                        certificate for that key
//
// A token is for one identity, which is fixed when the token is made. So a token for a node gives no other node's
// identity, and an administrator can revoke the identity before the token is used.
//
// It gives a certificate to one key. The use is in the store before the certificate exists, by the compare-and-swap
// that all changes go by, so of two keys, or two leaders, one wins. The same key may ask again until the token expires:
// its answer may have been lost. An eavesdropper gains nothing from an answer, because the certificate can be used only
// with the private key.
//
// The store has only the secrets' hashes, so its readers cannot join. A secret has 128 random bits and cannot be
// guessed. Hashes are compared in constant time all the same.
//
// A token that is unknown, expired, used by another key, or of a revoked identity is refused with the same text, so a
// stranger learns nothing. Only a caller with a good secret is told that the token is for another role or name.
//
// Expired tokens are removed when a token is added, used or taken back. Time is the wall clock of the leading process.
#ifndef SKUA_CONTROL_CORE_JOIN_TOKENS_H_
#define SKUA_CONTROL_CORE_JOIN_TOKENS_H_

#include <string>
#include <string_view>

#include "control/core/cluster_state.h"
#include "control/core/decision.h"
#include "control/core/events.h"

namespace skua::control {

/// A token's number, for people: the first digits of the hash of its secret. It is not secret.
[[nodiscard]] std::string join_token_id(const std::string& secret_hash);

/// Whether the text can be such a number. Messages show no other text: a person may have pasted the token itself.
[[nodiscard]] bool is_join_token_id(std::string_view text);

/// Whether the store may hold such a record.
[[nodiscard]] bool is_join_token(const std::string& secret_hash, const JoinTokenRecord& record);

/// INVALID_ARGUMENT: no identity that a token can give, no hash, or a time out of bounds. FAILED_PRECONDITION: the
/// identity is revoked. RESOURCE_EXHAUSTED: there are kJoinTokensMax tokens. ALREADY_EXISTS: this one is there.
[[nodiscard]] Decision decide(const AddJoinToken& event, const ClusterState& state);

/// PERMISSION_DENIED: all refusals of a token alike. FAILED_PRECONDITION: the token is for another role or name.
[[nodiscard]] Decision decide(const UseJoinToken& event, const ClusterState& state);

/// INVALID_ARGUMENT: not a token's number. NOT_FOUND: no such token.
[[nodiscard]] Decision decide(const RemoveJoinToken& event, const ClusterState& state);

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_JOIN_TOKENS_H_
