#include "kvstore/server/snapshot_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/engine/shard_files.h"
#include "rpc/base/status.h"

namespace skua::kv {
namespace {

namespace fs = std::filesystem;

std::string mib(uint64_t bytes) {
  return absl::StrCat((bytes + (1 << 19)) >> 20);
}

absl::Status write_piece(const std::string& path, uint64_t offset, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return files::io_error("making", path, {errno, std::generic_category()});
  int failed = 0;
  while (!bytes.empty() && failed == 0) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put > 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
      offset += static_cast<uint64_t>(put);
    } else if (put == 0 || errno != EINTR) {
      failed = put == 0 ? EIO : errno;
    }
  }
  if (::close(fd) != 0 && failed == 0) failed = errno;
  return failed == 0 ? absl::OkStatus() : files::io_error("writing", path, {failed, std::generic_category()});
}

absl::Status sync_files(const std::string& directory) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const int fd = ::open(it->path().c_str(), O_RDONLY | O_CLOEXEC);
    const int failed = fd >= 0 && ::fsync(fd) == 0 ? 0 : errno;
    if (fd >= 0) ::close(fd);
    if (failed != 0) return files::io_error("syncing", it->path().string(), {failed, std::generic_category()});
  }
  if (error) return files::io_error("listing", directory, error);
  return files::sync_directory(directory);
}

absl::Status make_directory(const std::string& path) {
  if (absl::Status removed = files::remove_tree(path); !removed.ok()) return removed;
  std::error_code error;
  fs::create_directory(path, error);
  return error ? files::io_error("making", path, error) : absl::OkStatus();
}

}  // namespace

SnapshotCopies::SnapshotCopies(const Options& options, SnapshotCopyHost& host, CopySlots& slots)
    : options_(options), host_(host), slots_(slots) {}

SnapshotCopies::~SnapshotCopies() {
  cancel_all();
}

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
    ++it;  // the copy may go
    if (now - copy.wanted_ns > options_.wanted_for_ns) {
      give_up(shard, "it is not needed any more", LogSeverity::kInfo);
    } else if (copy.state == State::kWaiting) {
      begin(shard, copy, now);
    } else if (copy.state == State::kFetching) {
      fetch(shard, copy, now);
    }
  }
}

void SnapshotCopies::begin(ShardId shard, Copy& copy, TimeNs now) {
  Pause& pause = pauses_[shard];
  if (now < pause.until_ns || now - copy.wanted_ns > options_.begin_within_ns || !host_.position(shard)) return;
  if (!slots_.take()) return;
  // The next attempt waits, the longer the sooner it comes after this one.
  const bool again = pause.next_ns != 0 && now - pause.until_ns < 2 * options_.pause_max_ns;
  pause.next_ns = again ? std::min(2 * pause.next_ns, options_.pause_max_ns) : options_.pause_min_ns;
  pause.until_ns = now + pause.next_ns;
  copy.state = State::kFetching;
  copy.told_ns = now;
  copy.pull = std::make_unique<SnapshotPull>(options_.pull, shard.table_id, shard.shard, now);
  host_.tell(LogSeverity::kInfo,
             absl::StrCat("shard ", files::shard_name(shard), " is copied from node ", host_.name_of(copy.from)));
}

/// Back to where a copy waits to begin, or, if nobody wants it any more, to nothing: the wishes tell.
void SnapshotCopies::give_up(ShardId shard, const std::string& why, LogSeverity severity) {
  const auto found = copies_.find(shard);
  if (found == copies_.end()) return;
  Copy& copy = found->second;
  if (copy.state != State::kWaiting) {
    const SnapshotPull::Progress progress = copy.pull->progress();
    host_.tell(severity, absl::StrCat("shard ", files::shard_name(shard), " is not copied from node ",
                                      host_.name_of(copy.from), " after ", mib(progress.bytes), " MiB: ", why));
    Pause& pause = pauses_[shard];
    pause.until_ns = std::max(pause.until_ns, now_ + pause.next_ns);
  }
  leave(copy);
  copies_.erase(found);
}

void SnapshotCopies::leave(Copy& copy) {
  if (copy.state == State::kWaiting) return;
  if (!copy.path.empty()) remove(copy.path);
  slots_.give_back();
}

void SnapshotCopies::remove(const std::string& path) {
  // What stays is removed when the node starts.
  static_cast<void>(host_.on_disk([path] { return files::remove_tree(path); }, [](const absl::Status&) {}));
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
    copy.trouble = absl::UnavailableError("there is no connection to the node, or it is busy");
    copy.pull->on_failed(number, copy.trouble, now);
  }
  tell_progress(shard, copy, now);
  if (copy.pull->complete()) seal(shard, copy);
}

void SnapshotCopies::start_attempt(ShardId shard, Copy& copy) {
  if (!copy.path.empty()) remove(copy.path);
  copy.attempt = copy.pull->attempt();
  copy.path = absl::StrCat(options_.directory, "/", files::kNewPrefix, files::shard_name(shard), "-", copy.id, "-",
                           copy.attempt);
  // If it fails, so does writing into it.
  static_cast<void>(host_.on_disk([path = copy.path] { return make_directory(path); }, [](const absl::Status&) {}));
}

void SnapshotCopies::fetched(ShardId shard, uint64_t id, uint64_t number, const absl::StatusOr<ByteSpan>& bytes) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr || copy->state != State::kFetching) return;
  const absl::StatusOr<Chunk> chunk = bytes.ok() ? decode_chunk(*bytes) : absl::StatusOr<Chunk>(bytes.status());
  if (!chunk.ok()) {
    copy->trouble = chunk.status();
    return copy->pull->on_failed(number, chunk.status(), now_);
  }
  const uint64_t attempt = copy->pull->attempt();
  if (copy->attempt != attempt || copy->pull->on_chunk(number, *chunk, now_) != SnapshotPull::Taken::kWrite) return;
  const bool queued =
      host_.on_disk([path = absl::StrCat(copy->path, "/", std::string(chunk->name)), offset = chunk->offset,
                     data = std::string(as_string_view(chunk->data))] { return write_piece(path, offset, data); },
                    [this, shard, id, number](const absl::Status& status) { written(shard, id, number, status); });
  if (!queued) give_up(shard, "too much waits for the disk", LogSeverity::kWarning);
}

void SnapshotCopies::written(ShardId shard, uint64_t id, uint64_t number, const absl::Status& status) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr) return;
  if (!status.ok()) return give_up(shard, std::string(status.message()), LogSeverity::kError);
  static_cast<void>(copy->pull->written(number));
}

void SnapshotCopies::tell_progress(ShardId shard, Copy& copy, TimeNs now) {
  if (now - copy.told_ns < options_.tell_every_ns) return;
  copy.told_ns = now;
  const SnapshotPull::Progress progress = copy.pull->progress();
  const std::string whole = progress.sizes_known ? absl::StrCat(" of ", mib(progress.bytes_known)) : "";
  std::string line =
      absl::StrCat("shard ", files::shard_name(shard), " copied ", mib(progress.bytes), whole, " MiB from node ",
                   host_.name_of(copy.from), " files=", progress.files_complete, "/", progress.files);
  if (copy.trouble.ok()) return host_.tell(LogSeverity::kInfo, line);
  absl::StrAppend(&line, "; last failure: ", copy.trouble.message());
  copy.trouble = absl::OkStatus();
  host_.tell(LogSeverity::kWarning, line);
}

// --- The end of it

void SnapshotCopies::seal(ShardId shard, Copy& copy) {
  copy.state = State::kSealing;
  const std::string to = final_path(shard);
  const bool queued = host_.on_disk(
      [this, shard, path = copy.path, to]() -> absl::Status {
        if (absl::Status verified = host_.verify(shard, path); !verified.ok()) return verified;
        if (absl::Status synced = sync_files(path); !synced.ok()) return synced;
        if (absl::Status removed = files::remove_tree(to); !removed.ok()) return removed;
        return files::rename_and_sync(path, to, options_.directory);
      },
      [this, shard, id = copy.id](const absl::Status& status) { sealed(shard, id, status); });
  if (!queued) give_up(shard, "too much waits for the disk", LogSeverity::kWarning);
}

void SnapshotCopies::sealed(ShardId shard, uint64_t id, const absl::Status& status) {
  Copy* const copy = find(shard, id);
  if (copy == nullptr) return remove(final_path(shard));
  if (!status.ok()) return give_up(shard, std::string(status.message()), LogSeverity::kError);
  if (!may_install(shard, *copy)) {
    copy->path = final_path(shard);
    return give_up(shard, "the replica has gone on meanwhile", LogSeverity::kInfo);
  }
  host_.tell(LogSeverity::kInfo,
             absl::StrCat("shard ", files::shard_name(shard), " copied from node ", host_.name_of(copy->from),
                          " index=", copy->pull->end().index, " bytes=", copy->pull->progress().bytes));
  slots_.give_back();
  copies_.erase(shard);
  // Wishes from before come late; and if the log has not waited for this copy, the next one is no matter of haste.
  Pause& pause = pauses_[shard];
  pause.until_ns = std::max(pause.until_ns, now_ + pause.next_ns);
  host_.install(shard, final_path(shard));
}

bool SnapshotCopies::may_install(ShardId shard, const Copy& copy) const {
  const auto position = host_.position(shard);
  if (!position || position->primary != copy.from) return false;
  const EntryId end = copy.pull->end();
  const SnapshotFit fit = host_.fit(shard, end);
  if (fit == SnapshotFit::kNone) return false;
  // A source that does not know the epoch any more says 0, which no entry has.
  const bool replaces = fit == SnapshotFit::kReplacesLog && end.epoch != 0;
  return replaces || end.index >= position->last_index;
}

}  // namespace skua::kv
