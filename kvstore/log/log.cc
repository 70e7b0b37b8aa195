#include "kvstore/log/log.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/check.h"

namespace skua::kv {
namespace {

absl::Status check_options(const LogOptions& options) {
  if (options.segment_bytes % kPageBytes != 0 || options.segment_bytes < 8 * kPageBytes) {
    return absl::InvalidArgumentError("segment_bytes must be a multiple of 4096 and at least 32768");
  }
  if (options.group_bytes_max > options.segment_bytes / 2 ||
      options.group_bytes_max < kGroupHeaderBytes + kRecordHeaderBytes) {
    return absl::InvalidArgumentError("group_bytes_max must hold a record and be at most half of segment_bytes");
  }
  if (options.segments_max < 2) return absl::InvalidArgumentError("segments_max must be at least 2");
  return absl::OkStatus();
}

std::byte* allocate_pages(size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, round_up(bytes, kPageBytes)));
  SKUA_CHECK(memory != nullptr, "no memory for a log's group buffer");
  return memory;
}

}  // namespace

Log::Log(Device& device, const LogOptions& options)
    : device_(device),
      options_(options),
      pool_(device,
            {options.segment_bytes, options.reserve_segments, std::max(options.spares_max, options.reserve_segments)}),
      buffer_(allocate_pages(options.group_bytes_max + kPageBytes)) {
  begin_group();
}

absl::StatusOr<std::unique_ptr<Log>> Log::open(Device& device, const LogOptions& options, const LogRecovery& recovery) {
  if (absl::Status checked = check_options(options); !checked.ok()) return checked;
  std::unique_ptr<Log> log(new Log(device, options));
  for (const auto& [id, shard] : recovery.shards_) {
    const uint64_t gap = recovery.may_lack_newest(id) ? 1 : 0;  // see leave_gap()
    log->shards_[id] = {.last_index = shard.last_index + gap, .last_epoch = shard.last_epoch};
  }
  for (const LogSegment& found : recovery.segments_) log->segments_.push_back(found);
  log->next_group_ = recovery.next_group_;
  log->synced_group_ = recovery.next_group_ - 1;
  // Without segments, sequence numbers start anew. Spares may still hold records of the same sequence numbers, which
  // would pass the checksums. So these spares are removed.
  const bool keep_spares = !log->segments_.empty();
  if (absl::Status opened = log->pool_.open(keep_spares, options.spares_at_open); !opened.ok()) return opened;
  return log;
}

absl::Status Log::append(const RecordHeader& header, std::span<const ByteSpan> payload, bool urgent) {
  if (!failure_.ok()) return failure_;
  if (absl::Status checked = check_index(header); !checked.ok()) return checked;
  RecordHeader data = header;
  data.kind = RecordKind::kData;
  if (absl::Status added = add_record(data, payload, urgent); !added.ok()) return added;
  Shard& shard = shards_.find(header.shard)->second;
  if (header.index <= shard.last_index) {
    replaced_.push_back({header.shard, header.index});
    shard.replaced_epoch = header.epoch;
    if (!mutant(Mutant::kKeepReplaced)) shard.durable_index = std::min(shard.durable_index, header.index - 1);
  }
  shard.last_index = header.index;
  shard.last_epoch = header.epoch;
  return absl::OkStatus();
}

absl::Status Log::check_index(const RecordHeader& header) const {
  const auto found = shards_.find(header.shard);
  if (found == shards_.end()) {
    return absl::FailedPreconditionError(absl::StrCat("shard ", header.shard, " was not started in this log"));
  }
  const Shard& shard = found->second;
  const bool follows = header.index == shard.last_index + 1 && header.epoch >= shard.last_epoch;
  const bool replaces = header.index >= 1 && header.index <= shard.last_index && header.epoch > shard.last_epoch;
  if (follows || replaces) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("index ", header.index, " of epoch ", header.epoch, " of shard ",
                                                    header.shard, " does not follow index ", shard.last_index,
                                                    " of epoch ", shard.last_epoch));
}

absl::Status Log::start_shard(LogShard shard, uint64_t index, uint64_t epoch, int64_t time) {
  if (!failure_.ok()) return failure_;
  if (shards_.size() >= kLogShardsMax && !shards_.contains(shard)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the log holds its limit kLogShardsMax of ", kLogShardsMax, " shards"));
  }
  const RecordHeader header{shard, index, epoch, time, RecordKind::kShardStart, Durability::kSync, 0};
  if (absl::Status added = add_record(header, {}, true); !added.ok()) return added;
  shards_[shard].last_index = index;
  shards_[shard].last_epoch = epoch;
  shards_[shard].durable_index = index;
  shards_[shard].replaced_epoch = epoch;
  replaced_.push_back({shard, 1});
  return absl::OkStatus();
}

absl::Status Log::end_shard(LogShard shard, int64_t time) {
  if (!failure_.ok()) return failure_;
  const auto found = shards_.find(shard);
  if (found == shards_.end()) return absl::OkStatus();
  const RecordHeader header{
      shard, found->second.last_index, found->second.last_epoch, time, RecordKind::kShardEnd, Durability::kSync, 0};
  if (absl::Status added = add_record(header, {}, true); !added.ok()) return added;
  shards_.erase(shard);
  return absl::OkStatus();
}

absl::Status Log::leave_gap(LogShard shard, uint64_t index) {
  if (shards_.size() >= kLogShardsMax && !shards_.contains(shard)) {
    return absl::FailedPreconditionError(absl::StrCat("the log holds its limit kLogShardsMax of ", kLogShardsMax,
                                                      " shards and cannot note that shard ", shard,
                                                      " may have lost records"));
  }
  uint64_t& last = shards_[shard].last_index;
  last = std::max(last, index + 1);
  return absl::OkStatus();
}

absl::Status Log::begin_segment() {
  if (!failure_.ok()) return failure_;
  SKUA_CHECK(group_records_ == 0, "begin_segment() while a group is open");
  const absl::Status begun = rotate();
  return begun.ok() || absl::IsResourceExhausted(begun) ? begun : fail(begun);
}

absl::Status Log::add_record(const RecordHeader& header, std::span<const ByteSpan> payload, bool urgent) {
  size_t payload_bytes = 0;
  for (ByteSpan piece : payload) payload_bytes += piece.size();
  const size_t bytes = record_bytes(payload_bytes);
  if (kGroupHeaderBytes + bytes > options_.group_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat("a record of ", payload_bytes,
                                                   " bytes does not fit into a group of ", options_.group_bytes_max,
                                                   " (group_bytes_max)"));
  }
  if (!fits(payload_bytes)) return absl::ResourceExhaustedError("the group is full");
  remember(header.shard);
  std::byte* to = buffer_.get() + group_bytes_;
  encode_record_header(header, payload_bytes, to);
  to += kRecordHeaderBytes;
  for (ByteSpan piece : payload) {
    copy_bytes(to, piece);
    to += piece.size();
  }
  std::fill(to, buffer_.get() + group_bytes_ + bytes, std::byte{0});
  group_bytes_ += bytes;
  ++group_records_;
  group_payload_bytes_ += payload_bytes;
  group_shard_bits_ |= shard_bit(header.shard);
  group_syncs_ |= is_synced(header.durability);
  group_urgent_ &= urgent;
  return absl::OkStatus();
}

/// Notes the shard's state for drop_group(), once per shard and group.
void Log::remember(LogShard shard) {
  const auto found = shards_.find(shard);
  if (found == shards_.end()) {
    undo_.push_back({shard, false, {}});
    return;
  }
  if (found->second.touched_group == next_group_) return;
  undo_.push_back({shard, true, found->second});
  found->second.touched_group = next_group_;
}

/// Brings `shards`, a copy of shards_ or shards_ itself, back to the state before the open group.
void Log::undo_group(Shards& shards) const {
  for (size_t i = undo_.size(); i-- > 0;) {
    const Undo& undo = undo_[i];
    shards.erase(undo.shard);
    if (undo.existed) shards[undo.shard] = undo.before;
  }
}

void Log::drop_group() {
  undo_group(shards_);
  begin_group();
}

void Log::begin_group() {
  group_bytes_ = kGroupHeaderBytes;
  group_records_ = 0;
  group_payload_bytes_ = 0;
  group_shard_bits_ = 0;
  group_syncs_ = false;
  group_urgent_ = true;
  undo_.clear();
  replaced_.clear();
}

absl::StatusOr<Durability> Log::commit() {
  if (!failure_.ok()) return failure_;
  if (group_records_ == 0) return synced_group_ + 1 == next_group_ ? Durability::kSync : Durability::kFlush;
  if (absl::Status room = make_room(group_bytes_); !room.ok()) {
    if (!absl::IsResourceExhausted(room)) return fail(room);
    ++counters_.groups_refused;
    drop_group();
    return room;
  }
  const uint32_t records = group_records_;
  const uint64_t payload_bytes = group_payload_bytes_;
  auto achieved = write_group(group_syncs_ ? GroupHeader::kSync : 0);
  if (!achieved.ok()) return fail(achieved.status());
  ++counters_.groups;
  counters_.records += records;
  counters_.payload_bytes += payload_bytes;
  return achieved;
}

/// Leaves a page free at each segment's end, so that close() always has room for its mark.
absl::Status Log::make_room(uint64_t bytes) {
  if (active_ != nullptr && offset_ + bytes + kPageBytes <= segments_.back().bytes) return absl::OkStatus();
  return rotate();
}

absl::StatusOr<Durability> Log::write_group(uint32_t flags) {
  const bool early = mutant(Mutant::kAcknowledgeEarly);
  if (early && unsynced_bytes_ > 0) {
    if (absl::Status synced = sync_active(); !synced.ok()) return synced;
  }
  const ByteSpan bytes = seal_group(flags);
  const bool sync = (flags != 0 || unsynced_bytes_ + bytes.size() > options_.unsynced_bytes_max) && !early;
  if (absl::Status written = write_bytes(bytes, sync); !written.ok()) return written;
  offset_ = round_up(offset_ + group_bytes_, kSectorBytes);
  counters_.bytes_written += bytes.size();
  previous_shard_bits_ = group_shard_bits_;
  ++next_group_;
  if (sync) {
    synced_group_ = next_group_ - 1;
    unsynced_bytes_ = 0;
  } else {
    unsynced_bytes_ += bytes.size();
  }
  take_effect();
  begin_group();
  return sync || (early && flags != 0) ? Durability::kSync : Durability::kFlush;
}

absl::Status Log::write_bytes(ByteSpan bytes, bool sync) {
  if (sync && mutant(Mutant::kSkipSync)) return active_->write(offset_, bytes, WriteMode::kBuffered);
  if (!sync) return active_->write(offset_, bytes, WriteMode::kBuffered);
  ++counters_.syncs;
  // A durable write makes only its own bytes durable. If earlier groups are unsynced, the whole file must be synced.
  if (unsynced_bytes_ == 0 || mutant(Mutant::kSyncOwnOnly)) {
    return active_->write(offset_, bytes, WriteMode::kDurable);
  }
  if (absl::Status written = active_->write(offset_, bytes, WriteMode::kBuffered); !written.ok()) return written;
  return active_->sync();
}

/// Completes the group's headers and checksums. Returns the group's bytes, padded to the end of its last page.
ByteSpan Log::seal_group(uint32_t flags) {
  std::byte* record = buffer_.get() + kGroupHeaderBytes;
  for (uint32_t i = 0; i < group_records_; ++i) record += seal_record(record, seed_);
  const GroupHeader header{static_cast<uint32_t>(group_bytes_),
                           group_records_,
                           next_group_,
                           synced_group_,
                           group_shard_bits_,
                           previous_shard_bits_,
                           flags};
  encode_group_header(header, seed_, buffer_.get());
  const uint64_t end = round_up(offset_ + group_bytes_, kPageBytes);
  std::fill(buffer_.get() + group_bytes_, buffer_.get() + (end - offset_), std::byte{0});
  return {buffer_.get(), static_cast<size_t>(end - offset_)};
}

/// The group is written: its records now pin the active segment, and the records that they replace pin nothing any
/// more.
void Log::take_effect() {
  for (const AppliedIndex& replaced : replaced_) {
    for (LogSegment& segment : segments_) segment.forget_from(replaced.shard, replaced.index);
  }
  for (const Undo& undo : undo_) {
    const auto found = shards_.find(undo.shard);
    if (found != shards_.end()) found->second.touched_segment = segments_.back().sequence;
    may_recycle_ |= found == shards_.end();
  }
  may_recycle_ |= !replaced_.empty();
}

absl::Status Log::sync_active() {
  if (active_ == nullptr || unsynced_bytes_ == 0) return absl::OkStatus();
  ++counters_.syncs;
  if (absl::Status synced = active_->sync(); !synced.ok()) return synced;
  unsynced_bytes_ = 0;
  synced_group_ = next_group_ - 1;
  return absl::OkStatus();
}

absl::Status Log::sync() {
  if (!failure_.ok()) return failure_;
  const absl::Status synced = sync_active();
  return synced.ok() ? synced : fail(synced);
}

/// Recovery makes every whole shard durable elsewhere. So a shard that keeps the oldest segment since the log was
/// opened is one that recovery refused, and keeps it for good.
std::string Log::stuck_pin() const {
  for (const AppliedIndex& pin : pins()) {
    if (shards_.find(pin.shard)->second.touched_segment != 0) continue;
    return absl::StrCat(". Its oldest segment is kept for shard ", pin.shard >> 32, "-", pin.shard & 0xffffffff,
                        ", which was refused when the node started: drop the shard's table, or have the node learn the "
                        "shard again; if the log stays full, start the node again");
  }
  return "";
}

/// Begins a new segment. RESOURCE_EXHAUSTED leaves everything as it was; other errors do not.
absl::Status Log::rotate() {
  const bool in_window = segments_.size() < options_.segments_max;
  if (!in_window && !group_urgent_) {
    return absl::ResourceExhaustedError(absl::StrCat("the log holds its limit segments_max of ", options_.segments_max,
                                                     " segments; what it holds must become durable elsewhere first",
                                                     stuck_pin()));
  }
  auto spare = pool_.take(group_urgent_, in_window);
  if (!spare.ok()) return spare.status();
  // Everything in the old segment must be durable before the new segment exists: recovery relies on it (segment.h).
  if (absl::Status synced = sync_active(); !synced.ok()) return absl::InternalError(synced.message());
  const uint64_t sequence = segments_.empty() ? 1 : segments_.back().sequence + 1;
  if (absl::Status written = write_header(*spare, sequence); !written.ok()) {
    pool_.put_back(*std::move(spare));
    return written;
  }
  const std::string name = segment_name(sequence);
  // On a full disk there may be no room for the new name.
  if (absl::Status renamed = device_.rename(spare->name, name); !renamed.ok()) {
    if (absl::IsResourceExhausted(renamed)) pool_.put_back(*std::move(spare));
    return renamed;
  }
  close_segment();
  segments_.push_back({sequence, name, options_.segment_bytes, false, {}});
  active_ = std::move(spare->file);
  seed_ = segment_seed(options_.identity, sequence);
  offset_ = header_bytes_.size();
  previous_shard_bits_ = 0;
  ++counters_.rotations;
  return absl::OkStatus();
}

absl::Status Log::write_header(SegmentPool::Spare& spare, uint64_t sequence) {
  SegmentHeader header{options_.identity, sequence, next_group_, options_.segment_bytes, {}};
  // The positions before the open group, because the open group goes into the new segment.
  Shards before = shards_;
  undo_group(before);
  for (const auto& [id, shard] : before) header.shards.push_back({id, shard.last_index, shard.last_epoch});
  std::ranges::sort(header.shards, {}, &ShardPosition::shard);
  if (mutant(Mutant::kForgetTable)) header.shards.clear();
  encode_segment_header(header, header_bytes_);
  if (header_bytes_.size() + options_.group_bytes_max + kPageBytes > options_.segment_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("segment_bytes ", options_.segment_bytes, " is too small for ", header.shards.size(), " shards"));
  }
  return spare.file->write(0, header_bytes_, WriteMode::kDurable);
}

/// Notes each shard's last record in the segment that was active. The open group is not in that segment, so a shard
/// that it changed counts with its state before the group.
void Log::close_segment() {
  if (active_ == nullptr) return;
  LogSegment& closed = segments_.back();
  Shards before = shards_;
  undo_group(before);
  for (const auto& [id, shard] : before) {
    if (shards_.contains(id) && shard.touched_segment == closed.sequence) {
      closed.last_records.push_back({id, shard.last_index});
    }
  }
  // The hash table's order differs from run to run. pins() has the order of last_records, and a simulation must be
  // repeatable.
  std::ranges::sort(closed.last_records, {}, &AppliedIndex::shard);
  active_.reset();
}

void Log::set_durable(LogShard shard, uint64_t index) {
  const auto found = shards_.find(shard);
  if (found != shards_.end()) found->second.durable_index = std::max(found->second.durable_index, index);
}

void Log::set_kept(LogShard shard, uint64_t index, uint64_t epoch) {
  const auto found = shards_.find(shard);
  if (found == shards_.end()) return;
  if (found->second.replaced_epoch > epoch && !mutant(Mutant::kKeepReplaced)) return;
  found->second.durable_index = std::max(found->second.durable_index, std::min(index, found->second.last_index));
}

bool Log::pins_segment(const AppliedIndex& last) const {
  const auto found = shards_.find(last.shard);
  if (found == shards_.end()) return false;
  const uint64_t tolerance = mutant(Mutant::kTruncateTooFar) ? 3 : 0;
  return last.index > found->second.durable_index + tolerance;
}

bool Log::is_pinned(const LogSegment& segment) const {
  return std::ranges::any_of(segment.last_records, [&](const AppliedIndex& last) { return pins_segment(last); });
}

absl::Status Log::recycle() {
  may_recycle_ = false;
  if (!failure_.ok()) return failure_;
  SKUA_CHECK(group_records_ == 0, "recycle() while a group is open");
  // The newest segment stays: the next sequence number follows from it, and its header has the shards' positions.
  while (segments_.size() > 1 && !is_pinned(segments_.front())) {
    // Records that replaced the oldest segment's records must be durable before that segment is given back.
    if (absl::Status synced = sync_active(); !synced.ok()) return fail(synced);
    const LogSegment& oldest = segments_.front();
    absl::Status given_back = oldest.damaged ? device_.rename(oldest.name, absl::StrCat("damaged-", oldest.name))
                                             : pool_.recycle(oldest.name, oldest.bytes);
    if (absl::IsResourceExhausted(given_back)) return given_back;  // the disk is full; a later call tries again
    if (!given_back.ok()) return fail(given_back);
    segments_.pop_front();
    ++counters_.segments_recycled;
  }
  return absl::OkStatus();
}

std::vector<AppliedIndex> Log::pins() const {
  if (segments_.size() < 2) return {};
  std::vector<AppliedIndex> pins = segments_.front().last_records;
  std::erase_if(pins, [this](const AppliedIndex& last) { return !pins_segment(last); });
  return pins;
}

absl::Status Log::close() {
  if (!failure_.ok()) return failure_;
  SKUA_CHECK(group_records_ == 0, "close() while a group is open");
  if (active_ == nullptr) return absl::OkStatus();
  if (absl::Status synced = sync_active(); !synced.ok()) return fail(synced);
  auto marked = write_group(GroupHeader::kClosed);
  if (!marked.ok()) return fail(marked.status());
  active_.reset();
  failure_ = absl::FailedPreconditionError("the log is closed");
  return absl::OkStatus();
}

uint64_t Log::last_index(LogShard shard) const {
  const auto found = shards_.find(shard);
  return found == shards_.end() ? 0 : found->second.last_index;
}

LogCounters Log::counters() const {
  LogCounters counters = counters_;
  counters.segments_in_use = segments_.size();
  counters.segments_spare = pool_.spares();
  return counters;
}

absl::Status Log::fail(const absl::Status& why) {
  // INTERNAL instead of RESOURCE_EXHAUSTED, which would mean that a later call may succeed.
  const auto code = absl::IsResourceExhausted(why) ? absl::StatusCode::kInternal : why.code();
  failure_ = absl::Status(code, absl::StrCat("the log has failed and takes no more writes until it is opened "
                                             "again: ",
                                             why.message()));
  active_.reset();
  return failure_;
}

}  // namespace skua::kv
