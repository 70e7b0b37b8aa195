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
  reply.bulk(std::string_view("server"));
  reply.bulk(std::string_view("redis"));
  reply.bulk(std::string_view("version"));
  reply.bulk(kRedisVersion);
  reply.bulk(std::string_view("proto"));
  reply.integer(static_cast<int64_t>(run.session().protocol));
  reply.bulk(std::string_view("id"));
  reply.integer(static_cast<int64_t>(run.session().id));
  reply.bulk(std::string_view("mode"));
  reply.bulk(std::string_view("standalone"));
  reply.bulk(std::string_view("role"));
  reply.bulk(std::string_view("master"));
  reply.bulk(std::string_view("modules"));
  reply.array(0);
}

}  // namespace

CommandTask ping(CommandRun& run) {
  if (run.size() > 2) {
    run.reply().error(wrong_arity_error(run.spec().name));
  } else if (run.size() == 2) {
    run.reply().bulk(run.arg(1));
  } else {
    run.reply().simple("PONG");
  }
  co_return;
}

CommandTask echo(CommandRun& run) {
  run.reply().bulk(run.arg(1));
  co_return;
}

CommandTask select(CommandRun& run) {
  const std::optional<int64_t> number = integer_arg(run, 1);
  if (!number.has_value()) co_return;
  const auto& databases = run.gateway().identity.databases;
  if (*number < INT32_MIN || *number > INT32_MAX) {
    run.reply().error(errors::kNotAnInt32);
    co_return;
  }
  if (*number < 0 || !databases.contains(static_cast<uint32_t>(*number))) {
    run.reply().error(errors::kDatabaseOutOfRange);
    co_return;
  }
  run.session().database = static_cast<uint32_t>(*number);
  run.reply().ok();
}

CommandTask hello(CommandRun& run) {
  std::optional<RespVersion> protocol;
  if (run.size() > 1) {
    const std::optional<int64_t> version = parse_integer(run.arg(1));
    if (!version.has_value()) {
      run.reply().error(errors::kProtocolNotAnInteger);
      co_return;
    }
    if (*version != 2 && *version != 3) {
      run.reply().error(errors::kNoSuchProtocol);
      co_return;
    }
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
      if (authenticated != Authenticated::kYes) {
        run.reply().error(refusal_of(authenticated));
        co_return;
      }
      i += 2;
    } else if (absl::EqualsIgnoreCase(absl_view(run.arg(i)), "setname") && more >= 1) {
      name = run.arg(++i);
      if (!is_client_name(*name)) {
        run.reply().error(errors::kClientName);
        co_return;
      }
    } else {
      run.reply().error(absl::StrCat("ERR Syntax error in HELLO option '", absl_view(run.arg(i)), "'"));
      co_return;
    }
  }
  if (has_users(run) && run.session().user == nullptr) {
    run.reply().error(errors::kHelloNotAuthenticated);
    co_return;
  }
  if (name.has_value()) run.session().name = *name;
  if (protocol.has_value()) run.session().protocol = *protocol;
  reply_hello(run);
}

CommandTask auth(CommandRun& run) {
  if (run.size() > 3) {
    run.reply().error(errors::kSyntax);
  } else if (has_users(run)) {
    const bool has_name = run.size() == 3;
    const std::string_view name = has_name ? run.arg(1) : kDefaultUser;
    const std::shared_ptr<const ClientUser> user = user_named(run, name);
    const StoreResult verdict = co_await run.store(password_request(user, run.arg(has_name ? 2 : 1)));
    const Authenticated authenticated = authenticate(run, name, user, verdict);
    if (authenticated == Authenticated::kYes) {
      run.reply().ok();
    } else {
      run.reply().error(refusal_of(authenticated));
    }
  } else if (run.size() == 2) {
    run.reply().error(errors::kNoPassword);
  } else if (run.arg(1) != kDefaultUser) {
    run.reply().error(errors::kWrongPassword);
  } else {
    run.reply().ok();
  }
  co_return;
}

CommandTask quit(CommandRun& run) {
  run.session().is_ending = true;
  run.reply().ok();
  co_return;
}

CommandTask reset(CommandRun& run) {
  run.session().database = run.gateway().identity.databases.begin()->first;
  run.session().protocol = RespVersion::kResp2;
  run.session().name.clear();
  run.session().transaction.reset();
  // It is again who its certificate says, or nobody.
  run.session().user = user_named(run, run.session().certificate_name);
  run.session().is_by_certificate = run.session().user != nullptr;
  run.reply().simple("RESET");
  co_return;
}

CommandTask client_id(CommandRun& run) {
  run.reply().integer(static_cast<int64_t>(run.session().id));
  co_return;
}

CommandTask client_getname(CommandRun& run) {
  if (run.session().name.empty()) {
    run.reply().null();
  } else {
    run.reply().bulk(std::string_view(run.session().name));
  }
  co_return;
}

CommandTask client_setname(CommandRun& run) {
  if (is_client_name(run.arg(2))) {
    run.session().name = run.arg(2);
    run.reply().ok();
  } else {
    run.reply().error(errors::kClientName);
  }
  co_return;
}

/// Newer clients tell their library's name and version. Nobody asks for these here.
CommandTask client_setinfo(CommandRun& run) {
  run.reply().ok();
  co_return;
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
