#include "ycsb/bindings/redis.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ycsb/bindings/pipelined_session.h"
#include "ycsb/bindings/redis_protocol.h"
#include "ycsb/core/text.h"
#include "ycsb/core/text_values.h"

namespace skua::ycsb {
namespace {

constexpr std::string_view kIndexKey = "_indices";

struct RedisOptions {
  std::string host;
  int port = 0;
  std::string password;
  uint64_t timeout_ms = 0;
  bool index = true;
};

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using BlockingReply = std::unique_ptr<redisReply, FreeReply>;

std::string address_of(const RedisOptions& options) {
  return concat("redis at ", options.host, ":", options.port);
}

/// A connected, authenticated context in blocking mode.
absl::StatusOr<Context> connect(const RedisOptions& options) {
  const timeval timeout = {static_cast<time_t>(options.timeout_ms / 1000),
                           static_cast<suseconds_t>(options.timeout_ms % 1000 * 1000)};
  Context context(redisConnectWithTimeout(options.host.c_str(), options.port, timeout));
  if (!context || context->err != 0) {
    return absl::UnavailableError(concat("cannot connect to ", address_of(options), ": ",
                                         context ? context->errstr : "out of memory",
                                         "; is redis-server running there? (-p redis.host, ", "-p redis.port)"));
  }
  redisSetTimeout(context.get(), timeout);
  if (!options.password.empty()) {
    const BlockingReply reply(
        static_cast<redisReply*>(redisCommand(context.get(), "AUTH %s", options.password.c_str())));
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
      return absl::UnauthenticatedError(
          concat(address_of(options), " refused redis.password: ", reply ? reply->str : context->errstr));
    }
  }
  const BlockingReply pong(static_cast<redisReply*>(redisCommand(context.get(), "PING")));
  if (!pong || pong->type == REDIS_REPLY_ERROR) {
    return absl::UnavailableError(concat(address_of(options),
                                         " does not answer PING: ", pong ? pong->str : context->errstr,
                                         pong ? "; does it want a password (-p redis.password)?" : "; is it Redis?"));
  }
  return context;
}

/// An operation whose replies are awaited.
struct RedisPending {
  const Operation* op = nullptr;
  CompletionFn done;
  uint64_t replies_left = 0;
  bool reading_rows = false;  // SCAN, second part
  uint64_t removed = 0;       // DELETE: keys and index entries removed
  OpResult result;
  std::string message;
};

class RedisSession final : public PipelinedSession<RedisCommands, RedisReplies, RedisPending> {
 public:
  RedisSession(const RedisOptions& options, const Schema& schema, const SessionOptions& session, Context context)
      : PipelinedSession(context->fd, address_of(options), session.in_flight_max),
        options_(options),
        schema_(schema),
        return_fields_(session.return_fields),
        context_(std::move(context)) {
    const int flags = fcntl(context_->fd, F_GETFL);
    fcntl(context_->fd, F_SETFL, flags | O_NONBLOCK);
  }

  void submit(const Operation& op, CompletionFn done) override;

 private:
  RedisPending& begin(const Operation& op, CompletionFn done, uint64_t replies);
  void append_read(std::string_view key, const Operation& op);
  void append_write(const Operation& op);
  void append_index(std::string_view command, const Operation& op);
  [[nodiscard]] bool wants_elements();
  std::string_view take_replies(uint64_t& completed) override;
  void abandon() override;
  void on_reply(const RedisReply& reply);
  void start_reading_rows(const RedisReply& keys);
  void finish();

  const RedisOptions& options_;
  const Schema& schema_;
  const bool return_fields_;
  Context context_;
  std::vector<NamedValue> fields_;
};

RedisPending& RedisSession::begin(const Operation& op, CompletionFn done, uint64_t replies) {
  RedisPending& pending = push();
  pending.op = &op;
  pending.done = done;
  pending.replies_left = replies;
  pending.reading_rows = false;
  pending.removed = 0;
  pending.result = {};
  pending.message.clear();
  return pending;
}

void RedisSession::submit(const Operation& op, CompletionFn done) {
  if (is_broken()) {
    done(OpResult(Status::kServiceUnavailable));
    return;
  }
  switch (op.kind) {
    case OpKind::kRead:
      begin(op, done, 1);
      append_read(op.key, op);
      break;
    case OpKind::kUpdate:
      begin(op, done, 1);
      append_write(op);
      break;
    case OpKind::kInsert:
      begin(op, done, options_.index ? 2 : 1);
      append_write(op);
      if (options_.index) append_index("ZADD", op);
      break;
    case OpKind::kDelete:
      begin(op, done, options_.index ? 2 : 1);
      commands_.begin(2);
      commands_.argument("DEL");
      commands_.argument(op.key);
      if (options_.index) append_index("ZREM", op);
      break;
    case OpKind::kScan:
      begin(op, done, 1);
      commands_.begin(7);
      commands_.argument("ZRANGEBYSCORE");
      commands_.argument(kIndexKey);
      commands_.argument(int64_t{java_string_hash(op.key)});
      commands_.argument("+inf");
      commands_.argument("LIMIT");
      commands_.argument(int64_t{0});
      commands_.argument(static_cast<int64_t>(op.scan_length));
      break;
    case OpKind::kReadModifyWrite: done(OpResult(Status::kNotImplemented)); break;
  }
}

void RedisSession::append_read(std::string_view key, const Operation& op) {
  commands_.begin(op.all_fields ? 2 : 2 + op.fields.size());
  commands_.argument(op.all_fields ? "HGETALL" : "HMGET");
  commands_.argument(key);
  if (op.all_fields) return;
  for (const uint32_t field : op.fields) commands_.argument(schema_.field_names[field]);
}

void RedisSession::append_write(const Operation& op) {
  commands_.begin(2 + 2 * op.writes().size());
  commands_.argument("HMSET");
  commands_.argument(op.key);
  for (const FieldWrite& write : op.writes()) {
    commands_.argument(schema_.field_names[write.field]);
    commands_.argument(write.value);
  }
}

void RedisSession::append_index(std::string_view command, const Operation& op) {
  const bool add = command == "ZADD";
  commands_.begin(add ? 4 : 3);
  commands_.argument(command);
  commands_.argument(kIndexKey);
  if (add) commands_.argument(int64_t{java_string_hash(op.key)});
  commands_.argument(op.key);
}

bool RedisSession::wants_elements() {
  const RedisPending& pending = front();
  if (pending.op->kind == OpKind::kScan) return !pending.reading_rows;
  return return_fields_ && pending.op->kind == OpKind::kRead;
}

void RedisSession::on_reply(const RedisReply& reply) {
  RedisPending& pending = front();
  --pending.replies_left;
  if (reply.kind == RedisReply::Kind::kError) {
    pending.result.status = Status::kError;
    pending.message = reply.text;
  }
  switch (pending.op->kind) {
    case OpKind::kRead: {
      // As in Java, no data at all is an error: Redis cannot tell an empty hash from none.
      if (is_ok(pending.result.status) && reply.element_count == reply.nil_count)
        pending.result.status = Status::kError;
      fields_.clear();
      const bool named = pending.op->all_fields;
      for (size_t i = 0; i + (named ? 1 : 0) < reply.ends.size(); i += named ? 2 : 1) {
        if (named) {
          fields_.push_back({reply.element(i), reply.element(i + 1)});
        } else {
          fields_.push_back({schema_.field_names[pending.op->fields[i]], reply.element(i)});
        }
      }
      pending.result.fields = fields_;
      break;
    }
    case OpKind::kScan:
      if (!pending.reading_rows && is_ok(pending.result.status)) {
        start_reading_rows(reply);
        return;
      }
      break;
    case OpKind::kDelete:
      pending.removed += static_cast<uint64_t>(std::max<int64_t>(reply.integer, 0));
      if (pending.replies_left == 0 && pending.removed == 0) pending.result.status = Status::kError;
      break;
    default: break;
  }
  if (pending.replies_left == 0) finish();
}

/// The first part's keys are here: ask for each record. The entry moves to the end of the queue,
/// where its new replies will be.
void RedisSession::start_reading_rows(const RedisReply& keys) {
  const Operation& op = *front().op;
  const CompletionFn done = front().done;
  if (keys.ends.empty()) {
    finish();
    return;
  }
  pop();
  RedisPending& pending = begin(op, done, keys.ends.size());
  pending.reading_rows = true;
  pending.result.row_count = keys.ends.size();
  for (size_t i = 0; i < keys.ends.size(); ++i) append_read(keys.element(i), op);
}

void RedisSession::finish() {
  RedisPending& pending = front();
  pop();
  pending.result.message = pending.message;
  pending.done(pending.result);
}

void RedisSession::abandon() {
  front().result.status = Status::kServiceUnavailable;
  finish();
}

std::string_view RedisSession::take_replies(uint64_t& completed) {
  while (!none_pending()) {
    const RedisReplies::Progress progress = replies_.next(wants_elements());
    if (progress == RedisReplies::Progress::kBroken) return "its answer is not Redis protocol";
    if (progress == RedisReplies::Progress::kNeedMore) break;
    on_reply(replies_.reply());
    ++completed;
  }
  return {};
}

class RedisBinding final : public Binding {
 public:
  RedisBinding(const BindingContext& context, RedisOptions options)
      : schema_(context.schema), options_(std::move(options)) {}

  /// Connects once, to fail early and to learn what kind of server it is.
  absl::Status learn_facts();

  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& session) override {
    absl::StatusOr<Context> context = connect(options_);
    if (!context.ok()) return context.status();
    return std::make_unique<RedisSession>(options_, schema_, session, *std::move(context));
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override { return facts_; }

 private:
  const Schema& schema_;
  const RedisOptions options_;
  std::vector<std::pair<std::string, std::string>> facts_;
};

absl::Status RedisBinding::learn_facts() {
  absl::StatusOr<Context> context = connect(options_);
  if (!context.ok()) return context.status();
  facts_.emplace_back("Store", address_of(options_));
  facts_.emplace_back("Index for scans", options_.index ? "on" : "off");
  const BlockingReply info(static_cast<redisReply*>(redisCommand(context->get(), "INFO")));
  if (!info || info->type != REDIS_REPLY_STRING) return absl::OkStatus();
  for (std::string_view line : split_text({info->str, static_cast<size_t>(info->len)}, '\n')) {
    line = trim_text(line);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    if (name == "redis_version") facts_.emplace_back("Store version", line.substr(colon + 1));
    if (name == "aof_enabled") facts_.emplace_back("Append-only file", line.substr(colon + 1) == "1" ? "on" : "off");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Binding>> make_redis(const BindingContext& context) {
  PropertyReader in(context.properties);
  RedisOptions options;
  options.host = in.text("redis.host", "127.0.0.1");
  options.port = static_cast<int>(in.whole("redis.port", 6379, 1, 65'535));
  options.password = in.text("redis.password", "");
  options.timeout_ms = in.whole("redis.timeout", 2000, 1, 3'600'000, "milliseconds");
  options.index = in.flag("redis.index", true);
  if (in.flag("redis.cluster", false)) {
    in.fail(
        "redis.cluster=true: this binding speaks to one server; leave it out, and give "
        "redis.host and redis.port of a server that is not in cluster mode");
  }
  if (!in.status().ok()) return in.status();
  auto binding = std::make_unique<RedisBinding>(context, std::move(options));
  if (absl::Status status = binding->learn_facts(); !status.ok()) return status;
  return binding;
}

constexpr std::array<std::array<std::string_view, 3>, 5> kProperties = {{
    {"redis.host", "127.0.0.1", "host name or address"},
    {"redis.port", "6379", "TCP port"},
    {"redis.password", "", "for AUTH"},
    {"redis.timeout", "2000", "to connect, in milliseconds"},
    {"redis.index", "true", "keep the sorted set that scans need (one more command per insert)"},
}};

}  // namespace

BindingEntry redis_binding() {
  return {.name = "redis",
          .java_class = "RedisClient",
          .help = "Redis: a hash per record, pipelined",
          .properties = kProperties,
          .make = &make_redis};
}

}  // namespace skua::ycsb
