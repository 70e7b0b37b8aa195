#include "kvstore/node/node_recovery.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/codec/text.h"
#include "kvstore/log/posix_device.h"
#include "kvstore/node/shard_plan.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/shard_files.h"

namespace skua::kv {

/// Counts this start in the state file. Must come before any other node hears of the new incarnation.
absl::Status NodeRecovery::count_start() {
  auto state = read_state(files_);
  if (!state.ok()) return state.status();
  state_ = *state;
  ++state_.incarnation;
  while (true) {
    absl::Status written = write_state(files_, state_);
    if (absl::IsResourceExhausted(written) && give_up_all_spares() > 0) {
      written = write_state(files_, state_);
    }
    if (!absl::IsResourceExhausted(written) || !options_.wait_for_room || !options_.wait_for_room(written)) {
      return written;
    }
  }
}

/// Removes the spare files of all logs. No log may be open. Afterwards logs are opened without new spares, and keep few
/// of the segments that recovery frees: the recovery of the next log and the databases need the room. Returns the
/// number of files removed. Files that cannot be removed stay.
size_t NodeRecovery::give_up_all_spares() {
  size_t removed = 0;
  std::error_code error;
  const std::string parent = options_.data_dir + "/log";
  for (std::filesystem::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    auto device = open_posix_device(it->path().string(), {});
    if (!device.ok()) continue;
    removed += give_up_spares(**device).value_or(0);
  }
  if (removed == 0) return removed;
  spares_given_up_ = true;
  log(LogSeverity::kWarning, absl::StrCat("the disk is full: gave up ", counted(removed, "spare file"),
                                          " of the logs, to make room for the start"));
  return removed;
}

absl::Status NodeRecovery::prepare() {
  if (absl::Status counted = count_start(); !counted.ok()) return counted;
  const std::string shards = files::shards_dir(options_.data_dir);
  std::error_code error;
  std::filesystem::create_directories(shards, error);
  if (error) return absl::InternalError(absl::StrCat("creating ", shards, ": ", error.message()));
  return files::remove_leftovers(shards);
}

/// Applies the content of the logs to the databases. This includes logs of workers that this start does not have
/// (--workers was larger).
absl::Status NodeRecovery::recover_logs(const std::string& cluster_id, RocksdbEngine& engine, Recovered& out) {
  // A log that is made anew would hide what is gone with the old one.
  if (absl::Status missing = files::check_no_log_is_missing(options_.data_dir); !missing.ok()) return missing;
  const std::string parent = files::logs_dir(options_.data_dir);
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) return absl::InternalError(absl::StrCat("creating ", parent, ": ", error.message()));
  const auto exists = [&](uint32_t i) { return std::filesystem::exists(files::log_dir(options_.data_dir, i), error); };
  std::vector<ScannedLog> scanned;
  std::set<ShardId> named;
  for (uint32_t i = 0; i < options_.workers || exists(i); ++i) {
    auto log = scan_one(i, cluster_id, out.views);
    if (!log.ok()) return log.status();
    for (const ShardPosition& position : log->recovery->shards()) named.insert(shard_id_of(position.shard));
    scanned.push_back(*std::move(log));
  }
  // Damaged logs come first: recovery ends what the sound logs name, and only the names say that the damage does not
  // concern these shards. If the node ends in between, its next start knows them still.
  out.logs.resize(scanned.size());
  for (const bool damaged : {true, false}) {
    for (uint32_t i = 0; i < scanned.size(); ++i) {
      if (scanned[i].recovery == nullptr || scanned[i].recovery->damages().empty() == damaged) continue;
      scanned[i].options.named_elsewhere = named;
      auto log = recover_one(i, std::move(scanned[i]), engine, out);
      if (!log.ok()) return log.status();
      out.logs[i] = *std::move(log);
    }
  }
  for (; out.logs.size() > options_.workers; out.logs.pop_back()) {
    if (absl::Status closed = out.logs.back().log->close(); !closed.ok()) return closed;
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeRecovery::ScannedLog> NodeRecovery::scan_one(uint32_t number, const std::string& cluster_id,
                                                                const ShardViews& views) {
  const auto node = parse_uuid(options_.node_uuid);
  if (!node.ok()) return node.status();
  const auto cluster = parse_uuid(cluster_id);
  if (!cluster.ok()) return cluster.status();
  auto device = open_posix_device(files::log_dir(options_.data_dir, number), {.io = options_.log_io});
  if (!device.ok()) return device.status();
  RecoveryOptions recovery{.log = options_.log_files,
                           .shards_dir = files::shards_dir(options_.data_dir),
                           .made = made_databases(views, self())};
  // The memory of the workers is not in use yet, so recovery may have it. It gets half, because segments behind the
  // chunk are read at the same time.
  recovery.chunk_bytes = std::min(recovery.chunk_bytes, options_.memory_bytes / 2);
  recovery.log.identity.log_number = number;
  if (spares_given_up_) {
    recovery.log.spares_at_open = 0;
    recovery.log.spares_max = recovery.log.reserve_segments + 1;  // one for a log that goes on
  }
  std::memcpy(recovery.log.identity.node_id.data(), node->bytes.data(), recovery.log.identity.node_id.size());
  std::memcpy(recovery.log.identity.cluster_id.data(), cluster->bytes.data(), recovery.log.identity.cluster_id.size());
  recovery.tell = [this, number](const std::string& line) {
    log(LogSeverity::kInfo, absl::StrCat("worker=", number, " ", line));
  };
  const TimeNs started = clock_.now_ns();
  auto scanned = scan_log(**device, recovery);
  if (!scanned.ok()) return scanned.status();
  tell_findings(number, **scanned);
  return ScannedLog{*std::move(device), std::move(recovery), *std::move(scanned), clock_.now_ns() - started};
}

void NodeRecovery::tell_findings(uint32_t number, const LogRecovery& recovery) const {
  const LogTail& tail = recovery.tail();
  if (tail.torn) {
    log(LogSeverity::kInfo, absl::StrCat("worker=", number, " log ends torn file=", tail.path, " offset=", tail.offset,
                                         " groups_cut=", tail.groups_cut));
  }
  for (const LogDamage& damage : recovery.damages()) {
    log(LogSeverity::kError,
        absl::StrCat("worker=", number, " log damaged file=", damage.path, " offset=", damage.offset));
  }
}

absl::StatusOr<OpenLog> NodeRecovery::recover_one(uint32_t number, ScannedLog scanned, RocksdbEngine& engine,
                                                  Recovered& out) {
  const TimeNs started = clock_.now_ns() - scanned.took;
  auto recovered = recover_log(*scanned.device, scanned.options, engine, std::move(scanned.recovery));
  if (!recovered.ok()) return recovered.status();
  log(LogSeverity::kInfo,
      absl::StrCat("log recovered worker=", number, " records=", recovered->records_replayed,
                   " refused_shards=", recovered->refused.size(), " ms=", (clock_.now_ns() - started) / kMillisecond));
  for (const auto& [id, why] : recovered->refused) {
    if (absl::IsResourceExhausted(why)) {
      return absl::ResourceExhaustedError(absl::StrCat("what the log holds of shard ", id.table_id, "-", id.shard,
                                                       " finds no room in its database: ", why.message()));
    }
    log(LogSeverity::kError, absl::StrCat("shard is refused shard=", id.table_id, "-", id.shard, ": ", why.ToString()));
    out.refused[id] = why;
  }
  return OpenLog{std::move(scanned.device), std::move(recovered->log)};
}

/// Recovers logs, copies and views. RESOURCE_EXHAUSTED: the disk has too little room even without the logs' spare
/// files. May be called again.
absl::StatusOr<Recovered> NodeRecovery::recover(const std::string& cluster_id, RocksdbEngine& engine,
                                                NodeCopies& copies) {
  auto recovered = try_to_recover(cluster_id, engine, copies);
  if (!absl::IsResourceExhausted(recovered.status()) || give_up_all_spares() == 0) return recovered;
  return try_to_recover(cluster_id, engine, copies);
}

absl::StatusOr<Recovered> NodeRecovery::try_to_recover(const std::string& cluster_id, RocksdbEngine& engine,
                                                       NodeCopies& copies) {
  std::map<ShardId, absl::Status> unfinished;
  if (absl::Status started = copies.start(cluster_id, state_, unfinished); !started.ok()) return started;
  auto views = read_views(files_);
  if (!views.ok()) return views.status();
  Recovered out{.logs = {}, .refused = {}, .views = *std::move(views)};
  if (absl::Status recovered = recover_logs(cluster_id, engine, out); !recovered.ok()) return recovered;
  if (absl::Status read = read_unsynced(out.views); !read.ok()) return read;
  if (absl::Status disowned = disown_damaged(out); !disowned.ok()) return disowned;
  // Only now: a copy that is not finished is no damage.
  unfinished.merge(out.refused);
  out.refused = std::move(unfinished);
  return out;
}

absl::Status NodeRecovery::read_unsynced(const ShardViews& views) {
  const auto boot = boot_number();
  if (!boot.ok()) return boot.status();
  auto unsynced = UnsyncedShards::read(files_, *boot);
  if (!unsynced.ok()) return unsynced.status();
  unsynced_ = *std::move(unsynced);
  size_t doubtful = 0;
  for (const auto& [id, view] : views) doubtful += unsynced_->doubt(id) != 0 ? 1 : 0;
  if (doubtful == 0) return absl::OkStatus();
  log(LogSeverity::kWarning,
      absl::StrCat("the machine was started anew without an orderly stop of the node: ", counted(doubtful, "replica"),
                   " may lack writes of durability flush, and can lead a shard only after others have sent these"));
  return absl::OkStatus();
}

/// The damaged data stay until the map makes the replica a learner (ShardLifecycle).
absl::Status NodeRecovery::disown_damaged(const Recovered& recovered) {
  if (!must_learn_again(recovered.views, recovered.refused, self())) return absl::OkStatus();
  NodeState next = state_;
  ++next.storage_incarnation;
  if (absl::Status written = write_state(files_, next); !written.ok()) return written;
  state_ = next;
  log(LogSeverity::kWarning,
      absl::StrCat("replicas here are damaged: the node learns again what it had, storage_incarnation=",
                   state_.storage_incarnation));
  return absl::OkStatus();
}

}  // namespace skua::kv
