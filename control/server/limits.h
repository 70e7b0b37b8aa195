// Every bound of the control plane's server. Reaching one is a RESOURCE_EXHAUSTED that names it.
#ifndef SKUA_CONTROL_SERVER_LIMITS_H_
#define SKUA_CONTROL_SERVER_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace skua::control {

/// Requests waiting for the control thread.
inline constexpr size_t kCommandsMax = 4096;
/// Clients and nodes that watch the shard map.
inline constexpr size_t kWatchersMax = 4096;
/// Shards in a status that are said to be out of service.
inline constexpr size_t kTroublesShownMax = 16;
/// Transactions with changes of views that one tick may make.
inline constexpr int kViewChangesPerTickMax = 64;
/// CreateTable calls that wait for nodes.
inline constexpr size_t kReadyWaitersMax = 256;
/// The longest that CreateTable waits, whatever was asked for.
inline constexpr uint32_t kWaitReadyMsMax = 60'000;
/// Handshake offers in Bootstrap.
inline constexpr size_t kOfferMax = 64 * 1024;
/// Threads that serve Bootstrap on a node: each may wait for a worker.
inline constexpr int kBootstrapThreadsMax = 32;

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_LIMITS_H_
