#include "kvstore/ctl/doctor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kvstore/ctl/host_files.h"
#include "rpc/base/clock.h"

namespace skua::kv::ctl {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFileLimitWanted = 4096;
constexpr uint64_t kFreeBytesWanted = uint64_t{1} << 30;
constexpr int kSyncs = 20;

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

std::vector<Finding> examine_machine() {
  Findings out("machine");
  const unsigned cores = std::thread::hardware_concurrency();
  out.add("cores", cores >= 2 ? Verdict::kOk : Verdict::kWarning, absl::StrCat(cores, " cores"),
          "skuad --polling adaptive   (the default)",
          "each worker is a thread that polls; a busy one takes a core for itself");
  std::ifstream cpu("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(cpu)), {});
#if defined(__SSE4_2__)
  const bool sse = text.find("sse4_2") != std::string::npos;
  out.add("crc32", sse ? Verdict::kOk : Verdict::kFailure,
          sse ? "the processor computes CRC-32C" : "no SSE4.2, which this build uses",
          "build on this machine without -msse4.2 (cmake/SkuaTargets.cmake)",
          "packets of wires that do not detect corruption carry a CRC-32C");
#else
  out.add("crc32", Verdict::kOk, "this build computes CRC-32C by table", "",
          "packets of wires that do not detect corruption carry a CRC-32C");
#endif
  const std::string source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool fast = source == "tsc" || source == "kvm-clock" || source == "arch_sys_counter" || source.empty();
  out.add("clock", fast ? Verdict::kOk : Verdict::kWarning,
          source.empty() ? "clock source not shown by this kernel" : absl::StrCat("clock source ", source),
          "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
          "the event loop reads the clock in each turn; a slow one costs a system call each time");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const bool enough = files.rlim_cur >= kFileLimitWanted;
  out.add("open files", enough ? Verdict::kOk : Verdict::kWarning, absl::StrCat("limit ", files.rlim_cur),
          absl::StrCat("ulimit -n ", kFileLimitWanted), "each connection and each file of RocksDB's takes one");
  return out.take();
}

/// Median time of a 4 KiB write with fdatasync. If that fails: the negative errno.
DurationNs sync_time_ns(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/.skua-doctor-", getpid());
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  const std::string block(4096, 'd');
  const SteadyClock clock;
  std::vector<DurationNs> times;
  int error = 0;
  for (int i = 0; i < kSyncs && error == 0; ++i) {
    const TimeNs begun = clock.now_ns();
    if (pwrite(fd, block.data(), block.size(), 0) < 0 || fdatasync(fd) != 0) error = errno;
    times.push_back(clock.now_ns() - begun);
  }
  close(fd);
  unlink(path.c_str());
  if (error != 0) return -error;
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

std::vector<Finding> examine_disk(const std::string& data_dir) {
  Findings out("disk");
  // A path that cannot be examined counts as absent. The errors of the calls below are the findings.
  std::error_code error;
  fs::path there = fs::absolute(data_dir, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const std::string existing = there.string();
  struct statvfs space {};
  if (statvfs(existing.c_str(), &space) == 0) {
    const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
    out.add("space", free_bytes >= kFreeBytesWanted ? Verdict::kOk : Verdict::kFailure,
            absl::StrFormat("%.1f GiB free at %s", static_cast<double>(free_bytes) / (1 << 30), existing),
            "make room, or choose another --data-dir", "a node whose disk is full refuses writes");
  }
  const DurationNs sync_ns = sync_time_ns(existing);
  if (sync_ns < 0) {
    out.add("sync", Verdict::kFailure,
            absl::StrCat("cannot write and sync in ", existing, ": ", errno_text(static_cast<int>(-sync_ns))),
            -sync_ns == ENOTDIR ? absl::StrCat(existing, " is a file: choose another --data-dir")
                                : absl::StrCat("chown or chmod ", existing, ", or choose another --data-dir"),
            "a write is acknowledged when it is synced");
  } else {
    const bool slow = sync_ns > 20 * kMillisecond;
    out.add("sync", slow ? Verdict::kWarning : Verdict::kOk,
            absl::StrFormat("4 KiB write and fdatasync take %.2f ms (median)", static_cast<double>(sync_ns) / 1e6),
            "use a faster disk for --data-dir", "each durable write waits for a sync");
  }
  return out.take();
}

std::vector<Finding> examine_tcp() {
  Findings out("tcp");
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  out.add("loopback", bound ? Verdict::kOk : Verdict::kFailure,
          bound ? "127.0.0.1 can be bound" : absl::StrCat("cannot bind 127.0.0.1: ", errno_text(error)),
          "ip link set lo up", "a cluster on one machine talks over loopback");
  uint64_t wmem = 0;
  const std::string limit = first_line("/proc/sys/net/core/wmem_max");
  const bool known = absl::SimpleAtoi(limit, &wmem);
  const bool small = known && wmem < 200'000;
  out.add("socket buffers", small ? Verdict::kWarning : Verdict::kOk,
          known ? absl::StrCat("net.core.wmem_max = ", wmem) : "the kernel does not show net.core.wmem_max",
          "sysctl -w net.core.wmem_max=4194304", "large messages fill the socket's buffer while the peer is busy");
  return out.take();
}

}  // namespace

std::vector<Finding> examine(const DoctorOptions& options) {
  std::vector<Finding> all;
  for (const std::vector<Finding>& area :
       {examine_machine(), examine_disk(options.data_dir), examine_tcp(), examine_security(options.security),
        examine_dpdk(dpdk_host(), options.dpdk), examine_verbs(verbs_host(), options.verbs)}) {
    all.insert(all.end(), area.begin(), area.end());
  }
  return all;
}

}  // namespace skua::kv::ctl
