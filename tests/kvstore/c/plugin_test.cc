#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kvstore/c/transport_plugin.h"

namespace skua::c {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What load_plugin() says of the folder's plug-in for DPDK.
std::string refusal(const std::string& folder) {
  const absl::Status status = load_plugin("dpdk", folder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith("the transport dpdk cannot be used: "),
                    EndsWith("; install the package libskua-dpdk1 of the version of libskua1")));
  return std::string(status.message());
}

class FolderWithFile : public ::testing::Test {
 protected:
  FolderWithFile() : folder_(::testing::TempDir() + "skua-plugins-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~FolderWithFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return folder_ + "/libskua-transport-dpdk.so.1"; }
  void write(std::string_view bytes) { std::ofstream(path()) << bytes; }

  const std::string folder_;
};

TEST(LoadPlugin, NamesTheFileThatIsAbsent) {
  EXPECT_THAT(refusal("/nosuch"), HasSubstr("there is no /nosuch/libskua-transport-dpdk.so.1"));
}

TEST(LoadPlugin, RefusesAnObjectWithoutTheEntryPoint) {
  EXPECT_THAT(
      refusal(SKUA_TEST_PLUGINS "/no_entry"),
      HasSubstr("libskua-transport-dpdk.so.1 is no transport of Skua: it has no function skua_transport_plugin"));
}

TEST(LoadPlugin, NamesBothBuildsThatDiffer) {
  EXPECT_THAT(refusal(SKUA_TEST_PLUGINS "/other_build"),
              HasSubstr(absl::StrCat("is of build 0.0.9+000000000000, and the library is of build ",
                                     std::string(plugin_build()))));
}

TEST_F(FolderWithFile, RefusesWhatIsNoSharedObject) {
  for (const std::string_view bytes : {std::string_view(), std::string_view("text"),
                                       std::string_view("\x7f"
                                                        "ELF")}) {
    write(bytes);
    EXPECT_THAT(refusal(folder_), AllOf(HasSubstr("it cannot be loaded: "), HasSubstr(path())));
  }
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(refusal(folder_), HasSubstr(path()));
}

TEST(PluginFolder, IsBesideTheProgramUnlessTheEnvironmentNamesOne) {
  // NOLINTBEGIN(concurrency-mt-unsafe): the test has one thread
  unsetenv("SKUA_PLUGIN_DIR");
  EXPECT_EQ(plugin_folder(), (std::filesystem::canonical("/proc/self/exe").parent_path() / "skua").string());
  setenv("SKUA_PLUGIN_DIR", "/elsewhere", 1);
  EXPECT_EQ(plugin_folder(), "/elsewhere");
  setenv("SKUA_PLUGIN_DIR", "", 1);
  EXPECT_THAT(plugin_folder(), EndsWith("/skua"));
  unsetenv("SKUA_PLUGIN_DIR");
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace skua::c
