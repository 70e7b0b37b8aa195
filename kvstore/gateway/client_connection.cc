#include "kvstore/gateway/client_connection.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kvstore/gateway/client_users.h"
#include "kvstore/gateway/handlers.h"
#include "kvstore/gateway/redis_errors.h"
#include "kvstore/gateway/transaction.h"

namespace skua::kv::gateway {
namespace {

/// Room for requests that a connection keeps.
constexpr size_t kKeptRequests = 16;
/// Room for commands that a finished one sets free.
constexpr size_t kKeptUnblocked = 64;

CommandTask reply_nothing(CommandRun& /*run*/) {
  co_return;
}

/// A command that was refused or queued: it has its place among the replies.
constexpr CommandSpec kAnswered{
    .name = "", .arity = -1, .flags = kLocal, .first_key = 0, .last_key = 0, .key_step = 0, .handler = reply_nothing};

}  // namespace

ClientConnection::ClientConnection(GatewayContext& gateway, ClientSession session,
                                   std::unique_ptr<WireProtocol> protocol)
    : gateway_(gateway), session_(std::move(session)), protocol_(std::move(protocol)) {}

ClientConnection::~ClientConnection() {
  for (std::unique_ptr<CommandRun>& run : ring_) run->end();
  gateway_.held_bytes -= held_bytes_;
}

void ClientConnection::receive(std::string_view& bytes, int64_t now_us) {
  uint64_t command_count = 0;
  while (!bytes.empty() && wants_input()) {
    protocol_->restrict_to_authentication(!is_admitted());
    const WireProtocol::Found found = protocol_->parse(bytes);
    if (found == WireProtocol::Found::kNothing) break;
    if (found == WireProtocol::Found::kCommand) {
      ++command_count;
      dispatch(protocol_->arguments(), now_us);
    } else {
      refuse(protocol_->error());
      session_.is_ending = found == WireProtocol::Found::kBroken;
    }
    if (burst_ == nullptr) {
      advance(now_us);
    } else {
      count_held();
    }
  }
  if (burst_ != nullptr) {
    end_burst();
    advance(now_us);
  }
  // Other threads count there, too: each addition takes the cache line from them.
  gateway_.identity.commands.fetch_add(command_count, std::memory_order_relaxed);
  // Whatever a client sends after the end is not looked at.
  if (session_.is_ending) bytes = {};
}

/// `pinned`: null: MULTI queues the command.
std::unique_ptr<CommandRun> ClientConnection::begin_run(const CommandSpec& spec, CommandArguments& words,
                                                        uint64_t number, PinnedBytes* pinned) {
  std::unique_ptr<CommandRun> run;
  if (gateway_.spare_runs.empty()) {
    run = std::make_unique<CommandRun>();
  } else {
    run = std::move(gateway_.spare_runs.back());
    gateway_.spare_runs.pop_back();
  }
  run->begin({.number = number,
              .spec = &spec,
              .words = &words,
              .session = &session_,
              .gateway = &gateway_,
              .pinned = pinned,
              .is_queued = pinned == nullptr});
  return run;
}

CommandRun& ClientConnection::add_run(const CommandSpec& spec, CommandArguments& words) {
  end_burst();
  std::unique_ptr<CommandRun> run = begin_run(spec, words, first_number_ + ring_.size(), &pinned_);
  ++command_count_;
  command_bytes_ += run->memory_bytes();
  ring_.push_back(std::move(run));
  return *ring_.back();
}

void ClientConnection::add_to_burst(const CommandSpec& burst, CommandArguments& words) {
  if (burst_ != nullptr) {
    const size_t bytes_before = burst_->memory_bytes();
    if (burst_->append(words)) {
      ++command_count_;
      command_bytes_ += burst_->memory_bytes() - bytes_before;
      return;
    }
  }
  burst_ = &add_run(burst, words);
}

/// The burst waits for its turn from now on.
void ClientConnection::end_burst() {
  if (burst_ != nullptr) add_hazards(*std::exchange(burst_, nullptr));
}

void ClientConnection::add_hazards(CommandRun& run) {
  hazards_.add(run);
  if (run.blocker_count == 0) ready_.push_back(&run);
}

void ClientConnection::refuse(std::string_view error) {
  if (error.empty()) return;
  CommandArguments none;
  CommandRun& run = add_run(kAnswered, none);
  protocol_->write_error(error, run.reply_bytes());
  run.start(0, requests_);
  done_bytes_ += run.reply_bytes().size();
}

void ClientConnection::dispatch(CommandArguments& words, int64_t now_us) {
  FoundCommand found = protocol_->find(words);
  if (found.spec == nullptr) {
    if (session_.transaction != nullptr) session_.transaction->abort();
    if (found.ends_transaction) session_.transaction.reset();
    // What a browser sends when a web page makes it talk to this port (cross-protocol scripting). Redis does the same.
    session_.is_ending = session_.is_ending || found.is_http;
    if (!found.is_http) refuse(found.error);
    return;
  }
  if (gateway_.users != nullptr && is_denied(*found.spec, words)) return;
  const bool is_multi_open = session_.transaction != nullptr && session_.transaction->is_open();
  if (is_multi_open && !found.spec->has(kNotQueued)) return queue(*found.spec, words);
  if (const CommandSpec* const burst = burst_of(*found.spec, words); burst != nullptr) {
    return add_to_burst(*burst, words);
  }
  CommandRun& run = add_run(*found.spec, words);
  if (found.spec->has(kLocal) || found.spec->has(kPrepares)) {
    // The command acts at once: it sets the database, the protocol and the transaction of the commands after it.
    start_at_once(run, now_us);
    if (run.state() == CommandRun::State::kDone) return;
  }
  if (run.state() == CommandRun::State::kRunning) {
    // This command waits for a password check. It has no keys, so it has no hazards.
    ++running_count_;
    authentication_ = &run;
    return;
  }
  add_hazards(run);
}

/// Whether the client may have the command carried out.
Denial ClientConnection::judge(const CommandSpec& spec, const CommandArguments& words, uint32_t database,
                               const Transaction* transaction) const {
  if (spec.has(kNoUser)) return Denial::kNone;
  if (session_.user == nullptr) return Denial::kNoUser;
  const Rights rights = session_.user->rights_in(database);
  if (!rights.include(needed_rights(spec, words))) return Denial::kNoRight;
  if (spec.has(kAllDatabases)) {
    for (const auto& [each, table] : gateway_.identity.databases) {
      if (!session_.user->rights_in(each).include(needed_rights(spec, words))) return Denial::kNoRight;
    }
  }
  if (spec.handler != handlers::exec || transaction == nullptr) return Denial::kNone;
  for (const std::unique_ptr<CommandRun>& queued : transaction->commands()) {
    if (!rights.include(needed_rights(queued->spec(), queued->words()))) return Denial::kRightWasLost;
  }
  return Denial::kNone;
}

/// True: the client may not, and has been told. There is a users file.
bool ClientConnection::is_denied(const CommandSpec& spec, const CommandArguments& words) {
  const Denial denial = judge(spec, words, session_.database, session_.transaction.get());
  if (denial == Denial::kNone) return false;
  gateway_.identity.commands_denied.fetch_add(1, std::memory_order_relaxed);
  if (session_.transaction != nullptr) session_.transaction->abort();
  if (denial == Denial::kRightWasLost) session_.transaction.reset();
  refuse(protocol_->denial(denial, spec, words));
  return true;
}

/// True: the users have changed since the command came, the client may not have it carried out any more, and the
/// command has its reply.
bool ClientConnection::is_denied_at_start(CommandRun& run) {
  const Denial denial = judge(run.spec(), run.words(), run.database(), run.transaction());
  if (denial == Denial::kNone) return false;
  gateway_.identity.commands_denied.fetch_add(run.command_count(), std::memory_order_relaxed);
  run.end_early();
  if (const std::string error = protocol_->denial(denial, run.spec(), run.words()); !error.empty()) {
    for (size_t i = 0; i < run.command_count(); ++i) protocol_->write_error(error, run.reply_bytes());
  }
  return true;
}

void ClientConnection::take_certificate(std::string name) {
  session_.certificate_name = std::move(name);
  if (gateway_.users == nullptr) return;
  session_.user = gateway_.users->find(session_.certificate_name);
  session_.is_by_certificate = session_.user != nullptr;
}

void ClientConnection::take_users() {
  judges_at_start_ = true;
  if (session_.user == nullptr) {
    if (!session_.certificate_name.empty()) take_certificate(session_.certificate_name);
    return;
  }
  std::shared_ptr<const ClientUser> now = gateway_.users->find(session_.user->name);
  if (now == nullptr || (!session_.is_by_certificate && now->password != session_.user->password)) {
    session_.is_ending = true;
    session_.user = nullptr;
    session_.transaction.reset();
    count_held();
  } else {
    session_.user = std::move(now);
  }
}

void ClientConnection::start_at_once(CommandRun& run, int64_t now_us) {
  const size_t bytes_before = run.memory_bytes();
  run.start(now_us, requests_);
  command_bytes_ += run.memory_bytes() - bytes_before;  // of a transaction that it took
  if (run.state() == CommandRun::State::kDone) done_bytes_ += run.reply_bytes().size();
}

/// A command inside MULTI. See transaction.h.
void ClientConnection::queue(const CommandSpec& spec, CommandArguments& words) {
  Transaction& transaction = *session_.transaction;
  std::string_view error;
  if (spec.has(kNotInMulti)) {
    error = errors::kNotInMulti;
  } else if (gateway_.held_bytes >= gateway_.held_bytes_max) {
    error = errors::kNoRoomToQueue;
  } else if (!transaction.queue(begin_run(spec, words, 0, nullptr))) {
    error = errors::kTransactionTooLarge;
  }
  if (!error.empty()) {
    transaction.abort();
    return refuse(error);
  }
  CommandArguments none;
  CommandRun& run = add_run(kAnswered, none);
  run.reply().simple("QUEUED");
  start_at_once(run, 0);
}

void ClientConnection::complete(const StoreTicket& ticket, StoreResult&& result, int64_t now_us) {
  if (ticket.command < first_number_ || ticket.command - first_number_ >= ring_.size()) return;
  CommandRun& run = *ring_[ticket.command - first_number_];
  const bool was_done = run.state() == CommandRun::State::kDone;
  run.complete(ticket.index, std::move(result), now_us, requests_);
  if (was_done || run.state() != CommandRun::State::kDone) return;
  finish(run);
  advance(now_us);
}

bool ClientConnection::may_work_long(const StoreTicket& ticket) const {
  if (ticket.command < first_number_ || ticket.command - first_number_ >= ring_.size()) return false;
  return ring_[ticket.command - first_number_]->holds_values();
}

void ClientConnection::sent(size_t bytes, int64_t now_us) {
  output_.consume(bytes);
  advance(now_us);
}

void ClientConnection::take_requests(std::vector<IssuedRequest>& out) {
  out.insert(out.end(), requests_.begin(), requests_.end());
  requests_.clear();
  // Most connections are idle most of the time.
  if (requests_.capacity() > kKeptRequests) std::vector<IssuedRequest>().swap(requests_);
}

void ClientConnection::advance(int64_t now_us) {
  // Removing a finished command may let the next one start.
  do {
    start_ready(now_us);
  } while (pop_done() && !ready_.empty());
  count_held();
}

void ClientConnection::count_held() {
  const size_t held = busy_bytes() + (session_.transaction != nullptr ? session_.transaction->memory_bytes() : 0);
  gateway_.held_bytes += held - held_bytes_;
  held_bytes_ = held;
}

bool ClientConnection::has_room_for(const CommandRun& run) const {
  if (reply_bytes() + (running_count_ + 1) * expected_bytes_ > kReplyBytesMax) return false;
  return !run.holds_values() || (holding_count_ < kHoldingCommandsMax && reply_bytes() <= kReplyBytesMax / 2);
}

/// The next command to start, of those in ready_; null: none may start now.
CommandRun* ClientConnection::take_ready() {
  if (ready_.empty()) return nullptr;
  auto next = ready_.begin();
  if (!has_room_for(**next)) {
    // Finished replies may wait for the first command. The first command runs alone then, when the client has taken
    // replies.
    const bool has_room = reply_bytes() < kReplyBytesMax || output_.empty();
    if (running_count_ > 0 || !has_room) return nullptr;
    next = std::find(ready_.begin(), ready_.end(), ring_.front().get());
    if (next == ready_.end()) return nullptr;
  }
  CommandRun* const run = *next;
  if (next == ready_.begin()) {
    ready_.pop_front();
  } else {
    ready_.erase(next);
  }
  return run;
}

void ClientConnection::start_ready(int64_t now_us) {
  while (CommandRun* const run = take_ready()) {
    ++running_count_;
    if (run->holds_values()) ++holding_count_;
    if (!judges_at_start_ || !is_denied_at_start(*run)) run->start(now_us, requests_);
    if (run->state() == CommandRun::State::kDone) finish(*run);
  }
  if (ring_.empty()) judges_at_start_ = false;
}

void ClientConnection::finish(CommandRun& run) {
  --running_count_;
  if (run.holds_values()) --holding_count_;
  const size_t bytes = run.reply_bytes().size();
  if (&run == authentication_) {
    authentication_ = nullptr;
    done_bytes_ += bytes;
    return;
  }
  // The greatest of the latest: eleven smaller replies halve it.
  expected_bytes_ = std::max(bytes, expected_bytes_ - expected_bytes_ / 16);
  const bool has_room = reply_bytes() + bytes <= kReplyBytesMax || &run == ring_.front().get();
  if (!has_room && run.spec().has(kReads)) {
    // Nobody knew how large the values are. They are read again when there is room.
    run.restart();
    ready_.push_front(&run);
    return;
  }
  done_bytes_ += bytes;
  unblocked_.clear();
  hazards_.finish(run, unblocked_);
  for (HazardNode* node : unblocked_) ready_.push_back(static_cast<CommandRun*>(node));
  if (unblocked_.capacity() > kKeptUnblocked) std::vector<HazardNode*>().swap(unblocked_);
}

/// True: a reply is on its way.
bool ClientConnection::pop_done() {
  const uint64_t first_before = first_number_;
  while (!ring_.empty() && ring_.front()->state() == CommandRun::State::kDone) {
    std::unique_ptr<CommandRun> run = std::move(ring_.front());
    ring_.pop_front();
    ++first_number_;
    done_bytes_ -= run->reply_bytes().size();
    command_bytes_ -= run->memory_bytes();
    command_count_ -= run->command_count();
    output_.append(run->reply_bytes());
    run->end();
    if (gateway_.spare_runs.size() < kSpareRunsMax) gateway_.spare_runs.push_back(std::move(run));
  }
  return first_number_ != first_before;
}

}  // namespace skua::kv::gateway
