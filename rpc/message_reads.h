// MessageReads: large messages that their receiver reads out of the sender's memory, where the transport has one-sided
// operations.
//
//   sender's session: announce() --> Loans: the memory is lent  kLent, kTakenBack --> on_completion() --> on_lent()
//   receiver's session: fetch()  --> ReadPulls: post_reads()    READs end         --> on_completion() --> on_fetched()
#ifndef SKUA_RPC_MESSAGE_READS_H_
#define SKUA_RPC_MESSAGE_READS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/message.h"
#include "rpc/endpoint_context.h"
#include "rpc/loans.h"
#include "rpc/protocol/announcement.h"
#include "rpc/protocol/read_pulls.h"
#include "rpc/protocol/session_host.h"
#include "rpc/receive_memory.h"
#include "rpc/transport/one_sided.h"
#include "rpc/wire/read_list.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. `context` and `memory` must outlive it. Destroy it after stop_reading(),
/// when no READ is in flight, and forget_loans().
class MessageReads {
 public:
  MessageReads(EndpointContext& context, ReceiveMemory& memory)
      : context_(context),
        memory_(memory),
        loans_(context.one_sided),
        pulls_({.reads_max = context.options.protocol.reads_max,
                .chunk_bytes = context.options.protocol.read_chunk_bytes}) {}
  MessageReads(const MessageReads&) = delete;
  MessageReads& operator=(const MessageReads&) = delete;

  // --- SessionHost
  Announcement announce(const MessageOwner& owner, const MessagePtr& message);
  SessionHost::Fetch fetch(const MessageOwner& owner, const ReadList& list, uint32_t message_bytes);
  void sever(const Session& session);

  // --- The loop's side
  /// True: a completion will come.
  [[nodiscard]] bool awaits_completions() const { return pulls_.size() > 0 || loans_.awaited() > 0; }
  [[nodiscard]] uint32_t reads_in_flight() const { return pulls_.reads_in_flight(); }
  /// Takes the completion of one of our READs, or of a loan.
  void on_completion(const OneSidedCompletion& completion);
  /// Posts READs as far as there is room. Returns how many.
  size_t post_reads();

  // --- At the endpoint's end
  /// Cuts the peers off whose memory we read, and those that may read ours.
  void stop_reading();
  /// A READ has ended whose message nobody waits for any more.
  void drop_read(const OneSidedCompletion& completion) {
    static_cast<void>(pulls_.on_completion(completion.cookie, false));
  }
  /// Releases all messages that were lent. No peer reaches them any more.
  void forget_loans() { loans_.abandon(); }

 private:
  void on_loan(const OneSidedCompletion& completion);
  void on_fetched(ReadPulls::Finished&& finished);

  EndpointContext& context_;
  ReceiveMemory& memory_;
  Loans loans_;
  ReadPulls pulls_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MESSAGE_READS_H_
