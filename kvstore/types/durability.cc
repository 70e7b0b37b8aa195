#include "kvstore/types/durability.h"

namespace skua::kv {

const char* durability_name(Durability durability) {
  switch (durability) {
    case Durability::kDefault: return "default";
    case Durability::kMemory: return "memory";
    case Durability::kFlush: return "flush";
    case Durability::kSync: return "sync";
  }
  return "?";
}

}  // namespace skua::kv
