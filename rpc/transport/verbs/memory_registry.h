// MemoryRegistry: memory that a device may read and write, registered once for all endpoints of a process.
//
//    worker 0: register_region(A) --+                         +-- RegionTable of worker 0: A -> local key
//                                   +-- MemoryRegistry: A x2 -+
//    worker 1: register_region(A) --+                         +-- RegionTable of worker 1: A -> local key
//
// Registering pins pages and takes a system call per call, so a region is registered the first time anybody names it, and given
// back when the last one takes it back. Only the very same region is shared: a part of one that is registered may outlive the rest of it,
// and then new memory at those addresses would be sent from old pages.
//
// Who may do what with a region is its registrar's matter: the device has one registry for packets and one for
// connected queue pairs (device.h), and a region may be in both.
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

/// Memory as the device knows it.
struct Registration {
  /// The device's own object (ibv_mr).
  void* handle = nullptr;
  /// Names the region: in work requests of this process, or in those of peers (as its registrar makes it).
  uint32_t key = 0;
};

/// The device's side of it; a fake in tests.
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
  /// `registrar` outlives it.
  explicit MemoryRegistry(Registrar& registrar) : registrar_(registrar) {}
  ~MemoryRegistry();
  MemoryRegistry(const MemoryRegistry&) = delete;
  MemoryRegistry& operator=(const MemoryRegistry&) = delete;

  /// Each call is undone by one release().
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

/// One endpoint's regions, by address; looked up for each gathered piece. Thread: the transport's.
class RegionTable {
 public:
  struct Region {
    MutableByteSpan bytes;
    uint32_t key = 0;
    /// The registration's.
    void* handle = nullptr;
    /// The furthest end of this region and those before it (regions may overlap).
    const std::byte* reach = nullptr;
  };

  void add(MutableByteSpan bytes, const Registration& registration);
  /// False: not there.
  bool remove(MutableByteSpan bytes);
  /// A region that holds all of `piece`, or null.
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

  std::vector<Region> regions_;  // by start
  mutable size_t last_ = 0;      // where the latest piece was found
};

/// Why a registration failed, with the limit and how to raise it; `limit_bytes` is RLIMIT_MEMLOCK, UINT64_MAX for none.
absl::Status registration_failed(const std::string& device, size_t bytes, size_t registered_bytes, int error,
                                 uint64_t limit_bytes);

}  // namespace skua::rpc::verbs

#endif  // SKUA_RPC_TRANSPORT_VERBS_MEMORY_REGISTRY_H_
