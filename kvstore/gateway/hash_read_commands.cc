// Commands that read hashes. The store gives the fields that a command names, or the whole row.
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kvstore/codec/row.h"
#include "kvstore/gateway/glob.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/hash_fields.h"
#include "kvstore/gateway/hash_support.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/scan_options.h"
#include "rpc/base/bytes.h"

namespace skua::kv::gateway::handlers {
namespace {

void reply_hash_page(CommandRun& run, std::string_view row, std::string_view pattern) {
  std::vector<std::pair<std::string_view, std::string_view>> found;
  size_t match_steps = 0;
  for (RowReader reader(as_byte_span(row)); const auto field = reader.next();) {
    match_steps += field->name.size() * pattern.size();
    if (match_steps > kMatchStepsMax) return run.reply().error(errors::kPatternTooLongForHash);
    if (glob_matches(pattern, field->name)) found.emplace_back(field->name, as_string_view(field->value));
  }
  RespWriter reply = run.reply();
  reply.array(2);
  reply.bulk(std::string_view("0"));
  reply.array(2 * found.size());
  for (const auto& [name, value] : found) reply.bulks({name, value});
}

}  // namespace

CommandTask hget(CommandRun& run) {
  std::string_view name = run.arg(2);
  const StoreResult got = co_await run.store(read_fields(run, {&name, 1}));
  if (!reply_not_hash(run, got)) run.reply().bulk_or_null(field_in(got, run.arg(2)));
}

CommandTask hmget(CommandRun& run) {
  std::vector<std::string_view> names;
  for (size_t i = 2; i < run.size(); ++i) names.push_back(run.arg(i));
  const StoreResult got = co_await run.store(read_fields(run, names));
  if (reply_not_hash(run, got)) co_return;
  const absl::flat_hash_map<std::string_view, std::string_view> fields = fields_by_name(got.value.bytes());
  run.reply().array(run.size() - 2);
  for (size_t i = 2; i < run.size(); ++i) {
    const auto found = fields.find(run.arg(i));
    run.reply().bulk_or_null(found == fields.end() ? std::nullopt : std::optional(found->second));
    if (run.reply_bytes().size() <= kManyValuesBytesMax) continue;
    run.reply_bytes().clear();
    co_return run.reply().error(errors::kReplyTooLarge);
  }
}

CommandTask hgetall(CommandRun& run) {
  const StoreResult got = co_await run.store(read_value(run));
  if (reply_not_hash(run, got)) co_return;
  RespWriter reply = run.reply();
  const bool has_names = run.spec().has(kFieldNames);
  const bool has_values = run.spec().has(kFieldValues);
  const size_t count = count_fields(got.value.bytes());
  if (has_names && has_values) {
    reply.map(count);
  } else {
    reply.array(count);
  }
  for (RowReader reader(as_byte_span(got.value.bytes())); const auto field = reader.next();) {
    if (has_names) reply.bulk(field->name);
    if (has_values) reply.bulk(as_string_view(field->value));
  }
}

CommandTask hlen(CommandRun& run) {
  const StoreResult got = co_await run.store(read_value(run));
  if (!reply_not_hash(run, got)) run.reply().integer(static_cast<int64_t>(count_fields(got.value.bytes())));
}

CommandTask hexists(CommandRun& run) {
  std::string_view name = run.arg(2);
  const StoreResult got = co_await run.store(read_fields(run, {&name, 1}));
  if (!reply_not_hash(run, got)) run.reply().integer(field_in(got, run.arg(2)).has_value() ? 1 : 0);
}

CommandTask hstrlen(CommandRun& run) {
  std::string_view name = run.arg(2);
  const StoreResult got = co_await run.store(read_fields(run, {&name, 1}));
  if (reply_not_hash(run, got)) co_return;
  run.reply().integer(static_cast<int64_t>(field_in(got, run.arg(2)).value_or("").size()));
}

/// All fields come with the first call, as from Redis for a small hash, so any cursor gives them. Redis looks at the
/// options only if there is such a key.
CommandTask hscan(CommandRun& run) {
  if (!parse_cursor(run.arg(2)).has_value()) co_return run.reply().error(errors::kInvalidCursor);
  const StoreResult got = co_await run.store(read_value(run));
  if (reply_not_hash(run, got)) co_return;
  if (!got.ok()) co_return reply_hash_page(run, {}, "*");
  const std::optional<ScanOptions> options = parse_scan_options(run, 3, false);
  if (options.has_value()) reply_hash_page(run, got.value.bytes(), options->pattern);
}

}  // namespace skua::kv::gateway::handlers
