// skuactl export: the rows of a table as lines of JSON (table_line.h).
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "app/file.h"
#include "kvstore/client/async_client.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/key_text.h"
#include "kvstore/ctl/line_file.h"
#include "kvstore/ctl/progress.h"
#include "kvstore/ctl/table_line.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

/// Rows of a page; the client ends a page at 32 MiB, too. A page is written as a whole.
constexpr uint32_t kPageRows = 10'000;
/// Keys of a page whose rows are read one by one, and reads in flight then: each may bring a value of 16 MiB.
constexpr uint32_t kPageKeys = 1'000;
constexpr size_t kReadsInFlight = 16;
/// Lines of rows that are read one by one are written when there are more bytes than this.
constexpr size_t kLinesBytes = size_t{32} << 20;

struct ExportArguments {
  std::string table;
  std::string prefix;
  std::string after;
  std::string file = "-";
  bool with_ttl = false;
};

class Exporter {
 public:
  Exporter(const Globals& globals, const ExportArguments& arguments, KeyRange range, std::optional<std::string> after,
           const AsyncSession& session)
      : globals_(globals),
        arguments_(arguments),
        range_(std::move(range)),
        last_key_(std::move(after)),
        session_(session),
        file_(arguments.file, *session.stop) {}

  /// OK: every row is where it should be, and on the disk if that is a file.
  absl::Status run();

  [[nodiscard]] uint64_t rows() const { return rows_; }
  /// All rows up to this key are written; nothing: no row is.
  [[nodiscard]] const std::optional<std::string>& last_key() const { return last_key_; }
  [[nodiscard]] const LineFile& file() const { return file_; }

 private:
  struct Page {
    bool is_there = false;
    ScanResult result;
  };
  struct Group {
    size_t left = 0;
    std::vector<GetResult> results;
  };

  [[nodiscard]] ReadOptions read_options() const {
    return {.timeout = std::chrono::nanoseconds(globals_.timeout_ns), .with_mark = true};
  }
  absl::Status read_page(std::string_view start, Page& page);
  absl::Status write_page(const ScanResult& page);
  absl::Status append_rows(std::span<const Row> rows, std::string& lines);
  absl::Status append_group(std::span<const Row> keys, std::string& lines);
  /// Writes the lines of all rows up to the key `last` that are not written yet, and clears them. Empty: no row is new.
  absl::Status write_lines(std::string& lines, std::string_view last);

  const Globals& globals_;
  const ExportArguments& arguments_;
  const KeyRange range_;
  std::optional<std::string> last_key_;
  const AsyncSession& session_;
  LineFile file_;
  Progress progress_;
  uint64_t rows_ = 0;
  uint64_t page_rows_ = 0;  // whose lines are not written yet
};

absl::Status Exporter::read_page(std::string_view start, Page& page) {
  // Shared with the callback, which also runs when the client is destroyed after Ctrl-C.
  const auto read = std::make_shared<Page>();
  const ScanRange range{.start = start,
                        .end = range_.end,
                        .limit = arguments_.with_ttl ? kPageKeys : kPageRows,
                        .keys_only = arguments_.with_ttl};
  absl::Status begun = session_.client->scan(arguments_.table, range, read_options(), [read](ScanResult&& result) {
    read->result = std::move(result);
    read->is_there = true;
  });
  if (begun.ok()) begun = poll_until(session_, read->is_there);
  if (!begun.ok()) return begun;
  page = std::move(*read);
  return page.result.status;
}

/// Reads the keys one by one, because a scan tells no time to live. Value, mark and time to live are of one moment.
absl::Status Exporter::append_group(std::span<const Row> keys, std::string& lines) {
  const auto group = std::make_shared<Group>();
  group->results.resize(keys.size());
  bool is_done = false;
  ReadOptions options = read_options();
  options.with_ttl = true;
  for (size_t i = 0; i < keys.size(); ++i) {
    absl::Status begun = session_.client->get(arguments_.table, keys[i].key, options, [group, i](GetResult&& result) {
      group->results[i] = std::move(result);
      --group->left;
    });
    if (!begun.ok()) return begun;
    ++group->left;
  }
  absl::Status ended = poll_until(session_, is_done, [&] { is_done = group->left == 0; });
  if (!ended.ok()) {
    // What was read must not outlive the client, and callbacks that are still to come hold the group.
    for (GetResult& result : group->results) result = GetResult();
    return ended;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const GetResult& result = group->results[i];
    if (absl::IsNotFound(result.status)) continue;  // deleted, or vanished, since the scan
    if (!result.ok()) return result.status;
    TableLine line{std::string(keys[i].key), result.value.str(), result.mark, result.ttl};
    if (line.ttl.has_value()) line.ttl = std::max(*line.ttl, std::chrono::milliseconds(1));
    absl::StrAppend(&lines, line_of(line), "\n");
    ++page_rows_;
  }
  return absl::OkStatus();
}

absl::Status Exporter::append_rows(std::span<const Row> rows, std::string& lines) {
  page_rows_ = 0;
  if (!arguments_.with_ttl) {
    for (const Row& row : rows) {
      absl::StrAppend(&lines, line_of({std::string(row.key), std::string(row.value), row.mark}), "\n");
    }
    page_rows_ = rows.size();
    return absl::OkStatus();
  }
  while (!rows.empty()) {
    const std::span<const Row> group = rows.first(std::min(rows.size(), kReadsInFlight));
    rows = rows.subspan(group.size());
    if (absl::Status status = append_group(group, lines); !status.ok()) return status;
    if (lines.size() <= kLinesBytes) continue;
    if (absl::Status status = write_lines(lines, group.back().key); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Exporter::write_lines(std::string& lines, std::string_view last) {
  // Not before: a table that is not there, or cannot be read, shall not cost the file what it has.
  if (!file_.is_open()) {
    if (absl::Status status = file_.open(last_key_.has_value()); !status.ok()) return status;
  }
  if (absl::Status status = file_.write(lines); !status.ok()) return status;
  lines.clear();
  if (!last.empty()) last_key_ = std::string(last);
  rows_ += std::exchange(page_rows_, 0);
  return absl::OkStatus();
}

absl::Status Exporter::write_page(const ScanResult& page) {
  std::span<const Row> rows = page.rows;
  // A scan begins with the key itself, and what was asked for is behind it.
  if (!rows.empty() && rows.front().key == last_key_) rows = rows.subspan(1);
  std::string lines;
  if (absl::Status status = append_rows(rows, lines); !status.ok()) return status;
  return write_lines(lines, rows.empty() ? std::string_view() : std::string_view(rows.back().key));
}

absl::Status Exporter::run() {
  std::string start = std::max(range_.start, last_key_.value_or(std::string()));
  for (bool has_more = true; has_more;) {
    Page page;
    if (absl::Status status = read_page(start, page); !status.ok()) return status;
    if (absl::Status status = write_page(page.result); !status.ok()) return status;
    has_more = page.result.has_more;
    start = std::move(page.result.next_start);
    progress_.tell([&] { return absl::StrCat("exported ", counted(rows_, "row")); });
  }
  return file_.finish();
}

/// Tells what failed, and the command that goes on.
int report_unfinished(const app::Program& program, const ExportArguments& arguments, const Exporter& exporter,
                      const absl::Status& status) {
  // A reader that went away wants no more, as app::finish_output() has it.
  if (exporter.file().has_lost_reader()) return app::kExitFailure;
  report_failure(with_timeout_hint(status, "a page of large rows"));
  if (exporter.file().is_uncertain()) {
    print_notice(absl::StrCat("what ", arguments.file, " has is not certain: export again from the beginning"));
    return app::kExitFailure;
  }
  if (!exporter.last_key().has_value()) return app::kExitFailure;
  std::vector<std::string> words = {"export", arguments.table,
                                    absl::StrCat("--after=", key_text(*exporter.last_key()))};
  if (!arguments.prefix.empty()) words.push_back(absl::StrCat("--prefix=", arguments.prefix));
  if (arguments.with_ttl) words.emplace_back("--with-ttl");
  if (!exporter.file().is_standard_output()) words.push_back(absl::StrCat("--file=", arguments.file));
  print_notice(
      absl::StrCat(counted(exporter.rows(), "row"), " exported; ",
                   exporter.file().has_remains() ? "what was written behind that row must be removed first; " : "",
                   "go on with ", command_line(program, words)));
  return app::kExitFailure;
}

/// The key of --after, which is read as it is printed, also with --raw-keys.
std::optional<std::string> after_of(const ExportArguments& arguments, const KeyRange& range) {
  if (arguments.after.empty()) return std::nullopt;
  std::string after = printed_key_of("--after", arguments.after);
  if (!range.end.empty() && after >= range.end) {
    fail_usage("--after is behind all keys that begin with --prefix");
  }
  return after;
}

int export_table(const app::Program& program, const Globals& globals, const ExportArguments& arguments) {
  const KeyRange range = prefix_range(globals, arguments.prefix);
  const std::optional<std::string> after = after_of(arguments, range);
  if (arguments.file != "-") must_be_valid(app::check_output_file(arguments.file), "cannot write the file: ");
  const AsyncSession session = open_async_client(globals, arguments.table);
  Exporter exporter(globals, arguments, range, after, session);
  const absl::Status status = exporter.run();
  if (!status.ok()) return report_unfinished(program, arguments, exporter, status);
  if (exporter.file().is_standard_output()) return app::kExitOk;
  return answer(globals, {{"done", "exported"}, {"rows", exporter.rows()}, {"file", arguments.file}},
                absl::StrCat("exported ", counted(exporter.rows(), "row"), "\n"));
}

}  // namespace

void add_export_command(app::Program& program, const Globals& globals) {
  auto arguments = std::make_shared<ExportArguments>();
  app::Command& command = program.add_command("export", "Writes the rows of a table as lines of JSON.");
  command.description(
      "A line for each row, in key order: {\"key\":\"greeting\",\"value\":\"hello\"}. What is not UTF-8 is in "
      "key_base64 or value_base64 instead. Marks are in tag and row. A scan tells no times to live: with --with-ttl "
      "each row is read by itself, and the line has ttl_ms. Rows are read in pages of different moments, so writes "
      "that are made meanwhile may be there or not.\n\n"
      "--timeout holds for each page. If the export fails, the last line on standard error is the command that goes "
      "on. A file only ever has whole lines, and is on the disk when the command ends with code 0.");
  add_table_argument(command, "table", arguments->table);
  add_prefix_option(command, arguments->prefix);
  command.add_string("file", &arguments->file, "Where the lines go; -: standard output.").value_name("FILE");
  command
      .add_string("after", &arguments->after,
                  "Only keys behind this one, and behind what the file has: to go on. \\xNN is a byte also with "
                  "--raw-keys.")
      .value_name("KEY");
  command.add_bool("with-ttl", &arguments->with_ttl, "With times to live; slower.");
  command.example("skuactl export notes --file notes.jsonl", "a copy of the table");
  command.example("skuactl export sessions --prefix user: --with-ttl | gzip >users.gz", "a part of it");
  command.action([&program, &globals, arguments] { return export_table(program, globals, *arguments); });
}

}  // namespace skua::kv::ctl
