// Numbers that nobody can guess, for seeds and identities. Not for simulations, which must repeat.
#ifndef SKUA_RPC_BASE_ENTROPY_H_
#define SKUA_RPC_BASE_ENTROPY_H_

#include <cstdint>
#include <random>

namespace skua {

/// 64 bits from the system. Thread: any.
[[nodiscard]] inline uint64_t draw_entropy() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace skua

#endif  // SKUA_RPC_BASE_ENTROPY_H_
