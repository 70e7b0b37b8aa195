// Reads of a shard's database: of one key, for GETs or for writes of the key, and waits for the database to show what
// is committed.
#ifndef SKUA_KVSTORE_SHARD_FETCH_H_
#define SKUA_KVSTORE_SHARD_FETCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/memory/memory_tier.h"
#include "kvstore/shard/batch_work.h"
#include "kvstore/shard/write_op.h"
#include "kvstore/storage/reader_pool.h"
#include "kvstore/types/pinned_value.h"

namespace skua::kv {

/// A read that memory could not answer. The submitter owns it, and keeps it and the key's bytes until
/// EngineEvents::fetch_done.
struct FetchOp {
  std::string_view key{};
  void* context = nullptr;
  absl::Status status{};    ///< OK, NOT_FOUND, or the database's error
  PinnedValue value{};      ///< may be held after the shard is closed; must be released before the engine ends
  uint64_t expires_at = 0;  ///< unix time in ms; 0: never

  FetchOp* behind = nullptr;  // the shard's
};

/// A wait for the database to show everything that is committed now. The submitter owns it, and keeps it until
/// EngineEvents::applied.
struct AppliedWait {
  void* context = nullptr;
  absl::Status status{};  ///< not OK: why the database will not show it

  uint64_t index = 0;  // the shard's
};

/// A read of one key from the database that is under way. It is for GETs, or for writes of the key, or for a batch.
/// Recycled by its pool.
class KeyFetch final : public ReadJob {
 public:
  /// Reads the key. Thread: a reader.
  void run() override;

  Shard* shard = nullptr;
  std::string key;
  MemoryTier::Ticket ticket;
  FetchOp* first_read = nullptr;
  FetchOp* last_read = nullptr;
  WriteList writes;
  const BatchWork::Needed* for_batch = nullptr;  // not null: the read is for the batch that the shard executes next
  absl::Status status;                           // what the reader found
  PinnedValue value;
  bool is_copy = false;  // `value` owns its memory
  KeyFetch* next_free = nullptr;
};

/// Fetches that are not in use. Outlives them. Thread: one at a time.
class FetchPool {
 public:
  [[nodiscard]] KeyFetch& acquire(Shard& shard, std::string_view key, MemoryTier::Ticket ticket);
  void release(KeyFetch& fetch);

 private:
  std::vector<std::unique_ptr<KeyFetch>> all_;
  KeyFetch* free_ = nullptr;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_SHARD_FETCH_H_
