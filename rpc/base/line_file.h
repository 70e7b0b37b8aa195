// Lines for people, in a file that does not grow beyond a bound and never stands in anybody's way:
//
//    PATH         what is written to
//    PATH.old     what was, when it had reached the bound
//
// A line that cannot be written (a full disk) is lost; the next one that can says how many were.
#ifndef SKUA_RPC_BASE_LINE_FILE_H_
#define SKUA_RPC_BASE_LINE_FILE_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace skua {

/// Thread: any.
class LineFile {
 public:
  /// Touches nothing: the first line makes the file, or goes behind what is in it. Its directory may come until then.
  LineFile(std::string path, uint64_t bytes_max);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// `line` without its end. Waits for the disk, as write(2) does.
  void write(std::string_view line);

 private:
  bool open();
  bool append(std::string_view bytes);

  const std::string path_;
  const uint64_t bytes_max_;
  std::mutex mutex_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace skua

#endif  // SKUA_RPC_BASE_LINE_FILE_H_
