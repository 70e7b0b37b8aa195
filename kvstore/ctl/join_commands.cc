// skuactl cert join-token, tokens, drop-token, join, renew: certificates from the control plane
// (control/security/certificate_issuer.h).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "control/client/admin_client.h"
#include "control/client/join_client.h"
#include "control/core/cluster_limits.h"
#include "control/security/certificate_files.h"
#include "control/security/certificates.h"
#include "control/security/identity.h"
#include "control/security/join_token.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/output.h"
#include "kvstore/ctl/with_client.h"
#include "rpc/base/clock.h"
#include "rpc/base/status.h"

namespace skua::kv::ctl {
namespace {

using control::AdminClient;
using control::CertificateInfo;
using control::CredentialFiles;
using control::JoinTokenSummary;

constexpr char kLookAtTokens[] = "skuactl cert tokens";
/// Of the number by which people call a token: the first digits of its secret's hash.
constexpr size_t kTokenNumberDigits = 12;

struct TokenArguments {
  std::string role = "node";
  std::string name;
  DurationNs ttl_ns = 3600 * kSecond;
};

struct JoinArguments {
  std::string token;
  std::string out;
};

int make_token(const Globals& globals, const TokenArguments& arguments) {
  if (arguments.role != "node" && arguments.name.empty()) {
    fail_usage(absl::StrCat("a token for the role ", arguments.role, " is for one name: skuactl cert join-token ",
                            arguments.role, " NAME"));
  }
  const JoinTokenSummary made =
      must_change(admin_of(globals).create_join_token(arguments.role, arguments.name,
                                                      static_cast<uint32_t>(arguments.ttl_ns / kSecond)),
                  kLookAtTokens);
  // The word alone on standard output: $(skuactl cert join-token).
  if (!globals.json) {
    absl::FPrintF(stderr, "token %s: one certificate of %s, until %s\n", made.token_id, made.principal,
                  control::wall_time_text(made.expires_s));
  }
  return answer(
      globals,
      {{"token", made.token}, {"token_id", made.token_id}, {"identity", made.principal}, {"expires_s", made.expires_s}},
      made.token + "\n");
}

int list_tokens(const Globals& globals) {
  nlohmann::json listed = nlohmann::json::array();
  std::string text;
  for (const JoinTokenSummary& token : must(admin_of(globals).join_tokens())) {
    listed.push_back({{"token_id", token.token_id},
                      {"identity", token.principal},
                      {"expires_s", token.expires_s},
                      {"used", token.used}});
    absl::StrAppend(&text, token.token_id, "  ", token.principal, "  ", token.used ? "used" : "not used", ", until ",
                    control::wall_time_text(token.expires_s), "\n");
  }
  return answer(globals, {{"tokens", listed}}, text.empty() ? "no join token is good\n" : text);
}

/// `word`: the number, or the token itself, which is not sent.
int drop_token(const Globals& globals, const std::string& word) {
  const absl::StatusOr<control::JoinToken> token = control::parse_join_token(word);
  const std::string token_id =
      token.ok() ? control::join_secret_hash(token->secret).substr(0, kTokenNumberDigits) : word;
  if (token_id.size() != kTokenNumberDigits) {
    fail_usage("give the token's number, as skuactl cert tokens shows it, or the whole token");
  }
  must_change(admin_of(globals).drop_join_token(token_id), kLookAtTokens);
  return answer(globals, {{"token_id", token_id}}, absl::StrCat("token ", token_id, " is not good any more\n"));
}

int tell(const Globals& globals, const CertificateInfo& info, const CredentialFiles& files) {
  return answer(globals,
                {{"identity", info.identity->principal()},
                 {"cluster_id", info.cluster_id},
                 {"cert", files.certificate},
                 {"key", files.key},
                 {"ca", files.authorities},
                 {"valid_until_s", info.valid.until}},
                absl::StrCat(files.certificate, ": ", info.identity->describe(), " of cluster ", info.cluster_id,
                             ", valid until ", control::wall_time_text(info.valid.until), "\n"));
}

/// From the command line, standard input or the environment: only there are tokens out of the list of processes.
std::string given_token(const std::string& word) {
  if (word == "-") return std::string(absl::StripAsciiWhitespace(read_input(word)));
  if (!word.empty()) return word;
  const char* variable = std::getenv("SKUA_JOIN_TOKEN");  // NOLINT(concurrency-mt-unsafe): no other thread yet
  if (variable == nullptr || *variable == '\0') {
    fail_usage("there is no join token: give it, or - for standard input, or set SKUA_JOIN_TOKEN");
  }
  return variable;
}

int join(const Globals& globals, const JoinArguments& arguments) {
  const CredentialFiles files = control::certificate_files_in(arguments.out);
  // Whoever joins again is who he was, and has the same key.
  const auto owner = must_be_valid(control::owner_of_directory(arguments.out), "--out: ");
  control::JoinOptions options{.control_address = globals.control_address,
                               .token = given_token(arguments.token),
                               .timeout_ns = globals.timeout_ns};
  if (owner.has_value()) {
    options.role = control::role_name(owner->role);
    options.name = owner->name;
    options.cluster_id = owner->cluster_id;
  }
  const absl::StatusOr<CertificateInfo> joined = control::join(options, files);
  if (absl::IsInvalidArgument(joined.status())) fail_usage(std_view(joined.status().message()));
  must(joined.status());
  const int code = tell(globals, *joined, files);
  if (!globals.json) {
    absl::PrintF("Use: --cert %s --key %s --ca %s\n", files.certificate, files.key, files.authorities);
  }
  return code;
}

int renew(const Globals& globals) {
  const control::CredentialsPtr credentials = credentials_of(globals);
  if (credentials == nullptr) {
    fail_usage("there is no certificate to renew: give --cert, --key and --ca");
  }
  AdminClient admin(globals.control_address, globals.timeout_ns, credentials);
  return tell(globals, must(control::renew(globals.credential_files, false, admin)), globals.credential_files);
}

}  // namespace

void add_join_commands(app::Command& group, const Globals& globals) {
  const auto [token_command, token] = add_command(
      group, "join-token", "Has a token made that gives one certificate, for a program that makes its key itself.",
      globals, make_token);
  token_command.add_positional("role", &token.role, "node, admin, monitor or client; node if left out.")
      .one_of({"node", "admin", "monitor", "client"})
      .optional();
  token_command
      .add_positional("name", &token.name,
                      "Who it is for. Of a node that there is already: its uuid; else leave it out.")
      .optional();
  token_command.add_duration("ttl", &token.ttl_ns, "How long the token is good.")
      .range(kSecond, control::kJoinTokenSecondsMax * kSecond);
  token_command.example("skuactl cert join-token", "a token for a new node: skuad --join-token TOKEN");
  token_command.example("skuactl cert join-token client app-7 --ttl 10m", "one for an application");

  app::Command& list_command = group.add_command("tokens", "Shows the join tokens that have not expired.");
  list_command.example("skuactl cert tokens", "their numbers, never the tokens");
  list_command.action([&globals] { return list_tokens(globals); });

  const auto [drop_command, token_id] =
      add_command(group, "drop-token", "Takes a join token back.", globals, drop_token);
  drop_command.add_positional("number", &token_id, "As skuactl cert tokens shows it, or the token itself.");
  drop_command.example("skuactl cert drop-token 3f0c6d5e9a12", "nobody joins by it any more");

  const auto [join_command, joining] =
      add_command(group, "join", "Makes a key, and gets the certificate that a join token gives.", globals, join);
  join_command
      .add_positional("token", &joining.token,
                      "As skuactl cert join-token printed it; -: from standard input; left out: SKUA_JOIN_TOKEN.")
      .optional();
  join_command.add_string("out", &joining.out, "Where cert.pem, key.pem and ca.pem go; made if it is not there.")
      .value_name("DIR")
      .required();
  join_command.example("skuactl cert join - --out app-7 < token", "for an application; nodes join by themselves");
  join_command.example("SKUA_JOIN_TOKEN=skua-join-AR... skuactl cert join --out app-7",
                       "the token is in no list of processes");

  app::Command& renew_command = group.add_command("renew", "Replaces the certificate of --cert by a new one.");
  renew_command.example("skuactl cert renew --cert app-7/cert.pem --key app-7/key.pem --ca app-7/ca.pem",
                        "every few days, for example by a timer; nodes renew theirs themselves");
  renew_command.action([&globals] { return renew(globals); });
}

}  // namespace skua::kv::ctl
