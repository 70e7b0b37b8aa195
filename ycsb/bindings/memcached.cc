#include "ycsb/bindings/memcached.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ycsb/bindings/memcached_connection.h"
#include "ycsb/bindings/memcached_protocol.h"
#include "ycsb/bindings/pipelined_session.h"
#include "ycsb/bindings/rows.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

/// How often an update begins again because somebody else has stored meanwhile.
constexpr uint32_t kUpdateTriesMax = 100;

/// An operation whose reply is awaited.
struct MemcachedPending {
  const Operation* op = nullptr;
  CompletionFn done;
  bool storing = false;  // UPDATE, second part
  uint32_t tries = 0;
};

class MemcachedSession final : public PipelinedSession<MemcachedCommands, MemcachedReplies, MemcachedPending> {
 public:
  MemcachedSession(const MemcachedAddress& address, const Schema& schema, const SessionOptions& session,
                   MemcachedConnection connection)
      : PipelinedSession(connection.fd(), address.text(), session.in_flight_max),
        schema_(schema),
        return_fields_(session.return_fields),
        connection_(std::move(connection)),
        rows_(schema) {}

  void submit(const Operation& op, CompletionFn done) override;

 private:
  /// The oldest entry goes on as `entry`, at the end of the queue, where its new reply will be.
  void requeue(const MemcachedPending& entry) {
    pop();
    push() = entry;
  }
  void start_update(const Operation& op);
  [[nodiscard]] bool writes_all(const Operation& op) const { return op.writes().size() == schema_.field_names.size(); }

  std::string_view take_replies(uint64_t& completed) override;
  void abandon() override { finish(OpResult(Status::kServiceUnavailable)); }
  void on_reply(const MemcachedReply& reply);
  void on_read(const MemcachedReply& reply);
  void on_update(const MemcachedReply& reply);
  void finish(OpResult result);

  const Schema& schema_;
  const bool return_fields_;
  MemcachedConnection connection_;
  RowCoder rows_;
};

void MemcachedSession::submit(const Operation& op, CompletionFn done) {
  if (is_broken()) {
    done(OpResult(Status::kServiceUnavailable));
    return;
  }
  if (!is_memcached_key(op.key)) {
    OpResult refused(Status::kBadRequest);
    refused.message = "memcached takes keys of 1 to 250 bytes without blanks (keyprefix, zeropadding)";
    done(refused);
    return;
  }
  switch (op.kind) {
    case OpKind::kRead: commands_.get(op.key, false); break;
    case OpKind::kUpdate: start_update(op); break;
    case OpKind::kInsert:
      rows_.encode(op);
      commands_.set(op.key, rows_.encoded(), MemcachedCommands::StoreIf::kAlways);
      break;
    case OpKind::kDelete: commands_.remove(op.key); break;
    case OpKind::kScan:
    case OpKind::kReadModifyWrite: {
      OpResult refused(Status::kNotImplemented);
      refused.message = "memcached has no scans";
      done(refused);
      return;
    }
  }
  push() = {.op = &op, .done = done};
}

void MemcachedSession::start_update(const Operation& op) {
  if (!writes_all(op)) {
    commands_.get(op.key, true);
    return;
  }
  rows_.encode(op);
  commands_.set(op.key, rows_.encoded(), MemcachedCommands::StoreIf::kPresent);
}

Status status_of(const MemcachedReply& reply) {
  using Kind = MemcachedReply::Kind;
  switch (reply.kind) {
    case Kind::kDone:
    case Kind::kValue: return Status::kOk;
    case Kind::kMiss:
    case Kind::kNotFound:
    case Kind::kNotStored: return Status::kNotFound;  // "present" is the only condition there is
    case Kind::kExists: return Status::kUnexpectedState;
    case Kind::kError: break;
  }
  return Status::kError;
}

OpResult result_of(const MemcachedReply& reply) {
  OpResult result(status_of(reply));
  if (reply.kind == MemcachedReply::Kind::kError) result.message = reply.text;
  return result;
}

void MemcachedSession::on_reply(const MemcachedReply& reply) {
  switch (front().op->kind) {
    case OpKind::kRead: on_read(reply); break;
    case OpKind::kUpdate: on_update(reply); break;
    default: finish(result_of(reply)); break;
  }
}

void MemcachedSession::on_read(const MemcachedReply& reply) {
  OpResult result = result_of(reply);
  if (reply.kind == MemcachedReply::Kind::kValue) {
    if (!rows_.decode(reply.text)) {
      result = RowCoder::not_a_row();
    } else {
      rows_.pick(*front().op);
      if (return_fields_) result.fields = rows_.fields();
    }
  }
  finish(result);
}

void MemcachedSession::on_update(const MemcachedReply& reply) {
  MemcachedPending entry = front();
  const Operation& op = *entry.op;
  if (!entry.storing && reply.kind == MemcachedReply::Kind::kValue) {
    if (!rows_.decode(reply.text)) {
      finish(RowCoder::not_a_row());
      return;
    }
    rows_.encode_merged(op);
    commands_.set_version(op.key, rows_.encoded(), reply.version);
    entry.storing = true;
    requeue(entry);
  } else if (entry.storing && reply.kind == MemcachedReply::Kind::kExists && ++entry.tries < kUpdateTriesMax) {
    commands_.get(op.key, true);
    entry.storing = false;
    requeue(entry);
  } else {
    finish(result_of(reply));
  }
}

void MemcachedSession::finish(OpResult result) {
  const CompletionFn done = front().done;
  pop();
  done(result);
}

std::string_view MemcachedSession::take_replies(uint64_t& completed) {
  for (;;) {
    const MemcachedReplies::Progress progress = replies_.next();
    if (progress == MemcachedReplies::Progress::kNeedMore) return {};
    if (progress == MemcachedReplies::Progress::kBroken) return "its answer is not memcached's meta protocol";
    if (none_pending()) return "it answers what was not asked";
    on_reply(replies_.reply());
    ++completed;
  }
}

class MemcachedBinding final : public Binding {
 public:
  MemcachedBinding(const BindingContext& context, MemcachedAddress address)
      : schema_(context.schema), address_(std::move(address)) {}

  /// Connects once, to fail early and to learn what kind of server it is.
  absl::Status learn_facts() {
    absl::StatusOr<MemcachedConnection> connection = MemcachedConnection::open(address_);
    if (!connection.ok()) return connection.status();
    facts_ = {{"Store", address_.text()}, {"Durability", "none"}};
    facts_.emplace_back("Store version", connection->version());
    const absl::StatusOr<std::string> stats = connection->ask("stats\r\n", "END\r\n");
    if (!stats.ok()) return stats.status();
    for (const std::string_view line : split_text(*stats, '\n')) {
      const std::vector<std::string_view> words = split_text(trim_text(line), ' ');
      if (words.size() != 3) continue;
      if (words[1] == "threads") facts_.emplace_back("Store threads", words[2]);
      if (words[1] == "limit_maxbytes") facts_.emplace_back("Store memory limit (bytes)", words[2]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& session) override {
    absl::StatusOr<MemcachedConnection> connection = MemcachedConnection::open(address_);
    if (!connection.ok()) return connection.status();
    return std::make_unique<MemcachedSession>(address_, schema_, session, *std::move(connection));
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override { return facts_; }

 private:
  const Schema& schema_;
  const MemcachedAddress address_;
  std::vector<std::pair<std::string, std::string>> facts_;
};

absl::StatusOr<std::unique_ptr<Binding>> make_memcached(const BindingContext& context) {
  PropertyReader in(context.properties);
  MemcachedAddress address;
  address.host = in.text("memcached.host", "127.0.0.1");
  address.port = static_cast<int>(in.whole("memcached.port", 11'211, 1, 65'535));
  address.timeout =
      static_cast<DurationNs>(in.whole("memcached.timeout", 2000, 1, 3'600'000, "milliseconds")) * kMillisecond;
  if (!in.text("memcached.hosts", "").empty()) {
    in.fail(
        "memcached.hosts: this binding speaks to one server; leave it out, and give memcached.host and memcached.port");
  }
  if (!in.status().ok()) return in.status();
  auto binding = std::make_unique<MemcachedBinding>(context, std::move(address));
  if (absl::Status status = binding->learn_facts(); !status.ok()) return status;
  return binding;
}

constexpr std::array<std::array<std::string_view, 3>, 3> kProperties = {{
    {"memcached.host", "127.0.0.1", "host name or address"},
    {"memcached.port", "11211", "TCP port"},
    {"memcached.timeout", "2000", "to connect, in milliseconds"},
}};

}  // namespace

BindingEntry memcached_binding() {
  return {.name = "memcached",
          .java_class = "MemcachedClient",
          .help = "memcached: a row per item, pipelined; no scans",
          .properties = kProperties,
          .make = &make_memcached};
}

}  // namespace skua::ycsb
