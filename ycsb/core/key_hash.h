// From key number to key name, in the dialect of the tool whose data is to be read.
//
//   name = prefix + number, padded with zeros to `zeropadding` digits
//   number = n                 insertorder=ordered
//          = FNV-1a-64(n)      insertorder=hashed, over the eight octets of n
//
// The three tools agree on offset basis and prime and differ in the octets' order and in the sign:
//
//   keyhash  octets of n              result
//   java     least significant first  absolute value of the signed 64-bit number
//   cpp      least significant first  unsigned (YCSB-cpp)
//   go       most significant first   absolute value of the signed 64-bit number (go-ycsb)
//
// So records loaded by one tool are found by another only if both use the same dialect.
#ifndef SKUA_YCSB_CORE_KEY_HASH_H_
#define SKUA_YCSB_CORE_KEY_HASH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace skua::ycsb {

enum class KeyHash : uint8_t { kJava, kCpp, kGo };

/// FNV of `n` in the given dialect. Thread: any.
[[nodiscard]] uint64_t hash_key_number(uint64_t n, KeyHash dialect);

/// Writes prefix + zero-padded decimal of `number` over `out` (whose capacity is reused).
void write_key(std::string& out, std::string_view prefix, uint64_t number, size_t digits_min);

}  // namespace skua::ycsb

#endif  // SKUA_YCSB_CORE_KEY_HASH_H_
