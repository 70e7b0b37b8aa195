// What several handlers of memcached's commands need: replies, failures of the store, times of expiry.
#ifndef SKUA_KVSTORE_GATEWAY_MEMCACHED_SUPPORT_H_
#define SKUA_KVSTORE_GATEWAY_MEMCACHED_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvstore/gateway/command_run.h"
#include "kvstore/gateway/memcached_meta.h"
#include "kvstore/gateway/store_request.h"

namespace skua::kv::gateway {

/// The version of memcached whose replies these are. Clients look at it to know what they may send.
inline constexpr std::string_view kMemcachedVersion = "1.6.18";

/// A longer value is no number, whatever stands in it: incr and decr keep the length of a value, and many that wait for
/// the store would hold much memory.
inline constexpr size_t kMemcachedNumberBytesMax = 4096;

/// The reply of one command. With noreply nothing is written.
class MemcachedReply {
 public:
  /// `run` must outlive the object.
  MemcachedReply(CommandRun& run, bool is_silent) : run_(run), is_silent_(is_silent) {}
  void line(std::string_view text) const;
  /// True: the store failed, and the client has been told.
  [[nodiscard]] bool failure(const StoreResult& result) const;
  /// The same, or the key holds a hash. `result`: of a GET with_mark.
  [[nodiscard]] bool failure_or_hash(const StoreResult& result) const;

 private:
  CommandRun& run_;
  bool is_silent_;
};

/// Clients of memcached do not see hashes of Redis's protocol: a hash becomes NOT_FOUND. `got`: of a GET with_mark.
void hide_hash(StoreResult& got);

/// The word is "noreply".
[[nodiscard]] bool is_noreply(std::string_view word);

/// What an exptime of memcached means now.
struct MemcachedExpiry {
  bool is_past = false;
  uint64_t ttl_ms = 0;  // 0: the key does not expire
};
/// `exptime`: 0 never; up to 30 days in seconds from now; more: seconds since 1970; below 0: at once.
[[nodiscard]] MemcachedExpiry memcached_expiry(int64_t exptime, int64_t now_ms);
/// The time to live that a key then has: 0 if it goes at once; nothing if it does not expire.
[[nodiscard]] std::optional<uint64_t> memcached_ttl_ms(const MemcachedExpiry& expiry);
/// Sets a value, or removes the key if it would have expired already.
[[nodiscard]] StoreRequest memcached_put(std::string_view key, std::string_view value, uint32_t tag,
                                         const MemcachedExpiry& expiry);
/// Sets the time to live, or removes the key if it is past.
[[nodiscard]] StoreRequest memcached_touch(std::string_view key, const MemcachedExpiry& expiry);
/// Seconds, -1: the key does not expire.
[[nodiscard]] int64_t ttl_seconds(std::optional<uint64_t> ttl_ms);

/// What a reply of a meta command tells of a key.
struct MetaFacts {
  std::string_view code;  ///< HD, EN, NF, ...
  /// Of the key; nothing: the reply has only flags that repeat the command's (k, O).
  const StoreResult* got = nullptr;
  std::optional<uint64_t> ttl_ms = {};
  std::optional<uint64_t> version = {};  ///< nothing: the reply has none
};
/// "HD c5 kkey Oabc", without the line's end.
[[nodiscard]] std::string meta_line(const MetaFacts& facts, const MetaFlags& flags, std::string_view key);
/// Replies with that line about the key of the command.
void reply_meta(CommandRun& run, const MetaFlags& flags, const MetaFacts& facts, bool is_silent);

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_MEMCACHED_SUPPORT_H_
