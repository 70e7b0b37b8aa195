// ServiceReporter: keeps the service manager informed from a thread of its own: while the program starts, while it
// serves, and when it stops.
//
//   constructed        STATUS=starting, and EXTEND_TIMEOUT_USEC again and again, for an hour at most: a recovery takes
//                      its time, and a start that hangs ends some time
//   ready()            READY=1; then STATUS= when it changes, and WATCHDOG=1 while the probe says that it lives
//   stopping()         STOPPING=1, and EXTEND_TIMEOUT_USEC as at the start, until the reporter is destroyed: what is in
//                      memory is written to the disk
//
// If no service manager listens there is no thread.
#ifndef SKUA_APP_SERVICE_REPORTER_H_
#define SKUA_APP_SERVICE_REPORTER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "app/notify.h"
#include "rpc/base/clock.h"

namespace skua::app {

/// Asked on the reporter's thread. May take some seconds.
struct ServiceProbe {
  /// Whether each thread that serves has answered.
  std::function<bool()> is_alive{};
  /// For people: one line.
  std::function<std::string()> status{};
};

/// Thread: one, for all methods.
class ServiceReporter {
 public:
  /// `extend_max_ns`: for how long the start and the stop ask for more time.
  explicit ServiceReporter(Notifier notifier, DurationNs pause_ns = 5 * kSecond,
                           DurationNs extend_max_ns = 3600 * kSecond);
  /// Ends the thread.
  ~ServiceReporter();
  ServiceReporter(const ServiceReporter&) = delete;
  ServiceReporter& operator=(const ServiceReporter&) = delete;

  /// The program serves. What the probe uses must live until stopping().
  void ready(ServiceProbe probe);
  /// The probe is not asked any more when this returns. Idempotent.
  void stopping();

 private:
  void run();
  void tell();
  void begin_thread();
  void end_thread();

  const Notifier notifier_;
  const DurationNs pause_ns_;
  const DurationNs extend_max_ns_;
  std::string told_;           // used by the thread only
  TimeNs phase_began_ns_ = 0;  // when the start or the stop began; set while there is no thread
  bool is_stopping_ = false;   // used by the caller only

  std::mutex mutex_;
  std::condition_variable wake_;
  ServiceProbe probe_;     // protected by mutex_; empty: the program starts or stops
  bool is_ready_ = false;  // protected by mutex_
  bool is_ended_ = false;  // protected by mutex_
  std::thread thread_;
};

}  // namespace skua::app

#endif  // SKUA_APP_SERVICE_REPORTER_H_
