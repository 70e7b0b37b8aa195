// Spare segment files. Truncation gives files back to the pool, and rotation takes files from it.
//
// Some spares are a reserve for writes that free space (deletes, truncation of shards), so that a full disk can be
// emptied again. Spares made when the log opens are filled with zeros: a write into such a file changes no metadata, so
// its sync is cheaper. For a spare that is made during rotation the disk space is only reserved, because filling would
// take long.
#ifndef SKUA_KVSTORE_LOG_SEGMENT_POOL_H_
#define SKUA_KVSTORE_LOG_SEGMENT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/device.h"

namespace skua::kv {

/// Thread: one at a time.
class SegmentPool {
 public:
  struct Options {
    uint64_t segment_bytes = 0;
    size_t reserve = 0;     ///< number of spares that only privileged callers get
    size_t spares_max = 0;  ///< the pool keeps at most this many spares and removes further files
  };

  struct Spare {
    std::string name;
    std::unique_ptr<LogFile> file;
  };

  SegmentPool(Device& device, const Options& options) : device_(device), options_(options) {}

  /// Takes over the directory's spare files that have the right size, up to spares_max, and removes the other spare
  /// files. Then makes new ones until there are `spares` or the disk is full. With `keep` false all spare files that
  /// were found are removed: nobody knows which records they still hold. Errors: the device's.
  [[nodiscard]] absl::Status open(bool keep, size_t spares);

  /// Takes a spare file, which the caller owns from then on. `privileged` allows the reserve, too. If no spare above
  /// the reserve is left and `may_create` is true, a file is made. RESOURCE_EXHAUSTED: there is no spare for this
  /// caller, and none may be made or the disk is full. Other errors: the device's.
  [[nodiscard]] absl::StatusOr<Spare> take(bool privileged, bool may_create);

  /// Gives back a spare that was not used.
  void put_back(Spare spare) { names_.push_back(std::move(spare.name)); }

  /// Renames the file `name`, of `bytes` bytes, to a spare. Removes it if its size is not segment_bytes or if the pool
  /// has spares_max spares. Errors: the device's.
  [[nodiscard]] absl::Status recycle(const std::string& name, uint64_t bytes);

  [[nodiscard]] size_t spares() const { return names_.size(); }
  [[nodiscard]] bool has_unreserved() const { return names_.size() > options_.reserve; }

 private:
  absl::StatusOr<Spare> create(Device::Fill fill);

  Device& device_;
  const Options options_;
  std::vector<std::string> names_;
  uint64_t next_number_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_LOG_SEGMENT_POOL_H_
