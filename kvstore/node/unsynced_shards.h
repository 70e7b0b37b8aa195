// The replicas of this node that acknowledge writes which are written and not synced (durability "flush"): in a file, durable
// before the first such acknowledgement.
//
//    <data-dir>/unsynced:   # Written by skuad. Do not edit.
//                           format_version = 1
//                           1-0 = 5577006791947779410        shard = boot of the machine in which it did so
//
//    acknowledges --allow()--> in the file, of this boot ---- node stops in order: all is synced --> not in the file
//                                    |               |
//                       the process dies alone    the machine loses power, or is started anew; or a sync failed: put_in_doubt()
//                                    |               |
//             the page cache has it: as before    in doubt: something that was acknowledged may be gone. A primary that has
//                                                 everything says when that is over (messages.h, Restored) --> not in the file
//
// A boot's number is a hash of what the kernel calls it. Thread: one at a time.
#ifndef SKUA_KVSTORE_NODE_UNSYNCED_SHARDS_H_
#define SKUA_KVSTORE_NODE_UNSYNCED_SHARDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/types/mutation.h"

namespace skua::kv {

/// Another number after each start of the machine; never 0. UNAVAILABLE: the kernel does not tell.
[[nodiscard]] absl::StatusOr<uint64_t> boot_number();

class UnsyncedShards {
 public:
  using Boots = std::map<ShardId, uint64_t>;

  /// What `data_dir` holds; no file: none. Errors name the file and the way out.
  [[nodiscard]] static absl::StatusOr<UnsyncedShards> read(const std::string& data_dir, uint64_t boot);

  /// Not 0: what was acknowledged in another boot may be gone.
  [[nodiscard]] uint64_t doubt(ShardId id) const;
  /// allow() was called, in this boot, and forget() was not since.
  [[nodiscard]] bool is_allowed(ShardId id) const;

  // --- Durable when they return OK; otherwise nothing has changed.
  /// Not those in doubt, which stay so.
  [[nodiscard]] absl::Status allow(const std::set<ShardId>& ids);
  [[nodiscard]] absl::Status forget(const std::set<ShardId>& ids);
  /// A sync failed: of what was written before the kernel may have dropped anything.
  [[nodiscard]] absl::Status put_in_doubt(const std::set<ShardId>& ids);
  /// All that was written is synced, and no more will come.
  [[nodiscard]] absl::Status end_in_order();

  /// The file's text, and back. FAILED_PRECONDITION for a newer format, DATA_LOSS for what format() does not write.
  [[nodiscard]] static std::string format(const Boots& boots);
  [[nodiscard]] static absl::StatusOr<Boots> parse(std::string_view text);

 private:
  UnsyncedShards(std::string data_dir, uint64_t boot, Boots boots);
  absl::Status write(Boots next);

  std::string data_dir_;
  uint64_t boot_ = 0;
  Boots boots_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_UNSYNCED_SHARDS_H_
