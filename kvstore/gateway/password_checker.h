// PasswordChecker: checks passwords on a thread of its own, because a check is slow on purpose (password_hash.h).
//
//   thread of connections                     thread of the checker
//     AUTH --> check() --> kRight at once: this pair was right before
//                    +---> queue of the client's address --> scrypt, one at a time --> verdict (called there)
//
// While a password is checked its connection is not read (client_connection.h): so commands behind AUTH wait, and a
// connection has one check at most. Connections of other clients go on.
//
// Rate. One core checks some ten passwords a second, whoever asks: that is the limit for guessing. Addresses have their
// turns one after the other, so that one that guesses does not shut out others. A right password is remembered by an
// HMAC under a random key of the process, as long as its hash is in use: the many connections of an application cost
// one check, and then microseconds. Only right passwords are remembered, so what is fast tells nothing to a guesser.
//
// Bounds. kWaitingMax checks wait, kWaitingPerAddressMax of one address: further ones are kBusy at once, and so are
// those that have waited kWaitMax. An unknown user's password is checked against a hash that no password has: the
// answer, and all that is done for it, are those of a wrong password.
#ifndef SKUA_KVSTORE_GATEWAY_PASSWORD_CHECKER_H_
#define SKUA_KVSTORE_GATEWAY_PASSWORD_CHECKER_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "kvstore/gateway/password_hash.h"

namespace skua::kv::gateway {

/// Thread: any.
class PasswordChecker {
 public:
  static constexpr size_t kWaitingMax = 4096;
  static constexpr size_t kWaitingPerAddressMax = 256;
  static constexpr std::chrono::seconds kWaitMax{20};
  static constexpr size_t kRememberedMax = 16'384;

  enum class Verdict : uint8_t { kRight, kWrong, kBusy };
  using VerdictFn = absl::AnyInvocable<void(Verdict)>;

  PasswordChecker();
  /// Calls stop().
  ~PasswordChecker();
  PasswordChecker(const PasswordChecker&) = delete;
  PasswordChecker& operator=(const PasswordChecker&) = delete;

  /// The verdict, if it is known at once. Nothing: `later` is called, on the checker's thread. `hash`: of the user;
  /// nothing: there is no such user, or the user has no password. `address`: of the client, without its port.
  [[nodiscard]] std::optional<Verdict> check(const std::optional<PasswordHash>& hash, std::string_view password,
                                             const std::string& address, VerdictFn later);
  /// Forgets all checks that wait, without a call of theirs. No call comes after it.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    PasswordHash hash;
    std::string password;
    Clock::time_point since;
    VerdictFn later;
  };

  void run();
  [[nodiscard]] std::optional<Waiting> take_next();
  [[nodiscard]] Verdict judge(const Waiting& waiting);
  [[nodiscard]] bool is_remembered(const std::string& digest);

  const PasswordHash nobody_;
  const PasswordDigests digests_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_ from here on.
  bool is_stopped_ = false;
  size_t waiting_count_ = 0;
  std::map<std::string, std::deque<Waiting>> waiting_;  // by address; no queue is empty
  std::string latest_address_;                          // whose turn was the latest
  absl::flat_hash_set<std::string> remembered_;         // digests
  std::thread thread_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_PASSWORD_CHECKER_H_
