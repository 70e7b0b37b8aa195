#include "ycsb/core/operation.h"

namespace skua::ycsb {

void Operation::begin_writes(std::span<const uint32_t> field_indices, std::span<const uint64_t> lengths) {
  size_t total = kValueSlack;
  for (const uint64_t length : lengths) total += length;
  if (bytes_.size() < total) bytes_.resize(total);
  writes_.clear();
  const char* at = bytes_.data();
  for (size_t i = 0; i < field_indices.size(); ++i) {
    writes_.push_back({field_indices[i], {at, lengths[i]}});
    at += lengths[i];
  }
}

}  // namespace skua::ycsb
