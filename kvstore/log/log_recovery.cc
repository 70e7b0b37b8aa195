#include "kvstore/log/log_recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace skua::kv {

absl::StatusOr<std::unique_ptr<LogRecovery>> LogRecovery::scan(Device& device, const LogIdentity& identity,
                                                               Progress progress) {
  std::unique_ptr<LogRecovery> recovery(new LogRecovery(device, identity));
  if (absl::Status found = recovery->find_segments(); !found.ok()) return found;
  if (absl::Status read = recovery->read_headers(); !read.ok()) return read;
  LogProgress done{0, recovery->bytes_total_};
  for (size_t i = 0; i < recovery->segments_.size(); ++i) {
    if (absl::Status scanned = recovery->scan_segment(i); !scanned.ok()) return scanned;
    done.bytes_done += recovery->segments_[i].bytes;
    progress(done);
  }
  recovery->bytes_ = {};
  return recovery;
}

absl::Status LogRecovery::find_segments() {
  auto names = device_.list();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::optional<uint64_t> sequence = parse_segment_name(name);
    if (!sequence) continue;
    Segment& segment = segments_.emplace_back();
    segment.sequence = *sequence;
    segment.name = name;
    segment.path = device_.path_of(name);
  }
  std::ranges::sort(segments_, {}, &Segment::sequence);
  return absl::OkStatus();
}

/// Reads all headers first: a segment can be read only when the next segment's first group is known.
absl::Status LogRecovery::read_headers() {
  for (Segment& segment : segments_) {
    auto file = device_.open(segment.name);
    if (!file.ok()) return file.status();
    segment.bytes = (*file)->size();
    bytes_total_ += segment.bytes;
    bytes_.resize_for_overwrite(std::min<uint64_t>(segment.bytes, segment_data_offset(kLogShardsMax)));
    auto got = (*file)->read(0, bytes_.span());
    if (!got.ok()) return got.status();
    auto header = decode_segment_header(bytes_.bytes().first(*got));
    if (!header.ok() && header.status().code() != absl::StatusCode::kDataLoss) {
      return absl::Status(header.status().code(), absl::StrCat(segment.path, ": ", header.status().message()));
    }
    if (!header.ok()) continue;
    if (header->identity != identity_) {
      return absl::FailedPreconditionError(absl::StrCat(segment.path,
                                                        " belongs to another cluster, node or log; is this the right "
                                                        "directory?"));
    }
    if (header->sequence == segment.sequence) segment.header = *std::move(header);
  }
  for (size_t i = 0; i + 1 < segments_.size(); ++i) {
    // Before a missing segment or a damaged header next_first_group stays unknown. As in the newest segment, only
    // synced numbers of later groups then prove that a group was durable.
    const Segment& next = segments_[i + 1];
    if (next.header && next.sequence == segments_[i].sequence + 1) {
      segments_[i].next_first_group = next.header->first_group;
    }
  }
  return absl::OkStatus();
}

absl::Status LogRecovery::read_segment(const Segment& segment, bool from_medium) {
  auto file = device_.open(segment.name);
  if (!file.ok()) return file.status();
  if (from_medium) {
    // The sync makes bytes durable that only the page cache has. If a sync failed in an earlier process, the cache may
    // show bytes that the disk does not have; dropping the cache removes them.
    if (absl::Status synced = (*file)->sync(); !synced.ok()) return synced;
    (*file)->drop_cache();
  }
  bytes_.resize_for_overwrite(segment.bytes);
  auto got = (*file)->read(0, bytes_.span());
  if (!got.ok()) return got.status();
  bytes_.shrink(*got);
  return absl::OkStatus();
}

absl::Status LogRecovery::scan_segment(size_t position) {
  Segment& segment = segments_[position];
  const bool newest = position + 1 == segments_.size();
  if (position > 0 && segments_[position - 1].sequence + 1 != segment.sequence) {
    const uint64_t last_lost = segment.header ? segment.header->first_group - 1 : next_group_;
    add_damage(segment, {.first_group = next_group_, .last_group = last_lost, .shard_bits = kAllShards});
  }
  if (!segment.header) {
    add_damage(segment, {.first_group = next_group_, .last_group = next_group_, .shard_bits = kAllShards});
    if (newest) tail_.path = segment.path;
    return absl::OkStatus();
  }
  if (absl::Status read = read_segment(segment, newest); !read.ok()) return read;
  take_header(segment);
  SegmentReader reader(bytes_.bytes(), *segment.header, segment.next_first_group);
  for (auto event = reader.next(); event != SegmentReader::Event::kEnd; event = reader.next()) {
    if (event == SegmentReader::Event::kGroup) {
      const uint64_t number = reader.group().number;
      uint64_t position_in_group = 0;
      reader.visit_records([&](const RecordView& record) {
        take_record(segment, record, {number, ++position_in_group});
      });
      ++segment.groups;
      segment.records += position_in_group;
      segment.used_bytes = reader.offset() + reader.group().bytes;
    }
    if (reader.damaged()) add_damage(segment, reader.damage());
  }
  next_group_ = std::max(next_group_, reader.next_group());
  if (newest) {
    tail_ = reader.tail();
    tail_.path = segment.path;
    tail_.offset = reader.offset();
  }
  return absl::OkStatus();
}

/// The header has every shard's position at the segment's beginning. A shard whose known position differs has lost
/// records before this segment.
void LogRecovery::take_header(Segment& segment) {
  const Place here{segment.header->first_group, 0};
  absl::flat_hash_map<LogShard, Shard> present;
  for (const ShardPosition& position : segment.header->shards) {
    const auto known = shards_.find(position.shard);
    Shard& shard = present[position.shard];
    if (known != shards_.end()) {
      shard = std::move(known->second);
    } else {
      shard.start = here;  // the record of its start is lost; records before it, if any, do not count any more
    }
    join(position, position.last_index + 1, here, shard);
  }
  for (const auto& [id, shard] : shards_) {
    if (!present.contains(id)) ended_[id] = {here, damages_.size()};
  }
  shards_ = std::move(present);  // a shard that the header does not name has left
  header_proved_ = damages_.size();
  next_group_ = segment.header->first_group;
}

void LogRecovery::take_record(Segment& segment, const RecordView& record, const Place& at) {
  const RecordHeader& header = record.header;
  if (header.kind == RecordKind::kShardEnd) {
    shards_.erase(header.shard);
    ended_[header.shard] = {at, damages_.size()};
    forget_suffix(header.shard, 1);
    return;
  }
  const auto [entry, is_new] = shards_.try_emplace(header.shard);
  Shard& shard = entry->second;
  // Damage may have taken the shard's start. Then at least the records before the shard's last end must not count.
  if (const auto ended = ended_.find(header.shard); is_new && ended != ended_.end()) shard.start = ended->second.at;
  const bool starts = header.kind == RecordKind::kShardStart;
  if (starts) {
    shard = {};
    forget_suffix(header.shard, 1);
    shard.start = at;
    shard.proved = damages_.size();
  }
  join({header.shard, header.index, header.epoch}, starts ? header.index + 1 : header.index, at, shard);
  const auto last = std::ranges::find(segment.last_records, header.shard, &AppliedIndex::shard);
  if (last == segment.last_records.end()) {
    segment.last_records.push_back({header.shard, header.index});
  } else {
    last->index = header.index;
  }
}

void LogRecovery::forget_suffix(LogShard shard, uint64_t index) {
  for (Segment& segment : segments_) segment.forget_from(shard, index);
}

/// The shard goes on with `next_index`, and its last record is then at `position`. Notes replaced records and a gap.
void LogRecovery::join(const ShardPosition& position, uint64_t next_index, const Place& at, Shard& shard) {
  if (next_index <= shard.last_index) {
    forget_suffix(position.shard, next_index);
    while (!shard.replaced.empty() && shard.replaced.back().index >= next_index) shard.replaced.pop_back();
    shard.replaced.push_back({at, next_index});
  }
  // A new epoch may replace records. If damage may have taken some of its records, the first replaced index is unknown.
  const bool unsure =
      position.last_epoch != shard.last_epoch && first_suspect(position.shard, shard.proved).has_value();
  const uint64_t after = unsure ? 0 : shard.last_index;
  if (!unsure) {
    // Records from next_index on are replaced, and gaps among them no longer matter.
    while (!shard.gaps.empty() && shard.gaps.back().before > next_index) {
      Gap& gap = shard.gaps.back();
      gap.before = next_index;
      if (gap.before > gap.after + 1) break;
      shard.gaps.pop_back();
    }
  }
  if (next_index > after + 1) shard.gaps.push_back({after, next_index, damages_.empty() ? 0 : damages_.size() - 1});
  shard.last_index = position.last_index;
  shard.last_epoch = position.last_epoch;
  shard.proved = damages_.size();
}

std::optional<size_t> LogRecovery::first_suspect(LogShard shard, size_t proved) const {
  for (size_t i = proved; i < damages_.size(); ++i) {
    if ((damages_[i].shard_bits & shard_bit(shard)) != 0) return i;
  }
  return std::nullopt;
}

/// The first damage in which records behind the shard's last one may have been.
std::optional<size_t> LogRecovery::newest_suspect(LogShard shard) const {
  if (const auto known = shards_.find(shard); known != shards_.end()) {
    return first_suspect(shard, known->second.proved);
  }
  const auto ended = ended_.find(shard);
  return first_suspect(shard, std::max(header_proved_, ended == ended_.end() ? 0 : ended->second.proved));
}

void LogRecovery::add_damage(Segment& segment, LogDamage damage) {
  segment.damaged = true;
  damage.path = segment.path;
  damages_.push_back(std::move(damage));
}

std::vector<ShardPosition> LogRecovery::shards() const {
  std::vector<ShardPosition> positions;
  positions.reserve(shards_.size());
  for (const auto& [id, shard] : shards_) positions.push_back({id, shard.last_index, shard.last_epoch});
  return positions;
}

absl::Status LogRecovery::status(AppliedIndex applied) const {
  const auto data_loss = [&](const char* what, uint64_t from, const LogDamage& damage) {
    return absl::DataLossError(absl::StrCat("log damaged at offset ", damage.offset, " of ", damage.path,
                                            ": records of shard ", applied.shard, " from index ", from, " on ", what,
                                            "; restore the shard from a replica or a backup"));
  };
  const auto known = shards_.find(applied.shard);
  const Shard unknown;
  const Shard& shard = known == shards_.end() ? unknown : known->second;
  for (const Gap& gap : shard.gaps) {
    if (gap.before <= applied.index + 1) continue;
    const uint64_t first_lost = std::max(gap.after, applied.index) + 1;
    if (damages_.empty()) {
      return absl::DataLossError(absl::StrCat("the log begins after what was applied: records of shard ", applied.shard,
                                              " from index ", first_lost, " to ", gap.before - 1, " are in neither"));
    }
    return data_loss("are missing", first_lost, damages_[gap.damage]);
  }
  if (const auto suspect = newest_suspect(applied.shard)) {
    return data_loss("may be missing", std::max(shard.last_index, applied.index) + 1, damages_[*suspect]);
  }
  return absl::OkStatus();
}

/// Whether the record counts: the shard did not start anew after it, and no later record has replaced it.
bool LogRecovery::counts(const RecordHeader& header, const Place& at) const {
  const auto known = shards_.find(header.shard);
  if (known == shards_.end() || at <= known->second.start) return false;
  const std::vector<Replaced>& replaced = known->second.replaced;
  // Sorted by place and by index: the first element after this record has the smallest index of all later ones.
  const auto later = std::ranges::upper_bound(replaced, at, {}, &Replaced::by);
  return later == replaced.end() || later->index > header.index;
}

absl::Status LogRecovery::replay(std::span<const AppliedIndex> applied,
                                 absl::FunctionRef<void(const RecordView&)> visit, Progress progress, Keep keep) {
  absl::flat_hash_map<LogShard, uint64_t> wanted;
  for (const AppliedIndex& one : applied) {
    if (status(one).ok()) wanted[one.shard] = one.index;
  }
  const auto is_wanted = [&](LogShard shard, uint64_t index) {
    const auto found = wanted.find(shard);
    return found != wanted.end() && index > found->second;
  };
  LogProgress done{0, bytes_total_};
  for (const Segment& segment : segments_) {
    done.bytes_done += segment.bytes;
    const bool needed = segment.header && std::ranges::any_of(segment.last_records, [&](const AppliedIndex& last) {
                          return is_wanted(last.shard, last.index);
                        });
    if (needed) {
      if (absl::Status read = read_segment(segment, false); !read.ok()) return read;
      SegmentReader reader(bytes_.bytes(), *segment.header, segment.next_first_group);
      for (auto event = reader.next(); event != SegmentReader::Event::kEnd; event = reader.next()) {
        if (event != SegmentReader::Event::kGroup) continue;
        Place at{reader.group().number, 0};
        reader.visit_records([&](const RecordView& record) {
          const RecordHeader& header = record.header;
          ++at.record;
          if (header.kind != RecordKind::kData || !is_wanted(header.shard, header.index)) return;
          if (counts(header, at)) visit(record);
        });
      }
      keep(std::exchange(bytes_, {}));
    }
    progress(done);
  }
  bytes_ = {};
  return absl::OkStatus();
}

}  // namespace skua::kv
