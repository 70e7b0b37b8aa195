#include "kvstore/gateway/password_checker.h"

#include <utility>

namespace skua::kv::gateway {

PasswordChecker::PasswordChecker() : nobody_(hash_of_no_password()) {
  thread_ = std::thread([this] { run(); });
}

PasswordChecker::~PasswordChecker() {
  stop();
}

void PasswordChecker::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    waiting_.clear();
    waiting_count_ = 0;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// The digest is under a secret key: how long a look-up takes tells nothing of the password.
bool PasswordChecker::is_remembered(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  return remembered_.contains(digest);
}

std::optional<PasswordChecker::Verdict> PasswordChecker::check(const std::optional<PasswordHash>& hash,
                                                               std::string_view password, const std::string& address,
                                                               VerdictFn later) {
  // A password that is too long is checked like any other wrong one.
  const bool is_too_long = password.size() > kPasswordBytesMax;
  const PasswordHash& judged = hash.has_value() && !is_too_long ? *hash : nobody_;
  const std::string_view shown = password.substr(0, kPasswordBytesMax);
  if (is_remembered(digests_.digest_of(judged, shown))) return Verdict::kRight;
  const std::lock_guard lock(mutex_);
  if (is_stopped_ || waiting_count_ >= kWaitingMax) return Verdict::kBusy;
  const auto of_address = waiting_.find(address);
  if (of_address != waiting_.end() && of_address->second.size() >= kWaitingPerAddressMax) return Verdict::kBusy;
  waiting_[address].push_back(
      {.hash = judged, .password = std::string(shown), .since = Clock::now(), .later = std::move(later)});
  ++waiting_count_;
  changed_.notify_one();
  return std::nullopt;
}

/// Of the address whose turn it is. Nothing: stop().
std::optional<PasswordChecker::Waiting> PasswordChecker::take_next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_stopped_ || waiting_count_ > 0; });
  if (is_stopped_) return std::nullopt;
  auto next = waiting_.upper_bound(latest_address_);
  if (next == waiting_.end()) next = waiting_.begin();
  latest_address_ = next->first;
  std::optional<Waiting> taken(std::move(next->second.front()));
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  --waiting_count_;
  return taken;
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
