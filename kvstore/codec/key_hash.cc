#include "kvstore/codec/key_hash.h"

#include <cstring>

#include "rpc/base/bytes.h"
#include "rpc/base/rng.h"

namespace skua::kv {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ULL;

uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t key_hash(std::string_view key) {
  const auto* at = reinterpret_cast<const std::byte*>(key.data());
  size_t left = key.size();
  // The length is part of the state, so a key and the same key with zero bytes after it differ.
  uint64_t state = (key.size() + 1) * 0xbf58476d1ce4e5b9ULL;
  for (; left >= 8; at += 8, left -= 8) state = fold(state ^ load_le<uint64_t>(at), kMultiplier);
  if (left > 0) {
    uint64_t lane = 0;
    std::memcpy(&lane, at, left);
    state = fold(state ^ lane, kMultiplier);
  }
  return mix64(state);
}

}  // namespace skua::kv
