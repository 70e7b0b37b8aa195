// ReceiveBudget: how much pulled response data may be on its way to one endpoint, over all of its sessions.
//
//   server 1 --16--+
//   server 2 --16--+--> [switch buffer] --link--> [receive ring] endpoint        sum over sessions <= budget
//   server 3 --16--+
//
// A response's packets beyond the first come only when they are pulled. So the receiver knows what is coming, and keeps
// it below what the last switch's buffer and its own ring can take: N servers that answer at once cannot overflow
// either. A link needs bandwidth x delay to be busy. A budget of about this size loses no speed; more data only stands
// in queues.
//
// A session with nothing pulled may always pull one packet (the floor). So no session starves, and the sum is at most
// the budget plus one packet per session. Sessions that find no room wait in line.
#ifndef SKUA_RPC_PROTOCOL_RECEIVE_BUDGET_H_
#define SKUA_RPC_PROTOCOL_RECEIVE_BUDGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "rpc/base/intrusive_list.h"
#include "rpc/protocol/protocol_mutants.h"

namespace skua::rpc {

/// Thread: the endpoint's. Must outlive its waiters.
class ReceiveBudget {
 public:
  class Waiter {
   public:
    ListHook budget_hook;
    /// There is room again; other waiters may take it first.
    virtual void on_budget_room() = 0;

   protected:
    ~Waiter() = default;
  };

  ReceiveBudget(size_t packets_max, size_t bytes_max) : packets_max_(packets_max), bytes_max_(bytes_max) {}

  /// Of the `wanted` packets of `packet_bytes` each, how many may be taken now. `own_packets`: how many the asking
  /// session has pulled already; a session with none may always take one.
  [[nodiscard]] uint32_t may_take(uint32_t wanted, uint32_t packet_bytes, uint32_t own_packets) const {
    if (mutant(Mutant::kIgnoreBudget)) return wanted;
    const size_t least = own_packets == 0 ? 1 : 0;
    if (!has_room()) return static_cast<uint32_t>(std::min<size_t>(wanted, least));
    const size_t by_bytes = (bytes_max_ - bytes_ + packet_bytes - 1) / packet_bytes;
    return static_cast<uint32_t>(std::min({size_t{wanted}, packets_max_ - packets_, by_bytes}));
  }
  void take(uint32_t packets, uint32_t packet_bytes) {
    packets_ += packets;
    bytes_ += size_t{packets} * packet_bytes;
  }
  /// Wakes as many waiters as packets came back.
  void give(uint32_t packets, uint32_t packet_bytes) {
    if (mutant(Mutant::kKeepBudget) && packets_ % 7 == 3) return;
    packets_ -= packets;
    bytes_ -= size_t{packets} * packet_bytes;
    for (uint32_t i = 0; i < packets && has_room() && !waiters_.empty(); ++i) waiters_.pop_front()->on_budget_room();
  }
  void wait(Waiter& waiter) {
    if (!waiter.budget_hook.linked()) waiters_.push_back(waiter);
  }

  [[nodiscard]] size_t packets_out() const { return packets_; }
  [[nodiscard]] size_t bytes_out() const { return bytes_; }

 private:
  [[nodiscard]] bool has_room() const { return packets_ < packets_max_ && bytes_ < bytes_max_; }

  const size_t packets_max_;
  const size_t bytes_max_;
  size_t packets_ = 0;
  size_t bytes_ = 0;
  IntrusiveList<Waiter, &Waiter::budget_hook> waiters_;
};

}  // namespace skua::rpc

#endif  // SKUA_RPC_PROTOCOL_RECEIVE_BUDGET_H_
