// A file of lines for people to read, whose size is limited:
//
//    PATH         the file that is written to
//    PATH.old     the file before, which had reached the limit
//
// A line that cannot be written (a full disk) is lost. The next line that can be written says how many were lost.
#ifndef SKUA_RPC_BASE_LINE_FILE_H_
#define SKUA_RPC_BASE_LINE_FILE_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "rpc/base/owned_fd.h"

namespace skua {

/// Thread: any.
class LineFile {
 public:
  /// Does not touch the file. The first line creates it, or is appended. Its directory may be created until then.
  LineFile(std::string path, uint64_t bytes_max);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// `line` has no line end. Waits for the disk, as write(2) does.
  void write(std::string_view line);

 private:
  bool open();
  bool append(std::string_view bytes);

  const std::string path_;
  const uint64_t bytes_max_;
  std::mutex mutex_;
  OwnedFd fd_;
  uint64_t bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_LINE_FILE_H_
