#include "kvstore/gateway/command_run.h"

#include <string>

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
  key_hashes.clear();
  is_queued_ = beginning.is_queued;
  waits_for_turn_ = false;
  is_write = spec_->has(kWrites) || spec_->has(kOrdersKeys);
  is_whole_table = spec_->has(kWholeTable);
}

void CommandRun::restart() {
  reply_.clear();
  state_ = State::kWaiting;
}

void CommandRun::end() {
  task_.destroy();
  transaction_.reset();
  free_large_results(results_);
  forget_keys();
  asked_ = {};
  unanswered_ = 0;
  reply_.clear();
  reply_.set_pinned(nullptr);
  words_.clear();
}

void CommandRun::start(int64_t now_us, std::vector<IssuedRequest>& out) {
  state_ = State::kRunning;
  begun_us_ = now_us;
  if (!std::exchange(waits_for_turn_, false)) task_ = spec_->handler(*this);
  resume(now_us, out);
}

void CommandRun::resume(int64_t now_us, std::vector<IssuedRequest>& out) {
  now_us_ = now_us;
  task_.resume();
  if (task_.is_done()) {
    state_ = State::kDone;
    task_.destroy();
    free_large_results(results_);
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
  result_bytes_ = 0;
}

/// Keeps the memory of values bounded while other results of the command are on their way.
void CommandRun::take_value(uint32_t index) {
  StoreResult& result = results_[index];
  result.value_bytes = result.value.size();
  if (asked_[index].drops_value) result.value.reset();
  result_bytes_ += result.value.size();
  if (results_.size() == 1 || reply_.size() + result_bytes_ <= kManyValuesBytesMax) return;
  result_bytes_ -= result.value.size();
  result = {.status = StoreResult::Status::kRefused, .text = std::string(errors::kReplyTooLargeText)};
}

void CommandRun::complete(uint32_t index, StoreResult&& result, int64_t now_us, std::vector<IssuedRequest>& out) {
  if (state_ != State::kRunning || index >= results_.size() || is_answered_[index]) return;
  results_[index] = std::move(result);
  take_value(index);
  is_answered_[index] = true;
  if (--unanswered_ == 0) resume(now_us, out);
}

}  // namespace skua::kv::gateway
