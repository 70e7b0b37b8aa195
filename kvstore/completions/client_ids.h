// ClientIds: which client ids one user of a worker writes with, so that no user takes the room of the others.
//
// A shard keeps the results of each client id that writes (completions.h), and drops a client for a new one only if it
// was idle for kCompletionIdleMsMin. So client ids that write within that time take room that nobody else can have, and
// if there are too many of them, the shard refuses clients that it does not know. Here they are counted for one user:
//
//    id 17 writes       known, or there is a place -----------------> it has its place for another minute
//                       an id was idle for kCompletionIdleMsMin ----> takes that id's place
//                       else ---------------------------------------> refused, before it takes room in a shard
#ifndef SKUA_KVSTORE_COMPLETIONS_CLIENT_IDS_H_
#define SKUA_KVSTORE_COMPLETIONS_CLIENT_IDS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "kvstore/completions/completion_limits.h"
#include "rpc/base/clock.h"

namespace skua::kv {

/// Reads no clock: times are arguments, of one clock, and do not go back. An id that is known allocates nothing.
/// Thread: one at a time.
class ClientIds {
 public:
  static constexpr DurationNs kIdleNs = static_cast<DurationNs>(kCompletionIdleMsMin) * kMillisecond;

  /// So many ids have a place at a time. 0: all.
  explicit ClientIds(size_t ids_max = 0) : ids_max_(ids_max) {}

  /// The id writes now. False: it has no place.
  [[nodiscard]] bool admit(uint64_t client_id, TimeNs now);
  /// Replaces the limit. Ids that have a place keep it.
  void set_max(size_t ids_max);

  [[nodiscard]] size_t size() const { return last_ns_.size(); }

 private:
  /// Forgets the ids that are idle.
  void forget_idle(TimeNs now);

  size_t ids_max_;
  absl::flat_hash_map<uint64_t, TimeNs> last_ns_;  // when each id wrote last
  TimeNs next_idle_ns_ = 0;                        // no id is idle before this time
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_COMPLETIONS_CLIENT_IDS_H_
