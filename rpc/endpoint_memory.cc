// Operations on peers' memory that others start (rpc/memory_access.h): from waiting for a connection to their
// completion.
//
// The transport reports their completions together with those of the endpoint's own READs of large messages. The
// highest bit of a cookie tells them apart; the other bits are the operation's address.
#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/endpoint_impl.h"

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

uint64_t EndpointImpl::life_of(SessionId session) const {
  const SessionEntry* entry = find(session);
  return entry == nullptr ? 0 : uint64_t{1} << 32 | entry->wire_generation;
}

bool EndpointImpl::ready(SessionId session) {
  const SessionEntry* entry = find(session);
  return entry != nullptr && context_.one_sided != nullptr && entry->peer != kUnbound &&
         context_.one_sided->ready(entry->peer);
}

void EndpointImpl::start(Operation& operation) {
  enter();
  SKUA_CHECK(context_.one_sided != nullptr, "the transport has no operations on peers' memory");
  if (!try_to_post(operation)) access_waiting_.push_back(operation);
}

bool EndpointImpl::usable(ByteSpan bytes) const {
  return context_.one_sided != nullptr && context_.one_sided->usable(bytes);
}

absl::StatusOr<Buffer> EndpointImpl::allocate(size_t bytes) {
  return memory_.allocate(bytes);
}

absl::StatusOr<MemoryName> EndpointImpl::open_region(MutableByteSpan region, uint8_t rights) {
  if (context_.one_sided == nullptr)
    return absl::UnimplementedError("the transport has no operations on peers' memory");
  return context_.one_sided->open_region(region, rights);
}

void EndpointImpl::close_region(uint32_t key) {
  context_.one_sided->close_region(key);
}

PeerId EndpointImpl::reserve_notices(SessionId session, uint32_t count) {
  const SessionEntry* entry = find(session);
  if (entry == nullptr || context_.one_sided == nullptr || entry->peer == kUnbound) return kNoPeer;
  if (!context_.one_sided->reserve_notices(entry->peer, count)) return kNoPeer;
  notices_reserved_ += count;
  return entry->peer;
}

void EndpointImpl::release_notices(PeerId peer, uint32_t count) {
  context_.one_sided->release_notices(peer, count);
  notices_reserved_ -= count;
}

void EndpointImpl::on_notice(absl::AnyInvocable<void(PeerId from, uint32_t number)> observer) {
  notice_observer_ = std::move(observer);
}

void EndpointImpl::call_at(TimeNs when, absl::AnyInvocable<void()> task) {
  task_due_ns_ = when;
  task_ = std::move(task);
}

// --- The loop's part -------------------------------------------------------------------------------------------------

/// Posts the operation to the transport. False: there is no connection or no room, or the operation's session is over.
bool EndpointImpl::try_to_post(Operation& operation) {
  if (operation.only_connect || life_of(operation.session) != operation.life) return false;
  const PeerId peer = context_.sessions[operation.session.index].peer;
  if (peer == kUnbound || !context_.one_sided->ready(peer)) return false;
  operation.what.peer = peer;
  operation.what.cookie = kAccessCookie | reinterpret_cast<uintptr_t>(&operation);
  if (context_.one_sided->post(std::span(&operation.what, 1)) == 0) return false;
  ++access_in_flight_;
  return true;
}

/// Tries to post each waiting operation once, and completes those whose deadline or session has ended.
size_t EndpointImpl::run_waiting_access() {
  size_t work = 0;
  // Operations that `complete` starts wait for the next turn: they are put at the end of access_waiting_.
  IntrusiveList<Operation, &Operation::hook> now;
  while (Operation* operation = access_waiting_.pop_front()) now.push_back(*operation);
  while (Operation* operation = now.pop_front()) {
    if (try_to_post(*operation)) {
      ++work;
      continue;
    }
    const bool over = life_of(operation->session) != operation->life || context_.now_ns >= operation->deadline_ns;
    const bool stands = !over && ready(operation->session);
    const bool connected = stands && operation->only_connect;
    if (!connected && (stands || (operation->patient && !over))) {
      access_waiting_.push_back(*operation);
      continue;
    }
    ++work;
    operation->complete(*operation, connected ? Result::kDone : Result::kNotRun);
  }
  return work;
}

bool EndpointImpl::on_access_completion(const OneSidedCompletion& completion) {
  if ((completion.cookie & kAccessCookie) == 0) return false;
  --access_in_flight_;
  Operation& operation = operation_of(completion.cookie);
  operation.complete(operation, completion.ok ? Result::kDone : Result::kFailed);
  return true;
}

void EndpointImpl::run_task() {
  task_due_ns_ = kTimeNever;
  absl::AnyInvocable<void()> task = std::move(task_);
  task_ = nullptr;
  if (task) task();
}

TimeNs EndpointImpl::next_access_ns() const {
  return access_waiting_.empty() ? task_due_ns_ : std::min(task_due_ns_, context_.now_ns + kLookEvery);
}

}  // namespace skua::rpc
