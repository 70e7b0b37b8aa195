// The callback through which the parts of a node report events. main binds it to the program's logger.
#ifndef SKUA_KVSTORE_TYPES_NODE_LOG_H_
#define SKUA_KVSTORE_TYPES_NODE_LOG_H_

#include <cstdint>
#include <functional>
#include <string>

namespace skua::kv {

enum class LogSeverity : uint8_t { kInfo, kWarning, kError };

/// Takes one event as one line of text. Thread: any.
using NodeLog = std::function<void(LogSeverity severity, const std::string& line)>;

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_TYPES_NODE_LOG_H_
