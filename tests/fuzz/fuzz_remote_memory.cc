// Requests of remote memory: no crash, no read outside of the input, and what is accepted is encoded again byte for
// byte.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "rpc/wire/remote_memory_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using skua::rpc::RemoteMemoryRequest;
  const skua::ByteSpan bytes = std::as_bytes(std::span(data, size));
  RemoteMemoryRequest request;
  if (!RemoteMemoryRequest::decode(bytes, request)) return 0;
  std::array<std::byte, RemoteMemoryRequest::kEncodedMax> again;
  const size_t encoded = request.encode(again);
  if (encoded + request.content.size() != size || std::memcmp(again.data(), data, encoded) != 0) std::abort();
  return 0;
}
