#include "kvstore/gateway/password_checker.h"

#include <utility>

namespace skua::kv::gateway {

PasswordChecker::~PasswordChecker() {
  stop();
}

void PasswordChecker::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    waiting_ = {};
    last_ = {};
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// The digest is under a secret key: how long a look-up takes tells nothing of the password.
bool PasswordChecker::is_remembered(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  return remembered_.contains(digest);
}

PasswordChecker::Answer PasswordChecker::check(const std::optional<PasswordHash>& hash, std::string_view password,
                                               const std::string& address, VerdictFn later) {
  // A password that is too long is checked like any other wrong one.
  const bool is_too_long = password.size() > kPasswordBytesMax;
  const PasswordHash& judged = hash.has_value() && !is_too_long ? *hash : nobody_;
  const std::string_view shown = password.substr(0, kPasswordBytesMax);
  if (is_remembered(digests_.digest_of(judged, shown))) return {Verdict::kRight};
  const std::lock_guard lock(mutex_);
  if (is_stopped_ || waiting_.size() >= kWaitingMax || waiting_.size_of(address) >= kWaitingPerAddressMax) {
    return {Verdict::kBusy};
  }
  const CheckId id = ++latest_id_;
  waiting_.add(id, address,
               {.hash = judged,
                .password = std::string(shown),
                .address = address,
                .since = Clock::now(),
                .later = std::move(later)});
  changed_.notify_one();
  return {std::nullopt, id};
}

void PasswordChecker::forget(CheckId check) {
  const std::lock_guard lock(mutex_);
  std::optional<Waiting> gone = waiting_.remove(check);
  if (!gone.has_value()) gone = last_.remove(check);
  if (gone.has_value()) wipe(gone->password);
}

bool PasswordChecker::put_last(CheckId check) {
  const std::lock_guard lock(mutex_);
  std::optional<Waiting> moved = waiting_.remove(check);
  if (!moved.has_value()) return true;
  if (last_.size() >= kLastMax) {
    wipe(moved->password);
    return false;
  }
  const std::string address = moved->address;
  last_.add(check, address, *std::move(moved));
  return true;
}

/// Of the address whose turn it is. Nothing: stop().
std::optional<PasswordChecker::Waiting> PasswordChecker::take_next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_stopped_ || !waiting_.empty() || !last_.empty(); });
  if (is_stopped_) return std::nullopt;
  return waiting_.empty() ? last_.take() : waiting_.take();
}

PasswordChecker::Verdict PasswordChecker::judge(const Waiting& waiting) {
  if (Clock::now() - waiting.since > kWaitMax) return Verdict::kBusy;
  // Another connection of the same application may have been faster.
  const std::string digest = digests_.digest_of(waiting.hash, waiting.password);
  if (is_remembered(digest)) return Verdict::kRight;
  if (!is_password(waiting.hash, waiting.password)) return Verdict::kWrong;
  const std::lock_guard lock(mutex_);
  if (remembered_.size() >= kRememberedMax) remembered_.clear();
  remembered_.insert(digest);
  return Verdict::kRight;
}

void PasswordChecker::run() {
  while (std::optional<Waiting> next = take_next()) {
    const Verdict verdict = judge(*next);
    wipe(next->password);
    next->later(verdict);
  }
}

}  // namespace skua::kv::gateway
