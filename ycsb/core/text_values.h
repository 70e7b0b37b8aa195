// The bytes of field values.
//
// Ordinary values are random printable ASCII made as YCSB makes them: six bytes from each 32-bit
// random number r, byte i being ((r >> 5i) & mask_i) + ' ' with masks 31, 63, 95, 31, 63, 95.
//
// With dataintegrity=true a value is a function of key and field, so that a read can be checked:
//
//   key ":" field { ":" hash-of-everything-so-far }   cut to the field's length
//
// where hash is Java's String.hashCode() in decimal.
#ifndef SKUA_YCSB_CORE_TEXT_VALUES_H_
#define SKUA_YCSB_CORE_TEXT_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rpc/base/rng.h"

namespace skua::ycsb {

/// s[0]*31^(n-1) + ... + s[n-1] in 32 bits, over bytes (equal to Java's for ASCII).
[[nodiscard]] int32_t java_string_hash(std::string_view text, int32_t so_far = 0);

/// Fills `length` bytes; up to seven more behind them may be overwritten.
void fill_random_text(char* to, size_t length, Rng& rng);

/// Fills exactly `length` bytes.
void fill_deterministic_text(char* to, size_t length, std::string_view key, std::string_view field);

/// Whether `value` is what fill_deterministic_text writes.
[[nodiscard]] bool is_deterministic_text(std::string_view value, size_t length, std::string_view key,
                                         std::string_view field);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_TEXT_VALUES_H_
