// How safe a write is when it is answered.
#ifndef SKUA_KVSTORE_TYPES_DURABILITY_H_
#define SKUA_KVSTORE_TYPES_DURABILITY_H_

#include <cstdint>
#include <optional>

namespace skua::kv {

/// What must have happened to a write before it is answered. Ordered: each includes those before.
enum class Durability : uint8_t {
  kDefault = 0,  ///< what the table or the node is set to
  kMemory = 1,   ///< taken by the log; lost if the process dies
  kFlush = 2,    ///< written to the log's file; lost if the machine dies
  kSync = 3,     ///< on the disk
};

/// What records and messages between nodes say: 0 memory, 1 flush, 2 sync. Not of kDefault.
[[nodiscard]] constexpr uint8_t durability_code(Durability durability) {
  return static_cast<uint8_t>(static_cast<uint8_t>(durability) - 1);
}
/// nullopt: there is none with this code.
[[nodiscard]] constexpr std::optional<Durability> durability_of_code(uint64_t code) {
  if (code > durability_code(Durability::kSync)) return std::nullopt;
  return static_cast<Durability>(code + 1);
}

/// "default", "memory", "flush", "sync".
[[nodiscard]] const char* durability_name(Durability durability);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_DURABILITY_H_
