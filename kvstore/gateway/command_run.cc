#include "kvstore/gateway/command_run.h"

#include <algorithm>
#include <string>

#include "absl/hash/hash.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/transaction.h"
#include "rpc/base/check.h"

namespace skua::kv::gateway {

namespace {

/// Room for results that a run keeps for the next command.
constexpr size_t kKeptResults = 4;

void free_large_results(std::vector<StoreResult>& results) {
  results.clear();
  if (results.capacity() > kKeptResults) std::vector<StoreResult>().swap(results);
}

}  // namespace

FramePool& frame_pool_of(CommandRun& run) {
  return run.gateway().frames;
}

GatewayContext::GatewayContext(GatewayIdentity& identity_arg) : identity(identity_arg) {}
GatewayContext::~GatewayContext() = default;

void CommandRun::begin(const Beginning& beginning) {
  state_ = State::kWaiting;
  protocol_ = beginning.session->protocol;
  database_ = beginning.session->database;
  number_ = beginning.number;
  spec_ = beginning.spec;
  session_ = beginning.session;
  gateway_ = beginning.gateway;
  std::swap(words_, *beginning.words);
  holds_values_ = gateway::holds_values(*spec_, words_);
  memory_bytes_ = gateway::memory_bytes(*spec_, words_);
  reply_.set_pinned(beginning.pinned);
  key_hashes.resize(0);
  is_queued_ = beginning.is_queued;
  waits_for_turn_ = false;
  is_write = spec_->has(kWrites) || spec_->has(kOrdersKeys);
  is_whole_table = spec_->has(kWholeTable);
}

bool CommandRun::append(const CommandArguments& words) {
  if (burst_size(words_) == kBurstCommandsMax) return false;
  if (key_hashes.empty()) add_keys_of(*this);
  const uint64_t key_hash = absl::HashOf(database_, words[1]);
  if (std::find(key_hashes.begin(), key_hashes.end(), key_hash) != key_hashes.end()) return false;
  key_hashes.push_back(key_hash);
  words_.append_without_name(words);
  memory_bytes_ += gateway::memory_bytes(*spec_, words);
  return true;
}

void CommandRun::restart() {
  reply_.clear();
  state_ = State::kWaiting;
}

void CommandRun::end() {
  task_.destroy();
  transaction_.reset();
  forget_results();
  forget_keys();
  asked_ = {};
  unanswered_ = 0;
  asked_once_ = false;
  reply_.clear();
  reply_.set_pinned(nullptr);
  words_.clear();
}

void CommandRun::start(int64_t now_us, std::vector<IssuedRequest>& out) {
  state_ = State::kRunning;
  begun_us_ = now_us;
  if (!std::exchange(waits_for_turn_, false)) {
    if (spec_->one_request != nullptr && ask_once(now_us, out)) return;
    SKUA_CHECK(spec_->handler != nullptr, "its one request does for all words");
    task_ = spec_->handler(*this);
  }
  resume(now_us, out);
}

/// False: the words need the handler.
bool CommandRun::ask_once(int64_t now_us, std::vector<IssuedRequest>& out) {
  now_us_ = now_us;
  IssuedRequest& issued = out.emplace_back();
  asked_once_ = spec_->one_request->ask(*this, issued.request);
  if (!asked_once_) {
    out.pop_back();
    return false;
  }
  issued.ticket = {number_, 0};
  issued.request.database = database_;
  return true;
}

void CommandRun::end_early() {
  SKUA_CHECK(state_ == State::kWaiting, "a command that runs has asked for something");
  task_.destroy();
  waits_for_turn_ = false;
  forget_results();
  state_ = State::kDone;
}

void CommandRun::resume(int64_t now_us, std::vector<IssuedRequest>& out) {
  now_us_ = now_us;
  task_.resume();
  if (task_.is_done()) {
    state_ = State::kDone;
    task_.destroy();
    forget_results();
    return;
  }
  if (waits_for_turn_) {
    state_ = State::kWaiting;
    return;
  }
  for (size_t i = 0; i < asked_.size(); ++i) {
    out.push_back({{number_, static_cast<uint32_t>(i)}, asked_[i]});
    out.back().request.database = database_;
  }
}

void CommandRun::add_keys_of(const CommandRun& command) {
  for_each_key(*command.spec_, command.words_,
               [&](std::string_view key) { key_hashes.push_back(absl::HashOf(command.database_, key)); });
}

void CommandRun::name_keys() {
  if (spec_->has(kBurst) && !key_hashes.empty()) return;
  key_hashes.resize(0);
  add_keys_of(*this);
  if (transaction_ == nullptr) return;
  for (const std::unique_ptr<CommandRun>& command : transaction_->commands()) add_keys_of(*command);
  for (const WatchedKey& watched : transaction_->watched()) {
    key_hashes.push_back(absl::HashOf(watched.database, std::string_view(watched.key)));
  }
}

void CommandRun::take_transaction() {
  transaction_ = std::move(session_->transaction);
  memory_bytes_ += transaction_->memory_bytes();
}

void CommandRun::ask(std::span<const StoreRequest> requests) {
  SKUA_CHECK(!requests.empty() && requests.size() <= kRequestsPerCommandMax, "a command asks in groups");
  asked_ = requests;
  results_.clear();
  results_.resize(requests.size());
  is_answered_.assign(requests.size(), false);
  unanswered_ = requests.size();
  count_values(0, kept_bytes_);
}

void CommandRun::forget_results() {
  if (results_.capacity() == 0 && kept_bytes_ == 0) return;  // it asked once, or not at all
  free_large_results(results_);
  count_values(0, 0);
}

void CommandRun::count_values(size_t result_bytes, size_t kept_bytes) {
  gateway_->working_value_bytes += result_bytes + kept_bytes;
  gateway_->working_value_bytes -= result_bytes_ + kept_bytes_;
  result_bytes_ = result_bytes;
  kept_bytes_ = kept_bytes;
}

bool CommandRun::keep_values(size_t bytes) {
  count_values(result_bytes_, bytes);
  return gateway_->working_value_bytes <= gateway_->working_value_bytes_max;
}

/// Keeps the memory of values bounded while other results of the command are on their way.
void CommandRun::take_value(uint32_t index) {
  StoreResult& result = results_[index];
  if (!result.value.bytes().empty()) result.value_bytes = result.value.size();
  if (asked_[index].drops_value) result.value.reset();
  const size_t before = result_bytes_;
  count_values(result_bytes_ + result.value.size(), kept_bytes_);
  if (results_.size() == 1) return;
  const bool is_too_large = reply_.size() + result_bytes_ > kManyValuesBytesMax;
  if (!is_too_large && gateway_->working_value_bytes <= gateway_->working_value_bytes_max) return;
  count_values(before, kept_bytes_);
  if (is_too_large) {
    result = {.status = StoreResult::Status::kRefused, .text = std::string(errors::kReplyTooLargeText)};
  } else {
    result = {.status = StoreResult::Status::kNotApplied, .text = std::string(errors::kNoRoomForValuesText)};
  }
}

void CommandRun::complete(uint32_t index, StoreResult&& result, int64_t now_us, std::vector<IssuedRequest>& out) {
  if (asked_once_ && state_ == State::kRunning && index == 0) {
    now_us_ = now_us;
    asked_once_ = false;
    spec_->one_request->reply(*this, std::move(result));
    state_ = State::kDone;
    return;
  }
  if (state_ != State::kRunning || index >= results_.size() || is_answered_[index]) return;
  results_[index] = std::move(result);
  take_value(index);
  is_answered_[index] = true;
  if (--unanswered_ == 0) resume(now_us, out);
}

}  // namespace skua::kv::gateway
