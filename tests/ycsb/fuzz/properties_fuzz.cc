// Property files: whatever parses, its values can be read as any type without harm.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ycsb/core/field_length.h"
#include "ycsb/core/workload_options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  skua::ycsb::Properties properties;
  if (properties.parse(text).ok()) (void)skua::ycsb::WorkloadOptions::parse(properties);
  if (const auto length = skua::ycsb::FieldLength::histogram(text); length.ok()) {
    skua::Rng rng(1);
    (void)length->next(rng);
  }
  return 0;
}
