// How long a node takes to bring its log into the databases before it serves: a log of committed records that no
// database has, as kill -9 leaves it when the applier was behind, and then what the node does with it when it starts.
//
//   build/release/bin/recovery_bench DIRECTORY [RECORDS] [VALUE_BYTES] [SHARDS] [ROUNDS] [GROUP_RECORDS]
//
// Each round prints wall time, CPU time and user instructions of recovery, all threads together.
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "kvstore/codec/effect.h"
#include "kvstore/log/posix_device.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "rpc/base/check.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

struct Setup {
  std::string directory;
  uint64_t records = 1'000'000;
  size_t value_bytes = 100;
  uint32_t shards = 8;
  int rounds = 3;
  size_t group_records = 64;
};

LogOptions log_options() {
  LogOptions options;
  options.segments_max = 4096;
  return options;
}

void append(Log& log, ShardId id, uint64_t index, std::string_view key, ByteSpan value) {
  EffectHead head;
  ByteWriter writer(head);
  encode_effect_head({key, value}, writer);
  const std::array<ByteSpan, 3> payload = {writer.written(), as_byte_span(key), value};
  const RecordHeader header{log_shard_of(id), index, 1, 0, RecordKind::kData, Durability::kFlush, 0};
  SKUA_CHECK(log.append(header, payload).ok(), "append failed");
}

/// Empty databases, and a log with all records.
void prepare(const Setup& setup) {
  std::filesystem::remove_all(setup.directory);
  std::filesystem::create_directories(setup.directory + "/shards");
  const auto engine = make_rocksdb_engine({});
  for (uint32_t i = 0; i < setup.shards; ++i) SKUA_CHECK(engine->open_db(setup.directory + "/shards", {1, i}).ok(), "");
  const auto device = open_posix_device(setup.directory + "/log").value();
  const auto recovery = LogRecovery::scan(*device, {}, [](const LogProgress&) {}).value();
  const auto log = Log::open(*device, log_options(), *recovery).value();
  for (uint32_t i = 0; i < setup.shards; ++i) SKUA_CHECK(log->start_shard(log_shard_of({1, i}), 0, 1, 0).ok(), "");
  const std::string value(setup.value_bytes, 'v');
  Rng rng(1);
  std::vector<uint64_t> indices(setup.shards);
  for (uint64_t n = 0; n < setup.records; ++n) {
    const uint32_t shard = static_cast<uint32_t>(rng.below(setup.shards));
    append(*log, {1, shard}, ++indices[shard], "user" + std::to_string(mix64(n)), as_byte_span(value));
    if (n % setup.group_records == setup.group_records - 1) SKUA_CHECK(log->commit().ok(), "commit failed");
  }
  SKUA_CHECK(log->commit().ok() && log->sync().ok(), "commit failed");
}

/// User instructions of this process, threads to come included; -1 where the kernel does not count them.
class Instructions {
 public:
  Instructions() {
    perf_event_attr about{};
    about.type = PERF_TYPE_HARDWARE;
    about.size = sizeof about;
    about.config = PERF_COUNT_HW_INSTRUCTIONS;
    about.exclude_kernel = 1;
    about.inherit = 1;
    fd_ = static_cast<int>(::syscall(SYS_perf_event_open, &about, 0, -1, -1, 0));
  }
  ~Instructions() {
    if (fd_ >= 0) ::close(fd_);
  }
  Instructions(const Instructions&) = delete;
  Instructions& operator=(const Instructions&) = delete;

  [[nodiscard]] int64_t count() const {
    int64_t count = -1;
    return fd_ >= 0 && ::read(fd_, &count, sizeof count) == sizeof count ? count : -1;
  }

 private:
  int fd_ = -1;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void measure(const Setup& setup) {
  prepare(setup);
  const Instructions instructions;
  const auto engine = make_rocksdb_engine({});
  const auto device = open_posix_device(setup.directory + "/log").value();
  RecoveryOptions options{.log = log_options(), .shards_dir = setup.directory + "/shards"};
  const SteadyClock clock;
  const TimeNs begin = clock.now_ns();
  const double cpu = cpu_seconds();
  const bool verbose = std::getenv("RECOVERY_BENCH_TELL") != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
  if (verbose) {
    options.tell = [&](const std::string& line) {
      std::printf("  %5.2f s  %s\n", static_cast<double>(clock.now_ns() - begin) / 1e9, line.c_str());
    };
  }
  const auto recovered = recover_log(*device, options, *engine);
  SKUA_CHECK(recovered.ok() && recovered->refused.empty(), "recovery failed");
  SKUA_CHECK(recovered->records_replayed == setup.records, "records are missing");
  const double wall = static_cast<double>(clock.now_ns() - begin) / 1e9;
  std::printf("%llu records of %zu bytes, %u shards: %.2f s, CPU %.2f s, %.0f instructions a record\n",
              static_cast<unsigned long long>(setup.records), setup.value_bytes, setup.shards, wall,
              cpu_seconds() - cpu, static_cast<double>(instructions.count()) / static_cast<double>(setup.records));
}

}  // namespace
}  // namespace skua::kv

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: recovery_bench DIRECTORY [RECORDS] [VALUE_BYTES] [SHARDS] [ROUNDS] [GROUP_RECORDS]\n");
    return 2;
  }
  skua::kv::Setup setup;
  setup.directory = std::string(argv[1]) + "/skua-recovery-bench";
  if (argc > 2) setup.records = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3) setup.value_bytes = std::strtoull(argv[3], nullptr, 10);
  if (argc > 4) setup.shards = static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10));
  if (argc > 5) setup.rounds = std::atoi(argv[5]);
  if (argc > 6) setup.group_records = std::strtoull(argv[6], nullptr, 10);
  for (int round = 0; round < setup.rounds; ++round) skua::kv::measure(setup);
  std::filesystem::remove_all(setup.directory);
  return 0;
}
