// A simulated disk whose faults follow from a seed. Only synced bytes are sure to survive a power cut.
//
//    write --> what reads see --sync--> what a power cut leaves
//                     |
//                  restart(): each sector of 512 bytes that was written since its last sync is old or new, by chance
//
//  - Power cut: in the middle of an operation that crash_after() names. Every later call fails. restart() decides which
//    unsynced sectors survived.
//  - EIO: a failed write leaves any of its sectors written. A failed sync loses the sectors that it could not write,
//    but reads still show them until drop_cache() or a restart (as on Linux).
//  - ENOSPC by a capacity; bit flips at rest; stalls in virtual time.
// Directory operations are durable when they return. An operation that the power cut hits has happened or has not;
// create() may also leave a shorter file.
#ifndef SKUA_TESTS_KVSTORE_LOG_SIM_DEVICE_H_
#define SKUA_TESTS_KVSTORE_LOG_SIM_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/log/device.h"
#include "rpc/base/bytes.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"

namespace skua::kv::sim {

struct SimDeviceFaults {
  double write_error = 0;  ///< chance that a write fails
  double sync_error = 0;   ///< chance that a sync, or the sync of a durable write, fails
  double stall = 0;        ///< chance that an operation takes stall_ns instead of latency_ns
  DurationNs latency_ns = 100 * kMicrosecond;
  DurationNs stall_ns = 2 * kSecond;
};

/// Thread: one at a time, for the device and its files together.
class SimDevice final : public Device {
 public:
  SimDevice(uint64_t seed, uint64_t capacity_bytes);
  ~SimDevice() override;

  absl::StatusOr<std::unique_ptr<LogFile>> create(const std::string& name, uint64_t bytes, Fill fill) override;
  absl::StatusOr<std::unique_ptr<LogFile>> open(const std::string& name) override;
  absl::Status rename(const std::string& from, const std::string& to) override;
  absl::Status remove(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> list() override;
  [[nodiscard]] std::string path_of(const std::string& name) const override { return "sim/" + name; }

  void set_faults(const SimDeviceFaults& faults) { faults_ = faults; }
  void set_capacity(uint64_t bytes) { capacity_bytes_ = bytes; }
  /// With `room` false every rename() fails with RESOURCE_EXHAUSTED: the directory has no room for another name.
  void set_room_for_names(bool room) { room_for_names_ = room; }
  /// Lets `operations` more changing operations pass; the power fails in the middle of the next one.
  void crash_after(uint64_t operations) { crash_at_ = operations_ + operations; }
  [[nodiscard]] bool crashed() const { return crashed_; }

  /// Cuts the power, if crash_after() has not, and switches the machine on again. Files that were open cannot be used
  /// any more. Each unsynced sector survives with a probability that is drawn anew for each restart.
  void restart();

  /// The process ends and starts again while the machine runs on: nothing is lost. Files that were open cannot be used
  /// any more.
  void reopen();

  /// Inverts a bit on the medium and in what reads see.
  void flip_bit(const std::string& name, uint64_t offset, unsigned bit);

  /// A file's bytes as reads see them, for tests. Empty if there is no such file.
  [[nodiscard]] ByteSpan contents(const std::string& name) const;

  [[nodiscard]] uint64_t operations() const { return operations_; }
  [[nodiscard]] TimeNs now_ns() const { return now_ns_; }

 private:
  struct Data;
  class File;

  /// Begins an operation. Fails if the power is off. `hit`: the power fails in the middle of this operation.
  absl::Status begin_operation(bool& hit);
  absl::Status write(Data& data, uint64_t offset, ByteSpan bytes, WriteMode mode);
  absl::Status sync(Data& data, uint64_t begin, uint64_t end);
  absl::Status power_cut();
  [[nodiscard]] uint64_t used_bytes() const;

  Rng rng_;
  uint64_t capacity_bytes_;
  bool room_for_names_ = true;
  SimDeviceFaults faults_;
  std::map<std::string, std::shared_ptr<Data>> files_;
  uint64_t life_ = 0;
  uint64_t operations_ = 0;
  uint64_t crash_at_ = ~uint64_t{0};
  bool crashed_ = false;
  TimeNs now_ns_ = 0;
};

}  // namespace skua::kv::sim

#endif  // SKUA_TESTS_KVSTORE_LOG_SIM_DEVICE_H_
