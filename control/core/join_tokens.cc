#include "control/core/join_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "control/core/cluster_limits.h"
#include "rpc/base/printable.h"

namespace skua::control {
namespace {

constexpr size_t kHashDigits = 64;
constexpr size_t kIdDigits = 12;

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_hash(std::string_view text) {
  return is_hexadecimal(text, kHashDigits);
}

/// Of texts of one size, without telling by its time where they differ.
bool same_text(const std::string& a, const std::string& b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) differs |= static_cast<unsigned char>(a[i] ^ b[i]);
  return differs == 0;
}

/// "role/name", of an identity that a token may give.
bool is_joiner(const std::string& principal) {
  const size_t slash = principal.find('/');
  return slash != 0 && slash != std::string::npos && slash + 1 < principal.size() &&
         principal.size() <= kPrincipalMax && !principal.starts_with("control/");
}

JoinTokens without_expired(JoinTokens tokens, int64_t now_s) {
  std::erase_if(tokens, [now_s](const auto& entry) { return entry.second.expires_s <= now_s; });
  return tokens;
}

/// All are looked at.
JoinTokens::const_iterator find_token(const JoinTokens& tokens, const std::string& secret_hash) {
  auto found = tokens.end();
  for (auto at = tokens.begin(); at != tokens.end(); ++at) {
    if (same_text(at->first, secret_hash)) found = at;
  }
  return found;
}

Decision not_good() {
  return refused(
      absl::PermissionDeniedError("the join token is not good here, or not any more: it has expired, was used by "
                                  "another, or was taken back. Have a "
                                  "new one made (skuactl cert join-token)"));
}

}  // namespace

std::string join_token_id(const std::string& secret_hash) {
  return secret_hash.substr(0, kIdDigits);
}

bool is_join_token_id(std::string_view text) {
  return is_hexadecimal(text, kIdDigits);
}

bool is_join_token(const std::string& secret_hash, const JoinTokenRecord& record) {
  return is_hash(secret_hash) && is_joiner(record.principal) && (record.used_key.empty() || is_hash(record.used_key));
}

Decision decide(const AddJoinToken& event, const ClusterState& state) {
  if (!is_joiner(event.principal) || !is_hash(event.secret_hash)) {
    return refused(absl::InvalidArgumentError(
        absl::StrCat("no join token can be made for \"", printable(event.principal, kPrincipalMax),
                     "\": give one of the roles node, admin, monitor or client, and a name. Certificates of the role "
                     "control are issued where the authority is (skuactl cert issue control NAME)")));
  }
  if (event.expires_s <= event.now_s || event.expires_s - event.now_s > kJoinTokenSecondsMax) {
    return refused(absl::InvalidArgumentError(absl::StrCat("a join token is good for at least a second and at most ",
                                                           kJoinTokenSecondsMax / 86'400, " days")));
  }
  if (state.denied.contains(event.principal)) {
    return refused(absl::FailedPreconditionError(
        absl::StrCat("the identity ", event.principal,
                     " is revoked: choose another name, or let it in again first (skuactl cert unrevoke)")));
  }
  JoinTokens tokens = without_expired(state.join_tokens, event.now_s);
  if (tokens.size() >= kJoinTokensMax) {
    return refused(absl::ResourceExhaustedError(
        absl::StrCat(kJoinTokensMax, " join tokens have not expired yet, which is the limit. Wait, make tokens with a ",
                     "shorter --ttl, or take some back (skuactl cert drop-token)")));
  }
  if (find_token(tokens, event.secret_hash) != tokens.end())
    return refused(absl::AlreadyExistsError("there is such a token"));
  tokens[event.secret_hash] = {event.principal, event.expires_s};
  Decision decision;
  decision.principal = event.principal;
  decision.changes = next_changes(state);
  decision.changes.put_join_tokens = std::move(tokens);
  return decision;
}

Decision decide(const UseJoinToken& event, const ClusterState& state) {
  JoinTokens tokens = without_expired(state.join_tokens, event.now_s);
  const auto found = find_token(tokens, event.secret_hash);
  if (found == tokens.end() || !is_hash(event.key_hash)) return not_good();
  const JoinTokenRecord token = found->second;
  const bool used = !token.used_key.empty();
  if ((used && !same_text(token.used_key, event.key_hash)) || state.denied.contains(token.principal)) return not_good();
  const size_t slash = token.principal.find('/');
  const std::string role = token.principal.substr(0, slash);
  if ((!event.wanted_role.empty() && event.wanted_role != role) ||
      (!event.wanted_name.empty() && event.wanted_name != token.principal.substr(slash + 1))) {
    const std::string wanted = printable(
        absl::StrCat(event.wanted_role, event.wanted_name.empty() ? "" : " ", event.wanted_name), kPrincipalMax);
    return refused(absl::FailedPreconditionError(
        absl::StrCat("the join token is for ", token.principal, ", and ", wanted,
                     " wants to join: have one made for that (skuactl cert join-token ", wanted, ")")));
  }
  Decision decision;
  decision.principal = token.principal;
  if (used) return decision;
  tokens[event.secret_hash].used_key = event.key_hash;
  decision.changes = next_changes(state);
  decision.changes.put_join_tokens = std::move(tokens);
  return decision;
}

Decision decide(const RemoveJoinToken& event, const ClusterState& state) {
  if (!is_join_token_id(event.token_id)) {
    return refused(
        absl::InvalidArgumentError(absl::StrCat("a join token is taken back by its number, which has ", kIdDigits,
                                                " hexadecimal digits: skuactl cert tokens shows it")));
  }
  JoinTokens tokens = without_expired(state.join_tokens, event.now_s);
  const auto found = std::find_if(tokens.begin(), tokens.end(),
                                  [&event](const auto& entry) { return join_token_id(entry.first) == event.token_id; });
  if (found == tokens.end()) {
    return refused(absl::NotFoundError(absl::StrCat("there is no join token ", printable(event.token_id, kHashDigits),
                                                    ", or it has expired; skuactl cert tokens shows those there are")));
  }
  Decision decision;
  decision.principal = found->second.principal;
  tokens.erase(found);
  decision.changes = next_changes(state);
  decision.changes.put_join_tokens = std::move(tokens);
  return decision;
}

}  // namespace skua::control
