// MetadataStore in memory: the dumb twin that the embedded store is tested against, and the store
// of tests and simulations.
#ifndef SKUA_CONTROL_STORE_MEMORY_STORE_H_
#define SKUA_CONTROL_STORE_MEMORY_STORE_H_

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "control/store/metadata_store.h"

namespace skua::control {

class MemoryStore final : public MetadataStore {
 public:
  absl::StatusOr<GetResult> get(const std::string& key) override;
  absl::StatusOr<RangeResult> range(const std::string& prefix) override;
  absl::StatusOr<TransactionResult> transact(const Transaction& transaction) override;
  absl::StatusOr<std::unique_ptr<Watch>> watch(const std::string& prefix, uint64_t from_revision) override;
  absl::Status compact(uint64_t revision) override;

  /// From now on every transaction fails with `status` without happening; OK ends it.
  void fail_transactions(absl::Status status);

 private:
  class MemoryWatch;

  void put(const std::string& key, const std::string& value);
  void erase(const std::string& key);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, KeyValue> kvs_;
  std::vector<WatchEvent> history_;
  uint64_t revision_ = 0;
  uint64_t oldest_ = 1;
  absl::Status failure_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_STORE_MEMORY_STORE_H_
