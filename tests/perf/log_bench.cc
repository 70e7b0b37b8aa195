// What a durable record costs: rate and latency of 100-byte sync appends through LogWriter at 1 and 32 in flight,
// beside the floor of the same disk: one pwrite and fdatasync of 4 KiB into a file that is written already.
//
//   build/release/bin/log_bench [DIRECTORY] [SECONDS] [ROUNDS]      rounds alternate, so that a noisy machine is fair
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/log/log_recovery.h"
#include "kvstore/log/log_writer.h"
#include "kvstore/log/posix_device.h"
#include "rpc/base/check.h"
#include "rpc/base/clock.h"

namespace skua::kv {
namespace {

constexpr size_t kPayloadBytes = 100;
constexpr LogShard kShard = 1;
constexpr std::pair<const char*, LogIo> kWays[] = {
    {"direct", LogIo::kDirect}, {"pwritev2", LogIo::kPwritev2}, {"io_uring", LogIo::kIoUring}};
const SteadyClock g_clock;

struct Result {
  double per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
  double records_per_sync = 0;
};

Result summarize(std::vector<DurationNs>& latencies, DurationNs elapsed) {
  SKUA_CHECK(!latencies.empty(), "nothing was measured");
  std::ranges::sort(latencies);
  const auto at = [&](double share) {
    return static_cast<double>(latencies[static_cast<size_t>(static_cast<double>(latencies.size() - 1) * share)]) / 1e3;
  };
  return {static_cast<double>(latencies.size()) * 1e9 / static_cast<double>(elapsed), at(0.5), at(0.99), 1};
}

Result floor_of(const std::string& directory, DurationNs duration) {
  constexpr size_t kFileBytes = size_t{64} << 20;
  const std::string path = directory + "/floor";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  SKUA_CHECK(fd >= 0, "the floor's file cannot be made");
  const std::vector<char> bytes(size_t{1} << 20, 'x');
  for (size_t at = 0; at < kFileBytes; at += bytes.size()) {
    SKUA_CHECK(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) > 0, "write failed");
  }
  SKUA_CHECK(::fsync(fd) == 0, "fsync failed");
  std::vector<DurationNs> latencies;
  const TimeNs begin = g_clock.now_ns();
  for (TimeNs now = begin; now - begin < duration;) {
    const size_t at = latencies.size() * kPageBytes % kFileBytes;
    SKUA_CHECK(::pwrite(fd, bytes.data(), kPageBytes, static_cast<off_t>(at)) > 0, "write failed");
    SKUA_CHECK(::fdatasync(fd) == 0, "fdatasync failed");
    const TimeNs done = g_clock.now_ns();
    latencies.push_back(done - now);
    now = done;
  }
  ::close(fd);
  ::unlink(path.c_str());
  return summarize(latencies, g_clock.now_ns() - begin);
}

/// One submitter that keeps `in_flight` records outstanding: each one done is followed by the next.
Result appends(const std::string& directory, DurationNs duration, size_t in_flight, LogIo io) {
  const std::string path = directory + "/log";
  auto device = open_posix_device(path, {.io = io}).value();
  const LogOptions options;
  auto recovery = LogRecovery::scan(*device, options.identity, [](const LogProgress&) {}).value();
  auto log = Log::open(*device, options, *recovery).value();
  SKUA_CHECK(log->start_shard(kShard, 0, 1, 0).ok() && log->commit().ok(), "the shard does not start");

  std::atomic<uint64_t> done{0};
  std::vector<DurationNs> latencies;
  latencies.reserve(size_t{1} << 22);
  LogWriter writer(std::move(log), {}, [&](std::span<const LogSubmission> group, const absl::Status&) {
    const TimeNs now = g_clock.now_ns();
    for (const LogSubmission& one : group) {
      SKUA_CHECK(one.outcome.ok(), "an append failed");
      latencies.push_back(now - one.header.time);
    }
    done.fetch_add(group.size(), std::memory_order_release);
    done.notify_one();
  });
  const std::string payload(kPayloadBytes, 'v');
  uint64_t submitted = 0;
  const uint64_t syncs_before = writer.counters().syncs;
  const TimeNs begin = g_clock.now_ns();
  for (TimeNs now = begin; now - begin < duration; now = g_clock.now_ns()) {
    const uint64_t seen = done.load(std::memory_order_acquire);
    if (submitted - seen >= in_flight) {
      done.wait(seen, std::memory_order_acquire);
      continue;
    }
    LogSubmission next;
    next.header = {kShard, ++submitted, 1, now, RecordKind::kData, Durability::kSync, 0};
    next.payload[0] = as_byte_span(payload);
    SKUA_CHECK(writer.submit(next).ok(), "the queue is full");
    if (submitted % 4096 == 0) writer.set_durable(kShard, done.load(std::memory_order_relaxed));
  }
  writer.stop();
  const DurationNs elapsed = g_clock.now_ns() - begin;
  Result result = summarize(latencies, elapsed);
  result.records_per_sync = static_cast<double>(submitted) /
                            static_cast<double>(std::max<uint64_t>(writer.counters().syncs - syncs_before, 1));
  std::filesystem::remove_all(path);
  return result;
}

void print(const char* name, const Result& result, const Result& floor) {
  std::printf("%-28s %9.0f /s   p50 %7.1f us (%.2f x floor)   p99 %7.1f us (%.2f)   %.1f records per sync\n", name,
              result.per_second, result.p50_us, result.p50_us / floor.p50_us, result.p99_us,
              result.p99_us / floor.p99_us, result.records_per_sync);
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  using namespace skua;      // NOLINT(google-build-using-namespace)
  using namespace skua::kv;  // NOLINT(google-build-using-namespace)
  std::string directory = (argc > 1 ? std::string(argv[1]) : ".") + "/skua-log-bench-XXXXXX";
  const DurationNs duration = (argc > 2 ? std::atoll(argv[2]) : 3) * kSecond;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 3;
  SKUA_CHECK(::mkdtemp(directory.data()) != nullptr, "no temporary directory");
  for (int round = 0; round < rounds; ++round) {
    const Result floor = floor_of(directory, duration);
    print("pwrite+fdatasync of 4 KiB", floor, floor);
    for (const auto& [name, io] : kWays) {
      std::printf("log, 100 B, by %s\n", name);
      print("  1 in flight", appends(directory, duration, 1, io), floor);
      print("  32 in flight", appends(directory, duration, 32, io), floor);
    }
  }
  std::filesystem::remove_all(directory);
  return 0;
}
