// The embedded store's bytes in RocksDB. Integers are little endian in values, big endian in keys
// so that they sort.
//
//   key                                   value
//   m/format                              u64 version of this layout (1)
//   m/revision                            u64 newest revision
//   m/oldest                              u64 oldest revision whose history is complete
//   k/<user key>                          u64 create_revision, u64 mod_revision, value bytes
//   h/<revision, 8 bytes><index, 4 bytes> u8 kind (0 put, 1 delete), u64 create_revision, u64 mod_revision,
//                                         u32 key length, key bytes, value bytes
//
// One transaction is one synced WriteBatch that holds its k/ changes, its h/ events and m/revision.
#ifndef SKUA_CONTROL_STORE_EMBEDDED_LAYOUT_H_
#define SKUA_CONTROL_STORE_EMBEDDED_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "control/store/metadata_store.h"

namespace skua::control::embedded {

inline constexpr uint64_t kFormatVersion = 1;
inline constexpr const char* kFormatKey = "m/format";
inline constexpr const char* kRevisionKey = "m/revision";
inline constexpr const char* kOldestKey = "m/oldest";
inline constexpr const char* kUserPrefix = "k/";
inline constexpr const char* kHistoryPrefix = "h/";

[[nodiscard]] std::string encode_u64(uint64_t value);
[[nodiscard]] std::optional<uint64_t> decode_u64(std::string_view bytes);

[[nodiscard]] std::string user_key(std::string_view key);
[[nodiscard]] std::string history_key(uint64_t revision, uint32_t index);

[[nodiscard]] std::string encode_record(const KeyValue& kv);
/// Nothing if the bytes are not a record.
[[nodiscard]] std::optional<KeyValue> decode_record(std::string_view key, std::string_view bytes);

[[nodiscard]] std::string encode_event(const WatchEvent& event);
[[nodiscard]] std::optional<WatchEvent> decode_event(std::string_view bytes);

}  // namespace skua::control::embedded

#endif  // SKUA_CONTROL_STORE_EMBEDDED_LAYOUT_H_
