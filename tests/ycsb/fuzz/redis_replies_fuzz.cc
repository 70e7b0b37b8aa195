// A server that answers anything at all, in pieces of any size.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ycsb/bindings/redis_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Progress = skua::ycsb::RedisReplies::Progress;
  skua::ycsb::RedisReplies replies;
  const auto* bytes = reinterpret_cast<const char*>(data);
  while (size != 0) {
    const size_t piece = std::min<size_t>(size, 1 + static_cast<unsigned char>(*bytes) % 32);
    if (!replies.feed(bytes, piece)) return 0;
    bytes += piece;
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
