// The control protocol's version, and how two sides agree on one.
//
// Each side sends the range it speaks; the highest version in both ranges is used. Raise
// kProtocolVersions.max when a message changes its meaning, raise .min when support for an old
// meaning is removed. A new optional field needs neither.
//
// What replicas of a shard say to each other (kvstore/replication/message_codec.h) has a version of its own, one number:
//
//    node    says at registration which it speaks      a build from before there was a number says nothing: 0
//    here    nodes below kReplicationVersionNeeded get no replica, and lead only if no other member can
//
// Raise kReplicationVersion when those messages, the entries in them, or what a replica must do changes so that an older build would
// misunderstand; such a build keeps the replicas that it has until people upgrade it. kReplicationVersionNeeded follows when
// no node of the older kind is to hold new ones.
#ifndef SKUA_CONTROL_CORE_PROTOCOL_VERSION_H_
#define SKUA_CONTROL_CORE_PROTOCOL_VERSION_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace skua::control {

/// Versions that a peer speaks, both ends included.
struct VersionRange {
  uint32_t min = 1;
  uint32_t max = 1;

  friend bool operator==(const VersionRange&, const VersionRange&) = default;
};

/// What this build speaks.
inline constexpr VersionRange kProtocolVersions{1, 1};

/// Of replicas; see the head of this file.
inline constexpr uint32_t kReplicationVersion = 3;
inline constexpr uint32_t kReplicationVersionNeeded = 3;

/// The version to use between `a` and `b`, or nothing when the ranges do not meet (or one is
/// malformed).
[[nodiscard]] inline std::optional<uint32_t> negotiate(VersionRange a, VersionRange b) {
  const uint32_t low = std::max(a.min, b.min);
  const uint32_t high = std::min(a.max, b.max);
  if (a.min > a.max || b.min > b.max || low > high || high == 0) return std::nullopt;
  return high;
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_PROTOCOL_VERSION_H_
