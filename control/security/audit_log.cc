#include "control/security/audit_log.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace skua::control {
namespace {

constexpr std::array kChains = {AuditChain::kChanges, AuditChain::kOthers};
/// A disk that takes a line for so long is worth a word.
constexpr WallMillis kSlowMillis = 5'000;
/// Of a line, beside its texts.
constexpr size_t kLineBytes = 256;

constexpr size_t index_of(AuditChain chain) {
  return static_cast<size_t>(chain);
}

WallMillis system_millis() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

AuditLogOptions with_defaults(AuditLogOptions options) {
  if (!options.now) options.now = system_millis;
  if (!options.sync) options.sync = ::fdatasync;
  return options;
}

size_t bytes_of(const AuditFields& fields) {
  size_t bytes = 0;
  for (const auto& [name, value] : fields) {
    const auto* text = std::get_if<std::string>(&value);
    bytes += sizeof(AuditFields::value_type) + name.size() + (text == nullptr ? 0 : text->size());
  }
  return bytes;
}

/// Longer ones are cut in the line anyway, and would be a queue's memory.
void cut_texts(AuditFields& fields) {
  for (auto& [name, value] : fields) {
    auto* text = std::get_if<std::string>(&value);
    // One byte more, so that it shows that the text was cut.
    if (text != nullptr && text->size() > kAuditTextMax + 1) *text = text->substr(0, kAuditTextMax + 1);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::open(AuditLogOptions options) {
  options = with_defaults(std::move(options));
  Files files;
  for (const AuditChain chain : kChains) {
    const bool is_first = chain == AuditChain::kChanges;
    auto opened = AuditFiles::open({.path = is_first ? options.path : options.path + ".refused",
                                    .chain = is_first ? "" : kAuditRefusals,
                                    .file_bytes_max = options.file_bytes_max,
                                    .files_max = options.files_max,
                                    .now = options.now,
                                    .sync = options.sync});
    if (!opened.ok()) return opened.status();
    files[index_of(chain)] = *std::move(opened);
  }
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(options), std::move(files)));
}

AuditLog::AuditLog(AuditLogOptions options, Files files) : options_(std::move(options)), files_(std::move(files)) {
  seen_[index_of(AuditChain::kChanges)].queued_max_bytes = options_.changes_queued_max_bytes;
  seen_[index_of(AuditChain::kOthers)].queued_max_bytes = options_.others_queued_max_bytes;
  show({});
  writer_ = std::thread([this] { run(); });
}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  writer_.join();
}

void AuditLog::write_change(AuditEntry entry, WrittenFn written) {
  Queued line{.chain = AuditChain::kChanges, .entry = std::move(entry), .written = std::move(written)};
  if (!enqueue(line) && line.written) line.written();
}

void AuditLog::write_other(AuditEntry entry) {
  Queued line{.chain = AuditChain::kOthers, .entry = std::move(entry), .written = {}};
  static_cast<void>(enqueue(line));  // one that is lost is counted
}

/// False: there is no room, and the line is lost. Else it was moved away.
bool AuditLog::enqueue(Queued& line) {
  cut_texts(line.entry.fields);
  cut_texts(line.entry.arguments);
  line.bytes = kLineBytes + bytes_of(line.entry.fields) + bytes_of(line.entry.arguments);
  {
    const std::lock_guard lock(mutex_);
    Seen& seen = seen_[index_of(line.chain)];
    if (seen.queued_bytes + line.bytes > seen.queued_max_bytes) {
      ++seen.dropped;
      return false;
    }
    seen.queued_bytes += line.bytes;
    queue_.push_back(std::move(line));
    ++queued_count_;
  }
  work_.notify_one();
  return true;
}

void AuditLog::flush() const {
  std::unique_lock lock(mutex_);
  const uint64_t count = queued_count_;
  progress_.wait(lock, [&] { return written_count_ >= count; });
}

std::string AuditLog::trouble() const {
  const WallMillis now = options_.now();
  const std::lock_guard lock(mutex_);
  for (const Seen& seen : seen_) {
    if (!seen.trouble.empty()) return seen.trouble;
  }
  const WallMillis waited = is_writing_ ? now - writing_since_ : 0;
  const uint64_t dropped = seen_[0].dropped + seen_[1].dropped;
  if (waited < kSlowMillis && dropped == 0) return "";
  std::string text = absl::StrCat("the disk of the audit log ", options_.path, " is too slow");
  if (waited >= kSlowMillis) absl::StrAppend(&text, ", or hangs: it has not taken a line for ", waited / 1'000, " s");
  if (dropped > 0) absl::StrAppend(&text, "; ", dropped, dropped == 1 ? " line is lost" : " lines are lost");
  return text;
}

AuditHead AuditLog::head(AuditChain chain) const {
  const std::lock_guard lock(mutex_);
  return seen_[index_of(chain)].head;
}

const std::string& AuditLog::path(AuditChain chain) const {
  return files_[index_of(chain)]->path();
}

// --- The writer

void AuditLog::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) break;
    std::vector<Queued> lines = std::exchange(queue_, {});
    std::array<uint64_t, 2> dropped{};
    for (const AuditChain chain : kChains) dropped[index_of(chain)] = std::exchange(seen_[index_of(chain)].dropped, 0);
    is_writing_ = true;
    writing_since_ = options_.now();
    lock.unlock();
    write(lines, dropped);
    show(lines);
    for (Queued& line : lines) {
      if (line.written) line.written();
    }
    lock.lock();
    written_count_ += lines.size();
    progress_.notify_all();
  }
  lock.unlock();
  for (const auto& files : files_) {
    files->tell_lost();
    files->sync();
  }
}

/// Those that were dropped came after these lines, or between them: the next line of their chain tells of them.
void AuditLog::write(std::vector<Queued>& lines, const std::array<uint64_t, 2>& dropped) {
  for (const auto& files : files_) files->tell_lost();
  bool has_changes = false;
  for (const Queued& line : lines) {
    files_[index_of(line.chain)]->write(line.entry);
    has_changes = has_changes || line.chain == AuditChain::kChanges;
  }
  for (const AuditChain chain : kChains) {
    AuditFiles& files = *files_[index_of(chain)];
    const uint64_t count = dropped[index_of(chain)];
    if (count > 0) files.lose(count, absl::StrCat("the disk of the audit log ", files.path(), " is too slow"));
  }
  if (has_changes) files_[index_of(AuditChain::kChanges)]->sync();
}

void AuditLog::show(const std::vector<Queued>& lines) {
  const std::lock_guard lock(mutex_);
  for (const Queued& line : lines) seen_[index_of(line.chain)].queued_bytes -= line.bytes;
  for (const AuditChain chain : kChains) {
    seen_[index_of(chain)].head = files_[index_of(chain)]->head();
    seen_[index_of(chain)].trouble = files_[index_of(chain)]->trouble();
  }
  is_writing_ = false;
}

}  // namespace skua::control
