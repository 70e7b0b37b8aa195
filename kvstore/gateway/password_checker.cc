#include "kvstore/gateway/password_checker.h"

#include <iterator>
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
    places_.clear();
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
  if (is_stopped_ || waiting_.count >= kWaitingMax) return {Verdict::kBusy};
  const auto of_address = waiting_.of_address.find(address);
  if (of_address != waiting_.of_address.end() && of_address->second.size() >= kWaitingPerAddressMax) {
    return {Verdict::kBusy};
  }
  const CheckId id = ++latest_id_;
  put(waiting_, address,
      {.id = id, .hash = judged, .password = std::string(shown), .since = Clock::now(), .later = std::move(later)});
  changed_.notify_one();
  return {std::nullopt, id};
}

void PasswordChecker::put(Queues& queues, const std::string& address, Waiting&& waiting) {
  const CheckId id = waiting.id;
  const auto of_address = queues.of_address.try_emplace(address).first;
  of_address->second.push_back(std::move(waiting));
  places_[id] = {&queues, of_address, std::prev(of_address->second.end())};
  ++queues.count;
}

/// It waits.
PasswordChecker::Waiting PasswordChecker::take(CheckId check) {
  const auto found = places_.find(check);
  const Place place = found->second;
  places_.erase(found);
  Waiting taken = std::move(*place.at);
  place.address->second.erase(place.at);
  if (place.address->second.empty()) place.queues->of_address.erase(place.address);
  --place.queues->count;
  return taken;
}

void PasswordChecker::forget(CheckId check) {
  const std::lock_guard lock(mutex_);
  if (!places_.contains(check)) return;
  Waiting gone = take(check);
  wipe(gone.password);
}

bool PasswordChecker::put_last(CheckId check) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(check);
  if (place == places_.end() || place->second.queues == &last_) return true;
  const std::string address = place->second.address->first;
  Waiting moved = take(check);
  if (last_.count >= kLastMax) {
    wipe(moved.password);
    return false;
  }
  put(last_, address, std::move(moved));
  return true;
}

/// Of the address whose turn it is. Nothing: stop().
std::optional<PasswordChecker::Waiting> PasswordChecker::take_next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_stopped_ || waiting_.count + last_.count > 0; });
  if (is_stopped_) return std::nullopt;
  Queues& queues = waiting_.count > 0 ? waiting_ : last_;
  auto next = queues.of_address.upper_bound(queues.latest_address);
  if (next == queues.of_address.end()) next = queues.of_address.begin();
  queues.latest_address = next->first;
  return take(next->second.front().id);
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
