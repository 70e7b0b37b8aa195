#include "kvstore/snapshot/snapshot_pull.h"

#include <algorithm>

#include "rpc/base/check.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {

SnapshotPull::SnapshotPull(const SnapshotPullOptions& options, ShardId shard, TimeNs now)
    : options_(options),
      shard_(shard),
      balance_bytes_(static_cast<int64_t>(options.burst_bytes)),
      refilled_ns_(now),
      paused_until_ns_(now),
      pause_ns_(options.pause_min_ns) {
  SKUA_CHECK(options.chunk_bytes >= 1 && options.chunk_bytes <= kChunkBytesMax && options.requests_max >= 1 &&
                 options.bytes_per_s >= 1 && options.burst_bytes >= 1 && options.pause_min_ns > 0,
             "a pull asks for something");
}

// --- Asking

void SnapshotPull::poll(TimeNs now, std::vector<Request>& out) {
  refill(now);
  if (now < paused_until_ns_) return;
  while (balance_bytes_ > 0 && under_way_.size() < options_.requests_max) {
    Piece piece;
    waits_ = !next_piece(piece);
    if (waits_) return;
    const uint64_t number = ++last_number_;
    under_way_[number] = {piece};
    balance_bytes_ -= piece.bytes;
    ++counters_.requests;
    out.push_back({number, {shard_.table_id, shard_.shard, snapshot_, piece.file, piece.offset, piece.bytes}});
  }
}

bool SnapshotPull::next_piece(Piece& piece) {
  if (!again_.empty()) {
    piece = again_.front();
    again_.pop_front();
    return true;
  }
  if (snapshot_ == 0) {
    // The first piece carries the number of files, so nothing else is requested before it arrives.
    piece = {0, 0, options_.chunk_bytes};
    return under_way_.empty();
  }
  while (next_file_ < files_.size() && files_[next_file_].known &&
         files_[next_file_].asked == files_[next_file_].bytes) {
    ++next_file_;
  }
  for (uint32_t at = next_file_; at < files_.size(); ++at) {
    File& file = files_[at];
    if (!file.known) {
      // The size of this file is unknown until its first piece arrives. Meanwhile the next file is requested.
      if (std::exchange(file.asked_first, true)) continue;
      piece = {at, 0, options_.chunk_bytes};
      return true;
    }
    if (file.asked == file.bytes) continue;
    const uint64_t bytes = std::min<uint64_t>(options_.chunk_bytes, file.bytes - file.asked);
    piece = {at, file.asked, static_cast<uint32_t>(bytes)};
    file.asked += bytes;
    return true;
  }
  return false;
}

void SnapshotPull::refill(TimeNs now) {
  if (now <= refilled_ns_) return;
  const auto limit = static_cast<int64_t>(options_.burst_bytes);
  const double added = static_cast<double>(now - refilled_ns_) * static_cast<double>(options_.bytes_per_s) / kSecond;
  if (added < 1) return;
  balance_bytes_ =
      added >= static_cast<double>(limit - balance_bytes_) ? limit : balance_bytes_ + static_cast<int64_t>(added);
  refilled_ns_ = now;
}

TimeNs SnapshotPull::wake_at() const {
  if (complete() || waits_ || under_way_.size() >= options_.requests_max) return kTimeNever;
  TimeNs at = paused_until_ns_;
  if (balance_bytes_ <= 0) {
    const double missing =
        static_cast<double>(1 - balance_bytes_) * kSecond / static_cast<double>(options_.bytes_per_s);
    at = std::max(at, refilled_ns_ + static_cast<DurationNs>(missing) + 1);
  }
  return at;
}

// --- Receiving

SnapshotPull::Taken SnapshotPull::on_chunk(uint64_t number, const Chunk& chunk, TimeNs now) {
  const auto found = under_way_.find(number);
  if (found == under_way_.end() || found->second.writing) return Taken::kIgnore;
  waits_ = false;
  UnderWay& asked = found->second;
  if (crc32c(chunk.data) != chunk.crc32c) {
    ++counters_.damaged;
    const Piece piece = asked.piece;
    under_way_.erase(found);
    if (++damaged_in_a_row_ >= options_.damaged_max) {
      start_over(now);
    } else {
      ask_again(piece, now);
    }
    return Taken::kIgnore;
  }
  if (!agrees(asked, chunk) || !learn(asked, chunk)) {
    start_over(now);
    return Taken::kIgnore;
  }
  damaged_in_a_row_ = 0;
  pause_ns_ = options_.pause_min_ns;
  asked.writing = true;
  asked.got = static_cast<uint32_t>(chunk.data.size());
  counters_.bytes += asked.got;
  return Taken::kWrite;
}

/// True if the chunk is part of the requested piece, and of the same snapshot as earlier pieces.
bool SnapshotPull::agrees(const UnderWay& asked, const Chunk& chunk) const {
  const uint64_t left = chunk.file_bytes - std::min(chunk.file_bytes, chunk.offset);
  const bool advances = !chunk.data.empty() || left == 0;
  if (chunk.offset != asked.piece.offset || chunk.data.size() > asked.piece.bytes || !advances) return false;
  if (snapshot_ == 0) return chunk.snapshot != 0 && chunk.files >= 1 && chunk.files <= options_.files_max;
  if (chunk.snapshot != snapshot_ || chunk.end != end_ || chunk.files != files_.size()) return false;
  const File& file = files_[asked.piece.file];
  return !file.known || (chunk.name == file.name && chunk.file_bytes == file.bytes);
}

/// Records what the chunk says about its file. If the chunk is shorter than requested, requests the rest. False:
/// another file has the same name.
bool SnapshotPull::learn(const UnderWay& asked, const Chunk& chunk) {
  if (snapshot_ == 0) {
    snapshot_ = chunk.snapshot;
    end_ = chunk.end;
    files_.resize(chunk.files);
    files_[0].asked_first = true;
  }
  const auto got = static_cast<uint32_t>(chunk.data.size());
  File& file = files_[asked.piece.file];
  if (!file.known) {
    file.name = chunk.name;
    if (!names_.insert(file.name).second) return false;
    file.known = true;
    file.bytes = chunk.file_bytes;
    file.asked = got;  // the rest of the file is requested in its turn
  } else if (got < asked.piece.bytes) {
    again_.push_back({asked.piece.file, asked.piece.offset + got, asked.piece.bytes - got});
  }
  return true;
}

bool SnapshotPull::written(uint64_t number) {
  const auto found = under_way_.find(number);
  if (found == under_way_.end() || !found->second.writing) return false;
  File& file = files_[found->second.piece.file];
  file.written += found->second.got;
  if (file.written == file.bytes) ++files_complete_;
  under_way_.erase(found);
  return true;
}

uint64_t SnapshotPull::written_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.written;
  return bytes;
}

void SnapshotPull::on_failed(uint64_t number, const absl::Status& why, TimeNs now) {
  const auto found = under_way_.find(number);
  if (found == under_way_.end() || found->second.writing) return;
  waits_ = false;
  ++counters_.failed;
  const Piece piece = found->second.piece;
  under_way_.erase(found);
  if (absl::IsNotFound(why) && snapshot_ != 0) return start_over(now);
  ask_again(piece, now);
}

void SnapshotPull::ask_again(const Piece& piece, TimeNs now) {
  if (snapshot_ == 0) return pause(now);  // next_piece() repeats the first request
  File& file = files_[piece.file];
  if (file.known) {
    again_.push_back(piece);
  } else {
    file.asked_first = false;
  }
  pause(now);
}

void SnapshotPull::start_over(TimeNs now) {
  ++attempt_;
  snapshot_ = 0;
  end_ = {};
  files_.clear();
  names_.clear();
  files_complete_ = 0;
  next_file_ = 0;
  under_way_.clear();
  again_.clear();
  damaged_in_a_row_ = 0;
  pause(now);
}

void SnapshotPull::pause(TimeNs now) {
  // Several pieces lost together cause one pause.
  if (now < paused_until_ns_) return;
  paused_until_ns_ = now + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, options_.pause_max_ns);
}

}  // namespace skua::kv
