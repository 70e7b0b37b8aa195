#include "kvstore/log/segment_pool.h"

#include <algorithm>
#include <utility>

#include "kvstore/log/segment.h"

namespace skua::kv {

absl::Status SegmentPool::open(bool keep, size_t spares) {
  auto names = device_.list();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const auto number = parse_spare_name(name);
    if (!number) continue;
    next_number_ = std::max(next_number_, *number + 1);
    auto file = device_.open(name);
    if (!file.ok()) return file.status();
    if (keep && (*file)->size() == options_.segment_bytes && names_.size() < options_.spares_max) {
      names_.push_back(name);
    } else if (absl::Status removed = device_.remove(name); !removed.ok()) {
      return removed;
    }
  }
  while (names_.size() < spares) {
    auto spare = create(Device::Fill::kZeros);
    if (absl::IsResourceExhausted(spare.status())) break;  // take() will report it when the log needs a spare
    if (!spare.ok()) return spare.status();
    names_.push_back(std::move(spare->name));
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentPool::Spare> SegmentPool::take(bool privileged, bool may_create) {
  absl::Status refusal = absl::ResourceExhaustedError("no segment is spare but the reserve");
  if (!has_unreserved() && may_create) {
    auto made = create(Device::Fill::kReserve);
    if (made.ok() || !absl::IsResourceExhausted(made.status())) return made;
    refusal = made.status();
  }
  if (!has_unreserved() && !(privileged && !names_.empty())) return refusal;
  auto file = device_.open(names_.back());
  if (!file.ok()) return file.status();
  Spare spare{std::move(names_.back()), *std::move(file)};
  names_.pop_back();
  return spare;
}

absl::Status SegmentPool::recycle(const std::string& name, uint64_t bytes) {
  if (bytes != options_.segment_bytes || names_.size() >= options_.spares_max) return device_.remove(name);
  std::string spare = spare_name(next_number_++);
  if (absl::Status renamed = device_.rename(name, spare); !renamed.ok()) return renamed;
  names_.push_back(std::move(spare));
  return absl::OkStatus();
}

absl::StatusOr<SegmentPool::Spare> SegmentPool::create(Device::Fill fill) {
  std::string name = spare_name(next_number_++);
  auto file = device_.create(name, options_.segment_bytes, fill);
  if (!file.ok()) return file.status();
  return Spare{std::move(name), *std::move(file)};
}

}  // namespace skua::kv
