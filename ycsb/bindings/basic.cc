#include "ycsb/bindings/basic.h"

#include <time.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <string>

#include "rpc/base/rng.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

constexpr uint64_t kDelayMaxMs = 3'600'000;

struct BasicOptions {
  bool verbose = false;
  uint64_t delay_ms = 0;
  bool random_delay = true;
};

void append_fields(std::string& line, const Operation& op, const Schema& schema) {
  line += " [ ";
  if (op.all_fields) {
    line += "<all fields>";
  } else {
    for (const uint32_t field : op.fields) line += concat(schema.field_names[field], " ");
  }
  line += "]";
}

void append_values(std::string& line, const Operation& op, const Schema& schema) {
  line += " [ ";
  for (const FieldWrite& write : op.writes()) line += concat(schema.field_names[write.field], "=", write.value, " ");
  line += "]";
}

std::string describe(const Operation& op, const Schema& schema) {
  const std::string where = concat(" ", schema.table, " ", op.key);
  std::string line;
  switch (op.kind) {
    case OpKind::kRead:
      line = "READ" + where;
      append_fields(line, op, schema);
      break;
    case OpKind::kScan:
      line = concat("SCAN", where, " ", op.scan_length);
      append_fields(line, op, schema);
      break;
    case OpKind::kUpdate:
    case OpKind::kInsert:
      line = (op.kind == OpKind::kUpdate ? "UPDATE" : "INSERT") + where;
      append_values(line, op, schema);
      break;
    case OpKind::kDelete: line = "DELETE" + where; break;
    case OpKind::kReadModifyWrite: break;  // the driver never submits one
  }
  return line;
}

class BasicSession final : public BindingSession {
 public:
  BasicSession(const BasicOptions& options, const Schema& schema, LineSink& out, uint64_t seed)
      : options_(options), schema_(schema), out_(out), rng_(seed) {}

  void submit(const Operation& op, CompletionFn done) override {
    if (options_.verbose) [[unlikely]]
      out_.write_line(describe(op, schema_));
    if (options_.delay_ms == 0) [[likely]] {
      done(OpResult{});
      return;
    }
    const uint64_t delay_ms = options_.random_delay ? rng_.below(options_.delay_ms) : options_.delay_ms;
    delayed_.push({clock_.now_ns() + static_cast<DurationNs>(delay_ms) * kMillisecond, done});
  }

  absl::Status poll(DurationNs timeout) override {
    const TimeNs now = clock_.now_ns();
    if (!delayed_.empty()) timeout = std::min(timeout, delayed_.top().due - now);
    if (timeout > 0) {
      const timespec wait = {timeout / kSecond, timeout % kSecond};
      nanosleep(&wait, nullptr);
    }
    while (!delayed_.empty() && delayed_.top().due <= clock_.now_ns()) {
      const CompletionFn done = delayed_.top().done;
      delayed_.pop();
      done(OpResult{});
    }
    return absl::OkStatus();
  }

 private:
  struct Delayed {
    TimeNs due;
    CompletionFn done;
    bool operator>(const Delayed& other) const { return due > other.due; }
  };

  const BasicOptions options_;
  const Schema& schema_;
  LineSink& out_;
  Rng rng_;
  const SteadyClock clock_;
  std::priority_queue<Delayed, std::vector<Delayed>, std::greater<>> delayed_;
};

class BasicBinding final : public Binding {
 public:
  BasicBinding(const BindingContext& context, const BasicOptions& options) : context_(context), options_(options) {}

  absl::StatusOr<std::unique_ptr<BindingSession>> open_session(const SessionOptions& options) override {
    if (options_.verbose) print_properties();
    return std::make_unique<BasicSession>(options_, context_.schema, context_.out, options.seed);
  }

 private:
  void print_properties() {
    std::string text = "***************** properties *****************\n";
    for (const auto& [name, value] : context_.properties.all()) text += concat("\"", name, "\"=\"", value, "\"\n");
    context_.out.write_line(text + "**********************************************");
  }

  const BindingContext context_;
  const BasicOptions options_;
};

absl::StatusOr<std::unique_ptr<Binding>> make_basic(const BindingContext& context) {
  PropertyReader in(context.properties);
  BasicOptions options;
  options.verbose = in.flag("basicdb.verbose", false);
  options.delay_ms = in.whole("basicdb.simulatedelay", 0, 0, kDelayMaxMs, "milliseconds");
  options.random_delay = in.flag("basicdb.randomizedelay", true);
  if (!in.status().ok()) return in.status();
  return std::make_unique<BasicBinding>(context, options);
}

constexpr std::array<std::array<std::string_view, 3>, 3> kProperties = {{
    {"basicdb.verbose", "false", "print each operation"},
    {"basicdb.simulatedelay", "0", "answer after this many milliseconds"},
    {"basicdb.randomizedelay", "true", "after a random time below that"},
}};

}  // namespace

BindingEntry basic_binding() {
  return {.name = "basic",
          .java_class = "BasicDB",
          .help = "no store: measures the driver, or prints the operations",
          .properties = kProperties,
          .make = &make_basic};
}

}  // namespace skua::ycsb
