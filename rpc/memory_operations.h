// MemoryOperations: operations on peers' memory that others start (memory_access.h), from waiting for a connection to
// their completion. And the one task that their user may set.
//
// The transport reports their completions together with those of the endpoint's own READs (message_reads.h). The
// highest bit of a cookie tells them apart; the other bits are the operation's address.
#ifndef SKUA_RPC_MEMORY_OPERATIONS_H_
#define SKUA_RPC_MEMORY_OPERATIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "rpc/base/intrusive_list.h"
#include "rpc/endpoint_context.h"
#include "rpc/memory_access.h"
#include "rpc/receive_memory.h"
#include "rpc/transport/one_sided.h"

namespace skua::rpc {

/// Thread: the endpoint's, which owns it. `context` and `memory` must outlive it.
class MemoryOperations final : public MemoryAccess {
 public:
  MemoryOperations(EndpointContext& context, ReceiveMemory& memory) : context_(context), memory_(memory) {}
  MemoryOperations(const MemoryOperations&) = delete;
  MemoryOperations& operator=(const MemoryOperations&) = delete;

  // --- MemoryAccess
  [[nodiscard]] bool offered() const override { return context_.one_sided != nullptr; }
  [[nodiscard]] uint64_t life_of(SessionId session) const override;
  [[nodiscard]] bool ready(SessionId session) override;
  void start(Operation& operation) override;
  [[nodiscard]] bool usable(ByteSpan bytes) const override;
  absl::StatusOr<Buffer> allocate(size_t bytes) override { return memory_.allocate(bytes); }
  absl::StatusOr<MemoryName> open_region(MutableByteSpan region, uint8_t rights) override;
  void close_region(uint32_t key) override { context_.one_sided->close_region(key); }
  PeerId reserve_notices(SessionId session, uint32_t count) override;
  void release_notices(PeerId peer, uint32_t count) override;
  void on_notice(absl::AnyInvocable<void(PeerId from, uint32_t number)> observer) override;
  void call_at(TimeNs when, absl::AnyInvocable<void()> task) override;

  // --- The loop's side
  /// True: operations are in flight or wait.
  [[nodiscard]] bool has_operations() const { return in_flight_ > 0 || !waiting_.empty(); }
  /// True: a completion or notice may come.
  [[nodiscard]] bool awaits_completions() const { return has_operations() || notices_reserved_ > 0; }
  [[nodiscard]] size_t in_flight() const { return in_flight_; }
  /// Tries to post each waiting operation once, and completes those whose deadline or session has ended. Returns how
  /// many of them wait no more.
  size_t run_waiting();
  /// False: the completion belongs to no operation of these. kOperation only.
  bool on_completion(const OneSidedCompletion& completion);
  void tell_notice(const OneSidedCompletion& notice) {
    if (notice_observer_) notice_observer_(notice.peer, static_cast<uint32_t>(notice.cookie));
  }
  /// When the task is due; kTimeNever: there is none.
  [[nodiscard]] TimeNs task_due_ns() const { return task_due_ns_; }
  void run_task();
  /// When the loop has to look at the operations and the task.
  [[nodiscard]] TimeNs next_ns() const;

  // --- At the endpoint's end
  /// Completes the operations that wait.
  void end_waiting();
  void drop_task() { task_ = nullptr; }

 private:
  bool try_to_post(Operation& operation);

  EndpointContext& context_;
  ReceiveMemory& memory_;
  IntrusiveList<Operation, &Operation::hook> waiting_;
  size_t in_flight_ = 0;
  uint64_t notices_reserved_ = 0;
  absl::AnyInvocable<void(PeerId from, uint32_t number)> notice_observer_;
  TimeNs task_due_ns_ = kTimeNever;
  absl::AnyInvocable<void()> task_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_MEMORY_OPERATIONS_H_
