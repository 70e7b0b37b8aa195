// Commands about the connection itself.
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/gateway/authentication.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/redis_numbers.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::handlers {
namespace {

bool is_client_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char byte) { return byte >= '!' && byte <= '~'; });
}

/// The reply to a client that has not said the right name and password.
std::string_view refusal_of(Authenticated authenticated) {
  return authenticated == Authenticated::kBusy ? errors::kTooManyAuthenticate : errors::kWrongPassword;
}

void reply_hello(CommandRun& run) {
  // In the protocol that was just chosen.
  RespWriter reply(run.reply_bytes(), run.session().protocol);
  reply.map(7);
  reply.bulks({"server", "redis", "version", kRedisVersion, "proto"});
  reply.integer(static_cast<int64_t>(run.session().protocol));
  reply.bulk(std::string_view("id"));
  reply.integer(static_cast<int64_t>(run.session().id));
  reply.bulks({"mode", "standalone", "role", "master", "modules"});
  reply.array(0);
}

}  // namespace

CommandTask ping(CommandRun& run) {
  if (run.size() > 2) co_return run.reply().error(wrong_arity_error(run.spec().name));
  if (run.size() == 2) co_return run.reply().bulk(run.arg(1));
  co_return run.reply().simple("PONG");
}

CommandTask echo(CommandRun& run) {
  co_return run.reply().bulk(run.arg(1));
}

CommandTask select(CommandRun& run) {
  const std::optional<int64_t> number = integer_arg(run, 1);
  if (!number.has_value()) co_return;
  const auto& databases = run.gateway().identity.databases;
  if (*number < INT32_MIN || *number > INT32_MAX) co_return run.reply().error(errors::kNotAnInt32);
  if (*number < 0 || !databases.contains(static_cast<uint32_t>(*number))) {
    co_return run.reply().error(errors::kDatabaseOutOfRange);
  }
  run.session().database = static_cast<uint32_t>(*number);
  run.reply().ok();
}

CommandTask hello(CommandRun& run) {
  std::optional<RespVersion> protocol;
  if (run.size() > 1) {
    const std::optional<int64_t> version = parse_integer(run.arg(1));
    if (!version.has_value()) co_return run.reply().error(errors::kProtocolNotAnInteger);
    if (*version != 2 && *version != 3) co_return run.reply().error(errors::kNoSuchProtocol);
    protocol = *version == 3 ? RespVersion::kResp3 : RespVersion::kResp2;
  }
  std::optional<std::string_view> name;
  for (size_t i = 2; i < run.size(); ++i) {
    const size_t more = run.size() - i - 1;
    if (absl::EqualsIgnoreCase(absl_view(run.arg(i)), "auth") && more >= 2) {
      Authenticated authenticated = Authenticated::kNo;
      if (has_users(run)) {
        const std::shared_ptr<const ClientUser> user = user_named(run, run.arg(i + 1));
        const StoreResult verdict = co_await run.store(password_request(user, run.arg(i + 2)));
        authenticated = authenticate(run, run.arg(i + 1), user, verdict);
      } else if (run.arg(i + 1) == kDefaultUser) {
        authenticated = Authenticated::kYes;  // it needs no password, and so any will do
      }
      if (authenticated != Authenticated::kYes) co_return run.reply().error(refusal_of(authenticated));
      i += 2;
    } else if (absl::EqualsIgnoreCase(absl_view(run.arg(i)), "setname") && more >= 1) {
      name = run.arg(++i);
      if (!is_client_name(*name)) co_return run.reply().error(errors::kClientName);
    } else {
      co_return run.reply().error(absl::StrCat("ERR Syntax error in HELLO option '", absl_view(run.arg(i)), "'"));
    }
  }
  if (has_users(run) && run.session().user == nullptr) co_return run.reply().error(errors::kHelloNotAuthenticated);
  if (name.has_value()) run.session().name = *name;
  if (protocol.has_value()) run.session().protocol = *protocol;
  reply_hello(run);
}

CommandTask auth(CommandRun& run) {
  if (run.size() > 3) co_return run.reply().error(errors::kSyntax);
  const bool has_name = run.size() == 3;
  if (!has_users(run)) {
    if (!has_name) co_return run.reply().error(errors::kNoPassword);
    if (run.arg(1) != kDefaultUser) co_return run.reply().error(errors::kWrongPassword);
    co_return run.reply().ok();
  }
  const std::string_view name = has_name ? run.arg(1) : kDefaultUser;
  const std::shared_ptr<const ClientUser> user = user_named(run, name);
  const StoreResult verdict = co_await run.store(password_request(user, run.arg(has_name ? 2 : 1)));
  const Authenticated authenticated = authenticate(run, name, user, verdict);
  if (authenticated != Authenticated::kYes) co_return run.reply().error(refusal_of(authenticated));
  run.reply().ok();
}

CommandTask quit(CommandRun& run) {
  run.session().is_ending = true;
  co_return run.reply().ok();
}

CommandTask reset(CommandRun& run) {
  run.session().database = run.gateway().identity.databases.begin()->first;
  run.session().protocol = RespVersion::kResp2;
  run.session().name.clear();
  run.session().transaction.reset();
  // It is again who its certificate says, or nobody.
  run.session().user = user_named(run, run.session().certificate_name);
  run.session().is_by_certificate = run.session().user != nullptr;
  co_return run.reply().simple("RESET");
}

CommandTask client_id(CommandRun& run) {
  co_return run.reply().integer(static_cast<int64_t>(run.session().id));
}

CommandTask client_getname(CommandRun& run) {
  if (run.session().name.empty()) co_return run.reply().null();
  co_return run.reply().bulk(std::string_view(run.session().name));
}

CommandTask client_setname(CommandRun& run) {
  if (!is_client_name(run.arg(2))) co_return run.reply().error(errors::kClientName);
  run.session().name = run.arg(2);
  co_return run.reply().ok();
}

/// Newer clients tell their library's name and version. Nobody asks for these here.
CommandTask client_setinfo(CommandRun& run) {
  co_return run.reply().ok();
}

CommandTask client_info(CommandRun& run) {
  const ClientSession& session = run.session();
  run.reply().verbatim(
      absl::StrCat("id=", session.id, " addr=", session.remote, " laddr=", session.local, " name=", session.name,
                   " age=", (run.now_ms() - session.connected_ms) / 1000, " db=", session.database,
                   " resp=", static_cast<int>(session.protocol),
                   " user=", session.user != nullptr ? absl_view(session.user->name) : absl_view(kDefaultUser), "\n"));
  co_return;
}

}  // namespace skua::kv::gateway::handlers
