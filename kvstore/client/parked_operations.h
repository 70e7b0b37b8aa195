// ParkedOperations: operations that wait for a time, a newer map or a session.
#ifndef SKUA_KVSTORE_CLIENT_PARKED_OPERATIONS_H_
#define SKUA_KVSTORE_CLIENT_PARKED_OPERATIONS_H_

#include <algorithm>

#include "kvstore/client/operation.h"
#include "rpc/base/clock.h"
#include "rpc/base/intrusive_list.h"

namespace skua::kv {

/// Thread: one at a time.
class ParkedOperations {
 public:
  using List = IntrusiveList<Operation, &Operation::parked_hook>;

  /// `wake_at_ns`: the operation waits no longer than until then, and no longer than until its deadline.
  void park(Operation& operation, Operation::Awaits awaits, TimeNs wake_at_ns) {
    operation.awaits = awaits;
    operation.wake_at_ns = std::min(wake_at_ns, operation.deadline_ns);
    next_wake_ns_ = std::min(next_wake_ns_, operation.wake_at_ns);
    operations_.push_back(operation);
  }

  /// Takes out the operations for which wanted(operation) is true.
  template <typename Predicate>
  void take(Predicate wanted, List& taken) {
    next_wake_ns_ = kTimeNever;
    operations_.move_if(
        [&](const Operation& operation) {
          if (wanted(operation)) return true;
          next_wake_ns_ = std::min(next_wake_ns_, operation.wake_at_ns);
          return false;
        },
        taken);
  }

  template <typename Visitor>
  void for_each(Visitor visit) {
    for (Operation* at = operations_.empty() ? nullptr : &operations_.front(); at != nullptr;
         at = operations_.next(*at)) {
      visit(*at);
    }
  }

  /// No operation is due earlier. kTimeNever: there is none.
  [[nodiscard]] TimeNs next_wake_ns() const { return next_wake_ns_; }

 private:
  List operations_;
  TimeNs next_wake_ns_ = kTimeNever;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CLIENT_PARKED_OPERATIONS_H_
