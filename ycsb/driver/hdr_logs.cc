#include "ycsb/driver/hdr_logs.h"

#include <time.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "ycsb/core/hdr_log.h"
#include "ycsb/core/text.h"

namespace skua::ycsb {
namespace {

std::string date_of(int64_t epoch_ms) {
  const time_t seconds = epoch_ms / 1000;
  tm broken = {};
  localtime_r(&seconds, &broken);
  std::array<char, 64> text;
  const size_t size = strftime(text.data(), text.size(), "%a %b %d %H:%M:%S %Z %Y", &broken);
  return {text.data(), size};
}

std::string log_path(const MeasurementOptions& options, std::string_view series) {
  return concat(options.hdr_output_path, series, ".hdr");
}

}  // namespace

absl::Status check_hdr_logs(const MeasurementOptions& options) {
  if (!options.hdr_file_output || !options.hdr) return absl::OkStatus();
  const std::string path = log_path(options, "CLEANUP");  // every run has this one
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  errno = 0;
  const bool opened = std::ofstream(path, std::ios::app).is_open();
  const int error = errno;
  if (!opened) {
    return invalid_argument("hdrhistogram.output.path=", options.hdr_output_path, ": cannot write ", path, ": ",
                            std::generic_category().message(error));
  }
  if (!was_there) std::filesystem::remove(path, ignored);
  return absl::OkStatus();
}

void HdrLogs::write_interval(const Measurements& interval, int64_t start_epoch_ms, TimeNs from, TimeNs to) {
  if (!options_.hdr_file_output || !options_.hdr) return;
  interval.for_each([&](const std::string& name, const Series& series) {
    const auto [it, is_new] = files_.try_emplace(name);
    std::ofstream& file = it->second;
    const std::string path = log_path(options_, name);
    errno = 0;
    if (is_new) {
      file.open(path, std::ios::trunc);
      file << hdr_log_header(name, start_epoch_ms, date_of(start_epoch_ms));
    }
    file << hdr_log_line(series.latencies(), from, to) << std::flush;
    const int error = errno;
    if (!file && status_.ok()) {
      status_ = absl::DataLossError(
          concat("cannot write ", path, " (hdrhistogram.output.path): ", std::generic_category().message(error)));
    }
  });
}

}  // namespace skua::ycsb
