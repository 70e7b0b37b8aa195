#include "kvstore/storage/offline_store.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kvstore/codec/effect.h"
#include "kvstore/codec/text.h"
#include "kvstore/log/posix_device.h"
#include "kvstore/storage/recovery.h"
#include "kvstore/storage/replica_rows.h"
#include "kvstore/storage/shard_db.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/types/expiry.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

constexpr char kRestore[] =
    "the node refuses the shards that lost records and serves the others: restore those from a replica or a backup, or "
    "drop their table";
constexpr char kRestoreShard[] = "restore the shard from a replica or a backup, or drop its table";
constexpr char kMissingDatabase[] =
    "if its table was dropped, nothing is lost: the node forgets the records when it starts. "
    "Otherwise put the shard's directory back before that, or restore it from a replica or a backup";

/// The number behind " offset " in a message, ours or RocksDB's.
std::optional<uint64_t> offset_in(std::string_view message) {
  constexpr std::string_view kWord = " offset ";
  const size_t at = message.find(kWord);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = message.substr(at + kWord.size());
  uint64_t offset = 0;
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  if (!absl::SimpleAtoi(absl_view(digits), &offset)) return std::nullopt;
  return offset;
}

/// The file below `directory` that a message of RocksDB names; the directory if it names none.
std::string file_in(std::string_view message, const std::string& directory) {
  const size_t at = message.rfind(directory + "/");
  if (at == std::string_view::npos) return directory;
  const size_t end = message.find_first_of(" :;,", at + directory.size());
  return std::string(message.substr(at, end == std::string_view::npos ? end : end - at));
}

bool has_shard(const LogRecovery& recovery, LogShard shard) {
  const std::vector<ShardPosition> shards = recovery.shards();
  return std::ranges::find(shards, shard, &ShardPosition::shard) != shards.end();
}

uint64_t bytes_of(const std::vector<StoredFile>& stored) {
  uint64_t bytes = 0;
  for (const StoredFile& file : stored) bytes += file.bytes;
  return bytes;
}

/// Reads what the databases lack from the logs, by the same rules as recovery (recovery.cc). A shard that recovery
/// would refuse has nothing but its database.
class UnappliedReader {
 public:
  /// The last unapplied write of a key.
  struct Write {
    uint64_t version = 0;
    uint64_t expires_at = 0;
    std::optional<std::string> value;
    RecordMark mark;
  };
  using Overlay = std::map<std::string, Write, std::less<>>;
  struct State {
    const OfflineShard* shard = nullptr;
    ReplicaTail tail{};
    Overlay overlay{};
    absl::Status status{};  ///< not OK: recovery would refuse the shard for what its records say
  };

  UnappliedReader(const std::vector<const OfflineShard*>& wanted, const OfflineStore::Selection& selection)
      : selection_(selection) {
    for (const OfflineShard* shard : wanted) {
      if (shard->is_sound()) states_.emplace(shard->id, State{.shard = shard, .tail = shard->tail});
    }
  }

  /// Errors: a log cannot be read.
  absl::Status read(const std::deque<OfflineLog>& logs) {
    for (const OfflineLog& log : logs) {
      std::vector<AppliedIndex> applied;
      for (const auto& [id, state] : states_) {
        if (state.shard->log == &log) applied.push_back({log_shard_of(id), state.shard->replay_from});
      }
      if (applied.empty()) continue;
      const auto take = [&](const RecordView& record) { this->take(record, log.directory); };
      if (absl::Status read = log.recovery->replay(applied, take, [](const LogProgress&) {}); !read.ok()) return read;
    }
    for (auto& [id, state] : states_) take_uncommitted(state);
    return absl::OkStatus();
  }

  /// Of a shard that is not sound it is OK and empty.
  [[nodiscard]] const State& state(ShardId id) const {
    const auto found = states_.find(id);
    return found == states_.end() ? nothing_ : found->second;
  }
  [[nodiscard]] uint64_t uncommitted() const { return uncommitted_; }

 private:
  void take(const RecordView& record, const std::string& where) {
    State& state = states_.at(shard_id_of(record.header.shard));
    if (!state.status.ok()) return;
    const absl::Status taken = state.tail.take(record, [&](uint64_t index, int64_t /*time_ms*/, ByteSpan payload) {
      take_effects_of(state, index, payload, where);
    });
    if (!taken.ok()) refuse(state, absl::Status(taken.code(), absl::StrCat(taken.message(), " in ", where)));
    state.tail.release();
  }

  void take_uncommitted(State& state) {
    if (!state.status.ok()) return;
    state.tail.visit_uncommitted([&](uint64_t index, int64_t /*time_ms*/, ByteSpan payload) {
      ++uncommitted_;
      if (selection_.uncommitted) take_effects_of(state, index, payload, state.shard->directory);
    });
  }

  void take_effects_of(State& state, uint64_t index, ByteSpan payload, const std::string& where) {
    if (!state.status.ok()) return;
    EffectReader reader(payload);
    while (const auto effect = reader.next()) {
      if (effect->key < selection_.start) continue;
      Write& last = state.overlay[std::string(effect->key)];
      last = {.version = index, .expires_at = effect->expires_at, .value = {}, .mark = effect->mark};
      if (effect->value) last.value.emplace(as_string_view(*effect->value));
    }
    if (reader.complete()) return;
    refuse(state, absl::DataLossError(absl::StrCat("record ", index, " in ", where, " is not one of this build's")));
  }

  static void refuse(State& state, absl::Status why) {
    state.status = std::move(why);
    state.overlay.clear();
  }

  const OfflineStore::Selection& selection_;
  std::map<ShardId, State> states_;
  const State nothing_;
  uint64_t uncommitted_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OfflineStore>> OfflineStore::open(Options options) {
  std::unique_ptr<OfflineStore> store(new OfflineStore(std::move(options)));
  if (absl::Status opened = store->open_logs(); !opened.ok()) return opened;
  if (absl::Status opened = store->open_shards(); !opened.ok()) return opened;
  return store;
}

absl::Status OfflineStore::open_logs() {
  auto numbers = files::log_numbers(options_.data_dir);
  if (!numbers.ok()) return numbers.status();
  uint32_t end = options_.has_joined && files::has_shards(options_.data_dir) ? 1 : 0;
  if (!numbers->empty()) end = *numbers->rbegin() + 1;
  for (uint32_t worker = 0; worker < end; ++worker) {
    OfflineLog& log =
        logs_.emplace_back(OfflineLog{.worker = worker, .directory = files::log_dir(options_.data_dir, worker)});
    log.status = open_log(log, numbers->contains(worker));
  }
  return absl::OkStatus();
}

absl::Status OfflineStore::open_log(OfflineLog& log, bool exists) const {
  if (!exists) return absl::DataLossError(absl::StrCat("there is no ", log.directory, ", which the node has made"));
  auto device = open_posix_device(log.directory, {.read_only = true});
  if (!device.ok()) return device.status();
  log.device = *std::move(device);
  LogIdentity identity = options_.identity;
  identity.log_number = log.worker;
  auto scanned = LogRecovery::scan(*log.device, identity, [this](const LogProgress& progress) {
    if (options_.progress) options_.progress(progress.bytes_done, progress.bytes_total);
  });
  if (!scanned.ok()) return scanned.status();
  log.recovery = *std::move(scanned);
  return absl::OkStatus();
}

/// DATA_LOSS if a log cannot be read: it may have records of any shard that the other logs do not list.
absl::Status OfflineStore::unread_log_status() const {
  for (const OfflineLog& log : logs_) {
    if (log.recovery != nullptr) continue;
    return absl::DataLossError(
        absl::StrCat("log ", log.worker, " cannot be read, and may have records of the shard: ", log.status.message()));
  }
  return absl::OkStatus();
}

absl::Status OfflineStore::open_shards() {
  const std::string dir = files::shards_dir(options_.data_dir);
  std::map<ShardId, OfflineShard> found;
  std::error_code error;
  const bool exists = std::filesystem::exists(dir, error);
  if (error) return files::io_error("listing", dir, error);
  absl::Status listed = !exists ? absl::OkStatus() : files::visit_names(dir, [&](const std::string& name) {
    if (const auto id = files::parse_shard_name(name)) {
      found[*id] = OfflineShard{.id = *id, .directory = absl::StrCat(dir, "/", name)};
    }
  });
  if (!listed.ok()) return listed;
  for (const OfflineLog& log : logs_) {
    if (log.recovery == nullptr) continue;
    for (const ShardPosition& position : log.recovery->shards()) {
      const ShardId id = shard_id_of(position.shard);
      OfflineShard& shard = found.try_emplace(id, OfflineShard{.id = id}).first->second;
      // A log that the shard left long ago may still list it: the log had no room for the record of the end.
      if (shard.log != nullptr && position.last_index < shard.log_last_index) continue;
      shard.log = &log;
      shard.log_last_index = position.last_index;
    }
  }
  for (auto& [id, shard] : found) {
    if (shard.directory.empty()) {
      shard.status = absl::NotFoundError(absl::StrCat(
          "log ", shard.log->worker, " has records of the shard up to ", shard.log_last_index,
          ", and there is no database: the shard was dropped since the node started, or its directory is lost"));
    } else {
      auto db = OfflineDb::open(shard.directory, id);
      shard.status = db.status();
      if (db.ok()) shard.db = *std::move(db);
    }
    shard.log_status = join(shard);
    shards_.push_back(std::move(shard));
  }
  return absl::OkStatus();
}

/// Checks what recovery checks (recovery.cc): the records of the log must continue what the database has, including
/// entries in rows.
absl::Status OfflineStore::join(OfflineShard& shard) const {
  if (shard.db == nullptr) return absl::OkStatus();
  const LogShard log_shard = log_shard_of(shard.id);
  shard.replay_from = shard.applied_index();
  const auto rows = shard.db->take_internal_rows();
  if (!rows.ok()) return rows.status();
  if (absl::Status loaded = shard.tail.load(*rows, shard.applied_index()); !loaded.ok()) return loaded;
  const auto status = [&] {
    for (const OfflineLog& log : logs_) {
      if (log.recovery == nullptr) continue;
      const bool concerned = shard.log == nullptr || shard.log == &log || has_shard(*log.recovery, log_shard);
      if (!concerned) continue;
      absl::Status joined = log.recovery->status({log_shard, shard.replay_from});
      if (!joined.ok()) return joined;
    }
    return absl::OkStatus();
  };
  const bool rows_count = std::ranges::none_of(logs_, [&](const OfflineLog& log) {
    return log.recovery != nullptr && log.recovery->may_lack_records(log_shard);
  });
  while (rows_count && shard.replay_from < shard.tail.last_index() && !status().ok()) ++shard.replay_from;
  if (absl::Status joined = status(); !joined.ok()) return joined;
  return shard.log == nullptr ? unread_log_status() : absl::OkStatus();
}

// --- verify

void OfflineStore::verify(absl::FunctionRef<void(const Finding&)> tell) const {
  for (const OfflineLog& log : logs_) verify_log(log, tell);
  uint64_t total = 0;
  uint64_t done = 0;
  for (const OfflineShard& shard : shards_) {
    if (shard.db != nullptr) total += bytes_of(shard.db->files());
  }
  for (const OfflineShard& shard : shards_) verify_shard(shard, done, total, tell);
}

void OfflineStore::verify_log(const OfflineLog& log, absl::FunctionRef<void(const Finding&)> tell) const {
  Finding finding{.subject = absl::StrCat("log ", log.worker), .status = log.status, .file = log.directory};
  if (!log.status.ok()) {
    finding.remedy = "put the directories back where they were, or give the node the right --data-dir";
    return tell(finding);
  }
  for (const LogDamage& damage : log.recovery->damages()) {
    finding.status = absl::DataLossError(
        absl::StrCat("groups ", damage.first_group, " to ", damage.last_group, " cannot be read, wholly or in part"));
    finding.file = damage.path;
    finding.offset = damage.offset;
    finding.remedy = kRestore;
    tell(finding);
  }
  if (!log.recovery->damages().empty()) return;
  uint64_t groups = 0;
  uint64_t records = 0;
  const std::vector<LogSegmentInfo> segments = log.recovery->segments();
  for (const LogSegmentInfo& segment : segments) {
    groups += segment.groups;
    records += segment.records;
  }
  const LogTail& tail = log.recovery->tail();
  finding.detail = absl::StrCat(
      counted(segments.size(), "segment"), ", ", counted(groups, "group"), ", ", counted(records, "record"), "; ",
      tail.closed ? "closed in order"
      : tail.torn ? absl::StrCat("ends torn at offset ", tail.offset, " of ", tail.path, ", as a crash does")
                  : "not closed");
  tell(finding);
}

void OfflineStore::verify_shard(const OfflineShard& shard, uint64_t& done, uint64_t total,
                                absl::FunctionRef<void(const Finding&)> tell) const {
  bool sound = true;
  const auto complain = [&](const absl::Status& status, const std::string& file, const char* remedy) {
    sound = false;
    tell({.subject = absl::StrCat("shard ", files::shard_name(shard.id)),
          .status = status,
          .detail = {},
          .file = file,
          .offset = offset_in(std_view(status.message())),
          .remedy = remedy});
  };
  if (shard.directory.empty()) {
    const std::string missing = absl::StrCat(files::shards_dir(options_.data_dir), "/", files::shard_name(shard.id));
    return complain(shard.status, missing, kMissingDatabase);
  }
  if (!shard.status.ok()) {
    return complain(shard.status, file_in(std_view(shard.status.message()), shard.directory), kRestoreShard);
  }
  if (!shard.log_status.ok())
    complain(shard.log_status, shard.log == nullptr ? "" : shard.log->directory, kRestoreShard);
  const std::vector<StoredFile> stored = shard.db->files();
  for (const StoredFile& file : stored) {
    if (absl::Status checked = shard.db->check(file); !checked.ok()) complain(checked, file.path, kRestoreShard);
    done += file.bytes;
    if (options_.progress) options_.progress(done, total);
  }
  if (!sound) return;
  // The files are as they were written. Now check that their content is that of a shard's database.
  uint64_t keys = 0;
  uint64_t newest = 0;
  const auto end = shard.db->db().scan({}, [&](const ScanRow& row) {
    ++keys;
    newest = std::max(newest, row.version);
    return true;
  });
  if (!end.ok()) return complain(end.status(), shard.directory, kRestoreShard);
  if (newest > shard.applied_index()) {
    return complain(absl::DataLossError(absl::StrCat("a key has version ", newest, ", above the applied index ",
                                                     shard.applied_index())),
                    shard.directory, kRestoreShard);
  }
  tell({.subject = absl::StrCat("shard ", files::shard_name(shard.id)),
        .detail = absl::StrCat(counted(stored.size(), "file"), ", ", counted(bytes_of(stored), "byte"), ", ",
                               counted(keys, "key"), "; applied index ", shard.applied_index(), ", ",
                               counted(shard.unapplied(), "record"), " to replay"),
        .file = shard.directory,
        .offset = std::nullopt});
}

// --- dump

absl::StatusOr<uint64_t> OfflineStore::dump(const Selection& selection, DumpVisitor visit,
                                            absl::FunctionRef<void(ShardId, const absl::Status&)> refused) const {
  std::vector<const OfflineShard*> wanted;
  for (const OfflineShard& shard : shards_) {
    if ((selection.table_id && *selection.table_id != shard.id.table_id) ||
        (selection.shard && *selection.shard != shard.id.shard)) {
      continue;
    }
    if (!shard.is_sound()) refused(shard.id, shard.status.ok() ? shard.log_status : shard.status);
    if (shard.is_sound() || (selection.salvage && shard.db != nullptr)) wanted.push_back(&shard);
  }
  UnappliedReader unapplied(wanted, selection);
  if (absl::Status read = unapplied.read(logs_); !read.ok()) return read;
  bool go_on = true;
  for (const OfflineShard* shard : wanted) {
    const UnappliedReader::State& state = unapplied.state(shard->id);
    if (!state.status.ok()) {
      refused(shard->id, state.status);
      if (!selection.salvage) continue;
    }
    const UnappliedReader::Overlay& overlay = state.overlay;
    auto next = overlay.begin();
    // Shows the rows of the log before `key`; null: all that are left.
    const auto show_before = [&](const std::string_view* key) {
      for (; go_on && next != overlay.end() && (key == nullptr || next->first < *key); ++next) {
        const UnappliedReader::Write& last = next->second;
        if (!last.value || is_expired(last.expires_at, selection.now_ms)) continue;
        go_on = visit(shard->id, {next->first, last.version, as_byte_span(*last.value), last.mark});
      }
    };
    const KeyRange range = {.start = selection.start, .now_ms = selection.now_ms};
    const auto end = shard->db->db().scan(range, [&](const ScanRow& row) {
      show_before(&row.key);
      if (go_on && (next == overlay.end() || next->first != row.key)) go_on = visit(shard->id, row);
      return go_on;
    });
    if (!end.ok()) return end.status();
    show_before(nullptr);
    if (!go_on) break;
  }
  return unapplied.uncommitted();
}

}  // namespace skua::kv
