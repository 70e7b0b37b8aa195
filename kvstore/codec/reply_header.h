// Writes and reads the header of replies. For kvstore/codec only.
#ifndef SKUA_KVSTORE_CODEC_REPLY_HEADER_H_
#define SKUA_KVSTORE_CODEC_REPLY_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/codec/reply.h"
#include "rpc/base/bytes.h"

namespace skua::kv {

inline constexpr uint16_t kAchievedBits = 3;
inline constexpr uint16_t kFromRecordBit = 4;
inline constexpr uint16_t kNotAppliedBit = 8;

void write_reply_header(ByteWriter& writer, const ReplyHead& head, uint16_t flags, size_t count);

/// Reads a reply: first its header, then what follows.
class ReplyReader : public ByteReader {
 public:
  explicit ReplyReader(ByteSpan bytes) : ByteReader(bytes), size_(bytes.size()) {}

  /// Reads the header; of an error reply everything. `flags_allowed` are the flags that an OK reply may have.
  [[nodiscard]] absl::Status read_header(uint16_t flags_allowed, ReplyHead& head);

  [[nodiscard]] uint16_t flags() const { return flags_; }
  [[nodiscard]] bool has(uint16_t flag) const { return (flags_ & flag) != 0; }
  [[nodiscard]] uint32_t count() const { return count_; }
  /// INTERNAL that says what is wrong with the reply.
  [[nodiscard]] absl::Status malformed(const char* what) const;

 private:
  const size_t size_;
  uint16_t flags_ = 0;
  uint32_t count_ = 0;
};

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REPLY_HEADER_H_
