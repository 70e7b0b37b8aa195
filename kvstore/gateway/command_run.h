// CommandRun: one command of one connection, from its words to its reply. What a handler sees.
//
//   words --> handler (a coroutine) --store(request)--> requests of the connection --> the store
//                |          ^                                                             |
//                |          +------------------------ complete(result) <------------------+
//                +--> reply
//
// Commands that ask once have two functions instead of a coroutine (OneRequest in command_table.h).
#ifndef SKUA_KVSTORE_GATEWAY_COMMAND_RUN_H_
#define SKUA_KVSTORE_GATEWAY_COMMAND_RUN_H_

#include <coroutine>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/gateway/client_session.h"
#include "kvstore/gateway/command_arguments.h"
#include "kvstore/gateway/command_burst.h"
#include "kvstore/gateway/command_table.h"
#include "kvstore/gateway/command_task.h"
#include "kvstore/gateway/gateway_context.h"
#include "kvstore/gateway/hazards.h"
#include "kvstore/gateway/reply_bytes.h"
#include "kvstore/gateway/resp_writer.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// Requests that one command has at the store at a time. Commands of many keys ask in groups of this size.
inline constexpr size_t kRequestsPerCommandMax = 128;
/// Bytes of a reply that has values of many keys, and of the values that a command of many keys holds for its reply.
inline constexpr size_t kManyValuesBytesMax = size_t{64} << 20;
/// A command that reads its key and then writes it gives up after this time, if others change the key every time.
inline constexpr int64_t kContestMsMax = 5000;

/// Names one request of a connection, until it is completed.
struct StoreTicket {
  uint64_t command = 0;  ///< number of the command in its connection
  uint32_t index = 0;    ///< of the request, among those that the command asked together
};

struct IssuedRequest {
  StoreTicket ticket;
  StoreRequest request;
};

/// Used again for further commands; begin() makes a new one of it. Thread: one.
class CommandRun : public HazardNode {
 public:
  enum class State : uint8_t { kWaiting, kRunning, kDone };

  CommandRun() = default;
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;

  // --- For handlers

  [[nodiscard]] size_t size() const { return words_.size(); }
  /// 0 is the command's name. Valid as long as the command runs.
  [[nodiscard]] std::string_view arg(size_t index) const { return words_[index]; }
  [[nodiscard]] const CommandSpec& spec() const { return *spec_; }
  [[nodiscard]] const CommandArguments& words() const { return words_; }
  /// How many commands of the client this is: above 1 only for a burst.
  [[nodiscard]] size_t command_count() const { return spec_->has(kBurst) ? burst_size(words_) : 1; }
  /// The database that was selected when the command came.
  [[nodiscard]] uint32_t database() const { return database_; }
  /// Further requests are of this database. For commands that write whole tables: they have no keys.
  void use_database(uint32_t number) { database_ = number; }
  /// Time of day, in milliseconds since 1970, when the handler was resumed.
  [[nodiscard]] int64_t now_ms() const { return now_us_ / 1000; }
  [[nodiscard]] int64_t now_us() const { return now_us_; }
  /// False: others have changed the key between reading and writing for too long.
  [[nodiscard]] bool may_contest() const { return now_us_ - begun_us_ < kContestMsMax * 1000; }
  [[nodiscard]] ClientSession& session() { return *session_; }
  [[nodiscard]] const ClientSession& session() const { return *session_; }
  /// MULTI queued the command, and EXEC carries it out.
  [[nodiscard]] bool is_queued() const { return is_queued_; }
  [[nodiscard]] GatewayContext& gateway() { return *gateway_; }
  /// Appends to the reply, in the protocol of the time when the command came.
  [[nodiscard]] RespWriter reply() { return {reply_, protocol_}; }
  [[nodiscard]] ReplyBytes& reply_bytes() { return reply_; }

  /// co_await run.store(request): asks the store, and gives the StoreResult.
  [[nodiscard]] auto store(const StoreRequest& request) { return StoreOne{{}, *this, request}; }
  /// co_await run.store_all(requests): asks 1 to kRequestsPerCommandMax at once, in no order; gives a span of their
  /// results, in the order of the requests, which is valid until the next co_await. `requests` must live until then.
  [[nodiscard]] auto store_all(std::span<const StoreRequest> requests) { return StoreAll{{}, *this, requests}; }

  /// co_await run.turn(): waits until the commands before it that use the same keys are done. For commands with
  /// kPrepares, at most once, before they ask the store.
  [[nodiscard]] auto turn() { return Turn{{}, *this}; }
  /// The command keeps this many bytes of values from the store, besides the results of its latest requests. They count
  /// for the thread until the command is done. False: the thread has no room for them.
  [[nodiscard]] bool keep_values(size_t bytes);
  /// Moves the session's transaction here, which is there. Before turn(): its keys are the command's, too.
  void take_transaction();
  /// Null: none was taken.
  [[nodiscard]] Transaction* transaction() const { return transaction_.get(); }

  // --- For the connection

  /// What the run uses. All must outlive the run, except `words`: begin() takes them over.
  struct Beginning {
    uint64_t number;
    const CommandSpec* spec;
    CommandArguments* words;
    ClientSession* session;
    GatewayContext* gateway;
    PinnedBytes* pinned;  ///< null: the reply has copies of all values
    bool is_queued = false;
  };
  void begin(const Beginning& beginning);
  /// Adds a command to a burst that has not started. False: the burst is full, or has the key.
  [[nodiscard]] bool append(const CommandArguments& words);
  /// Forgets the reply of a command that is done and that has only read: start() carries it out again.
  void restart();
  /// Gives back everything. The handler may be waiting for the store.
  void end();

  /// Starts the handler, or resumes it if it waits for its turn (state kWaiting). Requests are appended to `out`.
  void start(int64_t now_us, std::vector<IssuedRequest>& out);
  /// Ends the command without its handler, which has not started or waits for its turn. The reply is the caller's.
  void end_early();
  /// Takes a result, and resumes the handler when it was the last. A ticket that the command does not wait for is
  /// ignored.
  void complete(uint32_t index, StoreResult&& result, int64_t now_us, std::vector<IssuedRequest>& out);
  [[nodiscard]] State state() const { return state_; }
  /// The keys of the command; of EXEC: those of the commands that it carries out, and those that are watched.
  void name_keys() override;
  /// See command_table.h.
  [[nodiscard]] bool holds_values() const { return holds_values_; }
  [[nodiscard]] size_t memory_bytes() const { return memory_bytes_; }
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  struct Turn : std::suspend_always {
    CommandRun& run;
    void await_suspend(std::coroutine_handle<> /*handler*/) { run.waits_for_turn_ = true; }
  };
  struct StoreAll : std::suspend_always {
    CommandRun& run;
    std::span<const StoreRequest> requests;
    void await_suspend(std::coroutine_handle<> /*handler*/) { run.ask(requests); }
    [[nodiscard]] std::span<StoreResult> await_resume() const { return run.results_; }
  };
  struct StoreOne : std::suspend_always {
    CommandRun& run;
    StoreRequest request;
    void await_suspend(std::coroutine_handle<> /*handler*/) { run.ask({&request, 1}); }
    [[nodiscard]] StoreResult await_resume() const { return std::move(run.results_[0]); }
  };

  void add_keys_of(const CommandRun& command);
  [[nodiscard]] bool ask_once(int64_t now_us, std::vector<IssuedRequest>& out);
  void ask(std::span<const StoreRequest> requests);
  void take_value(uint32_t index);
  void count_values(size_t result_bytes, size_t kept_bytes);
  void forget_results();
  void resume(int64_t now_us, std::vector<IssuedRequest>& out);

  State state_ = State::kWaiting;
  RespVersion protocol_ = RespVersion::kResp2;
  bool holds_values_ = false;
  bool is_queued_ = false;
  bool waits_for_turn_ = false;
  bool asked_once_ = false;  // the command waits without its handler (OneRequest)
  uint32_t database_ = 0;
  uint64_t number_ = 0;
  size_t memory_bytes_ = 0;
  int64_t begun_us_ = 0;
  int64_t now_us_ = 0;
  const CommandSpec* spec_ = nullptr;
  ClientSession* session_ = nullptr;
  GatewayContext* gateway_ = nullptr;
  CommandArguments words_;
  ReplyBytes reply_;
  CommandTask task_;
  std::shared_ptr<Transaction> transaction_;

  std::span<const StoreRequest> asked_;
  std::vector<StoreResult> results_;
  std::vector<bool> is_answered_;
  size_t unanswered_ = 0;
  size_t result_bytes_ = 0;  // of the values in results_
  size_t kept_bytes_ = 0;    // see keep_values()
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_COMMAND_RUN_H_
