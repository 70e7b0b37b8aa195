// All decoders of kvstore/codec: the first byte picks one, the rest is what it gets. No crash, no read outside of the
// input, and what a decoder accepts its encoder makes again byte for byte.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>

#include "kvstore/codec/chosen_fields.h"
#include "kvstore/codec/row.h"
#include "tests/kvstore/codec/codec_testing.h"

namespace {

using namespace skua;      // NOLINT(google-build-using-namespace)
using namespace skua::kv;  // NOLINT(google-build-using-namespace)

/// The input as a row, and its halves as row and patch.
void fuzz_row(ByteSpan bytes) {
  if (check_row(bytes).ok()) {
    std::string again;
    for (RowReader reader(bytes); auto field = reader.next();) append_field(again, *field);
    if (again != as_string_view(bytes)) std::abort();
  }
  if (check_edit(bytes).ok()) {
    std::string again;
    for (RowReader reader(bytes, RowReader::Form::kEdit); auto field = reader.next();) append_field(again, *field);
    if (again != as_string_view(bytes)) std::abort();
  }
  if (bytes.empty()) return;
  const std::string names("\1\0f\1\0g", 6);
  if (const auto chosen = ChosenFields::of(bytes, StringList(as_byte_span(names), 2)); chosen.has_value()) {
    std::string part;
    chosen->append_to(part);
    if (part.size() != chosen->byte_count() || !check_row(as_byte_span(part)).ok()) std::abort();
  }
  const size_t split = static_cast<size_t>(bytes[0]) % bytes.size();
  std::string patched;
  const absl::Status status = patch_row(bytes.subspan(1, split), bytes.subspan(1 + split), patched);
  if (status.ok() && !check_row(as_byte_span(patched)).ok()) std::abort();
  PatchCounts counts;
  const Edited edited = edit_row(bytes.subspan(1, split), bytes.subspan(1 + split), patched, counts);
  if (edited == Edited::kDone && !check_row(as_byte_span(patched)).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan bytes = std::as_bytes(std::span(data + 1, size - 1));
  const size_t choice = data[0] % (std::size(testing::kRecoders) + 1);
  if (choice == std::size(testing::kRecoders)) {
    fuzz_row(bytes);
    return 0;
  }
  const auto recoded = testing::kRecoders[choice](bytes);
  if (recoded && *recoded != as_string_view(bytes)) std::abort();
  (void)decode_route(bytes);
  return 0;
}
