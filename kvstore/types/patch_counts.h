// What a PATCH that edits a row did to it (Mutation::edits_row). The counts fit into the int64 that a shard stores with
// the result of a write (word()). So a repetition gets the same counts.
#ifndef SKUA_KVSTORE_TYPES_PATCH_COUNTS_H_
#define SKUA_KVSTORE_TYPES_PATCH_COUNTS_H_

#include <cstdint>

namespace skua::kv {

struct PatchCounts {
  uint16_t added = 0;    ///< fields that the row lacked before
  uint16_t removed = 0;  ///< fields that the row had before, and lacks now
  uint16_t left = 0;     ///< fields of the row now; 0 after a removal: the key is gone

  [[nodiscard]] int64_t word() const {
    return static_cast<int64_t>(uint64_t{added} | uint64_t{removed} << 16 | uint64_t{left} << 32);
  }
  /// Accepts any word, because words come from peers.
  [[nodiscard]] static PatchCounts of_word(int64_t word) {
    const auto bits = static_cast<uint64_t>(word);
    return {static_cast<uint16_t>(bits), static_cast<uint16_t>(bits >> 16), static_cast<uint16_t>(bits >> 32)};
  }
  friend bool operator==(const PatchCounts&, const PatchCounts&) = default;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_PATCH_COUNTS_H_
