// ClientConnection: one client's connection without its socket. Bytes in, requests to the store out; results in, bytes
// out. Pure: time is an argument, and the caller carries bytes and requests.
//
//   receive(bytes) --> WireProtocol -> commands --> Hazards --> handlers --> take_requests()
//                                        |                        ^                |
//                                        |                        |            the store
//   output() <-- replies, in the order of their commands <--------+-- complete() <-+
//
// Commands that do not depend on each other run side by side (hazards.h). Their replies wait in a ring, and leave in
// the order of the commands. SETs that come together run as one command (command_burst.h).
//
// Who may do what. is_denied() is the one place where a client's rights are looked at: dispatch() asks it for each
// command that the protocol knows, also for those that MULTI queues, and once more for these when EXEC comes. If the
// users change, start_ready() asks once more for commands that have come and not started. A client that must
// authenticate sends small commands until it has, and takes their replies.
//
// Bounds. No more is read (wants_input()) while kCommandsMax commands have no reply yet, while those that have none
// take kCommandBytesMax, or while kReplyBytesMax of replies wait for the client to take them. If the connections of the
// thread hold more than GatewayContext::held_bytes_max together, a connection is read only while it holds nothing.
//
// Commands that were read already start only if the replies that are expected of those that run have room, too; the
// latest replies tell what to expect. If the reply of a read has no room nevertheless, it is dropped, and the read
// is carried out again later; its hazards hold until then. A write cannot be carried out again. So of the commands
// that hold values while they run (MGET, SETRANGE, and writes that give the old value) kHoldingCommandsMax run at a
// time, and only while half of the room for replies is free.
#ifndef SKUA_KVSTORE_GATEWAY_CLIENT_CONNECTION_H_
#define SKUA_KVSTORE_GATEWAY_CLIENT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/client_session.h"
#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/gateway_context.h"
#include "kvstore/gateway/hazards.h"
#include "kvstore/gateway/output_queue.h"
#include "kvstore/gateway/wire_protocol.h"

namespace skua::kv::gateway {

inline constexpr size_t kCommandsMax = 1024;
/// The command that exceeds the limit is still taken.
inline constexpr size_t kCommandBytesMax = size_t{32} << 20;
inline constexpr size_t kHoldingCommandsMax = 4;
inline constexpr size_t kReplyBytesMax = size_t{32} << 20;
/// A client that has not authenticated is read only while fewer bytes of replies wait for it.
inline constexpr size_t kStrangerReplyBytesMax = size_t{16} << 10;
/// The assumed size of a reply before the first one. With 1 MiB, 32 commands may run at a time; after 54 small replies
/// the estimate is so low that all 1,024 may.
inline constexpr size_t kExpectedReplyBytesAtFirst = size_t{1} << 20;

/// Thread: one, that of `gateway`.
class ClientConnection {
 public:
  /// `gateway` must outlive the connection.
  ClientConnection(GatewayContext& gateway, ClientSession session, std::unique_ptr<WireProtocol> protocol);
  /// Drops commands that wait for the store. Their results must not come any more.
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  /// Takes bytes from the front of `bytes`: all of them, unless wants_input() turns false. `now_us`: time of day, in
  /// microseconds since 1970; here and below.
  void receive(std::string_view& bytes, int64_t now_us);
  /// Whether complete() may have much to do with a result for this ticket: its command works on values of any size.
  [[nodiscard]] bool may_work_long(const StoreTicket& ticket) const;
  /// The result of a request that take_requests() gave. Each ticket once, in any order.
  void complete(const StoreTicket& ticket, StoreResult&& result, int64_t now_us);
  /// The client has taken the first `bytes` of output().
  void sent(size_t bytes, int64_t now_us);
  /// The client takes nothing for now.
  void blocked() { output_.unpin_excess(); }

  /// The client has shown a certificate of a cluster's client with this name. Once, before receive().
  void take_certificate(std::string name);
  /// GatewayContext::users is another table. A client whose user is gone, or has another password, gets no further
  /// commands carried out: the connection ends.
  void take_users();
  /// The client may send commands.
  [[nodiscard]] bool is_admitted() const { return gateway_.users == nullptr || session_.user != nullptr; }

  /// Moves requests for the store to the end of `out`. The store may answer at once.
  void take_requests(std::vector<IssuedRequest>& out);
  [[nodiscard]] bool has_requests() const { return !requests_.empty(); }
  [[nodiscard]] const OutputQueue& output() const { return output_; }

  [[nodiscard]] bool wants_input() const {
    return !session_.is_ending && authentication_ == nullptr && command_count_ < kCommandsMax &&
           command_bytes_ < kCommandBytesMax &&
           reply_bytes() < (is_admitted() ? kReplyBytesMax : kStrangerReplyBytesMax) &&
           (busy_bytes() == 0 || gateway_.held_bytes < gateway_.held_bytes_max);
  }
  /// All replies are out, and there will be no more.
  [[nodiscard]] bool is_over() const { return session_.is_ending && ring_.empty() && output_.empty(); }
  /// No command waits for its reply, and no reply for the client.
  [[nodiscard]] bool has_answered_all() const { return ring_.empty() && output_.empty(); }
  /// No command has come that is not answered, and no part of one.
  [[nodiscard]] bool is_idle() const { return ring_.empty() && output_.empty() && !protocol_->is_amid_command(); }

 private:
  [[nodiscard]] std::unique_ptr<CommandRun> begin_run(const CommandSpec& spec, CommandArguments& words, uint64_t number,
                                                      PinnedBytes* pinned);
  CommandRun& add_run(const CommandSpec& spec, CommandArguments& words);
  void add_to_burst(const CommandSpec& burst, CommandArguments& words);
  void end_burst();
  void add_hazards(CommandRun& run);
  void start_at_once(CommandRun& run, int64_t now_us);
  void queue(const CommandSpec& spec, CommandArguments& words);
  void dispatch(CommandArguments& words, int64_t now_us);
  void refuse(std::string_view error);
  [[nodiscard]] Denial judge(const CommandSpec& spec, const CommandArguments& words, uint32_t database,
                             const Transaction* transaction) const;
  [[nodiscard]] bool is_denied(const CommandSpec& spec, const CommandArguments& words);
  [[nodiscard]] bool is_denied_at_start(CommandRun& run);
  void advance(int64_t now_us);
  void start_ready(int64_t now_us);
  void finish(CommandRun& run);
  bool pop_done();
  [[nodiscard]] CommandRun* take_ready();
  void count_held();
  [[nodiscard]] bool has_room_for(const CommandRun& run) const;
  /// Bytes of replies that the client has not taken.
  [[nodiscard]] size_t reply_bytes() const { return done_bytes_ + output_.size(); }
  /// Bytes that become free without further input. Commands that MULTI has queued are not counted: they wait for EXEC.
  [[nodiscard]] size_t busy_bytes() const { return command_bytes_ + reply_bytes(); }

  GatewayContext& gateway_;
  ClientSession session_;
  const std::unique_ptr<WireProtocol> protocol_;
  Hazards hazards_;
  PinnedBytes pinned_{&gateway_.pinned};
  OutputQueue output_{pinned_};

  /// Commands in the order of their replies. The first has the number first_number_.
  std::deque<std::unique_ptr<CommandRun>> ring_;
  uint64_t first_number_ = 0;
  /// The last of the ring, which takes further commands and is not among the hazards. Null: none. Only in receive().
  CommandRun* burst_ = nullptr;
  /// Commands that no hazard holds back any more, and that have not started.
  std::deque<CommandRun*> ready_;
  std::vector<HazardNode*> unblocked_;
  /// A command that waits for the verdict on a password: nothing is read until it is there. Null: none does.
  const CommandRun* authentication_ = nullptr;
  bool judges_at_start_ = false;  // the users have changed since some of the commands in the ring came
  size_t running_count_ = 0;
  size_t holding_count_ = 0;                            // of those that run
  size_t held_bytes_ = 0;                               // this connection's part of GatewayContext::held_bytes
  size_t command_count_ = 0;                            // in the ring: a burst is several
  size_t command_bytes_ = 0;                            // of the commands in the ring
  size_t done_bytes_ = 0;                               // of replies in the ring
  size_t expected_bytes_ = kExpectedReplyBytesAtFirst;  // of a reply, judging by the latest
  std::vector<IssuedRequest> requests_;
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_CLIENT_CONNECTION_H_
