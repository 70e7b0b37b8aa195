// Commands that change hashes. HSET, HMSET and HDEL are one request each: the store edits the row, and says how many
// fields came and went. The others read their field, because what they write depends on it, and write if nobody else
// wrote meanwhile. HDEL of more names than an edit may have reads the whole hash.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/row.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/hash_fields.h"
#include "kvstore/gateway/hash_support.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/redis_numbers.h"
#include "rpc/base/bytes.h"

namespace skua::kv::gateway::handlers {
namespace {

/// HINCRBY: the field's new value. Nothing: the client has been told what is wrong.
std::optional<std::string> integer_sum(CommandRun& run, const StoreResult& old, int64_t delta) {
  const std::optional<int64_t> number = parse_integer(field_in(old, run.arg(2)).value_or("0"));
  if (!number.has_value()) return refuse(run, errors::kHashNotAnInteger);
  int64_t sum = 0;
  if (__builtin_add_overflow(*number, delta, &sum)) return refuse(run, errors::kSumOverflow);
  return absl::StrCat(sum);
}

/// The same for HINCRBYFLOAT.
std::optional<std::string> float_sum(CommandRun& run, const StoreResult& old, long double delta) {
  const std::optional<long double> number = parse_float(field_in(old, run.arg(2)).value_or("0"));
  if (!number.has_value()) return refuse(run, errors::kHashNotAFloat);
  const long double sum = *number + delta;
  if (std::isnan(sum) || std::isinf(sum)) return refuse(run, errors::kFloatSumOverflow);
  return format_float(sum);
}

/// HDEL of names that no field can have.
CommandTask remove_nothing(CommandRun& run) {
  const StoreResult got = co_await run.store(read_mark(run));
  if (!reply_not_hash(run, got)) run.reply().integer(0);
}

/// HDEL by one edit.
CommandTask remove_fields(CommandRun& run, std::string edit) {
  const StoreResult removed = co_await run.store(edit_hash(run, edit, false));
  if (!reply_not_hash_edit(run, removed)) run.reply().integer(removed.fields.removed);
}

/// HDEL of more names than an edit may have. A hash has no more fields than that: those that it has are removed if
/// nobody changed it meanwhile.
CommandTask remove_those_there(CommandRun& run, absl::flat_hash_set<std::string_view> names) {
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store(read_value(run));
    if (reply_not_hash(run, old)) co_return;
    std::string edit;
    for (RowReader reader(as_byte_span(old.value.bytes())); const auto field = reader.next();) {
      if (names.contains(field->name)) append_field(edit, {.name = field->name, .is_removed = true});
    }
    old.value.reset();
    if (edit.empty()) co_return run.reply().integer(0);
    const StoreResult removed = co_await run.store(unless_changed(old, edit_hash(run, edit, false)));
    written = judge_write(run, removed);
    if (written == Written::kDone) run.reply().integer(removed.fields.removed);
  }
}

/// The reply is there already.
CommandTask answered(CommandRun& /*run*/) {
  co_return;
}

/// HINCRBY and HINCRBYFLOAT. `sum_of(run, hash)`: the field's new text; nothing: the client has been told what is
/// wrong.
template <typename SumOf, typename ReplySum>
CommandTask add_to_field(CommandRun& run, SumOf sum_of, ReplySum reply_sum) {
  std::string_view name = run.arg(2);
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store(read_fields(run, {&name, 1}));
    if (reply_not_hash(run, old)) co_return;
    const std::optional<std::string> sum = sum_of(run, old);
    if (!sum.has_value()) co_return;
    FieldsToSet fields;
    fields.set(run.arg(2), *sum);
    const HashChange change = fields.change_of(old.value.bytes());
    old.value.reset();
    if (reply_large_hash(run, change)) co_return;
    const std::string row = fields.as_row();
    written = judge_write(run, co_await run.store(set_fields(run, old, row)));
    if (written == Written::kDone) reply_sum(run.reply(), *sum);
  }
}

}  // namespace

/// HSET and HMSET.
CommandTask hset(CommandRun& run) {
  if (run.size() % 2 == 1) co_return run.reply().error(wrong_arity_error(run.spec().name));
  FieldsToSet fields;
  for (size_t i = 2; i < run.size(); i += 2) {
    if (reply_bad_field_name(run, run.arg(i))) co_return;
    fields.set(run.arg(i), run.arg(i + 1));
  }
  if (reply_large_hash(run, fields.change_of({}))) co_return;
  const std::string row = fields.as_row();
  const StoreResult set = co_await run.store(edit_hash(run, row, true));
  if (reply_not_hash_edit(run, set)) co_return;
  if (run.spec().name == "hmset") co_return run.reply().ok();
  run.reply().integer(set.fields.added);
}

CommandTask hsetnx(CommandRun& run) {
  if (reply_bad_field_name(run, run.arg(2))) co_return;
  std::string_view name = run.arg(2);
  FieldsToSet fields;
  fields.set(name, run.arg(3));
  const std::string row = fields.as_row();
  for (Written written = Written::kAgain; written == Written::kAgain;) {
    StoreResult old = co_await run.store(read_fields(run, {&name, 1}));
    if (reply_not_hash(run, old)) co_return;
    const HashChange change = fields.change_of(old.value.bytes());
    old.value.reset();
    if (change.added_count == 0) co_return run.reply().integer(0);
    if (reply_large_hash(run, change)) co_return;
    written = judge_write(run, co_await run.store(set_fields(run, old, row)));
    if (written == Written::kDone) run.reply().integer(1);
  }
}

/// No hash has fields of other names than is_field_name() says.
CommandTask hdel(CommandRun& run) {
  absl::flat_hash_set<std::string_view> names;
  std::string edit;
  for (size_t i = 2; i < run.size(); ++i) {
    if (!is_field_name(run.arg(i)) || !names.insert(run.arg(i)).second) continue;
    append_field(edit, {.name = run.arg(i), .is_removed = true});
  }
  if (names.empty()) return remove_nothing(run);
  return names.size() > kFieldsMax ? remove_those_there(run, std::move(names)) : remove_fields(run, std::move(edit));
}

CommandTask hincrby(CommandRun& run) {
  const std::optional<int64_t> delta = integer_arg(run, 3);
  if (!delta.has_value() || reply_bad_field_name(run, run.arg(2))) return answered(run);
  return add_to_field(
      run, [delta = *delta](CommandRun& at, const StoreResult& old) { return integer_sum(at, old, delta); },
      [](RespWriter reply, const std::string& sum) { reply.integer(*parse_integer(sum)); });
}

CommandTask hincrbyfloat(CommandRun& run) {
  const std::optional<long double> delta = parse_float(run.arg(3));
  if (!delta.has_value() || std::isinf(*delta)) {
    run.reply().error(delta.has_value() ? errors::kNanOrInfinity : errors::kNotAFloat);
    return answered(run);
  }
  if (reply_bad_field_name(run, run.arg(2))) return answered(run);
  return add_to_field(
      run, [delta = *delta](CommandRun& at, const StoreResult& old) { return float_sum(at, old, delta); },
      [](RespWriter reply, const std::string& sum) { reply.bulk(std::string_view(sum)); });
}

}  // namespace skua::kv::gateway::handlers
