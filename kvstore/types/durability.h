// How safe a write must be before the server answers it.
#ifndef SKUA_KVSTORE_TYPES_DURABILITY_H_
#define SKUA_KVSTORE_TYPES_DURABILITY_H_

#include <cstdint>
#include <optional>

namespace skua::kv {

/// What must have happened to a write before the server answers it. The levels are ordered: each one includes the
/// levels before it.
enum class Durability : uint8_t {
  kDefault = 0,  ///< the level that the table or the node is configured with
  kMemory = 1,   ///< the log accepted the write; lost if the process dies
  kFlush = 2,    ///< written to the log's file; lost if the machine dies
  kSync = 3,     ///< synced to the disk
};

/// True: a write of this level is on the disk.
[[nodiscard]] constexpr bool is_synced(Durability durability) {
  return durability >= Durability::kSync;
}

/// The code of a durability in log records and in messages between nodes: 0 memory, 1 flush, 2 sync. kDefault has no
/// code; do not pass it.
[[nodiscard]] constexpr uint8_t durability_code(Durability durability) {
  return static_cast<uint8_t>(static_cast<uint8_t>(durability) - 1);
}
/// The durability with this code; nullopt if no durability has it.
[[nodiscard]] constexpr std::optional<Durability> durability_of_code(uint64_t code) {
  if (code > durability_code(Durability::kSync)) return std::nullopt;
  return static_cast<Durability>(code + 1);
}

/// "default", "memory", "flush" or "sync". A static string.
[[nodiscard]] constexpr const char* durability_name(Durability durability) {
  switch (durability) {
    case Durability::kDefault: return "default";
    case Durability::kMemory: return "memory";
    case Durability::kFlush: return "flush";
    case Durability::kSync: return "sync";
  }
  return "?";
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_DURABILITY_H_
