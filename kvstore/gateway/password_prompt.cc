#include "kvstore/gateway/password_prompt.h"

#include <termios.h>
#include <unistd.h>

#include <iostream>

#include "absl/status/status.h"

namespace skua::kv::gateway {
namespace {

/// Switches off that a terminal shows what is typed, as long as it lives.
class HiddenTyping {
 public:
  HiddenTyping() {
    is_terminal_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!is_terminal_) return;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  ~HiddenTyping() {
    if (is_terminal_) (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }

 private:
  bool is_terminal_ = false;
  termios before_{};
};

std::string ask(const char* what, bool is_terminal) {
  std::string line;
  if (is_terminal) std::cerr << what << std::flush;
  std::getline(std::cin, line);
  if (is_terminal) std::cerr << '\n';
  return line;
}

}  // namespace

absl::StatusOr<std::string> read_password() {
  const HiddenTyping hidden;
  std::string password = ask("password: ", hidden.is_terminal());
  if (password.empty()) return absl::InvalidArgumentError("--hash-password reads a password from standard input");
  if (hidden.is_terminal() && ask("once more: ", true) != password) {
    return absl::InvalidArgumentError("the second password is another one");
  }
  return password;
}

}  // namespace skua::kv::gateway
