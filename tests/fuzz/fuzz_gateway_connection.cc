// A Redis client that sends anything, in pieces, and takes its replies when it likes; a store that answers in any
// order, and fails now and then. Nothing is left over: whatever was taken is answered, and a client that goes away
// leaves no coroutine and no lent value.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rpc/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/kvstore/gateway/users_testing.h"

namespace skua::kv::gateway {
namespace {

/// Words that commands are made of; any bytes would seldom be a command.
constexpr std::string_view kWords[] = {
    "GET",   "SET",    "DEL",       "INCR",    "APPEND", "MGET",     "MSET",     "GETSET",      "GETDEL",
    "GETEX", "EXPIRE", "PEXPIREAT", "PERSIST", "TTL",    "SCAN",     "KEYS",     "DBSIZE",      "SELECT",
    "HELLO", "CONFIG", "COMMAND",   "INFO",    "CLIENT", "SETRANGE", "GETRANGE", "INCRBYFLOAT", "EXISTS",
    "PING",  "RESET",  "QUIT",      "a",       "b",      "0",        "1",        "3",           "-1",
    "EX",    "NX",     "XX",        "KEEPTTL", "HSET",   "HDEL",     "HGETALL",  "HINCRBY",     "HMGET",
    "HSCAN", "HSETNX", "TYPE",      "GT",      "MATCH",  "COUNT",    "*",        "[a-",         "DOCS",
    "ID",    "x",      "MULTI",     "EXEC",    "WATCH",  "DISCARD",  "UNWATCH",  "AUTH",        "ada",
    "eve",   "right",  "FLUSHALL",  "FLUSHDB", "MSETNX", "RANDOMKEY"};

std::string next_bytes(fuzz::FuzzInput& input) {
  switch (input.pick(4)) {
    case 0: return input.short_text();
    case 1: return std::string(1, static_cast<char>(input.byte()));
    default: break;
  }
  const bool is_array = input.flag();
  const size_t count = 1 + input.pick(5);
  std::string out = is_array ? "*" + std::to_string(count) + "\r\n" : "";
  for (size_t i = 0; i < count; ++i) {
    const std::string word(input.seldom() ? input.short_text() : kWords[input.pick(std::size(kWords))]);
    out += is_array ? "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n" : word + " ";
  }
  return is_array ? out : out + "\r\n";
}

StoreResult failure(fuzz::FuzzInput& input) {
  constexpr StoreResult::Status kFailures[] = {StoreResult::Status::kNotApplied, StoreResult::Status::kUnknown,
                                               StoreResult::Status::kRefused, StoreResult::Status::kOtherVersion};
  return {.status = kFailures[input.pick(std::size(kFailures))], .text = "failed"};
}

void run(fuzz::FuzzInput input) {
  const bool goes_away = input.flag();
  bool was_admitted = false;
  FakeGateway gateway;
  gateway.identity.allows_flush = true;
  std::unique_ptr<FakeClient> client;
  if (input.flag()) gateway.context.users = users_of("ada HASH *=read,write\neve HASH users=write\n", gateway);
  gateway.store.on_request = [&](const StoreRequest& request) -> std::optional<StoreResult> {
    if (request.kind == StoreRequest::Kind::kPassword) return judge_password(request);
    // After RESET, what came before it may still ask.
    was_admitted = was_admitted || client->connection().is_admitted();
    SKUA_CHECK(was_admitted, "a stranger asks the store");
    const bool may_fail = request.kind != StoreRequest::Kind::kScan && input.seldom();
    return may_fail ? std::optional(failure(input)) : std::nullopt;
  };
  client = std::make_unique<FakeClient>(gateway);
  std::string unread;
  while (!input.empty()) {
    gateway.now_us += 1000 * int64_t{input.byte()};
    switch (input.pick(4)) {
      case 0: (void)client->take_output(input.byte()); break;
      case 1:
        if (!client->waiting().empty()) client->answer(input.pick(std::min<size_t>(client->waiting().size(), 256)));
        break;
      default:
        unread += next_bytes(input);
        unread = std::string(client->send(unread));
        break;
    }
    // A verdict on a password, or replies that are taken, may have made room.
    if (client->connection().wants_input()) unread = std::string(client->send(unread));
    SKUA_CHECK(unread.empty() || !client->connection().wants_input(), "input is left that was wanted");
  }
  if (goes_away) client.reset();
  // From now on no request fails: the input has ended.
  for (int i = 0; client != nullptr && !client->connection().has_answered_all(); ++i) {
    SKUA_CHECK(i < 100'000, "a command is not answered");
    client->answer_all();
    (void)client->take_output();
  }
}

}  // namespace
}  // namespace skua::kv::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::kv::gateway::run(skua::fuzz::FuzzInput(std::as_bytes(std::span(data, size))));
  return 0;
}
