#include "rpc/transport/dpdk/eal.h"

#include <fcntl.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rpc/transport/dpdk/driver_calls.h"
#include "rpc/transport/dpdk/memif_socket.h"

namespace skua::rpc::dpdk {
namespace {

constexpr size_t kLogLinesMax = 6;

std::atomic<bool> g_started = false;  // the EAL itself can be started only once in a process

std::vector<std::string> arguments(const DpdkOptions& options) {
  // One lcore, because Skua has its own threads. A separate prefix, so that no files are shared with other processes.
  // Memory segments in single files, so that memif can hand them to its peer.
  std::vector<std::string> out = {"skua",
                                  "--lcores",
                                  "0",
                                  absl::StrCat("--file-prefix=skua-", getpid()),
                                  "--single-file-segments",
                                  "--no-telemetry",
                                  "--log-level=*:warning"};
  bool any_pci = false;
  for (const DpdkPortOptions& port : options.ports) {
    const bool is_virtual = is_virtual_device(port.device);
    out.push_back(is_virtual ? absl::StrCat("--vdev=", port.device) : absl::StrCat("--allow=", port.device));
    any_pci = any_pci || !is_virtual;
  }
  if (!any_pci) out.emplace_back("--no-pci");
  if (options.huge_pages) {
    out.emplace_back("--in-memory");  // no files: a killed process leaves nothing behind
  } else {
    // No files here either: nothing is shared with other processes.
    out.insert(out.end(), {"--no-huge", "--no-shconf", "-m", absl::StrCat(options.plain_memory_mib)});
  }
  out.insert(out.end(), options.eal_arguments.begin(), options.eal_arguments.end());
  return out;
}

/// True for messages of every start about things that nobody asked for: 1 GiB pages, other processes.
bool is_noise(const std::string& line) {
  return line.find("1048576 kB hugepages") != std::string::npos || line.find("mp action callback") != std::string::npos;
}

/// Captures stdout and stderr. The EAL prints a help page on stdout and its last error on stderr. These go into `text`,
/// and the user gets one line. If the capture fails, the output goes to the streams as usual.
class CapturedStreams {
 public:
  explicit CapturedStreams(std::string& text) : text_(text), fd_(memfd_create("skua-eal", MFD_CLOEXEC)) {
    if (fd_ < 0) return;
    std::fflush(stdout);
    for (size_t i = 0; i < kStreams.size(); ++i) {
      saved_[i] = fcntl(kStreams[i], F_DUPFD_CLOEXEC, 0);
      if (saved_[i] >= 0) dup2(fd_, kStreams[i]);
    }
  }
  ~CapturedStreams() {
    if (fd_ < 0) return;
    std::fflush(stdout);
    for (size_t i = 0; i < kStreams.size(); ++i) {
      if (saved_[i] < 0) continue;
      dup2(saved_[i], kStreams[i]);
      close(saved_[i]);
    }
    std::array<char, 1000> buffer;
    const ssize_t got = pread(fd_, buffer.data(), buffer.size(), 0);
    if (got > 0) text_.assign(buffer.data(), static_cast<size_t>(got));
    close(fd_);
  }
  CapturedStreams(const CapturedStreams&) = delete;
  CapturedStreams& operator=(const CapturedStreams&) = delete;

 private:
  static constexpr std::array<int, 2> kStreams = {STDOUT_FILENO, STDERR_FILENO};

  std::string& text_;
  const int fd_;
  std::array<int, 2> saved_ = {-1, -1};
};

/// Unregisters the thread from the EAL when the thread ends.
struct ThreadRegistration {
  bool registered = false;
  ~ThreadRegistration() {
    if (registered) rte_thread_unregister();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Eal>> Eal::start(const DpdkOptions& options) {
  if (g_started.exchange(true)) {
    return absl::FailedPreconditionError("DPDK can be started once in a process, and it was");
  }
  std::unique_ptr<Eal> eal(new Eal);
  rte_openlog_stream(eal->log_.stream());

  for (const DpdkPortOptions& port : options.ports) remove_if_abandoned(memif_server_socket(port.device));
  std::vector<std::string> words = arguments(options);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // The EAL pins the calling thread to its lcore; this is undone, because the thread is not the EAL's.
  cpu_set_t affinity;
  const bool had_affinity = sched_getaffinity(0, sizeof affinity, &affinity) == 0;
  std::string printed;
  int result = -1;
  {
    const CapturedStreams capture(printed);
    result = rte_eal_init(static_cast<int>(words.size()), argv.data());
  }
  const int error = rte_errno;
  if (had_affinity) sched_setaffinity(0, sizeof affinity, &affinity);
  if (result < 0) {
    std::string said = eal->take_log();
    const std::string first = printed.substr(0, printed.find('\n'));
    // The EAL's own log says only that an argument is wrong; getopt's output says which one.
    if (said.empty() || absl::StartsWith(first, "skua: ")) said = first;
    const char* way_out = options.huge_pages
                              ? "; reserve huge pages (deploy/host-setup), or do without them (--no-dpdk-huge-pages)"
                              : "; see docs/transports.md for what DPDK needs";
    return absl::FailedPreconditionError(
        absl::StrCat("DPDK does not start: ", said.empty() ? rte_strerror(error) : said, way_out));
  }
  lead_munmap_of_drivers_here();
  return eal;
}

Eal::~Eal() {
  const std::string runtime_folder = rte_eal_get_runtime_dir();
  rte_eal_cleanup();
  std::error_code ignored;
  std::filesystem::remove(runtime_folder, ignored);  // removed only if it is empty
  rte_openlog_stream(nullptr);
}

std::string Eal::take_log() {
  const std::string text = log_.take();
  // Drivers that retry log the same line many times.
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    std::string clean(absl::StripAsciiWhitespace(line));
    if (is_noise(clean)) continue;
    if (lines.size() < kLogLinesMax && std::find(lines.begin(), lines.end(), clean) == lines.end()) {
      lines.push_back(std::move(clean));
    }
  }
  return absl::StrJoin(lines, "; ");
}

void adopt_thread() {
  watch_driver_calls();
  static thread_local ThreadRegistration registration;
  if (rte_lcore_id() == LCORE_ID_ANY) registration.registered = rte_thread_register() == 0;
}

std::string port_name(const std::string& device) {
  return device.substr(0, device.find(','));
}

bool is_virtual_device(const std::string& device) {
  // PCI addresses are [domain:]bus:device.function, in hexadecimal.
  const std::string name = port_name(device);
  const bool pci = std::count(name.begin(), name.end(), ':') >= 1 && name.find('.') != std::string::npos &&
                   name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
  return !pci;
}

}  // namespace skua::rpc::dpdk
