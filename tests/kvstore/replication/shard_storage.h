// Where a replica keeps things, as far as the driver of a replica sees it. ModelStorage is the small twin of the real
// log and engine.
#ifndef SKUA_TESTS_KVSTORE_REPLICATION_SHARD_STORAGE_H_
#define SKUA_TESTS_KVSTORE_REPLICATION_SHARD_STORAGE_H_

#include <cstdint>

#include "kvstore/replication/replica.h"
#include "tests/kvstore/replication/shard_state.h"

namespace skua::kv::sim {

class ShardStorage {
 public:
  /// What is told of progress; there is one as long as the process lives.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void log_moved() = 0;
    virtual void view_durable(uint64_t epoch) = 0;
  };
  struct Found {
    Replica::Restart restart;
    ShardState state;
  };

  virtual ~ShardStorage() = default;

  /// When a process starts.
  virtual Found recover(Sink* sink) = 0;

  /// The entry behind the last one. False: no room.
  virtual bool append(const LogEntry& entry) = 0;
  virtual void truncate_after(uint64_t index) = 0;
  /// Entries up to here are not needed any more; they are in the durable state.
  virtual void trim(uint64_t index) = 0;
  [[nodiscard]] virtual uint64_t first_index() const = 0;
  [[nodiscard]] virtual uint64_t last_index() const = 0;
  [[nodiscard]] virtual const LogEntry& entry(uint64_t index) const = 0;
  [[nodiscard]] virtual LogLevels levels() const = 0;
  /// Since when the oldest entry that is not durable waits; kTimeNever: none.
  [[nodiscard]] virtual TimeNs waiting_since() const = 0;

  virtual void persist_view(const View& view) = 0;
  /// Durable some time later, or not.
  virtual void hint_commit_index(uint64_t index) = 0;
  /// Makes the state durable, some time later; not beyond the durable log.
  virtual void flush(const ShardState& state) = 0;
  [[nodiscard]] virtual uint64_t flushed_index() const = 0;
  /// At once: the state is durable, the log goes on behind it or is empty.
  virtual void install(const ShardState& state, EntryId base, bool keep_log) = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_REPLICATION_SHARD_STORAGE_H_
