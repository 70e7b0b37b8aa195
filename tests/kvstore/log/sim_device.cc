#include "tests/kvstore/log/sim_device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv::sim {

enum class Sector : uint8_t { kClean, kDirty, kLost };  // kLost: a failed sync lost it, but reads still show it

/// A file's bytes, as reads see them and as the medium has them.
struct SimDevice::Data {
  std::vector<std::byte> seen;
  std::vector<std::byte> medium;
  std::vector<Sector> sectors;

  void settle(size_t sector, bool to_medium) {
    const size_t at = sector * kSectorBytes;
    auto& from = to_medium ? seen : medium;
    auto& to = to_medium ? medium : seen;
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(at), kSectorBytes, to.begin() + static_cast<ptrdiff_t>(at));
    sectors[sector] = Sector::kClean;
  }
};

class SimDevice::File final : public LogFile {
 public:
  File(SimDevice& device, std::shared_ptr<Data> data) : device_(device), data_(std::move(data)), life_(device.life_) {}

  absl::Status write(uint64_t offset, ByteSpan bytes, WriteMode mode) override {
    return is_dead() ? dead() : device_.write(*data_, offset, bytes, mode);
  }

  absl::Status sync() override {
    if (is_dead()) return dead();
    return device_.sync(*data_, 0, data_->seen.size());
  }

  absl::StatusOr<size_t> read(uint64_t offset, MutableByteSpan into) override {
    if (is_dead()) return dead();
    if (offset >= data_->seen.size()) return size_t{0};
    const size_t count = std::min<uint64_t>(into.size(), data_->seen.size() - offset);
    copy_bytes(into.data(), ByteSpan(data_->seen).subspan(offset, count));
    return count;
  }

  void drop_cache() override {
    for (size_t i = 0; i < data_->sectors.size(); ++i) {
      if (data_->sectors[i] == Sector::kLost) data_->settle(i, false);
    }
  }

  [[nodiscard]] uint64_t size() const override { return data_->seen.size(); }

 private:
  [[nodiscard]] bool is_dead() const { return device_.crashed_ || device_.life_ != life_; }
  static absl::Status dead() { return absl::UnavailableError("the simulated machine is off"); }

  SimDevice& device_;
  const std::shared_ptr<Data> data_;
  const uint64_t life_;
};

SimDevice::SimDevice(uint64_t seed, uint64_t capacity_bytes) : rng_(seed), capacity_bytes_(capacity_bytes) {}
SimDevice::~SimDevice() = default;

absl::Status SimDevice::begin_operation(bool& hit) {
  hit = false;
  if (crashed_) return absl::UnavailableError("the simulated machine is off");
  now_ns_ += rng_.chance(faults_.stall) ? faults_.stall_ns : faults_.latency_ns;
  hit = operations_++ == crash_at_;
  return absl::OkStatus();
}

absl::Status SimDevice::power_cut() {
  crashed_ = true;
  return absl::UnavailableError("the simulated power failed");
}

absl::Status SimDevice::write(Data& data, uint64_t offset, ByteSpan bytes, WriteMode mode) {
  SKUA_CHECK(offset % kSectorBytes == 0 && bytes.size() % kSectorBytes == 0, "a write that is not whole sectors");
  SKUA_CHECK(offset + bytes.size() <= data.seen.size(), "a write behind the end of the file");
  bool hit = false;
  if (absl::Status begun = begin_operation(hit); !begun.ok()) return begun;
  const bool fails = rng_.chance(faults_.write_error);
  for (size_t done = 0; done < bytes.size(); done += kSectorBytes) {
    if ((fails || hit) && rng_.chance(0.5)) continue;
    copy_bytes(data.seen.data() + offset + done, bytes.subspan(done, kSectorBytes));
    data.sectors[(offset + done) / kSectorBytes] = Sector::kDirty;
  }
  if (hit) return power_cut();
  if (fails) return absl::InternalError("simulated EIO in write");
  return mode == WriteMode::kDurable ? sync(data, offset, offset + bytes.size()) : absl::OkStatus();
}

absl::Status SimDevice::sync(Data& data, uint64_t begin, uint64_t end) {
  bool hit = false;
  if (absl::Status begun = begin_operation(hit); !begun.ok()) return begun;
  if (hit) return power_cut();  // restart() decides which sectors survived
  const bool fails = rng_.chance(faults_.sync_error);
  for (size_t i = begin / kSectorBytes; i < end / kSectorBytes; ++i) {
    if (data.sectors[i] != Sector::kDirty) continue;
    if (fails && rng_.chance(0.5)) {
      data.sectors[i] = Sector::kLost;
    } else {
      data.settle(i, true);
    }
  }
  return fails ? absl::InternalError("simulated EIO in sync") : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LogFile>> SimDevice::create(const std::string& name, uint64_t bytes, Fill /*fill*/) {
  bool hit = false;
  if (absl::Status begun = begin_operation(hit); !begun.ok()) return begun;
  if (files_.contains(name)) return absl::InternalError(absl::StrCat(path_of(name), " exists"));
  if (used_bytes() + bytes > capacity_bytes_) return absl::ResourceExhaustedError("simulated ENOSPC");
  if (hit && rng_.chance(0.5)) return power_cut();
  auto data = std::make_shared<Data>();
  data->seen.resize(hit ? rng_.below(bytes) / kSectorBytes * kSectorBytes : bytes);
  data->medium.resize(data->seen.size());
  data->sectors.resize(data->seen.size() / kSectorBytes, Sector::kClean);
  files_[name] = data;
  if (hit) return power_cut();
  return std::make_unique<File>(*this, std::move(data));
}

absl::StatusOr<std::unique_ptr<LogFile>> SimDevice::open(const std::string& name) {
  if (crashed_) return absl::UnavailableError("the simulated machine is off");
  const auto found = files_.find(name);
  if (found == files_.end()) return absl::NotFoundError(path_of(name));
  return std::make_unique<File>(*this, found->second);
}

absl::Status SimDevice::rename(const std::string& from, const std::string& to) {
  if (!room_for_names_) return absl::ResourceExhaustedError("simulated ENOSPC");
  bool hit = false;
  if (absl::Status begun = begin_operation(hit); !begun.ok()) return begun;
  if (hit && rng_.chance(0.5)) return power_cut();
  const auto found = files_.find(from);
  if (found == files_.end()) return absl::NotFoundError(path_of(from));
  files_[to] = found->second;
  files_.erase(from);
  return hit ? power_cut() : absl::OkStatus();
}

absl::Status SimDevice::remove(const std::string& name) {
  bool hit = false;
  if (absl::Status begun = begin_operation(hit); !begun.ok()) return begun;
  if (hit && rng_.chance(0.5)) return power_cut();
  if (files_.erase(name) == 0) return absl::NotFoundError(path_of(name));
  return hit ? power_cut() : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimDevice::list() {
  if (crashed_) return absl::UnavailableError("the simulated machine is off");
  std::vector<std::string> names;
  names.reserve(files_.size());
  for (const auto& [name, data] : files_) names.push_back(name);
  return names;
}

void SimDevice::restart() {
  const double survival = rng_.chance(0.3) ? (rng_.chance(0.5) ? 0 : 1) : rng_.uniform();
  for (auto& [name, data] : files_) {
    for (size_t i = 0; i < data->sectors.size(); ++i) {
      if (data->sectors[i] == Sector::kClean) continue;
      data->settle(i, data->sectors[i] == Sector::kDirty && rng_.chance(survival));
    }
  }
  crashed_ = false;
  crash_at_ = ~uint64_t{0};
  ++life_;
}

void SimDevice::reopen() {
  crash_at_ = ~uint64_t{0};
  ++life_;
}

void SimDevice::flip_bit(const std::string& name, uint64_t offset, unsigned bit) {
  const auto found = files_.find(name);
  SKUA_CHECK(found != files_.end() && offset < found->second->seen.size(), "no such byte to flip");
  const std::byte mask{static_cast<uint8_t>(1U << (bit & 7))};
  found->second->seen[offset] ^= mask;
  found->second->medium[offset] ^= mask;
}

ByteSpan SimDevice::contents(const std::string& name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? ByteSpan() : ByteSpan(found->second->seen);
}

uint64_t SimDevice::used_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, data] : files_) bytes += data->seen.size();
  return bytes;
}

}  // namespace skua::kv::sim
