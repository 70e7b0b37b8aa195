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
// Clients that go away. Nobody wants the verdict on a password whose connection has ended: forget() takes the check out
// of the queue. A client that sends no more has gone away, mostly, but it may still listen, as `nc` does at the end of
// its input: put_last() leaves its check for when nobody else waits.
//
// Bounds. kWaitingMax checks wait, kWaitingPerAddressMax of one address: further ones are kBusy at once, and so are
// those that have waited kWaitMax. kLastMax more are put last. An unknown user's password is checked against a hash
// that no password has: the answer, and all that is done for it, are those of a wrong password.
#ifndef SKUA_KVSTORE_GATEWAY_PASSWORD_CHECKER_H_
#define SKUA_KVSTORE_GATEWAY_PASSWORD_CHECKER_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "kvstore/gateway/fair_queue.h"
#include "kvstore/gateway/password_hash.h"

namespace skua::kv::gateway {

/// Thread: any.
class PasswordChecker {
 public:
  static constexpr size_t kWaitingMax = 4096;
  static constexpr size_t kWaitingPerAddressMax = 256;
  static constexpr size_t kLastMax = 1024;
  static constexpr std::chrono::seconds kWaitMax{20};
  static constexpr size_t kRememberedMax = 16'384;

  enum class Verdict : uint8_t { kRight, kWrong, kBusy };
  using VerdictFn = absl::AnyInvocable<void(Verdict)>;
  /// Names a check that waits. Never 0, and never given again.
  using CheckId = uint64_t;
  struct Answer {
    std::optional<Verdict> verdict;  ///< nullopt: `later` will get the verdict
    CheckId waits = 0;               ///< if there is no verdict yet: the id of the check
  };

  PasswordChecker() = default;
  /// Calls stop().
  ~PasswordChecker();
  PasswordChecker(const PasswordChecker&) = delete;
  PasswordChecker& operator=(const PasswordChecker&) = delete;

  /// The verdict, if it is known at once. Else `later` is called, on the checker's thread. `hash`: of the user;
  /// nothing: there is no such user, or the user has no password. `address`: of the client, without its port.
  [[nodiscard]] Answer check(const std::optional<PasswordHash>& hash, std::string_view password,
                             const std::string& address, VerdictFn later);
  /// The client has gone away. If the check still waits, it is not carried out, and `later` is not called.
  void forget(CheckId check);
  /// The client sends no more. No matter if the check does not wait any more. False: there is no room, and the check is
  /// forgotten.
  [[nodiscard]] bool put_last(CheckId check);
  /// Forgets all checks that wait, without a call of theirs. No call comes after it.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    PasswordHash hash;
    std::string password;
    std::string address;
    Clock::time_point since;
    VerdictFn later;
  };

  void run();
  [[nodiscard]] std::optional<Waiting> take_next();
  [[nodiscard]] Verdict judge(const Waiting& waiting);
  [[nodiscard]] bool is_remembered(const std::string& digest);

  const PasswordHash nobody_ = hash_of_no_password();
  const PasswordDigests digests_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_ from here on.
  bool is_stopped_ = false;
  CheckId latest_id_ = 0;
  FairQueue<Waiting> waiting_;
  FairQueue<Waiting> last_;                      // those that were put last
  absl::flat_hash_set<std::string> remembered_;  // digests
  std::thread thread_{[this] { run(); }};
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_PASSWORD_CHECKER_H_
