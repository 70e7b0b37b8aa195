// Where `skuactl export` writes its lines: a file that only ever has whole lines, or standard output.
#ifndef SKUA_KVSTORE_CTL_LINE_FILE_H_
#define SKUA_KVSTORE_CTL_LINE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "app/signals.h"

namespace skua::kv::ctl {

/// Thread: one.
class LineFile {
 public:
  /// `-`: standard output. A pipe is waited for until `stop` says that it is enough; `stop` outlives this.
  LineFile(std::string path, app::StopSignal& stop) : path_(std::move(path)), stop_(stop) {}
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Makes the file, or empties it; `appends`: goes on behind what it has. If it is a pipe with a name, waits until
  /// somebody reads it. FAILED_PRECONDITION: what it has does not end with a whole line. CANCELLED: stopped. Other
  /// errors: the path and errno's words.
  [[nodiscard]] absl::Status open(bool appends);
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  /// `lines` are whole lines with their line breaks. If a file does not take all of them, it has none of them;
  /// has_remains() otherwise. CANCELLED: stopped while a pipe was full.
  [[nodiscard]] absl::Status write(std::string_view lines);
  /// A file is on the disk, with its name, and closed.
  [[nodiscard]] absl::Status finish();

  /// A write failed because nobody reads standard output any longer.
  [[nodiscard]] bool has_lost_reader() const { return lost_reader_; }
  /// A write failed, and a part of its lines is left: in a pipe, for example.
  [[nodiscard]] bool has_remains() const { return has_remains_; }
  /// finish() failed: any of the lines may be lost.
  [[nodiscard]] bool is_uncertain() const { return is_uncertain_; }
  [[nodiscard]] bool is_standard_output() const { return path_ == "-"; }

 private:
  [[nodiscard]] absl::Status error_of(int error);
  [[nodiscard]] absl::Status check_end() const;
  absl::Status open_standard_output();
  absl::Status open_path(bool appends);
  /// Returns when what is no regular file takes kPieceBytes without waiting, or fails.
  absl::Status await_room();
  /// What a write that failed means for what was written; returns `failed`.
  absl::Status give_up(absl::Status failed, bool is_partial);
  /// Takes away what a write that failed left. False: it is still there.
  bool cut();

  const std::string path_;
  app::StopSignal& stop_;
  int fd_ = -1;
  bool is_regular_ = false;  // a file that can be cut; if it has a path, and synced
  int64_t bytes_ = 0;        // of whole lines in a regular file
  bool lost_reader_ = false;
  bool has_remains_ = false;
  bool is_uncertain_ = false;
};

}  // namespace skua::kv::ctl

#endif  // SKUA_KVSTORE_CTL_LINE_FILE_H_
