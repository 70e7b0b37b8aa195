// Commands about keys: of some, or of a whole table.
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/size_limits.h"
#include "kvstore/gateway/glob.h"
#include "kvstore/gateway/handler_support.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/random_key_search.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/scan_options.h"
#include "kvstore/gateway/table_flush.h"
#include "rpc/base/rng.h"
#include "rpc/base/status.h"

namespace skua::kv::gateway::handlers {
namespace {

using Kind = StoreRequest::Kind;

/// Rows that KEYS and DBSIZE read at a time.
constexpr uint32_t kPageRows = 1000;
/// The most that one SCAN reads, whatever its COUNT says.
constexpr int64_t kScanRowsPerCallMax = 10'000;
constexpr size_t kKeysBytesMax = size_t{64} << 20;

/// Steps of glob_matches() for one page: some milliseconds, in which the thread does nothing else.
constexpr size_t kMatchStepsOfPage = size_t{8} << 20;

/// So many rows or fewer, that the pattern can be compared with their keys without a pause. At least one.
uint32_t rows_to_match(std::string_view pattern, int64_t rows_max) {
  const size_t steps_per_row = kKeyBytesMax * std::max<size_t>(pattern.size(), 1);
  const auto rows = static_cast<int64_t>(std::max<size_t>(kMatchStepsOfPage / steps_per_row, 1));
  return static_cast<uint32_t>(std::min(rows_max, rows));
}

/// Whether SCAN gives a key, by its type: rows have marks if the options name one.
bool is_wanted_type(const ScanOptions& options, const Row& row) {
  if (!options.type.has_value()) return true;
  return absl::EqualsIgnoreCase(absl_view(*options.type), row.mark.row ? "hash" : "string");
}

void reply_page(CommandRun& run, const ScanResult& page, const ScanOptions& options) {
  uint64_t cursor = 0;
  if (page.has_more) {
    cursor = run.gateway().identity.cursors->remember(run.session().id, run.database(), page.next_start);
  }
  std::vector<std::string_view> found;
  for (const Row& row : page.rows) {
    if (is_wanted_type(options, row) && glob_matches(options.pattern, row.key)) found.push_back(row.key);
  }
  RespWriter reply = run.reply();
  reply.array(2);
  reply.bulk(std::string_view(absl::StrCat(cursor)));
  reply.array(found.size());
  for (const std::string_view key : found) reply.bulk(key);
}

}  // namespace

CommandTask del(CommandRun& run) {
  // A key that comes twice is removed, and counted, once.
  absl::flat_hash_set<std::string_view> seen;
  std::vector<StoreRequest> requests;
  WriteTally tally;
  for (size_t i = 1; i < run.size(); ++i) {
    const bool is_new = seen.insert(run.arg(i)).second;
    if (is_new && !tally.has_failed()) requests.push_back({.kind = Kind::kRemove, .key = run.arg(i)});
    const bool is_last = i + 1 == run.size();
    if (requests.empty() || (requests.size() < kRequestsPerCommandMax && !is_last)) continue;
    for (const StoreResult& result : co_await run.store_all(requests)) tally.add(result);
    requests.clear();
  }
  if (!tally.reply_failure(run, seen.size())) run.reply().integer(static_cast<int64_t>(tally.ok_count()));
}

CommandTask exists(CommandRun& run) {
  std::vector<StoreRequest> requests;
  int64_t count = 0;
  for (size_t i = 1; i < run.size(); ++i) {
    requests.push_back({.kind = Kind::kGet, .key = run.arg(i), .drops_value = true});
    if (requests.size() < kRequestsPerCommandMax && i + 1 < run.size()) continue;
    for (const StoreResult& result : co_await run.store_all(requests)) {
      if (reply_failure(run, result)) co_return;
      if (result.ok()) ++count;
    }
    requests.clear();
  }
  run.reply().integer(count);
}

CommandTask type(CommandRun& run) {
  const StoreResult got = co_await run.store(read_mark(run));
  if (reply_failure(run, got)) co_return;
  const std::string_view type_of_value = got.mark.row ? "hash" : "string";
  run.reply().simple(got.ok() ? type_of_value : "none");
}

CommandTask scan(CommandRun& run) {
  const std::optional<uint64_t> cursor = parse_cursor(run.arg(1));
  if (!cursor.has_value()) co_return run.reply().error(errors::kInvalidCursor);
  const std::optional<ScanOptions> options = parse_scan_options(run, 2, true);
  if (!options.has_value()) co_return;
  // The store scans in the order of keys, so only keys with the pattern's beginning are read.
  const std::string prefix = glob_prefix(options->pattern);
  if (prefix.size() > kKeyBytesMax) co_return reply_page(run, {}, *options);
  const std::string end = end_of_prefix(prefix);
  std::optional<std::string> start = prefix;
  if (*cursor != 0) start = run.gateway().identity.cursors->find(run.database(), *cursor);
  if (!start.has_value()) co_return run.reply().error(errors::kUnknownCursor);
  const StoreResult page =
      co_await run.store({.kind = Kind::kScan,
                          .key = std::max(*start, prefix),
                          .with_mark = options->type.has_value(),
                          .end = end,
                          .rows_max = rows_to_match(options->pattern, std::min(options->count, kScanRowsPerCallMax)),
                          .keys_only = true});
  if (!reply_failure(run, page)) reply_page(run, *page.scan, *options);
}

CommandTask keys(CommandRun& run) {
  const std::string_view pattern = run.arg(1);
  if (reply_long_pattern(run, pattern)) co_return;
  const std::string prefix = glob_prefix(pattern);
  if (prefix.size() > kKeyBytesMax) co_return run.reply().array(0);
  const std::string end = end_of_prefix(prefix);
  ReplyBytes found;
  RespWriter writer(found, RespVersion::kResp2);
  size_t count = 0;
  std::string start = prefix;
  for (bool has_more = true; has_more;) {
    const StoreResult page = co_await run.store({.kind = Kind::kScan,
                                                 .key = start,
                                                 .end = end,
                                                 .rows_max = rows_to_match(pattern, kPageRows),
                                                 .keys_only = true});
    if (reply_failure(run, page)) co_return;
    for (const Row& row : page.scan->rows) {
      if (!glob_matches(pattern, row.key)) continue;
      writer.bulk(row.key);
      ++count;
    }
    if (found.size() > kKeysBytesMax) co_return run.reply().error(errors::kReplyTooLarge);
    has_more = page.scan->has_more;
    start = page.scan->next_start;
  }
  run.reply().array(count);
  run.reply_bytes().append(found.text());
}

CommandTask dbsize(CommandRun& run) {
  const StoreResult all = co_await run.store({.kind = Kind::kScan, .count_only = true});
  if (!reply_failure(run, all)) run.reply().integer(static_cast<int64_t>(all.scan->count));
}

CommandTask randomkey(CommandRun& run) {
  Rng random(std::random_device{}());
  RandomKeySearch search;
  while (!search.is_done()) {
    const StoreResult page = co_await run.store(search.scan());
    if (reply_failure(run, page)) co_return;
    search.take(*page.scan, random.next());
  }
  run.reply().bulk_or_null(search.key());
}

/// Meant for tests and caches: it takes as long as the table is large.
CommandTask flush(CommandRun& run) {
  const absl::string_view how = run.size() > 1 ? absl_view(run.arg(1)) : "";
  if (run.size() > 2 ||
      (run.size() == 2 && !absl::EqualsIgnoreCase(how, "async") && !absl::EqualsIgnoreCase(how, "sync"))) {
    co_return run.reply().error(errors::kSyntax);
  }
  if (!run.gateway().identity.allows_flush) co_return run.reply().error(errors::kNoFlush);
  const bool is_all = run.spec().has(kAllDatabases);
  const uint32_t selected = run.database();
  for (const auto& [database, table] : run.gateway().identity.databases) {
    if (!is_all && database != selected) continue;
    run.use_database(database);
    TableFlush flushed;
    while (flushed.has_more()) {
      if (run.gateway().users != nullptr && run.session().user == nullptr) {
        run.reply().error(errors::kNotAuthenticated);  // the user is gone: it may take minutes yet
        co_return;
      }
      const StoreResult page = co_await run.store(flushed.page());
      if (reply_failure(run, page)) co_return;
      flushed.take(page);
      if (flushed.removals().empty()) continue;
      flushed.add_removed(co_await run.store_all(flushed.removals()));
      if (flushed.tally().reply_failure(run, flushed.key_count())) co_return;
    }
  }
  run.reply().ok();
}

}  // namespace skua::kv::gateway::handlers
