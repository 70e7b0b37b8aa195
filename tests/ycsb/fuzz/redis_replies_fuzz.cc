// A server that answers anything at all, in pieces of any size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ycsb/bindings/redis_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Progress = skua::ycsb::RedisReplies::Progress;
  skua::ycsb::RedisReplies replies;
  while (size != 0) {
    const std::span<char> room = replies.room();
    if (room.empty() || room.size() > size_t{1} << 20) return 0;  // a length that is true to its word takes memory
    const size_t piece = std::min({size, room.size(), size_t{1} + *data % 32});
    std::memcpy(room.data(), data, piece);
    replies.received(piece);
    data += piece;
    size -= piece;
    for (;;) {
      const Progress progress = replies.next(true);
      if (progress == Progress::kBroken) return 0;
      if (progress == Progress::kNeedMore) break;
      for (size_t i = 0; i < replies.reply().ends.size(); ++i) (void)replies.reply().element(i);
    }
  }
  return 0;
}
