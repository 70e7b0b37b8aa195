// AuditFiles: the files of one chain of an audit log (audit_chain.h). What it does waits for the disk.
//
//     PATH            the file that is written to
//     PATH.1          the one before, which had reached the limit of its size; PATH.2 is older, and so on
//
// The chain goes on from file to file, and over restarts. What a crash left behind:
//
//     the last line is not complete        it is cut off, and an event "torn" says how many bytes it had
//     the last line is damaged             the file is put aside as PATH.1, and a new chain begins with an event that
//                                          says why
//     PATH is not there, PATH.1 is         the process ended between two steps of a rotation: the chain goes on
//
// A line that cannot be written (a full disk) is lost. An event "lost" says how many were, before the next line that
// can be written; trouble() says it as long as it lasts.
#ifndef SKUA_CONTROL_SECURITY_AUDIT_FILES_H_
#define SKUA_CONTROL_SECURITY_AUDIT_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "control/security/audit_chain.h"

namespace skua::control {

struct AuditFilesOptions {
  std::string path;
  /// Which chain of a log: stands in each file's first line. Empty: the only one, or the first.
  std::string chain{};
  /// A file that has this much is followed by another one.
  uint64_t file_bytes_max = 8 << 20;
  /// All files; the oldest goes.
  int files_max = 8;
  std::function<WallMillis()> now{};
  /// Brings the data of a file to the disk, as ::fdatasync().
  std::function<int(int fd)> sync{};
};

/// Thread: one at a time.
class AuditFiles {
 public:
  /// Creates the file with mode 0600, or goes on with what is there. Locks it. FAILED_PRECONDITION: another process has
  /// it, or it is no file. Other errors name the path and the system's reason.
  static absl::StatusOr<std::unique_ptr<AuditFiles>> open(AuditFilesOptions options);

  ~AuditFiles();
  AuditFiles(const AuditFiles&) = delete;
  AuditFiles& operator=(const AuditFiles&) = delete;

  /// Afterwards the system has the line, or it is lost.
  void write(const AuditEntry& entry);
  /// So many lines were lost before they came here. `why` is for people.
  void lose(uint64_t lines, const std::string& why);
  /// Writes a line about those that were lost, if there are any.
  void tell_lost();
  /// Afterwards the lines are on the disk, unless there is trouble.
  void sync();

  /// Why lines are lost, or not on the disk, for people; empty: they are as they should be.
  [[nodiscard]] std::string trouble() const;
  /// Of the last line that was written.
  [[nodiscard]] const AuditHead& head() const { return head_; }
  [[nodiscard]] const std::string& path() const { return options_.path; }

 private:
  class File;

  explicit AuditFiles(AuditFilesOptions options);

  [[nodiscard]] std::string old_path(int n) const;
  [[nodiscard]] AuditEntry begin() const;
  absl::Status open_file();
  absl::Status recover();
  absl::Status rotate();
  absl::Status make_room();
  absl::Status append(std::string_view bytes);
  absl::Status write_line(const AuditEntry& entry);

  const AuditFilesOptions options_;
  std::unique_ptr<File> file_;
  uint64_t bytes_ = 0;
  /// The file has more than bytes_: a part of a line.
  bool torn_ = false;
  AuditHead head_;
  uint64_t lost_ = 0;
  std::string write_trouble_;
  std::string sync_trouble_;
};

}  // namespace skua::control

#endif  // SKUA_CONTROL_SECURITY_AUDIT_FILES_H_
