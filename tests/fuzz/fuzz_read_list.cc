// Read lists: no crash, no read outside of the input, and what is accepted is encoded again byte for byte.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "rpc/wire/read_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  skua::rpc::ReadList list;
  if (!skua::rpc::ReadList::decode(std::as_bytes(std::span(data, size)), list)) return 0;
  std::vector<std::byte> again(list.encoded_bytes());
  if (list.encode(again) != size || std::memcmp(again.data(), data, size) != 0) std::abort();
  return 0;
}
