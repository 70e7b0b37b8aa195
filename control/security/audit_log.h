// AuditLog: the files that an audit log's lines go to.
//
//     PATH            the file that is written to
//     PATH.1          the one before, which had reached the limit of its size; PATH.2 is older, and so on
//
// The chain of audit_chain.h goes on from file to file, and over restarts. What a crash left behind:
//
//     the last line is not complete        it is cut off, and an event "torn" says how many bytes it had
//     the last line is damaged             the file is put aside as PATH.1, and a new chain begins with an event that says why
//     PATH is not there, PATH.1 is         the process ended between two steps of a rotation: the chain goes on
//
// A line that cannot be written (a full disk) is lost. An event "lost" says how many were, before the next line that can
// be written; trouble() says it as long as it lasts.
#ifndef SKUA_CONTROL_SECURITY_AUDIT_LOG_H_
#define SKUA_CONTROL_SECURITY_AUDIT_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/audit_chain.h"

namespace skua::control {

struct AuditLogOptions {
  std::string path;
  /// A file that has this much is followed by another one.
  uint64_t file_bytes_max = 8 << 20;
  /// All files; the oldest goes.
  int files_max = 8;
  /// The wall clock; empty: the system's.
  std::function<WallMillis()> now{};
};

/// Thread: any.
class AuditLog {
 public:
  enum class Sync : uint8_t {
    kNo,  ///< the system has the line; a later synced line takes it along to the disk
    kYes  ///< the line is on the disk when write() returns, unless there is trouble()
  };

  /// Creates the file with mode 0600, or goes on with what is there. Locks it. FAILED_PRECONDITION: another process has
  /// it, or it is no file. Other errors name the path and the system's reason.
  static absl::StatusOr<std::unique_ptr<AuditLog>> open(AuditLogOptions options);

  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Waits for the disk only if the line is to be synced.
  void write(const AuditEntry& entry, Sync sync);

  /// Why lines are lost, for people; empty: none are.
  [[nodiscard]] std::string trouble() const;
  /// Of the last line that was written.
  [[nodiscard]] AuditHead head() const;
  [[nodiscard]] const std::string& path() const { return options_.path; }

 private:
  class File;

  explicit AuditLog(AuditLogOptions options);

  [[nodiscard]] std::string old_path(int n) const;
  absl::Status open_file();
  absl::Status recover();
  absl::Status rotate();
  absl::Status make_room();
  absl::Status append(std::string_view bytes);
  absl::Status write_locked(const AuditEntry& entry);
  [[nodiscard]] WallMillis now() const;

  const AuditLogOptions options_;
  mutable std::mutex mutex_;
  // Protected by mutex_. The file is shared with those who sync it without the mutex.
  std::shared_ptr<File> file_;
  uint64_t bytes_ = 0;
  /// The file has more than bytes_: a part of a line.
  bool torn_ = false;
  AuditHead head_;
  uint64_t lost_ = 0;
  std::string trouble_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_AUDIT_LOG_H_
