// ConfirmRounds: the rounds of questions "are you still in my epoch?" that linearizable reads rest on without leases.
//
//    read 1 --want()--> round 1 asked ......... all have answered --finish()--> read 1 is answered
//    read 2         --want()--> round 2 ........................... asked now, for reads 2 and 3
//    read 3             --want()--> round 2
//
// At most one round is under way, and all reads that come meanwhile share the next one. A read cannot use the round
// that is under way: a member may have answered before the read began, and left the epoch since. Numbers rise, and a
// number that was confirmed is never used again. After abandon() a number that was asked and not confirmed is used
// again: answers of the leadership that ended must be forgotten (PeerReplica::start_anew()).
//
// A value type. Thread: one at a time.
#ifndef SKUA_KVSTORE_REPLICATION_CONFIRM_ROUNDS_H_
#define SKUA_KVSTORE_REPLICATION_CONFIRM_ROUNDS_H_

#include <cstdint>

namespace skua::kv {

class ConfirmRounds {
 public:
  /// A read begins. Returns the round that it waits for: the read may be answered when confirmed() has reached it.
  uint64_t want() { return wanted_ = asked_ + 1; }
  /// Begins the wanted round. False: there is none, or a round is under way.
  [[nodiscard]] bool begin() {
    if (is_under_way() || wanted_ <= asked_) return false;
    asked_ = wanted_;
    return true;
  }
  /// All have answered the round that is under way.
  void finish() { confirmed_ = asked_; }
  /// Nobody waits any more: this replica does not lead any more.
  void abandon() {
    wanted_ = 0;
    asked_ = confirmed_;
  }

  [[nodiscard]] bool is_under_way() const { return confirmed_ != asked_; }
  /// The last round that began.
  [[nodiscard]] uint64_t asked() const { return asked_; }
  [[nodiscard]] uint64_t confirmed() const { return confirmed_; }

 private:
  uint64_t asked_ = 0;
  uint64_t wanted_ = 0;  // the last round that a read waits for
  uint64_t confirmed_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_CONFIRM_ROUNDS_H_
