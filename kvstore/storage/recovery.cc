#include "kvstore/storage/recovery.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kvstore/log/segment.h"
#include "kvstore/storage/effect_batch.h"
#include "kvstore/storage/replica_tail.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

constexpr unsigned kThreadsMax = 8;
constexpr uint64_t kProgressBytes = uint64_t{512} << 20;

/// Above every index, and far from an overflow.
constexpr uint64_t kUnknown = uint64_t{1} << 62;

/// Tells how far long work is.
class Teller {
 public:
  explicit Teller(const RecoveryOptions& options) : options_(options) {}
  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }
  void tell(const char* what, const LogProgress& progress) {
    if (progress.bytes_done < told_bytes_) told_bytes_ = 0;
    if (progress.bytes_done - told_bytes_ < kProgressBytes) return;
    told_bytes_ = progress.bytes_done;
    tell(absl::StrCat("log ", what, " ", progress.bytes_done >> 20, " of ", progress.bytes_total >> 20, " MiB"));
  }

 private:
  const RecoveryOptions& options_;
  uint64_t told_bytes_ = 0;
};

struct ShardState {
  LogShard log_shard = 0;
  std::unique_ptr<ShardDb> db;  // null: missing, or refused
  absl::Status refused{};
  uint64_t last_index = 0;   // of the last record that the database has, or that was taken
  uint64_t replay_from = 0;  // the log's records above this index
  uint64_t held = kUnknown;  // the database has, or may have, records up to this index
  EffectBatch batch;         // its effects are views into held_
  ReplicaTail tail;          // for a replicated shard
};

class Recovery {
 public:
  Recovery(Device& device, const RecoveryOptions& options, RocksdbEngine& engine, std::unique_ptr<LogRecovery> scanned)
      : device_(device), options_(options), engine_(engine), teller_(options), recovery_(std::move(scanned)) {}

  absl::StatusOr<RecoveredLog> run() {
    for (const ShardPosition& position : recovery_->shards()) open(position.shard);
    if (absl::Status looked = open_unnamed(); !looked.ok()) return looked;
    if (absl::Status replayed = replay(); !replayed.ok()) return replayed;
    side_by_side([](ShardState& shard) { finish(shard); });
    return reopen();
  }

 private:
  /// Opens the databases of shards that the damage may have concerned though the log does not name them. They will be
  /// refused, whatever the databases have.
  absl::Status open_unnamed() {
    if (recovery_->damages().empty()) return absl::OkStatus();
    const auto on_disk = engine_.list_shards(options_.shards_dir);
    if (!on_disk.ok()) return on_disk.status();
    std::set<ShardId> named = options_.named_elsewhere;
    for (const auto& shard : shards_) named.insert(shard_id_of(shard->log_shard));
    for (const ShardId id : *on_disk) {
      if (!named.contains(id) && recovery_->may_lack_newest(log_shard_of(id))) open(log_shard_of(id));
    }
    return absl::OkStatus();
  }

  void open(LogShard log_shard) {
    ShardState& shard = *shards_.emplace_back(std::make_unique<ShardState>());
    shard.log_shard = log_shard;
    shard.refused = open_database(shard);
  }

  /// An error: the shard is refused. OK without a database: the shard was dropped.
  absl::Status open_database(ShardState& shard) const {
    const ShardId id = shard_id_of(shard.log_shard);
    auto db = engine_.open_db(options_.shards_dir, id, RocksdbEngine::IfMissing::kFail);
    if (absl::IsNotFound(db.status()) && options_.made.contains(id)) {
      return files::missing_database(options_.shards_dir, id);
    }
    if (absl::IsNotFound(db.status())) {
      teller_.tell(
          absl::StrCat("log has records of shard ", id.table_id, "-", id.shard, ", which has no data here: dropped"));
      return absl::OkStatus();
    }
    if (!db.ok()) return db.status();
    shard.replay_from = shard.last_index = (*db)->applied_index();
    const std::vector<InternalRow> rows = (*db)->take_internal_rows();
    if (absl::Status loaded = shard.tail.load(rows, shard.last_index); !loaded.ok()) return loaded;
    shard.held = std::max(shard.last_index, shard.tail.last_index());
    // The log need not have the records of entries that are in rows: it may begin behind these entries, or, after a
    // truncation, among them. So rows may stand in for records of the log, but not if the log is damaged there: the
    // missing records may have replaced some of the rows.
    const auto status = [&] { return recovery_->status({shard.log_shard, shard.replay_from}); };
    const bool rows_count = !recovery_->may_lack_records(shard.log_shard);
    while (rows_count && shard.replay_from < shard.tail.last_index() && !status().ok()) ++shard.replay_from;
    if (absl::Status joined = status(); !joined.ok()) return joined;
    shard.batch.set_limits(options_.completions);
    if (absl::Status loaded = shard.batch.load(rows); !loaded.ok()) return loaded;
    shard.db = *std::move(db);
    return absl::OkStatus();
  }

  absl::Status replay() {
    std::vector<AppliedIndex> applied;
    for (const auto& shard : shards_) {
      if (shard->db == nullptr) continue;
      applied.push_back({shard->log_shard, shard->replay_from});
      by_log_shard_[shard->log_shard] = shard.get();
    }
    if (applied.empty()) return absl::OkStatus();
    absl::Status status = recovery_->replay(
        applied, [this](const RecordView& record) { take(record); },
        [this](const LogProgress& progress) { teller_.tell("replayed", progress); },
        [this](SegmentBytes segment) { hold(std::move(segment)); });
    apply_chunk();
    return status;
  }

  void take(const RecordView& record) {
    ShardState& shard = *by_log_shard_.find(record.header.shard)->second;
    if (!shard.refused.ok()) return;
    ++records_;
    const absl::Status taken = shard.tail.take(record, [&](uint64_t index, int64_t time_ms, ByteSpan payload) {
      take_effects(shard, index, time_ms, payload);
    });
    if (!taken.ok()) shard.refused = taken;
  }

  void take_effects(ShardState& shard, uint64_t index, int64_t time_ms, ByteSpan payload) const {
    if (!shard.batch.take(index, time_ms, payload) || index <= shard.last_index) {
      shard.refused = absl::DataLossError(absl::StrCat("record ", index, " of the shard in the log ",
                                                       device_.path_of(""), " is not one of this build's"));
      return;
    }
    shard.last_index = index;
  }

  /// Keeps a segment until what was taken from it is applied: effects are views into it.
  void hold(SegmentBytes segment) {
    held_bytes_ += segment.bytes().size();
    held_.push_back(std::move(segment));
    if (held_bytes_ >= options_.chunk_bytes) apply_chunk();
  }

  void apply_chunk() {
    side_by_side([](ShardState& shard) { apply(shard); });
    held_.clear();
    held_bytes_ = 0;
  }

  static void apply(ShardState& shard) {
    if (!shard.refused.ok() || shard.db == nullptr) return;
    shard.refused = shard.batch.apply(*shard.db, shard.last_index);
    shard.tail.release();
  }

  /// Writes entries that are not known to be committed into rows beside the users' rows.
  static void keep_tail(ShardState& shard) {
    if (!shard.tail.active() || !shard.refused.ok()) return;
    const std::vector<AppliedEffect> rows = shard.tail.rows();
    if (!rows.empty()) shard.refused = shard.db->apply(rows, shard.last_index);
  }

  static void finish(ShardState& shard) {
    if (shard.db == nullptr) return;
    keep_tail(shard);
    const bool flushes = !mutant(Mutant::kEndUnflushed);
    if (shard.refused.ok() && flushes) shard.refused = shard.db->flush().status();
    shard.db.reset();
  }

  template <typename Work>
  void side_by_side(Work work) {
    std::atomic<size_t> next{0};
    const auto take_some = [&] {
      for (size_t i = next.fetch_add(1); i < shards_.size(); i = next.fetch_add(1)) work(*shards_[i]);
    };
    const int threads = options_.threads > 0
                            ? options_.threads
                            : static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kThreadsMax));
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(take_some);
    take_some();
    for (std::thread& helper : helpers) helper.join();
  }

  absl::StatusOr<RecoveredLog> reopen() {
    auto log = Log::open(device_, options_.log, *recovery_);
    if (!log.ok()) return log.status();
    RecoveredLog out{.log = *std::move(log), .refused = {}, .records_replayed = records_};
    for (const auto& shard : shards_) {
      if (shard->refused.ok()) {
        out.log->set_durable(shard->log_shard, std::max(shard->last_index, shard->tail.last_index()));
      } else {
        out.refused[shard_id_of(shard->log_shard)] = shard->refused;
      }
    }
    if (absl::Status noted = note_doubts(*out.log); !noted.ok()) return noted;
    // Recycle before the ends are written, because the ends take a segment: on a full disk the recycled segments may be
    // the only ones.
    if (absl::Status recycled = recycle(*out.log); !recycled.ok()) return recycled;
    if (absl::Status begun = get_behind_damage(*out.log); !begun.ok()) return begun;
    if (absl::Status ended = end_whole_shards(*out.log); !ended.ok()) return ended;
    if (absl::Status recycled = recycle(*out.log); !recycled.ok()) return recycled;
    return out;
  }

  /// Later starts refuse, too, what may lack records, also when the damage cannot be seen any more.
  absl::Status note_doubts(Log& log) const {
    for (const auto& shard : shards_) {
      if (shard->refused.ok() || !recovery_->may_lack_newest(shard->log_shard)) continue;
      if (absl::Status noted = log.leave_gap(shard->log_shard, shard->held); !noted.ok()) return noted;
    }
    return absl::OkStatus();
  }

  /// A header behind the damage names each shard that the damage may have concerned. So the next start does not suspect
  /// the others, which write nothing more to this log perhaps.
  absl::Status get_behind_damage(Log& log) const {
    return recovery_->ends_sound() ? absl::OkStatus() : later_if_no_room(log.begin_segment());
  }

  static absl::Status recycle(Log& log) { return later_if_no_room(log.recycle()); }
  static absl::Status later_if_no_room(const absl::Status& status) {
    return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
  }

  /// Ends the shards that are whole in the log. If the log has no room for that, their records stay: the log needs
  /// nothing of them, and the next recovery finds that out again.
  absl::Status end_whole_shards(Log& log) const {
    for (const auto& shard : shards_) {
      if (!shard->refused.ok()) continue;
      if (absl::Status ended = log.end_shard(shard->log_shard, 0); !ended.ok()) return ended;
    }
    const auto committed = log.commit();
    if (!absl::IsResourceExhausted(committed.status())) return committed.status();
    teller_.tell(absl::StrCat("log has no room for a segment; writes are refused until there is: ",
                              committed.status().message()));
    return absl::OkStatus();
  }

  Device& device_;
  const RecoveryOptions& options_;
  RocksdbEngine& engine_;
  Teller teller_;
  const std::unique_ptr<LogRecovery> recovery_;
  std::vector<std::unique_ptr<ShardState>> shards_;
  absl::flat_hash_map<LogShard, ShardState*> by_log_shard_;
  std::vector<SegmentBytes> held_;
  size_t held_bytes_ = 0;
  uint64_t records_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogRecovery>> scan_log(Device& device, const RecoveryOptions& options) {
  Teller teller(options);
  return LogRecovery::scan(device, options.log.identity,
                           [&teller](const LogProgress& progress) { teller.tell("read", progress); });
}

absl::StatusOr<RecoveredLog> recover_log(Device& device, const RecoveryOptions& options, RocksdbEngine& engine,
                                         std::unique_ptr<LogRecovery> scanned) {
  if (scanned == nullptr) {
    auto read = scan_log(device, options);
    if (!read.ok()) return read.status();
    scanned = *std::move(read);
  }
  return Recovery(device, options, engine, std::move(scanned)).run();
}

absl::StatusOr<size_t> give_up_spares(Device& device) {
  const auto names = device.list();
  if (!names.ok()) return names.status();
  size_t removed = 0;
  for (const std::string& name : *names) {
    if (!parse_spare_name(name)) continue;
    if (absl::Status status = device.remove(name); !status.ok()) return status;
    ++removed;
  }
  return removed;
}

}  // namespace skua::kv
