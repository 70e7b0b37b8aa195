// MemoryRegistry: memory that a device may read and write, registered once for all endpoints of a process.
//
//    worker 0: register_region(A) --+                         +-- RegionTable of worker 0: A -> local key
//                                   +-- MemoryRegistry: A x2 -+
//    worker 1: register_region(A) --+                         +-- RegionTable of worker 1: A -> local key
//
// Registering pins pages and takes a system call. So a region is registered when it is first acquired, and unregistered
// when the last user releases it. Only exactly equal regions share a registration: a part of a registered region may
// outlive the rest, and new memory at the old addresses would then be sent from the old pages.
//
// The registrar decides the rights to a region. The device has one registry for packets and one for connected queue
// pairs (device.h), and a region may be in both.
#ifndef SKUA_RPC_TRANSPORT_VERBS_MEMORY_REGISTRY_H_
#define SKUA_RPC_TRANSPORT_VERBS_MEMORY_REGISTRY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/bytes.h"

namespace skua::rpc::verbs {

/// A region as the device knows it.
struct Registration {
  /// The device's own object (ibv_mr).
  void* handle = nullptr;
  /// Names the region in work requests of this process or of peers; the registrar decides which.
  uint32_t key = 0;
};

/// Registers regions with the device; a fake in tests.
class Registrar {
 public:
  virtual ~Registrar() = default;
  /// Thread: any.
  virtual absl::StatusOr<Registration> add(MutableByteSpan region) = 0;
  virtual void remove(const Registration& registration) = 0;
};

/// Thread: any.
class MemoryRegistry {
 public:
  /// `registrar` must outlive the registry.
  explicit MemoryRegistry(Registrar& registrar) : registrar_(registrar) {}
  ~MemoryRegistry();
  MemoryRegistry(const MemoryRegistry&) = delete;
  MemoryRegistry& operator=(const MemoryRegistry&) = delete;

  /// Registers the region if it is new. Each acquire() needs one release().
  absl::StatusOr<Registration> acquire(MutableByteSpan region);
  void release(MutableByteSpan region);

  [[nodiscard]] size_t registered_bytes() const;

 private:
  struct Entry {
    Registration registration;
    uint32_t users = 0;
  };
  using Place = std::pair<const std::byte*, size_t>;

  Registrar& registrar_;
  mutable std::mutex mutex_;
  std::map<Place, Entry> entries_;
  size_t registered_bytes_ = 0;
};

/// The regions of one endpoint, by address. Looked up for each gathered piece. Thread: the transport's.
class RegionTable {
 public:
  struct Region {
    MutableByteSpan bytes;
    uint32_t key = 0;
    /// Registration::handle.
    void* handle = nullptr;
    /// The furthest end of this region and all regions before it, because regions may overlap.
    const std::byte* reach = nullptr;
  };

  void add(MutableByteSpan bytes, const Registration& registration);
  /// False: the table does not have the region.
  bool remove(MutableByteSpan bytes);
  /// A region that contains all of `piece`; null: none. Valid until the next add() or remove().
  [[nodiscard]] const Region* find(ByteSpan piece) const {
    if (last_ < regions_.size() && holds(regions_[last_], piece)) return &regions_[last_];
    return find_slowly(piece);
  }
  [[nodiscard]] const std::vector<Region>& all() const { return regions_; }

 private:
  static bool holds(const Region& region, ByteSpan piece) {
    return piece.data() >= region.bytes.data() &&
           piece.data() + piece.size() <= region.bytes.data() + region.bytes.size();
  }
  [[nodiscard]] const Region* find_slowly(ByteSpan piece) const;
  void measure_reach();

  std::vector<Region> regions_;  // sorted by start
  mutable size_t last_ = 0;      // index of the region found last
};

/// The error of a failed registration, with the limit and how to raise it. `limit_bytes` is RLIMIT_MEMLOCK; UINT64_MAX:
/// no limit.
absl::Status registration_failed(const std::string& device, size_t bytes, size_t registered_bytes, int error,
                                 uint64_t limit_bytes);

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_MEMORY_REGISTRY_H_
