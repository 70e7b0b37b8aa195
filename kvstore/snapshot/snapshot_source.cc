#include "kvstore/snapshot/snapshot_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/storage/shard_files.h"
#include "rpc/base/crc32c.h"

namespace skua::kv {

SnapshotSource::Snapshot::~Snapshot() {
  // Leftovers are removed by the next create().
  if (!path.empty()) static_cast<void>(file_tree.remove(path));
}

absl::StatusOr<std::unique_ptr<SnapshotSource>> SnapshotSource::create(const Options& options, ExportFn make) {
  if (absl::Status removed = options.files->remove(options.directory); !removed.ok()) return removed;
  if (absl::Status made = options.files->make_directories(options.directory); !made.ok()) return made;
  return std::unique_ptr<SnapshotSource>(new SnapshotSource(options, std::move(make)));
}

absl::StatusOr<std::shared_ptr<SnapshotSource::Snapshot>> SnapshotSource::find(const FetchChunk& wanted, TimeNs now,
                                                                               bool& made) {
  const ShardId shard{wanted.table, wanted.shard};
  Snapshots gone;  // removed from disk without the lock
  std::lock_guard lock(mutex_);
  made = false;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot->shard != shard || (wanted.snapshot != 0 && wanted.snapshot != id)) continue;
    if (!snapshot->ready) return absl::UnavailableError("the snapshot is being made: ask again");
    // A snapshot of which no piece was handed out yet is given out whatever its age: its export took longer than
    // share_max_ns, and the learner that requested it asks again.
    if (wanted.snapshot == 0 && snapshot->begun && now - snapshot->made_ns > options_.share_max_ns) continue;
    snapshot->used_ns = std::max(snapshot->used_ns, now);
    snapshot->begun = true;
    return snapshot;
  }
  if (wanted.snapshot != 0) {
    return absl::NotFoundError("this node does not have that snapshot any more: begin another one");
  }
  // An export reads all of a shard, and keeps a reader of the node busy for so long. The others are for requests.
  if (std::ranges::any_of(snapshots_, [](const auto& entry) { return !entry.second->ready; })) {
    return absl::UnavailableError("another snapshot is being made: ask again");
  }
  evict(shard, now, gone);
  if (snapshots_.size() >= options_.open_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this node has ", options_.open_max, " snapshots open, which is its limit: ask again later"));
  }
  auto snapshot = std::make_shared<Snapshot>(*options_.files);
  do snapshot->id = rng_.next();
  while (snapshot->id == 0 || snapshots_.contains(snapshot->id));
  snapshot->shard = shard;
  snapshot->path = absl::StrCat(options_.directory, "/", files::shard_name(shard), "-", snapshot->id);
  snapshot->made_ns = snapshot->used_ns = now;
  snapshots_[snapshot->id] = snapshot;
  made = true;
  return snapshot;
}

/// Takes the finished snapshots that `is_gone` out and adds them to `gone`.
template <typename Is>
void SnapshotSource::take_out(Is is_gone, Snapshots& gone) {
  std::erase_if(snapshots_, [&](const auto& entry) {
    const bool goes = entry.second->ready && is_gone(*entry.second);
    if (goes) gone.push_back(entry.second);
    return goes;
  });
}

/// Makes room for a new snapshot of `shard`: removes idle snapshots of that shard, and, if open_max is reached, the
/// snapshot that has been idle longest. A learner that still needs a removed snapshot begins anew.
void SnapshotSource::evict(ShardId shard, TimeNs now, Snapshots& gone) {
  const auto idle = [&](const Snapshot& snapshot) { return now - snapshot.used_ns >= options_.evict_idle_ns; };
  take_out([&](const Snapshot& snapshot) { return snapshot.shard == shard && idle(snapshot); }, gone);
  if (snapshots_.size() < options_.open_max) return;
  const auto oldest = std::ranges::min_element(snapshots_, {}, [](const auto& entry) { return entry.second->used_ns; });
  if (oldest == snapshots_.end() || !oldest->second->ready || !idle(*oldest->second)) return;
  gone.push_back(std::move(oldest->second));
  snapshots_.erase(oldest);
}

absl::Status SnapshotSource::fill(Snapshot& snapshot) {
  auto exported = make_(snapshot.shard, snapshot.path);
  if (!exported.ok()) return exported.status();
  snapshot.end = exported->end;
  snapshot.hold = std::move(exported->hold);
  for (std::string& name : exported->files) {
    const auto bytes = options_.files->size(absl::StrCat(snapshot.path, "/", name));
    if (!bytes.ok()) return bytes.status();
    snapshot.files.push_back({std::move(name), *bytes});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SnapshotSource::fetch(const FetchChunk& wanted, TimeNs now) {
  bool made = false;
  const auto found = find(wanted, now, made);
  if (!found.ok()) return found.status();
  Snapshot& snapshot = **found;
  if (made) {
    absl::Status filled = fill(snapshot);
    std::lock_guard lock(mutex_);
    snapshot.ready = filled.ok();
    if (options_.clock) snapshot.made_ns = snapshot.used_ns = options_.clock();
    if (!filled.ok()) {
      snapshots_.erase(snapshot.id);
      return filled;
    }
  }
  if (wanted.file >= snapshot.files.size() || wanted.offset > snapshot.files[wanted.file].bytes) {
    return absl::InvalidArgumentError("the snapshot has no such file, or the file no such place");
  }
  const File& file = snapshot.files[wanted.file];
  const uint64_t bytes = std::min<uint64_t>(wanted.bytes_max, file.bytes - wanted.offset);
  std::string data(bytes, '\0');
  const std::string path = absl::StrCat(snapshot.path, "/", file.name);
  if (absl::Status read = options_.files->read(path, wanted.offset, data); !read.ok()) return read;
  std::array<std::byte, kChunkHeadBytesMax> buffer;
  const auto head = encode_chunk_head({.snapshot = snapshot.id,
                                       .end = snapshot.end,
                                       .files = static_cast<uint32_t>(snapshot.files.size()),
                                       .file_bytes = file.bytes,
                                       .offset = wanted.offset,
                                       .crc32c = crc32c(as_byte_span(data)),
                                       .name = file.name,
                                       .data = as_byte_span(data)},
                                      buffer);
  if (!head.ok()) return head.status();
  data.insert(0, as_string_view(*head));
  return data;
}

void SnapshotSource::sweep(TimeNs now) {
  Snapshots gone;  // removed from disk without the lock
  std::lock_guard lock(mutex_);
  take_out([&](const Snapshot& snapshot) { return now - snapshot.used_ns > options_.idle_max_ns; }, gone);
}

std::string SnapshotSource::slow_exports(TimeNs now) const {
  std::string all;
  std::lock_guard lock(mutex_);
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot->ready || now - snapshot->made_ns < options_.slow_ns) continue;
    absl::StrAppend(&all, all.empty() ? "" : "; ", "shard ", files::shard_name(snapshot->shard),
                    " is to be copied to another node, and its files are not there after ",
                    (now - snapshot->made_ns) / kSecond,
                    " s: the disk is slow or hangs. If it does not, start the node again");
  }
  return all;
}

size_t SnapshotSource::open_count() const {
  std::lock_guard lock(mutex_);
  return snapshots_.size();
}

// --- SnapshotService

/// One request, passed from the worker to a reader. After a successful submit it owns itself.
struct SnapshotService::Job final : ReadJob {
  Job(SnapshotSource& source, const FetchChunk& wanted, TimeNs now, rpc::ReplyToken reply)
      : source(source), wanted(wanted), now(now), reply(std::move(reply)) {}

  void run() override {
    const std::unique_ptr<Job> self(this);
    source.sweep(now);
    auto chunk = source.fetch(wanted, now);
    if (!chunk.ok()) return reply.fail(chunk.status());
    rpc::MessagePtr message = rpc::MessagePtr::make();
    rpc::SharedBody* body = rpc::SharedBody::make(*std::move(chunk));
    static_cast<void>(body->attach(*message));  // a message has room for its first body
    body->release();
    reply.reply(std::move(message));
  }

  SnapshotSource& source;
  const FetchChunk wanted;
  const TimeNs now;
  rpc::ReplyToken reply;
};

SnapshotService::SnapshotService(rpc::Endpoint& endpoint, PeerLinks& links, ReaderPool& readers, SnapshotSource& source,
                                 AllowFn allow)
    : endpoint_(endpoint), links_(links), readers_(readers), source_(source), allow_(std::move(allow)) {
  endpoint_.serve(static_cast<rpc::MethodId>(Method::kFetchChunk),
                  [this](rpc::IncomingCall&& call) { on_request(std::move(call)); }, {.may_have_reserved = true});
}

void SnapshotService::on_request(rpc::IncomingCall&& call) {
  if (stopped_) return call.reply.fail(absl::UnavailableError("the node is shutting down"));
  const auto from = links_.identify(call.session);
  if (!from.ok()) return call.reply.fail(from.status());
  const auto wanted = decode_fetch_chunk(call.request.bytes());
  if (!wanted.ok()) return call.reply.fail(wanted.status());
  const absl::Status allowed = allow_({wanted->table, wanted->shard}, *from);
  if (!allowed.ok()) return call.reply.fail(allowed);
  auto job = std::make_unique<Job>(source_, *wanted, endpoint_.now_ns(), std::move(call.reply));
  const absl::Status submitted = readers_.submit(*job);
  if (!submitted.ok()) return job->reply.fail(submitted);
  static_cast<void>(job.release());  // run() deletes it
}

}  // namespace skua::kv
