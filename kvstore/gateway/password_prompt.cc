#include "kvstore/gateway/password_prompt.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iostream>

#include "absl/status/status.h"

namespace skua::kv::gateway {
namespace {

/// Signals that end or stop a program whose user types.
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

volatile std::sig_atomic_t caught_signal = 0;

void catch_signal(int number) {
  caught_signal = number;
}

/// Switches off that a terminal shows what is typed, as long as it lives. A signal that comes meanwhile is not acted
/// upon: wait_for_input() tells of it, and the signal acts when the object is gone.
class HiddenTyping {
 public:
  HiddenTyping() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : kSignals) sigaddset(&signals, number);
    pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
    caught_signal = 0;
    struct sigaction action {};
    action.sa_handler = catch_signal;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &actions_before_[i]);
      // Whoever started the program may have had a signal ignored, as nohup does.
      if (actions_before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
    tcgetattr(STDIN_FILENO, &before_);
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  ~HiddenTyping() {
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_before_[i], nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

  /// False: a signal came, which is in caught_signal.
  [[nodiscard]] bool wait_for_input() const {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    while (ppoll(&input, 1, nullptr, &mask_before_) < 0 && errno == EINTR) {
      if (caught_signal != 0) return false;
    }
    return true;
  }

 private:
  termios before_{};
  sigset_t mask_before_{};
  std::array<struct sigaction, kSignals.size()> actions_before_{};
};

/// A line that is typed, without its end. False: a signal came.
bool read_hidden(const HiddenTyping& hidden, const char* what, std::string& line) {
  line.clear();
  std::cerr << what << std::flush;
  bool is_whole = false;
  while (!is_whole && hidden.wait_for_input()) {
    char byte = 0;
    // The terminal gives whole lines.
    is_whole = read(STDIN_FILENO, &byte, 1) != 1 || byte == '\n';
    if (!is_whole) line.push_back(byte);
  }
  std::cerr << '\n';
  return is_whole;
}

/// Asked for twice. False: a signal came.
bool ask_twice(std::string& password, std::string& again) {
  const HiddenTyping hidden;
  if (!read_hidden(hidden, "password: ", password)) return false;
  return password.empty() || read_hidden(hidden, "once more: ", again);
}

}  // namespace

absl::StatusOr<std::string> read_password() {
  std::string password;
  std::string again;
  const bool is_terminal = isatty(STDIN_FILENO) == 1;
  if (is_terminal) {
    // A signal that only stops the program comes back here: whoever goes on with it is asked anew.
    while (!ask_twice(password, again)) (void)raise(caught_signal);
  } else {
    std::getline(std::cin, password);
  }
  if (password.empty()) return absl::InvalidArgumentError("--hash-password reads a password from standard input");
  if (is_terminal && again != password) return absl::InvalidArgumentError("the second password is another one");
  return password;
}

}  // namespace skua::kv::gateway
