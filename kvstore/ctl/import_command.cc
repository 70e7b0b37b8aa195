// skuactl import: writes the rows that lines of JSON have (table_line.h), many at a time.
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/exit.h"
#include "kvstore/client/async_client.h"
#include "kvstore/codec/text.h"
#include "kvstore/ctl/commands.h"
#include "kvstore/ctl/line_source.h"
#include "kvstore/ctl/line_splitter.h"
#include "kvstore/ctl/progress.h"
#include "kvstore/ctl/table_line.h"
#include "kvstore/ctl/with_client.h"

namespace skua::kv::ctl {
namespace {

/// Writes in flight, and bytes of their keys and values: enough for full groups of the nodes' logs.
constexpr size_t kWritesInFlight = 512;
constexpr size_t kBytesInFlight = size_t{16} << 20;
/// Lines that are taken before the import looks at answers and at Ctrl-C.
constexpr size_t kLinesAtOnce = 4096;
/// So long the import sleeps if it can neither read nor write; answers wake it.
constexpr std::chrono::milliseconds kSourcePause(20);

struct ImportArguments {
  std::string table;
  std::string file = "-";
  uint64_t skip_lines = 0;
  Durability durability = Durability::kDefault;
};

class Importer {
 public:
  Importer(const Globals& globals, const ImportArguments& arguments, LineSource& source, const AsyncSession& session)
      : globals_(globals),
        arguments_(arguments),
        source_(source),
        session_(session),
        ledger_(arguments.skip_lines),
        to_skip_(arguments.skip_lines) {}

  /// Returns when no write is in flight. OK: all lines are stored. Otherwise the failure that was seen first.
  absl::Status run();

  [[nodiscard]] uint64_t rows() const { return rows_; }
  [[nodiscard]] uint64_t stored_lines() const { return ledger_.stored(); }
  /// All lines that were to be left out were there.
  [[nodiscard]] bool has_skipped() const { return to_skip_ == 0; }

 private:
  /// A row whose write is about to begin.
  struct Waiting {
    uint64_t line = 0;
    TableLine row;
  };

  void fail(uint64_t line, const absl::Status& status);
  /// Begins writes until there are enough, there is no line now, or many lines were taken. True: in the last case.
  bool begin_writes();
  /// Takes the next line. False: there is none now.
  bool take_line();
  [[nodiscard]] bool may_begin(const TableLine& row) const;
  void begin_write(Waiting&& waiting);
  void ended(uint64_t line, const std::string& key, size_t bytes, const WriteResult& result);

  const Globals& globals_;
  const ImportArguments& arguments_;
  LineSource& source_;
  const AsyncSession& session_;
  LineLedger ledger_;
  uint64_t to_skip_;
  std::optional<Waiting> waiting_;
  // Of two lines with one key the later one must be written later.
  std::unordered_set<std::string> keys_in_flight_;
  size_t bytes_in_flight_ = 0;
  uint64_t rows_ = 0;
  absl::Status failure_;
  Progress progress_;
};

void Importer::fail(uint64_t line, const absl::Status& status) {
  if (failure_.ok()) failure_ = with_words(absl::StrCat("line ", line, ": "), status);
}

bool Importer::take_line() {
  const absl::StatusOr<std::optional<std::string_view>> line = source_.next();
  if (line.ok() && !line->has_value()) return false;
  if (to_skip_ > 0 && line.ok()) {
    --to_skip_;
    return true;
  }
  const uint64_t number = to_skip_ > 0 ? arguments_.skip_lines - to_skip_ + 1 : ledger_.begin();
  if (!line.ok()) {
    fail(number, line.status());
    return false;
  }
  if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) {
    ledger_.end(number);
    return true;
  }
  absl::StatusOr<TableLine> row = parse_table_line(**line);
  if (!row.ok()) {
    fail(number, row.status());
    return false;
  }
  waiting_ = Waiting{number, *std::move(row)};
  return true;
}

bool Importer::may_begin(const TableLine& row) const {
  if (keys_in_flight_.empty()) return true;
  return keys_in_flight_.size() < kWritesInFlight && !keys_in_flight_.contains(row.key) &&
         bytes_in_flight_ + row.key.size() + row.value.size() <= kBytesInFlight;
}

void Importer::begin_write(Waiting&& waiting) {
  WriteOptions options{.timeout = std::chrono::nanoseconds(globals_.timeout_ns),
                       .mark = waiting.row.mark,
                       .durability = arguments_.durability};
  if (waiting.row.ttl.has_value()) options.ttl = *waiting.row.ttl;
  const size_t bytes = waiting.row.key.size() + waiting.row.value.size();
  const std::string key = std::move(waiting.row.key);
  const absl::Status begun = session_.client->put(
      arguments_.table, key, PutValue(std::move(waiting.row.value)), options,
      [this, line = waiting.line, key, bytes](WriteResult&& result) { ended(line, key, bytes, result); });
  if (!begun.ok()) return fail(waiting.line, begun);
  keys_in_flight_.insert(key);
  bytes_in_flight_ += bytes;
}

void Importer::ended(uint64_t line, const std::string& key, size_t bytes, const WriteResult& result) {
  keys_in_flight_.erase(key);
  bytes_in_flight_ -= bytes;
  if (!result.ok()) return fail(line, result.status);
  ledger_.end(line);
  ++rows_;
}

bool Importer::begin_writes() {
  for (size_t taken = 0; failure_.ok(); ++taken) {
    // Lines that are left out and blank lines begin no write, and there may be any number of them.
    if (taken == kLinesAtOnce) return true;
    if (!waiting_.has_value() && (source_.has_ended() || !take_line())) return false;
    if (!waiting_.has_value()) continue;
    if (!may_begin(waiting_->row)) return false;
    begin_write(*std::exchange(waiting_, std::nullopt));
  }
  return false;
}

absl::Status Importer::run() {
  for (;;) {
    if (failure_.ok() && session_.stop->wait_for(0)) failure_ = absl::CancelledError("interrupted");
    const bool has_more = begin_writes();
    const bool reads_on = failure_.ok() && (waiting_.has_value() || !source_.has_ended());
    if (!reads_on && keys_in_flight_.empty()) break;
    session_.client->poll(has_more ? std::chrono::milliseconds(0) : kSourcePause);
    progress_.tell([&] { return absl::StrCat("imported ", counted(rows_, "row")); });
  }
  if (failure_.ok() && to_skip_ > 0) {
    failure_ = absl::InvalidArgumentError(absl::StrCat("--skip-lines is ", arguments_.skip_lines, ", and there are ",
                                                       counted(arguments_.skip_lines - to_skip_, "line")));
  }
  return failure_;
}

/// Tells what failed, what is certainly stored, and the command that goes on.
int report_unfinished_import(const app::Program& program, const ImportArguments& arguments, const Importer& importer,
                             const absl::Status& status) {
  report_failure(with_timeout_hint(status, "a slow cluster"));
  if (!importer.has_skipped()) return app::kExitFailure;
  const uint64_t stored = importer.stored_lines();
  std::vector<std::string> words = {"import", arguments.table, absl::StrCat("--skip-lines=", stored)};
  if (arguments.file != "-") words.push_back(absl::StrCat("--file=", arguments.file));
  if (arguments.durability != Durability::kDefault) {
    words.push_back(absl::StrCat("--durability=", durability_name(arguments.durability)));
  }
  const std::string kept = stored == 0 ? "no line is certainly stored"
                           : stored == 1
                               ? "the first line is stored, and lines behind it may be"
                               : absl::StrCat("the first ", stored, " lines are stored, and lines behind them may be");
  print_notice(absl::StrCat(kept, "; go on with ", command_line(program, words),
                            arguments.file == "-" ? " and the same input" : ""));
  return app::kExitFailure;
}

int import_table(const app::Program& program, const Globals& globals, const ImportArguments& arguments) {
  LineSource source(arguments.file, kTableLineBytesMax);
  const AsyncSession session = open_async_client(globals, arguments.table);
  Importer importer(globals, arguments, source, session);
  const absl::Status status = importer.run();
  if (!status.ok()) return report_unfinished_import(program, arguments, importer, status);
  return answer(globals, {{"done", "imported"}, {"rows", importer.rows()}, {"lines", importer.stored_lines()}},
                absl::StrCat("imported ", counted(importer.rows(), "row"), "\n"));
}

}  // namespace

void add_import_command(app::Program& program, const Globals& globals) {
  auto arguments = std::make_shared<ImportArguments>();
  app::Command& command = program.add_command("import", "Writes rows from lines of JSON, as export writes them.");
  command.description(
      "Each line is {\"key\":...,\"value\":...}, with key_base64 or value_base64 for bytes, and tag, row and ttl_ms if "
      "they are wanted. What a key has is replaced. Empty lines are left out.\n\n"
      "Many writes are in flight; --timeout holds for each. The import stops at the first line that is wrong or "
      "cannot be written, and the last line on standard error says how many lines from the beginning are certainly "
      "stored, and the command that goes on. To write a line again does no harm.");
  add_table_argument(command, "table", arguments->table);
  command.add_string("file", &arguments->file, "Where the lines are; -: standard input.").value_name("FILE");
  command.add_int("skip-lines", &arguments->skip_lines, "Leave out so many lines at the beginning: to go on.")
      .range(0, INT64_MAX)
      .unit("lines");
  add_durability_option(command, arguments->durability);
  command.example("skuactl import notes --file notes.jsonl", "what export wrote");
  command.example("gunzip <users.gz | skuactl import sessions", "");
  command.action([&program, &globals, arguments] { return import_table(program, globals, *arguments); });
}

}  // namespace skua::kv::ctl
