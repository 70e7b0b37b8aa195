// The control protocol's version, and how two sides agree on a version.
//
// Each side sends the range of versions that it speaks; the highest version in both ranges is used. Raise
// kProtocolVersions.max when a message changes its meaning, and .min when support for an old meaning is removed. A new
// optional field needs neither.
//
// The messages between replicas of a shard (kvstore/replication/message_codec.h) have a version of their own, one
// number:
//
//    node    says at registration which one it speaks     builds from before the number existed say nothing: 0
//    here    nodes below kReplicationVersionNeeded get no replica, and lead only if no other member can
//
// Raise kReplicationVersion when these messages, the entries in them, or the duties of a replica change so that an
// older build would misunderstand. An older build keeps the replicas that it has until people upgrade it. Raise
// kReplicationVersionNeeded, too, when nodes of older builds must not get new replicas.
//
//    version  what came with it
//    3        a node answers the question whether a session is its own
//    4        entries with marks (kvstore/types/record_mark.h)
//
// Entries with marks. A node below version 4 takes no entry that has a mark. An entry that is in the primary's log
// cannot be withdrawn, and it is committed only when all members have it. So one such entry would block all writes of
// the shard until the older member is upgraded or removed. Two rules prevent that:
//
//    - A primary makes no entry with a mark while the shard map says that a member or a learner of its view is below
//      version 4. The write is answered UNIMPLEMENTED, and the answer names the node. Writes without marks go on.
//    - The control plane gives no replica to a node below version 4.
//
// The second rule keeps the first one short: an upgraded cluster does not get older members again. A learner counts in
// the first rule, because during its join the primary commits nothing without the learner. A node that the shard map
// does not name does not count: the primary has no link to that node, and a new learner joins only after it has taken
// all entries.
//
// A member that goes back to a build below version 4, while an entry with a mark is on the way to it, cannot take that
// entry. The rules do not cover this: nodes do not go back once tables have records with marks.
#ifndef SKUA_CONTROL_CORE_PROTOCOL_VERSION_H_
#define SKUA_CONTROL_CORE_PROTOCOL_VERSION_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace skua::control {

/// The versions that a peer speaks, both ends included.
struct VersionRange {
  uint32_t min = 1;
  uint32_t max = 1;

  friend bool operator==(const VersionRange&, const VersionRange&) = default;
};

/// The versions that this build speaks.
inline constexpr VersionRange kProtocolVersions{1, 1};

/// The version of the messages between replicas; see the head of this file.
inline constexpr uint32_t kReplicationVersion = 4;
inline constexpr uint32_t kReplicationVersionNeeded = 4;
/// From this version on a node answers the question whether a session is its own (kvstore/peers/peer_proofs.h).
inline constexpr uint32_t kReplicationVersionVouches = 3;
/// From this version on a node takes entries with marks (kvstore/types/record_mark.h).
inline constexpr uint32_t kReplicationVersionMarks = 4;

/// The version to use between `a` and `b`; nothing if the ranges have no version in common or one is malformed.
[[nodiscard]] inline std::optional<uint32_t> negotiate(VersionRange a, VersionRange b) {
  const uint32_t low = std::max(a.min, b.min);
  const uint32_t high = std::min(a.max, b.max);
  if (a.min > a.max || b.min > b.max || low > high || high == 0) return std::nullopt;
  return high;
}

}  // namespace skua::control

#endif  // SKUA_CONTROL_CORE_PROTOCOL_VERSION_H_
