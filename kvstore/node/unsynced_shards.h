// Records which replicas of this node acknowledge writes that are written but not synced (durability "flush"). The
// record is a file. It is durable before a replica's first such acknowledgement.
//
//    <data-dir>/unsynced:   # Written by skuad. Do not edit.
//                           format_version = 1
//                           1-0 = 5577006791947779410        shard = number of the boot in which it acknowledged
//
//    acknowledges --allow()--> in the file, with this boot --- node stops in order: all is synced --> not in the file
//                                    |               |
//                       only the process ends     the machine loses power or reboots; or a sync failed: put_in_doubt()
//                                    |               |
//             the page cache keeps all writes     in doubt: an acknowledged write may be lost. A primary that has
//                                                 all writes ends the doubt (messages.h, Restored) --> not in the file
//
// The number of a boot is a hash of the kernel's boot id. Thread: one at a time.
#ifndef SKUA_KVSTORE_NODE_UNSYNCED_SHARDS_H_
#define SKUA_KVSTORE_NODE_UNSYNCED_SHARDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/storage/durable_files.h"
#include "kvstore/types/mutation.h"

namespace skua::kv {

/// Number of the current boot of the machine: differs after each reboot, never 0. UNAVAILABLE: the kernel does not tell
/// the boot id.
[[nodiscard]] absl::StatusOr<uint64_t> boot_number();

class UnsyncedShards {
 public:
  using Boots = std::map<ShardId, uint64_t>;

  /// Reads the file, among `files`, which outlive the object. Without a file there are no such replicas. Errors name
  /// the file; where the reader can do something, also the way out.
  [[nodiscard]] static absl::StatusOr<UnsyncedShards> read(const DurableFiles& files, uint64_t boot);

  /// Not 0: the replica is in doubt; writes that it acknowledged may be lost. The number identifies the doubt
  /// (Restored).
  [[nodiscard]] uint64_t doubt(ShardId id) const;
  /// True if allow() was called in this boot (perhaps by an earlier process), and the shard was neither forgotten nor
  /// put in doubt since.
  [[nodiscard]] bool is_allowed(ShardId id) const;

  // --- The change is durable when these return OK. Otherwise nothing has changed.
  /// Records that these replicas acknowledge unsynced writes in this boot. Replicas in doubt stay in doubt.
  [[nodiscard]] absl::Status allow(const std::set<ShardId>& ids);
  /// Removes these replicas from the file, also those in doubt.
  [[nodiscard]] absl::Status forget(const std::set<ShardId>& ids);
  /// After a failed sync: the kernel may have dropped any write made before it. Changes only replicas that are allowed.
  [[nodiscard]] absl::Status put_in_doubt(const std::set<ShardId>& ids);
  /// All writes are synced, and no more will come: forgets the replicas of this boot. Replicas in doubt stay in the
  /// file.
  [[nodiscard]] absl::Status end_in_order();
  /// No more writes will come, and the log failed, perhaps while the node stopped: puts all replicas of this boot in
  /// doubt.
  [[nodiscard]] absl::Status end_in_doubt();

  /// Encodes and decodes the file's text. FAILED_PRECONDITION: a newer format. DATA_LOSS: any text that format() does
  /// not write.
  [[nodiscard]] static std::string format(const Boots& boots);
  [[nodiscard]] static absl::StatusOr<Boots> parse(std::string_view text);

 private:
  UnsyncedShards(const DurableFiles& files, uint64_t boot, Boots boots)
      : files_(&files), boot_(boot), boots_(std::move(boots)) {}
  absl::Status write(Boots next);

  const DurableFiles* files_;
  uint64_t boot_ = 0;
  Boots boots_;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_NODE_UNSYNCED_SHARDS_H_
