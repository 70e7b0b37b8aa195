#include "rpc/memory_operations.h"

#include <algorithm>
#include <span>
#include <utility>

#include "rpc/base/check.h"

namespace skua::rpc {
namespace {

constexpr uint64_t kAccessCookie = uint64_t{1} << 63;
/// A sleeping endpoint wakes this often to look at operations that wait for a connection.
constexpr DurationNs kLookEvery = kMillisecond;

MemoryAccess::Operation& operation_of(uint64_t cookie) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return *reinterpret_cast<MemoryAccess::Operation*>(static_cast<uintptr_t>(cookie & ~kAccessCookie));
}

}  // namespace

// --- MemoryAccess ----------------------------------------------------------------------------------------------------

uint64_t MemoryOperations::life_of(SessionId session) const {
  const SessionEntry* entry = context_.sessions.find(session);
  return entry == nullptr ? 0 : uint64_t{1} << 32 | entry->wire_generation;
}

bool MemoryOperations::ready(SessionId session) {
  const SessionEntry* entry = context_.sessions.find(session);
  return entry != nullptr && context_.one_sided != nullptr && entry->peer != kUnbound &&
         context_.one_sided->ready(entry->peer);
}

void MemoryOperations::start(Operation& operation) {
  context_.enter();
  SKUA_CHECK(context_.one_sided != nullptr, "the transport has no operations on peers' memory");
  if (!try_to_post(operation)) waiting_.push_back(operation);
}

bool MemoryOperations::usable(ByteSpan bytes) const {
  return context_.one_sided != nullptr && context_.one_sided->usable(bytes);
}

absl::StatusOr<MemoryName> MemoryOperations::open_region(MutableByteSpan region, uint8_t rights) {
  if (context_.one_sided == nullptr) {
    return absl::UnimplementedError("the transport has no operations on peers' memory");
  }
  return context_.one_sided->open_region(region, rights);
}

PeerId MemoryOperations::reserve_notices(SessionId session, uint32_t count) {
  const SessionEntry* entry = context_.sessions.find(session);
  if (entry == nullptr || context_.one_sided == nullptr || entry->peer == kUnbound) return kNoPeer;
  if (!context_.one_sided->reserve_notices(entry->peer, count)) return kNoPeer;
  notices_reserved_ += count;
  return entry->peer;
}

void MemoryOperations::release_notices(PeerId peer, uint32_t count) {
  context_.one_sided->release_notices(peer, count);
  notices_reserved_ -= count;
}

void MemoryOperations::on_notice(absl::AnyInvocable<void(PeerId from, uint32_t number)> observer) {
  notice_observer_ = std::move(observer);
}

void MemoryOperations::call_at(TimeNs when, absl::AnyInvocable<void()> task) {
  task_due_ns_ = when;
  task_ = std::move(task);
}

// --- The loop's part -------------------------------------------------------------------------------------------------

/// Posts the operation to the transport. False: there is no connection or no room, or the operation's session is over.
bool MemoryOperations::try_to_post(Operation& operation) {
  if (operation.only_connect || life_of(operation.session) != operation.life) return false;
  const PeerId peer = context_.sessions[operation.session.index].peer;
  if (peer == kUnbound || !context_.one_sided->ready(peer)) return false;
  operation.what.peer = peer;
  operation.what.cookie = kAccessCookie | reinterpret_cast<uintptr_t>(&operation);
  if (context_.one_sided->post(std::span(&operation.what, 1)) == 0) return false;
  ++in_flight_;
  return true;
}

size_t MemoryOperations::run_waiting() {
  size_t work = 0;
  // Operations that `complete` starts wait for the next turn: they are put at the end of waiting_.
  IntrusiveList<Operation, &Operation::hook> now;
  while (Operation* operation = waiting_.pop_front()) now.push_back(*operation);
  while (Operation* operation = now.pop_front()) {
    if (try_to_post(*operation)) {
      ++work;
      continue;
    }
    const bool over = life_of(operation->session) != operation->life || context_.now_ns >= operation->deadline_ns;
    const bool stands = !over && ready(operation->session);
    const bool connected = stands && operation->only_connect;
    if (!connected && (stands || (operation->patient && !over))) {
      waiting_.push_back(*operation);
      continue;
    }
    ++work;
    operation->complete(*operation, connected ? Result::kDone : Result::kNotRun);
  }
  return work;
}

bool MemoryOperations::on_completion(const OneSidedCompletion& completion) {
  if ((completion.cookie & kAccessCookie) == 0) return false;
  --in_flight_;
  Operation& operation = operation_of(completion.cookie);
  operation.complete(operation, completion.ok ? Result::kDone : Result::kFailed);
  return true;
}

void MemoryOperations::run_task() {
  task_due_ns_ = kTimeNever;
  absl::AnyInvocable<void()> task = std::move(task_);
  task_ = nullptr;
  if (task) task();
}

void MemoryOperations::end_waiting() {
  while (Operation* operation = waiting_.pop_front()) operation->complete(*operation, Result::kNotRun);
}

TimeNs MemoryOperations::next_ns() const {
  return waiting_.empty() ? task_due_ns_ : std::min(task_due_ns_, context_.now_ns + kLookEvery);
}

}  // namespace skua::rpc
