// skuactl count.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/client/async_client.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/progress.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

struct CountArguments {
  std::string table;
  std::string prefix;
};

/// Shared with the callback, which also runs when the client is destroyed.
struct CountEnd {
  bool is_there = false;
  absl::Status status;
  uint64_t count = 0;
};

int count(const Globals& globals, const CountArguments& arguments) {
  const KeyRange range = prefix_range(globals, arguments.prefix);
  const AsyncSession session = open_async_client(globals, arguments.table);
  AsyncClient& client = *session.client;
  const auto end = std::make_shared<CountEnd>();
  const ScanRange counted_range{
      .start = range.start, .end = range.end, .limit = 1, .keys_only = false, .count_only = true};
  const absl::Status begun =
      client.scan(arguments.table, counted_range, ReadOptions{.timeout = std::chrono::nanoseconds(globals.timeout_ns)},
                  [end](ScanResult&& result) {
                    end->is_there = true;
                    end->status = std::move(result.status);
                    end->count = result.count;
                  });
  if (!begun.ok()) return report_failure(begun);
  // The count itself is known at the end only. The client asks for a page at a time of each shard.
  Progress progress(isatty(STDERR_FILENO) != 0);
  const absl::Status polled = poll_until(session, end->is_there, [&] {
    progress.tell([&] {
      return absl::StrCat("counting: ", counted(client.counters().attempts, "page"), " of 10,000 rows at most");
    });
  });
  if (!polled.ok()) return report_failure(polled);
  if (!end->status.ok()) return report_failure(with_timeout_hint(end->status, "a large table"));
  return answer(globals, {{"count", end->count}}, absl::StrCat(end->count, "\n"));
}

}  // namespace

void add_count_command(app::Program& program, const Globals& globals) {
  const auto [command, arguments] = add_command(program, "count", "Counts the keys of a table.", globals, count);
  command.description(
      "The nodes read what they count, page by page, and each page is counted at a moment of its own. All of it must "
      "be done within --timeout: a large table needs a longer one.");
  add_table_argument(command, "table", arguments.table);
  add_prefix_option(command, arguments.prefix);
  command.example("skuactl count notes", "");
  command.example("skuactl count sessions --prefix user: --timeout 10m", "keys that begin with user:");
}

}  // namespace skua::kv::ctl
