// The method numbers of the key-value service. They stand in the method field of the RPC header.
#ifndef SKUA_KVSTORE_CODEC_METHODS_H_
#define SKUA_KVSTORE_CODEC_METHODS_H_

#include <cstdint>

namespace skua::kv {

/// A number never changes its meaning. The number of a removed method is not used again.
enum class Method : uint16_t {
  kGet = 1,
  kPut = 2,
  kDelete = 3,
  kMultiGet = 4,
  kPatch = 5,
  kScan = 6,
  kBatch = 7,
  kAdd = 8,
  kAppend = 9,
  kExpire = 10,
  // Between nodes (kvstore/replication/message_codec.h, copy_codec.h).
  kReplicate = 32,
  kFetchChunk = 33,
  kFetchTail = 34,
  kVouch = 35,
};

/// "GET", "PUT", ...; "?" for a number that is no method.
[[nodiscard]] constexpr const char* method_name(Method method) {
  switch (method) {
    case Method::kGet: return "GET";
    case Method::kPut: return "PUT";
    case Method::kDelete: return "DELETE";
    case Method::kMultiGet: return "MULTI_GET";
    case Method::kPatch: return "PATCH";
    case Method::kScan: return "SCAN";
    case Method::kBatch: return "BATCH";
    case Method::kAdd: return "ADD";
    case Method::kAppend: return "APPEND";
    case Method::kExpire: return "EXPIRE";
    case Method::kReplicate: return "REPLICATE";
    case Method::kFetchChunk: return "FETCH_CHUNK";
    case Method::kFetchTail: return "FETCH_TAIL";
    case Method::kVouch: return "VOUCH";
  }
  return "?";
}

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_METHODS_H_
