// AuditLog: who changed the cluster, and who was refused. Two chains of lines, each in files of its own
// (audit_files.h), so that no flood of refusals pushes the line of a change out of the files:
//
//     PATH            changes, and the starts and ends of the process. On the disk before they are told of
//     PATH.refused    refusals, and whatever else changed nothing. Soon
//
// A thread of the log's own writes them, in the order in which they came, so that nobody but those who wait for a line
// has to wait for the disk:
//
//     any thread                        writer
//     write_change(entry, written) -->  [queue]  append all that is there, one sync  --> written()
//     write_other(entry) ------------>
//
// Each chain has its part of the queue. A line for which there is no room is lost, as one that cannot be written is: an
// event "lost" counts them, trouble() says so, and the caller does not wait. trouble() also says that the disk has not
// taken a line for long.
#ifndef SKUA_CONTROL_SECURITY_AUDIT_LOG_H_
#define SKUA_CONTROL_SECURITY_AUDIT_LOG_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "control/security/audit_chain.h"
#include "control/security/audit_files.h"

namespace skua::control {

struct AuditLogOptions {
  std::string path;
  /// Of each chain: AuditFilesOptions.
  uint64_t file_bytes_max = 8 << 20;
  int files_max = 8;
  /// What may wait for the writer.
  size_t changes_queued_max_bytes = 1 << 20;
  size_t others_queued_max_bytes = 256 << 10;
  /// The wall clock; empty: the system's.
  std::function<WallMillis()> now{};
  /// Brings the data of a file to the disk; empty: ::fdatasync().
  std::function<int(int fd)> sync{};
};

enum class AuditChain : uint8_t { kChanges, kOthers };

/// Thread: any.
class AuditLog {
 public:
  using WrittenFn = absl::AnyInvocable<void()>;

  /// Creates the files, or goes on with what is there. Errors of AuditFiles::open().
  static absl::StatusOr<std::unique_ptr<AuditLog>> open(AuditLogOptions options);

  /// Writes what is queued.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// `written`, which may be empty, runs once: when the line is on the disk, or is lost. It runs on the writer's
  /// thread, or on the caller's if there is no room for the line, and must neither wait nor destroy the log.
  void write_change(AuditEntry entry, WrittenFn written = {});
  void write_other(AuditEntry entry);

  /// Waits until the lines before are in the files, and those of changes on the disk.
  void flush() const;

  /// Why lines are lost, late or not on the disk, for people; empty: they are as they should be.
  [[nodiscard]] std::string trouble() const;
  /// Of the last line that was written.
  [[nodiscard]] AuditHead head(AuditChain chain = AuditChain::kChanges) const;
  [[nodiscard]] const std::string& path(AuditChain chain = AuditChain::kChanges) const;

 private:
  struct Queued {
    AuditChain chain = AuditChain::kChanges;
    AuditEntry entry;
    WrittenFn written;
    size_t bytes = 0;
  };
  /// What others may see of a chain while the writer is at work.
  struct Seen {
    size_t queued_max_bytes = 0;
    size_t queued_bytes = 0;
    uint64_t dropped = 0;  // for want of room, not yet told to the files
    AuditHead head;
    std::string trouble;
  };
  using Files = std::array<std::unique_ptr<AuditFiles>, 2>;  // by AuditChain

  AuditLog(AuditLogOptions options, Files files);

  [[nodiscard]] bool enqueue(Queued& line);
  void run();
  void write(std::vector<Queued>& lines, const std::array<uint64_t, 2>& dropped);
  void show(const std::vector<Queued>& lines);

  const AuditLogOptions options_;
  const Files files_;  // the writer's, but for their paths
  mutable std::mutex mutex_;
  std::condition_variable work_;
  mutable std::condition_variable progress_;
  // Protected by mutex_.
  std::vector<Queued> queue_;
  std::array<Seen, 2> seen_;
  uint64_t queued_count_ = 0;
  uint64_t written_count_ = 0;
  bool is_writing_ = false;
  WallMillis writing_since_ = 0;
  bool stopping_ = false;
  std::thread writer_;  // the last member
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_AUDIT_LOG_H_
