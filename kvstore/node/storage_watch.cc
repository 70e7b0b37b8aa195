#include "kvstore/node/storage_watch.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kvstore/types/machine_clock.h"

namespace skua::kv {
namespace {

constexpr DurationNs kStorageInterval = 200 * kMillisecond;
/// A shard leaves its worker faster than this unless something holds it up.
constexpr uint64_t kLeavingMsMax = 10'000;
/// Shards of one worker that a text names. It gives only the number of the others.
constexpr size_t kTroubledShownMax = 3;

constexpr const char* kDamagedWayOut =
    "; stop the node, see what is damaged with `skuactl store verify`, and restore the shard from a backup, or drop "
    "its "
    "table. A replica is learnt again from others by itself";

/// Advice for a shard that cannot be opened.
const char* way_out(const UnservedShard& shard) {
  if (absl::IsResourceExhausted(shard.why)) {
    // EMFILE and ENFILE, as the system or RocksDB words them.
    if (absl::StrContains(shard.why.message(), "oo many open files")) {
      return "; raise the limit of open files (ulimit -n 65536; systemd: LimitNOFILE=65536), or close connections: it "
             "is tried again "
             "every 5 s";
    }
    return "; free space on the disk: it is tried again every 5 s";
  }
  if (absl::IsDataLoss(shard.why)) return kDamagedWayOut;
  return shard.tried_again ? "; it is tried again every 5 s" : "; mend that, then start the node again";
}

}  // namespace

std::string slow_to_leave(const std::vector<LeavingShard>& leaving, uint64_t now_ms) {
  std::string all;
  for (const LeavingShard& shard : leaving) {
    if (now_ms < shard.since_ms + kLeavingMsMax) continue;
    absl::StrAppend(&all, all.empty() ? "" : "; ", "shard ", shard.id.table_id, "-", shard.id.shard,
                    " has been leaving for ", (now_ms - shard.since_ms) / 1000, " s: ", shard.waits_for);
  }
  return all;
}

std::string refused_by_peers(const std::vector<std::string>& refusals) {
  if (refusals.empty()) return "";
  std::string all = refusals.front();
  if (refusals.size() > 1) absl::StrAppend(&all, "; so do ", refusals.size() - 1, " more workers");
  absl::StrAppend(
      &all,
      "; shards go on without that replica while others suffice, and wait for it otherwise. Start that node with "
      "as much memory as the others (--memory, --message-memory, --log-segment), and with the same version");
  return all;
}

std::string troubled_databases(const std::vector<TroubledShard>& troubled) {
  std::string all;
  for (size_t i = 0; i < troubled.size(); ++i) {
    absl::StrAppend(&all, all.empty() ? "" : "; ");
    if (i == kTroubledShownMax) {
      absl::StrAppend(&all, "so do ", troubled.size() - i, " more shards");
      break;
    }
    const TroubledShard& shard = troubled[i];
    absl::StrAppend(&all, "shard ", shard.id.table_id, "-", shard.id.shard);
    if (absl::IsDataLoss(shard.failure)) {
      absl::StrAppend(&all, " is not served here: ", shard.failure.message(), kDamagedWayOut);
    } else if (!shard.failure.ok()) {
      absl::StrAppend(&all, " refuses writes: ", shard.failure.message(),
                      "; look at the disk, then start the node again. What was acknowledged is kept");
    } else {
      absl::StrAppend(
          &all, " cannot bring writes to its database: ", shard.held_up.message(),
          "; it is tried again by itself, and refuses writes when memory or the log is full. Free space on the disk");
    }
  }
  return all;
}

std::string unserved_shards(const std::map<ShardId, UnservedShard>& unserved) {
  std::string all;
  size_t shown = 0;
  for (const auto& [id, shard] : unserved) {
    absl::StrAppend(&all, all.empty() ? "" : "; ");
    if (shown++ == kTroubledShownMax) {
      absl::StrAppend(&all, "nor are ", unserved.size() - kTroubledShownMax, " more shards");
      break;
    }
    absl::StrAppend(&all, "shard ", id.table_id, "-", id.shard, " is not served here: ", shard.why.message());
    absl::StrAppend(&all, way_out(shard));
  }
  return all;
}

std::optional<absl::Status> GrowthGate::look(uint64_t free_bytes) {
  const bool closes = free_bytes < (closed_ ? reserve_bytes_ + reserve_bytes_ / 8 : reserve_bytes_);
  if (closes == std::exchange(closed_, closes)) return std::nullopt;
  if (!closes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the disk is full: the file system of ", directory_, " has ", free_bytes >> 20, " MiB free, and the node keeps ",
      reserve_bytes_ >> 20,
      " MiB (--disk-reserve) for its own work. Reads and deletes go on; free space there, or add some, and "
      "writes are taken again by themselves"));
}

absl::StatusOr<std::filesystem::space_info> disk_space_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("statvfs ", path));
  return space;
}

StorageWatch::StorageWatch(Options options, std::vector<Worker*> workers)
    : options_(std::move(options)),
      workers_(std::move(workers)),
      gate_(options_.data_dir, options_.reserve_bytes),
      seen_(workers_.size()),
      others_(options_.others.size()) {
  look();
  const auto look_and_tell = [this] {
    look();
    if (options_.on_look) options_.on_look(trouble(), unserved_);
  };
  thread_.emplace(
      TaskThread::Options{.name = "storage-watch", .at_intervals = look_and_tell, .interval_ns = kStorageInterval});
}

void StorageWatch::look() {
  const auto space = disk_space_of(options_.data_dir);
  if (const auto growth = space.ok() ? gate_.look(space->available) : std::nullopt) {
    for (Worker* worker : workers_) worker->post([now = *growth](ShardServer& server) { server.set_growth(now); });
    growth_ = *growth;
    options_.log(growth->ok() ? LogSeverity::kInfo : LogSeverity::kError,
                 growth->ok() ? "the disk has room again; writes are taken" : std::string(growth->message()));
  }
  for (size_t i = 0; i < others_.size(); ++i) note(others_[i], options_.others[i]());
  if (options_.unserved) unserved_ = options_.unserved();
  const uint64_t now_ms = MachineClock::system().unix_ms();
  for (size_t i = 0; i < workers_.size(); ++i) look_at(*workers_[i], seen_[i], now_ms);
}

void StorageWatch::look_at(Worker& worker, Seen& seen, uint64_t now_ms) const {
  const auto stats = worker.stats();
  note(seen.silent, std::string(stats.status().message()));
  if (!stats.ok()) return;
  seen.slow_leavers = slow_to_leave(stats->leaving, now_ms);
  note(seen.refusals, refused_by_peers(stats->refusals));
  look_at_databases(worker.index(), seen, stats->troubled);
  if (!seen.log_failure.empty() || stats->storage.log_health.ok()) return;
  note(seen.log_failure, absl::StrCat("log failed worker=", worker.index(), ": ", stats->storage.log_health.message(),
                                      "; the worker's shards refuse writes until the node is started again. What was "
                                      "acknowledged is kept; look at the disk first"));
}

/// Logs shards that are newly in trouble, not each failed attempt.
void StorageWatch::look_at_databases(uint32_t worker, Seen& seen, const std::vector<TroubledShard>& troubled) const {
  seen.databases = troubled_databases(troubled);
  std::set<ShardId> held_up;
  std::set<ShardId> failed;
  bool is_news = false;
  for (const TroubledShard& shard : troubled) {
    const bool for_good = !shard.failure.ok();
    (for_good ? failed : held_up).insert(shard.id);
    is_news = is_news || !(for_good ? seen.failed : seen.held_up).contains(shard.id);
  }
  if (is_news) options_.log(LogSeverity::kError, seen.databases);
  if (held_up.empty() && !seen.held_up.empty()) {
    options_.log(LogSeverity::kInfo, absl::StrCat("databases of worker ", worker, " take writes again"));
    seen.held_up.clear();
  }
  seen.held_up.merge(held_up);  // a shard whose trouble comes and goes is logged once
  seen.failed = std::move(failed);
}

void StorageWatch::note(std::string& text, std::string now) const {
  const std::string before = std::exchange(text, std::move(now));
  if (before.empty() && !text.empty()) options_.log(LogSeverity::kError, text);
}

std::string StorageWatch::trouble() const {
  std::string all(growth_.message());
  if (!unserved_.empty()) absl::StrAppend(&all, all.empty() ? "" : "; ", unserved_shards(unserved_));
  const auto add = [&all](const std::string& one) {
    if (!one.empty()) absl::StrAppend(&all, all.empty() ? "" : "; ", one);
  };
  std::ranges::for_each(others_, add);
  for (const auto text : {&Seen::silent, &Seen::log_failure, &Seen::databases, &Seen::slow_leavers, &Seen::refusals}) {
    std::ranges::for_each(seen_, add, text);
  }
  return all;
}

}  // namespace skua::kv
