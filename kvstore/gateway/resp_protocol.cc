#include "kvstore/gateway/resp_protocol.h"

#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/resp_writer.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway {
namespace {

bool has_bad_redis_key(const CommandSpec& spec, const CommandArguments& words) {
  bool is_bad = false;
  for_each_key(spec, words, [&](std::string_view key) { is_bad |= key.empty() || key.size() > kKeyBytesMax; });
  return is_bad;
}

}  // namespace

WireProtocol::Found RespProtocol::parse(std::string_view& input) {
  switch (parser_.parse(input, is_restricted())) {
    case RespParser::Found::kNothing: return Found::kNothing;
    case RespParser::Found::kCommand: return Found::kCommand;
    case RespParser::Found::kError: break;
  }
  return Found::kBroken;
}

std::string RespProtocol::error() const {
  return absl::StrCat("ERR ", parser_.error());
}

FoundCommand RespProtocol::find(const CommandArguments& words) {
  FoundCommand found;
  if (latest_ != nullptr && words[0] == latest_name_ && latest_->fits(words.size())) {
    found.spec = latest_;
  } else {
    found = find_command(words);
    const bool is_by_name = found.spec != nullptr && !found.spec->is_subcommand() && !found.spec->has(kHasSubcommands);
    latest_ = is_by_name ? found.spec : nullptr;
    if (is_by_name) latest_name_ = words[0];
  }
  if (found.spec != nullptr && has_bad_redis_key(*found.spec, words)) return {.error = std::string(errors::kKeySize)};
  return found;
}

std::string RespProtocol::denial(Denial reason, const CommandSpec& spec, const CommandArguments& /*words*/) const {
  if (reason == Denial::kNoUser) {
    const bool is_exec = spec.handler == handlers::exec;
    return std::string(is_exec ? errors::kExecNotAuthenticated : errors::kNotAuthenticated);
  }
  if (reason == Denial::kRightWasLost) return std::string(errors::kRightWasLost);
  if (spec.first_key != 0) return std::string(errors::kNoRightForKey);
  return absl::StrCat("NOPERM this user has no permissions to run the '", absl_view(spec.name), "' command");
}

/// Errors look the same in RESP2 and RESP3.
void RespProtocol::write_error(std::string_view error, ReplyBytes& reply) const {
  RespWriter(reply, RespVersion::kResp2).error(error);
}

}  // namespace skua::kv::gateway
