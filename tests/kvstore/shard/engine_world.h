// What the worker engine's tests share: databases and a log's disk that crash, and the engine between them, whose
// worker is the test's thread.
#ifndef SKUA_TESTS_KVSTORE_SHARD_ENGINE_WORLD_H_
#define SKUA_TESTS_KVSTORE_SHARD_ENGINE_WORLD_H_

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/log/device.h"
#include "kvstore/shard/worker_engine.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/rocksdb_engine.h"
#include "kvstore/storage/shard_db.h"
#include "rpc/base/rng.h"
#include "tests/kvstore/log/sim_device.h"

namespace skua::kv::testing {

/// A shard's database as it lies on a disk: what is applied, and what of it a crash may leave.
class FakeDisk {
 public:
  struct Row {
    uint64_t version = 0;
    std::string value;
    uint64_t expires_at = 0;
    RecordMark mark{};
    friend bool operator==(const Row&, const Row&) = default;
  };
  using Rows = std::map<std::string, Row, std::less<>>;
  struct State {
    Rows rows;
    Rows internal_rows;
    uint64_t index = 0;
  };

  absl::Status apply(std::span<const AppliedEffect> effects, uint64_t index);
  absl::StatusOr<uint64_t> flush();
  [[nodiscard]] State state() const;
  /// From now on everything fails.
  void fail();
  /// While it is full nothing can be written or flushed.
  void set_full(bool full);
  /// Works again, as it was at some moment since the last flush.
  void crash(Rng& rng);

  // For tests that look closely. Held: apply waits until released.
  void hold(bool held);
  [[nodiscard]] size_t reads() const;
  void count_read();

 private:
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::deque<State> states_ = {State{}};  // the first is durable
  bool failing_ = false;
  bool full_ = false;
  bool held_ = false;
  size_t reads_ = 0;
};

/// Databases on FakeDisks, which outlive them.
class FakeDbEngine final : public RocksdbEngine {
 public:
  FakeDisk& disk(ShardId id) { return disks_[id]; }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<ShardDb>> open_db(const std::string& dir, ShardId id,
                                                                 IfMissing if_missing) override;
  [[nodiscard]] absl::Status destroy_shard(const std::string&, ShardId id) override {
    disks_.erase(id);
    return absl::OkStatus();
  }
  [[nodiscard]] absl::StatusOr<std::vector<ShardId>> list_shards(const std::string&) override;

 private:
  std::map<ShardId, FakeDisk> disks_;
};

/// Hands a device that somebody else owns to a log, and holds its writes up on demand. Uses the device under the gate's
/// lock, so that the test's thread may, too.
class BorrowedDevice final : public Device {
 public:
  struct Gate {
    std::mutex device;
    std::mutex mutex;
    std::condition_variable changed;
    bool closed = false;
    bool waiting = false;

    void close();
    void open();
    void pass();
    void wait_until_waiting();
  };

  BorrowedDevice(Device& device, Gate& gate) : device_(device), gate_(gate) {}
  absl::StatusOr<std::unique_ptr<LogFile>> create(const std::string& name, uint64_t bytes, Fill fill) override;
  absl::StatusOr<std::unique_ptr<LogFile>> open(const std::string& name) override;
  absl::Status rename(const std::string& from, const std::string& to) override;
  absl::Status remove(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> list() override;
  [[nodiscard]] std::string path_of(const std::string& name) const override { return device_.path_of(name); }

 private:
  class File;
  Device& device_;
  Gate& gate_;
};

/// A simulated disk while the log's thread keeps off.
struct LockedDevice {
  std::unique_lock<std::mutex> lock;
  sim::SimDevice* device;
  sim::SimDevice* operator->() const { return device; }
};

/// A log small enough for many rotations.
[[nodiscard]] LogOptions small_log_options();
[[nodiscard]] WorkerEngine::Options small_engine_options();

/// Tasks for the test's thread.
class TaskQueue {
 public:
  void post(absl::AnyInvocable<void()> task);
  /// Runs what is there; false if there was nothing.
  bool run();
  /// Runs until `condition` holds; fails the test after a generous time.
  template <typename Condition>
  void run_until(Condition condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (run()) continue;
      if (std::chrono::steady_clock::now() > give_up) {
        ADD_FAILURE() << "waited a minute in vain";
        return;
      }
      wait();
    }
  }

 private:
  void wait();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<absl::AnyInvocable<void()>> tasks_;
};

}  // namespace skua::kv::testing

#endif  // SKUA_TESTS_KVSTORE_SHARD_ENGINE_WORLD_H_
