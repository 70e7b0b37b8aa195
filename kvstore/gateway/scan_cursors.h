// ScanCursors: Redis's cursors are numbers, and a scan of the store goes on at a key. The table says which number
// stands for which key. The table is bounded: the least recently used cursor goes first. Each connection
// has a share of the room: a client that begins scan after scan forgets its own cursors, and not those of others.
#ifndef SKUA_KVSTORE_GATEWAY_SCAN_CURSORS_H_
#define SKUA_KVSTORE_GATEWAY_SCAN_CURSORS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace skua::kv::gateway {

inline constexpr size_t kScanCursorsMax = 65'536;
inline constexpr size_t kScanCursorsPerClientMax = 1024;

/// One per gateway, because a client may go on with its scan over another connection, at another thread. This is the
/// one thing that a gateway's threads share under a lock; a SCAN takes it twice. Thread: any.
class ScanCursors {
 public:
  /// `gateway_id` distinguishes the cursors of several gateways; its lowest 23 bits count.
  explicit ScanCursors(uint64_t gateway_id, size_t count_max = kScanCursorsMax,
                       size_t per_client_max = kScanCursorsPerClientMax)
      : high_bits_((gateway_id & 0x7f'ffff) << kNumberBits), count_max_(count_max), per_client_max_(per_client_max) {}

  /// A number for `next_key` of the database; never 0. `client`: of the connection (ClientSession::id), whose oldest
  /// cursor is forgotten if it has used up its share.
  [[nodiscard]] uint64_t remember(uint64_t client, uint32_t database, std::string_view next_key);
  /// The key that `cursor` stands for. Nothing: it was forgotten, is another gateway's or another database's. A cursor
  /// may be used several times.
  [[nodiscard]] std::optional<std::string> find(uint32_t database, uint64_t cursor);

 private:
  struct Entry {
    uint64_t cursor;
    uint64_t client;
    uint32_t database;
    std::string next_key;
  };
  [[nodiscard]] uint64_t next_cursor();
  void forget(std::list<Entry>::iterator entry);

  // Cursors stay below 2^63: some clients keep them as signed numbers.
  static constexpr int kNumberBits = 40;

  const uint64_t high_bits_;
  const size_t count_max_;
  const size_t per_client_max_;
  std::mutex mutex_;
  uint64_t next_number_ = 1;
  std::list<Entry> entries_;  // the one used last is the first
  absl::flat_hash_map<uint64_t, std::list<Entry>::iterator> by_cursor_;
  absl::flat_hash_map<uint64_t, std::deque<uint64_t>> by_client_;  // cursors, the oldest first
};

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_SCAN_CURSORS_H_
