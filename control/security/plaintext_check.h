// Whether a server may be spoken to without TLS (--security accept): only if it answers a hello of TLS without TLS
// (first_words.h). That a call failed is no reason: a server that starts again, or that refuses a certificate or shows
// one that is refused, speaks TLS. The check blocks, so it has a thread of its own.
#ifndef SKUA_CONTROL_SECURITY_PLAINTEXT_CHECK_H_
#define SKUA_CONTROL_SECURITY_PLAINTEXT_CHECK_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace skua::control {

/// Servers that wait to be asked.
inline constexpr size_t kPlaintextChecksMax = 64;

/// Asks one server after the other. Its thread begins with the first question. Thread: any.
class PlaintextCheck {
 public:
  /// `speaks_no_tls`: false also if nobody answers.
  using DoneFn = std::function<void(bool speaks_no_tls)>;

  PlaintextCheck() = default;
  /// As stop().
  ~PlaintextCheck();
  PlaintextCheck(const PlaintextCheck&) = delete;
  PlaintextCheck& operator=(const PlaintextCheck&) = delete;

  /// Never blocks. `done` is called once: on the thread of the check; or here, with false, if kPlaintextChecksMax wait
  /// already, or after stop().
  void ask(const std::string& address, DoneFn done);

  /// Those that wait are told false. Blocks until the server that is asked now has answered: see speaks_no_tls(). Not
  /// from `done`.
  void stop();

 private:
  struct Question {
    std::string address;
    DoneFn done;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<Question> questions_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_PLAINTEXT_CHECK_H_
