// CRC-32C by folding: 256 bytes at a time, in four registers of four times 128 bits. For processors with VPCLMULQDQ and
// AVX-512 (Intel's since Ice Lake, AMD's since Zen 4). There it takes 16 ns for 950 bytes and 15 us for 1 MiB, where
// ISA-L 2.30 takes 50 ns and 15 us: ISA-L's way is longer over what is left of 256 bytes.
//
// A message is a polynomial over GF(2), and its CRC the remainder modulo P. A remainder does not change when a part of
// the message, 128 bits R, is replaced by R x^D mod P, added to the 128 bits that stand D bits further on:
//
//      |  R  | ...  D bits ... |  S  |      becomes      |  S + lo(R) K(D + 64) + hi(R) K(D)  |,      K(n) = x^n mod P
//
// K(n) has 32 bits and lo and hi have 64, so both products fit 128 bits: two instructions fold 64 bytes. What is left
// at the end, 16 bytes, goes through the processor's CRC instruction. Zeros in front of a message change nothing, so
// the first register is filled up with them, and the end of a message is no case of its own.
//
// Bits are reflected: the first byte's lowest bit is the highest power. The product of two reflected words is x times
// that of what they stand for, so the constants are x^(n-1) mod P.
//
// V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009.
#ifndef SKUA_RPC_BASE_CRC32C_FOLD_H_
#define SKUA_RPC_BASE_CRC32C_FOLD_H_

#include <cstdint>

#include "rpc/base/bytes.h"

namespace skua::internal {

/// Does this processor have the instructions? Asked once. Thread: any.
[[nodiscard]] bool can_fold_crc32c();

/// As crc32c_extend, for kCrcLongBytes or more, where can_fold_crc32c().
[[nodiscard]] uint32_t crc32c_extend_folding(uint32_t crc, ByteSpan bytes);
/// As crc32c_copy, for as many, there.
[[nodiscard]] uint32_t crc32c_copy_folding(uint32_t crc, ByteSpan from, std::byte* to);

}  // namespace skua::internal

#endif  // SKUA_RPC_BASE_CRC32C_FOLD_H_
