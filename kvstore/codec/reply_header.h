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
/// Reads the header; of an error reply everything. `flags_allowed` are the flags that an OK reply may have.
[[nodiscard]] absl::Status read_reply_header(ByteSpan bytes, uint16_t flags_allowed, ByteReader& reader,
                                             ReplyHead& head, uint16_t& flags, uint32_t& count);

[[nodiscard]] absl::Status malformed_reply(const char* what, size_t size);

}  // namespace skua::kv

#endif  // SKUA_KVSTORE_CODEC_REPLY_HEADER_H_
