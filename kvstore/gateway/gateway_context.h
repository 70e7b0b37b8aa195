// GatewayContext: what the connections of one thread have in common.
#ifndef SKUA_KVSTORE_GATEWAY_GATEWAY_CONTEXT_H_
#define SKUA_KVSTORE_GATEWAY_GATEWAY_CONTEXT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/gateway/client_users.h"
#include "kvstore/gateway/frame_pool.h"
#include "kvstore/gateway/reply_bytes.h"
#include "kvstore/gateway/scan_cursors.h"

namespace skua::kv::gateway {

/// Tells the operator of something: what, about whom (a client's address, a file), and details. is_trouble: something
/// is wrong.
using ReportFn =
    std::function<void(bool is_trouble, std::string_view what, std::string_view about, std::string_view details)>;

/// What clients of memcached's protocol have asked for.
struct MemcachedCounters {
  std::atomic<uint64_t> gets{0};  // keys
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> sets{0};
  std::atomic<uint64_t> touches{0};
};

/// What is chosen for a gateway, and what its connections know as well.
struct GatewaySettings {
  std::string skua_version{};
  uint32_t threads = 1;
  /// Of all threads together. Further connections get an error of their protocol.
  uint64_t connections_max = 10'000;
  /// How long clients may take to authenticate, where there are users.
  std::chrono::milliseconds authentication_timeout{60'000};
  /// Numbers, as of SELECT, and names of tables. At least one.
  std::map<uint32_t, std::string> databases{};
  /// FLUSHALL, FLUSHDB and memcached's flush_all are carried out: clients may remove all keys of a table.
  bool allows_flush = false;
  /// What the operator should hear of. Called on any thread. May be none.
  ReportFn report{};
};

/// What the gateway is, the same for all its threads. Immutable after the start, but for the counters and the cursors,
/// which any thread may use.
struct GatewayIdentity : GatewaySettings {
  /// 40 hexadecimal digits, different for each start.
  std::string run_id;
  /// Where clients of Redis's protocol connect; 0: nowhere.
  uint16_t port = 0;
  int64_t started_ms = 0;
  std::unique_ptr<ScanCursors> cursors;
  std::atomic<uint64_t> connections_now{0};
  std::atomic<uint64_t> connections_received{0};
  std::atomic<uint64_t> connections_refused{0};
  std::atomic<uint64_t> commands{0};
  std::atomic<uint64_t> next_client_id{1};
  /// Clients that said a wrong password, or a name that no user has.
  std::atomic<uint64_t> authentication_failures{0};
  /// Commands that were refused: the client had not authenticated, or its user had no right.
  std::atomic<uint64_t> commands_denied{0};
  /// TLS was not agreed upon with a client: no or a bad certificate, other bytes than TLS's, or nothing in time.
  std::atomic<uint64_t> tls_failures{0};
  /// Connections that were closed because their client did not authenticate in time.
  std::atomic<uint64_t> authentication_timeouts{0};
  MemcachedCounters memcached;
};

class CommandRun;

inline constexpr size_t kHeldBytesMax = size_t{1} << 30;
inline constexpr size_t kWorkingValueBytesMax = size_t{512} << 20;

/// Thread: one. Must outlive its connections.
struct GatewayContext {
  explicit GatewayContext(GatewayIdentity& identity_arg);
  ~GatewayContext();

  GatewayIdentity& identity;
  /// Null: there is no users file, and whoever connects may do everything. A gateway that started
  /// without a users file never gets one.
  std::shared_ptr<const UserTable> users;
  FramePool frames;
  /// For further commands. At most kSpareRunsMax.
  std::vector<std::unique_ptr<CommandRun>> spare_runs;
  PinnedTotal pinned;
  /// Commands that have no reply yet and replies that clients have not taken, of all connections. Beyond the limit a
  /// connection is read only while it has neither: the pipelines of some must not take the memory that all need.
  size_t held_bytes = 0;
  size_t held_bytes_max = kHeldBytesMax;
  /// Values that commands have got from the store and still work with, of all connections. Beyond the limit, commands
  /// that need several values get TRYAGAIN: many clients with one such command each must not take all memory.
  size_t working_value_bytes = 0;
  size_t working_value_bytes_max = kWorkingValueBytesMax;
};
inline constexpr size_t kSpareRunsMax = 1024;

}  // namespace skua::kv::gateway

#endif  // SKUA_KVSTORE_GATEWAY_GATEWAY_CONTEXT_H_
