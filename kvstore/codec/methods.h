// The method numbers of the key-value service: what the RPC header's method field says.
#ifndef SKUA_KVSTORE_CODEC_METHODS_H_
#define SKUA_KVSTORE_CODEC_METHODS_H_

#include <cstdint>

namespace skua::kv {

/// Never renumbered; a retired number is not used again. 7 is kept for an atomic single-shard BATCH.
enum class Method : uint16_t {
  kGet = 1,
  kPut = 2,
  kDelete = 3,
  kMultiGet = 4,
  kPatch = 5,
  kScan = 6,
};

/// "GET", "PUT", ...; "?" for a number that is none.
[[nodiscard]] constexpr const char* method_name(Method method) {
  switch (method) {
    case Method::kGet: return "GET";
    case Method::kPut: return "PUT";
    case Method::kDelete: return "DELETE";
    case Method::kMultiGet: return "MULTI_GET";
    case Method::kPatch: return "PATCH";
    case Method::kScan: return "SCAN";
  }
  return "?";
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_METHODS_H_
