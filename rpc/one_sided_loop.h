// OneSidedLoop: the turn's part for one-sided operations: it takes what the transport completed, and gives each to its
// owner: our READs and loans to MessageReads, others' operations and notices to MemoryOperations. Then both post more.
#ifndef SKUA_RPC_ONE_SIDED_LOOP_H_
#define SKUA_RPC_ONE_SIDED_LOOP_H_

#include <cstddef>

#include "rpc/endpoint_context.h"
#include "rpc/memory_operations.h"
#include "rpc/message_reads.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. The other parts must outlive it.
class OneSidedLoop {
 public:
  OneSidedLoop(EndpointContext& context, MessageReads& reads, MemoryOperations& operations)
      : context_(context), reads_(reads), operations_(operations) {}
  OneSidedLoop(const OneSidedLoop&) = delete;
  OneSidedLoop& operator=(const OneSidedLoop&) = delete;

  /// Returns the amount of work done.
  size_t run() {
    if (context_.one_sided == nullptr) return 0;
    return reads_.awaits_completions() || operations_.awaits_completions() ? reap_and_post() : 0;
  }
  [[nodiscard]] bool is_idle() const { return !reads_.awaits_completions() && !operations_.has_operations(); }
  /// At the endpoint's end: ends all operations, so that no device reads or writes the endpoint's memory afterwards.
  void end();

 private:
  size_t reap_and_post();
  void on_completion(const OneSidedCompletion& completion);

  EndpointContext& context_;
  MessageReads& reads_;
  MemoryOperations& operations_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_ONE_SIDED_LOOP_H_
