#include "tests/kvstore/replication/sim_kernel.h"

namespace skua::kv::sim {

const char* probe_name(Probe probe) {
  switch (probe) {
    case Probe::kKill: return "kill";
    case Probe::kPowerCut: return "power-cut";
    case Probe::kDiskReplaced: return "disk-replaced";
    case Probe::kNewIncarnation: return "new-incarnation";
    case Probe::kPause: return "pause";
    case Probe::kPartition: return "partition";
    case Probe::kOneWayPartition: return "one-way-partition";
    case Probe::kClog: return "clog";
    case Probe::kDiskStall: return "disk-stall";
    case Probe::kDiskHang: return "disk-hang";
    case Probe::kLogRefused: return "log-refused";
    case Probe::kManagerCrash: return "manager-crash";
    case Probe::kStoreDown: return "store-down";
    case Probe::kCasUnknown: return "cas-unknown";
    case Probe::kCasConflict: return "cas-conflict";
    case Probe::kFailover: return "failover";
    case Probe::kTransfer: return "transfer";
    case Probe::kCoup: return "coup";
    case Probe::kSeeSaw: return "see-saw";
    case Probe::kMemberRemoved: return "member-removed";
    case Probe::kSlowMemberRemoved: return "slow-member-removed";
    case Probe::kLearnerAdded: return "learner-added";
    case Probe::kJoinStarted: return "join-started";
    case Probe::kJoinAborted: return "join-aborted";
    case Probe::kJoined: return "joined";
    case Probe::kEpochRenewed: return "epoch-renewed";
    case Probe::kSnapshotInstalled: return "snapshot-installed";
    case Probe::kSnapshotKeptLog: return "snapshot-kept-log";
    case Probe::kSnapshotTooOld: return "snapshot-too-old";
    case Probe::kTruncated: return "truncated";
    case Probe::kTornTail: return "torn-tail";
    case Probe::kLeaseRead: return "lease-read";
    case Probe::kConfirmedRead: return "confirmed-read";
    case Probe::kBackupRead: return "backup-read";
    case Probe::kDirtyBackupRead: return "dirty-backup-read";
    case Probe::kReadOverTaken: return "read-overtaken";
    case Probe::kDedupHit: return "dedup-hit";
    case Probe::kDedupAttached: return "dedup-attached";
    case Probe::kStaleRequest: return "stale-request";
    case Probe::kCasFailedOp: return "condition-failed";
    case Probe::kAbandoned: return "abandoned";
    case Probe::kFalseSuspicion: return "false-suspicion";
    case Probe::kLeaderChanged: return "leader-changed";
    case Probe::kLeaderDeposed: return "leader-deposed";
    case Probe::kControlPause: return "control-pause";
    case Probe::kSyncFailed: return "sync-failed";
    case Probe::kPowerCutInWrite: return "power-cut-in-write";
    case Probe::kBitRot: return "bit-rot";
    case Probe::kShardRefused: return "shard-refused";
    case Probe::kShardLearntAgain: return "shard-learnt-again";
    case Probe::kForked: return "forked";
    case Probe::kForkGivenUp: return "fork-given-up";
    case Probe::kDoubt: return "doubt";
    case Probe::kRestored: return "restored";
    case Probe::kLongestLog: return "longest-log";
    case Probe::kDrained: return "drained";
    case Probe::kMoved: return "moved";
    case Probe::kClockStep: return "clock-step";
    case Probe::kReadFromDisk: return "read-from-disk";
    case Probe::kStartFailed: return "start-failed";
    case Probe::kLeft: return "left";
    case Probe::kCount: break;
  }
  return "?";
}

}  // namespace skua::kv::sim
