// Every bound of the control plane's server. Reaching one is a RESOURCE_EXHAUSTED that names it.
#ifndef SKUA_CONTROL_SERVER_CONTROLLER_LIMITS_H_
#define SKUA_CONTROL_SERVER_CONTROLLER_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "rpc/base/clock.h"

namespace skua::control {

/// Requests waiting for the control thread that are neither heartbeats nor registrations, and how many of them run
/// before heartbeats have their turn again.
inline constexpr size_t kCommandsMax = 4096;
inline constexpr size_t kOthersPerRound = 64;
/// Registrations that wait for it: in all, of one host, and how many run in a round.
inline constexpr size_t kJoiningMax = 1024;
inline constexpr size_t kJoiningPerSourceMax = 256;
inline constexpr size_t kJoiningPerRound = 64;
/// How often heartbeats are heard that came while others were, before it is looked who is silent.
inline constexpr int kHearRoundsMax = 4;
/// Clients and nodes that watch the shard map: in all, and of one host unless --watches-per-host says otherwise.
inline constexpr size_t kWatchersMax = 4096;
inline constexpr size_t kWatchersPerSourceMax = 512;
/// How old the status may be that is shown though nothing of weight changed, and how many wait for a newer one. All of
/// them are answered at once, each with a copy of its own, which is up to a mebibyte in a cluster of kNodesMax nodes.
inline constexpr DurationNs kStatusAge = 100 * kMillisecond;
inline constexpr size_t kStatusWaitersMax = 128;
/// Shards in a status that are said to be out of service.
inline constexpr size_t kTroublesShownMax = 16;
/// Hints in a status.
inline constexpr size_t kHintsShownMax = 8;
/// Refusals that are logged (refusal_log.h). One in the same words is logged again only after this time; so many texts
/// within it for a source, and so many sources.
inline constexpr DurationNs kRefusalRepeatNs = 60 * kSecond;
inline constexpr size_t kRefusalsPerSource = 8;
inline constexpr size_t kRefusalSourcesMax = 64;
/// Of what such a line says: a refusal quotes what was asked for.
inline constexpr size_t kRefusalTextMax = 1024;
/// Transactions with changes of views that one tick may make.
inline constexpr int kViewChangesPerTickMax = 64;
/// CreateTable calls that wait for nodes.
inline constexpr size_t kReadyWaitersMax = 256;
/// The longest that CreateTable waits, whatever was asked for.
inline constexpr uint32_t kWaitReadyMsMax = 60'000;
/// Registrations that wait for what is found at their addresses: in all, and of one host.
inline constexpr size_t kClaimsMax = 256;
inline constexpr size_t kClaimsPerSourceMax = 64;
/// How long a node is waited for that is asked who it is. Shorter than NodeAgent waits for its registration.
inline constexpr DurationNs kProbeTimeout = 1500 * kMillisecond;
/// What it may answer, and how much of its excuse is shown.
inline constexpr int kProbeReplyMax = 1 << 20;
inline constexpr size_t kProbeTroubleMax = 200;
/// Attempts to join of one host in a minute, and hosts that are told apart. Certificates that one identity may have in
/// a minute, and identities that are told apart.
inline constexpr size_t kJoinsPerMinute = 60;
inline constexpr size_t kJoinSourcesMax = 1024;
inline constexpr size_t kRenewalsPerMinute = 30;
inline constexpr size_t kRenewalSourcesMax = 4096;
/// Connections that one network may begin at any gRPC port: a second, and at once; and networks that are told apart.
inline constexpr DurationNs kArrivalsPerSecond = 200;
inline constexpr DurationNs kArrivalsAtOnce = 2048;
inline constexpr size_t kArrivalSourcesMax = 4096;
/// Connections that have said nothing yet, at any gRPC port: how long, how many, and which part of the descriptors that
/// the port's door gives away. One network has half of that.
inline constexpr DurationNs kFirstByteNs = 5 * kSecond;
inline constexpr size_t kSilentMax = 4096;
inline constexpr size_t kSilentPart = 4;
/// The port of those who join: a message, open calls of a connection, a connection's age, memory of all.
inline constexpr int kJoinMessageMax = 16 * 1024;
inline constexpr size_t kJoinCallsPerConnectionMax = 4;
inline constexpr int kJoinConnectionAgeMs = 30'000;
inline constexpr size_t kJoinMemoryMax = 32 << 20;
/// Handshake offers in Bootstrap.
inline constexpr size_t kOfferMax = 64 * 1024;
/// Open calls of one connection, also watches; a caller keeps further ones back itself.
inline constexpr size_t kCallsPerConnectionMax = 128;
/// What gRPC holds at a port for all who are not strangers: connections, calls, and above all messages of which only a
/// part has come, each of which may be declared to be gigabytes.
inline constexpr size_t kGrpcMemoryMax = 128 << 20;
/// Threads that serve Bootstrap on a node: each may wait for a worker.
inline constexpr int kBootstrapThreadsMax = 32;

}  // namespace skua::control

#endif  // SKUA_CONTROL_SERVER_CONTROLLER_LIMITS_H_
