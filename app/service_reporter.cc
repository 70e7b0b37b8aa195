#include "app/service_reporter.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace skua::app {
namespace {

/// How much longer the start may take, from each message on: several pauses.
constexpr DurationNs kMoreTimeNs = 60 * kSecond;

/// Three messages in the watchdog's time: one of them may be late.
DurationNs pause_of(const Notifier& notifier, DurationNs pause_ns) {
  return notifier.watchdog_ns() == 0 ? pause_ns : std::min(pause_ns, notifier.watchdog_ns() / 3);
}

}  // namespace

ServiceReporter::ServiceReporter(Notifier notifier, DurationNs pause_ns, DurationNs extend_max_ns)
    : notifier_(std::move(notifier)), pause_ns_(pause_of(notifier_, pause_ns)), extend_max_ns_(extend_max_ns) {
  if (!notifier_.is_heard()) return;
  notifier_.status("starting");
  begin_thread();
}

ServiceReporter::~ServiceReporter() {
  end_thread();
}

void ServiceReporter::ready(ServiceProbe probe) {
  {
    const std::lock_guard lock(mutex_);
    probe_ = std::move(probe);
    is_ready_ = true;
  }
  notifier_.ready();
  wake_.notify_all();
}

void ServiceReporter::stopping() {
  if (std::exchange(is_stopping_, true)) return;
  // The thread may be asking the probe: another one goes on without.
  end_thread();
  notifier_.status("stopping");
  notifier_.stopping();
  if (!notifier_.is_heard()) return;
  probe_ = {};
  is_ready_ = false;
  is_ended_ = false;
  begin_thread();
}

void ServiceReporter::begin_thread() {
  phase_began_ns_ = SteadyClock().now_ns();
  thread_ = std::thread([this] { run(); });
}

void ServiceReporter::end_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ServiceReporter::run() {
  bool was_ready = false;
  while (true) {
    tell();
    std::unique_lock lock(mutex_);
    // ready() ends a pause of the start: the first status comes at once.
    const bool is_woken =
        wake_.wait_for(lock, std::chrono::nanoseconds(pause_ns_), [&] { return is_ended_ || is_ready_ != was_ready; });
    if (is_woken && is_ended_) return;
    was_ready = is_ready_;
  }
}

void ServiceReporter::tell() {
  ServiceProbe probe;
  {
    const std::lock_guard lock(mutex_);
    if (!is_ready_) {
      const bool may_extend = SteadyClock().now_ns() - phase_began_ns_ < extend_max_ns_;
      return may_extend ? notifier_.extend_timeout(kMoreTimeNs) : void();
    }
    probe = probe_;
  }
  if (notifier_.watchdog_ns() != 0 && probe.is_alive()) notifier_.alive();
  std::string status = probe.status();
  if (status == told_) return;
  notifier_.status(status);
  told_ = std::move(status);
}

}  // namespace skua::app
