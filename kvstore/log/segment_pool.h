// Spare segment files: what truncation gives back and rotation takes.
//
// Some are held in reserve for writes that free space (deletes, truncation of shards), so that a full disk can be emptied
// again. Spares made when the log opens are written with zeros: a write into them changes no metadata, so its sync is
// cheaper. One made in a hurry is only reserved.
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
    size_t reserve = 0;     ///< spares that only privileged takers get
    size_t spares_max = 0;  ///< more are removed
  };

  struct Spare {
    std::string name;
    std::unique_ptr<LogFile> file;
  };

  SegmentPool(Device& device, const Options& options) : device_(device), options_(options) {}

  /// Takes over the directory's spare files of the right size, removes others, and fills up to `spares` as far as there
  /// is space. `keep` false: removes all it finds first (spares of an unknown former life).
  [[nodiscard]] absl::Status open(bool keep, size_t spares);

  /// A spare file. `privileged`: the reserve too. RESOURCE_EXHAUSTED if there is none and no space for one;
  /// `may_create` false: only what is there.
  [[nodiscard]] absl::StatusOr<Spare> take(bool privileged, bool may_create);

  /// Gives a spare back unused.
  void put_back(Spare spare) { names_.push_back(std::move(spare.name)); }

  /// Makes the file named `name`, `bytes` long, a spare or removes it.
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
