#include "ycsb/driver/driver.h"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <system_error>

#include "ycsb/core/core_workload.h"
#include "ycsb/core/exporter.h"
#include "ycsb/core/report.h"
#include "ycsb/core/text.h"
#include "ycsb/driver/command_line.h"
#include "ycsb/driver/driver_options.h"
#include "ycsb/driver/environment.h"
#include "ycsb/driver/run.h"

namespace skua::ycsb {
namespace {

absl::StatusOr<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || file.bad()) return absl::NotFoundError(std::system_category().message(errno == 0 ? EIO : errno));
  return text;
}

/// Keeps SIGINT and SIGTERM for the run's own handling; threads made meanwhile inherit it.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_ = {};
};

/// Everything that properties say, parsed and checked before anything is started.
struct Plan {
  DriverOptions driver;
  MeasurementOptions measurements;
  std::unique_ptr<CoreWorkload> workload;
};

absl::StatusOr<Plan> make_plan(const Properties& properties) {
  Plan plan;
  const auto driver = DriverOptions::parse(properties, std::random_device{}());
  if (!driver.ok()) return driver.status();
  plan.driver = *driver;
  const auto measurements = MeasurementOptions::parse(properties, driver->target > 0);
  if (!measurements.ok()) return measurements.status();
  plan.measurements = *measurements;
  const auto workload = WorkloadOptions::parse(properties);
  if (!workload.ok()) return workload.status();
  std::string histogram;
  if (workload->field_length_distribution == LengthDistribution::kHistogram) {
    const std::string path(properties.find("fieldlengthhistogram").value_or("hist.txt"));
    auto text = read_file(path);
    if (!text.ok()) return invalid_argument("fieldlengthhistogram=", path, ": ", message_of(text.status()));
    histogram = *std::move(text);
  }
  auto made = CoreWorkload::make(*workload, histogram);
  if (!made.ok()) return made.status();
  plan.workload = *std::move(made);
  return plan;
}

void export_environment(Exporter& exporter, const CommandLine& command, const Plan& plan, const Binding& binding) {
  Facts facts = environment_facts();
  facts.emplace_back("Binding", command.binding->name);
  for (const auto& fact : binding.facts()) facts.push_back(fact);
  const DriverOptions& driver = plan.driver;
  facts.emplace_back("Phase", driver.transactions ? "run" : "load");
  facts.emplace_back("Threads", std::to_string(driver.threads));
  facts.emplace_back("In flight per thread", std::to_string(driver.in_flight));
  facts.emplace_back("Seed", std::to_string(driver.seed));
  for (const std::string_view name : {"recordcount", "operationcount", "requestdistribution", "zipfian_const",
                                      "fieldcount", "fieldlength", "target", "arrival", "keyhash"}) {
    if (const auto value = command.properties.find(name)) facts.emplace_back(concat("Property ", name), *value);
  }
  for (const auto& [name, value] : facts) exporter.write_fact("ENVIRONMENT", name, value);
}

void print_remarks(const RunResult& result, const DriverOptions& options, std::ostream& err) {
  for (const std::string& failure : result.first_failures)
    err << "skua-ycsb: first failure of a thread: " << failure << '\n';
  if (result.late_starts * 100 > result.operations) {
    err << "skua-ycsb: " << std::to_string(result.late_starts) << " of " << std::to_string(result.operations)
        << " operations were due while all " << std::to_string(options.threads * options.in_flight)
        << " slots were taken, and waited; intended latencies include that. Raise -inflight or "
           "-threads, or lower -target.\n";
  }
}

int fail(std::ostream& err, const absl::Status& status) {
  err << "skua-ycsb: " << message_of(status) << '\n' << std::flush;
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

int drive_phase(const CommandLine& command, std::ostream& out, std::ostream& err) {
  const BlockedSignals blocked;
  absl::StatusOr<Plan> plan = make_plan(command.properties);
  if (!plan.ok()) return fail(err, plan.status());
  const DriverOptions& driver = plan->driver;

  std::ofstream export_file;
  std::ofstream raw_file;
  if (!driver.export_file.empty()) {
    export_file.open(driver.export_file, std::ios::trunc);
    if (!export_file) return fail(err, invalid_argument("exportfile=", driver.export_file, ": cannot be written"));
  }
  if (plan->measurements.raw && !plan->measurements.raw_output_file.empty()) {
    raw_file.open(plan->measurements.raw_output_file, std::ios::app);
    if (!raw_file)
      return fail(err, invalid_argument("measurement.raw.output_file=", plan->measurements.raw_output_file,
                                        ": cannot be written"));
  }
  std::ostream& report = export_file.is_open() ? export_file : out;
  const auto check = make_exporter(driver.exporter, report);  // refuse a wrong name before the run
  if (!check.ok()) return fail(err, check.status());

  LineSink lines(out);
  absl::StatusOr<std::unique_ptr<Binding>> binding =
      command.binding->make({command.properties, plan->workload->schema(), lines});
  if (!binding.ok()) return fail(err, binding.status());

  err << "Starting test.\n" << std::flush;
  const RunResult result = run_phase(driver, plan->measurements, *plan->workload, **binding, out, err);
  if (result.operations == 0 && !result.status.ok()) return fail(err, result.status);

  write_raw_points(raw_file.is_open() ? raw_file : out, result.measurements, result.start_epoch_ms);
  auto exporter = make_exporter(driver.exporter, report);
  export_environment(**exporter, command, *plan, **binding);
  export_overall(**exporter, result.run_time, result.operations);
  export_measurements(**exporter, result.measurements);
  (*exporter)->close();
  report.flush();
  if (!report.good()) return fail(err, absl::DataLossError("the report could not be written"));
  print_remarks(result, driver, err);
  if (!result.status.ok()) return fail(err, result.status);
  return result.interrupted ? kExitInterrupted : kExitFine;
}

}  // namespace

int drive(std::span<const std::string> arguments, std::span<const BindingEntry> bindings, std::ostream& out,
          std::ostream& err) {
  const absl::StatusOr<CommandLine> command = parse_command_line(arguments, bindings, &read_file);
  if (!command.ok()) return fail(err, command.status());
  switch (command->action) {
    case CommandLine::Action::kHelp: out << help_text(bindings) << std::flush; return kExitFine;
    case CommandLine::Action::kVersion: out << "skua-ycsb " << version() << '\n' << std::flush; return kExitFine;
    case CommandLine::Action::kDrive: break;
  }
  err << "Command line:";
  for (const std::string& argument : arguments) err << ' ' << argument;
  err << "\nskua-ycsb " << version() << "\n\n";
  for (const std::string& warning : command->warnings) err << "Warning: " << warning << '\n';
  err << "Loading workload...\n" << std::flush;
  return drive_phase(*command, out, err);
}

}  // namespace skua::ycsb
