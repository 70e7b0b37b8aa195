// A directory that lives as long as a test.
#ifndef SKUA_TESTS_CONTROL_TEMP_DIR_H_
#define SKUA_TESTS_CONTROL_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "rpc/base/check.h"

namespace skua::control {

class TempDir {
 public:
  explicit TempDir(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = parent / "skua-control-test-XXXXXX";
    SKUA_CHECK(mkdtemp(pattern.data()) != nullptr, "cannot create a temporary directory");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace skua::control

#endif  // SKUA_TESTS_CONTROL_TEMP_DIR_H_
