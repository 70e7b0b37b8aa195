#include "control/store/embedded_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/control/temp_dir.h"

namespace skua::control {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

TEST(OpenEmbeddedStore, CreatesMissingDirectories) {
  TempDir dir;
  EXPECT_TRUE(open_embedded_store({.directory = dir.path() + "/a/b"}).ok());
}

TEST(OpenEmbeddedStore, ReopeningFindsDataAndHistory) {
  TempDir dir;
  {
    const auto store = open_embedded_store({.directory = dir.path()});
    ASSERT_TRUE((*store)->transact({{}, {Operation::put("a", "1")}, {}}).ok());
    ASSERT_TRUE((*store)->transact({{}, {Operation::put("a", "2")}, {}}).ok());
  }
  const auto store = open_embedded_store({.directory = dir.path()});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->get("a")->kv, (KeyValue{"a", "2", 1, 2}));
  EXPECT_EQ((*(*store)->watch("", 1))->next(kSecond)->events.size(), 2u);
}

TEST(OpenEmbeddedStore, SecondOpenIsRefused) {
  TempDir dir;
  const auto first = open_embedded_store({.directory = dir.path()});
  ASSERT_TRUE(first.ok());
  const auto second = open_embedded_store({.directory = dir.path()});
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition) << second.status();
  EXPECT_THAT(text(second.status()), HasSubstr(dir.path()));
}

TEST(OpenEmbeddedStore, UnusableDirectoryIsRefused) {
  TempDir dir;
  std::ofstream(dir.path() + "/file") << "x";
  const auto store = open_embedded_store({.directory = dir.path() + "/file/below"});
  EXPECT_EQ(store.status().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(text(store.status()), HasSubstr("Choose a directory"));
}

TEST(OpenEmbeddedStore, DamagedDatabaseIsDataLoss) {
  TempDir dir;
  {
    const auto store = open_embedded_store({.directory = dir.path()});
    ASSERT_TRUE(store.ok());
  }
  std::ofstream(dir.path() + "/CURRENT") << "garbage";
  const auto store = open_embedded_store({.directory = dir.path()});
  EXPECT_EQ(store.status().code(), StatusCode::kDataLoss) << store.status();
  EXPECT_THAT(text(store.status()), HasSubstr("backup"));
}

TEST(EmbeddedStore, ForgetsOldHistoryByItself) {
  TempDir dir;
  const auto store = open_embedded_store({.directory = dir.path(), .history_revisions = 10});
  for (int i = 0; i < 25; ++i) {
    ASSERT_TRUE((*store)->transact({{}, {Operation::put("a", "")}, {}}).ok());
  }
  EXPECT_EQ((*store)->watch("", 5).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE((*store)->watch("", 15).ok());
}

}  // namespace
}  // namespace skua::control
