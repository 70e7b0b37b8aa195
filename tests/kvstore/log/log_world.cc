#include "tests/kvstore/log/log_world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/base/check.h"

namespace skua::kv::sim {
namespace {

constexpr int kSteps = 250;
/// With this one, group header and record fill a sector.
constexpr size_t kSectorFillingPayload = kSectorBytes - kGroupHeaderBytes - kRecordHeaderBytes;

void no_progress(const LogProgress& /*progress*/) {}

}  // namespace

simulation::Summary LogWorld::summary() const {
  return {.counts = {{"groups", tally_.groups},
                     {"restarts", tally_.restarts},
                     {"failures", tally_.failures},
                     {"refusals", tally_.refusals},
                     {"segments recycled", tally_.recycled},
                     {"records kept elsewhere", tally_.kept},
                     {"bits flipped", tally_.flips},
                     {"flips reported", tally_.flips_reported}}};
}

LogWorld::LogWorld(uint64_t seed) : rng_(seed), device_(mix64(seed), 0) {
  options_.identity.log_number = static_cast<uint32_t>(seed);
  options_.segment_bytes = kPageBytes * rng_.between(8, 20);
  options_.group_bytes_max = rng_.between(1000, options_.segment_bytes / 4);
  fixed_layout_ = rng_.chance(0.15);
  if (fixed_layout_) options_.group_bytes_max = 3 * kSectorBytes;
  options_.unsynced_bytes_max = rng_.between(0, 40000);
  options_.reserve_segments = rng_.between(1, 2);
  options_.segments_max = rng_.between(3, 10);
  options_.spares_at_open = rng_.between(0, 3);
  options_.spares_max = options_.reserve_segments + rng_.between(1, 3);
  device_.set_capacity(options_.segment_bytes * rng_.between(options_.reserve_segments + 4, 16));
  shard_count_ = rng_.between(1, 6);
  sync_share_ = rng_.chance(0.3) ? 1 : rng_.uniform();
  keep_share_ = rng_.chance(0.5) ? 0.3 : 0.9;
  replace_share_ = rng_.chance(0.5) ? 0.03 : 0.3;
  payload_max_ = std::min<size_t>(rng_.chance(0.3) ? 3000 : 200, options_.group_bytes_max - 200);
  if (rng_.chance(0.3)) faults_.write_error = 0.003;
  if (rng_.chance(0.3)) faults_.sync_error = 0.01;
  if (rng_.chance(0.3)) faults_.stall = 0.01;
}

/// A record's payload follows from its nonce, so that a wrong one shows.
std::vector<std::byte> LogWorld::payload_of(int64_t nonce) const {
  Rng rng(static_cast<uint64_t>(nonce));
  std::vector<std::byte> payload(fixed_layout_ ? kSectorFillingPayload : rng.below(payload_max_ + 1));
  for (std::byte& byte : payload) byte = static_cast<std::byte>(rng.next());
  return payload;
}

std::optional<std::string> LogWorld::run() {
  restart();
  for (int i = 0; i < kSteps && !broken_; ++i) {
    step();
    if (!broken_ && (device_.crashed() || !log_->health().ok())) restart();
  }
  if (!broken_) restart();
  return broken_;
}

void LogWorld::step() {
  if (rng_.chance(0.3)) tell_kept();
  const uint64_t choice = rng_.below(100);
  if (choice < 75) {
    write_group(false);
  } else if (choice < 85) {
    advance_durable(rng_.chance(0.1));
  } else if (choice < 87) {
    if (log_->sync().ok()) synced_ = std::max(synced_, log_->last_group());
  } else if (choice < 93) {
    device_.crash_after(rng_.below(12));
  } else if (choice < 96) {
    begin_sudden_end();
  }
}

/// Ways to end other than a power cut in the middle of something.
void LogWorld::begin_sudden_end() {
  const uint64_t last = log_->last_group();
  switch (rng_.below(3)) {
    case 0: device_.restart(); break;
    case 1:
      device_.reopen();
      if (log_->health().ok()) exact_ = last;
      break;
    default: {
      const bool writes = log_->counters().groups > 0;
      if (writes) groups_.emplace_back();
      if (!log_->close().ok()) break;
      exact_ = synced_ = groups_.size();
      closed_ = writes;
      device_.restart();
    }
  }
  restart();
}

void LogWorld::write_group(bool urgent) {
  Model model = model_;
  Group group;
  bool sync = false;
  const uint64_t ops = fixed_layout_ ? 2 : rng_.between(1, 6);
  for (uint64_t i = 0; i < ops; ++i) {
    const std::optional<Op> op = random_op(model);
    if (!op) continue;
    const bool asks = op->kind != RecordKind::kData || rng_.chance(sync_share_);
    if (!submit(*op, urgent, asks ? Durability::kSync : Durability::kFlush)) break;
    sync |= asks;
    apply(model, *op);
    group.push_back(*op);
  }
  if (broken_ || group.empty()) return;
  const auto committed = log_->commit();
  note(static_cast<uint64_t>(committed.status().raw_code()));
  if (absl::IsResourceExhausted(committed.status())) {
    ++tally_.refusals;
    if (urgent) return;
    no_space();
    return;
  }
  groups_.push_back(std::move(group));  // tried, if not written
  if (!committed.ok()) return;
  model_ = std::move(model);
  check_commit(committed, sync, urgent);
}

void LogWorld::check_commit(const absl::StatusOr<Durability>& committed, bool sync, bool /*urgent*/) {
  ++tally_.groups;
  if (sync && *committed != Durability::kSync) broken("a sync group was reported as not synced");
  if (log_->last_group() != groups_.size()) broken("the log counts its groups wrong");
  if (*committed == Durability::kSync) synced_ = groups_.size();
}

std::optional<LogWorld::Op> LogWorld::random_op(Model& model) {
  const LogShard shard = 100 + rng_.below(shard_count_);
  const auto found = model.find(shard);
  if (found == model.end()) {
    const uint64_t index = rng_.chance(0.5) ? 0 : rng_.below(1000);
    return Op{RecordKind::kShardStart, shard, index, ++epochs_[shard], next_nonce_++};
  }
  ShardModel& known = found->second;
  if (rng_.chance(0.01)) return Op{RecordKind::kShardEnd, shard, known.last_index, known.last_epoch, 0};
  if (rng_.chance(0.01)) {
    const uint64_t index = known.last_index + rng_.below(20);
    return Op{RecordKind::kShardStart, shard, index, ++epochs_[shard], next_nonce_++};
  }
  const uint64_t least = durable(shard, known.life) + 1;
  if (rng_.chance(replace_share_) && least <= known.last_index) {
    const uint64_t index = rng_.between(least, known.last_index);
    return Op{RecordKind::kData, shard, index, ++epochs_[shard], next_nonce_++};
  }
  return Op{RecordKind::kData, shard, known.last_index + 1, known.last_epoch, next_nonce_++};
}

bool LogWorld::submit(const Op& op, bool urgent, Durability durability) {
  absl::Status added;
  if (op.kind == RecordKind::kShardStart) {
    durable(op.shard, op.nonce) = op.index;
    added = log_->start_shard(op.shard, op.index, op.epoch, op.nonce);
  } else if (op.kind == RecordKind::kShardEnd) {
    added = log_->end_shard(op.shard, 0);
  } else {
    const std::vector<std::byte> payload = payload_of(op.nonce);
    const size_t split = payload.size() / 3;
    const ByteSpan pieces[] = {ByteSpan(payload).first(split), ByteSpan(payload).subspan(split)};
    added = log_->append({op.shard, op.index, op.epoch, op.nonce, RecordKind::kData, durability, 7}, pieces, urgent);
  }
  if (!added.ok() && !absl::IsResourceExhausted(added)) broken(absl::StrCat("append refused: ", added.ToString()));
  return added.ok();
}

void LogWorld::no_space() {
  if (device_.crashed()) return;
  if (log_->counters().segments_spare > 0) {
    const uint64_t before = groups_.size();
    write_group(true);
    if (broken_ || device_.crashed() || !log_->health().ok()) return;
    if (groups_.size() == before && log_->counters().segments_spare > 0) broken("an urgent group was refused");
  }
  advance_durable(true);
  if (broken_ || device_.crashed() || !log_->health().ok()) return;
  const uint64_t refusals = tally_.refusals;
  write_group(false);
  if (tally_.refusals != refusals) broken("a write is refused although everything was given back");
}

/// What the log's owner has applied and made durable elsewhere moves on.
void LogWorld::advance_durable(bool all) {
  for (const auto& [shard, known] : model_) {
    uint64_t& index = durable(shard, known.life);
    if (!all && rng_.chance(keep_share_)) keep_some(shard, known);
    if (!all && rng_.chance(keep_share_)) continue;
    if (index < known.last_index) index = all ? known.last_index : rng_.between(index, known.last_index);
    log_->set_durable(shard, index);
  }
  const uint64_t before = log_->counters().segments_recycled;
  if (!log_->recycle().ok()) return;
  tally_.recycled += log_->counters().segments_recycled - before;
  if (!all || log_->counters().segments_in_use <= 1) return;
  std::string text = "an idle shard pins a segment:";
  for (const AppliedIndex& pin : log_->pins()) {
    absl::StrAppend(&text, " ", pin.shard, " at ", pin.index, ", the log has ", log_->last_index(pin.shard));
  }
  broken(text);
}

void LogWorld::keep_some(LogShard shard, const ShardModel& known) {
  const uint64_t first = durable(shard, known.life) + 1;
  if (first > known.last_index) return;
  const uint64_t last = rng_.between(first, known.last_index);
  for (auto record = known.records.lower_bound(first); record != known.records.upper_bound(last); ++record) {
    kept_[{shard, known.life}].insert(record->second.nonce);
    ++tally_.kept;
  }
  untold_.push_back({shard, last, known.last_epoch});
}

/// What was kept may have been replaced meanwhile.
void LogWorld::tell_kept() {
  for (const Kept& kept : std::exchange(untold_, {})) log_->set_kept(kept.shard, kept.index, kept.epoch);
}

void LogWorld::restart() {
  untold_.clear();
  for (int attempt = 0; !broken_; ++attempt) {
    ++tally_.restarts;
    if (log_ != nullptr && !log_->health().ok() && !closed_) ++tally_.failures;
    if (device_.crashed() || rng_.chance(0.5)) {
      // An end of the process alone was already promised to be exact; a power cut on top of it takes unsynced groups.
      if (!closed_) exact_ = 0;
      device_.restart();
    }
    log_.reset();
    device_.set_faults({});
    if (attempt < 3 && rng_.chance(0.2)) device_.crash_after(rng_.below(8));
    if (scan_and_check()) break;
  }
  device_.set_faults(faults_);
}

bool LogWorld::scan_and_check() {
  auto recovery = LogRecovery::scan(device_, options_.identity, no_progress);
  if (!recovery.ok() && device_.crashed()) return false;
  if (!recovery.ok()) {
    broken(absl::StrCat("recovery fails: ", recovery.status().ToString()));
    return false;
  }
  const uint64_t found = (*recovery)->next_group_number() - 1;
  note(found);
  if (found < synced_) broken(absl::StrCat("group ", synced_, " was synced, the log ends at ", found));
  if (found > groups_.size()) broken(absl::StrCat("the log ends at ", found, ", only ", groups_.size(), " were tried"));
  if (exact_ != 0 && found != exact_) broken(absl::StrCat("the log ends at ", found, " instead of ", exact_));
  if (closed_ && (!(*recovery)->tail().closed || (*recovery)->tail().torn)) broken("an orderly end looks torn");
  if (!(*recovery)->damages().empty()) broken("damage is reported where there is none");
  if (broken_) return false;
  const Model model = model_at(found);
  const std::string wrong = check_recovery(**recovery, model, false);
  if (!wrong.empty()) broken(wrong);
  if (broken_ || device_.crashed()) return false;
  // What was found has been made durable: from here on it must stay.
  groups_.resize(found);
  synced_ = found;
  exact_ = 0;
  model_ = model;
  if (rng_.chance(0.4)) flip_and_check();
  if (broken_) return false;
  open_log(**recovery);
  return log_ != nullptr && log_->health().ok() && !device_.crashed() && !broken_;
}

void LogWorld::open_log(const LogRecovery& recovery) {
  auto log = Log::open(device_, options_, recovery);
  if (!log.ok()) {
    if (!device_.crashed()) broken(absl::StrCat("the log does not open: ", log.status().ToString()));
    return;
  }
  log_ = *std::move(log);
  closed_ = false;
  Group starts;
  for (const auto& [shard, known] : model_) {
    const uint64_t index = durable(shard, known.life);
    log_->set_durable(shard, index);
    if (index <= known.last_index) continue;
    // The log lost unsynced records that are durable elsewhere.
    const Op op{RecordKind::kShardStart, shard, index, ++epochs_[shard], next_nonce_++};
    if (!submit(op, true, Durability::kSync)) return;
    starts.push_back(op);
  }
  if (starts.empty()) return;
  const auto committed = log_->commit();
  if (absl::IsResourceExhausted(committed.status())) {
    // Cannot go on with these shards: all is durable elsewhere, so they are given up until there is space.
    advance_durable(true);
    return;
  }
  groups_.push_back(starts);
  if (!committed.ok()) return;
  for (const Op& op : starts) apply(model_, op);
  check_commit(committed, true, true);
}

/// Empty, or what is wrong.
std::string LogWorld::check_recovery(LogRecovery& recovery, const Model& model, bool flipped) {
  std::map<LogShard, ShardPosition> positions;
  for (const ShardPosition& position : recovery.shards()) positions[position.shard] = position;
  if (!flipped && positions.size() != model.size()) return "the log knows other shards";
  std::map<LogShard, std::map<uint64_t, Op>> replayed;
  std::string wrong;
  const std::vector<AppliedIndex> applied_now = applied(model, recovery);
  const absl::Status done = recovery.replay(
      applied_now,
      [&](const RecordView& record) {
        const RecordHeader& header = record.header;
        const std::vector<std::byte> payload = payload_of(header.time);
        if (!std::ranges::equal(payload, record.payload) || header.flags != 7) wrong = "a record's payload is wrong";
        auto& records = replayed[header.shard];
        if (!records.empty() && records.rbegin()->first + 1 != header.index) {
          wrong =
              absl::StrCat("record ", header.index, " of shard ", header.shard, " follows ", records.rbegin()->first);
        }
        records[header.index] = {RecordKind::kData, header.shard, header.index, header.epoch, header.time};
      },
      no_progress);
  if (!done.ok() && !device_.crashed()) return absl::StrCat("replay fails: ", done.ToString());
  if (!done.ok() || !wrong.empty()) return wrong;
  for (const AppliedIndex& one : applied_now) {
    const absl::Status status = recovery.status(one);
    if (!status.ok() && !flipped) return absl::StrCat("a sound shard is refused: ", status.ToString());
    if (!status.ok()) continue;
    const ShardModel& expected = model.at(one.shard);
    if (positions[one.shard].last_index != expected.last_index && expected.last_index > one.index) {
      return absl::StrCat("shard ", one.shard, " stands at ", positions[one.shard].last_index, " instead of ",
                          expected.last_index);
    }
    auto& records = replayed[one.shard];
    for (const auto& [index, op] : expected.records) {
      if (index <= one.index) continue;
      const auto found = records.find(index);
      if (found == records.end() && is_kept(one.shard, expected, index)) continue;
      if (found == records.end()) return absl::StrCat("record ", index, " of shard ", one.shard, " is missing");
      if (found->second.nonce != op.nonce || found->second.epoch != op.epoch) {
        return absl::StrCat("record ", index, " of shard ", one.shard, " is of epoch ", found->second.epoch, " nonce ",
                            found->second.nonce, " instead of ", op.epoch, " nonce ", op.nonce, "; applied ",
                            one.index);
      }
      records.erase(found);
    }
    if (!records.empty()) {
      return absl::StrCat("record ", records.begin()->first, " of shard ", one.shard, " should not be there");
    }
  }
  return "";
}

void LogWorld::flip_and_check() {
  if (device_.crashed()) return;
  std::vector<std::string> segments;
  const auto names = device_.list();
  for (const std::string& name : *names) {
    if (parse_segment_name(name)) segments.push_back(name);
  }
  if (segments.empty()) return;
  const std::string& name = segments[rng_.below(segments.size())];
  const uint64_t size = device_.contents(name).size();
  const uint64_t offset = rng_.chance(0.2) ? rng_.below(200) : rng_.below(rng_.chance(0.5) ? size : size / 4);
  const auto bit = static_cast<unsigned>(rng_.below(8));
  device_.flip_bit(name, offset, bit);
  ++tally_.flips;
  auto recovery = LogRecovery::scan(device_, options_.identity, no_progress);
  if (!recovery.ok() && !device_.crashed()) broken(absl::StrCat("recovery fails: ", recovery.status().ToString()));
  if (recovery.ok() && !device_.crashed()) {
    const uint64_t found = (*recovery)->next_group_number() - 1;
    const bool reported = !(*recovery)->damages().empty() || (*recovery)->tail().torn;
    if (reported) ++tally_.flips_reported;
    if (found < groups_.size() && !reported)
      broken(absl::StrCat("a flip at ", offset, " of ", name, " cut the log silently"));
    const std::string wrong = check_recovery(**recovery, model_at(std::min<uint64_t>(found, groups_.size())), true);
    if (!wrong.empty()) broken(absl::StrCat("after a flip at ", offset, " of ", name, ": ", wrong));
  }
  device_.flip_bit(name, offset, bit);
}

void LogWorld::apply(Model& model, const Op& op) {
  if (op.kind == RecordKind::kShardEnd) {
    model.erase(op.shard);
    return;
  }
  ShardModel& shard = model[op.shard];
  if (op.kind == RecordKind::kShardStart) {
    shard = {op.nonce, op.index, op.epoch, {}};
    return;
  }
  shard.records.erase(shard.records.lower_bound(op.index), shard.records.end());
  shard.records[op.index] = op;
  shard.last_index = op.index;
  shard.last_epoch = op.epoch;
}

LogWorld::Model LogWorld::model_at(uint64_t group) const {
  Model model;
  for (uint64_t i = 0; i < group; ++i) {
    for (const Op& op : groups_[i]) apply(model, op);
  }
  return model;
}

bool LogWorld::is_kept(LogShard shard, const ShardModel& known, uint64_t index) const {
  const auto kept = kept_.find({shard, known.life});
  const auto record = known.records.find(index);
  return kept != kept_.end() && record != known.records.end() && kept->second.contains(record->second.nonce);
}

/// Records that are kept elsewhere may be missing in the log, one after the other.
std::vector<AppliedIndex> LogWorld::applied(const Model& model, const LogRecovery& recovery) {
  std::vector<AppliedIndex> result;
  for (const auto& [shard, known] : model) {
    AppliedIndex one{shard, durable(shard, known.life)};
    while (!recovery.status(one).ok() && is_kept(shard, known, one.index + 1)) ++one.index;
    result.push_back(one);
  }
  return result;
}

void LogWorld::broken(const std::string& what) {
  if (!broken_) broken_ = what;
}

}  // namespace skua::kv::sim
