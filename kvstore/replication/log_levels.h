// How far a log has got: entries are received, then written, then durable.
//
// Each replica has levels of its own log (own_log.h), and knows the levels that others have acknowledged (peer_log.h).
// A writer's durability says which of the three levels its entry must have reached.
#ifndef SKUA_KVSTORE_REPLICATION_LOG_LEVELS_H_
#define SKUA_KVSTORE_REPLICATION_LOG_LEVELS_H_

#include <algorithm>
#include <cstdint>

#include "kvstore/types/durability.h"

namespace skua::kv {

/// The last entries of a log that have reached each level. durable <= written <= received.
struct LogLevels {
  uint64_t received = 0;  ///< is in the log's queue
  uint64_t written = 0;   ///< survives the end of the process
  uint64_t durable = 0;   ///< survives a power cut

  /// The levels of a log whose entries up to `index` are durable and which has no others.
  [[nodiscard]] static LogLevels all(uint64_t index) { return {index, index, index}; }

  /// Whether the entry `index` is as safe as `level` asks. kDefault counts as kSync.
  [[nodiscard]] bool reaches(uint64_t index, Durability level) const {
    if (level == Durability::kMemory) return received >= index;
    return (level == Durability::kFlush ? written : durable) >= index;
  }
  /// The levels of the same log without its entries behind `index`.
  [[nodiscard]] LogLevels up_to(uint64_t index) const {
    return {std::min(received, index), std::min(written, index), std::min(durable, index)};
  }
  /// No level falls.
  void raise_to(const LogLevels& other) {
    received = std::max(received, other.received);
    written = std::max(written, other.written);
    durable = std::max(durable, other.durable);
  }

  friend bool operator==(const LogLevels&, const LogLevels&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_REPLICATION_LOG_LEVELS_H_
