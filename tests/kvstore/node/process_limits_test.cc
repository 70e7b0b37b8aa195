#include "kvstore/node/process_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "kvstore/node/size_text.h"

namespace skua::kv {
namespace {

using ::testing::HasSubstr;

/// The soft limit of files' sizes, until the end of the scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &now), 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(ProcessLimits, FilesThatMayNotBeLargeAreRefused) {
  {
    const FileSizeLimit small(100 << 20);
    EXPECT_THAT(check_file_size_limit().ToString(), HasSubstr("files may have 100 MiB"));
  }
  const FileSizeLimit tiny(500 << 10);
  EXPECT_THAT(check_file_size_limit().ToString(), HasSubstr("files may have 500 KiB"));
}

TEST(ProcessLimits, SizesAreRoundedDown) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1024), "1 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1023 KiB");
  EXPECT_EQ(size_text(uint64_t{9} << 30), "9216 MiB");
  EXPECT_EQ(size_text(uint64_t{10} << 30), "10 GiB");
  EXPECT_EQ(size_text(UINT64_MAX), "16777215 TiB");
}

}  // namespace
}  // namespace skua::kv
