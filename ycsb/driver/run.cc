#include "ycsb/driver/run.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <memory>
#include <thread>

#include "rpc/base/check.h"
#include "ycsb/core/report.h"
#include "ycsb/core/text.h"
#include "ycsb/driver/client_thread.h"
#include "ycsb/driver/driver.h"
#include "ycsb/driver/hdr_logs.h"

namespace skua::ycsb {
namespace {

/// How long a status line waits for threads to hand over; who is late appears in the next line.
constexpr DurationNs kHandoffMax = 200 * kMillisecond;

/// yyyy-MM-dd HH:mm:ss:SSS in local time.
std::string wall_time() {
  timeval now = {};
  gettimeofday(&now, nullptr);
  tm broken = {};
  localtime_r(&now.tv_sec, &broken);
  std::array<char, 80> text;
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02d %02d:%02d:%02d:%03d", broken.tm_year + 1900,
                broken.tm_mon + 1, broken.tm_mday, broken.tm_hour, broken.tm_min, broken.tm_sec,
                static_cast<int>(now.tv_usec / 1000));
  return text.data();
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) { SKUA_CHECK(fd >= 0, "the process has no file descriptors left"); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { close(fd_); }
  [[nodiscard]] int get() const { return fd_; }

 private:
  const int fd_;
};

int open_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

class Phase {
 public:
  Phase(const DriverOptions& options, const MeasurementOptions& measurement_options, CoreWorkload& workload,
        Binding& binding, std::ostream& out, std::ostream& err)
      : options_(options),
        measurement_options_(measurement_options),
        binding_(binding),
        out_(out),
        err_(err),
        result_(measurement_options),
        interval_(measurement_options),
        go_(1),
        signals_(open_signals()),
        all_opened_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        all_ended_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        hdr_logs_(measurement_options) {
    const Rng root(options.seed);
    for (uint64_t i = 0; i < options.threads; ++i) {
      Rng fork = root;
      clients_.push_back(
          std::make_unique<ClientThread>(options, measurement_options, workload, control_, i, fork.fork(i + 1)));
    }
    statuses_.resize(options.threads);
  }

  RunResult run() {
    opening_ = running_ = options_.threads;
    std::vector<std::thread> threads;
    threads.reserve(options_.threads);
    for (uint64_t i = 0; i < options_.threads; ++i) threads.emplace_back([this, i] { run_thread(i); });
    wait_until_opened();
    const auto failed =
        std::find_if(statuses_.begin(), statuses_.end(), [](const absl::Status& status) { return !status.ok(); });
    abandoned_ = failed != statuses_.end();
    control_.start = interval_start_ = clock_.now_ns();
    result_.start_epoch_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    if (options_.execution_time_max != 0) control_.end = control_.start + options_.execution_time_max;
    go_.count_down();
    if (!abandoned_) watch();
    for (std::thread& thread : threads) thread.join();
    gather();
    return std::move(result_);
  }

 private:
  void run_thread(uint64_t index) {
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // sleep as exactly as the machine can
    ClientThread& client = *clients_[index];
    statuses_[index] = client.open(binding_);
    count_down(opening_, all_opened_);
    go_.wait();
    if (!abandoned_) statuses_[index] = client.run();
    // Here in any case: a session belongs to the thread that opened it.
    client.close();
    count_down(running_, all_ended_);
  }

  /// The last one of the threads raises the event.
  static void count_down(std::atomic<uint64_t>& threads, const FileDescriptor& event) {
    if (threads.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const uint64_t one = 1;
    const ssize_t written = write(event.get(), &one, sizeof one);
    SKUA_CHECK(written == sizeof one, "an eventfd takes one event");
  }

  void wait_until_opened() {
    std::array<pollfd, 2> waiting = {{{all_opened_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
    while (opening_.load(std::memory_order_acquire) != 0) {
      if (poll(waiting.data(), waiting.size(), -1) <= 0 || waiting[1].revents == 0) continue;
      // The threads are inside the store's client, which has its own idea of how long to try.
      err_ << "skua-ycsb: interrupted while it was connecting\n" << std::flush;
      std::_Exit(kExitInterrupted);
    }
  }

  /// Until all threads have ended: prints status lines, listens for signals.
  void watch() {
    TimeNs next = control_.start;
    if (options_.status) print_status();
    next += options_.status_interval;
    std::array<pollfd, 2> waiting = {{{all_ended_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
    for (;;) {
      const DurationNs left = std::max<DurationNs>(next - clock_.now_ns(), 0);
      const timespec timeout = {left / kSecond, left % kSecond};
      const int ready = ppoll(waiting.data(), waiting.size(), options_.status ? &timeout : nullptr, nullptr);
      if (ready > 0 && waiting[0].revents != 0) return;
      if (ready > 0 && waiting[1].revents != 0) {
        take_signal();
      } else if (options_.status) {
        print_status();
        next += options_.status_interval;
      }
    }
  }

  void take_signal() {
    signalfd_siginfo info = {};
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return;
    if (result_.interrupted) {
      err_ << "skua-ycsb: stopping already; outstanding operations get a few seconds\n" << std::flush;
      return;
    }
    result_.interrupted = true;
    err_ << "skua-ycsb: interrupted: waits for what is in flight, then reports what was done\n" << std::flush;
    control_.stop.store(true, std::memory_order_relaxed);
  }

  void collect(ClientThread& client) {
    client.measurements().collect([this](const Measurements& given) { interval_.add(given); });
  }

  /// Gets the threads' measurements since the last time into interval_.
  void collect_interval() {
    for (const auto& client : clients_) client->measurements().ask();
    const TimeNs end = clock_.now_ns() + kHandoffMax;
    std::vector<ClientThread*> missing;
    missing.reserve(clients_.size());
    for (const auto& client : clients_) missing.push_back(client.get());
    while (!missing.empty() && clock_.now_ns() < end && running_.load() != 0) {
      std::erase_if(missing, [this](ClientThread* client) {
        return client->measurements().collect([this](const Measurements& given) { interval_.add(given); });
      });
      if (missing.empty()) break;
      const timespec pause = {0, kMillisecond};
      nanosleep(&pause, nullptr);
    }
  }

  void print_status() {
    collect_interval();
    print_interval();
  }

  void print_interval() {
    const TimeNs now = clock_.now_ns();
    Progress progress;
    progress.label = options_.label;
    progress.wall_time = wall_time();
    progress.since_start = now - control_.start;
    progress.interval = now - interval_start_;
    for (const auto& client : clients_) {
      progress.operations += client->operations_done();
      progress.operations_left += client->operations_left();
    }
    progress.interval_operations = progress.operations - last_operations_;
    last_operations_ = progress.operations;
    const std::string line = status_line(progress, summary(interval_));
    err_ << line << '\n' << std::flush;
    if (measurement_options_.time_series) out_ << line << '\n' << std::flush;
    end_interval(now);
  }

  void end_interval(TimeNs now) {
    hdr_logs_.write_interval(interval_, result_.start_epoch_ms, interval_start_ - control_.start, now - control_.start);
    interval_start_ = now;
    result_.measurements.add(interval_);
    interval_.clear();
  }

  /// After the threads have ended.
  void gather() {
    for (const absl::Status& status : statuses_) result_.status.Update(status);
    if (abandoned_) return;
    TimeNs ended = control_.start;
    for (uint64_t i = 0; i < options_.threads; ++i) {
      ClientThread& client = *clients_[i];
      collect(client);
      interval_.add(client.measurements().active());
      result_.operations += client.operations_done();
      result_.late_starts += client.late_starts();
      for (size_t status = 0; status < kStatusCount; ++status)
        result_.failures.at(status) += client.failures().at(status);
      ended = std::max(ended, client.ended());
      if (!client.first_failure().empty()) result_.first_failures.push_back(client.first_failure());
    }
    result_.run_time = std::max<DurationNs>(ended - control_.start, 1);
    if (options_.status) {
      print_interval();
    } else {
      end_interval(ended);
    }
    result_.status.Update(hdr_logs_.status());
  }

  const DriverOptions& options_;
  const MeasurementOptions& measurement_options_;
  Binding& binding_;
  std::ostream& out_;
  std::ostream& err_;
  const SteadyClock clock_;
  RunResult result_;
  Measurements interval_;
  RunControl control_;
  std::vector<std::unique_ptr<ClientThread>> clients_;
  std::vector<absl::Status> statuses_;
  std::latch go_;
  std::atomic<uint64_t> opening_{0};
  std::atomic<uint64_t> running_{0};
  bool abandoned_ = false;
  FileDescriptor signals_;
  FileDescriptor all_opened_;
  FileDescriptor all_ended_;
  HdrLogs hdr_logs_;
  TimeNs interval_start_ = 0;
  uint64_t last_operations_ = 0;
};

}  // namespace

RunResult run_phase(const DriverOptions& options, const MeasurementOptions& measurement_options, CoreWorkload& workload,
                    Binding& binding, std::ostream& out, std::ostream& err) {
  return Phase(options, measurement_options, workload, binding, out, err).run();
}

}  // namespace skua::ycsb
