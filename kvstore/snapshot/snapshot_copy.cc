#include "kvstore/snapshot/snapshot_copy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/snapshot/copy_database.h"
#include "kvstore/snapshot/snapshot_manifest.h"
#include "kvstore/storage/shard_files.h"
#include "kvstore/types/mutants.h"
#include "rpc/base/bytes.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

std::string mib(uint64_t bytes) {
  return absl::StrCat((bytes + (1 << 19)) >> 20);
}

// What a copy's directory has.
constexpr const char* kFiles = "/files";
constexpr const char* kDatabase = "/db";
constexpr const char* kTail = "/tail";

absl::Status make_directories(FileTree& tree, const std::string& path) {
  if (absl::Status removed = tree.remove(path); !removed.ok()) return removed;
  if (absl::Status made = tree.make_directories(path + kFiles); !made.ok()) return made;
  return tree.make_directories(path + kDatabase);
}

/// If no more than this is left of a tail, it is applied without fetching more meanwhile.
constexpr uint64_t kTailLeftBytes = uint64_t{8} << 20;

/// Size of the snapshot with its manifest. 0: the text is not a manifest.
uint64_t bytes_of(std::string_view manifest) {
  const auto decoded = decode_manifest(manifest);
  if (!decoded.ok()) return 0;
  uint64_t bytes = manifest.size();
  for (const SnapshotFile& file : decoded->files) bytes += file.bytes;
  return bytes;
}

}  // namespace

void SnapshotCopies::cancel_all() {
  closed_ = true;
  for (auto& [shard, copy] : copies_) leave(copy);
  copies_.clear();
}

std::string SnapshotCopies::final_path(ShardId shard) const {
  return absl::StrCat(options_.directory, "/", files::shard_name(shard));
}

SnapshotCopies::Copy* SnapshotCopies::find(ShardId shard, uint64_t id) {
  const auto found = copies_.find(shard);
  return found == copies_.end() || found->second.id != id ? nullptr : &found->second;
}

// --- Beginning and ending

void SnapshotCopies::wanted(ShardId shard, NodeId from, TimeNs now) {
  if (closed_) return;
  now_ = now;
  auto found = copies_.find(shard);
  if (found != copies_.end() && found->second.from != from) {
    give_up(shard, "the shard has another primary now", LogSeverity::kInfo);
    found = copies_.end();
  }
  if (found == copies_.end()) {
    found = copies_.try_emplace(shard).first;
    found->second.id = ++last_id_;
    found->second.from = from;
  }
  found->second.wanted_ns = now;
}

void SnapshotCopies::tick(TimeNs now) {
  now_ = now;
  for (auto it = copies_.begin(); it != copies_.end();) {
    const ShardId shard = it->first;
    Copy& copy = it->second;
    ++it;  // the copy may be erased
    if (now - copy.wanted_ns > options_.wanted_for_ns) {
      give_up(shard, "it is not needed any more", LogSeverity::kInfo);
    } else if (copy.state == State::kWaiting) {
      begin(shard, copy, now);
    } else {
      run(shard, copy, now);
    }
  }
}

void SnapshotCopies::run(ShardId shard, Copy& copy, TimeNs now) {
  measure(copy, now);
  if (copy.state == State::kFetching) fetch(shard, copy, now);
  if (!copy.ending) ask_tail(shard, copy, now);
  tell_progress(shard, copy, now);
  const uint64_t tail_max = std::max(options_.tail_bytes_max, copy.bytes_total);
  if (copy.tail != nullptr && copy.tail->is_lost()) {
    give_up(shard, "the primary does not keep what was written since; writes come faster than they are fetched",
            LogSeverity::kWarning);
  } else if (copy.tail_bytes > tail_max) {
    give_up(shard, absl::StrCat(mib(tail_max), " MiB were written since, more than are kept for a copy"),
            LogSeverity::kWarning);
  } else if (copy.state == State::kFetching && copy.pull->complete()) {
    build(shard, copy);
  } else if (copy.state == State::kFollowing && !copy.applying) {
    follow(shard, copy);
  }
}

void SnapshotCopies::begin(ShardId shard, Copy& copy, TimeNs now) {
  Pause& pause = pauses_[shard];
  if (now < pause.until_ns || now - copy.wanted_ns > options_.begin_within_ns || !host_.position(shard)) return;
  if (!slots_.take()) return;
  // Sets the pause before the next attempt. The pause doubles if this attempt follows soon after the previous one, else
  // it is the shortest.
  const bool again = pause.next_ns != 0 && now - pause.until_ns < 2 * options_.pause_max_ns;
  pause.next_ns = again ? std::min(2 * pause.next_ns, options_.pause_max_ns) : options_.pause_min_ns;
  pause.started_over = again ? pause.started_over + 1 : 0;
  pause.until_ns = now + pause.next_ns;
  copy.state = State::kFetching;
  copy.told_ns = copy.measured_ns = now;
  copy.pull = std::make_unique<SnapshotPull>(options_.pull, shard, now);
  host_.tell(
      LogSeverity::kInfo,
      absl::StrCat("shard ", files::shard_name(shard), " is copied from node ", host_.name_of(copy.from),
                   pause.started_over == 0 ? "" : absl::StrCat(", started over ", pause.started_over, " times")));
}

/// Has another thread do `what`. Then calls `done` if the copy is still there. If the work has failed, or cannot be
/// queued, gives the copy up instead.
template <typename Done>
void SnapshotCopies::work(bool (SnapshotCopyHost::*where)(Work, Worked), ShardId shard, uint64_t id, Work what,
                          Done done) {
  const auto worked = [this, shard, id, done](const absl::Status& status) {
    Copy* const copy = find(shard, id);
    if (copy == nullptr) return;
    if (!status.ok()) return give_up(shard, std::string(status.message()), LogSeverity::kError);
    done(*copy);
  };
  if (!(host_.*where)(std::move(what), worked)) give_up(shard, "too much waits for the disk", LogSeverity::kWarning);
}

/// Ends the copy and erases it. If the copy is still needed, wanted() creates it again.
void SnapshotCopies::give_up(ShardId shard, const std::string& why, LogSeverity severity) {
  const auto found = copies_.find(shard);
  if (found == copies_.end()) return;
  Copy& copy = found->second;
  if (copy.state != State::kWaiting) {
    host_.tell(severity,
               absl::StrCat("shard ", files::shard_name(shard), " is not copied from node ", host_.name_of(copy.from),
                            " after ", mib(copy.pull->written_bytes()), " MiB: ", why));
    Pause& pause = pauses_[shard];
    pause.until_ns = std::max(pause.until_ns, now_ + pause.next_ns);
  }
  leave(copy);
  copies_.erase(found);
}

void SnapshotCopies::leave(Copy& copy) {
  if (copy.state == State::kWaiting) return;
  if (!copy.path.empty()) remove(copy.path, std::move(copy.built));
  slots_.give_back();
}

/// Removes a directory after all work queued before on its thread. What cannot be removed is removed when the node
/// starts.
void SnapshotCopies::remove(const std::string& path, std::shared_ptr<Built> built) {
  const bool is_built = built != nullptr;
  auto work = [tree = options_.files, path, built = std::move(built)]() mutable {
    built.reset();
    return tree->remove(path);
  };
  const auto ignore = [](const absl::Status&) {};
  static_cast<void>(is_built ? host_.on_builder(std::move(work), ignore) : host_.on_disk(std::move(work), ignore));
}

// --- Fetching

void SnapshotCopies::fetch(ShardId shard, Copy& copy, TimeNs now) {
  if (copy.attempt != copy.pull->attempt()) start_attempt(shard, copy);
  requests_.clear();
  copy.pull->poll(now, requests_);
  const uint64_t id = copy.id;
  for (const SnapshotPull::Request& request : requests_) {
    const uint64_t number = request.number;
    const bool sent = host_.fetch(
        shard, copy.from, request.fetch,
        [this, shard, id, number](const absl::StatusOr<ByteSpan>& bytes) { fetched(shard, id, number, bytes); });
    if (sent) continue;
    copy.trouble = copy.last_request = absl::UnavailableError("there is no connection to the node, or it is busy");
    copy.pull->on_failed(number, copy.trouble, now);
  }
}

void SnapshotCopies::start_attempt(ShardId shard, Copy& copy) {
  if (!copy.path.empty()) remove(copy.path);
  copy.attempt = copy.pull->attempt();
  copy.tail = nullptr;
  copy.tail_bytes = copy.bytes_total = 0;
  copy.path = absl::StrCat(options_.directory, "/", files::kNewPrefix, files::shard_name(shard), "-", copy.id, "-",
                           copy.attempt);
  // Its result is ignored: if it fails, writing into the directory fails too.
  static_cast<void>(host_.on_disk([tree = options_.files, path = copy.path] { return make_directories(*tree, path); },
                                  [](const absl::Status&) {}));
}

void SnapshotCopies::fetched(ShardId shard, uint64_t id, uint64_t number, const absl::StatusOr<ByteSpan>& bytes) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr || copy->state != State::kFetching) return;
  const absl::StatusOr<Chunk> chunk = bytes.ok() ? decode_chunk(*bytes) : absl::StatusOr<Chunk>(bytes.status());
  copy->last_request = chunk.status();
  if (!chunk.ok()) {
    copy->trouble = chunk.status();
    return copy->pull->on_failed(number, chunk.status(), now_);
  }
  const uint64_t attempt = copy->pull->attempt();
  if (copy->attempt != attempt || copy->pull->on_chunk(number, *chunk, now_) != SnapshotPull::Taken::kWrite) return;
  if (chunk->name == kSnapshotManifestName && chunk->data.size() == chunk->file_bytes) {
    copy->bytes_total = bytes_of(as_string_view(chunk->data));
  }
  work(
      &SnapshotCopyHost::on_disk, shard, id,
      [tree = options_.files, path = absl::StrCat(copy->path, kFiles, "/", std::string(chunk->name)),
       offset = chunk->offset,
       data = std::string(as_string_view(chunk->data))] { return tree->write(path, offset, data); },
      [number](Copy& done) { static_cast<void>(done.pull->written(number)); });
}

// --- The tail

void SnapshotCopies::ask_tail(ShardId shard, Copy& copy, TimeNs now) {
  if (copy.tail == nullptr) {
    if (!copy.pull->begun() || copy.attempt != copy.pull->attempt()) return;
    copy.tail = std::make_unique<SnapshotTail>(options_.tail, shard, copy.from, copy.pull->end(), now);
  }
  const auto wanted = copy.tail->poll(now);
  if (!wanted) return;
  const bool sent =
      host_.fetch_tail(shard, copy.from, *wanted,
                       [this, shard, id = copy.id, attempt = copy.attempt](const absl::StatusOr<ByteSpan>& bytes) {
                         tail_fetched(shard, id, attempt, bytes);
                       });
  if (!sent) copy.tail->on_failed(absl::UnavailableError("there is no connection to the node, or it is busy"), now);
}

void SnapshotCopies::tail_fetched(ShardId shard, uint64_t id, uint64_t attempt, const absl::StatusOr<ByteSpan>& bytes) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr || copy->attempt != attempt || copy->tail == nullptr) return;
  copy->last_request = bytes.status();
  if (!bytes.ok()) {
    copy->trouble = bytes.status();
    return copy->tail->on_failed(bytes.status(), now_);
  }
  const auto taken = copy->tail->on_piece(*bytes, frame_, now_);
  if (!taken.ok()) copy->trouble = copy->last_request = taken.status();
  if (!taken.ok() || *taken == SnapshotTail::Taken::kEmpty) return;
  std::string piece = tail_file_piece(*bytes);
  const uint64_t size = piece.size();
  const bool queued = host_.on_disk(
      [tree = options_.files, path = copy->path + kTail, offset = copy->tail_bytes, piece = std::move(piece)] {
        return tree->write(path, offset, piece);
      },
      [this, shard, id, attempt, size](const absl::Status& status) { tail_written(shard, id, attempt, size, status); });
  if (!queued) give_up(shard, "too much waits for the disk", LogSeverity::kWarning);
}

void SnapshotCopies::tail_written(ShardId shard, uint64_t id, uint64_t attempt, uint64_t bytes,
                                  const absl::Status& status) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr || copy->attempt != attempt || copy->tail == nullptr) return;
  if (!status.ok()) return give_up(shard, std::string(status.message()), LogSeverity::kError);
  copy->tail_bytes += bytes;
  copy->tail->kept();
}

// --- Progress

/// Measures the rate about once a second.
void SnapshotCopies::measure(Copy& copy, TimeNs now) const {
  const DurationNs passed = now - copy.measured_ns;
  if (passed < kSecond) return;
  const uint64_t bytes = copy.pull->counters().bytes + copy.tail_bytes;
  const uint64_t more = bytes - std::min(bytes, copy.measured_bytes);
  copy.bytes_per_s = static_cast<uint64_t>(static_cast<double>(more) * kSecond / static_cast<double>(passed));
  copy.measured_bytes = bytes;
  copy.measured_ns = now;
}

CopyProgress SnapshotCopies::progress_of(ShardId shard, const Copy& copy) const {
  constexpr std::array kDoing = {"waiting", "fetching", "building", "following", "closing"};
  CopyProgress progress{.shard = shard,
                        .from = copy.from,
                        .doing = kDoing[static_cast<size_t>(copy.state)],
                        .bytes = copy.pull->written_bytes(),
                        .bytes_total = copy.bytes_total,
                        .tail_bytes = copy.tail_bytes,
                        .bytes_per_s = copy.bytes_per_s,
                        .trouble = std::string(copy.last_request.message())};
  const auto pause = pauses_.find(shard);
  if (pause != pauses_.end()) progress.started_over = pause->second.started_over;
  progress.started_over += static_cast<uint32_t>(copy.pull->attempt() - 1);
  return progress;
}

std::vector<CopyProgress> SnapshotCopies::progress() const {
  std::vector<CopyProgress> all;
  for (const auto& [shard, copy] : copies_) {
    if (copy.state != State::kWaiting) all.push_back(progress_of(shard, copy));
  }
  return all;
}

void SnapshotCopies::tell_progress(ShardId shard, Copy& copy, TimeNs now) {
  if (now - copy.told_ns < options_.tell_every_ns) return;
  copy.told_ns = now;
  const CopyProgress progress = progress_of(shard, copy);
  const std::string whole = progress.bytes_total != 0 ? absl::StrCat(" of ", mib(progress.bytes_total)) : "";
  std::string line =
      absl::StrCat("shard ", files::shard_name(shard), " copied ", mib(progress.bytes), whole, " MiB from node ",
                   host_.name_of(copy.from), ", ", progress.doing, ", and ", mib(progress.tail_bytes),
                   " MiB of what was written since, ", mib(progress.bytes_per_s), " MiB/s");
  if (copy.trouble.ok()) return host_.tell(LogSeverity::kInfo, line);
  absl::StrAppend(&line, "; last failure: ", copy.trouble.message());
  copy.trouble = absl::OkStatus();
  host_.tell(LogSeverity::kWarning, line);
}

// --- Building, following, closing

void SnapshotCopies::build(ShardId shard, Copy& copy) {
  copy.state = State::kBuilding;
  copy.built = std::make_shared<Built>();
  const auto build = [this, shard, path = copy.path, built = copy.built]() -> absl::Status {
    auto database = host_.build(shard, path + kFiles, path + kDatabase);
    if (!database.ok()) return database.status();
    *built = *std::move(database);
    return options_.files->remove(path + kFiles);
  };
  work(&SnapshotCopyHost::on_builder, shard, copy.id, build, [this, shard](Copy& done) {
    const absl::Status sound = check_announced(**done.built, done.pull->end());
    if (!sound.ok()) return give_up(shard, std::string(sound.message()), LogSeverity::kError);
    done.state = State::kFollowing;
  });
}

/// Applies the tail's file to the database, until little is left and the source has no more. The primary sends later
/// entries to the replica, as to any other that lags.
void SnapshotCopies::follow(ShardId shard, Copy& copy) {
  const uint64_t left = copy.tail_bytes - copy.tail_applied;
  const bool at_end = !copy.tail->is_known() || copy.tail->at_end();
  copy.ending = copy.ending || (at_end && left <= kTailLeftBytes);
  if (copy.ending && copy.tail->is_waiting()) return;
  if (left == 0) {
    if (copy.ending) close(shard, copy);
    return;
  }
  copy.applying = true;
  const uint64_t end = copy.tail_bytes;
  work(
      &SnapshotCopyHost::on_builder, shard, copy.id,
      [tree = options_.files, built = copy.built, path = copy.path + kTail, begin = copy.tail_applied, end] {
        return apply_tail_file(**built, *tree, path, begin, end);
      },
      [end](Copy& done) {
        done.applying = false;
        done.tail_applied = end;
      });
}

void SnapshotCopies::close(ShardId shard, Copy& copy) {
  copy.state = State::kClosing;
  copy.end = copy.tail->end();
  const std::string to = final_path(shard);
  const bool queued = host_.on_builder(
      [built = copy.built, from = absl::StrCat(copy.path, kDatabase, "/", files::shard_name(shard)), to,
       parent = options_.directory, tree = options_.files]() -> absl::Status {
        if (absl::Status closed = (*built)->close(); !closed.ok()) return closed;
        built->reset();
        if (absl::Status removed = tree->remove(to); !removed.ok()) return removed;
        return tree->rename(from, to, parent);
      },
      [this, shard, id = copy.id](const absl::Status& status) { closed(shard, id, status); });
  if (!queued) give_up(shard, "too much waits for the disk", LogSeverity::kWarning);
}

void SnapshotCopies::closed(ShardId shard, uint64_t id, const absl::Status& status) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr) return remove(final_path(shard));
  if (!status.ok()) return give_up(shard, std::string(status.message()), LogSeverity::kError);
  if (!may_install(shard, *copy)) {
    remove(final_path(shard));
    return give_up(shard, "the replica has gone on meanwhile", LogSeverity::kInfo);
  }
  host_.tell(LogSeverity::kInfo, absl::StrCat("shard ", files::shard_name(shard), " copied from node ",
                                              host_.name_of(copy->from), " index=", copy->end.index, " bytes=",
                                              copy->pull->written_bytes(), " tail_bytes=", copy->tail_bytes));
  leave(*copy);
  copies_.erase(shard);
  // The pause has two reasons: calls of wanted() from before the installation may still arrive, and if the replica
  // needs another copy already, that one is not urgent.
  Pause& pause = pauses_[shard];
  pause.until_ns = std::max(pause.until_ns, now_ + pause.next_ns);
  host_.install(shard, final_path(shard));
}

bool SnapshotCopies::may_install(ShardId shard, const Copy& copy) const {
  const auto position = host_.position(shard);
  if (!position || position->primary != copy.from) return false;
  if (mutant(Mutant::kStaleCopy)) return true;
  const EntryId end = copy.end;
  const SnapshotFit fit = host_.fit(shard, end);
  if (fit == SnapshotFit::kNone) return false;
  // A source that no longer knows the epoch says 0. No entry has epoch 0.
  const bool replaces = fit == SnapshotFit::kReplacesLog && end.epoch != 0;
  return replaces || end.index >= position->last_index;
}

}  // namespace skua::kv
