#include "rpc/transport/verbs/memory_registry.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::rpc::verbs {

MemoryRegistry::~MemoryRegistry() {
  for (const auto& [place, entry] : entries_) registrar_.remove(entry.registration);
}

absl::StatusOr<Registration> MemoryRegistry::acquire(MutableByteSpan region) {
  const std::lock_guard lock(mutex_);
  const Place place(region.data(), region.size());
  auto found = entries_.find(place);
  if (found == entries_.end()) {
    absl::StatusOr<Registration> made = registrar_.add(region);
    if (!made.ok()) return made.status();
    found = entries_.emplace(place, Entry{*made, 0}).first;
    registered_bytes_ += region.size();
  }
  ++found->second.users;
  return found->second.registration;
}

void MemoryRegistry::release(MutableByteSpan region) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(Place(region.data(), region.size()));
  SKUA_CHECK(found != entries_.end(), "memory was unregistered that is not registered");
  if (--found->second.users > 0) return;
  registrar_.remove(found->second.registration);
  registered_bytes_ -= region.size();
  entries_.erase(found);
}

size_t MemoryRegistry::registered_bytes() const {
  const std::lock_guard lock(mutex_);
  return registered_bytes_;
}

void RegionTable::add(MutableByteSpan bytes, const Registration& registration) {
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), bytes.data(),
                                      [](const std::byte* at, const Region& r) { return at < r.bytes.data(); });
  regions_.insert(after, {bytes, registration.key, registration.handle, nullptr});
  measure_reach();
}

bool RegionTable::remove(MutableByteSpan bytes) {
  const auto found = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) {
    return r.bytes.data() == bytes.data() && r.bytes.size() == bytes.size();
  });
  if (found == regions_.end()) return false;
  regions_.erase(found);
  measure_reach();
  return true;
}

void RegionTable::measure_reach() {
  last_ = 0;
  const std::byte* reach = nullptr;
  for (Region& region : regions_) {
    reach = std::max<const std::byte*>(reach, region.bytes.data() + region.bytes.size());
    region.reach = reach;
  }
}

const RegionTable::Region* RegionTable::find_slowly(ByteSpan piece) const {
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), piece.data(),
                                      [](const std::byte* at, const Region& r) { return at < r.bytes.data(); });
  // Regions may overlap, so the region with the nearest start may be too short while an earlier one reaches far enough.
  for (auto i = static_cast<size_t>(after - regions_.begin()); i-- > 0;) {
    if (regions_[i].reach < piece.data() + piece.size()) break;
    if (!holds(regions_[i], piece)) continue;
    last_ = i;
    return &regions_[i];
  }
  return nullptr;
}

absl::Status registration_failed(const std::string& device, size_t bytes, size_t registered_bytes, int error,
                                 uint64_t limit_bytes) {
  std::string text = absl::StrCat(device, " cannot register ", bytes, " bytes of memory (", registered_bytes,
                                  " are): ", std::generic_category().message(error));
  const bool memlock = (error == ENOMEM || error == EPERM || error == EAGAIN) && limit_bytes != UINT64_MAX;
  if (memlock) {
    absl::StrAppend(
        &text, "; the process may lock ", limit_bytes,
        " bytes (RLIMIT_MEMLOCK): raise it with `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit, or "
        "memlock in /etc/security/limits.conf");
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace skua::rpc::verbs
