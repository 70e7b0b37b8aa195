#include "ycsb/driver/driver.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <random>
#include <system_error>

#include "rpc/base/printable.h"
#include "ycsb/core/core_workload.h"
#include "ycsb/core/exporter.h"
#include "ycsb/core/report.h"
#include "ycsb/core/text.h"
#include "ycsb/driver/command_line.h"
#include "ycsb/driver/driver_options.h"
#include "ycsb/driver/environment.h"
#include "ycsb/driver/hdr_logs.h"
#include "ycsb/driver/remarks.h"
#include "ycsb/driver/run.h"

namespace skua::ycsb {
namespace {

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
  std::vector<std::string> warnings;
};

/// Each operation in flight has room for what it writes. Refuses what this machine's memory cannot hold.
absl::Status check_memory(const DriverOptions& driver, const WorkloadOptions& workload) {
  constexpr uint64_t kSlotBytes = 512;
  const bool whole_records = !driver.transactions || workload.write_all_fields || workload.proportions[2] > 0;
  const uint64_t record_bytes = workload.field_length * (whole_records ? workload.field_count : 1);
  const uint64_t needed = driver.threads * driver.in_flight * (kSlotBytes + record_bytes);
  const uint64_t there = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  if (needed <= there) return absl::OkStatus();
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  return invalid_argument("-threads ", driver.threads, " with -inflight ", driver.in_flight, " and ", record_bytes,
                          " bytes for each operation need ", needed / kMiB, " MiB; this machine has ", there / kMiB,
                          " MiB: lower one of them");
}

/// What a run may well be meant to be, but mostly is not.
std::vector<std::string> doubts(const Properties& properties, const Plan& plan) {
  std::vector<std::string> out;
  const DriverOptions& driver = plan.driver;
  const WorkloadOptions& workload = plan.workload->options();
  const auto threads = parse_number<uint64_t>(properties.find("threadcount").value_or("1"));
  if (threads && *threads > driver.threads) {
    out.push_back(concat("there are fewer operations than threads: ", counted(driver.threads, "thread"), " instead of ",
                         *threads));
  }
  if (driver.transactions && !properties.has("operationcount") && driver.execution_time_max == 0) {
    out.emplace_back(
        "neither operationcount nor maxexecutiontime is given: the run goes on until it is interrupted (Ctrl-C)");
  }
  constexpr uint64_t kMissesMax = 100;
  if (driver.transactions && workload.request_distribution == RequestDistribution::kZipfian &&
      zipfian_key_count(workload) / kMissesMax > workload.insert_count) {
    out.push_back(concat("insertproportion and operationcount make zipfian draw from ", zipfian_key_count(workload),
                         " keys (as YCSB does), of which ", workload.insert_count,
                         " are there: most draws are thrown away, and the run is slow; write proportions that sum to "
                         "1, or use requestdistribution=zipfian_exact"));
  }
  const bool logs = plan.measurements.hdr_file_output;
  if (logs && !plan.measurements.hdr)
    out.emplace_back("hdrhistogram.fileoutput has no effect: this measurementtype has no HdrHistograms");
  if (!logs && !plan.measurements.hdr_output_path.empty())
    out.emplace_back("hdrhistogram.output.path has no effect without hdrhistogram.fileoutput=true");
  return out;
}

absl::StatusOr<std::string> read_histogram(const Properties& properties, const FileReader& read_file) {
  const std::string path(properties.find("fieldlengthhistogram").value_or("hist.txt"));
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return invalid_argument("fieldlengthhistogram=", path, ": ", message_of(text.status()));
  return text;
}

absl::StatusOr<Plan> make_plan(const Properties& properties, const FileReader& read_file) {
  Plan plan;
  const auto driver = DriverOptions::parse(properties, std::random_device{}());
  if (!driver.ok()) return driver.status();
  plan.driver = *driver;
  const auto measurements = MeasurementOptions::parse(properties, driver->target > 0);
  if (!measurements.ok()) return measurements.status();
  plan.measurements = *measurements;
  if (absl::Status status = check_hdr_logs(plan.measurements); !status.ok()) return status;
  const auto workload = WorkloadOptions::parse(properties);
  if (!workload.ok()) return workload.status();
  if (absl::Status status = check_memory(plan.driver, *workload); !status.ok()) return status;
  absl::StatusOr<std::string> histogram = std::string();
  if (workload->field_length_distribution == LengthDistribution::kHistogram)
    histogram = read_histogram(properties, read_file);
  if (!histogram.ok()) return histogram.status();
  auto made = CoreWorkload::make(*workload, *histogram);
  if (!made.ok()) {
    return invalid_argument("fieldlengthhistogram=", properties.find("fieldlengthhistogram").value_or("hist.txt"), ": ",
                            message_of(made.status()));
  }
  plan.workload = *std::move(made);
  plan.warnings = doubts(properties, plan);
  return plan;
}

/// A file that a property names, opened before the run, so that nobody measures for hours and has nothing.
class OutputFile {
 public:
  absl::Status open(std::string_view property, const std::string& path, std::ios::openmode mode) {
    if (path.empty()) return absl::OkStatus();
    name_ = concat(property, "=", path);
    errno = 0;
    file_.open(path, mode);
    if (file_.is_open()) return absl::OkStatus();
    return invalid_argument(name_, ": ", std::generic_category().message(errno));
  }

  [[nodiscard]] std::ostream& or_else(std::ostream& other) { return file_.is_open() ? file_ : other; }

  absl::Status finish() {
    if (!file_.is_open()) return absl::OkStatus();
    errno = 0;
    file_.close();
    if (file_) return absl::OkStatus();
    return absl::DataLossError(concat(name_, ": ", std::generic_category().message(errno == 0 ? EIO : errno)));
  }

 private:
  std::string name_;
  std::ofstream file_;
};

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

/// The line is one line, whatever is in the message.
int fail(std::ostream& err, const absl::Status& status) {
  err << "skua-ycsb: " << printable(message_of(status)) << '\n' << std::flush;
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

int print_report(const CommandLine& command, const Plan& plan, const Binding& binding, const RunResult& result,
                 OutputFile& raw_file, OutputFile& export_file, std::ostream& out, std::ostream& err) {
  write_raw_points(raw_file.or_else(out), result.measurements, result.start_epoch_ms);
  const auto exporter = make_exporter(plan.driver.exporter, export_file.or_else(out));
  export_environment(**exporter, command, plan, binding);
  export_overall(**exporter, result.run_time, result.operations);
  export_measurements(**exporter, result.measurements);
  (*exporter)->close();
  out.flush();
  print_remarks(result, {plan.driver, plan.workload->options(), command.binding->name}, err);
  for (const absl::Status& status : {result.status, raw_file.finish(), export_file.finish()})
    if (!status.ok()) return fail(err, status);
  if (result.interrupted) return kExitInterrupted;
  return most_operations_failed(result) ? kExitFailed : kExitFine;
}

void print_heading(std::span<const std::string> arguments, const Plan& plan, std::ostream& err) {
  for (const std::string& warning : plan.warnings) err << "Warning: " << warning << '\n';
  err << "Command line:";
  for (const std::string& argument : arguments) err << ' ' << argument;
  err << "\nskua-ycsb " << version() << "\n\nLoading workload...\nStarting test.\n" << std::flush;
}

int drive_phase(const CommandLine& command, const Plan& plan, std::span<const std::string> arguments, std::ostream& out,
                std::ostream& err) {
  const BlockedSignals blocked;
  // A wrong name is refused before the run.
  absl::Status status = make_exporter(plan.driver.exporter, out).status();
  OutputFile export_file;
  OutputFile raw_file;
  if (status.ok()) status = export_file.open("exportfile", plan.driver.export_file, std::ios::trunc);
  if (status.ok() && plan.measurements.raw)
    status = raw_file.open("measurement.raw.output_file", plan.measurements.raw_output_file, std::ios::app);
  if (!status.ok()) return fail(err, status);

  LineSink lines(out);
  const absl::StatusOr<std::unique_ptr<Binding>> binding =
      command.binding->make({command.properties, plan.workload->schema(), lines});
  if (!binding.ok()) return fail(err, binding.status());
  print_heading(arguments, plan, err);
  const RunResult result = run_phase(plan.driver, plan.measurements, *plan.workload, **binding, out, err);
  if (result.operations == 0 && !result.status.ok()) return fail(err, result.status);
  return print_report(command, plan, **binding, result, raw_file, export_file, out, err);
}

}  // namespace

int drive(std::span<const std::string> arguments, std::span<const BindingEntry> bindings,
          const Surroundings& surroundings, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<CommandLine> command = parse_command_line(arguments, bindings, surroundings);
  if (!command.ok()) return fail(err, command.status());
  switch (command->action) {
    case CommandLine::Action::kHelp: out << help_text(bindings) << std::flush; return kExitFine;
    case CommandLine::Action::kVersion: out << "skua-ycsb " << version() << '\n' << std::flush; return kExitFine;
    case CommandLine::Action::kDrive: break;
  }
  for (const std::string& warning : command->warnings) err << "Warning: " << printable(warning) << '\n';
  const absl::StatusOr<Plan> plan = make_plan(command->properties, surroundings.read_file);
  if (!plan.ok()) return fail(err, plan.status());
  if (surroundings.check_threads) {
    constexpr size_t kOfBindings = 32;  // gRPC's, for example
    const absl::Status threads = surroundings.check_threads(plan->driver.threads + kOfBindings);
    if (!threads.ok()) return fail(err, threads);
  }
  return drive_phase(*command, *plan, arguments, out, err);
}

}  // namespace skua::ycsb
